"""What the config has of notices, for scripts in workers and in the launcher."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from et_contract.documents import HostConfig, ToldNotice, decode_config, encode_config
from et_contract.names import NOTICE_SIGNALS
from et_kube.notices import Notice, NoticeKind
from et_kube.times import format_time
from et_operator.model.pods import Node
from et_operator.model.snapshots import RuntimeFiles
from et_operator.model.specs import AttachMode, NoticePolicy, NoticeSignal
from et_operator.model.statuses import Runtime
from et_operator.planning.noticing import MOST
from tests.planning_makers import ModelWorld, make_job

LEAD = Notice(
    "Google Cloud takes the instance back",
    "taint cloud.google.com/impending-node-termination",
    NoticeKind.FIRM,
    lead=timedelta(seconds=30),
)


def start(world: ModelWorld | None = None) -> ModelWorld:
    """A job of three workers that has trained for a while, its newest on n2, all else on n1."""
    world = world or ModelWorld(make_job(3, minimum=1))
    world.nodes["n3"] = Node("n3")
    world.start()
    world.put("job-worker-2", node="n2")
    world.wait(3600)
    world.settle()
    return world


def leave_in(world: ModelWorld, seconds: float, **changes: object) -> Notice:
    moment = world.now + timedelta(seconds=seconds)
    notice = Notice("it leaves", "annotation leaving-at", NoticeKind.FIRM, moment)
    return replace(notice, **changes)  # type: ignore[arg-type]  # by name


def say(world: ModelWorld, node: str, *notices: Notice) -> None:
    first = notices[0] if notices else None
    world.nodes[node] = replace(world.nodes[node], notice=first, notices=notices)
    world.settle()


def told(world: ModelWorld) -> dict[str, ToldNotice]:
    """By the name of a pod: what it is told."""
    assert world.config is not None
    names = {pod.uid: name for name, pod in world.pods.items()}
    return {names[uid]: notice for notice in world.config.notices for uid in notice.pods}


def generation(world: ModelWorld) -> int:
    assert world.config is not None
    return world.config.generation


def test_who_is_on_a_node_that_surely_ends_is_told_until_it_is_withdrawn() -> None:
    world = start()
    assert told(world) == {}
    notice = leave_in(world, 900)
    say(world, "n2", notice)
    [word] = told(world).values()
    assert notice.deadline
    assert list(told(world)) == ["job-worker-2"]
    assert (word.reason, word.source) == ("it leaves", "annotation leaving-at")
    assert word.deadline == format_time(notice.deadline.replace(microsecond=0))
    before = generation(world)
    world.wait(60)
    world.settle()
    assert generation(world) == before, "what is said already is not said again"
    say(world, "n2")
    assert told(world) == {}


def test_the_launcher_is_told_of_its_own_end_with_who_is_on_its_node() -> None:
    world = start()
    say(world, "n1", leave_in(world, 900))
    names = {"job-launcher", "job-worker-0", "job-worker-1"}
    assert set(told(world)) == names
    assert world.config
    assert len(world.config.notices) == 1, "those of whom the same is said are told together"


def test_a_pods_own_word_is_told_to_that_pod_alone_and_the_earliest_counts() -> None:
    world = start()
    say(world, "n1", leave_in(world, 900))
    world.put("job-worker-1", notice=leave_in(world, 800, reason="it is mine"))
    world.settle()
    words = {name: notice.reason for name, notice in told(world).items()}
    assert words == {
        "job-launcher": "it leaves",
        "job-worker-0": "it leaves",
        "job-worker-1": "it is mine",
    }
    world.put("job-worker-1", notice=leave_in(world, 10_000))
    world.settle()
    assert {notice.reason for notice in told(world).values()} == {"it leaves"}


@pytest.mark.parametrize("policy", NoticePolicy)
def test_what_is_not_sure_is_told_to_no_script(policy: NoticePolicy) -> None:
    world = start(ModelWorld(make_job(3, minimum=1, notice_policy=policy)))
    soft = leave_in(world, 60, kind=NoticeKind.SOFT, source="taint soft")
    say(world, "n2", soft)
    assert told(world) == {}
    say(world, "n2", soft, leave_in(world, 900))
    assert [notice.source for notice in told(world).values()] == ["annotation leaving-at"]


def test_what_is_over_for_ten_minutes_is_told_no_more_and_hides_nothing() -> None:
    world = start()
    say(world, "n1", leave_in(world, 60))  # who trains there has nowhere to go
    world.nodes["n2"] = replace(world.nodes["n2"], notice=leave_in(world, 60))
    world.settle()
    assert "job-launcher" in told(world)
    assert world.requeue_after is not None
    world.wait(661)
    world.settle()
    assert "job-launcher" not in told(world)
    late = leave_in(world, 3600, source="taint late")
    say(world, "n1", leave_in(world, -661), late)
    assert told(world)["job-launcher"].source == "taint late"


def test_a_node_that_is_not_there_takes_nothing_back() -> None:
    world = start()
    say(world, "n1", leave_in(world, 900))
    before = told(world)
    node = world.nodes.pop("n1")
    world.settle()
    assert told(world).keys() >= before.keys() & world.pods.keys()
    world.nodes["n1"] = replace(node, notice=None, notices=())
    world.settle()
    assert told(world) == {}


def test_a_lead_is_one_moment_for_all_passes_or_none() -> None:
    """Of more nodes than the status remembers nobody knows since when they say so."""
    world = start(ModelWorld(make_job(MOST + 4, minimum=1)))
    nodes = [f"m{number}" for number in range(MOST + 4)]
    for number, name in enumerate(nodes):
        world.nodes[name] = Node(name, notice=LEAD)
        world.put(f"job-worker-{number}", node=name)
    world.settle()
    since = world.now
    deadlines = {notice.deadline for notice in told(world).values()}
    assert "" in deadlines
    assert len(deadlines) == 2
    moment = format_time((since + timedelta(seconds=30)).replace(microsecond=0))
    assert max(deadlines) <= moment
    before = generation(world)
    for _ in range(3):
        world.wait(1)
        world.step()
    assert {notice.deadline for notice in told(world).values()} <= deadlines
    assert generation(world) == before


def test_a_deadline_as_far_off_as_can_be_is_told_as_it_is() -> None:
    world = start()
    end = leave_in(world, 0).deadline
    assert end
    say(world, "n2", leave_in(world, 0, deadline=end.replace(year=8999)))
    assert told(world)["job-worker-2"].deadline.startswith("8999-")


def test_a_worker_that_comes_where_that_is_said_is_told_with_its_membership() -> None:
    world = start()
    say(world, "n3", leave_in(world, 3600))
    world.edit(replicas=4)
    world.settle()
    world.run("job-worker-3", node="n3")
    world.settle()
    assert world.states()["job-worker-3"] == "active"
    assert list(told(world)) == ["job-worker-3"]


def test_a_runtime_that_would_not_understand_is_told_nothing() -> None:
    job = make_job(3, minimum=1, notice_signal=NoticeSignal.USR1)
    world = start(ModelWorld(job, RuntimeFiles(Runtime("d0", "broker:0", 2), {})))
    before = generation(world)
    say(world, "n1", leave_in(world, 3600))
    assert world.config
    assert (told(world), world.config.notice_signal) == ({}, "")
    assert generation(world) == before


def test_the_signal_is_told_and_an_edit_of_it_too() -> None:
    world = start()
    assert world.config
    assert world.config.notice_signal == ""
    for signal in NoticeSignal:
        world.edit(notice_signal=signal)
        world.settle()
        expected = "" if signal is NoticeSignal.NONE else signal.value
        assert world.config.notice_signal == expected
    assert set(NoticeSignal) - {NoticeSignal.NONE} == set(NOTICE_SIGNALS)


def test_over_ssh_all_is_told_for_the_launcher() -> None:
    world = start(ModelWorld(make_job(3, minimum=1, attach_mode=AttachMode.SSH)))
    say(world, "n2", leave_in(world, 900))
    assert list(told(world)) == ["job-worker-2"]


@pytest.fixture(scope="module")
def trained() -> ModelWorld:
    """One for many words: who starts it for each of them waits for minutes."""
    return start()


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(reason=st.text(max_size=300), source=st.text(max_size=300))
def test_whatever_the_words_are_the_config_that_is_read_is_the_one_that_was_written(
    trained: ModelWorld, reason: str, source: str
) -> None:
    """Else each pass would write it anew."""
    world = trained
    say(world, "n2", leave_in(world, 3600, reason=reason, source=source))
    config: HostConfig | None = world.config
    assert config is not None
    assert decode_config(encode_config(config)) == config
    assert config.notices
    before = generation(world)
    world.wait(1)
    world.settle()
    assert generation(world) == before
