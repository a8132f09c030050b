"""A worker without a pod: session.sh in a folder, and an `ssh` that needs no network."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from et_contract import paths
from tests.unit.launcher.agent.workers import PATIENCE, PYTHON, ROOT, Worker

SSH = """#!/bin/sh
for request; do :; done
[ ! -e {folder}/cut ] || {{ printf "@@@\\nno route to host\\r\\n" >&2; exit 255; }}
exec 3<&0
SSH_ORIGINAL_COMMAND=$request setsid sh {session} <&3 3<&- &
exec 3<&-
wait $!
"""
"""As in life: when it is killed, the other side goes on until its stdin ends. Unlike sshd it has
SIGINT and SIGQUIT ignored."""
ENVIRONMENT = "export PATH='{path}'\nexport FROM_POD='it'\\''s\nthe pod'\n"
SESSION = paths.SSH_WORKER.rpartition("/")[2].replace("worker.sh", "session.sh")


def read_signals(lines: Iterable[str]) -> set[int]:
    """Standard signals that lines of /proc/PID/status name; those of the C library are its own."""
    masks = [int(line.split()[1], 16) for line in lines if line.startswith("Sig")]
    assert len(masks) == 2
    return {number for number in range(1, 32) if any(mask >> (number - 1) & 1 for mask in masks)}


class Pod:
    """What worker.sh has prepared, without sshd."""

    def __init__(self, folder: Path, epoch: int = 3) -> None:
        self.folder = folder
        self.run = folder / "run"
        self.session = folder / "src" / SESSION
        self.session.parent.mkdir(exist_ok=True)
        if not self.session.exists():
            self.session.symlink_to(ROOT / "launcher" / "ssh" / "session.sh")
        for name in ("sessions", "over", "told"):
            (self.run / name).mkdir(parents=True, exist_ok=True)
        (self.run / "epoch").write_text(f"{epoch}\n")
        (self.run / "folder").write_text(f"{folder}\n")
        (self.run / "environment").write_text(ENVIRONMENT.format(path=os.environ["PATH"]))

    def start(self, request: str, **options: Any) -> subprocess.Popen[str]:
        """The script as sshd starts it; the caller holds its stdin."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        environ = {**os.environ, "SSH_ORIGINAL_COMMAND": request}
        words = ["sh", str(self.session)]
        return subprocess.Popen(
            words, env=environ, text=True, start_new_session=True, **{**pipes, **options}
        )

    def ask(self, request: str, **options: Any) -> tuple[int, str, str]:
        """(code, stdout, stderr) of a request that ends by itself."""
        stdin, holder = os.pipe()
        try:
            with self.start(request, stdin=stdin, **options) as process:
                out, err = process.communicate(timeout=PATIENCE)
        finally:
            os.close(stdin)
            os.close(holder)
        return process.returncode, out, err

    @property
    def sessions(self) -> list[int]:
        """The process groups that are written down."""
        return [int(file.read_text()) for file in (self.run / "sessions").iterdir()]

    @property
    def is_cut(self) -> bool:
        return (self.folder / "cut").exists()

    def cut(self, *, is_cut: bool = True) -> None:
        """From now on no new connection is made, or is again."""
        (self.folder / "cut").touch() if is_cut else (self.folder / "cut").unlink()


class Reached(Worker):
    """An agent beside the launcher, and the pod that it reaches."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.pod = Pod(folder)
        (folder / "bin").mkdir()
        program = folder / "bin" / "ssh"
        program.write_text(SSH.format(folder=folder, session=self.pod.session))
        program.chmod(0o755)
        self.path = str(folder / "p.sock")

    def reach(self, **changes: str) -> Reached:
        """Start the agent as PID 1 of a launcher does."""
        environ = {**os.environ, "EDL_JOB_UID": "j", "EDL_EPOCH": "3", **changes}
        environ["PATH"] = f"{self.folder / 'bin'}:{environ['PATH']}"
        program = str(ROOT / "launcher" / "ssh" / "reaching.py")
        words = [PYTHON, "-I", "-S", program, "p", "w-0", "10.0.0.9", str(self.folder), "known"]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
                env=environ, cwd=self.folder,
            )  # fmt: skip
        return self

    def kill_connections(self) -> None:
        """Every ssh that runs ends without a word, as when the network has gone."""
        assert self.process
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for pid in children.read_text().split():
            os.kill(int(pid), signal.SIGKILL)


def is_alive(group: int) -> bool:
    """Whether a process group has a member that is not dead."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
