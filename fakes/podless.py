"""A job without pods: agents, broker, shims and discovery as real processes, one API server.

Where many workers are needed, hundreds of agents are as many processes in one folder.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from et_contract import frames, names
from et_contract.documents import HostConfig, Member, MemberState, Report, ToldNotice
from fakes.agents import Agents
from fakes.apiserver import ROOT, ApiServer, dial_agent, dial_bridge, serving

PATIENCE = 60.0
JOB = "job"
NONCE = "nonce"
AGENT = """
import os, sys; from launcher.agent import serving
sys.exit(serving.main([], os.environb, sys.argv[1]))
"""
SHIM = "import sys; from launcher.shim import rsh; sys.exit(rsh.main(sys.argv[2:], sys.argv[1]))"


class PodlessJob:
    """One job. `count` workers of `slots` slots; whoever measures or tests starts the shims.

    The folder is the launcher's pod; the workers' sockets and logs are in it too.
    """

    def __init__(self, folder: Path, *, count: int = 1, slots: int = 1) -> None:
        self.folder = folder
        self.bridges: list[subprocess.Popen[bytes]] = []
        self.server = ApiServer(dial_bridge(folder, self.bridges))
        self.states = {f"{JOB}-worker-{n}": MemberState.ACTIVE for n in range(count)}
        self.ips: dict[str, tuple[str, ...]] = {}
        """Of workers, by name, where ranks are to hear who is gone."""
        self.notices: tuple[ToldNotice, ...] = ()
        """What is said of the ends of workers, and of the launcher, by uid."""
        self.notice_signal = ""
        self.slots = slots
        self.broker: asyncio.subprocess.Process | None = None
        self.agents: dict[str, asyncio.subprocess.Process] = {}
        self.url = ""
        self.has_processes = True
        self.epoch = 1
        self._generation = 0
        self._stack = AsyncExitStack()

    @property
    def workers(self) -> list[str]:
        """The names of its workers."""
        return list(self.states)

    @property
    def socket(self) -> Path:
        """The broker's."""
        return self.folder / "broker.sock"

    @property
    def report(self) -> Report:
        """What the broker of this epoch has written; an empty one before it has."""
        return self.server.read_report(JOB, self.epoch) or Report(self.epoch, "launcher-uid", 0)

    @property
    def log(self) -> str:
        """What the broker has logged, one JSON object a line."""
        return (self.folder / "broker.log").read_text()

    def use_sockets(self) -> None:
        """Join exec calls to the agents' sockets: no process for each stream."""
        self.server.dial = dial_agent(self.folder)

    def use_no_processes(self) -> None:
        """Workers of which only the agent's state machine is real."""
        self.server.dial = Agents().dial
        self.has_processes = False

    def find_notice(self, name: str) -> Path:
        """Where scripts of this worker read of its end."""
        return self.folder / f"{name}.notice"

    def configure(self, **states: MemberState) -> None:
        """Write the next generation; names with _ for -."""
        self.states.update((name.replace("_", "-"), state) for name, state in states.items())
        self._generation += 1
        members = tuple(
            Member(name, f"uid-{name}", self.slots, state, "main", ips=self.ips.get(name, ()))
            for name, state in self.states.items()
        )
        wanted = sum(state is MemberState.ACTIVE for state in self.states.values())
        self.server.write_config(
            HostConfig(
                *(JOB, "ns", "job-uid", self._generation, self.epoch, wanted, 1, members),
                notices=self.notices,
                notice_signal=self.notice_signal,
            )
        )

    # ------------------------------------------------------------ processes

    async def start(self) -> None:
        """The server, every agent and a broker; returns when all hosts are listed."""
        self.url = await self._stack.enter_async_context(serving(self.server))
        if self.has_processes:
            for name in self.workers:
                await self.start_agent(name)
        await self.start_listed()

    async def start_listed(self) -> None:
        """The config and a broker; returns when all hosts are listed."""
        self.configure()
        await self.start_broker()
        await until(lambda: self.listed == len(self.workers))

    def build_successor(self) -> PodlessJob:
        """The next launcher of the same job, in a pod of its own; not started."""
        folder = self.folder / f"launcher-{self.epoch + 1}"
        folder.mkdir()
        successor = PodlessJob(folder)
        successor.server, successor.url = self.server, self.url
        successor.states, successor.epoch = self.states, self.epoch + 1
        successor._generation = self._generation
        return successor

    @property
    def listed(self) -> int:
        """Hosts with slots on the list that horovodrun would read."""
        path = self.folder / "hosts"
        lines = path.read_text().splitlines() if path.exists() else []
        return sum(not line.endswith(":0") for line in lines)

    async def start_agent(self, name: str) -> None:
        """PID 1 of a worker."""
        env = {
            names.ENV_JOB_UID: "job-uid",
            names.ENV_POD_UID: f"uid-{name}",
            names.ENV_EPOCH: "1",
            names.ENV_NOTICE: str(self.find_notice(name)),
        }
        path = str(self.folder / f"{name}.sock")
        agent = await self._run([sys.executable, "-S", "-c", AGENT, path], env, self.folder / name)
        self.agents[name] = agent
        await until(Path(path).exists)

    async def start_broker(self) -> None:
        """A broker, or the next one."""
        place = [str(self.folder), self.url, JOB, str(self.epoch)]
        command = [sys.executable, "-m", "fakes.broker_program", *place]
        self.broker = await self._run(command, {}, self.folder / "broker")

    async def kill_broker(self) -> None:
        """SIGKILL."""
        assert self.broker is not None  # noqa: S101 (it runs)
        self.broker.kill()
        await self.broker.wait()

    async def _run(
        self, command: list[str], env: dict[str, str], log: Path
    ) -> asyncio.subprocess.Process:
        with log.with_suffix(".log").open("ab") as stream:
            process = await asyncio.create_subprocess_exec(
                *command,
                env={**os.environ, "PYTHONPATH": str(ROOT), **env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stream,
            )
        self._stack.push_async_callback(end_process, process)
        return process

    async def start_shim(
        self, command: str, host: str = f"{JOB}-worker-0", stdout: int = subprocess.PIPE
    ) -> asyncio.subprocess.Process:
        """What horovodrun runs for a slot."""
        shim = await asyncio.create_subprocess_exec(
            sys.executable, "-S", "-c", SHIM, str(self.socket), host, command,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._stack.push_async_callback(end_process, shim)
        return shim

    async def launch(self) -> None:
        """Be PID 1 of the launcher, which may start the user's command when this returns."""
        reader, writer = await asyncio.open_unix_connection(self.socket)
        self._stack.callback(writer.close)
        writer.write(frames.encode_json(frames.LAUNCH, {"nonce": NONCE}))
        await reader.read(1)

    async def ask_hosts(self) -> None:
        """What `discover_hosts.sh` asks; returns when the broker has answered or hung up."""
        reader, writer = await asyncio.open_unix_connection(self.socket)
        writer.write(frames.encode_json(frames.HOSTS, {"nonce": NONCE}))
        await reader.read(1)
        writer.close()

    def cut(self) -> None:
        """Break every stream, as a network does: the bridges stay behind."""
        self.server.cut()

    async def close(self) -> None:
        """End all of it."""
        await self._stack.aclose()
        for bridge in self.bridges:
            bridge.kill()
            bridge.wait()


@asynccontextmanager
async def running(job: PodlessJob) -> AsyncIterator[PodlessJob]:
    """A started job, ended whatever happens meanwhile."""
    try:
        await job.start()
        yield job
    finally:
        await job.close()


async def end_process(process: asyncio.subprocess.Process) -> None:
    """By SIGKILL, if it still runs; what it printed is thrown away."""
    if process.returncode is None:
        process.kill()
    if process.stdout is not None:
        await process.communicate()
    await process.wait()


async def until(is_so: Callable[[], object], patience: float = PATIENCE) -> None:
    """Wait for what other processes do; TimeoutError after so many seconds."""
    async with asyncio.timeout(patience):
        while not is_so():  # noqa: ASYNC110 (other processes set no event)
            await asyncio.sleep(0.01)


def pids_of(shim: asyncio.subprocess.Process) -> list[int]:
    """A shim's two processes, the child first."""
    children = Path(f"/proc/{shim.pid}/task/{shim.pid}/children").read_text().split()
    return [*map(int, children), shim.pid]


def measure_memory(pids: Iterable[int]) -> int:
    """Bytes that these processes hold: their own, and their share of what is shared."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


def measure_cpu(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def frames_of(data: bytes) -> list[frames.Frame]:
    """Whole ones; what is left of another is left out."""
    decoder = frames.Decoder()
    decoder.feed(data)
    return list(decoder)
