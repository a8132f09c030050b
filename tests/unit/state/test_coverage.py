"""What a view rests on: lists that are missing, watches that are cut, clocks that jump."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from et_kube.resources import NODES, PODS
from et_operator.state.coverage import Coverage

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def find_age(coverage: Coverage, at: float, namespace: str = "team") -> float | None:
    since = coverage.find_since(namespace, now=NOW, at=at)
    return None if since is None else (NOW - since).total_seconds()


@pytest.fixture
def coverage() -> Coverage:
    coverage = Coverage()
    coverage.expect_list(PODS, None)
    coverage.expect_list(NODES, None)
    return coverage


def test_a_view_is_complete_since_the_last_of_its_lists(coverage: Coverage) -> None:
    coverage.note_list(PODS, None, 100.0)
    assert find_age(coverage, 110.0) is None
    coverage.note_list(NODES, None, 103.0)
    assert find_age(coverage, 110.0) == 7.0
    coverage.expect_list(PODS, None)
    assert find_age(coverage, 111.0) is None


def test_without_any_list_nothing_is_complete() -> None:
    assert find_age(Coverage(), 1.0) is None


def test_a_cut_watch_makes_the_view_new_again_and_never_complete(coverage: Coverage) -> None:
    coverage.note_list(NODES, None, 100.0)
    coverage.note_cut(PODS, None)
    coverage.note_resumed(PODS, None, 105.0)
    assert find_age(coverage, 110.0) is None
    coverage.note_list(PODS, None, 100.0)
    coverage.note_cut(PODS, None)
    assert find_age(coverage, 4000.0) == 0.0
    coverage.note_resumed(PODS, None, 4001.0)
    assert find_age(coverage, 4005.0) == 4.0


def test_a_list_ends_a_cut(coverage: Coverage) -> None:
    coverage.note_list(NODES, None, 100.0)
    coverage.note_cut(PODS, None)
    coverage.note_list(PODS, None, 120.0)
    assert find_age(coverage, 130.0) == 10.0


def test_a_namespace_that_cannot_be_seen_is_its_own_trouble() -> None:
    coverage = Coverage()
    for namespace in ("team", "other"):
        coverage.expect_list(PODS, namespace)
    coverage.note_list(PODS, "team", 100.0)
    assert find_age(coverage, 200.0) == 100.0
    assert find_age(coverage, 200.0, "other") is None
    coverage.note_list(PODS, "other", 100.0)
    coverage.note_cut(PODS, "other")
    assert find_age(coverage, 200.0) == 100.0
    assert find_age(coverage, 200.0, "other") == 0.0


def test_a_cut_of_a_kind_that_tells_of_no_worker_keeps_nobody_waiting(coverage: Coverage) -> None:
    coverage.note_list(PODS, None, 100.0)
    coverage.note_list(NODES, None, 100.0)
    coverage.note_cut(NODES, None)
    assert find_age(coverage, 130.0) == 30.0
    coverage.note_cut(PODS, None)
    assert find_age(coverage, 130.0) == 0.0


def test_nor_does_its_end_make_the_view_new(coverage: Coverage) -> None:
    coverage.note_list(PODS, None, 100.0)
    coverage.note_list(NODES, None, 103.0)
    coverage.note_cut(NODES, None)
    coverage.note_resumed(NODES, None, 160.0)
    assert find_age(coverage, 170.0) == 67.0
    coverage.note_cut(NODES, None)
    coverage.note_list(NODES, None, 220.0)
    assert find_age(coverage, 230.0) == 127.0


def test_while_the_watch_of_nodes_is_cut_an_unknown_one_may_be_there(coverage: Coverage) -> None:
    coverage.note_list(NODES, None, 100.0)
    assert coverage.are_nodes_known
    coverage.note_cut(NODES, None)
    assert not coverage.are_nodes_known
    coverage.note_resumed(NODES, None, 105.0)
    assert coverage.are_nodes_known


def test_a_clock_that_jumps_ahead_makes_all_that_is_known_new(coverage: Coverage) -> None:
    coverage.note_list(PODS, None, 100.0)
    coverage.note_list(NODES, None, 100.0)
    for at, jump, age in ((200, 0, 100), (300, 0, 200), (301, 86400, 0), (331, 86400, 30)):
        now = NOW + timedelta(seconds=at + jump)
        since = coverage.find_since("team", now=now, at=float(at))
        assert since is not None
        assert since < now  # which would say that a watch is cut
        assert round((now - since).total_seconds()) == age


@pytest.mark.parametrize("step", [4, -86400], ids=["a little", "back"])
def test_a_clock_that_is_set_back_or_goes_a_little_wrong_does_not(
    coverage: Coverage, step: int
) -> None:
    coverage.note_list(PODS, None, 100.0)
    coverage.note_list(NODES, None, 100.0)
    for at, ahead in ((200, 0), (300, step)):
        now = NOW + timedelta(seconds=at + ahead)
        since = coverage.find_since("team", now=now, at=float(at))
    assert since is not None
    assert round((now - since).total_seconds()) == 200
