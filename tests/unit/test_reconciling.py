"""One pass against a cluster in memory: what the server's answers do to the next pass."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from et_contract.documents import Report as BrokerReport
from et_contract.documents import encode_report
from et_contract.names import build_report_key
from et_contract.pods import Role
from et_kube.api import Listing
from et_kube.errors import (
    ApiError,
    Conflict,
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
from et_operator.model.jobs import JobKey, Runtime
from et_operator.model.names import ANNOTATION_DELETION_COST, build_labels, build_runtime_name
from et_operator.model.plans import Plan
from et_operator.model.snapshots import Refusal, RuntimeFiles
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
from et_process.workqueue import ShutDown, WorkQueue
from fakes.clients import Call, FakeApi, Fault, Moment
from tests.makers import make_job, make_scale_out
from tests.unit import benches

KEY = JobKey("team", "train")
FILES = {"launcher/boot.py": ""}
DIGEST = hash_files(FILES)
SHIPPED = RuntimeFiles(Runtime(DIGEST, "broker:1"), FILES)


pytestmark = pytest.mark.usefixtures("quiet_logs")


class Bench(benches.Bench):
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
            executor=Executor(api, self, requests_at_once=4, now=self.clock.monotonic),
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
        return list(self._known.taken)

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


async def begin(**fields: Any) -> Bench:
    """A job whose first decision is recorded, right before anything is created for it."""
    bench = Bench()
    bench.create(TRAINING_JOBS, make_job(**fields))
    bench.look()
    await bench.pass_over()
    return bench


async def begin_to_run() -> Bench:
    """A job whose pods are there, with the launcher's uid in its status."""
    bench = await begin()
    await bench.pass_over(3)
    return bench


def end_launcher(bench: Bench, *, ended: int | None) -> None:
    """Its broker tells how the command ended (None: it does not), and the pod is gone."""
    launcher = Ref(PODS, "team", "train-launcher")
    uid = bench.cluster.get(launcher)["metadata"]["uid"]
    report = encode_report(BrokerReport(1, uid, 1, ended=ended))
    patch = {"data": {build_report_key(1): report}}
    bench.cluster.patch(Ref(CONFIG_MAPS, "team", "train-report"), patch)
    bench.cluster.remove(launcher)


def refuse(
    resource: Resource, words: str, *, verb: str = "create", error: ApiError | None = None
) -> Fault:
    def strike(call: Call, moment: Moment) -> None:
        if moment is Moment.BEFORE and call.verb == verb and call.ref.resource == resource:
            raise error or Refused(403, "Forbidden", words)

    return strike


# ------------------------------------------------------------------ conflicts
async def test_a_conflict_reads_the_object_again_and_the_next_pass_goes_on() -> None:
    bench = Bench()
    bench.create(TRAINING_JOBS, make_job())
    bench.look()
    ref = Ref(TRAINING_JOBS, "team", "train")
    bench.cluster.patch(ref, {"metadata": {"annotations": {"seen": "later"}}})
    outcome, _ = await bench.pass_over()
    assert outcome == "conflict"
    known = bench.store.find_job(KEY)
    assert known is not None
    assert known.resource_version == bench.cluster.get(ref)["metadata"]["resourceVersion"]
    assert (await bench.pass_over())[0] == "changed"
    assert bench.cluster.get(ref)["status"]["epoch"] == 1


async def test_a_namesake_of_a_job_that_is_gone_gets_nothing_of_its_decisions() -> None:
    bench = Bench()
    bench.create(TRAINING_JOBS, make_job(workers=3))
    bench.look()
    ref = Ref(TRAINING_JOBS, "team", "train")
    bench.cluster.remove(ref)
    namesake = bench.create(TRAINING_JOBS, make_job(workers=1))
    assert (await bench.pass_over())[0] == "conflict"
    await bench.pass_over(3)
    pods = bench.cluster.list(PODS, "team")
    assert [pod["metadata"]["name"] for pod in pods] == ["train-launcher", "train-worker-0"]
    owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods}
    assert owners == {namesake["metadata"]["uid"]}


async def test_a_write_that_changed_nothing_does_not_ask_for_another_pass() -> None:
    class Deaf(FakeApi):
        async def patch(self, ref: Ref, body: Any, **how: Any) -> Json:
            return self._cluster.get(ref)

    bench = Bench()
    bench.create(TRAINING_JOBS, make_job())
    bench.look()
    bench.reconciler = bench.build(Deaf(bench.cluster, bench.log))
    outcome, again = await bench.pass_over()
    assert (outcome, again, bench.queue.depth) == ("refused", None, 0)


async def test_a_crd_that_drops_decisions_is_told_and_makes_no_storm_of_writes() -> None:
    class Older(FakeApi):
        async def patch(self, ref: Ref, body: Any, **how: Any) -> Json:
            if how.get("subresource") == "status":
                body = {**body, "status": {**body["status"], "workers": None}}
            return await super().patch(ref, body, **how)

    bench = Bench()
    bench.create(TRAINING_JOBS, make_job())
    bench.look()
    bench.reconciler = bench.build(Older(bench.cluster, bench.log))
    for _ in range(5):
        outcome, again = await bench.pass_over()
        assert (outcome, again, bench.queue.depth) == ("refused", None, 0)
    [message] = {report.message for report in bench.events if report.reason == "WritesRefused"}
    assert "does not keep status.workers: the CRDs in this cluster" in message


async def work(bench: Bench, seconds: int) -> int:
    """Let a worker do what becomes due in this time; how many writes that took."""
    before = len(bench.log.calls)
    bench.queue.add(KEY)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(bench.reconciler.work()), group.create_task(bench.queue.run())]
        for _ in range(seconds * 5):
            await bench.clock.advance(timedelta(seconds=0.2))
        for task in tasks:
            task.cancel()
    return len([call for call in bench.log.calls[before:] if call.is_write])


async def test_decisions_that_are_not_kept_make_no_storm_where_the_watch_is_faster() -> None:
    """The event of what was kept comes before the answer, and is news."""

    class Older(FakeApi):
        async def patch(self, ref: Ref, body: Any, **how: Any) -> Json:
            if how.get("subresource") == "status":
                body = {**body, "status": {**body["status"], "workers": None}}
            stored = await super().patch(ref, body, **how)
            for key in bench.ingest.upsert(ref.resource, stored):
                bench.queue.add(key, cause="job")
            return stored

    bench = Bench()
    bench.create(TRAINING_JOBS, make_job())
    bench.look()
    bench.reconciler = bench.build(Older(bench.cluster, bench.log))
    assert await work(bench, 60) < 10


def take(key: str) -> Callable[[dict[str, Any]], None]:
    """A webhook that takes this away from what is created."""
    return lambda metadata: metadata.pop(key)


def relabel(metadata: dict[str, Any]) -> None:
    metadata["labels"] = {**metadata["labels"], "group-name": "team"}


async def run_beside_webhook(resource: Resource, alter: Callable[[dict[str, Any]], None]) -> Bench:
    """A while of a job's life in which a webhook alters all of one kind as it is created."""

    class Webhook(FakeApi):
        async def create(self, made: Resource, namespace: str | None, manifest: Json) -> Json:
            if made == resource:
                manifest = {**manifest, "metadata": dict(manifest["metadata"])}
                alter(manifest)
            return await super().create(made, namespace, manifest)

    bench = Bench()
    bench.create(TRAINING_JOBS, make_job())
    bench.look()
    bench.reconciler = bench.build(Webhook(bench.cluster, bench.log))
    for _ in range(12):
        await bench.pass_over()
        bench.look()
    created = [c for c in bench.log.calls if (c.verb, c.ref.resource) == ("create", resource)]
    assert len(created) <= 4
    return bench


@pytest.mark.parametrize("alter", [take("ownerReferences"), take("labels"), relabel])
async def test_pods_that_a_webhook_makes_somebody_elses_are_few_and_are_told(
    alter: Callable[[dict[str, Any]], None],
) -> None:
    bench = await run_beside_webhook(PODS, lambda manifest: alter(manifest["metadata"]))
    assert bench.names(PODS) == []
    assert "a mutating webhook" in bench.condition("PodsRefused")["message"]


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
    bench = await run_beside_webhook(resource, alter)
    assert "a mutating webhook" in bench.condition("WritesRefused")["message"]


# ------------------------------------------------------------------ names
async def test_an_object_of_ours_that_was_not_seen_yet_is_taken_in() -> None:
    bench = await begin()
    bench.log.faults.append(lose_answers(PODS))
    await bench.pass_over()
    bench.log.faults.clear()
    outcome, _ = await bench.pass_over()
    assert outcome == "changed"
    await bench.pass_over(2)
    assert bench.names(PODS) == ["train-launcher", "train-worker-0", "train-worker-1"]
    assert not bench.taken()


def lose_answers(resource: Resource) -> Fault:
    def strike(call: Call, moment: Moment) -> None:
        is_it = call.is_write and call.ref.resource == resource
        if is_it and moment is Moment.AFTER:
            raise OutcomeUnknown("the connection ended")

    return strike


async def test_a_name_that_somebody_else_holds_is_waited_for() -> None:
    bench = await begin()
    bench.create(SERVICE_ACCOUNTS, {"metadata": {"name": "train-launcher"}})
    await bench.pass_over()
    _, again = await bench.pass_over()
    assert again == timedelta(seconds=60)
    assert bench.condition("NameTaken")["status"] == "Unknown"
    assert len(bench.writes(SERVICE_ACCOUNTS)) == 1
    bench.cluster.remove(Ref(SERVICE_ACCOUNTS, "team", "train-launcher"))
    await bench.pass_over()
    assert len(bench.writes(SERVICE_ACCOUNTS)) == 1  # nobody tells us of what we do not watch
    await bench.clock.advance(timedelta(seconds=60))
    await bench.pass_over(3)
    assert "train-launcher" in bench.names(PODS)


async def test_what_a_former_job_of_the_name_holds_is_followed_to_its_end() -> None:
    bench = await begin()
    owner = make_owner("former")
    labels = build_labels("train")
    bench.create(
        CONFIG_MAPS,
        {"metadata": {"name": "train-report", "labels": labels, "ownerReferences": [owner]}},
    )
    bench.look()
    await bench.pass_over(2)
    assert bench.names(PODS) == []
    _, again = await bench.pass_over()
    assert again == timedelta(seconds=60)  # nobody asks meanwhile: the holder's end is an event
    bench.cluster.remove(Ref(CONFIG_MAPS, "team", "train-report"))
    assert bench.look() == {KEY}
    await bench.pass_over(3)
    assert "train-launcher" in bench.names(PODS)


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
    bench = await begin()
    job = bench.cluster.get(Ref(TRAINING_JOBS, "team", "train"))
    owner = make_owner(job["metadata"]["uid"])
    meta = {"name": "train-launcher", "labels": build_labels("train"), "ownerReferences": [owner]}
    bench.create(ROLES, {"metadata": meta, "rules": rules})
    bench.look()
    await bench.pass_over(4)
    assert bench.cluster.get(Ref(ROLES, "team", "train-launcher"))["rules"] == rules
    assert "train-launcher" not in bench.names(ROLE_BINDINGS)
    assert "train-launcher" in bench.names(PODS)


async def test_a_binding_that_was_there_before_the_role_gives_nothing() -> None:
    """Of a Role that was somebody's, and has gone: with an owner that does not exist it does."""
    bench = await begin()
    early = build_role_binding(decode_job(make_job()), "train-launcher", {"mallory"})
    early["metadata"] = {"name": "early", "labels": {}}
    bench.create(ROLE_BINDINGS, early)
    bench.look()
    await bench.pass_over(4)
    [role] = bench.names(ROLES)
    bindings = bench.cluster.list(ROLE_BINDINGS, "team")
    assert len(bindings) == 2
    given = [b["subjects"][0]["name"] for b in bindings if b["roleRef"]["name"] == role]
    assert given == ["train-launcher"]


@pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
async def test_a_binding_of_another_role_is_not_taken_for_the_jobs(kind: str) -> None:
    bench = await begin()
    await bench.pass_over()  # the Role is there
    [role] = bench.names(ROLES)
    job = bench.cluster.get(Ref(TRAINING_JOBS, "team", "train"))
    owner = make_owner(job["metadata"]["uid"])
    meta = {"name": role, "labels": build_labels("train"), "ownerReferences": [owner]}
    name = "other" if kind == "Role" else role
    other = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    bench.create(ROLE_BINDINGS, {"metadata": meta, "roleRef": other, "subjects": []})
    bench.look()
    await bench.pass_over(3)
    assert not bench.taken()
    bindings = bench.cluster.list(ROLE_BINDINGS, "team")
    [ours] = [b for b in bindings if b["roleRef"] == {**other, "kind": "Role", "name": role}]
    assert [subject["name"] for subject in ours["subjects"]] == ["train-launcher"]


async def test_a_binding_whose_answer_was_lost_gives_no_more_than_the_others() -> None:
    bench = await begin()
    bench.log.faults.append(lose_answers(ROLE_BINDINGS))
    await bench.pass_over(4)
    bench.log.faults.clear()
    await bench.clock.advance(timedelta(seconds=60))
    bench.look()
    spec = {"etReplicaSpecs": {"launcher": {"template": {"spec": {"serviceAccountName": "cloud"}}}}}
    bench.cluster.patch(Ref(TRAINING_JOBS, "team", "train"), {"spec": spec})
    bench.look()
    await bench.pass_over(4)
    bindings = bench.cluster.list(ROLE_BINDINGS, "team")
    assert len(bindings) > 1
    given = {tuple(s["name"] for s in binding["subjects"]) for binding in bindings}
    assert len(given) == 1
    assert "cloud" in given.pop()


async def test_a_role_whose_answer_was_lost_is_bound_once_and_no_other_beside_it() -> None:
    bench = await begin()
    bench.log.faults.append(lose_answers(ROLES))
    await bench.pass_over()
    bench.log.faults.clear()
    await bench.pass_over(3)
    bench.look()
    await bench.pass_over(3)
    assert len(bench.names(ROLES)) == 2
    [binding] = bench.cluster.list(ROLE_BINDINGS, "team")
    bound = binding["roleRef"]["name"]
    assert bound in bench.names(ROLES)
    snapshot = build_snapshot(bench.store, KEY, SHIPPED, bench.clock.now())
    assert snapshot is not None
    assert snapshot.role is not None
    assert snapshot.role.name == bound


async def test_a_role_that_is_not_the_one_any_more_grants_nothing() -> None:
    """As after a rollback: the older operator made one under the name that it knows."""
    bench = await begin_to_run()
    await bench.pass_over(3)
    [name] = bench.names(ROLES)
    for kind in (ROLES, ROLE_BINDINGS):
        [present] = bench.names(kind)
        older = copy.deepcopy(dict(bench.cluster.get(Ref(kind, "team", present))))
        for field in ("uid", "resourceVersion", "creationTimestamp"):
            del older["metadata"][field]
        older["metadata"]["name"] = "train-launcher"
        if kind == ROLE_BINDINGS:
            older["roleRef"] = {**older["roleRef"], "name": "train-launcher"}
        bench.create(kind, older)
    bench.look()
    await bench.pass_over(3)
    roles = [bench.cluster.get(Ref(ROLES, "team", found)) for found in bench.names(ROLES)]
    job = bench.store.find_job(KEY)
    assert job is not None
    granted = {role["metadata"]["name"]: decode_role_names(role, job.uid) for role in roles}
    assert granted[name] == frozenset()
    assert granted["train-launcher"] >= {"train-config", "train-worker-0", "train-worker-1"}


async def test_rights_come_back_where_somebody_removed_the_role() -> None:
    bench = await begin_to_run()
    [first] = bench.names(ROLES)
    bench.cluster.remove(Ref(ROLES, "team", first))
    bench.look()
    await bench.pass_over(4)
    [second] = bench.names(ROLES)
    assert second != first  # whoever removed it may have bound it meanwhile
    bindings = bench.cluster.list(ROLE_BINDINGS, "team")
    assert {binding["roleRef"]["name"] for binding in bindings} == {first, second}


async def test_what_ends_in_another_namespace_ends_no_job() -> None:
    bench = Bench()
    job = bench.create(TRAINING_JOBS, make_job())
    owner = make_owner(job["metadata"]["uid"])
    labels = build_labels("train", Role.LAUNCHER)
    meta = {"name": "train-launcher", "labels": labels, "ownerReferences": [owner]}
    bench.create(
        PODS, {"metadata": meta, "spec": {"containers": [{"name": "m", "image": "i"}]}}, "evil"
    )
    ended = [{"name": "m", "state": {"terminated": {"exitCode": 0}}}]
    bench.cluster.edit(
        Ref(PODS, "evil", "train-launcher"),
        lambda pod: pod.update(status={"phase": "Succeeded", "containerStatuses": ended}),
    )
    bench.look()
    await bench.pass_over(4)
    assert bench.status()["phase"] != "Succeeded"
    assert "train-launcher" in bench.names(PODS)


async def test_a_scaling_of_more_owners_than_are_kept_is_refused_and_keeps_them() -> None:
    bench = await begin_to_run()
    scaling = make_scale_out("grow")
    scaling["metadata"]["ownerReferences"] = [{**OTHER_OWNER, "uid": str(n)} for n in range(500)]
    bench.create(SCALE_OUTS, scaling)
    bench.look()
    await bench.pass_over(4)
    told = bench.cluster.get(Ref(SCALE_OUTS, "team", "grow"))
    assert told["status"]["phase"] == "ScaleFailed"
    assert "ownerReferences" in told["status"]["conditions"][-1]["message"]
    assert len(told["metadata"]["ownerReferences"]) == 500


@pytest.mark.parametrize("ended", [0, 1])
async def test_a_report_that_was_there_before_the_first_launcher_ends_nothing(ended: int) -> None:
    bench = Bench()
    job = bench.create(TRAINING_JOBS, make_job())
    uid = job["metadata"]["uid"]
    owner = make_owner(uid)
    meta = {"name": "train-report", "labels": build_labels("train"), "ownerReferences": [owner]}
    text = encode_report(BrokerReport(5, "nobody", 1, ended=ended))
    bench.create(CONFIG_MAPS, {"metadata": meta, "data": {build_report_key(5): text}})
    bench.look()
    await bench.pass_over(4)
    assert bench.status()["phase"] == "Created"
    assert "train-launcher-r5" in bench.names(PODS)


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
    "with our keys in bytes": {"binaryData": {"config.json": "eA==", "report-1": "eA=="}},
    "full of labels": {"labels": {f"label-{n}": "y" * 60 for n in range(2_000)}},
}


@pytest.mark.parametrize("document", ["config", "report"])
@pytest.mark.parametrize("is_seen", [True, False])
@pytest.mark.parametrize("body", NEVER_WRITTEN.values(), ids=list(NEVER_WRITTEN))
async def test_a_document_that_can_never_be_written_is_somebody_elses(
    document: str, is_seen: bool, body: dict[str, Any]
) -> None:
    bench = Bench()
    uid = bench.create(TRAINING_JOBS, make_job())["metadata"]["uid"]
    bench.look()
    owner = make_owner(uid)
    name = f"train-{document}"
    labels = {**build_labels("train"), **body.get("labels", {})}
    meta = {"name": name, "labels": labels, "ownerReferences": [owner]}
    bench.create(CONFIG_MAPS, {**body, "metadata": meta})
    if is_seen:
        bench.look()
    await bench.pass_over(4)
    assert name in bench.condition("NameTaken")["message"]
    assert not bench.names(PODS)
    bench.cluster.remove(Ref(CONFIG_MAPS, "team", name))
    bench.look()
    await bench.clock.advance(timedelta(seconds=60))
    await bench.pass_over(3)
    assert "train-launcher" in bench.names(PODS)


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
    bench = Bench()
    uid = bench.create(TRAINING_JOBS, make_job())["metadata"]["uid"]
    bench.look()
    meta = {"name": f"train-{document}", "labels": build_labels("train")}
    meta["ownerReferences"] = [make_owner(uid, **other)]
    bench.create(CONFIG_MAPS, {"metadata": meta})
    if is_seen:
        bench.look()
    await bench.pass_over(4)
    assert f"train-{document}" in bench.condition("NameTaken")["message"]
    assert not bench.names(PODS)


async def test_what_a_broker_has_written_and_others_have_added_to_it_stays_the_jobs() -> None:
    bench = await begin_to_run()
    note = {"note": "y" * 10_000}
    bench.cluster.patch(
        Ref(CONFIG_MAPS, "team", "train-report"),
        {
            "binaryData": {"picture": "eA=="},
            "data": {build_report_key(1): FULL, **note},
            "metadata": {"annotations": note},
        },
    )
    bench.look()
    await bench.pass_over(3)
    assert not bench.taken()


def list_selected() -> list[tuple[Resource, str]]:
    """Each kind that is watched by labels, with each of these."""
    selected = ((kind, term) for kind, text in WATCHED.items() for term in text.split(",") if term)
    return [(kind, term.partition("=")[0]) for kind, term in selected]


async def plant(resource: Resource, true: Json, lost: str) -> tuple[Bench, str]:
    """A job that met the same without this label, before its first pass; and the uid of that."""
    bench = Bench()
    job = bench.create(TRAINING_JOBS, make_job())["metadata"]["uid"]
    manifest = copy.deepcopy(dict(true))
    manifest.get("spec", {}).pop("serviceAccountName", None)  # of a pod's there is none yet
    meta = manifest["metadata"]
    labels = {key: value for key, value in meta["labels"].items() if key != lost}
    owners = [{**owner, "uid": job} for owner in meta.get("ownerReferences", ())]
    manifest["metadata"] = {"name": meta["name"], "labels": labels, "ownerReferences": owners}
    planted = bench.create(resource, manifest)["metadata"]["uid"]
    bench.look()
    await bench.pass_over(5)
    return bench, planted


@pytest.mark.parametrize(("resource", "label"), list_selected(), ids=str)
async def test_what_our_watch_does_not_show_is_nobodys(resource: Resource, label: str) -> None:
    made = (await begin_to_run()).cluster.list(resource, "team")
    assert made
    for true in made:
        bench, planted = await plant(resource, true, label)
        snapshot = build_snapshot(bench.store, KEY, SHIPPED, None)
        assert planted not in repr(snapshot)
        if resource in {ROLES, ROLE_BINDINGS}:  # the server makes up their names
            assert len(bench.names(resource)) == 2
        else:
            assert bench.taken() == [Ref(resource, "team", true["metadata"]["name"])]


@pytest.mark.parametrize("name", ["train-report", "train-config", build_runtime_name(DIGEST)])
async def test_a_document_without_its_label_is_taken_back_and_told(name: str) -> None:
    """As a policy of the cluster makes it of what anybody creates, until we are exempt."""
    bench = await begin()
    create = bench.cluster.create

    def alter(resource: Resource, namespace: str | None, manifest: Json, **how: Any) -> Any:
        meta = manifest["metadata"]
        is_met = resource == CONFIG_MAPS and meta["name"] == name
        return create(
            resource,
            namespace,
            {**manifest, "metadata": {**meta, "labels": {}}} if is_met else manifest,
            **how,
        )

    bench.cluster.create = alter  # type: ignore[method-assign]
    await bench.pass_over(4)
    assert name not in bench.names(CONFIG_MAPS)
    assert "label group-name: a mutating webhook" in bench.condition("WritesRefused")["message"]
    assert not bench.names(PODS)

    bench.cluster.create = create  # type: ignore[method-assign]
    await bench.clock.advance(timedelta(minutes=5))
    await bench.pass_over(4)
    assert "train-launcher" in bench.names(PODS)


async def test_two_jobs_share_the_runtime_that_either_has_made() -> None:
    bench = await begin()
    bench.create(CONFIG_MAPS, build_runtime("team", SHIPPED))
    await bench.pass_over(3)
    assert not bench.taken()
    assert "train-launcher" in bench.names(PODS)


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
    bench = await begin()
    squatted: dict[str, Any] = {**build_runtime("team", SHIPPED), **change}
    true = build_runtime("team", SHIPPED)["metadata"]
    squatted["metadata"] = {**true, **change.get("metadata", {})}
    if not is_labelled:
        squatted["metadata"] = {**squatted["metadata"], "labels": {}}
    bench.cluster.create(CONFIG_MAPS, "team", squatted)
    bench.look()
    for _ in range(70):
        await bench.pass_over()
        await bench.clock.advance(timedelta(seconds=1))
    assert bench.names(PODS) == []
    assert build_runtime_name(SHIPPED.runtime.digest) in bench.condition("NameTaken")["message"]

    bench.cluster.remove(Ref(CONFIG_MAPS, "team", squatted["metadata"]["name"]))
    bench.look()
    await bench.clock.advance(timedelta(minutes=1))
    await bench.pass_over(3)
    assert "train-launcher" in bench.names(PODS)


async def test_a_runtime_that_is_said_to_be_the_jobs_own_is_none() -> None:
    bench = await begin()
    false = build_runtime("team", SHIPPED)
    job = bench.cluster.get(Ref(TRAINING_JOBS, "team", "train"))
    owner = make_owner(job["metadata"]["uid"])
    false["metadata"]["ownerReferences"] = [owner]
    bench.cluster.create(CONFIG_MAPS, "team", {**false, "data": {"launcher..boot.py": "evil"}})
    bench.look()
    await bench.pass_over(3)
    assert bench.names(PODS) == []
    assert build_runtime_name(SHIPPED.runtime.digest) in bench.condition("NameTaken")["message"]


async def test_a_runtime_that_is_being_deleted_is_mounted_by_no_new_pod() -> None:
    bench = await begin()
    going = build_runtime("team", SHIPPED)
    going["metadata"]["finalizers"] = ["example.com/later"]
    stored = bench.create(CONFIG_MAPS, going)
    bench.cluster.delete(Ref(CONFIG_MAPS, "team", stored["metadata"]["name"]))
    bench.look()
    await bench.pass_over(3)
    assert bench.names(PODS) == []


# ------------------------------------------------------------------ refusals
async def test_refused_pods_are_told_with_the_servers_words_and_tried_again_later() -> None:
    bench = await begin(workers=6)
    bench.log.faults.append(refuse(PODS, "exceeded quota: small"))
    assert (await bench.pass_over())[0] == "refused"
    assert bench.refusals[PODS].count == 1  # a pass counts once
    _, again = await bench.pass_over()
    told = bench.condition("PodsRefused")
    assert told["status"] == "True"
    assert "exceeded quota: small" in told["message"]
    assert bench.condition("WritesRefused") == {}
    tries = len(bench.writes(PODS))
    _, again = await bench.pass_over()
    assert again == timedelta(seconds=10)
    assert len(bench.writes(PODS)) == tries
    bench.log.faults.clear()
    await bench.clock.advance(timedelta(seconds=10))
    await bench.pass_over(3)
    assert len(bench.names(PODS)) == 7
    assert bench.condition("PodsRefused")["status"] == "False"


async def test_the_waits_begin_anew_when_the_author_has_changed_the_job() -> None:
    bench = await begin()
    bench.log.faults.append(refuse(PODS, "violates PodSecurity"))
    for _ in range(3):
        await bench.pass_over(2)
        await bench.clock.advance(timedelta(minutes=5))
    assert bench.refusals[PODS].count == 3
    bench.cluster.patch(Ref(TRAINING_JOBS, "team", "train"), {"spec": {"backoffLimit": 3}})
    bench.look()
    assert (await bench.pass_over())[0] == "refused"
    assert bench.refusals[PODS].count == 1


async def test_a_refused_role_is_told_as_itself_and_no_further_pod_comes_before_it() -> None:
    bench = await begin()
    bench.log.faults.append(refuse(ROLES, "attempting to grant RBAC permissions"))
    await bench.pass_over(2)
    bench.cluster.remove(Ref(PODS, "team", "train-worker-0"))
    bench.look()
    await bench.pass_over(3)
    told = bench.condition("WritesRefused")
    assert told["status"] == "True"
    assert "Role train-launcher-: attempting to grant RBAC permissions" in told["message"]
    assert bench.condition("PodsRefused") == {}
    assert bench.names(PODS) == ["train-launcher", "train-worker-1"]
    bench.log.faults.clear()
    await bench.clock.advance(timedelta(minutes=1))
    await bench.pass_over(3)
    assert bench.names(PODS) == ["train-launcher", "train-worker-1", "train-worker-2"]
    assert bench.condition("WritesRefused")["status"] == "False"


async def test_a_refusal_is_told_as_an_event_too_though_the_write_fails_each_time() -> None:
    bench = await begin()
    bench.log.faults.append(refuse(ROLES, "roles are made by the platform team"))
    for _ in range(5):
        await bench.pass_over(2)
        await bench.clock.advance(timedelta(minutes=5))
    told = [event for event in bench.events if event.reason == "WritesRefused"]
    assert [event.is_warning for event in told] == [True]
    assert "roles are made by the platform team" in told[0].message


async def test_a_pod_that_must_not_be_deleted_is_told_and_stops_nothing_else() -> None:
    bench = await begin_to_run()
    bench.log.faults.append(refuse(PODS, "keep them", verb="delete"))
    launcher = Ref(PODS, "team", "train-launcher")
    bench.cluster.patch(Ref(TRAINING_JOBS, "team", "train"), {"spec": {"suspend": True}})
    bench.look()
    await bench.pass_over(4)
    told = bench.condition("WritesRefused")
    assert told["status"] == "True"
    assert "refuses the deletion of Pod train-launcher: keep them" in told["message"]
    assert [event.reason for event in bench.events].count("WritesRefused") == 1
    tries = len(bench.writes(PODS))
    await bench.pass_over(3)
    assert len(bench.writes(PODS)) == tries
    bench.log.faults.clear()
    await bench.clock.advance(timedelta(minutes=1))
    await bench.pass_over(2)
    assert bench.cluster.find(launcher) is None
    assert bench.condition("WritesRefused")["status"] == "False"


@pytest.mark.parametrize(
    ("resource", "kind"), [(PODS, "PodsRefused"), (SERVICE_ACCOUNTS, "WritesRefused")]
)
@pytest.mark.parametrize("status", [404, 409, 410, 429])
async def test_a_creation_that_never_succeeds_is_told_whatever_the_server_answers(
    resource: Resource, kind: str, status: int
) -> None:
    bench = Bench()
    bench.create(TRAINING_JOBS, make_job())
    bench.look()
    words = "somebody else is always faster"
    error = translate_status(status, {"message": words})
    bench.log.faults.append(refuse(resource, words, error=error))
    await work(bench, 60)
    assert words in bench.condition(kind)["message"]
    bench.log.faults.clear()
    await work(bench, 90)
    assert bench.names(PODS) == ["train-launcher", "train-worker-0", "train-worker-1"]
    assert bench.condition(kind)["status"] == "False"


async def test_a_webhook_that_fails_is_told_once_it_lasts_and_asked_less_often() -> None:
    bench = await begin()
    strike = ServerFailed(500, "InternalError", 'failed calling webhook "x.example": EOF')
    bench.log.faults.append(refuse(PODS, "", error=strike))
    await bench.pass_over(FAILURES_TOLD)
    assert bench.condition("PodsRefused") == {}
    await bench.pass_over(2)
    told = bench.condition("PodsRefused")
    assert (told["status"], told["type"]) == ("True", "PodsRefused")
    assert 'fails on Pod train-launcher: failed calling webhook "x.example"' in told["message"]
    passes: set[float] = set()
    bench.log.faults.append(lambda *_: passes.add(bench.clock.monotonic()))
    for _ in range(600):
        await bench.pass_over()
        await bench.clock.advance(timedelta(seconds=1))
    assert 10 <= len(passes) <= 16
    statuses = [c for c in bench.writes(TRAINING_JOBS) if c.subresource == "status"]
    assert len(statuses) < 8
    bench.log.faults.clear()
    await bench.clock.advance(timedelta(minutes=1))
    await bench.pass_over(3)
    assert len(bench.names(PODS)) == 3
    assert bench.condition("PodsRefused")["status"] == "False"


async def test_a_job_made_again_under_its_name_inherits_no_answers() -> None:
    bench = await begin()
    bench.log.faults.append(refuse(PODS, "image not allowed"))
    for _ in range(4):
        await bench.pass_over()
        await bench.clock.advance(timedelta(minutes=5))
    bench.cluster.remove(Ref(TRAINING_JOBS, "team", "train"))
    for _ in range(9):
        bench.cluster.collect_garbage()
    bench.create(TRAINING_JOBS, make_job())
    bench.log.faults.clear()
    bench.look()  # the one is gone and the other is there before the next pass
    await bench.pass_over(2)
    assert len(bench.names(PODS)) == 3
    assert bench.condition("PodsRefused") == {}


async def test_a_status_that_is_refused_is_told_as_an_event() -> None:
    bench = Bench()
    bench.create(TRAINING_JOBS, make_job())
    bench.look()
    bench.log.faults.append(refuse(TRAINING_JOBS, "no statuses here", verb="patch"))
    await bench.pass_over(2)
    told = {(event.reason, event.message) for event in bench.events}
    words = "the API server refuses the status of TrainingJob train: no statuses here"
    assert told == {("WritesRefused", words)}


async def test_a_number_of_replicas_that_is_refused_ends_the_scaling_with_the_words() -> None:
    bench = await begin(workers=1)
    await bench.pass_over(3)
    bench.create(SCALE_OUTS, make_scale_out("more"))
    bench.look()

    def strike(call: Call, moment: Moment) -> None:
        is_spec = call.ref.resource == TRAINING_JOBS and not call.subresource
        if is_spec and call.is_write and moment is Moment.BEFORE:
            raise Refused(403, "Forbidden", "denied by policy")

    bench.log.faults.append(strike)
    await bench.pass_over(1 + REFUSALS)
    status = bench.cluster.get(Ref(SCALE_OUTS, "team", "more")).get("status", {})
    assert status["phase"] == "Scaling"
    await bench.pass_over(4)
    status = bench.cluster.get(Ref(SCALE_OUTS, "team", "more"))["status"]
    assert status["conditions"][-1]["type"] == "ScaleFailed"
    assert status["conditions"][-1]["reason"] == "Refused"
    assert "denied by policy" in status["conditions"][-1]["message"]
    assert bench.names(PODS) == ["train-launcher", "train-worker-0"]
    job = bench.cluster.get(Ref(TRAINING_JOBS, "team", "train"))
    assert "scaling" not in job["status"]


# ------------------------------------------------------------------ unknown outcomes
async def test_a_server_that_does_not_know_us_for_a_while_ends_no_scaling() -> None:
    bench = await begin_to_run()
    bench.create(SCALE_OUTS, make_scale_out("more", count=1))
    bench.look()
    await bench.pass_over(2)  # adopted, decided
    unknown = Unauthorized(401, "Unauthorized", "Unauthorized")
    bench.log.faults.append(refuse(TRAINING_JOBS, "", verb="patch", error=unknown))
    await bench.pass_over(2 * REFUSALS)
    bench.log.faults.clear()
    await bench.pass_over(2)
    record = bench.status()["scaling"]
    assert (record["name"], record.get("outcome")) == ("more", None)
    assert bench.condition("WritesRefused") == {}


async def test_a_policy_that_is_named_like_the_job_is_nobody_elses_business() -> None:
    bench = await begin()
    bench.create(NETWORK_POLICIES, {"metadata": {"name": "train"}, "spec": {"podSelector": {}}})
    await bench.pass_over(2)
    assert bench.names(NETWORK_POLICIES) == ["train", "train-pods"]
    assert len(bench.names(PODS)) == 3


async def test_a_policy_of_our_name_is_told_and_waited_for_until_it_goes() -> None:
    bench = await begin()
    policy = {"metadata": {"name": "train-pods"}, "spec": {"podSelector": {}}}
    bench.create(NETWORK_POLICIES, policy)
    for _ in range(3):
        await bench.pass_over(2)
        await bench.clock.advance(timedelta(seconds=61))
    told = bench.condition("NameTaken")
    assert told["status"] == "True"
    assert "train-pods" in told["message"]
    bench.cluster.remove(Ref(NETWORK_POLICIES, "team", "train-pods"))
    await bench.clock.advance(timedelta(seconds=61))
    await bench.pass_over(4)
    assert len(bench.names(PODS)) == 3
    assert bench.condition("NameTaken")["status"] == "False"


async def test_a_write_of_unknown_outcome_is_read_before_anything_else_is_done() -> None:
    bench = Bench()
    bench.create(TRAINING_JOBS, make_job())
    bench.look()
    bench.log.faults.append(lose_answers(TRAINING_JOBS))
    await bench.pass_over()
    assert [call.verb for call in bench.log.calls] == ["patch", "get"]
    assert bench.store.find_job(KEY).status.epoch == 1  # type: ignore[union-attr]


@pytest.mark.point("ssh-keys")
async def test_keys_are_never_read_and_those_of_an_unknown_outcome_are_used_by_nobody() -> None:
    bench = await begin(launcherAttachMode="ssh")
    bench.log.faults.append(lose_answers(SECRETS))
    await bench.pass_over(2)
    assert bench.names(PODS) == []
    unknown = bench.names(SECRETS)
    bench.log.faults.clear()

    await bench.pass_over(4)

    [used] = set(bench.names(SECRETS)) - set(unknown)
    assert bench.cluster.get(Ref(TRAINING_JOBS, "team", "train"))["status"]["keysSecret"] == used
    assert {find_secret(bench, pod) for pod in bench.names(PODS)} == {used}
    assert len(bench.names(PODS)) == 3
    assert {call.verb for call in bench.log.calls if call.ref.resource == SECRETS} == {"create"}
    assert bench.store.made_keys == {}


async def test_a_secret_that_was_there_first_is_mounted_by_nobody() -> None:
    bench = await begin(launcherAttachMode="ssh")
    uid = bench.cluster.get(Ref(TRAINING_JOBS, "team", "train"))["metadata"]["uid"]
    for name in (f"train-ssh-{uid}", "train-ssh-", "train-ssh"):
        with suppress(Refused):
            bench.cluster.create(SECRETS, "team", {"metadata": {"name": name}})
    squatted = set(bench.names(SECRETS))
    await bench.pass_over(5)
    assert len(bench.names(PODS)) == 3
    assert not {find_secret(bench, pod) for pod in bench.names(PODS)} & squatted


def find_secret(bench: Bench, pod: str) -> str:
    """The Secret that this pod mounts."""
    volumes = bench.cluster.get(Ref(PODS, "team", pod))["spec"]["volumes"]
    [name] = [volume["secret"]["secretName"] for volume in volumes if "secret" in volume]
    return str(name)


async def test_a_right_that_comes_late_brings_the_keys_and_then_the_pods() -> None:
    bench = await begin(launcherAttachMode="ssh")
    bench.log.faults.append(refuse(SECRETS, "cannot create secrets"))
    await bench.pass_over(2)
    assert bench.names(PODS) == []
    assert "cannot create secrets" in bench.condition("WritesRefused")["message"]
    bench.log.faults.clear()
    await bench.clock.advance(timedelta(seconds=10))

    await bench.pass_over(3)

    assert len(bench.names(PODS)) == 3
    assert bench.condition("WritesRefused")["status"] == "False"


async def test_a_large_report_that_was_listed_before_its_job_is_read_before_it_is_judged() -> None:
    bench = await begin_to_run()
    end_launcher(bench, ended=0)
    report, key = Ref(CONFIG_MAPS, "team", "train-report"), build_report_key(1)
    text = bench.cluster.get(report)["data"][key]
    bench.cluster.patch(report, {"data": {key: text + " " * 10_000}})
    bench.store, late = Store(), {TRAINING_JOBS: ""}
    bench.ingest = Ingest(bench.store)
    bench.reconciler = bench.build(bench.api)
    bench.look({kind: text for kind, text in WATCHED.items() if kind not in late})
    bench.look(late)

    await bench.reconciler.reconcile(KEY)

    assert bench.condition("Succeeded")["status"] == "True"
    reads = [call.ref.name for call in bench.log.calls if call.verb == "get"]
    assert reads.count("train-report") == 1


async def test_a_job_that_vanished_is_forgotten() -> None:
    bench = Bench()
    bench.create(TRAINING_JOBS, make_job())
    bench.look()
    bench.cluster.remove(Ref(TRAINING_JOBS, "team", "train"))
    await bench.pass_over()
    assert bench.store.find_job(KEY) is None
    assert await bench.pass_over() == ("unchanged", None)


# ------------------------------------------------------------------ what a decision rests on
async def test_a_command_that_ended_well_is_not_run_again_if_its_pod_is_seen_to_go_first() -> None:
    bench = await begin_to_run()
    end_launcher(bench, ended=0)
    bench.look({PODS: WATCHED[PODS]})  # the report's watch lags behind
    await bench.pass_over(4)
    assert bench.status()["phase"] == "Succeeded"
    assert bench.status()["epoch"] == 1


async def test_a_launcher_that_did_not_tell_its_end_is_restarted() -> None:
    bench = await begin_to_run()
    end_launcher(bench, ended=None)
    bench.look()
    await bench.pass_over(2)
    assert bench.status()["epoch"] == 2


async def test_an_end_is_not_judged_while_the_report_cannot_be_read() -> None:
    bench = await begin_to_run()
    end_launcher(bench, ended=0)
    bench.look({PODS: WATCHED[PODS]})

    def strike(call: Call, moment: Moment) -> None:
        if call.verb == "get":
            raise OutcomeUnknown("no answer")

    bench.log.faults.append(strike)
    with pytest.raises(OutcomeUnknown):
        await bench.pass_over()
    assert bench.status()["epoch"] == 1


async def test_a_scaling_that_has_ended_is_not_begun_again_by_who_has_not_seen_its_end() -> None:
    bench = await begin_to_run()
    bench.create(SCALE_OUTS, make_scale_out("more"))
    ref = Ref(SCALE_OUTS, "team", "more")
    bench.look()
    ended = {"status": {"phase": "ScaleSucceeded"}}
    bench.cluster.patch(ref, ended, subresource="status")
    await bench.pass_over(3)
    assert "scaling" not in bench.status()
    assert len(bench.names(PODS)) == 3


class Overtaken(FakeApi):
    """An API server whose answer to a read comes after the news of what happens meanwhile."""

    def __init__(self, bench: Bench, ref: Ref, meanwhile: Callable[[], object]) -> None:
        super().__init__(bench.cluster, bench.log)
        self._bench = bench
        self._ref = ref
        self._meanwhile = [meanwhile]

    async def get(self, ref: Ref) -> Json:
        try:
            return await super().get(ref)
        finally:
            while ref == self._ref and self._meanwhile:
                self._meanwhile.pop()()
                self._bench.look()


async def test_what_is_made_anew_while_its_name_was_found_missing_is_known() -> None:
    bench = await begin_to_run()
    ref = Ref(SCALE_OUTS, "team", "more")
    bench.create(SCALE_OUTS, make_scale_out("more"))
    bench.look()
    await bench.pass_over()
    bench.cluster.remove(ref)
    again = lambda: bench.create(SCALE_OUTS, make_scale_out("more"))  # noqa: E731
    bench.reconciler = bench.build(Overtaken(bench, ref, again))
    await bench.pass_over(6)
    uid = bench.cluster.get(ref)["metadata"]["uid"]
    assert bench.store.scale_outs.find_uid(("team", "more")) == uid
    assert bench.status()["scaling"]["uid"] == uid


async def test_a_plan_is_made_anew_where_a_watch_is_faster_than_the_read_that_it_rests_on() -> None:
    bench = await begin_to_run()
    bench.create(SCALE_OUTS, make_scale_out("more"))
    ref = Ref(SCALE_OUTS, "team", "more")
    bench.look()
    ended = {"status": {"phase": "ScaleSucceeded"}}
    end = lambda: bench.cluster.patch(ref, ended, subresource="status")  # noqa: E731
    bench.reconciler = bench.build(Overtaken(bench, ref, end))
    results = [await bench.pass_over() for _ in range(3)]
    assert (STALE, None) in results
    assert "scaling" not in bench.status()
    assert len(bench.names(PODS)) == 3


def take_over(bench: Bench, *missing: str) -> Bench:
    """A new leader on the same cluster, whose list of pods is older than this one."""
    successor = Bench()
    successor.cluster, successor.clock = bench.cluster, bench.clock
    successor.reconciler = successor.build(bench.api)
    successor.look({kind: what for kind, what in WATCHED.items() if kind != PODS})
    pods = [pod for pod in bench.cluster.list(PODS) if pod["metadata"]["name"] not in missing]
    successor.ingest.sync(PODS, None, pods, version="1", at=bench.clock.monotonic())
    return successor


@pytest.mark.parametrize("missing", ["train-launcher", "train-worker-1"])
async def test_a_pod_that_an_old_list_misses_is_looked_for_and_not_replaced(missing: str) -> None:
    bench = await begin_to_run()
    before = bench.names(PODS)
    successor = take_over(bench, missing)
    await successor.pass_over(4)
    assert bench.names(PODS) == before
    assert bench.status()["epoch"] == 1
    assert successor.events == []


async def test_many_workers_that_an_old_list_misses_are_looked_for_and_not_replaced() -> None:
    bench = await begin(workers=2 * SINGLE_READS)
    await bench.pass_over(4)
    before = bench.names(PODS)
    successor = take_over(bench, *(name for name in before if "worker" in name))
    bench.log.calls.clear()
    await successor.pass_over(4)
    assert bench.names(PODS) == before
    assert len([c for c in bench.log.calls if c.verb == "list" and c.ref.resource == PODS]) == 1
    assert not [c for c in bench.log.calls if c.verb == "get" and c.ref.resource == PODS]


class Outrun(FakeApi):
    """An API server whose lists of pods come after the news of the pods that are in them."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench.cluster, bench.log)
        self._bench = bench

    async def list(self, *args: Any, **how: Any) -> Listing:
        self._bench.look()
        return await super().list(*args, **how)


@pytest.mark.parametrize("workers", [2, 2 * SINGLE_READS])
async def test_a_watch_that_is_faster_than_the_list_that_a_plan_rests_on(workers: int) -> None:
    bench = await begin(workers=workers)
    await bench.pass_over(4)
    before = bench.names(PODS)
    successor = take_over(bench, *(name for name in before if "worker" in name))
    successor.reconciler = successor.build(Outrun(successor))
    assert await successor.pass_over() == (STALE, None)
    await successor.pass_over(4)
    assert bench.names(PODS) == before
    assert successor.events == []


async def test_a_worker_of_whom_nothing_is_known_is_looked_for_before_another_is_named() -> None:
    bench = await begin_to_run()
    job = Ref(TRAINING_JOBS, "team", "train")
    bench.cluster.patch(job, {"status": {"workers": None}}, subresource="status")
    before = bench.names(PODS)
    successor = take_over(bench, "train-worker-1")
    await successor.pass_over(4)
    assert bench.names(PODS) == before


def add_neighbour(bench: Bench, name: str = "other-worker-7") -> Ref:
    """A pod of another job, with the labels of the first one's workers."""
    bench.create(TRAINING_JOBS, make_job("other"))
    bench.look()
    uid = bench.cluster.get(Ref(TRAINING_JOBS, "team", "other"))["metadata"]["uid"]
    pod = copy.deepcopy(dict(bench.cluster.get(Ref(PODS, "team", "train-worker-0"))))
    owner = {**pod["metadata"]["ownerReferences"][0], "name": "other", "uid": uid}
    for field in ("uid", "resourceVersion", "creationTimestamp"):
        del pod["metadata"][field]
    pod["metadata"] |= {"name": name, "ownerReferences": [owner]}
    bench.create(PODS, pod)
    return Ref(PODS, "team", name)


class Restless(FakeApi):
    """An API server on which somebody changes a pod of his right before each read of pods."""

    def __init__(self, bench: Bench, pod: Ref) -> None:
        super().__init__(bench.cluster, bench.log)
        self._bench, self._pod, self._count = bench, pod, 0

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
            self._bench.cluster.patch(self._pod, {"metadata": {"annotations": cost}})


@pytest.mark.parametrize("name", ["other-worker-7", "train-worker-1"])
async def test_who_changes_his_own_pod_all_the_time_holds_up_no_other_job(name: str) -> None:
    bench = await begin_to_run()
    bench.cluster.remove(Ref(PODS, "team", "train-worker-1"))
    pod = add_neighbour(bench, name)
    bench.look()
    bench.reconciler = bench.build(Restless(bench, pod))
    results = [(await bench.pass_over())[0] for _ in range(4)]
    assert STALE not in results
    assert bench.status()["lastWorkerIndex"] == 2  # another takes the place of the one that went


async def test_a_change_of_a_pod_that_the_list_shows_is_looked_at_after_the_plan() -> None:
    bench = await begin_to_run()
    bench.cluster.remove(Ref(PODS, "team", "train-worker-1"))
    bench.look()
    while bench.queue.depth:
        bench.queue.done(await bench.queue.get())
    bench.reconciler = bench.build(Restless(bench, Ref(PODS, "team", "train-worker-0")))
    results = [(await bench.pass_over())[0] for _ in range(2)]
    assert STALE not in results
    assert bench.queue.depth == 1


async def test_of_a_pod_that_was_only_tried_nothing_is_read() -> None:
    def refuse(call: Call, moment: Moment) -> None:
        if call.verb == "dry-run" and moment is Moment.BEFORE:
            raise Conflict(409, "Conflict", "the quota has been modified")

    bench = await begin(queue="main")
    bench.log.faults.append(refuse)
    await bench.pass_over(3)
    tried = [call for call in bench.log.calls if call.verb == "dry-run"]
    assert tried
    assert not [c for c in bench.log.calls if c.verb == "get" and c.ref in {t.ref for t in tried}]


async def test_a_plan_that_does_not_hold_is_made_anew_after_a_pause_that_grows() -> None:
    bench = await begin(workers=2)
    await bench.pass_over(4)
    successor = take_over(bench, "train-worker-0", "train-worker-1")
    successor.reconciler = successor.build(Outrun(successor))
    while successor.queue.depth:
        successor.queue.done(await successor.queue.get())
    assert await successor.pass_over() == (STALE, None)
    assert (successor.queue.depth, successor.queue.delayed) == (0, 1)


async def test_what_a_live_read_shows_of_another_job_brings_that_one_back() -> None:
    bench = await begin_to_run()
    add_neighbour(bench)
    other = JobKey("team", "other")
    while bench.queue.depth:
        bench.queue.done(await bench.queue.get())
    await bench.reconciler._is_mistaken(KEY, Plan(premises=(Ref(PODS, "team", ""),)))
    assert await bench.queue.get() == other


async def test_nothing_is_made_again_for_a_job_that_is_gone_though_it_is_not_seen_to_go() -> None:
    bench = await begin_to_run()
    bench.cluster.remove(Ref(TRAINING_JOBS, "team", "train"))
    bench.cluster.remove(Ref(ROLES, "team", *bench.names(ROLES)))
    bench.look({ROLES: WATCHED[ROLES]})
    await bench.pass_over(2)
    assert bench.names(ROLES) == []


# ------------------------------------------------------------------ deletions of what is not there
async def test_what_is_not_there_any_more_is_forgotten_at_once() -> None:
    bench = await begin_to_run()
    bench.cluster.patch(
        Ref(TRAINING_JOBS, "team", "train"), {"spec": {"suspend": True}}, subresource=""
    )
    bench.look()
    await bench.pass_over()
    launcher = Ref(PODS, "team", "train-launcher")
    bench.cluster.remove(launcher)
    await bench.pass_over(2)
    assert bench.writes(PODS)[-1].verb == "delete"
    assert {c.ref.name for c in bench.writes(PODS)[-2:]} == {"train-worker-0", "train-worker-1"}


# ------------------------------------------------------------------ defects
async def test_a_defect_met_by_one_job_does_not_stop_another() -> None:
    bench = Bench()
    for name in ("broken", "train"):
        bench.create(TRAINING_JOBS, make_job(name))
    bench.look()
    broken = JobKey("team", "broken")
    bench.store.jobs.amend(
        ("team", "broken"),
        bench.store.find_job(broken).uid,
        lambda job: replace(job, status=replace(job.status, conditions=None)),  # type: ignore[arg-type]
        bench.clock.monotonic(),
    )
    bench.queue.add(broken)
    bench.queue.add(KEY)
    has_written = asyncio.Event()

    def note(call: Call, moment: Moment) -> None:
        if call.is_write and moment is Moment.AFTER:
            has_written.set()

    bench.log.faults.append(note)
    async with asyncio.TaskGroup() as group:
        group.create_task(until_shut_down(bench.reconciler))
        await has_written.wait()
        bench.queue.shut_down()
    assert bench.cluster.get(Ref(TRAINING_JOBS, "team", "train"))["status"]["epoch"] == 1
    assert bench.queue.delayed == 1


async def run_passes(bench: Bench, *, seconds: float = 0) -> None:
    """Let a worker look at the job, and at whatever is due within so many seconds."""
    bench.queue.add(KEY)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(bench.reconciler.work()), group.create_task(bench.queue.run())]
        await bench.clock.settle()
        await bench.clock.advance(timedelta(seconds=seconds))
        for task in tasks:
            task.cancel()


class Broken(Reconciler):
    """One whose passes meet an error that nobody foresaw."""

    async def reconcile(self, key: JobKey) -> tuple[str, timedelta | None]:
        raise TypeError(f"nobody foresaw {key} {object()}")


async def test_a_job_that_cannot_be_planned_is_told_so_once() -> None:
    bench = await begin()
    bench.reconciler = bench.build(bench.api, Broken)
    await run_passes(bench, seconds=60)
    condition = bench.condition("PlanningFailed")
    assert (condition["status"], condition["reason"]) == ("True", "TypeError")
    assert "nobody foresaw team/train" in condition["message"]
    assert "pod template" in condition["message"]
    assert [e.reason for e in bench.events].count("PlanningFailed") == 1
    assert bench.metrics.passes.labels("error")._value.get() > 3
    told = [call for call in bench.writes(TRAINING_JOBS) if "PlanningFailed" in str(call.body)]
    assert len(told) == 1


async def test_a_job_that_can_be_planned_again_says_that_it_is_over() -> None:
    bench = await begin()
    bench.reconciler = bench.build(bench.api, Broken)
    await run_passes(bench)
    bench.reconciler = bench.build(bench.api)
    await run_passes(bench, seconds=60)
    assert bench.condition("PlanningFailed")["status"] == "False"
    assert "train-worker-0" in bench.names(PODS)


async def test_a_read_that_fails_is_waited_out_as_the_server_asked_and_is_no_defect() -> None:
    bench = await begin_to_run()
    end_launcher(bench, ended=None)
    bench.look()
    reads: list[float] = []

    def strike(call: Call, moment: Moment) -> None:
        if call.verb == "get" and moment is Moment.BEFORE:
            reads.append(bench.clock.monotonic())
            raise Throttled(429, "TooManyRequests", "slow down", timedelta(seconds=30))

    bench.log.faults.append(strike)
    await run_passes(bench, seconds=29)
    assert len(reads) == 1
    await run_passes(bench, seconds=2)
    assert len(reads) == 2
    assert bench.metrics.passes.labels("error")._value.get() == 0
    assert bench.metrics.passes.labels("unanswered")._value.get() == 2
    assert not bench.condition("PlanningFailed")


async def until_shut_down(reconciler: Reconciler) -> None:
    with suppress(ShutDown):
        await reconciler.work()


def test_the_shortest_of_waits_may_be_none_at_all() -> None:
    second = timedelta(seconds=1)
    assert find_shortest(None, second, timedelta()) == timedelta()
    assert find_shortest(None, None) is None


# ------------------------------------------------------------------ orphans
async def test_scalings_of_no_job_are_told_so_after_their_grace() -> None:
    bench = Bench()
    for name in ("one", "two"):
        bench.create(SCALE_OUTS, make_scale_out(name))
    bench.look()
    assert await bench.pass_over() == ("unchanged", timedelta(seconds=30))
    await bench.clock.advance(timedelta(seconds=30))
    await bench.pass_over()
    for name in ("one", "two"):
        status = bench.cluster.get(Ref(SCALE_OUTS, "team", name))["status"]
        assert status["conditions"][-1]["reason"] == "JobNotFound"
        assert "team/train" in status["conditions"][-1]["message"]


async def test_a_scaling_of_no_job_that_may_not_be_written_to_is_tried_ever_more_slowly() -> None:
    """Though another one of the same job has nothing to be told any more."""
    bench = Bench()
    for name in ("one", "two"):
        bench.create(SCALE_OUTS, make_scale_out(name))
    bench.look()
    await bench.clock.advance(timedelta(seconds=30))

    def strike(call: Call, moment: Moment) -> None:
        if moment is Moment.BEFORE and call.is_write and call.ref.name == "one":
            raise Refused(403, "Forbidden", "frozen")

    bench.log.faults.append(strike)
    assert await work(bench, 60) < 10
    assert bench.cluster.get(Ref(SCALE_OUTS, "team", "two"))["status"]["phase"] == "ScaleFailed"


async def test_thousands_of_scalings_of_no_job_are_told_a_few_at_a_time() -> None:
    bench = Bench()
    for number in range(3 * MOST_ANSWERS):
        bench.create(SCALE_OUTS, make_scale_out(f"out-{number}"))
    bench.look()
    await bench.clock.advance(timedelta(seconds=30))
    await bench.pass_over()
    assert len(bench.writes(SCALE_OUTS)) == MOST_ANSWERS
    await work(bench, 3)
    assert len(bench.writes(SCALE_OUTS)) == 3 * MOST_ANSWERS


async def test_scalings_of_no_job_that_may_not_be_written_to_hold_up_no_other() -> None:
    bench = Bench()
    for number in range(MOST_ANSWERS + 1):
        bench.create(SCALE_OUTS, make_scale_out(f"out-{number}"))
    bench.look()
    await bench.clock.advance(timedelta(seconds=30))
    last = f"out-{MOST_ANSWERS}"

    def strike(call: Call, moment: Moment) -> None:
        if moment is Moment.BEFORE and call.is_write and call.ref.name != last:
            raise Refused(403, "Forbidden", "frozen")

    bench.log.faults.append(strike)
    await work(bench, 2)
    assert bench.cluster.get(Ref(SCALE_OUTS, "team", last))["status"]["phase"] == "ScaleFailed"
