"""Shim, broker and agent as real processes; only the exec call and the API server are stand-ins.

A stream is the agent's own bridge program, whose pipes take the place of the websocket.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import launcher
from et_contract import frames, names
from et_contract.documents import (
    HostConfig,
    Member,
    MemberState,
    Report,
    decode_report,
    encode_config,
)
from et_contract.tails import decode_last_lines
from et_kube.api import MERGE_PATCH, Listing, WatchEvent
from et_kube.errors import NotFound, StreamEnded, Unreachable
from et_kube.resources import Json, Ref, Resource
from launcher.broker.assembly import Assembly, Paths
from launcher.broker.memories import Identity

ROOT = Path(launcher.__file__).parents[1]
BRIDGE = ROOT / "launcher" / "agent" / "bridge.py"
LIMIT = 20.0
IDENTITY = Identity("job", "ns", "job-uid", 1, "launcher-uid")
AGENT = """
import os, sys; from launcher.agent import serving
sys.exit(serving.main([], os.environb, sys.argv[1]))
"""
SHIM = "import sys; from launcher.shim import rsh; sys.exit(rsh.main(sys.argv[2:], sys.argv[1]))"
DISCOVER = """
import sys; from hostdiscovery.discover import ask; print(ask(sys.argv[1], sys.argv[2], 5.0))
"""


class ConfigMapsApi:
    """Two ConfigMaps; `is_down` makes every call fail."""

    def __init__(self) -> None:
        self.config: dict[str, Any] = {"metadata": {"resourceVersion": "0"}}
        self.report: dict[str, str] = {}
        self.is_down = False
        self._changed = asyncio.Event()

    def write_config(self, config: HostConfig) -> None:
        version = str(int(self.config["metadata"]["resourceVersion"]) + 1)
        self.config = {
            "metadata": {"resourceVersion": version},
            "data": {names.CONFIG_KEY: encode_config(config)},
        }
        self._changed.set()
        self._changed = asyncio.Event()

    async def get(self, ref: Ref) -> Json:
        self._check()
        return self.config

    async def watch(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout: timedelta,  # noqa: ASYNC109 (the seam names it so)
    ) -> AsyncIterator[WatchEvent]:
        self._check()
        seen = resource_version
        while True:
            changed = self._changed
            if self.config["metadata"]["resourceVersion"] != seen:
                seen = self.config["metadata"]["resourceVersion"]
                yield WatchEvent("MODIFIED", self.config)
            else:
                await changed.wait()
                self._check()

    async def patch(
        self,
        ref: Ref,
        body: Any,
        *,
        subresource: str = "",
        content_type: str = MERGE_PATCH,
    ) -> Json:
        self._check()
        self.report.update(body["data"])
        return {"data": dict(self.report)}

    async def list(self, *args: Any, **kwargs: Any) -> Listing:
        raise NotFound(404, "NotFound", "a broker lists nothing")

    async def create(self, *args: Any, **kwargs: Any) -> Json:
        raise NotFound(404, "NotFound", "a broker creates nothing")

    async def delete(self, *args: Any, **kwargs: Any) -> None:
        raise NotFound(404, "NotFound", "a broker deletes nothing")

    def _check(self) -> None:
        if self.is_down:
            raise Unreachable("the API server is away")


class Pipes:
    """A bridge's stdin and stdout as a stream."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except OSError as error:
            raise StreamEnded(str(error)) from error

    async def receive(self) -> bytes:
        assert self._process.stdout is not None
        data = await self._process.stdout.read(65536)
        if not data:
            raise StreamEnded("the bridge has ended")
        return data


class JoinedRig:
    """A job of one worker, and a broker that can be stopped and started."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self.api = ConfigMapsApi()
        self.folder = folder
        self.paths = Paths(folder / "broker.sock", folder / "hosts", folder / "state")
        self.bridges: list[asyncio.subprocess.Process] = []
        self.is_cut = False
        self._stack = stack
        self._stop = asyncio.Event()
        self._broker: asyncio.Task[None] | None = None
        self._group: asyncio.TaskGroup | None = None
        self._generation = 0

    async def start_agent(self, number: int = 0) -> None:
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            names.ENV_JOB_UID: "job-uid",
            names.ENV_POD_UID: f"uid-{number}",
            names.ENV_EPOCH: "1",
        }
        agent = await asyncio.create_subprocess_exec(
            sys.executable, "-c", AGENT, str(self.folder / f"uid-{number}.sock"), env=env
        )
        self._stack.push_async_callback(end_process, agent)

    def start_broker(self, group: asyncio.TaskGroup) -> None:
        self._stop = asyncio.Event()
        assembly = Assembly(IDENTITY, self.paths, api=self.api, opener=self.open_bridge)
        self._broker = group.create_task(assembly.run(self._stop))

    async def stop_broker(self) -> None:
        assert self._broker is not None
        self._stop.set()
        await self._broker

    async def kill_broker(self) -> None:
        assert self._broker is not None
        self._broker.cancel()
        await asyncio.wait([self._broker])

    @asynccontextmanager
    async def open_bridge(self, member: Member) -> AsyncIterator[Pipes]:
        if self.is_cut:
            raise Unreachable("the API server is away")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            str(BRIDGE),
            str(self.folder / f"{member.uid}.sock"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self.bridges.append(process)
        try:
            yield Pipes(process)
        finally:
            await end_process(process)

    def configure(self, *states: MemberState) -> None:
        self._generation += 1
        members = (
            Member(f"job-worker-{number}", f"uid-{number}", 1, state, "main")
            for number, state in enumerate(states)
        )
        self.api.write_config(
            HostConfig(
                job="job",
                namespace="ns",
                job_uid="job-uid",
                generation=self._generation,
                epoch=1,
                replicas=1,
                min_replicas=1,
                members=tuple(members),
            )
        )

    async def start_listed(self, group: asyncio.TaskGroup) -> None:
        await self.start_agent()
        self.configure(MemberState.ACTIVE)
        self.start_broker(group)
        await until(self.is_listed)

    def is_listed(self) -> bool:
        return self.paths.hosts.exists() and self.paths.hosts.read_text() == "job-worker-0:1\n"

    @property
    def report(self) -> Report:
        text = self.api.report.get("report-1")
        return decode_report(text) if text else Report(1, "launcher-uid", 0)

    async def start_shim(self, command: str) -> asyncio.subprocess.Process:
        shim = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            SHIM,
            str(self.paths.socket),
            "job-worker-0",
            command,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        self._stack.push_async_callback(end_process, shim)
        return shim


def is_alive(pid: int) -> bool:
    return Path("/proc", str(pid)).exists()


async def end_process(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.communicate()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT):
        while not is_so():  # noqa: ASYNC110 (other processes set no event)
            await asyncio.sleep(0.01)


async def finish(shim: asyncio.subprocess.Process) -> tuple[int | None, bytes]:
    async with asyncio.timeout(LIMIT):
        output, _ = await shim.communicate()
    return shim.returncode, output


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[JoinedRig]:
    async with AsyncExitStack() as stack:
        yield JoinedRig(tmp_path, stack)


@pytest.mark.long
async def test_a_command_runs_in_the_worker(rig: JoinedRig):
    async with asyncio.TaskGroup() as group:
        await rig.start_listed(group)
        shim = await rig.start_shim("echo out; echo err >&2; exit 7")
        assert await finish(shim) == (7, b"out\n")
        await until(lambda: bool(rig.report.exits))
        assert [ended.code for ended in rig.report.exits["uid-0"]] == [7]
        await rig.stop_broker()
    assert rig.report.listed == {"uid-0"}


@pytest.mark.long
async def test_a_command_of_horovods_length_arrives_whole(rig: JoinedRig):
    async with asyncio.TaskGroup() as group:
        await rig.start_listed(group)
        shim = await rig.start_shim(f"printf {'x' * 120_000} | wc -c")
        assert await finish(shim) == (0, b"120000\n")
        await rig.stop_broker()


@pytest.mark.long
async def test_a_stream_that_is_cut_loses_nothing(rig: JoinedRig):
    count = 200_000
    async with asyncio.TaskGroup() as group:
        await rig.start_listed(group)
        shim = await rig.start_shim(
            f"seq {count}; while ! test -e {rig.folder}/go; do sleep 0.05; done; exit 3"
        )
        assert shim.stdout is not None
        got = await shim.stdout.readexactly(100_000)
        rig.bridges[-1].kill()
        await until(lambda: len(rig.bridges) > 1)
        (rig.folder / "go").touch()
        code, rest = await finish(shim)
        await rig.stop_broker()
    assert code == 3
    assert got + rest == b"".join(b"%d\n" % number for number in range(1, count + 1))


@pytest.mark.long
async def test_an_end_during_a_cut_is_told_once(rig: JoinedRig):
    async with asyncio.TaskGroup() as group:
        await rig.start_listed(group)
        shim = await rig.start_shim(
            f"echo up; while ! test -e {rig.folder}/go; do sleep 0.05; done; exit 5"
        )
        assert shim.stdout is not None
        assert await shim.stdout.readline() == b"up\n"
        rig.is_cut = rig.api.is_down = True
        rig.bridges[-1].kill()
        await rig.bridges[-1].wait()
        (rig.folder / "go").touch()
        rig.is_cut = rig.api.is_down = False
        assert await finish(shim) == (5, b"")
        await until(lambda: bool(rig.report.exits))
        assert [ended.code for ended in rig.report.exits["uid-0"]] == [5]
        await rig.stop_broker()


@pytest.mark.long
async def test_a_broker_that_dies_is_replaced_and_nobody_notices(rig: JoinedRig):
    async with asyncio.TaskGroup() as group:
        await rig.start_listed(group)
        shim = await rig.start_shim(
            f"echo one; while ! test -e {rig.folder}/go; do sleep 0.05; done; echo two; exit 4"
        )
        assert shim.stdout is not None
        assert await shim.stdout.readline() == b"one\n"
        await rig.kill_broker()
        assert rig.is_listed()
        (rig.folder / "go").touch()
        rig.start_broker(group)
        assert await finish(shim) == (4, b"two\n")
        await until(lambda: bool(rig.report.exits))
        assert rig.report.broker_start == 2
        assert [ended.code for ended in rig.report.exits["uid-0"]] == [4]
        assert rig.is_listed()
        await rig.stop_broker()


@pytest.mark.long
async def test_an_api_server_that_is_away_stops_no_session(rig: JoinedRig):
    async with asyncio.TaskGroup() as group:
        await rig.start_listed(group)
        rig.api.is_down = True
        shim = await rig.start_shim("echo still; exit 6")
        assert await finish(shim) == (6, b"still\n")
        assert rig.report.exits == {}
        rig.api.is_down = False
        await until(lambda: bool(rig.report.exits))
        await rig.stop_broker()


@pytest.mark.long
async def test_signals_reach_the_worker(rig: JoinedRig):
    async with asyncio.TaskGroup() as group:
        await rig.start_listed(group)
        shim = await rig.start_shim("echo up; exec sleep 60")
        assert shim.stdout is not None
        assert await shim.stdout.readline() == b"up\n"
        shim.terminate()
        assert await finish(shim) == (143, b"")
        await rig.stop_broker()


@pytest.mark.long
async def test_what_the_command_leaves_in_a_worker_ends_with_the_broker(rig: JoinedRig):
    async with asyncio.TaskGroup() as group:
        await rig.start_listed(group)
        shim = await rig.start_shim("echo $$; exec sleep 60")
        assert shim.stdout is not None
        pid = int(await shim.stdout.readline())
        _, pid_1 = await asyncio.open_unix_connection(rig.paths.socket)
        pid_1.write(frames.encode_json(frames.ENDED, {"code": 0}))
        await until(lambda: rig.report.ended == 0)
        pid_1.close()
        assert is_alive(pid)
        await rig.stop_broker()
        assert not is_alive(pid)
        assert rig.report.exits["uid-0"][0].code == 143
        rig.start_broker(group)
        assert (await finish(shim))[0] == 143  # told from the tombstone
        await rig.stop_broker()


@pytest.mark.long
async def test_an_idle_worker_that_must_leave_closes(rig: JoinedRig):
    async with asyncio.TaskGroup() as group:
        await rig.start_listed(group)
        rig.configure(MemberState.DRAINING)
        await until(lambda: "uid-0" in rig.report.closed)
        assert rig.paths.hosts.read_text() == ""
        shim = await rig.start_shim("echo never")
        assert await finish(shim) == (255, b"")
        await rig.stop_broker()


@pytest.mark.long
async def test_who_was_held_takes_the_place_of_who_leaves_in_one_list(
    rig: JoinedRig, capsys: pytest.CaptureFixture[str]
):
    async with asyncio.TaskGroup() as group:
        await rig.start_listed(group)
        await rig.start_agent(1)
        rig.configure(MemberState.ACTIVE, MemberState.HELD)
        await until(lambda: rig.report.ready == {"uid-1"})
        assert rig.is_listed()
        await rig.kill_broker()
        rig.start_broker(group)
        rig.configure(MemberState.DRAINING, MemberState.ACTIVE)
        await until(lambda: "uid-0" in rig.report.closed)
        assert rig.paths.hosts.read_text() == "job-worker-1:1\n"
        await rig.stop_broker()
    logged = map(json.loads, (s for s in capsys.readouterr().err.splitlines() if s[:1] == "{"))
    published = [entry["count"] for entry in logged if entry["event"] == "hosts listed"]
    assert 1 in published
    assert set(published[published.index(1) :]) == {1}, "never without a host"
    assert rig.report.listed == {"uid-0", "uid-1"}


@pytest.mark.long
async def test_discovery_is_answered_by_the_broker(rig: JoinedRig):
    async with asyncio.TaskGroup() as group:
        await rig.start_listed(group)
        ask = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            DISCOVER,
            str(rig.paths.socket),
            "nonce",
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=asyncio.subprocess.PIPE,
        )
        assert await finish(ask) == (0, b"job-worker-0:1\n\n")
        assert rig.paths.socket.stat().st_mode & 0o777 == 0o666
        await rig.stop_broker()


@pytest.mark.long
async def test_the_last_lines_of_its_workers_are_in_the_log_of_a_broker_that_ends(
    rig: JoinedRig, capsys: pytest.CaptureFixture[str]
):
    async with asyncio.TaskGroup() as group:
        await rig.start_listed(group)
        shim = await rig.start_shim("seq 5000; printf 'caf\\303\\251 \\377'; exit 3")
        await finish(shim)
        await rig.stop_broker()
    logged = map(decode_last_lines, capsys.readouterr().err.splitlines())
    [told] = [last for last in logged if last is not None]
    assert (told.worker, told.is_cut) == ("job-worker-0", True)
    assert told.lines[-3:] == ("4999", "5000", "caf\xe9 \ufffd")
