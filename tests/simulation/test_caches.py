"""What the operator believes is old, or of different ages: lives end as they do without that."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from et_kube.resources import PODS, SCALE_INS, SCALE_OUTS, TRAINING_JOBS, Resource
from et_kube.translating import translate_answer
from et_operator.assembly import WATCHED
from fakes.clients import Call, Moment
from tests.makers import make_scale_in, make_scale_out
from tests.simulation.conftest import choose
from tests.simulation.faults import Crash, Strike
from tests.simulation.invariants import OPERATOR
from tests.simulation.lives import LIVES, scale, start
from tests.simulation.test_faults import list_own_attempts, live_undisturbed
from tests.simulation.worlds import MANY, SimulatedWorld

KINDS = tuple(WATCHED)
COST = 2
"""So many times the writes of an undisturbed life, at most."""
LAGS = (1, 3, MANY)
"""Events by which a watch lags behind until everything else has come to rest."""


@pytest.mark.parametrize("name", LIVES)
async def test_a_kind_that_lags_behind_changes_nothing_in_the_end(name: str):
    for kind in choose(name, KINDS):
        for lag in choose((name, kind), LAGS, part=True):
            await live_with(name, {kind: lag})


@pytest.mark.parametrize("name", LIVES)
async def test_events_that_come_late_and_kind_by_kind_change_nothing_in_the_end(name: str):
    for first in choose(name, range(len(KINDS))):
        order = (*KINDS[first:], *KINDS[:first])
        for kinds in choose((name, first), (order, order[::-1]), part=True):
            await live_with(name, dict.fromkeys(kinds, MANY))


async def live_with(name: str, lags: dict[Resource, int]) -> None:
    undisturbed = await live_undisturbed(name)
    async with SimulatedWorld() as world:
        world.operators[0].stalled.update(lags)
        await LIVES[name](world)
        assert world.summarise() == undisturbed.end
        assert len(world.log.list_writes(OPERATOR)) <= COST * undisturbed.writes


class Handover(Strike):
    """A leader takes over at the n-th write, which its lists surround; it has seen no event since.

    One kind was listed before each of the last writes of the leader before it, which is more than
    can be where leases are kept: that one wrote on although it had lost its lease.
    """

    def __init__(self, world: SimulatedWorld, number: int, order: Sequence[Resource]) -> None:
        super().__init__(number, "crash before")
        self._world = world
        self._order = order
        self._writes = 0

    def __call__(self, call: Call, moment: Moment) -> None:
        if not call.is_write or call.user != OPERATOR or moment is not Moment.BEFORE:
            return
        self._writes += 1
        place = self._writes - 1 - self.number + len(self._order)
        if self.has_struck or place < 0:
            return
        world = self._world
        if world.successor is None:
            world.successor = world.build_operator()
        if self._writes < self.number:
            world.successor.receive(self._order[place])
            return
        self.has_struck = True
        for resource in self._order:
            if not world.successor.is_synced:
                world.successor.receive(resource)
        world.successor.stalled.update(dict.fromkeys(KINDS, MANY))
        raise Crash


@pytest.mark.parametrize(
    ("name", "order"),
    [(name, order) for name in LIVES for order in choose(name, (KINDS, KINDS[::-1]))],
    ids=lambda value: value if isinstance(value, str) else f"{value[0].plural}-first",
)
async def test_a_leader_that_starts_from_lists_of_different_moments_changes_nothing_in_the_end(
    name: str, order: Sequence[Resource]
):
    undisturbed = await live_undisturbed(name)
    for number in choose((name, order[0]), await list_own_attempts(name), part=True):
        async with SimulatedWorld() as world:
            handover = Handover(world, number, order)
            world.log.faults.append(handover)
            await LIVES[name](world)
            assert handover.has_struck
            assert world.summarise() == undisturbed.end
            assert len(world.log.list_writes(OPERATOR)) <= COST * undisturbed.writes


@pytest.mark.parametrize("resource", [TRAINING_JOBS, PODS], ids=lambda kind: kind.plural)
@pytest.mark.parametrize("verb", ["get", "patch", "delete"])
async def test_a_404_of_whoever_is_between_wedges_nothing(resource: Resource, verb: str):
    stray = [translate_answer(404, b"404 page not found")] * 2

    def answer(call: Call, moment: Moment) -> None:
        is_it = (call.user, call.ref.resource, call.verb) == (OPERATOR, resource, verb)
        if is_it and moment is Moment.BEFORE and stray:
            raise stray.pop()

    async with SimulatedWorld() as world:
        await start(world, workers=3)
        world.log.faults.append(answer)
        assert await scale(world, SCALE_INS, make_scale_in("less", count=1)) == "ScaleSucceeded"
        assert await scale(world, SCALE_OUTS, make_scale_out("more", count=2)) == "ScaleSucceeded"
        assert len(world.workers()) == 4
