"""Scripts in a launcher: one whose first process was stopped, and one that is held up."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from et_contract.frames import ANSWER_SECONDS
from launcher.shim.scripting import Scripts

LONG_AFTER = 1000.0


@pytest.mark.parametrize(("words", "code"), [("exit 0", 0), ("exit 3", 3)])
def test_a_script_that_ended_in_time_is_not_called_late_by_who_was_stopped(
    tmp_path: Path, words: str, code: int
) -> None:
    script = tmp_path / "script.sh"
    script.write_text(f"#!/bin/sh\n{words}\n")
    scripts = Scripts(str(tmp_path), {"PATH": os.environ["PATH"]})
    order = {"id": "uid/1", "script": str(script), "argument": "", "timeout": 60}
    assert scripts.order(order, 0.0) is None
    pid = find_child()
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    scripts.act(LONG_AFTER)

    _, status = os.waitpid(pid, 0)  # nobody has reaped it
    result = scripts.reap(pid, os.WEXITSTATUS(status))
    assert result is not None
    assert (result["code"], result["timedOut"]) == (code, False)


@pytest.mark.parametrize("waits", [50.0, 60.0 + ANSWER_SECONDS, LONG_AFTER])
def test_a_script_for_which_nobody_waits_any_more_is_not_run(tmp_path: Path, waits: float) -> None:
    script, marker = tmp_path / "script.sh", tmp_path / "ran"
    script.write_text(f'#!/bin/sh\n[ "$1" = w-0 ] && exec sleep 99\ntouch {marker}\n')
    scripts = Scripts(str(tmp_path), {"PATH": os.environ["PATH"]})
    held = {"id": "b-1", "script": str(script), "argument": "w-1", "timeout": 60}
    assert scripts.order({**held, "id": "a-1", "argument": "w-0"}, 0.0) is None
    assert scripts.order(held, 0.0) is None
    os.kill(find_child(), signal.SIGKILL)
    assert wait_for_end(scripts) is not None

    result = scripts.start_next(waits)

    is_run = waits < 60.0 + ANSWER_SECONDS
    if is_run:
        assert result is None
        result = wait_for_end(scripts)
    assert result is not None
    assert (result["id"], result["code"]) == ("b-1", 0 if is_run else None)
    assert (result["timedOut"], marker.exists()) == (not is_run, is_run)
    assert scripts.order(held, waits) == result


def wait_for_end(scripts: Scripts) -> dict[str, object] | None:
    pid, status = os.waitpid(find_child(), 0)
    return scripts.reap(pid, os.waitstatus_to_exitcode(status))


def find_child() -> int:
    """The process that runs the script: the newest of ours."""
    tasks = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return int(tasks[-1])
