"""What the command of the ranks becomes, and the PYTHONPATH that they then have."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.shim import horovodrun, ranks

OPTIONS = ["--min-np", "1", "-np", "2", "--host-discovery-script", "/d"]


def is_python(name: str) -> bool:
    return horovodrun.is_python(name, "/nowhere")


@pytest.mark.parametrize(
    ("command", "before"),
    [
        ("python train.py --min-np 3", ""),
        ("/opt/conda/bin/python3.11 -u train.py", ""),
        ("nice -n 5 python train.py", "nice -n 5"),
        ("env A=1 PYTHONPATH=/own python train.py", "env A=1 PYTHONPATH=/own"),
        ("conda run -n x python train.py", "conda run -n x"),
        ("-- python train.py", "--"),
        ("uv run --with-requirements r.txt python train.py", "uv run --with-requirements r.txt"),
        ("poetry run python3 -m train", "poetry run"),
    ],
)
def test_a_line_of_sh_stands_directly_before_the_python_of_the_ranks(command: str, before: str):
    words = [*OPTIONS, *command.split()]
    prepared = ranks.prepare(words, is_python, "/ranks")
    assert prepared is not None
    place = len(OPTIONS) + len(before.split())
    assert prepared[:place] == words[:place]
    assert prepared[place : place + 2] == ["/bin/sh", "-c"]
    assert prepared[place + 4 :] == words[place:]


@pytest.mark.parametrize(
    "command",
    [
        *("bash run.sh", "sh -c 'python train.py'", "./train", "python.sh train.py", "", "nice"),
        # These may allow nothing else, or have it nowhere.
        *("sudo -E python train.py", "chroot /image python train.py"),
    ],
)
def test_what_is_no_python_is_left_alone(command: str):
    assert ranks.prepare([*OPTIONS, *shlex.split(command)], is_python, "/ranks") is None


@pytest.mark.parametrize(
    "wrapper",
    ["uv run", "nice uv run --no-project", "pdm run", "poetry run", "pipenv run", "uv run -s"],
)
def test_who_reads_the_word_itself_gets_to_see_it(tmp_path: Path, wrapper: str):
    """`uv run train.py` is no `train.py` that a shell would execute, whatever its first line is."""
    script = tmp_path / "train.py"
    script.write_text("#!/usr/bin/env python3\n")
    for mode in (0o644, 0o755):
        script.chmod(mode)
        words = [*OPTIONS, *wrapper.split(), str(script)]
        assert ranks.prepare(words, is_python, "/ranks") is None


def test_a_file_that_nobody_can_execute_is_no_program(tmp_path: Path):
    script = tmp_path / "train.py"
    script.write_text("#!/usr/bin/env python3\n")
    script.chmod(0o644)
    assert not horovodrun.is_python(str(script), "")
    script.chmod(0o755)
    assert horovodrun.is_python(str(script), "")


def test_a_program_that_runs_under_python_here_is_python(tmp_path: Path):
    for name, line in (("train", "#!/usr/bin/python3"), ("run", "#!/bin/bash")):
        (tmp_path / name).write_text(f"{line}\n")
        (tmp_path / name).chmod(0o755)
    path = f"/nowhere:{tmp_path}"
    assert horovodrun.is_python("train", path)
    assert horovodrun.is_python(f"{tmp_path}/train", "")
    assert not horovodrun.is_python("run", path)
    assert not horovodrun.is_python("train", "/nowhere")


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (None, "{ours}"),
        ("", "{ours}"),
        ("/app libs", "{ours}:/app libs"),
        (":/app", "{ours}::/app"),
        ("/app:", "{ours}:/app:"),
        (":", "{ours}::"),
        ("$(no) `sh`", "{ours}:$(no) `sh`"),
    ],
)
@pytest.mark.parametrize("whose", ["the launcher's", "the worker's"])
def test_ours_is_first_and_nothing_is_hidden(
    tmp_path: Path, given: str | None, path: str, whose: str
):
    """Horovod gives `env` the launcher's; the worker's is there where the launcher has none."""
    (tmp_path / "sitecustomize.py").touch()
    words = ["python", "-c", 'a  b "$x"']
    prepared = ranks.prepare(words, is_python, str(tmp_path))
    assert prepared is not None
    python = "import os, sys; print(os.environ['PYTHONPATH'], *sys.argv[1:], sep='\\n')"
    prepared[prepared.index("python")] = "./python"
    (tmp_path / "python").write_text(f"#!{sys.executable}\n{python}\n")
    (tmp_path / "python").chmod(0o755)
    env = {"PATH": "/usr/bin:/bin"}
    told = [] if given is None else [f"PYTHONPATH={given}"]
    if whose == "the worker's":
        env |= dict(word.split("=", 1) for word in told)
        told = []
    line = shlex.join(["env", "HOROVOD_RANK=0", *told, *prepared])
    out = subprocess.check_output(["sh", "-c", line], env=env, cwd=tmp_path, text=True, timeout=20)
    assert out.splitlines() == [path.format(ours=tmp_path), "-c", 'a  b "$x"']


def test_a_worker_without_the_folder_goes_without():
    prepared = ranks.prepare(["python3", "-c", "import os; print(os.environ)"], is_python, "/none")
    assert prepared is not None
    out = subprocess.check_output(prepared, env={"PATH": "/usr/bin:/bin"}, text=True, timeout=20)
    assert "PYTHONPATH" not in out


@pytest.mark.long
def test_the_end_of_a_rank_is_that_of_its_python(tmp_path: Path):
    for script, code in (("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", -9)):
        prepared = ranks.prepare(["python3", "-c", script], is_python, "/none")
        assert prepared is not None
        done = subprocess.run(prepared, check=False, timeout=20, cwd=tmp_path)
        assert done.returncode == code


PRINTS = "import os; print(*map('='.join, os.environ.items()), sep='\\n')"
EXTENDS = ': "${PYTHONPATH:=/app}"; export PYTHONPATH; exec env'


@pytest.mark.parametrize("shell", [("sh",), ("bash",), ("bash", "--posix")])
@pytest.mark.parametrize(
    ("program", "path"),
    [
        (f"#!/bin/sh\n{EXTENDS}\n", "/app"),
        (f"#! /bin/bash -e\n{EXTENDS}\n", "/app"),
        (f"#!/usr/bin/env bash\n\n{EXTENDS}\n", "/app"),
        (f"#!{sys.executable}\n{PRINTS}\n", "{ours}"),
        ("#!/bin/sh\n'''exec' /usr/bin/env #\n", "{ours}"),
    ],
)
def test_a_python_that_is_a_shells_script_in_the_worker_runs_as_it_is(
    tmp_path: Path, shell: tuple[str, ...], program: str, path: str
):
    (tmp_path / "sitecustomize.py").touch()
    (tmp_path / "python").write_text(program)
    (tmp_path / "python").chmod(0o755)
    prepared = ranks.prepare(["python"], is_python, str(tmp_path))
    assert prepared is not None
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "a": "own"}
    done = subprocess.run(
        [*shell, *prepared[1:]], env=env, capture_output=True, text=True, timeout=20, check=True
    )
    found = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert (found["PYTHONPATH"], found["a"]) == (path.format(ours=tmp_path), "own")
    assert done.stderr == ""


def test_a_program_that_is_not_there_is_what_the_shell_says_of_it(tmp_path: Path):
    (tmp_path / "sitecustomize.py").touch()
    prepared = ranks.prepare(["/no/python", "$(x)"], is_python, str(tmp_path))
    assert prepared is not None
    done = subprocess.run(prepared, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 127
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "is_left_out"),
    [
        ("-I t.py", True),
        ("-uE t.py", True),
        ("-IS -m t", True),
        ("-W error -X dev -S t.py", True),
        ("-Wignore -BsE -c x", True),
        ("--check-hash-based-pycs never -I t.py", True),
        ("-u t.py -I", False),
        ("-m t -E", False),
        ("-mt -E", False),
        ("-c I -S", False),
        ("-Xdev t.py", False),
        ("-W I t.py", False),
        ("-WI t.py", False),
        ("-uWE t.py", False),
        ("- -I", False),
        ("", False),
    ],
)
def test_python_that_looks_in_no_such_path_is_left_as_it_is(options: str, *, is_left_out: bool):
    words = [*OPTIONS, "nice", "python3", *options.split()]
    prepared = ranks.prepare(words, is_python, "/ranks")
    assert (prepared == words) is is_left_out
