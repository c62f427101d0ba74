"""`python -m bench PART …`: runs one part."""

from __future__ import annotations

import importlib
import sys

PARTS = ("pages", "cron_burst", "drain", "submit", "whole_way", "punctuality", "growth", "cost", "peers")


MODULES = {"peers": "bench.peers.installing"}


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] not in PARTS:
        print(f"usage: python -m bench {{{'|'.join(PARTS)}}} [options]   (-h after a part lists its options)")
        return 2
    part = sys.argv.pop(1)
    return int(importlib.import_module(MODULES.get(part, f"bench.{part}")).main())


if __name__ == "__main__":
    sys.exit(main())
