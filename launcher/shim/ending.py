"""How the user's command is ended within the launcher's grace: which signal comes when. Pure.

    at once            the signal of the pod's end: who saves on it has three quarters of the grace
    with the last      INT, for what has missed that or ignores it: a quarter of the grace, 10 s at
    part of it         least before KILL, in which horovodrun and mpirun end their ranks
    KILL - 2 s         TERM, where another signal was the pod's: who ignores that may save on this
    deadline - 5 s     KILL, to tell of the end

A command that is saving takes a second signal for impatience, and Python breaks its handler off.
So no signal follows the first after a constant: long graces are set by who saves long.
"""

from __future__ import annotations

from signal import SIGINT, SIGKILL, SIGTERM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Tuple

SHARE = 0.25
"""The last part of the grace, as in launcher/protocol/leaving.py."""
AGAIN_SECONDS = 10.0
"""From INT to KILL at least."""
LAST_SECONDS = 2.0
"""From TERM to KILL, for a command that has not ended on another signal."""
RESERVE_SECONDS = 5.0
"""What is left of the grace when the command is killed."""


def plan_end(number: int, grace: float) -> List[Tuple[float, int]]:
    """What follows the signal `number`: seconds after it, and the signal; a short grace is halved.

    Args:
        number: what the command was sent.
        grace: seconds that the pod has from then on.
    """
    kill = max(grace - RESERVE_SECONDS, grace / 2)
    again = max(kill - max(AGAIN_SECONDS, SHARE * grace), kill / 2)
    following = [(again, int(SIGINT))]
    if number != SIGTERM:
        following.append((kill - min(LAST_SECONDS, kill / 4), int(SIGTERM)))
    return [*following, (kill, int(SIGKILL))]
