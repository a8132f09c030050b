"""The operator's installation, taken away and brought back; nothing else may run meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from kubernetes.client.exceptions import ApiException

from tests.e2e.world import ROOT, RealWorld, devcluster

NAMESPACE = "et-operator"
NAME = "et-operator"
OPERATORS = "app.kubernetes.io/name=et-operator"


@contextmanager
def stopped_operator(world: RealWorld) -> Iterator[None]:
    """Without an operator inside; afterwards the one that was there runs again."""
    scale_operator(world, 0)
    try:
        yield
    finally:
        scale_operator(world, 1)


@contextmanager
def namespaced_operator(world: RealWorld, folder: Path) -> Iterator[None]:
    """With deploy/namespaced for the world's namespace; afterwards with deploy/ again."""
    scale_operator(world, 0)
    devcluster("kubectl", "delete", "clusterrolebinding", NAME)
    delete_lease(world)
    try:
        apply(write_overlay(world, folder))
        devcluster(
            "kubectl", "apply", "-n", world.namespace, "-k", str(ROOT / "deploy/namespaced/rights")
        )
        wait_for_operator()
        yield
    finally:
        scale_operator(world, 0)
        devcluster("deploy")
        wait_for_operator()


@contextmanager
def operator_with(setting: str) -> Iterator[None]:
    """With one more variable, NAME=VALUE; afterwards without."""
    change_operator(setting)
    try:
        yield
    finally:
        change_operator(f"{setting.partition('=')[0]}-")


def change_operator(setting: str) -> None:
    """As `kubectl set env` is told; until the operator with it runs."""
    devcluster("kubectl", "set", "env", "-n", NAMESPACE, f"deployment/{NAME}", setting)
    wait_for_operator()


def write_overlay(world: RealWorld, folder: Path) -> Path:
    """deploy/namespaced with its one setting, as docs/operations.md says."""
    environment = [{"name": "NAMESPACES", "value": world.namespace}]
    container = {"name": "operator", "env": environment}
    patch = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    content = {
        "resources": [os.path.relpath(ROOT / "deploy/namespaced", folder)],
        "patches": [{"patch": yaml.safe_dump(patch)}],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return folder


def apply(folder: Path) -> None:
    """The command of the documentation."""
    devcluster("kubectl", "apply", "--server-side", "--force-conflicts", "-k", str(folder))


def scale_operator(world: RealWorld, replicas: int) -> None:
    """Until so many run, and no other."""
    body = {"spec": {"replicas": replicas}}
    world.apps.patch_namespaced_deployment_scale(NAME, NAMESPACE, body)
    if replicas:
        wait_for_operator()
    else:
        world.wait(
            lambda: not world.core.list_namespaced_pod(NAMESPACE, label_selector=OPERATORS).items,
            "no operator is left",
        )


def wait_for_operator() -> None:
    """Until the newest installation runs and is ready."""
    where = ["-n", NAMESPACE, f"deployment/{NAME}"]
    devcluster("kubectl", "rollout", "status", *where, "--timeout=110s")


def delete_lease(world: RealWorld) -> None:
    """As on a cluster that never had an operator."""
    try:
        world.custom.delete_namespaced_custom_object(
            "coordination.k8s.io", "v1", NAMESPACE, "leases", NAME
        )
    except ApiException as error:
        if error.status != 404:
            raise
