"""Who waits for the broker in a process that has used up its file descriptors."""

from __future__ import annotations

from pathlib import Path

from launcher.shim.connecting import PROMPT_GROWTH, PROMPT_PAUSE, Line
from tests.unit.launcher.shim.brokers import SocketBroker, Start

USE_UP = """
import os, resource
from hostdiscovery import discover
from launcher.shim.connecting import Line
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
used = []
try:
    while True:
        used.append(os.dup(0))
except OSError:
    pass
"""
LOOK = """
print(discover.ask({path!r}, "nonce", 5.0), discover.discover({path!r}, {path!r}, "nonce"))
"""
CALL = """
line = Line({path!r})
print(line.connect(1.0, b"hello"), line.due_in(1.0) > 0)
os.close(used[0])
print(line.connect(9.0, b"hello"), line.due_in(9.0))
"""


def test_a_line_is_tried_again(broker: SocketBroker, start: Start):
    caller = start(USE_UP + CALL.format(path=str(broker.path)))
    assert broker.accept().connection.recv(5) == b"hello"
    assert caller.communicate(timeout=20)[0].split() == [b"False", b"True", b"True", b"None"]
    assert caller.returncode == 0


def test_a_look_at_the_list_finds_none(broker: SocketBroker, start: Start):
    hasten = "discover.FIRST_LIST_SECONDS = 0.0\n"
    looker = start(USE_UP + hasten + LOOK.format(path=str(broker.path)))
    assert looker.communicate(timeout=20)[0].split() == [b"None", b"None"]
    assert looker.returncode == 0


def test_a_broker_that_begins_is_found_soon(tmp_path: Path) -> None:
    line = Line(str(tmp_path / "none"), PROMPT_PAUSE, PROMPT_GROWTH)
    now = 0.0
    late = []
    while now < 10.0:
        assert not line.connect(now, b"")
        pause = line.due_in(now) or 0.0
        late.append(pause - 1.5 * (PROMPT_PAUSE + now / 10))
        now += pause
    assert max(late) < 0.02  # the dice may have made what was waited shorter than it was meant
    assert len(late) < 100
