"""Flags, environment and their defaults."""

from __future__ import annotations

import pytest

from et_scheduler.cli import main, read_settings


def test_flags_stand_before_the_environment() -> None:
    environ = {"HTTP_PORT": "1", "LOG_LEVEL": "debug", "POD_NAME": "p", "POD_NAMESPACE": "n"}
    settings = read_settings(["--http-port", "2"], environ)
    assert (settings.http_port, settings.log_level) == (2, "debug")
    assert (settings.identity, settings.own_namespace) == ("p", "n")


@pytest.mark.parametrize(
    ("environ", "flags", "is_observing"),
    [
        ({}, [], False),
        ({}, ["--observe"], True),
        ({"OBSERVE": "true"}, [], True),
        ({"OBSERVE": "false"}, [], False),
        ({"OBSERVE": "perhaps"}, [], True),  # whoever says anything wants to look first
    ],
)
def test_observing_is_asked_for(
    environ: dict[str, str], flags: list[str], *, is_observing: bool
) -> None:
    assert read_settings(flags, environ).is_observing is is_observing


def test_a_bad_setting_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--log-level", "loud"])
    assert "--log-level" in capsys.readouterr().err
