"""The store as one job's planner may see it."""

from __future__ import annotations

from et_operator.codec.children import decode_host_config, decode_job_report, decode_role_names
from et_operator.model.jobs import JobKey, TrainingJob
from et_operator.model.names import (
    build_access_name,
    build_config_name,
    build_network_name,
    build_report_name,
)
from et_operator.model.pods import Node, Pod
from et_operator.model.resources import (
    CONFIG_MAPS,
    NETWORK_POLICIES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    Resource,
)
from et_operator.model.snapshots import Child, RuntimeFiles, Snapshot
from et_operator.state.store import Answers, Piece, Store


def build_snapshot(store: Store, key: JobKey, shipped: RuntimeFiles) -> Snapshot | None:
    """Everything about one job; None if there is no such job."""
    job = store.find_job(key)
    if job is None:
        return None
    config = find_piece(store, job, CONFIG_MAPS, build_config_name(key.name))
    report = find_piece(store, job, CONFIG_MAPS, build_report_name(key.name))
    role = find_piece(store, job, ROLES, build_access_name(key.name))
    pods = tuple(store.pods.select(job.uid))
    answers = store.answers.get(key, Answers())
    return Snapshot(
        job=job,
        shipped=shipped,
        pods=pods,
        scalings=store.find_scalings(key),
        config=decode_host_config(config.body) if config else None,
        config_object=get_child(config),
        report=decode_job_report(report.body, job.status.epoch) if report else None,
        report_object=get_child(report),
        service_account=get_child(
            find_piece(store, job, SERVICE_ACCOUNTS, build_access_name(key.name))
        ),
        role=get_child(role),
        role_names=decode_role_names(role.body) if role else frozenset(),
        role_binding=get_child(find_piece(store, job, ROLE_BINDINGS, build_access_name(key.name))),
        network_policy=get_child(
            find_piece(store, job, NETWORK_POLICIES, build_network_name(key.name))
        ),
        runtimes=frozenset(
            piece.child.name for piece in store.config_maps.select(("runtime", key.namespace))
        ),
        nodes=select_nodes(store, pods),
        are_nodes_known=store.are_nodes_known,
        taken=frozenset(ref.name for ref in answers.taken),
        refusals=dict(answers.refusals),
        complete_since=store.complete_since,
    )


def find_piece(store: Store, job: TrainingJob, resource: Resource, name: str) -> Piece | None:
    """The job's own child of this name; somebody else's does not count."""
    piece: Piece | None = store.tables[resource].find((job.key.namespace, name))
    return piece if piece is not None and piece.child.owner_uid == job.uid else None


def get_child(piece: Piece | None) -> Child | None:
    """The identity alone."""
    return piece.child if piece else None


def select_nodes(store: Store, pods: tuple[Pod, ...]) -> dict[str, Node]:
    """The nodes on which these pods are; one that is absent is missing here."""
    names = {pod.node for pod in pods if pod.node}
    found = {name: store.nodes.find(("", name)) for name in names}
    return {name: node for name, node in found.items() if node is not None}
