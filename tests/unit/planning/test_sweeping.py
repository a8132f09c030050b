from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from et_kube.resources import CONFIG_MAPS, Ref
from et_operator.model.actions import Delete
from et_operator.model.jobs import TrainingJob
from et_operator.model.snapshots import Child
from et_operator.model.statuses import Runtime
from et_operator.planning.sweeping import find_candidates, plan_sweep
from tests.planning_makers import START, make_job

NOW = START + timedelta(days=1)
SHIPPED = Runtime("new", "broker:2")


def make_runtime(digest: str, age: timedelta = timedelta(hours=2)) -> Child:
    return Child(f"edl-runtime-{digest}", f"{digest}-uid", "7", None, digest, NOW - age)


def make_user(digest: str | None) -> TrainingJob:
    job = make_job()
    runtime = Runtime(digest, "broker:1") if digest else None
    return replace(job, status=replace(job.status, runtime=runtime))


def find(*runtimes: Child, jobs: tuple[TrainingJob, ...] = ()) -> list[str]:
    found = find_candidates(runtimes, shipped=SHIPPED, jobs=jobs, now=NOW)
    return [child.digest for child in found]


def test_the_current_runtime_always_stays() -> None:
    assert find(make_runtime("new"), make_runtime("old")) == ["old"]


def test_one_that_a_job_names_stays_whatever_became_of_the_job() -> None:
    assert find(make_runtime("old"), jobs=(make_user(None), make_user("old"))) == []


def test_one_that_is_an_hour_old_or_of_no_known_age_stays() -> None:
    assert find(make_runtime("old", timedelta(hours=1))) == []
    assert find(replace(make_runtime("old"), created=None)) == []


def test_one_that_a_pod_mounts_stays_and_the_others_go_as_they_were_seen() -> None:
    candidates = (make_runtime("a"), make_runtime("b"))
    [delete] = plan_sweep("team", candidates, frozenset({"edl-runtime-a"}))
    assert delete == Delete(Ref(CONFIG_MAPS, "team", "edl-runtime-b"), "b-uid", "7")
