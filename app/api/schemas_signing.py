"""What a client's signing secret looks like in requests and answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field

from app.api.schemas import AnswerModel, InstantOut, RequestModel, whole
from app.clients import DEFAULT_GRACE_HOURS, MAX_GRACE_HOURS


class SecretRotation(RequestModel):
    """The whole body may be left out."""

    model_config = ConfigDict(openapi_extra={"required": False})  # type: ignore[typeddict-unknown-key]

    grace_hours: Annotated[
        int,
        Field(ge=0, le=MAX_GRACE_HOURS, description="For how long the secret before it signs as well."),
        BeforeValidator(whole),
    ] = DEFAULT_GRACE_HOURS


class NewSecret(AnswerModel):
    secret: str = Field(json_schema_extra={"example": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"})
    previous_expires_at: InstantOut | None = Field(description="Until when the one before it signs as well.")
