"""et-notices as it is installed, beside a metadata service that stands in for a cloud's."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from et_kube.clock import SystemClock
from et_kube.notices import LEAVING_ADVISED, LEAVING_AT, LEAVING_REASON
from et_kube.times import format_time
from et_notices.telling import REFUSAL
from tests.e2e.test_drained_nodes import assert_it_trains_on, start_apart
from tests.e2e.test_security import find_refusal, is_refused, steal_token
from tests.e2e.world import ROOT, RealWorld, devcluster

pytestmark = [pytest.mark.cluster, pytest.mark.alone]

NAME = "et-notices"
OURS = {LEAVING_AT, LEAVING_REASON, LEAVING_ADVISED}
PORT = 18911
SERVICE = f"""
import asyncio, time
from pathlib import Path
from metadata import AwsService, serving

async def main():
    service, notice = AwsService(time.monotonic), Path("/tmp/notice")

    async def look(_):
        if notice.exists():
            service.take_back(notice.read_text().strip())
        else:
            service.keep()

    service.mischief = look
    async with serving(service, port={PORT}):
        await asyncio.Event().wait()

asyncio.run(main())
"""
"""A cloud on the loopback interface of a node: it takes the instance back when a file says so."""


@pytest.mark.point("cloud-notice")
def test_a_clouds_notice_moves_a_worker_and_goes_when_it_is_withdrawn(
    world: RealWorld, tmp_path: Path
) -> None:
    home, away, moved = start_apart(world, "spot")
    with installed(world, tmp_path), metadata_service(world, away):
        give_notice(world, timedelta(seconds=60))
        world.wait(
            lambda: LEAVING_AT in read_annotations(world, away), "the node says that it ends"
        )
        said = read_annotations(world, away)
        assert said[LEAVING_REASON] == "AWS takes the spot instance back"
        assert_it_trains_on(world, {home}, "spot")
        assert not OURS & set(read_annotations(world, home)), "no other node was told"

        withdraw_notice(world)
        world.wait(lambda: not OURS & set(read_annotations(world, away)), "it says so no more")

    numbers = [step.number for step in world.steps("spot")]
    assert numbers == list(range(1, len(numbers) + 1)), "no step was lost"
    told = {reason: words for _, reason, words in world.events()}
    assert "WorkerLost" not in told
    assert f"worker {moved} left: graceful, " in told["WorkerMoved"]


@pytest.mark.point("notices-policy")
def test_with_the_policy_the_token_of_et_notices_says_when_its_node_ends_and_no_more(
    world: RealWorld, tmp_path: Path
) -> None:
    with installed(world, tmp_path):
        pod, *others = list_pods(world)
        own, foreign = pod.spec.node_name, others[0].spec.node_name
        thief = client.CoreV1Api(steal_token(world, NAME, pod))
        label = {"metadata": {"labels": {"evil": ""}}}
        world.wait(
            lambda: REFUSAL in find_refusal(lambda: thief.patch_node(own, label, dry_run="All")),
            "the policy is in force",
        )
        attempts = list_deeds(thief, own, foreign)
        told = {what: find_refusal(attempt) for what, attempt in attempts.items()}
        assert [what for what, words in told.items() if REFUSAL not in words] == []
        for verb in (thief.list_node, lambda: thief.read_node(own), lambda: thief.delete_node(own)):
            assert is_refused(verb)
        assert is_refused(lambda: thief.patch_node_status(own, {"status": {"phase": "Pending"}}))
        assert is_refused(lambda: thief.list_namespaced_pod(NAME))

        unbound = client.CoreV1Api(steal_unbound_token(world))
        assert REFUSAL in find_refusal(lambda: unbound.patch_node(own, annotate(LEAVING_AT, "x")))

        say = annotate(LEAVING_AT, "2100-01-01T00:00:00Z")
        assert not find_refusal(lambda: thief.patch_node(own, say)), "but what it is there for"
        world.core.patch_node(own, annotate(LEAVING_REASON, "x" * 129))
        assert not find_refusal(lambda: thief.patch_node(own, annotate(LEAVING_AT, None)))
        assert REFUSAL in find_refusal(
            lambda: thief.patch_node(own, annotate(LEAVING_REASON, "y" * 129))
        )
        assert not find_refusal(lambda: thief.patch_node(own, annotate(LEAVING_REASON, None)))


@pytest.mark.point("notices-policy")
def test_without_the_policy_et_notices_does_not_start(world: RealWorld, tmp_path: Path) -> None:
    with installed(world, tmp_path):
        kinds = ("validatingadmissionpolicybinding", "validatingadmissionpolicy")
        for kind in kinds:
            devcluster("kubectl", "delete", kind, f"{NAME}-self")
        devcluster("kubectl", "delete", "pod", "-n", NAME, "--all", "--wait=false")
        words = world.wait(lambda: find_end(world), "one of them has ended", timeout=180)
        assert "may change all of a node: install the policy" in words


def list_deeds(thief: client.CoreV1Api, own: str, foreign: str) -> dict[str, Callable[[], Any]]:
    """What RBAC would allow with the right to patch nodes."""
    taint = {"key": "evil", "value": "", "effect": "NoSchedule"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "evil", "uid": "1"}
    return {
        "another node": lambda: thief.patch_node(foreign, annotate(LEAVING_AT, "x")),
        "a label": lambda: thief.patch_node(own, {"metadata": {"labels": {"evil": ""}}}),
        "a taint": lambda: thief.patch_node(own, {"spec": {"taints": [taint]}}),
        "a cordon": lambda: thief.patch_node(own, {"spec": {"unschedulable": True}}),
        "a finalizer": lambda: thief.patch_node(own, {"metadata": {"finalizers": ["a/evil"]}}),
        "an owner": lambda: thief.patch_node(own, {"metadata": {"ownerReferences": [owner]}}),
        "an annotation": lambda: thief.patch_node(own, annotate("evil", "")),
        "to take one away": lambda: thief.patch_node(
            own, annotate("volumes.kubernetes.io/controller-managed-attach-detach", None)
        ),
        "a long word": lambda: thief.patch_node(own, annotate(LEAVING_REASON, "x" * 129)),
        "a word and a label": lambda: thief.patch_node(
            own,
            {"metadata": {"annotations": {LEAVING_AT: "x"}, "labels": {"evil": ""}}},
        ),
    }


def annotate(key: str, value: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {key: value}}}


@contextmanager
def installed(world: RealWorld, folder: Path) -> Iterator[None]:
    """With the component, whose cloud is on each node's loopback; without it afterwards."""
    folder = write_overlay(folder)
    try:
        devcluster("kubectl", "apply", "--server-side", "--force-conflicts", "-k", str(folder))
        where = ["-n", NAME, f"daemonset/{NAME}"]
        devcluster("kubectl", "rollout", "status", *where, "--timeout=110s")
        yield
    finally:
        flags = ["--ignore-not-found", "--wait=false", "-k", str(folder)]
        devcluster("kubectl", "delete", *flags)
        world.wait(lambda: is_gone(world), f"namespace {NAME} is gone")
        for node in world.core.list_node().items:
            world.core.patch_node(
                node.metadata.name, {"metadata": {"annotations": dict.fromkeys(OURS)}}
            )


def write_overlay(folder: Path) -> Path:
    settings = {"CLOUD": "aws", "METADATA_URL": f"http://127.0.0.1:{PORT}"}
    env = [{"name": name, "value": value} for name, value in settings.items()]
    patch = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": NAME, "namespace": NAME},
        "spec": {"template": {"spec": {"containers": [{"name": "notices", "env": env}]}}},
    }
    content = {
        "components": [os.path.relpath(ROOT / "deploy" / "components" / "notices", folder)],
        "patches": [{"patch": yaml.safe_dump(patch)}],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return folder


@contextmanager
def metadata_service(world: RealWorld, node: str) -> Iterator[None]:
    """On that node while the context lasts, and it gives no notice yet."""
    text = (ROOT / "fakes" / "metadata.py").read_text()
    body = {"metadata": {"name": "cloud"}, "data": {"metadata.py": text, "main.py": SERVICE}}
    world.core.create_namespaced_config_map(world.namespace, body)
    container = {
        "name": "cloud",
        "image": "localhost/et-operator:dev",
        "command": ["python3", "/fake/main.py"],
        "env": [{"name": "PYTHONSAFEPATH", "value": ""}],
        "volumeMounts": [{"name": "fake", "mountPath": "/fake"}],
    }
    spec = {
        "hostNetwork": True,
        "nodeName": node,
        "containers": [container],
        "volumes": [{"name": "fake", "configMap": {"name": "cloud"}}],
        "terminationGracePeriodSeconds": 0,
    }
    world.core.create_namespaced_pod(world.namespace, {"metadata": {"name": "cloud"}, "spec": spec})
    world.wait(
        lambda: world.core.read_namespaced_pod("cloud", world.namespace).status.phase == "Running",
        "the cloud runs",
    )
    try:
        yield
    finally:
        world.core.delete_namespaced_pod("cloud", world.namespace, grace_period_seconds=0)


def give_notice(world: RealWorld, span: timedelta) -> None:
    moment = format_time((SystemClock().now() + span).replace(microsecond=0))
    script = f"from pathlib import Path; Path('/tmp/notice').write_text('{moment}')"
    run_in_cloud(world, script)


def withdraw_notice(world: RealWorld) -> None:
    run_in_cloud(world, "from pathlib import Path; Path('/tmp/notice').unlink()")


def run_in_cloud(world: RealWorld, script: str) -> None:
    devcluster("kubectl", "exec", "-n", world.namespace, "cloud", "--", "python3", "-c", script)


def read_annotations(world: RealWorld, node: str) -> dict[str, str]:
    return world.core.read_node(node).metadata.annotations or {}


def list_pods(world: RealWorld) -> list[client.V1Pod]:
    """Those of et-notices, on two nodes at least."""
    found: list[client.V1Pod] = world.core.list_namespaced_pod(NAME).items
    assert len({pod.spec.node_name for pod in found}) > 1
    return found


def find_end(world: RealWorld) -> str:
    """What one of them has said at its end; "" while none has ended."""
    states = [
        state.terminated
        for pod in world.core.list_namespaced_pod(NAME).items
        for status in pod.status.container_statuses or ()
        for state in (status.state, status.last_state)
        if state and state.terminated and state.terminated.exit_code == 1
    ]
    return next((state.message for state in states if state.message), "")


def steal_unbound_token(world: RealWorld) -> client.ApiClient:
    """Of the account alone: no pod, and so no node, is named in it."""
    return steal_token(RealWorld(NAME), NAME)


def is_gone(world: RealWorld) -> bool:
    try:
        world.core.read_namespace(NAME)
    except ApiException as error:
        if error.status == 404:
            return True
        raise
    return False
