"""Every pod that a server may store is read by all who share it, and takes its room of its node."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from et_contract.pods import ENDED
from et_kube.notices import LEAVING_AT
from et_operator.codec import nodes as operators_nodes
from et_operator.codec import pods as operators_pods
from et_scheduler.codec.nodes import decode_node
from et_scheduler.codec.pods import GONE, decode_pod
from tests.specs.odds import draw
from tests.specs.strangers import Stranger

DICE = st.randoms(use_true_random=False)


@settings(max_examples=300)
@given(DICE)
def test_every_pod_is_read_and_takes_its_room(dice: random.Random) -> None:
    pod = Stranger(dice, {"train": "u-train"}).build_stored_pod("train-worker-7")
    operators_pods.decode_pod(pod)
    found = decode_pod(pod)
    is_going = "deletionTimestamp" in pod["metadata"]
    if pod["status"]["phase"] in ENDED:
        assert found == GONE
        return
    assert (found.node == "node") is (pod["spec"]["nodeName"] == "node")
    assert found.is_terminating is is_going
    assert bool(found.deletion_asked) is is_going
    if found.node or found.is_pending:
        assert found.shape.requests == (("cpu", 4000),)


@given(DICE)
def test_every_node_is_read(dice: random.Random) -> None:
    change = Stranger(dice, {"train": "u-train"}).build_node_change()
    count = dice.choice((0, 1, 600))
    taints = [{"key": f"k{n}", "effect": "NoSchedule"} for n in range(count)]
    metadata = {"name": "node", "labels": {f"k{n}": "v" for n in range(count)}}
    ready = {"type": "Ready", "status": "True"}
    status = {"allocatable": {"cpu": "0" * 80 + "4"}, "conditions": [*[{}] * count, ready]}
    node = {"metadata": metadata, "spec": {"taints": taints}, "status": status}
    marks = {LEAVING_AT: draw(dice, dice.choice(("text", "time")))}
    marked = node | change | {"metadata": metadata | {"annotations": marks}}
    for one in (node, node | change, marked):
        operators_nodes.decode_node(one)
        decode_node(one)
    found = decode_node(node)
    assert (found.allocatable, found.has_room) == ({"cpu": 4000}, count < 600)
    assert found.labels.keys() >= metadata["labels"].keys()
