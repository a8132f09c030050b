"""Do the tests notice? Small defects, one at a time, in the code that decides: `make mutants`.

    python -m tests.mutants [--mutants 50] [--seed 1] [--page docs/mutants.md]

Each is one change of one expression or statement, chosen by the seed, in a copy of the checkout;
the unit tests of its package must fail. What they let through is printed with its place: a test is
missing there, or the change means nothing.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 600.0
"""Seconds for the tests of one package; a mutant that makes them hang is noticed."""
PACKAGES = {
    "et_operator/planning": ["tests/unit/planning", "tests/unit/test_reconciling.py"],
    "launcher/protocol": ["tests/unit/launcher/protocol", "tests/unit/launcher/agent"],
    "launcher/broker": ["tests/unit/launcher/broker"],
}
"""What is changed, and which tests must notice, those nearest to it first."""
OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
COPIED = ("*.pyc", "__pycache__", ".git", "out", ".mypy_cache", ".ruff_cache", ".hypothesis")
"""What a copy of the checkout goes without."""


@dataclass(frozen=True)
class Mutant:
    """`text` in place of what stands from `start` to `end` (bytes) of a file."""

    path: str
    line: int
    start: int
    end: int
    was: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: `{shorten(self.was)}` -> `{shorten(self.text)}`"


@dataclass(frozen=True)
class Verdict:
    """Whether the tests noticed a mutant, and what told (the first line of a failed test)."""

    mutant: Mutant
    is_noticed: bool
    by: str
    seconds: float


def shorten(text: str) -> str:
    """One line for people."""
    line = " ".join(text.split()).replace("|", "\\|").replace("`", "'")
    return line if len(line) <= 60 else line[:57] + "..."


def list_mutants(path: str, source: str) -> Iterator[Mutant]:
    """Every change of this file that is tried, in the order of its lines."""
    tree = ast.parse(source)
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in walk(tree):
        for text in change(node):
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            was = source.encode()[start:end].decode()
            yield Mutant(path, node.lineno, start, end, was, text)


def walk(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """What runs inside functions: no annotation, no decorator, no default, no docstring."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in child.body:
                yield from _walk_inside(statement)
        elif isinstance(child, ast.ClassDef):
            yield from walk(child)


def _walk_inside(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    if isinstance(node, ast.expr | ast.stmt):
        yield node
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk_inside(child)


def change(node: ast.expr | ast.stmt) -> Iterator[str]:
    """What could stand in its place and mean something else."""
    match node:
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp() | ast.BinOp():
            yield from (f"({ast.unparse(other)})" for other in _turn(node))
        case ast.Constant(bool(value)):
            yield str(not value)
        case ast.Constant(int(value)):
            yield str(value + 1)
        case ast.Expr(ast.Call()):
            yield "pass"
        case ast.Continue():
            yield "break"


def _turn(node: ast.expr) -> Iterator[ast.expr]:
    """The same operands, the other operator."""
    match node:
        case ast.Compare(left, [operator], [right]) if type(operator) in OPPOSITES:
            yield ast.Compare(left, [OPPOSITES[type(operator)]()], [right])
        case ast.BoolOp(ast.And(), values):
            yield ast.BoolOp(ast.Or(), values)
        case ast.BoolOp(ast.Or(), values):
            yield ast.BoolOp(ast.And(), values)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.BinOp(left, ast.Add(), right):
            yield ast.BinOp(left, ast.Sub(), right)
        case ast.BinOp(left, ast.Sub(), right):
            yield ast.BinOp(left, ast.Add(), right)


def choose(number: int, seed: int, root: Path = ROOT) -> list[Mutant]:
    """So many mutants, from all packages alike."""
    source = random.Random(seed)  # noqa: S311 (which ones are tried, no secret)
    share, more = divmod(number, len(PACKAGES))
    chosen: list[Mutant] = []
    for index, package in enumerate(PACKAGES):
        found = [
            mutant
            for path in sorted((root / package).rglob("*.py"))
            for mutant in list_mutants(str(path.relative_to(root)), path.read_text("utf-8"))
        ]
        chosen += source.sample(found, min(share + (index < more), len(found)))
    return chosen


def apply(mutant: Mutant, source: bytes) -> bytes:
    """The file with the change."""
    return source[: mutant.start] + mutant.text.encode() + source[mutant.end :]


def try_out(mutant: Mutant, copy: Path) -> Verdict:
    """Run the tests of its package against it; the copy is as before afterwards."""
    path = copy / mutant.path
    whole = path.read_bytes()
    path.write_bytes(apply(mutant, whole))
    began = time.monotonic()
    try:
        is_noticed, by = run_tests(find_tests(mutant), copy)
    finally:
        path.write_bytes(whole)
    return Verdict(mutant, is_noticed, by, time.monotonic() - began)


def find_tests(mutant: Mutant) -> list[str]:
    """The tests that must notice it."""
    return PACKAGES[find_package(mutant)]


def find_package(mutant: Mutant) -> str:
    """The one of PACKAGES that it is in."""
    return next(package for package in PACKAGES if mutant.path.startswith(f"{package}/"))


def run_tests(tests: Sequence[str], copy: Path) -> tuple[bool, str]:
    """Whether one of them fails, and the first that does."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n", "2"]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*command, "-m", "not cluster", *tests],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True, f"no end within {LIMIT:.0f} s"
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    first = lines[0].split(" - ")[0].partition(" ")[2] if lines else ""
    return done.returncode != 0, first or ("no tests could run" if done.returncode else "")


def run(mutants: Sequence[Mutant], show: Callable[[str], None]) -> list[Verdict]:
    """Each against its tests, after all tests were seen passing without any."""
    with TemporaryDirectory(prefix="et-mutants-") as folder:
        copy = Path(folder) / "checkout"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*COPIED), symlinks=True)
        show("the tests, without a change")
        failed, by = run_tests([test for tests in PACKAGES.values() for test in tests], copy)
        if failed:
            raise SystemExit(f"the tests fail without any change ({by}): correct that first")
        verdicts = []
        for number, mutant in enumerate(mutants, 1):
            verdict = try_out(mutant, copy)
            word = "noticed" if verdict.is_noticed else "LET THROUGH"
            show(f"{number}/{len(mutants)} {word} in {verdict.seconds:.0f} s: {mutant}")
            verdicts.append(verdict)
        return verdicts


def render(verdicts: Sequence[Verdict], seed: int) -> str:
    """The page."""
    noticed, all_of_them = Counter[str](), Counter[str]()
    for verdict in verdicts:
        package = find_package(verdict.mutant)
        all_of_them[package] += 1
        noticed[package] += verdict.is_noticed
    rows = [f"| `{name}` | {count} | {noticed[name]} |" for name, count in all_of_them.items()]
    left = [f"- {verdict.mutant}" for verdict in verdicts if not verdict.is_noticed]
    return "\n".join(
        [
            "# Mutants: do the tests notice small defects?",
            "",
            "For those who change code that decides, and want to know what the tests hold.",
            "",
            f"Written by `make mutants`: {len(verdicts)} changes of one expression or statement",
            f"each, chosen by seed {seed}; each is tried against the unit tests of its package.",
            "",
            "| package | changes | noticed |",
            "|---|---|---|",
            *rows,
            "",
            "## Let through",
            *(left or ["None."]),
            "",
        ]
    )


def main(arguments: Sequence[str]) -> int:
    """0 once all were tried, whatever was noticed: it is a measurement."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--mutants", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", type=Path, help="write the result there")
    args = parser.parse_args(arguments)
    verdicts = run(choose(args.mutants, args.seed), lambda line: print(line, flush=True))
    page = render(verdicts, args.seed)
    print(page)
    if args.page:
        args.page.write_text(page, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
