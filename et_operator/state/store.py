"""All objects that the operator watches, decoded, and what the server answered to our writes.

Its tables are written by `ingesting` alone, its answers by `believing`. Of an object only what
decisions read is kept, for clusters have thousands; what anybody may have made is disowned here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from et_kube.notices import ROWS, Row
from et_kube.resources import (
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
from et_kube.tables import Place, Table
from et_operator.codec.children import (
    decode_accounts,
    decode_bound_role,
    decode_child,
    decode_role_names,
    is_document,
    is_sealed,
    is_writable,
    measure_reports_after,
    read_config,
    read_report,
    select_documents,
)
from et_operator.codec.decoding import decode_job, decode_scaling
from et_operator.codec.nodes import decode_node
from et_operator.codec.pods import decode_pod
from et_operator.codec.runtimes import is_runtime
from et_operator.model.jobs import TrainingJob
from et_operator.model.keys import JobKey, Owner
from et_operator.model.names import build_document_names, build_runtime_name
from et_operator.model.pods import Node, Pod
from et_operator.model.scalings import Scaling, ScalingStatus
from et_operator.model.snapshots import Child
from et_operator.model.statuses import ScalingKind
from et_operator.state.answers import Answers
from et_operator.state.coverage import Coverage
from et_operator.state.readings import Readings

MOST_OF_STRANGERS = 8192
"""Characters of documents that are kept where their job is not known: of any number of ConfigMaps,
for anybody can make them, name a job that never was, and keep them there by a finalizer."""
MOST_BESIDE = 128 * 1024
"""Characters beside the documents in a job's ConfigMap: with more, an object of the size that an
API server stores has no room for those of the largest job (tests/unit/planning/test_sizes.py)."""
MOST_DOCUMENTS = 16
"""A broker removes the reports of those before it. Empty ones too take memory, for their keys."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A child that is not a pod, with what decisions read in it.

    `documents` are config and reports, by their keys in the ConfigMap; `packed` are the `names` in
    one text: as texts of their own they would take ten times as much as in the object. Nothing else
    of a body is kept, and of an object that nobody owns nothing at all. `is_partial`: its documents
    were left out, for they are large and no known job's; who knows the job reads it again.
    `role`: which one a RoleBinding gives.
    """

    namespace: str
    child: Child
    is_runtime: bool
    documents: Mapping[str, str] = field(default_factory=dict)
    packed: str = ""
    is_partial: bool = False
    role: str = ""

    @property
    def names(self) -> frozenset[str]:
        """What a Role gives rights on, or to whom a RoleBinding gives them."""
        return frozenset(self.packed.split())

    def is_of(self, job: TrainingJob) -> bool:
        """Whether it is this job's own, and one that the job's documents can be written to.

        The config and the reports of the job's epochs are written over by whoever writes next.
        Those of later epochs stay, and with too many of them it takes no report: it is somebody
        else's, whoever owns it.
        """
        later = measure_reports_after(self.documents, job.status.epoch)
        return self.child.owner == job.owner and later <= MOST_BESIDE


def leave_out_documents(piece: Piece) -> Piece:
    """The object as it is kept while its job is not known."""
    if sum(map(len, piece.documents.values())) <= MOST_OF_STRANGERS:
        return piece
    return replace(piece, documents={}, is_partial=True)


def decode_piece(obj: Json) -> Piece:
    """Any child of ours that is no pod: its identity, and the names in it."""
    child, namespace = decode_child(obj), obj["metadata"].get("namespace", "")
    if child.owner is None:
        return Piece(namespace, child, is_runtime(obj))
    names = decode_role_names(obj, child.owner.uid) | decode_accounts(obj)
    return Piece(namespace, child, is_runtime=False, packed=" ".join(sorted(names)))


def decode_config_map(obj: Json) -> Piece:
    """A runtime, or the config or report of a job.

    All else is nobody's, whatever owner it has: what is not called as one, one that nobody can
    write any more, and one of more documents than any of ours has.
    """
    piece = decode_piece(obj)
    if piece.child.owner is None:
        return piece
    if not is_document(obj["metadata"]) or not is_writable(obj, MOST_BESIDE):
        return disown(piece)
    documents = select_documents(obj)
    if len(documents) > MOST_DOCUMENTS:
        return disown(piece)
    return replace(piece, documents=documents)


def decode_role(obj: Json) -> Piece:
    """A Role. One without our seal is nobody's: whoever made it may have bound it to himself."""
    piece = decode_piece(obj)
    if piece.child.owner is None or is_sealed(obj, piece.child.owner.uid):
        return piece
    return disown(piece)


def decode_binding(obj: Json) -> Piece:
    """A RoleBinding, with the Role that it gives."""
    piece = decode_piece(obj)
    return piece if piece.child.owner is None else replace(piece, role=decode_bound_role(obj))


def disown(piece: Piece) -> Piece:
    """The object as somebody else's, whatever owner it has."""
    return Piece(piece.namespace, replace(piece.child, owner=None), is_runtime=False)


def get_piece_index(piece: Piece) -> Hashable:
    """Children by their job; runtimes, which no job owns, by their namespace."""
    if piece.is_runtime:
        return ("runtime", piece.namespace)
    return build_owner_index(piece.namespace, piece.child.owner)


def build_owner_index(namespace: str, owner: Owner | None) -> tuple[str, Owner] | None:
    """The controller of an object: an owner is of the same namespace, or there is none.

    The API server stores any uid in an owner reference, also that of another namespace's job.
    """
    return (namespace, owner) if owner else None


def find_runtime_place(job: TrainingJob) -> Place | None:
    """Namespace and name of the runtime that the job's pods mount."""
    runtime = job.status.runtime
    return (job.key.namespace, build_runtime_name(runtime.digest)) if runtime else None


def get_scaling_index(scaling: Scaling) -> JobKey:
    """Scalings by the job they name."""
    return JobKey(scaling.namespace, scaling.job_name)


def decode_kept_scaling(obj: Json, kind: ScalingKind) -> Scaling:
    """A scaling as long as it may be begun; of one that has ended only that it has.

    Autoscalers leave thousands behind, each with all the workers that it was about.
    """
    scaling = decode_scaling(obj, kind)
    phase, old = scaling.status.phase, scaling.status
    if phase is None or not phase.is_final:
        return scaling
    status = ScalingStatus(phase, job_uid=old.job_uid, completion_time=old.completion_time)
    return replace(scaling, status=status, pod_names=(), script="", env=(), owners=())


DECODERS: dict[Resource, Callable[[Json], object | None]] = {
    TRAINING_JOBS: decode_job,
    SCALE_INS: lambda obj: decode_kept_scaling(obj, ScalingKind.IN),
    SCALE_OUTS: lambda obj: decode_kept_scaling(obj, ScalingKind.OUT),
    PODS: decode_pod,
    CONFIG_MAPS: decode_config_map,
    SERVICE_ACCOUNTS: decode_piece,
    ROLES: decode_role,
    ROLE_BINDINGS: decode_binding,
    NETWORK_POLICIES: decode_piece,
}
"""What is watched, and how each kind becomes a noun; None: not one of ours. See Store.decode."""

SAID = "said"
"""Index of the nodes of whose end something is said, by its kind."""


class Store:
    """One table a kind, and since when the lists and watches behind them miss nothing.

    `rows`: the signs by which the end of a node is known.
    """

    def __init__(self, rows: Sequence[Row] = ROWS) -> None:
        self._rows = rows
        self.jobs: Table[TrainingJob] = Table(
            lambda job: build_owner_index(job.key.namespace, job.owner), runtime=find_runtime_place
        )
        self.scale_ins: Table[Scaling] = Table(get_scaling_index)
        self.scale_outs: Table[Scaling] = Table(get_scaling_index)
        self.pods: Table[Pod] = Table(
            lambda pod: build_owner_index(pod.namespace, pod.owner), node=lambda pod: pod.node
        )
        self.nodes: Table[Node] = Table(
            lambda _: None, said=lambda node: node.notice.kind if node.notice else None
        )
        self.config_maps: Table[Piece] = Table(get_piece_index, lambda piece: piece.is_partial)
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
        self.answers = Answers(lambda ref: self.find(ref) is not None)
        self.made_keys: dict[str, str] = {}
        """Secrets of ssh keys by the uid of the job that they were made for, until they are
        recorded in its status."""
        self.told_ends: dict[str, tuple[str, datetime]] = {}
        """By the uid of a job: of which of its launchers it is known that the command has ended,
        and since when."""
        self.coverage = Coverage()
        self.configs = Readings(read_config)
        self.reports = Readings(read_report)

    def decode(self, resource: Resource, obj: Json) -> object | None:
        """What is kept of an object; None: not one of ours."""
        return decode_node(obj, self._rows) if resource == NODES else DECODERS[resource](obj)

    def find_job(self, key: JobKey) -> TrainingJob | None:
        """The job of this name."""
        return self.jobs.find((key.namespace, key.name))

    def find(self, ref: Ref) -> object | None:
        """What is believed of this object; None where there is none."""
        found: object | None = self.tables[ref.resource].find((ref.namespace, ref.name))
        return found

    def find_key(self, namespace: str, owner: Owner | None) -> JobKey | None:
        """The key of this job, in the namespace of what it owns."""
        found = self.jobs.select(build_owner_index(namespace, owner)) if owner else []
        return found[0].key if found else None

    def is_known_document(self, piece: Piece) -> bool:
        """Whether the piece is the config or the report of a job that is known."""
        key = self.find_key(piece.namespace, piece.child.owner)
        return key is not None and piece.child.name in build_document_names(key.name)

    def find_partial(self, key: JobKey) -> list[Ref]:
        """The documents of this job that were left out when it was not known."""
        job = self.find_job(key)
        refs = [Ref(CONFIG_MAPS, key.namespace, name) for name in build_document_names(key.name)]
        found = ((ref, self.config_maps.find((ref.namespace, ref.name))) for ref in refs)
        pieces = [(ref, piece) for ref, piece in found if piece is not None and piece.is_partial]
        return [ref for ref, piece in pieces if job and piece.child.owner == job.owner]

    def find_told_end(self, job: TrainingJob) -> datetime | None:
        """Since when it is known that the command of this epoch's launcher has ended."""
        launcher, since = self.told_ends.get(job.uid, ("", None))
        return since if launcher == job.status.launcher_uid else None

    def find_pods(self, job: TrainingJob) -> tuple[Pod, ...]:
        """The pods that the job controls."""
        return tuple(self.pods.select(build_owner_index(job.key.namespace, job.owner)))

    def find_roles(self, job: TrainingJob) -> list[Piece]:
        """The Roles that the job controls and that nobody else can have bound, by name."""
        return self.tables[ROLES].select(build_owner_index(job.key.namespace, job.owner))

    def find_bindings(self, job: TrainingJob) -> Mapping[str, list[Piece]]:
        """The job's own bindings by their Roles: one of one, and others where an answer was lost.

        All at once: anybody can make thousands of both.
        """
        found: defaultdict[str, list[Piece]] = defaultdict(list)
        for piece in self.tables[ROLE_BINDINGS].select(
            build_owner_index(job.key.namespace, job.owner)
        ):
            found[piece.role].append(piece)
        return found

    def find_scalings(self, key: JobKey) -> tuple[Scaling, ...]:
        """The scalings that name this job, oldest first."""
        found = [*self.scale_ins.select(key), *self.scale_outs.select(key)]
        return tuple(sorted(found, key=lambda scaling: scaling.order))
