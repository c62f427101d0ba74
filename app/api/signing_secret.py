"""/v1/signing-secret: what a client's callbacks are signed with."""

from __future__ import annotations

from flask import Response, g
from flask_openapi3.models.tag import Tag

from app import audit, clients
from app.api.answers import answer
from app.api.blueprint import bp, error_answers
from app.api.reading import reads
from app.api.schemas_signing import NewSecret, SecretRotation
from app.auth import request_address
from app.current import punctual
from app.database import transaction
from app.instants import format_optional

TAG = Tag(name="Signing secret", description="What callbacks are signed with, by Standard Webhooks.")


@bp.post("/signing-secret/rotate", tags=[TAG], responses={"200": NewSecret, **error_answers(413, 415)})
@reads
def rotate_signing_secret(body: SecretRotation) -> Response:
    """Rotate the signing secret

    Answers with the new one, which is not shown again. For the grace time each callback carries two signatures, one by the
    new secret and one by the secret before it. The body may be left out.
    """
    with transaction(punctual().engine) as conn:
        clients.rotate_secret(conn, g.client_id, body.grace_hours)
        secret = clients.signing_secret(conn, g.client_id)
        key, client = str(g.api_key_prefix), str(g.client_id)
        detail = {"grace_hours": body.grace_hours}
        audit.record(
            conn, "api_key", key, g.client_id, "client.rotate_secret", "client", client, detail, request_address()
        )
    shown = {"secret": secret.current, "previous_expires_at": format_optional(secret.previous_expires_at)}
    return answer(shown, headers={"Cache-Control": "no-store"})
