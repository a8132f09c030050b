"""What ssh would make of a command line of rsh.py's, and whether that starts a rank. Pure.

One that cannot be carried out is a UsageError with words for people, which pdsh.py raises too; what
ssh would take and is of no use here is passed over.
"""

from __future__ import annotations

import re
from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:  # keeps `typing` out of the start of a worker process
    from typing import List, Sequence, Set

Remote = namedtuple("Remote", ["host", "command", "flags", "ranks"])
"""The worker's name, the command for its `sh -c`, which options without a value were given, and how
many ranks of horovodrun the command is."""

_RANK = re.compile(r"(?:^|\s)HOROVOD_RANK=[0-9]")
"""How horovodrun begins the command of each rank, see horovod/runner/gloo_run.py."""
_SSH_FLAGS = frozenset("1246AaCfGgKkMNnqsTtVvXxYy")
_SSH_VALUES = frozenset("bcDEeFIiJLlmOopQRSWwP")


class UsageError(ValueError):
    """A command line that cannot be carried out; the message is for people."""


def parse_remote(argv: Sequence[str]) -> Remote:
    """Reads arguments as ssh does: options, host, options again, then the command.

    Options with a value are skipped, for nothing they say applies here. The command's words are
    joined with one space, as ssh does it, and are for a shell.
    """
    flags: Set[str] = set()
    rest = _skip_options(argv, flags)
    if not rest:
        raise UsageError("no host given; usage: [ssh options] host command...")
    host = _host_name(rest[0])
    words = _skip_options(rest[1:], flags)
    if not words:
        raise UsageError(f"no command given for {host}: there are no interactive sessions")
    command = " ".join(words)
    return Remote(host, command, frozenset(flags), _count_ranks(command))


def _count_ranks(command: str) -> int:
    """How many ranks of horovodrun a command for a worker is: 1, or 0 for anything else.

    ssh is also asked by horovodrun whether a host is there, by mpirun, by scripts and by people.
    """
    return 1 if _RANK.search(command) else 0


def _skip_options(argv: Sequence[str], flags: Set[str]) -> List[str]:
    rest = list(argv)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        wants_next = _read_option(word, flags)
        if wants_next and not rest:
            raise UsageError(f"option {word} needs a value")
        if wants_next:
            rest.pop(0)
    return rest


def _read_option(word: str, flags: Set[str]) -> bool:
    """Whether the value of the option in `word` ("-vp", "-p22", "-p") is the next word."""
    for place, letter in enumerate(word[1:], start=2):
        if letter in _SSH_VALUES:
            return place == len(word)
        if letter not in _SSH_FLAGS:
            raise UsageError(f"unknown ssh option -{letter} in {word}")
        flags.add(letter)
    return False


def _host_name(word: str) -> str:
    """`user@name.domain` -> `name`; an IPv4 address stays whole."""
    name = word.rpartition("@")[2]
    if not name.replace(".", "").isdigit():
        name = name.partition(".")[0]
    if not name:
        raise UsageError(f"no host in {word!r}")
    return name
