from __future__ import annotations

from datetime import UTC, datetime

import pytest

from et_kube.errors import Refused
from et_kube.resources import PODS
from et_operator.acting.executing import Failure
from et_operator.acting.refusals import note_refusal
from et_operator.model.actions import Create
from et_operator.model.snapshots import Refusal

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BEFORE = Refusal("exceeded quota: small", 13, NOW, 2, "job-worker-8")


@pytest.mark.parametrize(
    ("name", "generation", "count"),
    [
        pytest.param("job-worker-8", 2, 14, id="the same again"),
        pytest.param("job-worker-8", 3, 1, id="its author has changed the job"),
        pytest.param("job-launcher-r1", 2, 1, id="another one"),
    ],
)
def test_what_is_refused_is_counted_by_itself(name: str, generation: int, count: int) -> None:
    create = Create(PODS, {"metadata": {"name": name, "namespace": "team"}})
    failure = Failure(create, Refused(403, "Forbidden", "exceeded quota: small"))
    assert note_refusal(BEFORE, failure, generation, NOW).count == count
    assert note_refusal(None, failure, generation, NOW).count == 1
