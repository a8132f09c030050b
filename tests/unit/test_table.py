"""The closing table of `make test` must not be green when something did not run."""

import os
import re
import select
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from points import OLDEST_POINTS, POINTS, Point
from run import (
    ADMITTED,
    PY,
    ROOT,
    STEPS,
    STEPS_BESIDE,
    Beside,
    Result,
    StepBeside,
    build_row,
    close,
    have_give_way,
    read_points,
    run_steps,
)  # fmt: skip


def prove_all() -> dict[str, list[Result]]:
    return {point.key: [Result("a test", passed=True, seconds=1)] for point in POINTS}


def test_all_proven_is_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert close(prove_all(), seconds=3725.0) == 0
    assert f"{len(POINTS)} passed, 0 failed, in 62 min 5 s" in capsys.readouterr().out


def test_a_point_without_a_test_fails_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    results = prove_all()
    del results[POINTS[3].key]

    assert close(results) == 1
    assert "NOT RUN" in capsys.readouterr().out


def test_one_bad_test_of_a_point_fails_it() -> None:
    results = [Result("good", passed=True, seconds=1), Result("bad", passed=False, seconds=2)]

    assert build_row(POINTS[0], results)[0] == "FAILED"
    assert build_row(POINTS[0], results)[2].startswith("bad")


def test_a_step_that_fails_beside_the_points_fails_the_run() -> None:
    results = prove_all() | {"e2e": [Result("pytest", passed=False, seconds=3)]}

    assert close(results) == 1


WAITS = "import threading; threading.Event().wait()"


@pytest.mark.parametrize(
    ("script", "within", "passed", "shown"),
    [
        ("print('said')", 60, True, "said"),
        ("print('said'); raise SystemExit(3)", 60, False, "said"),
        (WAITS, 0, False, "    still at work after 0 s more, ended"),
    ],
    ids=["passes", "fails", "does not end"],
)
def test_a_step_beside_others_is_waited_for_and_shown(
    script: str,
    within: float,
    shown: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    passed: bool,
) -> None:
    beside = Beside("a step", [PY, "-c", script], tmp_path / "logs" / "step.log")
    assert beside.end(within).passed is passed
    assert shown in capsys.readouterr().out.splitlines()


@pytest.mark.timeout(60)
def test_a_step_goes_on_beside_those_that_it_may_and_has_ended_after_them(tmp_path: Path) -> None:
    begun, met, parted, ended = (str(tmp_path / name) for name in ("begun", "a", "b", "ended"))
    os.mkfifo(met)  # whoever opens it waits for who opens its other end
    os.mkfifo(parted)
    is_new = f"import os; assert not os.path.exists({begun!r})"
    goes_on = f"open({begun!r}, 'w'); open({met!r}, 'w'); open({parted!r}); open({ended!r}, 'w')"
    steps = [
        ("before", "nothing beside it", [PY, "-c", is_new]),
        ("first", "something beside it", [PY, "-c", f"open({met!r})"]),
        ("last", "still beside it", [PY, "-c", f"open({parted!r}, 'w')"]),
        ("after", "nothing beside it any more", [PY, "-c", f"open({ended!r})"]),
    ]
    beside = StepBeside(("beside", "beside", [PY, "-c", goes_on]), "first", "last", within=30)
    results = run_steps(steps, [beside], tmp_path)
    assert {key: [r.passed for r in found] for key, found in results.items()} == {
        "before": [True], "first": [True], "last": [True], "beside": [True], "after": [True],
    }  # fmt: skip


def test_what_is_beside_others_ends_with_all_that_it_has_started(tmp_path: Path) -> None:
    end = str(tmp_path / "end")
    os.mkfifo(end)
    child = f"open({end!r}, 'w').close(); open({end!r}).read()"
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    beside = Beside("a step", [PY, "-c", starts], tmp_path / "step.log")
    assert Path(end).read_text() == "", "its child has begun"
    with Path(end).open("w") as held:  # which reads there as long as it lives
        assert not beside.end(0).passed
        reader = select.poll()
        reader.register(held, 0)
        assert [event for _, event in reader.poll(30_000)] == [select.POLLERR]


def test_what_is_beside_others_may_clear_up_before_it_is_ended(tmp_path: Path) -> None:
    begun, left = str(tmp_path / "begun"), tmp_path / "left"
    os.mkfifo(begun)
    left.touch()
    script = f"""import os, threading
try:
    open({begun!r}, "w").close()
    threading.Event().wait()
finally:
    os.unlink({str(left)!r})
"""
    beside = Beside("a step", [PY, "-c", script], tmp_path / "step.log")
    assert Path(begun).read_text() == ""
    assert not beside.end(0).passed
    assert not left.exists()


def test_what_does_not_end_when_it_is_told_to_is_ended(tmp_path: Path) -> None:
    begun = str(tmp_path / "begun")
    os.mkfifo(begun)
    ignores = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); open({begun!r}, 'w')"
    beside = Beside("a step", [PY, "-c", f"{ignores}; {WAITS}"], tmp_path / "step.log")
    assert Path(begun).read_text() == ""
    assert beside.stop(within=0) == -signal.SIGKILL


def test_what_cannot_give_way_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    have_give_way(tmp_path)  # a kernel that has no such file, or lets nobody write there
    assert "beside others as one of them" in capsys.readouterr().out


def test_each_step_beside_others_has_a_beginning_and_an_end() -> None:
    keys = [key for key, _, _ in STEPS]
    for beside in STEPS_BESIDE:
        assert keys.index(beside.first) <= keys.index(beside.last)


def test_where_steps_stop_nothing_goes_on_beside_them(tmp_path: Path) -> None:
    steps = [
        ("images", "what others need", [PY, "-c", "raise SystemExit(1)"]),
        ("last", "one of them", [PY, "-c", "pass"]),
    ]
    beside = StepBeside(("beside", "beside", [PY, "-c", WAITS]), "images", "last", within=0)
    results = run_steps(steps, [beside], tmp_path)
    assert {key: [r.passed for r in found] for key, found in results.items()} == {
        "images": [False], "beside": [False],
    }  # fmt: skip


def test_what_a_failed_test_said_stands_below_the_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failed = Result("tests/e2e/test_faults.py::test_x", passed=False, seconds=90, why="not yet")
    assert close({"one": [failed]}, [Point("one", "a promise", "Kubernetes")]) == 1
    assert "tests/e2e/test_faults.py::test_x: not yet" in capsys.readouterr().out.splitlines()


def test_what_failed_says_why(tmp_path: Path) -> None:
    noted = tmp_path / "points.jsonl"
    noted.write_text(
        '{"points": ["a", "b"], "test": "t", "outcome": "failed", "seconds": 2, "why": "no room"}\n'
    )

    failed = Result("t", passed=False, seconds=2, why="no room")
    assert list(read_points(noted)) == [("a", failed), ("b", failed)]


def test_the_line_that_a_script_notes_is_read(tmp_path: Path) -> None:
    script = (ROOT / "tests/old_python.sh").read_text()
    [template] = re.findall(r"printf '(.*)\\n'", script)
    noted = tmp_path / "points.jsonl"
    noted.write_text(template % ("3.7", 5) + "\n")

    [(key, result)] = read_points(noted)
    assert (key, result.passed, result.seconds) == ("old-python", True, 5)


def test_nothing_noted_is_nothing_read(tmp_path: Path) -> None:
    assert list(read_points(tmp_path / "points.jsonl")) == []


def test_each_policy_that_is_shipped_is_tried_on_the_oldest_kubernetes_too() -> None:
    shipped = [path.parent.name for path in (ROOT / "deploy/components").glob("*/policy.yaml")]
    keys = {f"{name.removesuffix('-policy')}-policy" for name in shipped}
    assert len(keys) == 4
    assert keys <= {point.key for point in OLDEST_POINTS}
    marked = r'point\("([\w-]+)"\)(?:\n@.*|\n[ \])].*)*\ndef (\w+)'
    found = [
        (key, name)
        for path in (ROOT / "tests/e2e").glob("test_*.py")
        for key, name in re.findall(marked, path.read_text())
        if key in keys
    ]
    assert {key for key, _ in found} == keys
    words = ADMITTED.split(" or ")
    assert not [name for _, name in found if not any(word in name for word in words)]
