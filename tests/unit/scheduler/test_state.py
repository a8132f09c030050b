"""What is believed: sums by node, whose pods are whose, and what a flood of them costs."""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter
from dataclasses import replace
from itertools import count
from typing import Any
from weakref import ref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from et_contract.admissions import AdmissionState
from et_contract.pods import LABEL_JOB, LABEL_ROLE
from et_kube.resources import (
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    TRAINING_JOBS,
    TRAINING_QUEUES,
    Resource,
)
from et_kube.shaping import HOSTNAME, describe_shape
from et_kube.watching import Deleted, Synced, Upserted
from et_scheduler.codec.shapes import decode_shape
from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import Shape, make_shape
from et_scheduler.planning.passing import decide
from et_scheduler.state.ingesting import Ingest
from et_scheduler.state.store import Store
from et_scheduler.state.surveying import Surveyor
from fakes.carriers import make_node, make_service
from tests.counting import count_steps
from tests.unit.scheduler.test_codec import make_stored, own

Document = dict[str, Any]


def make_queue_for(tenant: str) -> Document:
    return {"metadata": {"name": tenant}, "spec": {"namespaces": {"matchLabels": {"for": tenant}}}}


def test_whom_queues_are_for_is_found_anew_where_a_namespace_has_changed() -> None:
    """There may be thousands of namespaces, and each pass asks."""
    book = Book()

    def find() -> dict[str, frozenset[str] | None]:
        return {queue.name: queue.namespaces for queue in book.surveyor.survey().queues}

    for number in range(100):
        book.tell(NAMESPACES, {"metadata": {"name": f"n{number}", "labels": {"for": "a"}}})
    book.tell(TRAINING_QUEUES, make_queue_for("a"))
    first = count_steps(find)
    book.tell(TRAINING_QUEUES, make_queue_for("b"))
    book.tell(TRAINING_QUEUES, {"metadata": {"name": "all"}, "spec": {}})
    everybody = frozenset(f"n{number}" for number in range(100))
    assert find() == {"a": everybody, "b": frozenset(), "all": None}
    assert count_steps(find) * 5 < first
    moved = book.tell(NAMESPACES, {"metadata": {"name": "n7", "labels": {"for": "b"}}})
    assert find() == {"a": everybody - {"n7"}, "b": {"n7"}, "all": None}
    book.end(NAMESPACES, moved)
    assert find() == {"a": everybody - {"n7"}, "b": frozenset(), "all": None}
    book.tell(TRAINING_QUEUES, {**make_queue_for("b"), "metadata": {"name": "a"}})
    assert find() == dict.fromkeys(("a", "b"), frozenset()) | {"all": None}


def test_a_namespace_is_read_however_many_labels_it_has() -> None:
    """What its queue's administrator has taken away is gone, whatever else its author adds."""
    many = {f"k{number}": "v" for number in range(600)}
    book, fresh = Book(), Book()
    for one, labels in ((book, {"for": "a"}), (book, many), (fresh, many | {"for": "a"})):
        one.tell(TRAINING_QUEUES, make_queue_for("a"))
        one.tell(NAMESPACES, {"metadata": {"name": "n", "labels": labels}})
    found = [one.surveyor.survey().queues[0].namespaces for one in (book, fresh)]
    assert found == [frozenset(), {"n"}]
    assert not book.unread


class Book:
    """A store that is told things one by one."""

    def __init__(self, pool_label: str = "") -> None:
        self.store = Store()
        self.unread: list[str] = []
        self.ingest = Ingest(self.store, lambda _, obj, __: self.unread.append(str(obj)[:40]))
        self.surveyor = Surveyor(self.store, pool_label)
        self._versions = count(1)

    def tell(self, resource: Resource, obj: Document, namespace: str = "") -> Document:
        metadata = {"uid": obj["metadata"]["name"], "namespace": namespace} | obj["metadata"]
        metadata["resourceVersion"] = str(next(self._versions))
        told = {**obj, "metadata": metadata}
        self.ingest.take(Upserted(resource, told))
        return told

    def end(self, resource: Resource, obj: Document) -> None:
        metadata = {**obj["metadata"], "resourceVersion": str(next(self._versions))}
        self.ingest.take(Deleted(resource, {**obj, "metadata": metadata}))

    def node(self, name: str = "n") -> Any:
        cluster = self.surveyor.survey().cluster
        return next(node for node in cluster.nodes if node.name == name)


def test_the_pool_of_a_node_is_the_value_of_the_label() -> None:
    book, node = Book("gpu"), make_node("n")
    book.tell(NODES, node)
    assert book.node().pool == ""
    labels = {**node["metadata"].get("labels", {}), "gpu": "a100"}
    book.tell(NODES, {**node, "metadata": {**node["metadata"], "labels": labels}})
    assert book.node().pool == "a100"


def on(pod: Document, node: str = "n", **metadata: Any) -> Document:
    return {
        **pod,
        "metadata": {**pod["metadata"], **metadata},
        "spec": {**pod["spec"], "nodeName": node},
    }


STEPS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["", "n", "m"]), st.integers(1, 3), st.booleans()),
    max_size=30,
)


@settings(max_examples=40)
@given(STEPS)
def test_sums_are_those_of_the_pods_that_are_there(steps: list[tuple[int, str, int, bool]]) -> None:
    book = Book()
    for name in ("n", "m"):
        book.tell(NODES, make_node(name))
    there: dict[int, tuple[str, int]] = {}
    gone: set[int] = set()
    for number, node, cpu, is_gone in steps:
        if number in gone:
            continue
        pod = make_service(f"pod-{number}", cpu)
        told = book.tell(PODS, on(pod, node) if node else pod, "web")
        there[number] = (node, cpu)
        if is_gone:
            book.end(PODS, told)
            del there[number]
            gone.add(number)  # its uid never comes back
        wanted = Counter[str]()
        for place, amount in there.values():
            wanted[place] += amount * 1000
        for name in ("n", "m"):
            assert book.node(name).taken.get("cpu", 0) == wanted[name]


ASKED = 1_767_225_600_000
"""2026, in milliseconds."""


def test_pods_of_a_job_come_with_it_and_those_of_others_are_sums() -> None:
    book = Book()
    book.tell(NODES, make_node("n"))
    book.tell(PODS, on(own(make_service("job-worker-1"))), "team")
    book.tell(PODS, on(make_service("web-1", 2), deletionTimestamp="2026-01-01T00:00:00Z"), "web")
    assert book.node().taken == {"cpu": 3000, "pods": 2}
    job = book.tell(TRAINING_JOBS, make_stored(), "team")
    assert book.node().taken == {"cpu": 2000, "pods": 1}
    [leaving] = book.node().leaving
    assert leaving.amounts == {"cpu": 2000, "pods": 1}
    assert leaving.since == ASKED
    [known] = book.surveyor.survey().jobs
    assert [(pod.name, pod.node) for pod in known.pods] == [("job-worker-1", "n")]
    book.end(TRAINING_JOBS, job)
    assert book.node().taken == {"cpu": 3000, "pods": 2}


def test_pods_of_jobs_without_a_queue_wait_as_those_of_others() -> None:
    book = Book()
    book.tell(PODS, own(make_service("job-worker-1")), "team")
    assert book.surveyor.survey().cluster.pending == (), "it may be one that an ended job has left"
    book.tell(TRAINING_JOBS, make_stored(conditions=[]), "team")
    assert [pod.uid for pod in book.surveyor.survey().cluster.pending] == ["job-worker-1"]
    book.tell(TRAINING_JOBS, make_stored(), "team")
    survey = book.surveyor.survey()
    assert survey.cluster.pending == ()
    assert [pod.name for pod in survey.jobs[0].pods] == ["job-worker-1"]


@pytest.mark.parametrize("end", ["gone", "ended", "deleting"])
def test_nobody_gives_for_what_a_job_leaves_behind(end: str) -> None:
    book = Book()
    book.tell(PODS, own(make_service("job-worker-1")), "team")
    job = book.tell(TRAINING_JOBS, make_stored(conditions=[]), "team")
    assert len(book.surveyor.survey().cluster.pending) == 1
    if end == "gone":
        book.end(TRAINING_JOBS, job)
    elif end == "ended":
        ended = [{"type": "Succeeded", "status": "True"}]
        book.tell(TRAINING_JOBS, make_stored(conditions=ended), "team")
    else:
        going = make_stored(conditions=[])
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        book.tell(TRAINING_JOBS, going, "team")
    assert book.surveyor.survey().cluster.pending == ()


def test_a_priority_that_is_not_said_is_that_of_the_class() -> None:
    book = Book()
    job = make_stored()
    template = job["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]

    def find() -> int:
        book.tell(TRAINING_JOBS, job, "team")
        return book.surveyor.survey().jobs[0].priority

    assert find() == 0
    book.tell(PRIORITY_CLASSES, {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True})
    book.tell(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 900})
    assert find() == 5
    template["priorityClassName"] = "high"
    assert find() == 900
    assert not book.surveyor.survey().jobs[0].preempts  # nobody has said that it may have that
    template["priorityClassName"] = "none"
    assert find() == 0
    job["status"]["shapes"]["pods"][1]["priority"] = 7
    assert find() == 7
    assert book.surveyor.survey().jobs[0].preempts


def make_class(name: str, value: int, **more: Any) -> Document:
    return {"metadata": {"name": name}, "value": value, **more}


def wait_as(asked: str, proven: str, **told: Any) -> tuple[Book, Document]:
    """A job of two workers that waits beside one of priority 500 that has all of its node.

    What the server would make has the class `proven`, with a priority of 1000.
    """
    book = Book()
    book.tell(NODES, make_node("n", 2))
    runs, waits = make_stored(), make_stored()
    start(runs)
    runs["metadata"] |= {"name": "runs", "uid": "runs"}
    runs["status"]["admission"] |= {"queue": "main", "boundAt": "2000-01-01T00:00:00Z"}
    runs["status"]["admission"] |= {"workers": 2, "elasticity": "Fixed"}
    book.tell(TRAINING_JOBS, runs, "team")
    for number in range(2):
        pod = on(own(make_service(f"runs-worker-{number}"), "runs", uid="runs"))
        pod["metadata"]["labels"][LABEL_JOB] = "runs"
        pod["spec"]["priority"] = 500
        book.tell(PODS, pod, "team")
    if asked:
        template = waits["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]
        template["priorityClassName"] = asked
    proof = {"priority": 1000, "preemptionPolicy": "PreemptLowerPriority"}
    proof |= {"priorityClassName": proven} | told
    for pod in waits["status"]["shapes"]["pods"]:
        pod.update(proof)
    gone = {"number": 0, "state": "Waiting", "queue": "main", "queuedAt": "2000-01-01T00:00:00Z"}
    gone |= {"reason": "NoRoom", "since": gone["queuedAt"], "unfitSince": gone["queuedAt"]}
    waits["status"]["admission"] = gone
    book.tell(TRAINING_JOBS, waits, "team")
    return book, waits


def find_right(book: Book) -> tuple[int, bool]:
    """Of who waits: its priority, and whether others may go for it."""
    [found] = [job for job in book.surveyor.survey().jobs if job.uid == "u"]
    return found.priority, found.preempts


def list_evicted(book: Book) -> set[str]:
    survey = book.surveyor.survey()
    decision = decide(survey.cluster, (Queue("main"),), survey.jobs, 10**12)
    states = {change.uid: change.admission.state for change in decision.changes}
    return {uid for uid, state in states.items() if state is AdmissionState.WAITING} - {"u"}


def test_who_waits_has_no_right_by_what_its_class_was_when_its_pods_were_tried() -> None:
    """Jobs that run would go for it, and its pods for them."""
    book, _ = wait_as("urgent", "urgent")
    was = book.tell(PRIORITY_CLASSES, make_class("urgent", 1000))
    assert find_right(book) == (1000, True)
    assert list_evicted(book) == {"runs"}
    book.end(PRIORITY_CLASSES, was)
    assert find_right(book) == (0, False), "its pods would be refused"
    assert list_evicted(book) == set()
    now = book.tell(PRIORITY_CLASSES, make_class("urgent", 100))
    assert find_right(book) == (100, True)
    assert list_evicted(book) == set()
    book.end(PRIORITY_CLASSES, now)
    never = {"preemptionPolicy": "Never"}
    now = book.tell(PRIORITY_CLASSES, make_class("urgent", 2000, **never))
    assert find_right(book) == (2000, False)
    book.end(PRIORITY_CLASSES, now)
    book.tell(PRIORITY_CLASSES, make_class("urgent", 2000))
    assert find_right(book) == (2000, True), "raised, for who waits too"


def test_what_webhooks_have_its_pods_name_counts_before_what_its_template_does() -> None:
    book, _ = wait_as("urgent", "low")
    book.tell(PRIORITY_CLASSES, make_class("urgent", 1000))
    low = book.tell(PRIORITY_CLASSES, make_class("low", 5))
    assert find_right(book) == (5, True)
    book.end(PRIORITY_CLASSES, low)
    assert find_right(book) == (0, False)


@pytest.mark.parametrize("proven", ["", "usual"])
def test_who_names_no_class_has_that_of_all_such_pods(proven: str) -> None:
    book, _ = wait_as("", proven)
    usual = make_class("usual", 3, globalDefault=True)
    told = book.tell(PRIORITY_CLASSES, usual)
    assert find_right(book) == (3, True)
    book.end(PRIORITY_CLASSES, told)
    assert find_right(book) == (0, True)
    book.tell(PRIORITY_CLASSES, make_class("other", 8, globalDefault=True))
    assert find_right(book) == (8, True)


def test_a_right_of_which_only_the_number_was_told_is_that_number() -> None:
    """By an operator of a former version, which does not try its pods again."""
    book, _ = wait_as("urgent", "urgent", priorityClassName=None)
    assert find_right(book) == (1000, True)
    book.tell(PRIORITY_CLASSES, make_class("urgent", 100))
    assert find_right(book) == (1000, True)


def start(job: Document) -> None:
    """It is admitted, and has started by that."""
    job["status"] |= {"conditions": [], "admittedNumber": 1}
    job["status"]["admission"] = {"number": 1, "state": "Admitted", "workers": 1}


def test_the_priority_of_what_runs_is_the_lowest_that_its_workers_were_admitted_with() -> None:
    book = Book()
    book.tell(PRIORITY_CLASSES, {"metadata": {"name": "top"}, "value": 10**9})
    job = make_stored()
    template = job["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]
    template["priorityClassName"] = "top"
    start(job)
    book.tell(TRAINING_JOBS, job, "team")
    for name, priority in [("job-launcher", 3), ("job-worker-1", 10**9), ("job-worker-2", 5)]:
        pod = on(own(make_service(name)))
        pod["spec"]["priority"] = priority
        book.tell(PODS, pod, "team")
    assert book.surveyor.survey().jobs[0].priority == 5


def test_a_worker_that_stays_says_nothing_of_the_pods_that_its_job_waits_for() -> None:
    """On a lost node, say: nobody gives for what its last life had, and was not tried anew."""
    book = Book()
    book.tell(PRIORITY_CLASSES, {"metadata": {"name": "low"}, "value": 5})
    job = make_stored()
    job["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]["priorityClassName"] = "low"
    stuck = on(own(make_service("job-worker-1")))
    stuck["spec"]["priority"] = 900

    def find() -> tuple[int, bool]:
        book.tell(TRAINING_JOBS, job, "team")
        book.tell(PODS, stuck, "team")
        [found] = book.surveyor.survey().jobs
        assert found.pods, "its room is taken all the same"
        return found.priority, found.preempts

    start(job)
    assert find() == (900, True)
    job["status"]["conditions"] = make_stored()["status"]["conditions"]
    assert find() == (5, False)
    job["status"]["shapes"]["pods"][1] |= {"priority": 7}
    assert find() == (7, True)


def test_since_when_pods_are_tried_is_since_when_their_job_is_held() -> None:
    book = Book()
    job = make_stored()
    [held] = job["status"]["conditions"]
    held["lastTransitionTime"] = "1970-01-01T00:00:07Z"

    def find() -> int | None:
        book.tell(TRAINING_JOBS, job, "team")
        return book.surveyor.survey().jobs[0].tried_since

    assert find() == 7000
    for pod in job["status"]["shapes"]["pods"]:
        pod["priority"] = 0
    assert find() is None


def test_whether_somebody_preempts_is_what_his_pods_were_or_would_be_admitted_with() -> None:
    book = Book()
    job = make_stored()
    job["status"]["shapes"]["pods"][1] |= {"priority": 9, "preemptionPolicy": "Never"}
    book.tell(TRAINING_JOBS, job, "team")
    known = book.surveyor.survey().jobs[0]
    assert (known.priority, known.preempts) == (9, False)
    start(job)
    book.tell(TRAINING_JOBS, job, "team")
    book.tell(PODS, on(own(make_service("job-worker-1"))), "team")
    assert book.surveyor.survey().jobs[0].preempts
    pod = make_service("web")
    pod["spec"]["preemptionPolicy"] = "Never"
    book.tell(PODS, pod, "web")
    assert [one.preempts for one in book.surveyor.survey().cluster.pending] == [False]


def test_an_owner_in_another_namespace_hides_no_pod() -> None:
    book = Book()
    book.tell(NODES, make_node("n"))
    book.tell(TRAINING_JOBS, make_stored(), "team")
    book.tell(PODS, on(own(make_service("job-worker-1", 4))), "elsewhere")
    assert book.node().taken["cpu"] == 4000
    [known] = book.surveyor.survey().jobs
    assert known.pods == ()


def test_a_pod_of_an_older_template_has_a_shape_of_its_own() -> None:
    book = Book()
    book.tell(TRAINING_JOBS, make_stored(), "team")
    book.tell(PODS, on(own(make_service("job-worker-1", 1))), "team")
    book.tell(PODS, on(own(make_service("job-worker-2", 3))), "team")
    [known] = book.surveyor.survey().jobs
    shapes = [pod.shape.requests if pod.shape else None for pod in known.pods]
    assert shapes == [None, (("cpu", 3000),)]


def test_ports_of_a_jobs_pods_come_with_it() -> None:
    book = Book()
    book.tell(NODES, make_node("n"))
    book.tell(TRAINING_JOBS, make_stored(), "team")
    worker = on(own(make_service("job-worker-1")))
    worker["spec"]["containers"][0]["ports"] = [{"hostPort": 80}]
    book.tell(PODS, worker, "team")
    survey = book.surveyor.survey()
    assert book.node().ports == ()
    [pod] = survey.jobs[0].pods
    assert pod.shape is not None
    assert pod.shape.host_ports == {"TCP/80"}
    asks = replace(survey.jobs[0].worker, host_ports=frozenset({"TCP/80"}))
    job = replace(survey.jobs[0], uid="new", worker=asks, launcher=Shape(), pods=(), minimum=1)
    waits = replace(job, replicas=1, is_waiting=True, admission=None)
    decision = decide(survey.cluster, (Queue("main"),), [*survey.jobs, waits], 10**12)
    assert decision.explanations["new"].reason is Reason.ROOM_COMES, "it is not too large"


def test_workers_that_keep_apart_are_planned_one_to_a_node() -> None:
    book = Book()
    for name in "mn":
        book.tell(NODES, make_node(name))
    book.tell(TRAINING_JOBS, make_stored(), "team")
    worker = on(own(make_service("job-worker-1")))
    worker["metadata"]["namespace"] = "team"
    worker["spec"]["affinity"] = keep_apart(worker["metadata"]["labels"])
    book.tell(PODS, worker, "team")
    survey = book.surveyor.survey()
    [pod] = survey.jobs[0].pods
    asks = decode_shape(describe_shape(worker))
    assert pod.shape is not None
    assert pod.shape.host_ports == asks.host_ports != set()
    job = replace(survey.jobs[0], uid="new", worker=asks, launcher=Shape(), pods=())
    waits = replace(job, minimum=3, maximum=3, replicas=3, is_waiting=True, admission=None)
    decision = decide(survey.cluster, (Queue("main"),), [waits], 10**12)
    assert decision.explanations["new"].reason is Reason.TOO_LARGE, "three workers, two nodes"


def keep_apart(labels: dict[str, str]) -> dict[str, Any]:
    wanted = {name: labels[name] for name in (LABEL_JOB, LABEL_ROLE)}
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": wanted}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_who_cannot_be_read_and_runs_counts_by_its_pods() -> None:
    book = Book()
    book.tell(NODES, make_node("n"))
    book.tell(PODS, on(own(make_service("job-worker-1", 3))), "team")
    book.tell(PODS, on(own(make_service("job-worker-2", 3))), "team")
    book.tell(PODS, on(own(make_service("job-launcher", 1))), "team")
    told = {"number": 1, "state": "Admitted", "queue": "main", "workers": 2}
    told["boundAt"] = "2001-01-01T00:00:00Z"
    odd = make_stored(conditions=[], admission=told, admittedNumber=1, shapes={"pods": "x"})
    book.tell(TRAINING_JOBS, odd, "team")
    survey = book.surveyor.survey()
    waiting = replace(survey.jobs[0], uid="w", worker=make_shape({"cpu": 1000}), launcher=Shape())
    waiting = replace(waiting, name="w", admission=None, pods=(), is_waiting=True)
    queues = (Queue("main", limits={"cpu": 7000}),)
    decision = decide(survey.cluster, queues, [*survey.jobs, waiting], 10**12)
    assert decision.queues[0].allocated == {"cpu": 7000}
    assert decision.explanations["w"].reason is Reason.AT_LIMIT
    assert {change.uid for change in decision.changes} == {"w"}


def test_ports_that_anybody_has_are_taken() -> None:
    book = Book()
    book.tell(NODES, make_node("n"))
    pod = on(make_service("web"))
    pod["spec"]["containers"][0]["ports"] = [{"hostPort": 80}]
    book.tell(PODS, pod, "web")
    assert book.node().ports == (frozenset({"TCP/80"}),)


def test_ports_that_are_the_same_on_each_node_are_held_once() -> None:
    """A DaemonSet with 256 ports on 1,000 nodes; anybody else there may have others beside it."""
    book = Book()
    for name in ("a", "b"):
        book.tell(NODES, make_node(name))
        for first in (1, 300 if name == "a" else 600):
            pod = on(make_service(f"agent-{name}-{first}"), name)
            ports = [{"hostPort": port} for port in range(first, first + 256)]
            pod["spec"]["containers"][0]["ports"] = ports
            book.tell(PODS, pod, "web")
    one, other = (node.ports for node in book.surveyor.survey().cluster.nodes)
    assert list(map(len, one)) == list(map(len, other)) == [256, 256]
    assert sum(map(len, {id(ports): ports for ports in one + other}.values())) == 3 * 256


def test_an_object_that_cannot_be_read_is_as_it_was() -> None:
    book = Book()
    book.tell(NODES, make_node("n"))
    odd = {**make_node("n"), "spec": {"taints": "x"}}
    book.tell(NODES, odd)
    assert len(book.unread) == 1
    assert book.node().allocatable["cpu"] == 8000


def test_lists_take_away_what_is_gone_and_answers_are_not_undone_by_older_ones() -> None:
    book = Book()
    told = book.tell(NODES, make_node("n"))
    book.tell(NODES, make_node("m"))
    older = {**told, "metadata": {**told["metadata"], "resourceVersion": "0"}}
    book.ingest.take(Upserted(NODES, {**older, "status": {}}))
    assert book.node().has_room
    entry = book.ingest.read(NODES, told)
    book.ingest.take(Synced(NODES, None, (entry,), "10", 0.0))
    assert [node.name for node in book.surveyor.survey().cluster.nodes] == ["n"]


def test_until_every_kind_was_listed_nothing_is_current() -> None:
    store = Store()
    for resource in store.tables:
        assert not store.is_current
        store.note_current(resource)
    assert store.is_current


@pytest.mark.long
def test_a_flood_of_pods_takes_little_memory_each() -> None:
    book = Book()
    for number in range(40):
        book.tell(NODES, make_node(f"node-{number}"))
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    flood = 3000
    entries = []
    for number in range(flood):
        pod = on(make_service(f"some-deployment-7d4f9c-{number:05}"), f"node-{number % 40}")
        uid = f"7b1c9a52-0000-4000-8000-{number:012}"
        metadata = pod["metadata"] | {"uid": uid, "namespace": "web", "labels": {"a": "b" * 50}}
        metadata["resourceVersion"] = str(number + 1000)
        entries.append(book.ingest.read(PODS, {**pod, "metadata": metadata}))
    book.ingest.take(Synced(PODS, None, tuple(entries), "9000", 0.0))
    entries.clear()
    book.surveyor.survey()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (after - before) / flood < 1500  # 150 MB with a hundred thousand


def invent(count: int) -> dict[str, str]:
    return {f"invented.io/{number}": "1" for number in range(count)}


def test_of_a_bound_pod_what_its_node_offers_is_kept() -> None:
    """Anybody may bind a pod, to any name, and say that it takes 19,000 resources."""
    book = Book()
    node = make_node("n")
    node["status"]["allocatable"]["gpu.io/x"] = "4"
    book.tell(NODES, node)
    pod = on(make_service("web"))
    few = {"cpu": "1", "gpu.io/x": "3", **invent(20)}
    for number, requests in enumerate((few, few | invent(2000))):
        pod["spec"]["containers"][0]["resources"] = {"requests": requests}
        ports = [{"hostPort": port} for port in range(1, 2000)]
        pod["spec"]["containers"][0]["ports"] = ports if number else []
        book.tell(PODS, pod, "web")
        assert book.node().taken["cpu"] == 1000
        assert book.node().taken["gpu.io/x"] == 3
        assert len(book.node().taken) <= 64
        assert sum(map(len, book.node().ports)) <= 256
    nowhere = on(make_service("lost"), "nowhere")
    nowhere["spec"]["containers"][0]["resources"] = {"requests": few | invent(2000)}
    book.tell(PODS, nowhere, "web")
    found = book.store.pods.find(("web", "lost"))
    assert found is not None
    assert found.shape.requests == (("cpu", 1000),)


@pytest.mark.long
def test_nothing_is_kept_of_what_is_gone() -> None:
    """One pod, or one job, after the other, each as large as it may be."""
    book = Book()
    book.tell(NODES, make_node("n"))
    job = make_stored(admission=None)
    job["status"]["shapes"]["pods"][1]["requests"] = {"cpu": 10**6}
    told = [
        (PODS, book.tell(PODS, on(make_service("a", 3), "nowhere"), "web")),
        (PODS, book.tell(PODS, make_service("b", 5), "web")),
        (TRAINING_JOBS, book.tell(TRAINING_JOBS, job, "team")),
    ]
    survey = book.surveyor.survey()
    shapes = [ref(survey.jobs[0].worker), *(ref(entry.value.shape) for entry in book.store.pods)]
    decision = decide(survey.cluster, (Queue("main"),), survey.jobs, 10**12)
    assert "1000 CPU" in decision.explanations[survey.jobs[0].uid].message
    for resource, obj in told:
        book.end(resource, obj)
    survey = book.surveyor.survey()
    gc.collect()
    assert [shape() for shape in shapes] == [None] * 3
