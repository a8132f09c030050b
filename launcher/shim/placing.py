"""The files that the user's command finds in the launcher.

PID 1 of the launcher writes them before the command starts, and both host files again when the list
has changed. A reader finds a whole file, the old or the new one.
"""

from __future__ import annotations

import errno
import os
import sys
from collections import namedtuple

from et_contract import hosts, paths, starters
from launcher.agent import telling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Optional, Tuple

Paths = namedtuple(
    "Paths",
    [
        "broker",  # its unix socket
        "hosts",  # the list that the broker writes
        "results",  # folder for results of scripts
        "lib",  # the runtime, compiled
        "bin",  # our wrappers
        "discover",  # script for --host-discovery-script
        "kubexec",  # rsh agent of mpirun and horovodrun
        "hostfile",  # `name:slots`, as et-operator wrote it
        "job_hostfile",  # `name slots=n`, for mpirun and DeepSpeed
        "notice",  # what is said of the ends of pods
        "ssh",  # folder of the agents of workers that are reached by ssh
        "keys",  # folder of the keys for that
        "begun",  # folder of the programs of ours that have begun
    ],
    defaults=(paths.SSH_DIR, paths.KEYS_DIR, paths.BEGUN_DIR),
)

NO_EXECUTION = "no program can be run from this volume; is the kubelet's folder mounted noexec?"

PATHS = Paths(
    broker=paths.BROKER_SOCKET,
    hosts=paths.HOSTS_FILE,
    results=paths.RUN_DIR + "/scripts",
    lib=paths.LIB_DIR,
    bin=paths.BIN_DIR,
    discover=paths.DISCOVER_SCRIPT,
    kubexec=paths.KUBEXEC,
    hostfile=paths.HOSTFILE,
    job_hostfile=paths.JOB_HOSTFILE,
    notice=paths.NOTICE_FILE,
)


def _can_execute(path: str) -> bool:
    # Also for root this is False on a volume that is mounted with noexec.
    return os.access(path, os.X_OK)


def place_programs(paths: Paths, can_execute: Callable[[str], bool] = _can_execute) -> None:
    """Write the scripts that stand for ours; raises OSError naming the file.

    They run under the Python that runs this: the one that compiled the runtime.
    """
    programs = {
        paths.discover: "hostdiscovery/discover.py",
        # Launchers start it with the stdin that they happen to have, and mean none.
        paths.kubexec: "launcher/shim/rsh.py -n",
    }
    for name, program in starters.collect_programs().items():
        programs[f"{paths.bin}/{name}"] = program
    for path, line in programs.items():
        program, _, option = line.partition(" ")
        words = f'"{sys.executable}" -I -S "{paths.lib}/{program}"{" " + option if option else ""}'
        write_whole(path, f'#!/bin/sh\nexec {words} "$@"\n', 0o755)
        if not can_execute(path):
            raise PermissionError(errno.EACCES, NO_EXECUTION, path)


def compile_programs(lib: str) -> None:
    """Compile what the command will start often. Not being able to costs time, nothing else.

    Called once the command runs: before that, people wait.
    """
    import py_compile

    for folder, _folders, files in os.walk(lib):
        for name in files:
            if not name.endswith(".py"):
                continue
            try:
                py_compile.compile(os.path.join(folder, name), doraise=True)
            except (OSError, py_compile.PyCompileError) as error:
                sys.stderr.write(f"edl: cannot compile {name}: {error}\n")


def write_whole(path: str, text: str, mode: int = 0o644) -> None:
    """As telling.write_whole, and the folder is made."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    telling.write_whole(path, text, mode)


class Mirror:
    """Keeps the two host files as the broker's list is."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._seen: Optional[Tuple[int, int, int]] = None

    def refresh(self) -> bool:
        """Write both files where the list has changed since; whether it had.

        No list yet: False. Raises OSError or InvalidHosts; the next call tries again.
        """
        try:
            status = os.stat(self._paths.hosts)
        except FileNotFoundError:
            return False
        version = (status.st_ino, status.st_mtime_ns, status.st_size)
        if version == self._seen:
            return False
        listed = hosts.real_hosts(hosts.read_hosts(self._paths.hosts))
        write_whole(self._paths.hostfile, hosts.format_hosts(listed))
        write_whole(self._paths.job_hostfile, hosts.format_hostfile(listed))
        self._seen = version
        return True
