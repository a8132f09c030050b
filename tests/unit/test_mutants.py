"""What `make mutants` changes, and that it changes nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants import Mutant, Verdict, apply, choose, list_mutants, render

SOURCE = '''
"""Über."""
LIMIT = 3


@decorate(1)
def decide(size: int = 4) -> bool:
    """Doc."""
    note(size)
    for one in range(size):
        if not one:
            continue
    return size >= LIMIT and size != 7
'''


def test_each_change_is_one_and_of_something_that_runs() -> None:
    changed = [(m.line, m.was, m.text) for m in list_mutants("a.py", SOURCE)]
    assert changed == [
        (9, "note(size)", "pass"),
        (11, "not one", "(one)"),
        (12, "continue", "break"),
        (13, "size >= LIMIT and size != 7", "(size >= LIMIT or size != 7)"),
        (13, "size >= LIMIT", "(size > LIMIT)"),
        (13, "size != 7", "(size == 7)"),
        (13, "7", "8"),
    ]


def test_what_is_changed_is_python_and_says_what_it_says() -> None:
    for mutant in list_mutants("a.py", SOURCE):
        text = apply(mutant, SOURCE.encode()).decode()
        ast.parse(text)
        assert text != SOURCE
        assert text.replace(mutant.text, mutant.was, 1) == SOURCE or mutant.text in {"8", "pass"}


@pytest.mark.long
def test_a_seed_chooses_the_same_from_all_packages() -> None:
    chosen = choose(6, seed=3)
    assert chosen == choose(6, seed=3) != choose(6, seed=4)
    packages = [str(Path(mutant.path).parent) for mutant in chosen]
    assert {package.split("/")[1] for package in packages} == {"planning", "protocol", "broker"}


@pytest.mark.parametrize("is_noticed", [True, False])
def test_the_page_names_what_was_let_through(*, is_noticed: bool) -> None:
    mutant = Mutant("launcher/broker/hosts.py", 7, 0, 1, "a == b", "(a != b)")
    page = render([Verdict(mutant, is_noticed, "", 1.0)], seed=1)
    assert f"| `launcher/broker` | 1 | {int(is_noticed)} |" in page
    assert ("hosts.py:7: `a == b` -> `(a != b)`" in page) is not is_noticed
