"""What a pass may cost: many who wait, of one author, and searches for room among workers."""

from __future__ import annotations

from collections.abc import ValuesView
from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_contract.admissions import AdmissionState
from et_scheduler.model.cluster import Cluster, PendingPod
from et_scheduler.model.jobs import Admission, Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import Reason
from et_scheduler.model.rules import Rules
from et_scheduler.model.shapes import CPU, HOUR, PODS, SECOND, Shape, make_shape
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.filling import Fill
from et_scheduler.planning.limiting import keep_limits
from et_scheduler.planning.ordering import list_lines
from et_scheduler.planning.passing import decide
from et_scheduler.planning.rooms import Counts, Room
from et_scheduler.planning.seating import book, seat_bound
from et_scheduler.planning.services import serve
from et_scheduler.planning.standings import Standing
from et_scheduler.planning.starting import start_all
from et_scheduler.planning.turns import Turns, count_searches
from tests.counting import count_steps
from tests.unit.scheduler.makers import MAIN, NOW, make_job, make_node, make_nodes, run_on

FULL = make_nodes(8)
LITTLE = Rules(looks=1)


def fill(least: int = 1) -> list[Job]:
    """An elastic job of one CPU a worker on each node."""
    return [
        run_on(make_job(f"job-{place}", least, 8), *[f"node-{place:02}"] * 8) for place in range(8)
    ]


class Counted(dict[str, Standing]):
    """Jobs that count how often all of them are looked through."""

    walks = 0

    def values(self) -> ValuesView[Standing]:
        self.walks += 1
        return super().values()


@pytest.mark.parametrize("memory", [{"memory": 2**30}, {}])
def test_pods_for_which_nobody_can_make_room_are_not_searched_for(memory: dict[str, int]) -> None:
    """Neither what no node could hold, nor what would not fit were all workers gone."""

    def count(pods: int) -> int:
        more = range(9000, 9000 + pods) if memory else range(7001, 7001 + pods)
        shapes = [make_shape({CPU: one, **memory}) for one in more]
        pending = [PendingPod(str(i), shape, 0, NOW) for i, shape in enumerate(shapes)]
        rigid = [run_on(make_job(f"r-{place}", 1, 1), f"node-{place:02}") for place in range(8)]
        jobs = [*rigid, run_on(make_job("a", 1, 8, priority=5), "node-00", "node-00")]
        draft = Draft(Cluster(FULL, tuple(pending)), MAIN, jobs, NOW, Rules())
        seat_bound(draft)
        book(draft)
        draft.standings = Counted(draft.standings)
        serve(draft)
        return draft.standings.walks

    assert count(100) == count(1)


def test_many_sizes_of_one_namespace_leave_others_their_turn() -> None:
    """Each is searched for in some second; who is alone in his namespace in every pass."""
    many = [
        PendingPod(f"m-{i}", make_shape({CPU: 7000 - i}), 0, NOW, namespace="many")
        for i in range(20)
    ]
    pod = PendingPod("one", make_shape({CPU: 6500}), 0, NOW + 1, namespace="few")
    served: set[str] = set()
    for second in range(20):
        now = NOW + second * SECOND
        decision = decide(Cluster(FULL, (*many, pod)), MAIN, fill(), now, LITTLE)
        gifts = {change.admission.gave_for for change in decision.changes}
        uids = {gift.uid for gift in gifts if gift is not None}
        assert {"m-0", "one"} <= uids
        assert len(uids) <= 3
        assert decision.wake_at is not None
        assert decision.wake_at <= now + SECOND
        served |= uids
    assert served == {"one", *(pod.uid for pod in many)}


def test_of_many_kinds_of_one_namespace_no_more_are_looked_at_than_it_has_a_share() -> None:
    """Each is looked for on all nodes; those of others, and more of the same kinds, are."""

    def make(name: str, cpu: int, since: int) -> PendingPod:
        return PendingPod(name, make_shape({CPU: cpu}), 0, since, namespace=name[:3])

    pods = [make(f"many-{i}", 7000 - i, NOW + i - SECOND) for i in range(20)]
    pods += [make("few-0", 6500, NOW), make("many-again", 7000, NOW)]
    draft = Draft(Cluster(FULL, tuple(pods)), MAIN, fill(), NOW, Rules(kinds=8))
    assert {pod.uid for pod in draft.served} == {
        *(f"many-{i}" for i in range(7)),
        "many-again",
        "few-0",
    }
    old = [replace(pod, since=NOW - HOUR) for pod in pods[:20]]
    draft = Draft(Cluster(FULL, (*old, *pods[20:])), MAIN, fill(), NOW, Rules(kinds=8))
    assert {pod.uid for pod in draft.served} == {"many-again", "few-0"}


def test_of_more_namespaces_than_kinds_are_looked_at_the_first_have_one_each() -> None:
    pods = [
        PendingPod(
            f"{i:02}-{kind}", make_shape({CPU: 7000 - i - 50 * kind}), 0, NOW, namespace=f"{i}"
        )
        for i in range(20)
        for kind in range(2)
    ]
    draft = Draft(Cluster(FULL, tuple(pods)), MAIN, fill(), NOW, Rules(kinds=8))
    assert {pod.uid for pod in draft.served} == {f"{i:02}-0" for i in range(8)}


@pytest.mark.long
def test_who_grows_next_costs_the_same_among_however_many_queues() -> None:
    def count(queues: int) -> int:
        jobs = [
            run_on(make_job(f"job-{i}", 1, 8, queue=f"q-{i % queues}"), f"node-{i:02}")
            for i in range(40)
        ]
        every = [Queue(f"q-{i}") for i in range(queues)]
        draft = Draft(Cluster(make_nodes(40)), every, jobs, NOW, Rules())
        seat_bound(draft)
        book(draft)
        fill = Fill(draft, draft.room, dict.fromkeys(draft.standings, 1))
        return count_steps(lambda: fill.run(draft.standings.values()))

    count(2)  # what is done once
    few, many = count(4), count(40)
    assert many < 1.5 * few


def test_gangs_that_ask_take_turns_too() -> None:
    waiting = [
        make_job(f"w-{i:02}", 1, 1, worker=make_shape({CPU: 7000 - i, "memory": i}), priority=1)
        for i in range(1, 6)
    ]
    nodes = tuple(make_node(f"node-{place:02}", more={"memory": 9}) for place in range(8))
    asked: set[str] = set()
    for second in range(5):
        decision = decide(Cluster(nodes), MAIN, [*fill(), *waiting], NOW + second * SECOND, LITTLE)
        gifts = {change.admission.gave_for for change in decision.changes}
        uids = {gift.uid for gift in gifts if gift is not None}
        assert "w-01" in uids
        assert len(uids) <= 2
        asked |= uids
    assert asked == {job.uid for job in waiting}


def test_where_there_is_time_for_all_nobody_waits() -> None:
    draft = Draft(Cluster(FULL), MAIN, fill(), NOW, Rules(looks=64 * 5))
    turns = Turns(draft, [("ns", str(number)) for number in range(10)], count_searches(draft))
    assert all(turns.has(str(number)) for number in range(10))
    assert draft.wake_at is None


def test_workers_of_jobs_that_can_only_go_as_a_whole_are_looked_at_too() -> None:
    rigid = [run_on(make_job(f"r-{i}", 8, 8), *[f"node-{i:02}"] * 8) for i in range(8)]
    draft = Draft(Cluster(FULL), MAIN, rigid, NOW, Rules(looks=64))
    turns = Turns(draft, [("ns", str(number)) for number in range(10)], count_searches(draft))
    assert sum(turns.has(str(number)) for number in range(10)) == 2


def test_of_many_namespaces_each_has_its_turn() -> None:
    """No more searches than there is time for, with those for whom there always is."""
    uids = [f"{namespace}-{number}" for number in range(3) for namespace in "abcdefgh"]
    served: set[str] = set()
    for second in range(64):
        draft = Draft(Cluster(FULL), MAIN, fill(), NOW + second * SECOND, Rules(looks=64 * 4))
        turns = Turns(draft, [(uid[0], uid) for uid in uids], count_searches(draft))
        now = {uid for uid in uids if turns.has(uid)}
        assert {"a-0", "b-0"} <= now
        assert len({uid[0] for uid in now}) == 4
        assert len(now) == 8
        served |= now
    assert served == set(uids)


@pytest.mark.long
@given(
    most=st.integers(1, 12),
    own=st.integers(1, 9),
    others=st.lists(st.integers(1, 40), max_size=20),
    is_first=st.booleans(),
    start=st.integers(0, 10_000),
)
def test_whatever_others_ask_for_each_of_a_namespace_has_its_turn_in_a_time_of_its_own(
    most: int, own: int, others: list[int], start: int, *, is_first: bool
) -> None:
    mine = [("mine", f"mine-{number}") for number in range(own)]
    theirs = [
        (f"{i}", f"{i}-{number}") for i, count in enumerate(others) for number in range(count)
    ]
    asking = [*mine, *theirs] if is_first else [*theirs, *mine]
    namespaces = len(others) + 1
    laps = ceil(namespaces / max(most // 2, 1)) if namespaces > most else 1
    served: set[str] = set()
    draft = Draft(Cluster(), MAIN, [], NOW, Rules())
    for second in range(laps * ceil(own / max(most // namespaces, 1))):
        draft.now = NOW + (start + second) * SECOND
        turns = Turns(draft, asking, most)
        now = {uid for _, uid in asking if turns.has(uid)}
        assert len(now) <= 2 * max(most, 2)
        served |= now
    assert served.issuperset(uid for _, uid in mine)


@pytest.mark.long
def test_what_a_limit_costs_grows_with_the_workers_that_go() -> None:
    """Whose turn it is to give is not looked up among all jobs for each of them."""

    def count(jobs: int) -> int:
        nodes = make_nodes(2 * jobs)
        queue = replace(MAIN[0], limits={CPU: jobs * 8000})
        runs = [run_on(make_job(f"r-{i}", 1, 8), *[f"node-{i:02}"] * 8) for i in range(jobs)]
        waits = make_job("waits", 4 * jobs, 4 * jobs)
        return count_steps(lambda: decide(Cluster(nodes), [queue], [*runs, waits], NOW))

    count(2)  # what is done once
    few, many = count(20), count(40)
    assert many < 2.5 * few


@pytest.mark.long
def test_what_many_cost_who_lack_nodes_grows_with_their_number() -> None:
    """Pods of others have come on one node of each, and there is no other."""

    def count(gangs: int) -> int:
        nodes = [
            replace(node, taken={CPU: 1000}) if place % 2 else node
            for place, node in enumerate(make_nodes(2 * gangs))
        ]
        told = Admission(0, AdmissionState.WAITING, "main", queued_at=NOW - HOUR)
        told = replace(told, since=NOW - HOUR, unfit_since=NOW - HOUR, reason=Reason.NO_ROOM)
        jobs = []
        for i in range(gangs):
            held = replace(told, reserved=(f"node-{2 * i:02}", f"node-{2 * i + 1:02}"))
            jobs.append(replace(make_job(f"g-{i}", 2, 2, 8), admission=held))
        return count_steps(lambda: decide(Cluster(tuple(nodes)), MAIN, jobs, NOW))

    count(2)  # what is done once
    few, many = count(10), count(40)
    assert many < 16 * few


@pytest.mark.long
def test_gangs_that_ask_one_job_for_its_workers_cost_each_of_them_once() -> None:
    """The second is asked less gladly with each that it gives, and so on each of its nodes."""

    def count(size: int) -> int:
        nodes = make_nodes(4 * size)
        large = run_on(make_job("large", 1, 4 * size, cpu=8), *[node.name for node in nodes])
        waits = [make_job(f"w-{i}", size, size, cpu=8) for i in range(3)]
        return count_steps(lambda: decide(Cluster(nodes), MAIN, [large, *waits], NOW))

    count(2)  # what is done once
    few, many = count(10), count(20)
    assert many < 2.5 * few


@pytest.mark.long
def test_whole_jobs_are_not_tried_for_whom_no_node_would_be_left_for_the_launcher() -> None:
    """Others keep a part of the last node: nobody is counted out of his room to see that."""

    def count(gang: Job) -> int:
        jobs = [run_on(make_job(f"r-{i}", 8, 8), *[f"node-{i:02}"] * 8) for i in range(20)]
        nodes = (*make_nodes(20), make_node("node-20", taken={CPU: 1000}))
        return count_steps(lambda: decide(Cluster(nodes), MAIN, [*jobs, gang], NOW))

    gang = make_job("gang", 20, 20, cpu=8, priority=1)
    hopeless = replace(gang, minimum=21, maximum=21, replicas=21)
    count(gang)  # what is done once
    assert count(replace(gang, launcher=gang.worker)) < 1.1 * count(hopeless)


@pytest.mark.long
def test_a_kind_of_pods_more_costs_the_same_beside_however_many_gangs() -> None:
    """Whom these could ask is found once, and not for each kind."""

    def count(kinds: int, gangs: int) -> int:
        pending = tuple(
            PendingPod(str(i), make_shape({CPU: 7000 - i}), 0, NOW, namespace=f"ns-{i}")
            for i in range(kinds)
        )
        told = Admission(0, AdmissionState.WAITING, "main", queued_at=NOW - HOUR)
        told = replace(told, since=NOW - HOUR, unfit_since=NOW - HOUR, reason=Reason.NO_ROOM)
        waits = [
            replace(make_job(f"g-{i}", 8, 8), admission=replace(told, reserved=(f"node-{i:02}",)))
            for i in range(gangs)
        ]
        cluster = Cluster(make_nodes(16), pending)
        jobs = [
            run_on(make_job(f"job-{place}", 1, 8), *[f"node-{place:02}"] * 8) for place in range(16)
        ]
        return count_steps(lambda: decide(cluster, MAIN, [*jobs, *waits], NOW, LITTLE))

    count(2, 1)  # what is done once
    few = count(30, 1) - count(10, 1)
    many = count(30, 16) - count(10, 16)
    assert many < 1.2 * few


class CountedRoom(Room):
    """Counts how often all nodes are asked for what fits on them."""

    looks = 0

    def count_fits(
        self, shape: Shape, *, later: bool = False, beside: Shape | None = None
    ) -> Counts:
        self.looks += 1
        return super().count_fits(shape, later=later, beside=beside)


def test_a_worker_more_on_the_node_where_the_last_went_looks_at_no_other() -> None:
    """Thousands of workers grow at once, of jobs that differ."""

    def count(most: int) -> int:
        shapes = [make_shape({CPU: 1000 - i}) for i in range(4)]
        jobs = [
            run_on(make_job(f"job-{i}", 1, most, worker=shape), f"node-{i:02}")
            for i, shape in enumerate(shapes)
        ]
        nodes = make_nodes(4, 50)
        draft = Draft(Cluster(nodes), MAIN, jobs, NOW, Rules())
        seat_bound(draft)
        book(draft)
        room = CountedRoom(nodes, shapes)
        fill = Fill(draft, room, dict.fromkeys(draft.standings, 1))
        fill.run(draft.standings.values())
        assert fill.sizes == dict.fromkeys(draft.standings, most)
        assert all(len(set(places)) == 1 for places in fill.places.values())
        return room.looks

    assert count(40) == count(2)


def make_owing(
    kinds: int, waiting: int, *, is_reclaimable: bool = False
) -> tuple[Cluster, tuple[Queue, ...], list[Job]]:
    """Of twenty jobs below the level of all, of so many kinds, and one of another queue above it.

    Of their queue's limit something might be owed to so many who wait.
    """
    poor = [run_on(make_job(f"p{i:02}", 1, 20 + i % kinds), *["node-00"] * 2) for i in range(20)]
    rich = run_on(make_job("rich", 1, 200, queue="other"), *["node-00"] * 160)
    waits = [make_job(f"w{i}", 300, 300) for i in range(waiting)]
    queues = (
        Queue("main", limits={CPU: 220_000}),
        Queue("other", is_reclaimable=is_reclaimable),
    )
    return Cluster((make_node("node-00", 200, more={PODS: 500}),)), queues, [*poor, rich, *waits]


@pytest.mark.long
def test_what_a_limit_owes_is_found_once_for_all_who_are_below_the_level() -> None:
    """Whether anybody gives for them or not."""

    def count(kinds: int, waiting: int, *, is_reclaimable: bool = False) -> int:
        given = make_owing(kinds, waiting, is_reclaimable=is_reclaimable)
        return count_steps(lambda: decide(*given, NOW))

    count(2, 1)  # what is done once
    own = count(20, 0) - count(5, 0)
    assert count(20, 1) - count(5, 1) < 1.1 * own
    served = count(20, 0, is_reclaimable=True)
    assert count(20, 1, is_reclaimable=True) < 1.07 * served


@pytest.mark.long
def test_what_limits_cost_grows_with_jobs_and_not_with_queues_times_jobs() -> None:
    def count(queues: int) -> int:
        every = [Queue(f"q-{i:02}", limits={CPU: 100_000}) for i in range(queues)]
        runs = [
            run_on(make_job(f"r{i:02}", 1, 2, queue=f"q-{i % queues:02}"), *["node-00"] * 2)
            for i in range(80)
        ]
        waits = [make_job(f"w{i:02}", 120, 120, queue=f"q-{i % queues:02}") for i in range(80)]
        nodes = (make_node("node-00", 165),)
        draft = Draft(Cluster(nodes), every, [*runs, *waits], NOW, Rules())
        seat_bound(draft)
        book(draft)
        start_all(draft, list_lines(draft))
        return count_steps(lambda: keep_limits(draft))

    count(2)  # what is done once
    few, many = count(10), count(40)
    assert many < 1.5 * few, (few, many)
