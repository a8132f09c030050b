"""Whose the time of a start is: what is told sums up to the whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.attributing import share_out, tabulate, trace
from benchmarks.figures import created_to_command as starts
from benchmarks.figures import scale_out
from benchmarks.milestones import (
    API_SERVER,
    BROKER,
    COMMAND,
    NODES,
    OPERATOR,
    PARTIES,
    SCHEDULER,
    Marks,
    Step,
    Steps,
)
from benchmarks.spreads import measure_spread
from devcluster.audits import Request, Right

TOLD = 0.02
"""Seconds to which the time of a start is to be told."""
NAMES = (
    starts.LAUNCHER_ASKED,
    starts.LAUNCHER_BOUND,
    starts.BROKER_BEGUN,
    starts.CONFIG_ASKED,
    starts.STREAM_ASKED,
    starts.BEGAN,
    starts.WORKERS_ASKED,
    starts.WORKERS_BOUND,
    starts.WORKERS_BEGUN,
    starts.WORKERS_RUN,
    starts.NAMED,
    starts.SHIM_BEGUN,
)
RECORDED = (
    (0.042, 0.088, 0.706, 1.005, 1.024, 1.312, 0.043, 0.054, 0.889, 0.904, 0.922, 0.827),
    (0.061, 0.204, 0.933, 1.195, 1.205, 1.279, 0.060, 0.235, 0.868, 0.883, 0.900, 1.031),
    (0.050, 0.062, 0.564, 0.824, 1.153, 1.394, 0.053, 0.093, 0.978, 1.008, 1.121, 0.652),
    (0.036, 0.047, 0.943, 1.171, 1.188, 1.291, 0.046, 0.074, 0.640, 0.710, 0.757, 1.058),
    (0.033, 0.050, 0.607, 1.061, 1.411, 1.587, 0.035, 0.050, 1.186, 1.274, 1.326, 0.801),
    (0.032, 0.045, 1.047, 1.343, 1.365, 1.453, 0.035, 0.047, 0.732, 0.774, 0.792, 1.181),
    (0.036, 0.046, 0.789, 1.397, 1.426, 1.519, 0.038, 0.056, 1.237, 1.256, 1.278, 0.961),
    (0.049, 0.104, 1.136, 1.471, 1.529, 1.677, 0.051, 0.078, 1.460, 1.479, 1.522, 1.270),
)
"""Starts of a job of 2 workers as they were measured, rounded; NAMES says which milestone."""


def make_start(times: tuple[float, ...]) -> Steps:
    """With what was not measured then where the milestone before it is."""
    known = dict(zip(NAMES, times, strict=True))
    stream = known[starts.STREAM_ASKED]
    rest = (starts.STREAM_BEGUN, starts.LISTED, starts.STARTED)
    return starts.list_steps({**known, starts.STORED: 0.02, **dict.fromkeys(rest, stream)})


def sum_up(rows: tuple[tuple[str, ...], ...], column: int) -> tuple[float, float]:
    """What the rows but the last one are together, and what the last one says."""
    values = [float(row[column]) for row in rows]
    return sum(values[:-1]), values[-1]


@pytest.mark.parametrize("times", RECORDED)
def test_the_shares_of_a_start_are_all_of_it(times: tuple[float, ...]) -> None:
    waits = {OPERATOR: [(0.0, 0.03), (0.01, 0.035), (0.9, 0.95)], SCHEDULER: [(0.03, 0.06)]}
    shares = share_out(make_start(times), starts.BEGAN, waits)
    assert sum(shares.values()) == pytest.approx(dict(zip(NAMES, times, strict=True))[starts.BEGAN])
    assert min(shares.values()) >= 0.0


def test_the_table_sums_up_to_the_median() -> None:
    shares = [share_out(make_start(times), starts.BEGAN, {}) for times in RECORDED]
    bare = [share_out({"ran": Step(0.8, NODES)}, "ran", {})]
    rows = tabulate("whose", shares, bare).rows
    whole = measure_spread([sum(each.values()) for each in shares]).median
    for column, wanted in ((1, whole), (2, 0.8), (3, whole - 0.8)):
        together, said = sum_up(rows, column)
        assert together == pytest.approx(said, abs=TOLD / 2)
        assert said == pytest.approx(wanted, abs=TOLD / 2)
    [beside] = [row for row in rows if row[0] == "the median beside the middle half"]
    assert abs(float(beside[1])) < TOLD
    assert {row[0] for row in rows} >= {SCHEDULER, NODES, OPERATOR, BROKER, COMMAND}


@pytest.mark.parametrize(
    ("times", "way"),
    [
        (RECORDED[0], starts.BROKER_BEGUN),
        (RECORDED[2], starts.WORKERS_RUN),
    ],
)
def test_a_start_is_told_by_what_it_has_waited_for_last(times: tuple[float, ...], way: str) -> None:
    names = [piece.label for piece in trace(make_start(times), starts.BEGAN)]
    assert way in names
    assert {starts.BROKER_BEGUN, starts.WORKERS_RUN} - set(names)


def test_a_growth_has_an_owner_in_each_piece() -> None:
    times = {name: 0.1 * number for number, name in enumerate(scale_out.WAY, 1)}
    pieces = trace(scale_out.list_steps(times), scale_out.VISIBLE)
    assert [piece.label for piece in pieces] == list(scale_out.WAY)
    assert {piece.whose for piece in pieces} == {*PARTIES} - {COMMAND}
    assert all(piece.end - piece.begin == pytest.approx(0.1) for piece in pieces)


@pytest.mark.long
@given(st.lists(st.tuples(st.floats(0, 5), st.sampled_from(PARTIES)), min_size=1, max_size=8))
def test_whatever_the_clocks_say_the_pieces_have_no_gap(marks: list[tuple[float, str]]) -> None:
    steps: dict[str, Step] = {}
    for number, (at, whose) in enumerate(marks):
        steps[str(number)] = Step(at, whose, tuple(steps))
    end = str(len(marks) - 1)
    pieces = trace(steps, end)
    assert [piece.begin for piece in pieces] == [0.0, *(piece.end for piece in pieces[:-1])]
    assert pieces[-1].end == marks[-1][0]
    assert all(piece.begin <= piece.end for piece in pieces)


def test_while_the_server_is_asked_the_time_is_its_own_and_counts_once() -> None:
    steps = {"a": Step(1.0, OPERATOR), "b": Step(2.0, SCHEDULER, ("a",))}
    waits = {OPERATOR: [(-1.0, 0.25), (0.5, 0.75), (0.5, 1.5)], SCHEDULER: [(1.5, 1.75)]}
    shares = share_out(steps, "b", waits)
    assert shares[API_SERVER] == pytest.approx(0.25 + 0.5 + 0.25)
    assert shares[OPERATOR] == pytest.approx(0.25)
    assert shares[SCHEDULER] == pytest.approx(0.75)


def make_request(second: float, verb: str, target: str, name: str, account: str) -> Request:
    """One that was answered after a tenth of a second."""
    at, done = (f"1970-01-01T00:00:{moment:09.6f}Z" for moment in (second, second + 0.1))
    right = Right("", target, verb)
    return Request("ResponseComplete", at, done, right, "ns", name, account, "", "", 200, True)


def test_the_audit_log_tells_who_waited_for_whom() -> None:
    operator, broker = (
        "system:serviceaccount:et-operator:et-operator",
        "system:serviceaccount:ns:j-launcher",
    )
    marks = Marks(
        [
            make_request(1.0, "create", "pods", "w-0", operator),
            make_request(2.0, "create", "events", "w-0", operator),
            make_request(3.0, "watch", "configmaps", "c", broker),
            make_request(4.0, "patch", "configmaps", "c", operator),
            make_request(5.0, "create", "pods/exec", "w-0", broker),
            make_request(5.5, "create", "pods/exec", "w-1", broker),
            make_request(6.0, "patch", "configmaps", "c", operator),
        ]
    )
    waits = marks.list_waits(1.0)
    assert waits[OPERATOR] == [pytest.approx(span) for span in ((0.0, 0.1), (3.0, 3.1), (5.0, 5.1))]
    assert waits[SCHEDULER] == [pytest.approx((0.0, 0.1))]
    assert BROKER not in waits
    assert marks.find_stored("w-0", "pods") == pytest.approx(1.1)
    assert marks.find_last_stream({"w-0"}, 9.0).received == 5.0
    assert marks.find_named("c", 5.0).received == 4.0
