"""Stops the operator exactly before a write: it has asked, and the API server has not done it yet.

An admission webhook for the operator's writes in one namespace, answered by the test. A write that
is held waits in the API server, where the object is still as it was; whoever sent it may be killed
meanwhile (then it is never done) or stopped (then it is done late, if it still may be).
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from kubernetes import client

from tests.e2e.doors import Json, open_door
from tests.e2e.world import GROUP, RealWorld

OPERATOR = "system:serviceaccount:et-operator:et-operator"
LIMIT = 30
"""Seconds that the API server waits for a webhook, at most. A write held longer is refused."""

Match = Callable[[Json], bool]
"""Whether this AdmissionRequest is meant."""


class Hold:
    """Writes that are not let through yet: all that match, or only the first one."""

    def __init__(self, match: Match, *, only_first: bool) -> None:
        self._match = match
        self._only_first = only_first
        self._arrived = threading.Event()
        self._ended = threading.Event()
        self._verdict = True

    def wait(self, what: str, timeout: float = 60) -> None:
        """Until such a write was asked for."""
        assert self._arrived.wait(timeout), f"not within {timeout:.0f} s: the operator {what}"

    def end(self, *, allowed: bool = True) -> None:
        """Let those that wait through, or refuse them; whatever comes later is let through."""
        if not self._ended.is_set():
            self._verdict = allowed
            self._ended.set()

    def judge(self, write: Json) -> bool:
        """Whether the write may be done; returns when that is known."""
        if self._ended.is_set() or not self._match(write):
            return True
        if self._only_first and self._arrived.is_set():
            return True
        self._arrived.set()
        return self._ended.wait(LIMIT) and self._verdict


class Gate:
    """The operator's writes in a namespace, each of which a test may hold."""

    def __init__(self) -> None:
        self._holds: list[Hold] = []
        self.is_working = threading.Event()

    @contextmanager
    def hold(self, match: Match, *, only_first: bool = False) -> Iterator[Hold]:
        """From now on, until its end or that of the context."""
        hold = Hold(match, only_first=only_first)
        self._holds.append(hold)
        try:
            yield hold
        finally:
            hold.end()

    def answer(self, _: str, review: Json) -> Json:
        """To the API server's question: yes or no, now or later."""
        write = review["request"]
        self.is_working.set()
        allowed = bool(write.get("dryRun")) or all(hold.judge(write) for hold in (*self._holds,))
        response = {"uid": write["uid"], "allowed": allowed}
        return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


@contextmanager
def open_gate(world: RealWorld, folder: Path) -> Iterator[Gate]:
    """A gate in the world's namespace while the context lasts."""
    gate = Gate()
    hooks = client.AdmissionregistrationV1Api(world.core.api_client)
    with open_door(gate.answer, folder) as (url, certificate):
        hooks.create_validating_webhook_configuration(build_hook(world.namespace, url, certificate))
        try:
            world.wait(lambda: is_open(world, gate), "the API server asks at the gate")
            yield gate
        finally:
            hooks.delete_validating_webhook_configuration(world.namespace)


def is_open(world: RealWorld, gate: Gate) -> bool:
    """Try with a write in the operator's name that changes nothing."""
    world.core.create_namespaced_config_map(
        world.namespace,
        client.V1ConfigMap(metadata=client.V1ObjectMeta(generate_name="gate-")),
        dry_run="All",
        _headers={"Impersonate-User": OPERATOR},
    )
    return gate.is_working.is_set()


def build_hook(namespace: str, url: str, certificate: Path) -> Json:
    """The webhook's registration."""
    rules = [
        (["", GROUP], ["pods", "configmaps", "trainingjobs", "scaleins", "scaleouts"]),
        ([GROUP], ["trainingjobs/status", "scaleins/status", "scaleouts/status"]),
    ]
    hook = {
        "name": "gate.test.example",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": LIMIT,
        "clientConfig": {
            "url": f"{url}/",
            "caBundle": base64.b64encode(certificate.read_bytes()).decode(),
        },
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "matchConditions": [
            {"name": "operator", "expression": f"request.userInfo.username == '{OPERATOR}'"}
        ],
        "rules": [
            {
                "apiGroups": groups,
                "apiVersions": ["*"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
                "resources": resources,
            }
            for groups, resources in rules
        ],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": namespace},
        "webhooks": [hook],
    }


# ---- the operator's writes, by what they are for


def of(job: str, match: Match) -> Match:
    """The same, for the objects of one job."""
    return lambda write: f"{write['name']}-".startswith(f"{job}-") and match(write)


def creates_config(write: Json) -> bool:
    """The creation of <job>-config."""
    return _is(write, "CREATE", "configmaps") and bool(write["name"].endswith("-config"))


def creates_launcher(write: Json) -> bool:
    """The creation of a launcher."""
    return _is(write, "CREATE", "pods") and "-launcher" in write["name"]


def creates_pod(name: str) -> Match:
    """The creation of this pod."""
    return lambda write: _is(write, "CREATE", "pods") and write["name"] == name


def creates_worker(write: Json) -> bool:
    """The creation of a worker."""
    return _is(write, "CREATE", "pods") and "-worker-" in write["name"]


def deletes_pod(write: Json) -> bool:
    """The deletion of a pod."""
    return _is(write, "DELETE", "pods")


def decides_scaling(write: Json) -> bool:
    """Victims, or the names of those who join, are recorded."""
    return _is(write, "UPDATE", "trainingjobs/status") and _gains(write, "scaling")


def writes_status(plural: str) -> Match:
    """Any status of an object of this kind."""
    return lambda write: _is(write, "UPDATE", f"{plural}/status")


def applies_replicas(write: Json) -> bool:
    """`worker.replicas` is written."""
    return _is(write, "UPDATE", "trainingjobs")


def publishes_draining(write: Json) -> bool:
    """The config names one more worker draining."""
    return _is(write, "UPDATE", "configmaps") and _count_draining(
        write["object"]
    ) > _count_draining(write["oldObject"])


def records_outcome(write: Json) -> bool:
    """The job's status says how the scaling has ended."""
    if not _is(write, "UPDATE", "trainingjobs/status"):
        return False
    return "outcome" in ((write["object"].get("status") or {}).get("scaling") or {})


def _is(write: Json, operation: str, resource: str) -> bool:
    name = "/".join(filter(None, (write["resource"]["resource"], write.get("subResource"))))
    return bool(write["operation"] == operation and name == resource)


def _gains(write: Json, field: str) -> bool:
    old, new = ((write[key].get("status") or {}).get(field) for key in ("oldObject", "object"))
    return not old and bool(new)


def _count_draining(config: Json) -> int:
    text = (config.get("data") or {}).get("config.json", "")
    members = yaml.safe_load(text)["members"] if text else []
    return sum(member["state"] == "draining" for member in members)
