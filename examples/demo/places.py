"""Where the demo runs: the embedded cluster, or one of the user's own.

Only here it is known how a cluster comes up; a scene is played on any Place. A cluster of the
user's own gets operator and scheduler, and is otherwise left as it is.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
EMBEDDED_IMAGE = "localhost/horovod-torch:dev"
DEPLOYMENTS = ("et-operator", "et-scheduler")


class PlaceError(Exception):
    """The cluster cannot be used; the message says what to do."""


@dataclass(frozen=True)
class Place:
    """A cluster with operator and scheduler on it."""

    kubeconfig: str | None
    context: str | None
    trainer_image: str


def prepare_embedded() -> Place:
    """Bring the embedded cluster up with both images, operator and scheduler."""
    run(["devcluster/prerequisites.sh"], "installing what the cluster needs")
    for words, what in (
        (["up"], "the cluster"),
        (["images", "--load"], "the images"),
        (["deploy"], " and ".join(DEPLOYMENTS)),
    ):
        run([sys.executable, "-m", "devcluster", *words], what)
    found = subprocess.run(
        [sys.executable, "-m", "devcluster", "kubeconfig"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return Place(found.stdout.strip(), None, EMBEDDED_IMAGE)


def prepare_existing(context: str, *, operator_image: str, trainer_image: str) -> Place:
    """Install both on the cluster of this context; PlaceError when an image is missing."""
    missing = [
        name
        for name, value in (
            ("DEMO_OPERATOR_IMAGE", operator_image),
            ("DEMO_TRAINER_IMAGE", trainer_image),
        )
        if not value
    ]
    if missing:
        raise PlaceError(
            f"DEMO_CONTEXT={context} needs {' and '.join(missing)}: images that this cluster can "
            "pull, built from Dockerfile and examples/images/horovod-torch/Dockerfile"
        )
    if shutil.which("kubectl") is None:
        raise PlaceError("DEMO_CONTEXT needs kubectl in PATH")
    with tempfile.TemporaryDirectory(dir=ROOT / "deploy") as folder:
        write_overlay(Path(folder), operator_image)
        kubectl = ["kubectl", "--context", context]
        run([*kubectl, "apply", "--server-side", "-k", folder], " and ".join(DEPLOYMENTS))
    for name in DEPLOYMENTS:
        rollout = ["rollout", "status", f"deployment/{name}", "-n", "et-operator"]
        run([*kubectl, *rollout, "--timeout=180s"], f"waiting for {name}")
    return Place(None, context, trainer_image)


def write_overlay(folder: Path, image: str) -> None:
    """A kustomization that is deploy/ with this image for operator, scheduler and broker."""
    (folder / "kustomization.yaml").write_text(
        f"""apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../base]
components: [../components/scheduler]
patches:
- target: {{kind: Deployment, name: et-operator}}
  patch: |
    apiVersion: apps/v1
    kind: Deployment
    metadata: {{name: et-operator, namespace: et-operator}}
    spec:
      template:
        spec:
          containers:
          - name: operator
            image: {image}
            env: [{{name: BROKER_IMAGE, value: {image}}}]
- target: {{kind: Deployment, name: et-scheduler}}
  patch: |
    apiVersion: apps/v1
    kind: Deployment
    metadata: {{name: et-scheduler, namespace: et-operator}}
    spec:
      template:
        spec:
          containers:
          - name: scheduler
            image: {image}
"""
    )


def run(command: list[str], what: str) -> None:
    """Run a step, its output going to the user; PlaceError when it fails."""
    print(f"==> {what}", flush=True)
    code = subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603 (our own steps)
    if code:
        raise PlaceError(f"{what}: `{' '.join(command)}` ended with exit code {code}; see above")
