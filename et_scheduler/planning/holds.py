"""Nodes that are held for those who wait: who keeps off them, and where pods are told to look.

A part of the draft: seating.py restores them, reserving.py and starting.py change them, and
passing.py writes them into admissions. Who is to hold something is decided by those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from et_contract.admissions import Placement
from et_scheduler.planning.matching import Mask
from et_scheduler.planning.rooms import Room
from et_scheduler.planning.standings import Standing

MOST_ONLY = 200
"""With more names than that `only` is left out of a placement, and `avoid` is cut."""


@dataclass(slots=True)
class Hold:
    """Nodes that are reserved for one who waits; `is_open`: others may start there for now."""

    standing: Standing
    places: list[int]
    is_open: bool


class Holds:
    """Who holds which, `by_uid`. `told` is what sentences say of that, by who reads them.

    `rank`: whose reservation yields to whose; `is_open`: whether others may start for now on what
    one holds. Who was told by `late_since` that room comes has waited for it for too long.
    """

    def __init__(
        self,
        room: Room,
        rank: Callable[[Standing], tuple[int, int]],
        is_open: Callable[[Standing], bool],
        late_since: int,
    ) -> None:
        self._room, self._rank, self._late_since = room, rank, late_since
        self._is_open = is_open
        self.by_uid: dict[str, Hold] = {}
        self._allowed: dict[tuple[tuple[int, int], str, bool], Mask | None] = {}
        self._holders: dict[str, set[str]] = {}
        """By hostname, the uids of those who hold such a node: one table for all who ask."""
        self.told: dict[str, str] = {}

    def reserve(self, standing: Standing, places: Sequence[int]) -> None:
        """The job holds these nodes, and nobody else does any more; without nodes it holds nothing.

        Who held one of them is of lower priority, or it was not to be had. Where others leave seats
        for somebody, the node stays his: they would have gone for nothing.
        """
        mine = set(places) - self.list_promised(standing)
        self.hold(standing, [place for place in places if place in mine])
        for uid, hold in list(self.by_uid.items()):
            if hold.standing is not standing and not mine.isdisjoint(hold.places):
                hold.places = [place for place in hold.places if place not in mine]
            if not hold.places:
                del self.by_uid[uid]

    def move(self, standing: Standing, places: Sequence[int]) -> None:
        """The job holds these nodes, where its room comes, in place of those that it has held.

        Where one of them stays somebody else's, as with `reserve`, it keeps what it holds: it has
        room beside him there, and would hold nothing.
        """
        if standing.job.uid not in self.by_uid or self.list_promised(standing).isdisjoint(places):
            self.reserve(standing, places)

    def hold(self, standing: Standing, places: Sequence[int]) -> None:
        """The job holds these nodes, which nobody else holds."""
        self._forget()
        self.by_uid[standing.job.uid] = Hold(standing, list(places), self._is_open(standing))

    def end(self, standing: Standing) -> None:
        """The job holds nodes no more."""
        if self.by_uid.pop(standing.job.uid, None) is not None:
            self._forget()

    def _forget(self) -> None:
        """What was found of them is asked for by thousands, and holds until one changes."""
        self.told.clear()
        self._allowed.clear()
        self._holders.clear()

    def list_reserved(self, standing: Standing) -> set[int]:
        """Nodes on which this job's launcher and least workers may not be.

        Those that are held for somebody of strictly lower priority are his no more.
        """
        return {place for hold in self._select_above(standing) for place in hold.places}

    def _list_barred(self, standing: Standing) -> set[int]:
        """Nodes where it may not be, but those on which others may start: there no room comes."""
        return {
            place
            for hold in self._select_above(standing)
            if not (hold.is_open and hold.standing.held is None)
            for place in hold.places
        }

    def _select_above(self, standing: Standing) -> list[Hold]:
        mine, holds = self._rank(standing), self.by_uid.values()
        others = (hold for hold in holds if hold.standing is not standing)
        return [hold for hold in others if self._rank(hold.standing) >= mine]

    def list_promised(self, standing: Standing) -> set[int]:
        """Nodes that others hold, and on which room for their seats is or becomes free.

        Of whatever priority they are: who came for these would take more than his own seats. Not
        those for which that has not come for too long, if they are of strictly lower priority.
        """
        mine, found = self._rank(standing), set[int]()
        for hold in self.by_uid.values():
            one = hold.standing
            if one is standing or one.held is None:
                continue
            if not (self._is_late(one) and self._rank(one) < mine):
                found.update(set(hold.places).intersection(one.held[1].list_places()))
        return found

    def _is_late(self, standing: Standing) -> bool:
        since = standing.admission.coming_since
        return standing.is_told and since is not None and since <= self._late_since

    def get_allowed(self, standing: Standing, *, is_asking: bool = False) -> Mask | None:
        """Where a job's pods may be, as a mask; None: anywhere.

        `is_asking`: where they may be if others are to leave for them, and they hold the nodes.
        """
        uid = standing.job.uid
        key = (self._rank(standing), uid if uid in self.by_uid else "", is_asking)
        if key not in self._allowed:
            reserved = self._list_barred(standing)
            if is_asking:
                reserved |= self.list_promised(standing)
            allowed = np.ones(len(self._room.nodes), dtype=np.bool_)
            allowed[list(reserved)] = False
            self._allowed[key] = allowed if reserved else None
        return self._allowed[key]

    def select_held(self, standing: Standing, names: Iterable[str]) -> tuple[str, ...]:
        """Of these hostnames those whose nodes somebody else holds."""
        if not self._holders:
            for uid, hold in self.by_uid.items():
                for place in hold.places:
                    self._holders.setdefault(self._room.hostnames[place], set()).add(uid)
        mine = {standing.job.uid}
        return tuple(name for name in names if self._holders.get(name, mine) != mine)

    def find_told(self, standing: Standing) -> Mask | None:
        """Where the pods of its gang were told to look; None: nobody has said."""
        placement, named = standing.admission.placement, self._room.named
        names = (*placement.only, placement.launcher) if placement.only else ()
        told = [place for name in names if name for place in named.get(name, ())]
        if not told:
            return None
        allowed = np.zeros(len(self._room.nodes), dtype=np.bool_)
        allowed[told] = True
        return allowed

    def build_placement(
        self, standing: Standing, places: Iterable[int], launcher: int | None = None
    ) -> Placement:
        """Hostnames for the operator: on which nodes new pods must be, and must not be.

        Nobody is bound where one of the nodes has no hostname: to the others alone he might be
        sent for ever, though they are full, and a launcher would be looked for there.
        """
        chosen, hostnames = set(places), self._room.hostnames
        only = sorted(hostnames[place] for place in chosen)
        is_named = all(only) and (launcher is None or bool(hostnames[launcher]))
        avoided = {p for h in self.by_uid.values() if h.standing is not standing for p in h.places}
        avoid = sorted(hostnames[place] for place in avoided - chosen if hostnames[place])
        return Placement(
            "" if launcher is None else hostnames[launcher],
            tuple(only) if is_named and len(only) <= MOST_ONLY else (),
            tuple(avoid[:MOST_ONLY]),
        )
