"""The local PostgreSQL and Redis behind `make up` and the tests, as one thing to start and stop."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from app.child import Child
from app.data_folder import DataFolder
from app.embedded_postgres import EmbeddedPostgres
from app.embedded_redis import EmbeddedRedis
from app.undertaker import Undertaker


class EmbeddedStores:
    """Both servers in one data folder, or the one of them that is wanted. A context manager: left, both are stopped.

    The undertaker that comes with them stops them when this process is killed.
    """

    def __init__(
        self, folder: DataFolder, *, postgres: bool = True, redis: bool = True, throwaway: bool = False
    ) -> None:
        self.folder = folder
        self.undertaker = Undertaker([folder.lock_fd])
        self.postgres: EmbeddedPostgres | None = None
        self.redis: EmbeddedRedis | None = None
        self._wanted = (postgres, redis)
        self._throwaway = throwaway

    @classmethod
    def in_folder(cls, path: Path, *, postgres: bool = True, redis: bool = True) -> EmbeddedStores:
        """Raises StartFailed when the folder cannot be used or is in use."""
        return cls(DataFolder(path), postgres=postgres, redis=redis)

    @classmethod
    def throwaway(cls) -> EmbeddedStores:
        """Servers for one test run: nothing is flushed to disk, and everything is deleted at the end, however it ends."""
        path = Path(tempfile.mkdtemp(prefix="punctual-test-"))
        # As root the server's own uid must pass; what lies inside is private.
        path.chmod(0o711)
        stores = cls(DataFolder(path), throwaway=True)
        stores.undertaker.remove_at_end(path)
        return stores

    @property
    def children(self) -> tuple[Child, ...]:
        return tuple(part.child for part in (self.redis, self.postgres) if part is not None)

    @property
    def database_url(self) -> str:
        assert self.postgres is not None, "PostgreSQL was not started"
        return self.postgres.url

    @property
    def redis_url(self) -> str:
        assert self.redis is not None, "Redis was not started"
        return self.redis.url

    def start(self) -> None:
        """Raises StartFailed; what was started until then is stopped by `stop`."""
        wants_postgres, wants_redis = self._wanted
        if wants_redis:
            self.redis = EmbeddedRedis(self.folder, self.undertaker)
        if wants_postgres:
            self.postgres = EmbeddedPostgres(self.folder, self.undertaker, throwaway=self._throwaway)
            self.postgres.start()
        if self.redis is not None:
            self.redis.start()

    def stop(self) -> None:
        """Redis first, PostgreSQL last; then the lock is given up. Calling it again does nothing."""
        for child in self.children:
            child.stop()
        for part in (self.redis, self.postgres):
            if part is not None and part.sockets.parent == Path("/tmp"):
                for left in part.sockets.iterdir():
                    left.unlink()
                part.sockets.rmdir()
        self.redis = self.postgres = None
        self.undertaker.close()
        self.folder.close()

    def keep_fresh(self) -> None:
        """Touches sockets in /tmp, so that a cleaner of temporary files takes none for forgotten."""
        for part in (self.redis, self.postgres):
            if part is not None and part.sockets.parent == Path("/tmp"):
                for kept in (part.sockets, *part.sockets.iterdir()):
                    os.utime(kept)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
