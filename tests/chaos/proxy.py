"""A TCP proxy before a store's socket, that can drop, delay and half-close what passes: a network without iptables."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path


class Proxy:
    """`is_cut`: connections are dropped and refused. `delay_seconds`: each piece waits so long. Runs in a thread of its own."""

    def __init__(self, socket_path: Path) -> None:
        self._socket_path = socket_path
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.StreamWriter] = set()
        self._started = threading.Event()
        self.is_cut = False
        self.delay_seconds = 0.0
        self.port = 0
        threading.Thread(target=self._run, daemon=True).start()
        self._started.wait()

    def cut(self) -> None:
        self.is_cut = True
        self._loop.call_soon_threadsafe(self._drop)

    def mend(self) -> None:
        self.is_cut, self.delay_seconds = False, 0.0

    def half_close(self) -> None:
        """Ends the sending side of every connection, and leaves the other open."""
        self._loop.call_soon_threadsafe(self._half_close)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()

    def _drop(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    def _half_close(self) -> None:
        for writer in list(self._open):
            with contextlib.suppress(OSError, RuntimeError):
                writer.write_eof()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut:
            writer.transport.abort()
            return
        try:
            inner_reader, inner_writer = await asyncio.open_unix_connection(str(self._socket_path))
        except OSError:
            writer.transport.abort()
            return
        both = (writer, inner_writer)
        self._open.update(both)
        try:
            await asyncio.gather(self._pass(reader, inner_writer), self._pass(inner_reader, writer))
        finally:
            self._open.difference_update(both)
            for each in both:
                each.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            while piece := await reader.read(65536):
                if self.delay_seconds:
                    await asyncio.sleep(self.delay_seconds)
                writer.write(piece)
                await writer.drain()
            writer.write_eof()
