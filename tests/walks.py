"""Doing what a page says, in its order, and looking for what it shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tests.pages import Saved, Step, Typed
from tests.shapes import find_missing

ENDLESS = re.compile(
    r"^et watch |^(kubectl|et) logs .*(-f\b|--follow\b)|^kubectl get .*(-w|--watch)\b"
)
"""What goes on until it is told to end: it is for a second terminal."""
LOOKS = re.compile(r"^(kubectl (get|logs|describe)|et (describe|list|logs|queue|why)) ?")
"""What may be typed as often as somebody likes."""
MOST_LOOKS = 300


class WalkError(Exception):
    """The page says something else than what is."""


@dataclass(frozen=True)
class Answer:
    """What a command has printed, and its exit code."""

    printed: str
    code: int = 0


class Terminal(Protocol):
    """Where somebody types."""

    def save(self, name: str, text: str) -> None:
        """Write a file where the shell is."""

    def type(self, command: str) -> Answer:
        """Run it to its end."""

    def open(self, command: str) -> None:
        """Run it in a second terminal, for as long as the walk goes on."""

    def read_others(self) -> Sequence[str]:
        """What each of the second terminals has printed so far."""

    def pause(self) -> None:
        """Wait a little before another look."""


def walk(steps: Sequence[Step], terminal: Terminal) -> None:
    """Save and type everything; WalkError at the first line that is not as the page says."""
    for step in steps:
        if isinstance(step, Saved):
            terminal.save(step.name, step.text)
        else:
            _type(step, terminal)


def _type(step: Typed, terminal: Terminal) -> None:
    answers = [_run(step, command, terminal) for command in step.commands]
    for shown in step.shown:
        for _ in range(MOST_LOOKS):
            said = "\n".join(answers)
            missing = [find_missing(shown, text) for text in (said, *terminal.read_others())]
            if not all(missing):
                break
            terminal.pause()
            for place, command in enumerate(step.commands):
                if LOOKS.search(command) and not ENDLESS.search(command):
                    answers[place] = _run(step, command, terminal)
        else:
            raise WalkError(f"line {step.line}: nothing like\n{missing[0]}\nin\n{said}")


def _run(step: Typed, command: str, terminal: Terminal) -> str:
    if ENDLESS.search(command):
        terminal.open(command)
        return ""
    answer = terminal.type(command)
    if answer.code:
        words = f"line {step.line}: `{command}` ends with {answer.code}"
        raise WalkError(f"{words}\n{answer.printed}")
    return answer.printed
