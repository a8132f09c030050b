"""How long a piece of work keeps the event loop, in which nobody else has a turn.

Not how long it takes: while it waits for an answer others have the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Metered(Generic[T]):
    """Awaits a coroutine, step by step.

    What runs in tasks of its own is not counted.

    Args:
        work: the coroutine.
        now: seconds, from any start (Clock.monotonic).
        note: told the seconds of each step.
    """

    def __init__(
        self,
        work: Coroutine[Any, Any, T],
        now: Callable[[], float],
        note: Callable[[float], None],
    ) -> None:
        self._work = work
        self._now = now
        self._note = note
        self.seconds = 0.0
        """Of all steps so far."""

    def __await__(self) -> Generator[Any, None, T]:
        steps = self._work.__await__()
        thrown: BaseException | None = None
        while True:
            begun = self._now()
            try:
                awaited = next(steps) if thrown is None else steps.throw(thrown)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                spent = self._now() - begun
                self.seconds += spent
                self._note(spent)
            thrown = None
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001 (all of it is the work's to see)
                thrown = error
