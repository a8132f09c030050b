from __future__ import annotations

from dataclasses import replace

import pytest

from et.reading import explain_end
from et_operator.model.conditions import Condition
from tests.planning_makers import make_job

OUTPUT = "[0]<stderr>:Traceback:\n[0]<stderr>:  File 'x'\n[0]<stderr>:ValueError: no data\nexit 1"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("the user's command ended with 0", "the user's command ended with 0"),
        (
            f"the launcher ended with exit code 1: {OUTPUT}",
            "the launcher ended with exit code 1: ValueError: no data",
        ),
        (
            f"the launcher ended with exit code 137 (OOMKilled): {OUTPUT}",
            "the launcher ended with exit code 137 (OOMKilled): ValueError: no data",
        ),
        (
            "the launcher ended with exit code 1: x\nRuntimeError: Horovod detected that one or",
            "the launcher ended with exit code 1: a process in a worker has failed",
        ),
        ("the launcher ended with exit code 3: bye", "the launcher ended with exit code 3: bye"),
    ],
)
def test_of_the_output_of_a_failed_command_its_error_is_told(message: str, words: str):
    job = make_job()
    ended = Condition("Failed", "True", "LauncherFailed", message)

    assert explain_end(replace(job, status=replace(job.status, conditions=(ended,)))) == words
