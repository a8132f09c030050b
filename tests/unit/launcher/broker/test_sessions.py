"""Every event in every state of a session: what the tables say is what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_contract import frames
from et_contract.frames import Frame, ProtocolError
from launcher.broker.sessions import CARE, EXITED, KEPT, NEW, PROCESS, SENT, Session

ID = b"s" * 16


def make_frame(kind: int, **body: Any) -> Frame:
    decoder = frames.Decoder()
    decoder.feed(frames.encode_json(kind, body, ID))
    return next(iter(decoder))


def open_session(session: Session, *, again: bool = False) -> None:
    body = {
        "host": "w-0",
        "command": "true",
        "env": {},
        "ranks": 1,
        "blacklists": False,
        **({"again": True} if again else {}),
    }
    session.open(make_frame(frames.SPAWN, host="w-0"), body)


def resume(session: Session) -> None:
    body = {
        "host": "w-0",
        "instance": "i",
        "received": {1: 0, 2: 0},
        "ranks": 1,
        "blacklists": False,
    }
    session.open(make_frame(frames.RESUME), body)


@dataclass(frozen=True)
class Event:
    """`process` and `care`: what it is called in the two tables."""

    act: Callable[[Session], object]
    process: str | None = None
    care: str | None = None


def tell(frame: Frame, name: str, care: str | None = None) -> Event:
    return Event(lambda session: session.take(frame), name, care)


DATA = Frame(frames.DATA, ID, frames.STDOUT, 0, b"x")
DROPPED = make_frame(frames.DROPPED, to=1)._replace(flags=frames.STDOUT)
EVENTS = {
    "SPAWN": Event(open_session, "SPAWN", "opened"),
    "again": Event(lambda s: open_session(s, again=True), "SPAWN again", "opened"),
    "RESUME": Event(resume, "RESUME", "opened"),
    "waited for": Event(lambda s: s.wait_for_shim(1.0), care="waited for"),
    "given up": Event(lambda s: s.give_up(), care="given up"),
    "listed": Event(lambda s: s.note_listed(is_exited=False), "listed"),
    "over": Event(lambda s: s.note_listed(is_exited=True), "listed with its end"),
    "unlisted": Event(lambda s: s.note_unlisted(), "not listed"),
    "sent": Event(lambda s: s.start_or_resume(1), "sent"),
    "SPAWNED": tell(make_frame(frames.SPAWNED, instance="i"), "SPAWNED"),
    "DATA": tell(DATA, "DATA"),
    "DROPPED": tell(DROPPED, "DROPPED"),
    "SIGNALED": tell(Frame(frames.SIGNALED, ID, 0, 1, b""), "SIGNALED"),
    "LOST": tell(make_frame(frames.LOST), "LOST"),
    "EXIT": tell(make_frame(frames.EXIT, code=0), "EXIT", "EXIT"),
}


def look(session: Session) -> list[object]:
    """All that a session holds, to be compared."""
    names = (n for n in Session.__slots__ if n not in {"signals", "orders"})
    return [repr([getattr(session, name) for name in names]), session.encode_signals()]


def find_after(event: Event, session: Session) -> tuple[str, str] | None:
    """Where the tables lead from here; None where they refuse it."""
    if event.process == "not listed" and session.opening is None:
        return session.process, session.care  # its agent is asked, which says LOST
    process = PROCESS[session.process].get(event.process or "", session.process)
    care = CARE[session.care].get(event.care or "", session.care)
    is_process = event.process is None or event.process in PROCESS[session.process]
    is_care = event.care is None or event.care in CARE[session.care]
    return (process, care) if is_process and is_care else None


@pytest.mark.long
@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=12))
def test_each_event_is_a_step_of_the_tables_or_refused_without_a_trace(names: list[str]):
    session = Session(ID, "w-0")
    for name in names:
        event = EVENTS[name]
        before, after = look(session), find_after(event, session)
        if after is None:
            with pytest.raises(ProtocolError, match="is not allowed when"):
                event.act(session)
            assert look(session) == before
        else:
            event.act(session)
            assert (session.process, session.care) == after
        assert session.is_sent == (session.is_running or session.is_exited)


@pytest.mark.parametrize(("table", "kind"), [(PROCESS, "process"), (CARE, "care")])
def test_every_event_of_the_tables_is_tried(table: dict[str, dict[str, str]], kind: str):
    named = {event for steps in table.values() for event in steps}
    assert named == {getattr(event, kind) for event in EVENTS.values()} - {None}
    assert {after for steps in table.values() for after in steps.values()} == set(table) - {NEW}


def test_what_no_agent_knows_is_kept_and_started_anew():
    session = Session(ID, "w-0", uid="uid")
    open_session(session)
    assert (session.process, session.is_running) == (KEPT, False)
    session.start_or_resume(1)
    session.take(make_frame(frames.EXIT, code=255))
    assert session.process == EXITED
    session.note_unlisted()
    session.start_or_resume(1)
    assert (session.process, session.is_running) == (SENT, True)
