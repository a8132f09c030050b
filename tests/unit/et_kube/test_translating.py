from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Expired,
    NotFound,
    OutcomeUnknown,
    Refused,
    ServerFailed,
    Throttled,
    Truncated,
    Unauthorized,
    Unreachable,
)
from et_kube.translating import translate_answer, translate_status, translated


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (400, "BadRequest", Refused),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Refused),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Expired),
        (422, "Invalid", Refused),
        (429, "TooManyRequests", Throttled),
        (500, "InternalError", ServerFailed),
        (504, "Timeout", ServerFailed),
        (302, "", Refused),
    ],
)
def test_a_status_tells_what_to_do(status: int, reason: str, kind: type[ApiError]):
    body = json.dumps({"kind": "Status", "reason": reason, "message": "words"}).encode()
    error = translate_answer(status, body)
    assert type(error) is kind
    assert (error.status, error.reason, error.message) == (status, reason, "words")


POD = "/api/v1/namespaces/team/pods/train-worker-1"
JOB = "/apis/kai.alibabacloud.com/v1alpha1/namespaces/team/trainingjobs/train"


@pytest.mark.parametrize(
    ("path", "details"),
    [
        (POD, {"kind": "pods", "name": "train-worker-1"}),
        (f"/k8s/clusters/c1{POD}", {"kind": "pods", "name": "train-worker-1"}),
        (f"{POD}/exec", {"kind": "pods", "name": "train-worker-1"}),
        (f"{POD}/log", {"kind": "pods/log", "name": "train-worker-1"}),
        (JOB, {"kind": "trainingjobs", "group": "kai.alibabacloud.com", "name": "train"}),
        ("/api/v1/namespaces/team/pods", {"kind": "namespaces", "name": "team"}),
    ],
)
def test_what_the_server_says_of_this_very_object_is_gone(path: str, details: object):
    body = json.dumps({"reason": "NotFound", "message": "words", "details": details}).encode()
    assert type(translate_answer(404, body, path=path)) is NotFound


@pytest.mark.parametrize(
    "body",
    [
        b"404 page not found",
        b"<html><body>default backend - 404</body></html>",
        b"{}",
        b"",
        b'{"reason": "NotFound", "message": "could not find the requested resource"}',
        b'{"reason": "NotFound", "details": {}}',
        b'{"reason": "NotFound", "details": []}',
        b'{"reason": "NotFound", "details": {"kind": "pods", "name": "train-worker-2"}}',
        b'{"reason": "NotFound", "details": {"kind": "secrets", "name": "train-worker-1"}}',
        b'{"reason": "", "details": {"kind": "pods", "name": "train-worker-1"}}',
    ],
)
def test_any_other_404_says_nothing_of_it(body: bytes):
    assert type(translate_answer(404, body, path=POD)) is ServerFailed


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422, 429])
@pytest.mark.parametrize(
    "words",
    [
        'admission webhook "pool.example.com" denied the request: no room',
        'admission webhook "pool.example.com" denied the request without explanation',
        "it is forbidden: ValidatingAdmissionPolicy 'a' with binding 'b' denied request: no",
    ],
)
def test_who_denies_a_request_refuses_it_whatever_status_he_chose(status: int, words: str):
    body = json.dumps({"message": words, "details": {"retryAfterSeconds": 5}}).encode()
    error = translate_answer(status, body)
    assert (type(error), error.message) == (Refused, words)


def test_another_object_under_the_same_name_is_a_conflict_though_the_server_says_invalid():
    details = {"causes": [{"field": "metadata.uid", "message": "field is immutable"}]}
    body = json.dumps({"reason": "Invalid", "details": details}).encode()
    assert type(translate_answer(422, body)) is Conflict


@pytest.mark.parametrize(
    ("body", "header", "delay"),
    [
        (b"slow down", "7", timedelta(seconds=7)),
        (b'{"details": {"retryAfterSeconds": 3}}', "", timedelta(seconds=3)),
        (b'{"details": {"retryAfterSeconds": 3}}', "7", timedelta(seconds=7)),
        (b"", "Wed, 21 Oct 2026 07:28:00 GMT", None),
        (b'{"details": {"retryAfterSeconds": "soon"}}', "", None),
        (b"", "999999999999", timedelta(minutes=1)),
        (b"", "", None),
    ],
)
def test_the_wait_that_was_asked_for_is_known(body: bytes, header: str, delay: timedelta | None):
    assert translate_answer(429, body, {"Retry-After": header}).retry_after == delay


@pytest.mark.long
@given(
    status=st.integers(300, 599),
    body=st.one_of(
        st.binary(max_size=50),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["details", "causes", "retryAfterSeconds", "message"]), inner
                )
            ),
            max_leaves=8,
        ).map(lambda value: json.dumps(value).encode()),
    ),
)
def test_no_answer_is_too_odd_to_be_translated(status: int, body: bytes):
    assert isinstance(translate_answer(status, body), ApiError)


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (aiohttp.ConnectionTimeoutError("slow"), Unreachable),
        (aiohttp.SocketTimeoutError("silent"), OutcomeUnknown),
        (TimeoutError(), OutcomeUnknown),
        (aiohttp.ServerDisconnectedError(), OutcomeUnknown),
        (aiohttp.ClientPayloadError("cut"), Truncated),
        (aiohttp.ClientOSError(104, "reset"), OutcomeUnknown),
        (ConnectionResetError("reset"), OutcomeUnknown),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else type(value).__name__,
)
def test_only_a_failure_to_connect_proves_that_nothing_happened(
    raised: Exception, kind: type[Exception]
):
    with pytest.raises(kind, match="create pods"), translated("create pods"):
        raise raised


async def test_a_proxys_password_is_in_no_error():
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        proxy = f"http://me:hidden@127.0.0.1:{port}"
        with pytest.raises(OutcomeUnknown, match="407 Who are you") as caught, translated("get"):
            async with aiohttp.ClientSession() as session:
                await session.get("https://127.0.0.1:1", proxy=proxy)
    assert "hidden" not in str(caught.value)


def test_every_error_of_the_client_library_is_translated():
    kinds = [
        kind
        for kind in vars(aiohttp).values()
        if isinstance(kind, type) and issubclass(kind, aiohttp.ClientError)
    ]
    assert len(kinds) > 10
    for kind in kinds:
        with pytest.raises((Unreachable, OutcomeUnknown)), translated("get"):
            raise make_error(kind)


def make_error(kind: type[Exception]) -> Exception:
    class Bare(kind):  # type: ignore[valid-type,misc]
        status, message = 0, "bare"

        def __init__(self) -> None:
            Exception.__init__(self)

        def __str__(self) -> str:
            return "bare"

    return Bare()


@pytest.mark.parametrize(
    "message",
    [
        "etcdserver: request is too large",
        "ResourceExhausted desc = trying to send message larger than max (3 vs. 2)",
    ],
)
def test_what_cannot_be_stored_for_its_size_is_refused_though_the_server_calls_it_its_own_fault(
    message: str,
):
    error = translate_status(500, {"message": message})
    assert isinstance(error, Refused)
    assert message in str(error)
