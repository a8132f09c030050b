"""`et node`: a node that leaves, and one that stays."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from et.flags import parse_duration
from et_contract.pods import Role
from et_kube.errors import Refused, ServerFailed
from et_kube.notices import LEAVING_AT, LEAVING_REASON
from et_kube.resources import NODES, PODS, Ref
from et_operator.model.names import build_labels
from fakes.clients import Call, Moment
from tests.makers import make_pod
from tests.simulation.worlds import NAMESPACE
from tests.unit.et.test_commands import Desk


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.cluster.create(NODES, None, {"metadata": {"name": "n1"}})
    return desk


def forbid_nodes(call: Call, moment: Moment) -> None:
    if moment is Moment.BEFORE and call.ref.resource == NODES:
        raise Refused(403, "Forbidden", 'nodes "n1" is forbidden')


def put_worker(desk: Desk, name: str, node: str, role: Role = Role.WORKER) -> None:
    pod = make_pod(name, labels=build_labels("train", role))
    pod["spec"]["nodeName"] = node
    desk.cluster.create(PODS, NAMESPACE, pod)


def read_marks(desk: Desk, ref: Ref) -> dict[str, Any]:
    return dict(desk.cluster.get(ref)["metadata"].get("annotations") or {})


def test_a_node_that_leaves_says_when_and_why_until_it_stays(desk: Desk):
    node = Ref(NODES, "", "n1")
    assert desk.type("node", "leaving", "n1", "--in", "2m", "--reason", "new disk") == 0
    marks = read_marks(desk, node)
    assert marks.keys() == {LEAVING_AT, LEAVING_REASON}
    assert desk.out == f"node n1 leaves at {marks[LEAVING_AT]}"
    assert desk.type("node", "leaving", "n1", "--at", marks[LEAVING_AT]) == 0
    assert read_marks(desk, node) == {LEAVING_AT: marks[LEAVING_AT]}
    assert desk.type("node", "staying", "n1") == 0
    assert desk.out == "node n1 stays"
    assert read_marks(desk, node) == {}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("n2",), "there is no node 'n2'"),
        (("a/b",), "is no name of a node"),
        (("n1", "--at", "noon"), "is no time with its zone"),
        (("n1", "--at", "2001-01-01T00:00:00Z"), "is over"),
        (("n1", "--in", "31d"), "more than 30 days away"),
        (("n1", "--reason", "x" * 129), "128 at most"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: tuple[str, ...], told: str, desk: Desk):
    assert desk.type("node", "leaving", *words) == 1
    assert told in desk.err.replace("\n", " ")
    assert read_marks(desk, Ref(NODES, "", "n1")) == {}


def test_who_gives_two_times_is_told_to_give_one(desk: Desk):
    assert desk.type("node", "leaving", "n1", "--in", "1s", "--at", "x") == 2


@pytest.mark.long
def test_who_may_not_change_nodes_tells_the_pods_there_and_hears_that_it_is_they_alone(
    desk: Desk,
):
    desk.log.faults.append(forbid_nodes)
    put_worker(desk, "train-worker-0", "n1")
    put_worker(desk, "train-worker-1", "n2")
    put_worker(desk, "train-1-launcher", "n1", Role.LAUNCHER)
    assert desk.type("node", "leaving", "n1") == 0
    assert "train-worker-0 leaves at" in desk.out
    assert "you may not change nodes: of n1 only 2 pods" in desk.err.replace("\n", " ")
    names = ("train-worker-0", "train-worker-1", "train-1-launcher")
    pods = [Ref(PODS, NAMESPACE, name) for name in names]
    assert [LEAVING_AT in read_marks(desk, pod) for pod in pods] == [True, False, True]
    assert desk.type("node", "staying", "n1") == 0
    assert not any(LEAVING_AT in read_marks(desk, pod) for pod in pods)
    assert desk.type("node", "leaving", "n7") == 1
    assert "nobody was told" in desk.err.replace("\n", " ")


def test_a_worker_that_has_gone_or_cannot_be_told_keeps_nothing_from_the_others(desk: Desk):
    names = [f"train-worker-{index}" for index in range(4)]
    for name in names:
        put_worker(desk, name, "n1")

    def fail(call: Call, moment: Moment) -> None:
        if moment is not Moment.BEFORE or call.verb != "patch" or call.ref.resource != PODS:
            return
        if call.ref.name == names[0]:
            desk.cluster.remove(call.ref)
        if call.ref.name == names[1]:
            raise ServerFailed(503, "", "busy")

    desk.log.faults += [forbid_nodes, fail]
    assert desk.type("node", "leaving", "n1") == 1
    assert "train-worker-2 leaves at" in desk.out
    assert "train-worker-3 leaves at" in desk.out
    assert "only 2 pods" in desk.err.replace("\n", " ")
    assert "not told: train-worker-1: " in desk.err.replace("\n", " ")
    assert names[0] not in desk.out + desk.err


def test_a_time_that_no_date_can_say_is_refused(desk: Desk):
    assert desk.type("node", "leaving", "n1", "--in", "99999999d") == 2
    with pytest.raises(typer.BadParameter, match="3650d at most"):
        parse_duration("99999999d")
