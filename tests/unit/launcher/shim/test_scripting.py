"""Scripts in a launcher whose first process was stopped for a while."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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


def find_child() -> int:
    """The process that runs the script: the newest of ours."""
    tasks = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return int(tasks[-1])
