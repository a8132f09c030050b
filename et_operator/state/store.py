"""All objects that the operator watches, decoded, and what the server answered to our writes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from et_operator.codec.children import decode_child
from et_operator.codec.decoding import decode_job, decode_scaling
from et_operator.codec.nodes import decode_node
from et_operator.codec.pods import decode_pod
from et_operator.model.jobs import JobKey, ScalingKind, TrainingJob
from et_operator.model.names import LABEL_RUNTIME
from et_operator.model.pods import Node, Pod
from et_operator.model.resources import (
    CONFIG_MAPS,
    NETWORK_POLICIES,
    NODES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SCALE_INS,
    SCALE_OUTS,
    SERVICE_ACCOUNTS,
    TRAINING_JOBS,
    Json,
    Ref,
    Resource,
)
from et_operator.model.scalings import Scaling
from et_operator.model.snapshots import Child, Refusal
from et_operator.state.tables import Table


@dataclass(frozen=True, slots=True)
class Piece:
    """A child that is not a pod, with its JSON for those who need to look inside."""

    namespace: str
    child: Child
    body: Json
    is_runtime: bool


def decode_piece(obj: Json) -> Piece:
    """A ConfigMap, ServiceAccount, Role or RoleBinding of ours."""
    meta = obj["metadata"]
    is_runtime = LABEL_RUNTIME in (meta.get("labels") or {})
    return Piece(meta.get("namespace", ""), decode_child(obj), obj, is_runtime)


def get_piece_index(piece: Piece) -> Hashable:
    """Children by their job's uid; runtimes, which no job owns, by their namespace."""
    return ("runtime", piece.namespace) if piece.is_runtime else piece.child.owner_uid


@dataclass(frozen=True, slots=True)
class Holder:
    """Somebody else's object under a name of ours: when it was seen, and whether we watch it."""

    seen: datetime
    is_watched: bool


@dataclass(slots=True)
class Answers:
    """What the server answered to writes for one job; lost with the process, which costs a try."""

    refusals: dict[Resource, Refusal] = field(default_factory=dict)
    taken: dict[Ref, Holder] = field(default_factory=dict)
    """Names held by somebody else's objects."""


def get_scaling_index(scaling: Scaling) -> JobKey:
    """Scalings by the job they name."""
    return JobKey(scaling.namespace, scaling.job_name)


DECODERS: dict[Resource, Callable[[Json], object | None]] = {
    TRAINING_JOBS: decode_job,
    SCALE_INS: lambda obj: decode_scaling(obj, ScalingKind.IN),
    SCALE_OUTS: lambda obj: decode_scaling(obj, ScalingKind.OUT),
    PODS: decode_pod,
    NODES: decode_node,
    CONFIG_MAPS: decode_piece,
    SERVICE_ACCOUNTS: decode_piece,
    ROLES: decode_piece,
    ROLE_BINDINGS: decode_piece,
    NETWORK_POLICIES: decode_piece,
}
"""What is watched, and how each kind becomes a noun; None: not one of ours."""


class Store:
    """One table a kind, and since when each of the lists behind them is complete."""

    def __init__(self) -> None:
        self.jobs: Table[TrainingJob] = Table(lambda job: job.uid)
        self.scale_ins: Table[Scaling] = Table(get_scaling_index)
        self.scale_outs: Table[Scaling] = Table(get_scaling_index)
        self.pods: Table[Pod] = Table(lambda pod: pod.owner_uid)
        self.nodes: Table[Node] = Table(lambda _: None)
        self.config_maps: Table[Piece] = Table(get_piece_index)
        self.tables: dict[Resource, Table[Any]] = {
            TRAINING_JOBS: self.jobs,
            SCALE_INS: self.scale_ins,
            SCALE_OUTS: self.scale_outs,
            PODS: self.pods,
            NODES: self.nodes,
            CONFIG_MAPS: self.config_maps,
            SERVICE_ACCOUNTS: Table(get_piece_index),
            ROLES: Table(get_piece_index),
            ROLE_BINDINGS: Table(get_piece_index),
            NETWORK_POLICIES: Table(get_piece_index),
        }
        self.answers: dict[JobKey, Answers] = {}
        self._synced: dict[tuple[Resource, str | None], datetime | None] = {}
        self._last_outage: datetime | None = None

    def expect_list(self, resource: Resource, namespace: str | None) -> None:
        """A list of this kind must be seen before the view is complete."""
        self._synced[(resource, namespace)] = None

    def note_synced(self, resource: Resource, namespace: str | None, at: datetime) -> None:
        """A complete list of this kind was taken."""
        self._synced[(resource, namespace)] = at

    def note_outage(self, at: datetime) -> None:
        """The API server did not answer: what is known may be old, though no list is missing."""
        self._last_outage = at

    @property
    def complete_since(self) -> datetime | None:
        """Since when there is a view with nothing missing; None while a list is.

        That is when the last of the expected lists was taken, or the server last did not answer.
        """
        times = list(self._synced.values())
        known = [t for t in times if t is not None]
        if not times or len(known) < len(times):
            return None
        return max(known) if self._last_outage is None else max(*known, self._last_outage)

    @property
    def are_nodes_known(self) -> bool:
        """Whether nodes are watched at all (they are not without cluster-wide rights)."""
        return any(resource == NODES for resource, _ in self._synced)

    def find_job(self, key: JobKey) -> TrainingJob | None:
        """The job of this name."""
        return self.jobs.find((key.namespace, key.name))

    def find_key(self, owner_uid: str | None) -> JobKey | None:
        """The key of the job with this uid."""
        found = self.jobs.select(owner_uid) if owner_uid else []
        return found[0].key if found else None

    def find_scalings(self, key: JobKey) -> tuple[Scaling, ...]:
        """The scalings that name this job, oldest first."""
        found = [*self.scale_ins.select(key), *self.scale_outs.select(key)]
        return tuple(sorted(found, key=lambda s: (s.created, s.uid)))
