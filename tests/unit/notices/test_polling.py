"""The loop, in virtual time: each 5 s, whatever the cloud, the API server and the policy do."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from et_kube.errors import Unreachable
from et_kube.notices import LEAVING_ADVISED, LEAVING_AT, LEAVING_REASON, MAX_WORDS
from et_kube.resources import Json
from et_notices.polling import MOST_WORDS, Poller
from et_notices.telling import MANAGER, Node, Unheld
from fakes.clock import FakeClock
from fakes.metadata import AwsService, AzureService, GcpService, TencentService
from fakes.nodes import NodeServer
from tests.unit.notices.rigs import CloudWorld, at, build_ask, build_server, make_aws_world, write

OTHERS = {"others": "stay"}


def list_events(logs: list[Any]) -> list[str]:
    return [entry["event"] for entry in logs]


async def test_a_notice_is_on_the_node_within_a_round_and_goes_after_three_without():
    world = make_aws_world()
    async with world.running() as pass_time:
        await pass_time(60)
        assert not world.server.writes, "a node that stays is left alone"
        world.service.take_back(write(at(180)))
        await pass_time(5)
        assert world.server.annotations[LEAVING_AT] == "2026-01-01T00:03:00Z"
        assert world.server.annotations[LEAVING_REASON] == "AWS takes the spot instance back"
        await pass_time(60)
        assert len(world.server.writes) == 1, "once"
        world.service.keep()
        await pass_time(14)
        assert LEAVING_AT in world.server.annotations
        await pass_time(1)
        assert world.server.annotations == OTHERS
    assert world.reached == ["http://169.254.169.254"]


async def test_an_advice_is_soft():
    world = make_aws_world()
    world.service.advise(write(at(-10)))
    async with world.running() as pass_time:
        await pass_time(5)
    assert world.server.annotations == OTHERS | {LEAVING_ADVISED: "2025-12-31T23:59:50Z"}


@pytest.mark.parametrize("slow", [0, 1])
async def test_a_round_begins_each_five_seconds_however_long_it_takes(slow: int):
    world = make_aws_world()
    world.slow = timedelta(seconds=slow)
    async with world.running() as pass_time:
        await pass_time(60)
    asked = [what for what in world.service.asked if "instance-action" in what]
    assert len(asked) in {12, 13}


async def test_what_a_former_life_has_said_goes_when_it_is_not_so_any_more():
    world = make_aws_world()
    world.service.take_back(write(at(30)))
    async with world.running() as pass_time:
        await pass_time(5)
    world.service.keep()
    async with world.running() as pass_time:
        await pass_time(5)
        assert LEAVING_AT in world.server.annotations, "not by one answer"
        await pass_time(15)
        assert world.server.annotations == OTHERS


async def test_a_service_that_is_away_takes_nothing_back_and_is_told_of_once():
    world = make_aws_world()
    world.service.take_back(write(at(180)))
    with capture_logs() as logs:
        async with world.running() as pass_time:
            await pass_time(5)
            world.trouble = "dead"
            await pass_time(600)
            assert LEAVING_AT in world.server.annotations
            world.trouble = ""
            await pass_time(20)
    assert list_events(logs).count("the metadata service says nothing that is understood") == 1
    assert list_events(logs).count("over") == 1


async def test_it_is_asked_less_often_while_it_is_away_and_never_less_than_each_20_seconds():
    world = make_aws_world()
    async with world.running() as pass_time:
        before = len(world.service.asked)

        async def fail(_: web.Request) -> web.Response:
            return web.Response(status=500)

        world.service.mischief = fail
        await pass_time(600)
    asked = len(world.service.asked) - before
    assert 600 / 20 <= asked <= 600 / 20 + 3


async def test_a_node_of_no_known_cloud_is_asked_nothing_and_that_is_said_once():
    world = make_aws_world(server=build_server(""))
    with capture_logs() as logs:
        async with world.running() as pass_time:
            await pass_time(60)
            assert world.service.asked == []
            world.server.node["spec"]["providerID"] = "aws:///eu-west-1a/i-1"
            await pass_time(100)
            assert world.service.asked, "a cloud controller may come later"
    assert list_events(logs).count("nothing is polled: of no cloud that is known") == 1


async def test_a_cloud_that_is_set_needs_no_provider_id():
    service = TencentService()
    service.moment = "2026-01-01 08:02:00"
    world = CloudWorld(service, server=build_server(""), cloud="tencent")
    async with world.running() as pass_time:
        await pass_time(5)
    assert world.server.annotations[LEAVING_AT] == "2026-01-01T00:02:00Z"


@pytest.mark.long
async def test_a_word_that_was_not_needed_is_said_once_the_other_is_taken_back():
    world = make_aws_world()
    theirs = {LEAVING_AT: "2026-01-01T00:05:00Z", LEAVING_REASON: "maintenance"}
    world.server.annotate(theirs)
    with capture_logs() as logs:
        async with world.running() as pass_time:
            world.service.take_back(write(at(1200)))
            await pass_time(200)
            assert world.server.annotations == OTHERS | theirs
            world.server.annotate(dict.fromkeys(theirs))
            await pass_time(60)
            assert world.server.annotations[LEAVING_AT] == "2026-01-01T00:20:00Z"
    assert list_events(logs).count("somebody says already that it ends, and no later") == 1


async def test_a_word_that_was_not_needed_is_said_at_once_when_it_ends_sooner():
    world = make_aws_world()
    world.server.annotate({LEAVING_AT: "2026-01-01T00:05:00Z"})
    async with world.running() as pass_time:
        world.service.take_back(write(at(1200)))
        await pass_time(10)
        world.service.take_back(write(at(120)))
        await pass_time(5)
        assert world.server.annotations[LEAVING_AT] == "2026-01-01T00:02:00Z"


@pytest.mark.long
async def test_words_that_are_not_needed_and_change_all_the_time_cost_no_more_than_others():
    world = make_aws_world()
    world.server.annotate({LEAVING_AT: "2026-01-01T00:00:30Z"})
    tries = 0

    def count() -> None:
        nonlocal tries
        tries += 1

    async with world.running() as pass_time:
        world.server.strike = count
        for seconds in range(1000, 400, -5):
            world.service.take_back(write(at(seconds)))
            await pass_time(5)
    assert tries <= 4 * (MOST_WORDS + 600 / 60)


class WrongClock(FakeClock):
    """Of a machine whose clock is wrong, until the API server is heard."""

    wrong = timedelta()

    def now(self) -> datetime:
        return super().now() + self.wrong

    def hear(self) -> None:
        self.wrong = timedelta()


def make_azure_world() -> CloudWorld[AzureService]:
    clock = WrongClock()
    world = CloudWorld(AzureService(), clock=clock, cloud="azure")
    world.server.strike = clock.hear
    return world


@pytest.mark.parametrize("wrong", [-20, 20])
async def test_an_end_of_which_nobody_says_when_is_told_by_the_clock_of_the_api_server(wrong: int):
    """Twenty minutes ago nobody would be moved, in twenty the node is gone."""
    world = make_azure_world()
    async with world.running() as pass_time:
        await pass_time(60)
        world.clock.wrong = timedelta(minutes=wrong)  # type: ignore[attr-defined]
        world.service.plan("Preempt", "pool_7", status="Started")
        await pass_time(5)
    assert world.server.annotations[LEAVING_AT] == "2026-01-01T00:01:05Z"


async def test_an_end_is_far_away_only_by_the_clock_of_the_api_server():
    clock = WrongClock()
    world = CloudWorld(AwsService(clock.monotonic), clock=clock)
    world.server.strike = clock.hear
    async with world.running() as pass_time:
        await pass_time(60)
        clock.wrong = timedelta(days=-40)
        world.service.take_back(write(at(180)))
        await pass_time(5)
    assert world.server.annotations[LEAVING_AT] == "2026-01-01T00:03:00Z"


async def test_for_an_end_that_stays_far_away_the_time_is_asked_once_in_a_while():
    world = make_aws_world()
    tries = 0

    def note() -> None:
        nonlocal tries
        tries += 1

    async with world.running() as pass_time:
        await pass_time(60)
        world.server.strike = note
        world.service.take_back(write(at(40 * 86400)))
        await pass_time(3600)
        assert LEAVING_AT not in world.server.annotations
    assert 50 <= tries <= 60


async def test_whether_anothers_word_is_over_is_told_by_the_clock_of_the_api_server():
    clock = WrongClock()
    world = CloudWorld(AwsService(clock.monotonic), clock=clock)
    world.server.strike = clock.hear
    theirs = {LEAVING_AT: write(at(90)), LEAVING_REASON: "maintenance"}
    world.server.annotate(theirs)
    async with world.running() as pass_time:
        await pass_time(60)
        clock.wrong = timedelta(minutes=20)
        world.service.take_back(write(at(180)))
        await pass_time(5)
    assert world.server.annotations == OTHERS | theirs


class SlowNode(Node):
    """Of an API server that takes its time."""

    def __init__(self, server: NodeServer, clock: FakeClock) -> None:
        super().__init__(server.connect(MANAGER), server.connect(MANAGER, is_dry=True), "node-1")
        self._clock = clock

    async def look(self) -> Json:
        await self._clock.sleep(timedelta(seconds=12))
        return await super().look()


async def test_an_end_is_counted_from_when_it_was_heard_however_long_the_time_is_asked_for():
    service, server, clock = GcpService(), build_server(), FakeClock()
    poller = Poller(SlowNode(server, clock), clock, lambda _: build_ask(service), cloud="gcp")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(poller.run())
        service.take_back()
        await clock.advance(timedelta(seconds=60))
        task.cancel()
    assert server.annotations[LEAVING_AT] == write(at(30))


async def test_the_time_is_asked_once_for_a_notice_and_where_nobody_answers_it_is_told_later():
    world = make_azure_world()
    tries = 0

    def fail() -> None:
        nonlocal tries
        tries += 1
        raise Unreachable("no connection")

    async with world.running() as pass_time:
        world.server.strike = fail
        world.service.plan("Preempt", "pool_7", status="Started")
        await pass_time(60)
        assert tries <= 1 + 60 / 5
        world.server.strike = lambda: None
        await pass_time(15)
        assert world.server.annotations[LEAVING_AT] == "2026-01-01T00:00:05Z"
        written, tries = len(world.server.writes), 0
        world.server.strike = fail
        await pass_time(60)
    assert (len(world.server.writes), tries) == (written, 0)


async def test_an_api_server_that_is_away_is_told_later_and_not_asked_in_every_round():
    world = make_aws_world()
    tries = 0

    def fail() -> None:
        nonlocal tries
        tries += 1
        raise Unreachable("no connection")

    with capture_logs() as logs:
        async with world.running() as pass_time:
            world.service.take_back(write(at(300)))
            world.server.strike = fail
            await pass_time(120)
            assert LEAVING_AT not in world.server.annotations
            assert 6 <= tries <= 12
            world.server.strike = lambda: None
            await pass_time(60)
            assert LEAVING_AT in world.server.annotations
    assert list_events(logs).count("the node cannot be told") == 1


async def test_an_api_server_that_is_away_at_the_start_is_waited_for():
    world = make_aws_world()

    def fail() -> None:
        raise Unreachable("no connection")

    world.server.strike = fail
    async with world.running() as pass_time:
        await pass_time(3600)
        assert not world.service.asked
        world.server.strike = lambda: None
        await pass_time(60)
        assert world.service.asked


async def test_the_policy_may_come_a_little_later():
    world = make_aws_world()
    world.server.is_held = False
    async with world.running() as pass_time:
        await pass_time(30)
        assert not world.service.asked
        world.server.is_held = True
        await pass_time(5)
        assert world.service.asked


async def test_without_the_policy_it_does_not_start():
    world = make_aws_world()
    world.server.is_held = False

    async def wait() -> None:
        async with world.running() as pass_time:
            await pass_time(65)

    with pytest.raises(ExceptionGroup) as caught:
        await wait()
    assert caught.group_contains(Unheld)
    assert not world.service.asked


async def test_a_policy_that_is_taken_away_ends_it_before_the_next_word():
    world = make_aws_world()

    async def lose_the_policy() -> None:
        async with world.running() as pass_time:
            world.service.take_back(write(at(300)))
            world.server.is_held = False
            await pass_time(10)

    with pytest.raises(ExceptionGroup) as caught:
        await lose_the_policy()
    assert caught.group_contains(Unheld)
    assert not world.server.writes


@pytest.mark.long
async def test_a_service_that_lies_all_the_time_costs_some_writes_an_hour():
    world = make_aws_world()
    with capture_logs() as logs:
        async with world.running() as pass_time:
            for number in range(MOST_WORDS + 5):
                world.service.take_back(write(at(7200 - number)))
                await pass_time(20)
    assert len(world.server.writes) == MOST_WORDS
    told = "the metadata service says something else all the time: not written"
    assert list_events(logs).count(told) == 1


@pytest.mark.parametrize("key", [LEAVING_REASON, LEAVING_AT, LEAVING_ADVISED])
async def test_somebodys_long_words_keep_no_cloud_from_its_own(key: str):
    world = make_aws_world()
    world.cloud = ""  # so that the node is read for its name
    world.server.annotate({key: "w" * (MAX_WORDS + 1)})
    async with world.running() as pass_time:
        await pass_time(5)
        assert not world.server.writes
        world.service.advise(write(at(0)))
        await pass_time(5)
        assert world.server.annotations[LEAVING_ADVISED] == "2026-01-01T00:00:00Z"
        world.service.take_back(write(at(180)))
        await pass_time(5)
    assert world.server.annotations[LEAVING_AT] == "2026-01-01T00:03:00Z"
    assert world.server.annotations[LEAVING_REASON] == "AWS takes the spot instance back"
