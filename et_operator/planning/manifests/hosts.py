"""<job>-config: who may be listed, for the broker; and the same for people.

publishing.py calls it and writes what it builds. A member's state only goes one way, and what an
older config said of a member stays where nothing newer is known.
"""

from __future__ import annotations

from dataclasses import replace

from et_contract.documents import HostConfig, Member, MemberState, ScriptOrder
from et_contract.names import build_config_name
from et_kube.resources import Json
from et_operator.codec.encoding import encode_config_data
from et_operator.model.jobs import TrainingJob
from et_operator.model.names import build_labels
from et_operator.model.pods import Pod
from et_operator.model.specs import LossRecovery
from et_operator.model.statuses import JobStatus, WorkerRecord, WorkerState
from et_operator.planning.manifests.keys import has_keys
from et_operator.planning.manifests.notices import build_notices, find_signal
from et_operator.planning.manifests.owning import build_metadata
from et_operator.planning.views import View

TELLS_OF_GONE = 2
"""The first runtime whose broker tells ranks which addresses nobody has any more."""


def build_config(
    view: View, status: JobStatus, fresh: tuple[Pod, ...], scripts: tuple[ScriptOrder, ...]
) -> HostConfig:
    """The config that follows from `status`; `fresh` are running workers that become members."""
    job, spec = view.job, view.job.spec
    replicas = status.decided_replicas or 0
    minimum = (spec.least_workers if spec else None) or replicas
    slots = spec.slots_per_worker if spec else 1
    records = {record.uid: record for record in status.workers if record.uid}
    members = [
        replace(m, state=state, grace_seconds=_find_grace(view, m, state))
        for m in view.members.values()
        if (state := _find_state(m.state, records.get(m.uid))) is not None
    ]
    members += _restore_lost(view, status, slots)
    members += [_welcome(job, pod, slots, records.get(pod.uid)) for pod in fresh]
    has_ips = _tells_of_gone(job, status)
    members = [replace(m, ips=_find_ips(view, m) if has_ips else ()) for m in members]
    return HostConfig(
        job=job.key.name,
        namespace=job.key.namespace,
        job_uid=job.uid,
        generation=status.generation,
        epoch=status.epoch,
        replicas=replicas,
        min_replicas=min(minimum, replicas) if replicas else minimum,
        members=tuple(members),
        scripts=scripts,
        version=status.runtime.version if status.runtime else 1,
        notices=build_notices(view, status, members),
        notice_signal=find_signal(view, status),
    )


def build_config_map(view: View, config: HostConfig) -> Json:
    """The whole object, as it is created."""
    name = build_config_name(config.job)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": build_metadata(view.job, name, build_labels(config.job)),
        "data": encode_config_data(config),
    }


def _welcome(job: TrainingJob, pod: Pod, slots: int, record: WorkerRecord | None) -> Member:
    address = pod.address if has_keys(job) else ""
    state = MemberState.HELD if record is not None and record.replaces else MemberState.ACTIVE
    return Member(pod.name, pod.uid, slots, state, pod.container, address)


def _tells_of_gone(job: TrainingJob, status: JobStatus) -> bool:
    """Whether ranks are to hear which members are gone, and can."""
    is_fast = job.spec is None or job.spec.loss_recovery is LossRecovery.FAST
    is_able = status.runtime is not None and status.runtime.version >= TELLS_OF_GONE
    return is_fast and is_able and not has_keys(job)


def _find_ips(view: View, member: Member) -> tuple[str, ...]:
    """The addresses of its pod as long as it is a member's; then what its ranks had stays."""
    pod = view.pods.get(member.uid)
    if pod is None or member.state is MemberState.GONE:
        return member.ips
    return pod.ips or member.ips


def _find_state(written: MemberState, record: WorkerRecord | None) -> MemberState | None:
    """What a written member becomes; None: it is forgotten. States only ever go one way."""
    if record is not None and record.state is WorkerState.GONE:
        return MemberState.GONE
    if written is MemberState.GONE:
        return None
    if record is not None and record.state is WorkerState.LEAVING:
        return MemberState.DRAINING
    if written is MemberState.HELD and (record is None or not record.replaces):
        return MemberState.ACTIVE
    return written


def _find_grace(view: View, written: Member, state: MemberState) -> int | None:
    """How long its pod has, for the agent of a member that may still run something.

    What was written stays: to say less would be a write that tells nobody anything.
    """
    pod = view.pods.get(written.uid)
    is_over = state is MemberState.GONE or written.uid in view.closed or not view.can_command_run
    if pod is None or pod.deletion_grace_seconds is None or not pod.is_container_running or is_over:
        return written.grace_seconds
    return pod.deletion_grace_seconds


def _restore_lost(view: View, status: JobStatus, slots: int) -> list[Member]:
    """Members that were written once and are not there now: somebody lost the config."""
    found = []
    for record in status.workers:
        if not record.uid or record.uid in view.members:
            continue
        pod = view.pods.get(record.uid)
        container = pod.container if pod is not None else ""
        if record.state is WorkerState.GONE and view.snapshot.config is None:
            found.append(Member(record.name, record.uid, slots, MemberState.GONE, container))
        elif record.state is WorkerState.LEAVING and record.generation is not None and pod:
            found.append(Member(record.name, record.uid, slots, MemberState.DRAINING, container))
    return found
