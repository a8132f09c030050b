"""The examples train to the end, those written for et-operator and made by arena among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.world import ROOT, RealWorld

pytestmark = pytest.mark.cluster


def read(name: str) -> list[dict[str, Any]]:
    return [doc for doc in yaml.safe_load_all((ROOT / "examples" / name).read_text()) if doc]


@pytest.mark.point("examples")
def test_the_example_job_and_its_scalings(world: RealWorld) -> None:
    job = create(world, "training_job.yaml")
    world.wait_for_size(job, 2)
    grow = create(world, "scale_out.yaml")
    assert world.wait_for_scaling("scaleouts", grow)["phase"] == "ScaleSucceeded"
    by_name = create(world, "scale_in_pods.yaml")
    assert world.wait_for_scaling("scaleins", by_name)["phase"] == "ScaleSucceeded"
    by_count = create(world, "scale_in_count.yaml")
    assert world.wait_for_scaling("scaleins", by_count)["phase"] == "ScaleSucceeded"
    world.wait_for_phase(job, "Succeeded", timeout=240)


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
