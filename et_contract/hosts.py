"""The list of hosts: the only place that reads and writes its formats.

Served to horovodrun and kept in HOSTS_FILE and /etc/edl/hostfile: `name:slots`, one a line
(horovod/runner/elastic/discovery.py:238-262: no comments, exactly one colon, slots an integer; one
bad line ends its discovery thread). For mpirun and DeepSpeed in /job/hostfile: `name slots=n`.
"""

from __future__ import annotations

from collections import namedtuple

from et_contract.texts import read_file

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` costs a third of the start of a discovery script
    from typing import Iterable, Tuple

NUDGE_PREFIX = "edl-nudge-"
"""With a number after it a pseudo host, always with 0 slots: it makes horovodrun notify its workers
once more. No worker is called so: between its job's name and its number there is `-worker-`."""

MAX_FILE = 2**20
"""Bytes of a list, ten times what the largest job has."""
_MAX_LABEL = 63
_MAX_SLOTS = 4096
_LABEL = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
_DIGITS = frozenset("0123456789")

Host = namedtuple("Host", ["name", "slots"])
"""A name (DNS label) and how many processes it takes; 0 only for a pseudo host."""


class InvalidHosts(ValueError):  # noqa: N818 (names say what is so)
    """Text or hosts that horovodrun must never see; the message shows the line."""


def nudge_host(number: int) -> Host:
    """The pseudo host of the n-th nudge."""
    return Host(NUDGE_PREFIX + str(number), 0)


def parse_hosts(text: str) -> Tuple[Host, ...]:
    """The hosts of `name:slots` lines, in their order; empty lines are skipped.

    Raises InvalidHosts for anything else, a name that is there twice included.
    """
    return _check(_parse_line(line) for line in text.split("\n") if line)


def format_hosts(hosts: Iterable[Host]) -> str:
    """`name:slots` lines as horovodrun reads them; raises InvalidHosts."""
    return "".join(f"{host.name}:{host.slots}\n" for host in _check(hosts))


def format_hostfile(hosts: Iterable[Host]) -> str:
    """`name slots=n` lines as mpirun and DeepSpeed read them, without pseudo hosts."""
    return "".join(f"{host.name} slots={host.slots}\n" for host in real_hosts(hosts))


def real_hosts(hosts: Iterable[Host]) -> Tuple[Host, ...]:
    """The hosts that run processes: all but the pseudo hosts."""
    return tuple(host for host in _check(hosts) if host.slots)


def count_slots(hosts: Iterable[Host]) -> int:
    """How many processes the hosts take together."""
    return sum(host.slots for host in hosts)


def read_hosts(path: str) -> Tuple[Host, ...]:
    """The hosts in a file that was written whole; raises OSError or InvalidHosts.

    What somebody else has put there is not waited for, as a pipe would be, nor read without end.
    """
    try:
        data = read_file(path, MAX_FILE)
    except ValueError as error:
        raise InvalidHosts(f"{path} is no list: {error}") from error
    try:
        return parse_hosts(data.decode("ascii"))
    except UnicodeDecodeError as error:
        raise InvalidHosts(f"{path}: {error}") from error


def _parse_line(line: str) -> Host:
    name, colon, slots = line.partition(":")
    if not (colon and slots and _DIGITS.issuperset(slots) and len(slots) <= len(str(_MAX_SLOTS))):
        raise InvalidHosts(f"not `name:slots`: {line!r}")
    return Host(name, int(slots))


def _check(hosts: Iterable[Host]) -> Tuple[Host, ...]:
    seen = {}
    for host in hosts:
        if not _is_label(host.name):
            raise InvalidHosts(f"not the name of a host: {host.name!r}")
        if host.name in seen:
            raise InvalidHosts(f"listed twice: {host.name!r}")
        least, most = (0, 0) if _is_pseudo(host.name) else (1, _MAX_SLOTS)
        if not least <= host.slots <= most:
            raise InvalidHosts(f"{host.name!r} cannot have {host.slots} slots")
        seen[host.name] = host
    return tuple(seen.values())


def _is_pseudo(name: str) -> bool:
    number = name[len(NUDGE_PREFIX) :]
    return name.startswith(NUDGE_PREFIX) and bool(number) and _DIGITS.issuperset(number)


def _is_label(name: str) -> bool:
    return (
        0 < len(name) <= _MAX_LABEL
        and _LABEL.issuperset(name)
        and name[0] != "-"
        and name[-1] != "-"
    )
