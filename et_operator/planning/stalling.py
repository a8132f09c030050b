"""A command that hangs, or leaves workers idle: how it is shown, and what its author wants done.

The broker says in its report what is wrong; here it is put into words for status.py. Acted upon is
only a command that hangs, after a wait, and only where driverStalledPolicy asks for it.
"""

from __future__ import annotations

from datetime import timedelta

from et_contract.documents import DRIVER_STALLED, NO_RING, RING_NOT_BROKEN, WORKERS_IDLE
from et_contract.names import build_report_name
from et_contract.starters import OTHER
from et_kube.resources import CONFIG_MAPS
from et_operator.model.commands import explain_alone, explain_joining, explain_surplus
from et_operator.model.conditions import find_condition
from et_operator.model.specs import AttachMode, JobSpec, StallPolicy
from et_operator.planning.drafts import Draft
from et_operator.planning.judging import Ending, Verdict
from et_operator.planning.leaving import doubt_time
from et_operator.planning.restarting import respond_to_failure
from et_operator.planning.stopping import fail
from et_operator.planning.views import View

STALL_PATIENCE = timedelta(seconds=60)
"""Between what is shown and what is done: horovodrun asks for no hosts while it looks for a worker
that does not answer, three times for 20 s (horovod/runner/common/util/network.py, `_probe_one`)."""


def describe_stall(view: View) -> str:
    """What the broker says of a command that hangs; "" where it does not."""
    return _find_problem(view, DRIVER_STALLED)


def describe_idle(view: View, spec: JobSpec) -> str:
    """What it says of workers in which the command runs nothing, and the cause, if that is known.

    Only of a command that is known to start its processes there, and through the broker. What its
    options tell is known of the one that runs while the template is the one that it was made from.
    """
    is_known = spec.launcher != OTHER and spec.attach_mode is AttachMode.KUBEXEC
    told = _find_problem(view, WORKERS_IDLE) if is_known else ""
    if not told or view.is_launcher_outdated:
        return told
    return f"{told}: {_explain_idle(spec, view.status.decided_replicas or 0)}"


def _explain_idle(spec: JobSpec, workers: int) -> str:
    if spec.is_alone:
        return explain_alone(spec)
    return explain_surplus(spec, workers) or explain_joining(spec)


def describe_ring(view: View) -> str:
    """What it says of ranks that run and form no ring, as they have told themselves."""
    return _find_problem(view, NO_RING)


def describe_unbroken(view: View) -> str:
    """What it says of a loss that met ranks in which nothing of ours ends a broken ring."""
    return _find_problem(view, RING_NOT_BROKEN)


def _find_problem(view: View, reason: str) -> str:
    report, pod = view.report, view.launcher
    if report is None or report.ended is not None or pod is None:
        return ""
    if pod.is_deleting or not view.is_launcher_running:
        return ""
    return report.problems.get(reason, "")


def check_stall(draft: Draft) -> None:
    """Restart the launcher or give the job up, where its author wants that and it is time."""
    policy, message = draft.spec.stall_policy, describe_stall(draft.view)
    shown = find_condition(draft.view.status.conditions, "DriverStalled")
    if policy is StallPolicy.IGNORE or not message or draft.spec.suspend:
        return
    if draft.status.is_suspended or shown is None or shown.status != "True":
        return
    since = shown.last_transition_time or draft.now
    if draft.wait_until(since + STALL_PATIENCE) or doubt_time(draft):
        return
    if policy is StallPolicy.FAIL:
        draft.rest_on(CONFIG_MAPS, build_report_name(draft.view.job.key.name))
        fail(draft, "DriverStalled", f"{message} (driverStalledPolicy Fail)")
    else:
        why = f"{message} (driverStalledPolicy Restart)"
        respond_to_failure(draft, Verdict(Ending.STALLED, "DriverStalled", why))
