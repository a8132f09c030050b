"""The life of a case on a real API server: posted, judged, edited, judged again, deleted."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from et_kube.resources import PODS, TRAINING_JOBS
from tests.specs.generating import Case, Edit, Written
from tests.specs.servers import MERGE, Answer, Server, build_path
from tests.specs.verdicts import Verdict, is_sentence, judge_job, judge_scaling

PATIENCE = 60.0
"""Seconds in which each step must have come to its end; a scaling waits 30 for its job."""
PAUSE = 0.7
QUIETLY = "?fieldValidation=Ignore"
"""Without a header for each unknown field: there may be thousands."""


class Silence(Exception):  # noqa: N818 (what was heard)
    """Nobody said what became of an object, or somebody did in no words."""


@dataclass(frozen=True)
class Step:
    """One thing that was written, and how that ended."""

    odd: tuple[str, ...]
    verdict: Verdict


@dataclass
class Outcome:
    """What became of a case; `trouble` is "" where every step ended well."""

    case: Case
    steps: list[Step] = field(default_factory=list)
    trouble: str = ""


class Life:
    """One case in a namespace.

    Args:
        server: where.
        namespace: the case's own object is made there.
        case: what is done.
    """

    def __init__(self, server: Server, namespace: str, case: Case) -> None:
        self._server = server
        self._namespace = namespace
        self._case = case
        self._name = ""
        self.outcome = Outcome(case)

    async def live(self) -> Outcome:
        """From the creation to the end; never raises for what the server or the operator did."""
        try:
            await self._post()
            for edit in self._case.edits if self._name else ():
                await self._edit(edit)
        except Silence as silence:
            self.outcome.trouble = str(silence)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is about this case)
            self.outcome.trouble = f"the server: {type(error).__name__} {error}"
        if self._name:
            await self._delete()
        return self.outcome

    async def _post(self) -> None:
        path = build_path(self._case.resource, self._namespace) + QUIETLY
        manifest = self._case.manifest
        answer = await self._server.ask("POST", path, manifest.text)
        if not self._is_refused(answer, manifest):
            self._name = answer.read()["metadata"]["name"]
            await self._judge(manifest)

    async def _edit(self, edit: Edit) -> None:
        path = self._path(edit.subresource) + QUIETLY
        answer = await self._server.ask("PATCH", path, edit.written.text, MERGE)
        if not self._is_refused(answer, edit.written):
            await asyncio.sleep(PAUSE)
            await self._judge(edit.written)

    def _is_refused(self, answer: Answer, written: Written) -> bool:
        """Whether the server took it not; Silence if it did not say why."""
        if answer.is_good:
            return False
        if not is_sentence(answer.message):
            raise Silence(f"{written.title}: {answer.code}, no sentence: {answer.text[:200]}")
        self.outcome.steps.append(Step(written.odd, Verdict.REFUSED))
        return True

    async def _judge(self, written: Written) -> None:
        end = time.monotonic() + PATIENCE
        found: Any = {}
        while time.monotonic() < end:
            await asyncio.sleep(PAUSE)
            found = await self._server.get(self._path())
            verdict = await self._find_verdict(found) if found else Verdict.ENDED
            if verdict is not None:
                self.outcome.steps.append(Step(written.odd, verdict))
                return
        status = json.dumps(found.get("status"))[:2000]
        raise Silence(f"{written.title}: stored, and after {PATIENCE:.0f} s nothing but {status}")

    async def _find_verdict(self, found: Any) -> Verdict | None:
        if self._case.resource != TRAINING_JOBS:
            return judge_scaling(found)
        verdict = judge_job(found, 0)
        return verdict if verdict is not None else judge_job(found, await self._count_pods())

    async def _count_pods(self) -> int:
        path = build_path(PODS, self._namespace)
        found = await self._server.get(f"{path}?labelSelector=training-job-name={self._name}")
        return len(found.get("items") or ())

    async def _delete(self) -> None:
        try:
            await self._server.ask("DELETE", self._path())
            if not await self._is_gone():
                self.outcome.trouble = self.outcome.trouble or "deleted, and it is still there"
        except Exception as error:  # noqa: BLE001 (the same)
            self.outcome.trouble = (
                self.outcome.trouble or f"deleted: {type(error).__name__} {error}"
            )

    async def _is_gone(self) -> bool:
        """Whether it is gone in time; what the author wrote to hold it is taken away."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = await self._server.get(self._path())
            if not found:
                return True
            if found["metadata"].get("finalizers"):
                free = json.dumps({"metadata": {"finalizers": None}})
                await self._server.ask("PATCH", self._path(), free, MERGE)
            await asyncio.sleep(PAUSE)
        return False

    def _path(self, subresource: str = "") -> str:
        return build_path(self._case.resource, self._namespace, self._name, subresource)


async def flood(
    lives: list[Life], *, at_once: int, until: float, tell: Callable[[Outcome], None]
) -> None:
    """Let these lives be lived, so many at once, none begun after that time (monotonic)."""
    waiting = iter(lives)

    async def take() -> None:
        for life in waiting:
            if time.monotonic() > until:
                return
            tell(await life.live())

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(take())
