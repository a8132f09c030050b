"""What ended sessions cost an agent: little, for ever; and that none is run twice for that."""

from __future__ import annotations

import struct

import pytest

from et_contract import frames
from launcher.protocol.effects import Spawn
from launcher.protocol.outputs import Output
from launcher.protocol.tombstones import MOST
from tests.unit.launcher.protocol.test_agents import AgentRig


def key(number: int) -> bytes:
    return struct.pack("!QQ", 1, number)


def run_many(count: int) -> AgentRig:
    """So many sessions that have ended, and whose exits were acknowledged."""
    rig = AgentRig()
    rig.pids = iter(range(100, 10_000_000))
    rig.hello()
    for number in range(count):
        rig.spawn(key(number))
        rig.end(key(number), code=7)
        rig.send(frames.EXIT_ACK, session=key(number))
    return rig


@pytest.mark.long
def test_of_ended_sessions_only_the_newest_are_kept():
    rig = run_many(MOST + 10)
    assert len(rig.agent._sessions) == 0
    assert len(rig.agent._tombstones._sessions) == MOST
    rig.hello(2)
    assert rig.said[2][-1][1]["sessions"] == []
    rig.spawn(key(MOST), connection=2)
    assert rig.last(2)[0] == "EXIT"
    assert rig.last(2)[1]["code"] == 7


def test_what_may_have_been_run_and_forgotten_is_not_run_again():
    rig = run_many(MOST)
    started = len(rig.of(Spawn))
    rig.spawn(key(MOST), again=True)
    assert len(rig.of(Spawn)) == started + 1, "nothing was forgotten yet"
    rig.end(key(MOST))
    rig.send(frames.EXIT_ACK, session=key(MOST))
    rig.spawn(key(0), again=True)
    assert (rig.last()[0], rig.last()[1]["code"]) == ("LOST", 137)
    assert len(rig.of(Spawn)) == started + 1
    rig.spawn(key(MOST + 1))
    assert len(rig.of(Spawn)) == started + 2, "it is said for the first time"
    rig.send(frames.RESUME, {"instance": "i", "received": [0, 0]}, session=key(0))
    assert (rig.last()[0], rig.last()[1]["code"]) == ("LOST", 137)


@pytest.mark.long
def test_a_new_epoch_begins_without_any():
    rig = run_many(MOST + 1)
    rig.hello(2, epoch=4, launcher="next")
    rig.tick(1.0)
    rig.spawn(key(0), connection=2, again=True)
    assert rig.last(2)[0] == "SPAWNED"


class Counted(Output):
    asked = 0

    def next_frame(self, session: bytes) -> bytes | None:
        Counted.asked += 1
        return super().next_frame(session)


@pytest.mark.parametrize("silent", [1, 100])
def test_sessions_that_have_nothing_to_say_are_not_asked(silent: int):
    rig = run_many(50)
    for number in range(1000, 1000 + silent):
        rig.spawn(key(number))
        rig.agent._sessions[key(number)].output = Counted()
    rig.agent.output(key(1000), frames.STDOUT, b"x" * frames.MAX_DATA * 4)
    Counted.asked = 0
    sent = 0
    while rig.agent.next_data(1) is not None:
        sent += 1
    assert (sent, Counted.asked) == (4, 5)


def test_sessions_that_talk_take_turns_also_after_a_cut():
    rig = run_many(0)
    for number in (1, 2):
        rig.spawn(key(number))
        rig.agent.output(key(number), frames.STDOUT, b"x" * frames.MAX_DATA * 3)
    taken = [rig.agent.next_data(1) for _ in range(2)]
    rig.hello(2)
    assert rig.agent.next_data(2) is None
    for number in (1, 2):
        body = {"instance": "i", "received": [0, 0]}
        rig.send(frames.RESUME, body, session=key(number), connection=2)
    again = [rig.agent.next_data(2) for _ in range(6)]
    assert again[:2] == taken
    assert [data and data[4:20] for data in again] == [key(1), key(2)] * 3
    assert rig.agent.next_data(2) is None
