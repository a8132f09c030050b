"""What breaks in a night, and in which order: all of it follows from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

LEAST, MOST = 2, 4
"""How many workers a training is ever asked to have; the first is what it cannot go below."""
FIRST = 3
SHORTEST, LONGEST = 3.0, 20.0
"""Seconds for which something is away that comes back."""
TOGETHER = 3.0
"""Seconds between two faults of one round, at most."""
PAUSE = 8.0


class Kind(StrEnum):
    """What is done to a training, or to what runs it."""

    WORKER = "a worker's PID 1 is killed"
    CONTAINERD_SHIM = "a worker's containerd-shim is killed"
    EVICTION = "a worker's pod is deleted"
    RANK = "one rank is killed, its worker lives"
    BRIDGE = "an agent's bridges are killed"
    BROKER = "the broker is killed"
    LAUNCHER = "the launcher's pod is lost"
    QUOTA = "a worker is killed, and a quota refuses the next"
    NOTICE = "a worker is said to end soon"
    WITHDRAWN = "a worker is said to end, and then to stay"
    LAUNCHER_NOTICE = "the launcher is said to end soon"
    OBJECT = "a ScaleIn or ScaleOut"
    SCALE = "kubectl scale"
    EDIT = "an edit of the job"
    OPERATOR = "the operator is killed"
    API_SERVER = "the API server is killed, and comes back"
    FROZEN_API_SERVER = "the API server is stopped for a while"
    KUBELET = "a kubelet is ended, and comes back"
    FROZEN_KUBELET = "a kubelet is stopped for a while"
    CUT = "a node is cut off for a while"


SCALINGS = frozenset({Kind.OBJECT, Kind.SCALE, Kind.EDIT})
NOTICES = frozenset({Kind.NOTICE, Kind.WITHDRAWN, Kind.LAUNCHER_NOTICE})
TAKERS = frozenset(
    {
        *(Kind.WORKER, Kind.CONTAINERD_SHIM, Kind.EVICTION, Kind.RANK, Kind.LAUNCHER, Kind.QUOTA),
        *NOTICES,
    }
)
"""What costs a pod or a rank. Two at once could leave nobody who trains, which is no defect."""
SHARED = frozenset(
    {
        *(Kind.OPERATOR, Kind.API_SERVER, Kind.FROZEN_API_SERVER),
        *(Kind.KUBELET, Kind.FROZEN_KUBELET, Kind.CUT),
    }
)
"""What others on the cluster would feel too."""
OWN = tuple(kind for kind in Kind if kind not in SHARED)
_EXCLUSIVE = (SCALINGS, TAKERS, SHARED)


@dataclass(frozen=True, slots=True)
class Fault:
    """One of them: `die` says whom it strikes of those it could, `seconds` how long it lasts.

    `wanted` is how many workers there shall be once it is over.
    """

    kind: Kind
    die: int
    seconds: float
    wanted: int


@dataclass(frozen=True, slots=True)
class Round:
    """What breaks before all must be well again: one fault, or two `apart` seconds apart."""

    number: int
    faults: tuple[Fault, ...]
    apart: float
    pause: float
    """Seconds of peace after it."""


def build_schedule(seed: int, kinds: Sequence[Kind]) -> Iterator[Round]:
    """Rounds without end; each kind once before any comes again, every third round has two."""
    dice = random.Random(seed)  # noqa: S311 (a die, not a secret)
    wanted, number = FIRST, 0
    bag: list[Kind] = []
    while True:
        if not bag:
            bag = dice.sample(kinds, len(kinds))
        chosen = [bag.pop()]
        if number % 3 == 2:
            chosen += _find_companion(chosen[0], bag)
        faults = []
        for kind in chosen:
            wanted = _choose(dice, wanted) if kind in SCALINGS else wanted
            seconds = round(dice.uniform(SHORTEST, LONGEST), 1)
            faults.append(Fault(kind, dice.randrange(1000), seconds, wanted))
        apart, pause = dice.uniform(0, TOGETHER), dice.uniform(0, PAUSE)
        yield Round(number, tuple(faults), round(apart, 1), round(pause, 1))
        number += 1


def _find_companion(first: Kind, bag: list[Kind]) -> list[Kind]:
    """The next in the bag that may come together with this one, taken out of it; [] if none."""
    for kind in reversed(bag):
        if not any({first, kind} <= family for family in _EXCLUSIVE):
            bag.remove(kind)
            return [kind]
    return []


def _choose(dice: random.Random, wanted: int) -> int:
    return dice.choice([count for count in range(LEAST, MOST + 1) if count != wanted])
