"""A soak run for developers: a tree of its own in a temporary home, and `stoker soak run` on it.

python -m tests.soak.short [--minutes 10] [--model FOLDER] [--chaos kill:1m ...] [--reports build/soak]
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from stoker.engine.models import ensure
from stoker.engine.progress import progress_on
from tests.e2e.running import STOKER, RunningTree

# However often chaos kills, it is no crash loop; and what leaks when told to leaks 5 MB a second.
CONFIG = """
[engine]
model = "{model}"
faults = [{{ kind = "leak", on_signal = true, amount = 250000 }}]
[server]
port = 0
[watchdog]
port = 0
[watchdog.restart]
intensity = 100000
backoff_max_s = 0.1
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--model", type=Path, help="default: the demo model, fetched once")
    parser.add_argument("--workload", default="burst")
    parser.add_argument("--scale", default="0.1")
    parser.add_argument("--streams", default="4")
    parser.add_argument("--chaos", nargs="*", default=["kill:1m", "stop:1x", "leak:1x"])
    parser.add_argument("--reports", type=Path, default=Path("build/soak"))
    options = parser.parse_args()
    # Whatever ends this ends the tree, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    model = options.model or ensure("demo", Path.home() / ".cache" / "stoker-tests", progress_on(Console(stderr=True)))
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        tree = RunningTree(home, CONFIG.format(model=model.resolve()))
        tree.start()
        try:
            code = _soak(home, options)
        finally:
            tree.stop()
        shutil.copytree(home / "reports", options.reports, dirs_exist_ok=True)
    sys.exit(code)


def _soak(home: Path, options: argparse.Namespace) -> int:
    given = ["--duration", f"{60 * options.minutes:.0f}s", "--workload", options.workload, "--scale", options.scale]
    given += ["--streams", options.streams, *(word for rule in options.chaos for word in ("--chaos", rule))]
    environment = {**os.environ, "STOKER_HOME": str(home)}
    return subprocess.run([STOKER, "soak", "run", *given], env=environment, check=False).returncode


if __name__ == "__main__":
    main()
