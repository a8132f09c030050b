"""The agent's machine: fencing, idleness, exits, the way out. Time is a number."""

from __future__ import annotations

from typing import Any

import pytest

from et_contract import frames
from et_contract.frames import Frame, ProtocolError
from launcher.protocol import transitions
from launcher.protocol.agents import CROWDED, UNENDING, Agent
from launcher.protocol.closing import FENCE_SECONDS
from launcher.protocol.effects import (
    CloseOutput,
    Hang,
    Leave,
    Send,
    Signal,
    SignalCommand,
    Spawn,
    Survey,
    Sweep,
    TellRanks,
)
from launcher.protocol.fences import Fenced
from launcher.protocol.sessions import REFUSED, Session
from launcher.protocol.signals import FROM_BROKER, FROM_SHIM

ONE, TWO = b"1" * 16, b"2" * 16


class AgentRig:
    """An agent, and what it has sent to each connection.

    Surveys find `processes`, sweeps of a session `children`.
    """

    def __init__(self, grace: float = 60) -> None:
        self.agent = Agent(instance="i", job="j", pod="p", epoch=3, grace=grace)
        self.now = 0.0
        self.processes = 0
        self.children = 0
        self.done: list[Any] = []
        self.pongs: list[dict[str, Any]] = []
        self.said: dict[int, list[tuple[str, dict[str, Any]]]] = {}
        self.pids = iter(range(100, 200))

    def carry_out(self, wanted: list[Any]) -> None:
        for effect in wanted:
            if isinstance(effect, Send):
                self.hear(effect.connection, effect.data)
                continue
            self.done.append(effect)
            if isinstance(effect, Spawn):
                self.carry_out(self.agent.started(effect.session, next(self.pids)))
            elif isinstance(effect, Sweep):
                self.carry_out(self.agent.swept(effect.session, self.children))
            elif isinstance(effect, Survey):
                self.carry_out(self.agent.surveyed(self.processes, self.now))

    def hear(self, connection: int, data: bytes) -> None:
        decoder = frames.Decoder()
        decoder.feed(data)
        for frame in decoder:
            if frame.type == frames.PONG and frame.payload:
                self.pongs.append(frames.decode_json(frame))
            body = {} if frame.type in (frames.DATA, frames.PONG) else frames.decode_json(frame)
            self.said.setdefault(connection, []).append((frames.NAMES[frame.type], body))

    def names(self, connection: int = 1) -> list[str]:
        return [name for name, _body in self.said.get(connection, [])]

    def last(self, connection: int = 1) -> tuple[str, dict[str, Any]]:
        return self.said[connection][-1]

    def send(self, kind: int, body: dict[str, Any] | None = None, **where: Any) -> None:
        session = where.get("session", frames.NO_SESSION)
        data = frames.encode_json(kind, body, session)[frames.HEADER.size :]
        frame = Frame(kind, session, where.get("flags", 0), where.get("offset", 0), data)
        self.carry_out(self.agent.receive(where.get("connection", 1), frame, self.now))

    def hello(self, connection: int = 1, **changes: Any) -> None:
        body = {"job": "j", "pod": "p", "epoch": 3, "launcher": "l", "brokerStart": 0}
        body.update(connection=changes.pop("number", connection), **changes)
        self.agent.connected(connection, self.now)
        self.send(frames.HELLO, body, connection=connection)

    def spawn(self, session: bytes = ONE, connection: int = 1, **changes: Any) -> None:
        body = {"host": "h", "command": "c", **changes}
        self.send(frames.SPAWN, body, session=session, connection=connection)

    def end(self, session: bytes = ONE, code: int = 134) -> None:
        self.carry_out(self.agent.ended(session, code, "signal 6", self.now))
        for channel in frames.CHANNELS:
            self.carry_out(self.agent.output_ended(session, channel))

    def tick(self, now: float) -> None:
        self.now = now
        self.carry_out(self.agent.tick(now))

    def sigterm(self) -> None:
        self.carry_out(self.agent.sigterm(self.now))

    def of(self, kind: type) -> list[Any]:
        return [effect for effect in self.done if isinstance(effect, kind)]


@pytest.fixture
def rig() -> AgentRig:
    return AgentRig()


@pytest.fixture
def running(rig: AgentRig) -> AgentRig:
    rig.hello()
    rig.spawn()
    return rig


# ---------------------------------------------------------------- who may command


def test_welcome_lists_the_sessions_and_what_the_agent_is(running: AgentRig) -> None:
    running.agent.output(ONE, 1, b"hello")
    running.hello(2)
    assert running.last(2) == (
        "WELCOME",
        {
            "instance": "i",
            "epoch": 3,
            "closed": False,
            "terminating": None,
            "sessions": [
                {
                    "id": ONE.hex(),
                    "state": "running",
                    "code": None,
                    "reason": None,
                }
            ],
        },
    )


def test_welcome_has_room_for_all_sessions_that_a_worker_may_have(rig: AgentRig) -> None:
    rig.hello()
    rig.pids = iter(range(10**6))
    keys = [number.to_bytes(16, "big") for number in range(frames.WORKER_SESSIONS)]
    for key in keys:
        rig.spawn(key)
        rig.agent.ended(key, 127, '"' * 999, 0.0)
        rig.agent.output_ended(key, frames.STDOUT)
        rig.agent.output_ended(key, frames.STDERR)
    rig.spawn(TWO)
    name, body = rig.last()
    assert (name, body["code"], body["reason"]) == ("LOST", REFUSED, CROWDED)
    rig.hello(2)
    [(_, body)] = rig.said[2]
    assert [bytes.fromhex(each["id"]) for each in body["sessions"]] == keys
    assert {each["state"] for each in body["sessions"]} == {"exited"}
    rig.send(frames.EXIT_ACK, session=keys[0], connection=2)
    rig.spawn(TWO, connection=2)
    assert rig.last(2)[0] == "SPAWNED"


def test_the_longest_that_is_said_of_one_session_fits_into_its_frame() -> None:
    session = Session(ONE)
    session.state, session.pid = transitions.STARTING, 2**31
    session.not_started("\U0001f600" * 999)
    session.output._channels[1].end = session.output._channels[2].end = frames.MAX_OFFSET
    for data in (session.exit_frame(), session.spawned_frame("i" * 64)):
        decoder = frames.Decoder()
        decoder.feed(data)
        [frame] = decoder
        assert frame.session == ONE
    assert session.reason is not None
    assert session.reason.startswith(frames.NOT_STARTED + "\U0001f600")


@pytest.mark.parametrize(
    "changes",
    [
        {"job": "another"},
        {"pod": "another"},
        {"epoch": 2},
        {"launcher": "another"},
        {"number": 1},
        {"number": 0},
        {"brokerStart": -1, "number": 99},
        {"epoch": "3"},
        {"epoch": True},
        {"launcher": None},
    ],
    ids=str,
)
def test_a_hello_that_is_refused_leaves_the_stream_where_it_is(
    rig: AgentRig, changes: dict[str, Any]
) -> None:
    rig.hello(1)
    with pytest.raises(ProtocolError):
        rig.hello(2, **changes)
    rig.send(frames.PING)
    assert rig.names(1) == ["WELCOME", "PONG"]
    assert rig.of(Hang) == []


@pytest.mark.parametrize(
    "changes",
    [{"number": 2}, {"brokerStart": 1, "number": 0}, {"epoch": 4, "launcher": "m"}],
    ids=str,
)
def test_a_newer_connection_takes_the_stream_over(rig: AgentRig, changes: dict[str, Any]) -> None:
    rig.hello(1)
    rig.hello(2, **changes)
    assert rig.last(1) == ("REJECT", {"reason": "a newer connection has come"})
    assert [hang.connection for hang in rig.of(Hang)] == [1]
    assert rig.names(2) == ["WELCOME"]


def test_an_older_bridge_does_not_come_back_after_the_newer_has_gone(rig: AgentRig) -> None:
    rig.hello(5)
    rig.carry_out(rig.agent.disconnected(5))
    with pytest.raises(ProtocolError, match="newer connection"):
        rig.hello(4)


def test_a_newer_epoch_is_answered_when_nothing_of_the_older_lives(running: AgentRig) -> None:
    running.processes = 2
    running.hello(2, epoch=4, launcher="m")
    assert Signal(ONE, 9) in running.done
    assert Survey(9) in running.done
    running.end()
    assert running.names(2) == [], "a process that left its group still lives"
    running.send(frames.PING, connection=2)
    assert running.names(2) == ["PONG"], "a bridge that waits is told that we live"
    running.processes = 0
    running.tick(0.5)
    assert running.last(2)[0] == "WELCOME"
    assert running.last(2)[1]["sessions"] == []


def wait(rig: AgentRig, connection: int, seconds: float) -> None:
    """Time goes by, half a second after the other, on a stream that lives."""
    end = rig.now + seconds
    while rig.now < end:
        rig.tick(rig.now + 0.5)
        if rig.names(connection)[-1:] != ["REJECT"]:
            rig.send(frames.PING, connection=connection)


def test_who_cannot_be_ended_has_the_newer_epoch_refused_for_good(running: AgentRig) -> None:
    """It hangs in the kernel, or is another user's: the newer launcher gets another worker."""
    running.processes = 1
    running.hello(2, epoch=4, launcher="m")
    running.end()
    wait(running, 2, FENCE_SECONDS - 0.5)
    assert set(running.names(2)) == {"PONG"}
    wait(running, 2, 0.5)
    assert running.last(2) == ("REJECT", {"reason": UNENDING, "fenced": True})
    assert running.of(Hang)[-1].connection == 2
    running.hello(3, epoch=4, launcher="m")
    assert running.said[3] == [("REJECT", {"reason": UNENDING, "fenced": True})]
    running.hello(4, epoch=5, launcher="n")
    assert running.names(4) == ["REJECT"], "the next one could not end it either"
    running.processes = 0
    wait(running, 4, 0.5)
    running.hello(5, epoch=5, launcher="n")
    assert running.names(5) == ["WELCOME"]


def test_the_time_in_which_a_worker_was_stopped_is_none_of_it(running: AgentRig) -> None:
    running.processes = 1
    running.hello(2, epoch=4, launcher="m")
    running.end()
    wait(running, 2, 1.0)
    running.tick(running.now + 1000.0)
    running.hello(3, epoch=4, launcher="m")
    wait(running, 3, 1.0)
    assert set(running.names(3)) == {"PONG"}
    running.processes = 0
    wait(running, 3, 0.5)
    assert "WELCOME" in running.names(3)


def test_a_fence_waits_for_the_process_itself_too(running: AgentRig) -> None:
    running.hello(2, epoch=4, launcher="m")
    assert running.names(2) == []
    running.carry_out(running.agent.ended(ONE, 137, "signal 9", 0))
    assert running.names(2) == ["WELCOME"]
    assert CloseOutput(ONE) in running.done


def test_the_bridge_that_came_last_is_welcomed_after_a_fence(running: AgentRig) -> None:
    running.hello(2, epoch=4, launcher="m")
    running.hello(3, epoch=4, launcher="m")
    running.end()
    assert running.names(2) == ["REJECT"]
    assert running.names(3) == ["WELCOME"]


def test_tombstones_end_with_their_epoch(running: AgentRig) -> None:
    running.end()
    running.send(frames.EXIT_ACK, session=ONE)
    running.hello(2, epoch=4, launcher="m")
    running.spawn(connection=2)
    assert len(running.of(Spawn)) == 2


def test_a_silent_stream_is_dead_after_30_seconds(running: AgentRig) -> None:
    running.now = 20.0
    running.send(frames.PING)
    running.tick(49.9)
    assert running.of(Hang) == []
    assert running.agent.deadline() == pytest.approx(50.0)
    running.tick(50.0)
    assert running.last()[0] == "REJECT"
    running.agent.output(ONE, 1, b"x" * 500_000)
    assert running.agent.wants(ONE, 1)


def test_a_bridge_without_hello_is_closed_after_10_seconds(rig: AgentRig) -> None:
    rig.agent.connected(1, 0.0)
    rig.tick(9.9)
    assert rig.of(Hang) == []
    rig.tick(10.0)
    assert len(rig.of(Hang)) == 1


# ---------------------------------------------------------------- sessions


def test_a_session_is_started_once_however_often_it_is_asked_for(running: AgentRig) -> None:
    running.spawn()
    running.hello(2)
    running.spawn(connection=2)
    running.end()
    running.spawn(connection=2)
    running.send(frames.EXIT_ACK, session=ONE, connection=2)
    running.spawn(connection=2)
    assert len(running.of(Spawn)) == 1


def test_spawned_is_said_again_to_who_asks_again(running: AgentRig) -> None:
    running.spawn()
    assert running.said[1][1:] == [("SPAWNED", {"pid": 100, "instance": "i"})] * 2


def test_a_resume_starts_nothing(rig: AgentRig) -> None:
    rig.hello()
    rig.send(frames.RESUME, {"instance": "i", "received": [0, 0]}, session=ONE)
    assert rig.last() == (
        "LOST",
        {"reason": "the worker does not know this session", "code": 137},
    )
    assert rig.of(Spawn) == []


def test_a_resume_of_another_instance_is_lost(running: AgentRig) -> None:
    running.send(frames.RESUME, {"instance": "other", "received": [0, 0]}, session=ONE)
    assert running.last() == ("LOST", {"reason": "the worker was started anew", "code": 137})


@pytest.mark.parametrize(
    "body",
    [{}, {"received": [0]}, {"received": [0, -1]}, {"received": [0, True]}],
    ids=str,
)
def test_a_resume_that_cannot_be_is_refused(running: AgentRig, body: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        running.send(frames.RESUME, {"instance": "i", **body}, session=ONE)


def test_a_shim_that_counts_wrongly_is_lost_alone(running: AgentRig) -> None:
    running.spawn(TWO)
    running.agent.output(ONE, 1, b"abc")
    running.send(frames.ACK, session=ONE, flags=1, offset=4)
    running.send(frames.RESUME, {"instance": "i", "received": [4, 0]}, session=ONE)
    assert running.last()[0] == "LOST"
    assert running.last()[1]["code"] == 137
    running.send(frames.RESUME, {"instance": "i", "received": [3, 0]}, session=ONE)
    assert running.names().count("LOST") == 1
    assert running.agent.next_data(1) is None, "all of it is safe"
    assert running.of(Hang) == []
    with pytest.raises(ProtocolError, match="channel 3"):
        running.send(frames.ACK, session=ONE, flags=3, offset=0)


def test_what_a_shim_got_on_the_cut_stream_may_be_acknowledged_on_the_next(
    running: AgentRig,
) -> None:
    running.agent.output(ONE, 1, b"abcdef")
    running.agent.next_data(1)
    running.carry_out(running.agent.disconnected(1))
    running.hello(2)
    running.send(frames.RESUME, {"instance": "i", "received": [0, 0]}, session=ONE, connection=2)
    running.send(frames.ACK, session=ONE, connection=2, flags=1, offset=4)
    data = running.agent.next_data(2)
    assert data is not None
    running.hear(2, data)
    assert running.names(2)[-1] == "DATA"
    assert data.endswith(b"ef")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"command": 1},
        {"command": "a\0b"},
        {"command": "c", "env": {"A": 1}},
        {"command": "c", "env": []},
        {"command": "c", "env": ["A"]},
        {"command": "c", "env": {"A=B": "1"}},
        {"command": "c", "env": {"": "1"}},
    ],
    ids=str,
)
def test_a_spawn_that_cannot_be_costs_that_session_and_not_the_stream(
    rig: AgentRig, body: dict[str, Any]
) -> None:
    rig.hello()
    if body.get("env") == []:
        body = {**body, "command": None}
    rig.send(frames.SPAWN, body, session=ONE)
    assert rig.last()[0] == "LOST"
    assert rig.last()[1]["code"] == 255
    assert rig.of(Spawn) == []


def test_what_cannot_be_started_is_an_exit_with_255(rig: AgentRig) -> None:
    rig.hello()
    frame = Frame(frames.SPAWN, ONE, 0, 0, b'{"command":"c"}')
    assert rig.agent.receive(1, frame, 0) == [Spawn(ONE, "c", {})]
    rig.carry_out(rig.agent.not_started(ONE, "no memory"))
    assert rig.last() == (
        "EXIT",
        {"code": 255, "produced": [0, 0], "reason": "cannot start: no memory"},
    )


def test_an_exit_is_told_at_once_and_after_each_claim_until_acknowledged(running: AgentRig) -> None:
    running.agent.output(ONE, 2, b"oops")
    running.end()
    told = ("EXIT", {"code": 134, "produced": [0, 4], "reason": "signal 6"})
    assert running.last() == told
    running.hello(2)
    assert running.last(2)[1]["sessions"][0]["state"] == "exited"
    running.send(frames.RESUME, {"instance": "i", "received": [0, 0]}, session=ONE, connection=2)
    assert running.last(2) == told
    running.send(frames.EXIT_ACK, session=ONE, connection=2)
    running.hello(3)
    assert running.last(3)[1]["sessions"] == []


def test_a_tombstone_tells_that_the_bytes_are_gone(running: AgentRig) -> None:
    running.agent.output(ONE, 1, b"hello")
    running.end()
    running.send(frames.EXIT_ACK, session=ONE)
    running.send(frames.RESUME, {"instance": "i", "received": [2, 0]}, session=ONE)
    assert running.last()[0] == "EXIT"
    data = running.agent.next_data(1)
    assert data == frames.encode(frames.DROPPED, ONE, b'{"to":5}', flags=1, offset=2)
    assert running.agent.next_data(1) is None


def test_an_ended_process_whose_pipes_stay_open_exits_after_a_second(running: AgentRig) -> None:
    running.carry_out(running.agent.ended(ONE, 0, "exited", 5.0))
    assert running.last()[0] == "SPAWNED"
    assert running.agent.deadline() == pytest.approx(6.0)
    running.tick(6.0)
    assert running.of(CloseOutput) == [CloseOutput(ONE)]
    for channel in frames.CHANNELS:
        running.carry_out(running.agent.output_ended(ONE, channel))
    assert running.last()[0] == "EXIT"


def test_an_end_is_told_when_no_child_is_left(running: AgentRig) -> None:
    running.children = 1
    running.send(frames.SIGNAL, {"signal": 15}, session=ONE, offset=1)
    running.end(code=143)
    running.tick(1.0)
    told, first, rest = Sweep(ONE, 0, False), Sweep(ONE, 0, False), Sweep(ONE, 15, True)
    assert running.of(Sweep) == [told, first, rest]
    running.send(frames.CLOSE_IF_IDLE)
    assert running.names()[1:] == ["SPAWNED", "SIGNALED", "BUSY"]
    running.children = 0
    running.carry_out(running.agent.orphan_ended())
    running.tick(1.1)
    assert running.names()[-2:] == ["EXIT", "CLOSED"]
    assert running.said[1][-2][1]["code"] == 143


def test_what_an_ended_process_has_left_gets_what_it_has_not_had(running: AgentRig) -> None:
    running.children = 1
    running.carry_out(running.agent.ended(ONE, 1, "exited", 0.0))
    for place, number in enumerate((10, 2, 15, 9), start=1):
        running.send(frames.SIGNAL, {"signal": number}, session=ONE, offset=place)
    assert running.of(Signal) == []
    assert running.of(Sweep) == [Sweep(ONE, 2, False), Sweep(ONE, 15, True), Sweep(ONE, 9, False)]


def test_term_is_followed_by_kill_without_any_broker(running: AgentRig) -> None:
    running.children = 1
    running.send(frames.SIGNAL, {"signal": 15}, session=ONE, offset=1)
    running.carry_out(running.agent.disconnected(1))
    running.tick(30.0)
    assert running.of(Signal) == [Signal(ONE, 15), Signal(ONE, 9)]
    assert running.of(Sweep) == [Sweep(ONE, 0, False), Sweep(ONE, 9, False)]


def test_the_end_is_told_of_what_cannot_be_killed(running: AgentRig) -> None:
    running.children = 1
    running.send(frames.SIGNAL, {"signal": 9}, session=ONE, offset=1)
    running.carry_out(running.agent.ended(ONE, 137, "signal 9", 0.0))
    running.tick(5.0)
    assert running.of(CloseOutput) == [CloseOutput(ONE)]
    for channel in frames.CHANNELS:
        running.carry_out(running.agent.output_ended(ONE, channel))
    assert running.last()[0] == "EXIT"


def test_signals_reach_a_running_process_and_no_other(running: AgentRig) -> None:
    running.send(frames.SIGNAL, {"signal": 2}, session=ONE, offset=1)
    running.send(frames.SIGNAL, {"signal": 2}, session=TWO, offset=1)
    running.carry_out(running.agent.ended(ONE, 0, "exited", 0))
    running.send(frames.SIGNAL, {"signal": 2}, session=ONE, offset=2)
    assert running.of(Signal) == [Signal(ONE, 2)]


def test_a_signal_that_comes_again_is_confirmed_and_not_delivered_again(running: AgentRig) -> None:
    for number in (1, 2, 1, 2, 3):
        running.send(frames.SIGNAL, {"signal": 2}, session=ONE, offset=number)
        assert running.last()[0] == "SIGNALED"
    assert running.of(Signal) == [Signal(ONE, 2)] * 3


def test_the_signals_of_shim_and_broker_are_counted_apart(running: AgentRig) -> None:
    running.send(frames.SIGNAL, {"signal": 2}, session=ONE, offset=9, flags=FROM_BROKER)
    running.send(frames.SIGNAL, {"signal": 15}, session=ONE, offset=1, flags=FROM_SHIM)
    assert running.of(Signal) == [Signal(ONE, 2), Signal(ONE, 15)]


@pytest.mark.parametrize(("flags", "offset"), [(2, 1), (0, 0), (1, 2**64 - 1)])
def test_a_signal_without_sender_or_number_is_refused(
    running: AgentRig, flags: int, offset: int
) -> None:
    with pytest.raises(ProtocolError, match="SIGNAL"):
        running.send(frames.SIGNAL, {"signal": 2}, session=ONE, offset=offset, flags=flags)
    assert running.of(Signal) == []


@pytest.mark.parametrize("number", [0, -1, 65, "15", None, True])
def test_what_is_no_signal_is_refused(running: AgentRig, number: object) -> None:
    with pytest.raises(ProtocolError, match="no signal"):
        running.send(frames.SIGNAL, {"signal": number}, session=ONE, offset=1)


# ---------------------------------------------------------------- flow


def test_a_full_window_blocks_that_session_alone(running: AgentRig) -> None:
    running.spawn(TWO)
    running.agent.output(ONE, 1, b"x" * frames.WINDOW)
    assert not running.agent.wants(ONE, 1)
    assert not running.agent.wants(ONE, 2)
    assert running.agent.wants(TWO, 1)


def test_without_a_stream_nobody_waits_for_a_reader(running: AgentRig) -> None:
    running.agent.output(ONE, 1, b"x" * frames.WINDOW)
    running.carry_out(running.agent.disconnected(1))
    assert running.agent.wants(ONE, 1)
    assert running.agent.wants(ONE, 2)


def test_the_window_of_the_broker_holds_within_limits(rig: AgentRig) -> None:
    rig.hello()
    rig.spawn(ONE, window=1)
    rig.spawn(TWO, window=1 << 30)
    for session in (ONE, TWO):
        rig.agent.output(session, 1, b"x" * 3_000_000)
    sent = {ONE: 0, TWO: 0}
    decoder = frames.Decoder()
    while (data := rig.agent.next_data(1)) is not None:
        decoder.feed(data)
    for frame in decoder:
        sent[frame.session] += len(frame.payload)
    assert sent == {ONE: frames.MAX_DATA, TWO: frames.MOST_WINDOW}


def test_an_acknowledgement_may_change_the_window(running: AgentRig) -> None:
    running.agent.output(ONE, 1, b"x" * frames.MOST_WINDOW)
    while running.agent.next_data(1) is not None:
        pass
    wider = {"session": ONE, "flags": 1}
    running.send(frames.ACK, {"window": frames.WINDOW + 5}, **wider)
    decoder = frames.Decoder()
    decoder.feed(running.agent.next_data(1) or b"")
    assert [(frame.offset, len(frame.payload)) for frame in decoder] == [(frames.WINDOW, 5)]
    running.send(frames.ACK, {"window": 0}, **wider, offset=5)
    assert running.agent.next_data(1) is None


def test_sessions_and_channels_take_turns(running: AgentRig) -> None:
    running.spawn(TWO)
    for session in (ONE, TWO):
        for channel in frames.CHANNELS:
            running.agent.output(session, channel, b"x" * 100_000)
    decoder = frames.Decoder()
    for _ in range(4):
        decoder.feed(running.agent.next_data(1) or b"")
    assert {(frame.session, frame.flags) for frame in decoder} == {
        (session, channel) for session in (ONE, TWO) for channel in frames.CHANNELS
    }


def test_data_goes_to_nobody_else(running: AgentRig) -> None:
    running.agent.output(ONE, 1, b"x")
    running.agent.connected(2, 0)
    assert running.agent.next_data(2) is None
    running.hello(3)
    assert running.agent.next_data(1) is None
    assert running.agent.next_data(3) is None, "no shim has claimed it on this stream"


# ---------------------------------------------------------------- closing


def test_an_idle_worker_closes_and_takes_nothing_more(rig: AgentRig) -> None:
    rig.hello()
    rig.send(frames.CLOSE_IF_IDLE)
    assert rig.names() == ["WELCOME", "CLOSED"]
    rig.spawn()
    assert rig.last()[0] == "LOST"
    assert rig.last()[1]["code"] == 255
    rig.send(frames.CLOSE_IF_IDLE)
    assert rig.last()[0] == "CLOSED"
    rig.hello(2, epoch=9, launcher="m")
    assert rig.last(2)[1]["closed"] is True


def test_a_busy_worker_says_so_and_closes_by_itself(running: AgentRig) -> None:
    running.processes = 3
    running.send(frames.CLOSE_IF_IDLE)
    assert running.last() == ("BUSY", {"sessions": 1, "processes": 3})
    running.end()
    assert running.last()[0] == "EXIT"
    running.processes = 0
    running.carry_out(running.agent.orphan_ended())
    running.tick(running.now)
    assert running.last() == ("CLOSED", {})
    assert running.names().count("BUSY") == 1


def test_an_exit_that_nobody_acknowledged_does_not_keep_a_worker(running: AgentRig) -> None:
    running.end()
    running.send(frames.CLOSE_IF_IDLE)
    assert running.last()[0] == "CLOSED"


def test_a_new_session_disarms_and_the_broker_asks_again(running: AgentRig) -> None:
    running.send(frames.CLOSE_IF_IDLE)
    running.spawn(TWO)
    running.end(ONE)
    running.end(TWO)
    assert "CLOSED" not in running.names()
    running.send(frames.CLOSE_IF_IDLE)
    assert running.last()[0] == "CLOSED"


def test_who_waits_for_marked_processes_looks_again_and_stops_looking(rig: AgentRig) -> None:
    rig.hello()
    rig.processes = 1
    rig.send(frames.CLOSE_IF_IDLE)
    rig.tick(0.5)
    rig.processes = 0
    rig.tick(1.0)
    assert rig.last()[0] == "CLOSED"
    surveys = len(rig.of(Survey))
    rig.tick(9.0)
    assert len(rig.of(Survey)) == surveys


def test_a_flood_of_ended_orphans_is_one_look(running: AgentRig) -> None:
    running.processes = 1
    running.send(frames.CLOSE_IF_IDLE)
    looks = len(running.of(Survey))
    for _ in range(1000):
        running.carry_out(running.agent.orphan_ended())
    assert running.agent.deadline() == 0.0
    running.tick(0.1)
    assert len(running.of(Survey)) == looks + 1


def test_nobody_looks_at_processes_when_nobody_waits(running: AgentRig) -> None:
    running.end()
    running.carry_out(running.agent.orphan_ended())
    running.tick(5.0)
    assert running.of(Survey) == []


def test_a_worker_that_closed_without_a_stream_says_so_in_its_welcome(running: AgentRig) -> None:
    running.send(frames.CLOSE_IF_IDLE)
    running.carry_out(running.agent.disconnected(1))
    running.end()
    running.hello(2)
    assert running.last(2)[1]["closed"] is True


# ---------------------------------------------------------------- leaving


def test_without_a_session_it_leaves_at_once(rig: AgentRig) -> None:
    rig.hello()
    rig.sigterm()
    assert rig.last() == ("TERMINATING", {"seconds": 59.0})
    assert rig.of(Leave) == [Leave()]


def test_sessions_may_end_by_themselves_until_10_seconds_before_the_end(running: AgentRig) -> None:
    running.sigterm()
    running.send(frames.GRACE, {"seconds": 40.0, "grace": 40})
    running.tick(29.9)
    assert running.of(Signal) == []
    running.tick(30.0)
    assert running.of(Signal) == [Signal(ONE, 15)]
    assert Survey(15) in running.done
    running.tick(37.0)
    assert running.of(Signal) == [Signal(ONE, 15), Signal(ONE, 9)]
    assert running.of(Leave) == []
    running.agent.receive(1, Frame(frames.PING, frames.NO_SESSION, 0, 0, b""), 37.0)
    running.tick(39.0)
    assert running.of(Leave) == [Leave()]


def signals(rig: AgentRig, start: int, end: int) -> dict[int, float]:
    """When which signal came to the session."""
    found: dict[int, float] = {}
    for now in range(start, end):
        rig.tick(float(now))
        rig.carry_out(rig.agent.receive(1, Frame(frames.PING, frames.NO_SESSION, 0, 0, b""), now))
        for effect in rig.of(Signal):
            found.setdefault(effect.number, rig.now)
    return found


def test_a_deletion_with_a_shorter_grace_than_the_templates_is_heard_of(running: AgentRig) -> None:
    running.sigterm()
    running.now = 1.0
    running.send(frames.GRACE, {"seconds": 15})
    assert signals(running, 1, 30) == {15: 6.0, 9: 13.0}
    assert running.of(Leave) == [Leave()]


@pytest.mark.parametrize("told", [{"seconds": 600.0, "grace": 600}, {"seconds": 600.0}])
def test_of_a_longer_one_who_has_much_to_save_has_a_quarter(
    running: AgentRig, told: dict[str, float]
) -> None:
    running.sigterm()
    running.send(frames.GRACE, told)
    assert signals(running, 1, 700) == {15: 450.0, 9: 597.0}


def test_word_that_comes_late_does_not_begin_the_grace_anew(running: AgentRig) -> None:
    running.sigterm()
    running.now = 9.0
    running.send(frames.GRACE, {"seconds": 30.0, "grace": 30})
    assert signals(running, 9, 40) == {15: 20.0, 9: 27.0}


def test_a_stream_that_opens_anew_costs_nothing_of_the_grace(running: AgentRig) -> None:
    running.sigterm()
    running.send(frames.GRACE, {"seconds": 40.0, "grace": 40})
    running.now = 20.0
    running.send(frames.GRACE, {"seconds": 20.0, "grace": 40})
    assert signals(running, 20, 50) == {15: 30.0, 9: 37.0}


def test_a_grace_that_must_have_begun_later_is_counted_from_the_word(running: AgentRig) -> None:
    running.sigterm()
    running.tick(8.0)
    running.send(frames.GRACE, {"seconds": 5.0, "grace": 5})
    assert signals(running, 8, 20) == {15: 8.0, 9: 10.0}


def test_a_hook_that_runs_before_sigterm_uses_the_same_seconds(running: AgentRig) -> None:
    running.send(frames.GRACE, {"seconds": 30.0})
    assert signals(running, 1, 20) == {}
    running.tick(25.0)
    running.sigterm()
    assert running.last() == ("TERMINATING", {"seconds": 4.0})
    assert signals(running, 25, 40) == {15: 25.0, 9: 27.0}


def test_what_is_told_is_kept_whatever_signal_comes_or_none(running: AgentRig) -> None:
    running.send(frames.GRACE, {"seconds": 30.0, "grace": 30})
    running.tick(20.0)
    assert running.of(Signal) == [Signal(ONE, 15)]
    assert running.last() == ("TERMINATING", {"seconds": 9.0})
    running.tick(21.0)
    running.sigterm()  # held up by a hook: it is the first, and hastens nothing
    assert running.of(Signal) == [Signal(ONE, 15)]
    assert signals(running, 21, 40) == {15: 21.0, 9: 27.0}


@pytest.mark.parametrize("has_session", [False, True])
def test_what_is_told_ends_sessions_and_only_sigterm_what_else_runs(has_session: bool) -> None:
    """Until it comes the kubelet runs a hook, which ends where PID 1 does."""
    rig = AgentRig()
    rig.hello()
    rig.agent.command_started()
    if has_session:
        rig.spawn()
    rig.send(frames.GRACE, {"seconds": 30.0, "grace": 30})
    rig.tick(20.0)
    assert rig.last() == ("TERMINATING", {"seconds": 9.0})
    if has_session:
        rig.end()
        rig.send(frames.EXIT_ACK, session=ONE)
    rig.tick(28.0)
    rig.send(frames.PING)
    rig.spawn(TWO)
    assert rig.last()[0] == "LOST"
    assert (rig.of(SignalCommand), rig.of(Leave)) == ([], [])

    rig.sigterm()

    assert (rig.of(SignalCommand), rig.of(Leave)) == ([SignalCommand(15)], [])
    rig.carry_out(rig.agent.command_ended())
    assert rig.of(Leave) == [Leave()]


def test_the_agent_of_a_worker_whose_pid_1_is_elsewhere_stays_until_it_is_ended(
    rig: AgentRig,
) -> None:
    """It hears of the deletion and gets no SIGTERM: once it left, it would be started again."""
    rig.hello()
    rig.send(frames.GRACE, {"seconds": 30.0, "grace": 30})
    surveys = 0
    for now in (20.0, 22.5, 27.0, 29.0, 40.0):
        rig.tick(now)
        rig.send(frames.PING)
        surveys = surveys or len(rig.of(Survey))
    assert rig.of(Leave) == []
    assert len(rig.of(Survey)) == surveys  # and looks for nothing meanwhile


def test_sessions_that_are_left_after_what_is_told_are_looked_for_until_sigterm(
    running: AgentRig,
) -> None:
    running.processes = 1
    running.send(frames.GRACE, {"seconds": 30.0, "grace": 30})
    assert signals(running, 1, 35) == {15: 20.0, 9: 27.0}
    assert running.of(Leave) == []
    running.sigterm()
    running.tick(35.0)
    assert running.of(Leave) == [Leave()]


def test_what_is_said_again_makes_it_no_longer(running: AgentRig) -> None:
    running.sigterm()
    running.send(frames.GRACE, {"seconds": 20.0})
    running.now = 1.0
    running.send(frames.GRACE, {"seconds": 60.0})
    assert signals(running, 1, 60) == {15: 10.0, 9: 17.0}


def test_nobody_tells_of_a_node_that_shuts_down_so_sessions_hear_it_early(
    running: AgentRig,
) -> None:
    running.sigterm()
    assert signals(running, 0, 60) == {15: 10.0, 9: 57.0}


def test_word_that_comes_after_that_may_hasten_the_end(running: AgentRig) -> None:
    running.sigterm()
    running.tick(20.0)
    running.send(frames.GRACE, {"seconds": 10.0})
    assert signals(running, 20, 60) == {15: 20.0, 9: 27.0}


@pytest.mark.parametrize("seconds", [None, "30", True, -1, float("inf")])
def test_a_grace_that_is_none_is_refused(running: AgentRig, seconds: Any) -> None:
    with pytest.raises(ProtocolError):
        running.send(frames.GRACE, {"seconds": seconds})


def test_ranks_are_told_what_the_broker_says_of_who_is_gone(running: AgentRig) -> None:
    running.tick(20.0)
    running.send(frames.BREAK, {"addresses": ["10.0.0.1", "fd00::1"], "before": 20.0})
    assert running.of(TellRanks) == [TellRanks(20.0, ["10.0.0.1", "fd00::1"])]


@pytest.mark.parametrize(
    "changes",
    [
        {"before": 20.5},
        {"before": -1.0},
        {"before": 20},
        {"before": None},
        {"addresses": None},
        {"addresses": "10.0.0.1"},
        {"addresses": ["10.0.0.1\n10.0.0.2"]},
        {"addresses": [1]},
        {"addresses": ["10.0.0.1"] * 8193},
    ],
)
def test_a_break_that_is_none_is_refused(running: AgentRig, changes: dict[str, Any]) -> None:
    running.tick(20.0)
    with pytest.raises(ProtocolError):
        running.send(frames.BREAK, {"addresses": ["10.0.0.1"], "before": 20.0, **changes})
    assert running.of(TellRanks) == []


def test_only_an_agent_that_can_tell_ranks_says_its_time(running: AgentRig) -> None:
    running.tick(20.0)
    for count, told in ((None, {}), (lambda: [1, 2, 3], {"ranks": [1, 2, 3], "clock": 20.0})):
        running.agent.count_ranks = count
        running.pongs.clear()
        running.send(frames.PING, {"sent": 1.5})
        assert running.pongs == [{"sent": 1.5, **told}]


def test_it_waits_until_the_last_exit_is_acknowledged(running: AgentRig) -> None:
    running.sigterm()
    running.end()
    assert running.of(Leave) == []
    running.send(frames.EXIT_ACK, session=ONE)
    assert running.of(Leave) == [Leave()]


def test_a_stream_that_is_cut_has_the_grace_to_come_back_for_an_exit(running: AgentRig) -> None:
    running.sigterm()
    running.carry_out(running.agent.disconnected(1))
    running.end()
    running.tick(40.0)
    assert running.of(Leave) == []
    running.hello(2)
    assert running.last(2)[1]["sessions"][0]["code"] == 134
    running.send(frames.EXIT_ACK, session=ONE, connection=2)
    assert running.of(Leave) == [Leave()]


@pytest.mark.parametrize("has_stream", [True, False])
def test_it_waits_no_longer_than_that(running: AgentRig, has_stream: bool) -> None:
    running.sigterm()
    running.end()
    if not has_stream:
        running.carry_out(running.agent.disconnected(1))
    for now in (20.0, 40.0, 58.9):
        running.now = now
        running.agent.receive(1, Frame(frames.PING, frames.NO_SESSION, 0, 0, b""), now)
        running.tick(now)
    assert running.of(Leave) == []
    running.tick(59.0)
    assert running.of(Leave) == [Leave()]


def test_it_waits_for_marked_processes(rig: AgentRig) -> None:
    rig.processes = 1
    rig.sigterm()
    assert rig.of(Leave) == []
    rig.processes = 0
    rig.tick(0.5)
    assert rig.of(Leave) == [Leave()]


def test_each_further_sigterm_goes_on_to_the_next_stage(running: AgentRig) -> None:
    running.sigterm()
    running.sigterm()
    assert running.of(Signal) == [Signal(ONE, 15)]
    assert running.agent.deadline() == pytest.approx(0.5)
    running.sigterm()
    assert running.of(Signal) == [Signal(ONE, 15), Signal(ONE, 9)]
    running.sigterm()
    running.tick(2.0)
    assert running.of(Leave) == [Leave()]


def test_a_second_sigterm_leaves_10_seconds_of_a_long_grace(running: AgentRig) -> None:
    running.now = 5.0
    running.sigterm()
    running.sigterm()
    running.tick(11.9)
    assert running.of(Signal) == [Signal(ONE, 15)]
    running.tick(12.0)
    assert running.of(Signal) == [Signal(ONE, 15), Signal(ONE, 9)]
    running.tick(14.0)
    assert running.of(Leave) == [Leave()]


def test_a_session_is_taken_until_the_others_are_terminated(running: AgentRig) -> None:
    running.sigterm()
    running.spawn(TWO)
    assert running.last()[0] == "SPAWNED"
    running.tick(29.0)
    running.send(frames.PING)
    running.tick(50.0)
    running.spawn(b"3" * 16)
    assert running.last() == ("LOST", {"reason": "the worker is being terminated", "code": 255})


def test_a_broker_that_comes_while_leaving_is_told_the_seconds_left(running: AgentRig) -> None:
    running.sigterm()
    running.now = 9.0
    running.hello(2)
    assert running.last(2)[1]["terminating"] == pytest.approx(50.0)


def test_the_containers_own_command_ends_after_the_sessions(running: AgentRig) -> None:
    running.agent.command_started()
    running.sigterm()
    running.end()
    assert running.of(SignalCommand) == [SignalCommand(15)]
    running.send(frames.EXIT_ACK, session=ONE)
    assert running.of(Leave) == []
    running.carry_out(running.agent.command_ended())
    assert running.of(Leave) == [Leave()]


def test_the_containers_own_command_has_what_is_left_of_the_grace(running: AgentRig) -> None:
    running.agent.command_started()
    running.sigterm()
    running.end()
    running.send(frames.EXIT_ACK, session=ONE)
    running.tick(30.0)
    running.send(frames.PING)
    running.tick(58.9)
    assert running.of(Leave) == []
    running.tick(59.0)
    assert running.of(Leave) == [Leave()]


def test_the_end_of_the_command_alone_ends_nothing(rig: AgentRig) -> None:
    rig.agent.command_started()
    rig.carry_out(rig.agent.command_ended())
    assert rig.done == []


@pytest.mark.parametrize("grace", [0, 1, 2, 5, 15])
def test_a_short_grace_is_kept(grace: float) -> None:
    rig = AgentRig(grace)
    rig.hello()
    rig.spawn()
    rig.sigterm()
    for now in range(int(grace) + 1):
        rig.tick(float(now))
    assert rig.of(Signal) == [Signal(ONE, 15), Signal(ONE, 9)]
    assert rig.of(Leave) == [Leave()]


def test_without_a_broker_sessions_live_for_ever(running: AgentRig) -> None:
    running.carry_out(running.agent.disconnected(1))
    assert running.agent.deadline() is None
    running.tick(1e9)
    assert running.of(Signal) == []


@pytest.mark.parametrize("hello", [{"epoch": 3, "launcher": "m"}, {"epoch": 2}])
def test_a_launcher_that_is_never_obeyed_is_told_so(
    running: AgentRig, hello: dict[str, Any]
) -> None:
    with pytest.raises(Fenced) as caught:
        running.hello(2, **hello)
    running.carry_out(running.agent.drop(2, str(caught.value), is_fenced=True))
    assert running.last(2) == ("REJECT", {"reason": str(caught.value), "fenced": True})


def test_a_connection_that_comes_late_is_refused_by_itself(running: AgentRig) -> None:
    running.hello(2, number=7)
    with pytest.raises(ProtocolError) as caught:
        running.hello(3, number=6)
    assert not isinstance(caught.value, Fenced)
