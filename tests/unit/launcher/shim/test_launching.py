"""PID 1 of the launcher, run as a process, against a broker played by the test."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from et_contract import frames
from launcher.shim import placing
from tests.unit.launcher.shim.brokers import (
    Peer,
    SocketBroker,
    Start,
    children_of,
    kill_with_children,
)

HOSTS = "job-worker-0:2\njob-worker-1:2\nedl-nudge-1:0\n"


@pytest.fixture
def paths(tmp_path: Path, broker: SocketBroker) -> placing.Paths:
    (tmp_path / "hosts").write_text(HOSTS)
    return placing.Paths(
        broker=str(broker.path),
        hosts=str(tmp_path / "hosts"),
        results=str(tmp_path / "scripts"),
        lib=str(tmp_path / "lib"),
        bin=str(tmp_path / "bin"),
        discover=str(tmp_path / "etc" / "discover_hosts.sh"),
        kubexec=str(tmp_path / "mpi" / "kubexec.sh"),
        hostfile=str(tmp_path / "etc" / "hostfile"),
        job_hostfile=str(tmp_path / "job" / "hostfile"),
        notice=str(tmp_path / "etc" / "notice"),
        begun=str(tmp_path / "begun"),
    )


def run_launcher(
    start: Start, paths: placing.Paths, *argv: str, setting: str = "pass", **options: Any
) -> subprocess.Popen[bytes]:
    code = f"from launcher.shim import launching, placing; {setting}; sys.exit(launching.main("
    code += f"sys.argv[1:], paths=placing.Paths{tuple(paths)!r}))"
    return start(code, *argv, **options)


def launched(broker: SocketBroker) -> Peer:
    peer = broker.accept()
    assert peer.body(frames.LAUNCH)["nonce"]
    peer.send(frames.GO, {"hosts": HOSTS})
    return peer


def ended(peer: Peer) -> int:
    code: int = peer.body(frames.ENDED)["code"]
    peer.close()
    return code


def test_what_the_command_will_start_often_is_compiled_once_it_runs(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    lib = Path(paths.lib)
    (lib / "part").mkdir(parents=True)
    for name, text in (("good.py", "x = 1"), ("part/other.py", ""), ("bad.py", "x = (")):
        (lib / name).write_text(text)
    process = run_launcher(start, paths, "sh", "-c", "exit 3")
    peer = broker.accept()
    peer.expect(frames.LAUNCH)
    assert not list(lib.rglob("*.pyc"))
    peer.send(frames.GO, {"hosts": HOSTS})
    assert ended(peer) == 3
    _, said = process.communicate(timeout=20)
    compiled = sorted(path.name.partition(".")[0] for path in lib.rglob("*.pyc"))
    assert compiled == ["good", "other"]
    assert b"cannot compile bad.py" in said


def test_the_command_starts_at_go_and_its_code_is_reported_and_returned(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    setting = "launching.REPORT_SECONDS = 999"  # a broker that hangs up has heard it
    process = run_launcher(start, paths, "sh", "-c", "echo started; exit 3", setting=setting)
    peer = broker.accept()
    peer.expect(frames.LAUNCH)
    assert process.poll() is None
    peer.send(frames.GO, {"hosts": HOSTS})
    assert ended(peer) == 3
    assert process.communicate(timeout=20)[0] == b"started\n"
    assert process.returncode == 3


@pytest.mark.long
def test_no_word_of_the_command_reaches_a_shell(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    words = ["a b", "", "$HOME", "$(id)", "*", "; id", "'", "x\ny"]
    code = "import sys; print(ascii(sys.argv[1:]))"
    process = run_launcher(start, paths, sys.executable, "-c", code, *words)
    assert ended(launched(broker)) == 0
    assert process.communicate(timeout=20)[0].decode() == f"{words!r}\n"


@pytest.mark.long
def test_a_command_that_a_signal_ended_is_128_and_more(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    process = run_launcher(start, paths, "sh", "-c", "kill -9 $$")
    assert ended(launched(broker)) == 137
    assert process.wait(20) == 137


@pytest.mark.long
@pytest.mark.parametrize(("command", "code"), [("no-such-thing", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_start_is_named(
    broker: SocketBroker, start: Start, paths: placing.Paths, command: str, code: int
):
    process = run_launcher(start, paths, command)
    assert ended(launched(broker)) == code
    assert f"cannot start '{command}'".encode() in process.communicate(timeout=20)[1]
    assert process.returncode == code


LACKING = """import os; launching.spawning._hear = (
    lambda: os.path.exists('lacking') and (os.unlink('lacking'), 1 / 0)
); launching.START_SECONDS, launching.START_AGAIN = {}, 0.01"""
"""The child of the first fork ends before it is the command, as one without memory does."""


def test_a_command_that_lacks_memory_or_processes_is_started_again(
    broker: SocketBroker, start: Start, paths: placing.Paths, tmp_path: Path
):
    (tmp_path / "lacking").touch()
    setting = LACKING.format(60)
    process = run_launcher(start, paths, "echo", "on", setting=setting, cwd=tmp_path)
    assert ended(launched(broker)) == 0
    out, err = process.communicate(timeout=20)
    assert (out, process.returncode) == (b"on\n", 0)
    assert err == b"edl: cannot start 'echo': Exception occurred in preexec_fn.\n"


def test_what_is_lacking_for_long_is_the_end(
    broker: SocketBroker, start: Start, paths: placing.Paths, tmp_path: Path
):
    (tmp_path / "lacking").touch()
    process = run_launcher(start, paths, "echo", "on", setting=LACKING.format(0), cwd=tmp_path)
    assert ended(launched(broker)) == 126
    assert process.wait(20) == 126


def test_a_log_without_room_ends_no_training(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    with Path("/dev/full").open("wb") as full:
        process = run_launcher(start, paths, "no-such-thing", stderr=full)
        assert ended(launched(broker)) == 127
        assert process.wait(20) == 127


def test_no_command_is_a_usage_error(broker: SocketBroker, start: Start, paths: placing.Paths):
    process = run_launcher(start, paths)
    assert process.wait(20) == 2


def test_the_environment_is_scrubbed_and_ours_is_added(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    environ = {"PATH": os.environ["PATH"], "HOSTNAME": "x", "EDL_JOB_UID": "u", "MINE": "1"}
    process = run_launcher(start, paths, "env", env=environ)
    peer = broker.accept()
    nonce = peer.body(frames.LAUNCH)["nonce"]
    peer.send(frames.GO, {"hosts": HOSTS})
    ended(peer)
    env = dict(
        line.split("=", 1) for line in process.communicate(timeout=20)[0].decode().splitlines()
    )
    assert env["EDL_NONCE"] == nonce
    assert env["PATH"] == f"{paths.bin}:{os.environ['PATH']}"
    assert env["OMPI_MCA_plm_rsh_agent"] == "/etc/mpi/kubexec.sh"
    assert env["MINE"] == "1"
    assert "HOSTNAME" not in env
    assert "EDL_JOB_UID" not in env


@pytest.mark.parametrize(("before", "is_told"), [("touch {}/torchrun", False), (":", True)])
def test_a_torchrun_that_is_not_ours_is_told(
    broker: SocketBroker, start: Start, paths: placing.Paths, before: str, is_told: bool
):
    Path(paths.begun).mkdir()
    (Path(paths.begun) / "torchrun").touch()  # of a container before this one
    script = f"{before.format(paths.begun)}; PATH=/nowhere; torchrun --nnodes=1:2 train.py"
    process = run_launcher(start, paths, "sh", "-c", script)
    assert ended(launched(broker)) == 127
    err = process.communicate(timeout=20)[1].decode()
    assert (f"edl: the command has ended, and {paths.bin}/torchrun has not begun" in err) == is_told


@pytest.mark.long
@pytest.mark.point("case-31")
def test_the_variables_of_thousands_of_services_stay_in_the_launcher(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    # Case 31 of docs/failures.md: horovodrun puts all of them on each worker's command line.
    links = {}
    for number in range(1500):
        links[f"SVC{number}_SERVICE_HOST"] = "10.0.0.1"
        links[f"SVC{number}_PORT"] = links[f"SVC{number}_PORT_80_TCP"] = "tcp://10.0.0.1:80"
    environ = {"PATH": os.environ["PATH"], "MINE": "x" * 100_000, **links}
    script = "echo ${#MINE}; env | grep -c ^SVC"
    process = run_launcher(start, paths, "sh", "-c", script, env=environ)
    peer = launched(broker)
    ended(peer)
    assert process.communicate(timeout=20)[0] == b"100000\n0\n"


def test_files_are_there_when_the_command_starts(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    files = [paths.hostfile, paths.job_hostfile, paths.discover, paths.kubexec]
    process = run_launcher(start, paths, "cat", *files)
    ended(launched(broker))
    out = process.communicate(timeout=20)[0].decode()
    assert out.startswith(
        "job-worker-0:2\njob-worker-1:2\njob-worker-0 slots=2\njob-worker-1 slots=2\n#!/bin/sh\n"
    )
    for program in (paths.discover, paths.kubexec, paths.bin + "/ssh", paths.bin + "/horovodrun"):
        assert os.access(program, os.X_OK)


@pytest.mark.long
def test_a_changed_list_reaches_the_host_files(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    wait = f"while ! grep -q new-worker {paths.job_hostfile}; do sleep 0.05; done"
    process = run_launcher(
        start, paths, "sh", "-c", wait, setting="launching.MIRROR_SECONDS = 0.05"
    )
    peer = launched(broker)
    placing.write_whole(paths.hosts, "new-worker:1\n")
    assert ended(peer) == 0
    assert process.wait(20) == 0
    assert Path(paths.hostfile).read_text() == "new-worker:1\n"


def test_term_before_go_ends_at_once(broker: SocketBroker, start: Start, paths: placing.Paths):
    process = run_launcher(start, paths, "sleep", "99")
    peer = broker.accept()
    peer.expect(frames.LAUNCH)
    process.terminate()
    assert process.wait(20) == 143


def test_a_term_that_came_before_pid_1_could_hear_it_counts(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    held = "import os, signal; signal.pthread_sigmask(signal.SIG_BLOCK, [15])"
    held += "; os.kill(os.getpid(), 15)"
    assert run_launcher(start, paths, "sleep", "99", setting=held).wait(20) == 143


def test_a_command_starts_with_no_signal_blocked(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    held = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [2, 15])"
    process = run_launcher(start, paths, "grep", "SigBlk", "/proc/self/status", setting=held)
    ended(launched(broker))
    output = process.communicate(timeout=20)[0]
    assert int(output.split()[1], 16) & (1 << 14 | 1 << 1) == 0


def test_a_volume_from_which_nothing_can_be_run_is_told(paths: placing.Paths):
    with pytest.raises(PermissionError, match="noexec") as caught:
        placing.place_programs(paths, can_execute=lambda path: path != paths.kubexec)
    assert caught.value.filename == paths.kubexec


def test_launchers_start_kubexec_with_whatever_stdin_they_have(paths: placing.Paths):
    placing.place_programs(paths)
    assert 'rsh.py" -n "$@"' in Path(paths.kubexec).read_text()
    assert 'rsh.py" "$@"' in (Path(paths.bin) / "ssh").read_text()


def test_term_goes_to_the_whole_group(broker: SocketBroker, start: Start, paths: placing.Paths):
    process = run_launcher(start, paths, "sh", "-c", "echo ready; sleep 99; echo never")
    peer = launched(broker)
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()
    assert ended(peer) == 143
    assert process.communicate(timeout=20) == (b"", b"")
    assert process.returncode == 143


@pytest.mark.long
@pytest.mark.parametrize("name", ["TERM", "INT", "HUP"])
def test_what_the_command_signals_does_not_come_back_to_it(
    broker: SocketBroker, start: Start, paths: placing.Paths, name: str
):
    # As in a pod, PID 1 sees who is in its container, and no one else.
    namespace = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    inner = f"trap 'exit 9' {name}; trap 'go=1' USR2; kill -{name} $PPID; echo $PPID"
    inner += "; until test $go; do sleep 0.05; done; exit 7"
    process = run_launcher(start, paths, "sh", "-c", inner, prefix=namespace)
    peer = launched(broker)
    assert process.stdout is not None
    assert process.stdout.readline() == b"1\n"
    os.kill(children_of(process.pid)[0], signal.SIGUSR2)
    assert ended(peer) == 7
    assert process.wait(20) == 7


@pytest.mark.parametrize(
    ("number", "heard"),
    [(number, number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)]
    + [(number, signal.SIGTERM) for number in (signal.SIGWINCH, signal.SIGRTMIN + 3)],
)
def test_whatever_signal_ends_the_pod_a_command_that_saves_has_not_succeeded(
    broker: SocketBroker, start: Start, paths: placing.Paths, number: int, heard: int
):
    namespace = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    save = f"trap 'echo saved; exit 0' {heard:d}; echo ready; while :; do sleep 0.05; done"
    process = run_launcher(start, paths, "sh", "-c", save, prefix=namespace)
    peer = launched(broker)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    os.kill(children_of(process.pid)[0], number)
    assert peer.body(frames.ENDED) == {"code": 0, "toldToEnd": True}
    peer.close()
    assert process.wait(20) == 0
    assert process.stdout.read() == b"saved\n"


def test_an_end_after_term_is_told_as_one_also_to_a_broker_that_comes_back(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    save = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    process = run_launcher(start, paths, "sh", "-c", save)
    peer = launched(broker)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    broker.restart()
    process.terminate()
    peer = broker.accept()
    peer.expect(frames.LAUNCH)
    assert peer.body(frames.ENDED) == {"code": 0, "toldToEnd": True}
    peer.close()
    assert process.wait(20) == 0


def test_a_term_that_finds_the_command_ended_did_not_end_it(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    process = run_launcher(start, paths, "sh", "-c", "echo ready; read word", stdin=subprocess.PIPE)
    peer = launched(broker)
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == b"ready\n"
    command = os.pidfd_open(children_of(process.pid)[0])
    process.send_signal(signal.SIGSTOP)  # PID 1 is about to hear of both at once
    process.stdin.write(b"end\n")
    process.stdin.flush()
    assert select.select([command], [], [], 20)[0]
    os.close(command)
    process.terminate()
    process.send_signal(signal.SIGCONT)
    assert peer.body(frames.ENDED) == {"code": 0, "toldToEnd": False}
    peer.close()
    assert process.wait(20) == 0


@pytest.mark.long
def test_a_command_that_ignores_term_is_killed_within_the_grace(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    trap = "trap '' TERM; trap 'echo again' INT; echo ready; while :; do sleep 0.05; done"
    environ = {**os.environ, "EDL_GRACE_SECONDS": "1"}
    process = run_launcher(start, paths, "sh", "-c", trap, env=environ)
    peer = launched(broker)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.terminate()
    assert ended(peer) == 137
    assert process.stdout.read() == b"again\n"
    assert process.wait(20) == 137


@pytest.mark.long
def test_a_command_that_ignores_the_signal_of_its_image_gets_term(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    namespace = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    trap = "trap '' INT; trap 'echo saved; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    environ = {**os.environ, "EDL_GRACE_SECONDS": "4"}
    process = run_launcher(start, paths, "sh", "-c", trap, prefix=namespace, env=environ)
    peer = launched(broker)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    os.kill(children_of(process.pid)[0], signal.SIGINT)
    assert ended(peer) == 3
    assert process.stdout.read() == b"saved\n"


@pytest.mark.long
def test_a_command_that_saves_on_the_signal_of_its_image_has_most_of_the_grace(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    """It may have no word for TERM: half the time to KILL has gone when it has saved."""
    namespace = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    save = """trap 'trap "" INT; sleep 1.2; echo saved; exit 0' INT
    echo ready; while :; do sleep 0.05; done"""
    environ = {**os.environ, "EDL_GRACE_SECONDS": "4"}
    process = run_launcher(start, paths, "sh", "-c", save, prefix=namespace, env=environ)
    peer = launched(broker)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    os.kill(children_of(process.pid)[0], signal.SIGINT)
    assert peer.body(frames.ENDED) == {"code": 0, "toldToEnd": True}
    peer.close()
    assert process.stdout.read() == b"saved\n"


@pytest.mark.parametrize("name", ["INT", "HUP", "USR1"])
def test_other_signals_are_passed_on(
    broker: SocketBroker, start: Start, paths: placing.Paths, name: str
):
    trap = f"trap 'echo got; exit 5' {name}; echo ready; while :; do sleep 0.05; done"
    process = run_launcher(start, paths, "sh", "-c", trap)
    peer = launched(broker)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.Signals["SIG" + name])
    assert ended(peer) == 5
    assert process.stdout.read() == b"got\n"


def test_a_restarted_broker_is_met_again_and_hears_the_end(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    process = run_launcher(start, paths, "sh", "-c", "read x; exit 4", stdin=subprocess.PIPE)
    launched(broker)
    broker.restart()
    peer = launched(broker)
    broker.stop()
    assert process.stdin is not None
    process.stdin.write(b"go\n")
    process.stdin.flush()
    broker.restart()
    peer = broker.accept()
    peer.expect(frames.LAUNCH)
    assert ended(peer) == 4
    assert process.wait(20) == 4


NOTICE = {
    "reason": "AWS takes it back",
    "source": "taint spot-itn",
    "deadline": "2026-01-31T12:00:00Z",
    "pods": {"job-worker-0": "2026-01-31T12:00:00Z", "job-launcher": None},
}


def test_a_notice_is_there_before_the_command_and_is_told_whoever_asks_next(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    notice = Path(paths.notice)
    notice.parent.mkdir()
    notice.write_text("of a container before this one")
    script = f"cat {notice}; while test -e {notice}; do sleep 0.05; done; echo gone; exit 3"
    process = run_launcher(start, paths, "sh", "-c", script)
    peer = broker.accept()
    assert peer.body(frames.LAUNCH)["noticed"] is False
    assert not notice.exists()
    peer.send(frames.NOTICE, {"notice": NOTICE})
    peer.send(frames.GO, {"hosts": HOSTS})
    assert process.stdout is not None
    assert json.loads(process.stdout.readline()) == NOTICE
    broker.restart()
    peer = broker.accept()
    assert peer.body(frames.LAUNCH)["noticed"] is True
    peer.send(frames.NOTICE)
    assert ended(peer) == 3
    assert process.communicate(timeout=20)[0] == b"gone\n"


def test_a_notice_that_is_none_ends_the_connection_and_one_that_cannot_be_written_nothing(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    Path(paths.notice).mkdir(parents=True)
    process = run_launcher(start, paths, "true")
    peer = broker.accept()
    peer.expect(frames.LAUNCH)
    peer.send(frames.NOTICE, {"notice": {"reason": "no more"}})
    assert peer.receive() is None
    peer = broker.accept()
    assert peer.body(frames.LAUNCH)["noticed"] is False
    peer.send(frames.NOTICE, {"notice": NOTICE})
    peer.send(frames.GO, {"hosts": HOSTS})
    assert ended(peer) == 0
    said = process.communicate(timeout=20)[1]
    assert b"cannot tell scripts of the end of pods" in said


@pytest.mark.long
def test_a_broker_that_never_hears_of_the_end_does_not_hold_it_up(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    process = run_launcher(start, paths, "true", setting="launching.REPORT_SECONDS = 0.1")
    peer = launched(broker)
    assert process.wait(20) == 0
    assert peer.body(frames.ENDED) == {"code": 0, "toldToEnd": False}


@pytest.mark.long
def test_people_are_told_what_is_waited_for(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    broker.stop()
    process = run_launcher(start, paths, "true", setting="launching.SAY_SECONDS = 0.05")
    assert process.stderr is not None
    assert b"waiting for the broker" in process.stderr.readline()
    broker.restart()
    peer = broker.accept()
    while b"waiting for workers: 2 can run" not in process.stderr.readline():
        pass
    peer.expect(frames.LAUNCH)
    peer.send(frames.GO)
    ended(peer)


def test_a_folder_that_cannot_be_written_is_named(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    process = run_launcher(start, paths._replace(kubexec="/proc/kubexec.sh"), "true")
    _, err = process.communicate(timeout=20)
    assert process.returncode == 1
    assert b"cannot place /proc/kubexec.sh" in err


AS_TEXT = {"shell": True}


def order(peer: Peer, identity: str, script: object, **rest: Any) -> None:
    body = {"id": identity, "script": str(script), "argument": "a:1,b:2", "env": {}, "timeout": 20}
    peer.send(frames.SCRIPT, {**body, **rest})


def test_scripts_run_beside_the_command_once_each(
    broker: SocketBroker, start: Start, paths: placing.Paths, tmp_path: Path
):
    script = tmp_path / "scale.sh"
    says = 'echo "$GREETING $*"; echo "nonce=$EDL_NONCE" >&2; echo x >> "$0.runs"'
    script.write_text(f"#!/bin/sh\n{says}")
    run_launcher(start, paths, "sleep", "99")
    peer = launched(broker)
    order(peer, "u/1", script, env={"GREETING": "hi"})
    done = peer.body(frames.SCRIPT_DONE)
    assert done == {"id": "u/1", "code": 0, "output": "hi a:1,b:2\nnonce=\n", "timedOut": False}
    broker.restart()
    peer = launched(broker)
    order(peer, "u/1", script)
    assert peer.body(frames.SCRIPT_DONE) == done
    assert (tmp_path / "scale.sh.runs").read_text() == "x\n"


def test_scripts_wait_for_each_other(
    broker: SocketBroker, start: Start, paths: placing.Paths, tmp_path: Path
):
    script = tmp_path / "s.sh"
    script.write_text("echo $2; exit $2")
    run_launcher(start, paths, "sleep", "99")
    peer = launched(broker)
    for number in (1, 2, 3):
        order(peer, f"id-{number}", f"{script} x {number}", **AS_TEXT)
        order(peer, f"id-{number}", f"{script} x {number}", **AS_TEXT)
    results = [peer.body(frames.SCRIPT_DONE) for _ in range(3)]
    assert [(r["id"], r["code"], r["output"]) for r in results] == [
        ("id-1", 1, "1\n"),
        ("id-2", 2, "2\n"),
        ("id-3", 3, "3\n"),
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    "script",
    [
        "/dev/null; echo run #",
        "/proc/self/environ",
        "/dev/stdin",
        "-c 'echo run'",
        "s.sh",
        "/no/such/file",
        "/etc/../proc/self/environ",
    ],
)
def test_a_script_is_a_file_and_no_word_of_it_reaches_a_shell(
    broker: SocketBroker, start: Start, paths: placing.Paths, script: str
):
    run_launcher(start, paths, "sleep", "99")
    peer = launched(broker)
    order(peer, "u", script, env={"X": "\necho run\n"})
    done = peer.body(frames.SCRIPT_DONE)
    assert (done["code"], "is no shell script" in done["output"]) == (1, True)


@pytest.mark.long
@pytest.mark.parametrize(
    "changes",
    [
        {"env": {"A": "x\0y"}},
        {"env": {"A=B": "x"}},
        {"script": "/etc/host\0name"},
        {"script": "echo \0", "shell": True},
        {"script": "/\ud800"},
    ],
)
def test_an_order_that_no_program_can_be_started_with_has_failed_and_nothing_else(
    broker: SocketBroker,
    start: Start,
    paths: placing.Paths,
    tmp_path: Path,
    changes: dict[str, Any],
):
    script = tmp_path / "s.sh"
    script.write_text("#!/bin/sh\necho run")
    process = run_launcher(start, paths, "sleep", "99")
    peer = launched(broker)
    order(peer, "odd", **{"script": script, **changes})
    done = peer.body(frames.SCRIPT_DONE)
    assert (done["id"], done["code"]) == ("odd", 1)
    assert "cannot run the script" in done["output"]
    order(peer, "next", script)
    assert peer.body(frames.SCRIPT_DONE)["output"] == "run\n"
    assert process.poll() is None


def test_a_link_to_what_an_order_can_make_is_no_file(
    broker: SocketBroker, start: Start, paths: placing.Paths, tmp_path: Path
):
    link = tmp_path / "s.sh"
    link.symlink_to("/proc/self/environ")
    run_launcher(start, paths, "sleep", "99")
    peer = launched(broker)
    order(peer, "u", link, env={"X": "\necho run\n"})
    assert "is no shell script" in peer.body(frames.SCRIPT_DONE)["output"]


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [
        "hunter2\n",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n",
        '{"id": "u-1", "output": "$(echo hunter2)"}',
        "#!/usr/bin/python3\npassword = 'hunter2'\n",
        "",
        "\n#!/bin/sh\necho hunter2\n",
    ],
)
def test_of_a_file_that_is_no_shell_script_nothing_is_run_or_shown(
    broker: SocketBroker, start: Start, paths: placing.Paths, tmp_path: Path, text: str
):
    file = tmp_path / "file"
    file.write_text(text)
    run_launcher(start, paths, "sleep", "99")
    peer = launched(broker)
    order(peer, "u", file)
    done = peer.body(frames.SCRIPT_DONE)
    assert (done["code"], "#!/bin/sh" in done["output"]) == (1, True)
    assert not [word for word in text.split() if word in done["output"] and "#!" not in word]


@pytest.mark.long
def test_the_script_of_the_pods_own_end_waits_for_none_of_a_scaling(
    broker: SocketBroker, start: Start, paths: placing.Paths, tmp_path: Path
):
    saved, scaling, notice = (tmp_path / name for name in ("saved", "scale.sh", "save.sh"))
    scaling.write_text(f"#!/bin/sh\nwhile ! test -e {saved}; do sleep 0.05; done; echo scaled")
    notice.write_text(f"#!/bin/sh\ntouch {saved}; echo said")
    run_launcher(start, paths, "sleep", "99")
    peer = launched(broker)
    order(peer, "uid-1", scaling)
    order(peer, "notice/uid/2026-01-01T13:00:01Z", notice)
    results = [peer.body(frames.SCRIPT_DONE) for _ in range(2)]
    assert {result["output"] for result in results} == {"scaled\n", "said\n"}


@pytest.mark.long
def test_a_script_whose_time_is_over_is_ended_with_its_group(
    broker: SocketBroker, start: Start, paths: placing.Paths, tmp_path: Path
):
    script = tmp_path / "s.sh"
    script.write_text("#!/bin/sh\ntrap '' TERM; echo $$; while :; do sleep 1; done")
    setting = "from launcher.shim import scripting; scripting.TERM_SECONDS = 0.05"
    run_launcher(start, paths, "sleep", "99", setting=setting)
    peer = launched(broker)
    order(peer, "late", script, timeout=0.5)
    done = peer.body(frames.SCRIPT_DONE)
    assert (done["id"], done["code"], done["timedOut"]) == ("late", None, True)
    status = Path("/proc", done["output"].strip(), "status")
    while status.exists() and "\nState:\tZ" not in status.read_text():
        pass  # SIGKILL is on its way


@pytest.mark.long
def test_a_script_whose_time_is_over_may_clean_up(
    broker: SocketBroker, start: Start, paths: placing.Paths, tmp_path: Path
):
    script = tmp_path / "s.sh"
    cleaning = "trap 'sleep 0.1; echo cleaned; exit' TERM; while :; do sleep 0.05; done"
    script.write_text(f"#!/bin/bash -e\n{cleaning}")
    run_launcher(start, paths, "sleep", "99")
    peer = launched(broker)
    order(peer, "late", script, timeout=0.5)
    assert peer.body(frames.SCRIPT_DONE)["output"].endswith("cleaned\n")


@pytest.mark.long
def test_only_the_end_of_the_output_is_kept(
    broker: SocketBroker, start: Start, paths: placing.Paths, tmp_path: Path
):
    script = tmp_path / "s.sh"
    counting = "i=0; while [ $i -lt 3000 ]; do echo line-$i; i=$((i+1)); done"
    script.write_text(f"#! /usr/bin/env sh\n{counting}")
    run_launcher(start, paths, "sleep", "99")
    peer = launched(broker)
    order(peer, "long", script)
    output = peer.body(frames.SCRIPT_DONE)["output"]
    assert len(output) == 4096
    assert output.endswith("line-2999\n")


@pytest.mark.long
def test_a_script_that_another_launcher_began_has_failed(
    broker: SocketBroker, start: Start, paths: placing.Paths, tmp_path: Path
):
    script = tmp_path / "s.sh"
    script.write_text('#!/bin/sh\necho x >> "$0.runs"; exec sleep 99')
    first = run_launcher(start, paths, "sleep", "99")
    peer = launched(broker)
    order(peer, "u-1", script)
    runs = tmp_path / "s.sh.runs"
    while not (runs.exists() and runs.read_text()):
        assert first.poll() is None
    kill_with_children(first)
    run_launcher(start, paths, "sleep", "99")
    peer = launched(broker)
    order(peer, "u-1", script)
    done = peer.body(frames.SCRIPT_DONE)
    assert done["code"] == 1
    assert "ended while the script ran" in done["output"]
    assert runs.read_text() == "x\n"
    kept = Path(paths.results, "u-1.json")
    assert json.loads(kept.read_text()) == done


@pytest.mark.long
@pytest.mark.parametrize("kept", [None, "[" * 20000, "[]"])
def test_what_the_user_put_in_the_place_of_a_result_holds_nothing_up(
    broker: SocketBroker, start: Start, paths: placing.Paths, tmp_path: Path, kept: str | None
):
    place = Path(paths.results, "u-1.json")
    place.parent.mkdir()
    os.mkfifo(place) if kept is None else place.write_text(kept)
    (tmp_path / "s.sh").write_text("#!/bin/sh\n")
    run_launcher(start, paths, "sleep", "99")
    peer = launched(broker)
    order(peer, "u-1", tmp_path / "s.sh")
    done = peer.body(frames.SCRIPT_DONE)
    assert (done["code"], "cannot be read" in done["output"]) == (1, True)


def test_what_the_user_put_in_the_place_of_a_draft_is_not_written_to(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    for ending in ("new", os.getpid()):
        (tmp_path / "folder" / f"file.{ending}").symlink_to(tmp_path / "other")
    placing.write_whole(f"{tmp_path}/folder/file", "text", 0o755)
    placed = tmp_path / "folder" / "file"
    assert (placed.read_text(), placed.stat().st_mode & 0o777) == ("text", 0o755)
    assert not (tmp_path / "other").exists()


@pytest.mark.long
def test_an_orphan_with_the_pid_that_the_command_had_does_not_change_its_code(
    broker: SocketBroker, start: Start, paths: placing.Paths
):
    setting = "from launcher.agent import spawning; reap = spawning.reap; "
    setting += "again = lambda pid, code, why: ((pid, code, why), (pid, 9, why)); "
    setting += "spawning.reap = lambda: (end for one in reap() for end in again(*one))"
    process = run_launcher(start, paths, "sh", "-c", "exit 3", setting=setting)
    assert ended(launched(broker)) == 3
    assert process.wait(20) == 3


@pytest.mark.long
def test_orphans_are_reaped(broker: SocketBroker, start: Start, paths: placing.Paths):
    """As a subreaper, which is what PID 1 is."""
    setting = "import ctypes; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)"
    orphan = "sh -c 'sleep 0.05 & echo $!' > {0}; read pid < {0}; while [ -d /proc/$pid ]; "
    orphan += "do sleep 0.05; done"
    file = paths.hosts + ".pid"
    process = run_launcher(start, paths, "sh", "-c", orphan.format(file), setting=setting)
    assert ended(launched(broker)) == 0
    assert process.wait(20) == 0
