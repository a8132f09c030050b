"""Somebody who types `et`, with an account of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.world import ROOT, RealWorld, kubeconfig

RBAC = "rbac.authorization.k8s.io"


class Person:
    """Somebody with a kubeconfig, and a role in the world's namespace."""

    def __init__(self, world: RealWorld, role: str, folder: Path) -> None:
        self.path = folder / f"{role}.kubeconfig"
        self.path.write_text(yaml.safe_dump(build_kubeconfig(world, role)))

    @contextmanager
    def running(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """`et words` in a pipe, ended with the block."""
        environment = {**os.environ, "KUBECONFIG": str(self.path)}
        command = [sys.executable, "-m", "et", *words]
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **both) as process:
            try:
                yield process
            finally:
                process.kill()

    def type(self, *words: str, code: int = 0) -> str:
        """`et words`; what it printed, if it ended with this code."""
        with self.running(*words) as process:
            out, _ = process.communicate(timeout=120)
        assert process.returncode == code, out
        return out


def build_kubeconfig(world: RealWorld, role: str) -> dict[str, Any]:
    """That of a new account which has a cluster role in the namespace, and nothing else."""
    name, namespace = f"user-{role}", world.namespace
    world.core.create_namespaced_service_account(namespace, {"metadata": {"name": name}})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }
    world.custom.create_namespaced_custom_object(RBAC, "v1", namespace, "rolebindings", binding)
    answer = world.core.create_namespaced_service_account_token(name, namespace, {"spec": {}})
    [cluster] = yaml.safe_load(kubeconfig().read_text())["clusters"]
    context = {"cluster": cluster["name"], "user": name, "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [cluster],
        "users": [{"name": name, "user": {"token": answer.status.token}}],
        "contexts": [{"name": role, "context": context}],
        "current-context": role,
    }
