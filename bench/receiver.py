"""`python -m bench.receiver PORT [FILE]`: answers every request as cheaply as can be, and says how many came and when.

GET /stats: `{"count", "first", "last"}` since the last GET /reset, in seconds since 1970. A path's `ms=` delays its answer. With a FILE, the
X-Job-Id and the time of each request are written to it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TextIO

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BACKLOG = 4096


class Seen:
    """What came since the last reset."""

    def __init__(self, file: TextIO | None) -> None:
        self.file = file
        self.reset()

    def reset(self) -> None:
        self.count, self.first, self.last = 0, 0.0, 0.0

    def note(self, head: bytes) -> None:
        now = time.time()
        self.first, self.last = self.first or now, now
        self.count += 1
        if self.file is not None:
            _, _, rest = head.partition(b"x-job-id:")
            job_id = rest[:40].split(b"\r", 1)[0].decode().strip()
            self.file.write(f"{job_id} {now:.6f}\n")

    def told(self) -> bytes:
        if self.file is not None:
            self.file.flush()
        body = json.dumps({"count": self.count, "first": self.first, "last": self.last}).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


class Connection(asyncio.Protocol):
    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._left = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        data = self._left + data
        while True:
            head, found, rest = data.partition(b"\r\n\r\n")
            if not found:
                break
            head = head.lower()
            length = _length(head)
            if len(rest) < length:
                break
            data = rest[length:]
            self._answer(head)
        self._left = data

    def _answer(self, head: bytes) -> None:
        path = head.split(b" ", 2)[1]
        if path == b"/stats":
            self._transport.write(self._seen.told())
        elif path == b"/reset":
            self._seen.reset()
            self._transport.write(ANSWER)
        else:
            self._seen.note(head)
            _, _, ms = path.partition(b"ms=")
            if ms:
                asyncio.get_running_loop().call_later(int(ms) / 1000, self._transport.write, ANSWER)
            else:
                self._transport.write(ANSWER)


def _length(head: bytes) -> int:
    _, found, rest = head.partition(b"content-length:")
    return int(rest.split(b"\r\n", 1)[0]) if found else 0


async def main(port: int, file: TextIO | None) -> None:
    seen = Seen(file)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(seen), "127.0.0.1", port, backlog=BACKLOG)
    print("listening", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), open(sys.argv[2], "w") if len(sys.argv) > 2 else None))  # noqa: SIM115
