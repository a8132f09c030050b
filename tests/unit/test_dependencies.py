"""What is declared is imported, and what is imported is declared; an image has all packages."""

from __future__ import annotations

import ast
import itertools
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
IMPORTED_AS = {"pyyaml": "yaml"}
"""Of a distribution that is called otherwise than what it holds."""
OURS = {
    "et",
    "et_contract",
    "et_kube",
    "et_notices",
    "et_operator",
    "et_process",
    "et_scheduler",
    "hostdiscovery",
    "launcher",
}
IN_IMAGE = OURS - {"et"}
OF_DEVELOPERS = {"benchmarks", "devcluster", "docs", "examples", "fakes", "tests"}
PROGRAMS_OF_TESTS = {"points", "run"}
"""Files of tests/ that are programs by themselves, and find each other by their own folder."""
OF_HOSTS = {"_signal", "pyexpat", "torch", "horovod"}
"""What is there where user containers have it: modules of Python, and of the user's image."""
UNPICKLING = {
    *("pickle", "_pickle", "shelve", "marshal", "multiprocessing"),
    *("dill", "cloudpickle", "joblib"),
}
"""Modules that make objects, or code, of bytes that somebody sends."""
READERS = (
    *("et_contract", "et_kube", "et_operator", "et_process"),
    *("launcher/broker", "launcher/protocol"),
)
"""Of what the operator and a broker are made."""


def read_declared(lines: list[str]) -> set[str]:
    names = {line.partition(">=")[0].partition("==")[0] for line in lines}
    return {IMPORTED_AS.get(name, name.replace("-", "_")) for name in names}


def find_imports(package: str) -> Iterator[str]:
    for path in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module.partition(".")[0]


def list_foreign(packages: set[str]) -> set[str]:
    found = {name for package in packages for name in find_imports(package)}
    return found - OURS - set(sys.stdlib_module_names) - OF_HOSTS


@pytest.mark.long
def test_the_operator_imports_what_it_declares_and_nothing_else():
    declared = read_declared(PROJECT["project"]["dependencies"])
    assert list_foreign(IN_IMAGE - {"et_scheduler"}) == declared


@pytest.mark.long
def test_nothing_that_the_operator_or_a_broker_reads_is_unpickled():
    imported = {package: set(find_imports(package)) for package in READERS}
    assert all(imported.values())
    assert not [package for package, names in imported.items() if names & UNPICKLING]


@pytest.mark.long
def test_the_command_line_declares_what_it_needs_besides():
    declared = read_declared(PROJECT["project"]["optional-dependencies"]["cli"])
    assert list_foreign({"et"}) - list_foreign(IN_IMAGE) == declared


@pytest.mark.long
def test_the_scheduler_declares_what_it_needs():
    declared = read_declared(PROJECT["project"]["optional-dependencies"]["scheduler"])
    theirs = list_foreign({"et_scheduler"})
    assert theirs - list_foreign(IN_IMAGE - {"et_scheduler"}) == declared


@pytest.mark.long
def test_what_is_tested_and_measured_with_is_declared():
    project = PROJECT["project"]
    declared = read_declared(
        [
            *project["dependencies"],
            *itertools.chain(*project["optional-dependencies"].values()),
            *PROJECT["dependency-groups"]["dev"],
        ]
    )
    assert list_foreign(OF_DEVELOPERS) - OF_DEVELOPERS - PROGRAMS_OF_TESTS <= declared


@pytest.mark.parametrize("package", sorted(IN_IMAGE))
def test_the_operators_image_has_each_package(package: str):
    copied = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    assert f"COPY {package} /opt/packages/{package}" in copied
    assert f"!{package}" in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
