"""The report as it grows."""

from __future__ import annotations

from launcher.broker.facts import ALL_EXITS_KEPT, EXITS_KEPT, Ledger
from launcher.documents import Report, ScriptResult, SessionExit


def make_ledger() -> Ledger:
    return Ledger(Report(epoch=1, launcher_uid="l", broker_start=1))


def test_what_changes_nothing_is_no_news():
    ledger = make_ledger()
    ledger.list(["a"])
    ledger.close("a")
    ledger.end(3)
    before = (ledger.revision, ledger.urgent)
    ledger.list(["a"])
    ledger.close("a")
    ledger.end(4)
    ledger.observe(0)
    assert (ledger.revision, ledger.urgent) == before
    assert ledger.report.ended == 3


def test_ends_are_urgent_and_the_rest_is_not():
    ledger = make_ledger()
    ledger.list(["a"])
    ledger.observe(2)
    ledger.serve(2)
    ledger.complain("Why", "because")
    assert ledger.urgent == 0
    ledger.close("a")
    ledger.end_session("a", SessionExit("s", 134))
    ledger.finish_script("id", ScriptResult(0, ""))
    ledger.end(0)
    assert ledger.urgent == 4


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


def test_a_report_of_any_age_fits_into_a_configmap():
    ledger = make_ledger()
    for pod in range(100):
        for number in range(EXITS_KEPT + 1):
            ledger.end_session(f"pod-{pod}", SessionExit(f"{pod}-{number}", 1))
    kept = sum(map(len, ledger.report.exits.values()))
    assert kept <= ALL_EXITS_KEPT + EXITS_KEPT
    assert "pod-99" in ledger.report.exits
    assert "pod-0" not in ledger.report.exits


def test_pods_are_forgotten_only_when_there_are_too_many():
    ledger = make_ledger()
    ledger.list(["a", "b"])
    ledger.forget(["b"])
    assert ledger.report.listed == {"a", "b"}
    ledger.list(f"pod-{number}" for number in range(3000))
    ledger.close("pod-1")
    ledger.forget(["b"])
    assert (ledger.report.listed, ledger.report.closed) == ({"b"}, frozenset())


def test_an_earlier_report_of_the_same_launcher_is_taken_and_no_other():
    ledger = make_ledger()
    old = Report(1, "l", 1, 5, 4, frozenset("a"), frozenset("b"), {"a": (SessionExit("s", 1),)})
    ledger.absorb(Report(1, "another", 1, ended=7))
    ledger.absorb(Report(2, "l", 1, ended=7))
    assert ledger.report.ended is None
    ledger.absorb(old)
    assert ledger.report.observed_generation == 5
    assert ledger.report.served_generation == 4
    assert ledger.report.closed == {"b"}
    assert ledger.report.exits["a"][0].code == 1
    assert ledger.report.broker_start == 1


def test_a_problem_that_is_over_leaves_the_report():
    ledger = make_ledger()
    ledger.complain("ExecForbidden", "get pods/exec")
    ledger.settle("ExecForbidden")
    assert ledger.report.problems == {}
