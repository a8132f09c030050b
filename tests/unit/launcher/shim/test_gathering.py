"""torchrun in every listed worker, against a broker played by the test."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any

import pytest

from et_contract import frames
from et_contract.hosts import Host
from launcher.protocol.signals import PASSED
from launcher.shim.gathering import AGAIN_AFTER, LONG_SECONDS, Gathering
from launcher.shim.torch_options import CUT_OFF, LATE
from tests.unit.launcher.shim.brokers import PATIENCE, Peer, SocketBroker, Start
from tests.unit.launcher.shim.torches import build_torch

REFUSED = frames.EXIT_REFUSED
SPAWNED = {"pid": 7, "instance": "cafe"}


class Fleet:
    """Workers whose torchrun ends when the test says so."""

    def __init__(self, most: int = 4, patience: float = 60.0, least: int = 1) -> None:
        self.calls: dict[str, Any] = {}
        self.starts = ""
        self.signals: list[tuple[str, int]] = []
        self.gathering = Gathering(self.start, self.stop, least=least, most=most, patience=patience)
        self.now = 0.0

    def start(self, host: Host) -> Any:
        assert host.name not in self.calls or self.calls[host.name].ended.is_set()
        self.starts += host.name
        self.calls[host.name] = SimpleNamespace(host=host, ended=threading.Event(), code=-1)
        return self.calls[host.name]

    def stop(self, call: Any, number: int) -> None:
        self.signals.append((call.host.name, number))

    def end(self, code: int, *names: str) -> None:
        for name in names:
            self.calls[name].code = code
            self.calls[name].ended.set()

    def look(self, names: str, later: float = 1.0) -> int | None:
        """One look at this list; the exit code when all is over."""
        self.now += later
        listed = [Host(name, 1) for name in names]
        return self.gathering.advance(listed, self.gathering.find_ended(), self.now)


def test_hosts_that_come_are_started_and_hosts_that_go_get_sigterm_once():
    fleet = Fleet()
    fleet.look("ab")
    fleet.look("abc")
    assert list(fleet.calls) == ["a", "b", "c"]
    fleet.look("bc")
    fleet.look("bc")
    assert fleet.signals == [("a", signal.SIGTERM)]
    fleet.end(143, "a")
    assert fleet.look("bc") is None
    fleet.end(0, "b", "c")
    assert fleet.look("bc") == 0


def test_more_than_the_most_wait_until_another_leaves():
    fleet = Fleet(most=2)
    fleet.look("abc")
    assert list(fleet.calls) == ["a", "b"]
    fleet.look("bc")
    assert list(fleet.calls) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("ends", "left", "code"),
    [
        ({"a": 0, "b": 0}, "ab", 0),
        ({"a": 0, "b": 1}, "ab", 1),
        ({"a": 2, "b": 1}, "ab", 2),
        ({"a": 127, "b": 127}, "ab", 127),
        ({"a": 0, "b": 137}, "a", 0),  # lost
        ({"a": 0, "b": 1}, "a", 0),  # failed while it was leaving
        ({"a": 0, "b": 137}, "ab", 0),  # killed: the others went on
        ({"a": 0, "b": LATE}, "ab", 0),
        ({"a": 0, "b": 255}, "ab", 0),  # refused by a worker that is about to leave
        ({"a": 1, "b": 137}, "a", 1),
        ({"a": 137, "b": 137}, "ab", 137),
        ({"a": 137, "b": LATE}, "ab", 137),
    ],
)
def test_the_exit_code_is_of_those_that_ended_by_themselves(
    ends: dict[str, int], left: str, code: int
):
    fleet = Fleet()
    fleet.look("ab")
    for name, given in ends.items():
        fleet.end(given, name)
    assert fleet.look(left) == code


@pytest.mark.parametrize(
    ("ends", "left", "code"),
    [
        ({"a": 0, "b": 0}, "ab", 0),
        ({"a": 0, "b": 0}, "a", 0),  # it had done its part when it was asked to leave
        ({"a": 0, "b": 137}, "ab", 137),
        ({"b": 137, "a": 0}, "ab", 137),
        ({"a": 0, "b": 143}, "a", 143),  # evicted
        ({"a": 0, "b": LATE}, "ab", LATE),
        ({"a": 1, "b": 137}, "ab", 1),
    ],
)
@pytest.mark.parametrize("most", [2, 4])
def test_of_those_without_whom_the_run_cannot_be_a_0_is_needed(
    ends: dict[str, int], left: str, code: int, most: int
):
    fleet = Fleet(least=2, most=most)
    fleet.look("ab")
    for name, given in list(ends.items())[:1]:
        fleet.end(given, name)
    assert fleet.look("ab") is None
    fleet.end(list(ends.values())[1], list(ends)[1])
    assert fleet.look(left) == code


def test_one_that_came_in_the_place_of_a_lost_one_completes_the_run():
    fleet = Fleet(least=2, most=2)
    fleet.look("ab")
    fleet.end(137, "b")
    fleet.look("ac")
    fleet.end(0, "a", "c")
    assert fleet.look("ac") == 0


def test_nothing_is_started_once_one_has_ended_by_itself():
    fleet = Fleet()
    fleet.look("ab")
    fleet.end(0, "a")
    assert fleet.look("abc") is None
    assert list(fleet.calls) == ["a", "b"]


def test_one_that_was_killed_is_not_started_again_and_others_still_are():
    fleet = Fleet()
    fleet.look("ab")
    fleet.end(137, "a")
    assert fleet.look("abc") is None
    assert list(fleet.calls) == ["a", "b", "c"]


def test_a_run_whose_workers_were_all_lost_goes_on_with_the_next():
    fleet = Fleet()
    fleet.look("a")
    fleet.end(137, "a")
    assert fleet.look("") is None
    fleet.look("b")
    fleet.end(0, "b")
    assert fleet.look("b") == 0


def test_it_does_not_wait_for_ever_for_one():
    fleet = Fleet(patience=60)
    fleet.look("a")
    fleet.end(137, "a")
    assert fleet.look("") is None
    assert fleet.look("", later=59) is None
    assert fleet.look("", later=1) == 137
    fleet = Fleet(patience=60)
    for name in "ab":  # each time anew
        fleet.look(name)
        fleet.end(137, name)
        assert fleet.look("") is None
        assert fleet.look("", later=59) is None
    fixed = Fleet(patience=0)
    fixed.look("a")
    fixed.end(137, "a")
    assert fixed.look("") == 137


def test_one_that_was_cut_off_gets_another_one_and_says_nothing_of_the_end():
    fleet = Fleet()
    fleet.look("abc")
    fleet.end(CUT_OFF, "b")
    assert fleet.look("abc", later=200) is None
    fleet.look("abcd", later=AGAIN_AFTER - 1)
    assert fleet.starts == "abcd"
    fleet.look("abcd")
    assert fleet.starts == "abcdb"
    fleet.end(0, "a", "b", "c", "d")
    assert fleet.look("abcd") == 0


@pytest.mark.parametrize("patience", [0, 60])
def test_a_run_that_was_cut_off_as_a_whole_goes_on(patience: int):
    fleet = Fleet(least=2, most=2, patience=patience)
    fleet.look("ab")
    fleet.end(CUT_OFF, "a", "b")
    assert fleet.look("ab") is None
    assert fleet.look("ab", later=AGAIN_AFTER) is None
    assert fleet.starts == "abab"
    fleet.end(0, "a", "b")
    assert fleet.look("ab") == 0


@pytest.mark.parametrize(("least", "patience"), [(2, 0), (1, 60)])
def test_what_a_worker_refused_for_a_moment_is_tried_again_for_a_minute(least: int, patience: int):
    fleet = Fleet(least=least, most=2, patience=patience)
    fleet.look("ab")
    fleet.end(REFUSED, "a", "b")
    assert fleet.look("ab") is None
    fleet.look("ab", later=AGAIN_AFTER)
    fleet.end(REFUSED, "b")
    fleet.look("ab", later=0)
    assert fleet.look("ab", later=AGAIN_AFTER) is None
    assert fleet.starts == "ababb"
    fleet.end(0, "a", "b")
    assert fleet.look("ab") == 0
    fleet = Fleet(least=least, most=2, patience=patience)
    fleet.look("a", later=0)
    codes = []
    while not codes or codes[-1] is None:
        fleet.end(REFUSED, "a")
        codes.append(fleet.look("a", later=0))
        fleet.look("a", later=AGAIN_AFTER)
    assert (codes[-1], len(codes)) == (REFUSED, 60 / AGAIN_AFTER + 1)


def test_one_that_is_cut_off_as_the_others_end_is_not_waited_for():
    fleet = Fleet()
    fleet.look("ab")
    fleet.end(CUT_OFF, "b")
    assert fleet.look("ab") is None
    fleet.end(0, "a")
    assert fleet.look("ab") == 0
    assert fleet.starts == "ab"


def test_a_way_to_the_rendezvous_that_there_is_not_ends_the_run():
    fleet = Fleet()
    fleet.look("a", later=0)
    ends = []
    while not ends or ends[-1] is None:
        fleet.end(CUT_OFF, "a")
        ends.append(fleet.look("a", later=60))
        fleet.look("a", later=AGAIN_AFTER)
    assert (ends[-1], fleet.now // 60) == (CUT_OFF, 11)
    fleet = Fleet()
    for _ in range(99):  # it has trained in between
        fleet.look("a", later=AGAIN_AFTER)
        fleet.end(CUT_OFF, "a")
        assert fleet.look("a", later=600) is None


def test_one_that_has_trained_between_two_cuts_is_not_cut_off_again_and_again():
    fleet = Fleet()
    for _ in range(99):
        fleet.look("ab", later=AGAIN_AFTER)
        fleet.end(CUT_OFF, "a", "b")
        assert fleet.look("ab", later=LONG_SECONDS) is None


def test_one_that_was_refused_long_ago_and_has_trained_since_begins_anew():
    fleet = Fleet()
    fleet.look("ab")
    fleet.end(frames.EXIT_REFUSED, "a", "b")
    fleet.look("ab")
    fleet.look("ab", later=AGAIN_AFTER)
    fleet.look("ab", later=3600)
    fleet.end(CUT_OFF, "a", "b")
    fleet.look("ab")
    fleet.look("ab", later=AGAIN_AFTER)
    fleet.end(frames.EXIT_REFUSED, "a", "b")
    assert fleet.look("ab") is None


def test_one_that_was_asked_to_end_and_got_another_one_is_asked_again():
    fleet = Fleet(most=2)
    fleet.look("ab")
    fleet.look("a")
    fleet.end(CUT_OFF, "b")
    fleet.look("ab")
    fleet.look("abc", later=AGAIN_AFTER)
    assert fleet.starts == "abb"
    fleet.look("a")
    assert fleet.signals == [("b", signal.SIGTERM)] * 2


def test_a_signal_goes_to_all_and_ends_the_run():
    fleet = Fleet()
    fleet.look("ab")
    fleet.gathering.pass_on(signal.SIGTERM)
    assert fleet.signals == [("a", signal.SIGTERM), ("b", signal.SIGTERM)]
    assert fleet.look("bc") is None
    assert list(fleet.calls) == ["a", "b"]
    fleet.end(143, "a", "b")
    assert fleet.look("bc") == 143


class Desk:
    """Answers every look at the list, and hands out the one connection that has the sessions."""

    def __init__(self, broker: SocketBroker, text: str) -> None:
        self.text = text
        self.nonces: set[str] = set()
        self._broker = broker
        self._lines: Queue[Peer] = Queue()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._is_over.is_set():
            peer = self._broker.accept()
            first = peer.receive()
            if first is None:
                continue
            if first.type != frames.HOSTS:
                peer._received.insert(0, first)
                self._lines.put(peer)
                continue
            self.nonces.add(frames.decode_json(first)["nonce"])
            with suppress(OSError):  # it may be over there
                peer.send(frames.HOSTS_LIST, {"text": self.text})

    def open(self) -> Peer:
        return self._lines.get(timeout=PATIENCE)

    def stop(self) -> None:
        self._is_over.set()
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(self._broker.path))
        self._thread.join(PATIENCE)


@pytest.fixture
def desk(broker: SocketBroker) -> Iterator[Desk]:
    desk = Desk(broker, "w-0:2\nw-1:2\n")
    yield desk
    desk.stop()


def run(start: Start, tree: Path, *argv: str, stderr: Any = None, **environ: str) -> Any:
    real = build_torch(tree)
    code = f"sys.path.insert(0, {str(tree)!r}); from launcher.shim import gathering; "
    code += f"gathering.LOOK_SECONDS = 0.05; broker = {str(tree / 'broker.sock')!r}; "
    code += "sys.exit(gathering.main(sys.argv[1:], broker))"
    options = {} if stderr is None else {"stderr": stderr}
    return start(code, real, *argv, env={**os.environ, "EDL_NONCE": "n0", **environ}, **options)


def open_sessions(peer: Peer, *hosts: str) -> dict[str, frames.Frame]:
    """The SPAWN of each of these hosts."""
    spawns = {}
    for _ in hosts:
        spawn = peer.expect(frames.SPAWN)
        peer.send(frames.SPAWNED, SPAWNED, spawn.session)
        spawns[frames.decode_json(spawn)["host"]] = spawn
    assert set(spawns) == set(hosts)
    return spawns


def finish(peer: Peer, session: bytes, code: int, out: int = 0) -> None:
    peer.send(frames.EXIT, {"code": code, "produced": [out, 0], "reason": "exited"}, session)
    assert peer.expect(frames.EXIT_ACK).session == session


@pytest.mark.long
def test_two_run_a_third_comes_one_leaves(desk: Desk, start: Start, tmp_path: Path):
    process = run(start, tmp_path, "--nnodes=1:3", "train.py", "a b", PET_LOG_DIR="/logs")
    peer = desk.open()
    spawns = open_sessions(peer, "w-0", "w-1")
    body = frames.decode_json(spawns["w-0"])
    command = body["command"]
    assert body["ranks"] == 2
    assert "blacklists" not in body, "it starts others in the place of those that fail"
    assert command.startswith(f"cd {Path.cwd()} > /dev/null 2>&1 ; exec env ")
    assert (
        f" PET_MAX_RESTARTS=100 PET_LOG_DIR=/logs EDL_REAL={tmp_path}/torchrun python3 " in command
    )
    assert " PET_NPROC_PER_NODE=2 " in command
    assert command.endswith(" --rdzv_conf=last_call_timeout=5,is_host=0 train.py 'a b'")
    assert ":29999 --nnodes=1:3 --rdzv_backend=c10d --rdzv_endpoint=" in command
    desk.text = "w-0:2\nw-1:2\nedl-nudge-1:0\nw-2:2\n"
    spawns |= open_sessions(peer, "w-2")
    desk.text = "w-1:2\nw-2:2\n"
    told = peer.expect(frames.SIGNAL)
    assert told.session == spawns["w-0"].session
    assert frames.decode_json(told) == {"signal": signal.SIGTERM}
    finish(peer, spawns["w-0"].session, 143)
    peer.send_data(spawns["w-1"].session, b"step=1\n")
    finish(peer, spawns["w-1"].session, 0, out=7)
    finish(peer, spawns["w-2"].session, 0)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert out == b"w-1: step=1\n"
    assert b"edl: w-0 is off the list" in err
    assert b"edl: w-0: torchrun ended with 143" in err
    assert desk.nonces == {"n0"}


def test_a_log_without_room_ends_no_training(desk: Desk, start: Start, tmp_path: Path):
    with Path("/dev/full").open("wb") as full:
        process = run(start, tmp_path, "--nnodes=2", "train.py", stderr=full)
    peer = desk.open()
    spawns = open_sessions(peer, "w-0", "w-1")
    for spawn in spawns.values():
        finish(peer, spawn.session, 0)
    assert process.wait(PATIENCE) == 0


@pytest.mark.long
@pytest.mark.parametrize("number", PASSED)
def test_a_signal_reaches_the_workers(desk: Desk, start: Start, tmp_path: Path, number: int):
    process = run(start, tmp_path, "--nnodes=2", "train.py")
    peer = desk.open()
    spawns = open_sessions(peer, "w-0", "w-1")
    process.send_signal(number)
    told = [peer.expect(frames.SIGNAL) for _ in range(2)]
    assert {frame.session for frame in told} == {spawn.session for spawn in spawns.values()}
    assert [frames.decode_json(frame) for frame in told] == [{"signal": number}] * 2
    for spawn in spawns.values():
        finish(peer, spawn.session, 128 + number)
    assert process.wait(20) == 128 + number


@pytest.mark.long
def test_what_its_shell_ignores_is_nothing(desk: Desk, start: Start, tmp_path: Path):
    """As behind nohup, or where a script has a trap of its own for USR1."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = run(start, tmp_path, "--nnodes=2", "train.py")
    finally:
        signal.signal(signal.SIGHUP, before)
    peer = desk.open()
    spawns = open_sessions(peer, "w-0", "w-1")
    process.send_signal(signal.SIGHUP)
    for spawn in spawns.values():
        finish(peer, spawn.session, 0)
    assert process.wait(20) == 0


@pytest.mark.long
def test_a_run_that_is_not_ours_is_left_to_the_real_torchrun(start: Start, tmp_path: Path):
    process = run(start, tmp_path, "--standalone", "train.py")
    out, err = process.communicate(timeout=20)
    assert out == b"the real one --standalone train.py set()\n"
    assert b"in the launcher alone, for it has --standalone" in err


def test_a_wrong_number_of_nodes_is_told(start: Start, tmp_path: Path):
    process = run(start, tmp_path, "--nnodes=many", "train.py")
    _, err = process.communicate(timeout=20)
    assert process.returncode == 2
    assert b"--nnodes=many is neither N nor MIN:MAX" in err
