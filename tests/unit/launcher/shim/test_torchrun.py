"""torchrun in workers: how it is found, what it is told there, and how it ends."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from launcher.shim import joining, torch_options
from tests.unit.launcher.shim.brokers import PYTHON, ROOT, Start, needs_ipv6
from tests.unit.launcher.shim.torches import build_torch

ENDPOINT = "127.0.0.1:29999"
RUN = "from launcher.shim import torchrun; sys.exit(torchrun.main(sys.argv[1:]))"
JOINED = "from launcher.shim import torchrun; sys.exit(torchrun.join(sys.argv[1:]))"
JOIN = "from launcher.shim import joining; sys.exit(joining.main(sys.argv[1:]))"


def parsed(*script: str, **options: Any) -> Namespace:
    """A command line as torchrun's parser gives it."""
    words = list(script) or ["train.py"]
    given = {
        "standalone": False,
        "nnodes": "1:4",
        "rdzv_endpoint": "",
        "rdzv_backend": "c10d",
        "rdzv_conf": "",
        "master_addr": "127.0.0.1",
        "training_script": words[0],
        "training_script_args": words[1:],
    }
    return Namespace(**{**given, **options})


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, ""),
        ({"nnodes": "2"}, ""),
        ({"nnodes": "1"}, "--nnodes"),
        ({"nnodes": "1:1"}, "--nnodes"),
        ({"standalone": True}, "--standalone"),
        ({"rdzv_endpoint": "etcd:2379"}, "--rdzv_endpoint=etcd:2379"),
        ({"rdzv_backend": "static"}, "--rdzv_backend=static"),
        ({"master_addr": "10.0.0.1"}, "--master_addr=10.0.0.1"),
    ],
)
def test_a_run_with_a_rendezvous_of_its_own_is_not_ours(options: dict[str, Any], reason: str):
    found = torch_options.find_misfit(parsed(**options))
    assert reason in found
    assert bool(found) == bool(reason)


def test_a_wrong_number_of_nodes_is_no_misfit():
    with pytest.raises(ValueError, match="invalid literal"):
        torch_options.find_misfit(parsed(nnodes="some"))


@pytest.mark.parametrize("options", [["--nnodes=1:4"], ["--nnodes", "1:4", "--"], []])
def test_ours_come_between_the_users_options_and_the_script(options: list[str]):
    script = ["train.py", "--lr", "1", "--", "--rdzv_backend=x"]
    words = torch_options.build_words([*options, *script], parsed(*script), "10.0.0.9:4711")
    told = [word for word in options if word != "--"]
    assert words == [
        *told,
        "--rdzv_backend=c10d",
        "--rdzv_endpoint=10.0.0.9:4711",
        "--rdzv_conf=last_call_timeout=5,is_host=0",
        *script,
    ]


def test_the_users_rendezvous_settings_stay_except_who_hosts_it():
    args = parsed(rdzv_conf="join_timeout=60, last_call_timeout=20,is_host=1")
    words = torch_options.build_words(["train.py"], args, "10.0.0.9:4711")
    assert "--rdzv_conf=last_call_timeout=20,join_timeout=60,is_host=0" in words


def test_an_address_of_ipv6_is_in_brackets():
    assert torch_options.build_endpoint("10.0.0.9", 4711) == "10.0.0.9:4711"
    assert torch_options.build_endpoint("fd00::9", 4711) == "[fd00::9]:4711"


def test_an_elastic_run_has_restarts_and_a_process_for_each_slot():
    settings = torch_options.build_settings({"HOME": "/root"}, parsed(), 4)
    assert settings == {
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "PET_NPROC_PER_NODE": "4",
        "PET_MAX_RESTARTS": "100",
    }
    assert "PET_MAX_RESTARTS" not in torch_options.build_settings({}, parsed(nnodes="2"), 4)
    told = torch_options.build_settings({"PET_MAX_RESTARTS": "3"}, parsed(), 4)
    assert told["PET_MAX_RESTARTS"] == "3"


def test_the_shell_in_a_worker_becomes_torchrun_where_the_launcher_stood():
    command = torch_options.build_command(
        ["train.py", "a b"],
        {"PET_X": "1 2"},
        real="venv/bin/torchrun",
        endpoint="10.0.0.9:4711",
        folder="/my work",
    )
    assert command == (
        "cd '/my work' > /dev/null 2>&1 ; exec env 'PET_X=1 2' "
        "'EDL_REAL=/my work/venv/bin/torchrun' python3 -I -S "
        "/opt/edl/src/launcher..boot.py torchrun -- 10.0.0.9:4711 train.py 'a b'"
    )


def build_two(tree: Path) -> tuple[Path, Path]:
    """Two folders with a torchrun each, under Pythons that say what they run and with what."""
    for name in ("base", "venv"):
        (tree / name).mkdir()
        python = tree / name / "python3"
        python.write_text('#!/bin/sh\necho "$2 ${EDL_REAL-}"\n')
        python.chmod(0o755)
        (tree / name / "torchrun").write_text(f"#!{python}\n")
        (tree / name / "torchrun").chmod(0o755)
    return tree / "base", tree / "venv"


@pytest.mark.parametrize("in_path", ["base", "nowhere"])
def test_a_worker_runs_the_torchrun_that_the_launcher_has_found(
    tmp_path: Path, start: Start, in_path: str
):
    _, venv = build_two(tmp_path)
    env = {"PATH": f"{tmp_path / in_path}:/usr/bin:/bin", "EDL_REAL": f"{venv}/torchrun"}
    out, err = start(JOINED, ENDPOINT, "t", env=env).communicate(timeout=20)
    assert (out.decode(), err) == (f"{venv}/torchrun \n", b"")


def test_a_worker_without_it_runs_the_first_in_its_path_and_says_so(tmp_path: Path, start: Start):
    base, venv = build_two(tmp_path)
    (venv / "torchrun").unlink()
    env = {"PATH": f"{base}:/usr/bin:/bin", "EDL_REAL": f"{venv}/torchrun"}
    out, err = start(JOINED, ENDPOINT, "t", env=env).communicate(timeout=20)
    assert out.decode() == f"{base}/torchrun \n"
    told = f"edl: {venv}/torchrun, which the launcher has found, is not here: {base}/torchrun runs"
    assert err.decode().startswith(told)


def test_a_worker_without_any_says_so(tmp_path: Path, start: Start):
    env = {"PATH": "/nowhere", "EDL_REAL": f"{tmp_path}/torchrun"}
    process = start(JOINED, ENDPOINT, "t", env=env)
    assert b"is torch installed" in process.communicate(timeout=20)[1]
    assert process.returncode == 127


def test_an_image_without_torch_is_told_so(start: Start):
    process = start(RUN, "train.py", env={"PATH": "/nowhere"})
    _, err = process.communicate(timeout=20)
    assert process.returncode == 127
    assert b"is torch installed" in err


@pytest.mark.parametrize(
    ("function", "argv", "program"),
    [
        ("main", ["--nnodes=1:4", "t"], "gathering.py"),
        ("join", [ENDPOINT, "t"], "joining.py"),
    ],
)
def test_the_python_of_the_real_torchrun_goes_on(
    tmp_path: Path, start: Start, function: str, argv: list[str], program: str
):
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\nfor word; do echo "$word"; done\n')
    python.chmod(0o755)
    real = tmp_path / "torchrun"
    real.write_text(f"#!{python} -s\n")
    real.chmod(0o755)
    code = f"from launcher.shim import torchrun; sys.exit(torchrun.{function}(sys.argv[1:]))"
    out, _ = start(code, *argv, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}).communicate(timeout=20)
    inside = str(ROOT / "launcher/shim" / program)
    assert out.decode().splitlines() == ["-s", inside, str(real), *argv]


def test_a_torchrun_that_does_not_tell_its_python_is_named(tmp_path: Path, start: Start):
    python, real = tmp_path / "python3", tmp_path / "torchrun"
    python.write_text("#!/bin/sh\nexit 7\n")
    real.write_text("#!/bin/sh\n")
    for program in (python, real):
        program.chmod(0o755)
    process = start(RUN, "t", env={"PATH": str(tmp_path)})
    _, err = process.communicate(timeout=20)
    assert process.returncode == 7
    assert f"edl: {real} does not tell its Python: it runs under the first python3" in err.decode()


def test_a_python_that_is_not_there_is_named(tmp_path: Path, start: Start):
    real = tmp_path / "torchrun"
    real.write_text("#!/no/such/python\n")
    real.chmod(0o755)
    process = start(RUN, "t", env={"PATH": str(tmp_path)})
    _, err = process.communicate(timeout=20)
    assert process.returncode == 126
    assert b"cannot start /no/such/python" in err


def join(
    start: Start, tree: Path, *words: str, options: str = "", endpoint: str = ENDPOINT
) -> tuple[int, str, str]:
    """Exit code and output of joining.py over a stand-in for torch."""
    real = build_torch(tree, options=options)
    code = f"sys.path.insert(0, {str(tree)!r}); {JOIN}"
    process = start(code, real, endpoint, *words)
    out, err = process.communicate(timeout=20)
    return process.returncode, out.decode(), err.decode()


@pytest.mark.long
def test_torch_1_takes_the_address_for_the_name_of_its_host(tmp_path: Path, start: Start):
    code, out, _ = join(start, tmp_path, "train.py", "--lr=1")
    told = f"program {tmp_path}/torchrun arguments ['train.py', '--lr=1'] name 127.0.0.1\n"
    assert (code, out) == (0, told + "closed for all\n")


@pytest.mark.long
def test_torch_2_is_told_the_address_by_its_option(tmp_path: Path, start: Start):
    _, out, _ = join(start, tmp_path, "train.py", options="add('local_addr', None)")
    assert "arguments ['--local_addr=127.0.0.1', 'train.py']" in out


@pytest.mark.long
@needs_ipv6
def test_where_there_is_ipv6_alone_the_address_is_one_of_it(tmp_path: Path, start: Start):
    _, out, _ = join(start, tmp_path, "train.py", endpoint="[::1]:29999")
    assert "name ::1" in out


def test_an_address_that_the_user_gave_stays():
    words = ["--local_addr=10.1.1.1", "train.py"]
    assert joining.tell_address(words, {"local_addr": "10.1.1.1"}, "10.0.0.1") == words


@pytest.mark.parametrize(
    ("how", "code", "text"),
    [
        ("signal", 143, ""),
        ("closed", torch_options.LATE, "edl: the training ended before this worker took part"),
        ("cut", torch_options.CUT_OFF, "edl: the connection to the rendezvous is lost: 60 s"),
        ("store", torch_options.CUT_OFF, "edl: the connection to the rendezvous is lost: wait"),
        ("failed", 1, "RuntimeError: a worker failed"),
    ],
)
def test_ends_are_told_by_codes(tmp_path: Path, start: Start, how: str, code: int, text: str):
    found, out, err = join(start, tmp_path, how)
    assert ("closed for all" in out) == (how in ("closed", "failed"))
    assert found == code
    assert text in err
    assert ("Traceback" in err) == (how == "failed")


def test_nothing_of_ours_is_in_the_way_of_imports(tmp_path: Path, start: Start):
    """Started as a program, joining.py has its own folder first in sys.path."""
    real = build_torch(tmp_path)
    run = tmp_path / "torch/distributed/run.py"
    run.write_text(run.read_text() + "\n    print('path', sys.path)\n")
    program = str(ROOT / "launcher/shim/joining.py")
    code = f"import os; os.execv({PYTHON!r}, [{PYTHON!r}, *sys.argv[1:]])"
    out, _ = start(code, "-S", program, real, ENDPOINT, "train.py").communicate(timeout=20)
    path = out.decode().rpartition("path ")[2]
    assert path.startswith(f"['{tmp_path}'")
    assert str(ROOT) not in path
