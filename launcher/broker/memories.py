"""What the broker knows, in a form that survives its restart: a file in the pod's emptyDir.

The emptyDir lives exactly as long as the launcher pod, that is for one epoch; what is in it was
written by a broker of the same epoch and launcher.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from et_contract.documents import (
    MALFORMED,
    InvalidDocument,
    Report,
    decode_report,
    encode_report,
    read_count,
)
from et_contract.texts import parse_json, read_file
from launcher.broker.hosts import Entry, HostMemory
from launcher.broker.logging import log
from launcher.broker.sessions import STARTS

MAX_MEMORY = 2**24


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
    """Uids of draining workers whose end proved that they knew of it, see departures.Departure."""
    nudges: int = 0
    """Pseudo hosts that were ever shown: a name is used once."""
    is_nudging: bool = False
    """The last of them is on the list."""
    has_begun: bool = False
    """The user's command has started a rank."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """Workers in which a rank has failed, see blacklisting.Blacklist."""


def recall(path: Path, identity: Identity) -> Memory:
    """The memory for a broker that starts now: brokerStart is one higher than ever before was kept.

    Raises InvalidDocument when the file is there and cannot be read, or no number is higher:
    starting as if nothing had happened could list hosts twice, so it is left to a person.
    """
    fresh = Report(epoch=identity.epoch, launcher_uid=identity.launcher_uid, broker_start=0)
    memory = Memory(report=fresh)
    text = _read_own(path)
    if text is not None:
        memory = decode_memory(text)
        owner = (memory.report.epoch, memory.report.launcher_uid)
        if owner != (identity.epoch, identity.launcher_uid):
            memory = Memory(report=fresh)
    report = replace(memory.report, broker_start=memory.report.broker_start + 1)
    if report.broker_start >= STARTS:
        raise InvalidDocument(
            f"memory: no broker is the start {report.broker_start} of its launcher"
        )
    return replace(memory, report=report)


def _read_own(path: Path) -> str | None:
    """The text, None where there is none; raises InvalidDocument for what is no file of ours.

    The user's container has the same folder.
    """
    try:
        return read_file(str(path), MAX_MEMORY, os.O_NOFOLLOW).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidDocument(f"memory: {error.strerror}") from error
    except ValueError as error:
        raise InvalidDocument(f"memory: {error}") from error


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
        "ready": sorted(hosts.ready),
        "told": sorted(memory.told),
        "nudges": memory.nudges,
        "isNudging": memory.is_nudging,
        "hasBegun": memory.has_begun,
        "failed": dict(memory.failed),
    }
    return json.dumps(body)


def decode_memory(text: str) -> Memory:
    """Inverse of encode_memory; raises InvalidDocument."""
    try:
        body: dict[str, Any] = parse_json(text, MAX_MEMORY)
        hosts = HostMemory(
            generation=read_count(body["generation"]),
            listed=tuple(
                Entry(str(uid), str(name), read_count(n)) for uid, name, n in body["listed"]
            ),
            ever_listed=frozenset(map(str, body["everListed"])),
            offered=frozenset(map(str, body["offered"])),
            served_generation=read_count(body["servedGeneration"]),
            nonce=str(body["nonce"]),
            started=bool(body["started"]),
            ready=frozenset(map(str, body.get("ready", ()))),
        )
        report = decode_report(json.dumps(body["report"]))
        return Memory(
            report,
            hosts,
            told=frozenset(map(str, body["told"])),
            nudges=read_count(body["nudges"]),
            is_nudging=bool(body["isNudging"]),
            has_begun=bool(body.get("hasBegun", report.exits)),
            failed={str(u): read_count(code) for u, code in body.get("failed", {}).items()},
        )
    except MALFORMED as error:
        raise InvalidDocument(f"memory: {type(error).__name__}: {error}") from error


def write_whole(path: Path, text: str) -> None:
    """Replace a file so that a reader sees the old text or the new; raises OSError.

    What others have put in the place of the new one is not written to: a pipe would never take it.
    """
    scratch = path.with_name(f".{path.name}.new")
    scratch.unlink(missing_ok=True)
    fd = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        os.fchmod(fd, 0o644)  # whatever the umask says
        file.write(text)
    scratch.replace(path)


AGAIN_SECONDS = 5.0
"""Until what could not be written is tried again."""


class Files:
    """The `Shelf` of brokering. A full disk is told in the log; training does not stop for it.

    What it did not take is written as soon as there is room, or the next broker would know less.
    Until then there is no list: who read the one before, whenever we are late, would see hosts
    leave and come.

    Args:
        hosts: the list for readers that cannot reach the broker.
        memory: what the next broker must know.

    Attributes:
        kept: set once the memory was written: the next broker will have a higher number than we.
    """

    def __init__(self, *, hosts: Path, memory: Path) -> None:
        self._hosts = hosts
        self._memory = memory
        self._unwritten: dict[Path, str] = {}
        self._failed = asyncio.Event()
        self.kept = asyncio.Event()

    async def run(self) -> None:
        """For ever: try again what was not written."""
        while True:
            await self._failed.wait()
            await asyncio.sleep(AGAIN_SECONDS)
            self._failed.clear()
            for path, text in list(self._unwritten.items()):
                self._write(path, text)

    @property
    def is_kept(self) -> bool:
        """See brokering.Shelf."""
        return self._memory not in self._unwritten

    def publish(self, text: str) -> None:
        """See brokering.Shelf."""
        log.info("hosts listed", count=text.count("\n"))
        self._write(self._hosts, text)

    def keep(self, memory: Memory) -> None:
        """See brokering.Shelf."""
        self._write(self._memory, encode_memory(memory))

    def _write(self, path: Path, text: str) -> None:
        self._unwritten.pop(path, None)
        try:
            write_whole(path, text)
        except OSError as error:
            log.critical("file not written", path=str(path), reason=str(error))
            self._unwritten[path] = text
            self._failed.set()
            if path == self._hosts:
                with suppress(OSError):
                    path.unlink()
            return
        if path == self._memory:
            self.kept.set()
