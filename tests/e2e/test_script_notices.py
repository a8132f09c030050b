"""Scripts in worker and launcher know of a notice, by a file and a signal, and of its end."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from et_kube.clock import SystemClock
from et_kube.notices import LEAVING_AT
from et_kube.times import format_time
from tests.e2e.light_jobs import FOREVER, IN_EACH_WORKER, build_light_job, read_output
from tests.e2e.world import RealWorld, devcluster

pytestmark = pytest.mark.cluster

LISTEN = 'trap "echo heard" USR1; echo listens; while true; do sleep 1; done'
DEAF = "echo deaf; while true; do sleep 1; done"
WORKER, LAUNCHER = "told-worker-0", "told-launcher"


@pytest.mark.point("told-scripts")
def test_scripts_of_a_worker_and_the_launcher_know_of_a_notice_while_it_is_there(
    world: RealWorld,
) -> None:
    processes = " & ".join(IN_EACH_WORKER.format(text) for text in (LISTEN, DEAF))
    job = build_light_job("told", f"{processes} & {FOREVER}")
    job["spec"]["noticeSignal"] = "SIGUSR1"
    world.create(job)
    world.wait(
        lambda: {"listens", "deaf"} <= set(read_output(world, LAUNCHER)), "both processes run"
    )
    assert read_notice(world, WORKER) == read_notice(world, LAUNCHER) == {}

    moment = format_time((SystemClock().now() + timedelta(hours=1)).replace(microsecond=0))
    annotate(world, moment)
    for pod in (WORKER, LAUNCHER):
        world.wait(lambda pod=pod: read_notice(world, pod), f"scripts of {pod} know of it")
        notice = read_notice(world, pod)
        assert notice["deadline"] == moment
        assert notice["pods"] == {WORKER: moment}
    world.wait(lambda: "heard" in read_output(world, LAUNCHER), "the process with a handler hears")

    annotate(world, None)
    for pod in (WORKER, LAUNCHER):
        world.wait(lambda pod=pod: not read_notice(world, pod), f"scripts of {pod} know it no more")
    annotate(world, moment)
    world.wait(lambda: read_output(world, LAUNCHER).count("heard") == 2, "the next one is told too")
    assert world.phase("told") == "Running", "no shell has died of it"


def read_notice(world: RealWorld, pod: str) -> dict[str, Any]:
    """What scripts of a pod read; nothing where there is no file."""
    script = "cat /etc/edl/notice 2> /dev/null || echo '{}'"
    text = devcluster("kubectl", "exec", "-n", world.namespace, pod, "--", "sh", "-c", script)
    notice: dict[str, Any] = json.loads(text)
    return notice


def annotate(world: RealWorld, moment: str | None) -> None:
    body = {"metadata": {"annotations": {LEAVING_AT: moment}}}
    world.core.patch_namespaced_pod(WORKER, world.namespace, body)
