"""What Linux machines showed in `/proc` and `/sys`, as trees of files that the real parsers read."""

from __future__ import annotations

from pathlib import Path

MEMINFO = """MemTotal:       32768000 kB
MemFree:          812340 kB
MemAvailable:   12288000 kB
SwapTotal:       8388608 kB
SwapFree:        6291456 kB
HugePages_Total:       0
"""
VMSTAT = "nr_free_pages 203085\npswpin 1200\npswpout 3400\noom_kill 0\n"
PRESSURE = (
    "some avg10=12.50 avg60=4.20 avg300=1.05 total=123456789\nfull avg10=3.75 avg60=1.00 avg300=0.25 total=23456789\n"
)
SMAPS = """55d0c2a00000-7ffd5b1f7000 ---p 00000000 00:00 0                          [rollup]
Rss:             4194304 kB
Pss:             4096000 kB
Pss_Anon:        4000000 kB
Swap:             524288 kB
SwapPss:          512000 kB
"""
LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max open files            1024                 524288               files
"""


class Tree:
    """A root with `/proc`, `/sys` and a process in it; `put` adds or replaces a file."""

    def __init__(self, root: Path) -> None:
        self.proc = root / "proc"
        self.sys = root / "sys"

    def put(self, path: Path, content: str | bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def machine(self) -> None:
        self.put(self.proc / "meminfo", MEMINFO)
        self.put(self.proc / "vmstat", VMSTAT)
        self.put(self.proc / "pressure" / "memory", PRESSURE)

    def swap(self, used_bytes: int, total_bytes: int) -> None:
        """So much of the swap is in use."""
        kept = [line for line in MEMINFO.splitlines() if not line.startswith("Swap")]
        free = total_bytes - used_bytes
        self.put(
            self.proc / "meminfo",
            "\n".join([*kept, f"SwapTotal: {total_bytes // 1024} kB", f"SwapFree: {free // 1024} kB", ""]),
        )

    def process(self, pid: int, fds: int = 7) -> None:
        self.put(self.proc / str(pid) / "smaps_rollup", SMAPS)
        self.put(self.proc / str(pid) / "limits", LIMITS)
        for number in range(fds):
            self.put(self.proc / str(pid) / "fd" / str(number), "")

    def cpu(self, number: int, *, throttled: int, package_throttled: int, khz: int, most_khz: int = 4_000_000) -> None:
        cpu = self.sys / "devices" / "system" / "cpu" / f"cpu{number}"
        self.put(cpu / "thermal_throttle" / "core_throttle_count", f"{throttled}\n")
        self.put(cpu / "thermal_throttle" / "package_throttle_count", f"{package_throttled}\n")
        self.put(cpu / "cpufreq" / "scaling_cur_freq", f"{khz}\n")
        self.put(cpu / "cpufreq" / "cpuinfo_max_freq", f"{most_khz}\n")

    def zone(self, number: int, celsius: float, **trips: float) -> None:
        """`trips` are temperatures by type: passive, hot, critical, active."""
        zone = self.sys / "class" / "thermal" / f"thermal_zone{number}"
        self.put(zone / "temp", f"{int(celsius * 1000)}\n")
        for index, (kind, bound) in enumerate(trips.items()):
            self.put(zone / f"trip_point_{index}_type", f"{kind}\n")
            self.put(zone / f"trip_point_{index}_temp", f"{int(bound * 1000)}\n")
