"""What the server or the network says, as errors that say what to do; the only place that decides.

The one question that matters after a failed write is whether it may have happened. Only a failure
to connect proves that it has not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from typing import Any

import aiohttp

from et_contract.texts import clean, parse_json
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

MAX_STATUS = 2**17
MAX_MESSAGE = 1024
MAX_REASON = 64
_SECONDS = re.compile("[0-9]{1,18}")
_DENIAL = re.compile("denied (the )?request")
"""What the server says of each webhook and policy that refuses, whose own choice the status code is
(k8s.io/apiserver, pkg/admission/plugin/webhook/errors and plugin/policy/validating)."""
_TOO_LARGE = re.compile("request is too large|message larger than max")
"""What etcd, and its client, say of an object that is too large: the server passes it on as a 500
(etcd, api/v3rpc/rpctypes/error.go; grpc-go, rpc_util.go)."""
MAX_DELAY = 60
"""Seconds; whoever asks for more will say so again. A job, or a kind, must not rest for an hour
because something between us and the server once said so."""

BY_STATUS: Mapping[int, type[ApiError]] = {
    401: Unauthorized,
    404: NotFound,
    409: Conflict,
    410: Expired,
    429: Throttled,
}


def translate_answer(
    status: int, body: bytes, headers: Mapping[str, str] | None = None, path: str = ""
) -> ApiError:
    """The error in an answer whose status is not 2xx, whatever its body looks like.

    `path` is that of the request: see `names_missing`.
    """
    retry_after = (headers or {}).get("Retry-After", "")
    return translate_status(status, decode_status(body), retry_after, path)


def translate_status(
    status: int, content: Mapping[str, Any], retry_after: str = "", path: str = ""
) -> ApiError:
    """The error for a Kubernetes Status object (or for {"message": ...} where there is none)."""
    reason = clean(content.get("reason"), MAX_REASON)
    message = clean(content.get("message"), MAX_MESSAGE) or "no message"
    kind = BY_STATUS.get(status, ServerFailed if status >= 500 else Refused)  # noqa: PLR2004 (HTTP)
    if kind is NotFound and not names_missing(content, path):
        kind = ServerFailed
    if kind is Conflict and reason == "AlreadyExists":
        kind = AlreadyExists
    if names_uid(content):
        kind = Conflict
    is_denied = status < 500 and _DENIAL.search(message)  # noqa: PLR2004 (HTTP)
    if is_denied or (kind is ServerFailed and _TOO_LARGE.search(message)):
        kind = Refused
    return kind(status, reason, message, find_delay(content, retry_after))


def names_missing(content: Mapping[str, Any], path: str) -> bool:
    """Whether the server says that an object which the path names is not there.

    Any other 404 says nothing of it: a proxy's page, a server that has just started, or does not
    know the kind. What is gone is gone for good, so nobody may be believed too easily.
    """
    details = content.get("details")
    if content.get("reason") != "NotFound" or not isinstance(details, dict):
        return False
    plural, name = str(details.get("kind")).partition("/")[0], str(details.get("name"))
    return (plural, name) in pairwise(path.split("/"))


def names_uid(content: Mapping[str, Any]) -> bool:
    """Whether the fault is metadata.uid: a patch for an object that is now another one gets 422."""
    details = content.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    if not isinstance(causes, list):
        return False
    fields = (cause.get("field") for cause in causes if isinstance(cause, dict))
    return "metadata.uid" in fields


def decode_status(body: bytes) -> Mapping[str, Any]:
    """The Status object; proxies and overloaded servers answer plain text or nothing instead."""
    try:
        content = parse_json(body, MAX_STATUS)
    except ValueError:
        content = None
    if isinstance(content, dict):
        return content
    return {"message": body.decode(errors="replace").strip()}


def find_delay(content: Mapping[str, Any], header: str) -> timedelta | None:
    """What the server asked to wait: the header's seconds, else those of the Status details."""
    details = content.get("details")
    seconds = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    if _SECONDS.fullmatch(header.strip()):
        seconds = int(header)
    if type(seconds) is not int or seconds <= 0:
        return None
    return timedelta(seconds=min(seconds, MAX_DELAY))


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn the network errors of aiohttp inside into Unreachable, OutcomeUnknown or Truncated.

    Args:
        what: the request in words, for the message.
    """
    try:
        yield
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise Unreachable(f"{what}: {error or 'no connection in time'}") from error
    except aiohttp.ClientPayloadError as error:
        raise Truncated(f"{what}: {error}") from error
    except TimeoutError as error:
        raise OutcomeUnknown(f"{what}: no answer in time") from error
    except (aiohttp.ClientError, OSError) as error:
        raise OutcomeUnknown(f"{what}: {explain(error)}") from error


def explain(error: Exception) -> str:
    """What the network said; of an answer without its address, in which a proxy's password is."""
    if isinstance(error, aiohttp.ClientResponseError):
        return f"{error.status} {error.message}"
    return str(error) or type(error).__name__
