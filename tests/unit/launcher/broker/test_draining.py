"""When a member that must leave is asked to close."""

from __future__ import annotations

from dataclasses import replace

from launcher.broker.draining import GONE_SECONDS, Departures, Drain, Sight, Step
from launcher.broker.hosts import Leaving


def make_sight(reads: int = 0, served_at: float | None = None) -> Sight:
    return Sight(
        leaving=Leaving(reads, served_at),
        is_connected=True,
        was_offered=True,
        is_claimed=False,
        starting=0,
    )


def test_a_host_that_was_never_offered_is_asked_at_once():
    sight = replace(make_sight(), was_offered=False)
    assert Drain().decide(sight, 0.0) is Step.ASK


def test_without_a_stream_a_host_that_was_never_offered_is_closed_by_us():
    sight = replace(make_sight(), was_offered=False, is_connected=False)
    assert Drain().decide(sight, 0.0) is Step.CLOSE
    assert Drain().decide(replace(sight, is_claimed=True), 0.0) is Step.WAIT
    assert Drain().decide(replace(sight, was_offered=True), 0.0) is Step.WAIT


def test_two_reads_and_the_time_for_starts_come_before_the_question():
    drain = Drain()
    sight = make_sight(reads=2, served_at=10.0)
    assert drain.due(sight) == 13.0
    assert drain.decide(sight, 12.9) is Step.WAIT
    assert drain.decide(sight, 13.0) is Step.ASK
    assert drain.decide(make_sight(reads=1, served_at=10.0), 99.0) is Step.WAIT
    assert drain.decide(make_sight(), 99.0) is Step.WAIT


def test_each_slot_that_may_be_starting_asks_for_a_further_read_and_more_time():
    drain = Drain()
    sight = replace(make_sight(reads=6, served_at=10.0), starting=5)
    assert drain.due(sight) is None
    assert drain.due(replace(sight, leaving=Leaving(7, 10.0))) == 14.0
    many = replace(make_sight(reads=10, served_at=10.0), starting=100)
    assert drain.due(many) == 33.0


def test_before_anything_was_started_a_minute_goes_by():
    sight = replace(make_sight(reads=9, served_at=10.0), has_begun=False)
    assert Drain().due(sight) == 70.0


def test_the_end_of_a_session_after_the_read_needs_no_waiting():
    drain = Drain()
    drain.note_end(Leaving(reads=1, served_at=10.0))
    assert drain.decide(make_sight(reads=1, served_at=10.0), 10.1) is Step.ASK


def test_the_end_of_a_session_before_the_read_proves_nothing():
    drain = Drain()
    drain.note_end(Leaving())
    assert drain.decide(make_sight(reads=1, served_at=10.0), 10.1) is Step.WAIT


def test_it_is_asked_once_until_a_spawn_or_a_cut():
    drain = Drain(is_asked=True)
    sight = make_sight(reads=9, served_at=0.0)
    assert drain.decide(sight, 99.0) is Step.WAIT
    drain.disarm()
    assert drain.decide(sight, 99.0) is Step.ASK


def test_a_spawn_brings_back_all_conditions():
    drain = Drain(has_ended=True, is_asked=True)
    drain.note_spawn(Leaving(reads=5, served_at=1.0), 20.0)
    assert drain.decide(make_sight(reads=6, served_at=1.0), 99.0) is Step.WAIT
    sight = make_sight(reads=7, served_at=1.0)
    assert drain.due(sight) == 23.0
    assert drain.decide(sight, 23.0) is Step.ASK


def test_a_spawn_on_a_host_never_offered_is_believed():
    drain = Drain()
    drain.note_spawn(Leaving(), 20.0)
    assert drain.decide(replace(make_sight(), was_offered=False), 20.1) is Step.WAIT


def test_the_shims_of_a_gone_pod_are_told_after_two_reads_or_eight_seconds():
    departures = Departures()
    departures.note_gone("read", 0.0)
    departures.note_gone("unread", 0.0)
    leaving = {"read": Leaving(2, 1.0), "unread": Leaving(1, 1.0)}
    assert departures.release(leaving, 1.0) == ["read"]
    assert departures.due() == GONE_SECONDS
    assert departures.release(leaving, GONE_SECONDS) == ["unread"]
    departures.note_gone("read", 50.0)
    assert departures.due() is None
