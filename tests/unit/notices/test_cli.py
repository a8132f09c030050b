"""Flags before environment, and words for what is wrong."""

from __future__ import annotations

import pytest

from et_notices.cli import read_settings
from et_notices.settings import Settings


def test_flags_come_before_the_environment():
    environ = {"NODE_NAME": "a", "CLOUD": "aws", "METADATA_URL": "http://m", "LOG_LEVEL": "error"}
    told = {"cloud": "aws", "metadata_url": "http://m", "log_level": "error"}
    assert read_settings([], environ) == Settings(node="a", **told)
    flags = ["--node-name", "b", "--cloud", "gcp"]
    assert read_settings(flags, environ) == Settings(node="b", **(told | {"cloud": "gcp"}))


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "NODE_NAME"),
        ({"NODE_NAME": "a", "CLOUD": "moon"}, "'moon' is none of aws, gcp"),
        ({"NODE_NAME": "a", "LOG_LEVEL": "trace"}, "(or LOG_LEVEL) must be debug or info"),
    ],
)
def test_what_is_wrong_is_said(
    environ: dict[str, str], words: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as caught:
        read_settings([], environ)
    assert caught.value.code == 2
    assert words in capsys.readouterr().err
