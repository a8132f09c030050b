"""Whether the installed Horovod is one of those of which a method may have another meaning."""

from __future__ import annotations

import inspect

from launcher.shim import programs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Sequence


class Misfit(Exception):  # noqa: N818 (names say what is so)
    """The installed Horovod is not as we know it; says where."""


def check(name: str, function: Callable[..., Any], *wanted: Sequence[str]) -> None:
    """Raise Misfit unless the parameters of `function` are one of these; none: any will do."""
    try:
        found = list(inspect.signature(function).parameters)
    except (TypeError, ValueError) as error:  # it is none, or of C
        raise Misfit(f"{name} tells of no parameters") from error
    if wanted and found not in wanted:
        known = " or ".join(map(", ".join, wanted))
        raise Misfit(f"{name} takes {', '.join(found)} and not {known}")


def replace(function: Callable[[], None], otherwise: str) -> None:
    """Replace what `function` replaces.

    Where Horovod is not as we know it, nothing is, and people are told what follows `otherwise`.
    """
    try:
        function()
    except (ImportError, AttributeError, Misfit) as error:
        programs.say(f"{otherwise}: {type(error).__name__}: {error}")
