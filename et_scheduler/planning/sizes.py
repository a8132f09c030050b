"""Which numbers of workers a job may have.

Functions of one job alone, for every step that asks. While a job runs, its elasticity is what it
was when it was admitted.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from et_contract.admissions import AdmissionState, Elasticity
from et_scheduler.model.jobs import Job


def find_elasticity(job: Job) -> Elasticity:
    """What was fixed when it was admitted holds until it is held again."""
    admission = job.admission
    if admission is not None and admission.state is AdmissionState.ADMITTED and not job.is_waiting:
        return admission.elasticity
    return job.elasticity


def find_least(job: Job) -> int:
    """The least workers with which it starts, and which it keeps."""
    if find_elasticity(job) is Elasticity.FIXED:
        return job.replicas
    place = bisect_left(job.sizes, job.minimum)
    return job.sizes[place] if place < len(job.sizes) else job.minimum


def find_most(job: Job) -> int:
    """The most workers it may ever have."""
    if find_elasticity(job) is Elasticity.FIXED:
        return job.replicas
    place = bisect_right(job.sizes, job.maximum)
    return max(job.sizes[place - 1] if place else job.maximum, find_least(job))


def find_next(job: Job, workers: int) -> int:
    """The next allowed size above this one, or the same number where there is none."""
    most = find_most(job)
    if workers >= most:
        return workers
    place = bisect_right(job.sizes, workers)
    return min(job.sizes[place], most) if place < len(job.sizes) else workers + 1


def find_floor(job: Job, workers: int) -> int:
    """The largest allowed size that is not above this one, the least at least."""
    return max(find_allowed(job, workers), find_least(job))


def find_allowed(job: Job, workers: int) -> int:
    """As the floor, below the least too; this number where no size is as small, or none is ours."""
    place = bisect_right(job.sizes, workers)
    is_ours = find_elasticity(job) is Elasticity.AUTO
    return job.sizes[place - 1] if place and is_ours else workers
