"""Command lines: what ssh would make of ours, and what horovodrun makes of its own. Pure."""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:  # keeps `typing` out of the start of a worker process
    from typing import List, Sequence

Remote = namedtuple("Remote", ["host", "command"])
"""The worker's name and the command for its `sh -c`."""

_SSH_FLAGS = frozenset("1246AaCfGgKkMNnqsTtVvXxYy")
_SSH_VALUES = frozenset("bcDEeFIiJLlmOopQRSWwP")


class UsageError(ValueError):
    """A command line that cannot be carried out; the message is for people."""


def parse_remote(argv: Sequence[str]) -> Remote:
    """Reads arguments as ssh does: options, host, options again, then the command.

    Options are skipped, for nothing they say applies here. The command's words are joined with one
    space, as ssh does it, and are for a shell.
    """
    rest = _skip_options(argv)
    if not rest:
        raise UsageError("no host given; usage: [ssh options] host command...")
    host = _host_name(rest[0])
    words = _skip_options(rest[1:])
    if not words:
        raise UsageError(f"no command given for {host}: there are no interactive sessions")
    return Remote(host, " ".join(words))


def _skip_options(argv: Sequence[str]) -> List[str]:
    rest = list(argv)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        if _wants_next(word) and not rest:
            raise UsageError(f"option {word} needs a value")
        if _wants_next(word):
            rest.pop(0)
    return rest


def _wants_next(word: str) -> bool:
    """Whether the value of the option in `word` ("-vp", "-p22", "-p") is the next word."""
    for place, letter in enumerate(word[1:], start=2):
        if letter in _SSH_VALUES:
            return place == len(word)
        if letter not in _SSH_FLAGS:
            raise UsageError(f"unknown ssh option -{letter} in {word}")
    return False


def _host_name(word: str) -> str:
    """`user@name.domain` -> `name`; an IPv4 address stays whole."""
    name = word.rpartition("@")[2]
    if not name.replace(".", "").isdigit():
        name = name.partition(".")[0]
    if not name:
        raise UsageError(f"no host in {word!r}")
    return name
