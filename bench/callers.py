"""`python -m bench.callers`: sends requests over connections that are kept open, from a process of its own, and prints how long each took.

Arguments, as JSON on stdin: {"url", "headers", "bodies" (used in turn), "connections", "count"} or, with "a_second" and "seconds", at a
steady rate. Prints JSON: {"seconds", "took" (each, in seconds), "answers": {"<status>": count}, "last" (the body of the last answer)}.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any
from urllib.parse import urlsplit


class Callers:
    def __init__(self, asked: dict[str, Any]) -> None:
        parts = urlsplit(asked["url"])
        self._host, self._port = parts.hostname, parts.port
        lines = [f"POST {parts.path} HTTP/1.1", f"Host: {parts.netloc}", "Content-Type: application/json"]
        lines += [f"{name}: {value}" for name, value in asked["headers"].items()]
        self._requests = [
            ("\r\n".join([*lines, f"Content-Length: {len(body.encode())}"]) + "\r\n\r\n" + body).encode()
            for body in asked["bodies"]
        ]
        self._asked = asked
        self._next = 0
        self.took: list[float] = []
        self.answers: dict[str, int] = {}
        self.last = ""

    async def run(self) -> float:
        began = time.perf_counter()
        count = self._asked.get("count") or int(self._asked["a_second"] * self._asked["seconds"])
        await asyncio.gather(*(self._connection(count, began) for _ in range(self._asked["connections"])))
        return time.perf_counter() - began

    async def _connection(self, count: int, began: float) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=1 << 22)
        while self._next < count:
            place = self._next
            self._next += 1
            if rate := self._asked.get("a_second"):
                await asyncio.sleep(max(0.0, began + place / rate - time.perf_counter()))
            at = time.perf_counter()
            writer.write(self._requests[place % len(self._requests)])
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            body = await reader.readexactly(length)
            self.took.append(time.perf_counter() - at)
            status = head.split(b" ", 2)[1].decode()
            self.answers[status] = self.answers.get(status, 0) + 1
            self.last = body[:300].decode("utf-8", "replace")
        writer.close()


if __name__ == "__main__":
    callers = Callers(json.load(sys.stdin))
    seconds = asyncio.run(callers.run())
    json.dump({"seconds": seconds, "took": callers.took, "answers": callers.answers, "last": callers.last}, sys.stdout)
