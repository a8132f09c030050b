"""What the broker knows for sure, gathered into the report that the operator reads.

A fact is only ever added, and stays as long as the config speaks of what it is about. Three things
are no facts, but how it is now: `unlisted` and `ready`, by the last config, and `used_up`, while
nothing runs there and the training that has given the host up goes on. `closed`, `scripts` and
`ended` make the report urgent; the rest may be a second late. Ends of sessions may be later: they
are as many as the user's command starts, and nothing is decided by them.

A ConfigMap holds 1 MiB. A report of a pod that is listed and closed takes 78 bytes, so that 10,000
of them take three quarters, and of one that is used up 44 more; the ends of sessions, of which the
operator needs none, take 220 KiB at most, outputs and problems some 40 KiB.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from et_contract.documents import Report, ScriptResult, SessionExit
from et_contract.texts import clean

EXITS_KEPT = 16
"""Per pod."""
ALL_EXITS_KEPT = 512
"""Enough to see why pods fail."""
OUTPUT_KEPT = 4096
"""Bytes of a script's output."""
PROBLEM_KEPT = 500
"""Characters of a problem's text."""


class Ledger:
    """The report as it grows.

    `revision` counts changes, `needed` those that the operator decides by, `urgent` some of these.
    """

    def __init__(self, report: Report) -> None:
        self.report = report
        self.revision = 0
        self.needed = 0
        self.urgent = 0

    def observe(self, generation: int) -> None:
        """This generation of the config was taken."""
        self._note(observed_generation=max(generation, self.report.observed_generation))

    def serve(self, generation: int) -> None:
        """The user's command has read the list of this generation."""
        self._note(served_generation=max(generation, self.report.served_generation))

    def list(
        self,
        uids: Iterable[str],
        *,
        unlisted: frozenset[str] = frozenset(),
        ready: frozenset[str] = frozenset(),
    ) -> None:
        """Pods that are, or were, on the list; the config wants `unlisted` there in vain.

        `ready` are held, and have answered.
        """
        self._note(listed=self.report.listed.union(uids), unlisted=unlisted, ready=ready)

    def close(self, uid: str) -> None:
        """This pod has no process and will accept none."""
        if uid not in self.report.closed:
            self._note(urgent=True, closed=self.report.closed | {uid})

    def use_up(self, uid: str, code: int) -> None:
        """A training goes on and never uses this host again, for the first such end."""
        if uid not in self.report.used_up:
            self._note(used_up={**self.report.used_up, uid: code})

    def use_again(self, uids: Collection[str]) -> None:
        """The workers are used up no longer: something runs there, or that training has ended."""
        used_up = {uid: code for uid, code in self.report.used_up.items() if uid not in uids}
        self._note(used_up=used_up)

    def end_session(self, uid: str, ended: SessionExit) -> bool:
        """A session's end; False when it was known."""
        known = self.report.exits.get(uid, ())
        if any(exit_.session == ended.session for exit_ in known):
            return False
        exits = {key: value for key, value in self.report.exits.items() if key != uid}
        while sum(map(len, exits.values())) >= ALL_EXITS_KEPT:
            del exits[next(iter(exits))]
        exits[uid] = (*known, ended)[-EXITS_KEPT:]
        self._note(needed=False, exits=exits)
        return True

    def finish_script(self, key: str, result: ScriptResult) -> None:
        """A script's first result; later ones are ignored."""
        if key not in self.report.scripts:
            scripts = {**self.report.scripts, key: result}
            self._note(urgent=True, scripts=scripts)

    def end(self, code: int, *, is_told_to_end: bool | None = False) -> None:
        """The user's command has ended, by itself or after it was told to."""
        if self.report.ended is None:
            self._note(urgent=True, ended=code, is_told_to_end=is_told_to_end)

    def complain(self, reason: str, message: str) -> None:
        """People should know of a problem, until it is withdrawn; `reason` is its short name."""
        self._note(problems={**self.report.problems, reason: clean(message, PROBLEM_KEPT)})

    def withdraw(self, reason: str) -> None:
        """The problem is over."""
        self._note(problems={k: v for k, v in self.report.problems.items() if k != reason})

    def keep_only(self, pods: Iterable[str], orders: Iterable[str]) -> None:
        """Let go of what is not about one of these uids and orders: the config speaks of no other.

        Of an order it speaks until the operator has taken in its result. Ends of sessions stay for
        people, as long as there is room.
        """
        kept, named = frozenset(pods), frozenset(orders)
        scripts = {key: value for key, value in self.report.scripts.items() if key in named}
        used_up = {uid: code for uid, code in self.report.used_up.items() if uid in kept}
        self._note(
            listed=self.report.listed & kept,
            closed=self.report.closed & kept,
            used_up=used_up,
            scripts=scripts,
        )

    def absorb(self, other: Report) -> None:
        """Take the facts of a report of the same epoch and launcher that was written before.

        How it is now our memory knows better, which is kept before anything is written.
        """
        if (other.epoch, other.launcher_uid) != (self.report.epoch, self.report.launcher_uid):
            return
        self.observe(other.observed_generation)
        self.serve(other.served_generation)
        self.list(other.listed, unlisted=self.report.unlisted, ready=self.report.ready)
        for uid in other.closed:
            self.close(uid)
        for uid, exits in other.exits.items():
            for ended in exits:
                self.end_session(uid, ended)
        for key, result in other.scripts.items():
            self.finish_script(key, result)
        if other.ended is not None:
            self.end(other.ended, is_told_to_end=other.is_told_to_end)

    def _note(self, *, urgent: bool = False, needed: bool = True, **changes: object) -> None:
        report = replace(self.report, **changes)  # type: ignore[arg-type]  # fields of Report
        if report == self.report:
            return
        self.report = report
        self.revision += 1
        self.needed += needed
        self.urgent += urgent


def shorten(report: Report) -> Report:
    """What the operator decides by, without what is only for people."""
    scripts = {key: replace(result, output="") for key, result in report.scripts.items()}
    return replace(report, exits={}, scripts=scripts)
