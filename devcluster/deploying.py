"""Bringing this checkout's operator into the cluster.

kubectl and Helm are run here too, with the terminal of whoever asks. Applied is deploy/ with its
component for the scheduler, as the checkout has them, and one annotation that renews the pods.
"""

import json
import os
import subprocess
from pathlib import Path

from devcluster import building, controlplane, images, nodes, ociimages, reporting
from devcluster.commands import attempt, run
from devcluster.failures import DevclusterError
from devcluster.settings import CHECKOUT, Cluster

_NAMESPACE = "et-operator"
_DEPLOYMENTS = ("deployment/et-operator", "deployment/et-scheduler")
_ROLLOUT_SECONDS = 120


def deploy(cluster: Cluster) -> None:
    """Build the image, load it, apply deploy/ and return once operator and scheduler run.

    Raises DevclusterError with what its pods say if it does not.
    """
    controlplane.find_client(cluster)
    manifests = CHECKOUT / "deploy"
    if not (manifests / "kustomization.yaml").exists():
        message = f"{manifests} has no kustomization.yaml: there is nothing to deploy."
        raise DevclusterError(message)
    archive = images.find_image(cluster.cache, images.OPERATOR)
    images.load(nodes.list_nodes(cluster), archive)
    overlay = _write_overlay(cluster, ociimages.read_digest(archive))
    with reporting.step("applying deploy/"):
        run([*_kubectl(cluster), "apply", "--server-side", "--force-conflicts", "-k", overlay])
    for deployment in _DEPLOYMENTS:
        _wait_for(cluster, deployment)


def _wait_for(cluster: Cluster, deployment: str) -> None:
    with reporting.step(f"waiting for {deployment}"):
        status = ["rollout", "status", deployment, f"--timeout={_ROLLOUT_SECONDS}s"]
        result = attempt([*_kubectl(cluster), "-n", _NAMESPACE, *status])
    if result.returncode:
        message = f"{deployment} does not come up: {result.stderr.strip()}"
        raise DevclusterError(f"{message}\n{_describe_pods(cluster, deployment)}")


def run_kubectl(cluster: Cluster, arguments: list[str]) -> int:
    """Run kubectl against the cluster with this terminal and return its exit code."""
    controlplane.find_client(cluster)
    environment = dict(os.environ) | {"KUBECONFIG": str(cluster.kubeconfig)}
    program = building.find_kube(cluster.cache, cluster.release)
    return subprocess.run([program, "kubectl", *arguments], env=environment, check=False).returncode


def run_helm(cluster: Cluster, arguments: list[str]) -> int:
    """Run Helm with this terminal and return its exit code; rendering needs no cluster."""
    environment = dict(os.environ) | {"KUBECONFIG": str(cluster.kubeconfig)}
    program = building.find_helm(cluster.cache)
    return subprocess.run([program, *arguments], env=environment, check=False).returncode


def _write_overlay(cluster: Cluster, digest: str) -> Path:
    """Lay deploy/ out with the image's digest in the pods: the tag alone would not renew them."""
    folder = cluster.state / "deploy"
    folder.mkdir(exist_ok=True)
    annotations = {"annotations": {"devcluster/image": digest}}
    patch = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "et-operator"},
        "spec": {"template": {"metadata": annotations}},
    }
    content = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(CHECKOUT / "deploy", folder)],
        "components": [os.path.relpath(CHECKOUT / "deploy/components/scheduler", folder)],
        "patches": [{"patch": json.dumps(patch), "target": {"kind": "Deployment"}}],
    }
    (folder / "kustomization.yaml").write_text(json.dumps(content, indent=1))
    return folder


def _kubectl(cluster: Cluster) -> list[str | Path]:
    return [
        building.find_kube(cluster.cache, cluster.release),
        "kubectl",
        f"--kubeconfig={cluster.kubeconfig}",
    ]


def _describe_pods(cluster: Cluster, deployment: str) -> str:
    command = [*_kubectl(cluster), "-n", _NAMESPACE]
    parts = [
        attempt([*command, "get", "pods", "-o", "wide"]).stdout,
        attempt([*command, "get", "events", "--sort-by=.lastTimestamp"]).stdout[-2000:],
        attempt([*command, "logs", deployment, "--all-containers", "--tail=20"]).stdout,
    ]
    return "\n".join(part.rstrip() for part in parts if part.strip())
