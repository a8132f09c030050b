"""The agent as a process, with real children."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from et_contract import frames
from launcher.protocol.claims import Claim
from tests.unit.launcher.agent.workers import PYTHON, ROOT, Peer, Worker
from tests.unit.launcher.shim.brokers import children_of

GONE = "sleep 0.05; done"


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat[stat.rfind(b")") + 2 :].split()[0] not in (b"Z", b"X")


def number(text: bytes) -> int:
    return int(text.split()[0])


# ---------------------------------------------------------------- sessions


@pytest.mark.long
def test_a_command_runs_and_its_output_and_code_come_back(peer: Peer) -> None:
    assert peer.run("echo out; echo err >&2; exit 3") == (3, b"out\n", b"err\n")


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "code"),
    [("true", 0), ("kill -9 $$", 137), ("kill -ABRT $$", 134), ("no-such-command-here", 127)],
)
def test_the_code_is_the_one_of_the_process(peer: Peer, command: str, code: int) -> None:
    assert peer.run(command)[0] == code


@pytest.mark.long
def test_a_burst_comes_whole_and_before_its_code(peer: Peer) -> None:
    code, out, _ = peer.run("head -c 20000000 /dev/zero | tr '\\0' x; exit 3")
    assert (code, len(out), set(out)) == (3, 20_000_000, {ord("x")})


def test_bytes_are_passed_as_they_are(peer: Peer) -> None:
    code, out, _ = peer.run(r"printf '\377\000\r\n\001'")
    assert (code, out) == (0, b"\xff\x00\r\n\x01")


@pytest.mark.long
def test_a_command_that_is_no_unicode_is_passed_as_it_is(peer: Peer) -> None:
    assert peer.run("printf %s '\udcff\u00e4'")[1] == b"\xff\xc3\xa4"


@pytest.mark.long
def test_a_session_has_its_own_environment_without_ours(peer: Peer) -> None:
    code, out, _ = peer.run("env", {"RANK": "7", "HOME": "/else"})
    env = dict(line.split(b"=", 1) for line in out.splitlines() if b"=" in line)
    assert code == 0
    assert env[b"RANK"] == b"7"
    assert env[b"HOME"] == b"/else"
    assert [name for name in env if name.startswith(b"EDL_")] == [b"EDL_SESSION"]
    assert env[b"PATH"] == os.environb[b"PATH"]


@pytest.mark.long
def test_a_session_has_no_stdin_no_core_files_and_the_containers_folder(
    peer: Peer, worker: Worker
) -> None:
    _, out, _ = peer.run("cat; ulimit -c; cat /proc/self/coredump_filter; pwd")
    assert out.split() == [b"0", b"00000100", str(worker.folder).encode()]


@pytest.mark.long
def test_a_session_leads_its_own_process_group(peer: Peer) -> None:
    _, body = peer.start("sleep 100")
    stat = Path(f"/proc/{body['pid']}/stat").read_text()
    assert stat[stat.rfind(")") + 2 :].split()[2:4] == [str(body["pid"])] * 2


@pytest.mark.long
def test_a_session_ignores_and_blocks_no_signal_of_ours(peer: Peer) -> None:
    _, out, _ = peer.run("grep -E 'Sig(Blk|Ign)' /proc/self/status")
    libc = (
        0b11 << 31
    )  # signals 32 and 33 are the C library's own: nobody else can set or reset them
    assert [int(line.split()[1], 16) & ~libc for line in out.splitlines()] == [0, 0]


@pytest.mark.long
def test_a_session_gets_the_signals_that_the_agent_was_started_to_ignore(worker: Worker) -> None:
    ignoring = ("sh", "-c", "trap '' HUP INT QUIT TERM USR1 USR2; exec \"$@\"", "sh")
    peer = worker.start(prefix=ignoring).hello()
    _, out, _ = peer.run("grep SigIgn /proc/self/status")
    assert int(out.split()[1], 16) & 0b11111111111111 == 0


@pytest.mark.long
def test_a_session_inherits_no_file_of_ours(peer: Peer) -> None:
    _, out, _ = peer.run("ls /proc/self/fd")
    assert set(out.split()) <= {b"0", b"1", b"2", b"3"}


@pytest.mark.long
def test_a_signal_reaches_the_whole_group(peer: Peer) -> None:
    command = "sh -c 'trap \"echo child; exit\" TERM; echo up; while :; do sleep 0.05; done' & "
    claim = peer.spawn("trap : TERM; " + command + "wait; wait; exit 7")
    peer.wait_for(claim, b"up")
    peer.send(claim.signal(signal.SIGTERM))
    code, out, _ = peer.finish(claim)
    assert (code, out) == (7, b"child\n")


@pytest.mark.long
def test_an_argument_that_is_too_long_fails_and_the_next_command_runs(peer: Peer) -> None:
    code, _, _ = peer.run("env A=" + "x" * 200_000 + " true")
    assert code == 126
    assert peer.run("echo ok")[1] == b"ok\n"


@pytest.mark.long
@pytest.mark.point("case-31")
def test_case_31_a_command_longer_than_an_argument_can_be_runs_all_the_same(peer: Peer) -> None:
    many = " ".join(f"A{n}={'x' * 50_000}" for n in range(10))
    claim = peer.spawn(f"cat; env {many} sh -c 'echo ${{#A9}}'; kill -9 $$")
    code, out, _ = peer.finish(claim)
    assert (code, out) == (137, b"50000\n")


@pytest.mark.long
def test_a_long_command_takes_nothing_of_what_its_user_has_in_pipes(peer: Peer) -> None:
    code, out, _ = peer.run(f": {'x' * 200_000}; readlink /proc/$$/fd/*; exit 0")
    assert code == 0
    known = [PYTHON, "-c", "import os; print(hasattr(os, 'memfd_create'))"]  # not in Python 3.7
    is_known = subprocess.run(known, capture_output=True, check=True).stdout == b"True\n"
    assert (b"/memfd:edl-command" in out) == is_known


SAVING = (
    "trap 'echo saving; sleep 1.5; echo saved; exit' TERM; echo $$; while :; do sleep 0.05; done"
)


HIDDEN_PATH = "PATH=/usr/bin:/bin"


def start_wrapped(peer: Peer, worker: Worker, script: str, where: str = "") -> tuple[Claim, int]:
    """A training whose wrapper dies of TERM at once; the training's pid."""
    (worker.folder / "train.sh").write_text(script)
    (worker.folder / "run.sh").write_text(f"sh train.sh {where}\nexit $?\n")
    claim = peer.spawn("env A=b sh run.sh; exit $?")
    if where:
        worker.wait_until((worker.folder / "out").exists)
        worker.wait_until((worker.folder / "out").read_text)
        return claim, number((worker.folder / "out").read_bytes())
    return claim, number(peer.wait_for(claim, b"\n"))


@pytest.mark.long
def test_no_end_is_told_while_a_child_of_the_wrapper_saves(peer: Peer, worker: Worker) -> None:
    claim, child = start_wrapped(peer, worker, SAVING)
    peer.send(claim.signal(signal.SIGTERM))
    assert peer.finish(claim)[:2] == (143, b"saving\nsaved\n")
    assert not is_alive(child)


@pytest.mark.long
def test_nor_while_one_saves_whose_output_goes_elsewhere(peer: Peer, worker: Worker) -> None:
    claim, child = start_wrapped(peer, worker, SAVING, ">out 2>&1")
    peer.send(claim.signal(signal.SIGTERM))
    assert peer.finish(claim)[0] == 143
    assert (worker.folder / "out").read_text().split()[-2:] == ["saving", "saved"]
    assert not is_alive(child)


@pytest.mark.long
def test_a_child_of_the_wrapper_that_ignores_term_can_be_killed(peer: Peer, worker: Worker) -> None:
    claim, child = start_wrapped(peer, worker, f"trap '' TERM; echo $$; while :; do {GONE}")
    peer.send(claim.signal(signal.SIGTERM))
    worker.wait_until(lambda: "ended: signal 15" in worker.log)
    peer.send(claim.signal(signal.SIGKILL))
    assert peer.finish(claim)[0] == 143
    assert not is_alive(child)


@pytest.mark.long
def test_a_wrapper_that_is_killed_takes_its_children_along(peer: Peer, worker: Worker) -> None:
    claim, child = start_wrapped(peer, worker, f"echo $$; while :; do {GONE}", ">out")
    wrapper = int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(wrapper, signal.SIGKILL)
    assert peer.finish(claim)[0] == 137
    assert not is_alive(child)


@pytest.mark.long
def test_what_left_the_group_ends_with_a_session_that_is_ended(peer: Peer) -> None:
    left = "setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1'"
    claim = peer.spawn(f"{left} & exec sleep 1000")
    stray = number(peer.wait_for(claim, b"\n"))
    peer.send(claim.signal(signal.SIGTERM))
    assert peer.finish(claim)[0] == 143
    assert not is_alive(stray)


@pytest.mark.long
def test_no_end_is_told_while_a_child_saves_that_has_no_session_and_no_name(
    peer: Peer, worker: Worker
) -> None:
    (worker.folder / "train.sh").write_text(SAVING)
    hidden = f"env -i {HIDDEN_PATH} /usr/bin/setsid /bin/sh train.sh"
    (worker.folder / "run.sh").write_text(f"{hidden}\nexit $?\n")
    claim = peer.spawn("sh run.sh; exit $?")
    child = number(peer.wait_for(claim, b"\n"))
    peer.send(claim.signal(signal.SIGTERM))
    assert peer.finish(claim)[:2] == (143, b"saving\nsaved\n")
    assert not is_alive(child)


@pytest.mark.long
def test_children_that_hold_the_pipes_end_soon_after_their_parent(peer: Peer) -> None:
    claim = peer.spawn("sleep 100 & echo $!; exit 5")
    code, out, _ = peer.finish(claim)
    assert code == 5
    assert not is_alive(number(out))


@pytest.mark.long
def test_what_is_sent_to_the_background_with_its_output_elsewhere_lives_on(peer: Peer) -> None:
    code, out, _ = peer.run("nohup sleep 100 >/dev/null 2>&1 & echo $!; exit 0")
    assert code == 0
    assert is_alive(number(out))
    peer.say(frames.CLOSE_IF_IDLE)
    assert peer.expect(frames.BUSY) == {"sessions": 0, "processes": 1}


@pytest.mark.long
def test_orphans_are_reaped(peer: Peer) -> None:
    claim = peer.spawn("sh -c 'sleep 0.05 & echo $!'; sleep 0.3; exit 0")
    out = peer.wait_for(claim, b"\n")
    assert peer.finish(claim)[0] == 0
    assert not Path(f"/proc/{number(out)}").exists()


# ---------------------------------------------------------------- connections


@pytest.mark.long
def test_output_goes_on_after_a_cut_where_it_stopped(worker: Worker) -> None:
    first = worker.start().hello(1)
    claim = first.spawn(f"echo one; until test -e go; do {GONE}; echo two; exit 4")
    assert first.wait_for(claim, b"one\n") == b"one\n"
    first.close()
    (worker.folder / "go").touch()
    second = worker.connect().hello(2)
    listed = second.expect(frames.WELCOME)["sessions"]
    assert [each["id"] for each in listed] == [claim.session.hex()]
    second.send(claim.opening())
    assert second.finish(claim) == (4, b"two\n", b"")


@pytest.mark.long
def test_a_cut_between_the_end_and_its_report_loses_nothing(worker: Worker) -> None:
    first = worker.start().hello(1)
    claim, _ = first.start("echo last; exit 9")
    first.expect(frames.EXIT)
    first.close()
    second = worker.hello(2)
    second.serve(claim)
    first.queue.clear()
    claim.instance = claim.instance or "unknown"
    second.say(frames.SPAWN, {"command": "never"}, claim.session)
    claim.instance = None
    assert second.finish(claim) == (9, b"last\n", b"")


@pytest.mark.long
def test_a_session_without_a_stream_does_not_wait(worker: Worker) -> None:
    first = worker.start().hello(1)
    claim, _ = first.start("head -c 6000000 /dev/zero; touch done")
    first.close()
    worker.wait_until((worker.folder / "done").exists)
    second = worker.hello(2)
    claim.instance = None
    second.send(claim.opening())
    code, out, err = second.finish(claim)
    assert code == 0
    assert len(out) == 4 * 1024 * 1024
    assert b"bytes of stdout were dropped" in err


@pytest.mark.long
def test_a_reader_that_does_not_read_stops_its_session_and_no_other(worker: Worker) -> None:
    peer = worker.start().hello()
    slow, _ = peer.start("head -c 3000000 /dev/zero; touch done")
    assert peer.run("echo quick")[1] == b"quick\n"
    assert not (worker.folder / "done").exists()
    assert len(peer.finish(slow)[1]) == 3_000_000


@pytest.mark.long
def test_garbage_is_dropped_with_a_reason_and_harms_nobody(worker: Worker) -> None:
    peer = worker.start().hello()
    claim, _ = peer.start("sleep 0.2; echo fine")
    bad = worker.connect()
    bad.send(b"GET / HTTP/1.1\r\n\r\nHost: nowhere.example\r\n\r\n")
    assert "version" in bad.expect(frames.REJECT)["reason"]
    bad.expect_end()
    assert peer.finish(claim)[:2] == (0, b"fine\n")
    assert "drops connection" in worker.log


@pytest.mark.long
def test_a_frame_before_hello_is_refused(worker: Worker) -> None:
    bad = worker.start().connect()
    bad.spawn("touch never")
    assert bad.expect(frames.REJECT)["reason"] == "SPAWN is not allowed when new"
    bad.expect_end()
    assert not (worker.folder / "never").exists()


def test_a_flood_that_nobody_reads_is_dropped(worker: Worker) -> None:
    worker.start()
    bad = worker.connect().hello(1)
    ping = frames.encode(frames.PING, payload=b"x" * 60_000)
    try:
        for _ in range(300):
            bad.send(ping)
    except OSError:
        pass
    peer = worker.hello(2)
    assert peer.run("echo fine")[1] == b"fine\n"


def test_many_connections_that_say_nothing_keep_nobody_out(worker: Worker) -> None:
    worker.start()
    peer = worker.hello(1)
    silent = [worker.connect() for _ in range(40)]
    assert peer.run("echo fine")[1] == b"fine\n"
    for each in silent:
        each.close()
    worker.wait_until(lambda: worker.log.count("is gone: closed by the bridge") >= 31)
    assert worker.hello(2).run("echo again")[1] == b"again\n"


@pytest.mark.long
def test_it_survives_running_out_of_file_descriptors(worker: Worker) -> None:
    worker.start(prefix=("sh", "-c", 'ulimit -n 26; exec "$@"', "sh"))
    peer = worker.hello()
    claims = [peer.spawn("sleep 100") for _ in range(9)]
    codes = [0]
    while 255 not in codes:
        assert peer.read()
        for claim in claims:
            peer.serve(claim)
        codes = [claim.exit_code for claim in claims]
    assert codes[0] is None
    peer.send(claims[0].signal(signal.SIGKILL))
    assert peer.finish(claims[0])[0] == 137
    assert peer.run("echo fine")[1] == b"fine\n"
    assert "cannot start" in worker.log


@pytest.mark.long
def test_no_end_is_lost_for_want_of_file_descriptors(worker: Worker) -> None:
    worker.start(prefix=("sh", "-c", 'ulimit -n 32; exec "$@"', "sh"))
    peer = worker.hello()
    command = f"sleep 1000 & until test -e go; do {GONE}; exit 5"  # its pipes stay open
    claims = [peer.spawn(command) for _ in range(4)]
    for _ in claims:
        peer.expect(frames.SPAWNED)
    others = [worker.connect() for _ in range(20)]  # who say nothing, and hold what is left
    worker.wait_until(lambda: "accepts nothing" in worker.log)
    (worker.folder / "go").touch()
    assert [peer.finish(claim)[0] for claim in claims] == [5] * 4
    assert len(others) == 20


# ---------------------------------------------------------------- fencing


@pytest.mark.long
def test_a_newer_epoch_comes_in_when_everything_older_is_dead(worker: Worker) -> None:
    old = worker.start().hello(1)
    claim = old.spawn("setsid sleep 1000 & echo $!; trap '' TERM; sleep 1000; sleep 1000")
    stray = number(old.wait_for(claim, b"\n"))
    new = worker.connect().hello(1, epoch=4, launcher="m")
    assert new.expect(frames.WELCOME)["sessions"] == []
    assert not is_alive(stray)
    assert old.expect(frames.REJECT)["reason"] == "a newer connection has come"
    assert new.run("echo mine")[1] == b"mine\n"


HIDDEN = "env -i /usr/bin/setsid /bin/sh -c 'echo $$; exec /bin/sleep 1000 >/dev/null 2>&1'"


@pytest.mark.long
def test_a_newer_epoch_finds_what_has_no_parent_no_session_and_no_name(worker: Worker) -> None:
    old = worker.start("sh", "-c", f"{HIDDEN} >mine & exec sleep 1000").hello(1)
    worker.wait_until((worker.folder / "mine").exists)
    worker.wait_until((worker.folder / "mine").read_text)
    code, out, _ = old.run(f"{HIDDEN} & sleep 0.2; exit 0")
    assert code == 0
    assert is_alive(number(out))
    worker.connect().hello(1, epoch=4, launcher="m").expect(frames.WELCOME)
    assert not is_alive(number(out))
    assert is_alive(number((worker.folder / "mine").read_bytes())), "the container's own"


@pytest.mark.long
def test_what_has_no_parent_no_session_and_no_name_keeps_a_worker_busy(worker: Worker) -> None:
    peer = worker.start("sh", "-c", f"{HIDDEN} & exec sleep 1000").hello(1)
    _, out, _ = peer.run(f"{HIDDEN} & sleep 0.2; exit 0")
    peer.say(frames.CLOSE_IF_IDLE)
    assert peer.expect(frames.BUSY) == {"sessions": 0, "processes": 1}
    os.kill(number(out), signal.SIGKILL)
    peer.expect(frames.CLOSED)


@pytest.mark.long
def test_an_older_epoch_is_refused(worker: Worker) -> None:
    worker.start()
    late = worker.connect().hello(1, epoch=2)
    refusal = late.expect(frames.REJECT)
    assert "epoch 2 is over" in refusal["reason"]
    assert refusal["fenced"] is True
    late.expect_end()


# ---------------------------------------------------------------- closing


@pytest.mark.long
def test_a_process_that_left_its_session_keeps_the_worker_busy(peer: Peer) -> None:
    code, out, _ = peer.run("setsid sleep 1000 >/dev/null 2>&1 & echo $!")
    assert code == 0
    peer.say(frames.CLOSE_IF_IDLE)
    assert peer.expect(frames.BUSY) == {"sessions": 0, "processes": 1}
    os.kill(number(out), signal.SIGKILL)
    peer.expect(frames.CLOSED)
    claim = peer.spawn("true")
    assert peer.finish(claim)[0] == 255


@pytest.mark.long
def test_a_process_that_cleared_its_environment_counts_too(peer: Peer) -> None:
    claim = peer.spawn("env -i sleep 1000 & echo up; wait")
    peer.wait_for(claim, b"up")
    peer.say(frames.CLOSE_IF_IDLE)
    assert peer.expect(frames.BUSY) == {"sessions": 1, "processes": 2}
    peer.send(claim.signal(9))
    peer.expect(frames.CLOSED)


def test_an_idle_worker_closes(peer: Peer) -> None:
    peer.run("true")
    peer.say(frames.CLOSE_IF_IDLE)
    peer.expect(frames.CLOSED)


# ---------------------------------------------------------------- leaving


def test_sigterm_without_a_session_ends_it_at_once(worker: Worker) -> None:
    peer = worker.start("sleep", "1000").hello()
    worker.terminate()
    assert peer.expect(frames.TERMINATING)["seconds"] > 50
    assert worker.wait() == 0


@pytest.mark.long
def test_a_sigterm_that_came_while_it_was_installed_counts(worker: Worker) -> None:
    slow = worker.folder / "src" / "slow"
    os.mkfifo(slow)  # whoever copies it waits for a writer
    worker.start()
    with slow.open("wb"):
        worker.terminate()
    assert worker.wait() == 0


@pytest.mark.long
def test_sigterm_lets_a_session_end_by_itself(worker: Worker) -> None:
    peer = worker.start().hello()
    claim, _ = peer.start(f"until test -e go; do {GONE}; echo bye; exit 134")
    worker.terminate()
    peer.expect(frames.TERMINATING)
    (worker.folder / "go").touch()
    assert peer.finish(claim)[:2] == (134, b"bye\n")
    assert worker.wait() == 0


@pytest.mark.long
def test_the_second_and_third_sigterm_hasten(worker: Worker) -> None:
    peer = worker.start().hello()
    claim = peer.spawn(f"trap 'echo term' TERM; echo up; while :; do {GONE}")
    peer.wait_for(claim, b"up")
    worker.terminate()
    peer.expect(frames.TERMINATING)
    worker.terminate()
    peer.wait_for(claim, b"term")
    worker.terminate()
    assert peer.finish(claim)[0] == 137
    assert worker.wait() == 0


@pytest.mark.long
def test_a_grace_of_months_ends_nobody(worker: Worker) -> None:
    peer = worker.start().hello()
    claim, _ = peer.start("echo before; read x < /dev/null; sleep 1000")
    peer.say(frames.GRACE, {"seconds": 10_000_000, "grace": 10_000_000})
    peer.close()
    worker.wait_until(lambda: "connection 1 is gone" in worker.log)
    again = worker.connect().hello(connection=2)
    again.send(claim.opening())
    assert again.expect(frames.SPAWNED)


@pytest.mark.long
def test_a_short_grace_ends_a_session_that_ignores_sigterm(worker: Worker) -> None:
    peer = worker.start(EDL_GRACE_SECONDS="2").hello()
    claim = peer.spawn(f"trap '' TERM; echo up; while :; do {GONE}")
    peer.wait_for(claim, b"up")
    worker.terminate()
    assert peer.finish(claim)[0] == 137
    assert worker.wait() == 0


NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
"""As in a pod, PID 1 sees who is in its container, and no one else."""


@pytest.mark.long
@pytest.mark.parametrize("name", ["TERM", "INT", "QUIT", "RTMIN"])
def test_a_session_cannot_mean_the_end_of_the_pod(worker: Worker, name: str) -> None:
    peer = worker.start(prefix=NAMESPACE).hello()
    assert peer.run(f"kill -{name} $PPID; echo $PPID")[1] == b"1\n"
    assert peer.run("echo fine")[1] == b"fine\n"
    assert worker.process
    agent = children_of(worker.process.pid)[0]
    status = Path(f"/proc/{agent}/status")
    # Two that are alike and have not been taken are one to the kernel: the container's, which came
    # first.
    worker.wait_until(lambda: "\nShdPnd:\t0000000000000000\n" in status.read_text())
    os.kill(agent, signal.Signals[f"SIG{name}"])
    peer.expect(frames.TERMINATING)
    assert worker.wait() == 0
    assert worker.log.count("is told to end") == 1


def test_it_is_not_called_python(worker: Worker) -> None:
    peer = worker.start().hello()
    assert peer.run("cat /proc/$PPID/comm /proc/$$/comm")[1] == b"edl\nsh\n"


# ---------------------------------------------------------------- the container's own command


def test_the_containers_command_runs_and_its_end_is_logged_and_ends_nothing(worker: Worker) -> None:
    peer = worker.start("sh", "-c", "echo mine; env >env; exit 3").hello()
    worker.wait_until(lambda: "command ended: exited, code 3" in worker.log)
    assert worker.process
    assert worker.process.stdout.readline() == b"mine\n"
    assert "EDL_" not in (worker.folder / "env").read_text()
    assert peer.run("echo fine")[1] == b"fine\n"


@pytest.mark.long
def test_a_command_that_cannot_start_is_logged_and_ends_nothing(worker: Worker) -> None:
    assert worker.start("no-such-command-here").hello().run("true")[0] == 0
    assert "no-such-command-here" in worker.log


@pytest.mark.long
def test_sigterm_ends_the_containers_command(worker: Worker) -> None:
    worker.start("sh", "-c", f"echo $$ >pid; trap 'touch ended; exit' TERM; while :; do {GONE}")
    worker.wait_until((worker.folder / "pid").exists)
    worker.hello()
    worker.terminate()
    assert worker.wait() == 0
    assert (worker.folder / "ended").exists()


# ---------------------------------------------------------------- logs


@pytest.mark.long
def test_what_sessions_write_is_shown_on_our_stdout(worker: Worker) -> None:
    worker.start().hello().run("echo shown")
    assert worker.process
    assert worker.process.stdout.readline() == b"shown\n"
    assert "shown" not in worker.log


@pytest.mark.long
def test_a_stdout_that_nobody_reads_stops_nobody(worker: Worker) -> None:
    peer = worker.start().hello()
    code, out, _ = peer.run("head -c 1000000 /dev/zero")
    assert (code, len(out)) == (0, 1_000_000)


def test_a_folder_that_takes_no_socket_is_told_in_a_sentence(worker: Worker) -> None:
    path = worker.folder / "none" / "agent.sock"
    code = "import sys; from launcher.agent import serving; sys.exit(serving.main([], "
    code += f"{{b'EDL_JOB_UID': b'j', b'EDL_POD_UID': b'p', b'EDL_EPOCH': b'1'}}, {str(path)!r}))"
    done = subprocess.run(
        [PYTHON, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 74
    assert done.stderr == f"agent: cannot make {path}: No such file or directory\n"


@pytest.mark.long
def test_without_the_operators_environment_it_says_so(worker: Worker) -> None:
    worker.start(EDL_EPOCH="none")
    assert worker.wait() == 78
    assert "agent: the pod's environment" in worker.log
