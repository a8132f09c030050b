"""What pods ask is kept within a bound, and one namespace's flood takes nothing from others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from et_kube.resources import NODES, PODS
from et_kube.watching import Deleted, Synced, Upserted
from et_scheduler.codec.shapes import weigh
from et_scheduler.model.shapes import Operator, Requirement, Shape, make_shape
from et_scheduler.state.ingesting import Ingest
from et_scheduler.state.store import Store
from et_scheduler.state.surveying import Surveyor
from et_scheduler.state.weighing import LIGHT, MOST, PART, Weights
from fakes.carriers import make_node, make_service
from tests.counting import find_peak
from tests.unit.scheduler.rigs import SchedulerRig

Document = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TAINTS = (
    *(("not-ready", "NoExecute"), ("unreachable", "NoExecute")),
    *((f"{what}-pressure", "NoSchedule") for what in ("disk", "memory", "pid")),
    *(("unschedulable", "NoSchedule"), ("network-unavailable", "NoSchedule")),
)
FULL = MOST // (PART + 1)
"""What one namespace may have that is alone."""


def make_pod(number: int, kind: str, namespace: str = "flood", node: str = "") -> Document:
    """One with 50 KB of its own."""
    pod = make_service(f"pod-{number}")
    pod["metadata"] |= {"namespace": namespace, "uid": f"{namespace}-{number}"}
    pod["metadata"]["resourceVersion"] = str(number + 1)
    spec, names = pod["spec"], [f"{number:04}{place:03}" for place in range(700)]
    if kind == "affinity":
        needs = [{"key": "host", "operator": "NotIn", "values": names}]
        terms = {"nodeSelectorTerms": [{"matchExpressions": needs}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        spec["affinity"] = {"nodeAffinity": required}
    elif kind == "selector":
        spec["nodeSelector"] = {f"{name}{'x' * 250}": "v" for name in names[:60]}
    elif kind == "tolerations":
        spec["tolerations"] = [{"key": name + "x" * 190} for name in names[:100]]
    elif kind == "ports":
        asked = [{"hostPort": 1 + number + place} for place in range(250)]
        spec["containers"][0]["ports"] = asked
    else:
        asked = {f"{name}{'x' * 240}/r": "1" for name in names[:60]}
        spec["containers"][0]["resources"] = {"requests": {"cpu": "1", **asked}}
    return pod | ({"spec": {**spec, "nodeName": node}} if node else {})


class Seen:
    """A store that is told of pods, and who it says has too many."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.store = Store(weights=Weights(self.told.append))
        self.ingest = Ingest(self.store)

    def put(self, pod: Document) -> None:
        self.ingest.take(Upserted(PODS, pod))

    def end(self, pod: Document) -> None:
        self.ingest.take(Deleted(PODS, pod))

    def list_all(self, pods: Iterable[Document]) -> None:
        entries = tuple(self.ingest.read(PODS, pod) for pod in pods)
        self.ingest.take(Synced(PODS, None, entries, "9999", 0))

    def list_pending(self, namespace: str) -> list[str]:
        """Uids of the pods of a namespace that somebody would make room for."""
        pending = Surveyor(self.store).survey().cluster.pending
        return [pod.uid for pod in pending if pod.namespace == namespace]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["affinity", "selector", "tolerations", "ports", "requests"])
def test_pods_that_each_ask_something_else_take_no_more_than_a_bound(kind: str) -> None:
    seen = Seen()
    peak = find_peak(lambda: [seen.put(make_pod(number, kind)) for number in range(220)])
    assert 0 < len(seen.list_pending("flood")) < 220
    assert peak < FULL * 1.3
    assert seen.told == ["flood"]


@pytest.mark.long
def test_so_it_is_of_a_list_before_it_is_complete() -> None:
    seen = Seen()
    peak = find_peak(lambda: seen.list_all(make_pod(n, "affinity") for n in range(150)))
    assert peak < FULL * 1.3


@pytest.mark.long
def test_whoever_comes_after_a_flood_is_served_as_before() -> None:
    seen = Seen()
    for number in range(200):
        seen.put(make_pod(number, "affinity"))
    late = [make_pod(number, "affinity", "late") for number in range(300, 340)]
    for pod in late:
        seen.put(pod)
    assert len(seen.list_pending("late")) == 40
    assert seen.told == ["flood"]


@pytest.mark.long
def test_many_who_flood_leave_something_and_what_is_light_is_always_kept() -> None:
    seen = Seen()
    for number in range(1500):
        seen.put(make_pod(number, "affinity", f"flood-{number // 150}"))
    seen.put(make_pod(2000, "affinity", "late"))
    plain = make_service("plain")
    plain["metadata"] |= {"namespace": "flood-0", "uid": "plain", "resourceVersion": "1"}
    seen.put(plain)
    assert len(seen.list_pending("late")) == 1
    assert "plain" in seen.list_pending("flood-0")


@pytest.mark.long
def test_pods_of_large_daemon_sets_are_no_flood() -> None:
    """Each names its node, and bears what every node may have."""
    seen = Seen()
    for number in range(5000):
        pod = make_pod(number, "plain")
        pod["spec"] = {
            "containers": [{"resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}],
            "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [name_node(number)]}}},
            "tolerations": [
                {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": effect}
                for taint, effect in TAINTS
            ],
        }
        seen.put(pod)
    assert len(seen.list_pending("flood")) == 5000
    assert seen.told == []


def name_node(number: int) -> Document:
    field = {"key": "metadata.name", "operator": "In", "values": [f"node-{number:05}.example.com"]}
    return {"matchFields": [field]}


def test_what_is_gone_or_has_found_a_node_gives_its_room_back() -> None:
    seen = Seen()
    pods = [make_pod(number, "affinity") for number in range(200)]
    for pod in pods:
        seen.put(pod)
    kept = len(seen.list_pending("flood"))
    for pod in pods[:50]:
        seen.end(pod)
    seen.list_all(pods[100:])
    for pod in pods[100:150]:
        metadata = {**pod["metadata"], "resourceVersion": "10000"}
        seen.put({"metadata": metadata, "spec": {**pod["spec"], "nodeName": "n"}})
    assert not seen.list_pending("flood")
    for number in range(200, 400):
        seen.put(make_pod(number, "affinity"))
    assert len(seen.list_pending("flood")) == kept
    assert seen.told == ["flood", "flood"]


@pytest.mark.long
def test_who_is_told_of_again_is_counted_once() -> None:
    """By updates, and by lists."""
    seen = Seen()
    pods = [make_pod(number, "affinity") for number in range(40)]
    for version in range(5):
        for pod in pods:
            metadata = {**pod["metadata"], "resourceVersion": str(1000 + version)}
            seen.put({**pod, "metadata": metadata})
        seen.list_all(pods)
    assert len(seen.list_pending("flood")) == 40
    assert not seen.told


@pytest.mark.long
def test_of_a_bound_pod_beyond_the_bound_what_its_node_offers_is_kept() -> None:
    """Anybody may bind a pod to a name, and as many to a node that is not there any more."""
    seen = Seen()
    node = make_node("n") | {"metadata": {"name": "n", "uid": "n", "resourceVersion": "1"}}
    node["status"]["allocatable"]["example.com/gpu"] = "8"
    seen.ingest.take(Upserted(NODES, node))

    def bind_all() -> None:
        for number in range(260):
            pod = make_pod(number, "requests", node="n")
            pod["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
            pod["spec"]["containers"][0]["ports"] = [{"hostPort": number + 1}]
            seen.put(pod)

    assert find_peak(bind_all) < FULL * 1.3
    [found] = Surveyor(seen.store).survey().cluster.nodes
    assert (found.taken["cpu"], found.taken["example.com/gpu"]) == (260_000, 260)
    assert 0 < len(found.ports) < 260


def test_texts_weigh_what_they_take() -> None:
    """One wide character makes each of a text so."""
    plain, wide = (
        Shape((), ((Requirement("k", Operator.IN, (value,)),),))
        for value in ("a" * 200, "😀" * 200)
    )
    assert weigh(wide) - weigh(plain) == 600
    assert weigh(make_shape({"cpu": 1, "memory": 1})) < LIGHT


@pytest.mark.long
async def test_that_pods_are_left_out_is_counted(quiet_logs: None) -> None:
    rig = SchedulerRig()
    for number in range(80):
        rig.cluster.create(PODS, "flood", make_pod(number, "affinity"))
    async with rig.running():
        await rig.advance(1, is_carried=False)
    assert rig.metrics.defects.labels("object")._value.get() == 1
