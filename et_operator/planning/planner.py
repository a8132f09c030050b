"""What to do about one job: the list of cases, in the order in which they are looked at.

A pass either records decisions or acts, never both: what was decided is written to the job's
status, and the next pass acts upon it because the cluster has it. So an operator that dies between
any two writes leaves behind either nothing or a decision that its successor carries out.
"""

from __future__ import annotations

from datetime import datetime

from et_kube.resources import PODS, TRAINING_JOBS
from et_operator.model.actions import Action, DryRun
from et_operator.model.plans import Plan
from et_operator.model.snapshots import Snapshot
from et_operator.planning.answering import answer_scalings, plan_orphans
from et_operator.planning.creating import create_all, note_keys
from et_operator.planning.drafts import Draft, hold_back
from et_operator.planning.excusing import note_shortage
from et_operator.planning.finishing import (
    check_deadline,
    check_suspension,
    clean_up,
    delete_all,
    delete_job,
    restore_end_time,
    wait_to_resume,
)
from et_operator.planning.following import follow
from et_operator.planning.granting import withdraw_unused
from et_operator.planning.judging import (
    Ending,
    Verdict,
    await_told_end,
    await_verdict,
    judge_launcher,
    note_launcher,
    rest_on_launcher,
)
from et_operator.planning.launching import begin, restore
from et_operator.planning.leaving import delete_leavers, watch_drains
from et_operator.planning.lingering import delete_lingering_launcher
from et_operator.planning.membership import keep_roster, note_workers
from et_operator.planning.moving import delete_moved_launcher, note_move
from et_operator.planning.publishing import number_config
from et_operator.planning.queueing import note_admission, try_pods
from et_operator.planning.renewing import delete_outdated_launcher
from et_operator.planning.replacing import check_hopeless
from et_operator.planning.replicas import write_replicas
from et_operator.planning.restarting import respond_to_failure
from et_operator.planning.scaling import advance_scaling, put_away_scaling
from et_operator.planning.stalling import check_stall
from et_operator.planning.standings import Standing
from et_operator.planning.status import check_worth_writing, describe
from et_operator.planning.stopping import fail, succeed
from et_operator.planning.trimming import delete_old_failures
from et_operator.planning.views import View
from et_operator.planning.yielding import yield_room

__all__ = ["plan", "plan_orphans"]


def plan(snapshot: Snapshot, now: datetime) -> Plan:
    """What to write about this job now, and when to look again without being called.

    Promises: the same snapshot and time give the same plan; nothing is concluded from an
    incomplete view; applied again and again to a cluster that stands still, it becomes empty.
    """
    draft = Draft(snapshot, now)
    if snapshot.complete_since is None or draft.view.is_left_alone:
        return Plan()
    draft.wake_for_overdue()
    decide(draft)
    if draft.has_decided:
        describe(draft)
        events, premises = tuple(draft.events), draft.list_premises()
        return Plan(draft.status, (), events, draft.requeue_after, premises)
    actions = hold_back(draft, act(draft))
    if is_about_pods(actions):  # which rest on the status, and pin nothing of it
        draft.rest_on(TRAINING_JOBS, snapshot.job.key.name)
    premises = draft.list_premises()
    answers = tuple(draft.events)
    describe(draft)
    if is_about_job(actions) or not check_worth_writing(draft, touches_pods=is_about_pods(actions)):
        return Plan(None, actions, answers, draft.requeue_after, premises)
    events = tuple(draft.events)
    return Plan(draft.status, actions, events, draft.requeue_after, premises)


def decide(draft: Draft) -> None:
    """Change the draft's status where something is to be recorded before it is acted upon."""
    if draft.status.has_finished:
        restore_end_time(draft)
        put_away_scaling(draft)
    elif draft.view.job.deletion_requested:
        conclude_deleted(draft)
    elif draft.view.is_only_followed:
        follow(draft)
    else:
        decide_live(draft)


def decide_live(draft: Draft) -> None:
    """Decide for a job that has not ended and is ours to run."""
    # first: no rule below does without what it restores
    restore(draft)
    # before whatever begins a next epoch: for that one this launcher must not be noted
    note_launcher(draft)
    # before all that may give the job up or pause it: a command that ended with 0 has succeeded
    if conclude_launcher(draft):
        return
    # before a suspension ends its broker: what that tells within a minute is judged first
    if draft.spec.suspend and not draft.status.is_suspended and await_told_end(draft):
        return
    # after that: what has ended does not hang; it may put the epoch away, or fail the job
    check_stall(draft)
    if draft.status.has_finished:
        return
    # once the job is known to go on: what has ended is neither suspended nor resumed
    go_on_or_pause(draft)
    # after that, for a resume is a start, and an admission is spent by one
    note_admission(draft)
    # the rest is about pods, and a suspended job has none: of a scaling only the number changes
    if draft.status.is_suspended:
        advance_scaling(draft)
        return
    # before pods are decided: all of them mount the same keys
    note_keys(draft)
    # before workers are looked at: it decides how many there are to be, and of which epoch
    if draft.status.epoch == 0:
        begin(draft)
    # before whatever counts workers: who is lost is none of them
    vacancies = note_workers(draft)
    # right after the losses, of which one may have begun it
    note_shortage(draft)
    # after the losses, by which it is judged: nothing more is decided for who is given up
    if not await_verdict(draft) and (check_hopeless(draft, vacancies) or check_deadline(draft)):
        rest_on_launcher(draft)
        return
    # before the roster is filled: it says how many there are to be, and who leaves for that
    advance_scaling(draft)
    # after it, for it counts from the number that holds now, and spares whom a scaling has chosen
    yield_room(draft)
    # after all who may have begun to leave, but for those who are surplus: these may wait a pass
    watch_drains(draft)
    # after the workers, with whom what is said was noted; before the config, which has its script
    note_move(draft)
    # after all that changed the number or let somebody leave: it fills or drops what is left over
    keep_roster(draft, vacancies)
    # last: the config says what was decided above
    number_config(draft)


def conclude_launcher(draft: Draft) -> bool:
    """Record what the launcher's end means; whether the job has ended with it."""
    verdict = judge_launcher(draft)
    if verdict is None:
        return False
    if verdict.ending is Ending.SUCCEEDED:
        succeed(draft, verdict.message)
    elif draft.status.completion_time is not None:
        rest_on_launcher(draft)
        fail(
            draft, "RecordLost", f"it had ended, and somebody removed the record: {verdict.message}"
        )
    elif _is_its_own(draft, verdict):
        respond_to_failure(draft, verdict)
    return draft.status.has_finished


def _is_its_own(standing: Standing, verdict: Verdict) -> bool:
    """Whether an end is none that a suspension, of now or to come, may have caused or undoes."""
    if standing.status.is_suspended:
        return verdict.ending is Ending.FAILED
    return verdict.ending.is_failure or not standing.spec.suspend


def go_on_or_pause(draft: Draft) -> None:
    """Suspend or resume as its author wants; a resume waits until the last launcher's end is known.

    It puts that launcher's epoch away, and what its broker tells with it; and the next one would
    end what the command still does in workers, as to save its state.
    """
    if draft.status.is_suspended and not draft.spec.suspend:
        if draft.view.awaited_launchers or await_verdict(draft):
            wait_to_resume(draft)
            return
        rest_on_launcher(draft)
    check_suspension(draft)


def conclude_deleted(draft: Draft) -> None:
    """Once it is stopped, record the end of a job that is being deleted and has not gone yet.

    Somebody's finalizer holds it, and may wait for just that.
    """
    note_launcher(draft)
    view, verdict = draft.view, judge_launcher(draft)
    if verdict is not None and verdict.ending is Ending.SUCCEEDED:
        succeed(draft, verdict.message)
        return
    is_untold = verdict is None and bool(draft.status.launcher_uid)
    if view.awaited_launchers or is_untold or view.job.unread:
        return
    rest_on_launcher(draft)
    if verdict is not None and verdict.ending.is_failure and not _is_after_deletion(view):
        fail(draft, verdict.reason, verdict.message)
    else:
        fail(draft, "Deleted", "the job was deleted before its command had ended")


def _is_after_deletion(view: View) -> bool:
    """Whether the launcher ended when its job was being stopped, workers perhaps before it."""
    end = view.launcher.termination if view.launcher is not None else None
    finished, asked = end.finished if end is not None else None, view.job.deletion_requested
    return finished is not None and asked is not None and finished > asked


def act(draft: Draft) -> list[Action]:
    """Carry out what the observed status says. An action that fails stops those after it.

    So what frees resources comes first, what others may refuse after it, and a pod after all that
    it needs.
    """
    view = draft.view
    if view.status.has_finished:
        return [
            *clean_up(draft),
            *withdraw_unused(draft),
            *write_replicas(view),
            *answer_scalings(draft),
            *delete_job(draft),
        ]
    if view.job.deletion_requested:
        return [*delete_all(view), *answer_scalings(draft)]
    if view.is_only_followed:
        return answer_scalings(draft)
    if view.status.is_suspended:
        return [
            *delete_all(view),
            *withdraw_unused(draft),
            *write_replicas(view),
            *try_pods(draft),
            *answer_scalings(draft),
        ]
    return [
        *delete_leavers(draft),
        *delete_old_failures(draft),
        *(
            delete_lingering_launcher(draft)
            or delete_outdated_launcher(draft)
            or delete_moved_launcher(draft)
        ),
        *write_replicas(view),
        *create_all(draft),
        *answer_scalings(draft),
    ]


def is_about_job(actions: tuple[Action, ...]) -> bool:
    """Whether an action needs the job as it was seen: a status write would make it another one."""
    return any(action.ref.resource == TRAINING_JOBS for action in actions)


def is_about_pods(actions: tuple[Action, ...]) -> bool:
    """Whether numbers of pods are about to change by our own doing."""
    return any(action.ref.resource == PODS and not isinstance(action, DryRun) for action in actions)
