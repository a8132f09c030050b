"""rsh.py as horovodrun, mpirun and pdsh see it, against a broker played by the test."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from et_contract import frames
from tests.unit.launcher.shim.brokers import PYTHON, ROOT, Peer, SocketBroker, Start, children_of

SPAWNED = {"pid": 7, "instance": "cafe"}


def run_rsh(start: Start, broker: SocketBroker, *argv: str | bytes, **options: Any) -> Any:
    code = "from launcher.shim import rsh; sys.exit(rsh.main(sys.argv[1:], {!r}))"
    return start(code.format(str(broker.path)), *argv, **options)


def spawned(broker: SocketBroker) -> tuple[Peer, frames.Frame]:
    """The connection of a shim whose process has just started."""
    peer = broker.accept()
    spawn = peer.expect(frames.SPAWN)
    peer.send(frames.SPAWNED, SPAWNED, spawn.session)
    return peer, spawn


def finish(peer: Peer, session: bytes, code: int, out: int = 0, err: int = 0) -> None:
    peer.send(frames.EXIT, {"code": code, "produced": [out, err], "reason": "exited"}, session)
    peer.expect(frames.EXIT_ACK)


def test_the_command_reaches_the_broker_as_ssh_would_send_it(broker: SocketBroker, start: Start):
    shim = run_rsh(start, broker, "-o", "A=b", "job-w-1", "cd /x ;", "env A=1", "python")
    peer, spawn = spawned(broker)
    body = frames.decode_json(spawn)
    assert (body["host"], body["command"]) == ("job-w-1", "cd /x ; env A=1 python")
    assert len(spawn.session) == 16
    assert spawn.session != frames.NO_SESSION
    finish(peer, spawn.session, 0)
    assert shim.wait(20) == 0


@pytest.mark.long
def test_a_rank_of_horovodrun_is_said_to_be_one(broker: SocketBroker, start: Start):
    command = "cd /x > /dev/null 2>&1 ; env HOROVOD_HOSTNAME=w HOROVOD_RANK=12 python train.py"
    run_rsh(start, broker, "-p", "12345", "w", command)
    peer, spawn = spawned(broker)
    body = frames.decode_json(spawn)
    assert (body["ranks"], body["blacklists"]) == (1, True)
    peer.send_data(spawn.session, b"a")  # SPAWNED is known now
    peer.expect(frames.ACK)
    broker.restart()
    body = frames.decode_json(broker.accept().expect(frames.RESUME))
    assert (body["ranks"], body["blacklists"]) == (1, True)


NO_PROCESS = """
import errno, os
def fork(): raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
os.fork = fork
"""
NO_DESCRIPTOR = """
import os, resource
first = os.dup(2)
resource.setrlimit(resource.RLIMIT_NOFILE, (first + {left}, first + {left}))
"""


@pytest.mark.parametrize(
    ("want", "words"),
    [
        (NO_PROCESS, b"Resource temporarily unavailable"),
        (NO_DESCRIPTOR.format(left=1), b"Too many open files"),
        (NO_DESCRIPTOR.format(left=3), b"Too many open files"),  # the child's own
    ],
)
def test_a_launcher_in_want_starts_nothing_and_says_so(
    broker: SocketBroker, start: Start, want: str, words: bytes
):
    code = "from launcher.shim import rsh; exec({!r}); sys.exit(rsh.main(['w', 'x'], {!r}))"
    shim = start(code.format(want, str(broker.path)))
    _, err = shim.communicate(timeout=20)
    said = b"edl: no process can be started in a worker from here: "
    assert (shim.returncode, err) == (255, said + words + b"\n")


def test_output_and_exit_code_are_the_remote_ones(broker: SocketBroker, start: Start):
    shim = run_rsh(start, broker, "w", "x")
    peer, spawn = spawned(broker)
    peer.send_data(spawn.session, b"\xff\0out\r")
    peer.send_data(spawn.session, b"err\n", channel=frames.STDERR)
    finish(peer, spawn.session, 3, 6, 4)
    assert shim.communicate(timeout=20) == (b"\xff\0out\r", b"err\n")
    assert shim.returncode == 3


def test_bytes_of_the_command_arrive_as_they_are(broker: SocketBroker, start: Start):
    environ = {**os.environ, "LC_ALL": "C"}
    run_rsh(start, broker, "w", "echo \u00e4".encode(), b"\xff", env=environ)
    body = frames.decode_json(broker.accept().expect(frames.SPAWN))
    assert body["command"].encode("utf-8", "surrogateescape") == b"echo \xc3\xa4 \xff"


def test_a_full_stdout_that_does_not_block_is_waited_for(broker: SocketBroker, start: Start):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        shim = run_rsh(start, broker, "w", "x", stdout=theirs)
        theirs.close()
        peer, spawn = spawned(broker)
        chunk = bytes(range(256)) * 128
        for number in range(16):
            peer.send_data(spawn.session, chunk, offset=number * len(chunk))
        peer.send(frames.EXIT, {"code": 0, "produced": [16 * len(chunk), 0]}, spawn.session)
        received = b"".join(iter(lambda: ours.recv(1 << 16), b""))
        assert received == chunk * 16
        peer.expect(frames.EXIT_ACK)
        assert shim.wait(20) == 0


def test_a_terminal_that_is_held_up_keeps_no_signal_back(broker: SocketBroker, start: Start):
    reader, terminal = os.openpty()
    try:
        shim = run_rsh(start, broker, "w", "x", stdout=terminal)
        peer, spawn = spawned(broker)
        for number in range(4):
            offset = number * frames.MAX_DATA
            peer.send_data(spawn.session, b"x" * frames.MAX_DATA, offset=offset)
        peer.send_data(spawn.session, b"err\n", channel=frames.STDERR)
        assert shim.stderr is not None
        assert shim.stderr.readline() == b"err\n"
        shim.terminate()
        assert peer.body(frames.SIGNAL) == {"signal": signal.SIGTERM}
    finally:
        os.close(terminal)
        os.close(reader)


def test_a_closed_stderr_hinders_nothing(broker: SocketBroker, start: Start):
    shim = run_rsh(start, broker, "w", "x")
    assert shim.stderr is not None
    shim.stderr.close()
    shim.stderr = None
    peer, spawn = spawned(broker)
    peer.send_data(spawn.session, b"nobody reads this", channel=frames.STDERR)
    peer.send_data(spawn.session, b"out")
    finish(peer, spawn.session, 0, out=3, err=17)
    assert shim.communicate(timeout=20)[0] == b"out"
    assert shim.returncode == 0


def test_without_any_broker_a_term_ends_a_start_that_was_never_sent(
    broker: SocketBroker, start: Start
):
    broker.stop()
    code = "from launcher.shim import attaching, rsh; print('ready', flush=True); "
    code += "sys.exit(rsh.main(sys.argv[1:], {!r}))"
    shim = start(code.format(str(broker.path)), "w", "x")
    assert shim.stdout is not None
    shim.stdout.readline()
    while not children_of(shim.pid):
        assert shim.poll() is None
    shim.terminate()
    assert shim.wait(20) == 143


def test_an_orphan_leaves_after_its_kill(broker: SocketBroker, start: Start):
    code = "from launcher.protocol import courses; from launcher.shim import rsh; "
    code += "courses.KILL_AFTER_SECONDS = 0.05; "
    code += "sys.exit(rsh.main(sys.argv[1:], {!r}))"
    shim = start(code.format(str(broker.path)), "w", "x")
    peer, _ = spawned(broker)
    shim.kill()
    peer.confirm(signal.SIGTERM)
    assert peer.body(frames.SIGNAL) == {"signal": signal.SIGKILL}
    assert peer.receive() is None


def test_an_orphan_whose_term_nobody_delivers_leaves_all_the_same(
    broker: SocketBroker, start: Start
):
    code = "from launcher.shim import attaching, rsh; attaching.ORPHAN_SECONDS = 0.05; "
    code += "sys.exit(rsh.main(sys.argv[1:], {!r}))"
    shim = start(code.format(str(broker.path)), "w", "x")
    peer, _ = spawned(broker)
    shim.kill()
    assert peer.body(frames.SIGNAL) == {"signal": signal.SIGTERM}
    assert peer.receive() is None


def test_a_big_burst_comes_whole_before_the_exit_code(broker: SocketBroker, start: Start):
    shim = run_rsh(start, broker, "w", "x")
    peer, spawn = spawned(broker)
    chunk = bytes(range(256)) * 128
    for number in range(8):
        peer.send_data(spawn.session, chunk, offset=number * len(chunk))
    peer.send(frames.EXIT, {"code": 0, "produced": [8 * len(chunk), 0]}, spawn.session)
    assert shim.stdout.read() == chunk * 8
    peer.expect(frames.EXIT_ACK)
    assert shim.wait(20) == 0


def test_bytes_are_acknowledged_after_they_were_written(broker: SocketBroker, start: Start):
    shim = run_rsh(start, broker, "w", "x")
    peer, spawn = spawned(broker)
    peer.send_data(spawn.session, b"hello")
    assert shim.stdout.read(5) == b"hello"
    ack = peer.expect(frames.ACK)
    assert (ack.flags, ack.offset) == (frames.STDOUT, 5)


def test_no_zero_without_an_exit_frame(broker: SocketBroker, start: Start):
    shim = run_rsh(start, broker, "w", "x")
    peer, spawn = spawned(broker)
    peer.send(frames.LOST, {"reason": "worker w is gone", "code": 137}, spawn.session)
    _, err = shim.communicate(timeout=20)
    assert shim.returncode == frames.EXIT_GONE
    assert b"worker w is gone" in err


def test_a_refused_start_is_255_with_the_reason(broker: SocketBroker, start: Start):
    shim = run_rsh(start, broker, "nobody", "x")
    peer = broker.accept()
    session = peer.expect(frames.SPAWN).session
    peer.send(frames.LOST, {"reason": "no worker named nobody", "code": 255}, session)
    _, err = shim.communicate(timeout=20)
    assert shim.returncode == frames.EXIT_REFUSED
    assert b"no worker named nobody" in err


def test_usage_errors_are_255_without_a_broker(broker: SocketBroker, start: Start):
    shim = run_rsh(start, broker, "only-a-host")
    _, err = shim.communicate(timeout=20)
    assert shim.returncode == frames.EXIT_REFUSED
    assert b"no command given" in err


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"])
def test_signals_go_to_the_remote_group_and_decide_nothing(
    broker: SocketBroker, start: Start, name: str
):
    shim = run_rsh(start, broker, "w", "x")
    peer, spawn = spawned(broker)
    number = signal.Signals["SIG" + name].value
    shim.send_signal(number)
    assert peer.body(frames.SIGNAL) == {"signal": number}
    finish(peer, spawn.session, 143)
    assert shim.wait(20) == 143


def test_a_signal_to_the_whole_group_is_passed_once(broker: SocketBroker, start: Start):
    shim = run_rsh(start, broker, "w", "x", start_new_session=True)
    peer, spawn = spawned(broker)
    os.killpg(shim.pid, signal.SIGINT)
    assert peer.body(frames.SIGNAL) == {"signal": signal.SIGINT}
    finish(peer, spawn.session, 130)
    assert shim.wait(20) == 130


def test_a_parent_that_ignores_its_children_changes_no_exit_code(
    broker: SocketBroker, start: Start
):
    code = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
    code += "from launcher.shim import rsh; sys.exit(rsh.main(sys.argv[1:], {!r}))"
    shim = start(code.format(str(broker.path)), "w", "x")
    peer, spawn = spawned(broker)
    finish(peer, spawn.session, 3)
    assert shim.wait(20) == 3


@pytest.mark.long
def test_term_arms_kill(broker: SocketBroker, start: Start):
    code = "from launcher.protocol import courses; from launcher.shim import rsh; "
    code += "courses.KILL_AFTER_SECONDS = 0.05; "
    code += "sys.exit(rsh.main(sys.argv[1:], {!r}))"
    shim = start(code.format(str(broker.path)), "w", "x")
    peer, spawn = spawned(broker)
    shim.terminate()
    assert peer.body(frames.SIGNAL) == {"signal": signal.SIGTERM}
    peer.close()
    peer = broker.accept()
    peer.expect(frames.RESUME)
    peer.confirm(signal.SIGTERM)
    assert peer.body(frames.SIGNAL) == {"signal": signal.SIGKILL}
    peer.close()
    peer = broker.accept()
    peer.expect(frames.RESUME)
    assert peer.body(frames.SIGNAL) == {"signal": signal.SIGKILL}
    peer.send(frames.EXIT, {"code": 137, "produced": [0, 0]}, spawn.session)
    assert shim.wait(20) == 137


def test_a_reader_that_has_gone_ends_the_remote_process(broker: SocketBroker, start: Start):
    shim = run_rsh(start, broker, "w", "x")
    peer, spawn = spawned(broker)
    shim.stdout.close()
    shim.stdout = None
    assert peer.body(frames.SIGNAL) == {"signal": signal.SIGTERM}
    peer.send_data(spawn.session, b"too late")
    finish(peer, spawn.session, 143, out=8)
    assert shim.wait(20) == 143


def test_a_log_that_is_full_ends_nothing_and_is_told(broker: SocketBroker, start: Start):
    with Path("/dev/full").open("wb") as full:
        shim = run_rsh(start, broker, "w", "x", stdout=full)
    peer, spawn = spawned(broker)
    for number in range(3):
        peer.send_data(spawn.session, b"abc", offset=3 * number)
        assert peer.expect(frames.ACK).offset == 3 * number + 3
    finish(peer, spawn.session, 0, out=9)
    _, err = shim.communicate(timeout=20)
    assert err == b"edl: w: output is lost: No space left on device\n"
    assert shim.returncode == 0


def test_nor_does_a_full_stderr_and_what_comes_after_is_written(broker: SocketBroker, start: Start):
    with Path("/dev/full").open("wb") as full:
        shim = run_rsh(start, broker, "w", "x", stderr=full)
    peer, spawn = spawned(broker)
    for number in range(3):
        peer.send_data(spawn.session, b"abc", offset=3 * number, channel=frames.STDERR)
        assert peer.expect(frames.ACK).offset == 3 * number + 3
    peer.send_data(spawn.session, b"out")
    finish(peer, spawn.session, 0, out=3, err=9)
    assert shim.communicate(timeout=20)[0] == b"out"
    assert shim.returncode == 0


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_one_that_is_started_without_files_takes_none_of_ours_for_them(
    broker: SocketBroker, start: Start, closed: str
):
    code = f"from launcher.shim import rsh; sys.exit(rsh.main(['w', 'x'], {str(broker.path)!r}))"
    words = [PYTHON, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"]
    shim = start(
        "import os; os.execv('/bin/sh', ['sh', '-c', sys.argv[1], 'sh', *sys.argv[2:]])",
        f'exec "$@" {closed}',
        *words,
    )
    peer, spawn = spawned(broker)
    for channel, data in ((frames.STDOUT, b"\x0fout"), (frames.STDERR, b"\x0ferr")):
        peer.send_data(spawn.session, data, channel=channel)
        assert peer.expect(frames.ACK).offset == len(data)
    finish(peer, spawn.session, 3, out=4, err=4)
    out, err = shim.communicate(timeout=20)
    assert out == (b"" if ">&-" in closed.split() else b"\x0fout")
    assert err == (b"" if "2>&-" in closed else b"\x0ferr")
    assert shim.returncode == 3


def test_a_killed_parent_ends_the_remote_process(broker: SocketBroker, start: Start):
    shim = run_rsh(start, broker, "w", "x")
    peer, spawn = spawned(broker)
    shim.kill()
    assert peer.body(frames.SIGNAL) == {"signal": signal.SIGTERM}
    finish(peer, spawn.session, 143)
    assert peer.receive() is None


def test_a_broker_that_restarts_finds_the_session_again(broker: SocketBroker, start: Start):
    shim = run_rsh(start, broker, "w", "x")
    peer, spawn = spawned(broker)
    peer.send_data(spawn.session, b"abc")
    assert shim.stdout.read(3) == b"abc"
    peer.expect(frames.ACK)
    broker.stop()
    broker.restart()
    peer = broker.accept()
    resume = peer.expect(frames.RESUME)
    assert resume.session == spawn.session
    body = frames.decode_json(resume)
    assert (body["instance"], body["received"], body["host"]) == ("cafe", [3, 0], "w")
    peer.send_data(spawn.session, b"bcdef", offset=1)
    finish(peer, spawn.session, 0, out=6)
    assert shim.stdout.read() == b"def"
    assert shim.wait(20) == 0


@pytest.mark.long
def test_a_term_that_came_while_the_broker_was_away_is_not_lost(broker: SocketBroker, start: Start):
    shim = run_rsh(start, broker, "w", "x")
    peer, spawn = spawned(broker)
    peer.send_data(spawn.session, b"x")
    peer.expect(frames.ACK)  # so that it knows that the process has started
    broker.stop()
    shim.send_signal(signal.SIGUSR1)
    shim.terminate()
    broker.restart()
    peer = broker.accept()
    peer.expect(frames.RESUME)
    told = {peer.confirm(signal.SIGTERM, signal.SIGUSR1) for _ in range(2)}
    assert told == {signal.SIGTERM, signal.SIGUSR1}
    shim.send_signal(signal.SIGUSR2)
    peer.confirm(signal.SIGUSR2)
    peer.close()
    peer = broker.accept()
    peer.expect(frames.RESUME)
    shim.send_signal(signal.SIGINT)
    assert peer.confirm(signal.SIGINT) == signal.SIGINT  # and none of those before it
    finish(peer, spawn.session, 143, out=1)
    assert shim.wait(20) == 143


@pytest.mark.long
def test_a_spawn_never_sent_gives_up_with_255(broker: SocketBroker, start: Start):
    broker.stop()
    code = "from launcher.protocol import courses; from launcher.shim import rsh; "
    code += "courses.SPAWN_SECONDS = 0.2; "
    code += "sys.exit(rsh.main(sys.argv[1:], {!r}))"
    shim = start(code.format(str(broker.path)), "w", "x")
    _, err = shim.communicate(timeout=20)
    assert shim.returncode == frames.EXIT_REFUSED
    assert b"edl: w: no broker" in err


@pytest.mark.long
def test_a_rejected_connection_is_tried_again(broker: SocketBroker, start: Start):
    shim = run_rsh(start, broker, "w", "x")
    peer = broker.accept()
    spawn = peer.expect(frames.SPAWN)
    peer.send(frames.REJECT, {"reason": "not yet"})
    assert peer.receive() is None
    peer, again = spawned(broker)
    assert again.session == spawn.session
    finish(peer, spawn.session, 0)
    _, err = shim.communicate(timeout=20)
    assert err.count(b"not yet") == 1
    assert shim.returncode == 0


@pytest.mark.long
def test_a_command_that_no_broker_would_take_is_refused_at_once(broker: SocketBroker, start: Start):
    words = ["x" * 100_000] * 11
    shim = run_rsh(start, broker, "w", "echo", *words)
    _, err = shim.communicate(timeout=20)
    assert (shim.returncode, err) == (255, b"edl: w: the command is longer than 1 MiB\n")


REFUSED = b"edl: w: stdin is not passed on to workers"


@pytest.mark.long
def test_what_is_piped_in_is_refused_before_anything_starts(
    broker: SocketBroker, start: Start, tmp_path: Path
):
    (tmp_path / "data").write_bytes(b"a dataset")
    reader, writer = os.pipe()
    os.write(writer, b"a dataset")
    os.close(writer)
    for stdin in (os.fdopen(reader, "rb"), (tmp_path / "data").open("rb")):
        with stdin:
            shim = run_rsh(start, broker, "w", "x", stdin=stdin)
        _, err = shim.communicate(timeout=20)
        assert shim.returncode == frames.EXIT_REFUSED
        assert err.startswith(REFUSED)


def test_what_comes_in_later_ends_the_remote_process_and_is_no_success(
    broker: SocketBroker, start: Start
):
    shim = run_rsh(start, broker, "w", "x", stdin=subprocess.PIPE)
    peer, spawn = spawned(broker)
    shim.stdin.write(b"a dataset")
    shim.stdin.flush()
    assert peer.body(frames.SIGNAL) == {"signal": signal.SIGTERM}
    finish(peer, spawn.session, 0)
    _, err = shim.communicate(timeout=20)
    assert shim.returncode == frames.EXIT_REFUSED
    assert err.startswith(REFUSED)


@pytest.mark.parametrize("option", ["-n", "-f"])
def test_who_says_that_nothing_is_meant_is_not_asked(
    broker: SocketBroker, start: Start, tmp_path: Path, option: str
):
    (tmp_path / "data").write_bytes(b"the rest of a list of hosts")
    with (tmp_path / "data").open("rb") as data:
        shim = run_rsh(start, broker, option, "w", "x", stdin=data)
    peer, spawn = spawned(broker)
    finish(peer, spawn.session, 0)
    assert shim.wait(20) == 0


def test_a_pipe_in_which_nothing_comes_hinders_nothing(broker: SocketBroker, start: Start):
    shim = run_rsh(start, broker, "w", "x", stdin=subprocess.PIPE)
    peer, spawn = spawned(broker)
    shim.stdin.close()
    shim.stdin = None
    finish(peer, spawn.session, 3)
    assert shim.wait(20) == 3


def test_f_goes_to_the_background(broker: SocketBroker, start: Start):
    shim = run_rsh(start, broker, "-f", "w", "x", stdout=subprocess.DEVNULL)
    peer, spawn = spawned(broker)
    assert shim.wait(20) == 0
    finish(peer, spawn.session, 3)
    assert peer.receive() is None


@pytest.mark.parametrize("code", [0, 143])
def test_a_killed_child_ends_the_remote_process_before_its_end_is_told(
    broker: SocketBroker, start: Start, code: int
):
    shim = run_rsh(start, broker, "w", "x")
    peer, spawn = spawned(broker)
    peer.send_data(spawn.session, b"abc")
    assert shim.stdout.read(3) == b"abc"
    [child] = children_of(shim.pid)
    os.kill(child, signal.SIGKILL)
    peer = broker.accept()
    again = peer.expect(frames.SPAWN)
    body = frames.decode_json(again)
    assert (again.session, body["again"], body["ending"]) == (spawn.session, True, signal.SIGTERM)
    signal_ = peer.expect(frames.SIGNAL)
    assert signal_.offset > 2**31, "after all that the killed one may have sent"
    peer.send(frames.SPAWNED, SPAWNED, spawn.session)
    peer.connection.sendall(frames.encode(frames.DROPPED, spawn.session, b'{"to":3}', flags=1))
    peer.send_data(spawn.session, b"def", offset=3)
    finish(peer, spawn.session, code, out=6)
    _, err = shim.communicate(timeout=20)
    assert shim.returncode == (code or frames.EXIT_GONE)
    assert b"was killed" in err


def shell_script(tmp_path: Path, broker: SocketBroker) -> Path:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from launcher.shim import rsh; "
    code += f"sys.exit(rsh.main(sys.argv[1:], {str(broker.path)!r}))"
    program = tmp_path / "rsh_program.py"
    program.write_text(code)
    script = tmp_path / "kubexec.sh"
    script.write_text(f'#!/bin/sh\nexec {PYTHON} -I -S {program} "$@"\n')
    script.chmod(0o755)
    return script


@pytest.mark.point("case-21")
@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_the_children_of_horovodruns_shell_get_term_and_pass_it_on(
    broker: SocketBroker, tmp_path: Path, shell: str
):
    """horovodrun signals the children of its `sh -c`, which may be the shim itself."""
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"no {shell} here")
    script = shell_script(tmp_path, broker)
    run = subprocess.Popen([path, "-c", f"{script} w 'sleep 9'"], stdout=subprocess.PIPE)
    peer, spawn = spawned(broker)
    children = children_of(run.pid)
    assert children
    for child in children:
        os.kill(child, signal.SIGTERM)
    assert peer.body(frames.SIGNAL) == {"signal": signal.SIGTERM}
    finish(peer, spawn.session, 143)
    assert run.wait(20) == 143
    run.communicate()


def test_stopped_and_killed_like_horovodrun_does_it(broker: SocketBroker, start: Start):
    shim = run_rsh(start, broker, "w", "x")
    peer, spawn = spawned(broker)
    (helper,) = children_of(shim.pid)
    shim.send_signal(signal.SIGSTOP)
    os.kill(helper, signal.SIGTERM)
    assert peer.body(frames.SIGNAL) == {"signal": signal.SIGTERM}
    shim.kill()
    assert shim.wait(20) == -signal.SIGKILL
    assert peer.body(frames.SIGNAL) == {"signal": signal.SIGTERM}
    finish(peer, spawn.session, 143)
