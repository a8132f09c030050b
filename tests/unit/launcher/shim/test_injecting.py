"""horovodrun with our transport inside, against a broker played by the test.

Horovod is a stand-in with the names, signatures and calls that are used of it; the end-to-end
tests have the real one.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from et_contract import frames
from tests.unit.launcher.shim.brokers import PYTHON, Peer, SocketBroker, Start

SPAWNED = {"pid": 7, "instance": "cafe"}
GLOO_RUN = """
def _exec_command_fn(settings):
    def _exec_command(command, slot_info, events):
        print("a shell runs", command, flush=True)
        return 0, 0.0
    return _exec_command

def launch_gloo_elastic(command, exec_command, settings):
    pass
"""
DISCOVERY = """
class HostDiscoveryScript:
    def __init__(self, discovery_script, slots):
        self._discovery_script = discovery_script

    def find_available_hosts_and_slots(self):
        return {"of a script": 1}
"""
WORKER = """
class WorkerNotificationClient:
    def _probe(self, addresses):
        return addresses

    def notify_hosts_updated(self, timestamp, update_res):
        pass
"""
HOROVODRUN = """#!{python} -IS
import signal, sys, threading, types
sys.path.insert(0, {tree!r})
from horovod.runner import gloo_run
from horovod.runner.elastic.discovery import HostDiscoveryScript

def main(script, folder, elastic):
    settings = types.SimpleNamespace(elastic=elastic, verbose=0, num_proc=2, output_filename=folder)
    hosts = HostDiscoveryScript(script, None).find_available_hosts_and_slots()
    print("hosts", hosts, flush=True)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    run = gloo_run._exec_command_fn(settings)
    def work(rank, host):
        code, _ = run("train " + str(rank), types.SimpleNamespace(rank=rank, hostname=host), [stop])
        print("rank", rank, "ended with", code, flush=True)
    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(sorted(hosts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.exit(5)

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] or None, sys.argv[3] == "elastic")
"""


@pytest.fixture
def tree(tmp_path: Path, horovod: Path) -> Path:
    """A folder with a `horovod` to import and a `horovodrun`."""
    (horovod / "runner/gloo_run.py").write_text(GLOO_RUN)
    (horovod / "runner/elastic/discovery.py").write_text(DISCOVERY)
    (horovod / "runner/elastic/worker.py").write_text(WORKER)
    program = tmp_path / "horovodrun"
    program.write_text(HOROVODRUN.format(python=PYTHON, tree=str(tmp_path)))
    program.chmod(0o755)
    return tmp_path


def run(
    start: Start,
    tree: Path,
    *,
    script: str = "/etc/edl/discover_hosts.sh",
    folder: str = "",
    mode: str = "elastic",
    settings: str = "",
    **options: Any,
) -> Any:
    code = f"sys.path.insert(0, {str(tree)!r}); import os; from launcher.protocol import courses; "
    code += "from launcher.shim import injecting, sharing; "
    code += f"{settings}; " if settings else ""
    code += f"sys.exit(injecting.main(sys.argv[1:], {str(tree / 'broker.sock')!r}))"
    env = {**os.environ, "EDL_NONCE": "n0"}
    return start(code, str(tree / "horovodrun"), script, folder, mode, env=env, **options)


def serve_hosts(broker: SocketBroker, text: str = "w-0:1\nw-1:1\n") -> dict[str, Any]:
    """Answer the one look at the list."""
    reader = broker.accept()
    body = reader.body(frames.HOSTS)
    reader.send(frames.HOSTS_LIST, {"text": text})
    return body


def open_all(broker: SocketBroker) -> tuple[Peer, dict[str, frames.Frame]]:
    """The one connection, and each host's SPAWN."""
    peer = broker.accept()
    spawns = {}
    for _ in range(2):
        spawn = peer.expect(frames.SPAWN)
        spawns[frames.decode_json(spawn)["host"]] = spawn
        peer.send(frames.SPAWNED, SPAWNED, spawn.session)
    return peer, spawns


def finish(peer: Peer, session: bytes, code: int, out: int = 0, err: int = 0) -> None:
    peer.send(frames.EXIT, {"code": code, "produced": [out, err], "reason": "exited"}, session)
    assert peer.expect(frames.EXIT_ACK).session == session


def test_slots_and_the_list_go_through_the_broker(broker: SocketBroker, start: Start, tree: Path):
    driver = run(start, tree)
    assert serve_hosts(broker) == {"nonce": "n0"}
    peer, spawns = open_all(broker)
    body = frames.decode_json(spawns["w-1"])
    assert body["command"] == f"cd {Path.cwd()} > /dev/null 2>&1 ; train 1"
    assert (body["ranks"], body["blacklists"]) == (1, True)
    peer.send_data(spawns["w-0"].session, b"step=1\nste")
    peer.send_data(spawns["w-1"].session, b"\xff\0 10%\r", channel=frames.STDERR)
    finish(peer, spawns["w-1"].session, 134, err=7)
    finish(peer, spawns["w-0"].session, 0, out=10)
    out, err = driver.communicate(timeout=20)
    lines = out.splitlines()
    assert b"hosts {'w-0': 1, 'w-1': 1}" in lines
    assert b"[0]<stdout>:step=1" in lines
    assert b"\n[0]<stdout>:ste" in out
    assert b"Process 1 exit with status code 134." in out
    assert b"rank 1 ended with 134" in out
    assert b"[1]<stderr>:\xff\0 10%\r" in err
    assert driver.returncode == 5


@pytest.mark.long
def test_a_broker_that_restarts_finds_every_session_again(
    broker: SocketBroker, start: Start, tree: Path
):
    driver = run(start, tree)
    serve_hosts(broker)
    peer, spawns = open_all(broker)
    peer.send_data(spawns["w-0"].session, b"abc\n")
    peer.expect(frames.ACK)
    broker.restart()
    peer = broker.accept()
    resumed = {
        frame.session: frames.decode_json(frame)
        for frame in (peer.expect(frames.RESUME), peer.expect(frames.RESUME))
    }
    assert resumed[spawns["w-0"].session]["received"] == [4, 0]
    assert resumed[spawns["w-1"].session]["received"] == [0, 0]
    peer.send_data(spawns["w-0"].session, b"c\ndef\n", offset=2)
    finish(peer, spawns["w-0"].session, 0, out=8)
    finish(peer, spawns["w-1"].session, 0)
    out, _ = driver.communicate(timeout=20)
    assert [line for line in out.splitlines() if b"[0]" in line] == [
        b"[0]<stdout>:abc",
        b"[0]<stdout>:def",
    ]


def test_workers_that_are_gone_or_refuse_are_told_apart(
    broker: SocketBroker, start: Start, tree: Path
):
    driver = run(start, tree)
    serve_hosts(broker)
    peer, spawns = open_all(broker)
    peer.send(frames.LOST, {"reason": "the pod is gone", "code": 137}, spawns["w-0"].session)
    peer.send(frames.LOST, {"reason": "leaving", "code": 255}, spawns["w-1"].session)
    out, err = driver.communicate(timeout=20)
    assert b"rank 0 ended with 137" in out
    assert b"rank 1 ended with 255" in out
    assert b"[0]<stderr>:edl: w-0: the pod is gone\n" in err


@pytest.mark.long
def test_an_event_ends_the_processes(broker: SocketBroker, start: Start, tree: Path):
    settings = "courses.KILL_AFTER_SECONDS = 0.05"
    driver = run(start, tree, settings=settings)
    serve_hosts(broker)
    peer, spawns = open_all(broker)
    driver.send_signal(signal.SIGTERM)
    told = [peer.expect(frames.SIGNAL) for _ in range(2)]
    for frame in told:
        number = frame.offset
        peer.connection.sendall(frames.encode(frames.SIGNALED, frame.session, offset=number))
    told += [peer.expect(frames.SIGNAL) for _ in range(2)]
    assert {(f.session, frames.decode_json(f)["signal"]) for f in told} == {
        (spawn.session, number) for spawn in spawns.values() for number in (15, 9)
    }
    for spawn in spawns.values():
        peer.send(frames.EXIT, {"code": 143, "produced": [0, 0]}, spawn.session)
    out, _ = driver.communicate(timeout=20)
    assert b"rank 0 ended with 143" in out


@pytest.mark.long
def test_a_process_that_does_not_end_is_waited_for_no_longer_than_horovodrun_does(
    broker: SocketBroker, start: Start, tree: Path
):
    driver = run(start, tree, settings="sharing.GIVE_UP_SECONDS = 0.1")
    serve_hosts(broker)
    peer, _ = open_all(broker)
    driver.send_signal(signal.SIGTERM)
    assert peer.body(frames.SIGNAL) == {"signal": signal.SIGTERM}
    out, _ = driver.communicate(timeout=20)
    assert b"rank 0 ended with 137" in out
    assert b"rank 1 ended with 137" in out


def test_a_killed_horovodrun_leaves_its_sessions_to_the_broker(
    broker: SocketBroker, start: Start, tree: Path
):
    driver = run(start, tree)
    serve_hosts(broker)
    peer, _ = open_all(broker)
    driver.kill()
    try:
        assert peer.receive() is None
    except ConnectionResetError:
        driver.wait(20)  # it had not read everything


@pytest.mark.long
def test_without_a_broker_nothing_is_started(broker: SocketBroker, start: Start, tree: Path):
    broker.stop()
    driver = run(start, tree, script="/hosts.sh", settings="courses.SPAWN_SECONDS = 0.2")
    out, err = driver.communicate(timeout=20)
    assert b"rank 0 ended with 255" in out
    assert b"no broker in this pod" in err


@pytest.mark.long
def test_a_command_that_no_broker_takes_ends_alone(broker: SocketBroker, start: Start, tree: Path):
    longest = "courses.LONGEST_OPENING = len(os.getcwd()) + 147"
    tree.joinpath("horovodrun").write_text(
        HOROVODRUN.format(python=PYTHON, tree=str(tree)).replace(
            '"train " + str(rank)', '"train " + "x" * 100 * rank'
        )
    )
    driver = run(start, tree, settings=longest)
    serve_hosts(broker)
    peer = broker.accept()
    spawn = peer.expect(frames.SPAWN)
    peer.send(frames.SPAWNED, SPAWNED, spawn.session)
    finish(peer, spawn.session, 0)
    out, err = driver.communicate(timeout=20)
    assert b"rank 0 ended with 0" in out
    assert b"rank 1 ended with 255" in out
    assert b"longer than 1 MiB" in err


def test_output_files_are_written_too(broker: SocketBroker, start: Start, tree: Path):
    driver = run(start, tree, folder=str(tree / "logs"))
    serve_hosts(broker)
    peer, spawns = open_all(broker)
    for host, text in (("w-0", b"zero\n"), ("w-1", b"one\n")):
        peer.send_data(spawns[host].session, text)
        finish(peer, spawns[host].session, 0, out=len(text))
    driver.communicate(timeout=20)
    assert (tree / "logs/rank.1/stdout").read_bytes() == b"[1]<stdout>:one\n"
    assert (tree / "logs/rank.0/stderr").read_bytes() == b""


def test_a_discovery_script_of_the_users_is_run(broker: SocketBroker, start: Start, tree: Path):
    driver = run(start, tree, script="/home/me/hosts.sh")
    peer = broker.accept()
    spawn = peer.expect(frames.SPAWN)
    assert frames.decode_json(spawn)["host"] == "of a script"
    peer.send(frames.LOST, {"reason": "no such worker", "code": 255}, spawn.session)
    out, _ = driver.communicate(timeout=20)
    assert b"hosts {'of a script': 1}" in out


def test_a_static_run_is_left_alone(broker: SocketBroker, start: Start, tree: Path):
    driver = run(start, tree, mode="static")
    serve_hosts(broker)
    out, _ = driver.communicate(timeout=20)
    assert b"a shell runs train 0" in out


@pytest.mark.parametrize(
    ("file", "old", "new", "why"),
    [
        ("gloo_run.py", "_exec_command_fn(settings)", "_exec_command_fn(settings, env)", "takes"),
        ("gloo_run.py", "slot_info, events", "slot_info", "takes"),
        ("gloo_run.py", "launch_gloo_elastic", "launch_elastic", "launch_gloo_elastic"),
        ("elastic/discovery.py", "slots(self)", "slots(self, known)", "takes"),
        (
            "elastic/discovery.py",
            "class HostDiscoveryScript",
            "class Script",
            "HostDiscoveryScript",
        ),
    ],
)
def test_another_horovod_is_run_without_us(
    start: Start, tree: Path, file: str, old: str, new: str, why: str
):
    path = tree / "horovod/runner" / file
    path.write_text(path.read_text().replace(old, new))
    driver = run(start, tree, mode="static")
    _, err = driver.communicate(timeout=20)
    assert b"horovodrun starts a process per slot" in err
    assert why.encode() in err
    assert b"by itself" not in err


def test_a_horovod_that_tells_otherwise_is_left_as_it_is(
    broker: SocketBroker, start: Start, tree: Path
):
    (tree / "horovod/runner/elastic/worker.py").write_text("")
    driver = run(start, tree)
    serve_hosts(broker)
    peer, spawns = open_all(broker)
    for spawn in spawns.values():
        finish(peer, spawn.session, 0)
    out, err = driver.communicate(timeout=20)
    assert b"a lost worker may hold horovodrun up: ImportError" in out + err
