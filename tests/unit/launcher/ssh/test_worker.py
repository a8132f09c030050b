"""worker.sh, PID 1 of a worker, with an sshd that only waits."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from et_contract import names, paths
from launcher.ssh import commands
from tests.unit.launcher.agent.workers import PATIENCE, ROOT
from tests.unit.launcher.ssh.connections import Pod, read_signals

SSHD = '#!/bin/sh\n[ "$1" != -t ] || exit {}\n'
SSHD += 'printf "%s\\n" "$@" > "$0.arguments"\necho on\nexec sleep 100\n'


def start(folder: Path, *command: str, grace: int = 60) -> subprocess.Popen[str]:
    script = folder / "src" / paths.SSH_WORKER.rpartition("/")[2]
    script.parent.mkdir(exist_ok=True)
    script.symlink_to(ROOT / "launcher" / "ssh" / "worker.sh")
    for ours in (ROOT / "launcher" / "ranks").glob("*.py"):
        name = f"launcher/ranks/{ours.name}".replace("/", paths.SLASH)
        (folder / "src" / name).symlink_to(ours)
    (folder / "run").mkdir(exist_ok=True)
    (folder / "keys").mkdir()
    (folder / "keys" / names.KEY_HOST).write_text("the host key")
    words = ["sh", str(script), "2222", "3", str(grace), str(folder / "refusal"), "--", *command]
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "MINE": "it's\nso", "port": "80", "epoch": "10"}
    return subprocess.Popen(
        words, env=environ, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.fixture
def sshd(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir(exist_ok=True)
    program = tmp_path / "bin" / "sshd"
    program.write_text(SSHD.format(1))
    program.chmod(0o755)
    return program


SLEEP = """#!/bin/sh
[ "$1" != 1 ] || exec {sleep} 0.2
exec {sleep} "$@"
"""


def hasten(folder: Path) -> None:
    """The seconds that PID 1 counts are shorter; those of its sessions are not."""
    program = folder / "bin" / "sleep"
    program.write_text(SLEEP.format(sleep=shutil.which("sleep")))
    program.chmod(0o755)


def wait_for_sshd(process: subprocess.Popen[str]) -> None:
    assert process.stdout
    assert process.stdout.readline() == "on\n"


def test_sshd_takes_one_key_runs_one_program_and_reads_no_configuration(
    tmp_path: Path, sshd: Path
) -> None:
    with start(tmp_path) as process:
        wait_for_sshd(process)
        process.terminate()
        assert process.wait(PATIENCE) == 0
    arguments = sshd.with_name("sshd.arguments").read_text().splitlines()
    assert arguments[arguments.index("-f") + 1] == "/dev/null"
    assert arguments[arguments.index("-h") + 1] == f"{tmp_path}/run/host_key"
    options = dict(word.split(" ", 1) for word in arguments if " " in word)
    assert options["AuthorizedKeysFile"] == f"{tmp_path}/keys/authorized_keys"
    assert options["ForceCommand"] == f"exec sh {tmp_path}/src/launcher..ssh..session.sh"
    for name in ("PasswordAuthentication", "KbdInteractiveAuthentication", "PermitUserRC"):
        assert options[name] == "no"
    assert options["DisableForwarding"] == "yes"
    assert options["ClientAliveInterval"] == str(commands.ALIVE_SECONDS)
    assert options["ClientAliveCountMax"] == str(commands.MISSED)


@pytest.mark.parametrize(("code", "told"), [(0, ["PerSourcePenalties no"]), (1, [])])
def test_sshd_penalizes_no_launcher_where_it_would_and_is_told_nothing_that_it_does_not_know(
    tmp_path: Path, sshd: Path, code: int, told: list[str]
) -> None:
    sshd.write_text(SSHD.format(code))
    with start(tmp_path) as process:
        wait_for_sshd(process)
        process.terminate()
        assert process.wait(PATIENCE) == 0
    words = sshd.with_name("sshd.arguments").read_text().splitlines()
    assert [word for word in words if word.startswith("PerSource")] == told
    assert "" not in words


def test_what_sessions_need_is_kept_and_nobody_else_reads_it(tmp_path: Path, sshd: Path) -> None:
    with start(tmp_path) as process:
        wait_for_sshd(process)
        process.terminate()
        process.wait(PATIENCE)
    run = tmp_path / "run"
    assert (run / "host_key").read_text() == "the host key"
    for name in ("host_key", "environment"):
        assert stat.S_IMODE((run / name).stat().st_mode) == 0o600
    told = subprocess.check_output(
        ["sh", "-c", '. run/environment; echo "$MINE $port $epoch"'], cwd=tmp_path, env={}
    )
    assert told == b"it's\nso 80 10\n"
    assert (run / "epoch").read_text() == "3\n"
    assert (run / "folder").read_text() == f"{tmp_path}\n"
    refusal = subprocess.run([tmp_path / "refusal"], capture_output=True, text=True, check=False)
    assert (refusal.returncode, "only the launcher" in refusal.stderr) == (255, True)


def test_ranks_find_what_they_begin_with(tmp_path: Path, sshd: Path) -> None:
    with start(tmp_path) as process:
        wait_for_sshd(process)
        process.terminate()
        process.wait(PATIENCE)
        assert process.stderr
        assert process.stderr.read() == ""
    ours = list((ROOT / "launcher" / "ranks").glob("[a-z]*.py"))
    placed = list((tmp_path / "run" / "ranks").iterdir())
    assert {path.name: path.read_text() for path in placed} == {
        path.name: path.read_text() for path in ours
    }


@pytest.mark.long
def test_the_templates_own_command_runs_beside_it(tmp_path: Path, sshd: Path) -> None:
    with start(tmp_path, "sh", "-c", 'echo "$MINE $port $epoch" > beside; echo on') as process:
        wait_for_sshd(process)
        wait_for_sshd(process)
        process.terminate()
        process.wait(PATIENCE)
    assert (tmp_path / "beside").read_text() == "it's\nso 80 10\n"


@pytest.mark.long
@pytest.mark.usefixtures("sshd", "sh")
def test_the_templates_own_command_hears_the_signals_that_any_program_hears(tmp_path: Path) -> None:
    with start(tmp_path, "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status") as process:
        assert process.stdout
        lines = [process.stdout.readline() for _ in range(3)]
        assert "on\n" in lines
        assert read_signals(lines) == set()
        process.terminate()
        assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGUSR1, signal.SIGRTMIN + 3])
def test_it_leaves_on_whatever_its_image_is_ended_by(
    tmp_path: Path, sshd: Path, number: int
) -> None:
    with start(tmp_path) as process:
        wait_for_sshd(process)
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0
    assert (tmp_path / "run" / "leaving").exists()


@pytest.mark.long
@pytest.mark.parametrize("can_write", [True, False])
def test_sessions_have_the_grace_period_to_end(
    tmp_path: Path, sshd: Path, *, can_write: bool
) -> None:
    os.mkfifo(tmp_path / "go")
    with start(tmp_path) as process:
        wait_for_sshd(process)
        with Pod(tmp_path).start("run 3 ab\necho on; read -r line < go; exit 5") as session:
            wait_for_sshd(session)
            if not can_write:
                (tmp_path / "run" / "leaving").mkdir()
            process.terminate()
            (tmp_path / "go").write_text("on\n")
            assert session.wait(PATIENCE) == 5
        assert process.wait(PATIENCE) == 0


@pytest.mark.long
def test_sessions_that_do_not_end_get_term_in_time(tmp_path: Path, sshd: Path) -> None:
    with start(tmp_path, grace=6) as process:
        wait_for_sshd(process)
        with Pod(tmp_path).start("run 3 ab\necho on; exec sleep 100") as session:
            wait_for_sshd(session)
            process.terminate()
            assert session.wait(PATIENCE) == 143
        assert process.wait(PATIENCE) == 0


@pytest.mark.long
@pytest.mark.parametrize(("told", "heard"), [(None, 1), ("2\n15\n", 0), ("1\n2\n", 1)])
def test_a_session_hears_term_once_whoever_sends_it(
    tmp_path: Path, sshd: Path, told: str | None, heard: int
) -> None:
    """A second one breaks off what saves on the first."""
    hasten(tmp_path)
    with start(tmp_path, grace=12) as process:
        wait_for_sshd(process)
        pod = Pod(tmp_path)
        with pod.start("run 3 ab\ntrap 'echo t' TERM; echo on; while :; do sleep 0.1; done") as run:
            wait_for_sshd(run)
            if told is not None:
                (tmp_path / "run" / "told" / "ab").write_text(told)
            process.terminate()
            assert run.wait(PATIENCE) == 137
            assert run.stdout
            assert run.stdout.read() == "t\n" * heard
        assert process.wait(PATIENCE) == 0


@pytest.mark.long
def test_a_term_of_the_launcher_that_comes_after_the_workers_own_is_not_sent_again(
    tmp_path: Path, sshd: Path
) -> None:
    with start(tmp_path, grace=10) as process:
        wait_for_sshd(process)
        pod = Pod(tmp_path)
        with pod.start("run 3 ab\ntrap 'echo t' TERM; echo on; while :; do sleep 0.1; done") as run:
            wait_for_sshd(run)
            process.terminate()
            assert run.stdout
            assert run.stdout.readline() == "t\n"
            assert pod.ask("signal 3 ab 15")[0] == 0
            assert pod.ask("signal 3 ab 9")[0] == 0
            assert run.wait(PATIENCE) == 137
            assert run.stdout.read() == ""
        assert process.wait(PATIENCE) == 0


@pytest.mark.long
def test_the_templates_own_command_has_what_is_left_of_the_grace(
    tmp_path: Path, sshd: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    save = "read -r line < go; echo saved > state; exit"
    words = f"trap '{save}' TERM; echo on; while :; do sleep 0.05; done"
    with start(tmp_path, "sh", "-c", words) as process:
        wait_for_sshd(process)
        wait_for_sshd(process)
        process.terminate()
        with (tmp_path / "go").open("r+b", buffering=0) as go:  # waits for no reader
            go.write(b"on\n")
            assert process.wait(PATIENCE) == 0
    assert (tmp_path / "state").read_text() == "saved\n"


@pytest.mark.long
def test_a_command_that_does_not_end_holds_the_pod_no_longer_than_its_grace(
    tmp_path: Path, sshd: Path
) -> None:
    words = "echo $$ > pid; trap '' TERM; echo on; while :; do sleep 0.05; done"
    with start(tmp_path, "sh", "-c", words, grace=2) as process:
        wait_for_sshd(process)
        wait_for_sshd(process)
        process.terminate()
        assert process.wait(PATIENCE) == 0
    os.killpg(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_an_image_without_sshd_is_told(tmp_path: Path) -> None:
    if Path("/usr/sbin/sshd").exists():
        return  # what is looked for last is there
    with start(tmp_path) as process:
        assert process.wait(PATIENCE) == 78
        assert process.stderr
        assert "no sshd in the worker's image" in process.stderr.read()
