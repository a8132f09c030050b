"""Scripts of scalings: at most one attempt at a time, each at most once.

Orders go to the broker in the config, results come in its report; no script is run here. What an
author of scalings may have run is decided here too, by what the job's author allows.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

from et_contract.documents import ScriptOrder
from et_contract.frames import ANSWER_SECONDS
from et_operator.model.names import ANNOTATION_SCRIPTS
from et_operator.model.scalings import Scaling
from et_operator.model.scripts import DEFAULT_TIMEOUT, is_path
from et_operator.model.specs import JobSpec, ScriptRight
from et_operator.model.statuses import ScalingRecord, ScriptAttempt
from et_operator.model.texts import cut
from et_operator.planning.drafts import Draft
from et_operator.planning.views import View
from et_operator.planning.waiting import PAUSE

_ANSWER_TIME = timedelta(seconds=ANSWER_SECONDS)
"""So long after its time-out an attempt without a result is taken as failed."""
MAX_OUTPUT = 4096
"""Bytes, as JSON, of what is kept of a script's output."""
TIMED_OUT = 124
"""The code that stands for an attempt that was ended by its time-out or never answered."""
_STEERING = re.compile(
    r"PATH|ENV|IFS|CDPATH|SHELLOPTS|SHELL|PS4|HOME|TMPDIR|GCONV_PATH|LOCPATH|NLSPATH|HOSTALIASES"
    r"|ZDOTDIR|EDITOR|VISUAL|PAGER|GREP|CLASSPATH|GLIBC_TUNABLES|WGETRC|.*(?:_RSH|_ASKPASS|_PROXY)"
    r"|(?:LD_|DYLD_|PYTHON|BASH|PERL|RUBY|NODE_|GIT_|EDL_|KUBERNETES_|LUA_|PHP|TCL|JULIA_|LESS"
    r"|DOTNET_|CORECLR_|OPENSSL_|SSL_|CURL_|XDG_|OMPI_|PMIX_|PRTE_|HOROVOD_|NCCL_).*"
    r"|(?>.*?JAVA).*OPT(?:ION)?S"  # (?>...): the first JAVA alone, or each one in a long name
)
"""Variables that make a shell, a linker, an interpreter, a launcher or us run something else."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def find_script_refusal(spec: JobSpec, scaling: Scaling) -> str:
    """Why this job does not run the scaling's script, and what its author can do; "" if it does.

    Who may create scalings need not be who may run code in the launcher: a script is a file that
    is there, and a variable, or an argument, can make another program of many a file.
    """
    if not scaling.script or spec.scripts is ScriptRight.SHELL:
        return ""
    if not is_path(scaling.script):
        what, right = "a script is the absolute path of a file here", ScriptRight.SHELL
    elif scaling.env and spec.scripts is ScriptRight.FILES:
        what, right = "a script is run without env here", ScriptRight.ENVIRONMENT
    elif steering := [name for name, _ in scaling.env if _is_steering(name)]:
        what, right = f"env may not have {', '.join(steering[:3])} here", ScriptRight.SHELL
    else:
        return ""
    return (
        f'{what}; the job\'s author allows it with the annotation {ANNOTATION_SCRIPTS}: "{right}"'
    )


def _is_steering(name: str) -> bool:
    return not _VARIABLE.fullmatch(name) or _STEERING.fullmatch(name.upper()) is not None


def advance_script(
    draft: Draft, record: ScalingRecord, live: Scaling | None, *, is_due: bool
) -> None:
    """Record the next attempt when it is due, or the result of the last one."""
    if live is None or not live.script:
        return
    attempt = record.script
    if attempt is None:
        if is_due:
            _keep(draft, ScriptAttempt(1, draft.now))
    elif attempt.code is None:
        _await_result(draft, record, attempt, live)
    elif attempt.code != 0 and attempt.number <= live.backoff_limit:
        _try_again(draft, attempt)


def close_script(view: View, record: ScalingRecord) -> tuple[ScalingRecord, str]:
    """The record as it ends, whatever ends it, and what is to be said of a script without an end.

    Without an attempt that is in no config: nobody was ever told to start it. "" where there is
    no script, or where its newest attempt has a result, which is told by itself.
    """
    attempt, live = record.script, view.find_scaling(record)
    if live is None or not live.script or (attempt is not None and attempt.code is not None):
        return record, ""
    if attempt is not None and _may_be_ordered(view, record, attempt, live):
        return record, "whether its script has run is not known"
    if attempt is None or attempt.number == 1:
        return replace(record, script=None), "its script was not run"
    former = replace(attempt, number=attempt.number - 1)
    return replace(record, script=former), "its script was not tried again"


def _may_be_ordered(
    view: View, record: ScalingRecord, attempt: ScriptAttempt, live: Scaling
) -> bool:
    """Whether a config has, or may have had, this attempt.

    One that is missing cannot tell, nor one from which orders went because their right did.
    """
    config, spec = view.snapshot.config, view.job.spec
    if config is None or spec is None or find_script_refusal(spec, live):
        return True
    return build_order_id(record, attempt) in {order.id for order in config.scripts}


def has_failed_for_good(record: ScalingRecord, live: Scaling) -> bool:
    """Whether the last attempt that backoffLimit allows has failed."""
    attempt = record.script
    if attempt is None or attempt.code in {None, 0}:
        return False
    return attempt.number > live.backoff_limit


def build_orders(view: View, record: ScalingRecord | None) -> tuple[ScriptOrder, ...]:
    """The current attempt, for the config; nothing where none waits for its result."""
    if record is None or record.script is None or record.outcome is not None:
        return ()
    live = view.find_scaling(record)
    spec = view.job.spec
    if live is None or spec is None or record.script.code is not None:
        return ()
    if find_script_refusal(spec, live):  # it was allowed when the scaling began
        return ()
    slots = spec.slots_per_worker
    hosts = [f"{worker.name}:{slots}" for worker in record.victims or record.added]
    return (
        ScriptOrder(
            id=build_order_id(record, record.script),
            script=live.script,
            hosts=",".join(hosts),
            env=live.env,
            timeout_seconds=round(_find_timeout(live).total_seconds()),
            is_shell=spec.scripts is ScriptRight.SHELL,
        ),
    )


def build_order_id(record: ScalingRecord, attempt: ScriptAttempt) -> str:
    """Names one attempt for ever."""
    return f"{record.uid}-{attempt.number}"


def _find_timeout(live: Scaling) -> timedelta:
    return live.timeout or DEFAULT_TIMEOUT


def _await_result(
    draft: Draft, record: ScalingRecord, attempt: ScriptAttempt, live: Scaling
) -> None:
    report = draft.view.report
    result = report.scripts.get(build_order_id(record, attempt)) if report else None
    if result is not None:
        code = TIMED_OUT if result.code is None else result.code
        _keep(draft, _end(draft, attempt, code, result.output))
        return
    if not draft.wait_until(attempt.started + _find_timeout(live) + _ANSWER_TIME):
        _keep(draft, _end(draft, attempt, TIMED_OUT, "no answer from the launcher"))


def _end(draft: Draft, attempt: ScriptAttempt, code: int, output: str) -> ScriptAttempt:
    if code != 0:
        message = f"attempt {attempt.number} of the script ended with exit code {code}"
        draft.tell("ScriptFailed", message, is_warning=True)
    output = cut(output, MAX_OUTPUT)
    return replace(attempt, code=code, output=output, next_at=draft.now + PAUSE if code else None)


def _try_again(draft: Draft, attempt: ScriptAttempt) -> None:
    if attempt.next_at is not None and draft.wait_out(attempt.next_at - PAUSE, PAUSE):
        return
    _keep(draft, ScriptAttempt(attempt.number + 1, draft.now))


def _keep(draft: Draft, attempt: ScriptAttempt) -> None:
    scaling = draft.status.scaling
    if scaling is not None:
        draft.change(scaling=replace(scaling, script=attempt))
