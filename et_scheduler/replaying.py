"""Passes in a file: kept while they are decided, and decided again for whoever looks into one.

assembly.py records, cli.py replays. A record needs no cluster: planning decides from a line of it
what it has decided then. A disk that is full, slow or hangs costs records, and no pass. Names may
be hashed in it: whoever is given the record sees a cluster, and not whose.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import blake2b
from pathlib import Path
from threading import Thread
from typing import TextIO, TypeAlias

import structlog

from et_scheduler.codec.snapshots import Snapshot, decode_snapshot, encode_snapshot
from et_scheduler.model.decisions import Change, Decision
from et_scheduler.planning.passing import decide

log = structlog.get_logger()

MOST_BYTES = 2**28
"""A record that has grown so large is begun anew; the one before it is kept beside it."""
Start: TypeAlias = Callable[[Callable[[], None]], None]
"""Has something done, and does not wait for it."""


def start_apart(work: Callable[[], None]) -> None:
    """In a thread that keeps no process from its end: a disk may hang for ever."""
    Thread(target=work, daemon=True).start()


class Recording:
    """Writes the passes that changed something to a file, a line each.

    What the disk does not take is logged, and costs nobody anything. With a salt all names are
    hashed, and the file is begun anew: one name has one hash in it. `start` has a line written.
    """

    def __init__(
        self,
        path: Path,
        most: int = MOST_BYTES,
        salt: bytes = b"",
        start: Start = start_apart,
    ) -> None:
        self._path = path
        self._most = most
        self._start = start
        self._hash_name = partial(hash_name, salt) if salt else None
        self._is_foreign = bool(salt)
        """Whether what is there was written with another salt."""
        self._is_writing = self._is_told = False
        self._left_out = 0
        """So many since the process began."""

    def offer(self, snapshot: Snapshot) -> None:
        """Add one; returns at once. What comes while another is being written is left out."""
        if not self._is_writing:
            self._is_writing, self._is_told = True, False
            self._start(partial(self._write, snapshot))
            return
        self._left_out += 1
        if not self._is_told:
            self._is_told = True
            why, count = "the one before is being written", self._left_out
            log.warning("a pass is not recorded", file=str(self._path), why=why, left_out=count)

    def _write(self, snapshot: Snapshot) -> None:
        try:
            self.keep(snapshot)
        finally:
            self._is_writing = False

    def keep(self, snapshot: Snapshot) -> None:
        """Add one; returns when it is written."""
        try:
            if self._path.exists() and (self._is_foreign or self._is_full()):
                self._path.replace(self._path.with_name(self._path.name + ".old"))
            self._is_foreign = False
            with self._path.open("a", encoding="utf-8") as file:
                file.write(encode_snapshot(snapshot, self._hash_name) + "\n")
        except OSError as error:
            log.warning("a pass could not be recorded", file=str(self._path), why=str(error))

    def _is_full(self) -> bool:
        return self._path.stat().st_size > self._most


def hash_name(salt: bytes, name: str) -> str:
    """A word of 16 characters: without the salt nobody can find it for a name that he knows."""
    return blake2b(name.encode(errors="surrogatepass"), digest_size=8, key=salt).hexdigest()


def replay(lines: Iterable[str], out: TextIO | None = None) -> None:
    """Decide each pass again, and print what is decided; raises ValueError for a bad line."""
    out = out or sys.stdout
    for number, line in enumerate(lines, 1):
        snapshot = decode_snapshot(line)
        given = (snapshot.cluster, snapshot.queues, snapshot.jobs, snapshot.now, snapshot.rules)
        decision = decide(*given)
        sizes = f"{len(snapshot.jobs)} jobs, {len(snapshot.cluster.nodes)} nodes"
        out.write(f"pass {number} at {snapshot.now}: {sizes}\n")
        out.writelines(f"  {text}\n" for text in describe(snapshot, decision))


def describe(snapshot: Snapshot, decision: Decision) -> Iterable[str]:
    """What was decided, and why who waits does."""
    names = {job.uid: f"{job.namespace}/{job.name}" for job in snapshot.jobs}
    yield from (_describe_change(names[change.uid], change) for change in decision.changes)
    for uid, told in sorted(decision.explanations.items(), key=lambda item: names[item[0]]):
        yield f"{names[uid]} waits: {told.reason.value}: {told.message}"
    for queue in decision.queues:
        has, due = dict(queue.allocated), dict(queue.deserved)
        yield f"queue {queue.name}: {queue.running} run, {queue.waiting} wait, has {has} of {due}"


def _describe_change(name: str, change: Change) -> str:
    told = change.admission
    leaving = f", without {', '.join(told.leaving)}" if told.leaving else ""
    why = f" ({told.reason.value}: {told.message})" if told.reason else ""
    return f"{change.step.name} {name}: {told.state.value}, {told.workers} workers{leaving}{why}"
