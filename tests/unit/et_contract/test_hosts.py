from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_contract import hosts
from et_contract.hosts import Host, InvalidHosts

LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True).filter(
    lambda name: not name.startswith(hosts.NUDGE_PREFIX)
)
LISTS = st.lists(st.builds(Host, LABELS, st.integers(1, 4096)), unique_by=lambda host: host.name)


def read_as_horovodrun(text: str) -> dict[str, int]:
    """horovod/runner/elastic/discovery.py:244-257."""
    found = {}
    for line in set(text.strip().split("\n")):
        if ":" in line:
            host, slots = line.split(":")
            found[host] = int(slots)
        else:
            assert not line
    return found


@pytest.mark.long
@given(LISTS, st.integers(0, 99))
def test_what_is_written_is_what_horovodrun_reads(listed: list[Host], number: int):
    listed.append(hosts.nudge_host(number))
    assert read_as_horovodrun(hosts.format_hosts(listed)) == dict(listed)


@pytest.mark.long
@given(LISTS)
def test_what_is_written_is_read_back_in_its_order(listed: list[Host]):
    assert hosts.parse_hosts(hosts.format_hosts(listed)) == tuple(listed)


@given(st.text(alphabet="ab-:0 1#\n\r.A"))
def test_no_text_that_is_accepted_breaks_horovodrun(text: str):
    try:
        listed = hosts.parse_hosts(text)
    except InvalidHosts:
        return
    assert read_as_horovodrun(hosts.format_hosts(listed)) == dict(listed)


@pytest.mark.parametrize(
    "line",
    [
        "worker",
        "worker:",
        ":1",
        "worker:1:2",
        "worker:-1",
        "worker:+1",
        "worker: 1",
        "worker:1 ",
        "worker:0",
        "worker:99999",
        "worker:\u0661",
        "worker slots=1",
        "Worker:1",
        "worker.ns:1",
        "-worker:1",
        "worker-:1",
        "w" * 64 + ":1",
        "edl-nudge-1:1",
        "# comment",
        "worker:1\r",
        "worker:1\nworker:2",
    ],
)
def test_what_horovodrun_must_not_see_is_refused(line: str):
    with pytest.raises(InvalidHosts):
        hosts.parse_hosts(line)


def test_an_empty_list_is_a_list():
    assert hosts.parse_hosts("") == hosts.parse_hosts("\n") == ()
    assert hosts.format_hosts([]) == ""


def test_no_host_that_cannot_be_read_is_written():
    with pytest.raises(InvalidHosts):
        hosts.format_hosts([Host("a:b", 1)])


def test_pseudo_hosts_run_nothing():
    listed = hosts.parse_hosts("a:2\nedl-nudge-3:0\nb:4\n")
    assert hosts.count_slots(listed) == 6
    assert hosts.real_hosts(listed) == (Host("a", 2), Host("b", 4))
    assert hosts.format_hostfile(listed) == "a slots=2\nb slots=4\n"


def test_a_file_of_other_bytes_is_no_list(tmp_path: Path):
    (tmp_path / "hosts").write_bytes(b"w\xff:1\n")
    with pytest.raises(InvalidHosts, match="hosts"):
        hosts.read_hosts(str(tmp_path / "hosts"))


def test_what_is_no_file_of_a_list_is_neither_waited_for_nor_read(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "hole").touch()
    os.truncate(tmp_path / "hole", 2**40)
    (tmp_path / "folder").mkdir()
    open_files = len(list(Path("/proc/self/fd").iterdir()))
    for name in ("pipe", "hole", "folder"):
        with pytest.raises(InvalidHosts, match="is no list"):
            hosts.read_hosts(str(tmp_path / name))
    assert len(list(Path("/proc/self/fd").iterdir())) == open_files


@pytest.mark.parametrize("job", ["edl-nudge", "edl-nudge-1", "edl-nudge-x"])
def test_a_worker_is_a_host_whatever_its_job_is_called(job: str):
    assert hosts.parse_hosts(f"{job}-worker-0:2\n") == (Host(f"{job}-worker-0", 2),)
    with pytest.raises(InvalidHosts):
        hosts.parse_hosts(f"{job}-worker-0:0\n")
