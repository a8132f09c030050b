"""The cluster as an independent witness sees it: the official client, never the operator's code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from et.steps import Step, list_sizes, parse_step

ROOT = Path(__file__).resolve().parent.parent.parent
GROUP = "kai.alibabacloud.com"
IMAGE = "localhost/horovod-torch:dev"
PLANTED = "planted-8f3a61c0d2"
"""A secret in the environment of every job; it may be found nowhere but in its own pods."""
LOGS = Path(os.environ.get("LOGS_DIR", "out/logs"))
"""Logs, Events and objects of every test; the last tests look for what went astray in them."""
PLANTS = "planted"
"""The file there that has what else must be found in none of them, one a line."""
T = TypeVar("T")
PAUSE = threading.Event()
OFTEN, SELDOM, SOON = 0.25, 0.5, 2.0
"""Seconds between two looks, at first and once a wait lasts: looks cost the cluster."""
_TIME = re.compile(r"step=.* t=(\d+\.\d\d)$")


class RealWorld:
    """One namespace of the cluster, and what is in it."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        api_client = config.new_client_from_config(str(kubeconfig()))
        self.core = client.CoreV1Api(api_client)
        self.custom = client.CustomObjectsApi(api_client)
        self.apps = client.AppsV1Api(api_client)

    # ---- objects
    def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Create one of our kinds."""
        plural = manifest["kind"].lower() + "s"
        created: dict[str, Any] = self.custom.create_namespaced_custom_object(
            GROUP, "v1alpha1", self.namespace, plural, manifest
        )
        return created

    def get(self, plural: str, name: str) -> dict[str, Any]:
        """One of our objects as it is now."""
        found: dict[str, Any] = self.custom.get_namespaced_custom_object(
            GROUP, "v1alpha1", self.namespace, plural, name
        )
        return found

    def status(self, plural: str, name: str) -> dict[str, Any]:
        """Its status, {} while it has none."""
        return self.get(plural, name).get("status") or {}

    def report(self, job: str, epoch: int = 1) -> dict[str, Any]:
        """What the broker of this epoch has told."""
        maps = self.core.read_namespaced_config_map(f"{job}-report", self.namespace)
        report: dict[str, Any] = json.loads(maps.data[f"report-{epoch}"])
        return report

    def patch_job(self, name: str, body: dict[str, Any]) -> None:
        """Merge-patch a job."""
        self.custom.patch_namespaced_custom_object(
            GROUP, "v1alpha1", self.namespace, "trainingjobs", name, body
        )

    def scale(self, name: str, replicas: int) -> None:
        """As `kubectl scale` does."""
        body = {"spec": {"replicas": replicas}}
        self.custom.patch_namespaced_custom_object_scale(
            GROUP, "v1alpha1", self.namespace, "trainingjobs", name, body
        )

    def delete(self, plural: str, name: str) -> None:
        """Delete one of our objects."""
        self.custom.delete_namespaced_custom_object(GROUP, "v1alpha1", self.namespace, plural, name)

    def pods(self, role: str | None = None) -> list[client.V1Pod]:
        """The job pods of the namespace by name."""
        selector = f"training-job-role={role}" if role else "training-job-name"
        found = self.core.list_namespaced_pod(self.namespace, label_selector=selector).items
        return sorted(found, key=lambda pod: (pod.metadata.creation_timestamp, pod.metadata.name))

    def worker_names(self) -> list[str]:
        """Workers that are not being deleted."""
        return [p.metadata.name for p in self.pods("worker") if not p.metadata.deletion_timestamp]

    def log(self, pod: str, container: str | None = None) -> str:
        """A container's log; "" while there is none, or its node is out of reach."""
        try:
            raw = self.core.read_namespaced_pod_log(
                pod, self.namespace, container=container, _preload_content=False
            ).data
        except ApiException as error:
            if error.status in {400, 404, 500}:
                return ""
            raise
        text: str = raw.decode("utf-8", "replace")
        return text

    def events(self) -> list[tuple[str, str, str]]:
        """(object, reason, message) of the namespace's Events."""
        items = self.core.list_namespaced_event(self.namespace).items
        return [(e.involved_object.name, e.reason, e.message) for e in items]

    # ---- training
    def steps(self, job: str) -> list[Step]:
        """All steps printed so far by rank 0, over all launchers of the job, in their order.

        That of the times they tell: the last line of a rank 0 that left may come after the first
        of the next one, who is another worker.
        """
        lines = "".join(map(self.log, self.launchers(job))).splitlines()
        found = (step for line in sorted(lines, key=_read_time) if (step := parse_step(line)))
        return [step for step in found if None not in (step.number, step.loss, step.size)]

    def launchers(self, job: str) -> list[str]:
        """The names of its launchers' pods, read without making objects of them: often asked."""
        raw = self.core.list_namespaced_pod(
            self.namespace,
            label_selector=f"training-job-name={job},training-job-role=launcher",
            _preload_content=False,
        ).data
        return sorted(pod["metadata"]["name"] for pod in json.loads(raw)["items"])

    def sizes(self, job: str) -> list[int]:
        """World sizes in the order in which the training saw them, repetitions dropped."""
        return list_sizes(self.steps(job))

    def wait_for_size(self, job: str, size: int, timeout: float = 90) -> None:
        """Until the newest step ran with this world size."""
        self.wait(
            lambda: (s := self.steps(job)) and s[-1].size == size,
            f"{job} trains with {size} workers; phase {self.phase(job)}",
            timeout,
        )

    # ---- waiting
    def phase(self, job: str) -> str:
        """The job's phase, "" while it has none."""
        phase: str = self.status("trainingjobs", job).get("phase") or ""
        return phase

    def wait_for_phase(self, job: str, *phases: str, timeout: float = 120) -> str:
        """Until the job is in one of these phases; an unexpected end fails at once."""

        def look() -> str:
            phase = self.phase(job)
            if phase in {"Succeeded", "Failed"} and phase not in phases:
                raise AssertionError(f"{job} is {phase}: {self.describe(job)}")
            return phase if phase in phases else ""

        return self.wait(look, f"{job} is {' or '.join(phases)}", timeout)

    def wait_for_scaling(self, plural: str, name: str, timeout: float = 120) -> dict[str, Any]:
        """Until a scaling has ended; its status."""

        def look() -> dict[str, Any]:
            status = self.status(plural, name)
            return status if status.get("phase") in {"ScaleSucceeded", "ScaleFailed"} else {}

        return self.wait(look, f"{plural} {name} has ended", timeout)

    def wait(self, look: Callable[[], T], what: str, timeout: float = 120) -> T:
        """Until `look` returns something true; AssertionError with `what` after `timeout` s."""
        began = time.monotonic()
        while True:
            found = look()
            if found:
                return found
            waited = time.monotonic() - began
            if waited > timeout:
                raise AssertionError(f"not within {timeout:.0f} s: {what}")
            PAUSE.wait(OFTEN if waited < SOON else SELDOM)

    def describe(self, job: str) -> str:
        """The job's status and Events for a failure message."""
        status = json.dumps(self.status("trainingjobs", job), indent=1)
        return f"{status}\n" + "\n".join(map(str, self.events()))

    def clear(self) -> None:
        """Delete the namespace with everything in it, without waiting for anybody's grace."""
        self.custom.delete_collection_namespaced_custom_object(
            GROUP, "v1alpha1", self.namespace, "trainingjobs"
        )
        self.core.delete_collection_namespaced_pod(self.namespace, grace_period_seconds=0)
        self.core.delete_namespace(self.namespace)
        self.wait(
            lambda: not self.core.list_namespaced_pod(self.namespace).items,
            f"{self.namespace} has no pods left",
            90,
        )

    def dump(self, folder: Path) -> None:
        """Everything a person needs to see why something failed."""
        folder.mkdir(parents=True, exist_ok=True)
        for plural in ("trainingjobs", "scaleins", "scaleouts"):
            found = self.custom.list_namespaced_custom_object(
                GROUP, "v1alpha1", self.namespace, plural
            )
            write_json(folder / f"{plural}.json", found)
        for maps in self.core.list_namespaced_config_map(self.namespace).items:
            if maps.metadata.name.endswith(("-config", "-report")):
                write_json(folder / f"{maps.metadata.name}.json", maps.data)
        for pod in self.core.list_namespaced_pod(self.namespace).items:
            name = pod.metadata.name
            manifest = self.core.api_client.sanitize_for_serialization(pod)
            write_json(folder / f"{name}.json", manifest)
            for container in [*(pod.spec.init_containers or []), *pod.spec.containers]:
                (folder / f"{name}.{container.name}.log").write_text(self.log(name, container.name))
        (folder / "events.txt").write_text("\n".join(map(str, self.events())))
        operator = RealWorld("et-operator")
        for pod in operator.core.list_namespaced_pod("et-operator").items:
            (folder / f"operator-{pod.metadata.name}.log").write_text(
                operator.log(pod.metadata.name)
            )


def write_json(path: Path, found: object) -> None:
    """For people: YAML would take twenty times as long, after every test."""
    path.write_text(json.dumps(found, indent=1))


def plant(secret: str) -> None:
    """Note what the last tests must find nowhere."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with (LOGS / PLANTS).open("a") as stream:
        stream.write(f"{secret}\n")


def kubeconfig() -> Path:
    """The test cluster's kubeconfig."""
    return Path(devcluster("kubeconfig").strip())


def devcluster(*args: str) -> str:
    """Run a devcluster command; its output."""
    done = subprocess.run(
        [sys.executable, "-m", "devcluster", *args],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout


def build_job(
    name: str,
    *,
    command: list[str],
    workers: int = 2,
    minimum: int | None = 1,
    maximum: int | None = 6,
    image: str = IMAGE,
    **spec: Any,
) -> dict[str, Any]:
    """A TrainingJob."""
    bounds = {"minReplicas": minimum, "maxReplicas": maximum}
    env = [{"name": "API_KEY", "value": PLANTED}]
    container = {"image": image, "imagePullPolicy": "IfNotPresent", "env": env}
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {
            "etReplicaSpecs": {
                "launcher": {
                    "template": {
                        "spec": {
                            "containers": [{"name": "launcher", **container, "command": command}]
                        }
                    }
                },
                "worker": {
                    "replicas": workers,
                    **{k: v for k, v in bounds.items() if v is not None},
                    "template": {"spec": {"containers": [{"name": "worker", **container}]}},
                },
            },
            **spec,
        },
    }


def train(*args: str, np: int = 2, minimum: int = 1, maximum: int = 6) -> list[str]:
    """The user's command: an ordinary elastic horovodrun."""
    return [
        "horovodrun",
        *("-np", str(np), "--min-np", str(minimum), "--max-np", str(maximum)),
        *("--host-discovery-script", "/etc/edl/discover_hosts.sh"),
        *("python3", "/examples/horovod-torch/train.py", *args),
    ]


def scale_out(name: str, job: str, count: int, **spec: Any) -> dict[str, Any]:
    """A ScaleOut."""
    body = {"selector": {"name": job}, "toAdd": {"count": count}, **spec}
    return _build_scaling("ScaleOut", name, body)


def scale_in(
    name: str, job: str, *, count: int | None = None, pods: list[str] | None = None, **spec: Any
) -> dict[str, Any]:
    """A ScaleIn by count or by names."""
    wish = {"count": count} if count is not None else {"podNames": pods}
    return _build_scaling("ScaleIn", name, {"selector": {"name": job}, "toDelete": wish, **spec})


def _build_scaling(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def find_condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    """A condition by type, {} if there is none."""
    found: Iterator[dict[str, Any]] = (c for c in status.get("conditions", []) if c["type"] == kind)
    return next(found, {})


def grow_and_shrink(world: RealWorld, job: str, *, by: int, to: int) -> None:
    """Add so many workers to a job that trains; then its first one leaves, gracefully."""
    world.create(scale_out("grow", job, by))
    assert world.wait_for_scaling("scaleouts", "grow")["phase"] == "ScaleSucceeded"
    world.wait_for_size(job, to)
    first = f"{job}-worker-0"
    world.create(scale_in("shrink", job, pods=[first]))
    status = world.wait_for_scaling("scaleins", "shrink")
    assert [(w["name"], w["result"]) for w in status["workers"]] == [(first, "graceful")]


def _read_time(line: str) -> float:
    found = _TIME.search(line)
    return float(found[1]) if found else 0.0
