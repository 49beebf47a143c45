"""A process that writes blocks into a folder until it is killed, and says each time that one is on disk."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stoker.engine.block_files import RawArray
from stoker.engine.kv_disk import DiskTier


def main() -> None:
    tier = DiskTier(Path(sys.argv[1]), cap_bytes=20 << 20, version="1")
    parent = bytes(16)
    while True:
        block = os.urandom(16)
        while not tier.put(block, parent, {"keys": RawArray("U8", (1 << 20,), os.urandom(1 << 20))}):
            tier.flush(deadline_s=10)
        parent = block
        sys.stdout.write(f"{tier.snapshot().written}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
