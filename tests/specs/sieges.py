"""A healthy job in a world whose other inhabitants write what they like."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from et_contract.names import build_report_key, build_report_name
from et_kube.errors import ApiError, Refused
from et_kube.resources import (
    CONFIG_MAPS,
    NODES,
    PODS,
    SCALE_INS,
    SCALE_OUTS,
    TRAINING_JOBS,
    Ref,
    Resource,
)
from fakes.clients import Call, Moment
from fakes.cluster import FakeCluster
from fakes.histories import Change
from tests.makers import make_job, make_scale_in, make_scale_out
from tests.simulation.invariants import check_history
from tests.simulation.worlds import NAMESPACE, SimulatedWorld
from tests.specs.generating import TARGET, Case, Generator, NotStored
from tests.specs.strangers import Stranger
from tests.specs.verdicts import Verdict, judge_job, judge_scaling

ELSEWHERE = "team-b"
HEALTHY = "train"
ODD_NODE = "node-odd"
QUOTA = 12
"""Pods that the other namespace may have."""
MOST = 300
"""Workers of a job above which a world in memory is only slow; a real cluster is asked that."""


class Siege:
    """What happens around the healthy job, one thing at a time.

    Args:
        world: where the job lives.
        dice: decides all.
    """

    def __init__(self, world: SimulatedWorld, dice: random.Random) -> None:
        self.world = world
        self.dice = dice
        self._generator = Generator(dice)
        self._cases: list[tuple[Case, Ref]] = []
        self._made = 0
        self.done: list[str] = []
        world.log.faults.append(self._bound)

    async def begin(self) -> None:
        """The healthy job runs, and elsewhere there is one that scalings may name."""
        self.prepare()
        await self.world.until(lambda: self.world.phase() == "Running")

    def prepare(self) -> None:
        """Both are created, and nobody has looked at them yet."""
        world = self.world
        world.create(TRAINING_JOBS, make_job(HEALTHY, workers=2, minReplicas=1, maxReplicas=5))
        world.cluster.create(TRAINING_JOBS, ELSEWHERE, make_job(TARGET, workers=2, minReplicas=1))
        world.cluster.create(NODES, None, {"metadata": {"name": ODD_NODE}, "spec": {}})
        world.kubelet.lost.add(ODD_NODE)

    def do_one(self) -> None:
        """One of the things that others do."""
        act = self.dice.choice(self._acts)
        self.done.append(act.__name__.strip("_"))
        with suppressing_answers():
            act(self)

    async def act(self) -> None:
        """The same, and what follows from it."""
        self.do_one()
        await self.world.rest()
        if self.dice.random() < 0.3:
            await self.world.settle(timedelta(seconds=self.dice.choice((1, 10, 100))))

    async def check(self) -> None:
        """The healthy job scales as ever, and nothing was done to it that nobody asked for."""
        world = self.world
        for resource, manifest in (
            (SCALE_OUTS, make_scale_out("out", HEALTHY, 1)),
            (SCALE_INS, make_scale_in("in", HEALTHY, count=1)),
        ):
            name = manifest["metadata"]["name"]
            world.create(resource, manifest)
            await world.until(
                lambda resource=resource, name=name: (
                    world.status(resource, name).get("phase") == "ScaleSucceeded"
                )
            )
        workers = [w for w in world.workers() if world.get(PODS, w)]
        assert len(workers) == 2
        assert world.broker.find_hosts(HEALTHY) == workers
        assert world.phase() == "Running"
        assert world.status(TRAINING_JOBS, HEALTHY)["epoch"] == 1

    def list_silences(self) -> list[str]:
        """Titles of objects of ours about which nobody has said anything."""
        found = []
        for case, ref in self._cases:
            stored = self.world.cluster.find(ref)
            if stored is not None and self._judge(case, stored) is None:
                found.append(f"{case.manifest.title}: {stored.get('status')}")
        return found

    # ------------------------------------------------------------ what others do
    def _post(self) -> None:
        self._made += 1
        case = self._generator.build_case("", f"c{self._made}")
        manifest = case.manifest.stored
        if count_wanted(manifest) > MOST:
            return
        made = self.world.cluster.create(case.resource, ELSEWHERE, manifest)
        self._cases.append((case, Ref(case.resource, ELSEWHERE, made["metadata"]["name"])))

    def _edit(self) -> None:
        if self._cases:
            case, ref = self.dice.choice(self._cases)
            edit = self._generator.build_edit(case.resource, ref.name)
            body = edit.written.stored
            if count_wanted(body) <= MOST:
                self.world.cluster.patch(ref, body, subresource=edit.subresource)

    def _write_status(self) -> None:
        if self._cases:
            case, ref = self.dice.choice(self._cases)
            body = self._generator.build_status(case.resource).stored
            self.world.cluster.patch(ref, body, subresource="status")

    def _delete(self) -> None:
        if self._cases:
            self.world.cluster.delete(self.dice.choice(self._cases)[1])

    def _make_pod(self) -> None:
        self._made += 1
        stranger = self._build_stranger()
        pod = stranger.build_pod(self.dice.choice((f"p{self._made}", f"{TARGET}-worker-7")))
        made = self.world.cluster.create(PODS, ELSEWHERE, pod)
        ref = Ref(PODS, ELSEWHERE, made["metadata"]["name"])
        self.world.cluster.edit(ref, lambda d: d.update(status=stranger.build_pod_status()))

    def _make_config_map(self) -> None:
        self._made += 1
        job = self.dice.choice(self._list_jobs())
        name = self.dice.choice((f"m{self._made}", f"{job}-config", f"{job}-report"))
        body = self._build_stranger().build_config_map(name, job)
        self.world.cluster.create(CONFIG_MAPS, ELSEWHERE, body)

    def _write_report(self) -> None:
        ref = Ref(CONFIG_MAPS, ELSEWHERE, build_report_name(self.dice.choice(self._list_jobs())))
        report = self._build_stranger().build_report()
        self.world.cluster.patch(ref, {"data": {build_report_key(1): report}})

    def _change_node(self) -> None:
        change = self._build_stranger().build_node_change()
        self.world.cluster.edit(Ref(NODES, "", ODD_NODE), lambda d: d.update(change))

    _acts: tuple[Callable[[Siege], None], ...] = (
        *(_post, _post, _post, _edit, _write_status, _delete),
        *(_make_pod, _make_config_map, _write_report, _change_node),
    )

    # ------------------------------------------------------------ inside
    def _build_stranger(self) -> Stranger:
        found = {j["metadata"]["name"]: j["metadata"]["uid"] for j in self._scan_jobs(ELSEWHERE)}
        healthy = {j["metadata"]["name"]: j["metadata"]["uid"] for j in self._scan_jobs(NAMESPACE)}
        return Stranger(self.dice, found | healthy)

    def _list_jobs(self) -> list[str]:
        return [job["metadata"]["name"] for job in self._scan_jobs(ELSEWHERE)] or [TARGET]

    def _scan_jobs(self, namespace: str) -> list[dict[str, Any]]:
        return self.world.cluster.list(TRAINING_JOBS, namespace)

    def _bound(self, call: Call, moment: Moment) -> None:
        """A quota of pods elsewhere, as a Fault of the call log."""
        is_pod = (call.verb, call.ref.resource, call.ref.namespace) == ("create", PODS, ELSEWHERE)
        if is_pod and moment is Moment.BEFORE:
            there = len(self.world.cluster.list(PODS, ELSEWHERE))
            if there >= QUOTA:
                raise Refused(403, "Forbidden", f"exceeded quota: pods, used {there}")

    def _judge(self, case: Case, stored: dict[str, Any]) -> Verdict | None:
        if case.resource != TRAINING_JOBS:
            return judge_scaling(stored)
        return judge_job(stored, len(self.world.cluster.list(PODS, ELSEWHERE)))


def judge_healthy(cluster: FakeCluster) -> None:
    """The invariants, over what happened in the healthy job's namespace."""
    check_history(Part(cluster))  # type: ignore[arg-type]  # as much of one as they read


class Part:
    """A cluster of which nothing is seen but the healthy job's namespace."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self.history = self

    def list_all(self, resource: Resource) -> list[Change]:
        """As History.list_all."""
        changes = self._cluster.history.list_all(resource)
        return [change for change in changes if change.ref.namespace == NAMESPACE]


def count_wanted(manifest: Any) -> float:
    """The most workers that a manifest, or a patch, asks for; 0 where that cannot be said."""
    spec = manifest.get("spec") if isinstance(manifest, dict) else None
    spec = spec if isinstance(spec, dict) else {}
    roles = spec.get("etReplicaSpecs")
    worker = roles.get("worker") if isinstance(roles, dict) else None
    numbers = [
        spec.get("replicas"),
        worker.get("replicas") if isinstance(worker, dict) else 0,
        *(spec[key].get("count") for key in ("toAdd",) if isinstance(spec.get(key), dict)),
    ]
    return max((n for n in numbers if isinstance(n, (int, float))), default=0)


@contextmanager
def suppressing_answers() -> Iterator[None]:
    """That a server refuses what somebody writes is a good end."""
    try:
        yield
    except (ApiError, NotStored):
        return
