"""Drives libcurl's multi interface by the sockets that are ready, so that a turn costs what happened, not what waits."""

from __future__ import annotations

import selectors
import socket
import time

import pycurl

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_EVENTS = {pycurl.POLL_IN: _READ, pycurl.POLL_OUT: _WRITE, pycurl.POLL_INOUT: _READ | _WRITE}
_ACTIONS = {
    _READ: pycurl.CSELECT_IN,
    _WRITE: pycurl.CSELECT_OUT,
    _READ | _WRITE: pycurl.CSELECT_IN | pycurl.CSELECT_OUT,
}


class SocketLoop:
    """A CurlMulti, the selector it is driven by, and a socket that ends a wait. All but `wake` in one thread only."""

    def __init__(self, max_idle_connections: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._wake_fd = self._wake_reader.fileno()
        self._selector.register(self._wake_fd, _READ)
        self._watched: dict[int, int] = {}
        self._due: float | None = None
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, max_idle_connections)

    def add(self, curl: pycurl.Curl) -> None:
        """The transfer starts with the next `turn`."""
        self._multi.add_handle(curl)

    def remove(self, curl: pycurl.Curl) -> None:
        """Ends a transfer, finished or not. One that is not finished takes its connection with it."""
        self._multi.remove_handle(curl)

    def turn(self, timeout_seconds: float) -> None:
        """Waits for sockets, libcurl's own timer, a wake or the timeout, and lets libcurl do what is due."""
        now = time.monotonic()
        if self._due is not None:
            timeout_seconds = min(timeout_seconds, max(0.0, self._due - now))
        act = self._multi.socket_action
        for key, events in self._selector.select(timeout_seconds):
            if key.fd == self._wake_fd:
                self._wake_reader.recv(4096)
            else:
                act(key.fd, _ACTIONS[events])
        if self._due is not None and self._due <= time.monotonic():
            self._due = None
            act(pycurl.SOCKET_TIMEOUT, 0)

    def finished(self) -> list[tuple[pycurl.Curl, int, str]]:
        """Each transfer that ended since the last call: (handle, libcurl's code, its message). Removed already."""
        ended: list[tuple[pycurl.Curl, int, str]] = []
        left = 1
        while left:
            left, complete, failed = self._multi.info_read()
            ended.extend((curl, 0, "") for curl in complete)
            ended.extend(failed)
        for curl, _, _ in ended:
            self._multi.remove_handle(curl)
        return ended

    def wake(self) -> None:
        """Ends the wait of `turn` that is under way, or the next. From any thread."""
        try:
            self._wake_writer.send(b"\0")
        except OSError:
            pass  # full: it will wake anyway; closed: there is nothing to wake

    def close(self) -> None:
        self._multi.close()
        self._selector.close()
        self._wake_reader.close()
        self._wake_writer.close()

    def _on_timer(self, timeout_ms: int) -> None:
        self._due = None if timeout_ms < 0 else time.monotonic() + timeout_ms / 1000

    def _on_socket(self, what: int, fd: int, _multi: object, _state: object) -> None:
        events = _EVENTS.get(what)
        watched = self._watched.get(fd)
        if events is None:
            if watched is not None:
                del self._watched[fd]
                self._selector.unregister(fd)
        elif watched is None:
            self._selector.register(fd, events)
            self._watched[fd] = events
        elif watched != events:
            self._selector.modify(fd, events)
            self._watched[fd] = events
