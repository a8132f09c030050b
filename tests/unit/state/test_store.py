import json
import pickle
import tracemalloc
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest

from et_contract.documents import HostConfig, Member, MemberState, encode_config
from et_kube.notices import LEAVING_AT
from et_kube.resources import (
    CONFIG_MAPS,
    NODES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SCALE_INS,
    SCALE_OUTS,
    SERVICE_ACCOUNTS,
    TRAINING_JOBS,
    Ref,
    Resource,
)
from et_operator.codec.encoding import encode_rules
from et_operator.codec.runtimes import hash_files
from et_operator.model.avoiding import MOST_TEXTS
from et_operator.model.keys import JobKey
from et_operator.model.names import (
    ANNOTATION_AVOIDS,
    ANNOTATION_SCRIPTS,
    LABELS_OURS,
    build_labels,
    build_seal,
)
from et_operator.model.names import Role as PodRole
from et_operator.model.rights import Rights
from et_operator.model.snapshots import RuntimeFiles
from et_operator.model.statuses import Runtime
from et_operator.planning.answering import find_expiry
from et_operator.planning.manifests.runtimes import build_runtime
from et_operator.state.ingesting import Ingest
from et_operator.state.store import MOST_DOCUMENTS, MOST_OF_STRANGERS, Store
from et_operator.state.views import MOST_PODS, build_snapshot
from tests.counting import count_steps, find_peak

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = JobKey("team", "train")
OWNER = {
    "apiVersion": TRAINING_JOBS.api_version,
    "kind": "TrainingJob",
    "name": "train",
    "controller": True,
}
SHIPPED = RuntimeFiles(Runtime("abc", "image"), {})


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def ingest(store: Store) -> Ingest:
    return Ingest(store)


def make_meta(
    name: str, uid: str, version: int, owner: str | None = None, **more: Any
) -> dict[str, Any]:
    owners = [{**OWNER, "uid": owner}]
    ours = {"labels": dict(LABELS_OURS), "ownerReferences": owners}
    return {
        "name": name,
        "namespace": "team",
        "uid": uid,
        "resourceVersion": str(version),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "generation": 1,
        **(ours if owner else {}),
        **more,
    }


def make_job(uid: str = "job-1", version: int = 10) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "main", "image": "i", "command": ["true"]}]}}
    replicas = {"launcher": {"template": template}, "worker": {"template": template}}
    return {"metadata": make_meta("train", uid, version), "spec": {"etReplicaSpecs": replicas}}


def make_pod(name: str, uid: str, version: int, *, owner: str, node: str = "n1") -> dict[str, Any]:
    labels = {**build_labels("train", PodRole.WORKER), "replica-index": "0"}
    return {
        "metadata": make_meta(name, uid, version, owner, labels=labels),
        "spec": {"nodeName": node, "containers": [{"name": "main"}]},
        "status": {"phase": "Running"},
    }


def make_scaling(name: str, version: int, job: str = "train") -> dict[str, Any]:
    spec = {"selector": {"name": job}, "toAdd": {"count": 1}, "toDelete": {"count": 1}}
    return {"metadata": make_meta(name, f"uid-{name}", version), "spec": spec}


def test_an_event_names_the_job_to_look_at(ingest: Ingest) -> None:
    assert ingest.upsert(TRAINING_JOBS, make_job()) == {KEY}
    assert ingest.upsert(PODS, make_pod("w0", "p1", 11, owner="job-1")) == {KEY}
    assert ingest.upsert(SCALE_OUTS, make_scaling("grow", 12)) == {KEY}
    assert ingest.upsert(SCALE_OUTS, make_scaling("grow", 12)) == set()


@pytest.mark.parametrize("role", [None, "chief"])
def test_what_is_for_us_no_more_goes_with_its_event_as_with_a_list(
    store: Store, ingest: Ingest, role: str | None
) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())

    def see(version: int, role: str | None, name: str = "w0") -> set[JobKey]:
        pod = make_pod(name, name, version, owner="job-1")
        pod["metadata"]["labels"]["training-job-role"] = role
        return ingest.upsert(PODS, pod)

    def is_there() -> bool:
        return store.find(Ref(PODS, "team", "w0")) is not None

    assert see(11, role) == set(), "it never was"
    assert see(11, "worker") == {KEY}
    assert see(10, role) == set()
    assert see(11, role) == set()
    assert is_there()
    assert see(12, role) == {KEY}
    assert not is_there()
    assert see(11, "worker") == set()
    assert not is_there()
    assert see(13, "worker") == {KEY}
    assert is_there()
    see(14, "worker", "train-worker-0")
    see(15, role, "train-worker-0")
    assert store.find(Ref(PODS, "team", "train-worker-0")) is not None, "it is called as a worker"


def test_a_pod_of_a_job_that_is_gone_names_nobody(ingest: Ingest) -> None:
    assert ingest.upsert(PODS, make_pod("w0", "p1", 11, owner="job-0")) == set()


def test_a_node_names_the_jobs_that_have_pods_on_it(ingest: Ingest) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())
    ingest.upsert(PODS, make_pod("w0", "p1", 11, owner="job-1", node="n1"))
    node = {"metadata": {"name": "n1", "uid": "n", "resourceVersion": "12"}}

    assert ingest.upsert(NODES, node) == {KEY}


def test_the_nodes_that_the_jobs_own_unplaced_pods_keep_off_are_seen_and_no_others(
    store: Store, ingest: Ingest
) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())
    for name in ("n1", "n2", "n3", "n4"):
        ingest.upsert(NODES, {"metadata": {"name": name, "uid": name, "resourceVersion": "12"}})
    for name, node, avoids in (
        ("train-worker-0", "", "n1,N2,?"),
        ("train-worker-1", "n4", "n2"),
        ("else", "", "n3"),
    ):
        pod = make_pod(name, name, 11, owner="job-1", node=node)
        pod["metadata"]["annotations"] = {ANNOTATION_AVOIDS: avoids}
        ingest.upsert(PODS, pod)
    snapshot = build_snapshot(store, KEY, SHIPPED, NOW)
    assert snapshot is not None
    assert set(snapshot.nodes) == {"n1", "n4"}


@pytest.mark.long
def test_a_pass_looks_for_no_more_nodes_however_many_pods_each_keep_off_others(
    store: Store, ingest: Ingest
) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())
    pods = iter(range(2 * MOST_TEXTS))

    def look() -> tuple[int, int]:
        """Steps and bytes of a snapshot after so many more have come."""
        for number in islice(pods, MOST_TEXTS):
            name = f"train-worker-{number}"
            pod = make_pod(name, name, 11, owner="job-1", node="")
            avoids = ",".join(f"n{number}-{other:030}" for other in range(200))
            pod["metadata"]["annotations"] = {ANNOTATION_AVOIDS: avoids}
            ingest.upsert(PODS, pod)
        steps = count_steps(lambda: build_snapshot(store, KEY, SHIPPED, NOW))
        return steps, find_peak(lambda: build_snapshot(store, KEY, SHIPPED, NOW))

    (steps, memory), (more_steps, more_memory) = look(), look()
    assert more_steps < 1.1 * steps
    assert more_memory < 1.1 * memory


def make_said(name: str, version: int = 12, **spec: Any) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": f"host-{name}"}
    metadata = {"name": name, "uid": name, "resourceVersion": str(version), "labels": labels}
    return {"metadata": metadata, "spec": {"unschedulable": True, **spec}}


def test_whether_some_node_is_said_to_stay_is_seen(store: Store, ingest: Ingest) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())

    def look() -> bool:
        snapshot = build_snapshot(store, KEY, SHIPPED, NOW)
        assert snapshot is not None
        return snapshot.has_quiet_nodes

    assert look(), "of nodes that are not known nothing is said"
    ingest.upsert(NODES, make_said("n1"))
    assert not look()
    ingest.upsert(NODES, make_said("n2", unschedulable=False))
    assert look()
    taints = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
    ingest.upsert(NODES, make_said("n2", 13, unschedulable=False, taints=taints))
    assert not look()


def test_a_pass_costs_the_same_however_many_nodes_are_said_to_end(
    store: Store, ingest: Ingest
) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())

    def look() -> int:
        build_snapshot(store, KEY, SHIPPED, NOW)  # the first one after a node has changed
        return count_steps(lambda: build_snapshot(store, KEY, SHIPPED, NOW))

    ingest.upsert(NODES, make_said("n"))
    steps = look()
    for number in range(100):
        ingest.upsert(NODES, make_said(f"n{number}"))
    assert look() == steps


def test_a_pass_costs_the_same_however_many_runtimes_its_namespace_has(
    store: Store, ingest: Ingest
) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())

    def add(content: str) -> str:
        files = {"boot.py": content}
        shipped = RuntimeFiles(Runtime(hash_files(files), "image"), files)
        body = build_runtime("team", shipped)
        name = str(body["metadata"]["name"])
        ingest.upsert(CONFIG_MAPS, body | {"metadata": body["metadata"] | make_meta(name, name, 1)})
        return name

    def look() -> tuple[set[str], int]:
        snapshot = build_snapshot(store, KEY, SHIPPED, NOW)  # the first one after one has come
        assert snapshot is not None
        steps = count_steps(lambda: build_snapshot(store, KEY, SHIPPED, NOW))
        return set(snapshot.runtimes), steps

    first = add("")
    found, steps = look()
    assert found == {first}
    more = {add(str(number)) for number in range(300)}
    assert look() == ({first, *more}, steps)


def test_what_is_said_of_nodes_is_seen_as_it_is_by_then(store: Store, ingest: Ingest) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())

    def look() -> tuple[set[str], set[str], dict[str, str]]:
        snapshot = build_snapshot(store, KEY, SHIPPED, NOW)
        assert snapshot is not None
        return set(snapshot.firm_nodes), set(snapshot.soft_nodes), dict(snapshot.hostnames)

    ingest.upsert(NODES, make_said("n1"))
    assert look() == (set(), {"n1"}, {"n1": "host-n1"})
    taints = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
    ingest.upsert(NODES, make_said("n1", 13, taints=taints))
    ingest.upsert(NODES, make_said("n2", 14))
    assert look() == ({"n1"}, {"n2"}, {"n1": "host-n1", "n2": "host-n2"})
    ingest.upsert(NODES, make_said("n2", 15, unschedulable=False))
    ingest.delete(NODES, make_said("n1", 16))
    assert look() == (set(), set(), {})


def test_until_when_nodes_last_at_most_is_seen_where_all_that_is_said_has_a_moment(
    store: Store, ingest: Ingest
) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())
    for number, is_cordoned in enumerate((True, False)):
        node = make_said(f"n{number}", unschedulable=is_cordoned)
        node["metadata"]["annotations"] = {LEAVING_AT: "2026-01-01T00:00:00Z"}
        ingest.upsert(NODES, node)
    snapshot = build_snapshot(store, KEY, SHIPPED, NOW)
    assert snapshot is not None
    assert dict(snapshot.said_ends) == {"n1": datetime(2026, 1, 1, tzinfo=UTC)}


def test_a_node_looks_at_no_pod_of_another_one(ingest: Ingest) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())
    for number in range(200):
        pod = make_pod(f"w{number}", f"p{number}", 11, owner="job-1", node=f"n{number % 100}")
        ingest.upsert(PODS, pod)

    def see(version: int, ready: str) -> int:
        conditions = [{"type": "Ready", "status": ready}]
        node: dict[str, Any] = {"metadata": {"name": "n1", "uid": "n"}}
        node["metadata"]["resourceVersion"] = str(version)
        node["status"] = {"conditions": conditions}
        return count_steps(lambda: ingest.upsert(NODES, node))

    see(12, "True")
    steps = see(13, "False")
    for number in range(200, 2000):
        pod = make_pod(f"w{number}", f"p{number}", 11, owner="job-1", node=f"m{number}")
        ingest.upsert(PODS, pod)

    see(14, "True")
    assert see(15, "False") == steps


def test_an_event_in_which_nothing_changed_that_is_read_wakes_nobody(ingest: Ingest) -> None:
    job, pod = make_job(), make_pod("w0", "p1", 11, owner="job-1")
    node: dict[str, Any] = {"metadata": {"name": "n1", "uid": "n", "resourceVersion": "12"}}
    config = {"metadata": make_meta("train-config", "c", 11, "job-1")}
    scaling = make_scaling("grow", 12)
    seen = (
        (TRAINING_JOBS, job),
        (PODS, pod),
        (NODES, node),
        (CONFIG_MAPS, config),
        (SCALE_OUTS, scaling),
    )
    for resource, obj in seen:
        assert ingest.upsert(resource, obj) == {KEY}
    for resource, obj in seen:
        obj["metadata"] |= {"resourceVersion": "20", "annotations": {"cni": "x"}}
        obj["metadata"] |= {"labels": {**obj["metadata"].get("labels", {}), "team": "a"}}
        assert ingest.upsert(resource, obj) == set(), resource.kind


def test_a_list_may_have_been_read_before(store: Store, ingest: Ingest) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())
    ours, other = make_pod("w0", "p1", 11, owner="job-1"), make_pod("x", "p2", 12, owner="job-1")
    other["metadata"]["labels"] = {}
    items = [ingest.read(PODS, ours), ingest.read(PODS, other)]

    assert ingest.sync(PODS, None, items, version="12", at=0.0) == {KEY}

    assert [entry.place for entry in store.pods] == [("team", "w0")]


def test_an_answer_may_have_been_read_before(store: Store, ingest: Ingest) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())
    pod = make_pod("w0", "p1", 11, owner="job-1")
    others = make_pod("w0", "p1", 12, owner="job-1")
    others["metadata"]["labels"] = {}
    broken = {**make_pod("w0", "p1", 13, owner="job-1"), "status": "text"}

    entries = [ingest.read(PODS, obj) for obj in (broken, pod, others)]

    assert ingest.upsert(PODS, entries[1]) == {KEY}
    assert ingest.upsert(PODS, entries[0]) == set()
    assert [entry.version for entry in store.pods] == [11]
    assert ingest.upsert(PODS, entries[2]) == {KEY}
    assert not list(store.pods)


@pytest.mark.parametrize("is_list", [True, False])
def test_of_what_was_read_before_its_job_went_no_documents_are_kept(
    store: Store, ingest: Ingest, *, is_list: bool
) -> None:
    job = make_job()
    ingest.upsert(TRAINING_JOBS, job)
    data = {"config.json": "x" * (MOST_OF_STRANGERS + 1)}
    document = {"metadata": make_meta("train-config", "c", 11, "job-1"), "data": data}
    entry = ingest.read(CONFIG_MAPS, document)
    assert entry.value.documents == data

    ingest.delete(TRAINING_JOBS, job)
    if is_list:
        ingest.sync(CONFIG_MAPS, None, [entry], version="20", at=0.0)
    else:
        ingest.upsert(CONFIG_MAPS, entry)

    [kept] = store.config_maps
    assert (kept.value.documents, kept.value.is_partial) == ({}, True)


def test_what_wakes_nobody_is_known_nevertheless(store: Store, ingest: Ingest) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())
    ingest.upsert(PODS, make_pod("w0", "p1", 11, owner="job-1"))
    ingest.upsert(PODS, make_pod("w0", "p1", 15, owner="job-1"))

    snapshot = build_snapshot(store, KEY, SHIPPED, NOW)

    assert snapshot is not None
    assert snapshot.pods[0].resource_version == "15"


def test_a_snapshot_holds_only_pods_of_this_very_job(store: Store, ingest: Ingest) -> None:
    ingest.upsert(TRAINING_JOBS, make_job("job-2"))
    ingest.upsert(PODS, make_pod("w0", "p1", 11, owner="job-1"))
    ingest.upsert(PODS, make_pod("w1", "p2", 12, owner="job-2"))

    snapshot = build_snapshot(store, KEY, SHIPPED, NOW)

    assert snapshot is not None
    assert [pod.name for pod in snapshot.pods] == ["w1"]


def test_a_pod_of_another_namespace_is_no_jobs_pod_and_wakes_nobody(
    store: Store, ingest: Ingest
) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())
    pod = make_pod("train-launcher", "p1", 11, owner="job-1")
    pod["metadata"]["namespace"] = "evil"
    config = {"metadata": {**make_meta("train-config", "c", 12, "job-1"), "namespace": "evil"}}

    assert ingest.upsert(PODS, pod) == set()
    assert ingest.upsert(CONFIG_MAPS, config) == set()

    snapshot = build_snapshot(store, KEY, SHIPPED, NOW)
    assert snapshot is not None
    assert snapshot.pods == ()
    node = {"metadata": {"name": "n1", "uid": "n", "resourceVersion": "13"}}
    assert ingest.upsert(NODES, node) == set()


LARGE = 500_000
OWNED = {**OWNER, "uid": "mine"}


@pytest.mark.parametrize(
    ("resource", "content"),
    [
        (CONFIG_MAPS, {"data": {"config.json": "x" * LARGE, "report-1": "x" * LARGE}}),
        (
            ROLE_BINDINGS,
            {
                "roleRef": {"kind": "Role", "name": "many"},
                "subjects": [{"kind": "ServiceAccount", "name": f"a{n}"} for n in range(20_000)],
            },
        ),
        (CONFIG_MAPS, {"owners": [{**OWNED, "uid": "x" * LARGE}]}),
        (PODS, {"owners": [{**OWNED, "uid": "x" * LARGE}], "spec": {"containers": []}}),
        (
            SCALE_OUTS,
            {"owners": [{**OWNED, "uid": str(n), "controller": False} for n in range(9999)]},
        ),
        (SCALE_OUTS, {"owners": [{**OWNED, "name": "x" * LARGE}]}),
        (TRAINING_JOBS, {"annotations": {ANNOTATION_SCRIPTS: "x" * LARGE}}),
    ],
    ids=["documents", "subjects", "uid", "pod's uid", "owners", "owner's name", "annotation"],
)
def test_what_anybody_can_write_a_megabyte_of_is_not_kept(
    ingest: Ingest, resource: Resource, content: dict[str, Any]
) -> None:
    labels = build_labels("train", PodRole.WORKER)
    owners = content.pop("owners", [OWNED])
    annotations = content.pop("annotations", {})
    meta = make_meta("many", "m", 11, labels=labels, annotations=annotations)
    entry = ingest.read(resource, {"metadata": {**meta, "ownerReferences": owners}, **content})
    assert len(pickle.dumps(entry.value)) < LARGE / 20


def make_role(number: int, beginning: str) -> dict[str, Any]:
    """One of four thousand names, of a job that never was, and with its seal."""
    names = [build_seal("mine"), *(f"{beginning}{number}-{n}" for n in range(4096))]
    rules = encode_rules(Rights(build_seal("mine")))
    rules[0]["resourceNames"] = names
    return {"metadata": make_meta(f"r{number}", f"r{number}", 11, "mine"), "rules": rules}


@pytest.mark.long
@pytest.mark.parametrize("beginning", ["", "\U0001f600", "\U0001f600" * 32])
def test_a_role_takes_no_more_than_its_own_size(
    store: Store, ingest: Ingest, beginning: str
) -> None:
    """Anybody who administers a namespace can make any number of them."""
    size = len(json.dumps(make_role(0, beginning), ensure_ascii=False).encode())
    ingest.upsert(ROLES, make_role(0, beginning))
    tracemalloc.start()
    for number in range(1, 6):
        ingest.upsert(ROLES, make_role(number, beginning))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(store.tables[ROLES]) == 6
    assert taken / 5 < size
    assert all(len(entry.value.names) == 4096 for entry in store.tables[ROLES])


@pytest.mark.parametrize("kind", ["config", "report"])
@pytest.mark.parametrize("is_known", [True, False])
def test_of_documents_without_number_none_is_kept(
    store: Store, ingest: Ingest, kind: str, *, is_known: bool
) -> None:
    """Empty ones too: each has its key."""
    if is_known:
        ingest.upsert(TRAINING_JOBS, make_job())
    meta = make_meta(f"train-{kind}", "c", 11, "job-1")
    for count in (MOST_DOCUMENTS, 5_000):
        meta["resourceVersion"] = str(count)
        data = {f"report-{number}": "" for number in range(1, 1 + count)}
        ingest.upsert(CONFIG_MAPS, {"metadata": meta, "data": data})
        [entry] = store.config_maps
        assert len(entry.value.documents) == (count if count == MOST_DOCUMENTS else 0)
        assert (entry.value.child.owner is None) is (count > MOST_DOCUMENTS)


def test_what_a_job_has_of_roles_and_bindings_costs_no_square_of_their_number(
    store: Store, ingest: Ingest
) -> None:
    """Whoever administers a namespace can make thousands of both, and each pass looks at them."""
    ingest.upsert(TRAINING_JOBS, make_job())
    rules = encode_rules(Rights(build_seal("job-1")))

    def look(count: int) -> int:
        for name in [f"r{number:03}" for number in range(count)]:
            role = "r007" if name == "r001" else "none"
            body = {"metadata": make_meta(name, name, 11, "job-1")}
            ingest.upsert(ROLES, {**body, "rules": rules})
            ingest.upsert(ROLE_BINDINGS, {**body, "roleRef": {"kind": "Role", "name": role}})
        snapshot = build_snapshot(store, KEY, SHIPPED, NOW)
        assert snapshot is not None
        assert snapshot.role is not None
        assert snapshot.role.name == "r007"
        assert [binding.name for binding in snapshot.bindings] == ["r001"]
        return count_steps(lambda: build_snapshot(store, KEY, SHIPPED, NOW))

    few, many = look(50), look(200)
    assert many < 5 * few


def test_of_a_scaling_that_has_ended_only_that_is_kept(store: Store, ingest: Ingest) -> None:
    scaling = make_scaling("less", 11)
    names = [f"train-worker-{number}" for number in range(1000)]
    scaling["spec"] |= {"toDelete": {"podNames": names}, "ttlSecondsAfterFinished": 60}
    ingest.upsert(SCALE_INS, scaling)
    [waiting] = store.find_scalings(KEY)
    assert waiting.pod_names == tuple(names)

    end = "2026-01-01T00:00:05Z"
    workers = [{"name": name, "uid": name, "result": "graceful", "seconds": 1.5} for name in names]
    told = {"phase": "ScaleSucceeded", "jobUid": "job-1", "completionTime": end}
    conditions = [{"type": "ScaleSucceeded", "status": "True", "message": "x" * LARGE}]
    scaling["status"] = {**told, "workers": workers, "conditions": conditions}
    scaling["metadata"]["resourceVersion"] = "12"
    ingest.upsert(SCALE_INS, scaling)

    [ended] = store.find_scalings(KEY)
    assert (ended.status.phase, ended.status.job_uid) == ("ScaleSucceeded", "job-1")
    assert find_expiry(ended) == NOW + timedelta(seconds=65)
    assert len(pickle.dumps(ended)) < 2000


def make_documents(job: str, uid: str, version: int = 11) -> dict[str, Any]:
    """A config of half a megabyte of the job that is called so and has this uid."""
    owner = {**OWNER, "name": job, "uid": uid}
    meta = make_meta(f"{job}-config", f"{job}-c", version, uid, ownerReferences=[owner])
    return {"metadata": meta, "data": {"config.json": "x" * LARGE}}


def measure_documents(store: Store) -> int:
    return sum(len(text) for e in store.config_maps for text in e.value.documents.values())


def test_documents_of_jobs_that_are_not_there_are_not_kept(store: Store, ingest: Ingest) -> None:
    """A finalizer keeps them when the garbage collector wants them gone, any number of them."""
    ingest.upsert(TRAINING_JOBS, make_job())
    for number in range(3):
        ingest.upsert(CONFIG_MAPS, make_documents(f"never-{number}", "no-job"))
        ingest.upsert(CONFIG_MAPS, make_documents(f"other-{number}", "job-1"))
    assert measure_documents(store) == 0

    ingest.upsert(CONFIG_MAPS, make_documents("train", "job-1"))
    assert measure_documents(store) == LARGE


def test_documents_that_came_before_their_job_are_read_again(store: Store, ingest: Ingest) -> None:
    ingest.upsert(CONFIG_MAPS, make_documents("train", "job-1"))
    assert store.find_partial(KEY) == []
    ingest.upsert(TRAINING_JOBS, make_job())
    (ref,) = store.find_partial(KEY)
    assert ref == Ref(CONFIG_MAPS, "team", "train-config")

    assert ingest.upsert(CONFIG_MAPS, make_documents("train", "job-1")) == {KEY}

    assert store.find_partial(KEY) == []
    assert measure_documents(store) == LARGE
    ingest.sync(CONFIG_MAPS, None, [make_documents("train", "job-1")], version="12", at=0.0)
    assert measure_documents(store) == LARGE


@pytest.mark.parametrize("is_listed", [False, True])
def test_documents_do_not_outlive_their_job(store: Store, ingest: Ingest, is_listed: bool) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())
    ingest.upsert(CONFIG_MAPS, make_documents("train", "job-1"))

    if is_listed:
        ingest.sync(TRAINING_JOBS, None, [], version="20", at=0.0)
    else:
        ingest.delete(TRAINING_JOBS, make_job(version=20))

    assert measure_documents(store) == 0


def test_of_more_pods_than_any_job_has_a_pass_looks_at_its_own_and_some_others(
    store: Store, ingest: Ingest
) -> None:
    """Whoever may create pods gives them to a job; each costs its pass some time."""
    own = {"train-launcher-r1": "l1", "train-worker-7": "w7", "train-worker-8": "w8"}
    record = {"name": "train-worker-8", "uid": "", "state": "Joining"}
    status = {"phase": "Running", "epoch": 2, "workers": [record]}
    ingest.upsert(TRAINING_JOBS, {**make_job(), "status": status})
    member = Member("train-worker-7", "w7", 1, MemberState.ACTIVE, "main")
    config = HostConfig("train", "team", "job-1", 1, 2, 2, 1, (member,), ())
    data = {"config.json": encode_config(config)}
    ingest.upsert(CONFIG_MAPS, {**make_documents("train", "job-1"), "data": data})
    for name, uid in own.items():
        ingest.upsert(PODS, make_pod(name, uid, 11, owner="job-1"))
    for number in range(MOST_PODS + 10):
        ingest.upsert(PODS, make_pod(f"a{number:05}", f"a{number}", 11, owner="job-1"))

    def look() -> list[str]:
        snapshot = build_snapshot(store, KEY, SHIPPED, NOW)
        assert snapshot is not None
        return [pod.name for pod in snapshot.pods]

    seen = look()
    assert len(seen) == MOST_PODS
    assert own.keys() <= set(seen)

    for number in range(MOST_PODS):
        ingest.delete(PODS, make_pod(f"a{number:05}", f"a{number}", 12, owner="job-1"))
    assert len(look()) == 13


def test_a_deletion_of_ours_is_believed_before_its_event(store: Store, ingest: Ingest) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())
    ingest.upsert(PODS, make_pod("w0", "p1", 11, owner="job-1"))

    ingest.note_deletion(Ref(PODS, "team", "w0"), "p1", NOW, 5.0)

    snapshot = build_snapshot(store, KEY, SHIPPED, NOW)
    assert snapshot is not None
    assert snapshot.pods[0].is_deleting


def test_of_what_does_not_show_it_a_deletion_of_ours_is_no_news(
    store: Store, ingest: Ingest
) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())
    ingest.upsert(CONFIG_MAPS, {"metadata": make_meta("train-config", "c", 11, "job-1")})

    ingest.note_deletion(Ref(CONFIG_MAPS, "team", "train-config"), "c", NOW, 5.0)

    snapshot = build_snapshot(store, KEY, SHIPPED, NOW)
    assert snapshot is not None
    assert snapshot.config_object is not None


def test_a_config_map_of_somebody_else_is_not_the_jobs(store: Store, ingest: Ingest) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())
    ingest.upsert(CONFIG_MAPS, {"metadata": make_meta("train-config", "c", 11, "job-0")})

    snapshot = build_snapshot(store, KEY, SHIPPED, NOW)

    assert snapshot is not None
    assert snapshot.config_object is None


@pytest.mark.parametrize("field", ["serviceAccountName", "serviceAccount"])
@pytest.mark.parametrize("role", ["launcher", "worker"])
def test_the_account_of_another_jobs_broker_is_known_as_borrowed(
    store: Store, ingest: Ingest, role: str, field: str
) -> None:
    job = make_job()
    job["spec"]["etReplicaSpecs"][role]["template"]["spec"][field] = "victim-launcher"
    ingest.upsert(TRAINING_JOBS, job)
    for uid, owner, borrowed in (("a", "u-other", {"victim-launcher"}), ("b", None, set())):
        account = {"metadata": make_meta("victim-launcher", uid, 11, owner)}
        ingest.upsert(SERVICE_ACCOUNTS, account)
        snapshot = build_snapshot(store, KEY, SHIPPED, NOW)
        assert snapshot is not None
        assert snapshot.borrowed == borrowed
        ingest.forget(Ref(SERVICE_ACCOUNTS, KEY.namespace, "victim-launcher"), uid, 0.0)


def test_runtimes_are_those_of_the_jobs_namespace(store: Store, ingest: Ingest) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())
    shipped = RuntimeFiles(Runtime(hash_files({"a": "b"}), "image"), {"a": "b"})
    body = build_runtime("team", shipped)
    ours = {**body, "metadata": {**make_meta("", "r", 11), **body["metadata"]}}
    renamed = {**ours, "metadata": {**ours["metadata"], "name": "edl-runtime-abc", "uid": "x"}}
    for runtime in (ours, renamed):
        ingest.upsert(CONFIG_MAPS, runtime)

    snapshot = build_snapshot(store, KEY, SHIPPED, NOW)

    assert snapshot is not None
    assert snapshot.runtimes == {body["metadata"]["name"]}


def test_scalings_come_oldest_first_and_both_kinds_together(store: Store, ingest: Ingest) -> None:
    for resource, name, version in ((SCALE_INS, "b", 11), (SCALE_OUTS, "a", 12)):
        ingest.upsert(resource, make_scaling(name, version))

    assert [s.name for s in store.find_scalings(KEY)] == ["b", "a"]


def test_whatever_a_scaling_says_it_is_about_a_job_of_its_own_namespace(
    store: Store, ingest: Ingest
) -> None:
    away = make_scaling("grow", 12)
    away["metadata"]["namespace"] = "other"
    away["spec"]["selector"]["namespace"] = "team"
    away["spec"]["namespace"] = "team"

    assert ingest.upsert(SCALE_OUTS, away) == {JobKey("other", "train")}
    assert store.find_scalings(KEY) == ()


def test_a_list_of_scale_ins_leaves_the_scale_outs(store: Store, ingest: Ingest) -> None:
    ingest.upsert(SCALE_OUTS, make_scaling("grow", 5))

    ingest.sync(SCALE_INS, None, [], version="9", at=0.0)

    assert [s.name for s in store.find_scalings(KEY)] == ["grow"]


def test_the_last_list_that_was_missing_brings_every_job_of_its_namespace(
    store: Store, ingest: Ingest
) -> None:
    for namespace in ("team", "other"):
        for resource in (TRAINING_JOBS, SCALE_OUTS):
            store.coverage.expect_list(resource, namespace)
    assert ingest.sync(TRAINING_JOBS, "team", [make_job()], version="20", at=1.0) == {KEY}
    grow = [make_scaling("grow", 5, job="else")]
    both = {KEY, JobKey("team", "else")}
    assert ingest.sync(SCALE_OUTS, "team", grow, version="20", at=2.0) == both
    assert ingest.sync(SCALE_OUTS, "team", grow, version="20", at=3.0) == set()


def test_an_object_that_cannot_be_read_keeps_nobody_else_out(store: Store) -> None:
    told: list[tuple[str, str]] = []
    ingest = Ingest(
        store, lambda resource, _, error: told.append((resource.kind, type(error).__name__))
    )
    good, bad = make_pod("a", "p1", 5, owner="job-1"), make_pod("b", "p2", 6, owner="job-1")
    bad["status"] = "text"
    nothing: Any = {"metadata": ["no", "object"]}
    ingest.sync(TRAINING_JOBS, None, [make_job()], version="10", at=1.0)
    changed = ingest.sync(PODS, None, [bad, nothing, good], version="10", at=1.0)
    assert changed == {KEY}
    assert [entry.place for entry in store.pods] == [("team", "a")]
    assert told == [("Pod", "AttributeError")] * 2


def test_what_was_known_of_an_object_outlives_that_it_cannot_be_read(store: Store) -> None:
    ingest = Ingest(store)
    pod = make_pod("a", "p1", 5, owner="job-1")
    ingest.sync(PODS, None, [pod], version="10", at=1.0)
    broken = {**make_pod("a", "p1", 12, owner="job-1"), "status": "text"}
    assert ingest.upsert(PODS, broken) == set()
    assert ingest.sync(PODS, None, [broken], version="20", at=1.0) == set()
    assert [entry.value.phase for entry in store.pods] == ["Running"]
    namesake = {**make_pod("a", "p2", 21, owner="job-1"), "status": "text"}
    ingest.sync(PODS, None, [namesake], version="30", at=1.0)
    assert not list(store.pods)


def test_a_server_that_was_set_back_is_believed(store: Store, ingest: Ingest) -> None:
    ingest.sync(TRAINING_JOBS, None, [make_job(version=900)], version="950", at=1.0)
    ingest.sync(SCALE_OUTS, None, [make_scaling("new", 930)], version="950", at=1.0)
    back = [make_job("job-0", version=500)]
    assert ingest.sync(TRAINING_JOBS, None, back, version="510", at=2.0, is_set_back=True) == {KEY}
    assert ingest.sync(SCALE_OUTS, None, [], version="510", at=2.0, is_set_back=True) == {KEY}
    assert [entry.uid for entry in store.jobs] == ["job-0"]
    assert store.find_scalings(KEY) == ()


def test_a_server_that_was_set_back_with_a_revision_that_goes_on_is_believed(
    store: Store, ingest: Ingest
) -> None:
    gone = make_pod("b", "p2", 600, owner="job-1")
    ingest.sync(TRAINING_JOBS, None, [make_job(version=900)], version="950", at=1.0)
    ingest.sync(PODS, None, [make_pod("a", "p1", 901, owner="job-1"), gone], version="950", at=1.0)
    ingest.delete(PODS, make_pod("b", "p2", 960, owner="job-1"))
    store.made_keys["job-1"] = "train-keys-x"

    back = [make_pod("a", "p1", 500, owner="job-1"), gone]
    assert ingest.sync(PODS, None, back, version="1000000600", at=2.0) == {KEY}
    assert sorted((e.uid, e.version) for e in store.pods) == [("p1", 500), ("p2", 600)]
    assert store.made_keys == {}


@pytest.mark.parametrize(("begun", "is_believed"), [(4.0, True), (5.0, False), (6.0, False)])
def test_a_deletion_of_ours_is_believed_until_a_later_list_shows_it_undone(
    store: Store, ingest: Ingest, begun: float, is_believed: bool
) -> None:
    pod = make_pod("w0", "p1", 11, owner="job-1")
    ingest.sync(PODS, None, [pod], version="12", at=1.0)
    ingest.note_deletion(Ref(PODS, "team", "w0"), "p1", NOW, 5.0)
    ingest.sync(PODS, None, [pod], version="1000000012", at=begun)
    [found] = list(store.pods)
    assert found.value.is_deleting == is_believed


def test_an_event_of_a_deletion_that_is_faster_than_its_answer_is_undone_by_no_list(
    store: Store,
) -> None:
    told: list[str] = []
    ingest = Ingest(store, on_set_back=lambda: told.append("set back"))
    pod = make_pod("w0", "p1", 11, owner="job-1")
    pod["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:30Z"}
    ingest.upsert(PODS, pod)
    ingest.note_deletion(Ref(PODS, "team", "w0"), "p1", NOW, 5.0)
    ingest.sync(PODS, None, [pod], version="12", at=6.0)
    assert told == []


def test_the_newest_of_what_is_known_is_told_for_each_namespace(store: Store, ingest: Ingest):
    there = make_pod("a", "p2", 70, owner="job-1")
    there["metadata"]["namespace"] = "b"
    assert store.pods.find_newest(None) == 0
    ingest.upsert(PODS, make_pod("a", "p1", 60, owner="job-1"))
    ingest.upsert(PODS, there)
    newest = [store.pods.find_newest(n) for n in (KEY.namespace, "b", "c", None)]
    assert newest == [60, 70, 0, 70]


def test_what_becomes_of_a_runtime_wakes_the_jobs_whose_pods_mount_it(
    store: Store, ingest: Ingest
) -> None:
    files = {"launcher/boot.py": ""}
    shipped = RuntimeFiles(Runtime(hash_files(files), "image"), files)
    body = build_runtime("team", shipped)
    runtime = {
        **body,
        "metadata": {**body["metadata"], **make_meta(body["metadata"]["name"], "r", 1)},
    }
    pinned = {"epoch": 1, "runtime": {"digest": shipped.runtime.digest, "brokerImage": "image"}}
    ingest.upsert(TRAINING_JOBS, {**make_job(), "status": pinned})
    other = make_job("job-2")
    other["metadata"]["name"] = "other"
    ingest.upsert(TRAINING_JOBS, other)
    assert ingest.upsert(CONFIG_MAPS, runtime) == {KEY}
    assert ingest.delete(CONFIG_MAPS, runtime) == {KEY}
    runtime["metadata"] = {**runtime["metadata"], "uid": "r2", "namespace": "another"}
    assert ingest.upsert(CONFIG_MAPS, runtime) == set()


def test_a_pod_that_loses_its_label_and_has_it_again_is_the_one_that_it_was(
    store: Store, ingest: Ingest
) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())
    ingest.upsert(PODS, make_pod("a", "p1", 20, owner="job-1"))
    ingest.delete(PODS, make_pod("a", "p1", 21, owner="job-1"))  # as its watch tells it
    assert ingest.upsert(PODS, make_pod("a", "p1", 21, owner="job-1")) == set()
    assert ingest.upsert(PODS, make_pod("a", "p1", 22, owner="job-1")) == {KEY}
    ingest.delete(PODS, make_pod("a", "p1", 23, owner="job-1"))
    assert ingest.upsert(PODS, make_pod("a", "p1", 22, owner="job-1")) == set()
    assert len(store.pods) == 0


def test_of_what_is_listed_and_not_for_us_nothing_is_held(ingest: Ingest) -> None:
    stranger = make_pod("a", "p1", 11, owner="job-1")
    stranger["metadata"]["labels"].pop("training-job-role")
    assert ingest.read_listed(PODS, stranger) is None
    ours = make_pod("train-worker-0", "p2", 11, owner="job-1")
    assert ingest.read_listed(PODS, ours) == ingest.read(PODS, ours)
