"""Which frame goes where, and what is said when one of the two is away."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from et_contract import frames
from et_contract.documents import Member, MemberState, SessionExit
from et_contract.frames import EXIT_GONE, EXIT_REFUSED, Frame, ProtocolError
from launcher.broker.bodies import KnownSession, read_opening
from launcher.broker.departures import GONE_SECONDS
from launcher.broker.hosts import HostList
from launcher.broker.orphans import LAST_SECONDS, TERM_SECONDS
from launcher.broker.relaying import (
    CLAIM_SECONDS,
    CROWDED,
    FULL,
    MOST_SESSIONS,
    RESUME_SECONDS,
    Relay,
)
from launcher.broker.sessions import Session
from launcher.broker.starts import KEPT, KEPT_STARTS, TOO_MANY, UNDER_WAY, Starts
from launcher.broker.windows import LEAST_WINDOW
from launcher.protocol.claims import Claim
from launcher.protocol.courses import LONGEST_OPENING as SHIMS_LONGEST
from launcher.protocol.signals import FROM_BROKER, FROM_SHIM, LAST_SIGNAL, Signals
from tests.counting import count_steps, find_peak

A = b"a" * 16
B = b"b" * 16
SHIM, OTHER = 1, 2


class FakeWire:
    """Remembers what was sent, as (name, session, body)."""

    def __init__(self) -> None:
        self.agent: list[tuple[str, bytes, Any]] = []
        self.peers: dict[int, list[tuple[str, bytes, Any]]] = {}
        self.ended: list[int] = []
        self.sharing: list[int] = []

    def to_agent(self, uid: str, data: bytes) -> None:
        self.agent += read(data)

    def to_peer(self, peer: int, data: bytes, sessions: int = 1) -> bool:
        self.peers.setdefault(peer, []).extend(read(data))
        self.sharing.append(sessions)
        return peer not in self.ended

    def hang_up(self, peer: int) -> None:
        self.ended.append(peer)

    def take_agent(self) -> list[tuple[str, bytes, Any]]:
        taken, self.agent = self.agent, []
        return taken

    def take_peer(self, peer: int) -> list[tuple[str, bytes, Any]]:
        return self.peers.pop(peer, [])


def read(data: bytes) -> Iterable[tuple[str, bytes, Any]]:
    decoder = frames.Decoder()
    decoder.feed(data)
    for frame in decoder:
        if frame.type in (frames.DATA, frames.ACK):
            yield frames.NAMES[frame.type], frame.session, (frame.flags, frame.offset)
        else:
            yield frames.NAMES[frame.type], frame.session, frames.decode_json(frame)


def make_frame(kind: int, session: bytes = A, **body: Any) -> Frame:
    decoder = frames.Decoder()
    decoder.feed(frames.encode_json(kind, body, session))
    return next(iter(decoder))


def make_data(size: int, offset: int = 0, session: bytes = A) -> Frame:
    return Frame(frames.DATA, session, frames.STDOUT, offset, b"x" * size)


def make_ack(offset: int) -> Frame:
    return Frame(frames.ACK, A, frames.STDOUT, offset, b"")


def make_dropped(start: int, end: object) -> Frame:
    return make_frame(frames.DROPPED, to=end)._replace(flags=frames.STDOUT, offset=start)


SPAWN = make_frame(frames.SPAWN, host="w-0", command="true", env={}, window=frames.WINDOW)
SPAWNED = make_frame(frames.SPAWNED, pid=1, instance="i")
RESUME = make_frame(frames.RESUME, host="w-0", instance="i", received=[7, 0])
EXIT = make_frame(frames.EXIT, code=0, produced=[0, 0], reason="exited")


def make_signal(signal: int, number: int = 1, session: bytes = A) -> Frame:
    return make_frame(frames.SIGNAL, session, signal=signal)._replace(offset=number)


def make_signaled(number: int = 1, session: bytes = A, sender: int = FROM_SHIM) -> Frame:
    return Frame(frames.SIGNALED, session, sender, number, b"")


OURS = make_signaled((1 << 32) + 1, sender=FROM_BROKER)
"""The first signal of a launcher's first broker was delivered."""
SIGTERM = make_signal(15)
LEAVING = "the worker is leaving and starts no process any more"
EXIT_ACK = Frame(frames.EXIT_ACK, A, 0, 0, b"")
RUNNING = [KnownSession(A, None)]
EXITED = [KnownSession(A, SessionExit(A.hex(), 0))]


def make_hosts(*members: Member) -> HostList:
    return HostList("job-uid", 1, members={member.uid: member for member in members})


def make_relay(*, bound: bool = True, attached: bool = True) -> tuple[Relay, FakeWire, list[str]]:
    wire = FakeWire()
    spawned: list[str] = []
    relay = Relay(
        wire,
        hosts=make_hosts(Member("w-0", "uid-0", 1, MemberState.ACTIVE, "main")),
        started_at=0.0,
        on_spawn=lambda uid, _: spawned.append(uid),
    )
    if bound:
        relay.bind(1)
    if attached:
        relay.attach("uid-0", [])
    return relay, wire, spawned


def take_away(relay: Relay) -> None:
    """The pod is gone, and who waits for it is told."""
    relay._hosts.departures.unlist("uid-0")
    relay._hosts.departures.follow([Member("w-0", "uid-0", 1, MemberState.GONE, "main")], 0.0)
    for uid in relay._hosts.departures.release(GONE_SECONDS):
        relay.release(uid)


def make_running() -> tuple[Relay, FakeWire]:
    relay, wire, _ = make_relay()
    relay.take_shim_frame(SHIM, SPAWN, 0.0)
    relay.take_agent_frame("uid-0", SPAWNED)
    wire.take_agent()
    wire.take_peer(SHIM)
    return relay, wire


def test_the_first_config_is_no_product_of_sessions_and_members() -> None:
    def measure(size: int) -> int:
        members = [Member(f"w-{n}", f"u{n}", 1, MemberState.ACTIVE, "main") for n in range(size)]
        relay = Relay(
            FakeWire(), hosts=make_hosts(*members), started_at=0.0, on_spawn=lambda _uid, _n: None
        )
        for n in range(size):
            session = (n + 1).to_bytes(16)
            host, window = f"w-{n}", frames.WINDOW
            spawn = make_frame(
                frames.SPAWN, session, host=host, command="true", env={}, window=window
            )
            relay.take_shim_frame(SHIM, spawn, 0.0)
        return count_steps(lambda: relay.bind(size))

    assert measure(160) < 2.5 * measure(80)


def test_a_session_from_spawn_to_its_end():
    relay, wire, spawned = make_relay()
    relay.take_shim_frame(SHIM, SPAWN, 0.0)
    body = {"host": "w-0", "command": "true", "env": {}, "window": frames.WINDOW}
    assert wire.take_agent() == [("SPAWN", A, body)]
    assert spawned == ["uid-0"]
    assert len(relay.find_running()) == 1
    for frame in (SPAWNED, make_data(3), EXIT):
        relay.take_agent_frame("uid-0", frame)
    assert [name for name, _, _ in wire.take_peer(SHIM)] == ["SPAWNED", "DATA", "EXIT"]
    assert len(relay.find_running()) == 0
    relay.take_shim_frame(SHIM, make_ack(3), 0.0)
    relay.take_shim_frame(SHIM, EXIT_ACK, 0.0)
    assert wire.take_agent() == [("ACK", A, (1, 3)), ("EXIT_ACK", A, {})]
    relay.lose_peer(SHIM, 1.0)
    assert relay.due() is None


def test_a_host_that_nobody_knows_is_refused():
    relay, wire, _ = make_relay()
    relay.take_shim_frame(SHIM, make_frame(frames.SPAWN, host="nobody", command="true"), 0.0)
    assert wire.take_peer(SHIM) == [
        ("LOST", A, {"reason": "no worker nobody in this job", "code": 255})
    ]
    assert wire.take_agent() == []


def test_before_the_config_is_read_a_session_waits_for_its_meaning():
    relay, wire, _ = make_relay(bound=False, attached=False)
    relay.take_shim_frame(SHIM, RESUME, 0.0)
    relay.take_shim_frame(
        OTHER, make_frame(frames.RESUME, B, host="x", instance="i", received=[0, 0]), 0.0
    )
    assert wire.peers == {}
    relay.bind(1)
    assert wire.take_peer(OTHER)[0][2]["code"] == 137
    relay.attach("uid-0", RUNNING)
    assert wire.take_agent()[0][0] == "RESUME"


def test_a_spawn_waits_for_the_stream_and_takes_its_signal_along():
    relay, wire, _ = make_relay(attached=False)
    relay.take_shim_frame(SHIM, SPAWN, 0.0)
    relay.take_shim_frame(SHIM, make_signal(10), 0.0)
    assert wire.take_agent() == []
    relay.attach("uid-0", [])
    assert [name for name, _, _ in wire.take_agent()] == ["SPAWN", "SIGNAL"]


def test_a_signal_that_ends_cancels_a_spawn_that_was_not_sent():
    relay, wire, spawned = make_relay(attached=False)
    relay.take_shim_frame(SHIM, SPAWN, 0.0)
    relay.take_shim_frame(SHIM, SIGTERM, 0.0)
    assert [(name, body["code"]) for name, _, body in wire.take_peer(SHIM)] == [("LOST", 143)]
    relay.attach("uid-0", [])
    assert (wire.take_agent(), spawned) == ([], [])


@pytest.mark.parametrize("bound", [True, False])
def test_a_spawn_that_is_said_when_it_is_to_end_already_is_not_started(bound: bool):
    relay, wire, spawned = make_relay(bound=bound, attached=bound)
    body = {"host": "w-0", "command": "true", "ending": 2}
    relay.take_shim_frame(SHIM, make_frame(frames.SPAWN, **body), 0.0)
    relay.bind(1)
    assert [(name, body["code"]) for name, _, body in wire.take_peer(SHIM)] == [("LOST", 130)]
    assert (wire.take_agent(), spawned) == ([], [])


def test_a_spawn_that_may_have_arrived_is_not_cancelled_before_the_agent_says_so():
    relay, wire, _ = make_relay(attached=False)
    body = {"host": "w-0", "command": "true", "again": True, "ending": 15}
    relay.take_shim_frame(SHIM, make_frame(frames.SPAWN, **body), 0.0)
    relay.take_shim_frame(SHIM, SIGTERM, 0.0)
    assert wire.peers == {}
    relay.attach("uid-0", [])
    assert [(name, body["code"]) for name, _, body in wire.take_peer(SHIM)] == [("LOST", 143)]
    relay.detach("uid-0")
    relay.take_shim_frame(OTHER, make_frame(frames.SPAWN, **body), 0.0)
    relay.take_shim_frame(OTHER, SIGTERM, 0.0)
    relay.attach("uid-0", RUNNING)
    assert wire.peers == {}
    assert [name for name, _, _ in wire.take_agent()] == ["SPAWN", "SIGNAL"]


def test_a_spawn_said_again_is_not_begun_where_the_stream_that_is_open_did_not_list_it():
    relay, wire, spawned = make_relay()
    body = {"host": "w-0", "command": "true", "again": True, "ending": 15}
    relay.take_shim_frame(SHIM, make_frame(frames.SPAWN, **body), 0.0)
    assert [(name, body["code"]) for name, _, body in wire.take_peer(SHIM)] == [("LOST", 143)]
    assert (wire.take_agent(), spawned) == ([], [])


def test_a_spawn_cut_on_its_way_is_cancelled_when_it_did_not_arrive():
    relay, wire, _ = make_relay()
    relay.take_shim_frame(SHIM, SPAWN, 0.0)
    relay.detach("uid-0")
    relay.take_shim_frame(SHIM, SIGTERM, 0.0)
    assert wire.peers == {}
    relay.attach("uid-0", [])
    assert [(name, body["code"]) for name, _, body in wire.take_peer(SHIM)] == [("LOST", 143)]
    assert [name for name, _, _ in wire.take_agent()] == ["SPAWN"]


def test_signals_are_delivered_once_and_in_order_however_often_the_stream_is_cut():
    relay, wire = make_running()
    relay.take_shim_frame(SHIM, make_signal(2, 1), 0.0)
    relay.take_agent_frame("uid-0", make_signaled(1))
    relay.detach("uid-0")
    for number, signal in ((2, 10), (3, 15), (4, 9)):
        relay.take_shim_frame(SHIM, make_signal(signal, number), 0.0)
    wire.take_agent()
    for _ in range(2):
        relay.attach("uid-0", RUNNING)
        assert [body.get("signal") for _, _, body in wire.take_agent()] == [None, 10, 15, 9]
    relay.take_agent_frame("uid-0", make_signaled(3))
    relay.attach("uid-0", RUNNING)
    assert [body.get("signal") for _, _, body in wire.take_agent()] == [None, 9]
    assert [name for name, _, _ in wire.take_peer(SHIM)] == ["SIGNALED", "SIGNALED"]


def test_whatever_a_shim_sends_while_the_stream_is_cut_the_broker_takes():
    shim = Signals(A)
    for signal in [10] * 200 + list(range(1, LAST_SIGNAL + 1)) * 2:
        shim.add(signal)
    relay, wire = make_running()
    relay.detach("uid-0")
    decoder = frames.Decoder()
    decoder.feed(shim.encode())
    for frame in decoder:
        relay.take_shim_frame(SHIM, frame, 0.0)
    wire.take_agent()
    relay.attach("uid-0", RUNNING)
    sent = [body["signal"] for name, _, body in wire.take_agent() if name == "SIGNAL"]
    assert set(sent) == set(range(1, LAST_SIGNAL + 1))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_shim_that_counts_its_signals_backwards_is_told(number: int):
    relay, _ = make_running()
    relay.take_shim_frame(SHIM, make_signal(10, 2), 0.0)
    with pytest.raises(ProtocolError):
        relay.take_shim_frame(SHIM, make_signal(10, number), 0.0)


def test_whoever_comes_back_for_what_a_gone_pod_ran_is_told():
    relay, wire, _ = make_relay(attached=False)
    take_away(relay)
    relay.take_shim_frame(SHIM, RESUME, 0.0)
    assert wire.take_peer(SHIM) == [
        ("LOST", A, {"reason": "the worker's pod is gone", "code": 137})
    ]
    relay.take_shim_frame(OTHER, SPAWN, 0.0)
    assert wire.take_peer(OTHER) == [
        ("LOST", A, {"reason": "the worker's pod is gone", "code": 255})
    ]


def test_an_agent_is_not_believed_about_the_session_of_another():
    members = [Member(n, f"uid-{n}", 1, MemberState.ACTIVE, "main") for n in ("w-0", "w-1")]
    relay = Relay(
        FakeWire(),
        hosts=make_hosts(*members),
        started_at=0.0,
        on_spawn=lambda *_: None,
    )
    relay.bind(2)
    relay.attach("uid-w-0", [])
    relay.attach("uid-w-1", [])
    relay.take_shim_frame(SHIM, SPAWN, 0.0)
    relay.attach("uid-w-1", EXITED)
    assert [session.uid for session in relay.find_running()] == ["uid-w-0"]


KEYS = [bytes([n]) * 16 for n in range(1, 10)]


def start_large(relay: Relay, count: int) -> None:
    """So many sessions, each of a connection of its own, of which four may be under way."""
    body = {"host": "w-0", "command": "x" * (UNDER_WAY // 4 - 1000)}
    for peer, key in enumerate(KEYS[:count], 1):
        relay.take_shim_frame(peer, make_frame(frames.SPAWN, key, **body), 0.0)


def test_an_agent_is_sent_no_more_starts_than_may_wait_for_it():
    relay, wire, spawned = make_relay(attached=False)
    start_large(relay, 9)
    relay.attach("uid-0", [])
    assert [key for _, key, _ in wire.take_agent()] == KEYS[:4]
    relay.take_agent_frame("uid-0", make_frame(frames.SPAWNED, KEYS[1], pid=1, instance="i"))
    assert [key for _, key, _ in wire.take_agent()] == KEYS[4:5]
    relay.take_shim_frame(6, make_signal(15, 1, KEYS[5]), 0.0)
    assert [(name, body["code"]) for name, _, body in wire.take_peer(6)] == [("LOST", 143)]
    relay.lose_peer(7, 0.0)
    relay.take_agent_frame("uid-0", make_frame(frames.LOST, KEYS[0], reason="no", code=255))
    relay.take_agent_frame("uid-0", make_frame(frames.EXIT, KEYS[2], code=255, produced=[0, 0]))
    assert [key for _, key, _ in wire.take_agent()] == KEYS[7:]
    assert len(spawned) == 7


def test_a_pod_that_is_gone_ends_the_starts_that_wait_for_it_once():
    relay, wire, _ = make_relay()
    start_large(relay, 6)
    take_away(relay)
    codes = [[body["code"] for _, _, body in wire.take_peer(peer)] for peer in range(1, 7)]
    assert codes == [[137]] * 4 + [[255]] * 2


def test_starts_that_waited_when_the_stream_was_cut_are_sent_on_the_next():
    relay, wire, _ = make_relay()
    start_large(relay, 5)
    relay.detach("uid-0")
    wire.take_agent()
    relay.attach("uid-0", [KnownSession(KEYS[0], None)])
    assert [key for _, key, _ in wire.take_agent()] == KEYS[:4]
    relay.take_agent_frame("uid-0", make_frame(frames.SPAWNED, KEYS[0], pid=1, instance="i"))
    assert [key for _, key, _ in wire.take_agent()] == KEYS[4:5]


def test_who_asks_for_what_was_never_started_holds_up_no_other_start():
    relay, wire, _ = make_relay()
    start_large(relay, 7)
    relay.take_shim_frame(5, RESUME._replace(session=KEYS[4]), 0.0)
    names = [(name, key) for name, key, _ in wire.take_agent()]
    assert names == [*(("SPAWN", key) for key in KEYS[:4]), ("RESUME", KEYS[4])]
    for key in KEYS[:4]:
        relay.take_agent_frame("uid-0", SPAWNED._replace(session=key))
    relay.take_agent_frame("uid-0", make_frame(frames.LOST, KEYS[4], reason="?", code=137))
    assert [(name, key) for name, key, _ in wire.take_agent()] == [
        ("SPAWN", key) for key in KEYS[5:7]
    ]


def test_a_start_that_was_sent_counts_until_it_is_answered_whatever_its_shim_asks():
    relay, wire, _ = make_relay()
    start_large(relay, 5)
    relay.take_shim_frame(1, RESUME._replace(session=KEYS[0]), 0.0)
    assert KEYS[4] not in [key for _, key, _ in wire.take_agent()]
    relay.take_agent_frame("uid-0", SPAWNED._replace(session=KEYS[0]))
    assert [key for _, key, _ in wire.take_agent()] == KEYS[4:5]


def test_a_shim_that_leaves_before_its_spawn_was_sent_leaves_nothing():
    relay, wire, _ = make_relay(attached=False)
    relay.take_shim_frame(SHIM, SPAWN, 0.0)
    relay.lose_peer(SHIM, 0.0)
    assert relay.due() is None
    relay.attach("uid-0", [])
    assert wire.take_agent() == []


def test_a_spawn_lost_in_a_cut_whose_shim_has_died_is_forgotten():
    relay, wire, _ = make_relay()
    relay.take_shim_frame(SHIM, SPAWN, 0.0)
    relay.detach("uid-0")
    relay.lose_peer(SHIM, 0.0)
    wire.take_agent()
    relay.attach("uid-0", [])
    relay.advance(99.0)
    assert wire.take_agent() == []
    assert len(relay.find_running()) == 0


def test_after_a_cut_the_session_is_resumed_from_what_was_acknowledged():
    relay, wire = make_running()
    relay.take_agent_frame("uid-0", make_data(100))
    relay.take_shim_frame(SHIM, make_ack(40), 0.0)
    relay.take_shim_frame(SHIM, SIGTERM, 0.0)
    relay.detach("uid-0")
    relay.take_shim_frame(SHIM, make_ack(60), 0.0)
    wire.take_agent()
    relay.attach("uid-0", RUNNING)
    (name, _, body), signal = wire.take_agent()
    assert (name, body["received"], body["instance"]) == ("RESUME", [60, 0], "i")
    assert signal == ("SIGNAL", A, {"signal": 15})


def test_after_a_cut_an_unanswered_spawn_is_said_again():
    relay, wire, spawned = make_relay()
    relay.take_shim_frame(SHIM, SPAWN, 0.0)
    relay.detach("uid-0")
    relay.attach("uid-0", [])
    assert [name for name, _, _ in wire.take_agent()] == ["SPAWN", "SPAWN"]
    assert spawned == ["uid-0", "uid-0"]


def test_a_second_connection_takes_the_session_over():
    relay, wire = make_running()
    relay.take_shim_frame(OTHER, RESUME, 0.0)
    assert wire.ended == [SHIM]
    relay.lose_peer(SHIM, 0.0)
    assert relay.due() is None
    relay.take_agent_frame("uid-0", EXIT)
    assert wire.take_peer(OTHER)[0][0] == "EXIT"
    assert wire.take_peer(SHIM) == []


def test_a_shim_that_died_has_its_process_ended():
    relay, wire = make_running()
    relay.lose_peer(SHIM, 10.0)
    assert relay.due() == 10.0 + RESUME_SECONDS
    relay.advance(14.9)
    assert wire.take_agent() == []
    relay.advance(15.0)
    assert wire.take_agent() == [("SIGNAL", A, {"signal": 15})]
    relay.take_agent_frame("uid-0", make_data(10))
    assert wire.take_agent() == [("ACK", A, (1, 10))]
    relay.advance(99.0)
    assert relay.due() is None, "TERM may not have been delivered yet"
    relay.take_agent_frame("uid-0", OURS)
    relay.advance(100.0)
    assert relay.due() == 100.0 + TERM_SECONDS
    wire.take_agent()
    relay.advance(130.0)
    assert wire.take_agent() == [("SIGNAL", A, {"signal": 9})]
    assert relay.due() is None
    relay.take_agent_frame("uid-0", EXIT)
    assert wire.take_agent() == [("EXIT_ACK", A, {})]


def test_a_process_that_its_shim_has_told_to_end_is_not_told_again():
    relay, wire = make_running()
    relay.take_shim_frame(SHIM, SIGTERM, 0.0)
    relay.take_agent_frame("uid-0", make_signaled())
    relay.lose_peer(SHIM, 10.0)
    wire.take_agent()
    relay.advance(15.0)
    assert wire.take_agent() == []
    assert relay.due() == 15.0 + TERM_SECONDS
    relay.advance(15.0 + TERM_SECONDS)
    assert wire.take_agent() == [("SIGNAL", A, {"signal": 9})]


def test_a_shim_that_comes_back_in_time_saves_its_process():
    relay, wire = make_running()
    relay.lose_peer(SHIM, 10.0)
    relay.take_agent_frame("uid-0", make_data(10))
    assert wire.take_agent() == []
    relay.take_shim_frame(OTHER, RESUME, 0.0)
    assert relay.due() is None
    assert [name for name, _, _ in wire.take_agent()] == ["RESUME"]


def test_an_end_during_a_cut_of_a_session_that_was_given_up_is_acknowledged():
    relay, wire = make_running()
    relay.lose_peer(SHIM, 10.0)
    relay.advance(15.0)
    relay.advance(45.0)
    relay.detach("uid-0")
    wire.take_agent()
    relay.attach("uid-0", EXITED)
    assert wire.take_agent() == [("EXIT_ACK", A, {})]


def test_when_the_users_command_has_ended_nobody_is_waited_for():
    relay, wire = make_running()
    relay.take_shim_frame(OTHER, make_frame(frames.SPAWN, B, host="w-0", command="true"), 0.0)
    relay.lose_peer(OTHER, 9.0)
    wire.take_agent()
    relay.end_all(10.0)
    relay.advance(10.0)
    assert sorted(wire.take_agent()) == [
        ("SIGNAL", A, {"signal": 15}),
        ("SIGNAL", B, {"signal": 15}),
    ]
    relay.take_agent_frame("uid-0", EXIT)
    assert wire.take_agent() == [("EXIT_ACK", A, {})]
    relay.take_agent_frame("uid-0", OURS._replace(session=B))
    relay.advance(10.0)
    relay.end_all(11.0)
    assert relay.due() == 10.0 + LAST_SECONDS
    relay.advance(10.0 + LAST_SECONDS)
    assert wire.take_agent() == [("SIGNAL", B, {"signal": 9})]
    assert len(relay.find_running()) == 1


def test_an_end_that_its_shim_did_not_wait_for_is_acknowledged_by_us():
    relay, wire = make_running()
    relay.lose_peer(SHIM, 10.0)
    relay.take_agent_frame("uid-0", EXIT)
    assert wire.take_agent() == []
    relay.advance(15.0)
    assert wire.take_agent() == [("EXIT_ACK", A, {})]
    assert relay.due() is None


def test_after_our_restart_shims_have_half_a_minute():
    relay, wire, _ = make_relay(attached=False)
    relay.attach("uid-0", [*RUNNING, KnownSession(B, SessionExit(B.hex(), 1))])
    assert relay.due() == CLAIM_SECONDS
    relay.advance(29.0)
    assert wire.take_agent() == []
    relay.advance(30.0)
    assert wire.take_agent() == [("SIGNAL", A, {"signal": 15}), ("EXIT_ACK", B, {})]
    relay.detach("uid-0")
    relay.attach("uid-0", RUNNING)
    assert wire.take_agent() == [("SIGNAL", A, {"signal": 15})]
    relay.take_agent_frame("uid-0", OURS)
    relay.advance(30.0)
    relay.advance(60.0)
    assert wire.take_agent() == [("SIGNAL", A, {"signal": 9})]


def test_an_exit_ack_lost_in_a_cut_is_said_again():
    relay, wire = make_running()
    relay.take_agent_frame("uid-0", EXIT)
    relay.detach("uid-0")
    relay.take_shim_frame(SHIM, EXIT_ACK, 0.0)
    relay.attach("uid-0", EXITED)
    relay.advance(CLAIM_SECONDS)
    assert wire.take_agent() == [("EXIT_ACK", A, {})]


def test_a_pod_that_is_gone_ends_what_ran_there_and_refuses_what_did_not():
    relay, wire = make_running()
    relay.detach("uid-0")
    relay.take_shim_frame(OTHER, make_frame(frames.SPAWN, B, host="w-0", command="true"), 0.0)
    take_away(relay)
    assert wire.take_peer(SHIM) == [
        ("LOST", A, {"reason": "the worker's pod is gone", "code": 137})
    ]
    assert wire.take_peer(OTHER) == [
        ("LOST", B, {"reason": "the worker's pod is gone", "code": 255})
    ]
    relay.take_shim_frame(3, make_frame(frames.SPAWN, B, host="w-0", command="true"), 0.0)
    assert wire.take_peer(3)[0][2]["code"] == 255


def test_a_closed_pod_refuses_new_sessions_and_finishes_old_ones():
    relay, wire = make_running()
    relay._hosts.departures.unlist("uid-0")
    relay._hosts.departures.close("uid-0")
    relay.take_shim_frame(OTHER, make_frame(frames.SPAWN, B, host="w-0", command="true"), 0.0)
    assert wire.take_peer(OTHER) == [("LOST", B, {"reason": LEAVING, "code": 255})]
    relay.take_agent_frame("uid-0", EXIT)
    assert wire.take_peer(SHIM)[0][0] == "EXIT"


def flood(relay: Relay, start: int, end: int) -> None:
    for offset in range(start, end, frames.MAX_DATA):
        relay.take_agent_frame("uid-0", make_data(frames.MAX_DATA, offset))


def test_an_agent_that_sends_more_than_any_window_is_dropped():
    relay, _ = make_running()
    flood(relay, 0, frames.WINDOW)
    with pytest.raises(ProtocolError, match="ahead of what was acknowledged"):
        relay.take_agent_frame("uid-0", make_data(1, frames.WINDOW))


def test_after_a_loss_the_window_begins_where_the_loss_ended():
    relay, wire = make_running()
    relay.take_agent_frame("uid-0", make_dropped(0, 1_800_000))
    flood(relay, 1_800_000, 1_800_000 + frames.WINDOW)
    assert [name for name, _, _ in wire.take_peer(SHIM)] == ["DROPPED"] + ["DATA"] * 8
    with pytest.raises(ProtocolError):
        relay.take_agent_frame("uid-0", make_data(1, 1_800_000 + frames.WINDOW))


@pytest.mark.parametrize("end", [None, "9", -1, 2**64])
def test_a_loss_without_its_end_drops_the_stream(end: object):
    relay, _ = make_running()
    with pytest.raises(ProtocolError):
        relay.take_agent_frame("uid-0", make_dropped(0, end))


def test_what_came_before_a_session_was_given_up_is_acknowledged_then():
    relay, wire = make_running()
    relay.take_agent_frame("uid-0", make_data(frames.MAX_DATA))
    relay.take_agent_frame("uid-0", make_data(frames.MAX_DATA, frames.MAX_DATA))
    relay.take_agent_frame("uid-0", make_dropped(2 * frames.MAX_DATA, 3 * frames.MAX_DATA))
    relay.lose_peer(SHIM, 10.0)
    relay.take_agent_frame("uid-0", make_data(5, 3 * frames.MAX_DATA))
    wire.take_agent()
    relay.advance(10.0 + RESUME_SECONDS)
    assert wire.take_agent() == [
        ("ACK", A, (frames.STDOUT, 3 * frames.MAX_DATA + 5)),
        ("SIGNAL", A, {"signal": 15}),
    ]


def test_a_given_up_session_does_not_wait_for_a_reader_after_a_cut():
    relay, wire = make_running()
    relay.lose_peer(SHIM, 10.0)
    relay.advance(10.0 + RESUME_SECONDS)
    relay.detach("uid-0")
    wire.take_agent()
    relay.attach("uid-0", RUNNING)
    relay.take_agent_frame("uid-0", make_dropped(0, 70))
    assert wire.take_agent() == [("SIGNAL", A, {"signal": 15}), ("ACK", A, (frames.STDOUT, 70))]


def test_after_a_cut_a_slow_shim_is_sent_nothing_twice():
    relay, wire = make_running()
    relay.take_agent_frame("uid-0", make_data(100))
    relay.detach("uid-0")
    relay.attach("uid-0", RUNNING)
    wire.take_peer(SHIM)
    relay.take_agent_frame("uid-0", make_data(60))
    relay.take_agent_frame("uid-0", make_data(90, 60))
    assert wire.take_peer(SHIM) == [("DATA", A, (frames.STDOUT, 60))]
    relay.take_shim_frame(OTHER, RESUME, 0.0)
    relay.take_agent_frame("uid-0", make_data(100, 7))
    assert wire.take_peer(OTHER) == [("DATA", A, (frames.STDOUT, 7))]


def test_what_was_under_way_to_a_lost_connection_leaves_no_gap_on_the_next():
    relay, wire = make_running()
    relay.lose_peer(SHIM, 0.0)
    relay.take_agent_frame("uid-0", make_data(100))
    relay.take_shim_frame(OTHER, RESUME, 0.0)
    relay.take_agent_frame("uid-0", make_data(50, 100))
    assert wire.take_peer(OTHER) == []
    relay.take_agent_frame("uid-0", make_data(143, 7))
    assert wire.take_peer(OTHER) == [("DATA", A, (frames.STDOUT, 7))]


def test_beginnings_take_half_of_the_pool():
    relay, wire, _ = make_relay()
    relay.bind(512)
    relay.take_shim_frame(SHIM, SPAWN, 0.0)
    assert wire.take_agent()[0][2]["window"] == 64 * 1024
    relay.bind(100_000)
    relay.take_shim_frame(OTHER, make_frame(frames.SPAWN, B, host="w-0", command="true"), 0.0)
    assert wire.take_agent()[0][2]["window"] == LEAST_WINDOW


@pytest.mark.parametrize("is_cut", [False, True])
def test_how_long_the_way_is_counts_for_its_stream_alone(is_cut: bool):
    relay, wire, _ = make_relay()
    body = {"host": "w-0", "command": "true", "window": frames.MOST_WINDOW}
    relay.take_shim_frame(SHIM, make_frame(frames.SPAWN, **body), 0.0)
    relay.take_agent_frame("uid-0", SPAWNED)
    relay.note_round_trip("uid-0", 0.04)
    if is_cut:
        relay.detach("uid-0")
        relay.attach("uid-0", RUNNING)
    wire.take_agent()
    for offset in range(0, frames.WINDOW, frames.MAX_DATA):
        relay.take_agent_frame("uid-0", make_data(frames.MAX_DATA, offset))
    relay.take_shim_frame(SHIM, make_ack(frames.WINDOW), 0.04)
    is_widened = [name for name, _, _ in wire.take_agent()] == ["ACK", "ACK"]
    assert is_widened is not is_cut


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(make_frame(frames.SPAWN, host="w-0"), id="no command"),
        pytest.param(make_frame(frames.SPAWN, command="true"), id="no host"),
        pytest.param(
            make_frame(frames.SPAWN, frames.NO_SESSION, host="h", command="c"), id="no id"
        ),
        pytest.param(make_frame(frames.RESUME, host="w-0", instance="i"), id="no counts"),
        pytest.param(make_frame(frames.RESUME, host="w-0", received=[0, 0]), id="no instance"),
        pytest.param(make_frame(frames.SIGNAL, signal="9"), id="no signal"),
        pytest.param(make_frame(frames.SIGNAL, signal=9), id="no number"),
        pytest.param(make_frame(frames.CLOSED), id="not a shim's"),
    ],
)
def test_a_shim_that_breaks_a_rule_is_told(frame: Frame):
    relay, _ = make_running()
    with pytest.raises(ProtocolError):
        relay.take_shim_frame(SHIM, frame, 0.0)


def test_frames_of_sessions_that_are_over_are_ignored():
    relay, wire = make_running()
    relay.take_agent_frame("uid-0", EXIT)
    relay.take_shim_frame(SHIM, EXIT_ACK, 0.0)
    wire.take_agent()
    wire.take_peer(SHIM)
    relay.take_shim_frame(SHIM, make_ack(1), 0.0)
    relay.take_agent_frame("uid-0", make_data(1))
    relay.take_agent_frame("another", EXIT)
    assert wire.take_agent() == []
    assert wire.take_peer(SHIM) == []


SPAWN_B = make_frame(frames.SPAWN, B, host="w-0", command="false", window=frames.WINDOW)


def make_sharing() -> tuple[Relay, FakeWire]:
    """Two sessions of one connection."""
    relay, wire = make_running()
    relay.take_shim_frame(SHIM, SPAWN_B, 0.0)
    relay.take_agent_frame("uid-0", make_frame(frames.SPAWNED, B, pid=2, instance="i"))
    wire.take_agent()
    wire.take_peer(SHIM)
    return relay, wire


def test_a_connection_may_hold_many_sessions_and_each_ends_for_itself():
    relay, wire = make_sharing()
    relay.take_agent_frame("uid-0", make_data(3))
    relay.take_agent_frame("uid-0", make_data(5, session=B))
    assert [session for _, session, _ in wire.take_peer(SHIM)] == [A, B]
    assert wire.sharing[-2:] == [2, 2]  # twice as much may wait for it
    relay.take_agent_frame("uid-0", EXIT)
    relay.take_shim_frame(SHIM, EXIT_ACK, 0.0)
    relay.take_shim_frame(SHIM, make_signal(2, session=B), 0.0)
    assert [name for name, _, _ in wire.take_agent()] == ["EXIT_ACK", "SIGNAL"]
    relay.lose_peer(SHIM, 1.0)
    assert relay.due() == 1.0 + RESUME_SECONDS
    relay.advance(1.0 + RESUME_SECONDS)
    assert wire.take_agent() == [("ACK", B, (1, 5)), ("SIGNAL", B, {"signal": 15})]


def test_a_connection_that_is_lost_leaves_all_its_sessions_to_come_back_for():
    relay, wire = make_sharing()
    relay.lose_peer(SHIM, 1.0)
    relay.take_shim_frame(OTHER, RESUME, 0.0)
    relay.take_shim_frame(OTHER, RESUME._replace(session=B), 0.0)
    assert relay.due() is None
    wire.take_agent()
    relay.take_agent_frame("uid-0", make_data(8, 7, session=B))
    assert wire.take_peer(OTHER) == [("DATA", B, (1, 7))]


def test_one_that_comes_back_before_its_end_was_seen_takes_its_sessions_along():
    relay, wire = make_sharing()
    relay.take_shim_frame(OTHER, RESUME, 0.0)
    assert wire.ended == [SHIM]
    relay.take_shim_frame(OTHER, RESUME._replace(session=B), 0.0)
    relay.lose_peer(SHIM, 1.0)
    assert relay.due() is None
    wire.take_agent()
    relay.take_shim_frame(OTHER, make_signal(15, session=B), 0.0)
    assert wire.take_agent() == [("SIGNAL", B, {"signal": 15})]


def test_nobody_speaks_for_the_session_of_another_connection():
    relay, _ = make_running()
    with pytest.raises(ProtocolError):
        relay.take_shim_frame(OTHER, SIGTERM, 0.0)


def test_a_shim_that_is_stopped_is_waited_for_until_its_command_has_ended():
    relay, wire, _ = make_relay(attached=False)
    held = {A, B}
    relay = Relay(
        wire,
        hosts=make_hosts(),
        started_at=0.0,
        on_spawn=lambda *_: None,
        is_held=held.__contains__,
    )
    relay.bind(1)
    relay.attach("uid-0", [*RUNNING, KnownSession(B, SessionExit(B.hex(), 1))])
    for now in range(0, 3600, 5):
        relay.advance(float(now))
    assert wire.take_agent() == []
    held.discard(B)
    relay.advance(3600.0)
    assert wire.take_agent() == [("EXIT_ACK", B, {})]
    relay.end_all(3601.0)
    relay.advance(3601.0)
    assert wire.take_agent() == [("SIGNAL", A, {"signal": 15})]


def make_session(number: int, size: int) -> Session:
    return Session(number.to_bytes(16, "big"), "w-0", size=size)


def test_what_waits_to_be_started_is_bounded() -> None:
    starts = Starts()
    first = make_session(0, KEPT // 2)
    assert starts.keep(first)
    assert starts.keep(first), "which is sent again"
    assert starts.keep(make_session(1, KEPT // 2))
    assert not starts.keep(make_session(2, 1))
    starts.finish(first)
    starts.finish(first)
    assert not starts.keep(make_session(2, KEPT // 2 + 1)), "an end that is told twice is one"
    assert starts.keep(make_session(2, KEPT // 2))


def test_what_is_kept_of_what_waits_is_no_larger_than_it_is_counted() -> None:
    relay, _, _ = make_relay(attached=False)
    env = {f"{number:x}": "" for number in range(10_000)}
    spawn = make_frame(frames.SPAWN, host="w-0", command="true", env=env)
    keys = [number.to_bytes(16, "big") for number in range(1, 51)]

    def keep() -> None:
        for key in keys:
            relay.take_shim_frame(SHIM, spawn._replace(session=key), 0.0)

    counted = len(keys) * len(spawn.payload)
    assert find_peak(keep) < 2 * counted
    assert relay._starts._bytes <= counted


@pytest.mark.long
def test_who_starts_too_many_is_told() -> None:
    relay, wire, _ = make_relay(bound=False, attached=False)
    for number in range(1, KEPT_STARTS + 2):
        assert wire.take_peer(SHIM) == []
        session = number.to_bytes(16, "big")
        relay.take_shim_frame(SHIM, SPAWN._replace(session=session), 0.0)
    [(name, session, body)] = wire.take_peer(SHIM)
    assert (name, session) == ("LOST", (KEPT_STARTS + 1).to_bytes(16, "big"))
    assert body == {"code": EXIT_REFUSED, "reason": TOO_MANY}


def test_of_a_host_no_more_is_kept_than_any_name_has_until_the_config_is_read() -> None:
    relay, wire, _ = make_relay(bound=False, attached=False)
    host = "\U0001f600" * 2**12
    resume = make_frame(frames.RESUME, host=host, instance="i", received=[0, 0])
    for opening in (resume, make_frame(frames.SPAWN, B, host=host, command="true")):
        relay.take_shim_frame(SHIM, opening, 0.0)
    relay.bind(1)
    lost = wire.take_peer(SHIM)
    assert [body["code"] for _, _, body in lost] == [EXIT_GONE, EXIT_REFUSED]
    assert all(len(body["reason"]) < 1024 for _, _, body in lost), "and a shim takes it"


def test_what_is_lost_is_told_on_a_connection_that_others_share() -> None:
    relay, wire, _ = make_relay()
    for key in (A, B):
        relay.take_shim_frame(SHIM, SPAWN._replace(session=key), 0.0)
    wire.sharing.clear()
    take_away(relay)
    assert wire.sharing == [2, 1]


@pytest.mark.long
def test_more_sessions_than_any_job_has_take_no_room() -> None:
    """A RESUME costs its shim nothing, and would be kept until its worker is reached."""
    relay, wire, _ = make_relay(attached=False)
    known = [KnownSession(n.to_bytes(16, "big"), None) for n in range(1, MOST_SESSIONS + 9)]
    relay.attach("uid-0", known)
    assert len(relay.find_running()) == MOST_SESSIONS
    for opening, code in ((RESUME, EXIT_GONE), (SPAWN, EXIT_REFUSED)):
        relay.take_shim_frame(SHIM, opening._replace(session=B), 0.0)
        assert wire.take_peer(SHIM) == [("LOST", B, {"code": code, "reason": FULL})]
    relay.attach("uid-0", [])
    relay.take_shim_frame(SHIM, SPAWN._replace(session=B), 0.0)
    assert wire.take_peer(SHIM) == []


def test_one_worker_has_no_more_sessions_than_its_welcome_has_room_for() -> None:
    relay, wire, _ = make_relay(attached=False)
    keys = [number.to_bytes(16, "big") for number in range(1, frames.WORKER_SESSIONS + 1)]
    relay.attach("uid-0", [KnownSession(key, None) for key in keys])
    relay.take_shim_frame(SHIM, SPAWN._replace(session=B), 0.0)
    assert wire.take_peer(SHIM) == [("LOST", B, {"code": EXIT_REFUSED, "reason": CROWDED})]
    relay.take_shim_frame(SHIM, SPAWN._replace(session=keys[0]), 0.0)
    relay.take_shim_frame(SHIM, RESUME._replace(session=keys[1]), 0.0)
    relay.take_agent_frame("uid-0", EXIT._replace(session=keys[0]))
    relay.take_shim_frame(SHIM, EXIT_ACK._replace(session=keys[0]), 0.0)
    relay.take_shim_frame(SHIM, SPAWN._replace(session=B), 0.0)
    assert [name for name, _, _ in wire.take_peer(SHIM)] == ["EXIT"]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (frames.SPAWN, '{"host":"w-0","command":"%s"}' % ("\u00e9" * 300_000)),
        (frames.SPAWN, '{"host":"w-0","command":"c","env":[%s0]}' % ("9e9," * 200_000)),
        (
            frames.RESUME,
            '{"host":"w-0","instance":"%s","received":[0,0]}' % ("\u00e9" * 1000),
        ),
    ],
    ids=["escapes", "numbers", "instance"],
)
def test_what_would_be_too_long_in_our_words_is_refused(kind: int, body: str):
    with pytest.raises(ProtocolError):
        read_opening(Frame(kind, A, 0, 0, body.encode()))


def test_what_a_shim_may_say_at_most_fits_when_it_is_said_again():
    claim = Claim(session=A, host="w-0", command="")
    claim.command = "x" * (SHIMS_LONGEST - len(claim.opening()))
    assert len(claim.opening()) == SHIMS_LONGEST
    claim.is_said = True
    claim.signal(15)
    decoder = frames.Decoder()
    decoder.feed(claim.opening())
    [spawn, _signal] = decoder
    body = {**read_opening(spawn), "window": frames.MOST_WINDOW}
    decoder.feed(frames.encode_json(frames.SPAWN, body, A))
    assert [frame.type for frame in decoder] == [frames.SPAWN]
