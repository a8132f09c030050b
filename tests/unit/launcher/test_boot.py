from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from et_contract import paths
from launcher import boot

PYTHON = os.environ.get("PYTHON", sys.executable)
SOURCE = Path(boot.__file__)


def lay_out(folder: Path) -> Path:
    """A runtime as a ConfigMap volume shows it: links into a hidden folder, named by keys."""
    data = folder / "src" / "..data"
    data.mkdir(parents=True)
    for package in ("launcher", "launcher..agent", "launcher..shim"):
        (data / (package + "..__init__.py")).touch()
    (data / "launcher..boot.py").write_bytes(SOURCE.read_bytes())
    told = "def main(argv, **where):\n    print(__name__, __file__, argv, where)\n    return 5\n"
    (data / "launcher..agent..serving.py").write_text(told)
    (data / "launcher..agent..refusing.py").write_text("def place_refusal():\n    pass\n")
    (data / "launcher..shim..launching.py").write_text(told)
    (data / "launcher..shim..torchrun.py").write_text(told.replace("main", "join"))
    for file in data.iterdir():
        (folder / "src" / file.name).symlink_to(Path("..data") / file.name)
    (folder / "run").mkdir()
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = folder / "src" / "launcher..boot.py"
    return subprocess.run(
        [PYTHON, "-I", "-S", str(script), *arguments], capture_output=True, text=True, check=False
    )


def test_the_paths_are_those_of_the_contract() -> None:
    script = Path(paths.BOOT)
    assert script.name == paths.SLASH.join(["launcher", SOURCE.name])
    assert str(script.parent) == paths.RUNTIME_DIR
    assert str(script.parents[1] / "run" / "lib") == paths.LIB_DIR
    assert boot.SLASH == paths.SLASH


@pytest.mark.parametrize(
    ("role", "module", "where"),
    [
        ("agent", "launcher.agent.serving", "{{'socket_path': '{run}/agent.sock'}}"),
        ("launch", "launcher.shim.launching", "{{}}"),
        ("torchrun", "launcher.shim.torchrun", "{{}}"),
    ],
)
def test_each_role_runs_from_the_copy_with_its_command(
    tmp_path: Path, role: str, module: str, where: str
) -> None:
    lay_out(tmp_path)
    done = run(tmp_path, role, "--", "train", "--fast", "--")
    file = tmp_path / "run" / "lib" / Path(*module.split("."))
    told = f"{module} {file}.py ['train', '--fast', '--'] {where.format(run=tmp_path / 'run')}\n"
    assert (done.returncode, done.stdout, done.stderr) == (5, told, "")


def test_a_worker_has_what_its_ranks_begin_with_where_they_look_for_it(tmp_path: Path) -> None:
    (lay_out(tmp_path) / "src" / "launcher..ranks..sitecustomize.py").write_text("ours")
    link = tmp_path / "run" / Path(paths.RANKS_DIR).name
    for _ in range(2):  # and once more, where the container has restarted
        done = run(tmp_path, "agent")
        assert (done.returncode, done.stderr) == (5, "")
        assert (link / "sitecustomize.py").read_text() == "ours"


def test_the_copy_holds_files_and_no_folders_of_the_volume(tmp_path: Path) -> None:
    run(lay_out(tmp_path), "launch", "--", "x")
    copied = tmp_path / "run" / "lib"
    assert [path.name for path in copied.iterdir()] == ["launcher"]
    assert not (copied / "launcher").is_symlink()


def test_a_restarted_container_keeps_its_copy(tmp_path: Path) -> None:
    lay_out(tmp_path)
    assert run(tmp_path, "agent").returncode == 5
    mark = tmp_path / "run" / "lib" / "mark"
    mark.touch()
    assert run(tmp_path, "agent").returncode == 5
    assert mark.exists()


def test_a_copy_that_was_left_half_made_is_made_again(tmp_path: Path) -> None:
    target = tmp_path / "lib"
    half = tmp_path / f"lib.new-{os.getpid()}" / "launcher"
    half.mkdir(parents=True)
    (half / "junk").touch()
    boot.install(str(lay_out(tmp_path) / "src"), str(target))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lib", "run", "src"]
    assert not (target / "launcher" / "junk").exists()


def test_of_two_that_install_at_once_both_find_a_whole_copy(tmp_path: Path) -> None:
    source, target = tmp_path / "src", tmp_path / "lib"
    source.mkdir()
    os.mkfifo(source / "late.py")
    with ThreadPoolExecutor() as pool:
        second = pool.submit(boot.install, str(source), str(target))
        # The second has begun when somebody reads there; the first is done before it goes on.
        with (source / "late.py").open("wb"):
            target.mkdir()
            (target / "late.py").touch()
        second.result(timeout=20)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lib", "src"]


@pytest.mark.parametrize(
    ("role", "module"), [("agent", "agent..serving"), ("launch", "shim..launching")]
)
def test_a_sigterm_while_pid_1_is_still_installing_waits_until_it_can_be_heard(
    tmp_path: Path, role: str, module: str
) -> None:
    lay_out(tmp_path)
    told = "import signal\ndef main(*_, **__):\n    return signal.SIGTERM in signal.sigpending()\n"
    (tmp_path / "src" / "..data" / f"launcher..{module}.py").write_text(told)
    slow = tmp_path / "src" / "slow"
    os.mkfifo(slow)  # whoever copies it waits for a writer
    script = tmp_path / "src" / "launcher..boot.py"
    process = subprocess.Popen([PYTHON, "-I", "-S", str(script), role, "--", "x"])
    with slow.open("wb"):
        process.terminate()
    assert process.wait(20) == 1


def test_pid_1_takes_back_the_locale_that_python_has_set(tmp_path: Path) -> None:
    told = "import os\ndef main(argv):\n    print(os.environ.get('LC_CTYPE'))\n    return 0\n"
    lay_out(tmp_path)
    (tmp_path / "src" / "..data" / "launcher..shim..launching.py").write_text(told)
    command = [PYTHON, "-I", "-S", str(tmp_path / "src" / "launcher..boot.py"), "launch", "--", "x"]
    for given, seen in (({}, "None"), ({"LC_CTYPE": "C.UTF-8"}, "C.UTF-8")):
        env = {"PATH": os.environ["PATH"], **given}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        assert done.stdout == seen + "\n"


@pytest.mark.parametrize("arguments", [(), ("serve",), ("agent", "train"), ("launch", "-x")])
def test_a_wrong_call_is_told_the_right_one(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = run(lay_out(tmp_path), *arguments)
    assert done.returncode == 64
    assert done.stderr == boot.USAGE + "\n"


def test_a_volume_that_takes_nothing_is_told_in_one_sentence(tmp_path: Path) -> None:
    lay_out(tmp_path)
    (tmp_path / "run").rmdir()
    (tmp_path / "run").touch()
    done = run(tmp_path, "agent", "--")
    assert done.returncode == 74
    assert len(done.stderr.splitlines()) == 1
    assert "cannot install the runtime" in done.stderr


def test_a_python_that_is_too_old_is_told_in_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 6, 15))
    assert boot.main(["agent"]) == 78
    assert capsys.readouterr().err == "edl: this image has Python 3.6, at least 3.7 is needed\n"


def test_boot_can_be_read_by_the_oldest_pythons() -> None:
    source = SOURCE.read_text()
    assert 'f"' not in source
    assert "__future__" not in source
