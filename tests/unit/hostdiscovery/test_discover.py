"""discover.py as horovodrun runs it, against a broker played by the test."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from et_contract import frames
from hostdiscovery import discover
from tests.unit.launcher.shim.brokers import PYTHON, ROOT, SocketBroker

Run = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SocketBroker]:
    fake = SocketBroker(tmp_path / "broker.sock")
    yield fake
    fake.stop()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "hosts"


@pytest.fixture
def run(broker: SocketBroker, file: Path) -> Iterator[Run]:
    started: list[subprocess.Popen[bytes]] = []

    def start(setting: str = "pass") -> subprocess.Popen[bytes]:
        code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from hostdiscovery import discover"
        code += f"; from et_contract import paths; {setting}"
        code += f"; paths.BROKER_SOCKET = {str(broker.path)!r}; paths.HOSTS_FILE = "
        code += f"{str(file)!r}; sys.exit(discover.main())"
        environ = {"EDL_NONCE": "n0"}
        process = subprocess.Popen(
            [PYTHON, "-I", "-S", "-c", code],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_the_brokers_answer_is_printed(broker: SocketBroker, run: Run, file: Path):
    file.write_text("old:1\n")
    process = run()
    peer = broker.accept()
    assert peer.body(frames.HOSTS) == {"nonce": "n0"}
    peer.send(frames.HOSTS_LIST, {"text": "a:1\nb:2\nedl-nudge-1:0\n"})
    assert process.communicate(timeout=20) == (b"a:1\nb:2\nedl-nudge-1:0\n", b"")
    assert process.returncode == 0


def test_an_empty_list_is_an_answer(broker: SocketBroker, run: Run, file: Path):
    file.write_text("old:1\n")
    process = run()
    broker.accept().send(frames.HOSTS_LIST, {"text": ""})
    assert process.communicate(timeout=20) == (b"", b"")
    assert process.returncode == 0


@pytest.mark.parametrize("text", ["a:1:2\n", "nonsense", None, 7])
def test_no_garbage_of_the_broker_is_printed(
    broker: SocketBroker, run: Run, file: Path, text: object
):
    file.write_text("old:1\n")
    process = run()
    broker.accept().send(frames.HOSTS_LIST, {"text": text})
    assert process.communicate(timeout=20)[0] == b"old:1\n"


def test_a_frame_that_is_no_list_is_no_answer(broker: SocketBroker, run: Run, file: Path):
    file.write_text("old:1\n")
    process = run()
    broker.accept().send(frames.PING)
    assert process.communicate(timeout=20)[0] == b"old:1\n"


def test_without_a_broker_the_last_list_is_printed(broker: SocketBroker, run: Run, file: Path):
    file.write_text("old:1\n")
    broker.stop()
    assert run().communicate(timeout=20) == (b"old:1\n", b"")


@pytest.mark.long
def test_a_broker_that_does_not_answer_is_not_waited_for(
    broker: SocketBroker, run: Run, file: Path
):
    file.write_text("old:1\n")
    process = run()
    broker.accept()
    assert process.communicate(timeout=20) == (b"old:1\n", b"")
    assert process.returncode == 0


@pytest.mark.long
def test_the_first_call_waits_for_a_first_list(broker: SocketBroker, run: Run):
    process = run()
    for _ in range(2):
        peer = broker.accept()
        peer.expect(frames.HOSTS)
        peer.close()
    broker.accept().send(frames.HOSTS_LIST, {"text": "a:1\n"})
    assert process.communicate(timeout=20) == (b"a:1\n", b"")


@pytest.mark.long
def test_no_list_at_all_is_a_failure_and_not_an_empty_list(broker: SocketBroker, run: Run):
    broker.stop()
    process = run("discover.FIRST_LIST_SECONDS = 0.2")
    out, err = process.communicate(timeout=20)
    assert (out, process.returncode) == (b"", 1)
    assert b"no list of hosts" in err


@pytest.mark.long
def test_a_broken_file_is_a_failure_and_not_an_empty_list(
    run: Run, file: Path, broker: SocketBroker
):
    file.write_text("a:1\nb:\n")
    broker.stop()
    process = run("discover.FIRST_LIST_SECONDS = 0.2")
    assert process.communicate(timeout=20)[0] == b""
    assert process.returncode == 1


def test_the_broker_knows_whether_its_late_answer_was_used():
    """It notes a list as served when the answer could be sent."""
    reader, broker = socket.socketpair()
    with reader, broker:
        broker.sendall(b"in time")
        assert discover.receive(reader, 0.001) == b"in time"
        assert discover.receive(reader, 0.001) == b""
        with pytest.raises(BrokenPipeError):
            broker.sendall(b"too late")
