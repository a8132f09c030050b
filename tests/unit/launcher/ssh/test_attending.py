"""PID 1 of a launcher, and the agents that it runs for its broker."""

from __future__ import annotations

import os
import resource
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from et_contract import frames, names
from launcher.shim import placing
from launcher.ssh.reaching import LOG_BYTES
from tests.unit.launcher.agent.workers import Peer as AgentPeer
from tests.unit.launcher.shim.brokers import ROOT, Peer, SocketBroker, Start
from tests.unit.launcher.shim.test_launching import run_launcher
from tests.unit.launcher.ssh.connections import Reached

WORKER = {"pod": "p", "name": "w-0", "address": "10.0.0.9"}


def make_paths(folder: Path) -> placing.Paths:
    (folder / "keys").mkdir()
    (folder / "keys" / names.KEY_USER).write_text("the key")
    others = [
        name for name in placing.Paths._fields if name not in {"broker", "lib", "ssh", "keys"}
    ]
    return placing.Paths(
        broker=str(folder / "broker.sock"),
        lib=str(ROOT),
        ssh=str(folder),
        keys=str(folder / "keys"),
        **{name: str(folder / "launcher" / name) for name in others},
    )


def launch(start: Start, folder: Path, broker: SocketBroker) -> Peer:
    environ = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        names.ENV_ATTACH_MODE: names.SSH_MODE,
        names.ENV_JOB_UID: "j",
        names.ENV_EPOCH: "3",
    }
    run_launcher(start, make_paths(folder), "true", env=environ, cwd=folder)
    peer = broker.accept()
    peer.expect(frames.LAUNCH)
    return peer


def find_agents(reached: Reached) -> list[int]:
    """The pids of the agents that have their socket in this folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            words = path.read_bytes()
            if b"reaching.py" in words and bytes(reached.folder) in words:
                found.append(int(path.parent.name))
    return found


def greet(reached: Reached, connection: int) -> AgentPeer:
    peer = reached.connect().hello(connection)
    peer.expect(frames.WELCOME)
    return peer


@pytest.mark.long
def test_the_agent_of_a_worker_runs_as_long_as_the_broker_wants_it(
    start: Start, reached: Reached, broker: SocketBroker
) -> None:
    launcher = launch(start, reached.folder, broker)
    launcher.send(frames.ATTACH, WORKER)
    launcher.send(frames.ATTACH, WORKER)
    agent = greet(reached, 1)
    assert agent.run("echo here")[:2] == (0, b"here\n")
    other = greet(reached, 2)  # the same agent: the first connection is an old one for it
    agent.expect_end()

    limits = (resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in find_agents(reached))
    assert set(limits) == {(LOG_BYTES, LOG_BYTES)}
    launcher.send(frames.DETACH, {"wanted": ["p"]})
    assert other.run("echo on")[:2] == (0, b"on\n")
    launcher.send(frames.DETACH, {"wanted": ["q"]})
    other.expect_end()
    os.unlink(reached.path)  # noqa: PTH108 (a socket)

    def is_there_again() -> bool:
        launcher.send(frames.ATTACH, WORKER)  # one that comes before its end was seen is lost
        return Path(reached.path).exists()

    log = reached.folder / "w-0.log"
    log.write_text("of the one before\n")
    reached.wait_until(is_there_again)
    greet(reached, 1)
    assert "before" not in log.read_text()


def test_the_private_key_becomes_the_users_own(
    start: Start, reached: Reached, broker: SocketBroker
) -> None:
    launch(start, reached.folder, broker)
    key = reached.folder / names.KEY_USER
    assert key.read_text() == "the key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
