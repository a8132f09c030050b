"""The pictures of both scenes are PNGs; what is on them is for people to look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.demo.picture import draw_scaling, draw_sharing
from tests.unit.demo.test_trainings import make_training

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.long
def test_each_scene_leaves_a_picture_in_a_folder_that_is_made_for_it(tmp_path: Path) -> None:
    large = make_training("large", (1.0, 0), (2.0, 4), (3.0, 2))
    small = make_training("small", (2.0, 0), (3.0, 2))
    paths = [tmp_path / "out" / name for name in ("demo.png", "demo-queue.png")]
    draw_scaling(large, paths[0], title="2 -> 4")
    draw_sharing(large, small, paths[1], title="4 -> 2 beside 2")
    assert [path.read_bytes()[: len(PNG)] for path in paths] == [PNG, PNG]
