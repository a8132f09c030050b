"""Since when nothing is missing from what is believed, and the time of day goes on as it should.

An answer to a single request says nothing here. A webhook that fails is one job's trouble, while a
server that stores nothing costs the lease, and with it every list.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from et_kube.resources import CONFIG_MAPS, NODES, PODS, TRAINING_JOBS, Resource

TELLING = frozenset({TRAINING_JOBS, PODS, CONFIG_MAPS})
"""Kinds that would tell that a worker has left, or that a job is there. While one of them is not
heard of, nothing is concluded from time that passes; a cut of another kind says nothing of that,
nor does its end."""
JUMP = 5.0
"""So many seconds more than have passed are a clock that was set, or a machine that was resumed."""
_MOMENT = 1e-6
"""Seconds for which a view is complete, at the least: 0 is said only where a watch is cut."""


class Coverage:
    """Since when nothing is missing of each kind, in one namespace or in all (None).

    Moments are of the clock that only goes on (clock.monotonic): the time of day may jump.
    """

    def __init__(self) -> None:
        self._whole_since: dict[str | None, dict[Resource, float | None]] = {}
        """By namespace, so that a pass costs the same however many of them are watched."""
        self._cut: dict[str | None, set[Resource]] = {}
        self._ahead: float | None = None
        """How far the time of day was ahead of the other clock when it was last looked at."""
        self._jumped = 0.0

    def expect_list(self, resource: Resource, namespace: str | None) -> None:
        """A list of this kind must be taken before the view is complete."""
        self._whole_since.setdefault(namespace, {})[resource] = None

    def note_list(self, resource: Resource, namespace: str | None, at: float) -> None:
        """A complete list of this kind was taken; it was begun at `at`."""
        self._cut.get(namespace, set()).discard(resource)
        moments = self._whole_since.setdefault(namespace, {})
        if resource in TELLING or moments.get(resource) is None:
            moments[resource] = at

    def note_cut(self, resource: Resource, namespace: str | None) -> None:
        """Nothing is heard of this kind for now: what is known stays, and gets older."""
        self._cut.setdefault(namespace, set()).add(resource)

    def note_resumed(self, resource: Resource, namespace: str | None, at: float) -> None:
        """The view's watch goes on from where it was cut: whatever happened meanwhile comes now."""
        self._cut.get(namespace, set()).discard(resource)
        moments = self._whole_since.get(namespace, {})
        if resource in TELLING and moments.get(resource) is not None:
            moments[resource] = at

    def is_complete(self, namespace: str | None) -> bool:
        """Whether every kind was listed that this namespace's jobs rest on."""
        moments = self._select(namespace)
        return bool(moments) and None not in moments

    def find_since(self, namespace: str, *, now: datetime, at: float) -> datetime | None:
        """Since when the view of a namespace misses nothing; None while a list is missing.

        While a watch is cut, that is `now`. `at` is the same moment on the other clock; where the
        time of day has jumped ahead of that since the last call, all that is known is as new, for
        it may be set right soon.
        """
        self._note_time(now.timestamp() - at, at)
        if not self.is_complete(namespace):
            return None
        if any(TELLING & self._cut.get(place, set()) for place in (None, namespace)):
            return now
        moments = (moment for moment in self._select(namespace) if moment is not None)
        return now - timedelta(seconds=max(at - max(self._jumped, *moments), _MOMENT))

    @property
    def are_nodes_known(self) -> bool:
        """Whether a node that is not known is not there.

        They are not watched without cluster-wide rights; while their watch is cut others may come.
        """
        is_cut = NODES in self._cut.get(None, set())
        return NODES in self._whole_since.get(None, {}) and not is_cut

    def _note_time(self, ahead: float, at: float) -> None:
        if self._ahead is not None and ahead > self._ahead + JUMP:
            self._jumped = at
        self._ahead = ahead

    def _select(self, namespace: str | None) -> list[float | None]:
        """When the lists were taken that a namespace's jobs rest on; all of them for None."""
        places = self._whole_since if namespace is None else (None, namespace)
        return [m for place in places for m in self._whole_since.get(place, {}).values()]
