"""The control groups of a cluster: /NAME/system for its processes, /NAME/node-1 ... for pods.

Every process of a cluster is in one of them from before its program starts, so that reading them
finds all, whoever was killed in between.
"""

import os
import signal
from pathlib import Path

from devcluster.commands import wait_until
from devcluster.failures import DevclusterError
from devcluster.settings import Cluster

_ROOT = Path("/sys/fs/cgroup")
_KILL_SECONDS = 20.0
_V1_NEEDED = ("cpu", "cpuacct", "cpuset", "memory", "pids")
_V2_NEEDED = ("cpu", "cpuset", "memory", "pids")


def is_v2(root: Path = _ROOT) -> bool:
    """Tell whether this machine has the unified hierarchy only."""
    return (root / "cgroup.controllers").exists()


def find_hierarchies(root: Path = _ROOT) -> list[Path]:
    """Return the folder of every hierarchy, each real one once."""
    if is_v2(root):
        return [root]
    folders = [
        folder for folder in sorted(root.iterdir()) if folder.is_dir() and not folder.is_symlink()
    ]
    return [folder for folder in folders if (folder / "cgroup.procs").exists()]


def make_groups(cluster: Cluster, names: list[str]) -> None:
    """Make /NAME and these groups below it in every hierarchy, ready for a kubelet."""
    hierarchies = find_hierarchies()
    _check_controllers(hierarchies)
    for hierarchy in hierarchies:
        parent = hierarchy / cluster.name
        _make_group(parent)
        for name in names:
            _make_group(parent / name)


def find_join_file(cluster: Cluster) -> Path:
    """Return the file to which a process writes its pid to become one of the cluster's."""
    return _tracking_root() / cluster.name / "system" / "cgroup.procs"


def list_processes(cluster: Cluster, group: str = "") -> list[int]:
    """Return the pids of all processes of the cluster, or of one of its groups."""
    pids: list[int] = []
    for folder, _, files in os.walk(_tracking_root() / cluster.name / group):
        if "cgroup.procs" in files:
            pids += _read_pids(Path(folder) / "cgroup.procs")
    return pids


def find_parent(pid: int) -> int:
    """Return who started this process: of a container's first one that is its containerd-shim."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def kill_processes(cluster: Cluster, group: str = "") -> None:
    """End every process of the cluster, or of one of its groups, and wait until they are gone."""

    def kill() -> bool:
        pids = list_processes(cluster, group)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not pids

    if not wait_until(kill, seconds=_KILL_SECONDS, interval=0.05):
        left = list_processes(cluster, group)
        message = f"Processes of cluster {cluster.name} do not end: {left}; look with ps."
        raise DevclusterError(message)


def remove_groups(cluster: Cluster, group: str = "") -> None:
    """Remove the cluster's groups, or one and all below it, deepest first."""
    for hierarchy in find_hierarchies():
        for folder, _, _ in os.walk(hierarchy / cluster.name / group, topdown=False):
            _remove_group(Path(folder))


def _remove_group(folder: Path) -> None:
    def remove() -> bool:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    if not wait_until(remove, seconds=5, interval=0.05):
        message = f"The control group {folder} is still in use: run the command again."
        raise DevclusterError(message)


def _make_group(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = folder / name
        if not is_v2() and file.exists() and not file.read_text().strip():
            file.write_text((folder.parent / name).read_text())
    if is_v2() and folder.name != "system":
        _delegate_controllers(folder.parent)


def _delegate_controllers(folder: Path) -> None:
    enabled = (folder / "cgroup.subtree_control").read_text().split()
    for controller in (folder / "cgroup.controllers").read_text().split():
        if controller not in enabled:
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def _check_controllers(hierarchies: list[Path]) -> None:
    if is_v2():
        there = (_ROOT / "cgroup.controllers").read_text().split()
        missing = [name for name in _V2_NEEDED if name not in there]
    else:
        missing = [
            name
            for name in _V1_NEEDED
            if not any(name in folder.name.split(",") for folder in hierarchies)
        ]
    if missing:
        names = ", ".join(missing)
        message = f"This machine has no cgroup controllers {names}: mount them below {_ROOT}."
        raise DevclusterError(message)


def _tracking_root() -> Path:
    return _ROOT if is_v2() else _ROOT / "pids"


def _read_pids(file: Path) -> list[int]:
    try:
        return [int(line) for line in file.read_text().split()]
    except OSError:  # the group went away in between
        return []
