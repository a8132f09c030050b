"""What becomes of the sockets of a ring that a rank has left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.launcher.ranks.horovods import BASICS, install, train
from tests.unit.launcher.shim.brokers import ROOT

LEAVE = "horovod.init(); accept(); horovod.shutdown(); "
AGAIN = "horovod.init(); accept(); "


def test_what_is_left_of_a_ring_is_shut_before_the_next_and_that_one_is_not(tmp_path: Path):
    script = f"{LEAVE} print(look()); {LEAVE} print(look()); {AGAIN} print(look())"
    done = train(install(tmp_path), script)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "[False, False]",
        "[True, True, False, False]",
        "[True, True, True, True, False, False]",
    ]


def test_what_init_takes_and_returns_is_as_it_was(tmp_path: Path):
    script = (
        "print(horovod.init([3], process_sets=()), horovod.init(comm=4), horovod.init.__name__)"
    )
    done = train(install(tmp_path), script)
    assert (done.stdout, done.stderr) == ("[3] as before init\n", "")


def test_an_init_of_what_is_up_ends_nothing(tmp_path: Path):
    script = f"{AGAIN} horovod.init(); print(look()); horovod.shutdown(); {AGAIN} print(look())"
    done = train(install(tmp_path), script)
    assert done.stdout.splitlines() == ["[False, False]", "[True, True, False, False]"]


@pytest.mark.long
def test_what_was_made_at_another_time_or_by_python_stays(tmp_path: Path):
    script = f"""
before = socket.create_connection(horovod.address).detach(); accept(1)
def connect():
    global mine, pair, port
    mine = socket.create_connection(horovod.address)
    pair = [end.detach() for end in socket.socketpair()]
    port = socket.socket(); port.bind(("127.0.0.1", 0)); port.listen(1)
    port = [port.getsockname(), port.detach()]
horovod.during = connect
horovod.init(); accept(3); horovod.during = lambda: None
after = socket.create_connection(horovod.address).detach(); accept(1)
horovod.shutdown(); {AGAIN}
print(look())
os.write(pair[0], b"there"); print(os.read(pair[1], 9))
socket.create_connection(port[0])
"""
    done = train(install(tmp_path), script)
    assert done.stderr == ""
    before, ring, mine, after = [False], [True, True], [False], [False]
    ends = [*before, *ring, *mine, *after, False, False]
    assert done.stdout.splitlines() == [str(ends), "b'there'"]


def test_what_a_library_in_c_connects_meanwhile_stays_where_gloos_can_be_told(tmp_path: Path):
    script = f"""
sys.path.append({str(ROOT)!r})
from tests.unit.launcher.ranks.buffers import Epoll
def connect():
    globals()["epoll"] = Epoll()
    epoll.add(*horovod.rings[0])
    globals()["theirs"] = socket.create_connection(horovod.address).detach()
horovod.during = connect
horovod.init(); accept(3); horovod.during = lambda: None
horovod.shutdown(); {AGAIN}
print(look())
"""
    done = train(install(tmp_path), script)
    assert (done.stdout, done.stderr) == ("[True, True, False, False, False]\n", "")


@pytest.mark.parametrize("later", ["gc.freeze()", "mine.detach()", "gc.freeze(); mine.detach()"])
def test_what_python_made_meanwhile_stays_though_it_cannot_be_found_later(
    tmp_path: Path, later: str
):
    script = f"""
import gc
def connect():
    global mine
    mine = socket.create_connection(horovod.address)
horovod.during = connect
horovod.init(); accept(3); horovod.during = lambda: None
{later}
horovod.shutdown(); {AGAIN}
print(look())
"""
    done = train(install(tmp_path), script)
    assert (done.stdout, done.stderr) == ("[True, True, False, False, False]\n", "")


def test_a_ring_is_broken_though_objects_were_frozen_before(tmp_path: Path):
    done = train(install(tmp_path), f"import gc; gc.freeze(); {LEAVE} {AGAIN} print(look())")
    assert (done.stdout, done.stderr) == ("[True, True, False, False]\n", "")


def test_the_connections_of_multiprocessing_stay(tmp_path: Path):
    script = """
from multiprocessing.connection import Client, Listener
import threading
there = Listener(("127.0.0.1", 0))
ends = []
taking = threading.Thread(target=lambda: ends.append(there.accept()), daemon=True)
taking.start()
def connect():
    ends.insert(0, Client(there.address))
    closed = Client(horovod.address); closed.close()
    globals()["closed"] = closed
    taking.join(20)
horovod.during = connect
horovod.init(); accept(); horovod.during = lambda: None
horovod.shutdown(); horovod.init()
ends[0].send("after"); print(ends[1].recv())
"""
    done = train(install(tmp_path), script)
    assert (done.stdout, done.stderr) == ("after\n", "")


def test_a_number_that_has_become_anothers_is_left_alone(tmp_path: Path):
    script = f"""
{LEAVE}
gone, taken = horovod.rings[0]
os.close(gone)
other = socket.create_connection(horovod.address).detach(); accept(1)
os.dup2(other, taken); os.close(other)
{AGAIN}
print(look())
"""
    done = train(install(tmp_path), script)
    assert done.stderr == ""
    assert done.stdout == "[True, True, False, False, False]\n"  # the first two were closed


def test_what_an_init_leaves_that_has_failed_is_shut_too(tmp_path: Path):
    script = f"""
def fail(): raise OSError("no ring")
horovod.during = fail
try: horovod.init()
except OSError as error: print(error)
accept(); horovod.during = lambda: None
{AGAIN}
print(look())
"""
    done = train(install(tmp_path), script)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["no ring", "[True, True, False, False]"]


def test_two_horovods_in_one_process_have_a_ring_each(tmp_path: Path):
    script = f"""
other = HorovodBasics(); other.address = horovod.address
other.init(); accept()
{LEAVE} {AGAIN}
print(look())
"""
    done = train(install(tmp_path), script)
    assert done.stdout == "[False, False, True, True, False, False]\n"


@pytest.mark.parametrize(
    ("version", "is_known"),
    [
        ("__version__ = '0.20.0'", True),
        ("__version__ = '0.28.1+nv24.3'", True),
        ("__version__ = '0.19.5'", False),
        ("__version__ = '0.29.0'", False),
        ("__version__ = '1.0'", False),
        ("__version__ = 'main'", False),
        ("__version__ = None", False),
        ("", False),
    ],
)
def test_a_version_that_nobody_has_looked_at_is_left_alone(
    tmp_path: Path, version: str, is_known: bool
):
    done = train(install(tmp_path, version=version), f"{LEAVE} {AGAIN} print(look()[:2])")
    assert done.stdout == f"[{is_known}, {is_known}]\n"
    told = [] if is_known else [line for line in done.stderr.splitlines() if "version" in line]
    assert done.stderr.splitlines() == told
    assert len(told) == (not is_known)


def test_of_what_is_unknown_rank_0_speaks_for_all(tmp_path: Path):
    folder = install(tmp_path, version="__version__ = '2.0'")
    said = [train(folder, LEAVE, HOROVOD_RANK=rank).stderr for rank in ("0", "1")]
    assert said == [
        "edl: this Horovod is not known (version 2.0), its broken rings are left to it\n",
        "",
    ]


def test_what_goes_wrong_is_told_though_something_unknown_was(tmp_path: Path):
    folder = install(tmp_path, version="__version__ = '2.0'")
    breaks = "HorovodBasics.is_initialized = lambda self: {}['gone']; "
    done = train(folder, f"{LEAVE} {breaks} horovod.init(); horovod.init()")
    unknown, error = done.stderr.splitlines()
    assert "version 2.0" in unknown
    assert error == "edl: broken rings are left to Horovod in this rank: KeyError: 'gone'"


@pytest.mark.long
def test_a_horovod_that_lacks_what_is_used_is_left_alone(tmp_path: Path):
    basics = BASICS.replace("def is_initialized", "def is_ready")
    done = train(install(tmp_path, basics), f"{LEAVE} {AGAIN} print(look())")
    assert done.stdout == "[False, False, False, False]\n"
    assert "no HorovodBasics.is_initialized" in done.stderr
    empty = train(install(tmp_path / "empty", "HorovodBasics = None"), "")
    assert "no HorovodBasics.init)" in empty.stderr


def test_what_goes_wrong_is_told_once_and_training_goes_on(tmp_path: Path):
    basics = BASICS.replace("return self.is_up", "raise RuntimeError('worn out')")
    done = train(install(tmp_path, basics), f"{LEAVE} {AGAIN} print(look())")
    assert (done.returncode, done.stdout) == (0, "[False, False, False, False]\n")
    assert done.stderr == (
        "edl: broken rings are left to Horovod in this rank: RuntimeError: worn out\n"
    )


def test_without_a_stderr_nothing_is_told_and_training_goes_on(tmp_path: Path):
    folder = install(tmp_path, version="")
    done = train(folder, f"sys.stderr.close(); sys.stderr = None; {LEAVE} {AGAIN} print(look())")
    assert (done.returncode, done.stdout) == (0, "[False, False, False, False]\n")
