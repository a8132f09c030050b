"""Notices, renewals, losses, scalings, admissions, edits and clocks in any order.

While nothing happens but time, writes come to an end; and where all goes well at last, the job has
what it asks for, or says why not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from et_contract.admissions import AdmissionState, Elasticity
from et_contract.documents import ScriptResult
from et_contract.pods import Role
from et_kube.notices import Notice, NoticeKind
from et_operator.model.admissions import Admission
from et_operator.model.avoiding import list_avoided
from et_operator.model.conditions import find_condition
from et_operator.model.names import ANNOTATION_RENEWED
from et_operator.model.pods import Node, Pod, Termination
from et_operator.model.scripts import NoticeScript
from et_operator.model.snapshots import Refusal
from et_operator.model.specs import JobSpec, LauncherCreation, NoticePolicy, RestartPolicy
from et_operator.model.statuses import ScalingKind, WorkerState
from tests.planning_makers import CORDON, ModelWorld, make_job, make_scaling, make_template

NODES = ("n1", "n2", "n3")
WAKES = 60
"""So often a world that stands still is looked at, at most: in the second half it is at rest."""
ROUNDS = 40
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"minimum": 1, "notice_policy": NoticePolicy.EAGER},
    {"minimum": 2, "command_least": 2},
    {"launcher_creation": LauncherCreation.WAIT_FOR_WORKERS_READY},
    {"minimum": 1, "notice_script": NoticeScript("/job/save.sh")},
    {"queue": "q"},
    {"queue": "q", "minimum": 1, "elasticity": Elasticity.FIXED},
)


class Walk(ModelWorld):
    """Three nodes, which pods that keep off them find no place on."""

    def __init__(self, **spec: Any) -> None:
        limits = {"maximum": 6, "backoff_limit": 1000, "drain_timeout": timedelta(seconds=100)}
        policy = {"restart_policy": RestartPolicy.ON_FAILURE}
        super().__init__(make_job(3, **(limits | policy | spec)))
        self.nodes = {name: Node(name) for name in NODES}
        self.tick = timedelta(milliseconds=50)
        self.spec = self.job.spec
        self.admissions = 0
        if self.is_queued:
            self.settle()
            self.admit(3)
        self.start()

    @property
    def is_queued(self) -> bool:
        return self.spec is not None and bool(self.spec.queue)

    @property
    def live(self) -> list[str]:
        return sorted(name for name in self.workers if not self.pods[name].is_deleting)

    def choose(self, number: int) -> str:
        """One of its workers, "" where there is none."""
        return self.live[number % len(self.live)] if self.live else ""

    def admit(self, workers: int, *, state: AdmissionState = AdmissionState.ADMITTED) -> None:
        self.admissions += self.status.is_suspended or not self.admissions
        elasticity = (self.spec.elasticity if self.spec else None) or Elasticity.AUTO
        said = Admission(self.admissions, state, elasticity=elasticity, workers=workers)
        self.job = replace(self.job, admission=said, resource_version=self._next())

    def schedule(self, number: int) -> None:
        """Pods come to run on nodes that they do not keep off."""
        for name, pod in list(self.pods.items()):
            free = set(self.nodes) - set(list_avoided(pod.avoids))
            if pod.role is Role.LAUNCHER and not self.is_bound(pod):
                free = free or set(self.nodes)
            heard = sorted(node for node in free if not self.nodes[node].is_unreachable)
            if heard and pod.phase == "Pending" and not pod.is_deleting:
                self.run(name, node=heard[(number + (pod.index or 0)) % len(heard)])

    def is_bound(self, launcher: Pod) -> bool:
        """Whether a launcher is kept off nodes; any other only prefers others."""
        move = self.status.launcher_move
        return move is not None and move.epoch + 1 == launcher.epoch

    def ask(self, kind: ScalingKind, **changes: Any) -> None:
        name = f"s{len(self.scalings)}-{len(self.log)}"
        born = {"created": self.now.replace(microsecond=0), "resource_version": self._next()}
        self.add(make_scaling(kind, name, is_owned=False, **born, **changes))

    def edit_workers(self, **changes: Any) -> None:
        assert self.job.spec is not None
        self.edit(worker=replace(self.job.spec.worker, **changes))

    def lose(self, kind: str) -> None:
        self.children.pop(kind, None)


def wait(world: Walk, number: int) -> None:
    world.wait(number if number % 2 else 40 * number)


def fail_worker(world: Walk, number: int) -> None:
    if name := world.choose(number):
        is_evicted = {"pod_reason": "Evicted"} if number % 3 == 0 else {}
        world.end(name, 1, **is_evicted)


def delete_worker(world: Walk, number: int) -> None:
    if name := world.choose(number):
        world.delete(name)


def vanish(world: Walk, number: int) -> None:
    if name := world.choose(number):
        del world.pods[name]


def end_launcher(world: Walk, number: int) -> None:
    pod = world.launcher
    if pod is None:
        return
    if number % 3 == 0:
        del world.pods[pod.name]
    elif number % 3 == 1 and not pod.is_deleting:
        world.delete(pod.name)
    elif not pod.is_terminal:
        world.end(pod.name, 1)


def lose_node(world: Walk, number: int) -> None:
    name = NODES[number % 3]
    if number % 2:
        world.nodes.pop(name, None)
    else:
        world.nodes[name] = Node(name, is_ready=False, is_unreachable=number % 4 == 0)


def bring_node(world: Walk, number: int) -> None:
    world.nodes[NODES[number % 3]] = Node(NODES[number % 3])


def make_notice(world: Walk, number: int) -> Notice:
    """With and without a moment, which may be over, or a lead."""
    if number % 5 == 0:
        return CORDON
    moment = world.now + timedelta(seconds=20 * (number - 5)) if number % 2 else None
    lead = timedelta(seconds=120) if number % 4 == 0 else None
    return Notice("it ends", f"sign {number % 3}", NoticeKind.FIRM, moment, lead=lead)


def say(world: Walk, number: int) -> None:
    name = NODES[number % 3]
    if name in world.nodes:
        world.nodes[name] = replace(world.nodes[name], notice=make_notice(world, number))


def say_of_pod(world: Walk, number: int) -> None:
    if name := world.choose(number):
        world.put(name, notice=make_notice(world, number | 1))


def say_of_launcher(world: Walk, number: int) -> None:
    if world.launcher is not None:
        world.put(world.launcher.name, notice=make_notice(world, number | 1))


def renew(world: Walk, number: int) -> None:
    wish = str(world.status.last_worker_index + number % 2)
    world.job = replace(world.job, annotations={ANNOTATION_RENEWED: wish})


def end_script(world: Walk, number: int) -> None:
    if world.report is not None and world.config is not None:
        ended = {order.id: ScriptResult(number % 2, "") for order in world.config.scripts}
        world.report = replace(world.report, scripts={**world.report.scripts, **ended})


def use_up(world: Walk, number: int) -> None:
    if world.report is not None and (name := world.choose(number)):
        uid = world.pods[name].uid
        used_up = {uid: 1} if uid in world.report.listed else {}
        world.report = replace(world.report, used_up=used_up if number % 3 else {})


def cancel(world: Walk, number: int) -> None:
    if world.scalings:
        del world.scalings[sorted(world.scalings)[number % len(world.scalings)]]


def name_victims(world: Walk, number: int) -> None:
    if names := tuple(world.live[: 1 + number % 3]):
        world.ask(ScalingKind.IN, pod_names=names)


def change_admission(world: Walk, number: int) -> None:
    if world.is_queued and number % 4:
        world.admit(1 + number % 6)
    elif world.is_queued:
        world.admit(0, state=AdmissionState.WAITING)


def spoil(world: Walk, _: int) -> None:
    """Its author edits the spec into an invalid one, and corrects that before the next event."""
    was = world.job.spec
    world.job = replace(world.job, spec=None, invalid="spec.x: change it")
    world.settle()
    world.wait(15)
    world.settle()
    world.job = replace(world.job, spec=was, invalid="")


def lose_document(world: Walk, number: int) -> None:
    if number % 2:
        world.lose("job-config")
        world.config = None
    else:
        world.lose("job-report")
        world.report = None


def lose_rights(world: Walk, number: int) -> None:
    if number % 2:
        world.lose("Role")
        world.role_names = frozenset()
    else:
        world.lose("RoleBinding")
        world.bound = frozenset()


def set_clock(world: Walk, number: int) -> None:
    span = timedelta(seconds=(number - 15) * 240)
    world.now += max(span, timedelta())
    world.set_back(max(-span, timedelta()))
    world.complete_since = world.now


def refuse(world: Walk, number: int) -> None:
    name = "job-launcher" if number % 2 else "job-worker-9"
    refused = Refusal("exceeded quota", 1 + number % 6, world.now, world.job.generation, name)
    world.refusal = refused if number % 3 else None


def edit(world: Walk, number: int) -> None:
    if number % 2:
        world.edit_workers(template=make_template(image=f"trainer:{number}"))
    else:
        world.edit(drain_timeout=timedelta(seconds=10 * (number + 1)))


def end_beside_others(world: Walk, number: int) -> None:
    if name := world.choose(number):
        world.put(name, termination=Termination(1, "Error"), is_container_running=False)


def scale_in(world: Walk, number: int) -> None:
    world.ask(ScalingKind.IN, count=1 + number % 2)


def settle(world: Walk, _: int) -> None:
    world.settle()


Event = Callable[[Walk, int], object]
EVENTS: tuple[Event, ...] = (
    *(wait, settle, settle, lambda w, _: w.step(), scale_in),
    *(Walk.schedule, Walk.schedule, lambda w, n: w.serve(close=n % 2 == 0, list_new=n % 3 != 0)),
    *(lambda w, _: w.serve(), lambda w, _: w.reap(), fail_worker, delete_worker, vanish),
    *(
        end_launcher,
        lose_node,
        bring_node,
        say,
        say,
        say_of_pod,
        say_of_launcher,
        renew,
        renew,
        use_up,
        cancel,
    ),
    *(name_victims, change_admission, change_admission, spoil, lose_document, lose_rights),
    *(set_clock, refuse, edit, end_beside_others, end_script),
    lambda w, n: w.edit(replicas=2 + n % 5),
    lambda w, n: w.edit(suspend=n % 2 == 0),
    lambda w, n: w.ask(ScalingKind.OUT, count=1 + n % 2, timeout=timedelta(seconds=30 + n)),
)


def stand_still(world: Walk) -> None:
    """Nothing happens but time."""
    writes: list[int] = []
    for _ in range(WAKES):
        before = world.writes
        world.settle()
        writes.append(world.writes - before)
        if world.requeue_after is None:
            return
        world.now += max(world.requeue_after, world.tick)
    assert sum(writes[WAKES // 2 :]) <= WAKES // 6, f"never at rest: {world.log[-8:]}"


def heal(world: Walk) -> None:
    """Nothing more is said, lost or refused, and the job may have what it asks for."""
    world.nodes = {name: Node(name) for name in NODES}
    world.refusal = None
    for name, pod in world.pods.items():
        world.pods[name] = replace(pod, notice=None)
    if world.job.spec is not None and world.job.spec.suspend:
        world.edit(suspend=False)


def recover(world: Walk) -> bool:
    """Let all go well; whether the job goes on."""
    quiet = 0
    for number in range(ROUNDS):
        before = world.writes
        if world.is_queued and (world.status.is_suspended or not number):
            world.admit(20 if is_fixed(world.spec) else 3)
        world.wait(61 if quiet < 2 else 700)
        world.settle()
        world.schedule(number)
        world.settle()
        world.serve()
        world.settle()
        world.reap()
        world.settle()
        quiet = quiet + 1 if world.writes == before else 0
        if world.phase() in {"Failed", "Succeeded"} or quiet > 2:
            break
    return world.phase() not in {"Failed", "Succeeded"}


def is_fixed(spec: JobSpec | None) -> bool:
    return spec is not None and spec.elasticity is Elasticity.FIXED


def count_wanted(world: Walk) -> int:
    admission = world.job.admission
    is_scheduled = world.is_queued and not is_fixed(world.spec) and admission is not None
    return admission.workers if is_scheduled and admission else world.replicas


def list_told(world: Walk, kinds: Iterable[str]) -> list[str]:
    found = (find_condition(world.status.conditions, kind) for kind in kinds)
    told = [c.message for c in found if c is not None and c.status == "True"]
    return [message for message in told if "suspend and resume" not in message]


@pytest.mark.long
@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(
    st.sampled_from(KINDS),
    st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 30)), min_size=4, max_size=30),
)
@example(KINDS[0], [(scale_in, 0), (settle, 0), (spoil, 0)])
def test_a_walk_comes_to_rest_and_to_what_was_asked_for(
    kind: dict[str, Any], events: list[tuple[Event, int]]
) -> None:
    world = Walk(**kind)
    for event, number in events:
        event(world, number)
    stand_still(world)
    heal(world)
    if not recover(world):
        return
    stand_still(world)
    assert world.phase() == "Running"
    assert len(world.workers) == count_wanted(world)
    assert {n for n, state in world.states().items() if state == "active"} == set(world.workers)
    assert not [r for r in world.status.workers if r.state is not WorkerState.GONE]
    assert world.status.scaling is None
    assert all(s.status.phase and s.status.phase.is_final for s in world.scalings.values())
    assert not list_told(world, ("Awaiting", "NodesLeaving", "RestartingWorkers", "PodsRefused"))
