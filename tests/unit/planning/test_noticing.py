"""Workers are moved before their node ends, and nothing new is put there."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from et_contract.admissions import MAX_NODES, AdmissionState, Placement
from et_contract.pods import Role
from et_kube.notices import Notice, NoticeKind
from et_kube.resources import PODS, Json
from et_operator.model.actions import Create
from et_operator.model.admissions import Admission
from et_operator.model.avoiding import MOST_TEXTS, list_avoided
from et_operator.model.notices import MAX_REMEMBERED
from et_operator.model.plans import Plan
from et_operator.model.pods import Node
from et_operator.model.specs import NoticePolicy
from et_operator.model.statuses import WorkerState
from et_operator.planning.displacing import dismiss_displaced
from et_operator.planning.drafts import Draft
from et_operator.planning.manifests.placement import dislike
from et_operator.planning.noticing import MOST
from et_operator.planning.planner import plan
from et_operator.planning.troubles import list_troubles
from tests.counting import count_steps
from tests.planning_makers import CORDON, ModelWorld, make_job

AT_ONCE = Notice("Karpenter drains it", "taint karpenter.sh/disrupted", NoticeKind.FIRM)
HOSTNAME = "kubernetes.io/hostname"


def start(workers: int = 3, **spec: Any) -> ModelWorld:
    """A job that has trained for an hour, its newest worker on n2, the others on n1."""
    world = ModelWorld(make_job(workers, **({"minimum": 1} | spec)))
    world.nodes["n3"] = Node("n3")
    world.start()
    world.put(f"job-worker-{workers - 1}", node="n2")
    world.wait(3600)
    world.settle()
    return world


def say(world: ModelWorld, node: str, notice: Notice | None) -> None:
    world.nodes[node] = replace(world.nodes[node], notice=notice)


def leave_in(world: ModelWorld, seconds: float) -> Notice:
    moment = world.now + timedelta(seconds=seconds)
    return Notice("it leaves", "annotation leaving-at", NoticeKind.FIRM, moment)


def find_state(world: ModelWorld, name: str) -> tuple[str, str, bool] | None:
    found = [r for r in world.status.workers if r.name == name]
    return (found[0].state.value, found[0].reason, found[0].taken) if found else None


def told(world: ModelWorld, reason: str) -> list[str]:
    return [event.message for event in world.events if event.reason == reason]


def find_created(plan: Plan) -> list[Json]:
    return [a.manifest for a in plan.actions if isinstance(a, Create) and a.resource == PODS]


def run_until_created(world: ModelWorld) -> list[Json]:
    """Passes until pods are created; their manifests."""
    for _ in range(20):
        created = find_created(world.step())
        if created:
            return created
    raise AssertionError("none was created")


def list_kept_off(manifest: Json) -> list[list[str]]:
    """By term: the nodes that a pod keeps off, whatever happens."""
    node = ((manifest["spec"].get("affinity") or {}).get("nodeAffinity")) or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [term["matchExpressions"] for term in required.get("nodeSelectorTerms") or ()]
    return [[v for e in term if e["operator"] == "NotIn" for v in e["values"]] for term in terms]


# ------------------------------------------------------------------ what has no node for it
def test_a_worker_that_finds_no_node_names_those_that_it_is_kept_off() -> None:
    world = ModelWorld(make_job(1))
    for node in ("n1", "n2"):
        say(world, node, leave_in(world, 30 * 24 * 3600))
    world.settle()
    words = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    world.put("job-worker-0", unschedulable_message=words)
    world.wait(15)
    world.settle()
    [message] = [c.message for c in world.status.conditions if c.type == "Unschedulable"]
    assert "node affinity/selector; it keeps off n1, n2, for that is said to end" in message


# ------------------------------------------------------------------ when
def test_a_worker_leaves_shortly_before_its_node_as_one_that_is_taken_and_another_comes() -> None:
    world = start()
    say(world, "n2", leave_in(world, 120))
    world.settle()
    assert find_state(world, "job-worker-2") is None
    assert world.condition("NodesLeaving") == "True"
    [record] = world.status.notices
    assert (record.node, record.kind, record.since) == ("n2", NoticeKind.FIRM, world.now)
    assert world.requeue_after == timedelta(seconds=100)
    world.wait(100)
    world.settle()
    assert find_state(world, "job-worker-2") == ("Leaving", "Noticed", True)
    assert world.states()["job-worker-2"] == "draining"
    assert not world.pods["job-worker-2"].is_deleting, "its agent is asked first"
    assert "job-worker-3" in world.pods, "nobody waits for it to have left"
    [message] = told(world, "WorkerLeaving")
    assert "job-worker-2 on n2: it leaves (annotation leaving-at)" in message
    world.serve()
    world.settle()
    world.end("job-worker-2", 143)
    world.settle()
    [message] = told(world, "WorkerMoved")
    assert message == "worker job-worker-2 left: graceful, 20 s before its end"
    world.go_on()
    assert world.workers == ["job-worker-0", "job-worker-1", "job-worker-3"]
    assert told(world, "WorkerLost") == []
    assert world.condition("NodesLeaving") == "False"


@pytest.mark.parametrize("seconds", [-60, 0, 19])
def test_where_the_time_is_short_it_leaves_at_once(seconds: float) -> None:
    world = start()
    say(world, "n2", leave_in(world, seconds))
    world.settle()
    assert find_state(world, "job-worker-2") == ("Leaving", "Noticed", True)


def test_and_so_it_does_where_nobody_says_when() -> None:
    world = start()
    say(world, "n2", AT_ONCE)
    world.settle()
    assert find_state(world, "job-worker-2") == ("Leaving", "Noticed", True)


def test_a_lead_counts_from_when_the_sign_was_first_seen() -> None:
    world = start()
    notice = Notice("spot", "taint itn", NoticeKind.FIRM, lead=timedelta(seconds=120))
    say(world, "n2", notice)
    world.settle()
    world.wait(99)
    world.settle()
    assert find_state(world, "job-worker-2") is None
    world.wait(1)
    world.settle()
    assert find_state(world, "job-worker-2") == ("Leaving", "Noticed", True)


def test_nobody_is_moved_for_what_is_long_over_or_was_withdrawn_in_time() -> None:
    world = start()
    say(world, "n2", leave_in(world, -601))
    world.settle()
    assert find_state(world, "job-worker-2") is None
    say(world, "n2", leave_in(world, 120))
    world.settle()
    say(world, "n2", None)
    world.wait(60)
    world.settle()
    [record] = world.status.notices
    assert record.withdrawn == world.now
    world.wait(60)
    world.settle()
    assert find_state(world, "job-worker-2") is None
    world.wait(3600)
    world.settle()
    assert world.status.notices == ()


def test_a_job_that_has_taken_long_to_drain_begins_earlier() -> None:
    world = start()
    world.job = replace(world.job, status=replace(world.status, slowest_drain=45))
    say(world, "n2", leave_in(world, 300))
    world.settle()
    assert world.requeue_after == timedelta(seconds=210)


def test_how_long_a_worker_takes_to_leave_is_remembered() -> None:
    world = start()
    say(world, "n2", AT_ONCE)
    world.settle()
    world.wait(33)
    world.serve()
    world.settle()
    world.reap()
    world.settle()
    assert world.status.slowest_drain == 34


def test_what_nobody_has_seen_of_it_is_not_how_long_it_takes() -> None:
    """The operator was away meanwhile, or has heard of no pods, or its clock was set."""
    world = start()
    say(world, "n2", AT_ONCE)
    world.settle()
    world.serve()
    world.settle()
    world.reap()
    world.wait(600)
    world.complete_since = world.now - timedelta(seconds=1)
    world.settle()
    assert told(world, "WorkerMoved") != []
    assert world.status.slowest_drain == 0


# ------------------------------------------------------------------ who
def test_a_soft_notice_moves_nobody_unless_the_author_wants_that() -> None:
    world = start()
    say(world, "n2", CORDON)
    world.settle()
    assert find_state(world, "job-worker-2") is None
    assert world.condition("NodesLeaving") is None
    world.edit(notice_policy=NoticePolicy.EAGER)
    [created] = run_until_created(world)
    assert list_kept_off(created) == [["n2"]]
    assert find_state(world, "job-worker-2") == ("Leaving", "Noticed", True)


def test_a_word_about_a_pod_moves_that_pod_and_keeps_nobody_off_its_node() -> None:
    world = start()
    world.put("job-worker-0", notice=leave_in(world, 10))
    [created] = run_until_created(world)
    assert list_kept_off(created) == []
    assert find_state(world, "job-worker-0") == ("Leaving", "Noticed", True)
    assert find_state(world, "job-worker-1") is None


def test_a_word_about_a_pod_holds_up_none_about_its_node() -> None:
    world = start()
    say(world, "n2", AT_ONCE)
    world.put("job-worker-2", notice=leave_in(world, 10**6))
    world.settle()
    assert find_state(world, "job-worker-2") == ("Leaving", "Noticed", True)


def test_the_last_host_stays_until_another_one_trains() -> None:
    world = start()
    for node in ("n1", "n2"):
        say(world, node, AT_ONCE)
    world.settle()
    left = [r.name for r in world.status.workers if r.state is WorkerState.LEAVING]
    assert len(left) == 2
    [stays] = {"job-worker-0", "job-worker-1", "job-worker-2"} - set(left)
    world.run(node="n3")
    world.settle()
    world.serve()
    world.settle()
    assert find_state(world, stays) is None, "those that came have no state of the training yet"
    world.wait(60)
    world.settle()
    assert find_state(world, stays) == ("Leaving", "Noticed", True)


def test_a_job_with_one_host_keeps_it_and_says_so() -> None:
    world = start(1)
    say(world, "n2", AT_ONCE)
    world.settle()
    assert find_state(world, "job-worker-0") is None
    [condition] = [c for c in world.status.conditions if c.type == "NodesLeaving"]
    assert "it stays until another host is listed" in condition.message


def test_a_command_that_needs_each_worker_keeps_them_and_says_so() -> None:
    world = start(is_elastic=False)
    say(world, "n2", AT_ONCE)
    world.settle()
    assert find_state(world, "job-worker-2") is None
    [condition] = [c for c in world.status.conditions if c.type == "NodesLeaving"]
    assert "its command cannot do without it" in condition.message


def test_what_becomes_of_a_launcher_is_said_and_so_is_what_cannot_be_read() -> None:
    world = start()
    world.put("job-launcher", node="n3")
    say(world, "n3", AT_ONCE)
    world.nodes["n2"] = replace(world.nodes["n2"], misread="annotation leaving-at is 'soon'")
    world.settle()
    [condition] = [c for c in world.status.conditions if c.type == "NodesLeaving"]
    assert "job-launcher on n3: Karpenter drains it" in condition.message
    assert "n2: annotation leaving-at is 'soon'" in condition.message


@pytest.mark.parametrize("is_of_pod", [False, True])
def test_a_moment_that_is_long_over_hides_nothing_that_is_said_now(*, is_of_pod: bool) -> None:
    world = start()
    old, new = leave_in(world, -3600), leave_in(world, 120)
    if is_of_pod:
        world.put("job-worker-2", notice=old)
        say(world, "n2", new)
    else:
        world.nodes["n2"] = replace(world.nodes["n2"], notice=old, notices=(old, new))
    world.settle()
    assert find_state(world, "job-worker-2") is None
    world.wait(100)
    world.settle()
    assert find_state(world, "job-worker-2") == ("Leaving", "Noticed", True)


# ------------------------------------------------------------------ several words on one node
LEAD = Notice("spot", "taint itn", NoticeKind.FIRM, lead=timedelta(seconds=120))


def say_all(world: ModelWorld, node: str, *said: Notice) -> None:
    """As the codec has it: more than one are all told."""
    notices = said if len(said) > 1 else ()
    world.nodes[node] = replace(world.nodes[node], notice=said[0], notices=notices)


def find_departure(world: ModelWorld, seconds: int) -> int | None:
    """After how many seconds job-worker-2 leaves."""
    for passed in range(seconds + 1):
        if find_state(world, "job-worker-2") == ("Leaving", "Noticed", True):
            return passed
        world.wait(1)
        world.settle()
    return None


@pytest.mark.long
@pytest.mark.parametrize(("other", "wait"), [(6 * 3600, 2 * 3600), (-86400, 1800)])
def test_a_lead_counts_from_its_own_sign_whatever_was_said_of_the_node_before(
    other: int, wait: int
) -> None:
    world = start()
    word = leave_in(world, other)
    say_all(world, "n2", word)
    world.settle()
    world.wait(wait)
    world.settle()
    say_all(world, "n2", LEAD, word)
    world.settle()
    assert find_departure(world, 120) == 100
    assert {(r.source, r.deadline) for r in world.status.notices if r.node == "n2"} >= {
        (word.source, word.deadline)
    }


@pytest.mark.long
def test_a_lead_counts_from_now_once_its_sign_was_taken_away_and_is_back() -> None:
    world = start()
    say_all(world, "n2", LEAD)
    world.settle()
    world.wait(60)
    say_all(world, "n2", leave_in(world, 10**6))
    world.settle()
    world.wait(3000)
    say_all(world, "n2", LEAD, leave_in(world, 10**6))
    world.settle()
    assert find_departure(world, 120) == 100


@pytest.mark.long
@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (AT_ONCE, 0),
        (Notice("it shuts down", "condition Ready", NoticeKind.FIRM), 0),
        (50, 30),
        (300, 100),
    ],
)
@pytest.mark.parametrize("is_first", [False, True])
def test_a_lead_hides_nothing_that_ends_earlier(
    other: Notice | int, expected: int, *, is_first: bool
) -> None:
    world = start()
    word = leave_in(world, other) if isinstance(other, int) else other
    say_all(world, "n2", *((LEAD, word) if is_first else (word, LEAD)))
    world.settle()
    assert find_departure(world, 120) == expected


@pytest.mark.long
def test_a_lead_that_is_long_over_hides_nothing_that_is_said_now() -> None:
    world = start()
    say_all(world, "n2", LEAD)
    world.settle()
    world.wait(900)
    word = leave_in(world, 300)
    say_all(world, "n2", LEAD, word)
    world.settle()
    assert find_departure(world, 300) == 280


def test_another_moment_by_the_same_sign_is_another_word() -> None:
    world = start()
    say(world, "n2", leave_in(world, 10**4))
    world.settle()
    world.wait(3600)
    say(world, "n2", leave_in(world, 19))
    world.settle()
    assert find_state(world, "job-worker-2") == ("Leaving", "Noticed", True), "the time is short"


@pytest.mark.long
def test_a_lead_that_is_not_noted_any_more_is_over_at_once() -> None:
    world = start(MOST + 3)
    for number in range(MOST):
        world.nodes[f"m{number}"] = Node(f"m{number}", notice=leave_in(world, 10**6))
        world.put(f"job-worker-{number}", node=f"m{number}")
    world.settle()
    say(world, "n2", LEAD)
    world.settle()
    assert find_state(world, f"job-worker-{MOST + 2}") == ("Leaving", "Noticed", True)


def test_of_many_nodes_what_counts_is_remembered_before_what_else_is_said() -> None:
    world = start(MOST + 3)
    for number in range(MOST):
        world.nodes[f"m{number}"] = Node(f"m{number}")
        say_all(world, f"m{number}", leave_in(world, 10**6), replace(LEAD, source="taint other"))
        world.put(f"job-worker-{number}", node=f"m{number}")
    world.settle()
    records, writes = world.status.notices, world.writes
    assert {record.node for record in records} == {f"m{number}" for number in range(MOST)}
    world.wait(10)
    world.settle()
    assert (world.status.notices, world.writes) == (records, writes)


@pytest.mark.long
def test_a_reason_in_other_words_is_no_other_word() -> None:
    world = start()
    word = leave_in(world, 10**6)
    world.put("job-worker-2", notice=word)
    world.settle()
    [before] = world.status.notices
    for number in range(MOST):
        world.wait(1)
        world.put("job-worker-2", notice=replace(word, reason=f"reason {number}"))
        world.settle()
    [after] = world.status.notices
    assert (after.since, after.reason) == (before.since, f"reason {MOST - 1}")


# ------------------------------------------------------------------ what is told of it
def find_words(world: ModelWorld) -> str:
    return next(c.message for c in world.status.conditions if c.type == "NodesLeaving")


def test_what_is_told_of_a_moment_is_looked_at_again_when_it_is_over() -> None:
    world = start(1)
    world.put("job-launcher", node="n3")
    for node in ("n1", "n2"):
        say(world, node, leave_in(world, 120))
    world.settle()
    end = world.now + timedelta(days=1)
    while world.requeue_after is not None and world.now < end:
        world.now += max(world.requeue_after, timedelta(milliseconds=1))
        world.settle()
    [worker] = find_words(world).split("; ")
    assert worker.endswith(", which is over: it stays")


def test_of_a_suspended_job_nothing_is_told() -> None:
    world = start()
    say(world, "n2", leave_in(world, 10**4))
    world.settle()
    assert "it leaves at" in find_words(world)
    world.edit(suspend=True)
    world.settle()
    assert world.condition("NodesLeaving") == "False"


# ------------------------------------------------------------------ where
def test_every_new_worker_keeps_off_all_nodes_that_end_wherever_the_job_is() -> None:
    world = start()
    say(world, "n2", AT_ONCE)
    say(world, "n3", leave_in(world, 10**6))
    [created] = run_until_created(world)
    assert list_kept_off(created) == [["n2", "n3"]]


def test_a_node_that_stays_after_all_is_used_where_no_other_has_room() -> None:
    world = start()
    say(world, "n2", leave_in(world, 10**4))
    world.settle()
    say(world, "n2", None)
    world.settle()
    world.end("job-worker-0", 1)
    [created] = run_until_created(world)
    assert list_kept_off(created) == []
    affinity = created["spec"]["affinity"]["nodeAffinity"]
    [preferred] = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    [expression] = preferred["preference"]["matchExpressions"]
    assert expression == {"key": HOSTNAME, "operator": "NotIn", "values": ["n2"]}


def test_what_the_template_prefers_stays() -> None:
    own = {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
    key = "preferredDuringSchedulingIgnoredDuringExecution"
    pod = {"spec": {"affinity": {"nodeAffinity": {key: [own]}, "podAffinity": {}}}}
    found = dislike(pod, ["n"])["spec"]["affinity"]
    assert found["podAffinity"] == {}
    assert found["nodeAffinity"][key][0] == own
    assert dislike(pod, []) is pod


@pytest.mark.parametrize(("hostname", "avoided"), [("ip-10-0-0-2", [["ip-10-0-0-2"]]), ("", [])])
def test_a_pod_keeps_off_a_node_by_the_value_of_its_label(
    hostname: str, avoided: list[list[str]]
) -> None:
    world = start()
    world.nodes["n2"] = replace(world.nodes["n2"], hostname=hostname)
    say(world, "n2", AT_ONCE)
    assert [list_kept_off(manifest) for manifest in run_until_created(world)] == [avoided]


def test_a_worker_without_a_node_is_made_anew_once_one_stays_that_it_keeps_off() -> None:
    world = start()
    say(world, "n2", AT_ONCE)
    world.settle()
    assert world.pods["job-worker-3"].avoids == "n2"
    world.wait(60)
    world.settle()
    assert "job-worker-3" in world.pods
    assert world.requeue_after is not None, "who waits for a node hears of one that is back"
    say(world, "n2", None)
    world.wait(30)
    world.settle()
    world.wait(10)
    world.settle()
    assert "job-worker-3" not in world.pods
    assert world.pods["job-worker-4"].avoids == ""


def test_and_so_it_is_however_many_pods_of_others_keep_off_other_nodes() -> None:
    """Whoever writes owners and labels into his own pods is no member by that."""
    world = start()
    say(world, "n2", AT_ONCE)
    world.settle()
    stranger = replace(world.pods["job-launcher"], node=None, phase="Pending", epoch=None)
    uids = map(str, range(MOST_TEXTS))
    strangers = {
        f"a-{uid}": replace(stranger, name=f"a-{uid}", uid=uid, avoids=f"x{uid}") for uid in uids
    }
    world.pods = strangers | world.pods
    say(world, "n2", None)
    world.wait(90)
    world.settle()
    assert "job-worker-3" not in world.pods


def test_and_so_it_is_where_a_word_remains_that_keeps_no_new_one_off() -> None:
    world = start()
    say(world, "n2", AT_ONCE)
    world.settle()
    say(world, "n2", CORDON)
    world.wait(30)
    world.go_on()
    assert "job-worker-3" not in world.pods
    assert world.pods["job-worker-4"].avoids == ""


@pytest.mark.parametrize(("affected", "more"), [(5, ""), (6, "; and 1 more"), (8, "; and 3 more")])
def test_of_many_that_are_on_nodes_that_end_a_few_are_told(affected: int, more: str) -> None:
    world = start(9)
    for number in range(9 - affected, 9):
        world.put(f"job-worker-{number}", node="n2")
    say(world, "n2", leave_in(world, 10**4))
    world.settle()
    [words] = [c.message for c in world.status.conditions if c.type == "NodesLeaving"]
    assert words.count("on n2: ") == 5
    assert words.endswith(more)
    assert ("more" in words) == bool(more)


def test_a_node_beyond_those_that_a_pod_can_be_told_of_does_not_stay_for_that() -> None:
    world = start()
    say(world, "n2", AT_ONCE)
    world.settle()
    assert world.pods["job-worker-3"].avoids == "n2"
    for number in range(MAX_NODES):
        world.nodes[f"a{number}"] = Node(f"a{number}", notice=AT_ONCE)
    world.wait(60)
    world.settle()
    assert "job-worker-3" in world.pods


def name_long(number: int) -> str:
    return f"gke-research-cluster-europe-west4-a-a100-pool-3f9c2b7e-{number:06}"


def test_a_worker_keeps_off_no_more_nodes_than_are_told_on_it() -> None:
    world = start()
    for number in range(MAX_NODES - 20):
        world.nodes[name_long(number)] = Node(name_long(number), notice=AT_ONCE)
    world.end("job-worker-1", 137)
    [created] = run_until_created(world)
    [kept_off] = list_kept_off(created)
    assert kept_off == list_avoided(world.pods[created["metadata"]["name"]].avoids)
    assert 100 < len(kept_off) < MAX_NODES - 20, "of so long names there is no room for all"


@pytest.mark.parametrize("is_launcher", [False, True])
def test_no_chosen_node_ends_however_many_do(*, is_launcher: bool) -> None:
    world = ModelWorld(make_job(2, queue="q"))
    world.settle()
    for number in range(MAX_NODES + 10):
        world.nodes[f"a{number:03}"] = Node(f"a{number:03}", notice=AT_ONCE)
    last = f"a{MAX_NODES + 9:03}"
    placement = Placement(last, (last, "n9"))
    admission = Admission(1, AdmissionState.ADMITTED, workers=2, placement=placement)
    world.job = replace(world.job, admission=admission)
    role = "launcher" if is_launcher else "worker"
    made: list[Json] = []
    for _ in range(20):
        made += [m for m in find_created(world.step()) if role in m["metadata"]["name"]]
    affinity = made[0]["spec"]["affinity"]["nodeAffinity"]
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or [{"matchExpressions": []}]
    chosen = [e["values"] for e in terms[0]["matchExpressions"] if e["operator"] == "In"]
    assert chosen == ([] if is_launcher else [["n9"]])


class Counted(str):
    """A name of a node that counts how often one is compared for its place among others."""

    __slots__ = ()
    compared = 0

    def __lt__(self, other: str) -> bool:
        Counted.compared += 1
        return str.__lt__(self, other)


@pytest.mark.long
def test_all_nodes_that_end_are_sorted_once_in_a_pass() -> None:
    world = start(2)
    names = [Counted(f"a{number:04}") for number in range(2000)]
    for name in names:
        world.nodes[name] = Node(name, notice=AT_ONCE)
    world.end("job-worker-0", 1)
    while not any(isinstance(a, Create) for a in plan(world.snapshot(), world.now).actions):
        world.step()
    snapshot = world.snapshot()
    Counted.compared = 0
    sorted(snapshot.firm_nodes)
    once, Counted.compared = Counted.compared, 0
    plan(snapshot, world.now)
    assert 0 < Counted.compared < 1.5 * once


def test_what_workers_keep_off_is_compared_once_however_many_they_are() -> None:
    def measure(workers: int) -> int:
        world = start(workers)
        ending = [f"n{number}" for number in range(2, MAX_NODES + 2)]
        for name in ending:
            world.nodes[name] = Node(name, notice=AT_ONCE)
        avoids = ",".join(sorted(ending))
        for name in [name for name, pod in world.pods.items() if pod.role is Role.WORKER]:
            world.put(name, node=None, phase="Pending", avoids=avoids)
        world.wait(60)
        snapshot = world.snapshot()
        return count_steps(lambda: dismiss_displaced(Draft(snapshot, world.now)))

    few, many = measure(10), measure(40)
    assert many < 2 * few


@pytest.mark.long
def test_what_they_keep_off_is_read_of_so_many_where_it_differs_for_each() -> None:
    def measure(workers: int) -> int:
        world = start(workers)
        for name in [name for name, pod in world.pods.items() if pod.role is Role.WORKER]:
            avoids = ",".join(f"{name}-{other}" for other in range(MAX_NODES))
            world.put(
                name, node=None, phase="Pending", avoids=avoids, unschedulable_message="too small"
            )
        world.wait(60)
        draft = Draft(world.snapshot(), world.now)
        return count_steps(lambda: (dismiss_displaced(draft), list_troubles(draft)))

    assert measure(2 * MOST_TEXTS) < 1.5 * measure(MOST_TEXTS)


@pytest.mark.parametrize("is_restart", [False, True])
def test_a_launcher_goes_to_a_node_that_ends_where_no_other_has_room(*, is_restart: bool) -> None:
    world = start() if is_restart else ModelWorld(make_job(2))
    say(world, "n1", AT_ONCE)
    say(world, "n2", AT_ONCE)
    if is_restart:
        world.end("job-launcher", 143, deletion_requested=world.now)
    made = []
    for _ in range(20):
        made += [m for m in find_created(world.step()) if "launcher" in m["metadata"]["name"]]
        world.wait(1)
    [launcher] = made
    assert list_kept_off(launcher) == []
    affinity = launcher["spec"]["affinity"]["nodeAffinity"]
    [_, preferred] = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    [expression] = preferred["preference"]["matchExpressions"]
    assert expression == {"key": HOSTNAME, "operator": "NotIn", "values": ["n1", "n2"]}


# ------------------------------------------------------------------ what cannot be kept off
def come_back(world: ModelWorld, node: str, seconds: int) -> None:
    """For so long whoever has no node is put there again, unless he keeps off it."""
    for _ in range(0, seconds, 5):
        world.settle()
        world.wait(5)
        for name, pod in list(world.pods.items()):
            if pod.phase == "Pending" and not pod.is_deleting:
                is_kept = node in pod.avoids.split(",") and world.nodes[node].hostname != ""
                world.run(name, node="n1" if is_kept else node)
        world.settle()
        world.serve()
        world.settle()
        world.reap()
    world.settle()


def find_last(world: ModelWorld) -> int:
    return world.status.last_worker_index


@pytest.mark.long
@pytest.mark.parametrize("seconds", [None, 30])
def test_who_is_put_there_in_spite_of_all_is_not_moved_again(seconds: float | None) -> None:
    world = start()
    notice = AT_ONCE if seconds is None else leave_in(world, seconds)
    world.nodes["n2"] = Node("n2", notice=notice, hostname="")
    come_back(world, "n2", 600)
    assert world.pods["job-worker-3"].node == "n2"
    assert find_last(world) == 3
    assert "job-worker-3 on n2: " in find_words(world)
    if seconds is None:
        assert "it was put there in spite of that, so it stays until its" in find_words(world)
    world.nodes["n2"] = replace(world.nodes["n2"], notice=replace(AT_ONCE, source="taint other"))
    world.settle()
    left = find_state(world, "job-worker-3")
    assert left == ("Leaving", "Noticed", True), "that is another word"


@pytest.mark.long
def test_but_it_is_once_where_it_was_put_there_long_before() -> None:
    world = start()
    world.nodes["n2"] = Node("n2", notice=leave_in(world, 10**5), hostname="")
    world.settle()
    world.end("job-worker-2", 137)
    come_back(world, "n2", 60)
    assert world.pods["job-worker-3"].node == "n2"
    world.wait(10**5 - 140)
    come_back(world, "n2", 600)
    assert find_last(world) == 4
    assert world.pods["job-worker-4"].node == "n2"


def test_so_it_is_again_once_it_was_taken_back_and_is_said_again() -> None:
    world = start()
    world.nodes["n2"] = Node("n2", notice=AT_ONCE, hostname="")
    come_back(world, "n2", 60)
    say(world, "n2", None)
    world.settle()
    say(world, "n2", AT_ONCE)
    world.settle()
    assert find_state(world, "job-worker-3") == ("Leaving", "Noticed", True)


def test_of_an_older_record_nobody_knows_who_was_made_since() -> None:
    world = start()
    say(world, "n2", leave_in(world, 120))
    world.settle()
    [record] = world.status.notices
    old = (replace(record, through=None),)
    world.job = replace(world.job, status=replace(world.status, notices=old))
    world.wait(100)
    world.settle()
    assert find_state(world, "job-worker-2") == ("Leaving", "Noticed", True)


@pytest.mark.long
def test_of_what_is_not_noted_who_is_new_there_is_moved_later() -> None:
    world = start(MOST + 3)
    for number in range(MOST):
        world.nodes[f"m{number}"] = Node(f"m{number}", notice=leave_in(world, 10**6))
        world.put(f"job-worker-{number}", node=f"m{number}")
    world.settle()
    world.nodes["n2"] = Node("n2", notice=AT_ONCE, hostname="")
    come_back(world, "n2", 60)
    new = f"job-worker-{MOST + 3}"
    assert world.pods[new].node == "n2"
    come_back(world, "n2", 1500)
    assert MOST + 4 <= find_last(world) <= MOST + 6


@pytest.mark.long
def test_first_kept_off_are_nodes_that_it_was_on_and_last_those_of_long_ago() -> None:
    world = start()
    past, to_come = leave_in(world, -(10**6)), leave_in(world, 10**6)
    for number in range(MAX_NODES):
        world.nodes[f"a{number:03}"] = Node(f"a{number:03}", notice=past)
        world.nodes[f"b{number:03}"] = Node(f"b{number:03}", notice=to_come)
    say(world, "n2", AT_ONCE)
    world.settle()
    others = [f"b{number:03}" for number in range(MAX_NODES - 1)]
    assert list_avoided(world.pods["job-worker-3"].avoids) == ["n2", *others]
    come_back(world, "n2", 60)
    assert world.pods["job-worker-3"].node == "n1"
    world.end("job-worker-3", 137)
    world.settle()
    world.wait(5)
    world.settle()
    assert "n2" in list_avoided(world.pods["job-worker-4"].avoids), "nobody is there by now"


# ------------------------------------------------------------------ which word counts
def test_for_whom_both_kinds_are_the_same_what_ends_first_counts() -> None:
    world = start(notice_policy=NoticePolicy.EAGER)
    say_all(world, "n2", leave_in(world, 10**6), CORDON)
    world.settle()
    assert find_state(world, "job-worker-2") == ("Leaving", "Noticed", True)
    assert "the node is cordoned" in find_words(world)


def test_and_for_whom_they_are_not_what_is_sure() -> None:
    world = start()
    say_all(world, "n2", leave_in(world, 10**6), CORDON)
    world.settle()
    assert find_state(world, "job-worker-2") is None
    assert "it leaves (annotation leaving-at), at " in find_words(world)


def test_signs_that_are_long_alike_are_noted_each_by_itself() -> None:
    world = start()
    long = "taint " + "example.com/" * 20
    first, second = replace(LEAD, source=f"{long}a"), replace(LEAD, source=f"{long}b")
    say_all(world, "n2", first)
    world.settle()
    world.wait(1)
    say_all(world, "n2", first, second)
    world.settle()
    assert len(world.status.notices) == 2
    assert len({record.since for record in world.status.notices}) == 2
    assert all(len(record.source) <= MAX_REMEMBERED for record in world.status.notices)


# ------------------------------------------------------------------ whatever is said
WORDS = st.tuples(
    st.sampled_from(["n1", "n2", "n3", "job-worker-0", "job-worker-2", "job-launcher"]),
    st.sampled_from(["firm", "soft", "none"]),
    st.one_of(st.none(), st.sampled_from([-(10**9), -1, 0, 25, 90, 700, 10**11])),
    st.integers(0, 200),
)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(st.lists(WORDS, max_size=8), st.sampled_from(NoticePolicy))
def test_whatever_is_said_in_whatever_order_a_host_stays_and_the_number_comes_back(
    words: list[tuple[str, str, int | None, int]], policy: NoticePolicy
) -> None:
    world = start(notice_policy=policy)
    for name, kind, seconds, pause in words:
        moment = None if seconds is None else world.now + timedelta(seconds=seconds)
        known = {"firm": NoticeKind.FIRM, "soft": NoticeKind.SOFT}
        notice = Notice("w", "s", known[kind], moment) if kind in known else None
        if name in world.nodes:
            say(world, name, notice)
        elif name in world.pods and (notice is None or notice.is_firm):
            world.put(name, notice=notice)
        world.settle()
        assert any(state == "active" for state in world.states().values())
        world.wait(pause)
        if pause > 50:  # others come, and who leaves has left
            world.run(node="n3")
            world.settle()
            world.serve()
            world.settle()
            world.reap()
    for node in list(world.nodes):
        say(world, node, None)
    for name in list(world.pods):
        world.put(name, notice=None)
    for _ in range(4):
        world.wait(60)
        world.go_on(2)
    assert len(world.workers) == 3
    moves = len(told(world, "LauncherMoved"))
    assert world.status.epoch == 1 + moves <= 1 + sum(kind == "firm" for _, kind, _, _ in words)
    writes = world.writes
    world.settle()
    assert world.writes == writes


@pytest.mark.long
def test_many_nodes_are_remembered_within_bounds_and_those_that_speak_now_first() -> None:
    world = start(MOST + 10)
    for number in range(MOST + 10):
        world.nodes[f"m{number}"] = Node(f"m{number}", notice=leave_in(world, 10**5))
        world.put(f"job-worker-{number}", node=f"m{number}")
    world.settle()
    assert len(world.status.notices) == MOST
    assert not [r for r in world.status.workers if r.state is WorkerState.LEAVING]
    world.wait(10**5)
    world.settle()
    leaving = [r for r in world.status.workers if r.state is WorkerState.LEAVING]
    assert len(leaving) == MOST + 9, "also those that were not"


@pytest.mark.long
@pytest.mark.parametrize("count", [MOST, MOST + 1, MOST + 10])
@pytest.mark.parametrize("kind", NoticeKind)
@pytest.mark.parametrize("is_of_pods", [False, True])
def test_of_however_many_it_is_said_at_once_all_else_goes_on(
    count: int, kind: NoticeKind, *, is_of_pods: bool
) -> None:
    world = start(MOST + 12, notice_policy=NoticePolicy.EAGER)
    world.tick = timedelta(milliseconds=100)
    notice = replace(leave_in(world, 10**4), kind=kind)
    for number in range(count):
        world.nodes[f"m{number}"] = Node(f"m{number}", notice=None if is_of_pods else notice)
        word = notice if is_of_pods else None
        world.put(f"job-worker-{number}", node=f"m{number}", notice=word)
    world.end(f"job-worker-{MOST + 11}", 1)
    world.settle()
    assert f"job-worker-{MOST + 12}" in world.pods
    world.wait(10)
    world.settle()
    records, writes = world.status.notices, world.writes
    assert len(records) == MOST
    world.wait(10)
    world.settle()
    assert world.writes == writes
    for node in list(world.nodes):
        say(world, node, None)
    for name in list(world.pods):
        world.put(name, notice=None)
    world.settle()
    assert all(record.withdrawn is not None for record in world.status.notices)


@pytest.mark.long
def test_who_is_remembered_stays_so_whoever_comes_later() -> None:
    world = start(MOST + 2)
    world.tick = timedelta(milliseconds=100)
    for number in range(MOST + 2):
        world.nodes[f"m{number}"] = Node(f"m{number}")
        world.put(f"job-worker-{number}", node=f"m{number}")
    for number in range(1, MOST + 1):
        say(world, f"m{number}", leave_in(world, 10**5))
    world.settle()
    records = world.status.notices
    world.wait(60)
    for number in (0, MOST + 1):
        say(world, f"m{number}", leave_in(world, 10**5))
    world.settle()
    assert world.status.notices == records
    say(world, "m1", None)
    world.settle()
    nodes = {record.node for record in world.status.notices}
    assert "m1" not in nodes, "what is said goes before what was"
    assert "m0" in nodes


def test_what_moves_nobody_is_not_remembered() -> None:
    world = start()
    say(world, "n2", CORDON)
    world.settle()
    assert world.status.notices == ()
    world.edit(notice_policy=NoticePolicy.EAGER)
    world.settle()
    world.edit(notice_policy=NoticePolicy.FIRM)
    world.settle()
    [record] = world.status.notices
    assert record.withdrawn == world.now
