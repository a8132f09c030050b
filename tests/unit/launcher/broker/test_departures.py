"""How far a member is that must leave: when it is asked to close, and when its shims are told."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_contract.documents import Member, MemberState
from et_contract.frames import ProtocolError
from launcher.broker.departures import (
    ASKED,
    DEPARTURE,
    DRAINING,
    GONE_SECONDS,
    LEFT,
    STAYING,
    Departure,
    Departures,
    Pace,
    Sight,
    Step,
)

SIGHT = Sight(is_connected=True, was_offered=True, is_claimed=False, starting=0)
UNOFFERED = replace(SIGHT, was_offered=False)
UNCONNECTED = replace(UNOFFERED, is_connected=False)


def make_draining(reads: int = 0, served_at: float | None = None) -> Departure:
    return Departure(DRAINING, reads, served_at)


def make_member(state: MemberState, uid: str = "uid") -> Member:
    return Member(f"name-of-{uid}", uid, 1, state, "main")


def make_departures(*reads: float, before: set[str] | None = None) -> Departures:
    """One that drains, with the times at which the list without it was read."""
    departures = Departures(before or set())
    departures.unlist("uid")
    departures.follow([make_member(MemberState.DRAINING)], 0.0)
    for at in reads:
        departures.note_read(at)
    return departures


def decide(departures: Departures, now: float, sight: Sight = SIGHT) -> Step:
    steps = departures.decide([("uid", sight)], now)
    return steps[0][1] if steps else Step.WAIT


def test_a_host_that_was_never_offered_is_asked_at_once():
    assert make_draining().decide(UNOFFERED, 0.0) is Step.ASK


def test_without_a_stream_a_host_that_was_never_offered_is_closed_by_us():
    assert make_draining().decide(UNCONNECTED, 0.0) is Step.CLOSE
    assert make_draining().decide(replace(UNCONNECTED, is_claimed=True), 0.0) is Step.WAIT
    assert make_draining().decide(replace(UNCONNECTED, was_offered=True), 0.0) is Step.WAIT


def test_two_reads_and_the_time_for_starts_come_before_the_question():
    drain = make_draining(reads=2, served_at=10.0)
    assert drain.due(SIGHT) == 13.0
    assert drain.decide(SIGHT, 12.9) is Step.WAIT
    assert drain.decide(SIGHT, 13.0) is Step.ASK
    assert make_draining(reads=1, served_at=10.0).decide(SIGHT, 99.0) is Step.WAIT
    assert make_draining().decide(SIGHT, 99.0) is Step.WAIT


def test_each_slot_that_may_be_starting_asks_for_a_further_read_and_more_time():
    sight = replace(SIGHT, starting=5)
    assert make_draining(reads=6, served_at=10.0).due(sight) is None
    assert make_draining(reads=7, served_at=10.0).due(sight) == 14.0
    assert make_draining(reads=10, served_at=10.0).due(replace(SIGHT, starting=100)) == 33.0


def test_before_anything_was_started_a_minute_goes_by():
    sight = replace(SIGHT, has_begun=False)
    assert make_draining(reads=9, served_at=10.0).due(sight) == 70.0


def test_where_no_rank_was_seen_yet_one_may_come_later_than_those_that_were():
    drain = make_draining(reads=10, served_at=10.0)
    assert drain.due(replace(SIGHT, late_from=5.0)) == 20.0
    assert drain.due(replace(SIGHT, late_from=11.0)) == 21.0
    assert drain.due(replace(SIGHT, late_from=11.0, lag=30.0)) == 41.0
    assert drain.due(replace(SIGHT, late_from=5.0, starting=60)) == 25.0


def test_but_starts_that_do_not_end_keep_nobody_for_ever():
    drain = make_draining(reads=10, served_at=10.0)
    assert drain.due(replace(SIGHT, late_from=60.0)) == 70.0
    assert drain.due(replace(SIGHT, late_from=70.0)) == 80.0
    assert drain.due(replace(SIGHT, late_from=500.0)) == 80.0
    assert drain.due(replace(SIGHT, late_from=500.0, slots=1000)) == 280.0, "all need so long"
    drain.spawned_at = 400.0
    assert drain.due(replace(SIGHT, late_from=500.0)) == 470.0, "it still has starts of its own"


@pytest.mark.parametrize(("first", "lag"), [(1.0, 10.0), (9.0, 18.0), (40.0, 60.0)])
def test_the_first_start_shows_how_late_others_may_be(first: float, lag: float):
    pace = Pace()
    pace.note_read(100.0)
    pace.note_read(101.0)
    pace.note_start(100.0 + first)
    assert pace.lag == lag
    pace.note_start(500.0)
    assert (pace.lag, pace.last_at) == (lag, 500.0)


def test_without_a_read_before_it_a_start_shows_nothing():
    pace = Pace()
    pace.note_start(100.0)
    pace.note_read(101.0)
    pace.note_start(190.0)
    assert pace.lag == 10.0


def test_the_end_of_a_session_after_the_read_needs_no_waiting():
    departures = make_departures(10.0)
    departures.note_end("uid")
    assert departures.told == {"uid"}
    assert decide(departures, 10.1) is Step.ASK


def test_the_end_of_a_session_before_the_read_proves_nothing():
    departures = make_departures()
    departures.note_end("uid")
    departures.note_read(10.0)
    assert departures.told == frozenset()
    assert decide(departures, 10.1) is Step.WAIT


def test_what_a_broker_before_us_knew_is_told_on_until_a_spawn_comes():
    departures = make_departures(before={"uid", "other"})
    assert departures.told == {"uid", "other"}
    departures.note_spawn("uid", 1.0)
    assert departures.told == {"other"}
    departures.follow([make_member(MemberState.DRAINING)], 2.0)
    assert departures.told == {"other"}


def test_it_is_asked_once_until_a_spawn_or_a_cut():
    departures = make_departures(0.0, 1.0)
    assert decide(departures, 99.0) is Step.ASK
    assert decide(departures, 99.0) is Step.WAIT
    assert departures.due([("uid", SIGHT)]) is None
    departures.disarm("uid")
    assert decide(departures, 99.0) is Step.ASK


def test_a_spawn_brings_back_all_conditions():
    departures = make_departures(1.0, 2.0, 3.0, 4.0, 5.0)
    departures.note_end("uid")
    assert decide(departures, 6.0) is Step.ASK
    departures.note_spawn("uid", 20.0)
    departures.note_read(20.1)
    assert decide(departures, 99.0) is Step.WAIT
    departures.note_read(20.2)
    assert departures.due([("uid", SIGHT)]) == 23.0
    assert decide(departures, 23.0) is Step.ASK


def test_a_spawn_on_a_host_never_offered_is_believed():
    departures = make_departures()
    departures.note_spawn("uid", 20.0)
    assert decide(departures, 20.1, UNOFFERED) is Step.WAIT


def test_a_spawn_before_the_operator_wants_it_away_asks_for_nothing():
    departures = Departures()
    departures.unlist("uid")
    departures.note_spawn("uid", 20.0)
    departures.follow([make_member(MemberState.DRAINING)], 21.0)
    assert decide(departures, 21.0, UNOFFERED) is Step.ASK


def test_the_shims_of_a_gone_pod_are_told_after_two_reads_or_eight_seconds():
    departures = Departures()
    gone = [make_member(MemberState.GONE, uid) for uid in ("read", "unread")]
    departures.unlist("read")
    departures.note_read(0.0)
    departures.unlist("unread")
    departures.follow(gone, 0.0)
    departures.note_read(1.0)
    assert departures.release(1.0) == ["read"]
    assert departures.due([]) == GONE_SECONDS
    assert departures.release(GONE_SECONDS) == ["unread"]
    departures.follow(gone, 50.0)
    assert departures.due([]) is None
    assert departures.left == ["read", "unread"]


def test_who_has_closed_starts_nothing_and_who_has_left_knows_nothing():
    departures = make_departures()
    assert departures.find_refusal("uid", may_run=False) is None
    departures.close("uid")
    assert "starts no process" in str(departures.find_refusal("uid", may_run=False))
    assert departures.find_refusal("uid", may_run=True) is None
    departures.follow([make_member(MemberState.GONE)], 0.0)
    assert departures.find_refusal("uid", may_run=True) is None
    assert departures.release(GONE_SECONDS) == ["uid"]
    assert departures.find_refusal("uid", may_run=True) == "the worker's pod is gone"


def test_a_removal_has_had_no_effect_while_ranks_run_there_and_the_pod_is_not_gone():
    departures = make_departures(7.0, 8.0)
    assert departures.last_read({"uid"}) == 7.0
    assert departures.last_read(set()) is None
    departures.follow([make_member(MemberState.GONE)], 9.0)
    assert departures.last_read({"uid"}) is None


def test_of_whom_nobody_speaks_nothing_is_kept():
    departures = make_departures(before={"gone-before", "known"})
    departures.forget(["uid"], {"known"})
    assert departures == Departures({"known"})


# ------------------------------------------------------------------ every event in every stage
EVENTS: dict[str, Callable[[Departures], object]] = {
    "unlist": lambda d: d.unlist("uid"),
    "drain": lambda d: d.follow([make_member(MemberState.DRAINING)], 1.0),
    "gone": lambda d: d.follow([make_member(MemberState.GONE)], 1.0),
    "spawn": lambda d: d.note_spawn("uid", 1.0),
    "end": lambda d: d.note_end("uid"),
    "cut": lambda d: d.disarm("uid"),
    "close": lambda d: d.close("uid"),
    "ask": lambda d: d._step("uid", "ask"),
    "release": lambda d: d._step("uid", "release"),
}


def test_every_event_of_the_table_is_tried_and_every_stage_is_in_it():
    assert {event for steps in DEPARTURE.values() for event in steps} == set(EVENTS)
    assert {after for steps in DEPARTURE.values() for after in steps.values()} == set(DEPARTURE)
    assert [stage for stage in DEPARTURE if "ask" in DEPARTURE[stage]] == [DRAINING]


@pytest.mark.long
@given(st.lists(st.sampled_from(list(EVENTS)), max_size=12))
def test_each_event_is_a_step_of_the_table_or_refused_without_a_trace(events: list[str]):
    departures, stage = Departures(), STAYING
    for event in events:
        before = deepcopy(departures)
        after = DEPARTURE[stage].get(event)
        if after is None:
            with pytest.raises(ProtocolError, match=f"{event} is not allowed when {stage}"):
                EVENTS[event](departures)
            assert departures == before
        else:
            EVENTS[event](departures)
            stage = after
        assert ("uid" in departures) == (stage != STAYING)
        assert stage == STAYING or departures["uid"].stage == stage
        assert departures.draining == (["uid"] if stage in (DRAINING, ASKED) else [])
        assert departures.left == (["uid"] if stage == LEFT else [])
