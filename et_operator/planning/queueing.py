"""What is recorded of a job in a queue: what its pods ask for, and what it was told.

Who waits has its pods tried: what the server would create is what they ask for, and whom its job
may ask to give way. Until then its templates say the first, and nobody gives for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta

from et_contract.admissions import ADMITTED, NO_QUEUE, REFUSED, WAITING
from et_contract.pods import Role, build_worker_name
from et_kube.resources import Json
from et_kube.shaping import describe_shape
from et_operator.codec.fields import attempt
from et_operator.model.actions import Action, DryRun, Subject
from et_operator.model.admissions import Shapes
from et_operator.model.conditions import find_condition
from et_operator.model.names import build_access_name, build_keys_prefix
from et_operator.model.pods import Pod
from et_operator.model.snapshots import Proof
from et_operator.planning.admitting import is_held, is_queued
from et_operator.planning.drafts import Draft
from et_operator.planning.manifests.launcher import build_launcher
from et_operator.planning.manifests.workers import build_worker, call_worker
from et_operator.planning.refusing import tell_refusals
from et_operator.planning.standings import Standing

ANSWER_WITHIN = timedelta(seconds=30)
"""A scheduler that is there answers sooner."""
_ASKED = "et-scheduler was asked, and has not answered yet"
_UNASKED = "does not support dry run"
"""What the server says where a webhook of which it does not know that a question does nothing were
to be asked (k8s.io/apiserver, pkg/admission/plugin/webhook/errors): a creation may be all right."""
_PROOF = frozenset({"priority", "priorityClassName", "preemptionPolicy"})
_UNREADABLE = "what a pod of its templates requests cannot be read, correct its resources"
_UNANSWERED = "et-scheduler does not answer: is it installed, does it run (docs/operations.md)?"


def note_admission(draft: Draft) -> None:
    """Record what et-scheduler has said, or that it is asked.

    An admission is spent when it starts the job, when its author suspends the job, and when the job
    is in no queue.
    """
    job = draft.view.snapshot.job
    if not is_queued(job):
        _spend(draft)
        _note_no_queue(draft)
        return
    _note_shapes(draft)
    if is_held(job):
        _note_held(draft)
        return
    is_suspended_by_author = job.spec is not None and job.spec.suspend
    if draft.status.is_suspended and not is_suspended_by_author:
        return  # its last launcher may have something to tell: nothing is spent before a start
    _spend(draft)
    if is_suspended_by_author:
        draft.set_condition(
            ADMITTED, "False", "Suspended", "the job waits in no line while suspended"
        )
    else:
        message = f"the job may have {draft.spec.worker.replicas} workers"
        draft.set_condition(ADMITTED, "True", ADMITTED, message + _describe_edit(draft))


def _describe_edit(standing: Standing) -> str:
    """That another queue in the spec changes nothing yet: its author may wait for an effect."""
    admission, asked = standing.view.snapshot.job.admission, standing.spec.queue
    if admission is None or admission.queue in {"", asked}:
        return ""
    edit = f"spec.queue {asked}" if asked else "that spec.queue is left out"
    return f"; it stays in queue {admission.queue}: {edit} counts from its next admission"


def try_pods(draft: Draft) -> list[Action]:
    """Ask as what the pods of who waits would be created, once those of its last life have ended.

    What stays for its log holds nothing; and beside a worker that is overdue a job may start, by
    et-scheduler too, for nobody knows when that ends.
    """
    view, shapes = draft.view, draft.status.shapes
    told = find_condition(draft.status.conditions, ADMITTED)
    if not is_held(view.snapshot.job) or told is None:
        return []
    if shapes.is_proven if shapes is not None else told.reason != REFUSED:
        return []
    if any(_wait_for_end(draft, pod) for pod in view.own_pods):
        return []
    proofs = _select_proofs(draft)
    return [one for one in _build_trials(draft) if one.role not in proofs]


def _wait_for_end(draft: Draft, pod: Pod) -> bool:
    """Wait for the end of this pod if it is worth it: on a lost node too, a quota counts it there.

    A quota counts none whose grace is over. A launcher is waited for as long as it is there.
    """
    if pod.is_terminal:
        return False
    end = draft.view.find_overdue(pod) if pod.role is Role.WORKER else None
    return end is None or draft.wait_until(end)


def _build_trials(standing: Standing) -> Iterator[DryRun]:
    account = build_access_name(standing.view.job.key.name)
    for role, pod in _build_pods(standing):
        yield DryRun(role, _leave_unnamed(pod, account))


def _leave_unnamed(pod: Json, account: str) -> Json:
    """With the account of the namespace where it is to have one that comes with the job's start."""
    metadata, spec = dict(pod["metadata"]), dict(pod["spec"])
    metadata["generateName"] = f"{metadata.pop('name')}-"
    if spec.get("serviceAccountName") == account:
        del spec["serviceAccountName"]
    return {**pod, "metadata": metadata, "spec": spec}


def _spend(draft: Draft) -> None:
    """What was told by now starts the job in this pass or never."""
    admission = draft.view.snapshot.job.admission
    if admission is not None and admission.number > draft.status.admitted_number:
        draft.change(admitted_number=admission.number)


def _note_no_queue(draft: Draft) -> None:
    """Where it was in one, so that et-scheduler counts its pods as those of others."""
    told = find_condition(draft.status.conditions, ADMITTED)
    if told is not None:
        draft.set_condition(ADMITTED, "False", NO_QUEUE, "the job is in no queue")


def _note_held(draft: Draft) -> None:
    """Tell that the job waits, or why the server would not create its pods.

    Who comes back into the line is proven no more: what was to be had once may be used up.
    """
    told, shapes = find_condition(draft.status.conditions, ADMITTED), draft.status.shapes
    refusals, unanswered = _list_refused(draft)
    unasked = tell_refusals(draft, unanswered)
    if shapes is not None and (told is None or told.reason not in {WAITING, REFUSED}):
        pods = tuple({k: v for k, v in pod.items() if k not in _PROOF} for pod in shapes.pods)
        draft.change(shapes=replace(shapes, pods=pods))
    elif refused := tell_refusals(draft, refusals):
        draft.change(shapes=None)
        draft.set_condition(ADMITTED, "False", REFUSED, refused)
        return
    elif len(proofs := _select_proofs(draft)) == len(Role):
        pods = tuple({"role": role.value, **proofs[role].shape} for role in Role)
        draft.change(shapes=Shapes(pods, draft.spec.is_elastic))
    elif shapes is None and told is not None and told.reason == REFUSED:
        if not unasked:
            return  # it is tried again
        _record_shapes(draft)
    message = _describe_wait(draft)
    if unasked:
        message = f"{message}; nobody gives workers for it before its pods are tried: {unasked}"
    draft.set_condition(ADMITTED, "False", WAITING, message)


def _select_proofs(standing: Standing) -> Mapping[Role, Proof]:
    """The proofs of this spec, and of this wait.

    By a clock that is behind the beginning of the wait all is from before it, what was just
    answered too: the server would be asked again at once, until that clock has got there.
    """
    told = find_condition(standing.status.conditions, ADMITTED)
    generation = standing.view.job.generation
    since = told.last_transition_time if told is not None else None
    if since is not None and since > standing.now:
        since = None
    return {
        role: proof
        for role, proof in standing.view.snapshot.proofs.items()
        if proof.generation == generation and (since is None or proof.at >= since)
    }


def _list_refused(standing: Standing) -> tuple[list[Subject], list[Subject]]:
    """Pods of this spec that the server refuses; and those of which it could not say it."""
    refusals = standing.view.snapshot.refusals
    refused: list[Subject] = []
    unanswered: list[Subject] = []
    for trial in _build_trials(standing) if refusals else ():
        refusal = refusals.get(trial.subject)
        if refusal is not None and refusal.generation == standing.view.job.generation:
            is_answered = refusal.is_answered and _UNASKED not in refusal.message
            (refused if is_answered else unanswered).append(trial.subject)
    return refused, unanswered


def _describe_wait(draft: Draft) -> str:
    """Et-scheduler's own words, unless they are about an admission that was spent."""
    if draft.status.shapes is None:
        return _UNREADABLE
    job, told = draft.view.snapshot.job, find_condition(draft.status.conditions, ADMITTED)
    admission = job.admission
    if admission is not None and admission.message:
        return admission.message
    is_asked = told is not None and told.reason == WAITING
    since = told.last_transition_time if told is not None and is_asked else draft.now
    what = _ASKED if draft.wait_out(since, ANSWER_WITHIN) else _UNANSWERED
    return f"waits in queue {draft.spec.queue}: {what}"


def _note_shapes(draft: Draft) -> None:
    """Found anew where the spec has changed: et-scheduler plans with what is to be created next.

    And where a former operator, which may have read less, has left who waits without.
    """
    view, status = draft.view, draft.status
    told = find_condition(status.conditions, ADMITTED)
    is_edited = told is None or status.observed_generation != view.job.generation
    if is_edited or (status.shapes is None and told is not None and told.reason == WAITING):
        _record_shapes(draft)


def _record_shapes(draft: Draft) -> None:
    """What the templates say that its pods ask for."""
    roles = _build_pods(draft)
    pods, problem = attempt(
        lambda: tuple({"role": role.value, **describe_shape(pod)} for role, pod in roles), "spec"
    )
    if pods is not None:
        draft.change(shapes=Shapes(pods, draft.spec.is_elastic))
        return
    told = find_condition(draft.status.conditions, ADMITTED)
    is_edited = draft.status.observed_generation != draft.view.job.generation
    if is_edited or told is None or told.message != _UNREADABLE:
        draft.tell("ShapeUnknown", f"{_UNREADABLE}: {problem}", is_warning=True)
    if is_held(draft.view.snapshot.job):  # what runs has the shapes that it was admitted with
        draft.change(shapes=None)


def _build_pods(standing: Standing) -> tuple[tuple[Role, Json], ...]:
    """One of each role, as the operator would create it, with a name for keys yet to be made."""
    view, status = standing.view, standing.status
    keys = status.keys_secret or f"{build_keys_prefix(view.job.key.name)}tried"
    job = replace(view.job, status=replace(status, keys_secret=keys))
    runtime = status.runtime or view.snapshot.shipped.runtime
    pull_secrets = view.snapshot.shipped.pull_secrets
    launcher = build_launcher(
        job, standing.spec, status=status, runtime=runtime, pull_secrets=pull_secrets
    )
    common = build_worker(job, standing.spec.worker, epoch=status.epoch, runtime=runtime)
    worker = call_worker(job, common, build_worker_name(job.key.name, 0))
    return (Role.LAUNCHER, launcher), (Role.WORKER, worker)
