"""/v1/test-callback: one request to a callback's address, now; nothing of it is stored."""

from __future__ import annotations

from flask import Response, g
from flask_openapi3.models.tag import Tag

from app.api.answers import answer
from app.api.blueprint import bp, error_answers
from app.api.reading import reads
from app.api.schemas_trial import TrialAnswer, TrialFields
from app.callback_url import CallbackUrlRefused, parse
from app.current import punctual, settings
from app.errors import invalid
from app.trials import make_trial, shown

TAG = Tag(name="Test callback", description="One request, now.")


@bp.post("/test-callback", tags=[TAG], responses={"200": TrialAnswer, **error_answers(413, 415)})
@reads
def test_callback(body: TrialFields) -> Response:
    """Test a callback

    Sends one signed request as a job's first attempt would, and answers with what it came to, whether it succeeded or not. It
    is not tried again, and nothing is stored.
    """
    try:
        # Not looked up here: the call looks the name up itself, and says what it found.
        target = parse(body.callback_url, settings().allowed_callback_cidrs)
    except CallbackUrlRefused as refused:
        raise invalid("callback_url", str(refused)) from None
    return answer(shown(make_trial(punctual().engine, settings(), g.client_id, body.request(target))))
