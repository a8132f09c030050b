"""A cluster, an operator, a kubelet, a broker and a user, in virtual time, one thing at a time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Self

from et_kube.resources import PODS, SCALE_INS, SCALE_OUTS, TRAINING_JOBS, Json, Ref, Resource
from et_operator.assembly import WATCHED
from fakes.broker import FakeBroker
from fakes.clients import CallLog
from fakes.clock import FakeClock, WrongClock
from fakes.cluster import Backup, FakeCluster
from fakes.kubelet import FakeKubelet
from tests.simulation.faults import Crash, Quota, Strike
from tests.simulation.hindrances import FINALIZER, Hindrance
from tests.simulation.invariants import check_history, is_ended, is_role, watch_over
from tests.simulation.operators import SimulatedOperator
from tests.simulation.schedules import ACTORS, RECOVER, STALL, Schedule

NAMESPACE = "team-a"
RESTART = timedelta(seconds=2)
PATIENCE = 12
"""Tokens in a row for which nothing happens before everybody is asked."""
MANY = 1_000_000
OVERLAP = 30
"""Rounds after which a watch that is behind shows more, though nothing has come to rest."""
DEAD = 1000
"""Rounds after which such a watch is dead, as one is that was silent for 70 s: it begins anew."""
LAST_WRITES = 40
LAST_STEPS = 60
MAX_STEPS = 5000
"""Steps without time passing after which a world is said never to come to rest."""
_RESOURCES = {resource.plural: resource for resource in WATCHED}


class Restless(AssertionError):  # noqa: N818 (what the world is)
    """The operator goes on and on, or what was waited for never came."""


class SimulatedWorld:
    """Everything at once. Use it as a context manager: failures then tell what happened.

    Args:
        schedule: who does something next; None: everybody in turn.
        leaders: operators that believe they lead, at the same time.
        judge: what must hold of all that happened, in the end.
    """

    def __init__(
        self,
        schedule: Schedule | None = None,
        *,
        leaders: int = 1,
        judge: Callable[[FakeCluster], None] = check_history,
    ) -> None:
        self.schedule = schedule or Schedule()
        self._judge = judge
        self.clock = FakeClock()
        self.wrong_clock = WrongClock(self.clock)
        """That of the operators' machines."""
        self.cluster = FakeCluster(self.clock.now)
        self.log = CallLog()
        watch_over(self.cluster, self.log)
        self.kubelet = FakeKubelet(self.cluster)
        self.broker = FakeBroker(self.cluster)
        self.kubelet.is_flushing = self.broker.is_flushing
        self.kubelet.terminate_command = self.broker.terminate
        self._others = {
            "kubelet": self.kubelet.step,
            "broker": self.broker.step,
            "garbage": self.cluster.collect_garbage,
        }
        self.steps: list[str] = []
        self.backup: Backup | None = None
        self.successor: SimulatedOperator | None = None
        """Has begun to look, and takes the place of the first operator that crashes."""
        self._actors = [name for name in ACTORS if leaders > 1 or "@" not in name]
        self.operators = [self.build_operator() for _ in range(leaders)]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._judge(self.cluster)
        else:
            error.add_note(self.describe())

    def describe(self) -> str:
        """What happened, for whom a failure is printed."""
        writes = [call for call in self.log.calls if call.is_write][-LAST_WRITES:]
        calls = "\n".join(f"  {call}" for call in writes)
        tail = " ".join(self.steps[-LAST_STEPS:])
        faults = "; ".join(str(fault) for fault in self.log.faults if isinstance(fault, Strike))
        return f"{self.clock.now()} {faults}\nwrites:\n{calls}\nlast steps: {tail}"

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
            if pod["metadata"]["namespace"] == NAMESPACE
            and is_role(pod, role)
            and not is_ended(pod)
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def end_command(self, code: int, job: str = "train") -> None:
        """The user's command ends, and with it the launcher pod."""
        self.broker.finish(job, code)
        for launcher in self.launchers():
            self.kubelet.terminate(launcher, code)

    def hinder(self, hindrance: Hindrance) -> None:
        """Put something in the operator's way, where it stays."""
        self.log.faults.append(hindrance)

    def limit(self, pods: int) -> None:
        """Give the namespace a quota, or another one, which ends nobody."""
        self._leave_out(Quota)
        self.log.faults.append(Quota(self.cluster, pods))

    def make_way(self) -> None:
        """Take away what is in the operator's way: hindrances, a quota, finalizers of others."""
        self._leave_out(Hindrance, Quota)
        for resource in (PODS, SCALE_INS, SCALE_OUTS):
            for found in self.cluster.scan(resource):
                if FINALIZER in found["metadata"].get("finalizers", ()):
                    body = {"metadata": {"finalizers": None}}
                    self.change(resource, found["metadata"]["name"], body)

    def _leave_out(self, *kinds: type) -> None:
        self.log.faults = [fault for fault in self.log.faults if not isinstance(fault, kinds)]

    # ------------------------------------------------------------ time
    async def act(self, token: str) -> bool:
        """Let one of them do one thing (see schedules); whether anything happened."""
        name, _, index = token.partition("@")
        has_moved = False
        if name in self._others:
            has_moved = self._others[name]()
        elif int(index or 0) < len(self.operators):
            has_moved = await self._let_operate(int(index or 0), name)
        if has_moved:
            self.steps.append(token)
        return has_moved

    async def _let_operate(self, number: int, what: str) -> bool:
        operator = self.operators[number]
        if what == "work":
            return await self._work(number)
        if what == RECOVER:
            operator.stalled.clear()
            return False
        if what.startswith(STALL):
            operator.stalled[_RESOURCES[what.removeprefix(STALL)]] = MANY
            return False
        return operator.receive(_RESOURCES[what])

    async def rest(self) -> None:
        """Until nobody can do anything without time passing."""
        idle = rounds = 0
        for _ in range(MAX_STEPS):
            token = self.schedule.draw()
            if token is not None:
                idle = 0 if await self.act(token) else idle + 1
                if idle < PATIENCE:
                    continue
            idle = 0
            rounds += 1
            has_moved = await self.go_round()
            if has_moved and rounds % OVERLAP:
                continue
            if rounds > DEAD and len(self.operators) > 1:
                self._recover_all()
            if not self._catch_up() and not has_moved:
                return
        raise Restless(f"still busy after {MAX_STEPS} steps in which no time passed")

    async def go_round(self) -> bool:
        """Everybody does one thing in turn; whether anybody did."""
        moves = [await self.act(actor) for actor in self._actors]
        return any(moves)

    def _catch_up(self) -> bool:
        """When all else rests, or has not rested for long, a watch shows what it held back.

        Two leaders of which one knows more contradict each other until then.
        """
        return any(operator.catch_up() for operator in self.operators)

    def _recover_all(self) -> None:
        """An event at a time comes to no end where two leaders make more of them meanwhile.

        One alone has to come to rest with what it knows.
        """
        for operator in self.operators:
            operator.stalled.clear()

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
        waits = (operator.agenda.find_wait() for operator in self.operators)
        wait = min((wait for wait in waits if wait is not None), default=None)
        if wait is None or self.clock.now() + wait > end:
            return False
        await self.clock.advance(max(wait, timedelta(milliseconds=1)))
        return True

    # ------------------------------------------------------------ the operators
    def build_operator(self) -> SimulatedOperator:
        """One that has seen nothing yet."""
        return SimulatedOperator(self.cluster, self.log, self.wrong_clock)

    async def _work(self, number: int) -> bool:
        try:
            return await self.operators[number].work()
        except Crash:
            await self._restart(number)
        except BaseExceptionGroup as group:
            if group.subgroup(Crash) is None:
                raise
            await self._restart(number)
        return True

    async def _restart(self, number: int) -> None:
        """Another takes its place: the successor that has taken its lists already, or a new one."""
        self.steps.append("CRASH")
        await self.clock.advance(RESTART)
        self.operators[number] = self.successor or self.build_operator()
        self.successor = None

    # ------------------------------------------------------------ a restore of etcd
    def restore(self, *, bump: int = 0) -> None:
        """Set etcd back to the backup. What was until now must have been right by itself."""
        backup = self.backup
        if backup is None:
            return
        self.steps.append("RESTORE")
        self._judge(self.cluster)
        self.broker.outlive(self.kubelet.outlive(partial(self.cluster.restore, backup, bump=bump)))
        for operator in self.operators:
            operator.break_watches()

    async def restart_operators(self) -> None:
        """Each of them ends, and another one comes."""
        for number in range(len(self.operators)):
            await self._restart(number)

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
            "hosts": {
                name: self.broker.find_hosts(name) == sorted(self.workers()) for name in jobs
            },
            "scalings": {
                s["metadata"]["name"]: s.get("status", {}).get("phase")
                for resource in (SCALE_INS, SCALE_OUTS)
                for s in self.cluster.list(resource)
            },
        }
