"""Processes that outlive the command that started them.

Each is recorded, by itself and before its program starts, with what tells it from a later process
of the same number: the boot of the machine and the moment it began.
"""

import os
import select
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster import cgroups, checks
from devcluster.commands import wait_until
from devcluster.failures import DevclusterError
from devcluster.settings import Cluster

_BOOT = Path("/proc/sys/kernel/random/boot_id")
# boot and /proc/PID/stat go to $0, the pid to the control group $1; the rest is the program
_RECORDER = (
    "read -r stat </proc/$$/stat; read -r boot </proc/sys/kernel/random/boot_id; "
    'echo "$boot $stat" >"$0.new" && mv "$0.new" "$0" && echo $$ >"$1" && shift && exec "$@"'
)
# nothing of the user's shell, such as a proxy, may reach the cluster
_ENVIRONMENT = {"PATH": checks.SYSTEM_PATH, "HOME": "/root", "LANG": "C.UTF-8"}
_STATE, _STARTED = 0, 19  # positions after the command's closing bracket, proc(5)


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells one process from all others, also from those of earlier boots."""

    pid: int
    started: int
    boot: str


def start(
    cluster: Cluster,
    name: str,
    arguments: Sequence[str | Path],
    *,
    inherited: tuple[int, ...] = (),
) -> int:
    """Start a program of this name unless it runs already, and return its pid.

    Its output is appended to logs/NAME.log.
    """
    running = find(cluster, name)
    if running:
        return running
    for folder in (cluster.records, cluster.logs):
        folder.mkdir(parents=True, exist_ok=True)
    record = cluster.records / name
    record.unlink(missing_ok=True)
    with find_log(cluster, name).open("ab") as log:
        process = subprocess.Popen(
            ["sh", "-c", _RECORDER, record, cgroups.find_join_file(cluster), *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=inherited,
            env=_ENVIRONMENT,
            cwd="/",
        )
    wait_until(lambda: record.exists() or process.poll() is not None, seconds=10, interval=0.005)
    if process.poll() is not None:
        message = f"{name} ended at once with {process.returncode}: see {find_log(cluster, name)}"
        raise DevclusterError(message)
    return process.pid


def find(cluster: Cluster, name: str) -> int | None:
    """Return the pid of the process started by this name, if that very process still runs."""
    identity = read_record(cluster.records / name)
    return identity.pid if identity and is_running(identity) else None


def stop(cluster: Cluster, name: str, *, grace: float = 10.0) -> bool:
    """Ask the process to end, kill it after ``grace`` seconds; return whether it ran."""
    identity = read_record(cluster.records / name)
    stopped = identity is not None and _end(identity, grace)
    (cluster.records / name).unlink(missing_ok=True)
    return stopped


def list_names(cluster: Cluster) -> list[str]:
    """Return the names of all processes that were started and not stopped."""
    if not cluster.records.is_dir():
        return []
    return sorted(path.name for path in cluster.records.iterdir() if path.suffix != ".new")


def find_log(cluster: Cluster, name: str) -> Path:
    """Return the file to which the process of this name writes."""
    return cluster.logs / f"{name}.log"


def read_record(path: Path) -> Identity | None:
    """Read what a process recorded about itself; None if it recorded nothing."""
    try:
        boot, _, stat = path.read_text().partition(" ")
        return Identity(int(stat.split(" ", 1)[0]), int(_split_stat(stat)[_STARTED]), boot)
    except (FileNotFoundError, ValueError, IndexError):
        return None


def is_running(identity: Identity) -> bool:
    """Tell whether this very process still runs; one that only waits to be reaped does not."""
    try:
        fields = _split_stat(Path(f"/proc/{identity.pid}/stat").read_text())
    except OSError:
        return False
    same = int(fields[_STARTED]) == identity.started and _BOOT.read_text().strip() == identity.boot
    return same and fields[_STATE] not in "ZX"


def _split_stat(stat: str) -> list[str]:
    return stat.rpartition(")")[2].split()


def _end(identity: Identity, grace: float) -> bool:
    try:
        handle = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return False
    try:
        if not is_running(identity):
            return False
        if grace:
            signal.pidfd_send_signal(handle, signal.SIGTERM)
        if not (grace and _has_ended(handle, grace)):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            _has_ended(handle, 10)
    except ProcessLookupError:
        return True
    finally:
        os.close(handle)
    return True


def _has_ended(handle: int, seconds: float) -> bool:
    return bool(select.select([handle], [], [], seconds)[0])
