"""Once an hour: away with the runtimes of former versions that nobody uses any more.

A task of who leads. Nothing is deleted but what planning/sweeping.py names, and only after a fresh
list of the pods that may mount it; what fails has another hour.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta

import structlog

from et_kube.api import Api
from et_kube.clock import Clock
from et_kube.errors import KubeError
from et_kube.resources import PODS
from et_operator.acting.executing import Executor
from et_operator.codec.children import select_mounted
from et_operator.model.names import SELECTOR_OURS
from et_operator.model.plans import Plan
from et_operator.model.snapshots import Child, RuntimeFiles
from et_operator.planning.sweeping import find_candidates, plan_sweep
from et_operator.state.store import Store

PERIOD = timedelta(hours=1)

log = structlog.get_logger()


class Sweeper:
    """Looks through all namespaces; asks the server only where something could go."""

    def __init__(
        self, *, store: Store, api: Api, executor: Executor, clock: Clock, shipped: RuntimeFiles
    ) -> None:
        self._store = store
        self._api = api
        self._executor = executor
        self._clock = clock
        self._shipped = shipped

    async def run(self) -> None:
        """Never ends. What fails is tried again an hour later."""
        while True:
            await self._clock.sleep(PERIOD)
            for namespace, runtimes in self._group_runtimes().items():
                try:
                    await self._sweep(namespace, self._find_candidates(namespace, runtimes))
                except KubeError as error:
                    log.warning("runtimes not swept", namespace=namespace, error=str(error))
                except Exception:  # what one namespace holds must not end the process
                    log.exception("runtimes not swept", namespace=namespace)

    def _group_runtimes(self) -> dict[str, list[Child]]:
        runtimes: dict[str, list[Child]] = defaultdict(list)
        for piece in (entry.value for entry in self._store.config_maps):
            if piece.is_runtime:
                runtimes[piece.namespace].append(piece.child)
        return runtimes

    def _find_candidates(self, namespace: str, runtimes: list[Child]) -> tuple[Child, ...]:
        if not self._store.coverage.is_complete(namespace):
            return ()
        places = [(namespace, runtime.name) for runtime in runtimes]
        jobs = [job for place in places for job in self._store.jobs.select(place, "runtime")]
        return find_candidates(
            runtimes, shipped=self._shipped.runtime, jobs=jobs, now=self._clock.now()
        )

    async def _sweep(self, namespace: str, candidates: tuple[Child, ...]) -> None:
        if not candidates:
            return
        asked = frozenset(child.name for child in candidates)
        found = await self._api.list(
            PODS,
            namespace,
            label_selector=SELECTOR_OURS,
            keep=lambda pod: select_mounted(pod, asked),
        )
        mounted: frozenset[str] = frozenset().union(*found.items)
        plan = Plan(actions=plan_sweep(namespace, candidates, mounted))
        execution = await self._executor.execute(plan, None)
        for delete in execution.deleted:
            log.info("swept", what=str(delete.ref))
        for failure in execution.failures:
            what, error = str(failure.action.ref), str(failure.error)
            log.warning("not swept", what=what, error=error)
