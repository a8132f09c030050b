"""The pages about the API say what the definitions and the planner say."""

from __future__ import annotations

import ast
import re
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
API = ROOT / "docs" / "api.md"
PLANNING = sorted((ROOT / "et_operator" / "planning").glob("*.py"))
REPORTERS = {
    "tell": 0,
    "fail": 1,
    "set_condition": 0,
    "_show": 1,
    "_fail": 0,
    "_lose": 0,
    "Ending": 0,
    "Report": 2,
}
"""Calls that give people a reason, and which argument it is."""
HIDDEN = {"LauncherSucceeded"}
"""Of an ending that becomes `Succeeded`; nobody reads it."""
WORD = re.compile(r"[A-Z][a-zA-Z]+")


def test_the_tables_are_what_the_script_writes():
    render: Callable[[str], str] = runpy.run_path(str(ROOT / "docs" / "generate_api.py"))["render"]
    page = API.read_text("utf-8")
    assert render(page) == page, "run python3 docs/generate_api.py"


@pytest.mark.parametrize("source", PLANNING, ids=lambda path: path.name)
def test_every_reason_that_people_read_is_explained(source: Path):
    page = API.read_text("utf-8")
    reasons = set(find_reasons(ast.parse(source.read_text("utf-8")))) - HIDDEN
    assert not sorted(reason for reason in reasons if f"`{reason}`" not in page)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: path.name)
def test_every_link_leads_to_a_file(page: Path):
    links = re.findall(r"\](?!\(\[)\(([^)#:]+)[^)]*\)", page.read_text("utf-8"))
    assert not [link for link in links if not (page.parent / link).exists()]


def find_reasons(tree: ast.AST) -> Iterator[str]:
    """Words in CamelCase where a reason is given: in a call, or first in an answer of two."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from find_words(node.args, REPORTERS.get(get_name(node.func), len(node.args)))
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            yield from find_words(node.value.elts, 0)


def find_words(nodes: list[ast.expr], place: int) -> Iterator[str]:
    for node in nodes[place : place + 1]:
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and WORD.fullmatch(str(part.value)):
                yield str(part.value)


def get_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: path.name)
def test_every_test_that_a_page_names_exists(page: Path):
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text("utf-8"))
    assert not [
        f"{path}::{test}"
        for path, test in named
        if not (ROOT / path).exists() or (test and f"def {test}(" not in (ROOT / path).read_text())
    ]
