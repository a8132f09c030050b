"""session.sh, which sshd runs in a worker, without sshd."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tests.unit.launcher.agent.workers import PATIENCE
from tests.unit.launcher.ssh.connections import Pod, is_alive

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


def test_a_session_has_no_stdin_no_core_files_and_leads_a_group(pod: Pod) -> None:
    script = "cat; ulimit -c; cat /proc/self/coredump_filter; echo $$; ps -o pgid= -p $$"

    _, out, _ = pod.ask(RUN + script)

    core, coredump, pid, group = out.split()
    assert (core, coredump) == ("0", "00000000")
    assert pid == group


@pytest.mark.parametrize(("command", "code"), [("kill -ABRT $$", 134), ("exit 255", 255)])
def test_the_code_is_that_of_the_process(pod: Pod, command: str, code: int) -> None:
    assert pod.ask(RUN + command)[0] == code


def test_a_session_ends_with_its_connection(pod: Pod) -> None:
    with pod.start(RUN + "trap 'echo off; exit 5' TERM; echo on; sleep 100 & wait") as process:
        wait_for(process, "on")
        assert process.stdin
        process.stdin.close()
        wait_for(process, "off")
        assert process.wait(PATIENCE) == 5


def test_a_signal_reaches_the_whole_group(pod: Pod) -> None:
    with pod.start(RUN + "(trap 'echo heard' USR1; echo on; sleep 100 & wait)") as process:
        wait_for(process, "on")
        pod.ask(f"signal 3 {ID} {int(signal.SIGUSR1)}")
        assert process.wait(PATIENCE) == 128 + signal.SIGUSR1
        wait_for(process, "heard")


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


def test_a_new_launcher_ends_what_older_ones_have_started_and_they_are_refused(pod: Pod) -> None:
    with pod.start(RUN + "echo on; exec sleep 100") as process:
        wait_for(process, "on")

        assert pod.ask("fence 4")[0] == 0

        assert process.wait(PATIENCE) == 137
    assert pod.ask(RUN + "echo again") == (255, "", "edl: launcher 3 has been replaced\n")
    assert pod.ask(f"run 4 {ID[::-1]}\necho new")[:2] == (0, "new\n")


def test_a_worker_that_is_being_terminated_starts_nothing(pod: Pod) -> None:
    (pod.run / "leaving").touch()
    assert pod.ask(RUN + "echo out")[:2] == (255, "")


@pytest.mark.parametrize(
    "request_", ["", "sh", "run", "run x", "run 3 ../../etc", "run 3 *", f"walk 3 {ID}"]
)
def test_anything_else_is_refused(pod: Pod, request_: str) -> None:
    code, out, _ = pod.ask(request_)
    assert (code, out) == (255, "")
