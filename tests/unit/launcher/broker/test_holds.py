"""The lock of a shim, from both ends: whether it lives, whatever it says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fakes.apiserver import ROOT
from launcher.broker.holds import Holds
from launcher.shim.holding import FOLDER, Hold

A, B = b"a" * 16, b"b" * 16
HOLDER = """
import sys
from launcher.shim.holding import Hold
hold = Hold(sys.argv[1])
for session in (b"a" * 16, b"b" * 16):
    hold.add(session)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holding(socket: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands for two sessions."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(socket)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def make_holds(folder: Path) -> Holds:
    holds = Holds(folder / "broker.sock")
    holds.prepare()
    return holds


def test_a_shim_that_is_stopped_lives_and_one_that_was_killed_does_not(tmp_path: Path):
    holds = make_holds(tmp_path)
    with holding(tmp_path / "broker.sock") as process:
        process.send_signal(signal.SIGSTOP)
        assert [holds.is_held(session) for session in (A, B, b"c" * 16)] == [True, True, False]
        process.kill()
        process.wait()
        assert not holds.is_held(A)
        assert not holds.is_held(B)
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_a_session_that_is_over_is_held_by_nobody(tmp_path: Path):
    holds = make_holds(tmp_path)
    hold = Hold(str(tmp_path / "broker.sock"))
    for session in (A, B):
        hold.add(session)
    hold.drop(B)
    assert not holds.is_held(B)
    assert holds.is_held(A)
    hold.close()
    assert not holds.is_held(A)


def test_the_first_session_that_is_over_is_held_no_longer_than_the_others(tmp_path: Path):
    holds = make_holds(tmp_path)
    hold = Hold(str(tmp_path / "broker.sock"))
    hold.add(A)
    hold.drop(A)
    hold.add(B)
    assert not holds.is_held(A)
    assert holds.is_held(B)
    hold.close()
    hold.drop(B)
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_a_name_that_a_dead_process_has_left_is_taken_over(tmp_path: Path):
    holds = make_holds(tmp_path)
    (tmp_path / FOLDER / A.hex()).touch()
    hold = Hold(str(tmp_path / "broker.sock"))
    hold.add(A)
    assert holds.is_held(A)


def test_no_umask_keeps_the_broker_from_looking(tmp_path: Path):
    make_holds(tmp_path)
    before = os.umask(0o077)
    try:
        Hold(str(tmp_path / "broker.sock")).add(A)
    finally:
        os.umask(before)
    assert (tmp_path / FOLDER / A.hex()).stat().st_mode & 0o777 == 0o644


LOOK = """
import os, sys
from pathlib import Path
from launcher.broker.holds import Holds
holds = Holds(Path(sys.argv[1]))
os.setuid(65532)
print(holds.is_held(b"a" * 16), holds.is_held(b"b" * 16))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_who_may_not_look_does_not_take_a_shim_for_dead():
    with TemporaryDirectory() as folder:  # into which anybody can look, unlike pytest's
        Path(folder).chmod(0o755)
        make_holds(Path(folder))
        (Path(folder) / FOLDER / A.hex()).touch(0o600)
        look = subprocess.run(
            [sys.executable, "-c", LOOK, folder + "/broker.sock"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            check=True,
        )
    assert look.stdout == b"True False\n"


def test_without_a_folder_silence_counts_as_an_end(tmp_path: Path):
    Hold(str(tmp_path / "broker.sock")).add(A)
    assert not Holds(tmp_path / "broker.sock").is_held(A)


def test_what_others_put_there_makes_nobody_wait(tmp_path: Path):
    holds = make_holds(tmp_path)
    os.mkfifo(tmp_path / FOLDER / A.hex())
    (tmp_path / FOLDER / B.hex()).symlink_to("/dev/null")
    assert not holds.is_held(A)
    assert not holds.is_held(B)


def test_the_folder_is_for_any_user_and_for_the_next_broker(tmp_path: Path):
    make_holds(tmp_path)
    make_holds(tmp_path)
    assert (tmp_path / FOLDER).stat().st_mode & 0o777 == 0o777
