from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from et_kube.backoff import CONNECTING, KNOCKING, RECONCILING


def test_a_delay_doubles_until_its_limit():
    delays = [RECONCILING.delay(n, 0.0).total_seconds() for n in (1, 2, 3, 9, 10, 1000)]
    assert delays == [0.2, 0.4, 0.8, 51.2, 60.0, 60.0]


@given(failures=st.integers(0, 10**9), chance=st.floats(0, 1, exclude_max=True))
def test_a_delay_stays_within_its_bounds_whatever_the_dice(failures: int, chance: float):
    delay = CONNECTING.delay(failures, chance)
    assert CONNECTING.first * (1 - CONNECTING.jitter) <= delay <= CONNECTING.limit
    assert delay > timedelta(0)


def test_after_the_longest_absence_the_server_is_tried_within_seconds_and_not_by_all_at_once():
    delays = [KNOCKING.delay(1000, chance / 10).total_seconds() for chance in range(10)]
    assert max(delays) <= 5
    assert min(delays) >= 2.5
    assert len(set(delays)) == len(delays)
