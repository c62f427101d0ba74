"""Collects one answer as libcurl hands it over: bounded, whatever a receiver sends, and made text at the end."""

from __future__ import annotations

import codecs
import re

from app.attempts import MAX_READ_BODY_BYTES, MAX_STORED_BODY_BYTES

# All header lines of an answer, interim ones and trailers included. libcurl itself gives up at 300 KB.
MAX_HEADER_BYTES = 256 * 1024
MAX_STORED_HEADERS = 100
MAX_STORED_NAME_CHARACTERS = 256
MAX_STORED_VALUE_CHARACTERS = 4096
MAX_STORED_HEADER_CHARACTERS = 16 * 1024

_STATUS = re.compile(rb"HTTP/[0-9.]+ +([0-9]{3})(?![0-9])")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ABORT = 0


class Response:
    """What has arrived of one answer. Reused: `reset` begins the next.

    `status` is set when the headers of a final answer (200 and up) are complete, and decides from then on, whatever the
    body does. `is_cut` says that we stopped reading.
    """

    __slots__ = ("_body", "_body_bytes", "_header_bytes", "_lines", "is_cut", "status")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.status: int | None = None
        self.is_cut = False
        self._lines: list[bytes] = []
        self._header_bytes = 0
        self._body = bytearray()
        self._body_bytes = 0

    def on_header(self, line: bytes) -> int | None:
        """libcurl's header callback: a whole line at a time. A number other than its length ends the transfer."""
        self._header_bytes += len(line)
        if self._header_bytes > MAX_HEADER_BYTES:
            self.is_cut = True
            return _ABORT
        if self.status is not None:
            return None  # a trailer: of a body we may not even keep
        if line != b"\r\n" and line != b"\n":
            if len(self._lines) <= MAX_STORED_HEADERS:
                self._lines.append(line)
            return None
        found = _STATUS.match(self._lines[0]) if self._lines else None
        status = int(found[1]) if found else 0
        if status >= 200:
            self.status = status
        else:
            self._lines = []  # an interim answer: the real one follows
        return None

    def on_body(self, chunk: bytes) -> int | None:
        """libcurl's write callback. A number other than the chunk's length ends the transfer."""
        room = MAX_STORED_BODY_BYTES - self._body_bytes
        if room > 0:
            self._body += chunk[:room]
        self._body_bytes += len(chunk)
        if self._body_bytes > MAX_READ_BODY_BYTES:
            self.is_cut = True
            return _ABORT
        return None

    @property
    def is_longer_than_stored(self) -> bool:
        return self._body_bytes > MAX_STORED_BODY_BYTES

    def body_text(self) -> str:
        """The first 16 KB as text: what is not UTF-8, and NUL, is replaced; a character cut in two at the end is left out."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        return decoder.decode(bytes(self._body), not self.is_longer_than_stored).replace("\0", "\ufffd")

    def headers(self) -> tuple[tuple[str, str], ...]:
        """The final answer's headers in their order, bounded in number and length; empty when they never ended."""
        if self.status is None:
            return ()
        kept: list[tuple[str, str]] = []
        room = MAX_STORED_HEADER_CHARACTERS
        for line in _text(b"".join(self._lines[1:])).split("\n"):
            name, _, value = line.partition(":")
            name, value = name.strip()[:MAX_STORED_NAME_CHARACTERS], value.strip()[:MAX_STORED_VALUE_CHARACTERS]
            room -= len(name) + len(value)
            if room < 0:
                break
            if name:
                kept.append((name, value))
        return tuple(kept)

    def header(self, name: str) -> str | None:
        """The first value of a header, by its name in any case."""
        wanted = name.lower()
        return next((value for found, value in self.headers() if found.lower() == wanted), None)


def _text(lines: bytes) -> str:
    try:
        text = lines.decode("utf-8")
    except UnicodeDecodeError:
        text = lines.decode("latin-1")
    return _CONTROLS.sub("\ufffd", text.replace("\r\n", "\n"))
