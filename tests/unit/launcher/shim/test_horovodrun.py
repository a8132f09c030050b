from __future__ import annotations

import os
from pathlib import Path

import pytest

from et_contract import names, paths
from launcher.shim import horovod_options, horovodrun
from tests.unit.launcher.shim.brokers import PYTHON, Start

ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth1\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
net1\t00000000\t0101A8C0\t0003\t0\t0\t200\t00000000\t0\t0\t0
eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
"""


@pytest.mark.parametrize(
    ("text", "interface"),
    [
        (ROUTES, "eth0"),
        ("".join(ROUTES.splitlines(keepends=True)[:2]), None),
        (ROUTES.splitlines()[0], None),
    ],
)
def test_the_interface_is_that_of_the_best_default_route(
    tmp_path: Path, text: str, interface: str | None
):
    (tmp_path / "route").write_text(text)
    assert horovodrun.find_interface(str(tmp_path / "route")) == interface


def test_without_a_routing_table_there_is_no_interface(tmp_path: Path):
    assert horovodrun.find_interface(str(tmp_path / "none")) is None


def test_slots_are_counted_from_the_brokers_list(tmp_path: Path):
    file = tmp_path / "hosts"
    assert horovodrun.count_listed(str(file)) is None
    file.write_text("a:2\nb:3\nedl-nudge-1:0\n")
    assert horovodrun.count_listed(str(file)) == 5


def install(folder: Path, text: str = 'for word; do echo "$word"; done; env') -> str:
    folder.mkdir()
    program = folder / "horovodrun"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return str(folder)


RUN = "from launcher.shim import horovodrun; sys.exit(horovodrun.main(sys.argv[1:]))"


def test_it_becomes_the_real_one_with_what_was_missing(tmp_path: Path, start: Start):
    path = install(tmp_path / "real") + ":/usr/bin:/bin"
    environ = {"PATH": path, "POD_IP": "10.0.0.1", names.ENV_NONCE: "n"}
    argv = ["--min-np", "1", "-np", "1", "--network-interface", "lo", "python", "a b"]
    out, err = start(RUN, *argv, env=environ).communicate(timeout=20)
    lines = out.decode().splitlines()
    assert lines[:10] == ["--gloo-timeout-seconds", "120", *argv]
    assert "EDL_NONCE=n" in lines
    assert not any(line.startswith("POD_IP=") for line in lines)
    assert err == b"edl: horovodrun is given --gloo-timeout-seconds 120\n"


def test_what_is_said_of_a_command_line_is_what_we_changed_of_it():
    given = ["--min-np", "1", "-np", "4", "python", "train.py", "--key=secret"]
    words = horovod_options.adjust(given, slots=2, interface="eth0", environ={})
    changed = ["--network-interface", "eth0", "--gloo-timeout-seconds", "120", "-np 2"]
    assert horovodrun.find_changed(given, words) == changed
    assert horovodrun.find_changed(given, given) == []


def test_a_static_run_is_passed_on_in_silence(tmp_path: Path, start: Start):
    environ = {"PATH": install(tmp_path / "real", 'echo "$@"; exit 3') + ":/usr/bin:/bin"}
    process = start(RUN, "-np", "2", "python", "--min-np", "1", env=environ)
    assert process.communicate(timeout=20) == (b"-np 2 python --min-np 1\n", b"")
    assert process.returncode == 3


FAST = {names.ENV_LOSSES: names.FAST}
ELASTIC = ["--min-np", "1", "-np", "1", "--network-interface", "lo"]


@pytest.mark.parametrize(
    ("given", "environ", "is_prepared"),
    [
        (ELASTIC, FAST, True),
        (ELASTIC, {}, False),
        (ELASTIC, {names.ENV_LOSSES: "Wait"}, False),
        (["-np", "1"], FAST, False),
    ],
)
def test_the_ranks_of_an_elastic_run_begin_with_ours_where_losses_are_to_cost_seconds(
    tmp_path: Path, start: Start, given: list[str], environ: dict[str, str], is_prepared: bool
):
    path = install(tmp_path / "real") + ":/usr/bin:/bin"
    process = start(RUN, *given, "python", "train.py", env={"PATH": path, **environ})
    lines = process.communicate(timeout=20)[0].decode().splitlines()
    command = lines[lines.index("train.py") - 1 - 4 * is_prepared :]
    assert (command[:2] == ["/bin/sh", "-c"]) is is_prepared
    assert (paths.RANKS_DIR in command[2]) is is_prepared
    assert not any(line.startswith(names.ENV_LOSSES) for line in lines)


@pytest.mark.long
def test_ranks_that_do_not_begin_with_python_are_told_of(tmp_path: Path, start: Start):
    environ = {"PATH": install(tmp_path / "real") + ":/usr/bin:/bin", **FAST}
    out, err = start(RUN, *ELASTIC, "bash", "run.sh", env=environ).communicate(timeout=20)
    assert out.decode().splitlines()[-20:].count("bash") == 1
    assert b"/bin/sh" not in out.splitlines()
    assert f"PYTHONPATH={paths.RANKS_DIR}" in err.decode()


def test_an_image_without_horovod_is_told_so(start: Start):
    process = start(RUN, "-np", "2", "python", env={"PATH": "/nowhere"})
    _, err = process.communicate(timeout=20)
    assert process.returncode == 127
    assert b"is Horovod installed" in err


def test_one_that_cannot_be_executed_is_named(tmp_path: Path, start: Start):
    folder = install(tmp_path / "real")
    Path(folder, "horovodrun").write_text("#!/no/such/python\n")
    process = start(RUN, "x", env={**os.environ, "PATH": folder})
    _, err = process.communicate(timeout=20)
    assert process.returncode == 126
    assert f"cannot start {folder}/horovodrun".encode() in err


BIG = {"A": "x" * 200_000}


@pytest.mark.parametrize(
    ("most", "listed", "environ", "is_inside"),
    [
        (31, 31, {}, False),
        (32, 2, {}, True),
        (0, 32, {}, True),
        (2, None, {}, False),
        (2, 2, BIG, True),
        (2, 2, {names.ENV_LAUNCHER: "horovodrun"}, False),
        (2, 2, {names.ENV_LAUNCHER: "horovodrun-in-process"}, True),
        (99, 99, {names.ENV_LAUNCHER: "horovodrun-per-slot", **BIG}, False),
        (None, 99, {names.ENV_LAUNCHER: "horovodrun-in-process"}, False),
    ],
)
def test_many_slots_a_long_environment_or_a_wish_brings_us_inside(
    most: int | None, listed: int | None, environ: dict[str, str], is_inside: bool
):
    assert horovodrun.is_for_inside(most, listed, environ) is is_inside


@pytest.mark.point("case-31")
def test_case_31_an_environment_of_200_kb_starts(tmp_path: Path, start: Start):
    """Alone it fits into no command line; with us inside none is made."""
    folder = tmp_path / "real"
    install(folder)
    text = f"#!{PYTHON} -IS\nimport os, sys; print('started', len(os.environ['A']), sys.argv[1])"
    Path(folder, "horovodrun").write_text(text)
    words = ["--min-np", "1", "--network-interface", "lo", "-np", "1", "python"]
    many = {f"A{number}": "x" * 100_000 for number in range(2)}
    environ = {"PATH": f"{folder}:/usr/bin:/bin", "A": "x" * 100_000, **many}
    out, err = start(RUN, *words, env=environ).communicate(timeout=20)
    assert out == b"started 100000 --gloo-timeout-seconds\n"
    assert b"a process per slot: ModuleNotFoundError" in err  # there is no Horovod here
