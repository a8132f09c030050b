"""What the broker knows, in a form that survives its restart: a file in the pod's emptyDir.

The emptyDir lives exactly as long as the launcher pod, that is for one epoch; what is in it was
written by a broker of the same epoch and launcher.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import structlog

from launcher.broker.hosts import Entry, HostMemory
from launcher.documents import InvalidDocument, Report, decode_report, encode_report

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this broker works for."""

    job: str
    namespace: str
    job_uid: str
    epoch: int
    launcher_uid: str


@dataclass(frozen=True, slots=True)
class Memory:
    """All that a broker must not forget."""

    report: Report
    hosts: HostMemory = field(default_factory=HostMemory)
    told: frozenset[str] = frozenset()
    """Uids of draining workers whose end proved that they knew of it, see draining.Drain."""
    nudges: int = 0
    """Pseudo hosts that were ever shown: a name is used once."""
    is_nudging: bool = False
    """The last of them is on the list."""


def recall(path: Path, identity: Identity) -> Memory:
    """The memory for a broker that starts now: brokerStart is one higher than ever before.

    Raises InvalidDocument when the file is there and cannot be read: starting as if nothing had
    happened could list hosts twice, so it is left to a person.
    """
    fresh = Report(epoch=identity.epoch, launcher_uid=identity.launcher_uid, broker_start=0)
    memory = Memory(report=fresh)
    if path.exists():
        memory = decode_memory(path.read_text(encoding="utf-8"))
        owner = (memory.report.epoch, memory.report.launcher_uid)
        if owner != (identity.epoch, identity.launcher_uid):
            memory = Memory(report=fresh)
    report = replace(memory.report, broker_start=memory.report.broker_start + 1)
    return replace(memory, report=report)


def encode_memory(memory: Memory) -> str:
    """The text of the file."""
    hosts = memory.hosts
    body = {
        "report": json.loads(encode_report(memory.report)),
        "generation": hosts.generation,
        "listed": [[entry.uid, entry.name, entry.slots] for entry in hosts.listed],
        "everListed": sorted(hosts.ever_listed),
        "offered": sorted(hosts.offered),
        "servedGeneration": hosts.served_generation,
        "nonce": hosts.nonce,
        "started": hosts.started,
        "told": sorted(memory.told),
        "nudges": memory.nudges,
        "isNudging": memory.is_nudging,
    }
    return json.dumps(body)


def decode_memory(text: str) -> Memory:
    """Inverse of encode_memory; raises InvalidDocument."""
    try:
        body: dict[str, Any] = json.loads(text)
        hosts = HostMemory(
            generation=int(body["generation"]),
            listed=tuple(Entry(str(uid), str(name), int(n)) for uid, name, n in body["listed"]),
            ever_listed=frozenset(map(str, body["everListed"])),
            offered=frozenset(map(str, body["offered"])),
            served_generation=int(body["servedGeneration"]),
            nonce=str(body["nonce"]),
            started=bool(body["started"]),
        )
        return Memory(
            decode_report(json.dumps(body["report"])),
            hosts,
            told=frozenset(map(str, body["told"])),
            nudges=int(body["nudges"]),
            is_nudging=bool(body["isNudging"]),
        )
    except (ArithmeticError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise InvalidDocument(f"memory: {type(error).__name__}: {error}") from error


def write_whole(path: Path, text: str) -> None:
    """Replace a file so that a reader sees the old text or the new; raises OSError."""
    scratch = path.with_name(f".{path.name}.new")
    scratch.write_text(text, encoding="utf-8")
    scratch.chmod(0o644)
    scratch.replace(path)


class Files:
    """The `Shelf` of brokering. A full disk is told in the log; training does not stop for it.

    Args:
        hosts: the list for readers that cannot reach the broker.
        memory: what the next broker must know.
    """

    def __init__(self, *, hosts: Path, memory: Path) -> None:
        self._hosts = hosts
        self._memory = memory

    def publish(self, text: str) -> None:
        """See brokering.Shelf."""
        log.info("hosts listed", count=text.count("\n"))
        self._write(self._hosts, text)

    def keep(self, memory: Memory) -> None:
        """See brokering.Shelf."""
        self._write(self._memory, encode_memory(memory))

    def _write(self, path: Path, text: str) -> None:
        try:
            write_whole(path, text)
        except OSError as error:
            log.critical("file not written", path=str(path), reason=str(error))
