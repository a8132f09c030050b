"""Room that comes bit by bit, and goes to others: who grows into all of it, who waits for none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from et_contract.admissions import Placement
from et_scheduler.model.cluster import Cluster, Leaving, Node
from et_scheduler.model.jobs import Admission, Job, Pod
from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import CPU, SECOND
from et_scheduler.planning.passing import decide
from tests.unit.scheduler.makers import MAIN, NOW, decide_on, make_job, make_node, run_on

BIG = make_node("node-00", 100)


@pytest.mark.parametrize(
    ("seconds", "workers"),
    [
        pytest.param(3, 8, id="a moment ago"),
        pytest.param(10, None, id="not so long ago"),
        pytest.param(30, 8, id="long enough ago"),
    ],
)
def test_who_has_begun_to_grow_goes_on_for_a_moment(seconds: int, workers: int | None) -> None:
    begun = NOW - seconds * SECOND
    job = run_on(make_job("a", 1, 8), *["node-00"] * 4, resized_at=begun)
    told = decide_on((BIG,), [job]).get("a")
    assert (told.workers if told else None) == workers


def test_what_is_grown_in_a_moment_is_one_growth() -> None:
    """Its cool-down counts from the first of it, so that it comes to an end."""
    begun = NOW - 3 * SECOND
    job = run_on(make_job("a", 1, 8), *["node-00"] * 4, resized_at=begun)
    assert decide_on((BIG,), [job])["a"].resized_at == begun


def grow_three(cpu: int, limit: int = 100) -> dict[str, int]:
    """Three jobs of twenty workers each on a node of so many CPUs: who grows, to how many."""
    jobs = [run_on(make_job(name, 1, 40), *["node-00"] * 20) for name in ("a", "b", "c")]
    queue = (Queue("main", limits={CPU: limit * 1000}),)
    found = decide_on((make_node("node-00", cpu),), jobs, queue)
    return {uid: one.workers for uid, one in found.items()}


@pytest.mark.parametrize(
    ("free", "grown"),
    [
        pytest.param(1, {}, id="for nobody"),
        pytest.param(3, {"a": 22}, id="for one"),
        pytest.param(6, {"a": 22, "b": 22, "c": 22}, id="for all"),
    ],
)
def test_what_is_too_little_for_all_is_enough_for_one(free: int, grown: dict[str, int]) -> None:
    """A growth by less than a tenth is none: each of three would get one."""
    assert grow_three(60 + free) == grown
    assert grow_three(100, limit=60 + free) == grown


def make_late(own: int, *, grown_from: int = 0) -> Job:
    """So many of twenty workers are on the first node; the others look for one there."""
    told = Placement("", ("node-00",))
    job = run_on(make_job("a", 1, 20), *["node-00"] * own, placement=told)
    admission = job.admission
    assert admission is not None
    since = NOW - 15 * SECOND
    new = tuple(Pod(f"new-{i}", "", since) for i in range(20 - own))
    admission = replace(admission, workers=20, short_since=since, grown_from=grown_from)
    return replace(job, pods=(*job.pods, *new), admission=admission)


def decide_late(
    job: Job, *nodes: Node, queue: Queue = MAIN[0], seconds: int = 0
) -> Admission | None:
    decision = decide(Cluster(nodes), (queue,), [job], NOW + seconds * SECOND)
    return next((change.admission for change in decision.changes), None)


FULL = make_node("node-00", 20, taken={CPU: 10_000})
OTHER = make_node("node-01", 20)


def test_growth_whose_nodes_others_took_is_given_back_soon() -> None:
    """Its pods look nowhere else, and it could grow into what is free elsewhere."""
    told = decide_late(make_late(10, grown_from=10), FULL, OTHER)
    assert told is not None
    assert (told.workers, told.reason) == (10, Reason.NOT_GROWN)


@pytest.mark.parametrize(
    ("own", "grown_from", "nodes", "is_autoscaled"),
    [
        pytest.param(10, 10, (make_node("node-00", 20), OTHER), False, id="there is room"),
        pytest.param(
            10,
            10,
            (replace(FULL, leaving=(Leaving(NOW, {CPU: 10_000}),)), OTHER),
            False,
            id="there will be",
        ),
        pytest.param(10, 10, (FULL, OTHER), True, id="nodes may come"),
        pytest.param(10, 0, (FULL, OTHER), False, id="who takes a place looks anywhere"),
        pytest.param(
            19,
            0,
            (replace(FULL, taken={CPU: 1_000}),),
            False,
            id="too few are lost to grow back",
        ),
    ],
)
def test_what_may_still_come_is_waited_for(
    own: int, grown_from: int, nodes: tuple[Node, ...], is_autoscaled: bool
) -> None:
    job = make_late(own, grown_from=grown_from)
    queue = replace(MAIN[0], is_autoscaled=is_autoscaled)
    assert decide_late(job, *nodes, queue=queue) is None


def test_many_that_were_lost_and_have_room_nowhere_are_given_back_soon() -> None:
    """Those who are far above it are evened out with it then."""
    told = decide_late(make_late(10), FULL)
    assert told is not None
    assert told.workers == 10
