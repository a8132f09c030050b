"""The rights of a job's broker: on what is there and is the job's own, and no longer than that.

A Role knows names alone. So each name in it is that of an object which the job is known to own, or
which an action before it in the same plan creates: where that name is somebody else's, the plan
ends there and nothing is granted.
"""

from __future__ import annotations

from collections.abc import Iterable

from et_contract.pods import Role, is_called
from et_kube.resources import ROLE_BINDINGS, ROLES, Ref
from et_operator.model.actions import Action, Create, SetAccounts, SetRights
from et_operator.model.rights import Rights
from et_operator.model.snapshots import Child
from et_operator.model.statuses import WorkerState
from et_operator.planning.drafts import Draft
from et_operator.planning.manifests.access import (
    build_no_rights,
    build_rights,
    build_role,
    build_role_binding,
    find_account,
)
from et_operator.planning.manifests.keys import has_keys
from et_operator.planning.trimming import TOLD_WITHIN, check_outlived_by
from et_operator.planning.views import View

MOST_STALE = 32
"""Names of workers that have gone leave the Role together, once no worker comes or goes any more;
where that does not end, when there are more than so many of them."""


def grant_rights(view: View, coming: Iterable[str] = ()) -> list[Action]:
    """The Role and its binding, for the workers that are there and the names that are `coming`."""
    job, role = view.job, view.snapshot.role
    workers = find_own_workers(view, coming)
    actions: list[Action] = []
    if role is None:
        actions.append(Create(ROLES, build_role(job, workers)))
    elif _must_change(view, workers):
        actions.append(_set_rights(view, role, build_rights(job, workers)))
    return [*actions, *_bind(view), *_withdraw_spare(view)]


def find_accounts(view: View) -> frozenset[str]:
    """Whose the rights are: of this launcher's account, and of the next one's in the template."""
    pod = view.pods.get(view.status.launcher_uid)
    is_alive = pod is not None and pod.account and not view.is_gone(pod)
    return frozenset({find_account(view.job), *((pod.account,) if pod and is_alive else ())})


def withdraw_rights(view: View) -> list[Action]:
    """A Role that grants nothing, where there is one with rights."""
    role = view.snapshot.role
    if role is None or not view.snapshot.role_names:
        return _withdraw_spare(view)
    return [_set_rights(view, role, build_no_rights(view.job)), *_withdraw_spare(view)]


def withdraw_unused(draft: Draft) -> list[Action]:
    """Withdraw the rights of a job at rest, once no broker has anything left to tell."""
    launchers = draft.view.launchers
    is_unused = all(
        pod.is_terminal or check_outlived_by(draft, pod, TOLD_WITHIN) for pod in launchers
    )
    return withdraw_rights(draft.view) if is_unused else []


def find_own_workers(view: View, coming: Iterable[str] = ()) -> frozenset[str]:
    """The workers whose agents the broker may reach; none where ssh does that."""
    if has_keys(view.job):
        return frozenset()
    records = view.status.workers
    idle = {r.uid for r in records if r.state is WorkerState.LEAVING and r.generation is None}
    # the same plan may delete the others, and then their names are anybody's
    names = {pod.name for pod in view.workers if not pod.has_ended and pod.uid not in idle}
    # a pod that somebody else made and gave to the job may be called like anything
    job = view.job.key.name
    return frozenset(name for name in names.union(coming) if is_called(name, job, Role.WORKER))


def _bind(view: View) -> list[Action]:
    role, bindings = view.snapshot.role, view.snapshot.bindings
    accounts = find_accounts(view)
    if role is None:
        return []  # the binding names it, and its name comes with it
    if not bindings:
        return [Create(ROLE_BINDINGS, build_role_binding(view.job, role.name, accounts))]
    return [
        SetAccounts(
            Ref(ROLE_BINDINGS, view.job.key.namespace, binding.name),
            binding.uid,
            binding.resource_version,
            accounts,
        )
        for binding, bound in bindings.items()
        if bound != accounts
    ]


def _must_change(view: View, workers: frozenset[str]) -> bool:
    wanted = build_rights(view.job, workers).names
    held = view.snapshot.role_names
    stale = len(held - wanted)
    return not held >= wanted or stale > MOST_STALE or (stale > 0 and _is_steady(view))


def _is_steady(view: View) -> bool:
    """Whether no worker is about to come or to go."""
    records = view.status.workers
    is_one_unborn = any(r.state is WorkerState.JOINING and not r.uid for r in records)
    return not is_one_unborn and not any(pod.is_deleting for pod in view.workers)


def _withdraw_spare(view: View) -> list[Action]:
    """Nobody keeps a Role up to date that is not the one, and it may be bound too."""
    rights = build_no_rights(view.job)
    return [_set_rights(view, role, rights) for role in view.snapshot.spare_roles]


def _set_rights(view: View, role: Child, rights: Rights) -> SetRights:
    ref = Ref(ROLES, view.job.key.namespace, role.name)
    return SetRights(ref, role.uid, role.resource_version, rights)
