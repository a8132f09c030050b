"""A broker whose token was stolen can say what it likes in its report: what that does."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from et_operator.model.jobs import ScalingKind
from launcher.documents import Report, ScriptResult, SessionExit
from tests.planning_makers import World, make_job, make_scaling

NAMES = [f"job-worker-{index}" for index in range(4)]
NUMBERS = st.integers(0, 2**40)
REPORTS = st.fixed_dictionaries(
    {
        "epoch": st.integers(0, 3),
        "launcher_uid": st.sampled_from(["job-launcher-uid", "a-strangers-uid"]),
        "observed_generation": NUMBERS,
        "served_generation": NUMBERS,
        "listed": st.sets(st.integers(0, 4)),
        "closed": st.sets(st.integers(0, 4)),
        "exits": st.dictionaries(st.integers(0, 4), st.integers(0, 255)),
        "scripts": st.dictionaries(st.text(max_size=9), st.none() | st.integers(0, 255)),
        "problems": st.dictionaries(
            st.just("DriverStalled") | st.text(max_size=9), st.text(max_size=20), max_size=2
        ),
    }
)


def forge(world: World, wish: dict[str, object]) -> Report:
    """A report about the workers that there are, and one that there is not."""
    pods = [world.pods[name].uid for name in NAMES if name in world.pods]
    uids = dict(enumerate([*pods, "a-strangers-uid"]))

    def find(numbers: object) -> frozenset[str]:
        assert isinstance(numbers, set)
        return frozenset(uids[n] for n in numbers if n in uids)

    exits, scripts = wish["exits"], wish["scripts"]
    assert isinstance(exits, dict)
    assert isinstance(scripts, dict)
    return Report(
        **{
            **wish,
            "broker_start": 1,
            "listed": find(wish["listed"]),
            "closed": find(wish["closed"]),
            "exits": {uids[n]: (SessionExit("s", c),) for n, c in exits.items() if n in uids},
            "scripts": {key: ScriptResult(code, "") for key, code in scripts.items()},
        }
    )  # type: ignore[arg-type]


@settings(max_examples=40)
@given(st.lists(REPORTS, max_size=4), st.integers(0, 3))
def test_a_forged_report_ends_no_worker_that_was_not_to_go(
    wishes: list[dict[str, object]], leaving: int
) -> None:
    world = World(make_job(4, minimum=1))
    world.start()
    victims = tuple(NAMES[:leaving])
    if victims:
        world.add(make_scaling(ScalingKind.IN, "less", pod_names=victims))
        world.settle()
    for wish in wishes:
        world.report = forge(world, wish)
        world.settle()
        world.wait(3)
        world.settle()
    ended = {name for name in NAMES if name not in world.pods or world.pods[name].is_deleting}
    assert ended <= set(victims)
