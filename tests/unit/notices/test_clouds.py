"""What five clouds say, asked as they want to be asked, and what becomes of all else."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_kube.notices import Notice
from et_notices.asking import consult
from et_notices.choosing import CLOUDS, find_cloud
from et_notices.clouds import alibaba, aws, azure, gcp, tencent
from et_notices.questions import Answer, Question, Unclear
from fakes.metadata import (
    AlibabaService,
    AwsService,
    AzureService,
    GcpService,
    Service,
    TencentService,
)
from tests.unit.notices.rigs import at, build_ask, write

SERVICES: dict[str, Callable[[], Service]] = {
    "aws": AwsService,
    "gcp": GcpService,
    "azure": AzureService,
    "alibaba": AlibabaService,
    "tencent": TencentService,
}
GOOGLE = {"metadata-flavor": "Google"}


async def hear(name: str, service: Service) -> tuple[Notice, ...]:
    return await consult(CLOUDS[name](), build_ask(service))


@pytest.mark.parametrize("name", CLOUDS)
async def test_an_instance_that_stays_is_said_nothing_of(name: str):
    assert await hear(name, SERVICES[name]()) == ()


@pytest.mark.parametrize(
    ("provider_id", "name"),
    [
        ("aws:///eu-west-1a/i-0123456789abcdef0", "aws"),
        ("gce://project/europe-west1-b/gke-pool-1", "gcp"),
        ("azure:///subscriptions/x/virtualMachineScaleSets/pool/virtualMachines/7", "azure"),
        ("cn-hangzhou.i-bp11bzoz5i20y3r0g", "alibaba"),
        ("alicloud://ap-southeast-1.i-t4n1", "alibaba"),
        ("qcloud:///100003/ins-3ven36lk", "tencent"),
        ("tencentcloud:///ap-guangzhou-3/ins-3ven36lk", "tencent"),
        ("", ""),
        ("kind://docker/kind/kind-control-plane", ""),
        ("cn-hangzhou.node-7", ""),
        ("openstack:///9f0b", ""),
    ],
)
def test_a_node_is_in_the_cloud_of_its_provider_id(provider_id: str, name: str):
    assert find_cloud(provider_id) == name


@pytest.mark.parametrize("action", ["terminate", "stop", "hibernate"])
async def test_aws_takes_a_spot_instance_back(action: str):
    service = AwsService()
    service.advise(write(at(-60)))
    service.take_back(write(at(120)), action)
    [notice] = await hear("aws", service)
    assert (notice.is_firm, notice.deadline, notice.reason) == (True, at(120), aws.ENDS[action])
    assert not any("rebalance" in what for what in service.asked), "nobody asks for advice then"


async def test_aws_advises_to_leave():
    service = AwsService()
    service.advise(write(at(-60)))
    [notice] = await hear("aws", service)
    assert (notice.is_firm, notice.deadline) == (False, at(-60))


@pytest.mark.parametrize("name", ["aws", "alibaba"])
async def test_a_token_is_kept_while_it_is_taken_and_fetched_anew_when_it_has_run_out(name: str):
    seconds = [0.0]
    service = {"aws": AwsService, "alibaba": AlibabaService}[name](lambda: seconds[0])
    cloud, ask = CLOUDS[name](), build_ask(service)
    for seconds[0] in (0.0, 5.0, 21599.0):
        assert await consult(cloud, ask) == ()
    assert len(service.tokens) == 1
    seconds[0] = 21600.0
    assert await consult(cloud, ask) == ()
    assert len(service.tokens) == 2


@pytest.mark.parametrize("name", ["aws", "alibaba"])
async def test_who_refuses_every_token_is_asked_for_two_and_no_more(name: str):
    service = {"aws": AwsService, "alibaba": AlibabaService}[name](lambda: 0.0)
    service._now = lambda: float("inf")  # type: ignore[method-assign]
    with pytest.raises(Unclear, match="401, with a token that was just given"):
        await hear(name, service)
    assert len(service.tokens) == 2


@pytest.mark.parametrize("token", ["", "a b", "a\r\nX-Evil: 1", "é", "x" * 5000])
async def test_a_token_that_is_no_header_is_not_sent(token: str):
    asking = aws.Aws().ask()
    next(asking)
    with pytest.raises(Unclear, match="token"):
        asking.send(Answer(200, token.encode()))


async def test_google_takes_an_instance_back_in_30_seconds_from_when_it_is_seen():
    service = GcpService()
    service.take_back()
    [notice] = await hear("gcp", service)
    assert (notice.is_firm, notice.deadline, notice.lead) == (True, None, timedelta(seconds=30))


async def test_of_googles_maintenance_a_stop_ends_it_and_a_migration_does_not():
    service = GcpService()
    service.maintenance = "MIGRATE_ON_HOST_MAINTENANCE"
    assert await hear("gcp", service) == ()
    service.maintenance = "TERMINATE_ON_HOST_MAINTENANCE"
    [notice] = await hear("gcp", service)
    assert (notice.is_firm, notice.reason) == (True, gcp.STOPPED)


def test_google_is_asked_to_wait_for_another_etag_than_the_last_one():
    cloud = gcp.Gcp()
    for etag, query in [("65c1", ""), ("9&x=1", "last_etag=65c1"), ("", "")]:
        asking = cloud.ask()
        question = next(asking)
        assert question.path.partition("?")[2].endswith(query)
        assert ("wait_for_change" in question.path) == bool(query)
        asking.send(Answer(200, b"FALSE", {**GOOGLE, "etag": etag}))


def test_an_answer_without_googles_header_is_somebody_elses():
    with pytest.raises(Unclear, match="not of Google"):
        gcp.read_preempted(Answer(200, b"TRUE"))


@pytest.mark.parametrize("kind", azure.ENDS)
async def test_an_azure_event_of_this_machine_ends_it(kind: str):
    service = AzureService("pool_7")
    service.plan(kind, "POOL_7", "Thu, 01 Jan 2026 00:15:00 GMT")
    [notice] = await hear("azure", service)
    assert (notice.is_firm, notice.deadline, notice.reason) == (True, at(900), azure.ENDS[kind])


async def test_a_freeze_another_machine_and_an_unknown_event_end_nothing():
    service = AzureService("pool_7")
    service.plan("Freeze", "pool_7", "Thu, 01 Jan 2026 00:15:00 GMT")
    service.plan("Preempt", "pool_77", "Thu, 01 Jan 2026 00:15:00 GMT")
    service.plan("Celebrate", "pool_7", "Thu, 01 Jan 2026 00:15:00 GMT")
    assert await hear("azure", service) == ()


@pytest.mark.parametrize(("moment", "status"), [("", "Scheduled"), ("whenever", "Started")])
async def test_an_azure_event_that_has_begun_ends_it_at_once(moment: str, status: str):
    service = AzureService("pool_7")
    service.plan("Reboot", "pool_7", moment, status)
    [notice] = await hear("azure", service)
    assert (notice.deadline, notice.lead) == (None, None)


async def test_an_event_that_is_not_understood_hides_none_that_is():
    service = AzureService("pool_7")
    service.plan("Reboot", "pool_7", "whenever")
    with pytest.raises(Unclear, match="whenever"):
        await hear("azure", service)
    service.plan("Preempt", "pool_7", "2026-01-01T00:00:30Z")
    service.events.append(7)
    [notice] = await hear("azure", service)
    assert notice.deadline == at(30)


async def test_azure_has_two_minutes_for_the_first_list_and_is_asked_for_the_name_once():
    cloud, service = azure.Azure(), AzureService()
    patience = []
    ask = build_ask(service)

    async def note(question: Question) -> Answer:
        patience.append(question.patience.total_seconds())
        return await ask(question)

    await consult(cloud, note)
    await consult(cloud, note)
    assert patience == [3, 130, 3]


async def test_alibaba_says_it_in_utc_and_tencent_in_beijings_time():
    ours = AlibabaService()
    ours.take_back("2026-01-01T00:05:00Z")
    [notice] = await hear("alibaba", ours)
    assert (notice.deadline, notice.reason) == (at(300), alibaba.TAKEN)
    theirs = TencentService()
    theirs.moment = "2026-01-01 08:02:00"
    [notice] = await hear("tencent", theirs)
    assert (notice.deadline, notice.reason) == (at(120), tencent.TAKEN)


READERS: dict[str, Callable[[Answer], tuple[Notice, ...]]] = {
    "aws action": aws.read_action,
    "aws advice": aws.read_advice,
    "gcp preempted": gcp.read_preempted,
    "gcp maintenance": gcp.read_maintenance,
    "azure": lambda answer: azure.read_events(answer, "pool_7"),
    "alibaba": alibaba.read_moment,
    "tencent": tencent.read_moment,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize(
    "answer",
    [
        Answer(500, b"oops", GOOGLE),
        Answer(302, b"", {**GOOGLE, "location": "http://evil/"}),
        Answer(403, b"", GOOGLE),
        Answer(200, b"<html>log in</html>", GOOGLE),
        Answer(200, b"\xff\xfe\x00", GOOGLE),
        Answer(200, b"[" * 10000, GOOGLE),
        Answer(200, b'{"action": {}, "time": [], "Events": {"a": 1}}', GOOGLE),
        Answer(200, b"2026-13-45T99:00:00Z", GOOGLE),
    ],
    ids=lambda answer: f"{answer.status} {answer.body[:12]!r}",
)
def test_what_is_not_understood_neither_ends_a_node_nor_keeps_it(read: Any, answer: Answer):
    with pytest.raises(Unclear) as caught:
        read(answer)
    assert len(str(caught.value)) < 200


@pytest.mark.long
@given(
    st.sampled_from(sorted(READERS)),
    st.integers(100, 599),
    st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=20)),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3),
                st.dictionaries(
                    st.sampled_from(
                        ["action", "time", "noticeTime", "Events", "EventType", "Resources"]
                    ),
                    inner,
                    max_size=3,
                ),
            ),
            max_leaves=8,
        ).map(lambda value: json.dumps(value).encode()),
    ),
)
def test_nothing_that_a_service_answers_raises_anything_else(name: str, status: int, body: bytes):
    try:
        found = READERS[name](Answer(status, body, GOOGLE))
    except Unclear:
        return
    assert all(isinstance(one, Notice) for one in found)
