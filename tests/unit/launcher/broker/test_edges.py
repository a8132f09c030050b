"""Streams, report and config on an event loop whose time is virtual: waiting takes no time."""

from __future__ import annotations

import asyncio
import selectors
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from et_contract import frames, names
from et_contract.documents import (
    HostConfig,
    Member,
    MemberState,
    Report,
    SessionExit,
    decode_report,
    encode_config,
    encode_report,
)
from et_kube.api import WatchEvent
from et_kube.errors import Expired, KubeError, OutcomeUnknown, Refused, StreamEnded, Unreachable
from et_kube.resources import CONFIG_MAPS, Ref
from launcher.broker.assembly import Assembly, Pacer, Paths
from launcher.broker.brokering import Broker
from launcher.broker.facts import Ledger
from launcher.broker.following import Follower
from launcher.broker.memories import Files, Identity, Memory, decode_memory, recall
from launcher.broker.reporting import PEOPLE_SECONDS, Reporter
from launcher.broker.retrying import FIRST_SECONDS, LONGEST_AFTER, MOST_SECONDS
from launcher.broker.serving import serve
from launcher.broker.streams import (
    HANDSHAKES,
    HOLD_SECONDS,
    STEADY_SECONDS,
    Patience,
    Streams,
)
from launcher.broker.wiring import MESSAGE, UNFINISHED, Outbox, Wires

REF = Ref(CONFIG_MAPS, "ns", "job-report")
IDENTITY = Identity("job", "ns", "job-uid", 1, "launcher-uid")
FRESH = Report(epoch=1, launcher_uid="launcher-uid", broker_start=1)


class VirtualSelector(selectors.SelectSelector):
    """Waits by moving the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "everybody waits and nothing will ever happen"
            self.now += max(timeout, 0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = VirtualSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    def stand_still(self, seconds: float) -> None:
        self._virtual.now += seconds


def run(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(work)


def now() -> float:
    return asyncio.get_running_loop().time()


class ScriptedApi:
    """Answers patches, reads and watches from scripts; remembers when patches came."""

    def __init__(self) -> None:
        self.patches: list[tuple[float, Any]] = []
        self.errors: list[KubeError] = []
        self.stored: dict[str, str] = {}
        self.reads: list[Any] = []
        self.read_at: list[float] = []
        self.watches: list[list[Any]] = []
        self.watched_from: list[str] = []

    async def patch(self, ref: Ref, body: Any, **kwargs: Any) -> Any:
        if self.errors:
            raise self.errors.pop(0)
        self.patches.append((now(), body))
        return {"data": self.stored}

    async def get(self, ref: Ref) -> Any:
        self.read_at.append(now())
        found = self.reads.pop(0) if len(self.reads) > 1 else self.reads[0]
        if isinstance(found, KubeError):
            raise found
        return found

    async def watch(self, *args: Any, **kwargs: Any) -> AsyncIterator[WatchEvent]:
        self.watched_from.append(kwargs["resource_version"])
        for step in self.watches.pop(0) if self.watches else [60.0]:
            if isinstance(step, float):
                await asyncio.sleep(step)
            elif isinstance(step, KubeError):
                raise step
            else:
                yield WatchEvent("MODIFIED", step)


def make_reporter(api: ScriptedApi, ledger: Ledger, **changes: Any) -> Reporter:
    given: dict[str, Any] = {"may_write": lambda: True, "chance": lambda: 0.0, **changes}
    return Reporter(api, REF, ledger, **given)  # type: ignore[arg-type]  # the part that is used


async def report_through(
    reporter: Reporter, steps: list[tuple[float, Callable[[], object]]]
) -> None:
    """Do each step at its time, then wait for a minute."""
    task = asyncio.get_running_loop().create_task(reporter.run())
    for at, step in steps:
        await asyncio.sleep(at - now())
        step()
        reporter.look()
    await asyncio.sleep(60)
    task.cancel()


def test_facts_that_can_wait_are_written_once_a_second():
    api, ledger = ScriptedApi(), Ledger(FRESH)
    steps = [
        (0.0, lambda: ledger.observe(1)),
        (0.2, lambda: ledger.observe(2)),
        (0.4, lambda: ledger.serve(2)),
    ]
    run(report_through(make_reporter(api, ledger), steps))
    assert [at for at, _ in api.patches] == pytest.approx([0.0, 1.05])
    last = decode_report(api.patches[-1][1]["data"]["report-1"])
    assert last == ledger.report


def test_a_report_is_written_again_without_news_now_and_then_for_it_may_have_been_set_back():
    api, ledger = ScriptedApi(), Ledger(FRESH)
    steps = [(0.0, lambda: ledger.close("a")), (650.0, lambda: None)]
    run(report_through(make_reporter(api, ledger), steps))
    assert len(api.patches) == 3
    assert all(b - a >= 300 for (a, _), (b, _) in pairwise(api.patches))
    assert api.patches[0][1] == api.patches[-1][1]


def test_urgent_facts_do_not_wait():
    api, ledger = ScriptedApi(), Ledger(FRESH)
    steps = [
        (0.0, lambda: ledger.observe(1)),
        (0.2, lambda: ledger.close("a")),
        (0.21, lambda: ledger.close("b")),
    ]
    run(report_through(make_reporter(api, ledger), steps))
    assert [at for at, _ in api.patches] == pytest.approx([0.0, 0.2, 0.25])


def test_ends_without_end_are_written_no_more_often_than_people_read():
    api, ledger = ScriptedApi(), Ledger(FRESH)

    def end(number: int) -> Callable[[], object]:
        return lambda: ledger.end_session(f"pod-{number % 64}", SessionExit(str(number), 0))

    steps = [(number / 50, end(number)) for number in range(50 * 60)]
    run(report_through(make_reporter(api, ledger), steps))
    assert len(api.patches) <= 1 + 60 / PEOPLE_SECONDS + 1
    assert decode_report(api.patches[-1][1]["data"]["report-1"]) == ledger.report


def test_what_is_decided_by_does_not_wait_for_what_is_for_people():
    api, ledger = ScriptedApi(), Ledger(FRESH)
    steps: list[tuple[float, Callable[[], object]]] = [
        (0.0, lambda: ledger.end_session("a", SessionExit("1", 0))),
        (0.5, lambda: ledger.end_session("a", SessionExit("2", 0))),
        (3.0, lambda: ledger.serve(2)),
        (3.1, lambda: ledger.end_session("a", SessionExit("3", 0))),
        (3.2, lambda: ledger.close("a")),
        (5.0, lambda: ledger.end_session("a", SessionExit("4", 0))),
    ]
    run(report_through(make_reporter(api, ledger), steps))
    assert [at for at, _ in api.patches] == pytest.approx([0.0, 3.0, 3.2, 3.25 + PEOPLE_SECONDS])


def test_a_write_that_failed_is_done_again_ever_more_slowly_with_the_newest_facts():
    api, ledger = ScriptedApi(), Ledger(FRESH)
    api.errors = [Unreachable("down") for _ in range(3)]
    steps = [(0.0, lambda: ledger.close("a")), (1.0, lambda: ledger.close("b"))]
    run(report_through(make_reporter(api, ledger), steps))
    [(at, body)] = api.patches
    assert at == pytest.approx(0.5 + 1 + 2)
    assert decode_report(body["data"]["report-1"]).closed == {"a", "b"}


def test_a_fact_that_comes_while_one_is_written_is_not_lost():
    class SlowApi(ScriptedApi):
        async def patch(self, ref: Ref, body: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(0.5)
            return await super().patch(ref, body, **kwargs)

    api, ledger = SlowApi(), Ledger(FRESH)
    steps = [(0.0, lambda: ledger.close("a")), (0.2, lambda: ledger.close("b"))]
    run(report_through(make_reporter(api, ledger), steps))
    assert decode_report(api.patches[-1][1]["data"]["report-1"]).closed == {"a", "b"}


def test_when_fenced_nothing_is_written():
    api, ledger = ScriptedApi(), Ledger(FRESH)
    reporter = make_reporter(api, ledger, may_write=lambda: False)
    run(report_through(reporter, [(0.0, lambda: ledger.close("a"))]))
    assert api.patches == []


def test_after_a_restart_what_was_reported_before_is_taken_first():
    api, ledger = ScriptedApi(), Ledger(replace(FRESH, broker_start=2))
    api.stored = {"report-1": encode_report(replace(FRESH, closed=frozenset("x")))}
    run(report_through(make_reporter(api, ledger), []))
    assert api.patches[0][1] == {"data": {}}
    assert decode_report(api.patches[1][1]["data"]["report-1"]).closed == {"x"}


class FullApi(ScriptedApi):
    """Keeps the rule of 1 MiB, for what it has from others and what it is given."""

    def __init__(self, stored: dict[str, str], limit: int = 2**20) -> None:
        super().__init__()
        self.stored = stored
        self.limit = limit

    async def patch(self, ref: Ref, body: Any, **kwargs: Any) -> Any:
        merged = {**self.stored, **body["data"]}
        merged = {key: text for key, text in merged.items() if text is not None}
        if sum(map(len, merged.values())) > self.limit:
            raise Refused(422, "Invalid", "Too long: may not be more than 1048576 bytes")
        self.stored = merged
        return await super().patch(ref, body, **kwargs)


def test_reports_of_former_epochs_are_removed():
    api, ledger = ScriptedApi(), Ledger(replace(FRESH, epoch=12))
    others = {"report-13": "", "report-x": "", "note": "", "report-" + "1" * 5000: ""}
    api = FullApi({"report-2": "", "report-11": "", **others})
    run(report_through(make_reporter(api, ledger), [(0.0, lambda: ledger.end(0))]))
    assert set(api.stored) == {"report-12", *others}


def test_a_map_that_former_epochs_have_filled_is_written_to():
    ledger = Ledger(replace(FRESH, epoch=3))
    api = FullApi({"report-1": "x" * 2**19, "report-2": "x" * 2**19})
    run(report_through(make_reporter(api, ledger), [(0.0, lambda: ledger.end(0))]))
    assert set(api.stored) == {"report-3"}
    assert decode_report(api.stored["report-3"]).problems == {}


def test_a_report_that_is_refused_for_its_size_says_so_without_what_is_for_people():
    ledger = Ledger(FRESH)
    api = FullApi({"note": "x"}, limit=1000)
    end = SessionExit("s" * 1000, 1)
    steps = [(0.0, lambda: ledger.end_session("a", end)), (0.1, lambda: ledger.close("a"))]
    run(report_through(make_reporter(api, ledger), steps))
    told = decode_report(api.stored["report-1"])
    assert (told.closed, told.exits) == ({"a"}, {})
    assert "Too long" in told.problems["ReportShortened"]
    api.limit = 2**20
    run(report_through(make_reporter(api, ledger), [(0.0, lambda: ledger.close("b"))]))
    assert decode_report(api.stored["report-1"]).problems == {}


def test_at_the_end_what_is_left_is_written_at_once_or_given_up_in_time():
    async def end(api: ScriptedApi) -> tuple[bool, float]:
        ledger = Ledger(FRESH)
        reporter = make_reporter(api, ledger)
        task = asyncio.get_running_loop().create_task(reporter.run())
        ledger.observe(1)
        reporter.look()
        await asyncio.sleep(0.1)
        ledger.observe(2)
        begun = now()
        done = await reporter.flush(5.0)
        task.cancel()
        return done, now() - begun

    async def check() -> None:
        assert await end(ScriptedApi()) == (True, pytest.approx(0.0, abs=0.06))
        deaf = ScriptedApi()
        deaf.errors = [Unreachable("down") for _ in range(99)]
        assert await end(deaf) == (False, pytest.approx(5.0))

    run(check())


def make_config(generation: int, state: MemberState = MemberState.ACTIVE) -> HostConfig:
    member = Member("job-worker-0", "uid-0", 1, state, "main")
    return HostConfig("job", "ns", "job-uid", generation, 1, 1, 1, (member,))


def make_object(text: str | None) -> dict[str, Any]:
    data = None if text is None else {names.CONFIG_KEY: text}
    return {"metadata": {"resourceVersion": "7"}, "data": data}


async def follow(api: ScriptedApi, seconds: float) -> tuple[list[tuple[float, int]], list[str]]:
    taken: list[tuple[float, int]] = []
    complaints: list[str] = []
    follower = Follower(
        api,  # type: ignore[arg-type]  # the part that is used
        REF,
        take=lambda config: taken.append((now(), config.generation)),
        complain=complaints.append,
        chance=lambda: 0.0,
    )
    task = asyncio.get_running_loop().create_task(follower.run())
    await asyncio.sleep(seconds)
    task.cancel()
    return taken, complaints


def test_the_config_is_read_then_watched_and_read_each_half_minute():
    async def check() -> None:
        api = ScriptedApi()
        api.reads = [make_object(encode_config(make_config(1)))]
        api.watches = [[5.0, make_object(encode_config(make_config(2))), 55.0]]
        taken, _ = await follow(api, 59.0)
        assert taken == [(0.0, 1), (5.0, 2), (30.0, 1)]

    run(check())


def test_a_config_that_the_server_has_forgotten_the_version_of_is_watched_from_nowhere():
    async def check() -> None:
        api = ScriptedApi()
        old = make_object(encode_config(make_config(1)))
        api.reads = [{**old, "metadata": {"resourceVersion": "7"}}]
        forgotten = Expired(410, "Expired", "too old resource version: 7 (9)")
        api.watches = [[60.0], [forgotten], [3.0, make_object(encode_config(make_config(2))), 55.0]]
        taken, _ = await follow(api, 64.0)
        assert api.watched_from == ["7", "7", ""]
        assert (63.5, 2) in taken

    run(check())


def test_a_server_that_is_away_is_asked_ever_more_slowly():
    async def check() -> None:
        api = ScriptedApi()
        api.reads = [Unreachable("down")]
        await follow(api, 25.0)
        assert api.read_at == [0.0, 0.5, 1.5, 3.5, 7.5, 15.5]

    run(check())


def test_an_expired_watch_begins_anew_with_a_read():
    async def check() -> None:
        api = ScriptedApi()
        api.reads = [make_object(encode_config(make_config(1)))]
        api.watches = [[Expired(410, "Expired", "too old")]]
        taken, _ = await follow(api, 2.0)
        assert taken == [(0.0, 1), (0.5, 1)]

    run(check())


def test_a_config_that_cannot_be_read_is_complained_about_and_an_empty_one_waited_for():
    async def check() -> None:
        api = ScriptedApi()
        api.reads = [make_object(None)]
        api.watches = [[1.0, make_object("{}"), 59.0]]
        taken, complaints = await follow(api, 2.0)
        assert taken == []
        assert len(complaints) == 1

    run(check())


class Agent:
    """The far end of a stream: answers HELLO and PING, for as long as it is told to."""

    def __init__(self, lives: float = 1e6, *, is_mute: bool = False) -> None:
        self.frames: list[frames.Frame] = []
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self._decoder = frames.Decoder()
        self._ends_at = now() + lives
        self._is_mute = is_mute

    async def send(self, data: bytes) -> None:
        assert len(data) <= MESSAGE
        self._decoder.feed(data)
        for frame in self._decoder:
            self.frames.append(frame)
            if frame.type == frames.HELLO:
                body = {"instance": "i", "epoch": 1, "closed": False, "sessions": []}
                self.say(frames.encode_json(frames.WELCOME, body))
            elif frame.type == frames.PING and not self._is_mute:
                self.say(frames.encode(frames.PONG))

    def say(self, data: bytes) -> None:
        self._answers.put_nowait(data)

    async def receive(self) -> bytes:
        try:
            async with asyncio.timeout_at(self._ends_at):
                return await self._answers.get()
        except TimeoutError:
            raise StreamEnded("cut") from None


class StreamsRig:
    """A broker with streams to agents that a test provides, one for each attempt."""

    is_kept = True

    def __init__(self, *attempts: Callable[[], Agent] | KubeError, members: int = 1) -> None:
        self.opened: list[float] = []
        self.closed: list[float] = []
        self.agents: list[Agent] = []
        self.under_way = self.most_under_way = 0
        self._attempts = list(attempts)
        self.wires = Wires()
        memory = Memory(FRESH)
        self.broker = Broker(IDENTITY, memory, wire=self.wires, shelf=self, now=now())
        self.streams = Streams(
            self.broker, self.wires, self.open, touch=self.touch, chance=lambda: 0.0
        )
        self._pacer = Pacer(self.broker, (self.streams.look,))
        found = tuple(
            Member(f"job-worker-{i}", f"uid-{i}", 1, MemberState.ACTIVE, "main")
            for i in range(members)
        )
        self.config = replace(make_config(1), members=found)

    def publish(self, text: str) -> None:
        self.text = text

    def keep(self, memory: Memory) -> None:
        self.report = memory.report

    def touch(self) -> None:
        self._pacer.touch()

    @asynccontextmanager
    async def open(self, member: Member) -> AsyncIterator[Agent]:
        self.opened.append(now())
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0.001)
        self.under_way -= 1
        attempt = self._attempts.pop(0) if len(self._attempts) > 1 else self._attempts[0]
        if isinstance(attempt, KubeError):
            raise attempt
        self.agents.append(attempt())
        try:
            yield self.agents[-1]
        finally:
            self.closed.append(now())

    async def live(self, seconds: float, *later: HostConfig) -> None:
        """The given time with each config."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._pacer.run()), group.create_task(self.streams.run())]
            for config in (self.config, *later):
                self.broker.take_config(config, now())
                self.touch()
                await asyncio.sleep(seconds)
            for task in tasks:
                task.cancel()


def test_a_stream_that_lives_is_pinged_and_opened_once():
    async def check() -> None:
        rig = StreamsRig(Agent)
        await rig.live(100.0)
        assert len(rig.opened) == 1
        kinds = [frame.type for frame in rig.agents[0].frames]
        # One at once, to know how long the way is, then one each 10 s.
        assert kinds == [frames.HELLO] + [frames.PING] * 10
        assert rig.text == "job-worker-0:1\n"

    run(check())


def test_a_stream_without_a_frame_for_half_a_minute_is_replaced():
    async def check() -> None:
        rig = StreamsRig(lambda: Agent(is_mute=True), Agent)
        await rig.live(100.0)
        assert rig.opened == pytest.approx([0.0, 30.0], abs=0.1)
        assert rig.text == "job-worker-0:1\n"
        hello = frames.decode_json(rig.agents[1].frames[0])
        assert hello["connection"] == 2

    run(check())


def test_after_a_cut_the_next_attempt_is_at_once_and_then_ever_later():
    async def check() -> None:
        down = Unreachable("down")
        rig = StreamsRig(lambda: Agent(lives=40.0), down, down, down, Agent)
        await rig.live(60.0)
        assert rig.opened == pytest.approx([0.0, 40.0, 40.5, 41.5, 43.5], abs=0.1)

    run(check())


def test_no_more_than_so_many_handshakes_at_once():
    async def check() -> None:
        rig = StreamsRig(Agent, members=100)
        await rig.live(5.0)
        assert rig.most_under_way == HANDSHAKES
        assert len(rig.agents) == 100

    run(check())


def test_nodes_that_never_answer_keep_nobody_else_waiting():
    class Silent(StreamsRig):
        @asynccontextmanager
        async def open(self, member: Member) -> AsyncIterator[Agent]:
            if int(member.name.rpartition("-")[2]) < 4 * HANDSHAKES:
                await asyncio.sleep(15.0)
                raise OutcomeUnknown("no answer in time")
            async with super().open(member) as agent:
                yield agent

    async def check() -> None:
        rig = Silent(Agent, members=4 * HANDSHAKES + 3)
        await rig.live(10.0)
        assert len(rig.agents) == 3
        assert max(rig.opened) <= 4 * HOLD_SECONDS

    run(check())


@pytest.mark.parametrize("status", [401, 403])
def test_a_right_that_is_missing_for_a_minute_is_told_until_it_is_there(status: int):
    async def check() -> None:
        refused = Refused(status, "Forbidden", 'cannot create resource "pods/exec"')
        rig = StreamsRig(refused)
        await rig.live(55.0)
        assert rig.report.problems == {}
        await rig.live(30.0)
        assert rig.report.problems == {
            "ExecForbidden": 'job-worker-0: cannot create resource "pods/exec"'
        }
        rig._attempts = [Agent]
        await rig.live(30.0)
        assert rig.report.problems == {}

    run(check())


def test_a_right_is_not_missed_for_a_pod_that_has_gone():
    async def check() -> None:
        rig = StreamsRig(Refused(403, "Forbidden", "no"))
        await rig.live(85.0, make_config(2, MemberState.GONE))
        assert rig.report.problems == {}

    run(check())


def test_an_agent_that_refuses_for_a_minute_is_told_until_it_obeys():
    async def check() -> None:
        def refuse() -> Agent:
            agent = Agent()
            agent.say(frames.encode_json(frames.REJECT, {"reason": "no route to host"}))
            return agent

        rig = StreamsRig(refuse)
        await rig.live(50.0)
        assert rig.report.problems == {}
        await rig.live(40.0)
        assert rig.report.problems == {"AgentRefuses": "job-worker-0: no route to host"}
        rig._attempts = [Agent]
        await rig.live(30.0)
        assert rig.report.problems == {}

    run(check())


def test_an_agent_that_cannot_be_understood_for_a_minute_is_told_until_it_can():
    async def check() -> None:
        def confuse() -> Agent:
            agent = Agent()
            body = {"sessions": [None] * (2 * frames.WORKER_SESSIONS + 1)}
            agent.say(frames.encode_json(frames.WELCOME, body))
            return agent

        rig = StreamsRig(confuse)
        await rig.live(50.0)
        assert rig.report.problems == {}
        await rig.live(40.0)
        words = "job-worker-0: its agent breaks a rule: WELCOME without its sessions"
        assert rig.report.problems == {"AgentRefuses": words}
        rig._attempts = [Agent]
        await rig.live(30.0)
        assert rig.report.problems == {}

    run(check())


WELCOME = frames.encode_json(frames.WELCOME, {"instance": "i", "sessions": []})


def test_of_agents_whose_welcome_does_not_end_those_with_most_are_cut_off():
    async def check() -> None:
        size = 900_000
        start = frames.HEADER.pack(1, frames.WELCOME, 0, b"", 0, size) + b" " * (size - 1000)

        def begin() -> Agent:
            agent = Agent(is_mute=True)
            agent.say(start if rig.agents else start[:50_000])
            return agent

        rig = StreamsRig(begin, members=UNFINISHED // size + 2)
        life = asyncio.get_running_loop().create_task(rig.live(5.0))
        await asyncio.sleep(0.1)
        assert len(rig.closed) == 1, "not who has said little"
        await life

    run(check())


def test_an_agent_says_nothing_long_after_its_welcome():
    async def check() -> None:
        def go_on() -> Agent:
            agent = Agent()
            agent.say(WELCOME + frames.HEADER.pack(1, frames.WELCOME, 0, b"", 0, 2**16))
            return agent

        rig = StreamsRig(go_on, Agent)
        await rig.live(5.0)
        assert len(rig.agents) == 2

    run(check())


class Refusing(StreamsRig):
    """Each worker refuses, in words of its own that are other ones each time, but for some."""

    def __init__(self, members: int, *, is_agent: bool) -> None:
        super().__init__(Agent, members=members)
        self.words: list[str] = []
        self.obeying: set[str] = set()
        self._kind = "AgentRefuses" if is_agent else "ExecForbidden"

    @asynccontextmanager
    async def open(self, member: Member) -> AsyncIterator[Agent]:
        if member.uid in self.obeying:
            async with super().open(member) as agent:
                yield agent
            return
        await asyncio.sleep(0.001)
        words = f"{member.name} is refused, {now():.0f}"
        if self._kind == "ExecForbidden":
            raise Refused(403, "Forbidden", words)
        agent = Agent()
        agent.say(frames.encode_json(frames.REJECT, {"reason": words}))
        yield agent

    def keep(self, memory: Memory) -> None:
        super().keep(memory)
        told = self.report.problems.get(self._kind, "")
        if told != (self.words or [""])[-1]:
            self.words.append(told)


@pytest.mark.parametrize("is_agent", [False, True])
def test_what_all_workers_meet_is_told_of_one_for_as_long_as_it_meets_it(*, is_agent: bool):
    async def check() -> None:
        rig = Refusing(4, is_agent=is_agent)
        await rig.live(900.0)
        assert 1 < len(rig.words) <= 4
        assert len({words.split(":")[0] for words in rig.words}) == 1
        rig.obeying = {"uid-0", "uid-1", "uid-3"}
        await rig.live(60.0)
        assert rig.words[-1].startswith("job-worker-2: ")
        rig.obeying.add("uid-2")
        await rig.live(60.0)
        assert rig.words[-1] == ""

    run(check())


def test_what_one_has_met_is_told_no_more_once_it_is_over_though_others_have_met_it():
    class Lost(Refusing):
        """The other worker refuses once, and is out of reach ever after."""

        @asynccontextmanager
        async def open(self, member: Member) -> AsyncIterator[Agent]:
            if member.uid == "uid-1" and now() > 1.0:
                raise Unreachable("no route to its node")
            async with super().open(member) as agent:
                yield agent

    async def check() -> None:
        rig = Lost(2, is_agent=True)
        await rig.live(120.0)
        assert rig.words[-1].startswith("job-worker-0: ")
        rig.obeying.add("uid-0")
        await rig.live(60.0)
        assert rig.words[-1] == ""

    run(check())


@pytest.mark.parametrize(
    ("fenced", "unlisted", "closed"),
    [(True, {"uid-0"}, {"uid-0"}), (None, set(), {"uid-0"}), (2**53, set(), {"uid-0"})],
)
def test_an_agent_that_obeys_another_launcher_is_told_at_once(
    fenced: object, unlisted: set[str], closed: set[str]
):
    async def check() -> None:
        def refuse() -> Agent:
            agent = Agent()
            body = {"reason": "epoch 1 belongs to launcher x", "fenced": fenced, "news": 1}
            agent.say(frames.encode_json(frames.REJECT, body))
            return agent

        rig = StreamsRig(refuse)
        words = {"AgentRefuses": "job-worker-0: epoch 1 belongs to launcher x"}
        await rig.live(5.0)
        assert rig.report.unlisted == unlisted
        assert rig.report.listed == frozenset()
        assert rig.report.problems == (words if unlisted else {}), "it is replaced soon"
        await rig.live(5.0, make_config(2, MemberState.DRAINING))
        assert rig.report.unlisted == frozenset()
        assert rig.report.problems == {}
        assert rig.report.closed == closed

    run(check())


def test_an_agent_that_breaks_a_rule_is_dropped_and_asked_again():
    async def check() -> None:
        def rude() -> Agent:
            agent = Agent()
            agent.say(frames.encode(frames.CLOSED))
            return agent

        rig = StreamsRig(rude, Agent)
        await rig.live(5.0)
        assert len(rig.agents) == 2
        assert rig.report.closed == frozenset()

    run(check())


@pytest.mark.parametrize(
    ("state", "opened"), [(MemberState.DRAINING, [0.0, 1.5]), (MemberState.GONE, [0.0])]
)
def test_a_gone_pod_is_never_called_again_and_a_draining_one_is(
    state: MemberState, opened: list[float]
):
    async def check() -> None:
        rig = StreamsRig(lambda: Agent(lives=1.5))
        rig.broker.hosts.start()
        await rig.live(1.4, make_config(2, state))
        assert rig.opened == pytest.approx(opened, abs=0.1)

    run(check())


def test_a_later_epoch_closes_all_streams():
    async def check() -> None:
        rig = StreamsRig(Agent)
        await rig.live(1.0, replace(make_config(2), epoch=2))
        assert rig.closed == pytest.approx([1.0])
        assert rig.opened == [0.0]
        assert rig.broker.connected == set()

    run(check())


def test_patience_grows_to_its_limit_and_starts_anew_after_a_good_stream():
    patience = Patience()
    delays = []
    for lived in (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 99.0, 99.0, 1.0, 1.0):
        patience.count(lived)
        delays.append(patience.delay(lived, 0.0))
    assert delays == [0.5, 1.0, 2.0, 4.0, 8.0, MOST_SECONDS, MOST_SECONDS, 2.0, 0.0, 0.0, 1.0]
    assert Patience(1).delay(0.0, 1.0) == FIRST_SECONDS / 2


LIVES = st.sampled_from([0.0, 0.1, 10.0, STEADY_SECONDS, 2 * STEADY_SECONDS])


@given(st.lists(LIVES | st.floats(0.0, 3 * STEADY_SECONDS), max_size=60))
@example([10.0] * 60)
def test_however_a_worker_ends_its_streams_few_are_opened_in_a_time(lives: list[float]):
    patience, passed = Patience(), 0.0
    for lived in lives:
        patience.count(lived)
        passed += lived + patience.delay(lived, 0.0)
    assert passed >= MOST_SECONDS * (len(lives) - LONGEST_AFTER)


def test_a_ping_goes_before_what_waits():
    async def check() -> None:
        outbox = Outbox()
        outbox.put(b"a")
        outbox.put(b"b" * MESSAGE)
        outbox.put(b"c")
        outbox.put_first(b"p")
        assert await outbox.take() == b"pa" + b"b" * MESSAGE
        assert await outbox.take() == b"c"

    run(check())


def test_ends_that_come_together_are_concluded_together():
    class Core:
        concluded: list[float]

        def __init__(self) -> None:
            self.concluded = []

        def conclude(self, at: float) -> None:
            self.concluded.append(at)

        def note_absence(self, at: float) -> None:
            raise AssertionError(f"was there at {at}")

        def due(self) -> float:
            return 3.0 if len(self.concluded) < 3 else 100.0

    async def check() -> None:
        core = Core()
        pacer = Pacer(core, ())
        task = asyncio.get_running_loop().create_task(pacer.run())
        await asyncio.sleep(1.0)
        pacer.touch()
        pacer.touch()
        await asyncio.sleep(4.0)
        task.cancel()
        assert core.concluded == [0.0, 1.0, 3.0]

    run(check())


class StoppedCore:
    """Has something due at 3, and may be stopped while it concludes."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.told: list[tuple[str, float]] = []
        self._seconds = seconds

    def conclude(self, at: float) -> None:
        self.told.append(("conclude", at))
        stand_still(self._seconds)
        self._seconds = 0.0

    def note_absence(self, at: float) -> None:
        self.told.append(("absence", at))

    def due(self) -> float:
        return 3.0 if now() < 3.0 else 100.0


def stand_still(seconds: float) -> None:
    """As a process that is stopped for so long."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.stand_still(seconds)


async def pace(core: StoppedCore, seconds: float) -> None:
    """Five seconds of it, in which it is stopped for so long after one and a half."""
    pacer = Pacer(core, ())
    task = asyncio.get_running_loop().create_task(pacer.run())
    await asyncio.sleep(1.5)
    stand_still(seconds)
    pacer.touch()
    await asyncio.sleep(3.5)
    task.cancel()


def test_a_core_that_was_stopped_is_told_so_before_anything_else():
    core = StoppedCore()
    run(pace(core, 20.0))
    assert core.told == [("conclude", 0.0), ("absence", 21.5), ("conclude", 21.5)]


def test_so_is_one_that_was_stopped_while_it_concluded():
    core = StoppedCore(20.0)
    run(pace(core, 0.0))
    assert core.told == [("conclude", 0.0), ("absence", 20.0), ("conclude", 20.0)]


def test_who_is_a_little_late_was_not_stopped():
    core = StoppedCore(1.0)
    run(pace(core, 1.0))
    assert core.told == [("conclude", 0.0), ("conclude", 2.5), ("conclude", 3.0)]


def test_a_start_that_came_while_the_broker_was_stopped_is_not_refused(tmp_path: Path):
    path = tmp_path / "broker.sock"

    def say(kind: int, session: bytes = frames.NO_SESSION, **body: Any) -> socket.socket:
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(str(path))
        peer.sendall(frames.encode_json(kind, body, session))
        return peer

    def start(index: int) -> socket.socket:
        session, host = bytes([index + 1]) * 16, f"job-worker-{index}"
        return say(frames.SPAWN, session, host=host, command="train", ranks=1)

    async def check() -> None:
        rig = StreamsRig(Agent, members=2)
        keeper, leaver = rig.config.members
        members = (keeper, replace(leaver, state=MemberState.DRAINING))
        life = asyncio.get_running_loop().create_task(rig.live(60.0))
        async with serve(path, rig.broker, rig.wires, rig.touch):
            peers = [say(frames.LAUNCH, nonce="nonce")]
            await asyncio.sleep(1.0)
            peers.append(start(0))
            await asyncio.sleep(1.0)
            rig.broker.take_config(replace(rig.config, generation=2, members=members), now())
            rig.touch()
            for _ in range(4):
                peers.append(say(frames.HOSTS, nonce="nonce"))
                await asyncio.sleep(1.0)
            peers.append(start(1))
            stand_still(20.0)
            await asyncio.sleep(1.0)
        for peer in peers:
            peer.close()
        await life
        [heard] = [
            [frame.type for frame in agent.frames]
            for agent in rig.agents
            if frames.decode_json(agent.frames[0])["pod"] == leaver.uid
        ]
        assert frames.SPAWN in heard
        assert frames.CLOSE_IF_IDLE not in heard

    run(check())


def test_an_exit_is_in_the_report_that_is_kept():
    async def check() -> None:
        rig = StreamsRig(Agent)
        await rig.live(1.0)
        opening = {"host": "job-worker-0", "command": "c"}
        body = {"code": 134, "produced": [0, 0], "reason": "signal 6"}
        decoder = frames.Decoder()
        decoder.feed(frames.encode_json(frames.SPAWN, opening, b"s" * 16))
        decoder.feed(frames.encode_json(frames.EXIT, body, b"s" * 16))
        spawn, ended = decoder
        rig.broker.take_peer_frame(1, spawn, now())
        rig.broker.take_agent_frame("uid-0", ended, now())
        rig.broker.conclude(now())
        assert rig.report.exits["uid-0"] == (SessionExit((b"s" * 16).hex(), 134, "signal 6"),)

    run(check())


def test_no_agent_hears_the_number_of_a_start_that_the_disk_has_not_taken(tmp_path: Path):
    agents: list[Agent] = []

    @asynccontextmanager
    async def open_far(member: Member) -> AsyncIterator[Agent]:
        agents.append(Agent())
        yield agents[-1]

    async def check() -> None:
        api: Any = ScriptedApi()
        api.reads = [
            {
                "metadata": {"resourceVersion": "1"},
                "data": {names.CONFIG_KEY: encode_config(make_config(1))},
            }
        ]
        paths = Paths(tmp_path / "s", tmp_path / "hosts", tmp_path / "state")
        in_the_way = tmp_path / "state" / ".memory.json.new"
        in_the_way.mkdir(parents=True)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(Assembly(IDENTITY, paths, api=api, opener=open_far).run(stop))
            await asyncio.sleep(60.0)
            assert agents == []
            assert "MemoryUnkept" in str(api.patches[-1])
            in_the_way.rmdir()
            await asyncio.sleep(60.0)
            assert agents
            assert recall(paths.memory, IDENTITY).report.broker_start == 2
            assert "MemoryUnkept" not in str(api.patches[-1])
            stop.set()

    run(check())


def test_a_list_that_a_full_disk_did_not_take_leaves_none_and_not_the_one_before(tmp_path: Path):
    """It is read when we are late: hosts would leave and come with each answer that is."""

    async def check() -> None:
        path = tmp_path / "hosts"
        files = Files(hosts=path, memory=tmp_path / "memory")
        async with asyncio.TaskGroup() as group:
            task = group.create_task(files.run())
            files.publish("old:1\n")
            in_the_way = tmp_path / ".hosts.new"
            in_the_way.mkdir()
            files.publish("new:1\n")
            assert not path.exists()
            in_the_way.rmdir()
            await asyncio.sleep(6.0)
            assert path.read_text() == "new:1\n"
            task.cancel()

    run(check())


def test_what_a_full_disk_did_not_take_is_written_once_there_is_room(tmp_path: Path):
    async def check() -> None:
        folder = tmp_path / "later"
        files = Files(hosts=folder / "hosts", memory=folder / "memory")
        memory = Memory(replace(FRESH, broker_start=7))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(files.run())
            files.publish("old:1\n")
            files.keep(memory)
            files.publish("new:1\n")
            await asyncio.sleep(60.0)
            assert not files.is_kept
            folder.mkdir()
            await asyncio.sleep(6.0)
            assert files.is_kept
            assert (folder / "hosts").read_text() == "new:1\n"
            assert decode_memory((folder / "memory").read_text()) == memory
            (folder / "hosts").unlink()
            await asyncio.sleep(60.0)
            assert not (folder / "hosts").exists()
            task.cancel()

    run(check())
