"""Runs one command in many workers at once: what DeepSpeed takes for pdsh.

    pdsh.py [-S] [-N] [-f number] -w host,host... command...

Takes the forms of options that DeepSpeed's runner uses (deepspeed/launcher/multinode_runner.py,
PDSHRunner.get_cmd) and what goes with them. In the command %n is a host's number in the list, %h
the host, %% a percent sign. Each line of output comes with its host in front. The exit code is
the greatest of the remote ones with -S, else 0. INT and TERM are passed on to the remote processes.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections import namedtuple

sys.path.insert(0, __file__.rpartition("/launcher/")[0])  # `python3 -I` adds no folder

from et_contract import paths
from launcher.shim import programs
from launcher.shim.arguments import UsageError
from launcher.shim.sharing import Switchboard
from launcher.shim.sinks import open_outputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Sequence

    from launcher.shim.sharing import Call

USAGE_ERROR = 1
_FLAGS = frozenset("SN")
_VALUES = frozenset("wflR")
"""Of these only -w says something here: all hosts are started at once, and always by us."""
_ALWAYS = (signal.SIGINT, signal.SIGTERM)
"""What is passed on even where the shell that began us has it ignored."""
_PLACE = re.compile("%([nh%])")

Order = namedtuple("Order", ["hosts", "command", "has_code", "has_prefix"])
"""What a command line asks for."""


def parse(argv: Sequence[str]) -> Order:
    """Reads options as getopt does, up to the first other word; raises UsageError."""
    words = list(argv)
    given = {}
    while words and words[0].startswith("-") and len(words[0]) > 1:
        word = words.pop(0)[1:]
        while word:
            letter, word = word[0], word[1:]
            if letter in _VALUES:
                if not word and not words:
                    raise UsageError(f"option -{letter} needs a value")
                given[letter], word = word or words.pop(0), ""
            elif letter in _FLAGS:
                given[letter] = ""
            else:
                raise UsageError(f"option -{letter} of pdsh is not known here")
    hosts = [host for host in given.get("w", "").split(",") if host]
    if not hosts or any("[" in host or host.startswith(("^", "-", "/")) for host in hosts):
        raise UsageError("give the hosts one by one: -w host,host...")
    if not words:
        raise UsageError("no command given: there are no interactive sessions")
    return Order(hosts, " ".join(words), "S" in given, "N" not in given)


def fill_in(command: str, host: str, number: int) -> str:
    """The command for one host."""
    values = {"n": str(number), "h": host, "%": "%"}
    return _PLACE.sub(lambda match: values[match.group(1)], command)


def main(argv: Sequence[str], broker: str = paths.BROKER_SOCKET) -> int:
    """Runs the command line; returns the exit code."""
    programs.take_output()
    # Bytes that are no UTF-8 travel as surrogates, whatever this container's locale is.
    words = [os.fsencode(word).decode("utf-8", "surrogateescape") for word in argv]
    try:
        order = parse(words)
    except UsageError as error:
        programs.say(str(error))
        return USAGE_ERROR
    # One that comes while hosts are started waits until all of them can hear it.
    heard = programs.find_heard(_ALWAYS)
    signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    board = Switchboard(broker)
    calls: List[Call] = []
    for place, host in enumerate(order.hosts):
        prefix = f"{host}: ".encode() if order.has_prefix else b""
        command = fill_in(order.command, host, place)
        calls.append(board.start(host, command, open_outputs(prefix)))
    threading.Thread(target=_pass_on, args=(board, calls, heard), daemon=True).start()
    return _wait(calls, order)


def _pass_on(board: Switchboard, calls: Sequence[Call], heard: Sequence[int]) -> None:
    # Not in a handler: one that runs just before its thread begins to wait is heard too late.
    while True:
        number = signal.sigwait(heard)
        for call in calls:
            board.signal(call, number)


def _wait(calls: Sequence[Call], order: Order) -> int:
    for call in calls:
        call.ended.wait()
        if call.code:
            programs.say(f"{call.claim.host}: exit code {call.code}")
    return max(call.code for call in calls) if order.has_code else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
