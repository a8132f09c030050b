"""A night is the same for everybody who has its seed, and its faults are those that may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.schedules import (
    FIRST,
    LEAST,
    MOST,
    OWN,
    SCALINGS,
    SHARED,
    TAKERS,
    Kind,
    Round,
    build_schedule,
)

SEEDS = st.integers(min_value=0, max_value=10**9)


def take(seed: int, count: int, kinds: Sequence[Kind] = tuple(Kind)) -> list[Round]:
    return list(islice(build_schedule(seed, kinds), count))


@given(SEEDS, st.integers(min_value=1, max_value=60))
def test_a_seed_is_a_schedule_and_a_shorter_night_is_the_beginning_of_a_longer_one(
    seed: int, count: int
):
    assert take(seed, count) == take(seed, 60)[:count]


@given(SEEDS)
def test_another_seed_is_another_schedule(seed: int):
    assert take(seed, 20) != take(seed + 1, 20)


@given(SEEDS, st.sampled_from([tuple(Kind), OWN]))
def test_each_kind_comes_before_any_comes_again(seed: int, kinds: tuple[Kind, ...]):
    faults = [fault for one in take(seed, 60, kinds) for fault in one.faults]
    for start in range(0, len(faults) - len(kinds), len(kinds)):
        counts = Counter(fault.kind for fault in faults[start : start + len(kinds)])
        assert counts == dict.fromkeys(kinds, 1)


@given(SEEDS)
def test_who_shares_a_cluster_is_left_alone_by_what_harms_its_own_job(seed: int):
    assert not {fault.kind for one in take(seed, 60, OWN) for fault in one.faults} & SHARED


@given(SEEDS)
def test_two_faults_of_one_round_are_never_of_one_family(seed: int):
    rounds = take(seed, 60)
    for one in rounds:
        kinds = {fault.kind for fault in one.faults}
        assert len(one.faults) <= 2
        assert all(len(kinds & family) <= 1 for family in (SCALINGS, TAKERS, SHARED))
    assert any(len(one.faults) == 2 for one in rounds)


@given(SEEDS)
def test_each_scaling_wants_another_number_within_the_bounds_and_nothing_else_does(seed: int):
    wanted = FIRST
    for one in take(seed, 60):
        for fault in one.faults:
            assert LEAST <= fault.wanted <= MOST
            assert (fault.wanted != wanted) == (fault.kind in SCALINGS)
            wanted = fault.wanted


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_is_described_once(kind: Kind):
    assert [other for other in Kind if other.value == kind.value] == [kind]
