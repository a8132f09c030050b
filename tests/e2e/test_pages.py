"""Somebody who types what the front page and the tutorial say sees what they show."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from kubernetes.client.exceptions import ApiException

from tests.e2e.conftest import FAILURE
from tests.e2e.histories import Bounds, History, judge
from tests.e2e.pools import delete_queue
from tests.e2e.terminals import Shell, open_shell
from tests.e2e.world import ROOT, RealWorld, kubeconfig
from tests.pages import Step, Typed, read_fences, read_steps
from tests.walks import walk

pytestmark = pytest.mark.cluster

PLACES = ("tutorial", "sharing")
"""The namespaces that the tutorial makes."""
MOST_SECONDS = 1500
DONE = frozenset(
    {
        "devcluster/prerequisites.sh",
        "devcluster up",
        "devcluster images --load",
        "devcluster deploy",
    }
)
"""What the run has typed before any end-to-end test, and others beside this one rest on."""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with open_shell(ROOT, tmp_path) as shell:
        yield shell


@pytest.mark.timeout(MOST_SECONDS)
@pytest.mark.point("tutorial")
@pytest.mark.point("kubectl-scale")
@pytest.mark.point("shares")
@pytest.mark.point("gang")
def test_the_tutorial_from_its_first_command_to_its_last(shell: Shell) -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    world = RealWorld("sharing")
    history = History(world, seconds=MOST_SECONDS)
    with clearing():
        walk(leave_out(DONE, read_steps([*read_fences(page)])), shell)
    queue = yaml.safe_load((ROOT / "examples" / "training_queue.yaml").read_text())
    judge(history, Bounds.of_cpu(world, research=queue["spec"]["limits"]["cpu"]))


@pytest.mark.timeout(600)
@pytest.mark.point("examples")
def test_the_scaling_of_the_front_page(world: RealWorld, shell: Shell, tmp_path: Path) -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    _, _, section = page.partition("\n## A scaling\n")
    shell.type(f"export KUBECONFIG='{copy_kubeconfig(tmp_path)}'")
    run = f"PYTHONPATH='{ROOT}' '{sys.executable}' -m devcluster kubectl"
    shell.type(f'alias kubectl="{run} --kubeconfig=$KUBECONFIG"')
    shell.type(f"kubectl config set-context --current --namespace={world.namespace}")
    walk(read_steps([*read_fences(section.partition("\n## ")[0])]), shell)
    by_count = yaml.safe_load((ROOT / "examples" / "scale_in_count.yaml").read_text())
    less = world.create(by_count)["metadata"]["name"]
    assert world.wait_for_scaling("scaleins", less)["phase"] == "ScaleSucceeded"


def leave_out(done: frozenset[str], steps: Sequence[Step]) -> list[Step]:
    """The steps without these commands, each of which stands there once."""
    left: list[Step] = []
    found: list[str] = []
    for step in steps:
        if isinstance(step, Typed):
            found += [command for command in step.commands if command in done]
            commands = tuple(command for command in step.commands if command not in done)
            left.append(replace(step, commands=commands))
        else:
            left.append(step)
    assert sorted(found) == sorted(done)
    return left


def copy_kubeconfig(folder: Path) -> Path:
    """One of its own, for a namespace of its own."""
    return Path(shutil.copy(kubeconfig(), folder / "kubeconfig"))


@contextmanager
def clearing() -> Iterator[None]:
    """What the page makes is written down and taken away where the walk ends too early."""
    try:
        yield
    except BaseException:
        for world in map(RealWorld, PLACES):
            world.dump(FAILURE / world.namespace)
            with suppress(ApiException):
                world.clear()
        with suppress(ApiException):
            delete_queue(RealWorld("default"), "research")
        raise
    finally:
        shutil.rmtree(ROOT / "build", ignore_errors=True)  # pip's, of the checkout
