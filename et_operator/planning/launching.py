"""The launcher: when it may start, what its end means, and whether another one follows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from et_contract.documents import AHEAD
from et_contract.names import build_report_name
from et_kube.resources import CONFIG_MAPS, PODS
from et_operator.model.jobs import LauncherCreation, RestartPolicy
from et_operator.model.names import build_worker_selector
from et_operator.model.pods import Pod, Termination
from et_operator.model.texts import MAX_TAIL, keep_end
from et_operator.planning.attributing import TERMINATED, find_own_end, is_done, is_told_to_end
from et_operator.planning.drafts import Draft, count_failure
from et_operator.planning.excusing import find_lost, was_wanted
from et_operator.planning.finishing import fail, is_suspended
from et_operator.planning.scripting import is_script_done
from et_operator.planning.stopping import stop_scaling
from et_operator.planning.views import (
    View,
    is_cut_off,
    is_disrupted,
    is_failed_by_node,
    is_image_unfit,
    is_taken,
    is_unseen,
)

NEEDS_PYTHON = "the image needs python3 (3.7 or newer) in its PATH"
INFRASTRUCTURE_LIMIT = 20
"""Launchers in a row that may end through no fault of the command before the job is given up."""
TAKEN_LIMIT = 4
"""So far the waits grow (1, 2, 4, 8 s) after launchers that the platform took; see replacing.py."""
TELLING = timedelta(seconds=60)
"""So long after a launcher's container has ended its broker may still tell how the command did."""
FIRST_SIGNAL_CODE = 128
"""From here on an exit code means a signal, which RestartPolicy ExitCode takes as worth a retry."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How the launcher of the current epoch ended, or why it must.

    `code` is None when no container told; `is_retried` means whatever restartPolicy says.
    `is_own`: the command ended before anybody told it to, and not for a worker that was lost.
    `is_taken`: the platform wanted the launcher's place, which says nothing about the job.
    """

    reason: str
    message: str
    code: int | None = None
    is_success: bool = False
    is_own: bool = False
    is_infrastructure: bool = False
    is_taken: bool = False
    is_retried: bool = False


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


def judge_launcher(draft: Draft) -> Ending | None:
    """What the end of this epoch's launcher means; None while it has not ended.

    Without a usable spec nothing but a success is certain (see following.py).
    """
    view = draft.view
    uid = view.status.launcher_uid
    if not uid:
        return None
    pod = view.pods.get(uid)
    if pod is not None and view.is_awaited(pod):
        return None
    if is_done(view, pod):
        return Ending("LauncherSucceeded", "the user's command ended with 0", 0, is_success=True)
    if pod is not None and _is_about_to_tell(draft, pod):
        return None  # whether the command had ended before somebody told it to
    ending = _judge_end(draft, pod)
    if ending.is_success:
        rest_on_launcher(draft)  # its report may say that the command had been told to end
    return ending


def is_settling(draft: Draft) -> bool:
    """Whether this epoch's command has ended, and `judge_launcher` is soon to say what that means.

    Until then nothing gives the job up or puts the epoch away: it may have ended with 0. An end
    with 0 is told before its container is seen to end; any other may be no news by then.
    """
    view = draft.view
    pod = view.pods.get(view.status.launcher_uid)
    if pod is None:
        return False
    if view.is_awaited(pod):
        return view.report is not None and view.report.is_done
    return _is_about_to_tell(draft, pod)


def respond_to_failure(draft: Draft, ending: Ending) -> None:
    """Restart the launcher, or give the job up."""
    rest_on_launcher(draft)
    row = _count_end(draft, ending)
    failures = draft.status.failures
    if ending.is_infrastructure:
        draft.change(failures=replace(failures, infrastructure=failures.infrastructure + 1))
        if row > INFRASTRUCTURE_LIMIT:
            message = f"the platform ended {row} launchers in a row: {ending.message}"
            fail(draft, "InfrastructureFailures", message)
        else:
            restart(draft, ending)
        return
    draft.change(failures=replace(failures, user=failures.user + 1))
    if not (ending.is_retried or _is_worth_a_retry(draft.spec.restart_policy, ending.code)):
        fail(draft, ending.reason, ending.message)
    elif draft.status.failures.user > draft.spec.backoff_limit:
        limit = draft.spec.backoff_limit
        message = f"failed more often than backoffLimit {limit} allows: {ending.message}"
        fail(draft, "BackoffLimitExceeded", message)
    else:
        restart(draft, ending)


def rest_on_launcher(draft: Draft) -> None:
    """Somebody is blamed, or an end other than success recorded, only after live reads.

    Of the report, for the launcher's object may go, and be seen to go, before the news that its
    command had ended with 0, or had a worker that was lost; and of the launcher, where it is
    missing, for a list of pods may be older than the status that has its uid.
    """
    view = draft.view
    draft.rest_on(CONFIG_MAPS, build_report_name(view.job.key.name))
    if view.launcher is None:
        draft.rest_on(PODS, view.launcher_name)


def restart(draft: Draft, ending: Ending) -> None:
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
    draft.set_condition("Restarting", "True", ending.reason, ending.message)
    draft.tell("Restarting", f"restarting the launcher: {ending.message}", is_warning=True)


def can_launch(draft: Draft) -> bool:
    """Whether the workers that the launcher waits for, if it does, run."""
    if draft.spec.launcher_creation is LauncherCreation.AT_STARTUP:
        return True
    running = sum(pod.is_container_running for pod in draft.view.select_live_workers())
    return running >= draft.needed_workers


def _is_worth_a_retry(policy: RestartPolicy, code: int | None) -> bool:
    match policy:
        case RestartPolicy.NEVER:
            return False
        case RestartPolicy.EXIT_CODE:
            return code is not None and code >= FIRST_SIGNAL_CODE
        case RestartPolicy.ON_FAILURE | RestartPolicy.ALWAYS:
            return True


def _is_about_to_tell(draft: Draft, pod: Pod) -> bool:
    """Whether the broker of a launcher that has ended may still report its command's end.

    Not for ever: containers beside it may live on when the broker has gone.
    """
    report = draft.view.report
    has_told = report is not None and report.ended is not None
    if has_told or draft.view.is_silent(pod):
        return False
    ended = pod.termination.finished if pod.termination else None
    return draft.must_wait(ended or pod.deletion_requested or pod.created, TELLING)


def _count_end(draft: Draft, ending: Ending) -> int:
    """How many in a row the platform has ended with this one; 0 where that is no matter of it.

    The next launcher waits for ends of every kind; for one that was taken just a little.
    """
    before, row = draft.status.launch_backoff, draft.status.lost_launchers
    backoff = count_failure(before, draft.now)
    if ending.is_taken:
        most = max(before.count if before else 0, TAKEN_LIMIT)
        draft.change(launch_backoff=replace(backoff, count=min(backoff.count, most)))
        return 0
    row = count_failure(row, draft.now) if ending.is_infrastructure else None
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


def _judge_end(draft: Draft, pod: Pod | None) -> Ending:
    """Who caused the end of a launcher whose command was not told to have ended well.

    What the command did by itself is its own, whatever became of its pod since.
    """
    end = find_own_end(draft.view, pod)
    ending = _judge_pod(draft.view, pod) if end is None else _judge_exit(pod, end)
    is_by_template = end is None and pod is not None and is_cut_off(pod)
    if ending.is_success or ending.is_infrastructure or is_by_template:
        return ending
    lost = find_lost(draft, pod)
    if not lost:
        return replace(ending, is_own=end is not None)
    names = ", ".join(record.name for record in lost)
    message = f"{names} was lost, and {ending.message}"
    is_wanted = all(was_wanted(draft.view, record) for record in lost)
    return _lose("WorkerLost", message, is_taken=is_wanted)


def _judge_pod(view: View, pod: Pod | None) -> Ending:
    """The same as far as the pod shows it."""
    if pod is None:
        return _lose("LauncherDeleted", "the launcher pod was deleted", is_taken=True)
    if is_cut_off(pod):
        return _judge_end_by_template(pod, f"{pod.pod_reason}: {pod.pod_message}")
    if pod.termination is None or _is_ended_by_platform(view, pod):
        message = _describe_disruption(pod)
        return _lose("LauncherDisrupted", message, is_taken=is_taken(pod))
    if is_told_to_end(view):
        return _judge_end_by_template(pod, "SIGTERM, as of a probe that failed")
    return _judge_exit(pod, pod.termination)


def _is_ended_by_platform(view: View, pod: Pod) -> bool:
    """Whether its exit code, if it has one, is of the platform's doing.

    A SIGTERM of which nothing on the pod tells is that of its node as it goes down without a word,
    or of a probe that its template asks for.
    """
    if is_disrupted(pod) or is_failed_by_node(pod) or pod.pod_reason:
        return True
    return is_told_to_end(view) and (not pod.is_probed or view.is_node_sick(pod))


def _judge_end_by_template(pod: Pod, why: str) -> Ending:
    """What the author's own template has ended: a failure of the job, and no success by a 0.

    RestartPolicy ExitCode reads a SIGTERM, whatever the command made of it.
    """
    end = pod.termination
    how = f", and ended with exit code {end.exit_code}" if end else ""
    tail = keep_end(end.message.strip(), MAX_TAIL) if end else ""
    message = f"the launcher was told to end ({why}){how}" + (f": {tail}" if tail else "")
    return Ending("LauncherFailed", message, TERMINATED)


def _judge_exit(pod: Pod | None, end: Termination) -> Ending:
    if end.exit_code == 0:
        return Ending("LauncherSucceeded", "the user's command ended with 0", 0, is_success=True)
    tail = keep_end(end.message.strip(), MAX_TAIL)
    why = f" ({end.reason})" if end.reason not in {"", "Error"} else ""
    init = end.init_container
    who = f"the launcher's init container {init}" if init else "the launcher"
    message = f"{who} ended with exit code {end.exit_code}{why}" + (f": {tail}" if tail else "")
    if pod is not None and is_image_unfit(pod):
        return Ending("ImageUnfit", f"{message}; {NEEDS_PYTHON}", end.exit_code)
    reason = "InitContainerFailed" if init else "LauncherFailed"
    return Ending(reason, message, end.exit_code)


def _lose(reason: str, message: str, *, is_taken: bool = False) -> Ending:
    return Ending(reason, message, is_infrastructure=True, is_taken=is_taken)


def _describe_disruption(pod: Pod) -> str:
    end = pod.termination
    is_by_node = end is not None and (is_unseen(pod) or is_failed_by_node(pod))
    how, words = (end.reason, end.message) if end and is_by_node else ("ended from outside", "")
    why = pod.disruption_reason or pod.pod_reason or ("deleted" if pod.is_deleting else how)
    words = pod.pod_message or keep_end(words.strip(), MAX_TAIL)
    detail = f": {words}" if words else ""
    node = f" on node {pod.node}" if pod.node else ""
    return f"the launcher pod {pod.name} was disrupted{node} ({why}){detail}"
