"""What et-scheduler lets a job with a queue have, and what the operator tells it of the job.

The first is read by the codec and carried out by planning/admitting.py, the second recorded by
planning/queueing.py: each has one writer, and the other side never touches it.
"""

from __future__ import annotations

from dataclasses import dataclass

from et_contract.admissions import ANYWHERE, AdmissionState, Elasticity, Placement
from et_kube.resources import Json


@dataclass(frozen=True, slots=True)
class Admission:
    """`status.admission`, as far as it is carried out.

    `number` rises with each admission: one that was spent starts nothing any more. `leaving` are
    names of workers that go first. `queue` is the one by which the job counts; "": not known.
    """

    number: int
    state: AdmissionState
    elasticity: Elasticity = Elasticity.AUTO
    workers: int = 0
    leaving: tuple[str, ...] = ()
    placement: Placement = ANYWHERE
    message: str = ""
    queue: str = ""


@dataclass(frozen=True, slots=True)
class Shapes:
    """What one launcher and one worker ask of a node: documents of et_kube/shaping, by `role`.

    A list, for a merge patch would leave in an object what a former template asked for. `elastic`:
    whether the job's command takes other numbers of workers than it started with.
    """

    pods: tuple[Json, ...]
    elastic: bool = True

    @property
    def is_proven(self) -> bool:
        """Whether the server has said as what it would create such pods."""
        return all("priority" in pod for pod in self.pods)
