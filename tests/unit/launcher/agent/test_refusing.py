from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from et_contract import frames
from launcher.agent.refusing import place_refusal


def test_it_is_there_and_refuses(tmp_path: Path):
    program = tmp_path / "kubexec.sh"
    place_refusal(str(program))
    done = subprocess.run([program, "job-worker-1", "orted"], capture_output=True, check=False)
    assert done.returncode == frames.EXIT_REFUSED
    assert b"only the launcher does" in done.stderr
    assert list(tmp_path.iterdir()) == [program]


def test_what_is_there_stays(tmp_path: Path):
    program = tmp_path / "kubexec.sh"
    program.write_text("mine")
    place_refusal(str(program))
    assert program.read_text() == "mine"


def test_no_room_is_told_and_stops_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    place_refusal(str(tmp_path / "none" / "kubexec.sh"))
    assert "mpirun cannot be used" in capsys.readouterr().err
