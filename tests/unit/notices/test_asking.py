"""One question over HTTP on the loopback interface, whatever answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from aiohttp import web

from et_notices.asking import Asker, consult, open_session
from et_notices.choosing import CLOUDS
from et_notices.clouds.gcp import Gcp
from et_notices.questions import MAX_BODY, Answer, Question, Unclear
from fakes.metadata import (
    AlibabaService,
    AwsService,
    AzureService,
    GcpService,
    Mischief,
    Service,
    TencentService,
    serving,
)
from tests.unit.notices.rigs import at, write

SHORT = timedelta(seconds=0.2)


@asynccontextmanager
async def asking(service: Service) -> AsyncIterator[Asker]:
    async with serving(service) as url, open_session() as session:
        yield Asker(session, url)


async def ask_once(mischief: Mischief) -> Answer:
    service = AwsService()
    service.mischief = mischief
    async with asking(service) as ask:
        return await ask(Question("/latest/meta-data/x", patience=SHORT))


def take_back(service: Service) -> None:
    match service:
        case AwsService() | AlibabaService():
            service.take_back(write(at(120)))
        case GcpService():
            service.take_back()
        case AzureService():
            service.plan("Preempt", "pool_7")
        case TencentService():
            service.moment = "2026-01-01 08:02:00"


@pytest.mark.parametrize(
    ("name", "service"),
    [
        ("aws", AwsService),
        ("gcp", GcpService),
        ("azure", AzureService),
        ("alibaba", AlibabaService),
        ("tencent", TencentService),
    ],
)
async def test_each_cloud_over_http(name: str, service: type[Service]):
    server, cloud = service(), CLOUDS[name]()
    async with asking(server) as ask:
        assert await consult(cloud, ask) == ()
        take_back(server)
        [notice] = await consult(cloud, ask)
    assert notice.is_firm


async def test_google_answers_as_soon_as_it_changes():
    service, cloud = GcpService(), Gcp()
    async with asking(service) as ask:
        await consult(cloud, ask)
        async with asyncio.TaskGroup() as group:
            round_ = group.create_task(consult(cloud, ask))
            await service.is_waited_for.wait()
            service.take_back()
        assert len(round_.result()) == 1


async def test_a_service_that_is_dead():
    async with open_session() as session:
        with pytest.raises(Unclear, match="Cannot connect"):
            await Asker(session, "http://127.0.0.1:9")(Question("/x", patience=SHORT))


@pytest.mark.long
async def test_a_service_that_is_slow_and_one_that_never_ends():
    async def hang(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"2")
        await asyncio.Event().wait()
        return response

    for mischief in (hang, drip):
        with pytest.raises(Unclear, match=r"no answer in 0\.2 s"):
            await ask_once(mischief)


async def test_a_service_that_is_huge():
    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * MAX_BODY)

    with pytest.raises(Unclear, match=f"more than {MAX_BODY} bytes"):
        await ask_once(flood)


async def test_a_redirect_is_an_answer_and_nobody_goes_there():
    gone: list[str] = []

    async def redirect(request: web.Request) -> web.Response:
        gone.append(request.path)
        raise web.HTTPFound("/elsewhere")

    answer = await ask_once(redirect)
    assert (answer.status, gone) == (302, ["/latest/meta-data/x"])


async def test_what_is_packed_stays_packed():
    async def pack(_: web.Request) -> web.Response:
        return web.Response(body=b"\x1f\x8b-a-bomb", headers={"Content-Encoding": "gzip"})

    assert (await ask_once(pack)).body == b"\x1f\x8b-a-bomb"


async def test_no_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    async with asking(AwsService()) as ask:
        assert (await ask(Question("/latest/api/token"))).status == 405


async def test_who_speaks_no_http():
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"SSH-2.0-OpenSSH\r\n")
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, open_session() as session:
        with pytest.raises(Unclear):
            await Asker(session, f"http://127.0.0.1:{port}")(Question("/x", patience=SHORT))
