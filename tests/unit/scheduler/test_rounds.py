"""Whole jobs go for a gang, and pods of others have the room before it: how many go in vain?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from et_contract.admissions import AdmissionState
from et_scheduler.model.cluster import Cluster, Leaving, Node
from et_scheduler.model.decisions import Change, Decision
from et_scheduler.model.jobs import Admission, Eviction, Job
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import CPU, HOUR, MINUTE, PODS, SECOND
from et_scheduler.planning.passing import decide
from tests.unit.scheduler.makers import LONG_AGO, MAIN, NOW, make_job, make_node, run_on
from tests.unit.scheduler.test_gangs import wait_since

FULL = {CPU: 8000, PODS: 8}
REST = 3 * SECOND


class Night:
    """A whole job on each of eight nodes, the last the youngest, and a gang for one of them.

    Others have a node as soon as it is free, or `after_start`, as soon as the gang may begin there.
    What is decided about the `unwritable` is refused; each rests for a while then.
    """

    def __init__(
        self, *, after_start: bool = False, unwritable: frozenset[str] = frozenset()
    ) -> None:
        self.now, self.gone, self.after_start = NOW, list[str](), after_start
        self.unwritable, self.rests = unwritable, dict[str, int]()
        self.nodes: dict[str, Node] = {}
        self.jobs: dict[str, Job] = {}
        for number in range(8):
            name, node = f"v{number}", make_node(f"n{number}")
            job = make_job(name, 8, 8)
            self.nodes[name] = node
            self.jobs[name] = run_on(job, *[node.name] * 8, since=LONG_AGO + number)
        self.jobs["gang"] = wait_since(make_job("gang", 8, 8, priority=5), NOW - SECOND)

    @property
    def told(self) -> Admission:
        found = self.jobs["gang"].admission
        assert found is not None
        return found

    def go_on(self, wait: int = SECOND) -> Decision:
        """One pass; what it has decided is done when this returns, `wait` later."""
        resting = {uid for uid, until in self.rests.items() if self.now < until}
        jobs = [
            replace(job, frozen_since=NOW) if uid in resting else job
            for uid, job in self.jobs.items()
        ]
        decision = decide(Cluster(tuple(self.nodes.values())), MAIN, jobs, self.now)
        refused = min((c.step for c in decision.changes if c.uid in self.unwritable), default=None)
        for change in decision.changes:
            if change.uid in self.unwritable:
                self.rests[change.uid] = self.now + REST
            elif refused is None or change.step <= refused:  # nothing of a later step is written
                self._carry_out(change)
        self.now += wait
        return decision

    def _carry_out(self, change: Change) -> None:
        job = self.jobs[change.uid] = replace(self.jobs[change.uid], admission=change.admission)
        if change.admission.reason is Reason.EVICTED and job.pods:
            self.gone.append(job.uid)
            self.jobs[job.uid] = replace(job, pods=(), is_waiting=True)
            if not self.after_start:
                self._take(self.nodes[job.uid])
        elif self.after_start and change.admission.state is AdmissionState.ADMITTED:
            for node in self.nodes.values():
                if node.name in change.admission.placement.only:
                    self._take(node)

    def _take(self, node: Node) -> None:
        uid = next(uid for uid, one in self.nodes.items() if one.name == node.name)
        self.nodes[uid] = replace(node, taken=FULL)


class Refusal(Night):
    """The gang needs four nodes that four jobs have, and is written once, as it holds them.

    Nobody takes what becomes free, and four others wait for it: whoever may start, stands.
    """

    def __init__(self, *, is_for_good: bool) -> None:
        super().__init__()
        self.is_for_good = is_for_good
        for number in range(4, 8):
            self.jobs[f"v{number}"] = wait_since(make_job(f"v{number}", 8, 8), NOW - MINUTE)
            del self.nodes[f"v{number}"]
        self.jobs["gang"] = wait_since(make_job("gang", 32, 32, priority=5), NOW - SECOND)

    def _carry_out(self, change: Change) -> None:
        told, job = change.admission, self.jobs[change.uid]
        if change.uid == "gang" and told.reserved and self.is_for_good:
            self.unwritable = frozenset({"gang"})
        if job.is_waiting and told.state is AdmissionState.ADMITTED:
            there = [name for name in told.placement.only for _ in range(8)]
            pods = run_on(job, *there, since=self.now).pods
            self.jobs[job.uid] = replace(
                job, admission=told, pods=pods, is_waiting=False, admitted_number=told.number
            )
        elif told.reason is Reason.EVICTED and job.pods:
            self.gone.append(job.uid)
            self.jobs[job.uid] = replace(job, admission=told, pods=(), is_waiting=True)
        else:
            self.jobs[job.uid] = replace(job, admission=told)


@pytest.mark.long
@pytest.mark.parametrize("is_for_good", [False, True])
def test_for_one_that_can_be_written_no_more_whole_jobs_go_once(*, is_for_good: bool) -> None:
    """Its object is full, say. That others are asked for it is written into it before they are."""
    night = Refusal(is_for_good=is_for_good)
    while night.now < NOW + 6 * HOUR:
        night.go_on(MINUTE)
    assert sorted(night.gone) == ["v0", "v1", "v2", "v3"]
    assert (night.told.state is AdmissionState.ADMITTED) is not is_for_good


def test_whole_jobs_do_not_go_one_after_the_other_for_what_pods_of_others_take() -> None:
    """They have waited for longer than anybody gives for them, and are there before the gang is."""
    night = Night()
    for _ in range(4):
        night.go_on()
    decision = night.go_on()
    assert night.gone == ["v7", "v6"]
    assert "gone for it 2 times and it has not stood, so that no more go for 1 h" in (
        decision.explanations["gang"].message
    )
    night.now += HOUR
    night.go_on()
    night.go_on()
    assert night.gone == ["v7", "v6", "v5"]
    assert night.told.rounds == 3


def test_nor_where_others_have_the_room_once_the_gang_may_begin_there() -> None:
    """Its pods are not made in the same moment, and those of others look all the time."""
    night = Night(after_start=True)
    for _ in range(20):
        night.go_on()
    assert night.gone == ["v7", "v6"]
    assert night.told.number == 2
    night.now += HOUR
    for _ in range(20):
        night.go_on()
    assert night.gone == ["v7", "v6", "v5"]


def test_nor_where_room_comes_all_the_time_and_is_never_there() -> None:
    """On one node pods of others end, and others take their place."""
    night = Night()
    while night.now < NOW + 6 * HOUR:
        leaving = (Leaving(night.now - 10 * SECOND, FULL),)
        night.nodes["x"] = make_node("x", taken=FULL, leaving=leaving)
        night.go_on(10 * SECOND)
    assert len(night.gone) == 4


def test_who_has_not_gone_counts_for_none() -> None:
    """Two jobs that cannot be written are asked in turns: a third goes, and the gang begins."""
    night = Night(after_start=True, unwritable=frozenset({"v7", "v6"}))
    for _ in range(10):
        night.go_on()
        if night.told.state is AdmissionState.ADMITTED:
            break
    assert night.gone == ["v5"]
    assert night.told.rounds == 1


@pytest.mark.parametrize(
    ("at", "is_early", "rounds"),
    [
        pytest.param(NOW - SECOND, False, 1, id="went"),
        pytest.param(NOW - SECOND, True, 0, id="went before it stood"),
        pytest.param(NOW + MINUTE, False, 0, id="by a clock that is ahead"),
    ],
)
def test_who_has_gone_is_counted_once_and_by_no_clock_that_is_ahead(
    at: int, is_early: bool, rounds: int
) -> None:
    """The server's times tell that it is ours that is behind, and so nothing is set right."""
    night = Night()
    gone = Admission(1, queue="main", evictions=(Eviction("gang", "main", at, is_early),))
    night.nodes["v7"] = replace(night.nodes["v7"], taken=FULL)
    night.jobs["v7"] = replace(make_job("v7", 8, 8), admission=gone, created=NOW + MINUTE)
    night.jobs["gang"] = replace(night.jobs["gang"], preempts=False)
    for _ in range(3):
        night.go_on()
    assert night.told.rounds == rounds


def test_one_round_by_a_clock_that_was_ahead_is_one_whoever_is_written_when() -> None:
    """The moments of three are set right, of which two cannot be written at once."""
    night, ahead = Night(), NOW + 4 * MINUTE
    for uid in ("v0", "v1", "v2"):
        gone = Admission(1, queue="main", evictions=(Eviction("gang", "main", ahead),))
        night.jobs[uid] = replace(make_job(uid, 8, 8), admission=gone)
        night.nodes[uid] = replace(night.nodes[uid], taken=FULL)
    told = replace(night.told, rounds=1, round_at=ahead)
    night.jobs["gang"] = replace(night.jobs["gang"], admission=told, preempts=False)
    for unwritable in ({"v1", "v2"}, {"v2"}, set[str](), set[str]()):
        night.unwritable = frozenset(unwritable)
        night.go_on(2 * REST)
    moments = {night.told.round_at}
    for uid in ("v0", "v1", "v2"):
        admission = night.jobs[uid].admission
        assert admission is not None
        moments.add(admission.evictions[0].at)
    assert moments == {NOW}
    assert night.told.rounds == 1


def test_rounds_that_a_former_version_has_counted_end_with_no_moment_of_theirs() -> None:
    night = Night()
    night.jobs["gang"] = replace(night.jobs["gang"], admission=replace(night.told, rounds=2))
    night.go_on()
    assert night.gone == ["v7"]


def test_who_stands_begins_anew() -> None:
    night = Night()
    night.go_on()
    night.go_on()
    assert night.told.rounds == 1
    fields = {"bound_at": None, "rounds": 1, "round_at": night.told.round_at}
    night.jobs["gang"] = run_on(night.jobs["gang"], *["own"] * 8, since=night.now, **fields)
    night.nodes["own"] = make_node("own")
    night.go_on()
    assert night.told.bound_at is not None
    assert night.told.rounds == 0
    assert all(change.uid != "gang" for change in night.go_on().changes), "it is counted again"


def test_the_hour_does_not_begin_anew_with_workers_that_leave_meanwhile() -> None:
    night = Night()
    for _ in range(5):
        night.go_on()
    assert len(night.gone) == 2
    elastic = run_on(make_job("elastic", 1, 8), *["e"] * 8)
    night.nodes["e"] = make_node("e")
    night.jobs["elastic"] = elastic
    night.jobs["gang"] = replace(night.jobs["gang"], minimum=7, maximum=7, replicas=7)
    night.now += 50 * MINUTE
    assert night.go_on().explanations["gang"].reason is Reason.ROOM_COMES
    night.nodes["e"] = make_node("e", taken={CPU: 7000, PODS: 7})
    night.jobs["elastic"] = replace(night.jobs["elastic"], pods=elastic.pods[:2])
    assert night.go_on().explanations["gang"].reason is Reason.NO_ROOM
    assert len(night.gone) == 2
    night.now += 12 * MINUTE
    night.go_on()
    assert len(night.gone) == 3
