"""What survives a restart of the broker."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_contract import frames
from et_contract.documents import InvalidDocument, Report, SessionExit
from launcher.broker.hosts import Entry, HostMemory
from launcher.broker.memories import (
    Identity,
    Memory,
    decode_memory,
    encode_memory,
    recall,
    write_whole,
)
from launcher.broker.sessions import Session
from launcher.protocol.signals import read_signal

IDENTITY = Identity("job", "ns", "job-uid", 2, "launcher-uid")
texts = st.text(max_size=5)
counts = st.integers(0, 2**53)
uids = st.frozensets(texts, max_size=3)
codes = st.dictionaries(texts, st.integers(0, 255), max_size=3)


@pytest.mark.long
@given(
    st.builds(
        Memory,
        st.builds(
            Report,
            counts,
            texts,
            counts,
            listed=uids,
            closed=uids,
            unlisted=uids,
            used_up=codes,
            ready=uids,
        ),
        st.builds(
            HostMemory,
            generation=counts,
            listed=st.tuples(st.builds(Entry, texts, texts, counts)),
            ever_listed=uids,
            offered=uids,
            served_generation=counts,
            nonce=texts,
            started=st.booleans(),
            ready=uids,
        ),
        told=uids,
        nudges=counts,
        has_begun=st.booleans(),
        failed=codes,
    )
)
def test_memory_survives_the_file(memory: Memory):
    assert decode_memory(encode_memory(memory)) == memory


@given(st.booleans())
def test_a_memory_that_does_not_speak_of_ranks_tells_by_the_ends(has_ended: bool):
    exits = {"u": (SessionExit("00", 0, "exited"),)} if has_ended else {}
    memory = Memory(Report(1, "l", 1, exits=exits), has_begun=has_ended)
    body = json.loads(encode_memory(memory))
    del body["hasBegun"]
    assert decode_memory(json.dumps(body)) == memory


@pytest.mark.long
@given(st.text())
def test_anything_else_is_told_apart(text: str):
    with pytest.raises(InvalidDocument):
        decode_memory(text)


def test_each_start_has_a_number_of_its_own(tmp_path: Path):
    path = tmp_path / "memory.json"
    first = recall(path, IDENTITY)
    assert (first.report.broker_start, first.report.epoch) == (1, 2)
    write_whole(path, encode_memory(replace(first, hosts=HostMemory(generation=7))))
    second = recall(path, IDENTITY)
    assert (second.report.broker_start, second.hosts.generation) == (2, 7)


def test_a_start_that_no_broker_can_be_is_refused(tmp_path: Path):
    path = tmp_path / "memory.json"
    last = Report(epoch=2, launcher_uid="launcher-uid", broker_start=2**31 - 2)
    path.write_text(encode_memory(Memory(last)))
    start = recall(path, IDENTITY).report.broker_start
    order = Session(b"s" * 16, "w", start=start).orders.add(15)
    decoder = frames.Decoder()
    decoder.feed(order)
    assert [read_signal(frame) for frame in decoder] == [15], "an agent takes it"
    path.write_text(encode_memory(Memory(replace(last, broker_start=start))))
    with pytest.raises(InvalidDocument, match="start 2147483648"):
        recall(path, IDENTITY)


@pytest.mark.parametrize("kind", ["hole", "pipe", "link", "folder"])
def test_what_the_users_container_puts_there_is_not_waited_for_and_not_read(
    tmp_path: Path, kind: str
):
    path = tmp_path / "memory.json"
    if kind == "hole":
        with path.open("wb") as file:
            file.truncate(2**40)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(InvalidDocument, match="memory: "):
        recall(path, IDENTITY)


def test_nothing_is_written_to_what_others_have_put_there(tmp_path: Path):
    path, theirs = tmp_path / "memory.json", tmp_path / "theirs"
    theirs.write_text("as it was")
    (tmp_path / ".memory.json.new").symlink_to(theirs)
    write_whole(path, "one")
    os.mkfifo(tmp_path / ".memory.json.new")
    write_whole(path, "two")
    assert (path.read_text(), theirs.read_text()) == ("two", "as it was")


def test_the_memory_of_another_launcher_is_not_ours(tmp_path: Path):
    path = tmp_path / "memory.json"
    write_whole(path, encode_memory(recall(path, IDENTITY)))
    other = recall(path, replace(IDENTITY, launcher_uid="another"))
    assert (other.report.broker_start, other.report.launcher_uid) == (1, "another")
