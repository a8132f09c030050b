"""One job with all its workers, in memory only: what the planner alone costs is measured on it.

The operator's own store, codec and planner; the cluster does at once what plans ask for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from benchmarks.brokers import answer
from benchmarks.manifests import build_job
from et_contract.documents import decode_config, encode_report
from et_contract.names import CONFIG_KEY, build_report_key
from et_kube.resources import CONFIG_MAPS, NODES, PODS, SCALE_INS, TRAINING_JOBS, Resource
from et_kube.times import format_time
from et_operator.assembly import read_runtime
from et_operator.codec.encoding import encode_change, encode_status_patch
from et_operator.model.actions import Action, Create, CreateKeys, Delete, DryRun
from et_operator.model.keys import JobKey
from et_operator.model.plans import Plan
from et_operator.model.snapshots import Snapshot
from et_operator.planning.planner import plan
from et_operator.settings import Settings
from et_operator.state.ingesting import Ingest
from et_operator.state.store import Store
from et_operator.state.views import build_snapshot

NAMESPACE = "standing"
NODE = "node-1"
MOST_PASSES = 30
"""A job comes to rest in far fewer."""


class StandingJob:
    """A job of so many workers that runs and of which nothing is to be done."""

    def __init__(self, workers: int, now: datetime, name: str = "job") -> None:
        self.key = JobKey(NAMESPACE, name)
        self.now = now
        self._begun = now
        self.store = Store()
        self.objects: dict[tuple[Resource, str], dict[str, Any]] = {}
        self._ingest = Ingest(self.store)
        self._shipped = read_runtime(Settings(broker_image="broker"))
        self._version = 0
        for resource in self.store.tables:
            self.store.coverage.note_list(resource, None, 0.0)
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        self._put(NODES, {"metadata": {"name": NODE}, "status": ready})
        self._put(TRAINING_JOBS, build_job(self.key.name, workers=workers, command=["train"]))
        self.settle()

    def look(self) -> Snapshot:
        """What a pass looks at."""
        snapshot = build_snapshot(self.store, self.key, self._shipped, self._begun)
        if snapshot is None:
            raise LookupError(f"{self.key} is not in its own store")
        return snapshot

    def settle(self, pause: timedelta = timedelta(seconds=10)) -> None:
        """Pass after pass, until one finds nothing to do; RuntimeError if none does.

        With a pause between them in which whatever waits for something has waited enough.
        """
        for _ in range(MOST_PASSES):
            result = self.decide()
            if result.status is None and not result.actions and not self._answer():
                return
            self._apply(result)
            self.now += pause
        raise RuntimeError(f"{self.key} does not come to rest")

    def decide(self) -> Plan:
        """One pass, as far as it costs the operator itself: the snapshot and the plan."""
        return plan(self.look(), self.now)

    def scale_in(self, count: int) -> None:
        """Somebody wants so many workers fewer."""
        spec = {"selector": {"name": self.key.name}, "toDelete": {"count": count}}
        self._put(SCALE_INS, {"metadata": {"name": "less"}, "spec": spec})

    def list_pods(self) -> list[str]:
        """The job's pods as the API server would send them."""
        return [json.dumps(obj) for (kind, _), obj in self.objects.items() if kind == PODS]

    def _apply(self, result: Plan) -> None:
        if result.status is not None:
            body = encode_status_patch(result.status)
            self._patch(TRAINING_JOBS, self.key.name, body)
        for action in result.actions:
            self._act(action)

    def _act(self, action: Action) -> None:
        match action:
            case Create(resource, manifest):
                is_pod = resource == PODS
                self._put(resource, _run_pod(manifest, self.now) if is_pod else manifest)
            case Delete(ref, uid):
                del self.objects[(ref.resource, ref.name)]
                self._ingest.forget(ref, uid, 0.0)
            case CreateKeys() | DryRun():
                raise TypeError(f"nothing here carries out {action}")
            case _:
                self._patch(action.ref.resource, action.ref.name, encode_change(action))

    def _answer(self) -> bool:
        """Be the broker: list every member, close who must leave; whether that is news."""
        config = self.objects.get((CONFIG_MAPS, f"{self.key.name}-config"))
        launcher = self.objects.get((PODS, f"{self.key.name}-launcher"))
        if config is None or launcher is None:
            return False
        written = decode_config(config["data"][CONFIG_KEY])
        report = answer(written, 1, launcher["metadata"]["uid"])
        body = {"data": {build_report_key(1): encode_report(report)}}
        before = self.objects[(CONFIG_MAPS, f"{self.key.name}-report")]
        if before.get("data") == body["data"]:
            return False
        self._patch(CONFIG_MAPS, f"{self.key.name}-report", body)
        return True

    def _put(self, resource: Resource, manifest: Mapping[str, Any]) -> None:
        """Store an object as the API server would."""
        self._version += 1
        given = manifest["metadata"]
        name = given.get("name") or f"{given['generateName']}{self._version}"
        metadata = {
            "namespace": NAMESPACE if resource.namespaced else "",
            "creationTimestamp": format_time(self.now),
            "generation": 1,
            **given,
            "name": name,
            "uid": f"{resource.plural}-{name}",
            "resourceVersion": str(self._version),
        }
        obj = {**manifest, "metadata": metadata}
        self.objects[(resource, name)] = obj
        self._ingest.upsert(resource, obj)

    def _patch(self, resource: Resource, name: str, body: Mapping[str, Any]) -> None:
        self._put(resource, _merge(self.objects[(resource, name)], body))


def _run_pod(manifest: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """A pod whose containers run."""
    spec = manifest["spec"]
    running = {"running": {"startedAt": format_time(now)}}
    containers = [{"name": item["name"], "state": running} for item in spec["containers"]]
    status = {"phase": "Running", "containerStatuses": containers}
    return {**manifest, "spec": {**spec, "nodeName": NODE}, "status": status}


def _merge(obj: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """JSON merge patch."""
    merged = dict(obj)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            merged[key] = _merge(merged.get(key) or {}, value)
        else:
            merged[key] = value
    return merged
