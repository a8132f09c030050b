"""What the config tells the broker: who is a member, since which generation, in which state.

A new number is recorded before a new content is written.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from et_contract.documents import HostConfig
from et_kube.resources import CONFIG_MAPS, Ref
from et_operator.model.actions import Action, Create, WriteConfig
from et_operator.model.pods import Pod
from et_operator.model.statuses import WorkerState
from et_operator.planning.drafts import Draft
from et_operator.planning.forgetting import forget_old_ends
from et_operator.planning.manifests.hosts import build_config, build_config_map
from et_operator.planning.manifests.keys import has_keys
from et_operator.planning.moving import build_notice_orders
from et_operator.planning.scripting import build_orders
from et_operator.planning.standings import Standing
from et_operator.planning.views import View

GATHERING = timedelta(seconds=1)
"""So long workers that run wait for those that are about to, so that one write lists them all."""
FIRST_GATHERING = timedelta(seconds=5)
"""As GATHERING while nobody is a member yet: the user's command would wait for the late anyway."""


def build_desired_config(draft: Draft) -> HostConfig:
    """What the config must say now."""
    orders = (*build_orders(draft.view, draft.status.scaling), *build_notice_orders(draft))
    return build_config(draft.view, draft.status, select_fresh(draft), orders)


def number_config(draft: Draft) -> None:
    """Raise the generation when the config must say something that it does not."""
    view = draft.view
    written = view.snapshot.config
    if written is None:
        draft.change(generation=draft.next_generation)
        return
    if draft.status.generation > written.generation:
        return
    is_written = replace(build_desired_config(draft), generation=written.generation) == written
    if is_written and not _is_set_back(view, written):
        return
    forget_old_ends(draft)
    for pod in select_fresh(draft):
        if not _is_held(draft, pod):
            draft.forget(pod.name)
    draft.change(generation=draft.next_generation)


def write_config(draft: Draft) -> list[Action]:
    """Create or write <job>-config when a newer generation was recorded."""
    view = draft.view
    child = view.snapshot.config_object
    if view.status.generation <= view.written_generation:
        return []
    config = build_desired_config(draft)
    if child is None:
        return [Create(CONFIG_MAPS, build_config_map(view, config))]
    ref = Ref(CONFIG_MAPS, view.job.key.namespace, child.name)
    return [WriteConfig(ref, child.uid, child.resource_version, config)]


def select_fresh(draft: Draft) -> tuple[Pod, ...]:
    """Running workers that are to become members now: those on which the broker has its right.

    One that is held changes no list, so it waits for nobody, and nobody for it.
    """
    view = draft.view
    held = {record.uid for record in draft.select_held()}
    successors = (pod for pod in view.live_workers if pod.uid in held)
    coming = [pod for pod in successors if pod.uid not in view.members]
    ready = [p for p in coming if p.is_container_running and _is_reachable(view, p.name)]
    return (*_select_joining(draft), *ready)


def _select_joining(draft: Draft) -> tuple[Pod, ...]:
    view = draft.view
    roster = [pod for pod in draft.select_roster() if pod.uid not in view.members]
    running = [p for p in roster if p.is_container_running and _is_reachable(view, p.name)]
    joining = [pod for pod in running if _is_joining(draft, pod)]
    is_anyone_late = len(running) < len(roster) or bool(draft.select_unborn())
    if not joining or not is_anyone_late:
        return tuple(running)
    gathering = GATHERING if view.members else FIRST_GATHERING
    if not draft.wait_out(min(pod.started or pod.created for pod in joining), gathering):
        return tuple(running)
    return tuple(pod for pod in running if not _is_joining(draft, pod))


def _is_reachable(view: View, name: str) -> bool:
    """Whether the broker has its right on the worker of this name, or needs none."""
    return has_keys(view.job) or name in view.snapshot.role_names


def _is_held(standing: Standing, pod: Pod) -> bool:
    record = standing.find_record(pod.name)
    return record is not None and bool(record.replaces)


def _is_joining(standing: Standing, pod: Pod) -> bool:
    """Whether nothing has been decided yet of this pod's becoming a member."""
    record = standing.find_record(pod.name)
    return record is not None and record.state is WorkerState.JOINING


def _is_set_back(view: View, written: HostConfig) -> bool:
    """Whether the broker has read a newer config than there ever was, as after etcd was restored.

    It takes none that is older; so what it is to follow must be newer still.
    """
    report = view.report
    return report is not None and report.observed_generation > written.generation
