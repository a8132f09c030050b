"""What an answer to one plan says of the writes that the next one would ask for."""

from __future__ import annotations

import pytest

from et_contract.pods import Role
from et_kube.errors import (
    Conflict,
    KubeError,
    OutcomeUnknown,
    Refused,
    ServerFailed,
    Throttled,
    Unauthorized,
)
from et_operator.acting.outcomes import Execution, Failure
from et_operator.acting.refusals import find_refused
from et_operator.model.actions import DryRun
from tests.planning_makers import START

TRIAL = DryRun(Role.WORKER, {"metadata": {"generateName": "job-worker-0-", "namespace": "ns"}})


@pytest.mark.parametrize(
    ("error", "is_answered"),
    [
        (Refused(403, "Forbidden", "exceeded quota"), True),
        (Conflict(409, "Conflict", "the quota has been modified"), True),
        (ServerFailed(500, "InternalError", "failed calling webhook"), True),
        (Throttled(429, "TooManyRequests", "slow down"), False),
        (ServerFailed(504, "Timeout", "the request did not complete in time"), False),
        (ServerFailed(503, "ServiceUnavailable", "no leader"), False),
        (Unauthorized(401, "Unauthorized", "who?"), False),
        (OutcomeUnknown("no answer in time"), False),
    ],
)
def test_who_is_asked_and_has_no_time_has_not_refused(error: KubeError, is_answered: bool) -> None:
    execution = Execution(failures=(Failure(TRIAL, error),))
    found = find_refused(execution, 1, START)
    assert [refusal.is_answered for refusal in found.values()] in ([is_answered], [])
    assert found or not is_answered
