"""`python -m tests.chaos.receiver PORT FILE`: answers as its path says, and writes every request to a file, a JSON object a line."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
import time
from pathlib import Path
from typing import TextIO
from urllib.parse import parse_qs, urlsplit

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
REFUSED = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\n\r\nno.."
HANG_SECONDS = 3.0


class Receiver:
    def __init__(self, file: TextIO) -> None:
        self._file = file

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        await reader.readexactly(int(headers.get("content-length", 0)))
        at, target = time.time(), urlsplit(head[0].split(" ")[1])
        asked = {name: values[0] for name, values in parse_qs(target.query).items()}
        attempt = int(headers.get("x-job-attempt", 0))
        answer: bytes | None = OK
        if target.path == "/fail":
            answer = REFUSED
        elif attempt <= int(asked.get("fails", 0)):
            answer = await self._misbehave(target.path, writer)
        if "ms" in asked:
            await asyncio.sleep(int(asked["ms"]) / 1000)
        if answer is not None:
            writer.write(answer)
        # Written when the call is over: both ends tell how many were under way.
        line = {
            "at": at,
            "until": time.time(),
            "job": headers.get("x-job-id"),
            "attempt": attempt,
            "path": target.path,
            "queue": asked.get("queue"),
            "ok": answer is OK,
        }
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        if answer is not None:
            await writer.drain()
        return answer in (OK, REFUSED)

    async def _misbehave(self, path: str, writer: asyncio.StreamWriter) -> bytes | None:
        if path == "/flaky":
            return REFUSED
        if path == "/garbage":
            writer.write(b"\x00\xff garbage \r\n\r\n")
        elif path == "/hang":
            await asyncio.sleep(HANG_SECONDS)
        elif path == "/trickle":
            for byte in b"HTTP/1.1 200 OK\r\nX-Slow: yes":
                writer.write(bytes([byte]))
                await asyncio.sleep(0.1)
        elif path == "/reset":
            connection = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        return None


async def main(port: int, path: Path) -> None:
    with path.open("a", encoding="utf-8") as file:
        server = await asyncio.start_server(Receiver(file).serve, "127.0.0.1", port, backlog=1024)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))
