"""The file in which scripts read of their end, and the signal that goes with it, in a worker."""

from __future__ import annotations

import json
import os
import shlex
import stat
from pathlib import Path
from typing import Any

import pytest

from et_contract import frames
from et_contract.names import ENV_NOTICE
from launcher.agent.noticing import NoticeFile
from tests.unit.launcher.agent.workers import PYTHON, Peer, Worker

MOMENT, EARLIER = "2026-01-31T12:00:00Z", "2026-01-31T11:59:00Z"
NOTICE = {
    "reason": "AWS takes it back",
    "source": "taint spot-itn",
    "deadline": MOMENT,
    "pods": {"job-worker-3": MOMENT},
}
LISTENER = """
import os, signal, sys, time
def hear(number, frame):
    print(sys.argv[1], "hears", number, os.path.exists(sys.argv[2]), flush=True)
signal.signal(signal.SIGUSR1, hear)
print(sys.argv[1], "listens", flush=True)
while not os.path.exists(sys.argv[3]):
    time.sleep(0.02)
"""
"""A process that has a handler, until the file of its last argument is there."""


@pytest.fixture
def path(worker: Worker) -> Path:
    folder = worker.folder / "etc"
    folder.mkdir()
    return folder / "notice"


def start(worker: Worker, path: Path, *command: str) -> Peer:
    return worker.start(*command, **{ENV_NOTICE: str(path)}).hello()


def say(peer: Peer, signal: str = "SIGUSR1", **changes: Any) -> None:
    peer.say(frames.NOTICE, {"notice": {**NOTICE, **changes}, "signal": signal})


def listen(worker: Worker, path: Path, name: str) -> str:
    words = [PYTHON, "-c", LISTENER, name, str(path), str(worker.folder / "end")]
    return shlex.join(words)


@pytest.mark.long
def test_who_has_a_handler_hears_of_it_and_no_shell_dies_of_it(worker: Worker, path: Path) -> None:
    peer = start(worker, path)
    script = f"echo up; while ! test -e {worker.folder}/end; do sleep 0.05; done; echo lives"
    claims = {
        "python": peer.spawn(f"{listen(worker, path, 'python')}; echo and its shell"),
        "orphan": peer.spawn(f"setsid {listen(worker, path, 'orphan')} & sleep 0.1; wait"),
        "trap": peer.spawn(f"trap 'echo trap hears' USR1; echo trap listens; {script}"),
        "deaf": peer.spawn(script),
    }
    for name, text in (("python", "python listens"), ("orphan", "orphan listens")):
        peer.wait_for(claims[name], text.encode())
    peer.wait_for(claims["trap"], b"up")
    peer.wait_for(claims["deaf"], b"up")
    say(peer)
    heard = b"hears 10 True\n"
    peer.wait_for(claims["python"], b"python " + heard)
    peer.wait_for(claims["orphan"], b"orphan " + heard)
    peer.wait_for(claims["trap"], b"trap hears\n")
    assert json.loads(path.read_text()) == NOTICE
    say(peer)  # as after a cut
    (worker.folder / "end").touch()
    ends = {name: peer.finish(claim) for name, claim in claims.items()}
    assert {name: code for name, (code, _, _) in ends.items()} == dict.fromkeys(claims, 0)
    assert b"hears" not in b"".join(out for _, out, _ in ends.values()), "once for a notice"
    assert ends["python"][1].endswith(b"and its shell\n")
    assert ends["deaf"][1].endswith(b"lives\n")
    worker.wait_until(lambda: "3 processes have a handler for signal 10" in worker.log)


@pytest.mark.long
def test_the_containers_own_command_hears_of_it_too(worker: Worker, path: Path) -> None:
    out = worker.folder / "out"
    words = f"{listen(worker, path, 'own')} > {out}"
    peer = start(worker, path, "sh", "-c", words)
    worker.wait_until(lambda: out.exists() and "own listens" in out.read_text())
    say(peer)
    worker.wait_until(lambda: "own hears 10 True" in out.read_text())


@pytest.mark.long
def test_without_a_signal_it_is_only_read_and_is_gone_when_it_is_withdrawn(
    worker: Worker, path: Path
) -> None:
    peer = start(worker, path)
    claim = peer.spawn(listen(worker, path, "python"))
    peer.wait_for(claim, b"listens")
    say(peer, signal="")
    worker.wait_until(path.exists)
    peer.say(frames.NOTICE)
    worker.wait_until(lambda: not path.exists())
    (worker.folder / "end").touch()
    code, out, _ = peer.finish(claim)
    assert (code, b"hears" in out) == (0, False)


@pytest.mark.long
def test_whoever_comes_next_hears_that_it_knows(worker: Worker, path: Path) -> None:
    worker.start(**{ENV_NOTICE: str(path)})
    peer = worker.connect().hello()
    assert peer.expect(frames.WELCOME)["noticed"] is False
    say(peer)
    worker.wait_until(path.exists)
    peer.close()
    again = worker.connect().hello(2)
    assert again.expect(frames.WELCOME)["noticed"] is True
    assert path.exists()


def test_a_worker_without_a_place_for_it_understands_no_notice(worker: Worker) -> None:
    worker.start()
    assert "noticed" not in worker.connect().hello().expect(frames.WELCOME)


@pytest.mark.long
def test_sessions_do_not_see_what_is_for_pid_1(worker: Worker, path: Path) -> None:
    code, out, _ = start(worker, path).run("env")
    assert code == 0
    assert ENV_NOTICE.encode() not in out


@pytest.mark.long
def test_a_notice_that_cannot_be_written_is_told_and_serves_on(worker: Worker, path: Path) -> None:
    path.mkdir()
    (path / "file").touch()
    peer = start(worker, path)
    say(peer)
    worker.wait_until(lambda: "cannot tell scripts of the end of this pod" in worker.log)
    peer.say(frames.NOTICE)
    assert peer.run("echo on")[1] == b"on\n"
    (path / "file").unlink()
    path.rmdir()
    say(peer)
    worker.wait_until(path.is_file)


def test_what_a_container_before_this_one_was_told_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "notice"
    path.write_text("old")
    NoticeFile(str(path))
    assert not path.exists()
    NoticeFile(str(tmp_path / "away" / "notice"))  # a folder that is not there


def test_it_is_replaced_whole_for_everybody_and_no_link_is_followed(tmp_path: Path) -> None:
    path, other = tmp_path / "notice", tmp_path / "other"
    other.write_text("as it was")
    file = NoticeFile(str(path))
    before = os.umask(0o077)
    try:
        Path(f"{path}.new").symlink_to(other)
        file.show("first")
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
        with path.open() as reader:
            file.show("second")
            assert (reader.read(), path.read_text()) == ("first", "second")
        path.unlink()
        path.symlink_to(other)
        file.show("third")
        assert not path.is_symlink()
    finally:
        os.umask(before)
    path.unlink()
    path.symlink_to(other)
    file.show("")
    file.show("")
    assert not path.is_symlink()
    assert other.read_text() == "as it was"
    assert [entry.name for entry in tmp_path.iterdir()] == ["other"]
