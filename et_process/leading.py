"""Being the one replica that acts.

The assembly of a program hands in its term, which is cancelled and awaited when the lease is lost
(et_kube/leasing.py). Standing by is no error: this never returns.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

import structlog

from et_kube.api import Api
from et_kube.clock import Clock
from et_kube.errors import NotLeader
from et_kube.leasing import Lease
from et_process.settings import ProcessSettings

log = structlog.get_logger()


def build_lease(api: Api, clock: Clock, settings: ProcessSettings) -> Lease:
    """The lease that these settings name."""
    return Lease(
        api,
        clock,
        namespace=settings.own_namespace,
        name=settings.lease_name,
        identity=settings.identity,
        duration=settings.lease_duration,
        renew_deadline=settings.renew_deadline,
        retry_period=settings.retry_period,
    )


async def lead_again_and_again(
    lease: Lease, term: Callable[[], Coroutine[Any, Any, None]]
) -> NoReturn:
    """Run `term` whenever the lease is ours, until it is not; wait for it again then."""
    while True:
        try:
            await lease.lead(term)
        except NotLeader as error:
            log.warning("no longer the leader", reason=str(error))
