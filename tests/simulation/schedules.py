"""Who does something next, and the shortest such order in which a life still fails."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence

from et_operator.assembly import WATCHED

KINDS = tuple(resource.plural for resource in WATCHED)
ACTORS = (
    *("kubelet", "broker", "garbage", *KINDS, "work"),
    *(f"{what}@1" for what in (*KINDS, "work")),
)
"""Each does one thing at a time. A kind's name means that the operator takes its next event; what
ends with @1 is about a second operator, where there is one."""
STALL = "stall "
"""With a kind: from now on its watch shows nothing new."""
RECOVER = "recover"
"""Every watch shows all again."""
_STALLS = tuple(f"{STALL}{kind}{at}" for kind in KINDS for at in ("", "@1"))
TOKENS = (*ACTORS, *_STALLS, RECOVER, f"{RECOVER}@1")
_WEIGHTS = [*(24 for _ in ACTORS), *(1 for _ in _STALLS), 5, 5]
MAX_RUNS = 100
"""Runs that finding a shorter schedule may take."""

Run = Callable[["Schedule"], Awaitable[object]]


class Schedule:
    """Tokens one after the other: the given ones, then by dice (with a seed), then none.

    Where there is none, everybody does one thing in turn.
    """

    def __init__(self, seed: int | None = None, tokens: Sequence[str] = ()) -> None:
        self.seed = seed
        self.drawn: list[str] = []
        self._tokens = iter(tokens)
        self._dice = None if seed is None else random.Random(seed)  # noqa: S311 (no secret)

    def draw(self) -> str | None:
        """The next token."""
        token = next(self._tokens, None)
        if token is None and self._dice is not None:
            [token] = self._dice.choices(TOKENS, _WEIGHTS)
        if token is not None:
            self.drawn.append(token)
        return token


async def play(run: Run, seed: int) -> None:
    """Run in the order that the seed gives; a failure tells the seed and the shortest order.

    Raises:
        Exception: the first failure, with a note.
    """
    schedule = Schedule(seed)
    try:
        await run(schedule)
    except Exception as error:
        shortest = await shrink(run, schedule.drawn, type(error))
        error.add_note(f"seed {seed}, shortest schedule: {list(shortest)}")
        raise


async def shrink(run: Run, tokens: Sequence[str], kind: type[Exception]) -> Sequence[str]:
    """Fewer tokens with which the run fails in the same way: halves, quarters, ... are left out."""
    runs = 0
    size = len(tokens)
    while size and runs < MAX_RUNS:
        start = 0
        while start < len(tokens) and runs < MAX_RUNS:
            shorter = [*tokens[:start], *tokens[start + size :]]
            runs += 1
            if await _fails(run, shorter, kind):
                tokens = shorter
            else:
                start += size
        size //= 2
    return tokens


async def _fails(run: Run, tokens: Sequence[str], kind: type[Exception]) -> bool:
    try:
        await run(Schedule(tokens=tokens))
    except Exception as error:  # noqa: BLE001 (any failure is what is looked for)
        return isinstance(error, kind)
    return False
