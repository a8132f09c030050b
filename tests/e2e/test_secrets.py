"""What is secret stays where it was put: no command line and no log of ours repeats it."""

from __future__ import annotations

import pytest
from kubernetes import client

from et_contract.names import BROKER_CONTAINER, ENV_NONCE
from et_contract.paths import TOKEN_DIR
from tests.e2e.light_jobs import (
    FOREVER,
    IN_EACH_WORKER,
    build_light_job,
    get_container,
    wait_for_output,
)
from tests.e2e.world import PLANTED, RealWorld, devcluster, plant, scale_out

pytestmark = [pytest.mark.cluster, pytest.mark.point("planted-secrets")]

COMMAND_LINES = 'cat /proc/[0-9]*/cmdline | tr "\\0" " "; echo; echo "length ${#API_KEY}"'
SHORTEST = 32


def test_a_secret_reaches_the_processes_and_no_command_line(world: RealWorld) -> None:
    metadata = client.V1ObjectMeta(name="keys")
    secret = client.V1Secret(metadata=metadata, string_data={"key": PLANTED})
    world.core.create_namespaced_secret(world.namespace, secret)
    script = f"{COMMAND_LINES}; {IN_EACH_WORKER.format(COMMAND_LINES)}; sleep 5"
    job = build_light_job("discreet", script)
    reference = {"secretKeyRef": {"name": "keys", "key": "key"}}
    for role in ("launcher", "worker"):
        get_container(job, role)["env"] = [{"name": "API_KEY", "valueFrom": reference}]
    job["metadata"]["annotations"] = {"kai.alibabacloud.com/scaling-scripts": "environment"}
    world.create(job)
    env = [{"name": "API_KEY", "value": PLANTED}]
    announce = "/examples/scripts/announce.sh"
    world.create(scale_out("grow", "discreet", 1, script=announce, env=env))

    assert world.wait_for_scaling("scaleouts", "grow")["phase"] == "ScaleSucceeded"
    world.wait_for_phase("discreet", "Succeeded")

    log = world.log("discreet-launcher", "launcher")
    assert log.count(f"length {len(PLANTED)}") >= len(["launcher", "worker"])
    assert "agent" in log
    assert PLANTED not in log


def test_tokens_and_the_launchers_nonce_are_on_no_command_line(world: RealWorld) -> None:
    """Where else they are found is asked at the end of the run, of every log and Event of it."""
    script = f"printenv {ENV_NONCE} > /tmp/nonce; echo noted; {FOREVER}"
    world.create(build_light_job("quiet", script))
    wait_for_output(world, "quiet-launcher")
    [operator, *_] = world.core.list_namespaced_pod("et-operator").items
    homes = [
        (operator.metadata, "operator", f"{TOKEN_DIR}/token"),
        (world.pods("launcher")[0].metadata, BROKER_CONTAINER, f"{TOKEN_DIR}/token"),
        (world.pods("launcher")[0].metadata, "launcher", "/tmp/nonce"),  # noqa: S108 (in the pod)
    ]

    for pod, container, path in homes:
        secret = read_in(pod, container, f"cat {path}").strip()
        assert len(secret) >= SHORTEST
        plant(secret)
        lines = read_in(pod, container, "cat /proc/[0-9]*/cmdline; true")  # one may end meanwhile
        assert "python3" in lines
        assert secret not in lines


def read_in(pod: client.V1ObjectMeta, container: str, script: str) -> str:
    """What a script prints in a container."""
    where = ["-n", pod.namespace, pod.name, "-c", container]
    return devcluster("kubectl", "exec", *where, "--", "sh", "-c", script)
