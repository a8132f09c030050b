"""Objects as they change, from a watch: whoever waits hears of each change when it happens.

Only reads, one object. Where no watch can tell, waiting.py asks each second instead; a server that
says nothing for minutes ends it, whatever is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

from et.clusters import Cluster, get_meta
from et.errors import EtError
from et_kube.racing import run_unless, run_within
from et_kube.resources import Json, Ref
from et_kube.retrying import ask_again
from et_kube.watching import Cut, Deleted, Reflector, Resumed, Sighting, Synced, Upserted

LOOK = timedelta(seconds=30)
AGAIN = timedelta(seconds=2)
"""How long after a first read that met a transient error the next one is tried."""
GIVE_UP = timedelta(minutes=5)
"""How long a server may say nothing. It sends a bookmark each minute, if nothing else."""

See = Callable[[Json | None], bool]
"""Told of an object, None once it is gone; True: enough was seen."""


async def follow(cluster: Cluster, ref: Ref, see: See) -> None:
    """Tell `see` of the object now and after each change, until it has seen enough.

    Whoever follows an object has met the server before: it is asked again if it fails at first.

    Raises:
        NotFound, Refused: at once, if it cannot be read.
        EtError, or what the first read raised: the server has said nothing for five minutes.
    """
    first: Json = await ask_again(cluster.clock, AGAIN, GIVE_UP)(cluster.api.get, ref)
    if see(first):
        return
    sightings: asyncio.Queue[Sighting] = asyncio.Queue()
    reflector = Reflector(
        cluster.api,
        cluster.clock,
        ref.resource,
        ref.namespace,
        sightings.put_nowait,
        field_selector=f"metadata.name={ref.name}",
    )
    work = run_unless(reflector.run(), _consume(sightings, get_meta(first, "uid"), see))
    await run_unless(_watch_contact(cluster, reflector), work)


async def follow_within(cluster: Cluster, ref: Ref, see: See, limit: timedelta) -> None:
    """As `follow`, for so long; TimeoutError after it."""
    await run_within(cluster.clock, limit, follow(cluster, ref, see))


async def _consume(sightings: asyncio.Queue[Sighting], uid: str, see: See) -> None:
    while True:
        sighting = await sightings.get()
        if isinstance(sighting, Cut | Resumed):
            continue
        found = _find_object(sighting)
        is_same = found is not None and get_meta(found, "uid") == uid
        if see(found if is_same else None) or not is_same:
            return


def _find_object(sighting: Synced | Upserted | Deleted) -> Json | None:
    if isinstance(sighting, Synced):
        return sighting.items[0] if sighting.items else None
    return None if isinstance(sighting, Deleted) else sighting.object


async def _watch_contact(cluster: Cluster, reflector: Reflector) -> None:
    """Ends, with an error, when the server has been silent for too long."""
    began = cluster.clock.monotonic()
    while True:
        await cluster.clock.sleep(LOOK)
        heard = reflector.last_contact or began
        if cluster.clock.monotonic() - heard > GIVE_UP.total_seconds():
            minutes = GIVE_UP.total_seconds() / 60
            raise EtError(f"the API server has said nothing for {minutes:.0f} minutes")
