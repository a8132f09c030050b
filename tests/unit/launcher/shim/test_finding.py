"""The image's own launchers, which a command finds before ours where it has changed PATH."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from et_contract import names, starters
from launcher.shim import environments, finding, placing
from tests.unit.launcher.shim.brokers import PYTHON, ROOT
from tests.unit.launcher.shim.torches import build_torch

SHOW = """
import os, sys
print("image", os.path.basename(sys.argv[0]), *sys.argv[1:])
print(os.environ["PATH"].partition(":")[0], os.environ.get("PYTHONPATH"), "EDL_REAL" in os.environ)
print([path for path in sys.path if path.endswith("/ours")])
"""
OURS = '#!/bin/sh\necho "ours for $EDL_REAL: $*"\nexec "$EDL_REAL" "$@"\n'


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """BIN_DIR as PID 1 places it; the runtime is this repository's."""
    (tmp_path / "lib").symlink_to(ROOT)
    known = {name: str(tmp_path / name) for name in placing.Paths._fields}
    placing.place_programs(placing.Paths(**{**known, "bin": str(tmp_path / "ours")}))
    return tmp_path / "ours"


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    folder = tmp_path / "venv"
    folder.mkdir()
    return folder


def add(folder: Path, name: str, text: str = SHOW, option: str = "") -> None:
    (folder / name).write_text(f"#!{PYTHON}{option}\n{text}")
    (folder / name).chmod(0o755)


def run(script: str, ours: Path, **environ: str) -> tuple[str, str]:
    """Output of a script in the launcher."""
    known = {"PATH": os.environ["PATH"], "HOME": "/", **environ}
    env = environments.make_command_environment(known, "n", str(ours))
    out = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, check=False)
    return out.stdout, out.stderr


WAYS = [
    "PATH={venv}:$PATH; torchrun --nnodes=1:2 'a b'",  # . venv/bin/activate
    "PATH={venv}:/usr/bin:/bin; export PATH; exec torchrun --nnodes=1:2 'a b'",  # a login shell
    "{venv}/torchrun --nnodes=1:2 'a b'",
    "{python} -u {venv}/torchrun --nnodes=1:2 'a b'",
    "cd {venv}; ./torchrun --nnodes=1:2 'a b'",
    "{python} -c \"import os; os.execv('{venv}/torchrun', ['x', '--nnodes=1:2', 'a b'])\"",
]


@pytest.mark.parametrize("script", WAYS)
def test_ours_stands_for_the_one_that_was_called(ours: Path, venv: Path, script: str) -> None:
    add(venv, "torchrun")
    (ours / "torchrun").write_text(OURS)
    out, err = run(script.format(venv=venv, python=PYTHON), ours)
    called = "./torchrun" if script.startswith("cd") else venv / "torchrun"
    assert err == ""
    assert out.splitlines() == [
        f"ours for {called}: --nnodes=1:2 a b",
        "image torchrun --nnodes=1:2 a b",
        f"{ours} None True",
        "[]",
    ]


def test_torchrun_of_a_venv_is_run_by_ours(ours: Path, venv: Path, tmp_path: Path) -> None:
    build_torch(tmp_path / "torch")
    for file in (tmp_path / "torch").iterdir():
        file.rename(venv / file.name)
    add(venv, "torchrun")
    out, err = run(f"{venv}/torchrun --standalone train.py", ours, PYTHONPATH=str(venv))
    assert err == "edl: torchrun runs in the launcher alone, for it has --standalone\n"
    assert out.startswith("image torchrun --standalone train.py\n")


def test_horovodrun_of_a_venv_has_what_ours_adds(ours: Path, venv: Path) -> None:
    add(venv, "horovodrun")
    words = "--min-np 1 --network-interface lo python t.py"
    out, err = run(f"PATH={venv}:$PATH; horovodrun {words}", ours, PYTHONPATH="/mine")
    assert err == "edl: horovodrun is given --gloo-timeout-seconds 120\n"
    assert out.startswith(f"image horovodrun --gloo-timeout-seconds 120 {words}\n")
    assert out.splitlines()[1].endswith(" /mine False")  # it sends them to the workers


def test_what_deepspeed_starts_is_ours(ours: Path, venv: Path) -> None:
    add(venv, "deepspeed")
    out, _ = run(f"PATH=/usr/bin:/bin; {venv}/deepspeed train.py", ours)
    assert out.splitlines()[1:] == [f"{ours} None False", "[]"]


def test_any_other_program_stays_as_it_is(ours: Path, venv: Path) -> None:
    add(venv, "train")
    out, err = run(f"PATH={venv}:$PATH; train; python3 -c 'print(1)'", ours, PYTHONPATH="/mine")
    assert (out.splitlines()[:3], err) == (
        ["image train", f"{venv} {ours}:/mine False", "[]"],
        "",
    )


def test_the_images_own_sitecustomize_does_its_part(ours: Path, venv: Path) -> None:
    (venv / "sitecustomize.py").write_text("import sys\nsys.mine = 'did its part'\n")
    add(venv, "train", "import sys, sitecustomize\nprint(sys.mine, sitecustomize.__file__)\n")
    out, err = run(f"{venv}/train", ours, PYTHONPATH=str(venv))
    assert (out, err) == (f"did its part {venv}/sitecustomize.py\n", "")
    (venv / "sitecustomize.py").write_text("raise ImportError('broken')\n")
    assert "broken" in run(f"PYTHONVERBOSE=1 {venv}/train", ours, PYTHONPATH=str(venv))[1]


def test_what_is_ours_is_not_ours_to_stand_for(ours: Path) -> None:
    (ours / "torchrun").write_text(f"#!{PYTHON}\nprint('once')\n")
    assert run("torchrun", ours) == ("once\n", "")


def test_a_program_that_cannot_be_started_is_told(ours: Path, venv: Path) -> None:
    add(venv, "torchrun")
    (ours / "torchrun").chmod(0o644)
    out, err = run(f"{venv}/torchrun", ours)
    assert "the image's own program runs: [Errno 13]" in err
    assert out.startswith("image torchrun\n")


def test_the_name_and_the_commands_are_those_of_the_contract() -> None:
    assert finding.REAL == names.ENV_REAL
    assert {"torchrun", "horovodrun", "deepspeed", "mpirun"} <= set(starters.collect_commands())
