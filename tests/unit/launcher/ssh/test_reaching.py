"""The agent of a worker that is reached by ssh: the broker may not see a difference."""

from __future__ import annotations

import os
import signal
import tracemalloc
from pathlib import Path

import pytest

from et_contract import frames
from launcher.ssh import reaching
from launcher.ssh.commands import LONGEST_REQUEST
from tests.unit.launcher.agent.workers import Peer
from tests.unit.launcher.ssh.connections import Reached, is_alive
from tests.unit.launcher.ssh.test_children import TARGET


def test_a_command_runs_in_the_worker_with_its_output_and_code(peer: Peer) -> None:
    command = 'printf "%s,%s" "$RANK" "$FROM_POD"; echo err >&2; exit 3'
    assert peer.run(command, {"RANK": "a 'b'"}) == (3, b"a 'b',it's\nthe pod", b"err\n")


@pytest.mark.long
@pytest.mark.parametrize(("command", "code"), [("kill -9 $$", 137), ("exit 255", 255)])
def test_the_code_is_the_one_of_the_process(peer: Peer, command: str, code: int) -> None:
    assert peer.run(command)[0] == code


@pytest.mark.long
def test_a_burst_comes_whole_and_bytes_as_they_are(peer: Peer) -> None:
    code, out, _ = peer.run("head -c 5000000 /dev/zero; printf '\\377\\r\\n'")
    assert (code, len(out), out[-3:]) == (0, 5_000_003, b"\xff\r\n")


@pytest.mark.long
def test_signals_reach_the_process_group(peer: Peer) -> None:
    claim, _ = peer.start("trap 'echo heard; exit 7' TERM; echo on; sleep 100 & wait")
    peer.wait_for(claim, b"on\n")
    peer.send(claim.signal(signal.SIGTERM))
    assert peer.finish(claim)[:2] == (7, b"heard\n")


@pytest.mark.long
def test_a_session_that_was_cut_off_has_ended_when_its_end_is_told(
    reached: Reached, peer: Peer
) -> None:
    claim, _ = peer.start("trap '' TERM; echo on; while :; do sleep 1; done")
    peer.wait_for(claim, b"on\n")
    [group] = reached.pod.sessions

    reached.kill_connections()

    assert peer.finish(claim)[0] == 137
    assert not is_alive(group)


@pytest.mark.long
def test_as_long_as_a_worker_that_was_cut_off_cannot_be_asked_nothing_is_told(
    reached: Reached, peer: Peer
) -> None:
    claim, _ = peer.start("trap '' TERM; echo on; while :; do sleep 1; done")
    peer.wait_for(claim, b"on\n")
    [group] = reached.pod.sessions
    reached.pod.cut()
    reached.kill_connections()
    peer.say(frames.CLOSE_IF_IDLE)
    assert peer.expect(frames.BUSY)["sessions"] == 1
    assert is_alive(group)

    reached.pod.cut(is_cut=False)

    assert peer.finish(claim)[0] == 137
    peer.expect(frames.CLOSED)
    assert not is_alive(group)


@pytest.mark.long
def test_a_worker_closes_when_its_last_session_has_ended(peer: Peer) -> None:
    claim, _ = peer.start("echo on; sleep 100")
    peer.wait_for(claim, b"on\n")
    peer.say(frames.CLOSE_IF_IDLE)
    assert peer.expect(frames.BUSY)["sessions"] == 1
    peer.send(claim.signal(signal.SIGKILL))
    peer.expect(frames.CLOSED)


@pytest.mark.long
def test_an_agent_that_is_started_anew_ends_what_the_one_before_has_left(
    reached: Reached, peer: Peer
) -> None:
    claim, _ = peer.start("echo on; exec sleep 100")
    peer.wait_for(claim, b"on\n")
    [group] = reached.pod.sessions
    assert reached.process
    reached.process.kill()
    reached.process.wait()
    os.unlink(reached.path)  # noqa: PTH108 (a socket)

    reached.reach().connect().hello(2).expect(frames.WELCOME)

    assert not is_alive(group)


@pytest.mark.long
def test_an_agent_that_is_started_anew_runs_nothing_twice(reached: Reached, peer: Peer) -> None:
    command = f"echo run >> {reached.folder}/runs; echo on; exec sleep 100"
    claim, _ = peer.start(command)
    claim.is_said = True
    while not (reached.folder / "runs").exists():
        assert peer.read()
    assert reached.process
    reached.process.kill()
    reached.process.wait()
    os.unlink(reached.path)  # noqa: PTH108 (a socket)
    successor = reached.reach().connect().hello(2)
    successor.expect(frames.WELCOME)

    successor.send(claim.opening())

    assert successor.expect(frames.LOST)["code"] == 137
    assert successor.run("exit 3")[0] == 3
    assert (reached.folder / "runs").read_text() == "run\n"


def test_a_worker_that_cannot_be_reached_is_told_in_the_words_of_ssh(reached: Reached) -> None:
    reached.pod.cut()
    peer = reached.reach().connect().hello()
    assert peer.expect(frames.REJECT) == {"reason": "no route to host"}
    assert reached.wait() == 1


def test_a_launcher_without_ssh_is_told(reached: Reached) -> None:
    (reached.folder / "bin" / "ssh").unlink()
    peer = reached.reach(PATH="/nowhere").connect().hello()
    assert peer.expect(frames.REJECT)["reason"] == "no ssh in the launcher's image"


@pytest.mark.long
def test_a_launcher_that_was_replaced_is_refused(reached: Reached) -> None:
    reached.pod.ask("fence 4")
    peer = reached.reach().connect().hello()
    words = "edl: launcher 3 has been replaced"
    assert peer.expect(frames.REJECT) == {"reason": words, "fenced": True}


def test_a_command_that_ssh_cannot_pass_on_is_refused_with_a_reason(peer: Peer) -> None:
    code, _, err = peer.run("true", {"LONG": "x" * LONGEST_REQUEST})
    assert code == 255
    assert b"longer than" in err


def test_a_worker_that_floods_us_with_words_takes_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ssh"
    program.write_text(
        "#!/bin/sh\nhead -c 32000000 /dev/zero >&2; echo; echo no way >&2; exit 255\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    tracemalloc.start()
    try:
        assert reaching.fence(TARGET).endswith("no way")
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.long
@pytest.mark.parametrize("habit", ["sleep 100", "yes"])
def test_a_worker_that_does_not_answer_is_told(
    habit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ssh"
    program.write_text(f"#!/bin/sh\nexec {habit} >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert reaching.fence(TARGET, seconds=0.1) == "ssh has not come back within 0.1 s"
