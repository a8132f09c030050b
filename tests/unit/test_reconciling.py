"""One pass against a cluster in memory: what the server's answers do to the next pass."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from et_operator.assembly import WATCHED
from et_operator.codec.encoding import encode_status_patch
from et_operator.errors import OutcomeUnknown, Refused
from et_operator.kube.executing import Executor
from et_operator.model.jobs import JobKey, Runtime
from et_operator.model.names import build_labels
from et_operator.model.plans import Report
from et_operator.model.resources import (
    CONFIG_MAPS,
    PODS,
    ROLES,
    SCALE_OUTS,
    SECRETS,
    SERVICE_ACCOUNTS,
    TRAINING_JOBS,
    Json,
    Ref,
    Resource,
)
from et_operator.model.snapshots import RuntimeFiles
from et_operator.planning.scaling import REFUSALS
from et_operator.reconciling import Reconciler, find_shortest
from et_operator.runtime.measuring import Metrics
from et_operator.runtime.workqueue import ShutDown, WorkQueue
from et_operator.state.store import Answers
from launcher.contract import REPORT_KEY_PREFIX
from launcher.documents import Report as BrokerReport
from launcher.documents import encode_report
from tests.fakes import benches
from tests.fakes.clients import Call, FakeApi, Fault, Moment
from tests.makers import make_job, make_scale_out

KEY = JobKey("team", "train")
SHIPPED = RuntimeFiles(Runtime("d1", "broker:1"), {"launcher/boot.py": ""})


pytestmark = pytest.mark.usefixtures("quiet_logs")


class Bench(benches.Bench):
    """A reconciler with a real queue, and a cluster that it sees by lists instead of watches."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: WorkQueue[JobKey] = WorkQueue(self.clock)  # type: ignore[arg-type]
        self.metrics = Metrics()
        self.events: list[Report] = []
        self.reconciler = self.build(self.api)

    def build(self, api: FakeApi) -> Reconciler:
        return Reconciler(
            store=self.store,
            api=api,
            executor=Executor(api, self, encode_status_patch, pod_requests=4),
            queue=self.queue,
            clock=self.clock,
            shipped=SHIPPED,
            metrics=self.metrics,
        )

    def record(self, report: Report) -> None:
        self.events.append(report)

    def look(self, selectors: Mapping[Resource, str] = WATCHED) -> None:
        super().look(selectors)

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
    patch = {"data": {f"{REPORT_KEY_PREFIX}1": report}}
    bench.cluster.patch(Ref(CONFIG_MAPS, "team", "train-report"), patch)
    bench.cluster.remove(launcher)


def refuse(resource: Resource, words: str) -> Fault:
    def strike(call: Call, moment: Moment) -> None:
        if moment is Moment.BEFORE and call.verb == "create" and call.ref.resource == resource:
            raise Refused(403, "Forbidden", words)

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
    assert bench.store.find_job(KEY).annotations == {"seen": "later"}  # type: ignore[union-attr]
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
    assert (outcome, again, bench.queue.depth) == ("changed", None, 0)


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
    assert not bench.store.answers.get(KEY, Answers()).taken


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
    assert again == timedelta(seconds=1)
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
    owner = {
        "apiVersion": TRAINING_JOBS.api_version,
        "kind": "TrainingJob",
        "name": "train",
        "uid": "former",
        "controller": True,
    }
    labels = build_labels("train")
    bench.create(
        CONFIG_MAPS,
        {"metadata": {"name": "train-report", "labels": labels, "ownerReferences": [owner]}},
    )
    bench.look()
    await bench.pass_over(2)
    assert bench.names(PODS) == []
    bench.cluster.remove(Ref(CONFIG_MAPS, "team", "train-report"))
    bench.look()
    await bench.clock.advance(timedelta(seconds=1))
    await bench.pass_over(3)
    assert "train-launcher" in bench.names(PODS)


async def test_two_jobs_share_the_runtime_that_either_has_made() -> None:
    bench = await begin()
    metadata = {
        "name": "edl-runtime-d1",
        "labels": {"group-name": "kai.alibabacloud.com", "kai.alibabacloud.com/runtime": "d1"},
    }
    bench.create(CONFIG_MAPS, {"metadata": metadata})
    await bench.pass_over(3)
    assert not bench.store.answers.get(KEY, Answers()).taken
    assert "train-launcher" in bench.names(PODS)


# ------------------------------------------------------------------ refusals
async def test_refused_pods_are_told_with_the_servers_words_and_tried_again_later() -> None:
    bench = await begin(workers=6)
    bench.log.faults.append(refuse(PODS, "exceeded quota: small"))
    assert (await bench.pass_over())[0] == "refused"
    assert bench.store.answers[KEY].refusals[PODS].count == 1  # a pass counts once
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
    assert bench.store.answers[KEY].refusals[PODS].count == 3
    bench.cluster.patch(Ref(TRAINING_JOBS, "team", "train"), {"spec": {"backoffLimit": 3}})
    bench.look()
    assert (await bench.pass_over())[0] == "refused"
    assert bench.store.answers[KEY].refusals[PODS].count == 1


async def test_a_refused_role_is_told_as_itself_and_no_pod_comes_before_it() -> None:
    bench = await begin()
    bench.log.faults.append(refuse(ROLES, "attempting to grant RBAC permissions"))
    await bench.pass_over(2)
    told = bench.condition("WritesRefused")
    assert told["status"] == "True"
    assert "Role train-launcher: attempting to grant RBAC permissions" in told["message"]
    assert bench.condition("PodsRefused") == {}
    assert bench.names(PODS) == []
    bench.log.faults.clear()
    await bench.pass_over(3)
    assert "train-launcher" in bench.names(PODS)
    assert bench.condition("WritesRefused")["status"] == "False"


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
    assert "phase" not in status
    await bench.pass_over(4)
    status = bench.cluster.get(Ref(SCALE_OUTS, "team", "more"))["status"]
    assert status["conditions"][-1]["type"] == "ScaleFailed"
    assert status["conditions"][-1]["reason"] == "Refused"
    assert "denied by policy" in status["conditions"][-1]["message"]
    assert bench.names(PODS) == ["train-launcher", "train-worker-0"]
    job = bench.cluster.get(Ref(TRAINING_JOBS, "team", "train"))
    assert "scaling" not in job["status"]


# ------------------------------------------------------------------ unknown outcomes
async def test_a_write_of_unknown_outcome_is_read_before_anything_else_is_done() -> None:
    bench = Bench()
    bench.create(TRAINING_JOBS, make_job())
    bench.look()
    bench.log.faults.append(lose_answers(TRAINING_JOBS))
    await bench.pass_over()
    assert [call.verb for call in bench.log.calls] == ["patch", "get"]
    assert bench.store.find_job(KEY).status.epoch == 1  # type: ignore[union-attr]


@pytest.mark.point("ssh-keys")
async def test_keys_are_written_once_and_never_read_not_even_after_an_unknown_outcome() -> None:
    bench = await begin(launcherAttachMode="ssh")
    bench.log.faults.append(lose_answers(SECRETS))
    await bench.pass_over()
    assert bench.names(PODS) == []
    [name] = bench.names(SECRETS)
    [written] = bench.cluster.list(SECRETS, "team")
    bench.log.faults.clear()

    await bench.pass_over(2)

    assert len(bench.names(PODS)) == 3
    assert bench.cluster.list(SECRETS, "team") == [written]
    bodies = [call.verb for call in bench.log.calls if call.ref.resource == SECRETS]
    assert bodies == ["create", "create"]
    assert name == f"train-ssh-{written['metadata']['ownerReferences'][0]['uid']}"


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


def take_over(bench: Bench, missing: str) -> Bench:
    """A new leader on the same cluster, whose list of pods is older than this one."""
    successor = Bench()
    successor.cluster, successor.clock = bench.cluster, bench.clock
    successor.reconciler = successor.build(bench.api)
    successor.look({kind: what for kind, what in WATCHED.items() if kind != PODS})
    pods = [pod for pod in bench.cluster.list(PODS) if pod["metadata"]["name"] != missing]
    successor.ingest.sync(PODS, None, pods, version="1", at=bench.clock.now())
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


async def test_a_worker_of_whom_nothing_is_known_is_looked_for_before_another_is_named() -> None:
    bench = await begin_to_run()
    job = Ref(TRAINING_JOBS, "team", "train")
    bench.cluster.patch(job, {"status": {"workers": None}}, subresource="status")
    before = bench.names(PODS)
    successor = take_over(bench, "train-worker-1")
    await successor.pass_over(4)
    assert bench.names(PODS) == before


async def test_nothing_is_made_again_for_a_job_that_is_gone_though_it_is_not_seen_to_go() -> None:
    bench = await begin_to_run()
    bench.cluster.remove(Ref(TRAINING_JOBS, "team", "train"))
    bench.cluster.remove(Ref(ROLES, "team", "train-launcher"))
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
        lambda job: replace(job, status=None),  # type: ignore[arg-type, union-attr]
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
