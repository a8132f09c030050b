"""What goes wrong, as one sentence for the person who typed the command.

Here alone an answer of the server becomes words for a user. Nothing is asked: what to type next is
told from the error itself.
"""

from __future__ import annotations

import re

from et_kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Expired,
    KubeError,
    NotFound,
    OutcomeUnknown,
    Refused,
    ServerFailed,
    Throttled,
    Unauthorized,
    Unreachable,
)
from et_kube.resources import GROUP, TRAINING_JOBS

REFUSALS = (AlreadyExists, Conflict, NotFound, Refused, Throttled, Unauthorized)
"""After these nothing was written."""
FORBIDDEN = 403
NOT_FOUND = 404
_INVALID = re.compile(r'^\S+ "[^"]*" is invalid: ')
_VALUE = re.compile(
    r'^(?:<nil>: )?|(?<=: )Invalid value: (?:(?:"(?:[^"\\]|\\.)*"|-?[\d.]+|null|true|false): )?'
)
_BRACKETS = re.compile(r"^\[(.*)\]$", re.DOTALL)
_NEXT = re.compile(r", (?=(?:spec|metadata|status|<nil>)[.\[:<])")
_TAKEN_JOB = re.compile(rf'^{TRAINING_JOBS.plural} "([^"]*)" already exists')
_NAMESPACE = re.compile(r'\bnamespaces? "([^"]+)" not found')
_UNKNOWN_KIND = "could not find the requested resource"


class EtError(Exception):
    """The command cannot be done; the message is a sentence that says what to change."""


def explain(error: KubeError) -> str:
    """The error of a request in words for a user; several complaints are lines of their own."""
    if isinstance(error, ApiError) and error.status == NOT_FOUND:
        return _explain_missing(error)
    if isinstance(error, AlreadyExists):
        return _explain_taken(_name(error.message))
    if isinstance(error, (Refused, Unauthorized)):
        return _explain_refusal(error)
    if isinstance(error, (Throttled, ServerFailed, Expired)):
        return f"the API server cannot answer now ({error.status}): {error.message}; try again"
    if isinstance(error, ApiError):
        return error.message
    if isinstance(error, Unreachable):
        return f"the cluster cannot be reached: {error}"
    if isinstance(error, OutcomeUnknown):
        return f"the API server has not answered: {error}; look before you try again"
    return str(error)


def _explain_missing(error: ApiError) -> str:
    if _UNKNOWN_KIND in error.message or error.message.startswith("404 page not found"):
        return (
            f"this cluster does not know {GROUP}: the operator is not installed on it "
            "(kubectl apply --server-side -k deploy)"
        )
    namespace = _NAMESPACE.search(error.message)
    if namespace is not None:
        return (
            f"there is no namespace {namespace[1]!r}: name another with -n, "
            f"or create it (kubectl create namespace {namespace[1]})"
        )
    return f"{_name(error.message)}; `et list -A` shows the jobs there are"


def _explain_taken(message: str) -> str:
    found = _TAKEN_JOB.match(message)
    delete = f"`et delete {found[1]}` first" if found else "delete that one"
    return f"{message}: choose another name, or {delete}"


def _explain_refusal(error: Refused | Unauthorized) -> str:
    if isinstance(error, Unauthorized):
        return "the API server does not know you: log in again, or choose another --context"
    if error.status == FORBIDDEN:
        return f"you may not do this: {_name(error.message)}"
    found = _INVALID.match(error.message)
    if found is None:
        return f"the API server refuses this: {error.message}"
    causes = _NEXT.split(_BRACKETS.sub(r"\1", error.message[found.end() :]))
    return "\n  ".join(["the API server refuses this:", *map(_tidy, dict.fromkeys(causes))])


def _tidy(cause: str) -> str:
    """A cause without the value that the server puts before its words, be it a whole object."""
    return _VALUE.sub("", cause)


def _name(message: str) -> str:
    """`trainingjobs.kai.alibabacloud.com "x" not found` without the group."""
    return message.replace(f".{GROUP}", "")
