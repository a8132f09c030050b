"""Which signals a command gets within the launcher's grace, and when."""

from __future__ import annotations

from signal import SIGINT, SIGKILL, SIGQUIT, SIGTERM

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.shim.ending import plan_end


@pytest.mark.parametrize(
    ("grace", "again", "kill"),
    [(600.0, 445.0, 595.0), (60.0, 40.0, 55.0), (30.0, 15.0, 25.0), (10.0, 2.5, 5.0)],
)
def test_a_command_that_saves_hears_nothing_more_before_the_last_part_of_the_grace(
    grace: float, again: float, kill: float
):
    assert plan_end(SIGTERM, grace) == [(again, SIGINT), (kill, SIGKILL)]


def test_what_has_ignored_the_signal_of_its_image_gets_term_before_it_is_killed():
    planned = [(445.0, SIGINT), (593.0, SIGTERM), (595.0, SIGKILL)]
    assert plan_end(SIGQUIT, 600.0) == planned


@pytest.mark.long
@given(st.sampled_from([SIGTERM, SIGINT, SIGQUIT]), st.floats(0, 1e6))
def test_all_comes_in_its_order_and_within_the_grace(number: int, grace: float):
    times = [at for at, _ in plan_end(number, grace)]
    assert times == sorted(times)
    assert times[0] >= 0
    assert times[-1] <= grace
