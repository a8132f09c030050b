"""The whole broker without its sockets: a job's life in virtual time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from et_contract import frames
from et_contract.documents import (
    HostConfig,
    Member,
    MemberState,
    Report,
    ScriptOrder,
    SessionExit,
    ToldNotice,
)
from et_contract.frames import Frame, ProtocolError
from et_contract.tails import LastLines
from launcher.broker.bodies import KnownSession, Welcome
from launcher.broker.brokering import Broker
from launcher.broker.facts import EXITS_KEPT
from launcher.broker.hosts import Verdict
from launcher.broker.idling import Idleness
from launcher.broker.memories import Identity, Memory
from tests.counting import count_steps

ACTIVE, DRAINING, GONE = MemberState.ACTIVE, MemberState.DRAINING, MemberState.GONE
PID1, SHIM, DISCOVER = 1, 2, 3
A = b"a" * 16
NOBODY = Welcome("i", is_closed=False, is_terminating=False, sessions=())
IDENTITY = Identity("job", "ns", "job-uid", 1, "launcher-uid")
ORDER = ScriptOrder("uid/1", "echo hi", "job-worker-0:1", (("K", "v"),), 60)


class BrokerRig:
    """A broker, its surroundings, and a clock that only tests move."""

    def __init__(self, memory: Memory | None = None) -> None:
        self.now = 100.0
        self.agents: list[tuple[str, str]] = []
        self.peers: list[tuple[int, str, Any]] = []
        self.ended: list[int] = []
        self.text: str | None = None
        self.kept: Memory | None = None
        self.is_kept = True
        fresh = Memory(Report(epoch=1, launcher_uid="launcher-uid", broker_start=1))
        self.broker = Broker(IDENTITY, memory or fresh, wire=self, shelf=self, now=self.now)
        self.members: dict[int, MemberState] = {}
        self.generation = 0
        self.scripts: tuple[ScriptOrder, ...] = ()
        self.deaf = False

    # the wire and the shelf
    def to_agent(self, uid: str, data: bytes) -> None:
        self.agents += [(uid, frames.NAMES[frame.type]) for frame in decode(data)]

    def to_peer(self, peer: int, data: bytes, sessions: int = 1) -> bool:
        for frame in decode(data):
            body = {} if frame.type == frames.DATA else frames.decode_json(frame)
            self.peers.append((peer, frames.NAMES[frame.type], body))
        return not self.deaf

    def hang_up(self, peer: int) -> None:
        self.ended.append(peer)

    def publish(self, text: str) -> None:
        self.text = text

    def keep(self, memory: Memory) -> None:
        self.kept = memory

    # what happens
    def configure(self, states: dict[int, MemberState], **changes: Any) -> Verdict:
        self.members.update(states)
        self.generation += 1
        config = HostConfig(
            job="job",
            namespace="ns",
            job_uid="job-uid",
            generation=self.generation,
            epoch=1,
            replicas=2,
            min_replicas=1,
            members=tuple(
                Member(f"job-worker-{i}", f"uid-{i}", 1, state, "main")
                for i, state in self.members.items()
            ),
            scripts=self.scripts,
        )
        verdict = self.broker.take_config(replace(config, **changes), self.now)
        self.settle()
        return verdict

    def welcome(self, index: int, welcome: Welcome = NOBODY) -> None:
        self.broker.take_welcome(f"uid-{index}", welcome, self.now)
        self.settle()

    def hear(self, index: int, kind: int, session: bytes = frames.NO_SESSION, **body: Any) -> None:
        self.broker.take_agent_frame(f"uid-{index}", make_frame(kind, session, **body), self.now)
        self.settle()

    def peer(self, peer: int, kind: int, session: bytes = frames.NO_SESSION, **body: Any) -> None:
        self.broker.take_peer_frame(peer, make_frame(kind, session, **body), self.now)
        self.settle()

    def read(self, nonce: str = "nonce") -> str:
        self.peer(DISCOVER, frames.HOSTS, nonce=nonce)
        [answer] = [entry for entry in self.peers if entry[1] == "HOSTS_LIST"]
        self.peers.remove(answer)
        return str(answer[2]["text"])

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.settle()

    def settle(self) -> None:
        self.broker.conclude(self.now)

    def asked(self) -> list[str]:
        found = [uid for uid, name in self.agents if name == "CLOSE_IF_IDLE"]
        self.agents = []
        return found

    def go(self) -> list[str]:
        found = [name for peer, name, _ in self.peers if peer == PID1]
        self.peers = []
        return found

    @property
    def report(self) -> Report:
        assert self.kept is not None
        return self.kept.report


def decode(data: bytes) -> list[Frame]:
    decoder = frames.Decoder()
    decoder.feed(data)
    return list(decoder)


def make_frame(kind: int, session: bytes = frames.NO_SESSION, **body: Any) -> Frame:
    return decode(frames.encode_json(kind, body, session))[0]


def make_told() -> BrokerRig:
    """Two workers listed, the command told to start."""
    rig = BrokerRig()
    rig.configure({0: ACTIVE, 1: ACTIVE})
    rig.welcome(0)
    rig.welcome(1)
    rig.peer(PID1, frames.LAUNCH, nonce="nonce")
    return rig


def make_started() -> BrokerRig:
    """Two workers listed, the command started, a session on each."""
    rig = make_told()
    for index in (0, 1):
        session = bytes([index]) * 15 + b"s"
        rig.peer(
            10 + index, frames.SPAWN, session, host=f"job-worker-{index}", command="train", ranks=1
        )
        rig.hear(index, frames.SPAWNED, session, pid=1, instance="i")
    rig.agents, rig.peers = [], []
    return rig


def ask_to_leave(rig: BrokerRig) -> None:
    """Worker 1 is to go, and the command has read that often enough."""
    rig.configure({1: DRAINING})
    for _ in range(9):
        rig.read()


def start_rank(rig: BrokerRig, index: int, session: bytes = A) -> None:
    """horovodrun starts another one, and its agent has yet to answer."""
    rig.peer(
        30 + index, frames.SPAWN, session, host=f"job-worker-{index}", command="train", ranks=1
    )


def end_session(rig: BrokerRig, index: int, code: int = 134) -> None:
    session = bytes([index]) * 15 + b"s"
    reason = "signal 6" if code else ""
    rig.hear(index, frames.EXIT, session, code=code, produced=[0, 0], reason=reason)


def count_departures(workers: int) -> dict[str, int]:
    """Steps for what happens while half of so many leave, by what it is."""
    rig = BrokerRig()
    rig.configure(dict.fromkeys(range(workers), ACTIVE), replicas=workers)
    for index in range(workers):
        rig.broker.take_welcome(f"uid-{index}", NOBODY, rig.now)
    rig.peer(PID1, frames.LAUNCH, nonce="nonce")
    for index in range(workers):
        body = {"host": f"job-worker-{index}", "command": "train", "ranks": 1}
        spawn = make_frame(frames.SPAWN, (index + 1).to_bytes(16, "big"), **body)
        rig.broker.take_peer_frame(10 + index, spawn, rig.now)
    rig.settle()
    half = dict.fromkeys(range(workers // 2), DRAINING)
    steps = {"told": count_steps(lambda: rig.configure(half, replicas=workers // 2))}
    for _ in range(12):
        rig.read()
    steps["waits"] = count_steps(rig.settle) + count_steps(rig.broker.due)
    rig.now += 600
    steps["asks"] = count_steps(rig.settle)
    assert len(rig.asked()) == workers // 2
    for index in range(workers // 2):
        rig.broker.take_agent_frame(f"uid-{index}", make_frame(frames.CLOSED), rig.now)
    steps["close"] = count_steps(rig.settle)
    assert rig.kept is not None
    steps["begins anew"] = count_steps(lambda: BrokerRig(rig.kept))
    return steps


@pytest.mark.long
def test_what_it_costs_that_half_of_all_leave_grows_with_their_number():
    """Discovery waits for 0.3 s, and each thing that happens is settled."""
    count_departures(2)  # what is done once
    few, many = count_departures(40), count_departures(80)
    growths = {what: many[what] / few[what] for what in few}
    assert max(growths.values()) < 2.2, growths


def test_the_command_starts_when_all_replicas_are_listed():
    rig = BrokerRig()
    rig.peer(PID1, frames.LAUNCH, nonce="nonce")
    rig.configure({0: ACTIVE, 1: ACTIVE})
    rig.welcome(0)
    rig.wait(1.0)
    assert rig.go() == []
    rig.welcome(1)
    assert rig.text == "job-worker-0:1\njob-worker-1:1\n"
    assert rig.go() == ["GO"]
    assert rig.report.listed == {"uid-0", "uid-1"}
    assert rig.kept is not None
    assert rig.kept.hosts.started


def test_the_command_starts_with_fewer_after_half_a_minute():
    rig = BrokerRig()
    rig.peer(PID1, frames.LAUNCH, nonce="nonce")
    rig.configure({0: ACTIVE})
    rig.welcome(0)
    rig.wait(29.9)
    assert rig.go() == []
    assert rig.broker.due() == 130.0
    rig.wait(0.1)
    assert rig.go() == ["GO"]


def test_the_least_number_must_be_there_all_the_time():
    rig = BrokerRig()
    rig.peer(PID1, frames.LAUNCH, nonce="nonce")
    rig.configure({0: ACTIVE})
    rig.welcome(0)
    rig.wait(20.0)
    rig.configure({0: GONE, 1: ACTIVE})
    rig.welcome(1)
    rig.wait(29.0)
    assert rig.go() == []
    rig.wait(1.0)
    assert rig.go() == ["GO"]


def test_pid_1_is_told_again_after_it_came_back():
    rig = make_started()
    rig.configure({0: DRAINING, 1: DRAINING})
    rig.peer(PID1, frames.LAUNCH, nonce="nonce")
    assert rig.go() == ["GO"]


def test_before_the_first_config_discovery_gets_no_answer():
    rig = BrokerRig()
    rig.peer(DISCOVER, frames.HOSTS, nonce="nonce")
    assert rig.ended == [DISCOVER]
    assert rig.text is None


def test_a_read_between_config_and_conclusion_sees_the_shorter_list():
    rig = make_started()
    config = rig.broker.hosts.config
    assert config is not None
    members = (config.members[0], replace(config.members[1], state=DRAINING))
    rig.broker.take_config(replace(config, generation=9, members=members), rig.now)
    rig.broker.take_peer_frame(DISCOVER, make_frame(frames.HOSTS, nonce="nonce"), rig.now)
    assert rig.peers[-1][2]["text"] == "job-worker-0:1\nedl-nudge-1:0\n"
    rig.settle()
    assert rig.report.served_generation == 9


def test_a_read_between_config_and_conclusion_sees_who_was_held_in_the_place_of_who_leaves():
    rig = make_started()
    rig.configure({2: MemberState.HELD})
    assert "uid-2" in rig.broker.wanted(), "a stream is opened"
    rig.welcome(2)
    assert rig.report.ready == {"uid-2"}
    assert rig.report.listed == {"uid-0", "uid-1"}
    before = rig.read()
    config = rig.broker.hosts.config
    assert config is not None
    states = (ACTIVE, DRAINING, ACTIVE)
    members = tuple(replace(m, state=s) for m, s in zip(config.members, states, strict=True))
    rig.broker.take_config(replace(config, generation=9, members=members), rig.now)
    rig.broker.take_peer_frame(DISCOVER, make_frame(frames.HOSTS, nonce="nonce"), rig.now)
    after = rig.peers[-1][2]["text"]
    assert before == "job-worker-0:1\njob-worker-1:1\n"
    assert after == "job-worker-0:1\njob-worker-2:1\nedl-nudge-1:0\n"
    rig.settle()
    assert rig.text == after
    assert (rig.report.served_generation, rig.report.ready) == (9, frozenset())
    assert rig.report.listed == {"uid-0", "uid-1", "uid-2"}


def test_a_list_that_the_next_broker_would_not_know_is_shown_to_nobody():
    rig = make_started()
    shown = rig.read()
    rig.is_kept = False
    rig.configure({0: DRAINING, 2: ACTIVE})
    rig.welcome(2)
    rig.wait(5.0)
    assert rig.text == shown
    rig.peer(DISCOVER, frames.HOSTS, nonce="nonce")
    assert (rig.peers, rig.ended) == ([], [DISCOVER]), "the reader goes on with the file"
    assert rig.report.served_generation < rig.generation
    assert "MemoryUnkept" in rig.report.problems
    assert rig.broker.due() <= rig.now + 5.0
    rig.is_kept = True
    rig.settle()
    assert rig.text == rig.read() == "job-worker-1:1\njob-worker-2:1\n"
    rig.settle()
    assert rig.report.served_generation == rig.generation
    assert rig.report.problems == {}


def test_while_the_list_is_as_it_was_a_disk_that_is_full_keeps_no_reader_waiting():
    rig = make_started()
    rig.is_kept = False
    assert rig.read() == rig.text


def test_no_command_starts_with_hosts_that_the_next_broker_would_not_know():
    rig = BrokerRig()
    rig.peer(PID1, frames.LAUNCH, nonce="nonce")
    rig.configure({0: ACTIVE, 1: ACTIVE})
    rig.welcome(0)
    rig.wait(1.0)
    assert rig.text == "job-worker-0:1\n"
    rig.is_kept = False
    rig.welcome(1)
    assert rig.go() == []
    rig.now += 60.0
    rig.broker.conclude(rig.now)
    due = rig.broker.due()
    assert due is not None
    assert due > rig.now, "it is tried again now and then, not all the time"
    rig.is_kept = True
    rig.settle()
    assert rig.go() == ["GO"]


def test_one_that_was_held_in_vain_closes_at_once():
    rig = make_started()
    rig.configure({2: MemberState.HELD})
    rig.welcome(2)
    rig.configure({2: DRAINING})
    assert rig.asked() == ["uid-2"]
    rig.hear(2, frames.CLOSED)
    assert rig.report.closed == {"uid-2"}
    assert rig.text == "job-worker-0:1\njob-worker-1:1\n"


def test_an_answer_that_did_not_arrive_is_not_served():
    rig = make_started()
    rig.deaf = True
    rig.read()
    assert rig.report.served_generation == 0
    rig.deaf = False
    rig.read(nonce="of a person")
    assert rig.report.served_generation == 0
    rig.read()
    assert rig.report.served_generation == 1


def test_a_graceful_scale_in():
    rig = make_started()
    rig.configure({1: DRAINING})
    assert rig.read() == "job-worker-0:1\nedl-nudge-1:0\n"
    assert rig.report.served_generation == 2
    assert rig.asked() == []
    end_session(rig, 1)
    assert rig.report.exits["uid-1"][0].code == 134
    assert rig.asked() == ["uid-1"]
    rig.hear(1, frames.CLOSED)
    assert rig.report.closed == {"uid-1"}


def test_a_spare_host_is_asked_after_some_reads_and_some_seconds():
    rig = make_started()
    rig.configure({2: ACTIVE})
    rig.welcome(2)
    rig.read()
    rig.configure({2: DRAINING})
    rig.read()
    rig.wait(60.0)
    rig.read()
    assert rig.asked() == []
    rig.read()  # two, and one for the slot without a process
    assert rig.asked() == ["uid-2"]


def test_a_worker_that_was_never_listed_is_closed_without_a_stream():
    rig = make_started()
    rig.configure({2: ACTIVE})
    rig.configure({2: DRAINING})
    assert rig.report.closed == {"uid-2"}
    assert "uid-2" not in rig.broker.wanted()


def test_a_cut_asks_again_and_a_welcome_may_say_closed():
    rig = make_started()
    rig.configure({1: DRAINING})
    rig.read()
    end_session(rig, 1)
    assert rig.asked() == ["uid-1"]
    rig.broker.lose_stream("uid-1")
    rig.welcome(1)
    assert rig.asked() == ["uid-1"]
    rig.broker.lose_stream("uid-1")
    rig.welcome(1, replace(NOBODY, is_closed=True))
    assert rig.report.closed == {"uid-1"}
    assert rig.asked() == []


def test_of_the_ends_that_a_welcome_names_only_those_are_taken_that_are_kept():
    rig = make_started()
    before = rig.broker.ledger.revision
    names = [f"{number:032x}" for number in range(100)]
    sessions = [KnownSession(bytes.fromhex(name), SessionExit(name, 0)) for name in names]
    rig.welcome(0, replace(NOBODY, sessions=tuple(sessions)))
    assert [end.session for end in rig.report.exits["uid-0"]] == names[-EXITS_KEPT:]
    assert rig.broker.ledger.revision <= before + EXITS_KEPT


def test_an_end_first_heard_of_in_a_welcome_proves_nothing():
    rig = make_started()
    rig.configure({1: DRAINING})
    rig.read()
    rig.broker.lose_stream("uid-1")
    session = bytes([1]) * 15 + b"s"
    ended = KnownSession(session, SessionExit(session.hex(), 134))
    rig.welcome(1, replace(NOBODY, sessions=(ended,)))
    assert rig.asked() == []
    assert rig.report.exits["uid-1"][0].code == 134
    for _ in range(3):
        rig.read()
    rig.wait(4.0)
    assert rig.asked() == ["uid-1"]


def test_nothing_is_asked_on_time_alone_before_the_command_has_started_anything():
    rig = make_told()
    ask_to_leave(rig)
    rig.wait(30.0)
    assert rig.asked() == []


def test_who_is_last_of_those_that_are_started_at_once_is_not_refused():
    rig = make_told()
    ask_to_leave(rig)
    rig.wait(8.0)
    start_rank(rig, 0)
    rig.wait(15.9)
    assert rig.asked() == []
    start_rank(rig, 1, b"b" * 16)
    assert ("uid-1", "SPAWN") in rig.agents


def test_who_has_had_its_ranks_is_asked_soon_while_others_train():
    rig = make_started()
    end_session(rig, 1, 0)
    rig.wait(60.0)
    rig.read()
    ask_to_leave(rig)
    rig.wait(3.9)
    assert rig.asked() == ["uid-1"]


@pytest.mark.long
def test_nor_the_last_of_many_however_long_it_takes_to_start_all():
    rig = make_told()
    rig.configure(dict.fromkeys(range(400), ACTIVE), replicas=400)
    for index in range(2, 400):
        rig.broker.take_welcome(f"uid-{index}", NOBODY, rig.now)
    rig.wait(0.0)
    rig.read()
    rig.configure({1: DRAINING}, replicas=400)
    for index in (0, *range(2, 400)):
        if index % 3 == 0:  # in a second
            rig.wait(1.0)
            rig.read()
        session = (index + 1).to_bytes(16, "big")
        body = {"host": f"job-worker-{index}", "command": "train", "ranks": 1}
        rig.broker.take_peer_frame(10 + index, make_frame(frames.SPAWN, session, **body), rig.now)
    assert rig.asked() == []
    rig.wait(10.0)
    assert rig.asked() == ["uid-1"]


def test_who_was_not_started_with_the_others_is_asked_after_twice_what_the_first_has_needed():
    rig = make_told()
    ask_to_leave(rig)
    rig.wait(8.0)
    start_rank(rig, 0)
    rig.hear(0, frames.SPAWNED, A, pid=1, instance="i")
    rig.wait(15.9)
    assert rig.asked() == []
    rig.wait(0.2)
    assert rig.asked() == ["uid-1"]


def test_who_is_started_for_another_training_is_not_refused():
    rig = make_started()
    rig.read()
    for index in (0, 1):
        end_session(rig, index, code=0)
    rig.read()
    ask_to_leave(rig)
    rig.wait(20.0)
    assert rig.asked() == []
    start_rank(rig, 0)
    rig.wait(39.9)
    assert rig.asked() == []
    start_rank(rig, 1, b"b" * 16)
    assert ("uid-1", "SPAWN") in rig.agents


def test_ranks_that_a_broker_hears_of_without_their_start_end_no_wait():
    before = make_started()
    assert before.kept is not None
    rig = BrokerRig(replace(before.kept, has_begun=False))
    rig.configure({0: ACTIVE, 1: DRAINING})
    running = KnownSession(bytes(15) + b"s", None)
    rig.welcome(0, replace(NOBODY, sessions=(running,)))
    rig.welcome(1)
    body = {"host": "job-worker-0", "instance": "i", "received": [0, 0], "ranks": 1}
    rig.peer(10, frames.RESUME, bytes(15) + b"s", **body)
    for _ in range(9):
        rig.read()
    rig.wait(20.0)
    assert rig.asked() == []


def test_what_came_while_the_broker_was_stopped_is_heard_before_anybody_is_asked():
    rig = make_started()
    rig.configure({1: DRAINING})
    for _ in range(3):
        rig.read()
    rig.now += 20.0
    rig.broker.note_absence(rig.now)
    rig.settle()
    assert rig.asked() == []
    assert rig.broker.due() == rig.now + 3.0
    start_rank(rig, 1)
    assert ("uid-1", "SPAWN") in rig.agents


def test_a_spawn_on_a_draining_host_is_accepted_and_disarms():
    rig = make_started()
    rig.configure({1: DRAINING})
    rig.read()
    end_session(rig, 1)
    assert rig.asked() == ["uid-1"]
    start_rank(rig, 1)
    assert ("uid-1", "SPAWN") in rig.agents
    assert rig.asked() == []
    rig.hear(1, frames.EXIT, A, code=134, produced=[0, 0])
    assert rig.asked() == ["uid-1"]


def test_a_lost_notification_is_said_again_by_a_pseudo_host():
    rig = make_started()
    rig.configure({1: DRAINING})
    assert rig.read() == "job-worker-0:1\nedl-nudge-1:0\n"
    rig.wait(15.0)
    assert rig.read() == "job-worker-0:1\nedl-nudge-2:0\n"
    end_session(rig, 1)
    rig.wait(60.0)
    assert rig.read() == "job-worker-0:1\nedl-nudge-2:0\n"


def test_the_end_of_what_a_driver_of_ones_own_has_started_tells_that_it_knows():
    rig = make_told()
    for index in (0, 1):
        session = bytes([index]) * 15 + b"s"
        host = f"job-worker-{index}"
        rig.peer(10 + index, frames.SPAWN, session, host=host, command="train")
        rig.hear(index, frames.SPAWNED, session, pid=1, instance="i")
    rig.configure({1: DRAINING})
    rig.read()
    end_session(rig, 1)
    rig.wait(1.0)
    assert rig.asked() == ["uid-1"]


def test_a_driver_of_ones_own_reads_no_pseudo_hosts():
    rig = make_told()
    rig.peer(10, frames.SPAWN, A, host="job-worker-0", command="train")
    rig.hear(0, frames.SPAWNED, A, pid=1, instance="i")
    rig.read()
    rig.wait(60.0)
    assert rig.read() == "job-worker-0:1\njob-worker-1:1\n", "nor is it told again"
    rig.configure({1: DRAINING})
    assert rig.read() == "job-worker-0:1\n"


def test_where_ranks_are_known_the_end_of_anything_else_tells_nothing():
    rig = make_started()
    welcome_guest(rig, 1)
    rig.configure({1: DRAINING})
    rig.read()
    rig.hear(1, frames.EXIT, A, code=0, produced=[0, 0], reason="exited")
    rig.wait(1.0)
    assert rig.asked() == []


@pytest.mark.long
@pytest.mark.parametrize("seconds", [100, 300, 3000])
def test_a_training_that_loads_its_data_first_hears_of_a_host_that_came_meanwhile(seconds: int):
    rig = make_started()
    rig.configure({2: ACTIVE}, replicas=3)
    rig.welcome(2)
    pass_quietly(rig, seconds)  # rank 0 has not registered: nobody is told
    known = rig.read()
    pass_quietly(rig, 60)
    assert rig.read() != known


def test_a_command_that_has_ended_is_told_of_nothing():
    rig = make_started()
    rig.configure({2: ACTIVE}, replicas=3)
    rig.welcome(2)
    rig.read()
    rig.peer(PID1, frames.ENDED, code=0)
    known = rig.text
    pass_quietly(rig, 60)
    assert rig.text == known


def pass_quietly(rig: BrokerRig, seconds: int) -> None:
    """Seconds in which horovodrun reads the list, and nothing happens."""
    for _ in range(seconds):
        rig.wait(1.0)
        rig.read()


def test_a_pseudo_host_leaves_only_with_the_next_change():
    rig = make_started()
    rig.configure({2: ACTIVE}, replicas=3)
    rig.welcome(2)
    rig.read()
    rig.wait(10.0)
    rig.peer(30, frames.SPAWN, A, host="job-worker-2", command="train", ranks=1)
    rig.hear(2, frames.SPAWNED, A, pid=1, instance="i")
    listed = "job-worker-0:1\njob-worker-1:1\njob-worker-2:1\n"
    assert rig.read() == listed + "edl-nudge-1:0\n"
    rig.configure({3: ACTIVE}, replicas=4)
    rig.welcome(3)
    assert rig.read() == listed + "job-worker-3:1\n"


def test_a_removal_is_told_as_more_than_one_for_others_may_come_before_the_next_ring():
    rig = make_started()
    rig.configure({1: DRAINING})
    assert rig.read() == "job-worker-0:1\nedl-nudge-1:0\n"
    rig.configure({2: ACTIVE}, replicas=2)
    rig.welcome(2)
    assert rig.read() == "job-worker-0:1\njob-worker-2:1\n"


def test_a_removal_that_a_spare_takes_over_is_told_as_more_than_a_removal():
    rig = make_started()
    rig.configure({2: ACTIVE}, replicas=3)
    rig.welcome(2)
    rig.configure({1: DRAINING})
    assert rig.read() == "job-worker-0:1\njob-worker-2:1\nedl-nudge-1:0\n"


def welcome_guest(rig: BrokerRig, index: int) -> None:
    """Somebody runs something there that is no rank."""
    rig.peer(50, frames.SPAWN, A, host=f"job-worker-{index}", command="top")
    rig.hear(index, frames.SPAWNED, A, pid=9, instance="i")


def end_guest(rig: BrokerRig, index: int) -> None:
    rig.hear(index, frames.EXIT, A, code=0, produced=[0, 0], reason="exited")
    rig.peer(50, frames.EXIT_ACK, A)


def test_a_guest_does_not_stand_for_the_rank_that_a_new_host_lacks():
    rig = make_started()
    rig.configure({2: ACTIVE}, replicas=3)
    rig.welcome(2)
    welcome_guest(rig, 2)
    rig.read()
    end_guest(rig, 2)
    rig.wait(10.0)
    assert rig.read().endswith("edl-nudge-1:0\n")


def test_the_end_of_a_guest_does_not_prove_that_a_worker_was_told():
    rig = make_started()
    welcome_guest(rig, 1)
    rig.configure({1: DRAINING})
    rig.read()
    end_guest(rig, 1)
    assert rig.asked() == []
    end_session(rig, 1)
    assert rig.asked() == ["uid-1"]


def test_a_guest_that_comes_to_a_worker_that_was_asked_has_it_asked_again():
    rig = make_started()
    rig.configure({1: DRAINING})
    rig.read()
    end_session(rig, 1)
    assert rig.asked() == ["uid-1"]
    welcome_guest(rig, 1)
    assert rig.asked() == ["uid-1"]


def test_a_guest_is_no_beginning_of_the_training():
    rig = make_told()
    welcome_guest(rig, 0)
    rig.configure({1: DRAINING})
    for _ in range(5):
        rig.read()
    rig.wait(30.0)
    assert rig.asked() == []
    rig.wait(30.0)
    assert rig.asked() == ["uid-1"]


def test_a_restarted_broker_hears_from_their_shims_which_sessions_are_ranks():
    before = make_started()
    rig = BrokerRig(before.kept)
    rig.settle()
    rig.generation = before.generation - 1
    rig.configure({0: ACTIVE, 1: ACTIVE})
    for index in (0, 1):
        session = bytes([index]) * 15 + b"s"
        rig.welcome(index, replace(NOBODY, sessions=(KnownSession(session, None),)))
        body = {"host": f"job-worker-{index}", "instance": "i", "received": [0, 0]}
        rig.peer(10 + index, frames.RESUME, session, ranks=1, **body)
    rig.read()
    rig.wait(60.0)
    assert rig.read() == "job-worker-0:1\njob-worker-1:1\n"


def test_a_restarted_broker_leaves_the_pseudo_host_where_it_is():
    before = make_started()
    before.configure({1: DRAINING})
    before.read()
    before.wait(10.0)
    assert before.kept is not None
    rig = BrokerRig(before.kept)
    rig.settle()
    assert rig.text == before.text == "job-worker-0:1\nedl-nudge-2:0\n"


def test_a_host_that_came_and_got_no_process_is_told_again_by_a_pseudo_host():
    rig = make_started()
    rig.configure({2: ACTIVE}, replicas=3)
    rig.welcome(2)
    listed = "job-worker-0:1\njob-worker-1:1\njob-worker-2:1\n"
    assert rig.read() == listed
    rig.wait(9.0)
    assert rig.read() == listed
    rig.wait(1.0)
    assert rig.read() == listed + "edl-nudge-1:0\n"
    rig.peer(30, frames.SPAWN, A, host="job-worker-2", command="train", ranks=1)
    rig.wait(60.0)
    assert rig.read() == listed + "edl-nudge-1:0\n"


def test_the_agent_of_a_pod_that_is_deleted_is_told_how_long_it_has():
    rig = make_started()
    gone = Member("job-worker-0", "uid-0", 1, DRAINING, "main", grace_seconds=10)
    rig.configure({}, members=(gone,))
    assert ("uid-0", "GRACE") in rig.agents
    rig.agents = []
    rig.broker.lose_stream("uid-0")
    rig.welcome(0)
    assert rig.agents[0] == ("uid-0", "GRACE")


def test_agents_are_asked_for_their_clock_when_a_member_is_gone_and_told_in_answer():
    rig = make_started()
    living = Member("job-worker-0", "uid-0", 1, ACTIVE, "main", ips=("10.0.0.1",))
    lost = Member("job-worker-1", "uid-1", 1, ACTIVE, "main", ips=("10.0.0.2",))
    rig.configure({}, members=(living, lost))
    rig.hear(0, frames.PONG, sent=rig.now, clock=500.0)
    rig.agents = []
    rig.configure({}, members=(living, replace(lost, state=GONE)))
    assert rig.agents == [("uid-0", "PING")]
    rig.hear(0, frames.PONG, sent=rig.now)  # a former agent: it would not understand
    rig.hear(0, frames.PONG, sent=rig.now, clock=500)
    rig.hear(0, frames.PONG, sent=rig.now, clock=501.5)
    rig.hear(0, frames.PONG, sent=rig.now, clock=511.5)
    assert rig.agents[1:] == [("uid-0", "BREAK")]
    rig.broker.lose_stream("uid-0")
    rig.welcome(0)
    rig.hear(0, frames.PONG, sent=rig.now, clock=520.0)
    assert rig.agents.count(("uid-0", "BREAK")) == 2


def test_who_ends_is_told_before_anything_is_started_there_and_pid_1_before_the_command():
    rig = BrokerRig()
    told = ToldNotice("it ends", "taint", "", ("uid-0",))
    rig.peer(SHIM, frames.SPAWN, A, host="job-worker-0", command="train", ranks=1)
    rig.peer(PID1, frames.LAUNCH, nonce="nonce", noticed=False)
    assert rig.peers == []
    rig.configure({0: ACTIVE, 1: ACTIVE}, notices=(told,))
    rig.welcome(0, replace(NOBODY, noticed=False))
    rig.welcome(1)
    assert [name for uid, name in rig.agents if uid == "uid-0"] == ["NOTICE", "SPAWN"]
    assert ("uid-1", "NOTICE") not in rig.agents
    assert rig.go() == ["NOTICE", "GO"]
    rig.agents = []
    rig.broker.lose_stream("uid-0")
    rig.configure({})
    assert rig.agents == []
    rig.welcome(0, replace(NOBODY, noticed=True))
    assert rig.agents[0] == ("uid-0", "NOTICE")
    assert rig.go() == ["NOTICE"]


def test_a_command_that_starts_at_once_finds_its_notice_there():
    rig = BrokerRig()
    told = ToldNotice("it ends", "taint", "", ("launcher-uid",))
    rig.configure({0: ACTIVE, 1: ACTIVE}, notices=(told,))
    rig.welcome(0)
    rig.welcome(1)
    rig.peer(PID1, frames.LAUNCH, nonce="nonce", noticed=False)
    assert rig.go() == ["NOTICE", "GO"]


def test_a_former_agent_and_a_former_pid_1_hear_of_no_notice():
    rig = make_started()
    rig.configure({}, notices=(ToldNotice("it ends", "taint", "", ("uid-0",)),))
    assert ("uid-0", "NOTICE") not in rig.agents
    assert "NOTICE" not in {name for _, name, _ in rig.peers}


def test_a_terminating_worker_is_off_the_list_without_the_operator():
    rig = make_started()
    rig.hear(0, frames.TERMINATING, seconds=50.0)
    assert rig.text == "job-worker-1:1\nedl-nudge-1:0\n"
    late = make_started()
    late.configure({2: ACTIVE})
    late.welcome(2, replace(NOBODY, is_terminating=True))
    late.wait(5.0)
    assert late.text == "job-worker-0:1\njob-worker-1:1\n"


def test_a_gone_worker_has_its_shims_told_after_the_second_read():
    rig = make_started()
    rig.configure({1: GONE})
    assert "uid-1" not in rig.broker.wanted()
    rig.read()
    assert rig.peers == []
    rig.read()
    assert [(peer, name, body["code"]) for peer, name, body in rig.peers] == [(11, "LOST", 137)]


def test_a_gone_worker_has_its_shims_told_when_nobody_reads():
    rig = make_started()
    rig.configure({1: GONE})
    assert rig.broker.due() == 108.0
    rig.wait(8.0)
    assert [(peer, name) for peer, name, _ in rig.peers] == [(11, "LOST")]


def test_a_later_epoch_ends_everything():
    rig = make_started()
    text = rig.text
    kept = rig.kept
    assert rig.configure({0: GONE}, epoch=2) is Verdict.FENCED
    assert rig.broker.wanted() == {}
    rig.broker.ledger.end(3)
    rig.broker.hosts.remove("uid-0")
    rig.wait(60.0)
    assert (rig.text, rig.kept) == (text, kept)


def test_who_is_fenced_waits_for_nothing_any_more():
    """What was to be done within seconds is due for good, and would be looked at all the time."""
    rig = make_started()
    rig.configure({0: GONE, 1: ACTIVE})
    assert rig.broker.due() < math.inf
    assert rig.configure({1: ACTIVE}, epoch=2) is Verdict.FENCED
    rig.wait(60.0)
    assert rig.broker.due() == math.inf


def test_a_restarted_broker_goes_on_with_the_list_and_asks_for_nothing_twice():
    before = make_started()
    before.read()
    assert before.kept is not None
    rig = BrokerRig(before.kept)
    rig.settle()
    assert rig.text == "job-worker-0:1\njob-worker-1:1\n"
    assert rig.read() == "job-worker-0:1\njob-worker-1:1\n"
    rig.peer(PID1, frames.LAUNCH, nonce="nonce")
    assert rig.go() == ["GO"]
    rig.configure({0: ACTIVE, 1: DRAINING})
    # No agent has said yet what it runs, so worker 0 could be a spare.
    assert rig.text == "job-worker-0:1\nedl-nudge-1:0\n"
    assert rig.report.closed == frozenset()


def test_a_restarted_broker_knows_who_was_told_to_leave_and_which_nudges_were_shown():
    before = make_started()
    before.configure({1: DRAINING})
    before.read()
    before.wait(10.0)
    assert before.text == "job-worker-0:1\nedl-nudge-2:0\n"
    end_session(before, 1)
    assert before.kept is not None
    rig = BrokerRig(before.kept)
    rig.generation = before.generation - 1
    rig.settle()
    rig.configure({0: ACTIVE, 1: DRAINING})
    rig.welcome(1)
    assert rig.asked() == ["uid-1"]
    rig.configure({2: ACTIVE}, replicas=2)
    rig.welcome(2)
    rig.read()
    rig.wait(10.0)
    assert rig.text == "job-worker-0:1\njob-worker-2:1\nedl-nudge-3:0\n"


def test_a_restarted_broker_starts_nothing_in_a_worker_that_was_closed_without_being_asked():
    before = make_started()
    before.configure({2: ACTIVE})
    before.configure({2: DRAINING})
    assert before.report.closed == {"uid-2"}
    rig = BrokerRig(before.kept)
    rig.generation = before.generation - 1
    rig.configure({0: ACTIVE, 1: ACTIVE, 2: DRAINING})
    rig.peer(SHIM, frames.SPAWN, A, host="job-worker-2", command="train")
    assert [(name, body["code"]) for _, name, body in rig.peers] == [("LOST", 255)]
    assert "uid-2" not in rig.broker.wanted()


def test_a_script_is_ordered_once_for_each_connection_until_it_is_done():
    rig = make_started()
    rig.scripts = (ORDER,)
    rig.configure({})
    body = rig.peers[-1][2]
    assert body == {
        "id": "uid/1",
        "script": "echo hi",
        "argument": "job-worker-0:1",
        "env": {"K": "v"},
        "timeout": 60,
        "shell": False,
    }
    assert rig.go() == ["SCRIPT"]
    rig.configure({})
    assert rig.go() == []
    rig.peer(PID1, frames.LAUNCH, nonce="nonce")
    assert rig.go() == ["GO", "SCRIPT"]
    rig.peer(PID1, frames.SCRIPT_DONE, id="uid/1", code=0, output="x" * 5000, timedOut=False)
    assert rig.report.scripts["uid/1"].code == 0
    assert len(rig.report.scripts["uid/1"].output) == 4096
    rig.peer(PID1, frames.LAUNCH, nonce="nonce")
    assert rig.go() == ["GO"]


def make_ordered() -> BrokerRig:
    rig = make_started()
    rig.scripts = (ORDER,)
    rig.configure({})
    return rig


def test_the_result_of_a_script_is_told_until_the_operator_has_taken_it_in():
    rig = make_ordered()
    rig.peer(PID1, frames.SCRIPT_DONE, id="uid/1", code=0, output="")
    rig.peer(PID1, frames.SCRIPT_DONE, id="nobody's", code=0, output="")
    rig.configure({})
    assert set(rig.report.scripts) == {"uid/1"}
    rig.scripts = ()
    rig.configure({})
    assert rig.report.scripts == {}


def test_results_that_nobody_has_asked_for_are_no_news():
    """Urgent ones were written at once: twenty a second, for whatever runs in the launcher."""
    rig = make_ordered()
    rig.wait(1.0)
    ledger = rig.broker.ledger
    before = ledger.revision, ledger.urgent
    for number in range(3):
        rig.peer(40, frames.SCRIPT_DONE, id=f"nobody's/{number}", code=0, output="x")
        rig.peer(40, frames.SCRIPT_DONE, id=["uid/1"], code=0)
    assert (ledger.revision, ledger.urgent) == before


def test_a_result_that_comes_before_the_config_is_asked_for_again():
    before = make_ordered()
    rig = BrokerRig(before.kept)
    rig.scripts, rig.generation = (ORDER,), before.generation
    rig.peer(PID1, frames.LAUNCH, nonce="nonce")
    rig.peer(PID1, frames.SCRIPT_DONE, id="uid/1", code=0, output="")
    rig.go()
    rig.configure(before.members)
    assert rig.go() == ["SCRIPT"]
    rig.peer(PID1, frames.SCRIPT_DONE, id="uid/1", code=0, output="")
    assert rig.report.scripts["uid/1"].code == 0


def test_an_order_that_was_taken_back_and_comes_again_is_told_again():
    """The right to scripts may go and come, while one runs; PID 1 then says what came of it."""
    rig = make_ordered()
    assert rig.go() == ["SCRIPT"]
    rig.scripts = ()
    rig.configure({})
    rig.peer(PID1, frames.SCRIPT_DONE, id="uid/1", code=0, output="")
    rig.scripts = (ORDER,)
    rig.configure({})
    assert rig.go() == ["SCRIPT"]
    rig.peer(PID1, frames.SCRIPT_DONE, id="uid/1", code=0, output="")
    assert rig.report.scripts["uid/1"].code == 0
    rig.configure({})
    assert rig.go() == []


def test_a_broker_stays_as_small_as_its_job():
    rig = make_started()
    sizes = set()
    for number in range(2, 40):
        rig.configure({number: ACTIVE})
        rig.welcome(number)
        rig.peer(
            100 + number,
            frames.SPAWN,
            bytes([number]) * 16,
            host=f"job-worker-{number}",
            command="c",
        )
        rig.configure({number: DRAINING})
        rig.hear(number, frames.CLOSED)
        rig.configure({number: GONE})
        rig.read()
        rig.read()
        rig.broker.lose_peer(100 + number, rig.now)
        del rig.members[number]
        rig.configure({})
        rig.wait(10.0)
        sizes.add((measure(rig.broker), len(rig.report.listed), len(rig.report.closed)))
    assert len(sizes) == 1
    assert rig.kept is not None
    assert rig.kept.hosts.ever_listed == {"uid-0", "uid-1"}


def measure(broker: Broker) -> int:
    """Everything that a broker holds for each pod."""
    parts = [broker.hosts, broker._relay, broker._departures]
    found = [
        getattr(p, name) for p in parts for name in (*getattr(p, "__slots__", ()), *vars_of(p))
    ]
    return sum(len(each) for each in found if isinstance(each, dict | set | frozenset | tuple))


def vars_of(part: object) -> list[str]:
    return list(getattr(part, "__dict__", {}))


def test_who_comes_back_after_all_was_forgotten_is_told_too():
    rig = make_started()
    rig.configure({1: GONE})
    del rig.members[1]
    rig.configure({})
    rig.wait(10.0)
    rig.peers = []
    rig.peer(SHIM, frames.RESUME, A, host="job-worker-1", instance="i", received=[0, 0])
    assert [(peer, name, body["code"]) for peer, name, body in rig.peers] == [(SHIM, "LOST", 137)]


class Counted(dict[str, Any]):
    """A dict that counts how often it was gone through."""

    passes = 0

    def values(self) -> Any:
        Counted.passes += 1
        return super().values()


def test_a_conclusion_goes_through_the_members_as_often_however_many_leave():
    passes = []
    for leaving in (2, 40):
        rig = BrokerRig()
        rig.configure(dict.fromkeys(range(50), ACTIVE), replicas=50)
        for number in range(50):
            rig.welcome(number)
        rig.configure(dict.fromkeys(range(leaving), DRAINING), replicas=50)
        rig.broker.hosts.members = Counted(rig.broker.hosts.members)
        Counted.passes = 0
        rig.settle()
        rig.broker.due()
        passes.append(Counted.passes)
    assert passes[0] == passes[1]


def test_output_of_a_script_that_is_no_text_is_reported_as_far_as_it_is():
    rig = make_ordered()
    rig.peer(PID1, frames.SCRIPT_DONE, id="uid/1", code=0, output="a\ud800b")
    assert rig.report.scripts["uid/1"].output == "a\ufffdb"


def test_a_script_that_ran_too_long_has_no_code():
    rig = make_ordered()
    rig.peer(PID1, frames.SCRIPT_DONE, id="uid/1", code=-15, output="", timedOut=True)
    assert rig.report.scripts["uid/1"].code is None


def test_the_end_of_the_command_is_kept_before_pid_1_may_leave():
    rig = make_started()
    end = make_frame(frames.ENDED, code=3, toldToEnd=True)
    rig.broker.take_peer_frame(PID1, end, rig.now)
    assert rig.ended == []
    rig.settle()
    assert (rig.report.ended, rig.report.is_told_to_end) == (3, True)
    assert rig.ended == [PID1]


def test_the_hello_says_who_is_calling():
    rig = BrokerRig()
    assert frames.decode_json(decode(rig.broker.build_hello("uid-0", 4))[0]) == {
        "job": "job-uid",
        "epoch": 1,
        "launcher": "launcher-uid",
        "brokerStart": 1,
        "connection": 4,
        "pod": "uid-0",
    }


@pytest.mark.parametrize("kind", [frames.SPAWN, frames.HELLO, frames.GO])
def test_an_agent_that_breaks_a_rule_is_dropped(kind: int):
    rig = make_started()
    with pytest.raises(ProtocolError):
        rig.hear(0, kind)


def test_exits_of_sessions_that_nobody_asked_for_are_not_reported():
    rig = make_started()
    for number in range(100):
        rig.hear(0, frames.EXIT, bytes([number]) * 16, code=1, produced=[0, 0])
    rig.peer(SHIM, frames.SPAWN, A, host="job-worker-1", command="c")
    rig.hear(0, frames.EXIT, A, code=1, produced=[0, 0])
    assert rig.report.exits == {}
    rig.hear(1, frames.EXIT, A, code=1, produced=[0, 0])
    assert set(rig.report.exits) == {"uid-1"}


def test_an_answered_ping_tells_how_long_the_way_is_and_widens_a_window():
    rig = BrokerRig()
    rig.configure({0: ACTIVE})
    rig.welcome(0)
    rig.peer(SHIM, frames.SPAWN, A, host="job-worker-0", command="c", window=2**21)
    rig.hear(0, frames.SPAWNED, A, pid=1, instance="i")
    rig.hear(0, frames.PONG, sent="never")
    rig.hear(0, frames.PONG, sent=rig.now - 0.04)
    rig.agents = []
    for number in range(16):
        offset = number * frames.MAX_DATA
        data = Frame(frames.DATA, A, 1, offset, b"x" * frames.MAX_DATA)
        rig.broker.take_agent_frame("uid-0", data, rig.now)
        if number in (7, 15):
            rig.now += 0.04
            ack = Frame(frames.ACK, A, 1, offset + frames.MAX_DATA, b'{"window":1}')
            rig.broker.take_peer_frame(SHIM, ack, rig.now)
    # Two that were passed on, and one of the broker's own.
    assert rig.agents == [("uid-0", "ACK")] * 3


def read_steadily(rig: BrokerRig, count: int = 12) -> None:
    for _ in range(count):
        rig.wait(1.2)
        rig.read()


@pytest.mark.point("case-26")
def test_a_command_that_asks_for_hosts_no_more_is_stalled_until_it_asks_again():
    rig = make_started()
    read_steadily(rig)
    assert rig.broker.due() == rig.now + 30.0
    rig.wait(29.0)
    assert rig.report.problems == {}
    rig.wait(1.0)
    assert list(rig.report.problems) == ["DriverStalled"]
    assert rig.broker.due() == float("inf")
    rig.wait(600.0)
    assert list(rig.report.problems) == ["DriverStalled"]
    rig.read("somebody's")
    assert list(rig.report.problems) == ["DriverStalled"]
    rig.read()
    assert rig.report.problems == {}


def test_what_is_started_after_horovodrun_is_no_sign_that_it_hangs():
    rig = make_started()
    read_steadily(rig)
    for index in (0, 1):
        end_session(rig, index)
        rig.peer(10 + index, frames.EXIT_ACK, bytes([index]) * 15 + b"s")
    welcome_guest(rig, 0)
    rig.wait(30.0)
    assert rig.report.problems == {}


def test_nor_is_what_is_started_after_a_wait_for_hosts():
    rig = make_told()
    read_steadily(rig)
    rig.peer(60, frames.SPAWN, A, host="job-worker-0", command="train", ranks=1)
    rig.wait(30.0)
    assert rig.report.problems == {}


def test_a_command_that_goes_on_when_its_stalled_horovodrun_has_ended_is_not_stalled():
    rig = make_started()
    read_steadily(rig)
    rig.wait(30.0)
    for index in (0, 1):
        assert list(rig.report.problems) == ["DriverStalled"]
        end_session(rig, index)
        rig.peer(10 + index, frames.EXIT_ACK, bytes([index]) * 15 + b"s")
    welcome_guest(rig, 0)
    assert rig.report.problems == {}


def test_the_next_broker_knows_of_a_stall_and_of_its_end():
    before = make_started()
    read_steadily(before)
    before.wait(30.0)
    rig = BrokerRig(before.kept)
    rig.settle()
    assert list(rig.broker.ledger.report.problems) == ["DriverStalled"]
    rig.read()
    assert rig.broker.ledger.report.problems == {}


def test_a_command_that_is_not_answered_in_time_is_not_stalled():
    rig = make_started()
    rig.deaf = True
    for _ in range(60):
        rig.wait(1.2)
        rig.peer(DISCOVER, frames.HOSTS, nonce="nonce")
    assert rig.report.problems == {}


def test_a_command_that_has_ended_is_not_stalled():
    rig = make_started()
    read_steadily(rig)
    rig.peer(PID1, frames.ENDED, code=0)
    rig.wait(30.0)
    assert rig.report.problems == {}


def test_workers_in_which_nothing_runs_for_three_minutes_are_told_by_name():
    rig = make_started()
    rig.configure(dict.fromkeys(range(6), ACTIVE), replicas=6)
    for index in range(2, 6):
        rig.welcome(index)
    assert rig.broker.due() <= rig.now + 180.0
    rig.wait(179.0)
    assert rig.report.problems == {}
    rig.wait(1.0)
    assert rig.report.problems["WorkersIdle"].startswith(
        "4 of 6 workers have run no process for three minutes "
        "(job-worker-2, job-worker-3, job-worker-4 and 1 more), "
    )
    rig.peer(50, frames.SPAWN, A, host="job-worker-2", command="train", ranks=1)
    rig.hear(2, frames.SPAWNED, A, pid=9, instance="i")
    rig.wait(60.0)
    assert rig.report.problems["WorkersIdle"].startswith("3 of 6 ")
    rig.configure(dict.fromkeys(range(3, 6), DRAINING), replicas=3)
    assert rig.report.problems == {}
    rig.wait(600.0)
    assert rig.report.problems == {}


def test_a_command_that_runs_nothing_in_any_worker_is_told():
    rig = make_told()
    rig.wait(180.0)
    assert rig.report.problems["WorkersIdle"].startswith(
        "the command has run no process in any of the 2 workers for three minutes, "
    )
    rig.peer(PID1, frames.ENDED, code=0)
    assert rig.report.problems == {}


def test_whether_the_command_has_asked_for_the_list_is_told_with_them():
    rig = make_told()
    rig.wait(180.0)
    assert rig.report.problems["WorkersIdle"].endswith(
        ", and has never asked for the list of hosts"
    )
    rig.read()
    rig.wait(60.0)
    assert rig.report.problems["WorkersIdle"].endswith(", and has read the list of hosts")


def test_of_many_that_are_idle_now_and_then_others_are_told_each_minute_at_most():
    """A driver of one's own, which gives each of them something to do every four minutes."""
    idleness = Idleness()
    listed = {f"uid-{index}": f"job-worker-{index}" for index in range(240)}
    told = [
        idleness.advance(listed, {f"uid-{now % 240}"}, float(now), has_asked=True)
        for now in range(1800)
    ]
    assert told[170] == "" != told[300]
    assert 10 < sum(one != other for one, other in pairwise(told)) < 30


def test_one_that_leaves_and_still_trains_is_counted_among_those_that_run_something():
    rig = make_started()
    rig.configure({1: GONE})
    rig.configure({2: ACTIVE})
    rig.welcome(2)
    rig.wait(180.0)
    some = "1 of 2 workers has run no process for three minutes (job-worker-2), "
    assert rig.report.problems["WorkersIdle"].startswith(some)
    rig.configure({0: DRAINING}, replicas=1)
    rig.wait(60.0)
    assert rig.report.problems["WorkersIdle"].startswith(some)
    end_session(rig, 0, 0)
    assert rig.report.problems["WorkersIdle"].startswith(
        "the command has run no process in its only worker for three minutes, "
    )


def test_who_has_done_his_part_of_a_training_is_not_idle_until_another_begins():
    """Rank 0 saves what was trained."""
    rig = make_started()
    end_session(rig, 1, 0)
    rig.peer(11, frames.EXIT_ACK, bytes([1]) * 15 + b"s")
    rig.wait(600.0)
    assert rig.report.problems == {}
    rig.peer(12, frames.SPAWN, A, host="job-worker-0", command="train", ranks=1)
    rig.hear(0, frames.SPAWNED, A, pid=9, instance="i")
    rig.wait(179.0)
    assert rig.report.problems == {}
    rig.wait(1.0)
    assert rig.report.problems["WorkersIdle"].startswith("1 of 2 workers has run ")


def test_before_the_command_no_worker_is_idle():
    rig = BrokerRig()
    rig.configure({0: ACTIVE, 1: ACTIVE})
    rig.welcome(0)
    rig.wait(600.0)
    assert rig.report.problems == {}


def test_nothing_is_due_in_a_job_that_trains():
    rig = make_started()
    rig.wait(100.0)
    assert rig.broker.due() == float("inf")


def test_a_worker_that_can_never_be_listed_is_told_as_closed():
    rig = make_started()
    rig.configure({1: GONE})
    rig.configure({1: ACTIVE})  # what was set back with all of etcd
    assert rig.report.closed == {"uid-1"}
    assert rig.read() == "job-worker-0:1\nedl-nudge-1:0\n"


# ------------------------------------------------------------------ what is left of output
def show(rig: BrokerRig, index: int, text: bytes, offset: int = 0) -> None:
    session = bytes([index]) * 15 + b"s"
    frame = Frame(frames.DATA, session, frames.STDOUT, offset, text)
    rig.broker.take_agent_frame(f"uid-{index}", frame, rig.now)
    rig.settle()


def test_the_last_lines_of_a_worker_are_there_when_it_is_gone_and_of_all_at_the_end():
    rig = make_started()
    show(rig, 0, b"zero\n")
    show(rig, 1, b"one\n")
    show(rig, 0, b"zero\n")  # known: an agent says it again after a cut
    assert rig.broker.tails.hand_over() == []

    rig.configure({0: GONE})
    assert rig.broker.tails.hand_over() == [LastLines("job-worker-0", ("zero",), is_cut=False)]

    rig.broker.tails.end_all()
    assert rig.broker.tails.hand_over() == [LastLines("job-worker-1", ("one",), is_cut=False)]


@pytest.mark.parametrize(("epoch", "start"), [(1, 2), (2, 1)])
def test_of_who_may_have_printed_under_another_broker_there_may_have_been_more(
    epoch: int, start: int
):
    memory = Memory(Report(epoch=epoch, launcher_uid="launcher-uid", broker_start=start))
    rig = BrokerRig(memory)
    identity = replace(IDENTITY, epoch=epoch)
    broker = Broker(identity, memory, wire=rig, shelf=rig, now=rig.now)
    broker.tails.follow([Member("job-worker-0", "uid-0", 1, ACTIVE, "main")])

    broker.tails.end_all()
    assert broker.tails.hand_over() == [LastLines("job-worker-0", (), is_cut=True)]


def test_no_worker_prints_in_the_name_of_another():
    rig = make_started()
    session = bytes([0]) * 15 + b"s"
    frame = Frame(frames.DATA, session, frames.STDOUT, 0, b"I am worker 0\n")
    rig.broker.take_agent_frame("uid-1", frame, rig.now)

    rig.broker.tails.end_all()
    assert [last.lines for last in rig.broker.tails.hand_over()] == [(), ()]


# ------------------------------------------------------------------ ranks without a ring
def count(rig: BrokerRig, index: int, *counts: int) -> None:
    rig.hear(index, frames.PONG, sent=rig.now, ranks=list(counts))


def test_ranks_that_never_call_init_and_print_nothing_are_told_after_ten_minutes():
    rig = make_started()
    count(rig, 0, 1, 0, 0)
    count(rig, 1, 1, 0, 0)
    rig.wait(599.0)
    assert rig.report.problems == {}
    assert rig.broker.due() <= rig.now + 1.0
    rig.wait(1.0)
    assert rig.report.problems["NoRing"].startswith(
        "2 ranks run, none of them has called hvd.init(), and for 10 min none has printed anything"
    )
    count(rig, 0, 0, 1, 0)
    assert rig.report.problems == {}


def test_one_rank_alone_is_told_of_as_one():
    rig = make_started()
    end_session(rig, 1, 0)
    count(rig, 0, 1, 0, 0)
    rig.wait(600.0)
    assert rig.report.problems["NoRing"].startswith("1 rank runs, it has not called hvd.init(), ")
    count(rig, 0, 0, 1, 0)
    rig.wait(600.0)
    assert rig.report.problems["NoRing"].startswith("the only rank is in hvd.init(), and for 10 ")


def test_a_rank_for_which_the_others_wait_is_told_by_its_worker():
    rig = make_started()
    count(rig, 0, 0, 1, 0)
    count(rig, 1, 1, 0, 0)
    rig.wait(600.0)
    told = rig.report.problems["NoRing"]
    assert told.startswith("1 of 2 ranks wait in hvd.init(), and for 10 min the others, in job-wo")
    assert "in job-worker-1, have neither called it nor printed anything" in told


def test_ranks_that_do_not_find_each_other_are_told():
    rig = make_started()
    count(rig, 0, 0, 1, 0)
    count(rig, 1, 0, 1, 0)
    rig.wait(600.0)
    assert rig.report.problems["NoRing"].startswith("all 2 ranks are in hvd.init(), and for 10 min")


def test_while_a_rank_prints_nothing_is_told_and_what_is_no_rank_says_nothing():
    rig = make_started()
    rig.peer(50, frames.SPAWN, A, host="job-worker-0", command="tail -f", ranks=0)
    rig.hear(0, frames.SPAWNED, A, pid=9, instance="i")
    count(rig, 0, 1, 0, 0)
    count(rig, 1, 1, 0, 0)
    rig.wait(500.0)
    show(rig, 0, b"still loading")
    rig.wait(599.0)
    other = Frame(frames.DATA, A, frames.STDOUT, 0, b"x")
    rig.broker.take_agent_frame("uid-0", other, rig.now)
    assert rig.report.problems == {}
    rig.wait(1.0)
    assert "NoRing" in rig.report.problems
    show(rig, 0, b"at last", 13)
    assert rig.report.problems == {}


@pytest.mark.parametrize(
    "counts",
    [
        [(0, 0, 1), (0, 1, 0)],  # it has come later, and waits for the others' next commit
        [(0, 0, 1), (0, 0, 1)],
        [(1, 0, 0), (0, 0, 0)],  # of one nothing is known
        [(1, 0, 0), (2, 0, 0)],
        [(1, 0, 0), ()],
        [(1, 0, 0), (-1, 2, 0)],
        [(), ()],
    ],
)
def test_nothing_is_told_where_there_is_a_ring_or_not_all_is_known(counts: list[tuple[int, ...]]):
    rig = make_started()
    for index, told in enumerate(counts):
        count(rig, index, *told)
    rig.wait(3600.0)
    assert rig.report.problems == {}


def test_ranks_that_have_ended_wait_for_nothing():
    rig = make_started()
    count(rig, 0, 1, 0, 0)
    count(rig, 1, 1, 0, 0)
    rig.wait(600.0)
    end_session(rig, 0)
    end_session(rig, 1)
    assert "NoRing" not in rig.report.problems


def start_of_horovod(
    rig: BrokerRig, *counts: tuple[int, ...], blacklists: bool = True
) -> tuple[Member, Member]:
    """A rank of horovodrun's in each of two workers, of which the agents count this a while."""
    living = Member("job-worker-0", "uid-0", 1, ACTIVE, "main", ips=("10.0.0.1",))
    lost = Member("job-worker-1", "uid-1", 1, ACTIVE, "main", ips=("10.0.0.2",))
    rig.configure({}, members=(living, lost))
    for index in (0, 1):
        session = bytes([index]) * 15 + b"h"
        host = f"job-worker-{index}"
        opening = {"host": host, "command": "train", "ranks": 1, "blacklists": blacklists}
        rig.peer(40 + index, frames.SPAWN, session, **opening)
        rig.hear(index, frames.SPAWNED, session, pid=2, instance="i")
    for index, told in enumerate(counts):
        count(rig, index, *told)
    return living, lost


def test_a_loss_that_meets_ranks_without_ours_is_told_until_they_have_ended():
    rig = make_told()
    living, lost = start_of_horovod(rig, (0, 0, 0), (0, 0, 0))
    rig.wait(60.0)
    assert rig.report.problems == {}
    rig.configure({}, members=(living, replace(lost, state=GONE)))
    told = rig.report.problems["RingNotBroken"]
    assert told.startswith("job-worker-1 was lost, and the ranks of the others have never said")
    rig.configure({}, members=(living,))
    assert rig.report.problems["RingNotBroken"] == told
    count(rig, 0, 0, 0, 1)
    assert rig.report.problems == {}


@pytest.mark.parametrize(
    ("counts", "seconds", "ips", "blacklists"),
    [
        (((0, 0, 1), (0, 0, 1)), 60.0, ("10.0.0.1",), True),
        (((0, 0, 0), (0, 0, 0)), 50.0, ("10.0.0.1",), True),
        ((), 60.0, ("10.0.0.1",), True),
        (((0, 0, 0), (0, 0, 0)), 60.0, (), True),
        (((0, 0, 0), (0, 0, 0)), 60.0, ("10.0.0.1",), False),
    ],
    ids=[
        "they are in a ring",
        "they may load still",
        "nobody counts",
        "lossRecovery is Wait",
        "it is torchrun",
    ],
)
def test_of_other_losses_nothing_is_told(
    counts: Sequence[tuple[int, ...]], seconds: float, ips: tuple[str, ...], *, blacklists: bool
):
    rig = make_told()
    living, lost = start_of_horovod(rig, *counts, blacklists=blacklists)
    rig.wait(seconds)
    rig.configure({}, members=(replace(living, ips=ips), replace(lost, state=GONE)))
    assert "RingNotBroken" not in rig.report.problems
