"""The image's own programs, as ours find them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from launcher.shim import programs
from tests.unit.launcher.agent.workers import PATIENCE
from tests.unit.launcher.shim.brokers import needs_ipv6

LONG = "#!/bin/sh\n'''exec' {} \"$0\" \"$@\"\n' '''\n"
"""What pip and uv write where Python's path is too long for a first line."""


def test_the_real_one_is_the_next_in_path(tmp_path: Path):
    for name in ("ours", "real"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "horovodrun").write_text("#!/bin/sh\n")
        (tmp_path / name / "horovodrun").chmod(0o755)
    ours, real = str(tmp_path / "ours"), str(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "ours")
    empty = tmp_path / "empty"
    (empty / "horovodrun").mkdir(parents=True)
    path = f"{tmp_path}/link:{ours}:{empty}:/nowhere:{real}"
    assert programs.find_program("horovodrun", path, ours) == f"{real}/horovodrun"
    assert programs.find_program("horovodrun", ours, ours) is None


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("#!/usr/bin/python3\n", ["/usr/bin/python3"]),
        ("#!/opt/conda/bin/python3.9 -s\n", ["/opt/conda/bin/python3.9", "-s"]),
        ("#!/usr/bin/env python\n", ["/usr/bin/env", "python"]),
        (LONG.format("/a/python3 -s"), ["/a/python3", "-s"]),
        (LONG.format('"/a b/python3"'), ["/a b/python3"]),
        (LONG.format("'/a b/python3'"), ["/a b/python3"]),
        (LONG.format('"$(dirname "$0")/python3"'), []),
        (LONG.format("'unbalanced"), []),
        ("#!/bin/sh\nexec python3 t.py\n", []),
        ("#!/bin/sh\n", []),
        ("#!/usr/bin/env bash\n", []),
        ("\x7fELF", []),
        ("", []),
    ],
)
def test_the_python_of_a_program_is_that_of_its_first_line(
    tmp_path: Path, first: str, words: list[str]
):
    program = tmp_path / "program"
    program.write_text(first + "import sys\n")
    found = programs.find_interpreter(str(program))
    assert found == words
    assert programs.find_interpreter("/no/such/program") == []


@pytest.mark.parametrize(
    "python",
    ['"$(dirname "$0")/python3"', '"$(dirname -- "$(realpath -- "$0")")"/python3'],
)
def test_a_program_that_looks_for_python_beside_itself_has_the_one_that_is_there(
    tmp_path: Path, python: str
):
    folder = tmp_path / "venv/bin"
    folder.mkdir(parents=True)
    (folder / "program").write_text(LONG.format(python))
    (tmp_path / "link").symlink_to(folder / "program")
    assert programs.find_interpreter(str(tmp_path / "link")) == []
    (folder / "python3").write_text("#!/bin/sh\n")
    (folder / "python3").chmod(0o755)
    assert programs.find_interpreter(str(tmp_path / "link")) == [str(folder / "python3")]


def test_the_address_is_that_on_the_way_to_the_peer():
    assert programs.find_address("127.0.0.1") == "127.0.0.1"
    assert programs.find_address("no address", "127.0.0.1") == "127.0.0.1"


@needs_ipv6
def test_the_address_may_be_one_of_ipv6():
    assert programs.find_address("::1") == "::1"
    assert programs.find_address("no address", "::1", "127.0.0.1") == "::1"


def test_a_pod_that_no_way_leads_out_of_has_the_address_of_its_name():
    assert programs.find_address("no address") in {
        found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None)
    }


@pytest.mark.long
def test_a_log_that_nobody_takes_keeps_nobody_waiting():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    words = [sys.executable, "-c", "from launcher.shim import programs; programs.say('x' * 9999)"]
    done = subprocess.run(words, stderr=writer, timeout=PATIENCE, check=False)
    assert done.returncode == 0
    os.set_blocking(reader, False)
    assert b"edl" not in os.read(reader, 2**20)
    done = subprocess.run(words, stderr=writer, timeout=PATIENCE, check=False)
    assert os.read(reader, 2**20) == b"edl: " + b"x" * 9999 + b"\n"
    for end in (reader, writer):
        os.close(end)
