"""Weighted max-min in integers, with the cases in which kube-batch went wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_scheduler.planning.sharing import Claim, share

claims = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 2), st.integers(0, 10**12)), max_size=8
).map(
    lambda rows: [
        Claim(f"queue-{i}", weight, priority, request)
        for i, (weight, priority, request) in enumerate(rows)
    ]
)


def share_all(total: int, **requests: int) -> dict[str, int]:
    return dict(share(total, [Claim(name, 1, 0, request) for name, request in requests.items()]))


@pytest.mark.parametrize(
    ("total", "requests", "right"),
    [
        pytest.param(
            12_000,
            {"a": 1_000, "b": 100_000, "c": 100_000},
            {"a": 1_000, "b": 5_500, "c": 5_500},
            id="kube-batch-665: what one leaves is shared by the others",
        ),
        pytest.param(
            10_000, {"a": 10_000, "b": 1_000}, {"a": 9_000, "b": 1_000}, id="kube-batch-729, CPU"
        ),
        pytest.param(4, {"a": 0, "b": 0}, {"a": 0, "b": 0}, id="kube-batch-729, GPUs of nobody"),
        pytest.param(10, {"a": 1, "b": 100}, {"a": 1, "b": 9}, id="skewed, the first resource"),
        pytest.param(10, {"a": 100, "b": 1}, {"a": 9, "b": 1}, id="skewed, the second resource"),
        pytest.param(10, {"a": 0, "b": 3}, {"a": 0, "b": 3}, id="a resource named with 0"),
        pytest.param(2, {"a": 5, "b": 5, "c": 5}, {"a": 1, "b": 1, "c": 0}, id="scalars, by name"),
        pytest.param(0, {"a": 5}, {"a": 0}, id="nothing there"),
        pytest.param(5, {}, {}, id="nobody there"),
    ],
)
def test_share(total: int, requests: dict[str, int], right: dict[str, int]) -> None:
    assert share_all(total, **requests) == right


def test_weights_count() -> None:
    found = share(12, [Claim("a", 1, 0, 100), Claim("b", 3, 0, 100)])
    assert found == {"a": 3, "b": 9}


def test_higher_priority_is_served_first() -> None:
    found = share(10, [Claim("a", 1, 0, 8), Claim("b", 1, 1, 7), Claim("c", 1, 0, 8)])
    assert found == {"a": 2, "b": 7, "c": 1}


@given(st.integers(0, 10**13), claims)
def test_all_of_it_is_shared_and_no_more(total: int, claims: list[Claim]) -> None:
    found = share(total, claims)
    assert sum(found.values()) == min(total, sum(claim.request for claim in claims))
    assert all(0 <= found[claim.queue] <= claim.request for claim in claims)


@given(st.integers(0, 10**13), claims)
def test_nobody_has_more_per_weight_than_one_who_lacks(total: int, claims: list[Claim]) -> None:
    found = share(total, claims)
    for one in claims:
        for other in claims:
            if one.priority == other.priority and found[one.queue] < one.request:
                # Compared without a division; one piece more may come from what does not divide.
                least = (found[one.queue] + 1) * other.weight
                assert found[other.queue] * one.weight <= least + max(one.weight, other.weight)


@given(st.integers(0, 10**13), claims)
def test_higher_priority_lacks_nothing_that_lower_has(total: int, claims: list[Claim]) -> None:
    found = share(total, claims)
    for one in claims:
        for other in claims:
            if one.priority > other.priority and found[other.queue]:
                assert found[one.queue] == one.request


@pytest.mark.long
@given(st.integers(0, 10**9), claims, st.randoms(use_true_random=False))
def test_order_of_claims_does_not_matter(total: int, claims: list[Claim], random: object) -> None:
    mixed = list(claims)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert share(total, mixed) == share(total, claims)
