"""What an agent makes of notices: what scripts read, and which signals go when."""

from __future__ import annotations

import json
import signal
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from et_contract import frames
from et_contract.frames import Frame, ProtocolError
from launcher.protocol.agents import Agent
from launcher.protocol.bodies import MOST_NOTICED, read_notice
from launcher.protocol.effects import Send, ShowNotice, SignalHandlers
from launcher.protocol.notices import SIGNAL_SECONDS

MOMENT, EARLIER, LATER = (f"2026-01-31T12:00:0{second}Z" for second in (5, 1, 9))
USR1 = SignalHandlers(int(signal.SIGUSR1))


def make_notice(deadline: str | None = MOMENT, **changes: Any) -> dict[str, Any]:
    words = {"reason": "AWS takes it back", "source": "taint spot-itn"}
    return {**words, "deadline": deadline, "pods": {"job-worker-3": deadline}, **changes}


def make_frame(notice: dict[str, Any] | None, signal: Any = "SIGUSR1") -> Frame:
    body = {"signal": signal} | ({} if notice is None else {"notice": notice})
    return Frame(frames.NOTICE, frames.NO_SESSION, 0, 0, json.dumps(body).encode())


class Listener:
    """An agent that has a stream, and what scripts of its worker get to know."""

    def __init__(self, *, shows: bool = True) -> None:
        self.agent = Agent(instance="i", job="j", pod="p", epoch=1, grace=30)
        self.agent.shows_notices = shows
        self.now = 100.0
        self.connection = 0
        self.done: list[Any] = []
        self.text = ""
        self.signals: list[tuple[float, int]] = []
        self.connect()

    def connect(self) -> dict[str, Any]:
        """A new stream; its WELCOME."""
        self.connection += 1
        self.agent.connected(self.connection, self.now)
        body = {"job": "j", "pod": "p", "epoch": 1, "launcher": "l", "brokerStart": 0}
        hello = frames.encode_json(frames.HELLO, {**body, "connection": self.connection})
        effects = self.agent.receive(self.connection, decode(hello), self.now)
        [welcome] = [decode(e.data) for e in effects if isinstance(e, Send)][-1:]
        assert welcome.type == frames.WELCOME
        return frames.decode_json(welcome)

    def hear(self, notice: dict[str, Any] | None, signal: Any = "SIGUSR1") -> list[Any]:
        return self.carry_out(
            self.agent.receive(self.connection, make_frame(notice, signal), self.now)
        )

    def wait(self, seconds: float) -> list[Any]:
        """Pass the time as the agent's loop does; pings keep the stream."""
        done, end = [], self.now + seconds
        ping = decode(frames.encode_json(frames.PING))
        while self.now < end:
            self.agent.receive(self.connection, ping, self.now)
            due = self.agent.deadline()
            assert due is not None
            self.now = min(due, end, self.now + 20)
            done += self.carry_out(self.agent.tick(self.now))
        return done

    def carry_out(self, wanted: list[Any]) -> list[Any]:
        kept = [e for e in wanted if isinstance(e, ShowNotice | SignalHandlers)]
        for effect in kept:
            if isinstance(effect, ShowNotice):
                self.text = effect.text
            else:
                self.signals.append((self.now, effect.number))
        return kept


def decode(data: bytes) -> Frame:
    decoder = frames.Decoder()
    decoder.feed(data)
    [frame] = decoder
    return frame


def test_a_notice_is_shown_before_its_signal_and_taken_away_without_one() -> None:
    listener = Listener()
    shown, told = listener.hear(make_notice())
    assert json.loads(shown.text) == make_notice()
    assert told == USR1
    assert listener.hear(None) == [ShowNotice("")]


def test_what_is_said_again_is_shown_again_and_signalled_once() -> None:
    """After a cut, and by the next broker."""
    listener = Listener()
    listener.hear(make_notice())
    listener.now += 60
    listener.connect()
    [shown] = listener.hear(make_notice(reason="in other words"))
    assert json.loads(shown.text)["reason"] == "in other words"
    assert listener.wait(60) == []


@pytest.mark.parametrize(
    ("after", "is_news"),
    [
        (make_notice(EARLIER), True),
        (make_notice(None), True),
        (make_notice(LATER), False),
        (make_notice(LATER, source="taint other"), True),
        (make_notice(reason="other words"), False),
        (make_notice(pods={}), False),
    ],
)
def test_another_sign_and_an_earlier_moment_are_another_notice(
    after: dict[str, Any], *, is_news: bool
) -> None:
    listener = Listener()
    listener.hear(make_notice())
    listener.wait(60)
    assert [type(e) for e in listener.hear(after)] == [ShowNotice] + [SignalHandlers] * is_news
    assert json.loads(listener.text) == after


def test_a_moment_that_is_known_later_gives_more_time_and_is_no_other_notice() -> None:
    listener = Listener()
    listener.hear(make_notice(None))
    listener.wait(60)
    assert listener.hear(make_notice()) == [
        ShowNotice(json.dumps(make_notice(), sort_keys=True) + "\n")
    ]


def test_one_that_was_withdrawn_in_between_is_a_new_one() -> None:
    listener = Listener()
    listener.hear(make_notice())
    listener.hear(None)
    listener.wait(60)
    assert USR1 in listener.hear(make_notice())


def test_without_a_signal_none_goes_and_one_that_is_not_known_is_none() -> None:
    listener = Listener()
    for name in ("", "SIGKILL", "SIG_BLOCK", "SIGUSR3"):
        listener.hear(make_notice(), name)
        listener.hear(None)
        listener.wait(60)
    assert listener.signals == []


def test_a_flood_of_notices_is_a_signal_in_ten_seconds_and_none_for_what_is_withdrawn() -> None:
    listener = Listener()
    for _ in range(50):
        listener.hear(make_notice())
        listener.hear(None)
        listener.wait(0.5)
    times = [time for time, _ in listener.signals]
    assert times == [100.0, 110.0, 120.0]
    listener.hear(make_notice())
    listener.hear(None)
    assert listener.wait(60) == []


def test_a_signal_that_had_to_wait_goes_when_it_may() -> None:
    listener = Listener()
    listener.hear(make_notice())
    listener.wait(3)
    assert [type(e) for e in listener.hear(make_notice(EARLIER))] == [ShowNotice]
    assert listener.wait(20) == [USR1]
    assert [time for time, _ in listener.signals] == [100.0, 110.0]


def test_who_calls_is_told_whether_there_is_a_notice_by_those_alone_who_can_show_one() -> None:
    listener = Listener()
    assert listener.connect()["noticed"] is False
    listener.hear(make_notice())
    assert listener.connect()["noticed"] is True
    listener.hear(None)
    assert listener.connect()["noticed"] is False
    assert "noticed" not in Listener(shows=False).connect()


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in make_notice().items() if name != key}


@pytest.mark.parametrize(
    "notice",
    [
        5,
        [],
        {},
        *map(without, ("reason", "source", "pods")),
        make_notice(5),  # type: ignore[arg-type]
        make_notice("tomorrow"),
        make_notice(MOMENT + "\n"),
        make_notice(reason=None),
        make_notice(reason="r" * 257),
        make_notice(source=["s"]),
        make_notice(pods=["job-worker-3"]),
        make_notice(pods={"job-worker-3": "soon"}),
        make_notice(pods={"w" * 257: None}),
        make_notice(pods={str(number): None for number in range(MOST_NOTICED + 1)}),
    ],
)
def test_a_notice_that_is_none_is_refused_and_changes_nothing(notice: Any) -> None:
    listener = Listener()
    listener.hear(make_notice())
    before = listener.text
    with pytest.raises(ProtocolError):
        listener.hear(notice)
    assert listener.text == before
    with pytest.raises(ProtocolError):
        listener.hear(make_notice(), signal=10)


def test_the_largest_notice_fits_into_a_frame_and_what_is_not_asked_for_is_not_shown() -> None:
    pods = {f"{number:063}": MOMENT for number in range(MOST_NOTICED)}
    frame = make_frame(make_notice(reason="é" * 256, pods=pods, secret="x"))
    assert len(frame.payload) < frames.MAX_PAYLOAD
    notice, _ = read_notice(frame)
    assert notice is not None
    assert set(notice) == {"reason", "source", "deadline", "pods"}


NOTICES = st.none() | st.builds(
    make_notice,
    st.sampled_from([None, EARLIER, MOMENT, LATER]),
    source=st.sampled_from(["a", "b"]),
    reason=st.text(max_size=9),
)
ACTS = st.lists(
    st.tuples(NOTICES, st.floats(0, 15), st.booleans(), st.sampled_from(["", "SIGUSR1"])),
    max_size=12,
)


@pytest.mark.long
@given(ACTS)
def test_whatever_is_said_scripts_read_the_last_word_and_are_not_signalled_too_often(
    acts: list[tuple[dict[str, Any] | None, float, bool, str]],
) -> None:
    listener, last = Listener(), None
    for notice, seconds, is_cut, name in acts:
        if is_cut:
            assert listener.connect()["noticed"] == (last is not None)
        listener.hear(notice, name)
        last = notice
        assert (json.loads(listener.text) if listener.text else None) == last
        listener.wait(seconds)
    listener.wait(SIGNAL_SECONDS)
    times = [time for time, _ in listener.signals]
    assert all(b - a >= SIGNAL_SECONDS for a, b in pairwise(times))
    changes = sum(notice is not None for notice, *_ in acts)
    assert len(times) <= changes
    if any(notice is not None and name for notice, _, _, name in acts[:1]):
        assert times[0] == 100.0
