"""The report as it grows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from et_contract.documents import Report, ScriptResult, SessionExit, encode_report
from launcher.broker.bodies import MOST_REASON
from launcher.broker.facts import (
    ALL_EXITS_KEPT,
    EXITS_KEPT,
    OUTPUT_KEPT,
    PROBLEM_KEPT,
    Ledger,
    shorten,
)


def make_ledger() -> Ledger:
    return Ledger(Report(epoch=1, launcher_uid="l", broker_start=1))


def test_what_changes_nothing_is_no_news():
    ledger = make_ledger()
    ledger.list(["a"])
    ledger.close("a")
    ledger.end(3, is_told_to_end=True)
    before = (ledger.revision, ledger.urgent)
    ledger.list(["a"])
    ledger.close("a")
    ledger.end(4)
    ledger.observe(0)
    assert (ledger.revision, ledger.urgent) == before
    assert (ledger.report.ended, ledger.report.is_told_to_end) == (3, True)


def test_ends_are_urgent_and_those_of_sessions_are_for_people_alone():
    ledger = make_ledger()
    ledger.end_session("a", SessionExit("s", 134))
    assert (ledger.revision, ledger.needed, ledger.urgent) == (1, 0, 0)
    ledger.list(["a"])
    ledger.observe(2)
    ledger.serve(2)
    ledger.complain("Why", "because")
    assert (ledger.needed, ledger.urgent) == (4, 0)
    ledger.use_up("a", 137)
    ledger.use_up("a", 1)
    assert ledger.report.used_up == {"a": 137}
    assert (ledger.needed, ledger.urgent) == (5, 0)
    ledger.close("a")
    ledger.finish_script("id", ScriptResult(0, ""))
    ledger.end(0)
    assert (ledger.needed, ledger.urgent) == (8, 3)


def test_the_end_of_a_session_is_told_once():
    ledger = make_ledger()
    assert ledger.end_session("a", SessionExit("s", 134))
    assert not ledger.end_session("a", SessionExit("s", 134))
    assert ledger.report.exits == {"a": (SessionExit("s", 134),)}


def test_the_first_result_of_a_script_stays():
    ledger = make_ledger()
    ledger.finish_script("id", ScriptResult(0, "good"))
    ledger.finish_script("id", ScriptResult(1, "bad"))
    assert ledger.report.scripts["id"].code == 0


WORST = '"\\' * (MOST_REASON // 2)
"""Each character of it takes two in JSON."""


def make_largest(pods: int) -> Ledger:
    """All pods have closed, as many sessions as are kept have ended as wordily as they may."""
    ledger = make_ledger()
    uids = [f"{number:08d}-0000-4000-8000-000000000000" for number in range(pods)]
    ledger.list(uids)
    for uid in uids:
        ledger.close(uid)
    for uid in uids:
        for number in range(EXITS_KEPT + 1):
            ledger.end_session(uid, SessionExit(f"{uid[:8]}{number:024d}", 134, WORST))
    for number in range(8):
        ledger.complain(f"Problem{number}", "\x1b" * 5000)
    ledger.finish_script("uid-1", ScriptResult(1, "\x1b" * OUTPUT_KEPT))
    return ledger


@pytest.mark.long
def test_the_report_of_the_largest_job_fits_into_a_configmap():
    ledger = make_largest(600)
    kept = sum(map(len, ledger.report.exits.values()))
    assert kept <= ALL_EXITS_KEPT + EXITS_KEPT
    uids = list(ledger.report.exits)
    assert uids[-1].startswith("00000599")
    size, small = len(encode_report(ledger.report)), len(encode_report(make_ledger().report))
    per_pod = len('"00000000-0000-4000-8000-000000000000",') * 2
    assert size + per_pod * (10_000 - 600) <= 1024 * 1024
    assert len(encode_report(shorten(ledger.report))) <= small + per_pod * 600 + 8 * 6 * 520 + 100


def test_what_the_config_does_not_speak_of_is_forgotten():
    ledger = make_ledger()
    ledger.list(["a", "b"])
    ledger.close("a")
    ledger.end_session("a", SessionExit("s", 134))
    ledger.finish_script("old", ScriptResult(0, ""))
    ledger.finish_script("new", ScriptResult(0, ""))
    ledger.use_up("a", 137)
    ledger.use_up("b", 1)
    ledger.keep_only(["a", "b"], ["old", "new"])
    assert ledger.report.listed == {"a", "b"}
    ledger.keep_only(["b"], ["new"])
    assert (ledger.report.listed, ledger.report.closed) == ({"b"}, frozenset())
    assert ledger.report.used_up == {"b": 1}
    assert set(ledger.report.scripts) == {"new"}
    assert set(ledger.report.exits) == {"a"}, "for people"


def test_a_problem_is_told_in_a_few_words_that_everybody_can_write():
    ledger = make_ledger()
    ledger.complain("Why", "\ud800" + "x" * 1_000_000)
    told = ledger.report.problems["Why"]
    assert told.startswith("\ufffdxxx")
    assert len(told) == PROBLEM_KEPT


def test_an_earlier_report_of_the_same_launcher_is_taken_and_no_other():
    ledger = make_ledger()
    old = Report(1, "l", 1, 5, 4, frozenset("a"), frozenset("b"), {"a": (SessionExit("s", 1),)})
    ledger.absorb(Report(1, "another", 1, ended=7))
    ledger.absorb(Report(2, "l", 1, ended=7))
    assert ledger.report.ended is None
    ledger.absorb(replace(old, ended=0, is_told_to_end=True, used_up={"a": 137}))
    assert ledger.report.used_up == {}, "it may have been taken back since, as the memory says"
    assert not ledger.report.is_done
    assert ledger.report.observed_generation == 5
    assert ledger.report.served_generation == 4
    assert ledger.report.closed == {"b"}
    assert ledger.report.exits["a"][0].code == 1
    assert ledger.report.broker_start == 1


def test_a_problem_that_is_over_leaves_the_report():
    ledger = make_ledger()
    ledger.complain("ExecForbidden", "get pods/exec")
    ledger.withdraw("ExecForbidden")
    assert ledger.report.problems == {}
