from __future__ import annotations

import pytest

from launcher.ssh import commands

TARGET = commands.Target("job-worker-0", "10.0.0.9", 3, "/run/id", "/keys/known_hosts")


def read_options(words: list[str]) -> dict[str, str]:
    values = [words[place + 1] for place, word in enumerate(words) if word == "-o"]
    return dict(value.split("=", 1) for value in values)


@pytest.mark.point("ssh-pinned")
def test_ssh_believes_the_one_host_key_of_the_job_and_asks_nobody() -> None:
    words = commands.build_command(TARGET, "fence 3")
    assert words[:3] == ["ssh", "-F", "none"]
    assert words[-2:] == ["job-worker-0", "fence 3"]
    expected = {
        "HostName": "10.0.0.9",
        "UserKnownHostsFile": "/keys/known_hosts",
        "GlobalKnownHostsFile": "/dev/null",
        "HostKeyAlias": "edl-worker",
        "StrictHostKeyChecking": "yes",
        "IdentityFile": "/run/id",
        "IdentitiesOnly": "yes",
        "PasswordAuthentication": "no",
        "BatchMode": "yes",
    }
    assert expected.items() <= read_options(words).items()


def test_a_request_says_who_asks_for_what() -> None:
    session = bytes(range(16))
    env = {"B": "it's", "A": "two\nlines"}
    assert commands.build_run(TARGET, session, "echo $A", env) == (
        f"run 3 {session.hex()}\nexport A='two\nlines'\nexport B='it'\"'\"'s'\necho $A"
    )
    assert commands.build_signal(TARGET, session, 15) == f"signal 3 {session.hex()} 15"
    assert commands.build_end(TARGET, session) == f"end 3 {session.hex()}"
    assert commands.build_fence(TARGET) == "fence 3"


def test_what_ssh_could_not_pass_on_is_refused_before() -> None:
    longest = "x" * commands.LONGEST_REQUEST
    assert commands.build_command(TARGET, longest)[-1] == longest
    with pytest.raises(commands.RequestTooLong, match="longer than 122880 bytes"):
        commands.build_command(TARGET, longest + "x")
