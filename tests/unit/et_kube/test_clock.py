"""What time it is where the API server is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from et_kube.clock import CLOSE, ComparedClock, LaterClock, ServerClock, SystemClock


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


def test_a_server_that_says_what_is_no_time_is_not_believed():
    clock, own = ComparedClock(), SystemClock()
    clock.hear(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC) - timedelta(seconds=1))
    assert LaterClock(clock).now().year == 9999
    clock.monotonic = lambda: own.monotonic() + 3600.0  # type: ignore[method-assign]
    assert abs(LaterClock(clock).now() - own.now()) < CLOSE
