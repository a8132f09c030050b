"""launcherAttachMode ssh: a real sshd in each worker, and no Python of ours there."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from et_contract import names, paths
from tests.e2e.light_jobs import (
    FOREVER,
    IN_EACH_WORKER,
    build_light_job,
    get_container,
    read_output,
    wait_for_output,
)
from tests.e2e.rights import OPERATOR
from tests.e2e.test_launchers import read_example, run_in
from tests.e2e.world import RealWorld, grow_and_shrink, plant

pytestmark = pytest.mark.cluster

CALLS = f"""
cd {paths.LIB_DIR}
ssh-keygen -q -t ed25519 -N '' -f /tmp/other
(printf '{names.SSH_HOST} '; cat /tmp/other.pub) > /tmp/known_hosts
cat > /tmp/call.py <<'END'
import os, subprocess, sys
from launcher.ssh import commands
for known_hosts in ("{paths.KEYS_DIR}/known_hosts", "/tmp/known_hosts"):
    target = commands.Target("w", sys.argv[1], 1, "{paths.SSH_DIR}/id", known_hosts)
    words = commands.build_command(target, "run 1 ab\\necho reached")
    done = subprocess.run(words, stdin=os.pipe()[0], stdout=-1, stderr=-2, text=True)
    print(done.returncode, " ".join(done.stdout.split()))
END
PYTHONPATH=. python3 /tmp/call.py ADDRESS
"""


@pytest.mark.point("ssh")
def test_horovodrun_over_ssh_grows_and_shrinks_and_loses_no_step(world: RealWorld) -> None:
    world.create(read_example("ssh.yaml"))
    world.wait_for_size("ssh", 2)
    programs = run_in(world, "ssh-worker-0", "ps -eo args")
    assert "sshd: root@notty" in programs
    assert "boot.py" not in programs

    grow_and_shrink(world, "ssh", by=1, to=3)
    world.wait_for_phase("ssh", "Succeeded", timeout=180)
    assert world.sizes("ssh") == [2, 3, 2]
    assert [step.number for step in world.steps("ssh")] == list(range(1, 81))


@pytest.mark.point("ssh")
def test_mpirun_starts_its_daemons_over_ssh_too(world: RealWorld) -> None:
    job = read_example("mpirun.yaml")
    job["spec"]["launcherAttachMode"] = "ssh"
    world.create(job)
    world.wait_for_phase("mpi", "Succeeded", timeout=120)
    ranks = re.findall(r"rank=(\d) size=4 host=(mpi-worker-\d)", world.log("mpi-launcher"))
    assert {int(rank) for rank, _ in ranks} == set(range(4))
    assert {host for _, host in ranks} == {"mpi-worker-0", "mpi-worker-1"}


@pytest.mark.point("ssh-pinned")
def test_a_worker_with_another_host_key_is_refused(world: RealWorld) -> None:
    world.create(build_light_job("pinned", f"echo on; {FOREVER}", launcherAttachMode="ssh"))
    wait_for_output(world, "pinned-launcher")
    [worker] = world.pods("worker")
    script = CALLS.replace("ADDRESS", worker.status.pod_ip)
    right, wrong = run_in(world, "pinned-launcher", script).splitlines()[-2:]
    assert right == "0 reached"
    assert wrong.startswith("255 ")
    assert "Host key verification failed" in wrong


@pytest.mark.point("ssh-keys")
def test_the_keys_are_the_jobs_own_and_go_with_it(world: RealWorld) -> None:
    job = build_light_job("keyed", f"echo on; {FOREVER}", launcherAttachMode="ssh")
    uid = world.create(job)["metadata"]["uid"]
    wait_for_output(world, "keyed-launcher")
    name = world.status("trainingjobs", "keyed")["keysSecret"]
    secret = world.core.read_namespaced_secret(name, world.namespace)
    assert secret.immutable
    assert [owner.uid for owner in secret.metadata.owner_references] == [uid]
    for name in (names.KEY_USER, names.KEY_HOST):
        plant(base64.b64decode(secret.data[name]).decode().splitlines()[2])
    assert not may_operator(world, "get")
    assert not may_operator(world, "list")
    assert may_operator(world, "create")

    world.delete("trainingjobs", "keyed")
    world.wait(lambda: not has_secret(world, secret.metadata.name), "the keys are gone")


@pytest.mark.point("ssh-ends")
def test_sessions_without_root_have_the_containers_environment_and_end_with_their_launcher(
    world: RealWorld,
) -> None:
    command = "echo $FROM_TEMPLATE $(id -u); exec sleep 1000"
    job = build_light_job("bound", IN_EACH_WORKER.format(command), launcherAttachMode="ssh")
    get_container(job, "worker")["env"] = [{"name": "FROM_TEMPLATE", "value": "it's so"}]
    restrict(world, job)
    world.create(job)
    assert wait_for_output(world, "bound-launcher") == ["it's so 1000"]
    assert "sleep 1000" in run_in(world, "bound-worker-0", "ps -eo args")
    world.core.delete_namespaced_pod("bound-launcher", world.namespace, grace_period_seconds=0)

    # the next launcher: first the old session ends, then its own begins
    world.wait(lambda: read_output(world, "bound-launcher-r1"), "the next launcher runs")
    lines = run_in(world, "bound-worker-0", "ps -eo args").splitlines()
    assert lines.count("sleep 1000") == 1


def restrict(world: RealWorld, job: dict[str, Any]) -> None:
    """Let the job's pods run as Pod Security asks for, as a user that their image has."""
    data = {"passwd": "me:x:1000:1000::/:/bin/sh\n"}
    passwd = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="passwd"), data=data)
    world.core.create_namespaced_config_map(world.namespace, passwd)
    for role in ("launcher", "worker"):
        spec = job["spec"]["etReplicaSpecs"][role]["template"]["spec"]
        spec["securityContext"] = {
            "runAsUser": 1000,
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        spec["volumes"] = [{"name": "passwd", "configMap": {"name": "passwd"}}]
        container = get_container(job, role)
        container["securityContext"] = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        mount = {"name": "passwd", "mountPath": "/etc/passwd", "subPath": "passwd"}
        container["volumeMounts"] = [mount]


def may_operator(world: RealWorld, verb: str) -> bool:
    """Whether the operator may do this with the namespace's Secrets."""
    attributes = client.V1ResourceAttributes(
        namespace=world.namespace, verb=verb, resource="secrets"
    )
    spec = client.V1SubjectAccessReviewSpec(user=OPERATOR, resource_attributes=attributes)
    review = client.V1SubjectAccessReview(spec=spec)
    api = client.AuthorizationV1Api(world.core.api_client)
    allowed: bool = api.create_subject_access_review(review).status.allowed
    return allowed


def has_secret(world: RealWorld, name: str) -> bool:
    """Whether the Secret is there."""
    try:
        world.core.read_namespaced_secret(name, world.namespace)
    except ApiException as error:
        if error.status == 404:
            return False
        raise
    return True
