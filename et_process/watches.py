"""All watches of a process: what is not seen, and that etcd sets all of them back at once.

Made by a program's assembly, and asked by its probe. Objects never pass through here: each
Reflector (et_kube/watching.py) tells the program's store itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import structlog

from et_kube.clock import Clock
from et_kube.resources import Resource
from et_kube.watching import Reflector
from et_process.supervising import Tasks

SET_BACK = 60.0
"""Seconds within which lists that were set back are of one restore of etcd."""
SILENCE = 180.0
"""Seconds without a word from the API server after which a replica is not ready."""

log = structlog.get_logger()


class Watches:
    """Reflectors by what they watch and where (None: everywhere).

    `expect` is told of each before it lists anew: until then something may be missing.
    """

    def __init__(self, clock: Clock, expect: Callable[[Resource, str | None], None]) -> None:
        self._clock = clock
        self._expect = expect
        self._reflectors: dict[tuple[Resource, str | None], Reflector] = {}
        self._set_back_at = -math.inf

    def add(self, resource: Resource, namespace: str | None, reflector: Reflector) -> None:
        """One more, before any of them runs."""
        self._reflectors[resource, namespace] = reflector

    @property
    def tasks(self) -> Tasks:
        """All of them, by name."""
        return {
            f"watch {resource.plural} {namespace or ''}".rstrip(): reflector.run
            for (resource, namespace), reflector in self._reflectors.items()
        }

    def list_anew(self) -> None:
        """Everything; until it is here nothing is known to be complete."""
        for (resource, namespace), reflector in self._reflectors.items():
            self._expect(resource, namespace)
            reflector.relist()

    def note_set_back(self) -> None:
        """One kind was set back, so all were: a watch that was far behind would not notice it."""
        now = self._clock.monotonic()
        if now - self._set_back_at < SET_BACK:
            return  # these lists tell the same
        self._set_back_at = now
        log.warning("etcd was set back: everything is listed anew")
        self.list_anew()

    def find_troubles(self) -> Iterator[tuple[str | None, str]]:
        """Why what happens is not seen: the namespace (None: all of them), and a sentence."""
        now = self._clock.monotonic()
        for (resource, namespace), reflector in self._reflectors.items():
            kind = resource.plural
            if not reflector.is_synced:
                yield namespace, f"the list of {kind} is not complete yet"
            elif reflector.last_contact is not None and now - reflector.last_contact > SILENCE:
                yield namespace, f"no word about {kind} from the API server for {SILENCE:.0f} s"
