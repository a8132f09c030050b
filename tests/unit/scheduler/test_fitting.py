"""Seats for gangs, and what is free, against slow models that try everything."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from et_scheduler.model.cluster import Leaving, Node
from et_scheduler.model.shapes import (
    Effect,
    Operator,
    Requirement,
    Shape,
    Taint,
    Toleration,
    make_shape,
)
from et_scheduler.planning.fitting import Gang, find_seats, take_seats
from et_scheduler.planning.rooms import Room
from tests.counting import count_steps

amounts = st.fixed_dictionaries(
    {"cpu": st.integers(0, 6), "memory": st.integers(0, 6), "gpu": st.integers(0, 2)}
)
nodes = st.lists(amounts, min_size=1, max_size=4).map(
    lambda rows: [Node(f"n{i}", {**row, "pods": 3}) for i, row in enumerate(rows)]
)
shapes = amounts.map(make_shape)


def fit_slowly(nodes: list[Node], gang: Gang) -> bool:
    """Try every place of the launcher and every choice of nodes for the workers."""
    launchers = range(len(nodes)) if gang.launcher is not None else (None,)
    for launcher in launchers:
        for choice in combinations_with_replacement(range(len(nodes)), gang.workers):
            used = [dict.fromkeys(node.allocatable, 0) for node in nodes]
            for place, shape in [
                *((place, gang.worker) for place in choice),
                *(((launcher, gang.launcher),) if launcher is not None else ()),
            ]:
                assert shape is not None
                for name, amount in (("pods", 1), *shape.requests):
                    used[place][name] += amount  # type: ignore[index]
            pairs = zip(nodes, used, strict=True)
            if all(n <= node.allocatable[name] for node, use in pairs for name, n in use.items()):
                return True
    return False


@pytest.mark.long
@settings(max_examples=200)
@given(nodes, shapes, st.none() | shapes, st.integers(0, 4))
def test_seats_are_found_when_there_are_any(
    nodes: list[Node], worker: Shape, launcher: Shape | None, workers: int
) -> None:
    gang = Gang(launcher, worker, workers)
    room = Room(nodes, [worker, *([launcher] if launcher else [])])
    seats = find_seats(room, gang)
    assert (seats is not None) == fit_slowly(nodes, gang)
    if seats is not None:
        assert sum(seats.pods) == workers
        assert all(pods > 0 for pods in seats.pods)
        assert (seats.launcher is None) == (launcher is None)
        take_seats(room, gang, seats)
        assert (room.now >= 0).all()


@pytest.mark.long
@settings(max_examples=100)
@given(nodes, st.lists(shapes, min_size=1, max_size=3), st.data())
def test_counts_follow_whatever_is_taken_and_given_back(
    nodes: list[Node], kinds: list[Shape], data: st.DataObject
) -> None:
    room, fresh = Room(nodes, kinds), Room(nodes, kinds)
    before = room.now.copy(), room.later.copy()
    done = []
    for _ in range(data.draw(st.integers(0, 6))):
        place = data.draw(st.integers(0, len(nodes) - 1))
        shape, pods = data.draw(st.sampled_from(kinds)), data.draw(st.integers(1, 2))
        name = data.draw(st.sampled_from(["take", "hold", "expect"]))
        getattr(room, name)((place,), (pods,), shape)
        done.append((name, place, pods, shape))
        fresh = Room(nodes, kinds)
        fresh.now, fresh.later = room.now.copy(), room.later.copy()
        for later in (False, True):
            for kind in kinds:
                slow = fresh.count_fits(kind, later=later, beside=shape)
                quick = room.count_fits(kind, later=later, beside=shape)
                assert np.array_equal(quick, slow)
    opposites = {"take": "give_back", "hold": "expect", "expect": "hold"}
    for name, place, pods, shape in reversed(done):
        getattr(room, opposites[name])((place,), (pods,), shape)
    assert np.array_equal(room.now, before[0])
    assert np.array_equal(room.later, before[1])


def test_what_is_held_is_free_for_nobody_else() -> None:
    shape = make_shape({"cpu": 2})
    room = Room([Node("n", {"cpu": 4, "pods": 9})], [shape])
    room.hold((0,), (1,), shape)
    assert room.count_fits(shape).tolist() == [1]
    room.expect((0,), (3,), shape)
    assert room.count_fits(shape).tolist() == [2], "what comes later is not there now"
    assert room.count_fits(shape, later=True).tolist() == [4]


def test_names_that_no_node_has_are_no_columns() -> None:
    """Anybody may invent thousands of them, and each column is as long as the cluster."""
    odd = [make_shape({"cpu": 1, f"example.org/{number}": 1}) for number in range(500)]
    node = Node("n", {"cpu": 4, "memory": 4, "example.org/gpu": 2, "pods": 9})
    room = Room([node], [make_shape({"cpu": 1}), *odd], {"example.org/7", "example.org/none"})
    assert room.resources == ("pods", "cpu", "example.org/7")
    for shape in (odd[7], odd[8]):
        assert room.count_fits(shape).tolist() == [0]
        assert room.count_empty(shape).tolist() == [0]


def test_what_is_said_to_be_on_a_node_is_bounded() -> None:
    """Anybody may bind pods to a node by its name, and each says what it takes."""
    node = Node(
        "n", {"cpu": 4, "pods": 9}, taken={"cpu": 2**70}, leaving=(Leaving(1, {"cpu": 2**70}),)
    )
    room = Room([node], [make_shape({"cpu": 1})])
    assert room.count_fits(make_shape({"cpu": 1})).tolist() == [0]
    assert room.count_fits(make_shape({"cpu": 1}), later=True).tolist() == [4]


def test_what_fits_without_jobs_is_found_once_for_all_that_are_alike() -> None:
    """Thousands may ask, each beside its own; what does not go after all is taken from it."""
    shape = make_shape({"cpu": 1})
    room = Room([Node("a", {"cpu": 8, "pods": 9}), Node("b", {"cpu": 4, "pods": 9})], [shape])
    fits = room.count_without_jobs(shape)
    assert room.count_without_jobs(make_shape({"cpu": 1})) is fits
    assert room.count_beside_own(shape, [(shape, [0, 0, 1])]).tolist() == [6, 3]
    assert fits.tolist() == [8, 4]
    room.strand([1], [3], shape)
    assert room.count_without_jobs(shape).tolist() == [8, 1]
    assert room.count_beside_own(shape, [(shape, [1])]).tolist() == [8, 0]


def test_the_tightest_node_is_used_first() -> None:
    shape = make_shape({"cpu": 1})
    room = Room([Node("a", {"cpu": 8, "pods": 9}), Node("b", {"cpu": 2, "pods": 9})], [shape])
    seats = find_seats(room, Gang(None, shape, 3))
    assert seats is not None
    assert dict(zip(seats.places, seats.pods, strict=True)) == {1: 2, 0: 1}


GPU = Taint("gpu", "yes", Effect.NO_SCHEDULE)
LABELLED = Node("n", {}, labels={"zone": "a", "count": "7"}, ports=(frozenset({"TCP/80"}),))


def demand(key: str, operator: Operator, *values: str) -> Shape:
    return make_shape({}, terms=((Requirement(key, operator, values),),))


@pytest.mark.parametrize(
    ("node", "shape", "right"),
    [
        pytest.param(Node("n", {}), make_shape({}), True, id="a node without words"),
        pytest.param(Node("n", {}, has_room=False), make_shape({}), False, id="cordoned"),
        pytest.param(Node("n", {}, taints=(GPU,)), make_shape({}), False, id="tainted"),
        pytest.param(
            Node("n", {}, taints=(GPU,)),
            make_shape({}, tolerations=(Toleration("gpu", "yes"),)),
            True,
            id="tolerated by value",
        ),
        pytest.param(
            Node("n", {}, taints=(GPU,)),
            make_shape({}, tolerations=(Toleration("gpu", "no"),)),
            False,
            id="another value",
        ),
        pytest.param(
            Node("n", {}, taints=(GPU,)),
            make_shape({}, tolerations=(Toleration(is_any_value=True),)),
            True,
            id="everything tolerated",
        ),
        pytest.param(
            Node("n", {}, taints=(GPU,)),
            make_shape({}, tolerations=(Toleration("gpu", "yes", Effect.NO_EXECUTE),)),
            False,
            id="another effect",
        ),
        pytest.param(LABELLED, demand("zone", Operator.IN, "a", "b"), True, id="in"),
        pytest.param(LABELLED, demand("zone", Operator.NOT_IN, "a"), False, id="not in"),
        pytest.param(LABELLED, demand("rack", Operator.NOT_IN, "a"), True, id="not in, absent"),
        pytest.param(LABELLED, demand("zone", Operator.EXISTS), True, id="exists"),
        pytest.param(LABELLED, demand("zone", Operator.DOES_NOT_EXIST), False, id="must not exist"),
        pytest.param(LABELLED, demand("count", Operator.GREATER, "6"), True, id="greater"),
        pytest.param(LABELLED, demand("count", Operator.LESS, "7"), False, id="less"),
        pytest.param(LABELLED, demand("zone", Operator.GREATER, "6"), False, id="no number"),
        pytest.param(
            LABELLED, make_shape({}, host_ports=frozenset({"TCP/80"})), False, id="port taken"
        ),
    ],
)
def test_which_nodes_will_do(node: Node, shape: Shape, right: bool) -> None:
    assert Room([node], [shape]).match(shape).tolist() == [right]


def holds(one: Requirement, label: str | None) -> bool:
    """As Kubernetes documents a requirement, for one node."""
    pair = [label or "x", *one.values, "x"][:2]
    compared = [int(text) for text in pair] if all(map(str.isdigit, pair)) else [0, 0]
    return {
        Operator.IN: label in one.values,
        Operator.NOT_IN: label not in one.values,
        Operator.EXISTS: label is not None,
        Operator.DOES_NOT_EXIST: label is None,
        Operator.GREATER: compared[0] > compared[1],
        Operator.LESS: compared[0] < compared[1],
    }[one.operator]


WORDS = st.sampled_from(["a", "b", "3", "7", "10", str(10**30)])
BOUNDS = st.builds(
    Requirement,
    st.sampled_from(["x", "y", "z"]),
    st.sampled_from([Operator.GREATER, Operator.LESS]),
    st.sets(st.sampled_from(["a", "5", "9"]), min_size=1, max_size=1).map(frozenset),
)
OTHERS = st.builds(
    Requirement,
    st.sampled_from(["x", "y", "z"]),
    st.sampled_from([op for op in Operator if op not in {Operator.GREATER, Operator.LESS}]),
    st.frozensets(WORDS, max_size=3),
)
LABELS = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["a", "3", "10"]))


@settings(max_examples=50)
@given(
    st.lists(LABELS, max_size=5),
    st.lists(st.lists(BOUNDS | OTHERS, max_size=3).map(tuple), max_size=3).map(tuple),
)
def test_terms_are_judged_for_all_nodes_as_for_each(
    labels: list[dict[str, str]], terms: tuple[tuple[Requirement, ...], ...]
) -> None:
    nodes = [Node(f"node-{number}", {}, labels=own) for number, own in enumerate(labels)]
    right = [
        not terms or any(all(holds(one, own.get(one.key)) for one in term) for term in terms)
        for own in labels
    ]
    shape = make_shape({}, terms=terms)
    assert Room(nodes, [shape]).get_mask(shape).tolist() == right


def bears(one: Toleration, taint: Taint) -> bool:
    """As Kubernetes documents a toleration."""
    return (
        one.key in {"", taint.key}
        and one.effect in {None, taint.effect}
        and (one.is_any_value or one.value == taint.value)
    )


TAINTS = st.builds(
    Taint, st.sampled_from("xy"), st.sampled_from(["", "a"]), st.sampled_from(Effect)
)
TOLERATIONS = st.builds(
    Toleration,
    st.sampled_from(["", "x", "y"]),
    st.sampled_from(["", "a"]),
    st.sampled_from([None, *Effect]),
    is_any_value=st.booleans(),
)


@settings(max_examples=50)
@given(st.lists(TAINTS, max_size=2).map(tuple), st.lists(TOLERATIONS, max_size=3).map(tuple))
def test_taints_are_tolerated_by_all_tolerations_together_as_by_each(
    taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]
) -> None:
    right = all(any(bears(one, taint) for one in tolerations) for taint in taints)
    shape = make_shape({}, tolerations=tolerations)
    assert Room([Node("n", {}, taints=taints)], [shape]).get_mask(shape).tolist() == [right]


def test_tolerations_are_looked_at_once_however_many_taints_there_are() -> None:
    def count(nodes: int, tolerations: int) -> int:
        marked = [
            Node(f"n-{number}", {}, taints=(Taint("for", f"team-{number}", Effect.NO_SCHEDULE),))
            for number in range(nodes)
        ]
        borne = tuple(Toleration("invented", str(number)) for number in range(tolerations))
        shape = make_shape({}, tolerations=borne)
        return count_steps(lambda: Room(marked, [shape]).get_mask(shape))

    more = [count(nodes, 200) - count(nodes, 0) for nodes in (1, 50)]
    assert more[1] == more[0], "200 tolerations are compared with each taint"


class Counted(dict[str, str]):
    """Labels that count how often one of them is looked at."""

    looks = 0

    def get(self, *key: Any) -> Any:
        self.looks += 1
        return super().get(*key)


def test_labels_are_looked_at_once_however_many_demand_something_of_them() -> None:
    """Pods of anybody wait, each with as many requirements as it likes."""
    labels = [Counted(host=f"node-{number}") for number in range(50)]
    nodes = [Node(f"node-{number:02}", {}, labels=own) for number, own in enumerate(labels)]
    keys = ("host", *(f"invented-{number}" for number in range(20)))
    shapes = [
        make_shape({}, terms=(tuple(Requirement(key, Operator.NOT_IN, values) for key in keys),))
        for values in (frozenset({f"x-{number}"}) for number in range(20))
    ]
    room = Room(nodes, shapes)
    assert all(room.get_mask(shape).all() for shape in shapes)
    assert {own.looks for own in labels} == {2}  # as host, and as whatever nobody has


def test_amounts_are_not_negative() -> None:
    with pytest.raises(ValueError, match="not negative"):
        make_shape({"cpu": -1})
