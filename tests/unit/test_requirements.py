"""The operator's image holds what the operator needs and not its developers' tools."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "deploy" / "requirements.py"))
requirements = SimpleNamespace(**SCRIPT)

PROJECT = '[project]\ndependencies = ["Direct_One>=1", "two[extra]>=3; python_version > \'3\'"]\n'
LOCK = """\
deep==1.0 \\
    --hash=sha256:aa
    # via middle
direct-one==1.5 \\
    --hash=sha256:bb \\
    --hash=sha256:cc
    # via et-operator (pyproject.toml)
middle==2 \\
    --hash=sha256:dd
    # via
    #   direct-one
    #   tool
tool==9 \\
    --hash=sha256:ee
    # via et-operator (pyproject.toml:dev)
two==3.1 \\
    --hash=sha256:ff
    # via et-operator (pyproject.toml)
"""


def test_what_the_dependencies_lead_to_is_kept_with_pins_and_hashes() -> None:
    selected = requirements.select_runtime(PROJECT, LOCK)
    assert list(requirements.split_entries(selected)) == ["deep", "direct-one", "middle", "two"]
    assert "--hash=sha256:cc" in selected


def test_a_dependency_that_is_not_locked_is_refused() -> None:
    with pytest.raises(ValueError, match="the lock has no missing"):
        requirements.select_runtime('[project]\ndependencies = ["missing"]\n', LOCK)


def test_the_projects_own_lock_yields_its_dependencies_without_tools() -> None:
    selected = requirements.select_runtime(
        (ROOT / "pyproject.toml").read_text(),
        (ROOT / "requirements.lock").read_text(),
    )
    names = set(requirements.split_entries(selected))
    assert {"kubernetes-asyncio", "aiohttp", "yarl", "numpy"} <= names
    assert not {"ruff", "pytest", "mypy"} & names
