"""The least is derived by hand; here it is held to what the operator really plans."""

from __future__ import annotations

from datetime import UTC, datetime

from benchmarks.leastwrites import count_least, list_needs
from benchmarks.standing import NAMESPACE, StandingJob
from et_kube.resources import CONFIG_MAPS, NODES, TRAINING_JOBS

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_least_is_every_object_once_and_the_members() -> None:
    job = StandingJob(8, NOW)
    created = [key for key in job.objects if key[0] not in (NODES, TRAINING_JOBS)]
    runtimes = [name for kind, name in created if kind == CONFIG_MAPS and "runtime" in name]
    assert len(runtimes) == 1
    naming_members = 1
    assert count_least(8, jobs=1) == len(created) + naming_members


def test_jobs_of_a_namespace_share_the_runtime() -> None:
    alone = sum(need.count for need in list_needs(8)) + 1
    assert count_least(8, jobs=4) == alone - 0.75


def test_a_standing_job_has_all_its_workers_running() -> None:
    job = StandingJob(5, NOW)
    snapshot = job.look()
    assert snapshot.job.key.namespace == NAMESPACE
    assert len(snapshot.pods) == 6
    assert all(pod.is_container_running for pod in snapshot.pods)
    assert snapshot.job.status.phase == "Running"
    assert len(job.list_pods()) == 6
