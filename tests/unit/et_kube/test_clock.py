"""What time it is where the API server is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from et_kube.clock import CLOSE, ComparedClock, LaterClock, ServerClock, SystemClock
from et_kube.resources import PODS
from et_operator.state.coverage import Coverage


@pytest.mark.parametrize("minutes", [-1000, -15, 2, 100_000])
def test_whatever_this_machine_says_it_is_the_servers_time_that_counts(minutes: int):
    clock, own = ServerClock(), SystemClock()
    there = timedelta(minutes=minutes)
    clock.hear(own.now() + there)
    assert abs(clock.now() - own.now() - there) < CLOSE


def test_clocks_that_agree_are_left_alone():
    clock, own = ServerClock(), SystemClock()
    assert abs(clock.now() - own.now()) < CLOSE
    clock.hear(own.now() + timedelta(hours=1))
    clock.hear(own.now().replace(microsecond=0))  # it was set right meanwhile
    before = own.now()
    assert before <= clock.now() <= own.now()


@pytest.mark.parametrize("minutes", [-15, 0, 15])
def test_how_far_this_machines_clock_is_from_the_servers(minutes: int):
    clock, own = ComparedClock(), SystemClock()
    assert not clock.apart
    clock.hear(own.now() + timedelta(minutes=minutes))
    assert abs(clock.apart - timedelta(minutes=abs(minutes))) < CLOSE
    assert abs(clock.now() - own.now()) < CLOSE, "it is this machine's all the same"


def test_a_clock_that_is_set_is_apart_before_the_server_is_heard_again():
    class Set(ComparedClock):
        by = timedelta()

        def now(self) -> datetime:
            return super().now() + self.by

    clock = Set()
    clock.hear(SystemClock().now())
    clock.by = timedelta(minutes=20)
    assert abs(clock.apart - clock.by) < CLOSE


def test_whatever_a_server_says_of_its_time_is_a_time_apart():
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)

    class Later(ComparedClock):
        passed = 0.0

        def monotonic(self) -> float:
            return self.passed

    clock = Later()
    clock.hear(last)
    clock.passed = 3600.0
    assert clock.apart > timedelta(days=365 * 7000)


@pytest.mark.parametrize(
    ("minutes", "later"), [(-100, 0), (-4, 0), (0, 0), (4, 0), (15, 15), (2000, 2000)]
)
def test_nothing_is_recorded_as_older_than_it_is_by_either_clock(minutes: int, later: int):
    """A deadline would be over as soon as the clocks agree again."""
    clock, own = ComparedClock(), SystemClock()
    clock.hear(own.now() + timedelta(minutes=minutes))
    assert abs(LaterClock(clock).now() - own.now() - timedelta(minutes=later)) < CLOSE


@pytest.mark.parametrize("year", [9000, 9999])
def test_a_server_that_says_what_is_no_time_is_not_believed(year: int):
    """What is recorded by it could not be read again; a span on top of it may be no time at all."""
    clock, own = ComparedClock(), SystemClock()
    clock.hear(datetime(year, 12, 31, 23, 59, 58, tzinfo=UTC))
    assert abs(LaterClock(clock).now() - own.now()) < CLOSE
    clock.monotonic = lambda: own.monotonic() + 3600.0  # type: ignore[method-assign]
    assert abs(LaterClock(clock).now() - own.now()) < CLOSE


class Passing(ComparedClock):
    """Both of its clocks go on by hand."""

    passed = 100_000.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return self.passed


def test_of_several_servers_one_that_is_ahead_moves_nothing():
    """Time would go forth and back with each answer, and each step forth puts all in doubt."""
    clock, hour = Passing(), timedelta(hours=1)
    later, coverage = LaterClock(clock), Coverage()
    coverage.expect_list(PODS, None)
    coverage.note_list(PODS, None, clock.passed)
    ages = []
    for number in range(2000):
        clock.hear(clock.now() + hour * (number % 2))
        clock.passed += 1.0
        if number:
            assert later.now() == clock.now()
            since = coverage.find_since("team", now=later.now(), at=clock.passed)
            assert since is not None
            ages.append(later.now() - since)
    assert ages == sorted(ages)
    assert ages[-1] > timedelta(seconds=1900)


def test_once_all_say_so_for_ten_minutes_it_is_later():
    clock = Passing()
    for _ in range(100):
        clock.hear(clock.now())
        clock.passed += 6.0
    began = clock.passed
    while LaterClock(clock).now() == clock.now():
        clock.hear(clock.now() + timedelta(hours=1))
        clock.passed += 6.0
    assert 540.0 <= clock.passed - began <= 606.0
    assert LaterClock(clock).now() - clock.now() == timedelta(hours=1)
