"""What a flood has shown, in two tables: docs/specs.md and the end of a run."""

from __future__ import annotations

import os
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.specs.flooding import Outcome
from tests.specs.neighbours import TIMES, compare
from tests.specs.odds import ODDS
from tests.specs.verdicts import Verdict
from tests.specs.witnesses import LIMIT, Facts

LONGEST_PASS = 10.0
"""Seconds. A pass makes up to twenty writes one after the other, and the API server is flooded."""
NOTHING = "nothing"
WHOLE = 2000


@dataclass(frozen=True)
class Findings:
    """All that was seen; seconds of scalings without and beside the flood."""

    outcomes: Sequence[Outcome]
    before: Facts
    after: Facts
    quiet: list[float]
    flooded: list[float]
    defects: int
    seed: str
    commit: str
    """Of the checkout, by which the manifests were made."""
    load: float
    """What else the machine did: its load average before the first case."""


@dataclass(frozen=True)
class Promise:
    """What was promised, what was seen, and whether that keeps it."""

    what: str
    seen: str
    kept: bool
    is_timed: bool = False
    """Judged by a clock, which says something on a machine that does nothing else."""


def list_promises(found: Findings) -> list[Promise]:
    """All that a flood must not change."""
    restarts = sum(found.after.restarts.values()) - sum(found.before.restarts.values())
    handovers = found.after.transitions - found.before.transitions
    same = set(found.after.restarts) == set(found.before.restarts)
    passes = found.after.passes - found.before.passes
    plans = found.after.plans - found.before.plans
    errors = found.after.errors - found.before.errors
    times = compare(found.quiet, found.flooded)
    troubles = sum(bool(outcome.trouble) for outcome in found.outcomes)
    quiet, flooded = statistics.median(found.quiet), statistics.median(found.flooded)
    return [
        Promise("each manifest ends in words or in work", f"{troubles} do not", not troubles),
        Promise("the operator is never restarted", f"{restarts} restarts", not restarts and same),
        Promise("it leads all the time", f"{handovers} handovers", not handovers),
        Promise("no pass ends in a defect", f"{errors} did, {found.defects} in the log",
         not errors and not found.defects),
        Promise(f"999 of 1,000 decisions take less than {LIMIT * 1000:.0f} ms",
         f"{plans.count:,}, {plans.count_longer(LIMIT)} of them longer",
         plans.count_longer(LIMIT) <= plans.count // 1000, is_timed=True),
        Promise(f"999 of 1,000 passes take less than {LONGEST_PASS:.0f} s, their writes included",
         f"{passes.count:,}, {passes.count_longer(LONGEST_PASS)} of them longer",
         passes.count_longer(LONGEST_PASS) <= passes.count // 1000, is_timed=True),
        Promise(f"a healthy job's scalings take at most {TIMES:.0f} times as long",
         f"{len(found.flooded)}, {flooded:.1f} s instead of {quiet:.1f} s ({times:.2f} times)",
         times <= TIMES, is_timed=True),
    ]  # fmt: skip


def build_tables(found: Findings) -> list[str]:
    """Both, as lines of Markdown."""
    lines = ["| promise | seen | kept |", "|---|---|---|"]
    lines += [f"| {p.what} | {p.seen} | {'yes' if p.kept else 'NO'} |"
              for p in list_promises(found)]  # fmt: skip
    verdicts = list(Verdict)
    lines += ["", f"| what was odd | written | {' | '.join(verdicts)} |"]
    lines += ["|---|" + "---:|" * (len(verdicts) + 1)]
    for kind, counts in count_verdicts(found.outcomes).items():
        cells = [f"{counts[verdict]:,}" for verdict in verdicts]
        lines.append(f"| {kind} | {counts.total():,} | {' | '.join(cells)} |")
    return lines


def count_verdicts(outcomes: Sequence[Outcome]) -> dict[str, Counter[Verdict]]:
    """How each class ended; what has two of them counts in both rows."""
    rows: dict[str, Counter[Verdict]] = {kind: Counter() for kind in (*ODDS, NOTHING)}
    for outcome in outcomes:
        for step in outcome.steps:
            kinds = {line.split(" at ")[0] for line in step.odd} or {NOTHING}
            for kind in kinds:
                rows[kind][step.verdict] += 1
    return rows


def build_page(found: Findings) -> str:
    """docs/specs.md."""
    total = len(found.outcomes)
    whole = "a whole run" if total >= WHOLE else f"a share, not {WHOLE:,} cases"
    written = sum(len(outcome.steps) for outcome in found.outcomes)
    return "\n".join(
        [
            "# Manifests that nobody should write",
            "",
            "For those who share a cluster: what `make specs` saw last, written by it. Manifests",
            "are made from the schemas of our kinds, with up to three odd values at places where",
            "an author may write. Each is posted to a real API server, edited (its spec, its",
            "status, its number of workers) and deleted, while a healthy job in another namespace",
            "grows and shrinks. Good ends of what is written: *refused* by the server in a",
            "sentence; *told*, in a condition that names the field; *waits*, with its pods or with",
            "a condition that says for what; *runs*; *ended*, with a reason.",
            "",
            f"This is {whole}: {total:,} cases, {written:,} manifests and edits of them, seed",
            f"{found.seed}, commit {found.commit}, on {os.cpu_count()} cores whose load average",
            f"was {found.load:.1f} before. `SPECS` and `SEED` choose another one;",
            "`python -m tests.specs --case SEED/NUMBER` lives one case again.",
            "",
            "A decision is what the operator works out; a pass is that and its writes, one after",
            "the other, which take as long as a flooded API server lets them.",
            "",
            *build_tables(found),
            "",
        ]
    )
