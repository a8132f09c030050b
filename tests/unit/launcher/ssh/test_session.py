"""session.sh, which sshd runs in a worker, without sshd."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.agent import spawning
from tests.unit.launcher.agent.workers import PATIENCE, ROOT
from tests.unit.launcher.ssh.connections import SESSION, Pod, is_alive, read_signals

ANYBODY = 65533
ID = "0123456789abcdef" * 2
RUN = f"run 3 {ID}\n"


def wait_for(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout
    assert process.stdout.readline() == f"{word}\n"


def test_a_session_has_the_environment_and_the_folder_of_the_container(pod: Pod) -> None:
    code, out, err = pod.ask(RUN + 'printf %s "$FROM_POD"; pwd; echo err >&2; exit 3')

    assert (code, err) == (3, "err\n")
    assert out == f"it's\nthe pod{pod.folder}\n"
    assert pod.sessions == []


@pytest.mark.usefixtures("sh")
def test_a_variable_that_the_shell_keeps_for_itself_costs_nothing_else(pod: Pod) -> None:
    kept = ("BASHOPTS", "EUID", "PPID", "SHELLOPTS", "UID")
    text = "it's\nexport UID=3\nso"
    environ = {**dict.fromkeys(kept, "1000"), "AFTER": "here", "ZED": text, "no.name": "x"}
    process = subprocess.run(
        ["sh", "-c", "export -p"],
        env={**environ, "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        check=True,
    )
    (pod.run / "environment").write_bytes(process.stdout)

    assert pod.ask(RUN + 'printf %s "$AFTER $ZED"; exit 3') == (3, f"here {text}", "")


def test_a_session_has_no_stdin_no_core_files_and_leads_a_group(pod: Pod) -> None:
    script = "cat; ulimit -c; cat /proc/self/coredump_filter; echo $$; ps -o pgid= -p $$"

    _, out, _ = pod.ask(RUN + script)

    core, coredump, pid, group = out.split()
    assert (core, coredump) == ("0", "00000000")
    assert pid == group


SIGNALS = "exec grep -E '^Sig(Blk|Ign)' /proc/self/status"
"""What a program blocks and ignores before it has said so."""


@pytest.mark.usefixtures("sh")
def test_a_session_hears_the_same_signals_as_without_ssh(pod: Pod) -> None:
    pid, (out, err) = spawning.start_session(b"s" * 16, SIGNALS, {}, os.environb)
    os.waitpid(pid, 0)
    without_ssh = os.read(out, 4096).decode()
    spawning.close_all([out, err])

    assert pod.ask(RUN + SIGNALS) == (0, without_ssh, "")
    assert read_signals(without_ssh.splitlines()) == set()


@pytest.mark.usefixtures("sh")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGTERM])
def test_a_signal_ends_it_as_it_ends_any_program(pod: Pod, number: int) -> None:
    with pod.start(RUN + "echo on; exec sleep 100") as process:
        wait_for(process, "on")
        pod.ask(f"signal 3 {ID} {int(number)}")
        try:
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            pod.ask(f"end 3 {ID}")
        assert (process.returncode, out, err) == (128 + number, "", "")
    assert pod.sessions == []


LATE = """#!/bin/sh
left=300
while [ ! -e {over} ] && [ "$left" -gt 0 ]; do sleep 0.05; left=$((left - 1)); done
exec {setsid} "$@"
"""


@pytest.mark.usefixtures("sh")
@pytest.mark.parametrize("sh", ["dash", "bash"], indirect=True)  # busybox has a setsid of its own
def test_a_connection_that_ends_before_its_session_begins_forbids_it(pod: Pod) -> None:
    """Nobody could find it any more."""
    setsid = pod.folder / "bin" / "setsid"
    setsid.write_text(LATE.format(setsid=shutil.which("setsid"), over=pod.run / "over" / ID))
    setsid.chmod(0o755)
    with pod.start(RUN + "echo on") as process:
        assert process.stdin
        process.stdin.close()
        process.stdin = None
        out, err = process.communicate(timeout=PATIENCE)
    assert out == ""
    ends = {255: "edl: the worker takes no process any more\n", 128 + signal.SIGTERM: ""}
    assert err == ends[process.returncode]  # it may be signalled before it has looked


@pytest.mark.parametrize(("command", "code"), [("kill -ABRT $$", 134), ("exit 255", 255)])
def test_the_code_is_that_of_the_process(pod: Pod, command: str, code: int) -> None:
    assert pod.ask(RUN + command)[0] == code


@pytest.fixture
def anybodys_pod() -> Iterator[Pod]:
    """Of a user whose processes have a limit, as root's have not."""
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "src").mkdir()
        shutil.copy(ROOT / "launcher" / "ssh" / "session.sh", Path(name) / "src" / SESSION)
        pod = Pod(Path(name))
        if os.geteuid() == 0:
            for path in (pod.folder, *pod.folder.rglob("*")):
                os.chown(path, ANYBODY, ANYBODY, follow_symlinks=False)
        yield pod


@pytest.mark.parametrize("code", [0, 7])
def test_the_code_is_that_of_the_process_also_where_no_other_can_be_started(
    anybodys_pod: Pod, code: int
) -> None:
    command = f"prlimit --pid $PPID --nproc=0:0; exit {code}"
    other = {"user": ANYBODY} if os.geteuid() == 0 else {}
    with anybodys_pod.start(RUN + command, **other) as process:
        assert process.wait(PATIENCE) == code
    assert len(anybodys_pod.sessions) == 1  # nothing could be started that would remove it


@pytest.mark.usefixtures("sh")
def test_whoever_has_no_environment_to_give_says_so(pod: Pod) -> None:
    (pod.run / "environment").unlink()

    code, out, err = pod.ask(RUN + "echo on")

    assert (code, out) == (255, "")
    assert "edl: cannot read " in err


def test_where_no_session_can_be_started_it_is_said(anybodys_pod: Pod) -> None:
    lines, start = anybodys_pod.session.read_text(), "\n    EDL_SESSION="
    assert lines.count(start) == 1
    limit = "\n    prlimit --pid $$ --nproc=0:0"
    anybodys_pod.session.write_text(lines.replace(start, limit + start))
    other = {"user": ANYBODY} if os.geteuid() == 0 else {}

    code, out, err = anybodys_pod.ask(RUN + "echo on", **other)

    assert code not in (0, 255)  # it has not begun, and no connection was cut
    assert (out, err) == ("", "edl: no process can be started\n")


@pytest.mark.parametrize("can_write", [True, False])
def test_a_session_ends_with_its_connection(pod: Pod, *, can_write: bool) -> None:
    if not can_write:
        (pod.run / "over" / ID).symlink_to(pod.run / "nowhere" / "file")
    with pod.start(RUN + "trap 'echo off; exit 5' TERM; echo on; sleep 100 & wait") as process:
        wait_for(process, "on")
        assert process.stdin
        process.stdin.close()
        wait_for(process, "off")
        assert process.wait(PATIENCE) == 5


def test_a_signal_arrives_also_where_it_cannot_be_noted(pod: Pod) -> None:
    (pod.run / "told" / ID).mkdir()
    with pod.start(RUN + "trap 'exit 5' TERM; echo on; while :; do sleep 0.05; done") as process:
        wait_for(process, "on")
        assert pod.ask(f"signal 3 {ID} {int(signal.SIGTERM)}") == (0, "", "")
        assert process.wait(PATIENCE) == 5


@pytest.mark.long
def test_who_cannot_be_forbidden_is_ended_and_the_launcher_asks_again(pod: Pod) -> None:
    (pod.run / "over" / ID).symlink_to(pod.run / "nowhere" / "file")
    with pod.start(RUN + "echo on; exec sleep 100") as process:
        wait_for(process, "on")
        [group] = pod.sessions

        code, _, err = pod.ask(f"end 3 {ID}")

        assert not is_alive(group)
        assert process.wait(PATIENCE) == 137
    assert (code, f"edl: cannot write in {pod.run}\n" in err) == (255, True)


@pytest.mark.long
def test_a_signal_reaches_the_whole_group(pod: Pod) -> None:
    with pod.start(RUN + "(trap 'echo heard' USR1; echo on; sleep 100 & wait)") as process:
        wait_for(process, "on")
        pod.ask(f"signal 3 {ID} {int(signal.SIGUSR1)}")
        assert process.wait(PATIENCE) == 128 + signal.SIGUSR1
        wait_for(process, "heard")


SAVING = (
    "trap 'echo saving; sleep 1.5; echo saved; exit' TERM; echo on; while :; do sleep 0.1; done"
)


@pytest.mark.long
def test_a_session_is_not_over_while_a_child_of_its_wrapper_saves(pod: Pod) -> None:
    (pod.folder / "train.sh").write_text(SAVING)
    with pod.start(RUN + "sh train.sh; exit $?") as process:
        wait_for(process, "on")
        pod.ask(f"signal 3 {ID} {int(signal.SIGTERM)}")
        wait_for(process, "saving")
        wait_for(process, "saved")
        assert process.wait(PATIENCE) == 143
    assert pod.sessions == []


@pytest.mark.long
@pytest.mark.parametrize("where", ["", ">/dev/null 2>&1"])
def test_a_wrapper_that_is_killed_takes_its_children_along(pod: Pod, where: str) -> None:
    command = f"sleep 100 {where} & echo on; sleep 0.2; kill -KILL $$"
    with pod.start(RUN + command) as process:
        wait_for(process, "on")
        [group] = pod.sessions
        assert process.wait(PATIENCE) == 137
        assert not is_alive(group)


DEAD_AND_NOT_WAITED_FOR = """
import os, time
child = os.fork()
if child == 0:
    os._exit(0)
os.setsid()
print("on", os.getpid(), flush=True)
os.dup2(os.open(os.devnull, os.O_RDWR), 1)
os.dup2(1, 2)
time.sleep(100)
"""


def hasten(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seconds of `sleep` pass at once."""
    (pod.folder / "bin").mkdir()
    (pod.folder / "bin" / "sleep").write_text("#!/bin/sh\n")
    (pod.folder / "bin" / "sleep").chmod(0o755)
    monkeypatch.setenv("PATH", f"{pod.folder / 'bin'}:{os.environ['PATH']}")


@pytest.mark.long
def test_what_cannot_be_killed_keeps_no_end_for_ever(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead process that nobody waits for stands for one that hangs in the kernel."""
    (pod.folder / "child.py").write_text(DEAD_AND_NOT_WAITED_FOR)
    hasten(pod, monkeypatch)
    command = f"{sys.executable} child.py & read -r _ < fifo; kill -KILL $$"
    os.mkfifo(pod.folder / "fifo")
    with pod.start(RUN + command) as process:
        assert process.stdout
        parent = int(process.stdout.readline().split()[1])
        try:
            (pod.folder / "fifo").write_text("go\n")
            assert process.wait(PATIENCE) == 137
        finally:
            os.kill(parent, signal.SIGKILL)


@pytest.mark.long
@pytest.mark.parametrize("request_", ["fence 4", f"end 3 {ID}"])
def test_nor_does_it_keep_who_ends_all_that_runs(
    pod: Pod, monkeypatch: pytest.MonkeyPatch, request_: str
) -> None:
    (pod.folder / "child.py").write_text(DEAD_AND_NOT_WAITED_FOR)
    hasten(pod, monkeypatch)
    with pod.start(f"{RUN}{sys.executable} child.py & exec tail -f /dev/null") as process:
        assert process.stdout
        parent = int(process.stdout.readline().split()[1])
        try:
            assert pod.ask(request_)[0] == 0
            assert process.wait(PATIENCE) == 137
        finally:
            os.kill(parent, signal.SIGKILL)


@pytest.mark.long
def test_what_runs_on_in_the_background_can_still_be_ended(pod: Pod) -> None:
    code, out, _ = pod.ask(RUN + "sleep 100 >/dev/null 2>&1 & echo $!; exit 0")
    assert code == 0
    assert len(pod.sessions) == 1
    assert pod.ask("fence 4")[0] == 0
    assert not is_alive(int(out))


@pytest.mark.long
def test_a_session_that_was_ended_runs_no_more_and_never_will(pod: Pod) -> None:
    with pod.start(RUN + "echo on; exec sleep 100") as process:
        wait_for(process, "on")
        [group] = pod.sessions

        assert pod.ask(f"end 3 {ID}") == (0, "", "")

        assert not is_alive(group)
        assert process.wait(PATIENCE) == 137
    assert pod.ask(RUN + "echo again") == (255, "", "edl: the worker takes no process any more\n")


def test_a_session_that_ended_with_255_is_told_from_one_that_was_cut_off(pod: Pod) -> None:
    pod.ask(RUN + "exit 255")
    assert pod.ask(f"end 3 {ID}")[0] == 1


@pytest.mark.long
def test_a_new_launcher_ends_what_older_ones_have_started_and_they_are_refused(pod: Pod) -> None:
    with pod.start(RUN + "echo on; exec sleep 100") as process:
        wait_for(process, "on")

        assert pod.ask("fence 4")[0] == 0

        assert process.wait(PATIENCE) == 137
    assert pod.ask(RUN + "echo again") == (255, "", "edl: launcher 3 has been replaced\n")
    assert pod.ask(f"run 4 {ID[::-1]}\necho new")[:2] == (0, "new\n")


MV = """#!/bin/sh
echo >> {folder}/tried
[ "$(wc -l < {folder}/tried)" -le {failing} ] || exec {mv} "$@"
exit 1
"""


@pytest.mark.long
@pytest.mark.parametrize(("failing", "code", "epoch"), [(1, 0, "4"), (9, 255, "3")])
def test_an_epoch_that_cannot_be_written_fences_nothing_off_and_is_tried_again_without_sessions(
    pod: Pod, monkeypatch: pytest.MonkeyPatch, failing: int, code: int, epoch: str
) -> None:
    with pod.start(RUN + "echo on; exec sleep 100") as process:
        wait_for(process, "on")
        [group] = pod.sessions
        mv = pod.folder / "bin" / "mv"
        mv.parent.mkdir()
        mv.write_text(MV.format(folder=pod.folder, failing=failing, mv=shutil.which("mv")))
        mv.chmod(0o755)
        monkeypatch.setenv("PATH", f"{mv.parent}:{os.environ['PATH']}")

        answered, _, err = pod.ask("fence 4")

        assert not is_alive(group)
        assert process.wait(PATIENCE) == 137
    assert (answered, err.endswith(f"edl: cannot write in {pod.run}\n")) == (code, code == 255)
    assert (pod.run / "epoch").read_text().strip() == epoch


def test_a_worker_that_is_being_terminated_starts_nothing(pod: Pod) -> None:
    (pod.run / "leaving").touch()
    assert pod.ask(RUN + "echo out")[:2] == (255, "")


@pytest.mark.parametrize(
    "request_", ["", "sh", "run", "run x", "run 3 ../../etc", "run 3 *", f"walk 3 {ID}"]
)
def test_anything_else_is_refused(pod: Pod, request_: str) -> None:
    code, out, _ = pod.ask(request_)
    assert (code, out) == (255, "")


def test_a_signal_for_a_session_that_has_not_begun_is_to_be_sent_again(pod: Pod) -> None:
    assert pod.ask(f"signal 3 {ID} {int(signal.SIGTERM)}")[0] == 255
    assert list((pod.run / "told").iterdir()) == []
