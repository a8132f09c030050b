"""`make demo`: train on a real cluster, scale 2 -> 4 -> 3 -> 2 while it trains, and show it.

The cluster is the embedded one (devcluster), or with DEMO_CONTEXT=name a context of the user's
kubeconfig; then DEMO_OPERATOR_IMAGE and DEMO_TRAINER_IMAGE name images that cluster can pull.
Exit code 0 only if the job succeeded and the training itself saw the sizes 2, 4, 3, 2.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parents[2]))

from observing import Observer
from picture import draw
from places import Place, PlaceError, prepare_embedded, prepare_existing

from et.errors import EtError, explain
from et_kube.errors import KubeError

NAMESPACE = "et-demo"
JOB = "demo"
STEPS = 160
STEPS_BETWEEN = 20
"""Trained at each size before the next change."""
PATIENCE = 600.0
WANTED = [2, 4, 3, 2]
OUT = Path("out")


class DemoError(Exception):
    """The demo did not go as it must; the message says what and where to look."""


@dataclass(frozen=True)
class Change:
    """One scaling that the demo asks for."""

    title: str
    manifest: dict[str, object]
    size: int


def main() -> int:
    """Run the demo; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quiet", action="store_true", help="one line a change, no live lines")
    quiet = parser.parse_args().quiet
    started = time.monotonic()
    try:
        place = prepare()
        with Observer(place, NAMESPACE, JOB, live=not quiet) as observer:
            run(observer, place)
    except (DemoError, PlaceError, EtError) as error:
        sys.stderr.write(f"\ndemo failed: {error}\n")
        return 1
    except KubeError as error:
        sys.stderr.write(f"\ndemo failed: {explain(error)}\n")
        return 1
    print(f"whole demo: {time.monotonic() - started:.0f} s")
    return 0


def prepare() -> Place:
    """The cluster with the operator on it."""
    context = os.environ.get("DEMO_CONTEXT")
    if not context:
        return prepare_embedded()
    return prepare_existing(
        context,
        operator_image=os.environ.get("DEMO_OPERATOR_IMAGE", ""),
        trainer_image=os.environ.get("DEMO_TRAINER_IMAGE", ""),
    )


def run(observer: Observer, place: Place) -> None:
    """Submit, scale three times, wait for the end, sum up."""
    observer.clear()
    observer.submit(build_job(place.trainer_image))
    wait(observer, lambda: observer.size == WANTED[0], f"the job trains with {WANTED[0]} workers")
    outcomes = []
    for change in CHANGES:
        print(f"--> {change.title}", flush=True)
        asked = time.monotonic()
        observer.create(change.manifest)
        name = str(change.manifest["metadata"]["name"])  # type: ignore[index]
        wait(observer, lambda c=change: observer.has_ended(c.manifest), change.title)
        wait(observer, lambda c=change: observer.size == c.size, f"{change.size} workers train")
        outcomes.append((change.title, time.monotonic() - asked, observer.get_scaling(name)))
        seen = len(observer.steps) + STEPS_BETWEEN
        wait(observer, lambda n=seen: len(observer.steps) >= n, "the training goes on")
    wait(observer, lambda: observer.phase == "Succeeded", "the job succeeds")
    close(observer, outcomes)


def wait(observer: Observer, is_there: Callable[[], bool], what: str) -> None:
    """Look every half second until it is so; DemoError when the job fails or time is over."""
    end = time.monotonic() + PATIENCE
    while True:
        observer.look()
        if is_there():
            return
        if observer.phase == "Failed":
            raise DemoError(f"the job failed while waiting until {what}:\n{observer.describe()}")
        if observer.phase == "Succeeded":
            raise DemoError(f"the job ended before {what}")
        if time.monotonic() > end:
            raise DemoError(f"not within {PATIENCE:.0f} s: {what}\n{observer.describe()}")
        observer.pause()


def close(observer: Observer, outcomes: list[tuple[str, float, dict[str, object]]]) -> None:
    """Check what the training itself saw, print the summary, draw the picture."""
    observer.look()
    sizes, lost = observer.sizes, observer.count_repeated_steps()
    OUT.mkdir(exist_ok=True)
    picture = OUT / "demo.png"
    draw(observer.history, picture, title=f"{JOB}: sizes {' -> '.join(map(str, sizes))}")
    print("\nSummary")
    for title, seconds, status in outcomes:
        print(f"  {title:<42} {seconds:5.1f} s   {describe_workers(status)}")
    print(f"  sizes seen by the training: {' -> '.join(map(str, sizes))}")
    print(f"  steps: {len(observer.steps)}   steps lost: {lost}   restarts: {observer.restarts}")
    print(f"  picture: {picture}")
    if sizes != WANTED:
        raise DemoError(f"the training saw the sizes {sizes}, not {WANTED}")


def describe_workers(status: dict[str, object]) -> str:
    """Each worker's way out, in words."""
    workers = status.get("workers") or []
    assert isinstance(workers, list)  # noqa: S101 (the schema says so)
    return ", ".join(f"{w['name']} {w['result']} after {w['seconds']:.1f} s" for w in workers)


def build_job(image: str) -> dict[str, object]:
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


def build_scaling(kind: str, name: str, wish: dict[str, object]) -> dict[str, object]:
    """A ScaleIn or ScaleOut of the demo's job."""
    return {
        "apiVersion": "kai.alibabacloud.com/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"name": JOB}, **wish},
    }


CHANGES = (
    Change(
        "ScaleOut 2 -> 4",
        build_scaling("ScaleOut", "demo-out", {"toAdd": {"count": 2}}),
        4,
    ),
    Change(
        f"ScaleIn 4 -> 3, by name: {JOB}-worker-2",
        build_scaling("ScaleIn", "demo-in-name", {"toDelete": {"podNames": [f"{JOB}-worker-2"]}}),
        3,
    ),
    Change(
        "ScaleIn 3 -> 2, by count",
        build_scaling("ScaleIn", "demo-in-count", {"toDelete": {"count": 1}}),
        2,
    ),
)


if __name__ == "__main__":
    sys.exit(main())
