"""Workers that go and do not come to an end: they take their room, and nobody waits for long.

For those that nobody here has asked to go nobody waits at all: others end them as they like.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from et_contract.admissions import AdmissionState
from et_scheduler.model.cluster import Cluster, PendingPod
from et_scheduler.model.jobs import Admission, Gift, Job, Pod, Purpose
from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import Reason
from et_scheduler.model.rules import Rules
from et_scheduler.model.shapes import DAY, MINUTE, SECOND
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.noting import note_all
from et_scheduler.planning.passing import decide
from et_scheduler.planning.seating import seat_bound
from tests.unit.scheduler.makers import (
    LONG_AGO,
    MAIN,
    NOW,
    apply,
    cpus,
    decide_on,
    make_job,
    make_node,
    make_nodes,
    run_on,
)

BOTH = (Queue("main"), Queue("other"))
DEAD = make_node("dead", has_room=False)
NODES = (*make_nodes(2), DEAD)
CASES = [
    pytest.param(11 * MINUTE, True, False, id="asked eleven minutes ago"),
    pytest.param(12 * MINUTE, True, True, id="asked twelve ago"),
    pytest.param(30 * DAY, True, True, id="asked a month ago"),
    pytest.param(SECOND, False, True, id="deleted by others just now"),
    pytest.param(30 * DAY, False, True, id="deleted by others a month ago"),
]
"""Since when it goes, whether it was asked to, and whether nobody waits for it."""


def stuck(job: Job, ago: int, *, is_named: bool, gift: Gift | None = None) -> Job:
    """One more worker that does not go: it drains (`is_named`), or its node is lost."""
    pod = Pod("stuck", "dead", LONG_AGO, is_draining=is_named, is_terminating=not is_named)
    pod = replace(pod, leaving_since=NOW - ago)
    assert job.admission is not None
    told = replace(job.admission, gave_for=gift)
    if is_named:
        told = replace(told, leaving=("stuck",), leaving_since=NOW - ago)
    return replace(job, pods=(*job.pods, pod), admission=told)


@pytest.mark.parametrize(("ago", "is_named", "gives"), CASES)
def test_who_has_such_a_worker_gives_to_a_gang(ago: int, *, gives: bool, is_named: bool) -> None:
    donor = run_on(make_job("a", 1, 16, queue="other"), *["node-00"] * 8, *["node-01"] * 8)
    told = decide_on(NODES, [stuck(donor, ago, is_named=is_named), make_job("b", 4, 4)], BOTH)
    assert told["b"].reason is (Reason.ROOM_COMES if gives else Reason.NO_ROOM)
    assert ("a" in told) is gives
    if gives:
        assert told["a"].gave_for == Gift(Purpose.GANG, "b")
        assert len(set(told["a"].leaving) - {"stuck"}) == 4
        assert told["a"].leaving_since == NOW


@pytest.mark.parametrize(("ago", "is_named", "gives"), CASES)
def test_to_pods_of_others_and_to_a_limit(ago: int, *, gives: bool, is_named: bool) -> None:
    job = run_on(make_job("a", 1, 16), *["node-00"] * 8, *["node-01"] * 8)
    job = stuck(job, ago, is_named=is_named)
    cluster = Cluster(NODES, (PendingPod("s", cpus(3), 0, NOW),))
    changes = {one.uid: one.admission for one in decide(cluster, MAIN, [job], NOW).changes}
    assert (changes["a"].workers if changes else 16) == (13 if gives else 16)
    limited = (Queue("main", limits={"cpu": 8000}),)
    told = decide_on(NODES, [job], limited)
    assert ("a" in told) is gives


@pytest.mark.parametrize(("ago", "is_named", "goes"), CASES)
def test_it_may_go_as_a_whole(ago: int, *, goes: bool, is_named: bool) -> None:
    victim = run_on(make_job("a", 8, 8), *["node-00"] * 8)
    victim = stuck(victim, ago, is_named=is_named)
    told = decide_on((NODES[0], DEAD), [victim, make_job("b", 8, 8, priority=5)])
    assert ("a" in told) is goes
    if goes:
        assert told["a"].state is AdmissionState.WAITING
        assert told["a"].leaving_since is None


@pytest.mark.parametrize(
    ("ago", "is_named", "grows"),
    [
        pytest.param(MINUTE, True, False, id="asked a minute ago"),
        pytest.param(11 * MINUTE, True, True, id="asked eleven ago"),
        *CASES[1:],
    ],
)
def test_nobody_else_is_kept_from_growing(ago: int, *, grows: bool, is_named: bool) -> None:
    gave = stuck(
        run_on(make_job("a", 4, 4), *["node-00"] * 4),
        ago,
        is_named=is_named,
        gift=Gift(Purpose.LEVEL),
    )
    told = decide_on(NODES, [gave, run_on(make_job("b", 1, 8), "node-01")])
    assert (told["b"].workers if "b" in told else 1) == (8 if grows else 1)


def test_what_was_given_is_gone_though_others_always_end_one() -> None:
    """A job of which a pod is always about to go would else never be asked again, nor anybody."""
    job = run_on(make_job("a", 1, 8), *["node-00"] * 4)
    job = stuck(job, SECOND, is_named=False, gift=Gift(Purpose.LEVEL))
    assert job.admission is not None
    told = replace(job.admission, leaving=("gone",), leaving_since=NOW - MINUTE)
    after = decide_on(NODES, [replace(job, admission=told)])["a"]
    assert (after.gave_for, after.leaving, after.leaving_since) == (None, (), None)


def test_the_pass_comes_again_when_it_is_waited_for_no_more() -> None:
    job = run_on(make_job("a", 8, 8), *["node-00"] * 8)
    late = stuck(job, 11 * MINUTE, is_named=True)
    assert decide(Cluster(NODES), MAIN, [late], NOW).wake_at == NOW + MINUTE


def test_what_a_former_version_asked_for_counts_from_when_it_is_seen() -> None:
    job = stuck(run_on(make_job("a", 8, 8), *["node-00"] * 8), SECOND, is_named=True)
    assert job.admission is not None
    job = replace(job, admission=replace(job.admission, leaving_since=None))
    assert decide_on(NODES, [job])["a"].leaving_since == NOW


@pytest.mark.parametrize("is_named", [True, False])
def test_it_is_not_waited_for_again_where_others_are_asked_to_go(*, is_named: bool) -> None:
    """Each gift would else hold up the next one, and its room would be expected again."""
    donor = run_on(make_job("a", 1, 16, queue="other"), *["node-00"] * 8, *["node-01"] * 8)
    jobs = [stuck(donor, DAY, is_named=is_named), make_job("b", 4, 4)]
    told = decide_on(NODES, jobs, BOTH)["a"]
    pods = tuple(pod for pod in jobs[0].pods if pod.name not in set(told.leaving) - {"stuck"})
    jobs = [replace(jobs[0], admission=told, pods=pods), make_job("c", 8, 8)]
    after = decide_on(NODES, jobs, BOTH, now=NOW + MINUTE)["a"]
    assert after.workers == 8
    assert after.gave_for == Gift(Purpose.GANG, "c")


def test_of_those_who_were_asked_the_names_are_kept_of_those_who_are_there() -> None:
    donor = run_on(make_job("a", 1, 16, queue="other"), *["node-00"] * 8, *["node-01"] * 8)
    job = stuck(donor, DAY, is_named=True)
    assert job.admission is not None
    job = replace(job, admission=replace(job.admission, leaving=("gone", "stuck")))
    told = decide_on(NODES, [job, make_job("b", 4, 4)], BOTH)["a"]
    assert len(told.leaving) == 5
    assert {"gone", "stuck"} & set(told.leaving) == {"stuck"}


def test_who_has_not_begun_to_leave_stays_once_nobody_waits_and_is_counted_once() -> None:
    job = run_on(make_job("a", 1, 8), *["node-00"] * 4)
    gift = {"leaving": ("a-2", "a-3"), "leaving_since": NOW - DAY}
    gift |= {"gave_for": Gift(Purpose.GANG, "gone"), "workers": 2}
    assert job.admission is not None
    job = replace(job, admission=replace(job.admission, **gift))
    draft = Draft(Cluster((make_node("node-00", 8),)), MAIN, [job], NOW, Rules())
    seat_bound(draft)
    note_all(draft)
    [standing] = draft.standings.values()
    assert (len(standing.workers), standing.leaving, set(standing.overdue)) == (4, 0, set())
    assert draft.room.later.tolist() == draft.room.now.tolist()


def test_its_room_is_taken_as_long_as_it_is_there() -> None:
    job = run_on(make_job("a", 1, 1), "node-00")
    late = Pod("late", "node-00", LONG_AGO, is_terminating=True, leaving_since=NOW - DAY)
    job = replace(job, pods=(*job.pods, late))
    decision = decide(Cluster(make_nodes(1)), MAIN, [job, make_job("b", 7, 7)], NOW)
    assert decision.explanations["b"].reason is Reason.NO_ROOM


@pytest.mark.parametrize(
    ("left", "reason"), [(30 * SECOND, Reason.ROOM_COMES), (0, Reason.NO_ROOM)]
)
def test_so_is_that_of_a_job_that_has_nothing_any_more(left: int, reason: Reason) -> None:
    ago = 12 * MINUTE - left
    late = Pod("late", "node-00", LONG_AGO, is_terminating=True, leaving_since=NOW - ago)
    gone = replace(make_job("a", 1, 1), is_waiting=False, is_suspended=True, pods=(late,))
    decision = decide(Cluster(make_nodes(1)), MAIN, [gone, make_job("b", 8, 8)], NOW)
    assert decision.explanations["b"].reason is reason
    assert decision.wake_at == NOW + (left or MINUTE)


@pytest.mark.parametrize(("lost", "grows"), [((), False), (("a-0",), True), (("a-2",), True)])
def test_one_that_is_lost_goes_in_the_place_of_one_that_was_named(
    lost: tuple[str, ...], *, grows: bool
) -> None:
    """As where kube-scheduler ends one for a service for which another was asked to go."""
    job = run_on(make_job("a", 1, 3), *["node-00"] * 3)
    assert job.admission is not None
    gift = Gift(Purpose.SERVICE, "gone")
    told = replace(
        job.admission, workers=2, leaving=("a-2",), leaving_since=NOW - SECOND, gave_for=gift
    )
    pods = tuple(pod for pod in job.pods if pod.name not in lost)
    after = decide_on(NODES, [replace(job, pods=pods, admission=told)], BOTH)
    assert (after["a"].workers == 3 if "a" in after else False) is grows


# ---------------------------------------------------------------- pods of its last life
@pytest.mark.parametrize(
    ("minutes", "is_launcher", "starts"), [(11, False, False), (12, False, True), (12, True, False)]
)
def test_a_worker_that_a_lost_node_keeps_keeps_its_job_from_no_start(
    minutes: int, *, is_launcher: bool, starts: bool
) -> None:
    """As the operator does, who waits for the end of the last command alone."""
    since = NOW - minutes * MINUTE
    pod = Pod("a-0", "dead", is_launcher=is_launcher, is_terminating=True, leaving_since=since)
    told = Admission(1, queue="main", queued_at=since, since=since, reason=Reason.EVICTED)
    job = replace(make_job("a", 2, 2), pods=(pod,), admission=told, admitted_number=1)
    found = decide_on(NODES, [job]).get("a", told)
    assert (found.state is AdmissionState.ADMITTED) is starts
    if starts:
        stood = replace(job, admission=found, is_waiting=False, admitted_number=2)
        pods = [Pod(f"a-{i}", found.placement.only[0], NOW) for i in (1, 2)]
        again = decide_on(NODES, [replace(stood, pods=(pod, *pods))], now=NOW + SECOND)["a"]
        assert (again.workers, again.bound_at) == (2, NOW + SECOND)


# ---------------------------------------------------------------- room that comes by itself
def come_and_go(*, minutes: int) -> list[Job]:
    """One waits for half a minute, and in the other half a job ends in whose room it would start.

    Another has that, each time.
    """
    jobs = [make_job("waits", 8, 8)]
    for half in range(2 * minutes):
        busy = run_on(make_job(f"busy-{half // 2}", 8, 8, priority=1), *["node-00"] * 8)
        if half % 2:
            busy = replace(busy, is_suspended=True)
        now = NOW + half * 30 * SECOND
        jobs = apply([jobs[0], busy], decide(Cluster(make_nodes(1)), MAIN, [jobs[0], busy], now))
    return jobs


def test_who_is_told_now_and_then_that_room_comes_has_waited_all_the_same() -> None:
    told = come_and_go(minutes=3)[0].admission
    assert told is not None
    assert told.reserved == ("node-00",)


def test_where_others_were_asked_and_their_room_is_lost_the_minute_begins_anew() -> None:
    """Or one after the other would go for one who never has what they leave."""
    at = NOW - 5 * MINUTE
    fields = {"queued_at": at, "since": at, "unfit_since": at, "coming_since": at}
    told = Admission(0, queue="main", reason=Reason.ROOM_COMES, **fields)
    waits = replace(make_job("waits", 8, 8), admission=told)
    busy = run_on(make_job("busy", 8, 8, priority=1), *["node-00"] * 8)
    assert decide_on(make_nodes(1), [busy, waits])["waits"].unfit_since == NOW
