"""`python -m bench.peers.raw_curl URL COUNT`: calls by libcurl's multi interface alone, 128 at once: what no queue can beat."""

from __future__ import annotations

import sys

import pycurl

AT_ONCE = 128


def main(url: str, count: int) -> None:
    multi, free, left = pycurl.CurlMulti(), [], count
    multi.setopt(pycurl.M_MAXCONNECTS, AT_ONCE)
    for _ in range(AT_ONCE):
        handle = pycurl.Curl()
        handle.setopt(pycurl.URL, url)
        handle.setopt(pycurl.POSTFIELDS, "[1, 2]")
        handle.setopt(pycurl.WRITEFUNCTION, lambda _: None)
        free.append(handle)
    under_way = 0
    while left or under_way:
        while left and free:
            multi.add_handle(free.pop())
            left, under_way = left - 1, under_way + 1
        multi.perform()
        while True:
            queued, ended, failed = multi.info_read()
            if failed:
                raise ConnectionError(failed[0][2])
            for handle in ended:
                multi.remove_handle(handle)
                free.append(handle)
                under_way -= 1
            if not queued:
                break
        multi.select(0.01)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
