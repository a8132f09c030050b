"""Who asks gets no draft: what is called as a question is asked never changes what is decided."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PLANNING = Path(__file__).resolve().parents[3] / "et_operator" / "planning"
ASKING = frozenset(
    {
        *("are", "can", "cannot", "did", "do", "does", "find", "had", "has", "have", "is", "may"),
        *("must", "needs", "should", "was", "were", "will"),
    }
)
"""First words of questions. What is described, listed, selected or counted may take a draft."""


def list_functions(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """The name of each, and whether it is handed a draft, be it as the object that it is of."""
    of_draft = [
        method
        for part in ast.walk(tree)
        if isinstance(part, ast.ClassDef) and part.name == "Draft"
        for method in part.body
    ]
    for part in ast.walk(tree):
        if isinstance(part, ast.FunctionDef):
            given = (*part.args.posonlyargs, *part.args.args, *part.args.kwonlyargs)
            kinds = [ast.unparse(arg.annotation) for arg in given if arg.annotation]
            yield part.name, part in of_draft or any("Draft" in kind for kind in kinds)


def is_question(name: str) -> bool:
    return name.lstrip("_").partition("_")[0] in ASKING


def find_changing_questions(source: str) -> list[str]:
    found = list_functions(ast.parse(source))
    return [name for name, takes_draft in found if takes_draft and is_question(name)]


def test_no_question_takes_what_it_could_change() -> None:
    found = {
        f"{path.stem}.{name}"
        for path in PLANNING.rglob("*.py")
        for name in find_changing_questions(path.read_text("utf-8"))
    }
    assert found == set(), "take a View or a Standing, or be called by what they do"


def test_such_a_question_would_be_seen() -> None:
    source = """
class Draft(Standing):
    def must_wait(self, since): ...
    def wait_out(self, since): ...
class Standing:
    def find_end(self, since): ...
def _is_due(draft: Draft, pod: Pod) -> bool: ...
def has_room(pod: Pod, *, draft: Draft | None) -> bool: ...
def find_end(standing: Standing) -> bool: ...
def issue(draft: Draft) -> None: ...
"""
    assert find_changing_questions(source) == ["_is_due", "has_room", "must_wait"]
