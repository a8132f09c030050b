"""The examples that were written for et-operator, and made by arena, train to the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.world import ROOT, RealWorld

pytestmark = pytest.mark.cluster


def read(name: str) -> list[dict[str, Any]]:
    return [doc for doc in yaml.safe_load_all((ROOT / "examples" / name).read_text()) if doc]


def create(world: RealWorld, name: str) -> str:
    created = [world.create(doc) for doc in read(name)]
    found: str = created[0]["metadata"]["name"]
    return found


@pytest.mark.point("accepted")
@pytest.mark.parametrize(
    "path",
    sorted(p.name for p in (ROOT / "examples" / "compatible").glob("*.yaml")),
)
def test_a_manifest_of_the_predecessors_trains(world: RealWorld, path: str) -> None:
    job = create(world, str(Path("compatible") / path))
    world.wait_for_phase(job, "Succeeded", timeout=180)
