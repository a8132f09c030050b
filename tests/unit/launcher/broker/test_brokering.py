"""The whole broker without its sockets: a job's life in virtual time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from et_contract import frames
from et_contract.documents import HostConfig, Member, MemberState, Report, ScriptOrder, SessionExit
from et_contract.frames import Frame, ProtocolError
from launcher.broker.bodies import KnownSession, Welcome
from launcher.broker.brokering import Broker
from launcher.broker.facts import EXITS_KEPT
from launcher.broker.hosts import Verdict
from launcher.broker.memories import Identity, Memory

ACTIVE, DRAINING, GONE = MemberState.ACTIVE, MemberState.DRAINING, MemberState.GONE
PID1, SHIM, DISCOVER = 1, 2, 3
A = b"a" * 16
NOBODY = Welcome("i", is_closed=False, is_terminating=False, sessions=())
IDENTITY = Identity("job", "ns", "job-uid", 1, "launcher-uid")
ORDER = ScriptOrder("uid/1", "echo hi", "job-worker-0:1", (("K", "v"),), 60)


class Bench:
    """A broker, its surroundings, and a clock that only tests move."""

    def __init__(self, memory: Memory | None = None) -> None:
        self.now = 100.0
        self.agents: list[tuple[str, str]] = []
        self.peers: list[tuple[int, str, Any]] = []
        self.ended: list[int] = []
        self.text: str | None = None
        self.kept: Memory | None = None
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
        self.broker.settle(self.now)

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


def make_told() -> Bench:
    """Two workers listed, the command told to start."""
    bench = Bench()
    bench.configure({0: ACTIVE, 1: ACTIVE})
    bench.welcome(0)
    bench.welcome(1)
    bench.peer(PID1, frames.LAUNCH, nonce="nonce")
    return bench


def make_started() -> Bench:
    """Two workers listed, the command started, a session on each."""
    bench = make_told()
    for index in (0, 1):
        session = bytes([index]) * 15 + b"s"
        bench.peer(
            10 + index, frames.SPAWN, session, host=f"job-worker-{index}", command="train", ranks=1
        )
        bench.hear(index, frames.SPAWNED, session, pid=1, instance="i")
    bench.agents, bench.peers = [], []
    return bench


def end_session(bench: Bench, index: int) -> None:
    session = bytes([index]) * 15 + b"s"
    bench.hear(index, frames.EXIT, session, code=134, produced=[0, 0], reason="signal 6")


def test_the_command_starts_when_all_replicas_are_listed():
    bench = Bench()
    bench.peer(PID1, frames.LAUNCH, nonce="nonce")
    bench.configure({0: ACTIVE, 1: ACTIVE})
    bench.welcome(0)
    bench.wait(1.0)
    assert bench.go() == []
    bench.welcome(1)
    assert bench.text == "job-worker-0:1\njob-worker-1:1\n"
    assert bench.go() == ["GO"]
    assert bench.report.listed == {"uid-0", "uid-1"}
    assert bench.kept is not None
    assert bench.kept.hosts.started


def test_the_command_starts_with_fewer_after_half_a_minute():
    bench = Bench()
    bench.peer(PID1, frames.LAUNCH, nonce="nonce")
    bench.configure({0: ACTIVE})
    bench.welcome(0)
    bench.wait(29.9)
    assert bench.go() == []
    assert bench.broker.due() == 130.0
    bench.wait(0.1)
    assert bench.go() == ["GO"]


def test_the_least_number_must_be_there_all_the_time():
    bench = Bench()
    bench.peer(PID1, frames.LAUNCH, nonce="nonce")
    bench.configure({0: ACTIVE})
    bench.welcome(0)
    bench.wait(20.0)
    bench.configure({0: GONE, 1: ACTIVE})
    bench.welcome(1)
    bench.wait(29.0)
    assert bench.go() == []
    bench.wait(1.0)
    assert bench.go() == ["GO"]


def test_pid_1_is_told_again_after_it_came_back():
    bench = make_started()
    bench.configure({0: DRAINING, 1: DRAINING})
    bench.peer(PID1, frames.LAUNCH, nonce="nonce")
    assert bench.go() == ["GO"]


def test_before_the_first_config_discovery_gets_no_answer():
    bench = Bench()
    bench.peer(DISCOVER, frames.HOSTS, nonce="nonce")
    assert bench.ended == [DISCOVER]
    assert bench.text is None


def test_a_read_between_config_and_settling_sees_the_shorter_list():
    bench = make_started()
    config = bench.broker.hosts.config
    assert config is not None
    members = (config.members[0], replace(config.members[1], state=DRAINING))
    bench.broker.take_config(replace(config, generation=9, members=members), bench.now)
    bench.broker.take_peer_frame(DISCOVER, make_frame(frames.HOSTS, nonce="nonce"), bench.now)
    assert bench.peers[-1][2]["text"] == "job-worker-0:1\n"
    bench.settle()
    assert bench.report.served_generation == 9


def test_an_answer_that_did_not_arrive_is_not_served():
    bench = make_started()
    bench.deaf = True
    bench.read()
    assert bench.report.served_generation == 0
    bench.deaf = False
    bench.read(nonce="of a person")
    assert bench.report.served_generation == 0
    bench.read()
    assert bench.report.served_generation == 1


def test_a_graceful_scale_in():
    bench = make_started()
    bench.configure({1: DRAINING})
    assert bench.read() == "job-worker-0:1\n"
    assert bench.report.served_generation == 2
    assert bench.asked() == []
    end_session(bench, 1)
    assert bench.report.exits["uid-1"][0].code == 134
    assert bench.asked() == ["uid-1"]
    bench.hear(1, frames.CLOSED)
    assert bench.report.closed == {"uid-1"}


def test_a_spare_host_is_asked_after_some_reads_and_some_seconds():
    bench = make_started()
    bench.configure({2: ACTIVE})
    bench.welcome(2)
    bench.read()
    bench.configure({2: DRAINING})
    bench.read()
    bench.wait(60.0)
    bench.read()
    assert bench.asked() == []
    bench.read()  # two, and one for the slot without a process
    assert bench.asked() == ["uid-2"]


def test_a_worker_that_was_never_listed_is_closed_without_a_stream():
    bench = make_started()
    bench.configure({2: ACTIVE})
    bench.configure({2: DRAINING})
    assert bench.report.closed == {"uid-2"}
    assert "uid-2" not in bench.broker.wanted()


def test_a_cut_asks_again_and_a_welcome_may_say_closed():
    bench = make_started()
    bench.configure({1: DRAINING})
    bench.read()
    end_session(bench, 1)
    assert bench.asked() == ["uid-1"]
    bench.broker.lose_stream("uid-1")
    bench.welcome(1)
    assert bench.asked() == ["uid-1"]
    bench.broker.lose_stream("uid-1")
    bench.welcome(1, replace(NOBODY, is_closed=True))
    assert bench.report.closed == {"uid-1"}
    assert bench.asked() == []


def test_of_the_ends_that_a_welcome_names_only_those_are_taken_that_are_kept():
    bench = make_started()
    before = bench.broker.ledger.revision
    names = [f"{number:032x}" for number in range(100)]
    sessions = [KnownSession(bytes.fromhex(name), SessionExit(name, 0)) for name in names]
    bench.welcome(0, replace(NOBODY, sessions=tuple(sessions)))
    assert [end.session for end in bench.report.exits["uid-0"]] == names[-EXITS_KEPT:]
    assert bench.broker.ledger.revision <= before + EXITS_KEPT


def test_an_end_first_heard_of_in_a_welcome_proves_nothing():
    bench = make_started()
    bench.configure({1: DRAINING})
    bench.read()
    bench.broker.lose_stream("uid-1")
    session = bytes([1]) * 15 + b"s"
    ended = KnownSession(session, SessionExit(session.hex(), 134))
    bench.welcome(1, replace(NOBODY, sessions=(ended,)))
    assert bench.asked() == []
    assert bench.report.exits["uid-1"][0].code == 134
    for _ in range(3):
        bench.read()
    bench.wait(4.0)
    assert bench.asked() == ["uid-1"]


def test_nothing_is_asked_on_time_alone_before_the_command_has_started_anything():
    bench = make_told()
    bench.configure({1: DRAINING})
    for _ in range(9):
        bench.read()
    bench.wait(30.0)
    assert bench.asked() == []
    bench.peer(30, frames.SPAWN, A, host="job-worker-0", command="train", ranks=1)
    bench.wait(0.0)
    assert bench.asked() == ["uid-1"]


def test_a_spawn_on_a_draining_host_is_accepted_and_disarms():
    bench = make_started()
    bench.configure({1: DRAINING})
    bench.read()
    end_session(bench, 1)
    assert bench.asked() == ["uid-1"]
    bench.peer(30, frames.SPAWN, A, host="job-worker-1", command="train", ranks=1)
    assert ("uid-1", "SPAWN") in bench.agents
    assert bench.asked() == []
    bench.hear(1, frames.EXIT, A, code=134, produced=[0, 0])
    assert bench.asked() == ["uid-1"]


def test_a_lost_notification_is_said_again_by_a_pseudo_host():
    bench = make_started()
    bench.configure({1: DRAINING})
    bench.read()
    bench.wait(15.0)
    assert bench.read() == "job-worker-0:1\nedl-nudge-1:0\n"
    end_session(bench, 1)
    bench.wait(60.0)
    assert bench.read() == "job-worker-0:1\nedl-nudge-1:0\n"


def test_the_end_of_what_a_driver_of_ones_own_has_started_tells_that_it_knows():
    bench = make_told()
    for index in (0, 1):
        session = bytes([index]) * 15 + b"s"
        host = f"job-worker-{index}"
        bench.peer(10 + index, frames.SPAWN, session, host=host, command="train")
        bench.hear(index, frames.SPAWNED, session, pid=1, instance="i")
    bench.configure({1: DRAINING})
    bench.read()
    end_session(bench, 1)
    bench.wait(1.0)
    assert bench.asked() == ["uid-1"]


def test_a_driver_of_ones_own_reads_no_pseudo_hosts():
    bench = make_told()
    bench.peer(10, frames.SPAWN, A, host="job-worker-0", command="train")
    bench.hear(0, frames.SPAWNED, A, pid=1, instance="i")
    bench.read()
    bench.wait(60.0)
    assert bench.read() == "job-worker-0:1\njob-worker-1:1\n", "nor is it told again"
    bench.configure({1: DRAINING})
    assert bench.read() == "job-worker-0:1\n"


def test_where_ranks_are_known_the_end_of_anything_else_tells_nothing():
    bench = make_started()
    welcome_guest(bench, 1)
    bench.configure({1: DRAINING})
    bench.read()
    bench.hear(1, frames.EXIT, A, code=0, produced=[0, 0], reason="exited")
    bench.wait(1.0)
    assert bench.asked() == []


@pytest.mark.parametrize("seconds", [100, 300, 3000])
def test_a_training_that_loads_its_data_first_hears_of_a_host_that_came_meanwhile(seconds: int):
    bench = make_started()
    bench.configure({2: ACTIVE}, replicas=3)
    bench.welcome(2)
    pass_quietly(bench, seconds)  # rank 0 has not registered: nobody is told
    known = bench.read()
    pass_quietly(bench, 60)
    assert bench.read() != known


def test_a_command_that_has_ended_is_told_of_nothing():
    bench = make_started()
    bench.configure({2: ACTIVE}, replicas=3)
    bench.welcome(2)
    bench.read()
    bench.peer(PID1, frames.ENDED, code=0)
    known = bench.text
    pass_quietly(bench, 60)
    assert bench.text == known


def pass_quietly(bench: Bench, seconds: int) -> None:
    """Seconds in which horovodrun reads the list, and nothing happens."""
    for _ in range(seconds):
        bench.wait(1.0)
        bench.read()


def test_a_pseudo_host_leaves_only_with_the_next_change():
    bench = make_started()
    bench.configure({2: ACTIVE}, replicas=3)
    bench.welcome(2)
    bench.read()
    bench.wait(10.0)
    bench.peer(30, frames.SPAWN, A, host="job-worker-2", command="train", ranks=1)
    bench.hear(2, frames.SPAWNED, A, pid=1, instance="i")
    bench.configure({1: DRAINING})
    assert bench.read() == "job-worker-0:1\njob-worker-2:1\n"


def test_a_removal_that_a_spare_takes_over_is_told_as_more_than_a_removal():
    bench = make_started()
    bench.configure({2: ACTIVE}, replicas=3)
    bench.welcome(2)
    bench.configure({1: DRAINING})
    assert bench.read() == "job-worker-0:1\njob-worker-2:1\nedl-nudge-1:0\n"


def welcome_guest(bench: Bench, index: int) -> None:
    """Somebody runs something there that is no rank."""
    bench.peer(50, frames.SPAWN, A, host=f"job-worker-{index}", command="top")
    bench.hear(index, frames.SPAWNED, A, pid=9, instance="i")


def end_guest(bench: Bench, index: int) -> None:
    bench.hear(index, frames.EXIT, A, code=0, produced=[0, 0], reason="exited")
    bench.peer(50, frames.EXIT_ACK, A)


def test_a_guest_on_a_spare_does_not_hide_it():
    bench = make_started()
    bench.configure({2: ACTIVE}, replicas=3)
    bench.welcome(2)
    welcome_guest(bench, 2)
    bench.configure({1: DRAINING})
    assert bench.read() == "job-worker-0:1\njob-worker-2:1\nedl-nudge-1:0\n"


def test_a_guest_does_not_stand_for_the_rank_that_a_new_host_lacks():
    bench = make_started()
    bench.configure({2: ACTIVE}, replicas=3)
    bench.welcome(2)
    welcome_guest(bench, 2)
    bench.read()
    end_guest(bench, 2)
    bench.wait(10.0)
    assert bench.read().endswith("edl-nudge-1:0\n")


def test_the_end_of_a_guest_does_not_prove_that_a_worker_was_told():
    bench = make_started()
    welcome_guest(bench, 1)
    bench.configure({1: DRAINING})
    bench.read()
    end_guest(bench, 1)
    assert bench.asked() == []
    end_session(bench, 1)
    assert bench.asked() == ["uid-1"]


def test_a_guest_that_comes_to_a_worker_that_was_asked_has_it_asked_again():
    bench = make_started()
    bench.configure({1: DRAINING})
    bench.read()
    end_session(bench, 1)
    assert bench.asked() == ["uid-1"]
    welcome_guest(bench, 1)
    assert bench.asked() == ["uid-1"]


def test_a_guest_is_no_beginning_of_the_training():
    bench = make_told()
    welcome_guest(bench, 0)
    bench.configure({1: DRAINING})
    for _ in range(5):
        bench.read()
    bench.wait(30.0)
    assert bench.asked() == []
    bench.wait(30.0)
    assert bench.asked() == ["uid-1"]


def test_a_restarted_broker_hears_from_their_shims_which_sessions_are_ranks():
    before = make_started()
    bench = Bench(before.kept)
    bench.settle()
    bench.generation = before.generation - 1
    bench.configure({0: ACTIVE, 1: ACTIVE})
    for index in (0, 1):
        session = bytes([index]) * 15 + b"s"
        bench.welcome(index, replace(NOBODY, sessions=(KnownSession(session, None),)))
        body = {"host": f"job-worker-{index}", "instance": "i", "received": [0, 0]}
        bench.peer(10 + index, frames.RESUME, session, ranks=1, **body)
    bench.read()
    bench.wait(60.0)
    assert bench.read() == "job-worker-0:1\njob-worker-1:1\n"


def test_a_restarted_broker_leaves_the_pseudo_host_where_it_is():
    before = make_started()
    before.configure({1: DRAINING})
    before.read()
    before.wait(10.0)
    assert before.kept is not None
    bench = Bench(before.kept)
    bench.settle()
    assert bench.text == before.text == "job-worker-0:1\nedl-nudge-1:0\n"


def test_a_host_that_came_and_got_no_process_is_told_again_by_a_pseudo_host():
    bench = make_started()
    bench.configure({2: ACTIVE}, replicas=3)
    bench.welcome(2)
    listed = "job-worker-0:1\njob-worker-1:1\njob-worker-2:1\n"
    assert bench.read() == listed
    bench.wait(9.0)
    assert bench.read() == listed
    bench.wait(1.0)
    assert bench.read() == listed + "edl-nudge-1:0\n"
    bench.peer(30, frames.SPAWN, A, host="job-worker-2", command="train", ranks=1)
    bench.wait(60.0)
    assert bench.read() == listed + "edl-nudge-1:0\n"


def test_the_agent_of_a_pod_that_is_deleted_is_told_how_long_it_has():
    bench = make_started()
    gone = Member("job-worker-0", "uid-0", 1, DRAINING, "main", grace_seconds=10)
    bench.configure({}, members=(gone,))
    assert ("uid-0", "GRACE") in bench.agents
    bench.agents = []
    bench.broker.lose_stream("uid-0")
    bench.welcome(0)
    assert bench.agents[0] == ("uid-0", "GRACE")


def test_a_terminating_worker_is_off_the_list_without_the_operator():
    bench = make_started()
    bench.hear(0, frames.TERMINATING, seconds=50.0)
    assert bench.text == "job-worker-1:1\n"
    late = make_started()
    late.configure({2: ACTIVE})
    late.welcome(2, replace(NOBODY, is_terminating=True))
    late.wait(5.0)
    assert late.text == "job-worker-0:1\njob-worker-1:1\n"


def test_a_gone_worker_has_its_shims_told_after_the_second_read():
    bench = make_started()
    bench.configure({1: GONE})
    assert "uid-1" not in bench.broker.wanted()
    bench.read()
    assert bench.peers == []
    bench.read()
    assert [(peer, name, body["code"]) for peer, name, body in bench.peers] == [(11, "LOST", 137)]


def test_a_gone_worker_has_its_shims_told_when_nobody_reads():
    bench = make_started()
    bench.configure({1: GONE})
    assert bench.broker.due() == 108.0
    bench.wait(8.0)
    assert [(peer, name) for peer, name, _ in bench.peers] == [(11, "LOST")]


def test_a_later_epoch_ends_everything():
    bench = make_started()
    text = bench.text
    kept = bench.kept
    assert bench.configure({0: GONE}, epoch=2) is Verdict.FENCED
    assert bench.broker.wanted() == {}
    bench.broker.ledger.end(3)
    bench.broker.hosts.remove("uid-0")
    bench.wait(60.0)
    assert (bench.text, bench.kept) == (text, kept)


def test_a_restarted_broker_goes_on_with_the_list_and_asks_for_nothing_twice():
    before = make_started()
    before.read()
    assert before.kept is not None
    bench = Bench(before.kept)
    bench.settle()
    assert bench.text == "job-worker-0:1\njob-worker-1:1\n"
    assert bench.read() == "job-worker-0:1\njob-worker-1:1\n"
    bench.peer(PID1, frames.LAUNCH, nonce="nonce")
    assert bench.go() == ["GO"]
    bench.configure({0: ACTIVE, 1: DRAINING})
    # No agent has said yet what it runs, so worker 0 could be a spare.
    assert bench.text == "job-worker-0:1\nedl-nudge-1:0\n"
    assert bench.report.closed == frozenset()


def test_a_restarted_broker_knows_who_was_told_to_leave_and_which_nudges_were_shown():
    before = make_started()
    before.configure({1: DRAINING})
    before.read()
    before.wait(10.0)
    assert before.text == "job-worker-0:1\nedl-nudge-1:0\n"
    end_session(before, 1)
    assert before.kept is not None
    bench = Bench(before.kept)
    bench.generation = before.generation - 1
    bench.settle()
    bench.configure({0: ACTIVE, 1: DRAINING})
    bench.welcome(1)
    assert bench.asked() == ["uid-1"]
    bench.configure({2: ACTIVE}, replicas=2)
    bench.welcome(2)
    bench.read()
    bench.wait(10.0)
    assert bench.text == "job-worker-0:1\njob-worker-2:1\nedl-nudge-2:0\n"


def test_a_script_is_ordered_once_for_each_connection_until_it_is_done():
    bench = make_started()
    bench.scripts = (ORDER,)
    bench.configure({})
    body = bench.peers[-1][2]
    assert body == {
        "id": "uid/1",
        "script": "echo hi",
        "argument": "job-worker-0:1",
        "env": {"K": "v"},
        "timeout": 60,
        "shell": False,
    }
    assert bench.go() == ["SCRIPT"]
    bench.configure({})
    assert bench.go() == []
    bench.peer(PID1, frames.LAUNCH, nonce="nonce")
    assert bench.go() == ["GO", "SCRIPT"]
    bench.peer(PID1, frames.SCRIPT_DONE, id="uid/1", code=0, output="x" * 5000, timedOut=False)
    assert bench.report.scripts["uid/1"].code == 0
    assert len(bench.report.scripts["uid/1"].output) == 4096
    bench.peer(PID1, frames.LAUNCH, nonce="nonce")
    assert bench.go() == ["GO"]


def make_ordered() -> Bench:
    bench = make_started()
    bench.scripts = (ORDER,)
    bench.configure({})
    return bench


def test_the_result_of_a_script_is_told_until_the_operator_has_taken_it_in():
    bench = make_ordered()
    bench.peer(PID1, frames.SCRIPT_DONE, id="uid/1", code=0, output="")
    bench.peer(PID1, frames.SCRIPT_DONE, id="nobody's", code=0, output="")
    bench.configure({})
    assert set(bench.report.scripts) == {"uid/1"}
    bench.scripts = ()
    bench.configure({})
    assert bench.report.scripts == {}


def test_a_broker_stays_as_small_as_its_job():
    bench = make_started()
    sizes = set()
    for number in range(2, 40):
        bench.configure({number: ACTIVE})
        bench.welcome(number)
        bench.peer(
            100 + number,
            frames.SPAWN,
            bytes([number]) * 16,
            host=f"job-worker-{number}",
            command="c",
        )
        bench.configure({number: DRAINING})
        bench.hear(number, frames.CLOSED)
        bench.configure({number: GONE})
        bench.read()
        bench.read()
        bench.broker.lose_peer(100 + number, bench.now)
        del bench.members[number]
        bench.configure({})
        bench.wait(10.0)
        sizes.add((measure(bench.broker), len(bench.report.listed), len(bench.report.closed)))
    assert len(sizes) == 1
    assert bench.kept is not None
    assert bench.kept.hosts.ever_listed == {"uid-0", "uid-1"}


def measure(broker: Broker) -> int:
    """Everything that a broker holds for each pod."""
    parts = [broker.hosts, broker._relay, broker._drains, broker._departures]
    found = [
        getattr(p, name) for p in parts for name in (*getattr(p, "__slots__", ()), *vars_of(p))
    ]
    return sum(len(each) for each in found if isinstance(each, dict | set | frozenset | tuple))


def vars_of(part: object) -> list[str]:
    return list(getattr(part, "__dict__", {}))


def test_who_comes_back_after_all_was_forgotten_is_told_too():
    bench = make_started()
    bench.configure({1: GONE})
    del bench.members[1]
    bench.configure({})
    bench.wait(10.0)
    bench.peers = []
    bench.peer(SHIM, frames.RESUME, A, host="job-worker-1", instance="i", received=[0, 0])
    assert [(peer, name, body["code"]) for peer, name, body in bench.peers] == [(SHIM, "LOST", 137)]


class Counted(dict[str, Any]):
    """A dict that counts how often it was gone through."""

    passes = 0

    def values(self) -> Any:
        Counted.passes += 1
        return super().values()


def test_a_settle_goes_through_the_members_as_often_however_many_leave():
    passes = []
    for leaving in (2, 40):
        bench = Bench()
        bench.configure(dict.fromkeys(range(50), ACTIVE), replicas=50)
        for number in range(50):
            bench.welcome(number)
        bench.configure(dict.fromkeys(range(leaving), DRAINING), replicas=50)
        bench.broker.hosts.members = Counted(bench.broker.hosts.members)
        Counted.passes = 0
        bench.settle()
        bench.broker.due()
        passes.append(Counted.passes)
    assert passes[0] == passes[1]


def test_output_of_a_script_that_is_no_text_is_reported_as_far_as_it_is():
    bench = make_ordered()
    bench.peer(PID1, frames.SCRIPT_DONE, id="uid/1", code=0, output="a\ud800b")
    assert bench.report.scripts["uid/1"].output == "a\ufffdb"


def test_a_script_that_ran_too_long_has_no_code():
    bench = make_ordered()
    bench.peer(PID1, frames.SCRIPT_DONE, id="uid/1", code=-15, output="", timedOut=True)
    assert bench.report.scripts["uid/1"].code is None


def test_the_end_of_the_command_is_kept_before_pid_1_may_leave():
    bench = make_started()
    end = make_frame(frames.ENDED, code=3, toldToEnd=True)
    bench.broker.take_peer_frame(PID1, end, bench.now)
    assert bench.ended == []
    bench.settle()
    assert (bench.report.ended, bench.report.is_told_to_end) == (3, True)
    assert bench.ended == [PID1]


def test_the_hello_says_who_is_calling():
    bench = Bench()
    assert frames.decode_json(decode(bench.broker.build_hello("uid-0", 4))[0]) == {
        "job": "job-uid",
        "epoch": 1,
        "launcher": "launcher-uid",
        "brokerStart": 1,
        "connection": 4,
        "pod": "uid-0",
    }


@pytest.mark.parametrize("kind", [frames.SPAWN, frames.HELLO, frames.GO])
def test_an_agent_that_breaks_a_rule_is_dropped(kind: int):
    bench = make_started()
    with pytest.raises(ProtocolError):
        bench.hear(0, kind)


def test_exits_of_sessions_that_nobody_asked_for_are_not_reported():
    bench = make_started()
    for number in range(100):
        bench.hear(0, frames.EXIT, bytes([number]) * 16, code=1, produced=[0, 0])
    bench.peer(SHIM, frames.SPAWN, A, host="job-worker-1", command="c")
    bench.hear(0, frames.EXIT, A, code=1, produced=[0, 0])
    assert bench.report.exits == {}
    bench.hear(1, frames.EXIT, A, code=1, produced=[0, 0])
    assert set(bench.report.exits) == {"uid-1"}


def test_an_answered_ping_tells_how_long_the_way_is_and_widens_a_window():
    bench = Bench()
    bench.configure({0: ACTIVE})
    bench.welcome(0)
    bench.peer(SHIM, frames.SPAWN, A, host="job-worker-0", command="c", window=2**21)
    bench.hear(0, frames.SPAWNED, A, pid=1, instance="i")
    bench.hear(0, frames.PONG, sent="never")
    bench.hear(0, frames.PONG, sent=bench.now - 0.04)
    bench.agents = []
    for number in range(16):
        offset = number * frames.MAX_DATA
        data = Frame(frames.DATA, A, 1, offset, b"x" * frames.MAX_DATA)
        bench.broker.take_agent_frame("uid-0", data, bench.now)
        if number in (7, 15):
            bench.now += 0.04
            ack = Frame(frames.ACK, A, 1, offset + frames.MAX_DATA, b'{"window":1}')
            bench.broker.take_peer_frame(SHIM, ack, bench.now)
    # Two that were passed on, and one of the broker's own.
    assert bench.agents == [("uid-0", "ACK")] * 3


def read_steadily(bench: Bench, count: int = 12) -> None:
    for _ in range(count):
        bench.wait(1.2)
        bench.read()


@pytest.mark.point("case-26")
def test_a_command_that_asks_for_hosts_no_more_is_stalled_until_it_asks_again():
    bench = make_started()
    read_steadily(bench)
    assert bench.broker.due() == bench.now + 30.0
    bench.wait(29.0)
    assert bench.report.problems == {}
    bench.wait(1.0)
    assert list(bench.report.problems) == ["DriverStalled"]
    assert bench.broker.due() == float("inf")
    bench.wait(600.0)
    assert list(bench.report.problems) == ["DriverStalled"]
    bench.read("somebody's")
    assert list(bench.report.problems) == ["DriverStalled"]
    bench.read()
    assert bench.report.problems == {}


def test_what_is_started_after_horovodrun_is_no_sign_that_it_hangs():
    bench = make_started()
    read_steadily(bench)
    for index in (0, 1):
        end_session(bench, index)
        bench.peer(10 + index, frames.EXIT_ACK, bytes([index]) * 15 + b"s")
    welcome_guest(bench, 0)
    bench.wait(30.0)
    assert bench.report.problems == {}


def test_nor_is_what_is_started_after_a_wait_for_hosts():
    bench = make_told()
    read_steadily(bench)
    bench.peer(60, frames.SPAWN, A, host="job-worker-0", command="train", ranks=1)
    bench.wait(30.0)
    assert bench.report.problems == {}


def test_the_next_broker_knows_of_a_stall_and_of_its_end():
    before = make_started()
    read_steadily(before)
    before.wait(30.0)
    bench = Bench(before.kept)
    bench.settle()
    assert list(bench.broker.ledger.report.problems) == ["DriverStalled"]
    bench.read()
    assert bench.broker.ledger.report.problems == {}


def test_a_command_that_is_not_answered_in_time_is_not_stalled():
    bench = make_started()
    bench.deaf = True
    for _ in range(60):
        bench.wait(1.2)
        bench.peer(DISCOVER, frames.HOSTS, nonce="nonce")
    assert bench.report.problems == {}


def test_a_command_that_has_ended_is_not_stalled():
    bench = make_started()
    read_steadily(bench)
    bench.peer(PID1, frames.ENDED, code=0)
    bench.wait(30.0)
    assert bench.report.problems == {}


def test_nothing_is_due_in_a_job_that_trains():
    bench = make_started()
    bench.wait(100.0)
    assert bench.broker.due() == float("inf")


def test_a_worker_that_can_never_be_listed_is_told_as_closed():
    bench = make_started()
    bench.configure({1: GONE})
    bench.configure({1: ACTIVE})  # what was set back with all of etcd
    assert bench.report.closed == {"uid-1"}
    assert bench.read() == "job-worker-0:1\n"
