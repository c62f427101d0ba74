"""The running application's stores and settings, for whatever handles a request."""

from __future__ import annotations

from typing import cast

from flask import current_app

from app.config import Settings
from app.stores import Stores


def punctual() -> Stores:
    return cast(Stores, current_app.extensions["punctual"])


def settings() -> Settings:
    return cast(Settings, current_app.extensions["settings"])
