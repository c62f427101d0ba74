"""What `flask up` makes on its first start and keeps: the schema, the session secret, a first user, a first API key."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, replace
from itertools import count

from flask_migrate import upgrade
from sqlalchemy import Engine

from app import create_app
from app.api_keys import create_api_key, look_up
from app.child import StartFailed
from app.config import Settings
from app.data_folder import DataFolder
from app.extensions import db
from app.passwords import generate_password
from app.users import create_user, find_user_by_name

CREDENTIALS = "credentials.json"
SECRET_KEY = "secret_key"
CLIENT_NAME = "demo"
USER_NAME = "admin"


@dataclass(frozen=True)
class Credentials:
    """The content of credentials.json."""

    url: str
    api_key: str
    username: str
    password: str
    database_url: str
    redis_url: str


def secret_key(folder: DataFolder) -> str:
    """Made once and kept, so that sessions outlive a restart."""
    kept = folder.read_private(SECRET_KEY)
    if kept and kept.strip():
        return kept.strip()
    made = secrets.token_urlsafe(48)
    folder.write_private(SECRET_KEY, f"{made}\n")
    return made


def prepare_database(settings: Settings, url: str, folder: DataFolder) -> Credentials:
    """Migrates, and sees to it that the first user and key in credentials.json are there. Raises StartFailed.

    1. The file is written with a user's name and password. 2. The user is made. 3. A key is made. 4. The file is written
    with the key. A crash after 1 or 2: the next start makes what is missing. After 3: it makes another key.
    """
    app = create_app(settings)
    with app.app_context():
        try:
            upgrade()
            return _ensure(db.engine, settings, url, folder)
        finally:
            db.engine.dispose()


def _ensure(engine: Engine, settings: Settings, url: str, folder: DataFolder) -> Credentials:
    database_url, redis_url = settings.require_stores()
    # As every program takes it; SQLAlchemy's form with the driver's name is for SQLAlchemy alone.
    database_url = database_url.replace("postgresql+psycopg://", "postgresql://", 1)
    kept = _read(folder) or Credentials(url, "", _free_name(engine), generate_password(), database_url, redis_url)
    wanted = replace(kept, url=url, database_url=database_url, redis_url=redis_url)
    _write(folder, wanted)
    if find_user_by_name(engine, wanted.username) is None:
        create_user(engine, wanted.username, "admin", wanted.password)
    if look_up(engine, wanted.api_key) is None:
        wanted = replace(wanted, api_key=create_api_key(engine, CLIENT_NAME, label="made by flask up").key)
        _write(folder, wanted)
    return wanted


def _free_name(engine: Engine) -> str:
    """`admin`, or the first of admin-2, admin-3, … when that user's password is known to somebody else."""
    names = (USER_NAME if number == 1 else f"{USER_NAME}-{number}" for number in count(1))
    return next(name for name in names if find_user_by_name(engine, name) is None)


def _read(folder: DataFolder) -> Credentials | None:
    text = folder.read_private(CREDENTIALS)
    if text is None:
        return None
    try:
        return Credentials(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise StartFailed(
            f"{folder.path / CREDENTIALS} cannot be understood ({error}): remove it, and a new user and key are made."
        ) from error


def _write(folder: DataFolder, credentials: Credentials) -> None:
    folder.write_private(CREDENTIALS, json.dumps(asdict(credentials), indent=2) + "\n")
