"""What is asked again while the server cannot answer: by tenacity, on a clock of ours.

Reads, and of writes, whose outcome may be unknown, only those that may be done twice. This is for
one request that is made again, evenly, until a time is over. Whoever counts failures from one pass
or round to the next (watches, the work queue, et-scheduler, et-notices), tries without end, or must
start fast (the broker, for which a user waits) has a loop of his own, most by Backoff.
"""

from __future__ import annotations

from datetime import timedelta

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_fixed

from et_kube.clock import Clock
from et_kube.errors import Expired, OutcomeUnknown, ServerFailed, Throttled, Unreachable

TRANSIENT = (Unreachable, OutcomeUnknown, ServerFailed, Throttled, Expired)
"""Errors that another try may not meet."""


def ask_again(clock: Clock, every: timedelta, limit: timedelta) -> AsyncRetrying:
    """To be called with a request: asks again after TRANSIENT errors, for `limit` from the first.

    After that, and for any other error, it raises what the request raised.
    """
    began = clock.monotonic()

    async def sleep(seconds: float) -> None:
        await clock.sleep(timedelta(seconds=seconds))

    def is_over(_: RetryCallState) -> bool:
        return clock.monotonic() - began >= limit.total_seconds()

    return AsyncRetrying(
        sleep=sleep,
        stop=is_over,
        wait=wait_fixed(every),
        retry=retry_if_exception_type(TRANSIENT),
        reraise=True,
    )
