from __future__ import annotations

import fcntl
import os
import shlex
import stat
import time
from pathlib import Path

import pytest

from et_contract import frames, paths
from launcher.agent.ranks import RankFiles
from tests.unit.launcher.agent.workers import PYTHON, Peer, Worker
from tests.unit.launcher.ranks.horovods import RANK, RANKS, install, run_python
from tests.unit.launcher.shim.brokers import ROOT

STEPS = """
import time
def wait(name):
    print("at", name, flush=True)
    while not os.path.exists(name):
        time.sleep(0.01)

wait("init")
horovod.during = lambda: wait("ring")
horovod.init()
wait("end")
"""


def ask(peer: Peer) -> list[int]:
    peer.say(frames.PING, {"sent": 1.5})
    answer = peer.expect(frames.PONG)
    assert answer.pop("sent") == 1.5
    ranks: list[int] = answer.pop("ranks")
    assert abs(answer.pop("clock") - time.monotonic()) < 20
    assert answer == {}
    return ranks


@pytest.mark.long
def test_a_rank_says_how_far_it_is_and_nothing_after_its_end(worker: Worker):
    peer = worker.start().hello()
    assert ask(peer) == [0, 0, 0]
    ours = worker.folder / "run" / Path(paths.RANKS_DIR).name
    path = f"{ours}:{install(worker.folder / 'lib')}"
    words = ["env", f"PYTHONPATH={path}", PYTHON, "-c", RANK + STEPS]
    claim = peer.spawn(shlex.join(words))

    for name, ranks in (("init", [1, 0, 0]), ("ring", [0, 1, 0]), ("end", [0, 0, 1])):
        peer.wait_for(claim, f"at {name}\n".encode())
        assert ask(peer) == ranks
        (worker.folder / name).touch()
    assert peer.finish(claim)[0] == 0
    assert ask(peer) == [0, 0, 0]


def test_whoever_is_pinged_with_anything_says_it_again(worker: Worker):
    peer = worker.start().hello()
    peer.send(frames.encode(frames.PING, payload=b"[1]"))
    while not any(frame.type == frames.PONG for frame in peer.queue):
        assert peer.read()
    assert [frame.payload for frame in peer.queue if frame.type == frames.PONG] == [b"[1]"]


def test_an_init_that_fails_is_none(tmp_path: Path):
    folder = tmp_path / Path(paths.RANK_STATES_DIR).name
    ranks = RankFiles(str(folder))
    (tmp_path / "ranks").symlink_to(RANKS)
    script = """
def fail(): raise ValueError
horovod.during = fail
try:
    horovod.init()
except ValueError:
    print(open(os.path.join(sys.argv[1], str(os.getpid()))).read())
"""
    path = f"{tmp_path / 'ranks'}:{install(tmp_path / 'lib')}"
    done = run_python("-c", RANK + script, str(folder), path=path)
    assert (done.stdout, done.stderr) == ("imported\n", "")
    assert ranks.count() == [0, 0, 0]
    assert [*folder.iterdir()] == []


def run_rank(tmp_path: Path, script: str) -> str:
    """What a rank prints that can ask how many are in which state, as the agent does."""
    folder = tmp_path / Path(paths.RANK_STATES_DIR).name
    RankFiles(str(folder))
    (tmp_path / "ranks").symlink_to(RANKS)
    ask = f"""
import os, subprocess, sys
folder = {str(folder)!r}
words = (
    "from launcher.agent.ranks import RankFiles; files = RankFiles.__new__(RankFiles); "
    "files._folder = '{folder}'; print(files.count())"
)
def count():
    done = subprocess.run([{PYTHON!r}, "-c", words], cwd={str(ROOT)!r}, stdout=-1, check=True)
    print(done.stdout.decode().strip(), flush=True)
"""
    path = f"{tmp_path / 'ranks'}:{install(tmp_path / 'lib')}"
    done = run_python("-c", RANK + ask + script, path=path)
    assert done.stderr == ""
    return done.stdout


def test_a_rank_that_may_open_nothing_there_any_more_says_on_how_far_it_is(tmp_path: Path):
    """It may have given its rights away."""
    run_rank(tmp_path, "os.rename(folder, folder + '.away')\nhorovod.init()")
    folder = tmp_path / (Path(paths.RANK_STATES_DIR).name + ".away")
    assert [path.read_text() for path in folder.iterdir()] == ["joined"]


@pytest.mark.long
def test_another_program_that_a_rank_becomes_is_none(tmp_path: Path):
    script = """
horovod.init()
count()
os.execv(sys.executable, [sys.executable, "-c", "import subprocess; "
    f"print(subprocess.run([{sys.executable!r}, '-c', {words!r}], cwd={root!r}, stdout=-1)"
    ".stdout.decode().strip())"])
"""
    assert run_rank(tmp_path, f"root = {str(ROOT)!r}" + script) == "[0, 0, 1]\n[0, 0, 0]\n"


def test_a_rank_that_closes_all_says_nothing_more_and_writes_into_no_other_file(tmp_path: Path):
    script = """
listener.close()
os.closerange(3, 256)
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(9)
horovod.address = listener.getsockname()
name = folder + ".other"
for number in range(3, 100):
    if number != listener.fileno():
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
horovod.init()
print(os.stat(name).st_size)
count()
"""
    assert run_rank(tmp_path, script) == "0\n[0, 0, 0]\n"


@pytest.mark.long
def test_a_fork_of_a_rank_says_it_of_itself(tmp_path: Path):
    script = """
child = os.fork()
if child == 0:
    horovod.init()
    count()
    os._exit(0)
os.waitpid(child, 0)
count()
"""
    assert run_rank(tmp_path, script) == "[1, 0, 1]\n[1, 0, 0]\n"


def test_what_others_put_there_counts_nothing(tmp_path: Path):
    ranks = RankFiles(str(tmp_path))
    mine, parent = str(os.getpid()), str(os.getppid())
    (tmp_path / mine).write_text("joined" * 1000)
    (tmp_path / parent).symlink_to(tmp_path / "other")
    (tmp_path / "other").write_text("joined")
    os.mkfifo(tmp_path / "1")
    assert ranks.count() == [0, 0, 0]
    (tmp_path / mine).write_text("joined")
    assert ranks.count() == [0, 0, 0]
    with (tmp_path / mine).open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert ranks.count() == [0, 0, 1]
    assert RankFiles(str(tmp_path)).count() == [0, 0, 0]


def test_what_cannot_be_removed_keeps_nothing_else(tmp_path: Path):
    for number in range(8):
        (tmp_path / f"1{number}").mkdir()
        (tmp_path / f"2{number}").touch()
    RankFiles(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {f"1{number}" for number in range(8)}


def test_ranks_may_be_another_user_than_the_agent(tmp_path: Path):
    folder = tmp_path / "rank-states"
    before = os.umask(0o077)
    try:
        RankFiles(str(folder))
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777


def test_where_there_can_be_no_folder_nothing_is_known(tmp_path: Path):
    (tmp_path / "file").touch()
    assert RankFiles(str(tmp_path / "file")).count() == [0, 0, 0]


def test_what_a_link_in_its_place_leads_to_is_left_alone(tmp_path: Path):
    other, folder = tmp_path / "other", tmp_path / "states"
    other.mkdir()
    gone = (other / "99999999", other / str(os.getpid()))
    for path in gone:
        path.write_text("joined")
    ranks = RankFiles(str(folder))
    folder.rmdir()
    folder.symlink_to(other)
    with gone[1].open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert ranks.count() == [0, 0, 0]
    assert RankFiles(str(folder)).count() == [0, 0, 0]
    assert sorted(other.iterdir()) == sorted(gone)


def test_what_ranks_are_told_is_written_whole_and_forgotten_by_the_next_container(tmp_path: Path):
    states, gone = tmp_path / "rank-states", tmp_path / Path(paths.GONE_FILE).name
    ranks, other = RankFiles(str(states)), tmp_path / "other"
    other.write_text("as it was")
    Path(f"{gone}.new").symlink_to(other)
    before = os.umask(0o077)
    try:
        ranks.tell(12.5, ["10.0.0.1", "fd00::1"])
    finally:
        os.umask(before)
    assert gone.read_text() == "12.5\n10.0.0.1\nfd00::1"
    assert stat.S_IMODE(gone.stat().st_mode) == 0o644  # ranks may be another user
    gone.unlink()
    gone.symlink_to(other)
    ranks.tell(13.5, [])
    assert gone.read_text() == "13.5"
    assert other.read_text() == "as it was"
    RankFiles(str(states))
    assert not gone.exists()


@pytest.mark.long
def test_an_agent_that_cannot_tell_its_ranks_says_so_and_goes_on(worker: Worker):
    peer = worker.start().hello()
    (worker.folder / "run" / "gone").mkdir()
    peer.say(frames.BREAK, {"addresses": ["10.0.0.1"], "before": 0.5})
    worker.wait_until(lambda: "cannot tell ranks who is gone" in worker.log)
    (worker.folder / "run" / "gone").rmdir()
    peer.say(frames.BREAK, {"addresses": ["10.0.0.1"], "before": 1.5})
    worker.wait_until((worker.folder / "run" / "gone").exists)
    assert (worker.folder / "run" / "gone").read_text() == "1.5\n10.0.0.1"
