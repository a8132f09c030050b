"""Whose a process is, by a folder that looks like /proc."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from launcher.agent import surveying
from launcher.agent.surveying import MARK, MOST_REAPED, Surveyor
from tests.unit.launcher.agent.workers import PYTHON

ONE, TWO = b"1" * 16, b"2" * 16
OWN = os.getpid()


class Proc:
    """Processes that no kernel knows: they are only looked at."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.surveyor = Surveyor(str(folder))

    def add(
        self, pid: int, *, parent: int = OWN, group: int = 0, sid: int = 0, start: int = 1,
        session: bytes | None = None, mark: bool = False, state: str = "S",
    ) -> None:  # fmt: skip
        place = self.folder / str(pid)
        place.mkdir(exist_ok=True)
        after = " ".join(["0"] * 15)
        stat = f"{pid} (a) b) {state} {parent} {group or pid} {sid or pid} {after} {start} 0 0\n"
        (place / "stat").write_text(stat)
        name = b"" if session is None else b"\0EDL_SESSION=" + session.hex().encode()
        (place / "environ").write_bytes(b"A=b" + name + b"\0")
        (place / "coredump_filter").write_text("00000133\n" if mark else "00000033\n")

    def end(self, pid: int) -> None:
        for file in (self.folder / str(pid)).iterdir():
            file.unlink()
        (self.folder / str(pid)).rmdir()

    def start(self, session: bytes, leader: int) -> None:
        self.add(leader)
        self.surveyor.add(session, leader)

    def count(self, session: bytes) -> int:
        return self.surveyor.sweep(session, 0, spares_group=False)

    def counts(self) -> tuple[int, int, int]:
        """Of one session, of the other, of all."""
        return self.count(ONE), self.count(TWO), self.surveyor.survey(0)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_group_kernel_session_and_descent_tell_whose_it_is(proc: Proc) -> None:
    proc.start(ONE, 100)
    proc.start(TWO, 200)
    proc.add(101, parent=100, group=100, sid=100)
    proc.add(102, parent=OWN, group=102, sid=100)
    proc.add(103, parent=101)
    proc.add(104, parent=103, session=TWO)
    assert proc.counts() == (5, 1, 6)


def test_an_orphan_is_known_by_its_environment_or_else_only_by_its_mark(proc: Proc) -> None:
    proc.start(ONE, 100)
    proc.add(300, session=ONE)
    proc.add(301, parent=300)
    proc.add(302, mark=True)
    proc.add(303, parent=302)
    assert proc.counts() == (3, 0, 5)


def test_an_orphan_belongs_to_the_session_in_which_it_was_seen(proc: Proc) -> None:
    proc.start(ONE, 100)
    proc.add(300, parent=100, mark=True)
    assert proc.counts() == (2, 0, 2)
    proc.end(100)
    proc.surveyor.forget(100)
    proc.add(300, mark=True)
    assert proc.counts() == (1, 0, 1)
    proc.add(300, mark=True, start=2)
    assert proc.counts() == (0, 0, 1), "another process of this number"


def test_zombies_strangers_and_the_containers_own_do_not_count(proc: Proc) -> None:
    proc.start(ONE, 100)
    proc.add(100, state="Z")
    proc.add(400)
    proc.add(401, parent=400)
    proc.add(402, parent=0, session=ONE, mark=True)
    proc.add(403, session=b"3" * 15)
    assert proc.counts() == (0, 0, 0)


OUTLIVED = """
import ctypes, os, threading
with open("/proc/self/coredump_filter", "w") as file:
    file.write(os.environ.get("FILTER", "0"))
def work():
    while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z":
        pass
    os.write(1, b"x")
    os.read(0, 1)
threading.Thread(target=work).start()
ctypes.CDLL(None).pthread_exit(None)
"""
"""Its first thread ends, and another one goes on."""


@contextmanager
def start_outlived(**env: str) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        [PYTHON, "-I", "-S", "-c", OUTLIVED],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, start_new_session=True,
    )  # fmt: skip
    with child:
        try:
            assert child.stdout
            assert child.stdout.read(1) == b"x"
            yield child
        finally:
            child.kill()


def test_a_process_whose_first_thread_has_ended_lives_and_ends_with_the_others() -> None:
    surveyor = Surveyor()
    with start_outlived() as child:
        surveyor.add(ONE, child.pid)
        assert surveyor.sweep(ONE, signal.SIGKILL, spares_group=False) == 1
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # all of it has ended
        assert surveyor.sweep(ONE, 0, spares_group=False) == 0


def test_its_name_and_its_mark_are_read_of_a_thread_that_goes_on() -> None:
    for env, counts in (
        ({"EDL_SESSION": ONE.hex()}, (1, 1)),
        ({"FILTER": str(MARK)}, (0, 1)),
        ({}, (0, 0)),
    ):
        with start_outlived(**env):
            surveyor = Surveyor()
            found = surveyor.sweep(ONE, 0, spares_group=False), surveyor.survey(0)
        assert found == counts


def test_a_number_that_comes_again_means_another_process(proc: Proc) -> None:
    proc.start(ONE, 100)
    proc.add(101, group=100, sid=100)
    proc.end(100)
    proc.surveyor.forget(100)
    assert proc.counts() == (1, 0, 1)
    proc.end(101)
    proc.add(100, parent=0, start=77)
    proc.add(101, parent=100, group=100, sid=100, start=78)
    assert proc.counts() == (0, 0, 0)


def test_a_number_that_a_session_of_ours_gets_again_is_that_session(proc: Proc) -> None:
    proc.start(ONE, 100)
    proc.surveyor.forget(100)
    proc.start(TWO, 100)
    assert proc.counts() == (0, 1, 1)


def test_an_environment_that_cannot_be_read_in_time_holds_nobody_up(
    proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveying, "ENVIRON_SECONDS", 0.01)
    proc.start(ONE, 100)
    proc.add(300, mark=True)
    (proc.folder / "300" / "environ").unlink()
    os.mkfifo(proc.folder / "300" / "environ")  # whoever opens it waits for a writer
    assert proc.counts() == (1, 0, 2)
    os.close(os.open(proc.folder / "300" / "environ", os.O_WRONLY))


def test_processes_whose_parents_make_a_circle_end_the_search(proc: Proc) -> None:
    proc.add(500, parent=501)
    proc.add(501, parent=500)
    assert proc.counts() == (0, 0, 0)


def test_what_cannot_be_looked_for_is_not_taken_for_gone(proc: Proc) -> None:
    proc.start(ONE, 100)
    (proc.folder / "100" / "stat").unlink()
    (proc.folder / "100" / "stat").symlink_to("stat")  # ELOOP stands for EMFILE
    with pytest.raises(OSError, match="symbolic") as caught:
        proc.surveyor.survey(0)
    assert caught.value.errno == errno.ELOOP


def test_where_no_thread_can_be_started_all_are_signalled_and_none_is_taken_for_gone(
    proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    killed: list[int] = []
    proc.start(ONE, 100)
    proc.add(300, mark=True)
    proc.add(301, session=ONE)
    proc.add(999, parent=100)
    with monkeypatch.context() as limit:
        limit.setattr(threading.Thread, "start", refuse)
        limit.setattr(surveying, "_kill", lambda pid, _number: killed.append(pid))
        for count in (lambda: proc.surveyor.survey(9), lambda: proc.count(ONE)):
            with pytest.raises(OSError, match="thread") as caught:
                count()
            assert caught.value.errno == errno.EAGAIN
    assert sorted(killed) == [100, 300, 999]
    assert proc.counts() == (3, 0, 4), "later all of them are known"


def test_the_number_of_a_session_that_ended_long_ago_means_it_no_more(proc: Proc) -> None:
    def run(leader: int) -> None:
        proc.start(ONE, leader)
        proc.end(leader)
        proc.surveyor.forget(leader)

    run(100)
    run(200)
    proc.add(201, group=200, sid=200)  # a daemon of it lives on
    for leader in range(1000, 1000 + MOST_REAPED):
        run(leader)
    # Nobody has looked for any process since, and the kernel has given the number out again.
    proc.add(555, group=100, sid=100)
    assert proc.count(ONE) == 1
    proc.end(201)
    assert proc.count(ONE) == 0


def test_whoever_is_not_below_us_or_says_nothing_of_handlers_is_not_signalled(proc: Proc) -> None:
    """None of these is there: who signalled one would end what has that number by now."""
    alive = proc.folder / str(2**22 + 7)
    mask = "SigCgt:\t{}\nCapInh:\t0000000000000000\n"
    for pid, parent, caught in (
        (2**22 + 1, OWN, "0000000000000000"),
        (2**22 + 2, OWN, "0000000000000800"),
        (2**22 + 3, OWN, "odd"),
        (2**22 + 4, 0, "0000000000000200"),
        (2**22 + 5, 2**22 + 6, "0000000000000200"),
        (2**22 + 6, 2**22 + 5, "0000000000000200"),
    ):
        proc.add(pid, parent=parent)
        (proc.folder / str(pid) / "status").write_text("Name:\tx\n" + mask.format(caught))
    proc.add(2**22 + 8, state="Z")
    proc.add(int(alive.name))
    assert proc.surveyor.notify(10) == 0
    proc.add(2**22 + 9, parent=2**22 + 1)
    (proc.folder / str(2**22 + 9) / "status").write_text("Name:\tx\n" + mask.format("200"))
    assert proc.surveyor.notify(10) == 1


@pytest.mark.parametrize("relay", ["orted", "mpirun", "prted", "sudo", "dumb-init"])
def test_who_passes_a_signal_on_to_all_is_not_told(proc: Proc, relay: str) -> None:
    """Open MPI's daemon has a handler, and would end the ranks by it that have none."""
    status = "Name:\t{}\nSigCgt:\t0000000000000200\n"
    for pid, parent, name in ((2**22 + 1, OWN, relay), (2**22 + 2, 2**22 + 1, "python")):
        proc.add(pid, parent=parent)
        (proc.folder / str(pid) / "status").write_text(status.format(name))
    assert proc.surveyor.notify(10) == 1, "the rank itself has one"


def test_each_is_signalled_before_the_next_is_looked_at(proc: Proc) -> None:
    """What is looked at much earlier may be another program by now, which ends by the signal."""
    children = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]  # neither has a handler
    for child in children:
        proc.add(child.pid)
        (proc.folder / str(child.pid) / "status").write_text("Name:\tx\nSigCgt:\t200\n")
    ended: list[int | None] = []

    class Looking(Surveyor):
        def _read(self, path: str) -> bytes | None:
            if path.endswith("/status"):
                ended.extend(child.wait(5) for child in children if child.pid in looked)
                looked.add(int(path.partition("/")[0]))
            return super()._read(path)

    looked: set[int] = set()
    try:
        assert Looking(str(proc.folder)).notify(10) == 2
    finally:
        for child in children:
            child.kill()
            child.wait()
    assert ended == [-10]
