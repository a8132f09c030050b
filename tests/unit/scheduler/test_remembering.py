"""What is found once in a pass and asked for often: it is found anew where it has changed."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_scheduler.model.cluster import Cluster
from et_scheduler.model.queues import Queue
from et_scheduler.model.rules import Rules
from et_scheduler.model.shapes import Shape
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.fitting import Gang, Seats
from et_scheduler.planning.ledgers import SCALE
from et_scheduler.planning.rooms import Room
from et_scheduler.planning.seating import book
from et_scheduler.planning.standings import Standing
from tests.unit.scheduler.makers import MAIN, NOTHING, NOW, cpus, make_job, make_nodes, run_on

NODES = make_nodes(3)
GANG = Gang(NOTHING, cpus(1), 1)


@pytest.fixture
def draft() -> Draft:
    jobs = [run_on(make_job("a"), "node-00"), make_job("b"), make_job("c")]
    draft = Draft(Cluster(NODES), [*MAIN, Queue("other")], jobs, NOW, Rules())
    book(draft)
    return draft


def list_allowed(draft: Draft, standing: Standing) -> list[bool]:
    allowed = draft.holds.get_allowed(standing)
    return [True] * len(NODES) if allowed is None else allowed.tolist()


def test_where_a_job_may_be_follows_what_others_hold(draft: Draft) -> None:
    mine, other = draft.standings["b"], draft.standings["c"]
    assert list_allowed(draft, mine) == [True, True, True]
    draft.holds.hold(other, [0])
    assert list_allowed(draft, mine) == [False, True, True]
    assert list_allowed(draft, other) == [True, True, True]
    draft.holds.reserve(mine, [0, 1])
    assert list_allowed(draft, mine) == [True, True, True]
    assert list_allowed(draft, other) == [False, False, True]
    draft.holds.end(mine)
    assert list_allowed(draft, other) == [True, True, True]


def test_where_nobody_else_comes_follows_what_is_promised(draft: Draft) -> None:
    assert draft.promises.leave_out("b", GANG, None) is None
    for place in (0, 2):
        draft.promises.note("c", GANG, Seats(None, (place,), (1,)))
        free = draft.promises.leave_out("b", GANG, None)
        assert free is not None
        assert not free[place]
        own = draft.promises.leave_out("c", GANG, None)
        assert own is not None
        assert own.all()


def test_how_much_of_its_due_a_queue_has_follows_its_books(draft: Draft) -> None:
    draft.ledger.deserved["main"][:] = [0, 4000]
    amounts = draft.counting.get_amounts(draft.standings["b"], 1)
    ratios = []
    for _ in range(2):
        ratios += [draft.ledger.get_ratio("main"), draft.ledger.get_ratio("main", amounts)]
        draft.ledger.book("main", amounts)
    assert ratios == [SCALE // 4, SCALE // 2, SCALE // 2, SCALE * 3 // 4]
    changes = draft.ledger.changes
    draft.ledger.book("gone", amounts)
    assert draft.ledger.changes > changes, "a search looks again whenever somebody gives"


def test_who_is_above_his_share_follows_his_books(draft: Draft) -> None:
    draft.ledger.deserved["main"][:] = [0, 2000]
    amounts = draft.counting.get_amounts(draft.standings["b"], 1)
    above = []
    for sign in (1, 1, -1):
        above.append(draft.ledger.is_above_share("main", amounts))
        draft.ledger.book("main", sign * amounts)
    assert [*above, draft.ledger.is_above_share("main", amounts)] == [False, False, True, False]
    assert not draft.ledger.is_above_share("main", 0 * amounts)


CHANGES = st.lists(
    st.tuples(st.sampled_from(["take", "hold", "expect"]), st.integers(0, 2), st.integers(1, 3)),
    max_size=5,
)
OPPOSITES = {"take": "give_back", "hold": "expect", "expect": "hold"}
SHAPES = (cpus(1), cpus(3), Shape(cpus(2).requests, host_ports=frozenset({"80"})))


def check_counts(room: Room) -> None:
    """As a room counts that has counted nothing yet."""
    anew = room.copy()
    for shape, later, beside in product(SHAPES, (False, True), (None, cpus(1))):
        fits = room.count_fits(shape, later=later, beside=beside)
        assert np.array_equal(fits, anew.count_fits(shape, later=later, beside=beside))
        assert room.count_all(shape, later=later) == anew.count_fits(shape, later=later).sum()


@pytest.mark.long
@given(CHANGES, CHANGES, st.integers(0, 5), st.booleans())
def test_what_was_counted_is_counted_again_where_something_has_changed(
    first: list[tuple[str, int, int]],
    tried: list[tuple[str, int, int]],
    looks: int,
    is_counted: bool,
) -> None:
    """So it is after a search that found nothing: what it has changed it changes back."""
    room = Room(NODES, SHAPES)
    if is_counted:
        check_counts(room)
    for name, place, pods in first:
        getattr(room, name)((place,), (pods,), SHAPES[pods - 1])
    mark = room.mark()
    if is_counted:
        check_counts(room)
    for index, (name, place, pods) in enumerate(tried):
        getattr(room, name)((place,), (pods,), SHAPES[pods - 1])
        if index == looks:
            check_counts(room)
    for name, place, pods in reversed(tried):
        getattr(room, OPPOSITES[name])((place,), (pods,), SHAPES[pods - 1])
    room.return_to(mark)
    check_counts(room)
    room.take((0,), (1,), cpus(1))
    check_counts(room)


def test_how_many_fit_follows_what_is_taken(draft: Draft) -> None:
    assert draft.room.count_all(cpus(5)) == 3
    draft.room.take((1,), (1,), cpus(4))
    assert (draft.room.count_all(cpus(5)), draft.room.count_all(cpus(5), later=True)) == (2, 2)
    draft.room.expect((1,), (1,), cpus(4))
    assert (draft.room.count_all(cpus(5)), draft.room.count_all(cpus(5), later=True)) == (2, 3)
