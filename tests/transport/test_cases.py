"""Failures of an exec transport, each with its number in the list of docs/failures.md.

Broker, agents, bridges and shims are real processes; the API server is the one on loopback.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from et_contract.documents import MemberState, ToldNotice
from fakes.apiserver import ROOT
from fakes.podless import PATIENCE, PodlessJob, pids_of, running, until
from launcher.broker.streams import HANDSHAKES
from tests.transport.bursts import send_burst
from tests.unit.launcher.ranks.horovods import RANK, RANKS, install

COUNT = 20_000
LINES = b"".join(b"%d\n" % number for number in range(1, COUNT + 1))


@pytest.fixture
async def job(tmp_path: Path) -> AsyncIterator[PodlessJob]:
    async with running(PodlessJob(tmp_path)) as started:
        yield started


async def finish(shim: asyncio.subprocess.Process) -> tuple[int | None, bytes]:
    async with asyncio.timeout(PATIENCE):
        output, _ = await shim.communicate()
    return shim.returncode, output


async def read_line(shim: asyncio.subprocess.Process) -> bytes:
    assert shim.stdout is not None
    async with asyncio.timeout(PATIENCE):
        return await shim.stdout.readline()


def is_alive(pid: int) -> bool:
    """Whether it runs; one that nobody has waited for yet does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def hold(job: PodlessJob, command: str) -> str:
    """The command, which does not end before `release`."""
    return f"{command}; while ! test -e {job.folder}/go; do sleep 0.05; done"


def release(job: PodlessJob) -> None:
    (job.folder / "go").touch()


@pytest.mark.point("case-10")
async def test_10_a_pod_that_is_deleted_leaves_the_list_and_may_finish(tmp_path: Path):
    async with running(PodlessJob(tmp_path, count=2)) as job:
        shim = await job.start_shim(hold(job, "echo up") + "; exit 134")
        assert await read_line(shim) == b"up\n"
        agent = job.agents[job.workers[0]]
        agent.terminate()
        await until(lambda: job.listed == 1)
        assert shim.returncode is None
        release(job)
        assert await finish(shim) == (134, b"")
        async with asyncio.timeout(PATIENCE):
            assert await agent.wait() == 0


@pytest.mark.point("case-11")
async def test_11_a_killed_process_is_told_as_killed_and_the_others_go_on(tmp_path: Path):
    async with running(PodlessJob(tmp_path, count=2)) as job:
        shims = [await job.start_shim(hold(job, "echo $$"), name) for name in job.workers]
        pids = [int(await read_line(shim)) for shim in shims]
        os.kill(pids[1], signal.SIGKILL)
        assert await finish(shims[1]) == (137, b"")
        # Whether the host may be used again is for horovodrun to say.
        assert job.listed == 2
        release(job)
        assert await finish(shims[0]) == (0, b"")
        await until(lambda: len(job.report.exits) == 2)
        ends = {uid: [ended.code for ended in exits] for uid, exits in job.report.exits.items()}
        assert ends == {"uid-job-worker-0": [0], "uid-job-worker-1": [137]}


RING = (
    RANK
    + f"""
import time
sys.path.append({str(ROOT)!r})
from tests.unit.launcher.ranks.buffers import Epoll

place = socket.create_server(("", 0))
kept, rings = [], []
def connect():
    ends = [socket.create_connection((ip, place.getsockname()[1])).detach() for ip in sys.argv[1:]]
    kept.append(Epoll())
    kept[-1].add(*ends)
    rings.append(dict(zip([place.accept()[0] for _ in ends], sys.argv[1:])))
    for peer in rings[-1]:
        peer.setblocking(False)

def wait_for_end(ring):
    while True:
        for peer in list(ring):
            try:
                if peer.recv(1) == b"":
                    print("ended", ring.pop(peer), flush=True)
                    return
            except BlockingIOError:
                continue
        time.sleep(0.05)

horovod.during = connect
for _ in range(2):
    horovod.init()
    print("joined", flush=True)
    wait_for_end(rings[-1])
    horovod.shutdown()
"""
)
"""A rank whose two rings are connections to these addresses."""


@pytest.mark.point("case-11")
async def test_11_ranks_hear_of_who_is_gone_and_cut_off_nobody_who_has_that_address_now(
    tmp_path: Path,
):
    job = PodlessJob(tmp_path, count=3)
    job.ips = {name: (f"127.0.0.{n}",) for n, name in enumerate(job.workers, 1)}
    (tmp_path / "ranks").symlink_to(RANKS)
    path = f"{tmp_path / 'ranks'}:{install(tmp_path / 'lib')}"
    words = ["env", f"PYTHONPATH={path}", sys.executable, "-c", RING, "127.0.0.2", "127.0.0.3"]
    async with running(job):
        rank = await job.start_shim(shlex.join(words))
        assert await read_line(rank) == b"joined\n"
        job.configure(job_worker_1=MemberState.GONE)
        assert await read_line(rank) == b"ended 127.0.0.2\n"
        job.ips["job-worker-3"] = job.ips["job-worker-1"]
        job.configure(job_worker_3=MemberState.ACTIVE)
        assert await read_line(rank) == b"joined\n"
        await job.kill_broker()
        job.configure(job_worker_2=MemberState.GONE)
        await job.start_broker()
        assert await finish(rank) == (0, b"ended 127.0.0.3\n")


LISTENER = """
import signal, sys
def hear(number, frame):
    print("hears of", open(sys.argv[1]).read().count(sys.argv[2]), flush=True)
signal.signal(signal.SIGUSR1, hear)
signal.alarm(120)  # its agent is killed, and nobody ends it
print("listens", flush=True)
while True:
    signal.pause()
"""
"""Says how often its notice has a text, as often as it is told of one."""


async def test_a_script_knows_of_the_end_of_its_worker_whatever_is_cut_or_starts_anew(
    tmp_path: Path,
):
    job = PodlessJob(tmp_path, count=2)
    lost, other = job.workers
    notice = job.find_notice(lost)

    def tell(*moments: str) -> None:
        job.notices = tuple(
            ToldNotice("it ends", "taint", moment, (f"uid-{lost}",)) for moment in moments
        )
        job.notice_signal = "SIGUSR1"
        job.configure()

    async with running(job):
        words = [sys.executable, "-c", LISTENER, str(notice), "2026-01-31T12:00:00Z"]
        rank = await job.start_shim(shlex.join(words), lost)
        assert await read_line(rank) == b"listens\n"
        tell("2026-01-31T12:00:00Z")
        assert await read_line(rank) == b"hears of 2\n"
        assert not job.find_notice(other).exists()

        await job.kill_broker()
        await job.start_broker()
        job.cut()
        log = tmp_path / f"{lost}.log"
        tell()
        await until(lambda: not notice.exists())
        assert log.read_text().count("have a handler") == 1, "a new broker tells nothing new"

        job.server.is_away = True
        job.cut()
        await until(lambda: job.log.count('"event": "stream ended"') >= 4)
        tell("2026-01-31T12:00:00Z")
        assert not notice.exists()
        job.server.is_away = False
        await until(notice.exists)

        late = "job-worker-2"
        job.states[late] = MemberState.ACTIVE
        await job.start_agent(late)
        job.notices += (ToldNotice("it ends too", "taint", "", (f"uid-{late}",)),)
        job.configure()
        shim = await job.start_shim(f"cat {job.find_notice(late)}", late)
        code, text = await finish(shim)
        assert (code, json.loads(text)["reason"]) == (0, "it ends too"), "before its first process"
        rank.terminate()


@pytest.mark.point("case-12")
async def test_12_a_gone_pod_ends_its_shims_though_its_stream_says_nothing(tmp_path: Path):
    async with running(PodlessJob(tmp_path, count=2)) as job:
        await job.launch()
        shim = await job.start_shim("echo up; exec sleep 60")
        assert await read_line(shim) == b"up\n"
        job.agents[job.workers[0]].send_signal(signal.SIGSTOP)
        job.configure(job_worker_0=MemberState.GONE)
        await until(lambda: "job-worker-0" not in (tmp_path / "hosts").read_text())
        assert shim.returncode is None
        for _ in range(2):
            await job.ask_hosts()
        assert await finish(shim) == (137, b"")
        job.agents[job.workers[0]].send_signal(signal.SIGCONT)


@pytest.mark.point("case-13")
async def test_13_a_node_that_is_heard_of_again_too_late_brings_nothing_back(tmp_path: Path):
    async with running(PodlessJob(tmp_path, count=2)) as job:
        await job.launch()
        lost, other = job.workers
        rank = hold(job, "env HOROVOD_RANK=0 HOROVOD_HOSTNAME=w echo up")
        shims = [await job.start_shim(rank, name) for name in job.workers]
        assert [await read_line(shim) for shim in shims] == [b"up\n"] * 2
        job.server.frozen.add(lost)
        job.configure(job_worker_0=MemberState.GONE)
        await until(lambda: job.listed == 1)
        for _ in range(2):
            await job.ask_hosts()
        assert await finish(shims[0]) == (137, b"")
        job.server.thaw()
        release(job)
        log = tmp_path / f"{lost}.log"
        await until(lambda: " ended: exited, code 0" in log.read_text())
        assert await finish(shims[1]) == (0, b"")
        await job.kill_broker()
        await job.start_broker()
        late = await job.start_shim("echo again", lost)
        assert await finish(await job.start_shim("echo on", other)) == (0, b"on\n")
        for _ in range(2):
            await job.ask_hosts()
        assert await finish(late) == (255, b"")
        assert (tmp_path / "hosts").read_text() == f"{other}:1\nedl-nudge-1:0\n"
        await until(lambda: len(job.report.exits.get(f"uid-{other}", ())) == 2)
        assert f"uid-{lost}" not in job.report.exits


@pytest.mark.point("case-15")
async def test_15_the_api_server_restarts_and_all_sessions_go_on(tmp_path: Path):
    async with running(PodlessJob(tmp_path, count=3)) as job:
        command = hold(job, f"seq {COUNT}; echo $?")
        shims = [await job.start_shim(f"{command}; exit 3", name) for name in job.workers]
        assert [await read_line(shim) for shim in shims] == [b"1\n"] * 3
        job.server.is_away = True
        job.cut()
        await until(lambda: job.log.count('"event": "stream ended"') >= 9)
        assert job.listed == 3
        assert job.report.exits == {}
        job.server.is_away = False
        release(job)
        for code, rest in [await finish(shim) for shim in shims]:
            assert code == 3
            assert b"1\n" + rest == LINES + b"0\n"
        await until(lambda: len(job.report.exits) == 3)
        assert {len(exits) for exits in job.report.exits.values()} == {1}


@pytest.mark.point("case-16")
async def test_16_an_exit_lost_in_a_cut_is_told_again_and_counts_once(job: PodlessJob):
    shim = await job.start_shim(hold(job, "echo up") + "; exit 5")
    assert await read_line(shim) == b"up\n"
    job.server.frozen.add(job.workers[0])
    release(job)
    log = job.folder / f"{job.workers[0]}.log"
    await until(lambda: " ended: exited, code 5" in log.read_text())
    assert shim.returncode is None
    job.cut()
    job.server.thaw()
    assert await finish(shim) == (5, b"")
    await until(lambda: bool(job.report.exits))
    assert [[ended.code for ended in exits] for exits in job.report.exits.values()] == [[5]]


@pytest.mark.point("case-16")
async def test_16_an_exit_of_a_pod_that_is_deleted_during_a_cut_is_told_after_it(job: PodlessJob):
    shim = await job.start_shim(hold(job, "echo up") + "; echo last")
    assert await read_line(shim) == b"up\n"
    agent = job.agents[job.workers[0]]
    job.server.is_away = True
    job.cut()
    await until(lambda: '"event": "stream ended"' in job.log)
    agent.terminate()
    release(job)
    log = job.folder / f"{job.workers[0]}.log"
    await until(lambda: " ended: exited, code 0" in log.read_text())
    assert agent.returncode is None
    job.server.is_away = False
    assert await finish(shim) == (0, b"last\n")
    async with asyncio.timeout(PATIENCE):
        assert await agent.wait() == 0


@pytest.mark.point("case-17")
async def test_17_a_success_of_the_exec_call_is_no_success_of_the_command(job: PodlessJob):
    shim = await job.start_shim(hold(job, "echo up") + "; exit 6")
    assert await read_line(shim) == b"up\n"
    job.server.says_success = True
    calls = job.server.exec_calls
    job.cut()
    await until(lambda: job.server.exec_calls >= calls + 3)
    assert shim.returncode is None
    assert job.report.exits == {}
    job.server.says_success = False
    release(job)
    assert await finish(shim) == (6, b"")


@pytest.mark.point("case-18")
async def test_18_a_burst_arrives_whole_before_its_exit_code(job: PodlessJob):
    async with asyncio.timeout(PATIENCE):
        await send_burst(job, 50_000_000)


@pytest.mark.point("case-19")
async def test_19_bytes_of_any_kind_are_the_same_on_both_sides(job: PodlessJob):
    progress = b"".join(b"\r%3d %%" % percent for percent in range(101))
    content = bytes(range(256)) * 300 + b"\xff\xfe\xc3" + b"x" * 1_000_000 + b"\n" + progress
    path = job.folder / "content"
    path.write_bytes(content)
    assert await finish(await job.start_shim(f"cat {path}")) == (0, content)
    shim = await job.start_shim(f"cat {path} >&2; exit 1")
    async with asyncio.timeout(PATIENCE):
        out, err = await shim.communicate()
    assert (shim.returncode, out, err) == (1, b"", content)


@pytest.mark.point("case-20")
@pytest.mark.parametrize("whole", [False, True], ids=["parent", "both"])
async def test_20_a_killed_shim_ends_its_process_before_it_is_believed_dead(
    job: PodlessJob, whole: bool
):
    told = job.folder / "told"
    script = f"trap 'echo term >{told}; exit 9' TERM; echo up; while :; do sleep 0.05; done"
    shim = await job.start_shim(script)
    assert await read_line(shim) == b"up\n"
    if whole:
        for pid in pids_of(shim):
            os.kill(pid, signal.SIGKILL)
    shim.kill()
    await until(told.exists)
    await until(lambda: bool(job.report.exits))
    assert [[ended.code for ended in exits] for exits in job.report.exits.values()] == [[9]]


@pytest.mark.point("case-20")
async def test_20_a_shim_of_which_half_is_killed_tells_no_end_before_it_is_one(job: PodlessJob):
    saving = "trap 'sleep 0.5; touch saved; exit 0' TERM; echo $$; while :; do sleep 0.05; done"
    shim = await job.start_shim(f"cd {job.folder}; {saving}")
    remote = int(await read_line(shim))
    child, _ = pids_of(shim)
    os.kill(child, signal.SIGKILL)
    assert await finish(shim) == (137, b"")
    assert not is_alive(remote)
    assert (job.folder / "saved").exists()


@pytest.mark.point("case-22")
async def test_22_a_killed_broker_costs_neither_a_byte_nor_a_host(tmp_path: Path):
    async with running(PodlessJob(tmp_path, count=2)) as job:
        command = hold(job, f"seq {COUNT}")
        shims = [await job.start_shim(f"{command}; exit 3", name) for name in job.workers]
        assert [await read_line(shim) for shim in shims] == [b"1\n"] * 2
        await job.kill_broker()
        release(job)
        await job.start_broker()
        for code, rest in [await finish(shim) for shim in shims]:
            assert (code, b"1\n" + rest) == (3, LINES)
        await until(lambda: len(job.report.exits) == 2)
        assert {len(exits) for exits in job.report.exits.values()} == {1}
        assert job.report.broker_start == 2
        assert job.listed == 2


@pytest.mark.point("case-24")
async def test_24_a_new_launcher_starts_nothing_before_the_old_ones_processes_are_dead(
    job: PodlessJob,
):
    ignoring = "trap '' TERM; echo $$; while :; do sleep 0.05; done"
    old_shim = await job.start_shim(ignoring)
    old_pid = int(await read_line(old_shim))
    assert job.broker is not None
    # As on a node that is cut off: it lives, and knows of nothing.
    job.broker.send_signal(signal.SIGSTOP)
    successor = job.build_successor()
    try:
        await successor.start_listed()
        alive = f"kill -0 {old_pid} && exit 9; echo up"
        shim = await successor.start_shim(hold(successor, alive) + "; exit 4")
        assert await read_line(shim) == b"up\n"
        job.broker.send_signal(signal.SIGCONT)
        await until(lambda: "another launcher owns the job" in job.log)
        assert job.report.exits == {}
        assert old_shim.returncode is None
        release(successor)
        assert await finish(shim) == (4, b"")
    finally:
        await successor.close()
        for pid in pids_of(old_shim):
            os.kill(pid, signal.SIGKILL)


DISCOVER = """
import sys; from hostdiscovery.discover import discover
sys.stdout.write(discover(sys.argv[1], sys.argv[2], "nonce"))
"""


@pytest.mark.point("case-25")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_25_discovery_goes_on_without_a_broker(job: PodlessJob, number: signal.Signals):
    assert job.broker is not None
    job.broker.send_signal(number)
    if number == signal.SIGKILL:
        await job.broker.wait()
    asked = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DISCOVER, str(job.socket), str(job.folder / "hosts"),
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert await finish(asked) == (0, f"{job.workers[0]}:1\n".encode())
    job.broker.send_signal(signal.SIGCONT) if number == signal.SIGSTOP else None


@pytest.mark.point("case-28")
async def test_28_a_process_that_ends_early_is_told_as_it_ended_and_ends_no_other(tmp_path: Path):
    async with running(PodlessJob(tmp_path, count=2)) as job:
        other = await job.start_shim(hold(job, "echo up"), job.workers[1])
        assert await read_line(other) == b"up\n"
        assert await finish(await job.start_shim("echo done")) == (0, b"done\n")
        await until(lambda: bool(job.report.exits))
        assert {
            uid: [ended.code for ended in exits] for uid, exits in job.report.exits.items()
        } == {"uid-job-worker-0": [0]}
        assert job.listed == 2
        assert other.returncode is None
        release(job)
        assert await finish(other) == (0, b"")


@pytest.mark.point("case-29")
async def test_29_ends_that_come_together_are_each_told_once(tmp_path: Path):
    async with running(PodlessJob(tmp_path, count=3)) as job:
        shims = [await job.start_shim(hold(job, "echo $$"), name) for name in job.workers]
        pids = [int(await read_line(shim)) for shim in shims]
        for pid in pids:
            os.kill(pid, signal.SIGABRT)
        assert [await finish(shim) for shim in shims] == [(134, b"")] * 3
        await until(lambda: len(job.report.exits) == 3)
        ends = [[ended.code for ended in exits] for exits in job.report.exits.values()]
        assert ends == [[134]] * 3


@pytest.mark.point("case-33")
async def test_33_a_host_that_left_comes_back_under_a_new_name_only(tmp_path: Path):
    job = PodlessJob(tmp_path, count=2)
    job.use_no_processes()
    async with running(job):
        job.configure(job_worker_1=MemberState.DRAINING)
        await until(lambda: job.listed == 1)
        job.configure(job_worker_1=MemberState.ACTIVE)
        job.configure(job_worker_2=MemberState.ACTIVE)
        await until(lambda: job.listed == 2)
        assert (tmp_path / "hosts").read_text() == "job-worker-0:1\njob-worker-2:1\n"


@pytest.mark.point("case-34")
async def test_34_what_left_its_session_and_ignores_term_ends_before_its_pod(job: PodlessJob):
    told, stray = job.folder / "told", job.folder / "stray.sh"
    stray.write_text(f"trap 'echo term >{told}' TERM; echo $$; while :; do sleep 0.05; done")
    shim = await job.start_shim(f"setsid sh {stray} & wait")
    pid = int(await read_line(shim))
    agent = job.agents[job.workers[0]]
    agent.terminate()
    await until(lambda: job.listed == 0)
    agent.terminate()  # A further one saves the rest of the grace.
    await until(told.exists)
    assert is_alive(pid)
    agent.terminate()
    async with asyncio.timeout(PATIENCE):
        assert await agent.wait() == 0
    assert not is_alive(pid)
    assert (await finish(shim))[0] == 143


@pytest.mark.point("case-35")
async def test_35_many_workers_that_start_together_are_met_32_at_a_time(tmp_path: Path):
    job = PodlessJob(tmp_path, count=64)
    server = job.server
    job.use_no_processes()

    async def until_32_ask() -> None:
        await until(lambda: server.most_handshakes >= HANDSHAKES)
        # A 33rd would have come while the broker answered all these.
        for _ in range(10):
            await job.ask_hosts()

    server.answer_after = until_32_ask
    async with running(job):
        assert server.most_handshakes == HANDSHAKES
        assert server.exec_calls == 64
