"""What must exist before and for the pods, in the order in which it is created.

How an object looks is said in manifests/, who should exist in membership.py: created is only what
the server has stored of that. A pod never comes before what it mounts of ours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import timedelta

from et_contract.admissions import Placement
from et_contract.names import build_config_name, build_report_name
from et_kube.resources import (
    CONFIG_MAPS,
    NETWORK_POLICIES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    TRAINING_JOBS,
    Json,
)
from et_operator.model.actions import Action, Create, CreateKeys
from et_operator.model.avoiding import pack_avoided
from et_operator.model.conditions import is_true
from et_operator.model.names import (
    ANNOTATION_AVOIDS,
    ANNOTATION_RETRIES,
    build_access_name,
    build_network_name,
    build_runtime_name,
)
from et_operator.model.statuses import Runtime, WorkerRecord, WorkerState
from et_operator.planning.admitting import find_placement
from et_operator.planning.drafts import Draft, back_off, respect_refusal
from et_operator.planning.granting import grant_rights, withdraw_rights
from et_operator.planning.launching import can_launch
from et_operator.planning.manifests.access import (
    build_report_map,
    build_service_account,
    find_account,
)
from et_operator.planning.manifests.keys import build_keys, has_keys
from et_operator.planning.manifests.launcher import build_launcher
from et_operator.planning.manifests.networks import build_network_policy
from et_operator.planning.manifests.placement import dislike, place
from et_operator.planning.manifests.runtimes import build_runtime
from et_operator.planning.manifests.workers import build_worker, call_worker
from et_operator.planning.noticing import find_disliked
from et_operator.planning.publishing import write_config
from et_operator.planning.replacing import check_due, was_due
from et_operator.planning.standings import Standing
from et_operator.planning.trimming import is_room_short, list_holders
from et_operator.planning.views import View
from et_operator.planning.yielding import count_waits

_OF_ONE = frozenset({ANNOTATION_AVOIDS, ANNOTATION_RETRIES})
"""Annotations that a template cannot give: each pod has its own."""
PROMISING = timedelta(seconds=60)
"""So long a new worker is taken for one that will run."""


def find_needed_names(view: View) -> tuple[str, ...]:
    """Names of objects that are yet to be created and that nobody else may hold."""
    needed = _find_missing_objects(view)
    is_launched = bool(view.status.launcher_uid) or view.launcher_name in needed
    return needed if is_launched else (*needed, view.launcher_name)


def create_all(draft: Draft) -> list[Action]:
    """Objects, config, workers and launcher, as far as they are missing or out of date.

    A right follows what it is on, and the config lists no worker before it (see publishing). No
    worker that leaves is kept waiting for what is refused.
    """
    view = draft.view
    missing = _find_missing_objects(view)
    if view.snapshot.borrowed or not view.snapshot.taken_names.isdisjoint(missing):
        return withdraw_rights(view)  # without one of these the pods could not work
    objects, config = create_objects(view), write_config(draft)
    if view.snapshot.config_object is None:
        objects, config = [*objects, *config], []
    has_rights = view.snapshot.role is not None and bool(view.snapshot.bindings)
    if view.snapshot.pods and (objects or not has_rights):
        # A job that has pods had these objects, too. Where some are missing the job itself may have
        # been deleted, and taken them with it: it is read live before any of them is made anew.
        draft.rest_on(TRAINING_JOBS, view.job.key.name)
    if any(respect_refusal(draft, action.subject) for action in objects):
        objects, config = config, objects
    pods, coming = create_pods(draft)
    return [*objects, *config, *pods, *grant_rights(view, coming)]


def create_objects(view: View) -> list[Action]:
    """The broker's account, the policy around the pods, the report, the runtime."""
    job, snapshot = view.job, view.snapshot
    actions: list[Action] = []
    is_own = find_account(job) == build_access_name(job.key.name)
    if snapshot.service_account is None and is_own:
        actions.append(Create(SERVICE_ACCOUNTS, build_service_account(job)))
    if snapshot.network_policy is None:
        actions.append(Create(NETWORK_POLICIES, build_network_policy(job)))
    if snapshot.report_object is None:
        actions.append(Create(CONFIG_MAPS, build_report_map(job)))
    return [*actions, *_create_runtime(view)]


def create_pods(draft: Draft) -> tuple[list[Action], list[str]]:
    """The launcher of the recorded epoch first, then workers; and the recorded names of these.

    While the launcher is yet to come, or finds no node for a while, no workers are created but
    those without which it could not start, and where pods were refused it is asked for alone: the
    others could use up its quota.
    """
    view, status = draft.view, draft.view.status
    runtime = status.runtime
    if runtime is None or not draft.has_runtime:
        return [], []
    if any(respect_refusal(draft, kind) for kind in (SECRETS, ROLES, ROLE_BINDINGS)):
        return [], []
    if _check_hold_up(draft):
        return [], []
    actions: list[Action] = []
    workers = _select_due(draft)
    if _check_launcher_due(draft):
        actions.append(_build_launcher(view, runtime))
        workers = workers if PODS not in view.snapshot.refusals else []
    elif view.is_launcher_missing or count_waits(draft):
        workers = workers[: max(draft.needed_workers - _count_promising(draft), 0)]
    actions += _create_workers(view, workers, runtime)
    if actions and has_keys(view.job) and not status.keys_secret:
        # the pods mount them by the name that comes back
        return [CreateKeys(build_keys(view.job))], []
    return actions, [record.name for record in workers]


def _find_missing_objects(view: View) -> tuple[str, ...]:
    job, snapshot = view.job.key.name, view.snapshot
    wanted = [
        (build_config_name(job), snapshot.config_object),
        (build_report_name(job), snapshot.report_object),
        (build_network_name(job), snapshot.network_policy),
    ]
    if find_account(view.job) == build_access_name(job):
        wanted.append((build_access_name(job), snapshot.service_account))
    if _is_runtime_missing(view):
        wanted.append((build_runtime_name(view.snapshot.shipped.runtime.digest), None))
    return tuple(name for name, found in wanted if found is None)


def note_keys(draft: Draft) -> None:
    """Record the Secret of keys that was made: from then on pods can mount it, and no other.

    Where the record is lost, the pods that are there still tell: new ones must understand them.
    What is gone tells nothing: it may be of another runtime (finishing._resume asks the same).
    """
    view = draft.view
    if draft.status.keys_secret:
        return
    mounted = (pod.keys_secret for pod in view.own_pods if not view.is_gone(pod))
    made = next(filter(None, mounted), view.snapshot.keys_secret)
    if made:
        draft.change(keys_secret=made)


def _check_hold_up(draft: Draft) -> bool:
    """Whether the launcher waits for room, or for another try: nobody else is to have that room.

    A refusal of other pods, as of growth, says nothing of the room that the last launcher has left.
    """
    view, refusal = draft.view, draft.view.snapshot.refusals.get(PODS)
    if not view.is_launcher_missing:
        return False
    if refusal is not None and refusal.name == view.launcher_name and respect_refusal(draft, PODS):
        return True
    return is_room_short(view) and bool(list_holders(draft))


def _select_due(draft: Draft) -> list[WorkerRecord]:
    """The workers that may be created now: one that leaves has its place until it is deleted.

    A refusal holds up those who were due by then: who takes a place that was lost since may have
    its room. Successors come last, so that a refusal of theirs stops nobody.
    """
    view = draft.view
    refusal = view.snapshot.refusals.get(PODS) if respect_refusal(draft, PODS) else None
    due = [
        record
        for record in view.status.workers
        if record.state is WorkerState.JOINING
        and not record.uid
        and record.name not in view.names
        and record.name not in view.snapshot.taken_names
        and check_due(draft, record)
        and not (refusal is not None and was_due(record, refusal.at))
    ]
    own = [record for record in due if not record.replaces]
    return [*own[: _count_room(draft)], *(record for record in due if record.replaces)]


def _count_room(standing: Standing) -> int | None:
    """How many may be created beside those that are there; a successor is one with its worker."""
    most, held = standing.spec.worker.max_replicas, {r.uid for r in standing.select_held()}
    there = sum(pod.uid not in held for pod in standing.view.live_workers)
    return None if most is None else max(most - there, 0)


def _build_launcher(view: View, runtime: Runtime) -> Create:
    launcher = build_launcher(
        view.job,
        view.spec,
        status=view.status,
        runtime=runtime,
        pull_secrets=view.snapshot.shipped.pull_secrets,
    )
    placement = find_placement(view.job)
    is_chosen = placement.launcher and not _is_restart(view)
    only = _select_staying(view, [placement.launcher]) if is_chosen else ()
    # required of any, this could keep it off its last node for ever (see planning/moving)
    required = view.call_hosts(view.avoided_nodes) if view.must_launcher_keep_off else ()
    disliked = view.call_hosts({*view.avoided_nodes, *find_disliked(view)})
    placed = place(launcher, only, dict.fromkeys((*placement.avoid, *required)))
    return Create(PODS, dislike(_note_avoided(view, placed), disliked))


def _note_avoided(view: View, pod: Json) -> Json:
    """The pod with the nodes that it keeps off, whatever its template says of that."""
    metadata, avoided = pod["metadata"], pack_avoided(view.avoided_nodes)
    annotations = {k: v for k, v in metadata["annotations"].items() if k not in _OF_ONE}
    annotations |= {ANNOTATION_AVOIDS: avoided} if avoided else {}
    return {**pod, "metadata": {**metadata, "annotations": annotations}}


def _check_launcher_due(draft: Draft) -> bool:
    view, status = draft.view, draft.view.status
    if not view.is_launcher_missing or view.awaited_launchers:
        return False
    if view.launcher_name in view.snapshot.taken_names or not can_launch(draft):
        return False
    return not back_off(draft, status.launch_backoff)


def _count_promising(draft: Draft) -> int:
    """The workers that run or may soon: beside one that does not come to it others are created."""
    roster = draft.select_roster()
    return sum(p.is_container_running or draft.wait_out(p.created, PROMISING) for p in roster)


def _create_workers(
    view: View, records: Collection[WorkerRecord], runtime: Runtime
) -> Iterator[Create]:
    """Workers differ in their metadata; all the rest is made once and shared by all of them."""
    if not records:
        return
    job, epoch = view.job, view.status.epoch
    common = build_worker(job, view.spec.worker, epoch=epoch, runtime=runtime)
    chosen, anywhere = _place_workers(view, _note_avoided(view, common))
    awaited = _select_awaited(view)
    for record in records:
        retries = {ANNOTATION_RETRIES: str(record.retries)} if record.retries else {}
        body = chosen if awaited is None or record.name in awaited else anywhere
        yield Create(PODS, call_worker(job, body, record.name, retries))


def _place_workers(view: View, worker: Json) -> tuple[Json, Json]:
    """The worker on the nodes that were chosen for a start or a growth, and as a replacement."""
    placement, worker = _narrow(view), dislike(worker, view.call_hosts(find_disliked(view)))
    chosen = place(worker, placement.only, placement.avoid)
    return chosen, place(worker, (), placement.avoid)


def _narrow(view: View) -> Placement:
    """What was chosen for workers, without what was said to end since, and with all that is."""
    placement, avoided = find_placement(view.job), view.call_hosts(view.avoided_nodes)
    if not avoided:
        return placement
    return Placement(
        placement.launcher,
        _select_staying(view, placement.only),
        tuple(dict.fromkeys((*placement.avoid, *avoided))),
    )


def _select_staying(view: View, chosen: Sequence[str]) -> tuple[str, ...]:
    """The hostnames whose nodes stay: of all that end, not of those that a pod is told of."""
    ending = set(view.call_hosts(view.ending_nodes)) if chosen else set()
    return tuple(name for name in chosen if name not in ending)


def _is_restart(view: View) -> bool:
    """Whether the job had a launcher in this admission: the nodes of its start may be gone."""
    return is_true(view.status.conditions, "Restarting")


def _select_awaited(view: View) -> frozenset[str] | None:
    """Names of workers that nodes were chosen for; None at a start, when it is all of them."""
    status = view.status
    if not status.launcher_uid and not _is_restart(view):
        return None
    scaling = status.scaling
    return frozenset(w.name for w in scaling.added) if scaling is not None else frozenset()


def _is_runtime_missing(view: View) -> bool:
    """Whether the job's runtime is to be created: it is the one that this operator ships."""
    runtime, shipped = view.status.runtime, view.snapshot.shipped
    if runtime is None or runtime.digest != shipped.runtime.digest:
        return False
    return build_runtime_name(runtime.digest) not in view.snapshot.runtimes


def _create_runtime(view: View) -> list[Action]:
    if not _is_runtime_missing(view):
        return []
    return [Create(CONFIG_MAPS, build_runtime(view.job.key.namespace, view.snapshot.shipped))]
