"""Gangs that hold nodes, and whether a pass has left them these.

What fits on a node is counted by hand here: planning's own arithmetic is what is judged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from hypothesis import strategies as st

from et_scheduler.model.cluster import Cluster, Node
from et_scheduler.model.decisions import Decision
from et_scheduler.model.jobs import Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import FOR_ROOM, Reason
from et_scheduler.model.rules import Rules
from et_scheduler.model.shapes import CPU, MINUTE, PODS, SECOND, Shape
from et_scheduler.planning.sizes import find_least
from tests.unit.scheduler.makers import NOW, cpus, make_job, make_node, run_on
from tests.unit.scheduler.test_held import hold


def list_lost(
    cluster: Cluster, queues: Iterable[Queue], jobs: Iterable[Job], now: int, decision: Decision
) -> list[str]:
    """Whose reservation this pass has changed, though its nodes would do without jobs on them.

    It may end by a start, by what keeps the gang from one whatever room there is, and for a gang of
    strictly higher priority; and move to where room comes, all of it. In turns in which others may
    start there, all may.
    """
    known = {job.uid: job for job in jobs}
    told = {uid: job.admission for uid, job in known.items()}
    told |= {change.uid: change.admission for change in decision.changes}
    after = {uid: set(one.reserved) for uid, one in told.items() if one is not None}
    nodes = {node.name: node for node in cluster.nodes}
    ranks = {queue.name: queue.priority for queue in queues}

    def rank(job: Job) -> tuple[int, int]:
        return ranks.get(job.queue, 0), job.priority

    lost = []
    for uid, job in known.items():
        why = decision.explanations.get(uid)
        before = set(job.admission.reserved) if job.admission is not None else set()
        if not before or why is None or why.reason not in FOR_ROOM or not is_held_alone(job, now):
            continue
        above = (name for name, one in known.items() if rank(one) > rank(job))
        taken = {name for one in above for name in after.get(one, ())}
        if before & taken or not would_hold(nodes, before, job):
            continue
        moves = why.reason is Reason.ROOM_COMES
        if not would_hold(nodes, after[uid], job) if moves else after[uid] != before:
            lost.append(uid)
    return lost


def is_held_alone(job: Job, now: int) -> bool:
    """In the first turn; whose nodes are in the others is told in test_held.py."""
    since = job.admission.reserved_since if job.admission is not None else None
    return since is None or now < since + Rules().held_first


def would_hold(nodes: Mapping[str, Node], names: Collection[str], job: Job) -> bool:
    """Whether launcher and least size fit on these nodes once no job is there."""
    there = [nodes[name] for name in names if name in nodes]
    fits = [count_fits(node, job.worker) for node in there]
    beside = [count_fits(put(node, job.launcher), job.worker) for node in there]
    costs = [
        fit - rest
        for node, fit, rest in zip(there, fits, beside, strict=True)
        if count_fits(node, job.launcher)
    ]
    return bool(costs) and sum(fits) - min(costs) >= find_least(job)


def count_fits(node: Node, shape: Shape) -> int:
    """How many such pods fit beside those of others."""
    wanted = {**dict(shape.requests), PODS: 1}
    free = {name: node.allocatable.get(name, 0) - node.taken.get(name, 0) for name in wanted}
    most = max(min(free[name] // amount for name, amount in wanted.items()), 0)
    if not node.has_room or any(map(shape.host_ports.intersection, node.ports)):
        return 0
    return min(most, 1) if shape.host_ports else most


def put(node: Node, shape: Shape) -> Node:
    """The node with one such pod more."""
    more = {**dict(shape.requests), PODS: 1}
    names = node.taken.keys() | more.keys()
    taken = {name: node.taken.get(name, 0) + more.get(name, 0) for name in names}
    return replace(node, taken=taken, ports=(*node.ports, shape.host_ports))


@st.composite
def draw_held(draw: st.DrawFn) -> tuple[Cluster, tuple[Queue, ...], list[Job]]:
    """Gangs that have waited, most of them with nodes that they hold, and jobs that are there.

    Some nodes are not ready for a moment.
    """
    queues = tuple(Queue(name, priority=draw(st.sampled_from([0, 0, 1]))) for name in ("q", "r"))
    nodes = {}
    for index in range(draw(st.integers(2, 6))):
        others = draw(st.sampled_from([0, 0, 0, 1, 3]))
        taken = {CPU: others * 1000, PODS: 1} if others else {}
        name = f"node-{index:02}"
        size, away = draw(st.sampled_from([4, 8, 8, 16])), draw(st.sampled_from([None] * 4 + [NOW]))
        nodes[name] = make_node(name, size, taken=taken, unready_since=away)
    free = draw(st.permutations(sorted(nodes)))
    jobs = [draw_running(draw, nodes[name]) for name in free if draw(st.integers(0, 5))]
    for index in range(draw(st.integers(1, 4))):
        least = draw(st.integers(1, 4))
        job = make_job(
            f"gang-{index}",
            least,
            least + draw(st.integers(0, 4)),
            draw(st.sampled_from([2, 4, 8])),
            launcher=cpus(draw(st.integers(0, 1))),
            queue=draw(st.sampled_from("qr")),
            priority=draw(st.sampled_from([0, 0, 1])),
        )
        count = next((n for n in range(len(free) + 1) if would_hold(nodes, free[:n], job)), 0)
        count = draw(st.sampled_from([count, count, min(1, len(free))]))
        mine, free = free[:count], free[count:]
        since = NOW - draw(st.integers(60, 3600)) * SECOND
        jobs.append(hold(job, *sorted(mine), since=since))
    return Cluster(tuple(nodes.values())), queues, jobs


def draw_running(draw: st.DrawFn, node: Node) -> Job:
    """A job that leaves little of its node, and goes for few: it may have just started."""
    workers = max(count_fits(node, cpus(1)) - draw(st.integers(0, 2)), 1)
    fields = {"queue": draw(st.sampled_from("qr")), "priority": draw(st.integers(0, 1))}
    job = make_job(
        f"runs-{node.name}", draw(st.sampled_from([workers, workers, 1])), workers, **fields
    )
    return run_on(job, *[node.name] * workers, since=NOW - draw(st.sampled_from([5, 50])) * MINUTE)
