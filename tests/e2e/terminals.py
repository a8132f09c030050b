"""A terminal as somebody has it who begins: a shell, a home without anything in it, no settings."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.world import PAUSE
from tests.walks import Answer, WalkError

LIMIT = 300.0
"""Seconds for one command."""
SETTINGS = ("KUBECONFIG", "PYTHONPATH", "VIRTUAL_ENV")


class Shell:
    """A bash that stays: what one command sets, the next one has. Its output is in files."""

    def __init__(self, process: subprocess.Popen[str], checkout: Path, notes: Path) -> None:
        self._process, self._notes = process, notes
        self._count = 0
        self._others: list[Path] = []
        self.type("shopt -s expand_aliases")
        self.type(f"cd '{checkout}'")

    def save(self, name: str, text: str) -> None:
        """Write a file where the shell is."""
        (Path(self.type("pwd").printed.strip()) / name).write_text(text, "utf-8")

    def type(self, command: str) -> Answer:
        """Run it to its end; WalkError when that does not come."""
        code = self._write(command, "</dev/null")
        end = time.monotonic() + LIMIT
        while not code.exists():
            if time.monotonic() > end or self._process.poll() is not None:
                printed = code.with_suffix(".out").read_text("utf-8", "replace")
                raise WalkError(f"`{command}` does not end\n{printed}")
            PAUSE.wait(0.05)
        printed = code.with_suffix(".out").read_text("utf-8", "replace")
        return Answer(printed, int(code.read_text()))

    def open(self, command: str) -> None:
        """Run it beside what follows; it ends with the shell."""
        self._others.append(self._write(command, "</dev/null &").with_suffix(".out"))

    def read_others(self) -> Sequence[str]:
        """What each of those has printed so far."""
        return [path.read_text("utf-8", "replace") for path in self._others if path.exists()]

    def pause(self) -> None:
        """Before another look."""
        PAUSE.wait(0.4)

    def _write(self, command: str, rest: str) -> Path:
        """Type it; the file that will have its exit code."""
        self._count += 1
        out, code = (self._notes / f"{self._count}.{end}" for end in ("out", "code"))
        assert self._process.stdin is not None
        told = f"echo $? >'{code}.new'; mv '{code}.new' '{code}'"
        self._process.stdin.write(f"{{ {command}\n}} >'{out}' 2>&1 {rest}\n{told}\n")
        self._process.stdin.flush()
        return code


@contextmanager
def open_shell(checkout: Path, folder: Path) -> Iterator[Shell]:
    """In the checkout, with a home in `folder` that has caches alone; ends all that it began."""
    home, notes = folder / "home", folder / "notes"
    home.mkdir()
    notes.mkdir()
    (home / ".cache").symlink_to(Path.home() / ".cache")
    environment = {key: value for key, value in os.environ.items() if key not in SETTINGS}
    process = subprocess.Popen(
        ["bash", "--noprofile", "--norc"],
        stdin=subprocess.PIPE,
        text=True,
        env=environment | {"HOME": str(home)},
        start_new_session=True,
    )
    try:
        yield Shell(process, checkout, notes)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=30)
