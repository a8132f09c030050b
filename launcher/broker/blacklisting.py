"""Whose hosts horovodrun has given up and trains on without: these workers are used up.

An elastic horovodrun never uses a host again on which a rank has failed (horovod/runner/elastic/
registration.py, `_on_workers_recorded`); it ends the other ranks there and trains on with the rest.
The pod lives, and nothing is started in it any more, for as long as that command runs.

It says so nowhere, so four things have to come together: a rank ended there with another code than
0 while the job wants the worker; ranks that ran elsewhere at that moment run still and nobody has
told them to end, so that it was no end of the whole training; nothing has run there for
IDLE_SECONDS since, nor does anything wait to; and meanwhile and afterwards the command asks for
hosts, as horovodrun does each second until it stops. Only shims of horovodrun say that a host is
given up: torchrun starts its ranks again where they were.

Horovod judges once each rank has failed, has succeeded or waits for the next round; where one has
succeeded it stops and gives nobody up. So an end with 0 is the end of the training, before and
after a failure, until ranks are started again.

That a worker is used up is true of one horovodrun, and a launcher's command may start several, or
something else after it. So it is taken back where anything runs in the worker, and for all of them
at the end of the training.

No I/O, no clock: all times are monotonic seconds handed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from et_contract.documents import MemberState
from launcher.broker.facts import Ledger
from launcher.broker.hosts import HostList
from launcher.broker.relaying import CLAIM_SECONDS, Relay
from launcher.broker.sessions import Session

IDLE_SECONDS = 10.0
"""Horovod ends the siblings of a failed rank one after the other, and a host with a time-out of its
own (--blacklist-cooldown-range) may be used again."""

READS = 5
"""Of the list within that time: who was away for all of it, with us, has seen nothing."""
UNKNOWN = -1
"""Number of the newest session when a rank failed, where another broker saw that, or none."""


@dataclass(slots=True)
class _Failure:
    """A host on which a rank has failed: with which code, first, and since when."""

    code: int
    newest: int
    """Number of the newest session then: who runs elsewhere and is no newer ran beside it."""
    idle_since: float | None = None
    reads: int = 0
    """Of the list since then, by the user's command."""


class Blacklist:
    """Looks out for workers that are used up, and reports them.

    Args:
        hosts: the members, and who is not listed any more.
        ledger: where it is reported.
        relay: what runs.
        failed: what the broker before us knew, see `failed`.
        now: when the broker began.
    """

    def __init__(
        self,
        hosts: HostList,
        ledger: Ledger,
        relay: Relay,
        *,
        failed: Mapping[str, int],
        now: float,
    ) -> None:
        self._hosts = hosts
        self._ledger = ledger
        self._relay = relay
        self._failures = {uid: _Failure(code, UNKNOWN) for uid, code in failed.items()}
        self._claimed_by = now + CLAIM_SECONDS
        """Until then whoever ran beside those comes back: what no broker of now has seen waits."""
        self._has_asked = False
        self.done: set[str] = set()
        """Uids of workers in which a rank has ended with 0, untold, since any was started."""

    @property
    def failed(self) -> dict[str, int]:
        """Uids of workers in which a rank has failed of which nothing is certain yet, and its code.

        The next broker must know of them: horovodrun has been told, and tells nobody.
        """
        return {uid: failure.code for uid, failure in self._failures.items()}

    def note_end(self, session: Session, code: int, newest: int) -> None:
        """This session has ended, not before the one with the number `newest` had begun.

        What has begun later may be another training, where it ended while its agent was not heard.
        UNKNOWN where no broker of now has ever heard its agent.
        """
        uid = session.uid
        if not session.ranks or not self._is_wanted(uid):
            return
        if code:
            self._note_failure(session, code, newest)
        elif not session.is_told_to_end and newest == self._relay.newest:
            self.done.add(uid)
            self._end_training()

    def note_start(self, uid: str) -> None:
        """Ranks are started there: the host is used, and a training goes on."""
        self._failures.pop(uid, None)
        self.done.clear()

    def note_read(self) -> None:
        """The user's command asks for hosts: it goes on."""
        self._has_asked = True

    def advance(self, sessions: Sequence[Session], now: float) -> None:
        """Follow what has become of these hosts, and report what is certain; `sessions` run."""
        has_asked, self._has_asked = self._has_asked, False
        if used_up := self._ledger.report.used_up:
            self._ledger.use_again({uid for uid in used_up if self._relay.is_busy(uid)})
        if self._hosts.config is None:  # nobody can come back yet
            self._claimed_by = now + CLAIM_SECONDS
        if not self._failures or not self._has_dated(now):
            return
        eldest = _find_eldest(filter(_may_train, sessions))
        if not eldest:
            self._end_training()
            return
        ranks = _find_eldest(s for s in sessions if s.peer is not None and _may_train(s))
        for uid, failure in list(self._failures.items()):
            if not _is_beside(eldest, uid, failure) or not self._is_wanted(uid):
                del self._failures[uid]  # those beside it end too, or the worker leaves
            elif self._follow(uid, failure, now, has_asked=has_asked) and _is_beside(
                ranks, uid, failure
            ):
                del self._failures[uid]
                self._ledger.use_up(uid, failure.code)

    def _note_failure(self, session: Session, code: int, newest: int) -> None:
        uid = session.uid
        if not session.blacklists or self.done or uid in self._failures:
            return
        self._failures[uid] = _Failure(code, newest)

    def _has_dated(self, now: float) -> bool:
        """Whoever has come back by then ran beside a rank whose failure no broker of now saw."""
        undated = [each for each in self._failures.values() if each.newest == UNKNOWN]
        if undated and now < self._claimed_by:
            return False
        for failure in undated:
            failure.newest = self._relay.newest
        return True

    def _end_training(self) -> None:
        """No host is given up for good: the next horovodrun knows of none.

        But who is on his way out for that stays so: the operator asks whether anything runs there.
        """
        self._failures.clear()
        self._ledger.use_again(set(filter(self._is_wanted, self._ledger.report.used_up)))

    def _follow(self, uid: str, failure: _Failure, now: float, *, has_asked: bool) -> bool:
        """Whether the worker has had no process for long enough at this read of the list."""
        if self._relay.is_busy(uid):
            failure.idle_since = None
        elif failure.idle_since is None:
            failure.idle_since, failure.reads = now, 0
        elif has_asked:
            failure.reads += 1
            return failure.reads >= READS and now >= failure.idle_since + IDLE_SECONDS
        return False

    def _is_wanted(self, uid: str) -> bool:
        member = self._hosts.members.get(uid)
        is_active = member is not None and member.state is MemberState.ACTIVE
        return is_active and uid not in self._hosts.departures


def _may_train(session: Session) -> bool:
    """Whether the session is a rank that goes on, or may be one: its shim is away, nobody knows."""
    may_be_rank = session.blacklists or session.peer is None
    return may_be_rank and session.is_running and not session.is_told_to_end


def _find_eldest(sessions: Iterable[Session]) -> dict[str, int]:
    """Worker and number of the eldest of these sessions, and of the eldest in another worker.

    Args:
        sessions: in the order of their numbers.
    """
    found: dict[str, int] = {}
    for session in sessions:
        found.setdefault(session.uid, session.number)
        if len(found) > 1:
            break
    return found


def _is_beside(eldest: Mapping[str, int], uid: str, failure: _Failure) -> bool:
    """Whether one of these runs elsewhere, and did when that rank failed."""
    return any(other != uid and number <= failure.newest for other, number in eldest.items())
