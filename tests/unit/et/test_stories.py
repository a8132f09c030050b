from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from et.stories import Entry, drop_past, tell_story
from et_contract.pods import LABEL_JOB, LABEL_ROLE
from et_kube.times import format_micro_time, format_time
from et_operator.codec.decoding import decode_job, decode_scaling
from et_operator.codec.pods import decode_pod
from et_operator.model.jobs import TrainingJob
from et_operator.model.pods import Pod
from fakes.clock import START
from tests.counting import count_steps
from tests.makers import Document, make_job, make_scale_in, make_scale_out


def at(seconds: float) -> str:
    return format_time(START + timedelta(seconds=seconds))


def make_stored_job(*conditions: Document) -> TrainingJob:
    job = make_job("train")
    job["metadata"] |= {"uid": "u-job", "namespace": "team", "creationTimestamp": at(0)}
    job["status"] = {"phase": "Running", "epoch": 1, "conditions": list(conditions)}
    return decode_job(job)


def make_condition(kind: str, seconds: float, status: str = "True", **fields: str) -> Document:
    stamp = at(seconds)
    return {"type": kind, "status": status, "reason": kind, "lastTransitionTime": stamp, **fields}


def make_event(seconds: float, reason: str, message: str, **fields: Any) -> Document:
    about = {"kind": "TrainingJob", "name": "train", "uid": "u-job"}
    stamp = format_micro_time(START + timedelta(seconds=seconds))
    base = {"involvedObject": about, "eventTime": stamp, "type": "Normal"}
    return {**base, "reason": reason, "message": message, **fields}


def store_scaling(manifest: Document, created: float, **status: Any) -> Document:
    meta = {"uid": f"u-{manifest['metadata']['name']}", "creationTimestamp": at(created)}
    manifest["metadata"] |= meta
    return {**manifest, "status": status}


def words(story: list[Entry]) -> list[tuple[str, str]]:
    return [(entry.about, entry.what) for entry in story]


def test_events_conditions_and_scalings_are_told_in_the_order_of_time():
    job = make_stored_job(make_condition("Running", 3), make_condition("HostsListed", 5))
    grow = store_scaling(
        make_scale_out("grow", count=2),
        10,
        phase="ScaleSucceeded",
        conditions=[make_condition("Scaling", 11), make_condition("ScaleSucceeded", 14)],
    )
    events = [make_event(20, "WorkerLost", "worker train-worker-1 ended: exit code 137")]

    story = tell_story(job, [decode_scaling(grow)], events)

    assert words(story) == [
        ("job", "Submitted"),
        ("job", "Running"),
        ("job", "HostsListed"),
        ("ScaleOut grow", "Asked"),
        ("ScaleOut grow", "Scaling"),
        ("ScaleOut grow", "ScaleSucceeded"),
        ("job", "WorkerLost"),
    ]


def test_what_an_event_and_a_condition_tell_is_told_once_in_the_words_of_the_event():
    shrink = store_scaling(
        make_scale_in("shrink", count=1),
        9,
        phase="ScaleSucceeded",
        conditions=[
            make_condition("Scaling", 10, message="3 -> 2 workers"),
            make_condition("ScaleSucceeded", 12, message="the job has 2 workers"),
        ],
        workers=[{"name": "train-worker-2", "uid": "w", "result": "graceful", "seconds": 1.23}],
    )
    events = [
        make_event(2.5, "Running", "the launcher runs, with 3 of 3 workers"),
        make_event(10.2, "Scaling", "ScaleIn shrink: 3 -> 2 workers (train-worker-2: newest)"),
        make_event(12.1, "ScaleSucceeded", "ScaleIn shrink succeeded: the job has 2 workers"),
    ]

    story = tell_story(
        make_stored_job(make_condition("Running", 2)), [decode_scaling(shrink)], events
    )

    assert [(entry.what, entry.text) for entry in story] == [
        ("Submitted", "the job was submitted"),
        ("Running", "the launcher runs, with 3 of 3 workers"),
        ("Asked", "1 worker less"),
        ("Scaling", "3 -> 2 workers (train-worker-2: newest)"),
        ("ScaleSucceeded", "the job has 2 workers; train-worker-2 graceful after 1.2 s"),
    ]


def test_a_refused_scaling_is_told_once():
    manifest = make_scale_in("greedy", podNames=["train-worker-7"])
    failed = make_condition("ScaleFailed", 4, message="no such worker") | {"reason": "UnknownPods"}
    scaling = decode_scaling(store_scaling(manifest, 3, phase="ScaleFailed", conditions=[failed]))
    about = {"kind": "ScaleIn", "name": "greedy", "uid": "u-greedy"}
    event = make_event(4, "UnknownPods", "no such worker", involvedObject=about, type="Warning")

    story = tell_story(make_stored_job(), [scaling], [event])

    assert words(story)[1:] == [("ScaleIn greedy", "Asked"), ("ScaleIn greedy", "UnknownPods")]
    assert story[1].text == "train-worker-7 must go"


def test_pods_are_heard_when_they_warn_and_belong_to_this_job():
    def warn(name: str, seconds: float, kind: str = "Warning") -> Document:
        about = {"kind": "Pod", "name": name, "uid": name}
        return make_event(seconds, "Failed", "no such image", involvedObject=about, type=kind)

    events = [
        warn("train-worker-0", 1),
        warn("train-launcher", 2),
        warn("train-worker-1", 3, "Normal"),
        warn("train-extra-worker-0", 4),
        warn("other-worker-0", 5),
        warn("train-worker-0", -60),
    ]

    story = tell_story(make_stored_job(), [], events)

    assert [entry.about for entry in story] == ["job", "train-launcher, train-worker-0"]


def test_older_events_and_repeated_ones_have_their_time_and_their_count():
    old = make_event(0, "WorkerLost", "a", eventTime=None, firstTimestamp=at(7), count=3)
    new = make_event(8, "WorkerLost", "b", series={"count": 5})

    story = tell_story(make_stored_job(), [], [new, old])

    assert [(entry.text, entry.count) for entry in story[1:]] == [("a", 3), ("b", 5)]


def test_a_condition_that_ended_is_told_with_its_reason_but_not_what_is_ordinary():
    job = make_stored_job(
        make_condition("Unschedulable", 5, "False") | {"reason": "Resolved"},
        make_condition("Scaling", 6, "False") | {"reason": "Done"},
    )

    story = tell_story(job, [], [])

    assert [entry.text for entry in story[1:]] == ["no longer Unschedulable (Resolved)"]


@pytest.mark.long
def test_a_story_of_twice_as_much_is_twice_the_work() -> None:
    def measure(count: int) -> int:
        job = make_stored_job()
        names = [f"in-{number}" for number in range(count)]
        failed = {"type": "ScaleFailed", "status": "True", "reason": "x", "message": "y"}
        failed["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        meta = {"namespace": "team", "creationTimestamp": "2026-01-01T00:00:00Z"}
        spec = {"selector": {"name": "train"}, "toDelete": {"count": 1}}
        scalings = [
            decode_scaling(
                {
                    "kind": "ScaleIn",
                    "metadata": {**meta, "name": name, "uid": name},
                    "spec": spec,
                    "status": {"phase": "ScaleFailed", "conditions": [failed]},
                }
            )
            for name in names
        ]
        events = [make_event(1, "X", "y") for _ in names]
        for event, name in zip(events, names, strict=True):
            event["involvedObject"] = {"kind": "ScaleIn", "uid": name, "name": name}
        return count_steps(lambda: tell_story(job, scalings, events))

    assert measure(200) < 2.2 * measure(100)


def test_what_all_pods_complain_of_is_told_once():
    pull = 'Failed to pull image "nope:1": not found'
    events = []
    for seconds, name in enumerate(("train-launcher", "train-worker-0", "train-worker-1")):
        about = {"kind": "Pod", "name": name, "uid": name}
        for text in (pull, "Error: ErrImagePull", 'Back-off pulling image "nope:1"'):
            event = make_event(4 + seconds, "Failed", text, involvedObject=about, type="Warning")
            events.append(event | {"count": 2})

    (entry,) = [one for one in tell_story(make_stored_job(), [], events) if one.is_warning]

    assert entry.about == "train-launcher, train-worker-0, train-worker-1"
    assert (entry.text, entry.count) == (pull, 6)


def warn_of(pod: str, seconds: float) -> Document:
    about = {"kind": "Pod", "name": pod, "uid": f"u-{pod}"}
    return make_event(seconds, "Failed", "no such image", involvedObject=about, type="Warning")


def make_pod(name: str) -> Pod:
    meta = {"name": name, "namespace": "team", "uid": f"u-{name}", "creationTimestamp": at(0)}
    labels = {LABEL_JOB: "train", LABEL_ROLE: "worker"}
    spec = {"containers": [{"name": "main"}]}
    pod = decode_pod({"metadata": {**meta, "labels": labels}, "spec": spec, "status": {}})
    assert pod is not None
    return pod


def test_what_was_said_of_pods_that_are_gone_or_have_started_since_is_past():
    there = make_pod("train-worker-1")
    runs = replace(there, uid="u-train-worker-2", started=START + timedelta(seconds=9))
    events = [
        make_event(1, "WorkerLost", "a"),
        *(warn_of(f"train-worker-{i}", 5) for i in range(3)),
    ]
    late = warn_of("train-worker-2", 10)

    kept = drop_past([*events, late], [there, runs])

    assert kept == [events[0], events[2], late]
    assert drop_past(events, None) == events


@pytest.mark.parametrize("before", ["", "failed more often than backoffLimit 3 allows: "])
def test_of_a_traceback_that_begins_in_its_middle_its_error_is_shown(before: str):
    tail = "...in <module>\n    main()\nValueError: no data\n"
    message = f"{before}the launcher ended with exit code 1: {tail}"
    event = make_event(5, "Failed", message, type="Warning")
    by_condition = make_stored_job(make_condition("Failed", 5, message=message))

    stories = [tell_story(make_stored_job(), [], [event]), tell_story(by_condition, [], [])]

    for story in stories:
        shown = story[-1].show()
        assert shown == f"{before}the launcher ended with exit code 1: ValueError: no data"
        assert "main()" in story[-1].text
