"""What must exist before and for the pods, in the order in which it is created."""

from __future__ import annotations

from et_operator.model.actions import Action, Create, CreateKeys, Patch
from et_operator.model.jobs import Runtime, WorkerState
from et_operator.model.names import (
    build_access_name,
    build_config_name,
    build_network_name,
    build_report_name,
    build_runtime_name,
)
from et_operator.model.resources import (
    CONFIG_MAPS,
    NETWORK_POLICIES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    TRAINING_JOBS,
    Ref,
)
from et_operator.planning.drafts import Draft, is_refused, is_waiting
from et_operator.planning.launching import can_launch
from et_operator.planning.manifests.access import (
    build_report_map,
    build_role,
    build_role_binding,
    build_rules,
    build_service_account,
    find_account,
    list_exec_names,
)
from et_operator.planning.manifests.keys import build_keys, has_keys
from et_operator.planning.manifests.launcher import build_launcher
from et_operator.planning.manifests.networks import build_network_policy
from et_operator.planning.manifests.runtimes import build_runtime
from et_operator.planning.manifests.workers import build_worker, read_index
from et_operator.planning.publishing import write_config
from et_operator.planning.views import View


def find_needed_names(view: View) -> tuple[str, ...]:
    """Names of objects that are yet to be created and that nobody else may hold."""
    needed = _find_missing_objects(view)
    is_launched = bool(view.status.launcher_uid) or view.launcher_name in needed
    return needed if is_launched else (*needed, view.launcher_name)


def create_all(draft: Draft) -> list[Action]:
    """Access, config, workers and launcher, as far as they are missing or out of date."""
    view = draft.view
    if not view.snapshot.taken.isdisjoint(_find_missing_objects(view)):
        return []  # without one of these the pods could not work
    access = create_access(view)
    if access and view.snapshot.pods:  # it was there: its job may be gone, and it with it
        draft.rest_on(TRAINING_JOBS, view.job.key.name)
    return [*access, *write_config(draft), *create_pods(draft)]


def create_access(view: View) -> list[Action]:
    """The broker's account and rights, the policy around the pods, the report, the runtime."""
    job, snapshot = view.job, view.snapshot
    last = view.status.last_worker_index
    actions: list[Action] = []
    is_own = find_account(job) == build_access_name(job.key.name)
    if snapshot.service_account is None and is_own:
        actions.append(Create(SERVICE_ACCOUNTS, build_service_account(job)))
    if snapshot.role is None:
        actions.append(Create(ROLES, build_role(job, last)))
    elif not snapshot.role_names.issuperset(list_exec_names(job, last)):
        ref = Ref(ROLES, job.key.namespace, snapshot.role.name)
        body = {"rules": build_rules(job, last)}
        actions.append(Patch(ref, snapshot.role.uid, body, snapshot.role.resource_version))
    if snapshot.role_binding is None:
        actions.append(Create(ROLE_BINDINGS, build_role_binding(job)))
    if snapshot.network_policy is None:
        actions.append(Create(NETWORK_POLICIES, build_network_policy(job)))
    if snapshot.report_object is None:
        actions.append(Create(CONFIG_MAPS, build_report_map(job)))
    return [*actions, *_create_runtime(view)]


def create_pods(draft: Draft) -> list[Action]:
    """Workers whose names are recorded, then the launcher of the recorded epoch."""
    view, status = draft.view, draft.view.status
    runtime = status.runtime
    if runtime is None or not has_runtime(view, runtime):
        return []
    if is_refused(draft, PODS) or is_refused(draft, SECRETS):
        return []
    actions: list[Action] = [
        Create(PODS, _build_worker(draft, record.name, runtime))
        for record in status.workers
        if record.state is WorkerState.JOINING
        and not record.uid
        and record.name not in view.names
        and record.name not in view.snapshot.taken
    ]
    if _needs_launcher(draft):
        launcher = build_launcher(
            view.job,
            draft.spec,
            status=status,
            runtime=runtime,
            pull_secrets=view.snapshot.shipped.pull_secrets,
        )
        actions.append(Create(PODS, launcher))
    return [*_create_keys(draft), *actions] if actions else []


def has_runtime(view: View, runtime: Runtime) -> bool:
    """Whether the pinned runtime is in the namespace or can be put there."""
    name = build_runtime_name(runtime.digest)
    is_shipped = runtime.digest == view.snapshot.shipped.runtime.digest
    return is_shipped or name in view.snapshot.runtimes


def _find_missing_objects(view: View) -> tuple[str, ...]:
    job, snapshot = view.job.key.name, view.snapshot
    access = [snapshot.role, snapshot.role_binding]
    if find_account(view.job) == build_access_name(job):
        access.append(snapshot.service_account)
    wanted = {
        build_config_name(job): snapshot.config_object,
        build_report_name(job): snapshot.report_object,
        build_network_name(job): snapshot.network_policy,
        build_access_name(job): None if None in access else access[0],
    }
    return tuple(name for name, found in wanted.items() if found is None)


def _create_keys(draft: Draft) -> list[Action]:
    """Before every pod that mounts them: nobody may look whether they are there."""
    return [CreateKeys(build_keys(draft.view.job))] if has_keys(draft.view.job) else []


def _needs_launcher(draft: Draft) -> bool:
    view, status = draft.view, draft.view.status
    if status.launcher_uid or view.launcher is not None:
        return False
    if view.launcher_name in view.snapshot.taken or not can_launch(draft):
        return False
    return not is_waiting(draft, status.launch_backoff)


def _build_worker(draft: Draft, name: str, runtime: Runtime) -> dict[str, object]:
    view, status = draft.view, draft.view.status
    index = read_index(view.job.key.name, name)
    worker = draft.spec.worker
    return dict(build_worker(view.job, worker, index, epoch=status.epoch, runtime=runtime))


def _create_runtime(view: View) -> list[Action]:
    runtime = view.status.runtime
    shipped = view.snapshot.shipped
    if runtime is None or runtime.digest != shipped.runtime.digest:
        return []
    if build_runtime_name(runtime.digest) in view.snapshot.runtimes:
        return []
    return [Create(CONFIG_MAPS, build_runtime(view.job.key.namespace, shipped))]
