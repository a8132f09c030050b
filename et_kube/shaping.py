"""What a pod asks of a node, as `status.shapes` of a TrainingJob has it.

Whoever makes a pod and whoever looks for room for it read it here, so that both mean the same. It
is computed from a pod as the API server has stored it, or would: with defaults, and with what
webhooks and the RuntimeClass have added.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from et_contract.pods import LABEL_JOB, LABEL_ROLE
from et_kube.quantities import MOST, read_amounts
from et_kube.resources import Json

HOSTNAME = "kubernetes.io/hostname"
"""The label by which pods are bound to a node; its value need not be the node's name."""
FIELD = "field:"
"""How the key of a requirement begins that is about a field of the node, not about a label."""
MAX_TERMS = 64
MAX_REQUIREMENTS = 64
MAX_PRODUCT = 512
"""Labels of a selector times terms of an affinity: each of these has all of those."""
MAX_VALUES = 1024
MAX_TOLERATIONS = 256
MAX_PORTS = 256
MAX_PORT = 65535
MAX_APART = 16
MAX_RESOURCES = 64
MAX_KEY = 320
MAX_VALUE = 253
MAX_TAINT_KEY = 317
MAX_TAINT_VALUE = 63
MAX_EFFECT = 32
_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
_SCHEDULER = "default-scheduler"
_POD_LEVEL = ("cpu", "memory", "hugepages-")
_NOWHERE = {"key": "", "operator": "In", "values": []}
"""A term without a requirement matches no node, as in a node affinity."""

Amounts = dict[str, int]


def describe_shape(pod: Json) -> dict[str, Any]:
    """The document of one pod; raises ValueError (TypeError, AttributeError) for what is no pod."""
    spec: Json = pod.get("spec") or {}
    requests = sum_requests(spec)
    terms, is_cut = _list_terms(spec)
    reasons = list(_list_unproven(pod))
    if is_cut or len(requests) > MAX_RESOURCES:
        reasons.append("more terms of node affinity, or resources, than are looked at")
    return {
        "requests": dict(islice(sorted(requests.items()), MAX_RESOURCES)),
        "terms": [{"requirements": term} for term in terms],
        "tolerations": list(islice(_list_tolerations(spec), MAX_TOLERATIONS)),
        "hostPorts": list_exclusive(pod)[:MAX_PORTS],
        "unproven": ", ".join(reasons),
    }


def describe_admitted(pod: Json) -> dict[str, Any]:
    """What a pod asks for as the server has admitted it: its right over others is known then."""
    spec: Json = pod.get("spec") or {}
    return {
        **describe_shape(pod),
        "priority": spec.get("priority") or 0,
        "priorityClassName": _take(spec.get("priorityClassName") or "", MAX_VALUE),
        "preemptionPolicy": spec.get("preemptionPolicy") or "PreemptLowerPriority",
    }


def sum_requests(spec: Json) -> Amounts:
    """Effective requests, as kube-scheduler counts them: cpu in thousandths, bytes, pieces.

    The larger of what containers take together and what any init container takes beside the
    sidecars before it; what the pod asks for as a whole stands instead; overhead comes on top.
    """
    running: Counter[str] = Counter()
    for container in spec.get("containers") or ():
        running.update(_read_requests(container))
    sidecars: Counter[str] = Counter()
    highest: Counter[str] = Counter()
    for container in spec.get("initContainers") or ():
        own = _read_requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars.update(own)  # no more than all sidecars take beside the containers
        else:
            for name, n in own.items():  # what sidecars alone name is no more than that either
                highest[name] = max(highest[name], sidecars[name] + n)
    total = dict((running + sidecars) | highest)
    whole = _read_requests(spec)
    total |= {name: n for name, n in whole.items() if name.startswith(_POD_LEVEL)}
    counted = Counter(total) + Counter(read_amounts(spec.get("overhead")))
    return {name: min(amount, MOST) for name, amount in counted.items()}


def list_exclusive(pod: Json) -> list[str]:
    """What a pod has alone of its node: ports, as "TCP/80", and, as "apart/...", its own kind.

    Addresses of the node are not told apart. Two pods of one namespace that keep apart by the same
    selector have the same "apart/...".
    """
    spec: Json = pod.get("spec") or {}
    ports = {
        f"{str(port.get('protocol') or 'TCP')[:8]}/{_read_port(port['hostPort'])}"
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }
    return sorted(ports.union(islice(_list_apart(pod), MAX_APART)))


def _read_port(value: Any) -> int:
    """A port of a node: of another number the text may be longer than a status has room for."""
    port = int(value)
    if not 0 < port <= MAX_PORT:
        raise ValueError(f"hostPort must be from 1 to {MAX_PORT}")
    return port


def _list_apart(pod: Json) -> Iterator[str]:
    """Terms by which no other pod of its kind may be on its node (one worker to a node, say)."""
    metadata: Json = pod.get("metadata") or {}
    for term in _find_required(pod.get("spec") or {}, "podAntiAffinity") or ():
        if _is_about_its_kind(term, metadata):
            selector = json.dumps(term["labelSelector"], sort_keys=True)
            text = f"{metadata.get('namespace')}/{selector}"
            yield f"apart/{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _is_about_its_kind(term: Json, metadata: Json) -> bool:
    """About nodes and its own namespace, with a selector of plain labels, all of which it has."""
    selector: Json = term.get("labelSelector") or {}
    wanted: dict[str, str] = selector.get("matchLabels") or {}
    labels: dict[str, str] = metadata.get("labels") or {}
    return (
        len(wanted) > 0
        and term.get("topologyKey") == HOSTNAME
        and term.keys() <= {"topologyKey", "labelSelector"}
        and selector.keys() == {"matchLabels"}
        and wanted.items() <= labels.items()
    )


def _is_about_its_job(term: Json) -> bool:
    """Whether only pods of its job, and of its role there, can be in its way."""
    wanted: dict[str, str] = term["labelSelector"]["matchLabels"]
    return {LABEL_JOB, LABEL_ROLE} <= wanted.keys()


def _read_requests(holder: Json) -> Amounts:
    """A limit without a request is one, as the API server fills in."""
    resources = holder.get("resources") or {}
    return read_amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _list_terms(spec: Json) -> tuple[list[list[dict[str, Any]]], bool]:
    """Requirements by term, of which one must hold; whether something was left out.

    Every term has the labels of the selector too: of too many there is no product.
    """
    required = _find_required(spec, "nodeAffinity")
    told = (required.get("nodeSelectorTerms") or ()) if isinstance(required, Mapping) else ()
    selector = spec.get("nodeSelector") or {}
    is_wide = len(selector) > MAX_REQUIREMENTS or len(told) > MAX_TERMS
    if is_wide or len(selector) * len(told) > MAX_PRODUCT:
        return [], True
    common = [
        _build_requirement(str(key), "In", [value]) for key, value in sorted(selector.items())
    ]
    if spec.get("nodeName"):
        common.append(_build_requirement(f"{FIELD}metadata.name", "In", [spec["nodeName"]]))
    if not isinstance(required, Mapping):
        terms = [common] if common else []
    else:
        terms = [common + _list_requirements(term) for term in told]
    is_cut = len(terms) > MAX_TERMS or any(
        len(term) > MAX_REQUIREMENTS or any(len(one["values"]) > MAX_VALUES for one in term)
        for term in terms
    )
    return ([] if is_cut else terms), is_cut


def _list_requirements(term: Json) -> list[dict[str, Any]]:
    labels = (_read_requirement(one, "") for one in term.get("matchExpressions") or ())
    fields = (_read_requirement(one, FIELD) for one in term.get("matchFields") or ())
    return [*labels, *fields] or [dict(_NOWHERE)]


def _read_requirement(one: Json, prefix: str) -> dict[str, Any]:
    return _build_requirement(f"{prefix}{one['key']}", str(one["operator"]), one.get("values"))


def _build_requirement(key: str, operator: str, values: Iterable[Any] | None) -> dict[str, Any]:
    if operator not in _OPERATORS:
        raise ValueError(f"no label is compared by {operator[:MAX_EFFECT]}")
    # No label is that long: a value that is matches none, and is left out.
    found = [text for text in map(str, values or ()) if len(text) <= MAX_VALUE]
    return {"key": _take(key, MAX_KEY), "operator": operator, "values": found}


def _take(value: object, most: int) -> str:
    """A text that the definition of a job takes: one that is longer would keep its whole status."""
    text = str(value)
    if len(text) > most:
        raise ValueError(f"{text[:MAX_EFFECT]}... is longer than {most} characters")
    return text


def _list_tolerations(spec: Json) -> Iterator[dict[str, Any]]:
    """The tolerations that open a node; one with an operator that is not known here opens none."""
    for one in spec.get("tolerations") or ():
        operator, effect = one.get("operator") or "Equal", one.get("effect") or ""
        if operator in {"Equal", "Exists"} and effect != "PreferNoSchedule":
            yield {
                "key": _take(one.get("key") or "", MAX_TAINT_KEY),
                "value": _take(one.get("value") or "", MAX_TAINT_VALUE),
                "anyValue": operator == "Exists",
                "effect": _take(effect, MAX_EFFECT),
            }


def _list_unproven(pod: Json) -> Iterator[str]:
    """What decides too where it may be, and is not described, in words."""
    spec, metadata = pod.get("spec") or {}, pod.get("metadata") or {}
    if _find_required(spec, "podAffinity"):
        yield "pod affinity"
    apart = _find_required(spec, "podAntiAffinity") or ()
    if not all(_is_about_its_kind(term, metadata) and _is_about_its_job(term) for term in apart):
        yield "pod anti-affinity"
    spreads = spec.get("topologySpreadConstraints") or ()
    if any(one.get("whenUnsatisfiable") == "DoNotSchedule" for one in spreads):
        yield "topology spread"
    if any(v.get("persistentVolumeClaim") or v.get("ephemeral") for v in spec.get("volumes") or ()):
        yield "volume claims"
    if spec.get("resourceClaims"):
        yield "resource claims"
    if (spec.get("schedulerName") or _SCHEDULER) != _SCHEDULER:
        yield "another scheduler"


def _find_required(spec: Json, kind: str) -> Any:
    affinity = (spec.get("affinity") or {}).get(kind) or {}
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
