import pytest

from et_operator.cli import read_settings
from et_operator.settings import Queueing


def test_flags_come_before_the_environment() -> None:
    settings = read_settings(
        ["--broker-image", "mine", "--namespaces", "a, b,"], {"BROKER_IMAGE": "theirs"}
    )

    assert settings.broker_image == "mine"
    assert settings.namespaces == ("a", "b")


def test_the_environment_alone_is_enough_in_a_pod() -> None:
    environ = {
        "BROKER_IMAGE": "image",
        "BROKER_PULL_SECRETS": "one,two",
        "POD_NAMESPACE": "system",
        "POD_NAME": "et-operator-0",
        "LOG_LEVEL": "debug",
    }

    settings = read_settings([], environ)

    assert settings.broker_pull_secrets == ("one", "two")
    assert (settings.own_namespace, settings.identity) == ("system", "et-operator-0")
    assert settings.log_level == "debug"
    assert read_settings([], environ | {"HTTP_PORT": "0"}).http_port == 0
    assert read_settings([], environ | {"LOG_LEVEL": "INFO"}).log_level == "info"


def test_without_a_broker_image_it_says_which_flag_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        read_settings([], {})

    assert ended.value.code == 2
    assert "--broker-image (or BROKER_IMAGE) is missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "name", "value", "words"),
    [
        ("--workers", "WORKERS", "many", "must be a number from 1 to 1024, not 'many'"),
        ("--workers", "WORKERS", "0", "must be a number from 1 to 1024, not '0'"),
        ("--workers", "WORKERS", "-1", "must be a number from 1 to 1024, not '-1'"),
        ("--http-port", "HTTP_PORT", "65536", "must be a number from 0 to 65535, not '65536'"),
        ("--log-level", "LOG_LEVEL", "trace", "must be debug or info or warning or error, not"),
        ("--log-format", "LOG_FORMAT", "xml", "must be json or console, not 'xml'"),
    ],
)
def test_what_a_flag_cannot_take_its_variable_cannot_either(
    flag: str, name: str, value: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for argv, environ in (([f"{flag}={value}"], {}), ([], {name: value})):
        with pytest.raises(SystemExit) as ended:
            read_settings(["--broker-image", "i", *argv], environ)

        assert ended.value.code == 2
        assert f"argument {flag}: (or {name}) {words}" in capsys.readouterr().err


def test_whether_queues_are_required_is_said_by_one_of_two_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    argv = ["--broker-image", "i"]
    assert read_settings(argv, {}).default_queue == ""
    settings = read_settings(argv, {"QUEUEING": "Required"})
    assert (settings.queueing, settings.default_queue) == (Queueing.REQUIRED, "default")
    for flags, environ in ((["--queueing", "required"], {}), ([], {"QUEUEING": "required"})):
        with pytest.raises(SystemExit):
            read_settings([*argv, *flags], environ)

        words = "(or QUEUEING) must be Optional or Required, not 'required'"
        assert words in capsys.readouterr().err
