from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_contract.options import HOROVODRUN
from launcher.shim import horovod_options
from launcher.shim.horovod_options import adjust, read_options

ELASTIC = ["-np", "4", "--min-np", "2", "--host-discovery-script", "/d.sh", "python", "t.py"]
OURS = ["--network-interface", "eth0", "--gloo-timeout-seconds", "120"]


def adjusted(argv: list[str], **given_: Any) -> list[str]:
    return adjust(argv, **{"slots": 4, "interface": "eth0", "environ": {}, **given_})


def test_an_elastic_run_gets_what_it_lacks():
    assert adjusted(ELASTIC) == OURS + ELASTIC


@pytest.mark.parametrize(
    ("extra", "missing"),
    [
        (["--network-interface", "ib0"], OURS[2:]),
        (["--network-interfaces=ib0,ib1"], OURS[2:]),
        (["--gloo-timeout-seconds", "300"], OURS[:2]),
        (["--gloo-timeout-seconds=300"], OURS[:2]),
        (["--gloo-t", "300"], OURS[:2]),
        (
            ["--network-i", "ib0"],
            OURS[2:],
        ),  # older releases have one such name
    ],
)
def test_what_the_user_gave_stands(extra: list[str], missing: list[str]):
    assert adjusted(extra + ELASTIC) == missing + extra + ELASTIC


def test_a_gloo_time_out_in_the_environment_stands():
    assert adjusted(ELASTIC, environ={"HOROVOD_GLOO_TIMEOUT_SECONDS": "9"}) == OURS[:2] + ELASTIC


def test_without_a_default_route_horovodrun_finds_its_interface_itself():
    assert adjusted(ELASTIC, interface=None) == OURS[2:] + ELASTIC


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--version"],
        ["--check-build"],
        ["-np", "4", "-H", "a:2,b:2", "python", "t.py"],
        ["-np", "4", "python", "t.py", "--min-np", "2", "--host-discovery-script", "x"],
        ["-np", "4", "--", "--min-np", "2"],
        ["--some-future-option", "--min-np", "2", "python"],
        ["--min-np", "2", "--verbose=yes", "python"],
        ["--host", "2", "--min-np", "2", "python"],  # ambiguous to argparse too
        ["--min-np"],
    ],
)
def test_everything_else_stays_as_it_is(argv: list[str]):
    assert adjusted(argv, slots=1) == argv


@pytest.mark.parametrize(
    ("words", "slots", "number"),
    [
        (["-np", "8", "--min-np", "2"], 4, "4"),
        (["-np", "8", "--min-np", "6"], 4, "6"),
        (["-np", "8", "--min-np", "2"], 9, "8"),
        (["-np", "8", "--min-np", "2"], None, "8"),
        (["-np", "8", "--min-np", "0"], 0, "0"),
        (["--num-proc", "8", "--min-num-proc", "2"], 4, "4"),
        (["-np", "many", "--min-np", "2"], 4, "many"),
        # without --min-np the least is -np itself
        (["-np", "8", "--host-discovery-script", "d"], 4, "8"),
    ],
)
def test_np_is_lowered_to_the_slots_listed_but_not_below_the_least(
    words: list[str], slots: int | None, number: str
):
    argv = [*words, "python"]
    assert adjusted(argv, slots=slots)[len(OURS) :] == [words[0], number, *argv[2:]]


def test_np_is_lowered_inside_its_word_too():
    argv = ["--num-proc=8", "--min-np=2", "python", "-np", "8"]
    assert adjusted(argv)[len(OURS) :] == ["--num-proc=4", *argv[1:]]


def test_the_last_of_two_counts():
    argv = ["-np", "2", "-np", "8", "--min-np", "1", "python"]
    assert adjusted(argv)[len(OURS) :] == ["-np", "2", "-np", "4", *argv[4:]]


def test_options_end_where_the_command_begins():
    argv = ["--blacklist-cooldown-range", "1", "2", "-p22", "-H=a:1", "-cb", "python", "-v"]
    assert [(o.name, o.value) for o in read_options(argv)] == [
        ("--blacklist-cooldown-range", "1"),
        ("-p", "22"),
        ("-H", "a:1"),
        ("-cb", None),
    ]


NAMES = st.sampled_from([*HOROVODRUN.counts, "--new", "-", "--", "x"])
WORDS = st.lists(st.one_of(NAMES, st.text(alphabet="-=1a", max_size=4)))


@pytest.mark.long
@given(WORDS, st.integers(0, 9))
def test_no_word_is_ever_lost_or_moved(argv: list[str], slots: int):
    words = adjusted(argv, slots=slots)
    added = len(words) - len(argv)
    assert words[:added] in ([], OURS, OURS[:2], OURS[2:])
    changed = [(old, new) for old, new in zip(argv, words[added:], strict=True) if old != new]
    assert len(changed) <= 1


@pytest.mark.long
@given(st.lists(st.sampled_from(sorted(HOROVODRUN.counts))), st.lists(st.text()))
def test_nothing_of_the_command_is_touched(names: list[str], command: list[str]):
    argv = ["--host-discovery-script", "d"]
    for name in names:
        argv += [name] + ["7"] * HOROVODRUN.counts[name]
    assert adjusted([*argv, "python", *command])[-len(command) - 1 :] == ["python", *command]


@pytest.mark.parametrize(
    ("argv", "most"),
    [
        (["-np", "2", "--max-np", "64", "--min-np", "1", "python"], 64),
        (["-np=40", "--max-num-proc=8", "--host-discovery-script=x", "python"], 40),
        (["--host-discovery-script", "x", "python"], 0),
        (["-np", "many", "--min-np", "1", "python"], 1),
        (["-np", "99", "python", "--min-np", "1"], None),
        (["-np", "99", "-H", "a:99", "python"], None),
    ],
)
def test_the_most_processes_of_an_elastic_run(argv: list[str], most: int | None):
    assert horovod_options.read_most(argv) == most
