"""The page of a flood says by what it was made, and what did not hold."""

from __future__ import annotations

from dataclasses import replace

from tests.specs.flooding import Outcome, Step
from tests.specs.generating import build_case
from tests.specs.pages import WHOLE, Findings, build_page
from tests.specs.verdicts import Verdict
from tests.specs.witnesses import Durations, Facts

FACTS = Facts({"et-operator-0": 0}, 1, Durations(), Durations(), 0)
STEPS = [Step(("huge at spec.suspend",), Verdict.REFUSED), Step((), Verdict.RUNS)]
OUTCOME = Outcome(build_case("7/0", name="c0"), STEPS)
FOUND = Findings([OUTCOME] * WHOLE, FACTS, FACTS, [1.0], [1.5], 0, "7", "0123abc", 0.5)


def test_a_page_says_how_many_by_which_seed_at_which_commit():
    page = " ".join(build_page(FOUND).split())
    assert f"This is a whole run: {WHOLE:,} cases, {2 * WHOLE:,} manifests and edits of" in page
    assert "them, seed 7, commit 0123abc, on " in page
    assert f"| huge | {WHOLE:,} |" in page
    share = build_page(replace(FOUND, outcomes=[OUTCOME]))
    assert f"This is a share, not {WHOLE:,} cases: 1 cases, 2 manifests" in share


def test_what_did_not_hold_is_said():
    page = build_page(replace(FOUND, after=replace(FACTS, restarts={"et-operator-0": 1})))
    assert "| the operator is never restarted | 1 restarts | NO |" in page
    assert "| it leads all the time | 0 handovers | yes |" in page
