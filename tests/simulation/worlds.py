"""A cluster, an operator, a kubelet, a broker and a user, in virtual time, one thing at a time."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Self

from et_operator.assembly import WATCHED
from et_operator.model.resources import (
    PODS,
    SCALE_INS,
    SCALE_OUTS,
    TRAINING_JOBS,
    Json,
    Ref,
    Resource,
)
from tests.fakes.broker import FakeBroker
from tests.fakes.clients import Call, CallLog, Moment
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster
from tests.fakes.kubelet import FakeKubelet
from tests.simulation.invariants import OPERATOR, check_history, is_ended, is_role, watch_over
from tests.simulation.operators import SimulatedOperator

NAMESPACE = "team-a"
RESTART = timedelta(seconds=2)
PATIENCE = 6
"""Idle rounds in any order before everybody is asked."""
STALLING = 0.05
RECOVERING = 0.1
LAST_WRITES = 40
LAST_STEPS = 60
MAX_STEPS = 1000
"""Rounds without time passing after which a world is said never to come to rest."""


class Crash(BaseException):
    """The operator's process ends here and now."""


class Restless(AssertionError):  # noqa: N818 (what the world is)
    """The operator goes on and on, or what was waited for never came."""


class CrashAt:
    """End the operator before or after its n-th write (from 1), once."""

    def __init__(self, number: int, moment: Moment) -> None:
        self._number = number
        self._moment = moment
        self._seen = 0
        self._target: Call | None = None
        self.has_struck = False

    def __call__(self, call: Call, moment: Moment) -> None:
        if not call.is_write or call.user != OPERATOR:
            return
        if moment is Moment.BEFORE:
            self._seen += 1
            if self._seen == self._number:
                self._target = call
        if call is self._target and moment is self._moment:
            self.has_struck = True
            raise Crash


class World:
    """Everything at once. Use it as a context manager: failures then tell seed and schedule.

    Args:
        seed: orders what may happen in any order; None: always in the same simple order.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed
        self.clock = FakeClock()
        self.cluster = FakeCluster(self.clock.now, seed or 0)
        self.log = CallLog()
        watch_over(self.cluster, self.log)
        self.kubelet = FakeKubelet(self.cluster)
        self.broker = FakeBroker(self.cluster)
        self.kubelet.is_flushing = self.broker.is_flushing
        self.restarts = 0
        self.schedule: list[str] = []
        self._stalled: set[Resource] = set()
        self._dice = random.Random(seed)  # noqa: S311 (a schedule, no secret)
        self.operator = self._start_operator()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            check_history(self.cluster)
        else:
            error.add_note(self.describe())

    def describe(self) -> str:
        """What happened, for whom a failure is printed."""
        writes = [call for call in self.log.calls if call.is_write][-LAST_WRITES:]
        calls = "\n".join(f"  {call}" for call in writes)
        tail = " ".join(self.schedule[-LAST_STEPS:])
        return f"seed {self.seed}, {self.clock.now()}\nwrites:\n{calls}\nlast steps: {tail}"

    # ------------------------------------------------------------ the user
    def create(self, resource: Resource, manifest: Json) -> None:
        """Create an object as a user would."""
        self.cluster.create(resource, NAMESPACE, manifest)

    def change(self, resource: Resource, name: str, body: Json, subresource: str = "") -> None:
        """Patch an object as a user would."""
        self.cluster.patch(self.ref(resource, name), body, subresource=subresource)

    def delete(self, resource: Resource, name: str) -> None:
        """Delete an object as a user would."""
        self.cluster.delete(self.ref(resource, name))

    def ref(self, resource: Resource, name: str) -> Ref:
        """An object of the one namespace."""
        return Ref(resource, NAMESPACE, name)

    def get(self, resource: Resource, name: str) -> dict[str, Any]:
        """The object, or {} if it is gone."""
        return self.cluster.find(self.ref(resource, name)) or {}

    def status(self, resource: Resource, name: str) -> dict[str, Any]:
        """Its status, or {}."""
        return self.get(resource, name).get("status") or {}

    def phase(self, name: str = "train") -> str:
        """The phase of a job, "" while it has none."""
        return str(self.status(TRAINING_JOBS, name).get("phase") or "")

    def workers(self) -> list[str]:
        """Names of the workers that run or will, in order of their index."""
        return sorted(self._list_pods("worker"), key=lambda name: int(name.rsplit("-", 1)[1]))

    def launchers(self) -> list[str]:
        """Names of the launchers that run or will."""
        return self._list_pods("launcher")

    def _list_pods(self, role: str) -> list[str]:
        return [
            pod["metadata"]["name"]
            for pod in self.cluster.scan(PODS)
            if is_role(pod, role)
            and not is_ended(pod)
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def end_command(self, code: int, job: str = "train") -> None:
        """The user's command ends, and with it the launcher pod."""
        self.broker.finish(job, code)
        for launcher in self.launchers():
            self.kubelet.terminate(launcher, code)

    # ------------------------------------------------------------ time
    async def step(self, *, is_complete: bool = False) -> bool:
        """Let everybody (with a seed: some, in any order) do one thing; whether anybody did."""
        actors: list[tuple[str, Callable[[], bool | Awaitable[bool]]]] = [
            ("kubelet", self.kubelet.step),
            ("broker", self.broker.step),
            ("garbage", self.cluster.collect_garbage),
            *((r.plural, lambda r=r: self.operator.receive(r)) for r in WATCHED),
            ("work", self._work),
        ]
        if self.seed is not None and not is_complete:
            self._stall()
            actors = self._dice.sample(actors, self._dice.randint(1, len(actors)))
        any_moved = False
        for name, act in actors:
            moved = act()
            has_moved = await moved if isinstance(moved, Awaitable) else moved
            if has_moved:
                self.schedule.append(name)
            any_moved |= has_moved
        return any_moved

    def _stall(self) -> None:
        """Now and then a kind's watch falls behind all others, and later catches up."""
        history = self.cluster.history
        if self._dice.random() < STALLING:
            resource = self._dice.choice(list(WATCHED))
            history.hold(resource)
            self._stalled.add(resource)
        elif self._stalled and self._dice.random() < RECOVERING:
            self._recover()

    def _recover(self) -> bool:
        """Let every watch catch up; whether one was behind."""
        stalled, self._stalled = self._stalled, set()
        for resource in stalled:
            self.cluster.history.release(resource)
        return bool(stalled)

    async def rest(self) -> None:
        """Until nobody can do anything without time passing."""
        idle = 0
        for _ in range(MAX_STEPS):
            idle = 0 if await self.step() else idle + 1
            if self.seed is not None and idle < PATIENCE:
                continue
            # a shuffled round may leave somebody out, a complete one does not
            if not idle or self._recover() or await self.step(is_complete=True):
                continue
            return
        raise Restless(f"still busy after {MAX_STEPS} rounds in which no time passed")

    async def until(
        self, is_so: Callable[[], object], within: timedelta = timedelta(minutes=10)
    ) -> None:
        """Let things happen until it is so; fails when it is not within that virtual time."""
        end = self.clock.now() + within
        await self.rest()
        while not is_so():
            if not await self._advance(end):
                raise Restless(f"not so after {within}")
            await self.rest()

    async def settle(self, within: timedelta = timedelta(minutes=10)) -> None:
        """Let things happen until nothing is due, or that virtual time has passed."""
        end = self.clock.now() + within
        await self.rest()
        while await self._advance(end):
            await self.rest()

    async def _advance(self, end: Any) -> bool:
        due = self.operator.agenda.next_due
        if due is None or due > end:
            return False
        await self.clock.advance(max(due - self.clock.now(), timedelta(milliseconds=1)))
        return True

    # ------------------------------------------------------------ the operator
    async def _work(self) -> bool:
        try:
            return await self.operator.work()
        except Crash:
            await self._restart()
        except BaseExceptionGroup as group:
            if group.subgroup(Crash) is None:
                raise
            await self._restart()
        return True

    async def _restart(self) -> None:
        self.restarts += 1
        self.schedule.append("CRASH")
        await self.clock.advance(RESTART)
        self.operator = self._start_operator()

    def _start_operator(self) -> SimulatedOperator:
        operator = SimulatedOperator(self.cluster, self.log, self.clock)
        operator.start()
        return operator

    # ------------------------------------------------------------ the end
    def summarise(self) -> dict[str, Any]:
        """What a user sees when all is done; equal for lives that ended alike."""
        jobs = {j["metadata"]["name"]: j for j in self.cluster.list(TRAINING_JOBS)}
        return {
            "phases": {name: self.phase(name) for name in jobs},
            "replicas": {
                name: job["spec"]["etReplicaSpecs"]["worker"].get("replicas")
                for name, job in jobs.items()
            },
            "workers": len(self.workers()),
            "launchers": len(self.launchers()),
            "hosts": {name: self.broker.find_hosts(name) == self.workers() for name in jobs},
            "scalings": {
                s["metadata"]["name"]: s.get("status", {}).get("phase")
                for resource in (SCALE_INS, SCALE_OUTS)
                for s in self.cluster.list(resource)
            },
        }
