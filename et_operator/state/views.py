"""The store as one job's planner may see it.

The only maker of snapshots, once a pass. What is the job's own and what is somebody else's is told
apart here; nothing is concluded from it.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from et_contract.documents import MAX_WORKERS, HostConfig
from et_contract.names import build_config_name, build_report_name
from et_contract.pods import Role, build_launcher_name, is_called
from et_kube.notices import NoticeKind
from et_kube.resources import (
    CONFIG_MAPS,
    NETWORK_POLICIES,
    SERVICE_ACCOUNTS,
    Resource,
)
from et_operator.codec.children import decode_host_config, decode_job_report
from et_operator.codec.templates import find_account_name
from et_operator.model.avoiding import list_all_avoided
from et_operator.model.jobs import TrainingJob
from et_operator.model.keys import JobKey
from et_operator.model.names import build_access_name, build_network_name
from et_operator.model.pods import Node, Pod
from et_operator.model.snapshots import Child, RuntimeFiles, Snapshot
from et_operator.state.store import SAID, Piece, Store

MOST_PODS = 4 * MAX_WORKERS
"""Pods of one job that a pass looks at: the workers of the largest, those whom they replace, and as
many again that have failed."""


def build_snapshot(
    store: Store,
    key: JobKey,
    shipped: RuntimeFiles,
    complete_since: datetime | None,
    *,
    default_queue: str = "",
) -> Snapshot | None:
    """Everything about one job, in this queue if it names none; None if there is no such job."""
    job = store.find_job(key)
    if job is None:
        return None
    config_piece = find_piece(store, job, CONFIG_MAPS, build_config_name(key.name))
    report = find_piece(store, job, CONFIG_MAPS, build_report_name(key.name))
    role, bindings, spare = find_roles(store, job)
    numbers = (job.status.epoch, job.status.generation)
    config = decode_host_config(get_documents(config_piece), *numbers, read=store.configs.read)
    pods = select_pods(store, job, config)
    nodes = select_nodes(store, job, pods)
    answers = store.answers.find(key, job.uid)
    firm, soft = select_said(store, NoticeKind.FIRM), select_said(store, NoticeKind.SOFT)
    return Snapshot(
        job=job.fill_queue(default_queue),
        shipped=shipped,
        pods=pods,
        scalings=store.find_scalings(key),
        config=config,
        config_object=get_child(config_piece),
        report=decode_job_report(get_documents(report), *numbers, read=store.reports.read),
        report_object=get_child(report),
        service_account=get_child(
            find_piece(store, job, SERVICE_ACCOUNTS, build_access_name(key.name))
        ),
        role=get_child(role),
        role_names=role.names if role else frozenset(),
        spare_roles=tuple(piece.child for piece in spare if piece.packed),
        bindings={piece.child: piece.names for piece in bindings},
        network_policy=get_child(
            find_piece(store, job, NETWORK_POLICIES, build_network_name(key.name))
        ),
        runtimes=store.config_maps.derive(("runtime", key.namespace), _name_pieces),
        nodes=nodes,
        firm_nodes=firm,
        soft_nodes=soft,
        said_ends=ChainMap(*(store.nodes.derive(kind, _end_all, SAID) for kind in NoticeKind)),
        hostnames=select_hostnames(store, nodes.values()),
        has_quiet_nodes=len(firm) + len(soft) < max(len(store.nodes), 1),
        are_nodes_known=store.coverage.are_nodes_known,
        taken_names=frozenset(ref.name for ref in answers.taken_names),
        borrowed=frozenset(select_borrowed(store, job)),
        keys_secret=store.made_keys.get(job.uid, ""),
        refusals=dict(answers.refusals),
        proofs=dict(answers.proofs),
        told_since=store.find_told_end(job),
        complete_since=complete_since,
    )


def select_pods(store: Store, job: TrainingJob, config: HostConfig | None) -> tuple[Pod, ...]:
    """The job's pods; of more than any job has those that it knows, and others by their names.

    Anybody may give them to it. What is left out has its turn once these have gone.
    """
    pods, status = store.find_pods(job), job.status
    if len(pods) <= MOST_PODS:
        return pods
    names = {build_launcher_name(job.key.name, status.epoch), *(r.name for r in status.workers)}
    uids = {member.uid for member in config.members} if config is not None else frozenset()

    def weigh(pod: Pod) -> tuple[bool, str]:
        return pod.name not in names and pod.uid not in uids, pod.name

    return tuple(sorted(pods, key=weigh)[:MOST_PODS])


def find_roles(
    store: Store, job: TrainingJob
) -> tuple[Piece | None, list[Piece], tuple[Piece, ...]]:
    """The job's Role, its bindings, and other Roles of the job's own.

    There are others where an answer was lost, or an older operator made one under a name of its
    own; the one that is bound is the one.
    """
    roles = store.find_roles(job)
    bindings = store.find_bindings(job)
    if not roles:
        return None, [], ()
    number = next((n for n, role in enumerate(roles) if role.child.name in bindings), 0)
    found = bindings.get(roles[number].child.name, [])
    return roles[number], found, (*roles[:number], *roles[number + 1 :])


def find_piece(store: Store, job: TrainingJob, resource: Resource, name: str) -> Piece | None:
    """The job's own child of this name; somebody else's does not count."""
    piece: Piece | None = store.tables[resource].find((job.key.namespace, name))
    return piece if piece is not None and piece.is_of(job) else None


def select_borrowed(store: Store, job: TrainingJob) -> Iterator[str]:
    """The accounts of other jobs' brokers that this job's templates name."""
    if job.spec is None:
        return
    for template in (job.spec.launcher_template, job.spec.worker.template):
        name = find_account_name(template)
        piece: Piece | None = store.tables[SERVICE_ACCOUNTS].find((job.key.namespace, name))
        if piece is not None and piece.child.owner not in (None, job.owner):
            yield name


def get_child(piece: Piece | None) -> Child | None:
    """The identity alone."""
    return piece.child if piece else None


def get_documents(piece: Piece | None) -> Mapping[str, str]:
    """What its documents are, by their keys."""
    return piece.documents if piece else {}


def select_said(store: Store, kind: NoticeKind) -> frozenset[str]:
    """Names of all nodes of whose end this is said."""
    return store.nodes.derive(kind, _name_all, SAID)


def select_hostnames(store: Store, nodes: Iterable[Node]) -> Mapping[str, str]:
    """How nodes are called that have another hostname than their name: these, and all said ones."""
    said = [store.nodes.derive(kind, _call_all, SAID) for kind in NoticeKind]
    return ChainMap(_call_all(nodes), *said)


def _name_all(nodes: Iterable[Node]) -> frozenset[str]:
    return frozenset(node.name for node in nodes)


def _name_pieces(pieces: Iterable[Piece]) -> frozenset[str]:
    return frozenset(piece.child.name for piece in pieces)


def _end_all(nodes: Iterable[Node]) -> dict[str, datetime]:
    return {node.name: node.last_end for node in nodes if node.last_end is not None}


def _call_all(nodes: Iterable[Node]) -> dict[str, str]:
    return {node.name: node.hostname for node in nodes if node.hostname is not None}


def select_nodes(store: Store, job: TrainingJob, pods: tuple[Pod, ...]) -> dict[str, Node]:
    """The nodes that these pods are on, those of which it was noted that they end, and more.

    That is what the job's own workers keep off that have no node: anybody may have made the others.
    One that is absent is missing here.
    """
    names = {pod.node for pod in pods if pod.node}
    unplaced = (p for p in pods if p.node is None and is_called(p.name, job.key.name, Role.WORKER))
    names = names.union(*list_all_avoided(pod.avoids for pod in unplaced).values())
    names |= {record.node for record in job.status.notices if record.node}
    return {name: node for name in names if (node := store.nodes.find(("", name))) is not None}
