"""Who is told of which notice, when, and what of it is said again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from et_contract import frames
from et_contract.documents import MAX_WORKERS, HostConfig, Member, MemberState, ToldNotice
from launcher.broker.memories import Identity
from launcher.broker.notices import Notices
from launcher.protocol.bodies import read_notice

MOMENT, LATER = "2026-01-31T12:00:00Z", "2026-01-31T13:00:00Z"
IDENTITY = Identity("job", "ns", "job-uid", 2, "launcher-uid")


class Ears:
    """What agents and PID 1 were told, as they read it: "" is that there is no notice."""

    def __init__(self) -> None:
        self.agents: list[tuple[str, Any, int]] = []
        self.launcher: list[Any] = []
        self.is_deaf = False
        self.bytes = 0
        self.notices = Notices(self, IDENTITY)

    def to_agent(self, uid: str, data: bytes) -> None:
        self.bytes += len(data)
        self.agents.append((uid, *self._read(data)))

    def to_peer(self, peer: int, data: bytes, sessions: int = 1) -> bool:
        raise NotImplementedError

    def hang_up(self, peer: int) -> None:
        raise NotImplementedError

    def take(self, *notices: ToldNotice, workers: int = 2, **changes: Any) -> None:
        members = tuple(
            Member(f"job-worker-{n}", f"uid-{n}", 1, MemberState.ACTIVE, "main")
            for n in range(workers)
        )
        config = HostConfig("job", "ns", "job-uid", 1, 2, 2, 1, members, notices=notices)
        self.notices.take(replace(config, **changes))
        self.settle()

    def launch(self, *, noticed: bool | None = False) -> None:
        self.notices.register(noticed=noticed)
        self.settle()

    def settle(self) -> None:
        self.notices.tell_launcher(self._hear)

    def _hear(self, data: bytes) -> bool:
        if not self.is_deaf:
            self.launcher.append(self._read(data)[0])
        return not self.is_deaf

    def _read(self, data: bytes) -> tuple[Any, int]:
        decoder = frames.Decoder()
        decoder.feed(data)
        [frame] = decoder
        assert frame.type == frames.NOTICE
        notice, number = read_notice(frame)
        return notice or "", number

    def told(self) -> list[Any]:
        """Since it was last asked: who was told what reason."""
        found = [(uid, notice and notice["reason"]) for uid, notice, _ in self.agents]
        self.agents = []
        return found


def make(*uids: str, deadline: str = MOMENT, reason: str = "r") -> ToldNotice:
    return ToldNotice(reason, "taint spot-itn", deadline, uids)


@pytest.fixture
def ears() -> Ears:
    ears = Ears()
    ears.take()
    for uid in ("uid-0", "uid-1"):
        ears.notices.welcome(uid, noticed=False)
    ears.launch()
    assert (ears.agents, ears.launcher) == ([], [])
    return ears


def test_an_agent_is_told_of_its_own_pod_once_and_when_it_is_withdrawn(ears: Ears) -> None:
    ears.take(make("uid-1"), notice_signal="SIGUSR2")
    ears.take(make("uid-1"), notice_signal="SIGUSR2")
    [(uid, notice, number)] = ears.agents
    assert (uid, number) == ("uid-1", 12)
    assert notice == {
        "reason": "r",
        "source": "taint spot-itn",
        "deadline": MOMENT,
        "pods": {"job-worker-1": MOMENT},
    }
    ears.take()
    assert ears.told()[1:] == [("uid-1", "")]


def test_pid_1_is_told_of_all_and_of_what_ends_first(ears: Ears) -> None:
    ears.take(make("uid-1"), make("launcher-uid", deadline=""), make("uid-0", deadline=LATER))
    [notice] = ears.launcher
    pods = {"job-worker-1": MOMENT, "job-launcher-r1": None, "job-worker-0": LATER}
    assert notice["pods"] == pods
    assert notice["deadline"] is None
    ears.take(make("uid-1"), make("uid-0", deadline=LATER), notice_signal="SIGUSR1")
    assert ears.launcher[1]["deadline"] == MOMENT
    assert {uid for uid, *_ in ears.agents} == {"uid-0", "uid-1"}
    ears.take()
    ears.settle()
    assert ears.launcher[2:] == [""]


def test_who_is_not_of_the_job_any_more_is_told_nothing(ears: Ears) -> None:
    gone = Member("job-worker-1", "uid-1", 1, MemberState.GONE, "main")
    ears.take(make("uid-1", "uid-9"), members=(gone,))
    assert (ears.agents, ears.launcher) == ([], [])


def test_a_new_stream_is_told_what_there_is_and_of_none_only_who_knows_of_one(ears: Ears) -> None:
    ears.take(make("uid-1"))
    ears.told()
    ears.notices.forget("uid-1")
    ears.take()
    assert ears.told() == [], "who is away hears nothing"
    ears.notices.welcome("uid-1", noticed=True)
    assert ears.told() == [("uid-1", "")]
    ears.notices.welcome("uid-0", noticed=False)
    assert ears.told() == []
    ears.take(make("uid-0"))
    ears.notices.welcome("uid-0", noticed=True)
    assert ears.told() == [("uid-0", "r")] * 2


def test_a_new_pid_1_is_told_what_there_is_and_of_none_only_where_it_knows_of_one(
    ears: Ears,
) -> None:
    ears.take(make("uid-1"))
    ears.launch(noticed=True)
    assert len(ears.launcher) == 2
    ears.launch(noticed=False)
    assert len(ears.launcher) == 3
    ears.is_deaf = True
    ears.take()
    ears.is_deaf = False
    ears.launch(noticed=True)
    assert ears.launcher[3:] == [""]


def test_before_a_config_was_read_nobody_is_told_that_there_is_none() -> None:
    """After a restart."""
    ears = Ears()
    ears.launch(noticed=True)
    assert ears.launcher == []
    ears.take(make("uid-1"))
    ears.notices.welcome("uid-1", noticed=True)
    assert (len(ears.launcher), ears.told()) == (1, [("uid-1", "r")])


def test_who_would_not_understand_is_not_spoken_to() -> None:
    ears = Ears()
    ears.notices.welcome("uid-1", noticed=None)
    ears.launch(noticed=None)
    ears.take(make("uid-1"))
    ears.take()
    assert (ears.agents, ears.launcher) == ([], [])


def test_a_thousand_at_once_are_told_little_each_and_pid_1_all() -> None:
    ears = Ears()
    uids = [f"uid-{number}" for number in range(MAX_WORKERS)]
    for uid in uids:
        ears.notices.welcome(uid, noticed=False)
    ears.launch()
    ears.take(*map(make, uids), workers=MAX_WORKERS, notice_signal="SIGUSR1")
    assert len(ears.agents) == MAX_WORKERS
    assert ears.bytes < 300 * MAX_WORKERS
    [notice] = ears.launcher
    assert len(notice["pods"]) == MAX_WORKERS
