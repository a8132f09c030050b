"""The first scene: one job is scaled 2 -> 4 -> 3 -> 2 while it trains.

Passes only if the training itself has seen these sizes: what the operator says of them is not
enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from et_kube.resources import Json
from examples.demo.observing import Observer
from examples.demo.picture import draw_scaling
from examples.demo.trainings import DemoError, Training

TITLE = "one job, scaled 2 -> 4 -> 3 -> 2 while it trains"
JOB = "demo"
STEPS = 160
STEPS_BETWEEN = 20
"""Trained at each size before the next change."""
WANTED = [2, 4, 3, 2]
PICTURE = Path("out/demo.png")


@dataclass(frozen=True)
class Change:
    """One scaling that the demo asks for, and how long it took; `status` is the scaling's own."""

    title: str
    seconds: float
    status: dict[str, Any]


def run(observer: Observer, image: str) -> None:
    """Submit, scale three times, wait for the end, sum up."""
    observer.clear()
    job = observer.submit(build_job(image))
    observer.wait(job, lambda: job.size == WANTED[0], f"the job trains with {WANTED[0]} workers")
    changes = [change(observer, job, *wish) for wish in WISHES]
    observer.wait(job, lambda: job.phase == "Succeeded", "the job succeeds")
    close(job, changes)


def change(observer: Observer, job: Training, title: str, manifest: Json, size: int) -> Change:
    """Ask for a scaling, wait until the training has that size, and let it train on."""
    print(f"--> {title}", flush=True)
    observer.create(manifest)
    seconds = observer.wait(job, lambda: observer.has_ended(manifest), title)
    seconds += observer.wait(job, lambda: job.size == size, f"{size} workers train")
    observer.train_on(job, STEPS_BETWEEN)
    return Change(title, seconds, observer.get_scaling(manifest["metadata"]["name"]))


def close(job: Training, changes: list[Change]) -> None:
    """Print the summary, draw the picture, check what the training itself saw."""
    sizes = " -> ".join(map(str, job.sizes))
    draw_scaling(job, PICTURE, title=f"{JOB}: sizes {sizes}")
    print("\nSummary")
    for one in changes:
        print(f"  {one.title:<42} {one.seconds:5.1f} s   {describe_workers(one.status)}".rstrip())
    print(f"  sizes seen by the training: {sizes}")
    lost = job.count_repeated_steps()
    print(f"  steps: {len(job.steps)}   steps lost: {lost}   restarts: {job.restarts}")
    print(f"  picture: {PICTURE}")
    if job.sizes != WANTED:
        raise DemoError(f"the training saw the sizes {job.sizes}, not {WANTED}")


def describe_workers(status: dict[str, Any]) -> str:
    """Each worker's way out, in words."""
    workers = status.get("workers") or []
    return ", ".join(f"{w['name']} {w['result']} after {w['seconds']:.1f} s" for w in workers)


def build_job(image: str) -> dict[str, Any]:
    """The example job on this cluster's image."""
    container = {"image": image, "imagePullPolicy": "IfNotPresent"}
    command = [
        "horovodrun",
        *("-np", "2", "--min-np", "1", "--max-np", "4"),
        *("--host-discovery-script", "/etc/edl/discover_hosts.sh"),
        *("python3", "/examples/horovod-torch/train.py"),
        *("--steps", str(STEPS), "--step-seconds", "0.2"),
    ]
    launcher = {"spec": {"containers": [{"name": "launcher", **container, "command": command}]}}
    worker = {"spec": {"containers": [{"name": "worker", **container}]}}
    return {
        "apiVersion": "kai.alibabacloud.com/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": JOB},
        "spec": {
            "etReplicaSpecs": {
                "launcher": {"template": launcher},
                "worker": {
                    "replicas": 2,
                    "minReplicas": 1,
                    "maxReplicas": 4,
                    "template": worker,
                },
            }
        },
    }


def build_scaling(kind: str, name: str, wish: dict[str, Any]) -> dict[str, Any]:
    """A ScaleIn or ScaleOut of the demo's job."""
    return {
        "apiVersion": "kai.alibabacloud.com/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"name": JOB}, **wish},
    }


WISHES = (
    ("ScaleOut 2 -> 4", build_scaling("ScaleOut", "demo-out", {"toAdd": {"count": 2}}), 4),
    (
        f"ScaleIn 4 -> 3, by name: {JOB}-worker-2",
        build_scaling("ScaleIn", "demo-in-name", {"toDelete": {"podNames": [f"{JOB}-worker-2"]}}),
        3,
    ),
    (
        "ScaleIn 3 -> 2, by count",
        build_scaling("ScaleIn", "demo-in-count", {"toDelete": {"count": 1}}),
        2,
    ),
)
