"""`et queue` and `et why`: what people are told about sharing a cluster."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from et.queues import draw_bar, format_amount
from et.reading import EVENTS
from et_kube.errors import Refused
from et_kube.resources import TRAINING_JOBS, TRAINING_QUEUES, Ref
from fakes.clients import Call, Moment
from fakes.cluster import FakeCluster
from tests.makers import make_job
from tests.simulation.worlds import NAMESPACE
from tests.unit.et.test_commands import Desk

MINUTE = 60_000
GIB = 1024**3


@pytest.fixture
def desk() -> Desk:
    return Desk()


def ago(desk: Desk, minutes: int) -> str:
    moment = desk.clock.now().timestamp() - 60 * minutes
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def write_status(cluster: FakeCluster, ref: Ref, status: dict[str, Any]) -> None:
    cluster.patch(ref, {"status": status}, subresource="status")


def create_queue(cluster: FakeCluster, name: str = "research", **status: Any) -> None:
    spec = {"weight": 3, "priority": 10, "limits": {"cpu": "8", "memory": "16Gi"}}
    kind = {"apiVersion": "kai.alibabacloud.com/v1alpha1", "kind": "TrainingQueue"}
    body = {**kind, "metadata": {"name": name}, "spec": spec}
    cluster.create(TRAINING_QUEUES, "", body)
    if status:
        write_status(cluster, Ref(TRAINING_QUEUES, "", name), status)


def create_job(desk: Desk, name: str, *, queue: str = "research", **admission: Any) -> None:
    job = make_job(name, workers=2, minReplicas=1, maxReplicas=4, queue=queue)
    desk.cluster.create(TRAINING_JOBS, NAMESPACE, job)
    status = {"admission": admission} if admission else {}
    write_status(desk.cluster, Ref(TRAINING_JOBS, NAMESPACE, name), status)


def fill(desk: Desk) -> None:
    create_queue(
        desk.cluster,
        waiting=2,
        running=1,
        allocated={"cpu": 4000, "memory": 6 * GIB},
        deserved={"cpu": 2000, "memory": 8 * GIB},
        line=[f"{NAMESPACE}/first", f"{NAMESPACE}/second"],
    )
    told = {"queue": "research", "since": ago(desk, 5), "queuedAt": ago(desk, 9)}
    create_job(desk, "runs", number=1, state="Admitted", workers=3, message="all it asks", **told)
    wait = {"number": 0, "state": "Waiting", "reason": "NoRoom"}
    create_job(desk, "second", message="behind first", **wait, **told)
    create_job(desk, "first", message="needs 2 workers of 1 CPU, 1 fits", **wait, **told)
    create_job(desk, "elsewhere", queue="other")


def test_queues_are_listed_with_what_they_have_most_of(desk: Desk) -> None:
    fill(desk)
    create_queue(desk.cluster, "idle")

    assert desk.type("queue") == 0

    header, idle, research = desk.out.splitlines()
    assert header.split() == ["NAME", "WEIGHT", "PRIORITY", "WAITING", "RUNNING", "HAS/DUE", "AGE"]
    assert idle.split() == ["idle", "3", "10", "-", "-", "-", "0s"]
    assert research.split() == ["research", "3", "10", "2", "1", "cpu", "4/2", "0s"]


def test_a_queue_shows_who_runs_and_who_waits_in_line_for_what(desk: Desk) -> None:
    fill(desk)

    assert desk.type("queue", "research") == 0

    assert "1 run, 2 wait" in desk.out
    assert "##########++++++++++ has 4, due 2, limit 8" not in desk.out, "a bar has 20 places"
    assert "#####+++++.......... has 4, due 2, limit 8" in desk.out
    assert "has 6Gi, due 8Gi, limit 16Gi" in desk.out
    table = desk.out.split("\n\n")[1].splitlines()
    assert [line.split()[0] for line in table] == [
        "JOB",
        f"{NAMESPACE}/runs",
        f"{NAMESPACE}/first",
        f"{NAMESPACE}/second",
    ]
    assert "Admitted" in table[1]
    assert "0/3" in table[1]
    assert "needs 2 workers of 1 CPU, 1 fits" in " ".join(table[2].split())


def test_of_whom_no_other_namespaces_may_be_read_his_own_is_shown(desk: Desk) -> None:
    fill(desk)

    def refuse(call: Call, moment: Moment) -> None:
        if call.ref == Ref(TRAINING_JOBS, "", "") and moment is Moment.BEFORE:
            raise Refused(403, "Forbidden", "no such right")

    desk.log.faults.append(refuse)

    assert desk.type("queue", "research") == 0

    assert f"{NAMESPACE}/first" in desk.out
    assert f"these are the jobs of {NAMESPACE}" in desk.err


def test_a_queue_that_is_not_there_is_named(desk: Desk) -> None:
    assert desk.type("queue", "nobody") == 1
    assert "there is no TrainingQueue 'nobody'" in desk.err
    assert desk.type("queue") == 0
    assert "there is no TrainingQueue" in desk.err


def test_a_queue_is_json_when_asked_for(desk: Desk) -> None:
    fill(desk)
    assert desk.type("queue", "research", "-o", "json") == 0
    told = json.loads(desk.out)
    assert told["queue"]["spec"]["weight"] == 3
    assert [job["name"].split("/")[1] for job in told["jobs"]] == ["runs", "first", "second"]


def test_a_job_that_waits_says_where_for_what_and_behind_whom(desk: Desk) -> None:
    fill(desk)

    assert desk.type("why", "second") == 0

    lines = [" ".join(line.split()) for line in desk.out.splitlines()]
    assert "queue waits in queue research for 9m0s" in lines
    assert "place 2 of those who wait" in lines
    assert f"behind {NAMESPACE}/first" in lines
    assert "why behind first" in lines


def test_a_job_that_was_admitted_says_what_it_may_have(desk: Desk) -> None:
    fill(desk)
    assert desk.type("why", "runs", "-o", "json") == 0
    reasons = {one["about"]: one["text"] for one in json.loads(desk.out)["reasons"]}
    assert reasons["queue"] == "admitted in queue research 5m0s ago"
    assert reasons["may have"] == "3 workers now"
    assert reasons["why"] == "all it asks"
    assert "place" not in reasons


@pytest.mark.parametrize(("is_admitted", "wanted"), [("True", 3), ("False", 2)])
def test_of_an_admitted_job_the_number_is_the_one_that_it_was_admitted_to(
    desk: Desk, is_admitted: str, wanted: int
) -> None:
    create_job(desk, "elastic")
    condition = {
        "type": "Admitted",
        "status": is_admitted,
        "lastTransitionTime": ago(desk, 3),
    }
    status = {
        "conditions": [condition],
        "decidedReplicas": 3,
        "currentWorkers": ["elastic-worker-0"],
    }
    write_status(desk.cluster, Ref(TRAINING_JOBS, NAMESPACE, "elastic"), status)

    shown = []
    for words in (["list"], ["why", "elastic"], ["describe", "elastic"]):
        assert desk.type(*words) == 0
        shown.append(desk.out)

    assert f"1/{wanted} " in shown[0]
    assert f"1 of {wanted} run" in shown[1]
    assert f"1 running, {wanted} wanted" in shown[2]


def test_a_job_that_nobody_has_answered_asks_whether_the_scheduler_runs(desk: Desk) -> None:
    create_job(desk, "alone")
    assert desk.type("why", "alone") == 0
    assert "et-scheduler answers for queue research; does it run?" in desk.out


def tell(desk: Desk, name: str, reason: str, message: str) -> None:
    """What the operator says of its admission."""
    condition = {
        "type": "Admitted",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": ago(desk, 3),
        "lastUpdateTime": ago(desk, 3),
    }
    ref = Ref(TRAINING_JOBS, NAMESPACE, name)
    write_status(desk.cluster, ref, {"conditions": [condition]})


def test_who_is_held_and_names_no_queue_is_in_the_one_called_default(desk: Desk) -> None:
    create_queue(desk.cluster, "default")
    desk.cluster.create(TRAINING_JOBS, NAMESPACE, make_job("plain", workers=2))
    tell(desk, "plain", "Waiting", "waits in queue default: et-scheduler was asked")

    assert desk.type("why", "plain") == 0
    assert "waits in queue default: et-scheduler was asked" in desk.out
    assert "et-scheduler answers for queue default; does it run?" in desk.out
    assert desk.type("queue", "default") == 0
    assert f"{NAMESPACE}/plain" in desk.out


def test_who_has_left_his_queue_is_in_none_whatever_he_was_told_there(desk: Desk) -> None:
    create_queue(desk.cluster)
    create_job(desk, "left", number=0, state="Waiting", queue="research")
    tell(desk, "left", "NoQueue", "the job is in no queue")

    assert desk.type("why", "left", "-o", "json") == 0
    assert "queue" not in {one["about"] for one in json.loads(desk.out)["reasons"]}
    assert desk.type("queue", "research", "-o", "json") == 0
    assert json.loads(desk.out)["jobs"] == []


def test_of_a_job_whose_pods_are_refused_the_servers_words_are_the_reason(desk: Desk) -> None:
    fill(desk)
    tell(desk, "second", "PodsRefused", "no such class")

    assert desk.type("why", "second", "-o", "json") == 0

    reasons = {one["about"]: one["text"] for one in json.loads(desk.out)["reasons"]}
    assert reasons["queue"] == "in no line: its pods would not be created"
    assert reasons["why"] == "no such class"


def test_without_a_queue_troubles_and_late_warnings_say_why(desk: Desk) -> None:
    job = make_job("plain", workers=2)
    desk.cluster.create(TRAINING_JOBS, NAMESPACE, job)
    condition = {
        "type": "PodsRefused",
        "status": "True",
        "reason": "Forbidden",
        "message": "exceeded quota: pods",
        "lastTransitionTime": ago(desk, 3),
        "lastUpdateTime": ago(desk, 3),
    }
    status = {"phase": "Created", "conditions": [condition]}
    write_status(desk.cluster, Ref(TRAINING_JOBS, NAMESPACE, "plain"), status)

    assert desk.type("why", "plain") == 0

    assert "PodsRefused: exceeded quota: pods" in desk.out
    assert "0 of 2 run" in desk.out


def condition(desk: Desk, kind: str, status: str, message: str) -> dict[str, str]:
    when = {"lastTransitionTime": ago(desk, 6), "lastUpdateTime": ago(desk, 6)}
    return {"type": kind, "status": status, "reason": kind, "message": message, **when}


def warn(desk: Desk, job: str, reason: str, message: str) -> None:
    """An Event of the operator's about a job."""
    uid = desk.cluster.get(Ref(TRAINING_JOBS, NAMESPACE, job))["metadata"]["uid"]
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"e-{reason.lower()}"},
        "involvedObject": {"kind": "TrainingJob", "name": job, "uid": uid},
        "reason": reason,
        "message": message,
        "type": "Warning",
    }
    desk.cluster.create(EVENTS, NAMESPACE, body)


def test_what_is_over_is_no_warning_and_what_is_a_trouble_is_told_once(desk: Desk) -> None:
    desk.cluster.create(TRAINING_JOBS, NAMESPACE, make_job("plain", workers=2))
    conditions = [
        condition(desk, "ImagePullFailing", "False", ""),
        condition(desk, "Unschedulable", "True", "no node has room"),
    ]
    write_status(desk.cluster, Ref(TRAINING_JOBS, NAMESPACE, "plain"), {"conditions": conditions})
    warn(desk, "plain", "ImagePullFailing", "no such image")
    warn(desk, "plain", "Unschedulable", "no node has room")
    warn(desk, "plain", "WorkerLost", "plain-worker-0 ended")

    assert desk.type("why", "plain") == 0

    assert "no such image" not in desk.out
    assert desk.out.count("no node has room") == 1
    assert "WorkerLost: plain-worker-0 ended" in desk.out


def test_a_warning_that_a_trouble_has_in_its_words_is_not_told_again(desk: Desk) -> None:
    cause = "the command tells horovodrun of no hosts: " + "its processes run in its own pod, " * 3
    desk.cluster.create(TRAINING_JOBS, NAMESPACE, make_job("plain", workers=2))
    idle = condition(desk, "WorkersIdle", "True", f"2 workers run nothing: {cause}")
    write_status(desk.cluster, Ref(TRAINING_JOBS, NAMESPACE, "plain"), {"conditions": [idle]})
    warn(desk, "plain", "CommandWarning", cause)
    warn(desk, "plain", "WorkerLost", "plain-worker-0 ended")

    assert desk.type("why", "plain", "-o", "json") == 0

    reasons = [reason["text"] for reason in json.loads(desk.out)["reasons"]]
    assert sum("no hosts" in text for text in reasons) == 1
    assert any("plain-worker-0 ended" in text for text in reasons)


def test_an_ended_job_says_how_long_ago_its_error_once_and_what_was_wrong_with_it(
    desk: Desk,
) -> None:
    job = make_job("plain", workers=2, minReplicas=1)
    command = ["horovodrun", "-np", "2", "python", "train.py"]
    launcher = job["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"]
    launcher["containers"][0]["command"] = command
    desk.cluster.create(TRAINING_JOBS, NAMESPACE, job)
    message = "the launcher ended with exit code 1: ValueError: no data"
    status = {
        "phase": "Failed",
        "startTime": ago(desk, 7),
        "completionTime": ago(desk, 6),
        "conditions": [condition(desk, "Failed", "True", message)],
    }
    write_status(desk.cluster, Ref(TRAINING_JOBS, NAMESPACE, "plain"), status)

    assert desk.type("why", "plain") == 0
    assert "plain  Failed  after 60s, 6m0s ago" in desk.out
    words = " ".join(desk.out.split())
    assert "CommandWarning: the command of the launcher tells horovodrun of no hosts" in words

    assert desk.type("describe", "plain") == 0
    words = " ".join(desk.out.split())
    assert "phase Failed after 60s, 6m0s ago" in words
    assert "warning the command of the launcher tells horovodrun of no hosts" in words


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [("cpu", 1500, "1.5"), ("memory", 3 * GIB // 2, "1.5Gi"), ("nvidia.com/gpu", 8, "8")],
)
def test_amounts_are_written_as_people_do(resource: str, amount: int, text: str) -> None:
    assert format_amount(resource, amount) == text


@pytest.mark.parametrize(("has", "due", "limit"), [(0, 0, None), (7, 3, 5), (1, 10**9, None)])
def test_a_bar_always_has_its_length(has: int, due: int, limit: int | None) -> None:
    assert len(draw_bar("pods", has, due, limit).plain.split(" ")[0]) == 20
