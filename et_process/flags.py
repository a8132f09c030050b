"""What a flag or its variable may say, where both are read alike: a number, or one of some words.

argparse calls these, and asks its own choices of no variable. A text that will not do is an
ArgumentTypeError with a sentence; nothing here reads the environment.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable


def read_between(name: str, least: int, most: int) -> Callable[[str], int]:
    """For a flag whose variable is called `name`: a number within these bounds, both included."""

    def read(text: str) -> int:
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most))
        if not is_number or not least <= int(text) <= most:
            message = f"(or {name}) must be a number from {least} to {most}, not {text[:64]!r}"
            raise argparse.ArgumentTypeError(message)
        return int(text)

    return read


def read_one_of(
    name: str, words: Iterable[str], spell: Callable[[str], str] = str
) -> Callable[[str], str]:
    """One of the words, as `spell` has what was given: with str.lower capitals say nothing."""
    allowed = tuple(map(str, words))

    def read(text: str) -> str:
        word = spell(text)
        if word not in allowed:
            message = f"(or {name}) must be {' or '.join(allowed)}, not {text[:64]!r}"
            raise argparse.ArgumentTypeError(message)
        return word

    return read
