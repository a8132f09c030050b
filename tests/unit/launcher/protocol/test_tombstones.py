"""What ended sessions cost an agent: little, for ever; and that none is run twice for that."""

from __future__ import annotations

import struct

import pytest

from et_contract import frames
from launcher.protocol.effects import Spawn
from launcher.protocol.outputs import Output
from launcher.protocol.tombstones import MOST
from tests.unit.launcher.protocol.test_agents import Bench


def key(number: int) -> bytes:
    return struct.pack("!QQ", 1, number)


def run_many(count: int) -> Bench:
    """So many sessions that have ended, and whose exits were acknowledged."""
    bench = Bench()
    bench.pids = iter(range(100, 10_000_000))
    bench.hello()
    for number in range(count):
        bench.spawn(key(number))
        bench.end(key(number), code=7)
        bench.send(frames.EXIT_ACK, session=key(number))
    return bench


def test_of_ended_sessions_only_the_newest_are_kept():
    bench = run_many(MOST + 10)
    assert len(bench.agent._sessions) == 0
    assert len(bench.agent._tombstones._sessions) == MOST
    bench.hello(2)
    assert bench.said[2][-1][1]["sessions"] == []
    bench.spawn(key(MOST), connection=2)
    assert bench.last(2)[0] == "EXIT"
    assert bench.last(2)[1]["code"] == 7


def test_what_may_have_been_run_and_forgotten_is_not_run_again():
    bench = run_many(MOST)
    started = len(bench.of(Spawn))
    bench.spawn(key(MOST), again=True)
    assert len(bench.of(Spawn)) == started + 1, "nothing was forgotten yet"
    bench.end(key(MOST))
    bench.send(frames.EXIT_ACK, session=key(MOST))
    bench.spawn(key(0), again=True)
    assert (bench.last()[0], bench.last()[1]["code"]) == ("LOST", 137)
    assert len(bench.of(Spawn)) == started + 1
    bench.spawn(key(MOST + 1))
    assert len(bench.of(Spawn)) == started + 2, "it is said for the first time"
    bench.send(frames.RESUME, {"instance": "i", "received": [0, 0]}, session=key(0))
    assert (bench.last()[0], bench.last()[1]["code"]) == ("LOST", 137)


def test_a_new_epoch_begins_without_any():
    bench = run_many(MOST + 1)
    bench.hello(2, epoch=4, launcher="next")
    bench.tick(1.0)
    bench.spawn(key(0), connection=2, again=True)
    assert bench.last(2)[0] == "SPAWNED"


class Counted(Output):
    asked = 0

    def next_frame(self, session: bytes) -> bytes | None:
        Counted.asked += 1
        return super().next_frame(session)


@pytest.mark.parametrize("silent", [1, 100])
def test_sessions_that_have_nothing_to_say_are_not_asked(silent: int):
    bench = run_many(50)
    for number in range(1000, 1000 + silent):
        bench.spawn(key(number))
        bench.agent._sessions[key(number)].output = Counted()
    bench.agent.output(key(1000), frames.STDOUT, b"x" * frames.MAX_DATA * 4)
    Counted.asked = 0
    sent = 0
    while bench.agent.next_data(1) is not None:
        sent += 1
    assert (sent, Counted.asked) == (4, 5)


def test_sessions_that_talk_take_turns_also_after_a_cut():
    bench = run_many(0)
    for number in (1, 2):
        bench.spawn(key(number))
        bench.agent.output(key(number), frames.STDOUT, b"x" * frames.MAX_DATA * 3)
    taken = [bench.agent.next_data(1) for _ in range(2)]
    bench.hello(2)
    assert bench.agent.next_data(2) is None
    for number in (1, 2):
        body = {"instance": "i", "received": [0, 0]}
        bench.send(frames.RESUME, body, session=key(number), connection=2)
    again = [bench.agent.next_data(2) for _ in range(6)]
    assert again[:2] == taken
    assert [data and data[4:20] for data in again] == [key(1), key(2)] * 3
    assert bench.agent.next_data(2) is None
