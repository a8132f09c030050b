"""What agents and PID 1 are told of the ends of pods, for the scripts that run beside them.

Each agent is told of its own pod, PID 1 of all. Only who says whether there is a notice, in WELCOME
or LAUNCH, would understand. Nothing is remembered: a new stream, a new PID 1 and a new broker are
told again, also that there is none any more.

No I/O, no clock: frames go out through what is handed in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from et_contract import frames
from et_contract.documents import HostConfig, MemberState, ToldNotice
from et_contract.pods import build_launcher_name
from launcher.broker.memories import Identity
from launcher.broker.relaying import Wire

Body = dict[str, Any]
_UNKNOWN: Body = {}
"""What somebody was told before us."""


class Notices:
    """What there is to say, and who listens."""

    def __init__(self, wire: Wire, identity: Identity) -> None:
        self._wire = wire
        self._launcher_uid = identity.launcher_uid
        self._launcher_name = build_launcher_name(identity.job, identity.epoch)
        self._bodies: dict[str, Body] = {}
        """By the uid of a worker."""
        self._listening: set[str] = set()
        self._is_known = False
        """Whether a config was read: before that nobody is told anything."""
        self._all: Body | None = None
        self._told: Body | None = None
        """What PID 1 knows."""
        self._is_launcher_listening = False

    def take(self, config: HostConfig) -> None:
        """The operator's word; agents are told what is new of them."""
        living = (m for m in config.members if m.state is not MemberState.GONE)
        names = {member.uid: member.name for member in living}
        names[self._launcher_uid] = self._launcher_name
        before, self._bodies = self._bodies, {}
        pods: dict[str, str | None] = {}
        first: ToldNotice | None = None
        for notice in sorted(config.notices, key=lambda one: one.deadline):  # first what is at once
            ours = {names[uid]: uid for uid in notice.pods if uid in names}
            first = first or (notice if ours else None)
            pods |= dict.fromkeys(ours, notice.deadline or None)
            for name, uid in ours.items():
                own = {name: notice.deadline or None}
                self._bodies[uid] = _build_body(notice, own, config.notice_signal)
        self._all = _build_body(first, pods, "") if first is not None else None
        self._is_known = True
        for uid in self._listening:
            if self._bodies.get(uid) != before.get(uid):
                self._tell(uid)

    def welcome(self, uid: str, *, noticed: bool | None) -> None:
        """An agent has a new stream, and has been told of a notice or not; None: it knows none."""
        if noticed is None:
            return
        self._listening.add(uid)
        if noticed or uid in self._bodies:
            self._tell(uid)

    def forget(self, uid: str) -> None:
        """The agent's stream has ended."""
        self._listening.discard(uid)

    def register(self, *, noticed: bool | None) -> None:
        """PID 1 has a new connection; what it has been told is as with agents."""
        self._is_launcher_listening = noticed is not None
        self._told = _UNKNOWN if noticed else None

    def tell_launcher(self, tell: Callable[[bytes], bool]) -> None:
        """Let PID 1 know what it does not."""
        if self._is_launcher_listening and self._is_known and self._told != self._all:
            self._told = self._all
            tell(frames.encode_json(frames.NOTICE, self._all))

    def _tell(self, uid: str) -> None:
        self._wire.to_agent(uid, frames.encode_json(frames.NOTICE, self._bodies.get(uid)))


def _build_body(notice: ToldNotice, pods: dict[str, str | None], signal: str) -> Body:
    body = {
        "reason": notice.reason,
        "source": notice.source,
        "deadline": notice.deadline or None,
        "pods": pods,
    }
    return {"notice": body, **({"signal": signal} if signal else {})}
