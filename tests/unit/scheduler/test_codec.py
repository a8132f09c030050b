"""JSON of others and of ours, and what is left out of it."""

from __future__ import annotations

import tracemalloc
from copy import deepcopy
from dataclasses import replace
from typing import Any
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_contract.admissions import AdmissionState, Elasticity, Placement
from et_contract.pods import Role
from et_kube.notices import NoticeKind, Row, Sign
from et_kube.resources import TRAINING_JOBS
from et_operator.model.names import build_labels
from et_scheduler.codec.admissions import decode_admission, encode_admission
from et_scheduler.codec.jobs import FREE, NOT_OURS, decode_job
from et_scheduler.codec.nodes import decode_node
from et_scheduler.codec.pods import GONE, Tenant, decode_pod
from et_scheduler.codec.queues import decode_queue, open_queue
from et_scheduler.codec.reading import MAX_INTEGER
from et_scheduler.codec.shapes import decode_shape
from et_scheduler.model.jobs import Admission, Eviction, Gift, Pod, Purpose
from et_scheduler.model.queues import DEFAULT_ORDER
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import MINUTE, SECOND, Effect, Operator, Shape
from et_scheduler.planning.rooms import Room
from et_scheduler.state.surveying import build_pod
from fakes.carriers import make_node, make_service
from fakes.schemas import admit, find_definition
from tests.unit.scheduler import makers
from tests.unit.scheduler.rigs import make_held

Document = dict[str, Any]
MOMENTS = st.integers(1, 10**14)
MAYBE = st.none() | MOMENTS
NAMES = st.lists(st.from_regex(r"[a-z]{1,9}", fullmatch=True), max_size=5).map(tuple)
NAME = st.from_regex(r"[a-z]{1,9}", fullmatch=True)
NUMBERS = st.integers(0, MAX_INTEGER)
FLAGS = st.booleans()
ADMISSIONS = st.builds(
    Admission,
    number=NUMBERS,
    state=st.sampled_from(AdmissionState),
    queue=NAME,
    elasticity=st.sampled_from(Elasticity),
    workers=st.integers(0, 1024),
    leaving=NAMES,
    placement=st.builds(Placement, launcher=st.just("") | NAME, only=NAMES, avoid=NAMES),
    reserved=NAMES,
    reason=st.sampled_from(Reason),
    message=st.text("abc 12,.", max_size=40),
    queued_at=st.just(0) | MOMENTS,
    since=st.just(0) | MOMENTS,
    unfit_since=MAYBE,
    bound_at=MAYBE,
    short_since=MAYBE,
    gave_for=st.none() | st.builds(Gift, st.sampled_from(Purpose), st.just("") | NAME),
    evictions=st.lists(st.builds(Eviction, NAME, NAME, MOMENTS, st.booleans()), max_size=3).map(
        tuple
    ),
    attempts=NUMBERS,
    grown_from=st.integers(0, 1024),
    retry_at=MAYBE,
    resized_at=MAYBE,
    levelled_at=MAYBE,
    levelled_since=MAYBE,
    level_turns=NUMBERS,
    rounds=NUMBERS,
    round_at=MAYBE,
)


def find_status() -> Document:
    definition = find_definition(TRAINING_JOBS)
    assert definition is not None
    found: Document = definition["schema"]["openAPIV3Schema"]["properties"]["status"]
    return found


def drop_nulls(body: Any) -> Any:
    """As a merge patch stores them."""
    if isinstance(body, dict):
        return {key: drop_nulls(value) for key, value in body.items() if value is not None}
    return [drop_nulls(item) for item in body] if isinstance(body, list) else body


STATUS = find_status()


@pytest.mark.long
@given(ADMISSIONS)
def test_an_admission_is_read_as_it_was_written(admission: Admission) -> None:
    body = drop_nulls(encode_admission(admission))
    stored, faults = admit({"admission": body}, STATUS)
    assert faults == []
    assert stored == {"admission": body}
    assert decode_admission(stored["admission"]) == admission


@pytest.mark.parametrize("kind", ["Later", "", 5, [], {}])
def test_a_word_that_another_version_has_for_why_is_none(kind: Any) -> None:
    told = {"number": 1, "state": "Admitted", "workers": 4}
    why = {"reason": kind, "gaveFor": {"kind": kind, "uid": "x"}}
    assert decode_admission(told | why) == decode_admission(told)
    with pytest.raises(ValueError, match="Later"):
        decode_admission(told | {"state": "Later"})


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.long
@given(ADMISSIONS, st.data())
def test_whatever_is_in_a_field_it_is_read_or_the_job_is_left_alone(
    admission: Admission, data: st.DataObject
) -> None:
    body = drop_nulls(encode_admission(admission))
    body[data.draw(st.sampled_from(sorted(body)))] = data.draw(JUNK)
    job = make_stored(admission=body)
    stored = decode_job(job)
    assert (stored.job is None) == bool(stored.trouble)


def make_stored(
    spec: Document | None = None, worker: Document | None = None, **status: Any
) -> Document:
    job = make_held("job", least=2, most=8, **(spec or {}))
    job["spec"]["etReplicaSpecs"]["worker"].update(worker or {})
    pods = [{"role": "launcher"}, {"role": "worker", "requests": {"cpu": 1000}}]
    shapes = {"pods": pods, "elastic": True}
    waiting = [{"type": "Admitted", "status": "False", "reason": "Waiting"}]
    job["metadata"] |= {
        "uid": "u",
        "namespace": "team",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    job["status"] = {"shapes": shapes, "conditions": waiting} | status
    return job


@pytest.mark.long
@pytest.mark.parametrize(
    "key", ["spec", "status", "shapes", "worker", "sizes", "conditions", "workers"]
)
@given(junk=JUNK)
def test_a_job_with_anything_in_it_is_read_or_told(key: str, junk: Any) -> None:
    job = make_stored()
    where = {"spec": job, "status": job, "shapes": job["status"], "sizes": job["spec"]}
    where |= {"worker": job["spec"]["etReplicaSpecs"]}
    where.get(key, job["status"])[key] = junk
    try:
        decode_job(job)
    except ValueError:
        assert key in {"spec", "status"}  # the store keeps what it knew


def read(**how: Any) -> Any:
    found = decode_job(make_stored(**how))
    assert found.job is not None, found.trouble
    return found.job


def test_a_job_is_what_its_author_its_operator_and_we_have_said() -> None:
    told = {"number": 3, "state": "Admitted", "workers": 4}
    job = read(spec={"sizes": [8, 2, 4], "suspend": True}, admission=told, admittedNumber=3)
    assert (job.queue, job.minimum, job.maximum, job.replicas) == ("main", 2, 8, 2)
    assert (job.sizes, job.is_suspended, job.admitted_number) == ((2, 4, 8), True, 3)
    assert job.admission == Admission(3, AdmissionState.ADMITTED, "main", workers=4)
    assert job.worker == Shape((("cpu", 1000),))


def test_only_who_is_held_or_was_answered_is_ours() -> None:
    assert decode_job(make_stored(conditions=[])) is FREE
    suspended = [{"type": "Admitted", "status": "False", "reason": "Suspended"}]
    assert decode_job(make_stored(conditions=suspended)) is NOT_OURS
    assert decode_job(make_stored(shapes=None)) is NOT_OURS
    told = {"number": 1, "state": "Admitted"}
    ended = [{"type": "Succeeded", "status": "True"}]
    assert decode_job(make_stored(conditions=ended, admission=told)) is NOT_OURS
    left = [{"type": "Admitted", "status": "False", "reason": "NoQueue"}]
    assert decode_job(make_stored(conditions=left, admission=told)) is FREE
    gone = make_stored(admission=told)
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert decode_job(gone) is NOT_OURS
    assert not read(conditions=[], admission=told).is_waiting


@pytest.mark.parametrize("odd", [[{"type": str(i)} for i in range(99)], "x", ["x"], None])
def test_who_was_admitted_stays_ours_whatever_conditions_are_written_to_it(odd: Any) -> None:
    told = {"number": 1, "state": "Admitted", "queue": "main", "workers": 3}
    job = read(conditions=odd, admission=told, admittedNumber=1)
    assert (job.maximum, job.admission.workers) == (8, 3)


@pytest.mark.parametrize(
    "how",
    [
        {"shapes": None},
        {"shapes": {"pods": [{"role": "launcher"}]}},
        {"spec": {"sizes": ["x"]}},
        {"worker": {"minReplicas": "x"}},
    ],
)
def test_who_was_admitted_stays_in_the_books_whatever_cannot_be_read(how: Document) -> None:
    """His edit would free what his pods have of the limit of his queue."""
    told = {"number": 1, "state": "Admitted", "queue": "main", "workers": 3}
    stored = decode_job(make_stored(conditions=[], admission=told, admittedNumber=1, **how))
    assert stored.trouble
    assert stored.job is not None
    least = 1 if "worker" in how else 2
    assert (stored.job.minimum, stored.job.maximum, stored.job.is_frozen) == (least, 3, False)
    assert stored.job.admission == Admission(1, AdmissionState.ADMITTED, "main", workers=3)
    back = {"number": 1, "state": "Waiting", "queue": "main"}
    assert decode_job(make_stored(admission=back, **how)).job is None
    spent = make_stored(admission=told, admittedNumber=1, **how)  # the operator holds it, and asks
    assert decode_job(spent).job is None


RUNNING = [{"type": "Admitted", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]


@pytest.mark.parametrize(
    ("how", "asked", "is_read"),
    [
        ({}, Elasticity.AUTO, True),
        ({"spec": {"elasticity": "Fixed"}}, Elasticity.FIXED, True),
        ({"shapes": None}, Elasticity.FIXED, False),
    ],
)
def test_who_runs_and_has_lost_its_admission_has_what_the_operator_has_decided(
    how: Document, asked: Elasticity, is_read: bool
) -> None:
    """Its pods would be in nobody's books, and no word of ours would reach it any more."""
    running = {"conditions": RUNNING, "admittedNumber": 3}
    stored = decode_job(make_stored(**running, decidedReplicas=4, **how))
    assert stored.job is not None
    assert (not stored.trouble) is is_read
    assert (stored.job.queue, stored.job.admitted_number) == ("main", 3)
    at = 1_767_225_600_000
    times = {"queued_at": at, "since": at, "bound_at": at, "gave_for": Gift(Purpose.LIMIT)}
    told = Admission(3, AdmissionState.ADMITTED, "main", asked, 4, **times)  # type: ignore[arg-type]
    assert stored.job.admission == told
    undecided = decode_job(make_stored(**running, **how))
    assert undecided.job is not None
    assert undecided.job.admission == replace(told, workers=2)


def test_who_has_lost_its_admission_and_lacks_a_worker_has_its_time_for_that() -> None:
    """As everybody has who stands; and whatever becomes of it, it is told anew."""
    running = {"conditions": RUNNING, "admittedNumber": 3}
    job = decode_job(make_stored(**running, decidedReplicas=2)).job
    assert job is not None
    pods = (Pod("l", "x", makers.NOW, is_launcher=True), Pod("w", "x", makers.NOW))
    job = replace(job, pods=pods, minimum=2, launcher=makers.NOTHING, worker=makers.cpus(1))
    nodes, end = (makers.make_node("x"),), makers.NOW + 10 * MINUTE
    [told] = makers.decide_on(nodes, [job]).values()
    assert (told.state, told.gave_for) == (AdmissionState.ADMITTED, None)
    assert told.short_since == makers.NOW
    job = replace(job, admission=told)
    assert makers.decide_on(nodes, [job], now=end - 1) == {}
    [told] = makers.decide_on(nodes, [job], now=end).values()
    assert told.state is AdmissionState.WAITING


def test_who_leaves_does_so_since_the_operator_says_it() -> None:
    began, gone = "2026-01-01T00:00:01Z", {"name": "w-0", "state": "Gone", "since": "x"}
    workers = [
        {"name": f"w-{n}", "state": "Leaving", "since": at} for n, at in ((1, began), (2, 5))
    ]
    stored = decode_job(make_stored(workers=[*workers, gone]))
    assert stored.leaving == {"w-1": 1_767_225_601_000, "w-2": 0}
    for name, since, is_draining in (
        ("w-1", 1_767_225_601_000, True),
        ("w-2", 7, True),
        ("w-0", 7, False),
    ):
        pod = build_pod(name, Tenant(is_terminating=True, deletion_asked=7), stored)
        assert (pod.leaving_since, pod.is_draining) == (since, is_draining)


def test_who_cannot_be_elastic_counts_as_fixed() -> None:
    assert read().elasticity is Elasticity.AUTO
    assert read(worker={"maxReplicas": None}).elasticity is Elasticity.FIXED
    assert read(spec={"elasticity": "Fixed"}).elasticity is Elasticity.FIXED
    assert (
        read(shapes={"pods": [{"role": "launcher"}, {"role": "worker"}]}).elasticity
        is Elasticity.FIXED
    )
    assert read(spec={"queue": None}).elasticity is Elasticity.FIXED
    assert read(spec={"queue": None}).queue == "default"


@pytest.mark.parametrize(
    ("asked", "costs", "seconds"),
    [(None, None, 30), (None, [9, 1, 40], 90), (None, [1], 30), (None, [400], 900), (60, [40], 60)],
)
def test_the_cool_down_follows_what_resizes_cost(asked: Any, costs: Any, seconds: int) -> None:
    job = read(spec={"resizeCooldownSeconds": asked}, resizeSeconds=costs)
    assert job.cooldown == seconds * SECOND


# ------------------------------------------------------------------ nodes
def test_a_node_has_room_when_it_is_ready_and_nobody_takes_it_away() -> None:
    node = make_node("n")
    assert decode_node(node).has_room
    assert decode_node(node).allocatable == {"cpu": 8000, "memory": 64 * 2**30, "pods": 110}
    assert not decode_node(node | {"spec": {"unschedulable": True}}).has_room
    assert not decode_node(node | {"status": {}}).has_room
    gone = {**node["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert not decode_node(node | {"metadata": gone}).has_room


def test_nothing_new_is_put_on_a_node_that_is_said_for_sure_to_end() -> None:
    node, key = make_node("n"), "kai.alibabacloud.com/leaving-at"
    leaving = {**node["metadata"], "annotations": {key: "2026-01-01T00:00:00Z"}}
    assert not decode_node(node | {"metadata": leaving}).has_room
    mistaken = {**node["metadata"], "annotations": {key: "soon"}}
    assert decode_node(node | {"metadata": mistaken}).has_room
    advised = [{"key": "aws-node-termination-handler/rebalance-recommendation"}]
    assert decode_node(node | {"spec": {"taints": advised}}).has_room
    gone = [{"key": "example.com/reclaimed"}]
    own = Row(Sign.TAINT, "example.com/reclaimed", "the rack", NoticeKind.FIRM)
    assert not decode_node(node | {"spec": {"taints": gone}}, [own]).has_room


def test_taints_that_keep_pods_away_are_those_of_the_node() -> None:
    taints = [
        {"key": "a", "effect": "NoSchedule"},
        {"key": "b", "value": "v", "effect": "NoExecute"},
        {"key": "c", "effect": "PreferNoSchedule"},
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
    ]
    found = decode_node(make_node("n") | {"spec": {"taints": taints}}).taints
    assert [(t.key, t.effect) for t in found] == [
        ("a", Effect.NO_SCHEDULE),
        ("b", Effect.NO_EXECUTE),
    ]


def test_a_pod_that_names_its_node_by_field_finds_it() -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n"]}]
    pod = make_service("x")
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    pod["spec"]["affinity"] = {"nodeAffinity": required}
    shape = decode_pod(pod).shape
    room = Room([decode_node(make_node(name)) for name in ("m", "n")], [shape])
    assert room.get_mask(shape).tolist() == [False, True]


# ------------------------------------------------------------------ pods
def own(pod: Document, job: str = "job", **changes: Any) -> Document:
    owner = {"kind": "TrainingJob", "apiVersion": "kai.alibabacloud.com/v1alpha1"}
    owner |= {"name": job, "uid": "u", "controller": True} | changes
    pod["metadata"]["ownerReferences"] = [owner]
    role = Role.LAUNCHER if "-launcher" in pod["metadata"]["name"] else Role.WORKER
    pod["metadata"]["labels"] = build_labels("job", role)
    return pod


def mark(pod: Document, **labels: str | None) -> Document:
    pod["metadata"]["labels"] |= {name.replace("_", "-"): value for name, value in labels.items()}
    return pod


@pytest.mark.parametrize(
    ("pod", "owner", "is_launcher"),
    [
        (own(make_service("job-worker-3")), "u", False),
        (own(make_service("job-launcher")), "u", True),
        (own(make_service("job-launcher-r2")), "u", True),
        (own(make_service("job-worker-x")), "", False),
        (own(make_service("other-worker-3")), "", False),
        (own(make_service("job-worker-3"), controller=False), "", False),
        (own(make_service("job-worker-3"), kind="Job"), "", False),
        (make_service("job-worker-3"), "", False),
        (mark(own(make_service("job-worker-3")), group_name=None), "", False),
        (mark(own(make_service("job-worker-3")), training_job_name="other"), "", False),
        (mark(own(make_service("job-worker-3")), training_job_role=None), "u", False),
        (mark(own(make_service("job-worker-3")), training_job_role="launcher"), "u", False),
        (mark(own(make_service("job-launcher")), training_job_role="worker"), "u", True),
    ],
)
def test_a_pod_is_of_the_job_that_made_it(pod: Document, owner: str, is_launcher: bool) -> None:
    found = decode_pod(pod)
    assert (found.owner, found.is_launcher) == (owner, is_launcher)
    assert found.is_pending


def test_pods_that_take_nothing_are_nothing() -> None:
    pod = make_service("x")
    assert decode_pod(pod | {"status": {"phase": "Succeeded"}}) is GONE
    assert decode_pod(pod | {"spec": {**pod["spec"], "schedulingGates": [{"name": "x"}]}}) == GONE
    bound = decode_pod(pod | {"spec": {**pod["spec"], "nodeName": "n"}})
    assert (bound.node, bound.shape.requests, bound.is_pending) == ("n", (("cpu", 1000),), False)


def test_a_pod_waits_since_it_was_told_that_there_is_no_room() -> None:
    pod = make_service("x")
    pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    began = decode_pod(pod).since
    told = {"type": "PodScheduled", "status": "False", "lastTransitionTime": "2026-01-01T00:01:00Z"}
    assert decode_pod(pod | {"status": {"conditions": [told]}}).since == began + MINUTE


def test_equal_requests_of_bound_pods_are_one_object() -> None:
    one, two = (make_service(name) for name in ("a", "b"))
    for pod in (one, two):
        pod["spec"]["nodeName"] = "n"
    assert decode_pod(one).shape is decode_pod(two).shape


@pytest.mark.long
@given(JUNK)
def test_a_shape_of_anything_is_read_or_refused(junk: Any) -> None:
    for key in ("requests", "terms", "tolerations", "hostPorts", "unproven"):
        try:
            decode_shape({key: junk})
        except (ValueError, LookupError, TypeError):
            continue


def test_every_operator_is_read() -> None:
    for operator in Operator:
        term = {"requirements": [{"key": "k", "operator": operator.value, "values": ["1"]}]}
        assert decode_shape({"terms": [term]}).terms[0][0].operator is operator


def demand(*terms: list[str]) -> Document:
    """A pod that may be nowhere where these are."""
    pod = make_service("x")
    told = [
        {"matchExpressions": [{"key": "host", "operator": "NotIn", "values": values}]}
        for values in terms
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": told}}
    pod["spec"]["affinity"] = {"nodeAffinity": required}
    return pod


def test_of_what_a_pod_asks_so_much_is_kept_as_a_whole() -> None:
    """A pod may be as long as the server takes, and thousands may wait."""
    named = [f"node-{number}.cluster.internal" for number in range(500)]
    assert decode_pod(demand(named)).shape.terms[0][0].values == tuple(sorted(named))
    for terms in ([[f"n-{t}-{i}" for i in range(1000)] for t in range(60)], [["x"]] * 60 * 2):
        shape = decode_pod(demand(*terms)).shape
        assert shape.terms == ()
        assert shape.unproven.startswith("more ")
    pod = demand()
    long = [{"key": f"{number:0300}", "operator": "Exists"} for number in range(250)]
    pod["spec"]["tolerations"] = long
    kept = decode_pod(pod).shape.tolerations
    assert [one.key for one in kept] == [one["key"] for one in long[: len(kept)]]
    assert sum(len(one.key) for one in kept) <= 2**15


def test_pods_of_one_template_that_look_for_a_node_have_one_shape() -> None:
    """A Deployment may have thousands, and they are looked up by their shapes all the time."""
    pod = demand(["a"], ["b", "c"])
    shape = decode_pod(pod).shape
    assert decode_pod(deepcopy(pod)).shape is shape
    assert decode_pod(demand(["a"], ["b"])).shape is not shape
    seen = ref(shape)
    del shape
    assert seen() is None, "and none is kept for pods that may come"


def test_what_one_shape_takes_is_what_its_bound_says() -> None:
    """Texts of two letters, of which each is a text and a place as well."""
    names = [f"{number:02x}" for number in range(256)]
    pods = [demand(names, names, [*names[:200], str(number)]) for number in range(20)]

    tracemalloc.start()
    kept = [decode_pod(pod).shape for pod in pods]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert all(len(one.terms) == 3 for one in kept)
    assert size < 20 * 2**16


def test_a_document_of_a_former_version_is_read_without_what_weighs_too_much() -> None:
    values = [f"node-{number}" for number in range(1000)]
    term = {"requirements": [{"key": "host", "operator": "In", "values": values}]}
    document = {"requests": {"cpu": 1}, "terms": [term] * 9, "unproven": "volume claims"}
    shape = decode_shape(document)
    assert (shape.requests, shape.terms) == ((("cpu", 1),), ())
    assert shape.unproven == "volume claims, more of node affinity than is looked at"


# ------------------------------------------------------------------ queues
def make_queue(**spec: Any) -> Document:
    return {"metadata": {"name": "q"}, "spec": spec}


def test_a_queue_that_says_nothing_is_for_all_and_has_no_limit() -> None:
    queue = decode_queue(make_queue())
    assert queue.demands is None
    assert (queue.queue.weight, queue.queue.order, queue.queue.limits) == (1, DEFAULT_ORDER, {})


def test_a_limit_of_0_is_a_limit() -> None:
    limits = {"cpu": "1500m", "nvidia.com/gpu": 0}
    assert decode_queue(make_queue(limits=limits)).queue.limits == {
        "cpu": 1500,
        "nvidia.com/gpu": 0,
    }


@pytest.mark.parametrize(
    "spec",
    [
        {"weight": 0},
        {"weight": 10**7},
        {"order": "age"},
        {"limits": {"cpu": "-1"}},
        {"stopped": "no"},
        {"namespaces": []},
        {"namespaces": {"matchExpressions": [{"key": "a", "operator": "Has"}]}},
        {"limits": {str(n): 1 for n in range(65)}},
    ],
)
def test_a_queue_that_cannot_be_one_is_refused(spec: Document) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_queue(make_queue(**spec))


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ({}, {"a", "b", "c"}),
        ({"matchLabels": {"team": "x"}}, {"a"}),
        (
            {"matchExpressions": [{"key": "team", "operator": "In", "values": ["x", "y"]}]},
            {"a", "b"},
        ),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]}, {"b", "c"}),
        ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, {"a", "b"}),
        ({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, {"c"}),
        (
            {
                "matchLabels": {"team": "x"},
                "matchExpressions": [{"key": "team", "operator": "DoesNotExist"}],
            },
            set(),
        ),
    ],
)
def test_a_queue_is_for_the_namespaces_that_it_selects(selector: Document, names: set[str]) -> None:
    known = [("a", {"team": "x"}), ("b", {"team": "y"}), ("c", {})]
    queue = open_queue(decode_queue(make_queue(namespaces=selector)), known)
    assert queue.namespaces == names


def test_what_was_decided_of_a_gift_is_kept_without_its_uid() -> None:
    admission = replace(Admission(), gave_for=Gift(Purpose.LEVEL))
    assert decode_admission(drop_nulls(encode_admission(admission))) == admission
