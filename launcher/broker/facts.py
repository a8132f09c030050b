"""What the broker knows for sure, gathered into the report that the operator reads.

A fact is only ever added. `closed`, `exits`, `scripts` and `ended` are waited for by the operator
and make the report urgent; the rest may be a second late.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from launcher.documents import Report, ScriptResult, SessionExit

EXITS_KEPT = 32
"""Per pod."""
ALL_EXITS_KEPT = 2000
"""Enough to see why pods fail; and a job of any length and size fits into a ConfigMap."""
PODS_KEPT = 2000
OUTPUT_KEPT = 4096
"""Bytes of a script's output."""

_V = TypeVar("_V")


class Ledger:
    """The report as it grows. `revision` rises with every change, `urgent` with some."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.revision = 0
        self.urgent = 0

    def observe(self, generation: int) -> None:
        """This generation of the config was taken."""
        self._note(observed_generation=max(generation, self.report.observed_generation))

    def serve(self, generation: int) -> None:
        """The user's command has read the list of this generation."""
        self._note(served_generation=max(generation, self.report.served_generation))

    def list(self, uids: Iterable[str]) -> None:
        """These pods are, or were, on the list."""
        self._note(listed=self.report.listed.union(uids))

    def close(self, uid: str) -> None:
        """This pod has no process and will accept none."""
        if uid not in self.report.closed:
            self._note(urgent=True, closed=self.report.closed | {uid})

    def end_session(self, uid: str, ended: SessionExit) -> bool:
        """A session's end; False when it was known."""
        known = self.report.exits.get(uid, ())
        if any(exit_.session == ended.session for exit_ in known):
            return False
        exits = {key: value for key, value in self.report.exits.items() if key != uid}
        while sum(map(len, exits.values())) >= ALL_EXITS_KEPT:
            del exits[next(iter(exits))]
        exits[uid] = (*known, ended)[-EXITS_KEPT:]
        self._note(urgent=True, exits=exits)
        return True

    def finish_script(self, key: str, result: ScriptResult) -> None:
        """A script's first result; later ones are ignored."""
        if key not in self.report.scripts:
            scripts = {**self.report.scripts, key: result}
            self._note(urgent=True, scripts=scripts)

    def end(self, code: int) -> None:
        """The user's command has ended."""
        if self.report.ended is None:
            self._note(urgent=True, ended=code)

    def complain(self, reason: str, message: str) -> None:
        """Something that people should know, by a short reason."""
        self._note(problems={**self.report.problems, reason: message})

    def settle(self, reason: str) -> None:
        """The problem is over."""
        self._note(problems={k: v for k, v in self.report.problems.items() if k != reason})

    def forget(self, alive: Iterable[str]) -> None:
        """Drop what is known of pods long gone, once they are too many for a ConfigMap."""
        if len(self.report.listed) + len(self.report.exits) <= PODS_KEPT:
            return
        kept = frozenset(alive)
        self._note(
            listed=self.report.listed & kept,
            closed=self.report.closed & kept,
            exits=_only(self.report.exits, kept),
        )

    def absorb(self, other: Report) -> None:
        """Take the facts of a report of the same epoch and launcher that was written before."""
        if (other.epoch, other.launcher_uid) != (self.report.epoch, self.report.launcher_uid):
            return
        self.observe(other.observed_generation)
        self.serve(other.served_generation)
        self.list(other.listed)
        for uid in other.closed:
            self.close(uid)
        for uid, exits in other.exits.items():
            for ended in exits:
                self.end_session(uid, ended)
        for key, result in other.scripts.items():
            self.finish_script(key, result)
        if other.ended is not None:
            self.end(other.ended)

    def _note(self, *, urgent: bool = False, **changes: object) -> None:
        report = replace(self.report, **changes)  # type: ignore[arg-type]  # fields of Report
        if report == self.report:
            return
        self.report = report
        self.revision += 1
        self.urgent += urgent


def _only(mapping: Mapping[str, _V], keys: frozenset[str]) -> dict[str, _V]:
    return {key: value for key, value in mapping.items() if key in keys}
