"""pdsh.py as DeepSpeed's runner sees it, against a broker played by the test."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from et_contract import frames
from launcher.shim import pdsh
from launcher.shim.arguments import UsageError
from tests.unit.launcher.shim.brokers import Peer, SocketBroker, Start

SPAWNED = {"pid": 7, "instance": "cafe"}


def run_pdsh(start: Start, broker: SocketBroker, *argv: str | bytes, **options: Any) -> Any:
    code = "from launcher.shim import pdsh; sys.exit(pdsh.main(sys.argv[1:], {!r}))"
    return start(code.format(str(broker.path)), *argv, **options)


def open_all(broker: SocketBroker, count: int) -> tuple[Peer, dict[str, frames.Frame]]:
    """The one connection, and each host's SPAWN."""
    peer = broker.accept()
    spawns = {}
    for _ in range(count):
        spawn = peer.expect(frames.SPAWN)
        peer.send(frames.SPAWNED, SPAWNED, spawn.session)
        spawns[frames.decode_json(spawn)["host"]] = spawn
    return peer, spawns


def finish(peer: Peer, session: bytes, code: int, out: int = 0, err: int = 0) -> None:
    peer.send(frames.EXIT, {"code": code, "produced": [out, err], "reason": "exited"}, session)
    assert peer.expect(frames.EXIT_ACK).session == session


@pytest.mark.parametrize(
    ("argv", "order"),
    [
        ("-S -f 1024 -w a,b cd /x; run --n=%n", (["a", "b"], "cd /x; run --n=%n", True, True)),
        ("-Nwa,b -R ssh -l root true", (["a", "b"], "true", False, False)),
        ("-f1 -w a pkill -f  x", (["a"], "pkill -f  x", False, True)),
    ],
)
def test_command_lines(argv: str, order: tuple[object, ...]):
    assert pdsh.parse(argv.split(" ")) == order


@pytest.mark.parametrize(
    "argv", ["", "true", "-w a", "-w", "-w , true", "-w a[1-3] true", "-w ^file true", "-x a true"]
)
def test_what_cannot_be_followed_is_refused(argv: str):
    with pytest.raises(UsageError):
        pdsh.parse(argv.split())


def test_each_host_has_its_number():
    assert pdsh.fill_in("--rank=%n at %h, 100%% %d", "w-1", 3) == "--rank=3 at w-1, 100% %d"


def test_all_hosts_share_one_connection_and_the_worst_code_counts(
    broker: SocketBroker, start: Start
):
    shim = run_pdsh(start, broker, "-S", "-f", "1024", "-w", "w-0,w-1", "run", "--rank=%n")
    peer, spawns = open_all(broker, 2)
    bodies = {host: frames.decode_json(spawn)["command"] for host, spawn in spawns.items()}
    assert bodies == {"w-0": "run --rank=0", "w-1": "run --rank=1"}
    peer.send_data(spawns["w-1"].session, b"a\nb")
    peer.send_data(spawns["w-0"].session, b"oops\n", channel=frames.STDERR)
    finish(peer, spawns["w-1"].session, 3, out=3)
    finish(peer, spawns["w-0"].session, 0, err=5)
    out, err = shim.communicate(timeout=20)
    assert out == b"w-1: a\nw-1: b"
    assert b"w-0: oops\n" in err
    assert b"edl: w-1: exit code 3" in err
    assert shim.returncode == 3


def test_without_s_the_exit_code_is_zero(broker: SocketBroker, start: Start):
    shim = run_pdsh(start, broker, "-w", "w-0", "false")
    peer, spawns = open_all(broker, 1)
    finish(peer, spawns["w-0"].session, 1)
    assert shim.wait(20) == 0


@pytest.mark.long
def test_an_agent_that_breaks_a_rule_is_asked_again_and_costs_no_other_session_a_cut(
    broker: SocketBroker, start: Start
):
    shim = run_pdsh(start, broker, "-S", "-w", "w-0,w-1", "run")
    peer, spawns = open_all(broker, 2)
    bad, good = spawns["w-0"].session, spawns["w-1"].session
    peer.send_data(bad, b"what was before it never came", offset=7)
    peer.send_data(good, b"a\n")
    resume = peer.expect(frames.RESUME)
    assert resume.session == bad
    assert frames.decode_json(resume)["received"] == [0, 0]
    peer.send_data(bad, b"b\n")
    finish(peer, good, 0, out=2)
    finish(peer, bad, 0, out=2)
    assert sorted(shim.communicate(timeout=20)[0].splitlines()) == [b"w-0: b", b"w-1: a"]
    assert shim.returncode == 0


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_log_that_is_full_changes_no_exit_code(broker: SocketBroker, start: Start, name: str):
    with Path("/dev/full").open("wb") as full:
        shim = run_pdsh(start, broker, "-S", "-w", "w-0", "run", **{name: full})
    peer, spawns = open_all(broker, 1)
    peer.send_data(spawns["w-0"].session, b"out\n")
    peer.send_data(spawns["w-0"].session, b"err\n", channel=frames.STDERR)
    finish(peer, spawns["w-0"].session, 0, out=4, err=4)
    assert shim.wait(20) == 0


@pytest.mark.long
@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2"])
def test_signals_go_to_every_host(broker: SocketBroker, start: Start, name: str):
    shim = run_pdsh(start, broker, "-S", "-w", "w-0,w-1", "run")
    peer, spawns = open_all(broker, 2)
    number = signal.Signals["SIG" + name].value
    shim.send_signal(number)
    signals = [peer.expect(frames.SIGNAL) for _ in range(2)]
    assert {s.session for s in signals} == {s.session for s in spawns.values()}
    assert [frames.decode_json(s) for s in signals] == [{"signal": number}] * 2
    for spawn in spawns.values():
        finish(peer, spawn.session, 128 + number)
    assert shim.wait(20) == 128 + number


def test_a_signal_while_hosts_are_started_reaches_all_of_them(broker: SocketBroker, start: Start):
    hosts = 300
    shim = run_pdsh(start, broker, "-S", "-w", ",".join(f"w-{n}" for n in range(hosts)), "run")
    peer = broker.accept()
    spawned = {peer.expect(frames.SPAWN).session}
    shim.send_signal(signal.SIGINT)
    signalled = set()
    while len(signalled) < hosts:
        frame = peer.receive()
        assert frame is not None
        assert frame.type in (frames.SPAWN, frames.SIGNAL)
        (spawned if frame.type == frames.SPAWN else signalled).add(frame.session)
    assert signalled == spawned
    shim.kill()


def test_usage_errors_need_no_broker(broker: SocketBroker, start: Start):
    shim = run_pdsh(start, broker, "-w", "a")
    _, err = shim.communicate(timeout=20)
    assert shim.returncode == pdsh.USAGE_ERROR
    assert b"no command given" in err
