"""What is public is used by somebody: what tests alone use belongs to the tests."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
USERS = (
    *("benchmarks", "devcluster", "docs", "et", "et_contract", "et_kube", "et_notices"),
    *("et_operator", "et_process", "et_scheduler", "examples", "hostdiscovery", "launcher"),
)
"""Folders of who is no test. The stand-ins in `fakes` are for tests, and use nothing for others."""
KEPT = {
    "PROGRAM": "is held while benchmarks weigh the process",
    "TRUST": "is held while benchmarks weigh the process",
    "connection_lost": "asyncio calls it",
    "connection_made": "asyncio calls it",
    "data_received": "asyncio calls it",
    "delayed": "is the other half of `depth`: tests see by it that a key waits",
    "find_spec": "Python's import calls it",
    "ignore_aliases": "yaml calls it",
    "list_": "a command of et",
    "on_broken_pipe": "rich calls it",
    "restart": "a command of et",
    "staying": "a command of et",
}
"""Names without a user, and why they stay."""


def find_unused(sources: Mapping[str, str]) -> set[str]:
    """Public functions, classes, constants and methods of these modules that none of them uses.

    What a module defines is used where the module itself reads it, where somebody imports it, and
    where anything of its name is read from an object: of two methods of one name both are used if
    one of them is.
    """
    defined: list[tuple[str, str]] = []
    methods: set[str] = set()
    used: defaultdict[str, set[str]] = defaultdict(set)
    attributes: set[str] = set()
    for module, source in sources.items():
        tree = ast.parse(source)
        defined += ((module, name) for name in _list_defined(tree.body))
        for node in ast.walk(tree):
            match node:
                case ast.Attribute():
                    attributes.add(node.attr)
                case ast.Name(ctx=ast.Load()):
                    used[module].add(node.id)
                case ast.ImportFrom(module=str(origin)):
                    used[origin].update(alias.name for alias in node.names)
                case ast.ClassDef() if node in tree.body:
                    methods.update(_list_defined(node.body, has_constants=False))
    tops = {name for module, name in defined if name not in used[module]}
    return {name for name in tops | methods if name not in attributes}


def _list_defined(body: list[ast.stmt], *, has_constants: bool = True) -> Iterator[str]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names = [node.name]
            case ast.Assign(targets=targets) if has_constants:
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            case _:
                continue
        yield from (name for name in names if not name.startswith("_"))


def test_nothing_public_is_there_for_tests_alone():
    paths = [path for folder in USERS for path in (ROOT / folder).rglob("*.py")]
    assert find_unused({name_module(path): path.read_text("utf-8") for path in paths}) == {*KEPT}


def name_module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_what_nobody_uses_would_be_seen():
    source = """
LIMIT, MOST = 1, 2
FEW = 3
class Used:
    limit = 4
    def call(self):
        return help_out()
    def leave(self): ...
    @property
    def size(self): ...
    def _keep(self): ...
def help_out(): ...
async def wait(): ...
async def rest(): ...
"""
    user = "from one import Used, wait\nUsed().call()\nprint(Used.size)\nrest = FEW = 5\n"
    assert find_unused({"one": source, "two": user}) == {"FEW", "leave", "rest"}
