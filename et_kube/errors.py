"""Everything that can go wrong, by what the caller should do about it.

KubeError
    InvalidObject         an object of ours cannot be used: a condition and an Event on it, no retry
    ApiError              the API server answered with an error
        NotFound          404 of this very object: it is gone, or was never there
        AlreadyExists     409 on create: a name is held
        Conflict          409 on update or delete: we planned from an old version; look again
        Expired           410: the resourceVersion of a list or watch is too old; list again
        Refused           400, 403, 413, 422: the server does not want this; show its words
        Unauthorized      401: the server does not know us; with another token it may, or later
        Throttled         429: later, after `retry_after`
        ServerFailed      5xx, or a 404 that names nothing of what was asked for: later
    Unreachable           no answer; the request was certainly not processed
    OutcomeUnknown        no answer; a write may have happened: read before the next one
        Unreadable        an answer that cannot be read, or is too large
    NotLeader             the lease has run out: nothing may be written
    StreamEnded           an exec stream is over: open another one
"""

from __future__ import annotations

from datetime import timedelta


class KubeError(Exception):
    """Base of all errors raised by this project."""


class InvalidObject(KubeError):  # noqa: N818 (names say what is so, as in kube API reasons)
    """An object that its author must change.

    Args:
        path: the field, as in `spec.etReplicaSpecs.worker.replicas`.
        message: what is wrong and what to change, a whole sentence.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


class ApiError(KubeError):
    """The API server's answer to a failed request, in its own words.

    Args:
        status: HTTP status code.
        reason: machine-readable reason of the Status object ("" if there was none).
        message: its message, for people.
        retry_after: what the server asked to wait, if it did.
    """

    def __init__(
        self, status: int, reason: str, message: str, retry_after: timedelta | None = None
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


class NotFound(ApiError):  # noqa: N818
    """404, and the server names what is not there: the object, or its namespace."""


class AlreadyExists(ApiError):  # noqa: N818
    """409 with reason AlreadyExists."""


class Conflict(ApiError):  # noqa: N818
    """409 otherwise: the resourceVersion or uid that was given is not the current one."""


class Expired(ApiError):  # noqa: N818
    """410, or an ERROR event with code 410 in a watch."""


class Refused(ApiError):  # noqa: N818
    """400, 403, 405, 413, 415, 422: asking again with the same body will not help.

    So is a 500 that says that the object is too large to be stored.
    """


class Unauthorized(ApiError):  # noqa: N818
    """401: it says nothing about what was asked, only that nobody knows who asked."""


class Throttled(ApiError):  # noqa: N818
    """429."""


class ServerFailed(ApiError):  # noqa: N818
    """500 and above, or a 404 of a proxy, or of a server that does not know the kind (yet)."""


class Unreachable(KubeError):  # noqa: N818
    """The request was not processed: no connection could be made."""


class OutcomeUnknown(KubeError):  # noqa: N818
    """The connection ended after the request was sent: a write may or may not have happened."""


class Truncated(OutcomeUnknown):
    """The answer had begun when its connection was ended: not one that has come to say nothing."""


class Unreadable(OutcomeUnknown):
    """An answer came that is larger than any should be, or that is not what was asked for.

    What it was about must be read in another way: of a watch, by a list.
    """


class NotLeader(KubeError):  # noqa: N818
    """The lease is not ours (any more); the write was not sent."""


class StreamEnded(KubeError):  # noqa: N818
    """An exec stream is over; nothing more can be sent or received.

    Args:
        reason: why, as far as anybody said.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
