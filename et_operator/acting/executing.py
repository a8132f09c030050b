"""Plans become requests here and nowhere else; what each answer means for each action.

Passes and the hourly sweep call it. No error of the server leaves it: each becomes an outcome
(outcomes.py), and what rests on a write that failed is not begun. It tries nothing a second time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import Any, Protocol

from et_kube.api import Api
from et_kube.errors import (
    AlreadyExists,
    KubeError,
    NotFound,
)
from et_kube.events import Event
from et_kube.resources import CONFIG_MAPS, PODS, SECRETS, TRAINING_JOBS, Json, Ref, Resource
from et_kube.tables import Entry
from et_operator.acting.comparing import check_creation, check_status, is_lost
from et_operator.acting.keying import make_keys
from et_operator.acting.outcomes import (
    Answer,
    Execution,
    Failure,
    KeysMade,
    Missing,
    Tried,
    Written,
    is_shared,
    may_follow,
    sort_answers,
)
from et_operator.codec.encoding import encode_change, find_subresource
from et_operator.model.actions import (
    Action,
    Change,
    Create,
    CreateKeys,
    Delete,
    DryRun,
    WriteStatus,
)
from et_operator.model.jobs import TrainingJob
from et_operator.model.plans import Plan

LONGEST = 10.0
"""Seconds in which actions of a plan are begun. Where each takes its time (a webhook hangs), a pass
would take minutes, and whatever else happens to its job would wait for it."""


class Records(Protocol):
    """Where events go; recording.Recorder is one."""

    def record(self, event: Event) -> None:
        """Never blocks, never fails."""
        ...


class Executor:
    """Does what plans say.

    Args:
        api: where to write.
        records: told the events of plans that were done completely.
        keep: what is kept of each object as it was stored, until all of a plan is done.
        make_keys: new ssh keys, by their names in the Secret.
        requests_at_once: objects of one plan that may be in creation, or pods in deletion, at once.
        now: seconds, from any start (Clock.monotonic).
    """

    def __init__(
        self,
        api: Api,
        records: Records,
        *,
        keep: Callable[[Resource, Json], Entry[Any]],
        make_keys: Callable[[], Mapping[str, str]] = make_keys,
        requests_at_once: int,
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._api = api
        self._records = records
        self._keep = keep
        self._make_keys = make_keys
        self._requests_at_once = requests_at_once
        self._now = now

    async def execute(self, plan: Plan, job: TrainingJob | None) -> Execution:
        """Status, then the actions, then the events. Raises no KubeError.

        `job` is what the plan was made from (None: it is about none that is there). Its status is
        written where the plan's differs, and only to this very version of the job.
        """
        answers: list[Answer] = []
        if job is not None and plan.status is not None and plan.status != job.status:
            pinned = (job.key.ref, job.uid, job.resource_version)
            answers += await self._write_status(WriteStatus(*pinned, plan.status, job.unread))
        execution, left = await self._execute_actions(plan.actions, answers)
        if job is not None:
            self._tell_refused_status(job, execution)
        for event in select_events(plan, execution.failures, left):
            self._records.record(event)
        return execution

    async def _execute_actions(
        self, actions: tuple[Action, ...], answers: list[Answer]
    ) -> tuple[Execution, list[Action]]:
        """What came of all of them together with `answers`; and those that were not begun.

        What stands alone is begun for so long. Nothing else is kept waiting by it, but nothing
        follows where pods were to come first and not all have.
        """
        end, before = self._now() + LONGEST, len(answers)
        left: list[Action] = []
        is_short = False
        for batch in split_batches(actions):
            is_alone = all(action.stands_alone for action in batch)
            may_begin = self._now() < end if is_alone else not is_short
            if not may_begin or not may_follow(batch, answers):
                left += batch
                continue
            done = await self._execute_batch(batch)
            is_short |= not is_alone and len(done) < len(batch)
            answers += done
        is_cut = self._now() >= end and len(answers) - before < len(actions)
        return replace(sort_answers(answers), is_cut=is_cut), left

    async def _write_status(self, write: WriteStatus) -> list[Answer]:
        """What the server stored, and a failure where it has left a decision out."""
        try:
            stored = await self._patch(write)
        except KubeError as error:
            return [Failure(write, error)]
        dropped = check_status(encode_change(write), stored)
        written = Written(TRAINING_JOBS, self._keep(TRAINING_JOBS, stored))
        return [written, *([Failure(write, dropped)] if dropped else [])]

    def _tell_refused_status(self, job: TrainingJob, execution: Execution) -> None:
        """Record Events on a job whose status the server refuses: no condition can say it then."""
        for failure in execution.refusals:
            if failure.is_of_status:
                what = f"the status of TrainingJob {job.key.name}"
                message = f"the API server refuses {what}: {failure.words}"
                event = Event(job.key.ref, job.uid, "WritesRefused", message, is_warning=True)
                self._records.record(event)

    async def _execute_batch(self, batch: tuple[Action, ...]) -> list[Answer]:
        """Run actions that need no order; none is begun after a failure that others may share."""
        answers: dict[int, Answer] = {}
        end = self._now() + LONGEST
        queue = iter(enumerate(batch))
        runners = min(self._requests_at_once, len(batch))
        async with asyncio.TaskGroup() as group:
            for _ in range(runners):
                group.create_task(self._drain(queue, answers, end))
        return [answers[number] for number in sorted(answers)]

    async def _drain(
        self, queue: Iterator[tuple[int, Action]], answers: dict[int, Answer], end: float
    ) -> None:
        """One of the runners that share a batch. A quota that is used up refuses all the rest."""
        for number, action in queue:
            answers[number] = await self._run(action)
            if is_shared(answers[number]) or self._now() >= end:
                deque(queue, maxlen=0)  # the other runners find nothing to begin either

    async def _run(self, action: Action) -> Answer:
        try:
            return await self._request(action)
        except KubeError as error:
            return Failure(action, error)

    async def _request(self, action: Action) -> Answer:
        """What each action is for the server, and which of its errors is as good as success."""
        match action:
            case Create(resource, manifest):
                return await self._create(resource, manifest)
            case CreateKeys(manifest):
                return await self._create_keys(manifest)
            case DryRun(_, manifest):
                namespace = manifest["metadata"]["namespace"]
                return Tried(action, await self._api.dry_run(PODS, namespace, manifest))
            case Delete():
                return await self._delete(action)
            case _:
                stored = await self._patch(action)
                return Written(action.ref.resource, self._keep(action.ref.resource, stored))

    async def _patch(self, change: Change) -> Json:
        body, subresource = encode_change(change), find_subresource(change)
        return await self._api.patch(change.ref, body, subresource=subresource)

    async def _delete(self, delete: Delete) -> Delete | Missing:
        try:
            await self._api.delete(
                delete.ref,
                uid=delete.uid,
                resource_version=delete.resource_version,
                grace_seconds=delete.grace_seconds,
            )
        except NotFound:
            return Missing(delete)
        return delete

    async def _create(self, resource: Resource, manifest: Json) -> Written:
        """What would not be known as the job's is taken back, of the kinds that may be deleted.

        Nobody would look after such a pod; such a document would hold its name against the job. A
        pod that could not be taken back then is once its name is met again.
        """
        namespace = manifest["metadata"].get("namespace")
        try:
            stored = await self._api.create(resource, namespace, manifest)
        except AlreadyExists:
            if resource == PODS:
                await self._take_back_lost(manifest)
            raise
        refusal = check_creation(resource, manifest, stored)
        if refusal is None:
            return Written(resource, self._keep(resource, stored))
        if resource in {PODS, CONFIG_MAPS}:
            with suppress(KubeError):
                await self._take_back(resource, stored)
        raise refusal

    async def _take_back_lost(self, manifest: Json) -> None:
        """Delete the pod that has this one's name, where it is the job's and nobody sees it."""
        metadata = manifest["metadata"]
        with suppress(KubeError):
            found = await self._api.get(Ref(PODS, metadata["namespace"], metadata["name"]))
            if is_lost(PODS, manifest, found):
                await self._take_back(PODS, found)

    async def _take_back(self, resource: Resource, stored: Json) -> None:
        metadata = stored["metadata"]
        ref = Ref(resource, metadata.get("namespace", ""), metadata["name"])
        await self._api.delete(ref, uid=metadata["uid"])

    async def _create_keys(self, manifest: Json) -> KeysMade:
        body = {**manifest, "stringData": self._make_keys()}
        stored = await self._api.create(SECRETS, manifest["metadata"]["namespace"], body)
        return KeysMade(stored["metadata"]["name"])


def split_batches(actions: Iterable[Action]) -> Iterator[tuple[Action, ...]]:
    """Consecutive creations together, and deletions of pods; everything else alone.

    Pods are apart from what they need: an account must be there before the first of them, and of
    a volume that is not the kubelet would look again only after a while.
    """
    for kind, group in groupby(actions, get_batch_kind):
        if kind is None:
            yield from ((action,) for action in group)
        else:
            yield tuple(group)


def get_batch_kind(action: Action) -> tuple[type[Action], bool] | None:
    """Actions that follow each other and have the same key here are run at once, as one batch.

    There is a key for creations of pods, one for those of what pods need, and one for deletions of
    pods; None is for all other actions, each of which is run alone.
    """
    is_about_pod = action.ref.resource == PODS
    if isinstance(action, Create) or (isinstance(action, Delete) and is_about_pod):
        return type(action), is_about_pod
    return None


def select_events(
    plan: Plan, failures: Iterable[Failure], left: Iterable[Action]
) -> Iterator[Event]:
    """The events on what was written; `left` are actions that were not begun.

    A job is told of its trouble when its status is written, though other writes fail each time.
    """
    failed = list(failures)
    if any(failure.is_of_status for failure in failed):
        return
    undone = {action.ref for action in (*(failure.action for failure in failed), *left)}
    for event in plan.events:
        if event.ref.resource == TRAINING_JOBS or event.ref not in undone:
            yield event
