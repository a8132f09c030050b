"""Jobs with a queue: whether et-scheduler lets them have pods, and how many.

The operator speaks first: it holds the job, and says what its pods ask of a node. What it is
answered becomes, here and nowhere else, a spec that is suspended or has another number of workers;
all other rules read that one and know nothing of queues.
"""

from __future__ import annotations

from dataclasses import replace

from et_contract.admissions import ADMITTED, AdmissionState, Elasticity, Placement
from et_operator.model.admissions import Admission
from et_operator.model.conditions import is_true
from et_operator.model.jobs import TrainingJob
from et_operator.model.specs import CleanPodPolicy, JobSpec
from et_operator.model.statuses import JobStatus, ScalingKind, ScalingRecord


def is_queued(job: TrainingJob) -> bool:
    """Whether et-scheduler decides about this job.

    A job that runs without its word does so until its next start, whatever its spec says since; one
    that was admitted stays so until its pods are gone.
    """
    if job.spec is None:
        return False
    if is_running(job.status):
        return is_true(job.status.conditions, ADMITTED)
    return bool(job.spec.queue)


def is_running(status: JobStatus) -> bool:
    """Whether the job was started and is not suspended since."""
    return status.epoch > 0 and not is_true(status.conditions, "Suspended")


def is_admitted(job: TrainingJob) -> bool:
    """Whether a job with a queue may have pods.

    Each admission starts a job once. One that cannot be read, or that somebody removed, changes
    nothing of a job that runs.
    """
    status, admission = job.status, job.admission
    is_under_way = is_running(status) and is_true(status.conditions, ADMITTED)
    if admission is None:
        return is_under_way
    if admission.state is not AdmissionState.ADMITTED:
        return False
    return admission.number > status.admitted_number or is_under_way


def apply_admission(job: TrainingJob) -> TrainingJob:
    """The job as if its author had asked for what it was admitted to."""
    if job.spec is not None and (is_queued(job) or job.status.admitted_number):
        job = _give_back(job, job.spec)
    if job.spec is None or not is_queued(job):
        return job
    if not is_admitted(job):
        return replace(job, spec=replace(job.spec, suspend=True))
    if job.admission is None:
        return _limit(job, job.spec, job.status.decided_replicas or job.spec.worker.replicas)
    return _limit(job, job.spec, _count_workers(job.spec, job.admission))


def is_held(job: TrainingJob) -> bool:
    """Whether the job has no pods because et-scheduler has not said so, or not any more."""
    is_wanted = job.spec is not None and not job.spec.suspend
    return is_wanted and is_queued(job) and not is_admitted(job)


def is_number_its_own(job: TrainingJob) -> bool:
    """Whether the author of a job in a queue says how many workers it has, within its admission."""
    admission = job.admission
    return (
        is_running(job.status)
        and admission is not None
        and admission.state is AdmissionState.ADMITTED
        and admission.elasticity is Elasticity.FIXED
    )


def count_allowed(job: TrainingJob, number: int) -> int:
    """How many of so many workers the job may have now, where the number is its author's."""
    if job.admission is None or not (is_queued(job) and is_number_its_own(job)):
        return number
    return _cap(number, job.admission)


def awaits_room(job: TrainingJob, scaling: ScalingRecord) -> bool:
    """Whether a ScaleOut has brought its number into the spec, or will, and no worker yet.

    In a queue these come when et-scheduler lets the job have as many.
    """
    is_growth = scaling.kind is ScalingKind.OUT and not scaling.added
    return is_growth and is_queued(job) and not is_true(job.status.conditions, "Suspended")


def find_leavers(job: TrainingJob) -> frozenset[str]:
    """Names of the workers that et-scheduler wants to go first."""
    return frozenset(job.admission.leaving) if job.admission and is_queued(job) else frozenset()


def find_placement(job: TrainingJob) -> Placement:
    """On which nodes pods that are created now may look for a place."""
    return job.admission.placement if job.admission and is_queued(job) else Placement()


def _count_workers(spec: JobSpec, admission: Admission) -> int:
    if admission.elasticity is Elasticity.AUTO:
        return max(admission.workers, 1)
    return _cap(spec.worker.replicas, admission)


def _cap(number: int, admission: Admission) -> int:
    return max(min(number, admission.workers), 1)


def _limit(job: TrainingJob, spec: JobSpec, number: int) -> TrainingJob:
    """The job with `number` as its replicas, and with bounds widened to have it between them."""
    worker = spec.worker
    least, most = worker.min_replicas, worker.max_replicas
    worker = replace(
        worker,
        replicas=number,
        min_replicas=None if least is None else min(least, number),
        max_replicas=None if most is None else max(most, number),
    )
    return replace(job, spec=replace(spec, worker=worker))


def _give_back(job: TrainingJob, spec: JobSpec) -> TrainingJob:
    """What a job in a queue was admitted to is others' when it has ended, however it did.

    Workers that run on would be nobody's, beside the queue's limit and out of every share.
    """
    if spec.clean_pod_policy is not CleanPodPolicy.NONE:
        return job
    return replace(job, spec=replace(spec, clean_pod_policy=CleanPodPolicy.RUNNING))
