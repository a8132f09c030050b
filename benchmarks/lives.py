"""When pods were made, found a node and went, as a watch told; and what that says of a cluster.

No requests: experiments.py notes what its watch tells, shares.py asks. Times are when that came
here, in seconds of the experiment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from et_contract.pods import LABEL_JOB, LABEL_ROLE

LABEL_KIND = "edl-kind"
"""Of pods that no operator makes."""
_PREEMPTED = "PreemptionByScheduler"


class Kind(StrEnum):
    """What a pod is for; those of our jobs are called as their role is."""

    LAUNCHER = "launcher"
    TRAINER = "worker"
    COMPANION = "companion"
    SERVICE = "service"


@dataclass(slots=True)
class Life:
    """One pod's. Times are seconds of the experiment, None for what has not come."""

    kind: Kind
    job: str
    created: float
    node: str = ""
    bound: float | None = None
    leaving: float | None = None
    gone: float | None = None
    is_preempted: bool = False

    def is_there(self, at: float) -> bool:
        """Whether it was on a node then."""
        return self.bound is not None and self.bound <= at and (self.gone is None or at < self.gone)

    def measure_wait(self, until: float) -> float:
        """Seconds without a node, as of then."""
        ends = [end for end in (self.bound, self.leaving, self.gone, until) if end is not None]
        return min(ends) - self.created


class Lives:
    """The lives of all pods of a namespace."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Life] = {}

    def note(self, at: float, event: Mapping[str, Any]) -> None:
        """What a watch has told, and when."""
        pod = event["object"]
        metadata, labels = pod["metadata"], pod["metadata"].get("labels") or {}
        life = self._by_uid.get(metadata["uid"])
        if life is None:
            kind = Kind(labels.get(LABEL_ROLE) or labels[LABEL_KIND])
            life = Life(kind, labels.get(LABEL_JOB, ""), at)
            self._by_uid[metadata["uid"]] = life
        node = pod["spec"].get("nodeName") or ""
        if node and life.bound is None:
            life.node, life.bound = node, at
        if metadata.get("deletionTimestamp") and life.leaving is None:
            life.leaving = at
        conditions = pod.get("status", {}).get("conditions") or ()
        life.is_preempted |= any(one.get("reason") == _PREEMPTED for one in conditions)
        if event["type"] == "DELETED":
            life.gone = at

    def select(self, *kinds: Kind, job: str | None = None) -> list[Life]:
        """Of these kinds, in the order in which they were made; of one job, or of all."""
        return [
            life for life in self._by_uid.values() if life.kind in kinds and job in (None, life.job)
        ]

    def list_there(self, at: float) -> list[Life]:
        """The lives that were on a node then."""
        return [life for life in self._by_uid.values() if life.is_there(at)]

    def count_trainers(self, job: str, at: float) -> int:
        """How many of a job's were on nodes then."""
        return sum(life.is_there(at) for life in self.select(Kind.TRAINER, job=job))

    def find_first(self, job: str, count: int, *kinds: Kind) -> float | None:
        """When so many of a job's pods first had had a node."""
        bound = (life.bound for life in self.select(*kinds, job=job))
        times = sorted(time for time in bound if time is not None)
        return times[count - 1] if len(times) >= count else None


def trace(value: Callable[[float], float], until: float) -> Iterator[tuple[float, float]]:
    """A value at each full second, where it has changed, and at the end."""
    last = None
    for second in range(int(until) + 1):
        now = value(float(second))
        if now != last or second == int(until):
            yield float(second), now
        last = now
