"""Plans become requests here and nowhere else; what each answer means for each action."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import Any, Protocol, TypeAlias, assert_never

from et_operator.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    EtOperatorError,
    NotFound,
    OutcomeUnknown,
    Refused,
    ServerFailed,
)
from et_operator.kube.api import Api
from et_operator.kube.keying import make_keys
from et_operator.model.actions import Action, Create, CreateKeys, Delete, Patch, get_resource
from et_operator.model.jobs import JobStatus, TrainingJob
from et_operator.model.plans import Plan, Report
from et_operator.model.resources import PODS, SECRETS, TRAINING_JOBS, Json, Resource


class Records(Protocol):
    """Where reports go; recording.Recorder is one."""

    def record(self, report: Report) -> None:
        """Never blocks, never fails."""
        ...


@dataclass(frozen=True, slots=True)
class Written:
    """An object as the server stored it."""

    resource: Resource
    object: Json


@dataclass(frozen=True, slots=True)
class Failure:
    """What did not work, and why; `action` None is the write of the status."""

    action: Action | None
    error: EtOperatorError


@dataclass(frozen=True, slots=True)
class Missing:
    """What was to be deleted is not there."""

    action: Delete


Answer: TypeAlias = Written | CreateKeys | Delete | Missing | Failure
"""What came of one action; Delete itself when its object goes, CreateKeys when there are keys."""


@dataclass(frozen=True, slots=True)
class Execution:
    """What came of a plan: everything up to the first failure, in order.

    `missing` are deletions of what was not there any more, which is no failure.
    """

    written: tuple[Written, ...] = ()
    keys: tuple[CreateKeys, ...] = ()
    deleted: tuple[Delete, ...] = ()
    missing: tuple[Delete, ...] = ()
    failures: tuple[Failure, ...] = ()

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

    def _select(self, *kinds: type[EtOperatorError]) -> tuple[Failure, ...]:
        return tuple(failure for failure in self.failures if isinstance(failure.error, kinds))


class Executor:
    """Does what plans say.

    Args:
        api: where to write.
        records: told the reports of plans that were done completely.
        encode_status: a job's status as the body of a merge patch, {"status": ...}, without the
            fields that could not be read.
        make_keys: new ssh keys, by their names in the Secret.
        pod_requests: pods of one plan that may be in creation, or in deletion, at once.
    """

    def __init__(
        self,
        api: Api,
        records: Records,
        encode_status: Callable[[JobStatus, Collection[str]], Json],
        *,
        make_keys: Callable[[], Mapping[str, str]] = make_keys,
        pod_requests: int,
    ) -> None:
        self._api = api
        self._records = records
        self._encode_status = encode_status
        self._make_keys = make_keys
        self._pod_requests = pod_requests

    async def execute(self, plan: Plan, job: TrainingJob | None) -> Execution:
        """Status, then the actions, then the reports; a failure ends it. Raises no EtOperatorError.

        `job` is what the plan was made from (None: from scalings that have no job). Its status is
        written where the plan's differs, and only to this very version of the job.
        """
        answers: list[Answer] = []
        if job is not None and plan.status is not None and plan.status != job.status:
            answers.append(await self._write_status(plan.status, job))
        for batch in split_batches(plan.actions):
            if any(isinstance(answer, Failure) for answer in answers):
                break
            answers += await self._execute_batch(batch)
        execution = sort_answers(answers)
        if execution.is_complete:
            for report in plan.reports:
                self._records.record(report)
        return execution

    async def _write_status(self, status: JobStatus, job: TrainingJob) -> Answer:
        ref = job.key.ref
        body = pin(self._encode_status(status, job.unread), job.uid, job.resource_version)
        try:
            return Written(TRAINING_JOBS, await self._api.patch(ref, body, subresource="status"))
        except EtOperatorError as error:
            return Failure(None, error)

    async def _execute_batch(self, batch: tuple[Action, ...]) -> list[Answer]:
        """Run actions that need no order; none is begun after a failure that others may share."""
        answers: dict[int, Answer] = {}
        queue = iter(enumerate(batch))
        runners = min(self._pod_requests, len(batch))
        async with asyncio.TaskGroup() as group:
            for _ in range(runners):
                group.create_task(self._drain(queue, answers))
        return [answers[number] for number in sorted(answers)]

    async def _drain(self, queue: Iterator[tuple[int, Action]], answers: dict[int, Answer]) -> None:
        """One of the runners that share a batch. A quota that is used up refuses all the rest."""
        for number, action in queue:
            answers[number] = await self._run(action)
            if any(is_shared(answer) for answer in answers.values()):
                return

    async def _run(self, action: Action) -> Answer:
        try:
            return await self._request(action)
        except EtOperatorError as error:
            return Failure(action, error)

    async def _request(self, action: Action) -> Answer:
        """What each action is for the server, and which of its errors is as good as success."""
        match action:
            case Create(resource, manifest):
                namespace = manifest["metadata"].get("namespace")
                return Written(resource, await self._api.create(resource, namespace, manifest))
            case CreateKeys(manifest):
                await self._create_keys(manifest)
                return action  # what the server stored is no business of ours any more
            case Patch(ref, uid, body, resource_version, subresource):
                pinned = pin(body, uid, resource_version)
                stored = await self._api.patch(ref, pinned, subresource=subresource)
                return Written(ref.resource, stored)
            case Delete(ref, uid, resource_version, grace_seconds):
                try:
                    await self._api.delete(
                        ref, uid=uid, resource_version=resource_version, grace_seconds=grace_seconds
                    )
                except NotFound:
                    return Missing(action)
                return action
            case _:
                assert_never(action)

    async def _create_keys(self, manifest: Json) -> None:
        body = {**manifest, "stringData": self._make_keys()}
        try:
            await self._api.create(SECRETS, manifest["metadata"]["namespace"], body)
        except AlreadyExists:
            return  # as good: see CreateKeys


def split_batches(actions: Iterable[Action]) -> Iterator[tuple[Action, ...]]:
    """Consecutive creations of pods together, and deletions of pods; everything else alone."""
    for kind, group in groupby(actions, get_batch_kind):
        if kind is None:
            yield from ((action,) for action in group)
        else:
            yield tuple(group)


def get_batch_kind(action: Action) -> type[Action] | None:
    """What it may run beside: its like, where it is about a pod."""
    return type(action) if get_resource(action) == PODS and not isinstance(action, Patch) else None


def is_shared(answer: Answer) -> bool:
    """Whether it is a failure that the next request may meet as well.

    That one pod has changed meanwhile says nothing of those that are to be deleted after it.
    """
    if not isinstance(answer, Failure):
        return False
    return not (isinstance(answer.action, Delete) and isinstance(answer.error, Conflict))


def pin(body: Json, uid: str, resource_version: str | None) -> Json:
    """A merge patch that fails with Conflict unless the object is still this one."""
    metadata: dict[str, Any] = dict(body.get("metadata") or {})
    metadata["uid"] = uid
    if resource_version is not None:
        metadata["resourceVersion"] = resource_version
    return {**body, "metadata": metadata}


def sort_answers(answers: Iterable[Answer]) -> Execution:
    """Answers by what they are."""
    kinds: Mapping[type, list[Any]] = {
        Written: [],
        CreateKeys: [],
        Delete: [],
        Missing: [],
        Failure: [],
    }
    for answer in answers:
        kinds[type(answer)].append(answer)
    return Execution(
        written=tuple(kinds[Written]),
        keys=tuple(kinds[CreateKeys]),
        deleted=tuple(kinds[Delete]),
        missing=tuple(answer.action for answer in kinds[Missing]),
        failures=tuple(kinds[Failure]),
    )
