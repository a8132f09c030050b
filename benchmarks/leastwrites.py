"""The least that an operator must write for a job to run, object by object.

Derived by hand for writes_per_job.py, and not read off the operator: what that writes beside has to
answer for itself.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Need:
    """So many writes that nothing can spare, and why."""

    count: int
    what: str
    why: str


def list_needs(workers: int) -> tuple[Need, ...]:
    """What a job of so many workers takes from its creation until it runs."""
    return (
        Need(workers, "create worker pods", "one request a pod: the API has no other way"),
        Need(1, "create the launcher pod", "it runs the user's command"),
        Need(
            1, "create a ServiceAccount", "the broker's identity; with another's it could do more"
        ),
        Need(1, "create a Role", "exec into this job's workers by name, and nothing else"),
        Need(1, "create a RoleBinding", "a Role alone grants nothing"),
        Need(1, "create a NetworkPolicy", "Horovod's rendezvous believes whoever reaches it"),
        Need(1, "create the config", "the broker may read it by name, and needs one to read"),
        Need(1, "create the report", "the broker may patch it by name, and cannot create it"),
        Need(1, "patch the config", "it names the pods' uids, which are known when the pods exist"),
    )


SHARED = Need(1, "create the runtime ConfigMap", "once in a namespace and version, for all jobs")


def count_least(workers: int, jobs: int) -> float:
    """Writes per job, when so many jobs of that size share a namespace."""
    return sum(need.count for need in list_needs(workers)) + SHARED.count / jobs
