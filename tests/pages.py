"""Pages as whoever follows them reads them: what to save, what to type, what is printed then."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SAVED = re.compile(r"[Ss]ave (?:it )?as `([\w.-]+)`:$")
PROMPT = "$ "
COMMANDS = {"sh", "bash"}
"""The languages of fences with commands and nothing else."""
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class PageError(Exception):
    """A fence of which a reader would not know what it is for."""


@dataclass(frozen=True)
class Fence:
    """What stands between two lines of three backticks; `before` is the last line of prose."""

    line: int
    language: str
    text: str
    before: str = ""


@dataclass(frozen=True)
class Saved:
    """A file to be saved under this name."""

    line: int
    name: str
    text: str


@dataclass(frozen=True)
class Typed:
    """Commands that are typed one after the other, and what is to be seen then, a text each."""

    line: int
    commands: tuple[str, ...]
    shown: tuple[str, ...] = ()


Step = Saved | Typed


def read_fences(page: str) -> Iterator[Fence]:
    """All of them, in their order."""
    for found in _FENCE.finditer(page):
        prose = page[: found.start()].rstrip("\n")
        line = page.count("\n", 0, found.start()) + 1
        yield Fence(line, found[1], found[2], prose.rpartition("\n")[2])


def read_steps(fences: Sequence[Fence]) -> list[Step]:
    """What is to be done; PageError for a fence that is no file, no command and no answer.

    Commands are in fences of `sh`; in one without a language that begins with `$ `, each after its
    prompt and before what it prints. What is printed is in fences without a language.
    """
    steps: list[Step] = []
    for fence in fences:
        saved = SAVED.search(fence.before)
        if saved:
            steps.append(Saved(fence.line, saved[1], fence.text))
        elif fence.language in COMMANDS:
            steps.append(Typed(fence.line, split_commands(fence.text)))
        elif not fence.language and fence.text.startswith(PROMPT):
            steps.extend(_read_session(fence))
        elif not fence.language and steps and isinstance(steps[-1], Typed):
            last = steps.pop()
            steps.append(Typed(last.line, last.commands, (*last.shown, fence.text)))
        else:
            raise PageError(f"line {fence.line}: is this a file, a command or an answer?")
    return steps


def split_commands(text: str) -> tuple[str, ...]:
    """One for each line, but for those that end with a backslash; without lines of comment."""
    whole = re.sub(r"\\\n\s*", "", text)
    return tuple(line for line in whole.splitlines() if line.strip() and not line.startswith("#"))


def _read_session(fence: Fence) -> Iterator[Typed]:
    number = fence.line + 1
    lines = fence.text.splitlines()
    while lines:
        length = 1
        while lines[length - 1].endswith("\\") and length < len(lines):
            length += 1
        typed = "\n".join(lines[:length]).removeprefix(PROMPT)
        end = next((i for i, x in enumerate(lines) if i >= length and x.startswith(PROMPT)), None)
        answer = "\n".join(lines[length:end])
        yield Typed(number, split_commands(typed), (answer,) if answer else ())
        number += len(lines) if end is None else end
        lines = [] if end is None else lines[end:]
