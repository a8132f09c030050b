"""What must hold before anything is started, each with one sentence that says what to do.

Called first, before anything is made: nothing here changes the machine, and what is missing is
never installed, but named.
"""

import os
import platform
import shutil
import socket
from pathlib import Path

from devcluster.failures import DevclusterError

_GIGABYTE = 10**9
_MEMORY = 3 * _GIGABYTE
_DISK = 6 * _GIGABYTE

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
RUNTIME_PROGRAMS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "iptables": "iptables",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "openssl": "openssl",
}
IMAGE_PROGRAMS = {"buildah": "buildah", "mmdebstrap": "mmdebstrap"}


def check_platform() -> None:
    """Refuse anything but Linux as root."""
    if platform.system() != "Linux":
        message = f"devcluster needs Linux, not {platform.system()}: use a machine with Debian 12."
        raise DevclusterError(message)
    if os.geteuid() != 0:
        message = "devcluster makes namespaces and cgroups and must be root: run it with sudo."
        raise DevclusterError(message)


def check_programs(programs: dict[str, str]) -> None:
    """Refuse if a program is missing, naming the packages that hold it."""
    missing = sorted({package for program, package in programs.items() if not _is_there(program)})
    if missing:
        names = " ".join(missing)
        message = (
            f"Missing Debian packages: {names}. Install them: "
            f"apt-get update && apt-get install --no-install-recommends {names}"
        )
        raise DevclusterError(message)


def check_disk(folder: Path) -> None:
    """Refuse if the disk of ``folder`` would not hold a cluster."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < _DISK:
        message = (
            f"{folder} has {free / _GIGABYTE:.1f} GB free and {_DISK // _GIGABYTE} GB are needed: "
            "make room."
        )
        raise DevclusterError(message)


def check_memory() -> None:
    """Refuse if the memory that is left would not hold a cluster."""
    available = read_available_memory()
    if available < _MEMORY:
        message = (
            f"{available / _GIGABYTE:.1f} GB of memory are available and "
            f"{_MEMORY // _GIGABYTE} GB are needed: end something else first."
        )
        raise DevclusterError(message)


def read_available_memory(path: Path = Path("/proc/meminfo")) -> int:
    """Return the bytes of memory that new processes can have."""
    for line in path.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def listen(port: int | None) -> socket.socket:
    """Return a socket that listens on this port of 127.0.0.1, or on any free one.

    Raises DevclusterError if the port is in use.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port or 0))
    except OSError:
        listener.close()
        message = (
            f"Port {port} of 127.0.0.1 is in use: end what listens there, "
            "or set DEVCLUSTER_PORT to another."
        )
        raise DevclusterError(message) from None
    listener.listen(512)
    return listener


def extend_path() -> None:
    """Have the folders of system programs on PATH, which not every user has."""
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}".removeprefix(":")


def _is_there(program: str) -> bool:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}") is not None
