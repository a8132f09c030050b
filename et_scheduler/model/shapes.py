"""What one pod asks of a node.

Amounts are integers: CPU in thousandths, memory and storage in bytes, everything else in pieces.
Times are integers too, milliseconds since the epoch, durations milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

Amounts = Mapping[str, int]
"""How much of each resource, by its name in Kubernetes. What is not named is 0."""

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
"""Places for pods on a node: each pod takes one, whatever it requests."""
SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


class Operator(StrEnum):
    """How a requirement compares a node's label, as in a node affinity."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


class Effect(StrEnum):
    """What a taint does to pods that do not tolerate it. PreferNoSchedule binds nobody."""

    NO_SCHEDULE = "NoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One label that a node must have, or must not have; `values` are sorted, each once."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Taint:
    """A mark of a node that keeps pods away."""

    key: str
    value: str
    effect: Effect


@dataclass(frozen=True, slots=True)
class Toleration:
    """Which taints do not keep a pod away. An empty key or effect stands for all of them.

    `value` is compared unless `is_any_value`.
    """

    key: str = ""
    value: str = ""
    effect: Effect | None = None
    is_any_value: bool = False


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Shape:
    """What a pod asks for: one shape for all pods that a node cannot tell apart.

    `requests` is sorted by name and holds nothing that is 0. Of `terms` one must hold, all its
    requirements together; without terms any node will do. `unproven` says what else the pod
    demands that is not modelled: resources alone admit it then, and the words are told.
    """

    requests: tuple[tuple[str, int], ...] = ()
    terms: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: frozenset[str] = frozenset()
    unproven: str = ""
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Shapes are keys everywhere: what they hash to is computed once."""
        own = (self.requests, self.terms, self.tolerations, self.host_ports, self.unproven)
        object.__setattr__(self, "_hash", hash(own))

    def __hash__(self) -> int:
        return self._hash


def make_shape(requests: Amounts, **others: object) -> Shape:
    """A shape of these requests. ValueError for an amount below 0."""
    if any(amount < 0 for amount in requests.values()):
        raise ValueError(f"requests are not negative: {dict(requests)}")
    kept = tuple(sorted((name, amount) for name, amount in requests.items() if amount))
    return Shape(kept, **others)  # type: ignore[arg-type]


def describe_requests(shape: Shape) -> str:
    """For people: "5 CPU, 8 Gi"; "nothing" where it requests nothing."""
    return ", ".join(_describe(name, amount) for name, amount in shape.requests) or "nothing"


def _describe(name: str, amount: int) -> str:
    if name == CPU:
        return f"{amount / SECOND:g} CPU"  # thousandths here too
    for unit, size in (("Gi", 2**30), ("Mi", 2**20)):
        if amount >= size:
            return f"{amount / size:.4g} {unit}" + ("" if name == MEMORY else f" {name}")
    return f"{amount} {name}"
