"""Runs the image's own horovodrun with what an elastic job in pods needs and the user left out.

First in PATH as `horovodrun`. Elastic runs get `--network-interface` (without it horovodrun starts
a second process on every host, needs two hosts, and puts its secret into a command line) and
`--gloo-timeout-seconds 120` (with its 30 s a new worker that is slow to start ends all others),
and `-np` is lowered to the slots that are listed, never below `--min-np`. Everything else, static
runs as a whole included, stays as the user wrote it. BIN_DIR stays in PATH: horovodrun sends PATH
to the workers, where that folder does not exist.
"""

from __future__ import annotations

import os
import sys

sys.path.insert(0, __file__.rpartition("/launcher/")[0])  # `python3 -I` adds no folder

from hostdiscovery import hosts
from launcher import contract
from launcher.shim import environments, horovod_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Optional, Sequence

NOT_EXECUTABLE = 126
NOT_FOUND = 127
ROUTES = "/proc/net/route"


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Becomes the real horovodrun; returns only when there is none."""
    real = find_program("horovodrun", environ.get("PATH", ""), contract.BIN_DIR)
    if real is None:
        os.write(2, b"edl: horovodrun is not in PATH: is Horovod installed in this image?\n")
        return NOT_FOUND
    words = horovod_options.adjust(
        argv,
        slots=count_listed(contract.HOSTS_FILE),
        interface=find_interface(ROUTES),
        environ=environ,
    )
    if list(argv) != words:
        line = f"edl: horovodrun {' '.join(words)}\n"
        os.write(2, line.encode("utf-8", "backslashreplace"))
    try:
        os.execve(real, [real, *words], environments.drop_pod_facts(environ))
    except OSError as error:
        os.write(2, f"edl: cannot start {real}: {error.strerror}\n".encode())
    return NOT_EXECUTABLE


def find_program(name: str, path: str, ours: str) -> Optional[str]:
    """The first executable `name` in the PATH after our folder, wherever that is."""
    for folder in path.split(":"):
        candidate = os.path.join(folder or ".", name)
        is_ours = os.path.realpath(folder or ".") == os.path.realpath(ours)
        if not is_ours and os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    return None


def find_interface(routes: str) -> Optional[str]:
    """The interface that holds the IPv4 default route; None when there is none."""
    try:
        with open(routes) as file:
            rows = [line.split() for line in file][1:]
    except OSError:
        return None
    defaults = []
    for name, destination, _, _, _, _, metric, mask, *_ in rows:
        if destination == mask == "00000000":
            defaults.append((int(metric), name))
    return min(defaults)[1] if defaults else None


def count_listed(file: str) -> Optional[int]:
    """The slots in the broker's list; None when there is no list."""
    try:
        return hosts.count_slots(hosts.read_hosts(file))
    except (OSError, hosts.InvalidHosts):
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
