"""The launcher: when it may start, and whether another one follows when it has ended."""

from __future__ import annotations

from dataclasses import replace

from et_contract.documents import AHEAD
from et_kube.resources import PODS
from et_operator.model.jobs import LauncherCreation, RestartPolicy
from et_operator.model.names import build_worker_selector
from et_operator.planning.drafts import Draft, count_failure
from et_operator.planning.finishing import fail, is_suspended
from et_operator.planning.judging import Ending, Verdict, rest_on_launcher
from et_operator.planning.scripting import is_script_done
from et_operator.planning.stopping import stop_scaling
from et_operator.planning.views import View

INFRASTRUCTURE_LIMIT = 20
"""Launchers in a row that may end through no fault of the command before the job is given up."""
TAKEN_LIMIT = 4
"""So far the waits grow (1, 2, 4, 8 s) after launchers that the platform took; see replacing.py."""
FIRST_SIGNAL_CODE = 128
"""From here on an exit code means a signal, which RestartPolicy ExitCode takes as worth a retry."""


def begin(draft: Draft) -> None:
    """The first decision about a job: what it runs, and that its first launcher comes.

    Where somebody removed the status of a job whose last launcher has ended, the next pass judges
    that end; where it lives, the next one comes when it has ended.
    """
    epoch, ended = _find_last_launcher(draft.view)
    draft.change(
        generation=draft.view.written_generation,
        epoch=epoch if ended else epoch + 1,
        launcher_uid=ended,
        runtime=draft.view.snapshot.shipped.runtime,
        start_time=draft.now,
        selector=build_worker_selector(draft.view.job.key.name),
        decided_replicas=draft.spec.worker.replicas,
    )
    draft.set_condition("Created", "True", "TrainingJobCreated", "the job was accepted")
    draft.tell("Created", f"starting {draft.spec.worker.replicas} workers and the launcher")
    for warning in draft.view.job.warnings:
        draft.tell("SpecWarning", warning, is_warning=True)


def restore(draft: Draft) -> None:
    """Decide anew what others have removed from the status and no pass can do without.

    Without its number all workers would be surplus; without its runtime no pod is created.
    """
    status, scaling = draft.status, draft.status.scaling
    if status.epoch and status.runtime is None:
        draft.change(runtime=draft.view.snapshot.shipped.runtime)
    if status.decided_replicas is None and (status.epoch or is_suspended(status)):
        is_going_on = scaling is not None and scaling.outcome is None
        wanted = draft.spec.worker.replicas
        draft.change(decided_replicas=scaling.target if scaling and is_going_on else wanted)


def note_launcher(draft: Draft) -> None:
    """Remember the launcher's uid, so that one that vanishes is known to have been there.

    One that vanished before anybody looked is known from its report. Not where a part of the status
    cannot be read, which may be just that.
    """
    view = draft.view
    if view.job.unread or draft.status.launcher_uid:
        return
    uid = view.launcher.uid if view.launcher is not None else _find_vanished_launcher(view)
    if view.launcher is None and uid:
        draft.rest_on(PODS, view.launcher_name)
    if uid:
        draft.change(launcher_uid=uid)


def respond_to_failure(draft: Draft, verdict: Verdict) -> None:
    """Restart the launcher, or give the job up."""
    rest_on_launcher(draft)
    row = _count_end(draft, verdict.ending)
    failures = draft.status.failures
    if not verdict.ending.is_failure:
        draft.change(failures=replace(failures, infrastructure=failures.infrastructure + 1))
        if row > INFRASTRUCTURE_LIMIT:
            message = f"the platform ended {row} launchers in a row: {verdict.message}"
            fail(draft, "InfrastructureFailures", message)
        else:
            restart(draft, verdict)
        return
    draft.change(failures=replace(failures, user=failures.user + 1))
    if not _is_worth_a_retry(draft.spec.restart_policy, verdict):
        fail(draft, verdict.reason, verdict.message)
    elif draft.status.failures.user > draft.spec.backoff_limit:
        limit = draft.spec.backoff_limit
        message = f"failed more often than backoffLimit {limit} allows: {verdict.message}"
        fail(draft, "BackoffLimitExceeded", message)
    else:
        restart(draft, verdict)


def restart(draft: Draft, verdict: Verdict) -> None:
    """Replace the launcher alone: the next epoch ends the sessions of this one."""
    scaling = draft.status.scaling
    if scaling is not None and scaling.script is not None:
        live = draft.view.find_scaling(scaling)
        if not is_script_done(scaling, live):  # it may have run in part, and must not run twice
            stop_scaling(draft, "LauncherEnded", "the launcher ended before the script had")
    draft.change(
        epoch=draft.status.epoch + 1,
        launcher_uid="",
        restart_count=draft.status.restart_count + 1,
    )
    draft.set_condition("Restarting", "True", verdict.reason, verdict.message)
    draft.tell("Restarting", f"restarting the launcher: {verdict.message}", is_warning=True)


def can_launch(draft: Draft) -> bool:
    """Whether the workers that the launcher waits for, if it does, run."""
    if draft.spec.launcher_creation is LauncherCreation.AT_STARTUP:
        return True
    running = sum(pod.is_container_running for pod in draft.view.select_live_workers())
    return running >= draft.needed_workers


def _is_worth_a_retry(policy: RestartPolicy, verdict: Verdict) -> bool:
    if verdict.ending is Ending.STALLED:
        return True
    match policy:
        case RestartPolicy.NEVER:
            return False
        case RestartPolicy.EXIT_CODE:
            return verdict.code is not None and verdict.code >= FIRST_SIGNAL_CODE
        case RestartPolicy.ON_FAILURE | RestartPolicy.ALWAYS:
            return True


def _count_end(draft: Draft, ending: Ending) -> int:
    """How many in a row the platform has ended with this one; 0 where that is no matter of it.

    The next launcher waits for ends of every kind; for one that was taken just a little.
    """
    before, row = draft.status.launch_backoff, draft.status.lost_launchers
    backoff = count_failure(before, draft.now)
    if ending is Ending.TAKEN:
        most = max(before.count if before else 0, TAKEN_LIMIT)
        draft.change(launch_backoff=replace(backoff, count=min(backoff.count, most)))
        return 0
    row = count_failure(row, draft.now) if ending is Ending.LOST else None
    draft.change(launch_backoff=backoff, lost_launchers=row)
    return row.count if row else 0


def _find_last_launcher(view: View) -> tuple[int, str]:
    """(epoch, uid if it has ended, else ""); the epoch of a new job is 0.

    A report is somebody's word that it has ended, and whoever may create ConfigMaps can have put it
    there before us. A job that had a launcher has a Role too, which nobody else can have made.
    """
    config, report, pods = view.snapshot.config, view.snapshot.report, view.snapshot.pods
    told = report.epoch if report else 0
    known = (p.epoch or 0 for p in pods)  # in a worker's label, which others may write
    epoch = max(config.epoch if config else 0, told, *(n for n in known if n <= AHEAD), 0)
    for pod in view.launchers:
        if epoch and pod.epoch == epoch:
            return epoch, pod.uid if pod.termination is not None else ""
    if report is None or report.ended is None or report.epoch != epoch:
        return epoch, ""
    return epoch, report.launcher_uid if view.snapshot.role is not None else ""


def _find_vanished_launcher(view: View) -> str:
    """The uid of a launcher of this epoch that nobody has noted; "" where there was none.

    A report of this very epoch tells of it. Whoever may create ConfigMaps can have put one there
    before the job had pods, but not with uids of its workers in it.
    """
    report = view.snapshot.report
    if report is None or not view.status.epoch or report.epoch != view.status.epoch:
        return ""
    return "" if report.listed.isdisjoint(view.members) else report.launcher_uid
