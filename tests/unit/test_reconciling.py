"""One pass against a cluster in memory: what the server's answers do to the next pass."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from et_contract.documents import Report as BrokerReport
from et_contract.documents import encode_report
from et_contract.names import build_report_key
from et_contract.pods import LABEL_ROLE, Role
from et_kube.api import Listing
from et_kube.errors import (
    ApiError,
    Conflict,
    KubeError,
    OutcomeUnknown,
    Refused,
    ServerFailed,
    Throttled,
    Unauthorized,
)
from et_kube.events import Event
from et_kube.resources import (
    CONFIG_MAPS,
    NETWORK_POLICIES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SCALE_INS,
    SCALE_OUTS,
    SECRETS,
    SERVICE_ACCOUNTS,
    TRAINING_JOBS,
    Json,
    Ref,
    Resource,
)
from et_kube.translating import translate_status
from et_operator.acting.executing import Executor
from et_operator.assembly import WATCHED
from et_operator.codec.children import decode_role_names
from et_operator.codec.decoding import decode_job
from et_operator.codec.runtimes import hash_files
from et_operator.measuring import Metrics
from et_operator.model.actions import Subject
from et_operator.model.keys import JobKey
from et_operator.model.names import ANNOTATION_DELETION_COST, build_labels, build_runtime_name
from et_operator.model.plans import Plan
from et_operator.model.snapshots import Refusal, RuntimeFiles
from et_operator.model.statuses import Runtime
from et_operator.planning.answering import MOST_ANSWERS
from et_operator.planning.drafts import FAILURES_TOLD, SINGLE_READS
from et_operator.planning.manifests.access import build_role_binding
from et_operator.planning.manifests.runtimes import build_runtime
from et_operator.planning.replicas import REFUSALS
from et_operator.reconciling import STALE, Reconciler, find_shortest
from et_operator.state.answers import Known
from et_operator.state.ingesting import Ingest
from et_operator.state.store import Store
from et_operator.state.views import build_snapshot
from et_process.lanes import Lanes
from et_process.workqueue import WorkQueue
from fakes.clients import Call, FakeApi, Fault, Moment
from fakes.clock import WrongClock
from tests.makers import make_job, make_scale_in, make_scale_out
from tests.unit.rigs import StoreRig

KEY = JobKey("team", "train")
FILES = {"launcher/boot.py": ""}
DIGEST = hash_files(FILES)
SHIPPED = RuntimeFiles(Runtime(DIGEST, "broker:1"), FILES)


pytestmark = pytest.mark.usefixtures("quiet_logs")


class ReconcilerRig(StoreRig):
    """A reconciler with a real queue, and a cluster that it sees by lists instead of watches."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: WorkQueue[JobKey] = WorkQueue(self.clock)  # type: ignore[arg-type]
        self.metrics = Metrics()
        self.events: list[Event] = []
        self.reconciler = self.build(self.api)

    def build(self, api: FakeApi, kind: type[Reconciler] = Reconciler) -> Reconciler:
        return kind(
            store=self.store,
            api=api,
            executor=Executor(
                api,
                self,
                keep=self.ingest.read,
                requests_at_once=4,
                now=self.clock.monotonic,
            ),
            queue=self.queue,
            clock=self.clock,
            shipped=SHIPPED,
            metrics=self.metrics,
        )

    def record(self, event: Event) -> None:
        self.events.append(event)

    def look(self, selectors: Mapping[Resource, str] = WATCHED) -> set[JobKey]:
        return super().look(selectors)

    async def pass_over(self, times: int = 1) -> tuple[str, timedelta | None]:
        for _ in range(times):
            result = await self.reconciler.reconcile(KEY)
        return result

    def names(self, resource: Resource) -> list[str]:
        return [o["metadata"]["name"] for o in self.cluster.list(resource, "team")]

    def condition(self, kind: str) -> dict[str, Any]:
        job = self.cluster.get(Ref(TRAINING_JOBS, "team", "train"))
        return next((c for c in job["status"]["conditions"] if c["type"] == kind), {})

    def status(self) -> dict[str, Any]:
        job = self.cluster.get(Ref(TRAINING_JOBS, "team", "train"))
        return dict(job["status"])

    def taken(self) -> list[Ref]:
        return list(self._known.taken_names)

    @property
    def refusals(self) -> dict[Subject, Refusal]:
        return self._known.refusals

    @property
    def _known(self) -> Known:
        job = self.store.find_job(KEY)
        assert job is not None
        return self.store.answers.find(KEY, job.uid)

    def writes(self, resource: Resource) -> list[Call]:
        return [c for c in self.log.calls if c.is_write and c.ref.resource == resource]


async def begin(**fields: Any) -> ReconcilerRig:
    """A job whose first decision is recorded, right before anything is created for it."""
    rig = ReconcilerRig()
    rig.create(TRAINING_JOBS, make_job(**fields))
    rig.look()
    await rig.pass_over()
    return rig


async def begin_to_run() -> ReconcilerRig:
    """A job whose pods are there, with the launcher's uid in its status."""
    rig = await begin()
    await rig.pass_over(3)
    return rig


def end_launcher(rig: ReconcilerRig, *, ended: int | None) -> None:
    """Its broker tells how the command ended (None: it does not), and the pod is gone."""
    launcher = Ref(PODS, "team", "train-launcher")
    uid = rig.cluster.get(launcher)["metadata"]["uid"]
    report = encode_report(BrokerReport(1, uid, 1, ended=ended))
    patch = {"data": {build_report_key(1): report}}
    rig.cluster.patch(Ref(CONFIG_MAPS, "team", "train-report"), patch)
    rig.cluster.remove(launcher)


def refuse(
    resource: Resource, words: str, *, verb: str = "create", error: ApiError | None = None
) -> Fault:
    def strike(call: Call, moment: Moment) -> None:
        if moment is Moment.BEFORE and call.verb == verb and call.ref.resource == resource:
            raise error or Refused(403, "Forbidden", words)

    return strike


# ------------------------------------------------------------------ conflicts
async def test_a_conflict_reads_the_object_again_and_the_next_pass_goes_on() -> None:
    rig = ReconcilerRig()
    rig.create(TRAINING_JOBS, make_job())
    rig.look()
    ref = Ref(TRAINING_JOBS, "team", "train")
    rig.cluster.patch(ref, {"metadata": {"annotations": {"seen": "later"}}})
    outcome, _ = await rig.pass_over()
    assert outcome == "conflict"
    known = rig.store.find_job(KEY)
    assert known is not None
    assert known.resource_version == rig.cluster.get(ref)["metadata"]["resourceVersion"]
    assert (await rig.pass_over())[0] == "changed"
    assert rig.cluster.get(ref)["status"]["epoch"] == 1


async def test_a_namesake_of_a_job_that_is_gone_gets_nothing_of_its_decisions() -> None:
    rig = ReconcilerRig()
    rig.create(TRAINING_JOBS, make_job(workers=3))
    rig.look()
    ref = Ref(TRAINING_JOBS, "team", "train")
    rig.cluster.remove(ref)
    namesake = rig.create(TRAINING_JOBS, make_job(workers=1))
    assert (await rig.pass_over())[0] == "conflict"
    await rig.pass_over(3)
    pods = rig.cluster.list(PODS, "team")
    assert [pod["metadata"]["name"] for pod in pods] == ["train-launcher", "train-worker-0"]
    owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods}
    assert owners == {namesake["metadata"]["uid"]}


async def test_a_write_that_changed_nothing_does_not_ask_for_another_pass() -> None:
    class Deaf(FakeApi):
        async def patch(self, ref: Ref, body: Any, **how: Any) -> Json:
            return self._cluster.get(ref)

    rig = ReconcilerRig()
    rig.create(TRAINING_JOBS, make_job())
    rig.look()
    rig.reconciler = rig.build(Deaf(rig.cluster, rig.log))
    outcome, again = await rig.pass_over()
    assert (outcome, again, rig.queue.depth) == ("refused", None, 0)


async def test_a_crd_that_drops_decisions_is_told_and_makes_no_storm_of_writes() -> None:
    class Older(FakeApi):
        async def patch(self, ref: Ref, body: Any, **how: Any) -> Json:
            if how.get("subresource") == "status":
                body = {**body, "status": {**body["status"], "workers": None}}
            return await super().patch(ref, body, **how)

    rig = ReconcilerRig()
    rig.create(TRAINING_JOBS, make_job())
    rig.look()
    rig.reconciler = rig.build(Older(rig.cluster, rig.log))
    for _ in range(5):
        outcome, again = await rig.pass_over()
        assert (outcome, again, rig.queue.depth) == ("refused", None, 0)
    [message] = {report.message for report in rig.events if report.reason == "WritesRefused"}
    assert "does not keep status.workers: the CRDs in this cluster" in message


async def work(rig: ReconcilerRig, seconds: int) -> int:
    """Let a worker do what becomes due in this time; how many writes that took."""
    before = len(rig.log.calls)
    rig.queue.add(KEY)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(rig.reconciler.work()), group.create_task(rig.queue.run())]
        for _ in range(seconds * 5):
            await rig.clock.advance(timedelta(seconds=0.2))
        for task in tasks:
            task.cancel()
    return len([call for call in rig.log.calls[before:] if call.is_write])


async def test_between_two_passes_all_others_have_their_turn() -> None:
    """A pass over a job at rest asks nobody: all of them, at a start, would cost the lease."""
    rig = ReconcilerRig()
    keys = [JobKey("team", f"train-{number}") for number in range(20)]
    for key in keys:
        rig.create(TRAINING_JOBS, make_job(key.name, suspend=True))
    rig.look()
    for key in keys * 3:
        await rig.reconciler.reconcile(key)
    turns = 0
    for key in keys:
        rig.queue.add(key)
    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(rig.reconciler.work()) for _ in range(8)]
        while rig.queue.depth:
            turns += 1
            await asyncio.sleep(0)
        for worker in workers:
            worker.cancel()
    assert turns > len(keys) - 8


async def test_after_a_long_pass_the_loop_is_left_to_others_and_its_namespace_rests() -> None:
    """Some pod of one of its jobs changes all the time, and a pass over that keeps the loop."""
    began: dict[str, list[float]] = {"team": [], "other": []}

    class Dear(Reconciler):
        async def reconcile(self, key: JobKey) -> tuple[str, timedelta | None]:
            began[key.namespace].append(rig.clock.monotonic())
            if key.namespace == "team":
                rig.clock.spend(timedelta(seconds=0.3))
            await asyncio.sleep(0)
            return "unchanged", None

    rig = ReconcilerRig()
    clock = rig.clock
    rig.queue = WorkQueue(clock, lanes=Lanes(lambda key: key.namespace, 4, now=clock.monotonic))
    reconciler = rig.build(rig.api, Dear)
    keys = [JobKey("team", f"dear-{n}") for n in range(4)]
    structlog.reset_defaults()
    with capture_logs() as logs:
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(reconciler.work()) for _ in range(8)]
            while clock.monotonic() < 1200:
                for key in (*keys, JobKey("other", "honest")):
                    rig.queue.add(key, cause="pod")
                await clock.advance(timedelta(seconds=0.1))
            for worker in workers:
                worker.cancel()
    apart = [later - former for former, later in itertools.pairwise(began["team"])]
    assert min(apart) > 0.599, "as long again is left to all others"
    assert len(began["team"]) * 0.3 < 200 / 4 + 4, "and a quarter in the long run"
    assert len(began["other"]) > 1000
    told = [one["namespace"] for one in logs if one["event"] == "a namespace rests"]
    assert set(told) == {"team"}
    assert len(told) <= 200 // 60 + 1, "once a minute"


async def test_decisions_that_are_not_kept_make_no_storm_where_the_watch_is_faster() -> None:
    """The event of what was kept comes before the answer, and is news."""

    class Older(FakeApi):
        async def patch(self, ref: Ref, body: Any, **how: Any) -> Json:
            if how.get("subresource") == "status":
                body = {**body, "status": {**body["status"], "workers": None}}
            stored = await super().patch(ref, body, **how)
            for key in rig.ingest.upsert(ref.resource, stored):
                rig.queue.add(key, cause="job")
            return stored

    rig = ReconcilerRig()
    rig.create(TRAINING_JOBS, make_job())
    rig.look()
    rig.reconciler = rig.build(Older(rig.cluster, rig.log))
    assert await work(rig, 60) < 10


def take(key: str) -> Callable[[dict[str, Any]], None]:
    """A webhook that takes this away from what is created."""
    return lambda metadata: metadata.pop(key)


def relabel(metadata: dict[str, Any]) -> None:
    metadata["labels"] = {**metadata["labels"], "group-name": "team"}


async def run_beside_webhook(
    resource: Resource, alter: Callable[[dict[str, Any]], None]
) -> ReconcilerRig:
    """A while of a job's life in which a webhook alters all of one kind as it is created."""

    class Webhook(FakeApi):
        async def create(self, made: Resource, namespace: str | None, manifest: Json) -> Json:
            if made == resource:
                manifest = {**manifest, "metadata": dict(manifest["metadata"])}
                alter(manifest)
            return await super().create(made, namespace, manifest)

    rig = ReconcilerRig()
    rig.create(TRAINING_JOBS, make_job())
    rig.look()
    rig.reconciler = rig.build(Webhook(rig.cluster, rig.log))
    for _ in range(12):
        await rig.pass_over()
        rig.look()
    created = [c for c in rig.log.calls if (c.verb, c.ref.resource) == ("create", resource)]
    assert len(created) <= 4
    return rig


@pytest.mark.parametrize("alter", [take("ownerReferences"), take("labels"), relabel])
async def test_pods_that_a_webhook_makes_somebody_elses_are_few_and_are_told(
    alter: Callable[[dict[str, Any]], None],
) -> None:
    rig = await run_beside_webhook(PODS, lambda manifest: alter(manifest["metadata"]))
    assert rig.names(PODS) == []
    assert "a mutating webhook" in rig.condition("PodsRefused")["message"]


@pytest.mark.parametrize("error", [OutcomeUnknown("no answer"), Refused(403, "", "not now")])
async def test_a_pod_that_was_made_nobodys_is_told_and_goes_though_its_deletion_has_failed(
    error: KubeError,
) -> None:
    """Without its labels nobody sees it: it is met again under its name."""

    class Webhook(FakeApi):
        is_there = True

        async def create(self, made: Resource, namespace: str | None, manifest: Json) -> Json:
            if made == PODS and self.is_there:
                manifest = {**manifest, "metadata": dict(manifest["metadata"])}
                manifest["metadata"].pop("labels")
            return await super().create(made, namespace, manifest)

        async def delete(self, ref: Ref, **how: Any) -> None:
            if self.is_there:
                raise error
            await super().delete(ref, **how)

    rig = await begin()
    api = Webhook(rig.cluster, rig.log)
    rig.reconciler = rig.build(api)
    await rig.pass_over(3)
    assert "a mutating webhook" in rig.condition("PodsRefused")["message"]
    lost = {pod["metadata"]["uid"] for pod in rig.cluster.list(PODS)}
    assert lost

    api.is_there = False
    for _ in range(8):
        await rig.clock.advance(timedelta(seconds=60))
        rig.look()
        await rig.pass_over(2)
    assert rig.names(PODS) == ["train-launcher", "train-worker-0", "train-worker-1"]
    assert lost.isdisjoint(pod["metadata"]["uid"] for pod in rig.cluster.list(PODS))
    assert not rig.taken()


async def test_a_pod_of_somebody_elses_that_has_a_name_of_ours_stays() -> None:
    rig = await begin()
    owner = make_owner("another")
    for owners in ([], [owner]):
        meta = {"name": f"train-worker-{len(owners)}", "ownerReferences": owners}
        rig.create(PODS, {"metadata": meta, "spec": {"containers": [{"name": "m", "image": "i"}]}})
    await rig.pass_over(6)
    assert {"train-worker-0", "train-worker-1"} <= set(rig.names(PODS))
    assert not [c for c in rig.log.calls if c.verb == "delete"]


def give_another(manifest: dict[str, Any]) -> None:
    manifest["roleRef"] = {**manifest.get("roleRef", {}), "name": "other"}
    manifest["rules"] = []


ALTERED = [
    lambda manifest: manifest["metadata"].pop("ownerReferences"),
    lambda manifest: manifest["metadata"].pop("labels"),
    lambda manifest: relabel(manifest["metadata"]),
    give_another,
]


@pytest.mark.parametrize("resource", [ROLES, ROLE_BINDINGS])
@pytest.mark.parametrize("alter", ALTERED, ids=["owner", "labels", "label", "rights"])
async def test_rights_that_a_webhook_makes_somebody_elses_are_few_and_are_told(
    resource: Resource, alter: Callable[[dict[str, Any]], None]
) -> None:
    rig = await run_beside_webhook(resource, alter)
    assert "a mutating webhook" in rig.condition("WritesRefused")["message"]


# ------------------------------------------------------------------ names
async def test_an_object_of_ours_that_was_not_seen_yet_is_taken_in() -> None:
    rig = await begin()
    rig.log.faults.append(lose_answers(PODS))
    await rig.pass_over()
    rig.log.faults.clear()
    outcome, _ = await rig.pass_over()
    assert outcome == "changed"
    await rig.pass_over(2)
    assert rig.names(PODS) == ["train-launcher", "train-worker-0", "train-worker-1"]
    assert not rig.taken()


def lose_answers(resource: Resource) -> Fault:
    def strike(call: Call, moment: Moment) -> None:
        is_it = call.is_write and call.ref.resource == resource
        if is_it and moment is Moment.AFTER:
            raise OutcomeUnknown("the connection ended")

    return strike


async def test_a_name_that_somebody_else_holds_is_waited_for() -> None:
    rig = await begin()
    rig.create(SERVICE_ACCOUNTS, {"metadata": {"name": "train-launcher"}})
    await rig.pass_over()
    _, again = await rig.pass_over()
    assert again == timedelta(seconds=60)
    assert rig.condition("NameTaken")["status"] == "Unknown"
    assert len(rig.writes(SERVICE_ACCOUNTS)) == 1
    rig.cluster.remove(Ref(SERVICE_ACCOUNTS, "team", "train-launcher"))
    await rig.pass_over()
    assert len(rig.writes(SERVICE_ACCOUNTS)) == 1  # nobody tells us of what we do not watch
    await rig.clock.advance(timedelta(seconds=60))
    await rig.pass_over(3)
    assert "train-launcher" in rig.names(PODS)


async def test_what_a_former_job_of_the_name_holds_is_followed_to_its_end() -> None:
    rig = await begin()
    owner = make_owner("former")
    labels = build_labels("train")
    rig.create(
        CONFIG_MAPS,
        {"metadata": {"name": "train-report", "labels": labels, "ownerReferences": [owner]}},
    )
    rig.look()
    await rig.pass_over(2)
    assert rig.names(PODS) == []
    _, again = await rig.pass_over()
    assert again == timedelta(seconds=60)  # nobody asks meanwhile: the holder's end is an event
    rig.cluster.remove(Ref(CONFIG_MAPS, "team", "train-report"))
    assert rig.look() == {KEY}
    await rig.pass_over(3)
    assert "train-launcher" in rig.names(PODS)


OTHER_OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "short-lived", "uid": "1"}


def make_owner(uid: str, **other: Any) -> dict[str, Any]:
    return {
        "apiVersion": TRAINING_JOBS.api_version,
        "kind": "TrainingJob",
        "name": "train",
        "uid": uid,
        "controller": True,
        **other,
    }


READS = {
    "apiGroups": [""],
    "resources": ["configmaps"],
    "resourceNames": ["train-config"],
    "verbs": ["get"],
}


@pytest.mark.parametrize("rules", [[], [READS]], ids=["without rules", "with another right"])
async def test_a_role_that_somebody_else_may_have_bound_is_given_no_rights(
    rules: list[dict[str, Any]],
) -> None:
    rig = await begin()
    job = rig.cluster.get(Ref(TRAINING_JOBS, "team", "train"))
    owner = make_owner(job["metadata"]["uid"])
    meta = {"name": "train-launcher", "labels": build_labels("train"), "ownerReferences": [owner]}
    rig.create(ROLES, {"metadata": meta, "rules": rules})
    rig.look()
    await rig.pass_over(4)
    assert rig.cluster.get(Ref(ROLES, "team", "train-launcher"))["rules"] == rules
    assert "train-launcher" not in rig.names(ROLE_BINDINGS)
    assert "train-launcher" in rig.names(PODS)


async def test_a_binding_that_was_there_before_the_role_gives_nothing() -> None:
    """Of a Role that was somebody's, and has gone: with an owner that does not exist it does."""
    rig = await begin()
    early = build_role_binding(decode_job(make_job()), "train-launcher", {"mallory"})
    early["metadata"] = {"name": "early", "labels": {}}
    rig.create(ROLE_BINDINGS, early)
    rig.look()
    await rig.pass_over(4)
    [role] = rig.names(ROLES)
    bindings = rig.cluster.list(ROLE_BINDINGS, "team")
    assert len(bindings) == 2
    given = [b["subjects"][0]["name"] for b in bindings if b["roleRef"]["name"] == role]
    assert given == ["train-launcher"]


@pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
async def test_a_binding_of_another_role_is_not_taken_for_the_jobs(kind: str) -> None:
    rig = await begin()
    await rig.pass_over()  # the Role is there
    [role] = rig.names(ROLES)
    job = rig.cluster.get(Ref(TRAINING_JOBS, "team", "train"))
    owner = make_owner(job["metadata"]["uid"])
    meta = {"name": role, "labels": build_labels("train"), "ownerReferences": [owner]}
    name = "other" if kind == "Role" else role
    other = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    rig.create(ROLE_BINDINGS, {"metadata": meta, "roleRef": other, "subjects": []})
    rig.look()
    await rig.pass_over(3)
    assert not rig.taken()
    bindings = rig.cluster.list(ROLE_BINDINGS, "team")
    [ours] = [b for b in bindings if b["roleRef"] == {**other, "kind": "Role", "name": role}]
    assert [subject["name"] for subject in ours["subjects"]] == ["train-launcher"]


async def test_a_binding_whose_answer_was_lost_gives_no_more_than_the_others() -> None:
    rig = await begin()
    rig.log.faults.append(lose_answers(ROLE_BINDINGS))
    await rig.pass_over(4)
    rig.log.faults.clear()
    await rig.clock.advance(timedelta(seconds=60))
    rig.look()
    spec = {"etReplicaSpecs": {"launcher": {"template": {"spec": {"serviceAccountName": "cloud"}}}}}
    rig.cluster.patch(Ref(TRAINING_JOBS, "team", "train"), {"spec": spec})
    rig.look()
    await rig.pass_over(4)
    bindings = rig.cluster.list(ROLE_BINDINGS, "team")
    assert len(bindings) > 1
    given = {tuple(s["name"] for s in binding["subjects"]) for binding in bindings}
    assert len(given) == 1
    assert "cloud" in given.pop()


async def test_a_role_whose_answer_was_lost_is_bound_once_and_no_other_beside_it() -> None:
    rig = await begin()
    rig.log.faults.append(lose_answers(ROLES))
    await rig.pass_over()
    rig.log.faults.clear()
    await rig.pass_over(3)
    rig.look()
    await rig.pass_over(3)
    assert len(rig.names(ROLES)) == 2
    [binding] = rig.cluster.list(ROLE_BINDINGS, "team")
    bound = binding["roleRef"]["name"]
    assert bound in rig.names(ROLES)
    snapshot = build_snapshot(rig.store, KEY, SHIPPED, rig.clock.now())
    assert snapshot is not None
    assert snapshot.role is not None
    assert snapshot.role.name == bound


async def test_a_role_that_is_not_the_one_any_more_grants_nothing() -> None:
    """As after a rollback: the older operator made one under the name that it knows."""
    rig = await begin_to_run()
    await rig.pass_over(3)
    [name] = rig.names(ROLES)
    for kind in (ROLES, ROLE_BINDINGS):
        [present] = rig.names(kind)
        older = copy.deepcopy(dict(rig.cluster.get(Ref(kind, "team", present))))
        for field in ("uid", "resourceVersion", "creationTimestamp"):
            del older["metadata"][field]
        older["metadata"]["name"] = "train-launcher"
        if kind == ROLE_BINDINGS:
            older["roleRef"] = {**older["roleRef"], "name": "train-launcher"}
        rig.create(kind, older)
    rig.look()
    await rig.pass_over(3)
    roles = [rig.cluster.get(Ref(ROLES, "team", found)) for found in rig.names(ROLES)]
    job = rig.store.find_job(KEY)
    assert job is not None
    granted = {role["metadata"]["name"]: decode_role_names(role, job.uid) for role in roles}
    assert granted[name] == frozenset()
    assert granted["train-launcher"] >= {"train-config", "train-worker-0", "train-worker-1"}


async def test_rights_come_back_where_somebody_removed_the_role() -> None:
    rig = await begin_to_run()
    [first] = rig.names(ROLES)
    rig.cluster.remove(Ref(ROLES, "team", first))
    rig.look()
    await rig.pass_over(4)
    [second] = rig.names(ROLES)
    assert second != first  # whoever removed it may have bound it meanwhile
    bindings = rig.cluster.list(ROLE_BINDINGS, "team")
    assert {binding["roleRef"]["name"] for binding in bindings} == {first, second}


async def test_what_ends_in_another_namespace_ends_no_job() -> None:
    rig = ReconcilerRig()
    job = rig.create(TRAINING_JOBS, make_job())
    owner = make_owner(job["metadata"]["uid"])
    labels = build_labels("train", Role.LAUNCHER)
    meta = {"name": "train-launcher", "labels": labels, "ownerReferences": [owner]}
    rig.create(
        PODS, {"metadata": meta, "spec": {"containers": [{"name": "m", "image": "i"}]}}, "evil"
    )
    ended = [{"name": "m", "state": {"terminated": {"exitCode": 0}}}]
    rig.cluster.edit(
        Ref(PODS, "evil", "train-launcher"),
        lambda pod: pod.update(status={"phase": "Succeeded", "containerStatuses": ended}),
    )
    rig.look()
    await rig.pass_over(4)
    assert rig.status()["phase"] != "Succeeded"
    assert "train-launcher" in rig.names(PODS)


async def test_a_scaling_of_more_owners_than_are_kept_is_refused_and_keeps_them() -> None:
    rig = await begin_to_run()
    scaling = make_scale_out("grow")
    scaling["metadata"]["ownerReferences"] = [{**OTHER_OWNER, "uid": str(n)} for n in range(500)]
    rig.create(SCALE_OUTS, scaling)
    rig.look()
    await rig.pass_over(4)
    told = rig.cluster.get(Ref(SCALE_OUTS, "team", "grow"))
    assert told["status"]["phase"] == "ScaleFailed"
    assert "ownerReferences" in told["status"]["conditions"][-1]["message"]
    assert len(told["metadata"]["ownerReferences"]) == 500


@pytest.mark.parametrize("ended", [0, 1])
async def test_a_report_that_was_there_before_the_first_launcher_ends_nothing(ended: int) -> None:
    rig = ReconcilerRig()
    job = rig.create(TRAINING_JOBS, make_job())
    uid = job["metadata"]["uid"]
    owner = make_owner(uid)
    meta = {"name": "train-report", "labels": build_labels("train"), "ownerReferences": [owner]}
    text = encode_report(BrokerReport(5, "nobody", 1, ended=ended))
    rig.create(CONFIG_MAPS, {"metadata": meta, "data": {build_report_key(5): text}})
    rig.look()
    await rig.pass_over(4)
    assert rig.status()["phase"] == "Created"
    assert "train-launcher-r5" in rig.names(PODS)


@pytest.mark.parametrize("is_removed", [False, True])
async def test_since_when_an_end_is_told_is_known_until_its_job_has_ended_or_gone(
    is_removed: bool,
) -> None:
    """No report says it; the container of the launcher is never seen to end."""
    rig = await begin()
    await rig.pass_over(4)
    launcher = Ref(PODS, "team", "train-launcher")
    running = {"name": "launcher", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    status = {"phase": "Running", "containerStatuses": [running]}
    rig.cluster.patch(launcher, {"status": status}, subresource="status")
    uid = rig.cluster.get(launcher)["metadata"]["uid"]
    report = encode_report(BrokerReport(1, uid, 1, ended=0))
    ref = Ref(CONFIG_MAPS, "team", "train-report")
    rig.cluster.patch(ref, {"data": {build_report_key(1): report}})
    rig.look()
    for seconds in (0, 119):
        await rig.clock.advance(timedelta(seconds=seconds))
        await rig.pass_over(3)
        assert not rig.condition("EndUnseen")
    assert list(rig.store.told_ends) == [rig.cluster.get(KEY.ref)["metadata"]["uid"]]

    if is_removed:
        rig.cluster.remove(KEY.ref)
        rig.look()
    else:
        await rig.clock.advance(timedelta(seconds=1))
        await rig.pass_over(5)
        assert "EndUnseen" in [event.reason for event in rig.events]
        assert rig.status()["phase"] == "Succeeded"
    assert not rig.store.told_ends


FULL = "y" * 900_000
NEVER_WRITTEN: dict[str, dict[str, Any]] = {
    "immutable": {"immutable": True},
    "full": {"data": {"x": FULL}},
    "full of bytes": {"binaryData": {"x": FULL}},
    "full of later events": {"data": {build_report_key(n): FULL[:200_000] for n in range(2, 7)}},
    "full of what the other holds": {
        "data": {"hostfile": FULL[:200_000], build_report_key(1): FULL[:200_000]}
    },
    "full of events of no epoch": {
        "data": {f"report-{text}": FULL[:300_000] for text in ("01", "001", "0001")}
    },
    "full of reports": {"data": {build_report_key(n): "" for n in range(1, 50)}},
    "with our keys in bytes": {"binaryData": {"config.json": "eA==", "report-1": "eA=="}},
    "full of labels": {"labels": {f"label-{n}": "y" * 60 for n in range(2_000)}},
}


@pytest.mark.long
@pytest.mark.parametrize("document", ["config", "report"])
@pytest.mark.parametrize("is_seen", [True, False])
@pytest.mark.parametrize("body", NEVER_WRITTEN.values(), ids=list(NEVER_WRITTEN))
async def test_a_document_that_can_never_be_written_is_somebody_elses(
    document: str, is_seen: bool, body: dict[str, Any]
) -> None:
    rig = ReconcilerRig()
    uid = rig.create(TRAINING_JOBS, make_job())["metadata"]["uid"]
    rig.look()
    owner = make_owner(uid)
    name = f"train-{document}"
    labels = {**build_labels("train"), **body.get("labels", {})}
    meta = {"name": name, "labels": labels, "ownerReferences": [owner]}
    rig.create(CONFIG_MAPS, {**body, "metadata": meta})
    if is_seen:
        rig.look()
    await rig.pass_over(4)
    assert name in rig.condition("NameTaken")["message"]
    assert not rig.names(PODS)
    rig.cluster.remove(Ref(CONFIG_MAPS, "team", name))
    rig.look()
    await rig.clock.advance(timedelta(seconds=60))
    await rig.pass_over(3)
    assert "train-launcher" in rig.names(PODS)


@pytest.mark.parametrize("document", ["config", "report"])
@pytest.mark.parametrize("is_seen", [True, False])
@pytest.mark.parametrize(
    "other",
    [{"apiVersion": "nope.example/v1"}, {"kind": "Whatever"}, {"name": "other"}],
    ids=["group", "kind", "name"],
)
async def test_a_document_of_another_owner_with_the_jobs_uid_is_somebody_elses(
    document: str, is_seen: bool, other: dict[str, str]
) -> None:
    rig = ReconcilerRig()
    uid = rig.create(TRAINING_JOBS, make_job())["metadata"]["uid"]
    rig.look()
    meta = {"name": f"train-{document}", "labels": build_labels("train")}
    meta["ownerReferences"] = [make_owner(uid, **other)]
    rig.create(CONFIG_MAPS, {"metadata": meta})
    if is_seen:
        rig.look()
    await rig.pass_over(4)
    assert f"train-{document}" in rig.condition("NameTaken")["message"]
    assert not rig.names(PODS)


async def test_what_a_broker_has_written_and_others_have_added_to_it_stays_the_jobs() -> None:
    rig = await begin_to_run()
    note = {"note": "y" * 10_000}
    rig.cluster.patch(
        Ref(CONFIG_MAPS, "team", "train-report"),
        {
            "binaryData": {"picture": "eA=="},
            "data": {build_report_key(1): FULL, **note},
            "metadata": {"annotations": note},
        },
    )
    rig.look()
    await rig.pass_over(3)
    assert not rig.taken()


def list_selected() -> list[tuple[Resource, str]]:
    """Each kind that is watched by labels, with each of these."""
    selected = ((kind, term) for kind, text in WATCHED.items() for term in text.split(",") if term)
    return [(kind, term.partition("=")[0]) for kind, term in selected]


async def plant(resource: Resource, true: Json, lost: str) -> tuple[ReconcilerRig, str]:
    """A job that met the same without this label, before its first pass; and the uid of that."""
    rig = ReconcilerRig()
    job = rig.create(TRAINING_JOBS, make_job())["metadata"]["uid"]
    manifest = copy.deepcopy(dict(true))
    manifest.get("spec", {}).pop("serviceAccountName", None)  # of a pod's there is none yet
    meta = manifest["metadata"]
    labels = {key: value for key, value in meta["labels"].items() if key != lost}
    owners = [{**owner, "uid": job} for owner in meta.get("ownerReferences", ())]
    manifest["metadata"] = {"name": meta["name"], "labels": labels, "ownerReferences": owners}
    planted = rig.create(resource, manifest)["metadata"]["uid"]
    rig.look()
    await rig.pass_over(5)
    return rig, planted


@pytest.mark.parametrize(("resource", "label"), list_selected(), ids=str)
async def test_what_our_watch_does_not_show_is_nobodys(resource: Resource, label: str) -> None:
    made = (await begin_to_run()).cluster.list(resource, "team")
    assert made
    for true in made:
        rig, planted = await plant(resource, true, label)
        snapshot = build_snapshot(rig.store, KEY, SHIPPED, None)
        assert planted not in repr(snapshot)
        if resource in {ROLES, ROLE_BINDINGS}:  # the server makes up their names
            assert len(rig.names(resource)) == 2
        elif resource == PODS:  # which would run beside ours, known to nobody
            assert planted not in repr(rig.cluster.list(PODS))
        else:
            assert rig.taken() == [Ref(resource, "team", true["metadata"]["name"])]


@pytest.mark.parametrize("name", ["train-report", "train-config", build_runtime_name(DIGEST)])
async def test_a_document_without_its_label_is_taken_back_and_told(name: str) -> None:
    """As a policy of the cluster makes it of what anybody creates, until we are exempt."""
    rig = await begin()
    create = rig.cluster.create

    def alter(resource: Resource, namespace: str | None, manifest: Json, **how: Any) -> Any:
        meta = manifest["metadata"]
        is_met = resource == CONFIG_MAPS and meta["name"] == name
        return create(
            resource,
            namespace,
            {**manifest, "metadata": {**meta, "labels": {}}} if is_met else manifest,
            **how,
        )

    rig.cluster.create = alter  # type: ignore[method-assign]
    await rig.pass_over(4)
    assert name not in rig.names(CONFIG_MAPS)
    assert "label group-name: a mutating webhook" in rig.condition("WritesRefused")["message"]
    assert not rig.names(PODS)

    rig.cluster.create = create  # type: ignore[method-assign]
    await rig.clock.advance(timedelta(minutes=5))
    await rig.pass_over(4)
    assert "train-launcher" in rig.names(PODS)


async def test_two_jobs_share_the_runtime_that_either_has_made() -> None:
    rig = await begin()
    rig.create(CONFIG_MAPS, build_runtime("team", SHIPPED))
    await rig.pass_over(3)
    assert not rig.taken()
    assert "train-launcher" in rig.names(PODS)


@pytest.mark.long
@pytest.mark.parametrize("is_labelled", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        {"data": {"launcher..boot.py": "import os; os.system('evil')"}},
        {"immutable": False},
        {"binaryData": {"launcher..agent.py": "ZXZpbA=="}},
        {"metadata": {"ownerReferences": [OTHER_OWNER]}},
    ],
    ids=["other files", "can be changed", "more files", "goes with another"],
)
async def test_a_runtime_is_known_by_what_is_in_it_and_not_by_its_name(
    change: dict[str, Any], is_labelled: bool
) -> None:
    rig = await begin()
    squatted: dict[str, Any] = {**build_runtime("team", SHIPPED), **change}
    true = build_runtime("team", SHIPPED)["metadata"]
    squatted["metadata"] = {**true, **change.get("metadata", {})}
    if not is_labelled:
        squatted["metadata"] = {**squatted["metadata"], "labels": {}}
    rig.cluster.create(CONFIG_MAPS, "team", squatted)
    rig.look()
    for _ in range(70):
        await rig.pass_over()
        await rig.clock.advance(timedelta(seconds=1))
    assert rig.names(PODS) == []
    assert build_runtime_name(SHIPPED.runtime.digest) in rig.condition("NameTaken")["message"]

    rig.cluster.remove(Ref(CONFIG_MAPS, "team", squatted["metadata"]["name"]))
    rig.look()
    await rig.clock.advance(timedelta(minutes=1))
    await rig.pass_over(3)
    assert "train-launcher" in rig.names(PODS)


async def test_a_runtime_that_is_said_to_be_the_jobs_own_is_none() -> None:
    rig = await begin()
    false = build_runtime("team", SHIPPED)
    job = rig.cluster.get(Ref(TRAINING_JOBS, "team", "train"))
    owner = make_owner(job["metadata"]["uid"])
    false["metadata"]["ownerReferences"] = [owner]
    rig.cluster.create(CONFIG_MAPS, "team", {**false, "data": {"launcher..boot.py": "evil"}})
    rig.look()
    await rig.pass_over(3)
    assert rig.names(PODS) == []
    assert build_runtime_name(SHIPPED.runtime.digest) in rig.condition("NameTaken")["message"]


async def test_a_runtime_that_is_being_deleted_is_mounted_by_no_new_pod() -> None:
    rig = await begin()
    going = build_runtime("team", SHIPPED)
    going["metadata"]["finalizers"] = ["example.com/later"]
    stored = rig.create(CONFIG_MAPS, going)
    rig.cluster.delete(Ref(CONFIG_MAPS, "team", stored["metadata"]["name"]))
    rig.look()
    await rig.pass_over(3)
    assert rig.names(PODS) == []


# ------------------------------------------------------------------ refusals
async def test_refused_pods_are_told_with_the_servers_words_and_tried_again_later() -> None:
    rig = await begin(workers=6)
    rig.log.faults.append(refuse(PODS, "exceeded quota: small"))
    assert (await rig.pass_over())[0] == "refused"
    assert rig.refusals[PODS].count == 1  # a pass counts once
    _, again = await rig.pass_over()
    told = rig.condition("PodsRefused")
    assert told["status"] == "True"
    assert "exceeded quota: small" in told["message"]
    assert rig.condition("WritesRefused") == {}
    tries = len(rig.writes(PODS))
    _, again = await rig.pass_over()
    assert again == timedelta(seconds=10)
    assert len(rig.writes(PODS)) == tries
    rig.log.faults.clear()
    await rig.clock.advance(timedelta(seconds=10))
    await rig.pass_over(3)
    assert len(rig.names(PODS)) == 7
    assert rig.condition("PodsRefused")["status"] == "False"


async def test_the_waits_begin_anew_when_the_author_has_changed_the_job() -> None:
    rig = await begin()
    rig.log.faults.append(refuse(PODS, "violates PodSecurity"))
    for _ in range(3):
        await rig.pass_over(2)
        await rig.clock.advance(timedelta(minutes=5))
    assert rig.refusals[PODS].count == 3
    rig.cluster.patch(Ref(TRAINING_JOBS, "team", "train"), {"spec": {"backoffLimit": 3}})
    rig.look()
    assert (await rig.pass_over())[0] == "refused"
    assert rig.refusals[PODS].count == 1


async def test_a_refused_role_is_told_as_itself_and_no_further_pod_comes_before_it() -> None:
    rig = await begin()
    rig.log.faults.append(refuse(ROLES, "attempting to grant RBAC permissions"))
    await rig.pass_over(2)
    rig.cluster.remove(Ref(PODS, "team", "train-worker-0"))
    rig.look()
    await rig.pass_over(3)
    told = rig.condition("WritesRefused")
    assert told["status"] == "True"
    assert "Role train-launcher-: attempting to grant RBAC permissions" in told["message"]
    assert rig.condition("PodsRefused") == {}
    assert rig.names(PODS) == ["train-launcher", "train-worker-1"]
    rig.log.faults.clear()
    await rig.clock.advance(timedelta(minutes=1))
    await rig.pass_over(3)
    assert rig.names(PODS) == ["train-launcher", "train-worker-1", "train-worker-2"]
    assert rig.condition("WritesRefused")["status"] == "False"


async def test_a_refusal_is_told_as_an_event_too_though_the_write_fails_each_time() -> None:
    rig = await begin()
    rig.log.faults.append(refuse(ROLES, "roles are made by the platform team"))
    for _ in range(5):
        await rig.pass_over(2)
        await rig.clock.advance(timedelta(minutes=5))
    told = [event for event in rig.events if event.reason == "WritesRefused"]
    assert [event.is_warning for event in told] == [True]
    assert "roles are made by the platform team" in told[0].message


async def test_a_pod_that_must_not_be_deleted_is_told_and_stops_nothing_else() -> None:
    rig = await begin_to_run()
    rig.log.faults.append(refuse(PODS, "keep them", verb="delete"))
    launcher = Ref(PODS, "team", "train-launcher")
    rig.cluster.patch(Ref(TRAINING_JOBS, "team", "train"), {"spec": {"suspend": True}})
    rig.look()
    await rig.pass_over(4)
    told = rig.condition("WritesRefused")
    assert told["status"] == "True"
    assert "refuses the deletion of Pod train-launcher: keep them" in told["message"]
    assert [event.reason for event in rig.events].count("WritesRefused") == 1
    tries = len(rig.writes(PODS))
    await rig.pass_over(3)
    assert len(rig.writes(PODS)) == tries
    rig.log.faults.clear()
    await rig.clock.advance(timedelta(minutes=1))
    await rig.pass_over(2)
    assert rig.cluster.find(launcher) is None
    assert rig.condition("WritesRefused")["status"] == "False"


@pytest.mark.parametrize("role", [None, "chief"])
@pytest.mark.parametrize("name", ["train-worker-1", "train-mine"])
async def test_a_worker_that_loses_its_role_keeps_no_scaling_from_its_end(
    name: str, role: str | None
) -> None:
    """Neither one of ours, nor one that somebody has made for the job, under another name."""
    rig = await begin_to_run()
    true = rig.cluster.get(Ref(PODS, "team", "train-worker-1"))
    ref = Ref(PODS, "team", name)
    if name != "train-worker-1":
        rig.cluster.remove(Ref(PODS, "team", "train-worker-1"))
        copy_of = {key: true["metadata"][key] for key in ("labels", "ownerReferences")}
        rig.create(PODS, {"metadata": {"name": name, **copy_of}, "spec": true["spec"]})
    rig.create(SCALE_INS, make_scale_in("less", podNames=[name]))
    rig.look()
    await rig.pass_over()
    rig.cluster.patch(ref, {"metadata": {"labels": {LABEL_ROLE: role}}})
    apart = {kind: selector for kind, selector in WATCHED.items() if kind != PODS}
    for _ in range(12):
        await rig.pass_over()
        rig.look(apart)
    assert rig.cluster.get(Ref(SCALE_INS, "team", "less"))["status"]["phase"] == "ScaleSucceeded"
    assert (rig.cluster.find(ref) is None) == (name == "train-worker-1")


@pytest.mark.long
@pytest.mark.parametrize(
    ("resource", "kind"), [(PODS, "PodsRefused"), (SERVICE_ACCOUNTS, "WritesRefused")]
)
@pytest.mark.parametrize("status", [404, 409, 410, 429])
async def test_a_creation_that_never_succeeds_is_told_whatever_the_server_answers(
    resource: Resource, kind: str, status: int
) -> None:
    rig = ReconcilerRig()
    rig.create(TRAINING_JOBS, make_job())
    rig.look()
    words = "somebody else is always faster"
    error = translate_status(status, {"message": words})
    rig.log.faults.append(refuse(resource, words, error=error))
    await work(rig, 60)
    assert words in rig.condition(kind)["message"]
    rig.log.faults.clear()
    await work(rig, 90)
    assert rig.names(PODS) == ["train-launcher", "train-worker-0", "train-worker-1"]
    assert rig.condition(kind)["status"] == "False"


@pytest.mark.long
async def test_a_webhook_that_fails_is_told_once_it_lasts_and_asked_less_often() -> None:
    rig = await begin()
    strike = ServerFailed(500, "InternalError", 'failed calling webhook "x.example": EOF')
    rig.log.faults.append(refuse(PODS, "", error=strike))
    await rig.pass_over(FAILURES_TOLD)
    assert rig.condition("PodsRefused") == {}
    await rig.pass_over(2)
    told = rig.condition("PodsRefused")
    assert (told["status"], told["type"]) == ("True", "PodsRefused")
    assert 'fails on Pod train-launcher: failed calling webhook "x.example"' in told["message"]
    passes: set[float] = set()
    rig.log.faults.append(lambda *_: passes.add(rig.clock.monotonic()))
    for _ in range(600):
        await rig.pass_over()
        await rig.clock.advance(timedelta(seconds=1))
    assert 10 <= len(passes) <= 16
    statuses = [c for c in rig.writes(TRAINING_JOBS) if c.subresource == "status"]
    assert len(statuses) < 8
    rig.log.faults.clear()
    await rig.clock.advance(timedelta(minutes=1))
    await rig.pass_over(3)
    assert len(rig.names(PODS)) == 3
    assert rig.condition("PodsRefused")["status"] == "False"


async def test_a_job_made_again_under_its_name_inherits_no_answers() -> None:
    rig = await begin()
    rig.log.faults.append(refuse(PODS, "image not allowed"))
    for _ in range(4):
        await rig.pass_over()
        await rig.clock.advance(timedelta(minutes=5))
    rig.cluster.remove(Ref(TRAINING_JOBS, "team", "train"))
    for _ in range(9):
        rig.cluster.collect_garbage()
    rig.create(TRAINING_JOBS, make_job())
    rig.log.faults.clear()
    rig.look()  # the one is gone and the other is there before the next pass
    await rig.pass_over(2)
    assert len(rig.names(PODS)) == 3
    assert rig.condition("PodsRefused") == {}


async def test_a_status_that_is_refused_is_told_as_an_event() -> None:
    rig = ReconcilerRig()
    rig.create(TRAINING_JOBS, make_job())
    rig.look()
    rig.log.faults.append(refuse(TRAINING_JOBS, "no statuses here", verb="patch"))
    await rig.pass_over(2)
    told = {(event.reason, event.message) for event in rig.events}
    words = "the API server refuses the status of TrainingJob train: no statuses here"
    assert told == {("WritesRefused", words)}


async def test_a_number_of_replicas_that_is_refused_ends_the_scaling_with_the_words() -> None:
    rig = await begin(workers=1)
    await rig.pass_over(3)
    rig.create(SCALE_OUTS, make_scale_out("more"))
    rig.look()

    def strike(call: Call, moment: Moment) -> None:
        is_spec = call.ref.resource == TRAINING_JOBS and not call.subresource
        if is_spec and call.is_write and moment is Moment.BEFORE:
            raise Refused(403, "Forbidden", "denied by policy")

    rig.log.faults.append(strike)
    await rig.pass_over(1 + REFUSALS)
    status = rig.cluster.get(Ref(SCALE_OUTS, "team", "more")).get("status", {})
    assert status["phase"] == "Scaling"
    await rig.pass_over(4)
    status = rig.cluster.get(Ref(SCALE_OUTS, "team", "more"))["status"]
    assert status["conditions"][-1]["type"] == "ScaleFailed"
    assert status["conditions"][-1]["reason"] == "Refused"
    assert "denied by policy" in status["conditions"][-1]["message"]
    assert rig.names(PODS) == ["train-launcher", "train-worker-0"]
    job = rig.cluster.get(Ref(TRAINING_JOBS, "team", "train"))
    assert "scaling" not in job["status"]


# ------------------------------------------------------------------ unknown outcomes
async def test_a_server_that_does_not_know_us_for_a_while_ends_no_scaling() -> None:
    rig = await begin_to_run()
    rig.create(SCALE_OUTS, make_scale_out("more", count=1))
    rig.look()
    await rig.pass_over(2)  # adopted, decided
    unknown = Unauthorized(401, "Unauthorized", "Unauthorized")
    rig.log.faults.append(refuse(TRAINING_JOBS, "", verb="patch", error=unknown))
    await rig.pass_over(2 * REFUSALS)
    rig.log.faults.clear()
    await rig.pass_over(2)
    record = rig.status()["scaling"]
    assert (record["name"], record.get("outcome")) == ("more", None)
    assert rig.condition("WritesRefused") == {}


async def test_a_policy_that_is_named_like_the_job_is_nobody_elses_business() -> None:
    rig = await begin()
    rig.create(NETWORK_POLICIES, {"metadata": {"name": "train"}, "spec": {"podSelector": {}}})
    await rig.pass_over(2)
    assert rig.names(NETWORK_POLICIES) == ["train", "train-pods"]
    assert len(rig.names(PODS)) == 3


async def test_a_policy_of_our_name_is_told_and_waited_for_until_it_goes() -> None:
    rig = await begin()
    policy = {"metadata": {"name": "train-pods"}, "spec": {"podSelector": {}}}
    rig.create(NETWORK_POLICIES, policy)
    for _ in range(3):
        await rig.pass_over(2)
        await rig.clock.advance(timedelta(seconds=61))
    told = rig.condition("NameTaken")
    assert told["status"] == "True"
    assert "train-pods" in told["message"]
    rig.cluster.remove(Ref(NETWORK_POLICIES, "team", "train-pods"))
    await rig.clock.advance(timedelta(seconds=61))
    await rig.pass_over(4)
    assert len(rig.names(PODS)) == 3
    assert rig.condition("NameTaken")["status"] == "False"


async def test_a_write_of_unknown_outcome_is_read_before_anything_else_is_done() -> None:
    rig = ReconcilerRig()
    rig.create(TRAINING_JOBS, make_job())
    rig.look()
    rig.log.faults.append(lose_answers(TRAINING_JOBS))
    await rig.pass_over()
    assert [call.verb for call in rig.log.calls] == ["patch", "get"]
    assert rig.store.find_job(KEY).status.epoch == 1  # type: ignore[union-attr]


@pytest.mark.point("ssh-keys")
async def test_keys_are_never_read_and_those_of_an_unknown_outcome_are_used_by_nobody() -> None:
    rig = await begin(launcherAttachMode="ssh")
    rig.log.faults.append(lose_answers(SECRETS))
    await rig.pass_over(2)
    assert rig.names(PODS) == []
    unknown = rig.names(SECRETS)
    rig.log.faults.clear()

    await rig.pass_over(4)

    [used] = set(rig.names(SECRETS)) - set(unknown)
    assert rig.cluster.get(Ref(TRAINING_JOBS, "team", "train"))["status"]["keysSecret"] == used
    assert {find_secret(rig, pod) for pod in rig.names(PODS)} == {used}
    assert len(rig.names(PODS)) == 3
    assert {call.verb for call in rig.log.calls if call.ref.resource == SECRETS} == {"create"}
    assert rig.store.made_keys == {}


async def test_a_secret_that_was_there_first_is_mounted_by_nobody() -> None:
    rig = await begin(launcherAttachMode="ssh")
    uid = rig.cluster.get(Ref(TRAINING_JOBS, "team", "train"))["metadata"]["uid"]
    for name in (f"train-ssh-{uid}", "train-ssh-", "train-ssh"):
        with suppress(Refused):
            rig.cluster.create(SECRETS, "team", {"metadata": {"name": name}})
    squatted = set(rig.names(SECRETS))
    await rig.pass_over(5)
    assert len(rig.names(PODS)) == 3
    assert not {find_secret(rig, pod) for pod in rig.names(PODS)} & squatted


def find_secret(rig: ReconcilerRig, pod: str) -> str:
    """The Secret that this pod mounts."""
    volumes = rig.cluster.get(Ref(PODS, "team", pod))["spec"]["volumes"]
    [name] = [volume["secret"]["secretName"] for volume in volumes if "secret" in volume]
    return str(name)


async def test_a_right_that_comes_late_brings_the_keys_and_then_the_pods() -> None:
    rig = await begin(launcherAttachMode="ssh")
    rig.log.faults.append(refuse(SECRETS, "cannot create secrets"))
    await rig.pass_over(2)
    assert rig.names(PODS) == []
    assert "cannot create secrets" in rig.condition("WritesRefused")["message"]
    rig.log.faults.clear()
    await rig.clock.advance(timedelta(seconds=10))

    await rig.pass_over(3)

    assert len(rig.names(PODS)) == 3
    assert rig.condition("WritesRefused")["status"] == "False"


async def test_a_large_report_that_was_listed_before_its_job_is_read_before_it_is_judged() -> None:
    rig = await begin_to_run()
    end_launcher(rig, ended=0)
    report, key = Ref(CONFIG_MAPS, "team", "train-report"), build_report_key(1)
    text = rig.cluster.get(report)["data"][key]
    rig.cluster.patch(report, {"data": {key: text + " " * 10_000}})
    rig.store, late = Store(), {TRAINING_JOBS: ""}
    rig.ingest = Ingest(rig.store)
    rig.reconciler = rig.build(rig.api)
    rig.look({kind: text for kind, text in WATCHED.items() if kind not in late})
    rig.look(late)

    await rig.reconciler.reconcile(KEY)

    assert rig.condition("Succeeded")["status"] == "True"
    reads = [call.ref.name for call in rig.log.calls if call.verb == "get"]
    assert reads.count("train-report") == 1


async def test_a_job_that_vanished_is_forgotten() -> None:
    rig = ReconcilerRig()
    rig.create(TRAINING_JOBS, make_job())
    rig.look()
    rig.cluster.remove(Ref(TRAINING_JOBS, "team", "train"))
    await rig.pass_over()
    assert rig.store.find_job(KEY) is None
    assert await rig.pass_over() == ("unchanged", None)


# ------------------------------------------------------------------ what a decision rests on
async def test_a_command_that_ended_well_is_not_run_again_if_its_pod_is_seen_to_go_first() -> None:
    rig = await begin_to_run()
    end_launcher(rig, ended=0)
    rig.look({PODS: WATCHED[PODS]})  # the report's watch lags behind
    await rig.pass_over(4)
    assert rig.status()["phase"] == "Succeeded"
    assert rig.status()["epoch"] == 1


async def test_a_launcher_that_did_not_tell_its_end_is_restarted() -> None:
    rig = await begin_to_run()
    end_launcher(rig, ended=None)
    rig.look()
    await rig.pass_over(2)
    assert rig.status()["epoch"] == 2


async def test_an_end_is_not_judged_while_the_report_cannot_be_read() -> None:
    rig = await begin_to_run()
    end_launcher(rig, ended=0)
    rig.look({PODS: WATCHED[PODS]})

    def strike(call: Call, moment: Moment) -> None:
        if call.verb == "get":
            raise OutcomeUnknown("no answer")

    rig.log.faults.append(strike)
    with pytest.raises(OutcomeUnknown):
        await rig.pass_over()
    assert rig.status()["epoch"] == 1


async def test_a_scaling_that_has_ended_is_not_begun_again_by_who_has_not_seen_its_end() -> None:
    rig = await begin_to_run()
    rig.create(SCALE_OUTS, make_scale_out("more"))
    ref = Ref(SCALE_OUTS, "team", "more")
    rig.look()
    ended = {"status": {"phase": "ScaleSucceeded"}}
    rig.cluster.patch(ref, ended, subresource="status")
    await rig.pass_over(3)
    assert "scaling" not in rig.status()
    assert len(rig.names(PODS)) == 3


class Overtaken(FakeApi):
    """An API server whose answer to a read comes after the news of what happens meanwhile."""

    def __init__(self, rig: ReconcilerRig, ref: Ref, meanwhile: Callable[[], object]) -> None:
        super().__init__(rig.cluster, rig.log)
        self._rig = rig
        self._ref = ref
        self._meanwhile = [meanwhile]

    async def get(self, ref: Ref) -> Json:
        try:
            return await super().get(ref)
        finally:
            while ref == self._ref and self._meanwhile:
                self._meanwhile.pop()()
                self._rig.look()


async def test_what_is_made_anew_while_its_name_was_found_missing_is_known() -> None:
    rig = await begin_to_run()
    ref = Ref(SCALE_OUTS, "team", "more")
    rig.create(SCALE_OUTS, make_scale_out("more"))
    rig.look()
    await rig.pass_over()
    rig.cluster.remove(ref)
    again = lambda: rig.create(SCALE_OUTS, make_scale_out("more"))  # noqa: E731
    rig.reconciler = rig.build(Overtaken(rig, ref, again))
    await rig.pass_over(6)
    uid = rig.cluster.get(ref)["metadata"]["uid"]
    assert rig.store.scale_outs.find_uid(("team", "more")) == uid
    assert rig.status()["scaling"]["uid"] == uid


async def test_a_plan_is_made_anew_where_a_watch_is_faster_than_the_read_that_it_rests_on() -> None:
    rig = await begin_to_run()
    rig.create(SCALE_OUTS, make_scale_out("more"))
    ref = Ref(SCALE_OUTS, "team", "more")
    rig.look()
    ended = {"status": {"phase": "ScaleSucceeded"}}
    end = lambda: rig.cluster.patch(ref, ended, subresource="status")  # noqa: E731
    rig.reconciler = rig.build(Overtaken(rig, ref, end))
    results = [await rig.pass_over() for _ in range(3)]
    assert (STALE, None) in results
    assert "scaling" not in rig.status()
    assert len(rig.names(PODS)) == 3


def take_over(rig: ReconcilerRig, *missing: str) -> ReconcilerRig:
    """A new leader on the same cluster, whose list of pods is older than this one."""
    successor = ReconcilerRig()
    successor.cluster, successor.clock = rig.cluster, rig.clock
    successor.reconciler = successor.build(rig.api)
    successor.look({kind: what for kind, what in WATCHED.items() if kind != PODS})
    pods = [pod for pod in rig.cluster.list(PODS) if pod["metadata"]["name"] not in missing]
    successor.ingest.sync(PODS, None, pods, version="1", at=rig.clock.monotonic())
    return successor


@pytest.mark.parametrize("missing", ["train-launcher", "train-worker-1"])
async def test_a_pod_that_an_old_list_misses_is_looked_for_and_not_replaced(missing: str) -> None:
    rig = await begin_to_run()
    before = rig.names(PODS)
    successor = take_over(rig, missing)
    await successor.pass_over(4)
    assert rig.names(PODS) == before
    assert rig.status()["epoch"] == 1
    assert successor.events == []


async def test_many_workers_that_an_old_list_misses_are_looked_for_and_not_replaced() -> None:
    rig = await begin(workers=2 * SINGLE_READS)
    await rig.pass_over(4)
    before = rig.names(PODS)
    successor = take_over(rig, *(name for name in before if "worker" in name))
    rig.log.calls.clear()
    await successor.pass_over(4)
    assert rig.names(PODS) == before
    assert len([c for c in rig.log.calls if c.verb == "list" and c.ref.resource == PODS]) == 1
    assert not [c for c in rig.log.calls if c.verb == "get" and c.ref.resource == PODS]


class Outrun(FakeApi):
    """An API server whose lists of pods come after the news of the pods that are in them."""

    def __init__(self, rig: ReconcilerRig) -> None:
        super().__init__(rig.cluster, rig.log)
        self._rig = rig

    async def list(self, *args: Any, **how: Any) -> Listing:
        self._rig.look()
        return await super().list(*args, **how)


@pytest.mark.parametrize("workers", [2, 2 * SINGLE_READS])
async def test_a_watch_that_is_faster_than_the_list_that_a_plan_rests_on(workers: int) -> None:
    rig = await begin(workers=workers)
    await rig.pass_over(4)
    before = rig.names(PODS)
    successor = take_over(rig, *(name for name in before if "worker" in name))
    successor.reconciler = successor.build(Outrun(successor))
    assert await successor.pass_over() == (STALE, None)
    await successor.pass_over(4)
    assert rig.names(PODS) == before
    assert successor.events == []


@pytest.mark.long
async def test_a_worker_of_whom_nothing_is_known_is_looked_for_before_another_is_named() -> None:
    rig = await begin_to_run()
    job = Ref(TRAINING_JOBS, "team", "train")
    rig.cluster.patch(job, {"status": {"workers": None}}, subresource="status")
    before = rig.names(PODS)
    successor = take_over(rig, "train-worker-1")
    await successor.pass_over(4)
    assert rig.names(PODS) == before


def add_neighbour(rig: ReconcilerRig, name: str = "other-worker-7") -> Ref:
    """A pod of another job, with the labels of the first one's workers."""
    rig.create(TRAINING_JOBS, make_job("other"))
    rig.look()
    uid = rig.cluster.get(Ref(TRAINING_JOBS, "team", "other"))["metadata"]["uid"]
    pod = copy.deepcopy(dict(rig.cluster.get(Ref(PODS, "team", "train-worker-0"))))
    owner = {**pod["metadata"]["ownerReferences"][0], "name": "other", "uid": uid}
    for field in ("uid", "resourceVersion", "creationTimestamp"):
        del pod["metadata"][field]
    pod["metadata"] |= {"name": name, "ownerReferences": [owner]}
    rig.create(PODS, pod)
    return Ref(PODS, "team", name)


class Restless(FakeApi):
    """An API server on which somebody changes a pod of his right before each read of pods."""

    def __init__(self, rig: ReconcilerRig, pod: Ref) -> None:
        super().__init__(rig.cluster, rig.log)
        self._rig, self._pod, self._count = rig, pod, 0

    async def get(self, ref: Ref) -> Json:
        self._change(ref.resource)
        return await super().get(ref)

    async def list(self, resource: Resource, *args: Any, **how: Any) -> Listing:
        self._change(resource)
        return await super().list(resource, *args, **how)

    def _change(self, resource: Resource) -> None:
        if resource == PODS:
            self._count += 1
            cost = {ANNOTATION_DELETION_COST: str(self._count)}
            self._rig.cluster.patch(self._pod, {"metadata": {"annotations": cost}})


@pytest.mark.parametrize("name", ["other-worker-7", "train-worker-1"])
async def test_who_changes_his_own_pod_all_the_time_holds_up_no_other_job(name: str) -> None:
    rig = await begin_to_run()
    rig.cluster.remove(Ref(PODS, "team", "train-worker-1"))
    pod = add_neighbour(rig, name)
    rig.look()
    rig.reconciler = rig.build(Restless(rig, pod))
    results = [(await rig.pass_over())[0] for _ in range(4)]
    assert STALE not in results
    assert rig.status()["lastWorkerIndex"] == 2  # another takes the place of the one that went


async def test_a_change_of_a_pod_that_the_list_shows_is_looked_at_after_the_plan() -> None:
    rig = await begin_to_run()
    rig.cluster.remove(Ref(PODS, "team", "train-worker-1"))
    rig.look()
    while rig.queue.depth:
        rig.queue.done(await rig.queue.get())
    rig.reconciler = rig.build(Restless(rig, Ref(PODS, "team", "train-worker-0")))
    results = [(await rig.pass_over())[0] for _ in range(2)]
    assert STALE not in results
    assert rig.queue.depth == 1


async def test_of_a_pod_that_was_only_tried_nothing_is_read() -> None:
    def refuse(call: Call, moment: Moment) -> None:
        if call.verb == "dry-run" and moment is Moment.BEFORE:
            raise Conflict(409, "Conflict", "the quota has been modified")

    rig = await begin(queue="main")
    rig.log.faults.append(refuse)
    await rig.pass_over(3)
    tried = [call for call in rig.log.calls if call.verb == "dry-run"]
    assert tried
    assert not [c for c in rig.log.calls if c.verb == "get" and c.ref in {t.ref for t in tried}]


async def test_a_plan_that_does_not_hold_is_made_anew_after_a_pause_that_grows() -> None:
    rig = await begin(workers=2)
    await rig.pass_over(4)
    successor = take_over(rig, "train-worker-0", "train-worker-1")
    successor.reconciler = successor.build(Outrun(successor))
    while successor.queue.depth:
        successor.queue.done(await successor.queue.get())
    assert await successor.pass_over() == (STALE, None)
    assert (successor.queue.depth, successor.queue.delayed) == (0, 1)


async def test_what_a_live_read_shows_of_another_job_brings_that_one_back() -> None:
    rig = await begin_to_run()
    add_neighbour(rig)
    other = JobKey("team", "other")
    while rig.queue.depth:
        rig.queue.done(await rig.queue.get())
    await rig.reconciler._beliefs.is_mistaken(KEY, Plan(premises=(Ref(PODS, "team", ""),)))
    assert await rig.queue.get() == other


async def test_nothing_is_made_again_for_a_job_that_is_gone_though_it_is_not_seen_to_go() -> None:
    rig = await begin_to_run()
    rig.cluster.remove(Ref(TRAINING_JOBS, "team", "train"))
    rig.cluster.remove(Ref(ROLES, "team", *rig.names(ROLES)))
    rig.look({ROLES: WATCHED[ROLES]})
    await rig.pass_over(2)
    assert rig.names(ROLES) == []


# ------------------------------------------------------------------ deletions of what is not there
async def test_what_is_not_there_any_more_is_forgotten_at_once() -> None:
    rig = await begin_to_run()
    rig.cluster.patch(
        Ref(TRAINING_JOBS, "team", "train"), {"spec": {"suspend": True}}, subresource=""
    )
    rig.look()
    await rig.pass_over()
    launcher = Ref(PODS, "team", "train-launcher")
    rig.cluster.remove(launcher)
    await rig.pass_over(2)
    assert rig.writes(PODS)[-1].verb == "delete"
    assert {c.ref.name for c in rig.writes(PODS)[-2:]} == {"train-worker-0", "train-worker-1"}


# ------------------------------------------------------------------ defects
async def test_a_defect_met_by_one_job_does_not_stop_another() -> None:
    rig = ReconcilerRig()
    for name in ("broken", "train"):
        rig.create(TRAINING_JOBS, make_job(name))
    rig.look()
    broken = JobKey("team", "broken")
    rig.store.jobs.amend(
        ("team", "broken"),
        rig.store.find_job(broken).uid,
        lambda job: replace(job, status=replace(job.status, conditions=None)),  # type: ignore[arg-type]
        rig.clock.monotonic(),
    )
    rig.queue.add(broken)
    rig.queue.add(KEY)
    has_written = asyncio.Event()

    def note(call: Call, moment: Moment) -> None:
        if call.is_write and moment is Moment.AFTER:
            has_written.set()

    rig.log.faults.append(note)
    async with asyncio.TaskGroup() as group:
        work = group.create_task(rig.reconciler.work())
        await has_written.wait()
        work.cancel()
    assert rig.cluster.get(Ref(TRAINING_JOBS, "team", "train"))["status"]["epoch"] == 1
    assert rig.queue.delayed == 1


async def run_passes(rig: ReconcilerRig, *, seconds: float = 0) -> None:
    """Let a worker look at the job, and at whatever is due within so many seconds."""
    rig.queue.add(KEY)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(rig.reconciler.work()), group.create_task(rig.queue.run())]
        await rig.clock.settle()
        await rig.clock.advance(timedelta(seconds=seconds))
        for task in tasks:
            task.cancel()


class Broken(Reconciler):
    """One whose passes meet an error that nobody foresaw."""

    async def reconcile(self, key: JobKey) -> tuple[str, timedelta | None]:
        raise TypeError(f"nobody foresaw {key} {object()}")


async def test_a_job_that_cannot_be_planned_is_told_so_once() -> None:
    rig = await begin()
    rig.reconciler = rig.build(rig.api, Broken)
    await run_passes(rig, seconds=60)
    condition = rig.condition("PlanningFailed")
    assert (condition["status"], condition["reason"]) == ("True", "TypeError")
    assert "nobody foresaw team/train" in condition["message"]
    assert "pod template" in condition["message"]
    assert [e.reason for e in rig.events].count("PlanningFailed") == 1
    assert rig.metrics.passes.labels("error")._value.get() > 3
    told = [call for call in rig.writes(TRAINING_JOBS) if "PlanningFailed" in str(call.body)]
    assert len(told) == 1
    assert told[0].body["status"]["trouble"] == "PlanningFailed"


async def test_a_job_that_can_be_planned_again_says_that_it_is_over() -> None:
    rig = await begin()
    rig.reconciler = rig.build(rig.api, Broken)
    await run_passes(rig)
    rig.reconciler = rig.build(rig.api)
    await run_passes(rig, seconds=60)
    assert rig.condition("PlanningFailed")["status"] == "False"
    assert "train-worker-0" in rig.names(PODS)


async def test_a_read_that_fails_is_waited_out_as_the_server_asked_and_is_no_defect() -> None:
    rig = await begin_to_run()
    end_launcher(rig, ended=None)
    rig.look()
    reads: list[float] = []

    def strike(call: Call, moment: Moment) -> None:
        if call.verb == "get" and moment is Moment.BEFORE:
            reads.append(rig.clock.monotonic())
            raise Throttled(429, "TooManyRequests", "slow down", timedelta(seconds=30))

    rig.log.faults.append(strike)
    await run_passes(rig, seconds=29)
    assert len(reads) == 1
    await run_passes(rig, seconds=2)
    assert len(reads) == 2
    assert rig.metrics.passes.labels("error")._value.get() == 0
    assert rig.metrics.passes.labels("unanswered")._value.get() == 2
    assert not rig.condition("PlanningFailed")


def test_the_shortest_of_waits_may_be_none_at_all() -> None:
    second = timedelta(seconds=1)
    assert find_shortest(None, second, timedelta()) == timedelta()
    assert find_shortest(None, None) is None


# ------------------------------------------------------------------ clocks
@pytest.mark.parametrize("days", [1, -1])
async def test_by_a_clock_far_from_the_servers_nobody_is_ended_for_a_time_that_is_over(
    days: int,
) -> None:
    """Another leader's machine: each job with a deadline would be given up a minute later."""
    rig = await begin(activeDeadlineSeconds=3600)
    clock = WrongClock(rig.clock)
    clock.off = timedelta(days=days)
    drift = abs(clock.off)
    rig.reconciler = Reconciler(
        store=rig.store,
        api=rig.api,
        executor=Executor(
            rig.api, rig, keep=rig.ingest.read, requests_at_once=4, now=rig.clock.monotonic
        ),
        queue=rig.queue,
        clock=clock,
        shipped=SHIPPED,
        metrics=rig.metrics,
        find_drift=lambda: drift,
    )
    for _ in range(5):
        await rig.pass_over()
        rig.look()
        await rig.clock.advance(timedelta(minutes=2))
    assert not rig.condition("Failed")
    drift = timedelta()
    if days > 0:
        await rig.pass_over(2)
        assert rig.condition("Failed")["reason"] == "DeadlineExceeded"


# ------------------------------------------------------------------ orphans
async def test_scalings_of_no_job_are_told_so_after_their_grace() -> None:
    rig = ReconcilerRig()
    for name in ("one", "two"):
        rig.create(SCALE_OUTS, make_scale_out(name))
    rig.look()
    assert await rig.pass_over() == ("unchanged", timedelta(seconds=30))
    await rig.clock.advance(timedelta(seconds=30))
    await rig.pass_over()
    for name in ("one", "two"):
        status = rig.cluster.get(Ref(SCALE_OUTS, "team", name))["status"]
        assert status["conditions"][-1]["reason"] == "JobNotFound"
        assert "team/train" in status["conditions"][-1]["message"]


async def test_a_scaling_of_a_job_that_no_watch_has_told_of_yet_does_not_fail() -> None:
    """A connection that is dead is noticed a minute later."""
    rig = ReconcilerRig()
    rig.create(SCALE_OUTS, make_scale_out("one"))
    rig.look()
    rig.create(TRAINING_JOBS, make_job())
    await rig.clock.advance(timedelta(seconds=31))
    assert await rig.pass_over() == (STALE, None)
    await rig.pass_over(5)
    assert rig.cluster.get(Ref(SCALE_OUTS, "team", "one"))["status"]["phase"] == "Scaling"
    assert rig.status()["epoch"] == 1


async def test_a_scaling_of_no_job_that_may_not_be_written_to_is_tried_ever_more_slowly() -> None:
    """Though another one of the same job has nothing to be told any more."""
    rig = ReconcilerRig()
    for name in ("one", "two"):
        rig.create(SCALE_OUTS, make_scale_out(name))
    rig.look()
    await rig.clock.advance(timedelta(seconds=30))

    def strike(call: Call, moment: Moment) -> None:
        if moment is Moment.BEFORE and call.is_write and call.ref.name == "one":
            raise Refused(403, "Forbidden", "frozen")

    rig.log.faults.append(strike)
    assert await work(rig, 60) < 10
    assert rig.cluster.get(Ref(SCALE_OUTS, "team", "two"))["status"]["phase"] == "ScaleFailed"


async def test_thousands_of_scalings_of_no_job_are_told_a_few_at_a_time() -> None:
    rig = ReconcilerRig()
    for number in range(3 * MOST_ANSWERS):
        rig.create(SCALE_OUTS, make_scale_out(f"out-{number}"))
    rig.look()
    await rig.clock.advance(timedelta(seconds=30))
    await rig.pass_over()
    assert len(rig.writes(SCALE_OUTS)) == MOST_ANSWERS
    await work(rig, 3)
    assert len(rig.writes(SCALE_OUTS)) == 3 * MOST_ANSWERS


async def test_scalings_of_no_job_that_may_not_be_written_to_hold_up_no_other() -> None:
    rig = ReconcilerRig()
    for number in range(MOST_ANSWERS + 1):
        rig.create(SCALE_OUTS, make_scale_out(f"out-{number}"))
    rig.look()
    await rig.clock.advance(timedelta(seconds=30))
    last = f"out-{MOST_ANSWERS}"

    def strike(call: Call, moment: Moment) -> None:
        if moment is Moment.BEFORE and call.is_write and call.ref.name != last:
            raise Refused(403, "Forbidden", "frozen")

    rig.log.faults.append(strike)
    await work(rig, 2)
    assert rig.cluster.get(Ref(SCALE_OUTS, "team", last))["status"]["phase"] == "ScaleFailed"
