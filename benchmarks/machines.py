"""The machine that is measured on, and what a process of it costs. Linux only, from /proc.

Only reads, but for a process's peak memory, which can be reset. Whether the machine was busy is
told with each figure and changes none.
"""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUSY = 0.5
"""Load a core, before a run, from which its figures are not to be trusted."""
_TICKS = os.sysconf("SC_CLK_TCK")
_KIB = 1024
_RESET_PEAK = "5"


@dataclass(frozen=True, slots=True)
class Run:
    """When, on what and by which command something was measured."""

    date: str
    commit: str
    command: str
    machine: str
    versions: str
    load: tuple[float, float, float]
    cores: int

    @property
    def is_busy(self) -> bool:
        """Whether others used the machine when the run began."""
        return self.load[0] > BUSY * self.cores


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used: seconds of CPU since its start, bytes now and at its peak."""

    cpu_seconds: float
    memory: int
    peak_memory: int


def describe_machine() -> str:
    """Processor, cores, memory and kernel in one line."""
    model = _find_value(Path("/proc/cpuinfo"), "model name") or platform.machine()
    total = _read_kib(Path("/proc/meminfo"), "MemTotal") / 2**30
    return f"{os.cpu_count()} cores of {model}, {total:.0f} GiB, Linux {platform.release()}"


def describe_commit() -> str:
    """The commit of the checkout, and whether files differ from it."""
    commit = _git("rev-parse", "--short", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":!benchmarks")
    return f"{commit} with changes" if changed else commit


def count_cores() -> int:
    """Cores of the machine."""
    return os.cpu_count() or 1


def read_usage(pid: int) -> Usage:
    """What the process has used so far; raises FileNotFoundError when it is gone."""
    folder = Path("/proc") / str(pid)
    # the name of a program, in brackets, may hold blanks
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    status = folder / "status"
    return Usage(
        (int(fields[11]) + int(fields[12])) / _TICKS,
        _read_kib(status, "VmRSS"),
        _read_kib(status, "VmHWM"),
    )


def reset_peak(pid: int) -> None:
    """Let the process' peak memory begin anew from what it uses now."""
    (Path("/proc") / str(pid) / "clear_refs").write_text(_RESET_PEAK)


def _read_kib(path: Path, key: str) -> int:
    found = _find_value(path, key)
    return int(found.split()[0]) * _KIB if found else 0


def _find_value(path: Path, key: str) -> str:
    for line in path.read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()
