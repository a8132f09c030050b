"""Where the demo runs: what it installs on a cluster of somebody's own."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from examples.demo.places import DEPLOYMENTS, PlaceError, prepare_existing, write_overlay

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"


def test_operator_and_scheduler_are_installed_with_the_image(tmp_path: Path) -> None:
    write_overlay(tmp_path, "registry/et-operator:1")
    body = yaml.safe_load((tmp_path / "kustomization.yaml").read_text("utf-8"))

    images = {}
    for patch in body["patches"]:
        deployment = yaml.safe_load(patch["patch"])
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        images[deployment["metadata"]["name"]] = (container["name"], container["image"])
    assert images == {
        "et-operator": ("operator", "registry/et-operator:1"),
        "et-scheduler": ("scheduler", "registry/et-operator:1"),
    }
    assert set(DEPLOYMENTS) == set(images)
    sources = [*body["resources"], *body["components"]]
    assert all((DEPLOY / "a-folder" / source).resolve().is_dir() for source in sources), (
        "as seen from a folder in deploy/"
    )


def test_a_missing_image_is_named() -> None:
    with pytest.raises(PlaceError, match="DEMO_CONTEXT=mine needs DEMO_TRAINER_IMAGE: images"):
        prepare_existing("mine", operator_image="registry/et-operator:1", trainer_image="")
