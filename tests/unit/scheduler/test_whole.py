"""All parts of et-scheduler together, in a cluster in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from et_kube.errors import Conflict, OutcomeUnknown, ServerFailed
from et_kube.resources import (
    EVENTS,
    LEASES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    TRAINING_JOBS,
    TRAINING_QUEUES,
    Ref,
)
from et_kube.tables import Entry
from et_kube.watching import Cut, Resumed
from et_scheduler.acting.observing import Observer
from et_scheduler.deciding import Decider
from et_scheduler.measuring import Metrics
from et_scheduler.model.cluster import Node
from et_scheduler.state.store import Store
from fakes.clients import Call, Moment
from fakes.clock import FakeClock
from tests.unit.scheduler.rigs import USER, SchedulerRig, make_held

pytestmark = pytest.mark.usefixtures("quiet_logs")


async def test_jobs_start_grow_into_what_is_free_and_give_way() -> None:
    rig = SchedulerRig(nodes=2, cpu=4)
    rig.create(make_held("one", least=2, most=8))
    async with rig.running():
        await rig.advance(10)
        assert rig.count("one") == 8
        rig.create(make_held("two", least=4, most=8))
        await rig.advance(15)
        assert rig.count("two") == 4
        assert rig.count("one") == 4
    assert {call.subresource for call in rig.list_writes()} == {"status"}
    bodies = [c.body for c in rig.list_writes() if c.ref.resource == TRAINING_JOBS]
    assert all(set(body["status"]) == {"admission"} for body in bodies)
    assert all(set(body["metadata"]) == {"uid", "resourceVersion"} for body in bodies)


async def test_who_waits_is_told_why_and_the_queue_shows_it() -> None:
    rig = SchedulerRig(nodes=1, cpu=4)
    rig.create(make_held("big", least=4, elasticity="Fixed"), make_held("late", least=2))
    async with rig.running():
        await rig.advance(12)
    assert rig.get("late")["state"] == "Waiting"
    assert rig.get("late")["reason"] == "NoRoom"
    assert "1 CPU" in rig.get("late")["message"]
    status = rig.cluster.get(Ref(TRAINING_QUEUES, "", "main"))["status"]
    assert (status["waiting"], status["running"]) == (1, 1)
    assert status["line"] == ["team/late"]
    assert status["allocated"] == {"cpu": 4000}


async def live(rig: SchedulerRig, seconds: float = 30) -> None:
    async with rig.running():
        await rig.advance(seconds)


def describe(rig: SchedulerRig) -> dict[str, tuple[str, int, int]]:
    return {
        name: (rig.get(name)["state"], rig.get(name)["workers"], rig.count(name)) for name in NAMES
    }


NAMES = ("one", "two", "six")
END = {"one": ("Admitted", 2, 2), "two": ("Admitted", 4, 4), "six": ("Waiting", 0, 0)}


def make_busy(**rig: Any) -> SchedulerRig:
    """One has grown when two comes, for which it gives way; six never fits beside them."""
    busy = SchedulerRig(nodes=2, cpu=3, **rig)
    busy.create(make_held("one", least=2, most=6))
    return busy


def add_rest(rig: SchedulerRig) -> None:
    rig.create(make_held("two", least=4, most=4), make_held("six", least=6, most=6))


async def live_through(rig: SchedulerRig) -> None:
    async with rig.running():
        await rig.advance(8)
        add_rest(rig)
        await rig.advance(20)


async def count_writes() -> int:
    rig = make_busy()
    await live_through(rig)
    assert describe(rig) == END
    return len(rig.list_writes())


@pytest.mark.long
async def test_an_error_at_any_write_costs_time_only() -> None:
    for number in range(await count_writes()):
        for error in (
            Conflict(409, "Conflict", "x"),
            OutcomeUnknown("x"),
            ServerFailed(500, "", "x"),
        ):
            for moment in Moment:
                rig = make_busy()
                fail_once(rig, number, error, moment)
                await live_through(rig)
                assert describe(rig) == END, (number, error, moment)


def fail_once(rig: SchedulerRig, number: int, error: BaseException, moment: Moment) -> None:
    """The write of this number fails, before it is done or after."""
    seen: list[Call] = []

    def strike(call: Call, now: Moment) -> None:
        is_ours = call.is_write and call.ref.resource in {TRAINING_JOBS, TRAINING_QUEUES}
        if now is Moment.BEFORE and is_ours:
            seen.append(call)
        if is_ours and now is moment and len(seen) == number + 1 and call is seen[-1]:
            raise error

    rig.log.faults.append(strike)


@pytest.mark.long
async def test_a_process_that_dies_at_any_write_is_replaced_by_one_that_goes_on() -> None:
    for number in range(await count_writes()):
        for moment in Moment:
            rig = make_busy()
            fail_once(rig, number, Death(), moment)
            for pause in (8, 30):
                try:
                    async with rig.running():
                        await rig.advance(pause)
                except* Death:
                    rig.replicas = [rig.make_replica(1)]
                    async with rig.running():
                        await rig.advance(pause)
                if pause == 8:
                    add_rest(rig)
                    rig.replicas = [rig.make_replica(2)]
            assert describe(rig) == END, (number, moment)


class Death(BaseException):
    """The process is gone."""


async def test_two_replicas_come_to_the_same_end_as_one() -> None:
    rig = make_busy(replicas=2)
    await live_through(rig)
    assert describe(rig) == END


async def test_two_that_both_believe_to_lead_contradict_each_other_by_conflicts_alone() -> None:
    rig = make_busy(replicas=2)
    for number, replica in enumerate(rig.replicas):
        replica._lease._ref = Ref(LEASES, "et-operator", f"lease-{number}")
    await live_through(rig)
    assert describe(rig) == END


async def test_a_watch_that_is_behind_is_waited_for() -> None:
    rig = make_busy()
    async with rig.running():
        await rig.advance(8)
        rig.replicas[0]._see(Cut(PODS, None))
        written = len(rig.list_writes())
        add_rest(rig)
        await rig.advance(6)
        assert len(rig.list_writes()) == written
        rig.replicas[0]._see(Resumed(PODS, None, rig.clock.monotonic()))
        await rig.advance(30)
    assert describe(rig) == END


@pytest.mark.long
async def test_a_job_that_nobody_may_write_holds_up_no_other() -> None:
    rig = make_busy()
    webhook = ServerFailed(500, "InternalError", 'failed calling webhook "x": EOF')
    rig.refuse(lambda c: c.verb == "patch" and c.ref.name == "bad", webhook)
    rig.create(make_held("bad"))
    async with rig.running():
        await rig.advance(8)
        add_rest(rig)
        await rig.advance(30)
        tried = [c for c in rig.log.calls if c.verb == "patch" and c.ref.name == "bad"]
        assert 3 < len(tried) < 20
    assert describe(rig) == END


@pytest.mark.long
async def test_a_start_that_could_not_be_written_once_keeps_its_nodes() -> None:
    rig = SchedulerRig(nodes=2, cpu=4)
    rig.create(make_held("rigid", 4, 4))
    async with rig.running():
        await rig.advance(10)
        rig.create(make_held("gang", 8, 8))
        await rig.advance(70)
        assert len(rig.get("gang")["reserved"]) == 2
        rig.create(make_held("small", 4, 4))
        await rig.advance(5)
        failure = ServerFailed(500, "InternalError", "etcdserver: leader changed")
        failures = [failure]
        is_start = is_start_of("gang")
        rig.refuse(lambda call: bool(failures) and is_start(call) and bool(failures.pop()), failure)
        rig.cluster.remove(Ref(TRAINING_JOBS, "team", "rigid"))
        for pod in rig.cluster.list(PODS, "team"):
            rig.cluster.remove(Ref(PODS, "team", pod["metadata"]["name"]))
        await rig.advance(30)
    assert not failures
    assert (rig.count("gang"), rig.count("small")) == (8, 0)


def is_start_of(name: str) -> Callable[[Call], bool]:
    def is_it(call: Call) -> bool:
        is_job = call.verb == "patch" and call.ref.resource == TRAINING_JOBS
        return (
            is_job
            and call.ref.name == name
            and call.body["status"]["admission"]["state"] == "Admitted"
        )

    return is_it


async def test_an_admission_that_cannot_be_read_leaves_the_job_alone_and_is_told_once() -> None:
    rig = make_busy()
    ref = Ref(TRAINING_JOBS, "team", "one")
    async with rig.running():
        await rig.advance(8)
        rig.cluster.edit(ref, lambda d: d["status"]["admission"].update(number="many"))
        rig.create(make_held("two", least=4, most=4))
        await rig.advance(10)
    assert rig.get("one")["number"] == "many"
    assert rig.get("two")["state"] == "Waiting"  # what the first has is taken
    events = [e for e in rig.cluster.list(EVENTS) if e["reason"] == "Unreadable"]
    assert [event["regarding"]["name"] for event in events] == ["one"]
    assert "number" in events[0]["note"]


async def test_events_tell_of_new_reasons_only() -> None:
    rig = make_busy()
    await live_through(rig)
    told = [(e["regarding"]["name"], e["reason"]) for e in rig.cluster.list(EVENTS)]
    assert ("two", "Started") in told
    assert told.count(("six", "NoRoom")) + told.count(("six", "TooLarge")) == 1
    assert len(told) < 12


async def test_who_observes_writes_nothing_at_all() -> None:
    rig = make_busy(is_observing=True)
    async with rig.running():
        await rig.advance(8)
        add_rest(rig)
        await rig.advance(8)
    assert rig.log.list_writes(USER) == []
    assert rig.count_passes() < 30


@pytest.mark.long
async def test_at_rest_nothing_is_asked_and_nothing_decided() -> None:
    rig = make_busy()
    async with rig.running():
        await rig.advance(8)
        add_rest(rig)
        await rig.advance(80)
        calls, passes = len(rig.list_writes()), rig.count_passes()
        await rig.advance(30)
        assert len(rig.list_writes()) == calls
        assert rig.count_passes() <= passes + 3


async def test_events_that_come_together_are_answered_together() -> None:
    rig = SchedulerRig(nodes=2, cpu=4)
    async with rig.running():
        await rig.advance(2)
        before = rig.count_passes()
        for number in range(50):
            rig.add_services(1, name=f"flood-{number}")
            await rig.clock.advance(timedelta(milliseconds=20))
        assert 5 <= rig.count_passes() - before <= 11


async def test_nothing_is_decided_by_a_clock_that_is_far_from_the_api_servers() -> None:
    """By one that is ahead who was just asked to go is overdue, and the next one is asked."""
    rig = SchedulerRig(nodes=2, cpu=4)
    [replica] = rig.replicas
    async with rig.running():
        await rig.advance(2)
        assert replica.describe_trouble() == ""
        rig.drift = timedelta(minutes=20)
        rig.create(make_held("one", least=2, most=2))
        await rig.advance(60)
        assert rig.get("one") == {}
        assert replica.describe_trouble() == "its clock and the API server's are 1200 s apart"
        rig.drift = timedelta(minutes=4)
        await rig.advance(10)
        assert rig.count("one") == 2
        assert replica.describe_trouble() == ""


@pytest.mark.long
async def test_a_defect_of_a_pass_is_counted_and_tried_again() -> None:
    rig = SchedulerRig(nodes=2, cpu=4)
    [replica] = rig.replicas
    survey = replica._decider._surveyor.survey

    def fail(_: object = ()) -> Any:
        raise ZeroDivisionError

    async with rig.running():
        replica._decider._surveyor.survey = fail  # type: ignore[method-assign]
        rig.create(make_held("one"))
        await rig.advance(5)
        assert rig.metrics.defects.labels("pass")._value.get() > 2
        replica._decider._surveyor.survey = survey  # type: ignore[method-assign]
        await rig.advance(70)
        assert rig.count("one") > 0


async def test_services_of_others_are_made_room_for() -> None:
    rig = SchedulerRig(nodes=2, cpu=4)
    rig.create(make_held("one", least=2, most=8))
    async with rig.running():
        await rig.advance(8)
        assert rig.count("one") == 8
        rig.add_services(3)
        await rig.advance(5)
        assert rig.count("one") == 5
        assert all(pod["spec"].get("nodeName") for pod in rig.cluster.list(PODS, "web"))


@pytest.mark.long
async def test_a_job_goes_for_one_that_counts_more_and_comes_back() -> None:
    rig = SchedulerRig(nodes=2, cpu=4)
    rig.create_queue("first", priority=5)
    rig.create(make_held("old", least=6, most=6))
    async with rig.running():
        await rig.advance(5)
        number, queued = rig.get("old")["number"], rig.get("old")["queuedAt"]
        rig.create(make_held("new", least=8, most=8, queue="first"))
        await rig.advance(20)
        assert rig.get("new")["state"] == "Waiting"  # nobody goes in the first ten minutes
        await rig.clock.advance(timedelta(minutes=10))
        await rig.advance(10)
        assert (rig.count("old"), rig.count("new")) == (0, 8)
        told = rig.get("old")
        assert (told["state"], told["queuedAt"]) == ("Waiting", queued)
        assert [one["queue"] for one in told["evictions"]] == ["first"]
        rig.cluster.delete(Ref(TRAINING_JOBS, "team", "new"))
        while rig.cluster.collect_garbage():
            pass
        rig.carrier.let_go()
        await rig.advance(10)
        assert rig.count("old") == 6
        assert rig.get("old")["number"] > number


async def test_a_gang_that_does_not_come_to_stand_is_taken_back_and_tried_again() -> None:
    rig = SchedulerRig(nodes=2, cpu=4)
    rig.carrier.is_binding = False
    rig.create(make_held("one", least=4, most=4))
    async with rig.running():
        await rig.advance(10)
        assert rig.get("one")["state"] == "Admitted"
        await rig.clock.advance(timedelta(seconds=55))
        await rig.advance(5)
        told = rig.get("one")
        assert (told["state"], told["attempts"]) == ("Waiting", 1)
        assert rig.cluster.list(PODS, "team") == []
        rig.carrier.is_binding = True
        await rig.clock.advance(timedelta(seconds=40))
        await rig.advance(5)
    assert rig.count("one") == 4
    assert "attempts" not in rig.get("one")


async def test_who_runs_keeps_the_priority_of_his_pods_whatever_his_template_says_since() -> None:
    rig = SchedulerRig(nodes=2, cpu=4)
    rig.cluster.create(PRIORITY_CLASSES, None, {"metadata": {"name": "top"}, "value": 10**9})
    rig.create(make_held("greedy", least=2, most=8))
    async with rig.running():
        await rig.advance(10)
        assert rig.count("greedy") == 8
        edit_worker(rig, "greedy", priorityClassName="top")
        rig.create(make_held("gang", least=2, most=2))
        await rig.advance(20)
        assert rig.count("gang") == 2
        assert rig.count("greedy") == 6


@pytest.mark.long
@pytest.mark.parametrize("queue", ["main", "other"])
async def test_nobody_goes_for_who_would_have_no_pods(queue: str) -> None:
    """His class is not for his namespace, or its quota is used up, however often he comes anew."""
    rig = SchedulerRig(nodes=2, cpu=4)
    rig.create_queue("other")
    rig.cluster.create(PRIORITY_CLASSES, None, {"metadata": {"name": "top"}, "value": 10**9})
    rig.carrier.refused.add("elsewhere")
    rigid = {"elasticity": "Fixed"}
    rig.create(*(make_held(name, least=2, most=2, **rigid) for name in "abcd"))
    async with rig.running():
        await rig.advance(11 * 60)
        for number in range(2):
            name = f"late-{number}"
            rig.create(
                make_held(name, least=2, most=2, queue=queue, **rigid), namespace="elsewhere"
            )
            edit_worker(rig, name, "elsewhere", priorityClassName="top")
            await rig.advance(30)
            rig.cluster.delete(Ref(TRAINING_JOBS, "elsewhere", name))
        assert [rig.count(name) for name in "abcd"] == [2, 2, 2, 2]
        rig.create(make_held("due", least=2, most=2, queue="other", **rigid))
        await rig.advance(30)
        assert rig.count("due") == 2


@pytest.mark.parametrize("effect", ["NoSchedule", "Odd"])
async def test_an_edit_that_cannot_be_read_keeps_nothing_that_others_are_due(effect: str) -> None:
    """A number for a class, and a toleration that no taint could be compared with."""
    rig = SchedulerRig(nodes=2, cpu=4)
    rig.create_queue("other")
    rig.create(make_held("greedy", least=1, most=8))
    async with rig.running():
        await rig.advance(10)
        assert rig.count("greedy") == 8
        edit_worker(rig, "greedy", priorityClassName=5)
        ref = Ref(TRAINING_JOBS, "team", "greedy")
        borne = {"tolerations": [{"effect": effect}]}
        rig.cluster.edit(ref, lambda d: d["status"]["shapes"]["pods"][1].update(borne))
        rig.create(make_held("due", least=2, most=2, queue="other"))
        await rig.advance(20)
        assert rig.count("due") == 2
        assert rig.count("greedy") == 6


def edit_worker(rig: SchedulerRig, name: str, namespace: str = "team", **spec: Any) -> None:
    """What its author writes into the template of its workers."""
    ref = Ref(TRAINING_JOBS, namespace, name)
    rig.cluster.edit(
        ref, lambda d: d["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"].update(spec)
    )


class Slow(dict[str, int]):
    """Amounts that are there when the event loop goes on while somebody waits for them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(cpu=8000, pods=110)
        self._loop = loop
        self.was_free = False

    def get(self, *key: Any) -> Any:
        went_on = threading.Event()
        self._loop.call_soon_threadsafe(went_on.set)
        self.was_free = went_on.wait(1)
        return super().get(*key)


async def test_a_pass_does_not_keep_the_event_loop() -> None:
    store, clock = Store(), FakeClock()
    for resource in store.tables:
        store.note_current(resource)
    slow = Slow(asyncio.get_running_loop())
    entry = Entry(("", "n"), "n", 1, Node("n", slow))
    store.note_changed((store.nodes.put(entry)[0], entry.value))
    await Decider(store, Observer(), Observer(), clock, Metrics()).decide_once()
    assert slow.was_free


@pytest.mark.long
@pytest.mark.parametrize("hostname", ["ip-10-0-0-0", None])
async def test_a_node_that_is_called_otherwise_than_its_label_says_is_used_like_any_other(
    hostname: str | None,
) -> None:
    rig = SchedulerRig(nodes=3, cpu=4)
    rig.cluster.edit(
        Ref(NODES, "", "node-0"),
        lambda node: node["metadata"].update(
            labels={"kubernetes.io/hostname": hostname} if hostname else {}
        ),
    )
    names = ("one", "two", "three")
    async with rig.running():
        for name in names:
            rig.create(make_held(name, least=4, elasticity="Fixed"))
            await rig.advance(20)
    assert [rig.count(name) for name in names] == [4, 4, 4]
    assert not any(rig.get(name).get("attempts") for name in names)


async def test_two_nodes_that_say_they_have_one_hostname_hold_nobody_up() -> None:
    rig = SchedulerRig(nodes=2, cpu=4)
    rig.cluster.edit(
        Ref(NODES, "", "node-1"),
        lambda node: node.update(
            metadata=node["metadata"] | {"labels": {"kubernetes.io/hostname": "node-0"}},
            spec={"unschedulable": True},
        ),
    )
    async with rig.running():
        rig.create(make_held("one", least=2, most=2))
        for second in range(20):
            rig.carrier.is_binding = second % 4 == 3
            await rig.advance(1)
    assert rig.count("one") == 2
    assert rig.get("one")["number"] == 1
