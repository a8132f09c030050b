"""What counts as a good end, and what as silence."""

from __future__ import annotations

from typing import Any

import pytest

from tests.makers import make_job, make_scale_in
from tests.specs.verdicts import Verdict, judge_job, judge_scaling


def say(kind: str, message: str, status: str = "True") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": "R", "message": message}


def make(observed: int = 1, **status: Any) -> dict[str, Any]:
    job = make_job(workers=2)
    job["metadata"]["generation"] = 1
    return job | {"status": {"observedGeneration": observed, **status}}


@pytest.mark.parametrize(
    ("job", "pods", "verdict"),
    [
        pytest.param(make(), 0, None, id="nothing"),
        pytest.param(make(phase="Created"), 1, None, id="a-pod-is-missing"),
        pytest.param(make(phase="Created"), 2, Verdict.WAITS, id="pods"),
        pytest.param(make(0, phase="Running"), 3, None, id="of-another-generation"),
        pytest.param(make(phase="Running"), 3, Verdict.RUNS, id="runs"),
        pytest.param(make(phase="Failed"), 0, None, id="failed-without-a-word"),
        pytest.param(
            make(phase="Failed", conditions=[say("Failed", "exit code 1 of the command")]),
            0, Verdict.ENDED, id="failed",
        ),
        pytest.param(
            make(0, conditions=[say("InvalidSpec", "spec.suspend: must be true or false")]),
            0, Verdict.TOLD, id="names-the-field",
        ),
        pytest.param(
            make(0, conditions=[say("InvalidSpec", "that will not do")]),
            0, None, id="names-no-field",
        ),
        pytest.param(
            make(phase="Created", conditions=[say("PodsRefused", "exceeded quota: pods")]),
            0, Verdict.WAITS, id="quota",
        ),
    ],
)  # fmt: skip
def test_a_job(job: dict[str, Any], pods: int, verdict: Verdict | None):
    assert judge_job(job, pods) is verdict


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"phase": "Scaling"}, Verdict.WAITS, id="waits"),
        pytest.param({"phase": "ScaleFailed"}, None, id="failed-without-a-word"),
        pytest.param(
            {"phase": "ScaleFailed", "conditions": [say("ScaleFailed", "there is no such job")]},
            Verdict.ENDED, id="failed",
        ),
    ],
)  # fmt: skip
def test_a_scaling(status: dict[str, Any], verdict: Verdict | None):
    assert judge_scaling(make_scale_in("in", count=1) | {"status": status}) is verdict
