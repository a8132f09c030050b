from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from et_operator.model.jobs import JobKey, Runtime
from et_operator.model.names import LABEL_RUNTIME, build_labels
from et_operator.model.names import Role as PodRole
from et_operator.model.resources import (
    CONFIG_MAPS,
    NODES,
    PODS,
    SCALE_INS,
    SCALE_OUTS,
    TRAINING_JOBS,
    Ref,
)
from et_operator.model.snapshots import RuntimeFiles
from et_operator.state.ingesting import Ingest
from et_operator.state.store import Store
from et_operator.state.views import build_snapshot

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = JobKey("team", "train")
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
    owners = [{"kind": "TrainingJob", "uid": owner, "controller": True, "name": "train"}]
    return {
        "name": name,
        "namespace": "team",
        "uid": uid,
        "resourceVersion": str(version),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "generation": 1,
        **({"ownerReferences": owners} if owner else {}),
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


def test_a_pod_of_a_job_that_is_gone_names_nobody(ingest: Ingest) -> None:
    assert ingest.upsert(PODS, make_pod("w0", "p1", 11, owner="job-0")) == set()


def test_a_node_names_the_jobs_that_have_pods_on_it(ingest: Ingest) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())
    ingest.upsert(PODS, make_pod("w0", "p1", 11, owner="job-1", node="n1"))
    node = {"metadata": {"name": "n1", "uid": "n", "resourceVersion": "12"}}

    assert ingest.upsert(NODES, node) == {KEY}


def test_a_snapshot_holds_only_pods_of_this_very_job(store: Store, ingest: Ingest) -> None:
    ingest.upsert(TRAINING_JOBS, make_job("job-2"))
    ingest.upsert(PODS, make_pod("w0", "p1", 11, owner="job-1"))
    ingest.upsert(PODS, make_pod("w1", "p2", 12, owner="job-2"))

    snapshot = build_snapshot(store, KEY, SHIPPED)

    assert snapshot is not None
    assert [pod.name for pod in snapshot.pods] == ["w1"]


def test_a_deletion_of_ours_is_believed_before_its_event(store: Store, ingest: Ingest) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())
    ingest.upsert(PODS, make_pod("w0", "p1", 11, owner="job-1"))

    ingest.note_deletion(Ref(PODS, "team", "w0"), "p1", NOW)

    snapshot = build_snapshot(store, KEY, SHIPPED)
    assert snapshot is not None
    assert snapshot.pods[0].is_deleting


def test_a_config_map_of_somebody_else_is_not_the_jobs(store: Store, ingest: Ingest) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())
    ingest.upsert(CONFIG_MAPS, {"metadata": make_meta("train-config", "c", 11, "job-0")})

    snapshot = build_snapshot(store, KEY, SHIPPED)

    assert snapshot is not None
    assert snapshot.config_object is None


def test_runtimes_are_those_of_the_jobs_namespace(store: Store, ingest: Ingest) -> None:
    ingest.upsert(TRAINING_JOBS, make_job())
    labels = {LABEL_RUNTIME: "abc"}
    ingest.upsert(CONFIG_MAPS, {"metadata": make_meta("edl-runtime-abc", "r", 11, labels=labels)})

    snapshot = build_snapshot(store, KEY, SHIPPED)

    assert snapshot is not None
    assert snapshot.runtimes == {"edl-runtime-abc"}


def test_scalings_come_oldest_first_and_both_kinds_together(store: Store, ingest: Ingest) -> None:
    for resource, name, version in ((SCALE_INS, "b", 11), (SCALE_OUTS, "a", 12)):
        ingest.upsert(resource, make_scaling(name, version))

    assert [s.name for s in store.find_scalings(KEY)] == ["a", "b"]


def test_a_list_of_scale_ins_leaves_the_scale_outs(store: Store, ingest: Ingest) -> None:
    ingest.upsert(SCALE_OUTS, make_scaling("grow", 5))

    ingest.sync(SCALE_INS, None, [], version="9", at=NOW)

    assert [s.name for s in store.find_scalings(KEY)] == ["grow"]


def test_the_view_is_complete_since_the_last_of_its_lists(store: Store, ingest: Ingest) -> None:
    store.expect_list(PODS, None)
    store.expect_list(NODES, None)
    ingest.sync(PODS, None, [], version="5", at=NOW)
    assert store.complete_since is None

    ingest.sync(NODES, None, [], version="6", at=NOW + timedelta(seconds=3))

    assert store.complete_since == NOW + timedelta(seconds=3)
    store.expect_list(PODS, None)
    assert store.complete_since is None


def test_an_outage_makes_the_view_younger_and_never_complete(store: Store) -> None:
    store.expect_list(PODS, None)
    store.note_outage(NOW)
    assert store.complete_since is None
    store.note_synced(PODS, None, NOW - timedelta(seconds=9))
    assert store.complete_since == NOW
    store.note_synced(PODS, None, NOW + timedelta(seconds=9))
    assert store.complete_since == NOW + timedelta(seconds=9)
