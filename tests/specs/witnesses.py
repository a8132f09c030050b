"""What the operator shows of itself: restarts, passes, defects in its log."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from et_kube.resources import LEASES, PODS
from tests.specs.servers import Server, build_path

NAMESPACE = "et-operator"
PORT = 8080
LIMIT = 0.1
"""Seconds that a decision may take."""
PASSES = "et_operator_reconcile_seconds"
PLANS = "et_operator_plan_seconds"
ERRORS = "et_operator_reconciles_total"


@dataclass(frozen=True)
class Durations:
    """A histogram: how many were as short as each limit, in seconds."""

    buckets: Mapping[float, float] = field(default_factory=dict)

    def __sub__(self, before: Durations) -> Durations:
        old = before.buckets
        return Durations({limit: n - old.get(limit, 0) for limit, n in self.buckets.items()})

    @property
    def count(self) -> int:
        """All of them."""
        return int(self.buckets.get(math.inf, 0))

    def count_longer(self, limit: float) -> int:
        """Those that took longer than a limit of the histogram."""
        return self.count - int(self.buckets.get(limit, 0))

    def find_share(self, share: float) -> float:
        """The limit within which this share of them were; 0 of none."""
        wanted = self.count * share
        return min((limit for limit, n in self.buckets.items() if n >= wanted), default=0.0)

    @property
    def longest(self) -> float:
        """The limit within which all of them were."""
        return self.find_share(1.0)


@dataclass(frozen=True)
class Facts:
    """What was seen at one time."""

    restarts: Mapping[str, int]
    """By pod."""
    transitions: int
    """How often the lease changed hands."""
    passes: Durations
    plans: Durations
    errors: int
    """Passes that ended in a defect."""


async def look(server: Server) -> Facts:
    """All of it, from the leader where only that has it; raises KeyError when nobody leads."""
    found = await server.get(build_path(PODS, NAMESPACE))
    pods = {pod["metadata"]["name"]: count_restarts(pod) for pod in found["items"]}
    lease = await server.get(build_path(LEASES, NAMESPACE, "et-operator"))
    leader = lease["spec"]["holderIdentity"]
    text = await server.ask("GET", build_path(PODS, NAMESPACE, f"{leader}:{PORT}/proxy/metrics"))
    passes, plans, errors = read_metrics(text.text)
    return Facts(pods, int(lease["spec"].get("leaseTransitions", 0)), passes, plans, errors)


def count_restarts(pod: Any) -> int:
    """Of all containers of a pod."""
    return sum(entry["restartCount"] for entry in pod["status"].get("containerStatuses") or ())


def read_metrics(text: str) -> tuple[Durations, Durations, int]:
    """Passes, plans, and the passes that ended in a defect, from Prometheus' text."""
    buckets: dict[str, dict[float, float]] = {PASSES: {}, PLANS: {}}
    errors = 0
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name.removesuffix("_bucket")
            if name in buckets and "le" in sample.labels:
                buckets[name][float(sample.labels["le"])] = sample.value
            elif sample.name == ERRORS and sample.labels["result"] == "error":
                errors = int(sample.value)
    return Durations(buckets[PASSES]), Durations(buckets[PLANS]), errors


async def read_defects(server: Server, since: str) -> list[dict[str, Any]]:
    """Lines of the operators' logs of level error and above since a time (RFC 3339)."""
    found = await server.get(build_path(PODS, NAMESPACE))
    lines: list[str] = []
    for pod in found["items"]:
        name = pod["metadata"]["name"]
        for previous in ("false", "true"):
            path = build_path(PODS, NAMESPACE, name, f"log?sinceTime={since}&previous={previous}")
            answer = await server.ask("GET", path)
            lines += answer.text.splitlines() if answer.is_good else []
    return [entry for line in lines if (entry := read_line(line)).get("level") in BAD]


def sum_up(defects: list[dict[str, Any]]) -> list[str]:
    """A line for each kind of defect: how often, what, about whom first, the end of its trace."""
    kinds: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for defect in defects:
        trace = [line for line in str(defect.get("exception", "")).splitlines() if line.strip()]
        kinds.setdefault((defect.get("event", ""), " ".join(trace[-1:])), []).append(defect)
    lines = []
    for (event, error), found in kinds.items():
        about = found[0].get("job") or found[0].get("what") or ""
        trace = str(found[0].get("exception", "")).splitlines()[-7:-1]
        lines.append(f"in the operator's log, {len(found)} times: {event} ({about}): {error}")
        lines += [f"    {line.strip()}" for line in trace if "/et-operator/" in line]
    return lines


BAD = frozenset({"error", "critical"})


def read_line(line: str) -> dict[str, Any]:
    """A line of the log as structlog wrote it; what is no JSON is the trace of an end."""
    try:
        found = json.loads(line)
    except ValueError:
        is_trace = line.startswith(("Traceback", "  | Traceback", "Fatal"))
        return {"level": "critical", "event": line} if is_trace else {}
    return found if isinstance(found, dict) else {}
