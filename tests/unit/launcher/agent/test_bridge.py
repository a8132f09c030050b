"""The bridge as a process between pipes and a socket."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path

import pytest

from et_contract import frames, paths
from launcher.agent import bridge
from tests.unit.launcher.agent.workers import Worker

PATIENCE = 20.0


@pytest.mark.long
def test_a_session_runs_through_a_bridge(worker: Worker) -> None:
    worker.start()
    peer, process = worker.bridge()
    peer.hello()
    peer.expect(frames.WELCOME)
    code, out, _ = peer.run("head -c 5000000 /dev/zero; exit 3")
    assert (code, len(out)) == (3, 5_000_000)
    peer.close()
    assert process.wait(PATIENCE) == 0


@pytest.mark.long
def test_a_bridge_waits_for_the_agent_to_come(worker: Worker) -> None:
    peer, _ = worker.bridge(worker.path, script=Path(bridge.__file__))
    peer.hello()
    worker.start()
    peer.expect(frames.WELCOME)


@pytest.mark.long
def test_a_bridge_ends_with_the_agent(worker: Worker) -> None:
    worker.start()
    peer, process = worker.bridge()
    peer.hello()
    peer.expect(frames.WELCOME)
    worker.terminate()
    peer.expect(frames.TERMINATING)
    peer.expect_end()
    assert process.wait(PATIENCE) == 0


@pytest.mark.long
def test_what_the_agent_says_last_comes_through(worker: Worker) -> None:
    worker.start()
    peer, process = worker.bridge()
    peer.hello(epoch=1)
    assert "epoch 1 is over" in peer.expect(frames.REJECT)["reason"]
    peer.expect_end()
    assert process.wait(PATIENCE) == 0


@pytest.mark.long
def test_a_reader_that_does_not_read_does_not_stop_what_goes_in(worker: Worker) -> None:
    worker.start()
    peer, _ = worker.bridge()
    peer.hello()
    claim = peer.spawn("head -c 3000000 /dev/zero; exit 2")
    worker.wait_until(lambda: "runs as pid" in worker.log)
    select.select([], [], [], 0.2)
    peer.send(claim.signal(signal.SIGTERM))
    worker.wait_until(lambda: "gets signal 15" in worker.log)
    assert peer.finish(claim)[0] == 143


def test_a_bridge_without_input_ends(tmp_path: Path) -> None:
    inward, outward = os.pipe(), os.pipe()
    reason = bridge.pump(bridge.Pipe(inward[0], 1), bridge.Pipe(outward[0], 1), 0.05)
    assert reason == "nothing came in"
    for fd in inward + outward:
        os.close(fd)


def test_a_bridge_without_an_agent_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert bridge.main(str(tmp_path / "none"), patience=0.0) == 1
    assert "no agent" in capfd.readouterr().err


def test_the_bridge_is_told_the_socket_of_the_contract() -> None:
    """By name: that of a former runtime, which is mounted at the same path, does not find it."""
    *_, script, socket = paths.BRIDGE_COMMAND
    assert socket == paths.AGENT_SOCKET
    assert Path(script).parent == Path(paths.RUNTIME_DIR)
    assert Path(bridge.__file__).parts[-3:] == tuple(Path(script).name.split(paths.SLASH))


@pytest.mark.long
def test_a_former_broker_is_let_in_where_it_starts_the_copy(worker: Worker) -> None:
    """Which image brokers have is said apart from the operator's own."""
    worker.start()
    copy = worker.folder / "run" / "lib" / "launcher" / "agent" / "bridge.py"
    worker.wait_until(Path(worker.path).exists)
    peer, _ = worker.bridge(script=copy)
    peer.hello()
    peer.expect(frames.WELCOME)
