"""Many jobs at once where scheduler and controller manager have Kubernetes' own limits.

As jobs_at_once.py, in a place of its own (Place.SHIPPED): preparing.py starts scheduler and
controller manager anew for it, and afterwards as others expect them.
"""

from __future__ import annotations

from benchmarks import quotes
from benchmarks.benches import Bench
from benchmarks.findings import Figure, Finding, Place, Series, Side
from benchmarks.pairing import SIMULATED_NOTE, draw_pairs, run_pairs

SIZES = {50: 2, 200: 1}
"""Jobs -> how often."""


async def measure(bench: Bench) -> Finding:
    """As jobs-at-once."""
    pairs = await run_pairs(bench, SIZES)
    peer = "et-operator, 50 jobs x 8"
    bare = "450 bare pods beside it"
    return Finding(
        series=(
            *(series for pair in pairs for series in pair.series),
            Series(peer, "s", (quotes.STORM_SECONDS,), Side.PEER, quotes.ORIGIN),
            Series(bare, "s", (quotes.STORM_BARE_SECONDS,), Side.PEER, quotes.ORIGIN),
        ),
        goals=tuple(pair.goal for pair in pairs),
        notes=(SIMULATED_NOTE,),
        tables=tuple(pair.processor for pair in pairs),
        charts=(draw_pairs("jobs-at-once-as-shipped", "The same, limits as shipped", pairs),),
    )


FIGURE = Figure(
    title="Many jobs at once, limits as shipped",
    explanation=(
        "The same as jobs-at-once, but the scheduler makes 50 requests a second and 100 at once, "
        "as Kubernetes ships it and as most clusters run it. It is in this setting that the peer "
        "was measured and the goal was set."
    ),
    measure=measure,
    place=Place.SHIPPED,
)
