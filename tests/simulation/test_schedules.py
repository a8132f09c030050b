"""A failure is told with its seed and with no more of its schedule than it takes to see it."""

from __future__ import annotations

import pytest

from tests.simulation.schedules import TOKENS, Schedule, play


async def fail_in_the_end(schedule: Schedule) -> None:
    """Fails when somebody works after a broker and after garbage was collected."""
    drawn: list[str | None] = []
    for _ in range(300):
        drawn.append(schedule.draw())
        assert not (drawn[-1] == "work" and {"broker", "garbage"} <= set(drawn))


async def test_a_failure_tells_its_seed_and_the_shortest_schedule():
    with pytest.raises(AssertionError) as caught:
        await play(fail_in_the_end, 7)
    [note] = caught.value.__notes__
    start, _, shortest = note.partition(": ")
    assert start == "seed 7, shortest schedule"
    assert shortest in {"['broker', 'garbage', 'work']", "['garbage', 'broker', 'work']"}


def test_the_same_seed_gives_the_same_schedule():
    first, second = Schedule(3), Schedule(3)
    drawn = [first.draw() for _ in range(100)]
    assert drawn == [second.draw() for _ in range(100)] == first.drawn
    assert set(drawn) <= set(TOKENS)


def test_where_there_is_no_token_nobody_is_named():
    schedule = Schedule(tokens=("work",))
    assert [schedule.draw(), schedule.draw()] == ["work", None]
