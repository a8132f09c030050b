"""What came of a plan: the answer to each of its actions, and what may be begun after it.

Data and questions about it, no request: the executor sorts its answers here, believing.py and
reconciling.py read what came of them. Which failure stops what comes after it is said here alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from et_kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    KubeError,
    NotFound,
    OutcomeUnknown,
    Refused,
    ServerFailed,
)
from et_kube.resources import Json, Ref, Resource
from et_kube.tables import Entry
from et_operator.model.actions import Action, Delete, DryRun, WriteStatus


@dataclass(frozen=True, slots=True)
class Written:
    """What is kept of an object that the server stored.

    A plan has a thousand of them, and anybody may have written a megabyte into each.
    """

    resource: Resource
    entry: Entry[Any]

    @property
    def ref(self) -> Ref:
        """The object, by the name that it was stored under."""
        return Ref(self.resource, *self.entry.place)


@dataclass(frozen=True, slots=True)
class Failure:
    """What did not work, and why."""

    action: Action
    error: KubeError

    @property
    def is_of_status(self) -> bool:
        """Whether it is the job's own status that could not be written."""
        return isinstance(self.action, WriteStatus)

    @property
    def words(self) -> str:
        """The server's own, where it has said any."""
        return self.error.message if isinstance(self.error, ApiError) else str(self.error)


@dataclass(frozen=True, slots=True)
class Missing:
    """What was to be deleted is not there."""

    action: Delete


@dataclass(frozen=True, slots=True)
class KeysMade:
    """The name that the server gave to a Secret of keys; what is in it is nobody's to keep."""

    name: str


@dataclass(frozen=True, slots=True)
class Tried:
    """A pod as the server would have created it."""

    action: DryRun
    object: Json


Answer: TypeAlias = Written | KeysMade | Tried | Delete | Missing | Failure
"""What came of one action; Delete itself when its object goes."""


@dataclass(frozen=True, slots=True)
class Execution:
    """What came of a plan: everything up to the first failure, in order.

    `missing` are deletions of what was not there any more, which is no failure. `is_cut`: it took
    so long that some of it was not begun.
    """

    written: tuple[Written, ...] = ()
    keys: tuple[KeysMade, ...] = ()
    tried: tuple[Tried, ...] = ()
    deleted: tuple[Delete, ...] = ()
    missing: tuple[Delete, ...] = ()
    failures: tuple[Failure, ...] = ()
    is_cut: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether all of it was done."""
        return not self.failures

    @property
    def conflicts(self) -> tuple[Failure, ...]:
        """The plan was made from something that is no longer so: look again."""
        return self._select(AlreadyExists, Conflict, NotFound)

    @property
    def refusals(self) -> tuple[Failure, ...]:
        """The server does not want this; the errors have its words."""
        return self._select(Refused)

    @property
    def unknowns(self) -> tuple[Failure, ...]:
        """Writes that may have happened: read before the next one."""
        return self._select(OutcomeUnknown, ServerFailed)

    @property
    def retry_after(self) -> timedelta | None:
        """The longest wait that the server asked for."""
        errors = (failure.error for failure in self.failures)
        waits = [error.retry_after for error in errors if isinstance(error, ApiError)]
        return max((wait for wait in waits if wait is not None), default=None)

    def _select(self, *kinds: type[KubeError]) -> tuple[Failure, ...]:
        return tuple(failure for failure in self.failures if isinstance(failure.error, kinds))


def is_shared(answer: Answer) -> bool:
    """Whether the answer is a failure that the next request of its batch may meet as well.

    What a server says of one pod that is to be deleted says nothing of those after it.
    """
    if not isinstance(answer, Failure):
        return False
    return is_in_the_way(answer) and not (
        isinstance(answer.action, Delete) and isinstance(answer.error, Conflict)
    )


def is_in_the_way(answer: Answer) -> bool:
    """Whether after this answer nothing of the plan is done but what stands alone."""
    if not isinstance(answer, Failure):
        return False
    return not is_about_one(answer) or not answer.action.stands_alone


def is_about_one(failure: Failure) -> bool:
    """Whether this one object is what the server, or somebody's webhook, wants untouched."""
    return not failure.is_of_status and isinstance(failure.error, (Refused, ServerFailed))


def may_follow(batch: Iterable[Action], answers: Iterable[Answer]) -> bool:
    """Whether these actions may be begun after what was answered before."""
    in_the_way = [a for a in answers if isinstance(a, Failure) and is_in_the_way(a)]
    is_alone = all(action.stands_alone for action in batch)
    return not in_the_way or (all(map(is_about_one, in_the_way)) and is_alone)


def sort_answers(answers: Iterable[Answer]) -> Execution:
    """Answers by what they are."""
    kinds: Mapping[type, list[Any]] = {
        Written: [],
        KeysMade: [],
        Tried: [],
        Delete: [],
        Missing: [],
        Failure: [],
    }
    for answer in answers:
        kinds[type(answer)].append(answer)
    return Execution(
        written=tuple(kinds[Written]),
        keys=tuple(kinds[KeysMade]),
        tried=tuple(kinds[Tried]),
        deleted=tuple(kinds[Delete]),
        missing=tuple(answer.action for answer in kinds[Missing]),
        failures=tuple(kinds[Failure]),
    )
