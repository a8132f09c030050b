"""The pseudo host that makes horovodrun tell rank 0 again, or its workers synchronize."""

from __future__ import annotations

from launcher.broker.nudging import Nudging


def run_until(nudging: Nudging, served_at: float | None, seconds: int) -> list[tuple[int, str]]:
    """What was first shown when."""
    seen: list[tuple[int, str]] = []
    for now in range(seconds):
        nudging.advance(served_at, float(now))
        name = nudging.shown.name if nudging.shown else ""
        if name and name not in [n for _, n in seen]:
            seen.append((now, name))
    return seen


def test_a_change_is_told_again_for_as_long_as_it_has_no_effect_later_each_minute():
    seen = run_until(Nudging(), 0.0, 3600)
    assert [at for at, _ in seen] == [*range(10, 130, 15), *range(130, 3600, 60)]
    assert [name for _, name in seen] == [f"edl-nudge-{n + 1}" for n in range(len(seen))]


def test_a_change_that_has_its_effect_is_told_no_more():
    nudging = Nudging()
    assert run_until(nudging, 0.0, 500)
    assert run_until(nudging, None, 500) == [(0, f"edl-nudge-{nudging.number}")]


def test_none_without_a_change():
    assert run_until(Nudging(), None, 100) == []


def test_it_never_leaves_the_list_alone():
    nudging = Nudging()
    nudging.advance(0.0, 0.0)
    nudging.advance(0.0, 10.0)
    nudging.advance(None, 17.0)
    assert nudging.shown is not None
    assert nudging.due() is None
    nudging.follow_change(has_left=False)
    assert nudging.shown is None


def test_each_removal_has_a_name_of_its_own():
    nudging = Nudging()
    nudging.follow_change(has_left=True)
    first = nudging.shown
    nudging.follow_change(has_left=True)
    assert first is not None
    assert nudging.shown not in {None, first}


def test_a_later_change_begins_anew_and_an_earlier_one_does_not():
    nudging = Nudging()
    nudging.advance(0.0, 0.0)
    nudging.advance(10.0, 10.0)
    assert nudging.due() == 20.0
    nudging.advance(0.0, 12.0)
    assert nudging.due() == 20.0
