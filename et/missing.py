"""Logs that are asked for and cannot be had: which, and what to do instead.

No I/O: tailing.py says what is there, and shows the sentences. What may still come to one who
follows is never called missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from et.reading import has_ended
from et_contract.pods import Role, read_own_index
from et_operator.model.jobs import TrainingJob
from et_operator.model.pods import Pod

LAUNCHER = "launcher"


def is_wanted(pod: Pod, only: Collection[str]) -> bool:
    """Whether the pod's log was asked for: by its name, as `launcher`, or with all others."""
    return not only or pod.name in only or (pod.role is Role.LAUNCHER and LAUNCHER in only)


def has_started(pod: Pod) -> bool:
    """Whether there is a log of its own container."""
    return pod.has_container_started or pod.is_terminal


def find_gone(
    job: TrainingJob, pods: Sequence[Pod], only: Collection[str], now: datetime
) -> list[str]:
    """Workers that were asked for, have been there, and never come back.

    A pod may stay that has outlived its grace: on a lost node, or held by a finalizer.
    """
    there = {pod.name for pod in pods if pod.grace_end is None or now < pod.grace_end}
    return [name for name in sorted(only) if name not in there and has_left(job, name)]


def explain_absent(
    job: TrainingJob,
    pods: Sequence[Pod],
    only: Collection[str],
    *,
    is_following: bool,
    is_unread: bool = False,
) -> Iterator[str]:
    """Why what was asked for is not there; nothing of what may still come to who follows.

    With `is_unread` a log could not be read that may have the last lines of who has gone.
    """
    if not only and not pods and has_ended(job):
        yield f"the pods of {job.key.name} have gone, and what they printed with them"
    kept = _describe_kept(job, pods, is_unread=is_unread)
    for name in sorted(only):
        if not any(is_wanted(pod, (name,)) for pod in pods):
            yield from _explain(job, name, kept, is_following=is_following)


def list_notes(job: TrainingJob, pods: Sequence[Pod], only: Collection[str]) -> Iterator[str]:
    """What a reader of these logs should know that is in none of them."""
    name = job.key.name
    wanted = [pod for pod in pods if is_wanted(pod, only)]
    if not any(has_started(pod) for pod in wanted):
        told = (
            f"no container of {name} has started yet" if wanted else f"{name} has no such pod now"
        )
        told = told if wanted or only else f"{name} has no pods now"
        yield f"{told}: `et describe {name}` says what it waits for"
    launchers = [pod for pod in wanted if pod.role is Role.LAUNCHER]
    gone = job.status.epoch - len(launchers)
    if launchers and gone > 0:
        those = "the first one printed went with its pod"
        those = those if gone == 1 else f"the first {gone} printed went with their pods"
        yield (
            f"this is launcher number {job.status.epoch} of {name}: what {those}; "
            f"`et describe {name}` has how they ended"
        )


def _describe_kept(job: TrainingJob, pods: Sequence[Pod], *, is_unread: bool) -> str:
    """Where the last lines of a worker are that has gone, and was not found there."""
    if not any(pod.role is Role.LAUNCHER for pod in pods):
        return "the launcher's pod, which keeps the last lines of workers, has gone too"
    kept = (
        "the log of the launcher's broker, which may have its last lines, cannot be read"
        if is_unread
        else "its last lines are not among those that the launcher's broker has in its log"
    )
    launchers = sum(pod.role is Role.LAUNCHER for pod in pods)
    if job.status.epoch > launchers:
        return f"{kept}; the log of the launcher of its time may have gone with that one's pod"
    return (
        f"{kept}; what its processes printed is in the launcher's too "
        f"(et logs {job.key.name} launcher)"
    )


def _explain(job: TrainingJob, name: str, kept: str, *, is_following: bool) -> Iterator[str]:
    """Of one that has no pod, and nothing of what it printed was found."""
    whose = job.key.name
    if name == LAUNCHER:
        if has_ended(job):
            yield f"the launcher of {whose} has gone, and what it printed with it"
        elif not is_following:  # it is made, or made again
            yield f"the launcher of {whose} has no pod now: `et describe {whose}` says why"
        return
    index = read_own_index(name, whose)
    if index is None:
        yield f"{name!r} is no worker of {whose}: write worker-0, 0, or launcher"
    elif has_left(job, name):
        yield f"{name} has left, and its log with it: {kept}"
    elif index > job.status.last_worker_index and (has_ended(job) or not is_following):
        yield f"{whose} has no {name}"
    elif not is_following:
        yield f"{name} has no pod now: `et describe {whose}` says why"


def has_left(job: TrainingJob, name: str) -> bool:
    """Whether the name was of a worker of this job, and is none's any more: none is used again."""
    index = read_own_index(name, job.key.name)
    is_former = index is not None and index <= job.status.last_worker_index
    return is_former and (has_ended(job) or name not in job.status.target_workers)
