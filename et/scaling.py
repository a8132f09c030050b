"""`et scale`: more or fewer workers, and how each of them came or went.

Written is a ScaleIn, a ScaleOut, or the number by the job's subresource `scale`: which workers go,
and when, the operator decides. The rest is telling what it makes of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from et.clusters import Cluster, get_meta
from et.errors import EtError
from et.following import See, follow_within
from et.manifests import build_scaling
from et.reading import explain_end, find_queue, has_ended, read_admission, read_job
from et.screens import Screen
from et_contract.admissions import AdmissionState, Elasticity
from et_kube.resources import SCALE_INS, SCALE_OUTS, TRAINING_JOBS, Json, Ref, Resource
from et_operator.codec.decoding import decode_job, decode_scaling
from et_operator.model.commands import explain_surplus
from et_operator.model.conditions import Condition, is_true
from et_operator.model.jobs import TrainingJob
from et_operator.model.scalings import Scaling
from et_operator.model.statuses import ScalingKind, ScalingRecord, WorkerOutcome
from et_operator.model.texts import count
from et_scheduler.model.jobs import Admission

SPARE = timedelta(seconds=30)
"""So much longer than the timeout of a ScaleOut its end is waited for: it is told then."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One of three: a number of workers, a difference, or workers by name."""

    to: int | None = None
    by: int | None = None
    remove: Sequence[str] = ()
    wait: timedelta | None = None
    timeout: timedelta | None = None
    """Of a ScaleOut: how long its workers may take to be listed, before it is given up."""


async def scale(cluster: Cluster, screen: Screen, name: str, wish: Wish, *, as_json: bool) -> bool:
    """Ask for it and, where `wish.wait` says for how long, see it done; whether it succeeded."""
    found = await read_job(cluster, name)
    job = decode_job(found)
    if has_ended(job):
        raise EtError(f"{name} has ended ({job.status.phase}): {explain_end(job)}")
    check_queue(job, read_admission(found), wish)
    quiet = Screen(screen.err, screen.err) if as_json else screen
    if surplus := _explain_surplus(job, wish):
        quiet.warn(surplus)
    is_at_commits = lets_in_at_commits(job) and not surplus
    if wish.to is not None:
        number = ReplicasWait(quiet, wish.to, is_at_commits=is_at_commits)
        return await _set_replicas(cluster, screen, job, wish, number, as_json=as_json)
    resource, body = _build(job, wish)
    created = await cluster.api.create(resource, cluster.namespace, body)
    scaling = decode_scaling(created)
    what = f"{resource.kind} {scaling.name}"
    quiet.say(f"{what} is created for {name}{_describe_limit(scaling)}")
    ref = Ref(resource, cluster.namespace, scaling.name)
    waiting = ScalingWait(quiet, created, is_at_commits=is_at_commits)
    if wish.wait is not None:
        limit = wish.wait if scaling.timeout is None else max(wish.wait, scaling.timeout + SPARE)
        end = f"kubectl delete {resource.kind.lower()} {scaling.name} -n {cluster.namespace}"
        left = f"goes on: `et describe {name}` shows how far it is, `{end}` ends it"
        await _wait(cluster, quiet, ref, waiting.see, Patience(limit, what, left))
    if as_json:
        screen.show_json(waiting.newest)
    return waiting.has_succeeded or wish.wait is None


def check_queue(job: TrainingJob, admission: Admission | None, wish: Wish) -> None:
    """Raises EtError where et-scheduler says how many workers the job has."""
    spec, queue = job.spec, find_queue(job, admission)
    if spec is None or not queue:
        return
    # who names no queue has not asked for another number than his own either
    is_fixed = spec.elasticity is Elasticity.FIXED or not (spec.queue or spec.elasticity)
    is_admitted = admission is not None and admission.state is AdmissionState.ADMITTED
    if admission is not None and is_admitted:
        is_fixed = admission.elasticity is Elasticity.FIXED
    if is_fixed and (is_admitted or wish.to is not None):
        return
    advice = "set its number with --to" if is_fixed else "change its minReplicas or maxReplicas"
    raise EtError(
        f"{job.key.name} is in queue {queue}, where et-scheduler says how many workers it "
        f"has: {advice}"
    )


def _explain_surplus(job: TrainingJob, wish: Wish) -> str:
    """That the command has no room for those who are to come; "" where it has, or nobody comes."""
    if job.spec is None:
        return ""
    has = job.status.decided_replicas or job.spec.worker.replicas
    target = wish.to or has + (wish.by or 0)
    return explain_surplus(job.spec, target) if target > has else ""


def check_bounds(job: TrainingJob, target: int) -> None:
    """Raises EtError for a number outside of the job's bounds, which names both."""
    worker = job.spec.worker if job.spec else None
    if worker is None:
        return
    least, most = worker.min_replicas or 1, worker.max_replicas
    if target < least or (most is not None and target > most):
        above = f", maxReplicas {most}" if most is not None else ""
        raise EtError(
            f"{job.key.name} cannot have {count(target, 'worker')}: minReplicas is {least}{above}"
        )


def complete_names(job: str, names: Sequence[str]) -> list[str]:
    """Workers may be named in short: `1` or `worker-1` for `<job>-worker-1`."""
    full = []
    for name in names:
        short = name.removeprefix(f"{job}-").removeprefix("worker-")
        full.append(f"{job}-worker-{short}" if short.isdecimal() else name)
    return full


def _build(job: TrainingJob, wish: Wish) -> tuple[Resource, Json]:
    name = job.key.name
    if wish.remove:
        delete = {"podNames": complete_names(name, wish.remove)}
        return SCALE_INS, build_scaling(SCALE_INS, name, {"toDelete": delete})
    by = wish.by or 0
    if by > 0:
        seconds = int(wish.timeout.total_seconds()) if wish.timeout is not None else 0
        limit = {"timeout": seconds} if seconds else {}
        return SCALE_OUTS, build_scaling(SCALE_OUTS, name, {"toAdd": {"count": by}, **limit})
    return SCALE_INS, build_scaling(SCALE_INS, name, {"toDelete": {"count": -by}})


def _describe_limit(scaling: Scaling) -> str:
    """When a ScaleOut gives itself up; nothing of what never does."""
    if scaling.kind is not ScalingKind.OUT:
        return ""
    if scaling.timeout is None:
        return ", without a timeout: it waits until its workers are there"
    return (
        f", with a timeout of {scaling.timeout.total_seconds():.0f} s from its start on "
        "(--timeout, --no-timeout)"
    )


async def _set_replicas(
    cluster: Cluster,
    screen: Screen,
    job: TrainingJob,
    wish: Wish,
    waiting: ReplicasWait,
    *,
    as_json: bool,
) -> bool:
    ref = Ref(TRAINING_JOBS, cluster.namespace, job.key.name)
    before = job.spec.worker.replicas if job.spec else 0
    quiet, target = waiting.screen, waiting.target
    check_bounds(job, target)
    await cluster.api.patch(ref, {"spec": {"replicas": target}}, subresource="scale")
    quiet.say(f"{job.key.name}: {before} -> {count(target, 'worker')} asked for")
    if wish.wait is not None:
        what = f"the change to {count(target, 'worker')}"
        name = job.key.name
        left = f"goes on: `et describe {name}` shows how far it is"
        await _wait(cluster, quiet, ref, waiting.see, Patience(wish.wait, what, left))
    if as_json:
        screen.show_json(waiting.newest or await cluster.api.get(ref))
    return waiting.has_succeeded or wish.wait is None


class Patience(NamedTuple):
    """How long is waited for what, and what is `left` to say to whoever waits no longer."""

    limit: timedelta
    what: str
    left: str


async def _wait(cluster: Cluster, screen: Screen, ref: Ref, see: See, patience: Patience) -> None:
    limit, what, left = patience
    try:
        with screen.telling(f"{what} {left}", unless=(Exception,)):  # Ctrl-C
            await follow_within(cluster, ref, see, limit)
    except TimeoutError as error:
        seconds = limit.total_seconds()
        raise EtError(f"{what} is not done after {seconds:.0f} s; it {left}") from error


@dataclass(slots=True)
class ScalingWait:
    """Watches a ScaleIn or ScaleOut, and tells of each worker once."""

    screen: Screen
    newest: Json
    has_succeeded: bool = False
    told: set[str] = field(default_factory=set)
    said: str = ""
    is_at_commits: bool = False

    def see(self, obj: Json | None) -> bool:
        """Take the scaling as it is now; True when it has ended."""
        if obj is None:
            self.screen.say(f"{get_meta(self.newest, 'name')} was deleted: it is cancelled")
            return True
        self.newest = obj
        scaling = decode_scaling(obj)
        status = scaling.status
        tell_outcomes(self.screen, status.workers, self.told)
        if status.phase is None or not status.phase.is_final:
            self.said = tell_wait(self.screen, status.conditions[-1:], self.said)
            return False
        self.has_succeeded = status.phase == "ScaleSucceeded"
        if self.has_succeeded:
            for name in status.add_pods:
                self.screen.say(f"  {name} joined")
            tell_use(self.screen, status.add_pods, is_at_commits=self.is_at_commits)
        self.screen.say(self._conclude(scaling))
        return True

    def _conclude(self, scaling: Scaling) -> str:
        name, conditions = f"{scaling.kind.value} {scaling.name}", scaling.status.conditions
        if not conditions:  # somebody has removed them
            return f"{name} {'succeeded' if self.has_succeeded else 'failed'}"
        if self.has_succeeded:
            return f"{name} succeeded: {conditions[-1].message}"
        return f"{name} failed ({conditions[-1].reason}): {conditions[-1].message}"


@dataclass(slots=True)
class ReplicasWait:
    """Watches a job until the number of workers that was asked for is there."""

    screen: Screen
    target: int
    newest: Json | None = None
    has_succeeded: bool = False
    told: set[str] = field(default_factory=set)
    record: ScalingRecord | None = None
    said: str = ""
    is_at_commits: bool = False

    def see(self, obj: Json | None) -> bool:
        """Take the job as it is now; True when the change is over, one way or another."""
        if obj is None:
            self.screen.say("the job was deleted")
            return True
        self.newest = obj
        job = decode_job(obj)
        current = job.status.scaling
        if current is not None and self._is_mine(current):
            self.record = current
            tell_outcomes(self.screen, current.workers, self.told)
        elif self.record is None and not self._is_over(job):
            return False
        record = self.record
        if record is not None and record.outcome is None and current == record:
            found = [c for c in job.status.conditions if c.type == "Scaling"]
            self.said = tell_wait(self.screen, found, self.said)
            return False
        return self._conclude(job)

    def _is_mine(self, record: ScalingRecord) -> bool:
        return record.kind.is_number and record.target == self.target

    def _is_over(self, job: TrainingJob) -> bool:
        """Whether nothing is left to be decided, or nothing will be."""
        wanted = job.spec.worker.replicas if job.spec else None
        is_decided = job.status.scaling is None and job.status.decided_replicas == wanted
        return is_decided or has_ended(job)

    def _conclude(self, job: TrainingJob) -> bool:
        outcome = self.record.outcome if self.record else None
        reached = job.status.decided_replicas
        self.has_succeeded = outcome.succeeded if outcome else reached == self.target
        if self.has_succeeded:
            added = [worker.name for worker in self.record.added] if self.record else []
            for name in added:
                self.screen.say(f"  {name} joined")
            tell_use(self.screen, added, is_at_commits=self.is_at_commits)
            self.screen.say(f"{job.key.name} has {count(self.target, 'worker')}")
            return True
        there = f"it has {count(reached, 'worker')}, {job.status.phase}"
        why = outcome.message if outcome else there
        target = count(self.target, "worker")
        self.screen.say(f"{job.key.name} was not brought to {target}: {why}")
        return True


def tell_wait(screen: Screen, conditions: Sequence[Condition], said: str) -> str:
    """Say what is waited for, where that is something else than was `said`; what is said now.

    That a wait is over is not said: what was before it would be there twice.
    """
    message = conditions[0].message if conditions else ""
    if message and not said.startswith(message):
        screen.say(f"  {message}")
    return message or said


def lets_in_at_commits(job: TrainingJob) -> bool:
    """Whether the job trains now, and by a launcher that begins with new hosts at a commit."""
    is_horovod = job.spec is not None and job.spec.launcher.startswith("horovodrun")
    return is_horovod and is_true(job.status.conditions, "Running")


def tell_use(screen: Screen, added: Sequence[str], *, is_at_commits: bool) -> None:
    """When those that have joined are trained with: that they are listed is not that yet."""
    if added and is_at_commits:
        who = "it" if len(added) == 1 else "them"
        screen.say(f"  training uses {who} from its next commit on")


def tell_outcomes(screen: Screen, workers: Sequence[WorkerOutcome], told: set[str]) -> None:
    """A line for each worker that has left since the last look."""
    for worker in workers:
        if worker.name not in told:
            told.add(worker.name)
            screen.say(f"  {worker.name} left: {worker.result.value} after {worker.seconds:.1f} s")
