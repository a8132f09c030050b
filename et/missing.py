"""Logs that are asked for and cannot be had: which, and what to do instead."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from et.reading import has_ended
from et_contract.pods import Role, build_worker_name, read_worker_index
from et_operator.model.jobs import TrainingJob
from et_operator.model.pods import Pod

LAUNCHER = "launcher"


def is_wanted(pod: Pod, only: Collection[str]) -> bool:
    """Whether its log was asked for: by its name, as `launcher`, or with all others."""
    return not only or pod.name in only or (pod.role is Role.LAUNCHER and LAUNCHER in only)


def has_started(pod: Pod) -> bool:
    """Whether there is a log of its own container."""
    return pod.has_container_started or pod.is_terminal


def explain_absent(
    job: TrainingJob, pods: Sequence[Pod], only: Collection[str], *, is_following: bool
) -> Iterator[str]:
    """Why what was asked for is not there; nothing of what may still come to who follows."""
    if not only and not pods and has_ended(job):
        yield f"the pods of {job.key.name} have gone, and what they printed with them"
    for name in sorted(only):
        if not any(is_wanted(pod, (name,)) for pod in pods):
            yield from _explain(job, name, is_following=is_following)


def list_notes(job: TrainingJob, pods: Sequence[Pod], only: Collection[str]) -> Iterator[str]:
    """What a reader of these logs should know that is in none of them."""
    name = job.key.name
    wanted = [pod for pod in pods if is_wanted(pod, only)]
    if not any(has_started(pod) for pod in wanted):
        yield f"no container of {name} has started yet: `et describe {name}` says what it waits for"
    launchers = [pod for pod in wanted if pod.role is Role.LAUNCHER]
    if job.status.epoch > 1 and len(launchers) == 1:
        yield (
            f"this is launcher number {job.status.epoch} of {name}: what those before it printed "
            f"went with their pods; `et describe {name}` has how they ended"
        )


def _explain(job: TrainingJob, name: str, *, is_following: bool) -> Iterator[str]:
    """Of one that has no pod."""
    whose, index = job.key.name, read_worker_index(name)
    if name == LAUNCHER:
        if has_ended(job):
            yield f"the launcher of {whose} has gone, and what it printed with it"
        return  # it is made, or made again
    if index is None or name != build_worker_name(whose, index):
        yield f"{name!r} is no worker of {whose}: write worker-0, 0, or launcher"
    elif index <= job.status.last_worker_index and name not in job.status.target_workers:
        yield (
            f"{name} has left, and its log with it: what its processes printed is in the "
            f"launcher's too (et logs {whose} launcher)"
        )
    elif index > job.status.last_worker_index and (has_ended(job) or not is_following):
        yield f"{whose} has no {name}"
