from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_process.lanes import AT_ONCE, LIGHT, LONGEST_REST, PARTS, Lanes
from et_process.workqueue import SPARE_TIMERS, WorkQueue
from fakes.clock import FakeClock

SECOND = timedelta(seconds=1)


@asynccontextmanager
async def running(clock: FakeClock, **options: Any) -> AsyncIterator[WorkQueue[str]]:
    queue: WorkQueue[str] = WorkQueue(clock, chance=lambda: 0.0, **options)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(queue.run())
        yield queue
        task.cancel()


async def test_a_key_that_is_added_twice_comes_once():
    async with running(FakeClock()) as queue:
        queue.add("a")
        queue.add("b")
        queue.add("a")
        assert [await queue.get(), await queue.get()] == ["a", "b"]
        assert queue.depth == 0


async def test_a_key_that_is_added_while_it_is_processed_comes_again_afterwards():
    async with running(FakeClock()) as queue:
        queue.add("a")
        await queue.get()
        queue.add("a")
        assert queue.depth == 0
        queue.done("a")
        assert queue.depth == 1
        assert await queue.get() == "a"


async def test_a_delayed_key_comes_at_its_time_and_the_earliest_wish_wins():
    clock = FakeClock()
    async with running(clock) as queue:
        queue.add("a", 10 * SECOND)
        queue.add("a", 3 * SECOND)
        queue.add("a", 7 * SECOND)
        await clock.advance(timedelta(seconds=2.9))
        assert (queue.depth, queue.delayed) == (0, 1)
        await clock.advance(timedelta(seconds=0.2))
        assert (queue.depth, queue.delayed) == (1, 0)
        await queue.get()
        queue.done("a")
        await clock.advance(60 * SECOND)
        assert queue.depth == 0


async def test_a_key_that_is_due_now_needs_no_delay_any_more():
    clock = FakeClock()
    async with running(clock) as queue:
        queue.add("a", 3 * SECOND)
        queue.add("a")
        await queue.get()
        queue.done("a")
        await clock.advance(10 * SECOND)
        assert (queue.depth, queue.delayed) == (0, 0)


async def test_failures_are_waited_out_longer_each_time_until_a_success():
    async with running(FakeClock()) as queue:
        delays = [queue.retry("a").total_seconds() for _ in range(3)]
        queue.forget("a")
        assert [*delays, queue.retry("a").total_seconds()] == [0.2, 0.4, 0.8, 0.2]


async def test_no_event_makes_a_key_due_while_the_server_asked_to_wait():
    clock = FakeClock()
    async with running(clock) as queue:
        queue.add("a")
        await queue.get()
        queue.add("a")  # an event, while the worker has it
        queue.retry("a", at_least=5 * SECOND)
        queue.done("a")
        queue.add("a")
        queue.add("a", SECOND)
        assert (queue.depth, queue.delayed) == (0, 1)
        await clock.advance(5 * SECOND)
        assert queue.depth == 1
        queue.add("a")
        await queue.get()
        queue.done("a")
        queue.add("a")
        assert queue.depth == 1  # the wait is over


async def test_a_queue_that_is_cleared_knows_of_no_key():
    clock = FakeClock()
    async with running(clock) as queue:
        for key in ("refused", "waits"):
            queue.add(key)
        await queue.get()
        queue.retry("refused", 60 * SECOND)
        queue.done("refused")
        queue.add("later", 5 * SECOND)
        queue.clear()
        await clock.advance(timedelta(hours=1))
        assert (queue.depth, queue.delayed) == (0, 0)
        queue.add("refused")
        assert await queue.get() == "refused"
        assert queue.retry("refused") == timedelta(seconds=0.2), "as after its first failure"


async def test_a_retry_comes_no_earlier_than_the_server_asked():
    clock = FakeClock()
    async with running(clock) as queue:
        assert queue.retry("a", at_least=5 * SECOND) == 5 * SECOND
        await clock.advance(timedelta(seconds=4.9))
        assert queue.depth == 0
        await clock.advance(SECOND)
        assert queue.depth == 1


async def test_an_earlier_wish_brings_no_key_before_the_server_asked():
    """One write of a pass has failed, and another one was to wait."""
    clock = FakeClock()
    async with running(clock) as queue:
        queue.add("a")
        await queue.get()
        queue.retry("a")
        assert queue.retry("a", at_least=60 * SECOND) == 60 * SECOND
        queue.done("a")
        await clock.advance(59 * SECOND)
        assert (queue.depth, queue.delayed) == (0, 1)
        await clock.advance(SECOND)
        assert (queue.depth, queue.delayed) == (1, 0)


async def test_waits_are_told_from_the_moment_a_key_was_due():
    clock = FakeClock()
    waits: list[float] = []
    async with running(clock, on_wait=waits.append) as queue:
        queue.add("a", 2 * SECOND)
        await clock.advance(5 * SECOND)
        await queue.get()
    assert waits == [pytest.approx(3)]


async def test_what_made_a_key_due_is_told_with_the_first_cause_of_several():
    clock = FakeClock()
    causes: list[str] = []
    async with running(clock, on_take=causes.append) as queue:
        queue.add("a", cause="pod")
        queue.add("a", cause="node")
        await queue.get()
        queue.add("a", cause="write")  # while it is being processed
        queue.add("a", cause="pod")
        queue.done("a")
        await queue.get()
        queue.done("a")
        queue.add("a", 2 * SECOND, cause="timer")
        queue.add("a", SECOND, cause="stale")  # the earlier wish
        await clock.advance(5 * SECOND)
        await queue.get()
        queue.done("a")
        queue.retry("a")
        await clock.advance(SECOND)
        await queue.get()
    assert causes == ["pod", "write", "stale", "retry"]


@pytest.mark.long
async def test_a_key_that_is_put_off_for_ever_costs_no_memory():
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    for _ in range(300):
        await clock.advance(timedelta(milliseconds=1))
        queue.add("a")
        await queue.get()
        queue.done("a")
        queue.add("a", 3600 * SECOND)
    assert len(queue._timers) <= SPARE_TIMERS + 3


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.just("add"), st.sampled_from("abc"), st.integers(1, 5)),
        st.tuples(st.just("take"), st.just(""), st.just(0)),
        st.tuples(st.just("done"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.just("wait"), st.just(""), st.integers(1, 3)),
    ),
    max_size=25,
)


@pytest.mark.long
@given(STEPS)
def test_no_wish_is_lost_and_no_key_has_two_workers(steps: list[tuple[str, str, int]]):
    asyncio.run(follow(steps))


async def follow(steps: list[tuple[str, str, int]]) -> None:
    clock = FakeClock()
    async with running(clock) as queue:
        model = Model(queue, clock)
        for step, key, amount in steps:
            await getattr(model, step)(key, amount)
        for key in sorted(model.taken):
            await model.done(key, 0)
        await clock.advance(10 * SECOND)
        while queue.depth:
            await model.take("", 0)
    assert model.owed == {}


class Model:
    """What was asked of a queue, and which keys workers have."""

    def __init__(self, queue: WorkQueue[str], clock: FakeClock) -> None:
        self.queue = queue
        self.clock = clock
        self.taken: set[str] = set()
        self.owed: dict[str, float] = {}

    async def add(self, key: str, amount: int) -> None:
        self.queue.add(key, amount * SECOND)
        due = self.clock.monotonic() + amount
        self.owed[key] = min(due, self.owed.get(key, due))

    async def take(self, _: str, __: int) -> None:
        if self.queue.depth:
            key = await self.queue.get()
            assert key not in self.taken
            self.taken.add(key)
            assert self.owed.pop(key) <= self.clock.monotonic()

    async def done(self, key: str, _: int) -> None:
        if key in self.taken:
            self.taken.discard(key)
            self.queue.done(key)

    async def wait(self, _: str, amount: int) -> None:
        await self.clock.advance(amount * SECOND)


def get_lane(key: str) -> str:
    return key[0]


async def test_lanes_take_turns_however_many_keys_one_has():
    async with running(FakeClock(), lanes=Lanes(get_lane)) as queue:
        for key in ("a1", "a2", "a3", "a4", "b1", "b2", "c1"):
            queue.add(key)
        taken = [await queue.get() for _ in range(7)]
        assert taken == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]


async def test_a_lane_has_no_more_workers_than_its_share():
    async with running(FakeClock(), lanes=Lanes(get_lane, 2)) as queue:
        for key in ("a1", "a2", "a3", "b1"):
            queue.add(key)
        assert [await queue.get() for _ in range(3)] == ["a1", "b1", "a2"]
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(queue.get())
            await asyncio.sleep(0)
            assert not waiting.done()
            queue.add("a1")  # again, while a worker has it
            queue.done("b1")
            await asyncio.sleep(0)
            assert not waiting.done()
            queue.done("a2")
        assert waiting.result() == "a3"
        assert queue.depth == 0
        queue.done("a1")
        assert await queue.get() == "a1"


async def test_lanes_that_are_slow_leave_workers_to_those_that_are_not_however_many_they_are():
    clock = FakeClock()
    lanes = Lanes(get_lane, 2, slow_share=2, now=clock.monotonic)
    async with running(clock, lanes=lanes) as queue:
        for key in ("a1", "b1", "c1"):
            queue.add(key)
            await queue.get()
        await clock.advance(3 * SECOND)  # all of them are held up
        for key in ("a2", "b2", "c2", "d1"):
            queue.add(key)
        assert await queue.get() == "d1"
        queue.done("d1")
        queue.done("a1")
        queue.done("b1")
        assert await queue.get() == "a2"  # one beside c1
        queue.add("d1")
        assert await queue.get() == "d1"
        queue.done("a2")
        queue.done("c1")
        await clock.advance(90 * SECOND)  # nobody has shown for long to be slow
        assert [await queue.get() for _ in range(2)] == ["b2", "c2"]


async def count_turns(kept: float, seconds: int) -> dict[str, int]:
    """How often each had its turn while something happens to each of them all the time.

    "a1" and "a2" keep the loop so long, "b1" does not.
    """
    clock = FakeClock()
    lanes = Lanes(get_lane, 2, now=clock.monotonic)
    turns = {"a1": 0, "a2": 0, "b1": 0}

    async def work() -> None:
        while True:
            key = await queue.get()
            turns[key] += 1
            cost = kept if get_lane(key) == "a" else 0.0
            clock.spend(timedelta(seconds=cost))
            queue.done(key, cost)

    async with running(clock, lanes=lanes) as queue, asyncio.TaskGroup() as group:
        worker = group.create_task(work())
        end = clock.monotonic() + seconds
        while clock.monotonic() < end:
            for key in turns:
                queue.add(key)
            await clock.advance(timedelta(seconds=0.1))
        worker.cancel()
    return turns


async def test_a_lane_has_the_loop_for_a_part_of_the_time_in_the_long_run():
    turns = await count_turns(0.3, 200)
    assert (turns["a1"] + turns["a2"]) * 0.3 == pytest.approx(200 / PARTS + AT_ONCE, rel=0.05)
    assert abs(turns["a1"] - turns["a2"]) <= 1
    assert turns["b1"] > 1000, "whose lane costs nothing waits for no other"


async def test_a_lane_that_begins_has_the_loop_as_often_as_it_asks():
    turns = await count_turns(0.03, 6)
    assert turns["a1"] + turns["a2"] > AT_ONCE / 0.03


async def test_who_keeps_the_loop_no_longer_than_others_wait_anyway_is_charged_nothing():
    turns = await count_turns(LIGHT, 120)
    assert turns["a1"] == turns["a2"] == turns["b1"] > 1000


async def test_no_lane_rests_for_longer_than_a_minute_whatever_it_has_cost():
    """A machine that is suspended in the middle of a pass comes back after a night."""
    clock = FakeClock()
    lanes = Lanes(get_lane, 2, now=clock.monotonic)
    async with running(clock, lanes=lanes) as queue:
        queue.add("a1")
        queue.done(await queue.get(), 8 * 3600.0)
        queue.add("a1")
        async with asyncio.TaskGroup() as group:
            taken = group.create_task(queue.get())
            await clock.advance(LONGEST_REST * SECOND - SECOND)
            assert not taken.done()
            await clock.advance(SECOND)
        assert taken.result() == "a1"


async def test_a_lane_that_rests_keeps_nobody_from_coming_meanwhile():
    clock = FakeClock()
    lanes = Lanes(get_lane, 2, now=clock.monotonic)
    async with running(clock, lanes=lanes) as queue:
        queue.add("a1")
        queue.done(await queue.get(), 5.0)
        queue.add("a1")
        async with asyncio.TaskGroup() as group:
            taken = group.create_task(queue.get())
            await clock.advance(SECOND)
            queue.add("b1")
        assert taken.result() == "b1"
        queue.clear()
        queue.add("a1")
        assert await queue.get() == "a1", "whoever begins anew owes nothing"


@pytest.mark.long
@given(st.lists(st.sampled_from(["a1", "a2", "a3", "b1", "b2", "c1"])), st.integers(1, 3))
async def test_whatever_is_added_comes_once_and_no_lane_is_above_its_share(
    added: list[str], share: int
):
    async with running(FakeClock(), lanes=Lanes(get_lane, share)) as queue:
        for key in added:
            queue.add(key)
        taken: list[str] = []
        had: list[str] = []
        while queue.depth:
            try:
                async with asyncio.timeout(0):
                    had.append(await queue.get())
            except TimeoutError:
                queue.done(had.pop(0))
                continue
            taken.append(had[-1])
            assert max(map([get_lane(key) for key in had].count, "abc")) <= share
        assert sorted(taken) == sorted(set(added))
