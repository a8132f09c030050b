from __future__ import annotations

from tests.planning_makers import ModelWorld, make_job


def test_a_broker_that_has_never_reported_is_told_of_after_two_minutes() -> None:
    world = ModelWorld(make_job(2))
    world.settle()
    world.wait(1)
    world.run()
    world.settle()
    world.wait(119)
    world.settle()
    assert world.condition("LauncherTrouble") is None
    assert world.requeue_after is not None
    world.wait(1)
    world.settle()
    assert world.reason("LauncherTrouble") == "ReportMissing"
    assert "kubectl logs job-launcher -c edl-broker" in world.events[-1].message
    world.serve()
    world.settle()
    assert world.condition("LauncherTrouble") == "False"


def test_a_broker_that_does_not_hear_of_who_must_leave_is_told_of_until_it_does() -> None:
    world = ModelWorld(make_job(3))
    world.start()
    world.wait(3600)
    world.settle()
    assert world.condition("LauncherTrouble") is None, "nothing is waited for"
    world.edit(replicas=2)
    world.settle()
    world.wait(60)
    world.settle()
    assert world.condition("LauncherTrouble") is None
    world.wait(65)
    world.settle()
    assert world.reason("LauncherTrouble") == "ReportMissing"
    world.serve(close=False)
    world.settle()
    assert world.condition("LauncherTrouble") == "False"
    world.wait(200)
    world.settle()
    assert world.condition("LauncherTrouble") == "False", "it knows, and the process takes its time"


def test_a_launcher_that_does_not_run_yet_or_any_more_is_silent_for_a_reason() -> None:
    world = ModelWorld(make_job(2))
    world.settle()
    world.wait(600)
    world.settle()
    assert world.condition("LauncherTrouble") is None
    world.run()
    world.settle()
    world.serve()
    world.settle()
    world.report = None
    world.delete("job-launcher")
    world.wait(200)
    world.settle()
    assert world.condition("LauncherTrouble") is None
