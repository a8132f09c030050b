"""CRDs of another version: what these do not keep is not written without end."""

from __future__ import annotations

from typing import Any

import pytest

from et_kube.resources import TRAINING_JOBS, Json, Ref
from fakes.cluster import FakeCluster
from fakes.schemas import find_definition
from tests.unit.scheduler.rigs import SchedulerRig, make_held

pytestmark = pytest.mark.usefixtures("quiet_logs")


def list_optional() -> list[str]:
    """Fields without which an admission is stored all the same, and workers can be made."""
    definition = find_definition(TRAINING_JOBS)
    assert definition is not None
    status = definition["schema"]["openAPIV3Schema"]["properties"]["status"]
    schema = status["properties"]["admission"]
    return sorted(set(schema["properties"]) - {*schema["required"], "workers"})


def make_rig(field: str) -> SchedulerRig:
    """One whose server drops this field of an admission; its workers drain for long."""

    class Former(FakeCluster):
        def patch(self, ref: Ref, body: Any, **how: Any) -> Json:
            admission = body.get("status", {}).get("admission") if isinstance(body, dict) else None
            if ref.resource == TRAINING_JOBS and admission:
                kept = {key: value for key, value in admission.items() if key != field}
                body = body | {"status": {"admission": kept}}
            return super().patch(ref, body, **how)

    class FormerRig(SchedulerRig):
        make_cluster = Former

    return FormerRig(nodes=2, cpu=4, is_slow=True)


@pytest.mark.long
@pytest.mark.parametrize("field", list_optional())
async def test_what_is_not_kept_is_not_written_without_end(field: str) -> None:
    rig = make_rig(field)
    rig.create(make_held("one", least=2, most=8))
    async with rig.running():
        await rig.advance(6)
        rig.create(make_held("two", least=4, most=8), make_held("six", least=9))
        await rig.advance(6)
        before = len(rig.list_writes())
        await rig.advance(15)  # workers drain, and nothing else happens
        assert len(rig.list_writes()) - before <= 12
