"""Who is told that the launcher of a command is not ours, and when."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.shim import beginnings
from launcher.shim.beginnings import LOOK_SECONDS, MOST_NOTES, Beginnings
from tests.counting import find_peak
from tests.unit.launcher.shim.brokers import Start

ELASTIC = ["sh", "-c", ". venv/bin/activate && torchrun --nnodes=1:2 train.py"]


def expecting(folder: Path, *argv: str) -> Beginnings:
    """Of a command that has started at 0."""
    known = Beginnings(argv, str(folder / "begun"), "/ours")
    known.prepare()
    known.expect(0.0)
    return known


def test_where_none_of_ours_has_begun_it_is_told_once(tmp_path: Path):
    known = expecting(tmp_path, *ELASTIC)
    assert known.find_missed(LOOK_SECONDS - 1) == ""
    told = known.find_missed(LOOK_SECONDS)
    assert told.startswith("60 s of the command, and /ours/torchrun has not begun")
    assert "PATH=/ours:$PATH" in told
    assert known.find_missed(LOOK_SECONDS + 1) == ""
    assert known.find_missed(LOOK_SECONDS + 2, is_over=True) == ""


def test_the_end_of_the_command_is_late_enough(tmp_path: Path):
    known = expecting(tmp_path, "horovodrun", "--min-np", "1", "python", "t.py")
    told = known.find_missed(1.0, is_over=True)
    assert told.startswith("the command has ended, and /ours/horovodrun has not begun")


def test_of_what_others_put_there_little_is_looked_at(tmp_path: Path):
    known = expecting(tmp_path, *ELASTIC)
    for number in range(4 * MOST_NOTES):
        (tmp_path / "begun" / f"{number:0200d}").touch()
    assert find_peak(lambda: known.find_missed(LOOK_SECONDS)) < 100 * 200
    assert find_peak(known.prepare) < 2 * MOST_NOTES * 300
    assert len(list((tmp_path / "begun").iterdir())) == 3 * MOST_NOTES


@pytest.mark.parametrize("name", ["torchrun", "horovodrun"])
def test_where_any_of_ours_has_begun_nothing_is_told(tmp_path: Path, name: str):
    known = expecting(tmp_path, *ELASTIC)  # a script may have both in its branches
    beginnings.note(name, str(tmp_path / "begun"))
    beginnings.note(name, str(tmp_path / "begun"))
    assert known.find_missed(LOOK_SECONDS) == ""


@pytest.mark.parametrize(
    "argv",
    [
        ["python", "train.py"],
        ["mpirun", "python", "train.py"],
        ["deepspeed", "train.py"],
        ["torchrun", "--standalone", "train.py"],
        ["horovodrun", "-np", "2", "python", "t.py"],
        ["sh", "-c", "ssh worker-0 hostname"],
    ],
)
def test_a_command_that_names_no_elastic_launcher_of_ours_is_told_nothing(
    tmp_path: Path, argv: list[str]
):
    assert expecting(tmp_path, *argv).find_missed(LOOK_SECONDS, is_over=True) == ""


def test_a_command_that_never_started_is_told_nothing(tmp_path: Path):
    known = Beginnings(ELASTIC, str(tmp_path), "/ours")
    assert known.find_missed(LOOK_SECONDS, is_over=True) == ""


def test_what_cannot_be_noted_or_looked_for_harms_nobody(tmp_path: Path):
    known = expecting(tmp_path, *ELASTIC)
    (tmp_path / "begun").rmdir()
    beginnings.note("torchrun", str(tmp_path / "begun"))
    assert known.find_missed(LOOK_SECONDS) == ""


@pytest.mark.parametrize("name", ["torchrun", "horovodrun"])
def test_ours_note_that_they_begin(tmp_path: Path, start: Start, name: str):
    setting = f"from et_contract import paths; paths.BEGUN_DIR = {str(tmp_path)!r}"
    code = f"{setting}; from launcher.shim import {name}; sys.exit({name}.main(['t.py']))"
    start(code, env={"PATH": "/nowhere"}).communicate(timeout=20)
    assert [file.name for file in tmp_path.iterdir()] == [name]
