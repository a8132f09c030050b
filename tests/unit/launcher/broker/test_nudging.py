"""The pseudo host that makes horovodrun tell rank 0 again."""

from __future__ import annotations

from launcher.broker.nudging import Nudging


def run_until(nudging: Nudging, served_at: float | None, seconds: int) -> list[tuple[int, str]]:
    """Each second is one read; what was first shown when."""
    seen: list[tuple[int, str]] = []
    for now in range(seconds):
        nudging.advance(served_at, float(now))
        name = nudging.shown.name if nudging.shown else ""
        if name and name not in [n for _, n in seen]:
            seen.append((now, name))
        nudging.note_read(float(now))
    return seen


def test_some_nudges_and_no_more():
    seen = run_until(Nudging(), 0.0, 400)
    assert [at for at, _ in seen] == [10, 25, 40, 55, 70, 85, 100, 115]
    assert [name for _, name in seen] == [f"edl-nudge-{n}" for n in range(1, 9)]


def test_none_without_a_change():
    assert run_until(Nudging(), None, 100) == []


def test_it_stays_until_two_seconds_after_it_was_read():
    nudging = Nudging()
    nudging.advance(0.0, 0.0)
    nudging.advance(0.0, 10.0)
    assert nudging.shown is not None
    nudging.advance(0.0, 19.0)
    assert nudging.shown is not None
    assert nudging.due() is None
    nudging.note_read(19.0)
    assert nudging.due() == 21.0
    nudging.advance(0.0, 21.0)
    assert nudging.shown is None


def test_it_goes_when_the_last_process_has_ended():
    nudging = Nudging()
    nudging.advance(0.0, 0.0)
    nudging.advance(0.0, 15.0)
    nudging.note_read(15.0)
    nudging.advance(None, 17.0)
    assert nudging.shown is None
    assert nudging.due() is None


def test_a_later_change_begins_anew_and_an_earlier_one_does_not():
    nudging = Nudging()
    nudging.advance(0.0, 0.0)
    nudging.advance(10.0, 10.0)
    assert nudging.due() == 20.0
    nudging.advance(0.0, 12.0)
    assert nudging.due() == 20.0
