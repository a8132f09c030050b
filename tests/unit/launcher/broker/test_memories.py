"""What survives a restart of the broker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.broker.hosts import Entry, HostMemory
from launcher.broker.memories import (
    Identity,
    Memory,
    decode_memory,
    encode_memory,
    recall,
    write_whole,
)
from launcher.documents import InvalidDocument, Report

IDENTITY = Identity("job", "ns", "job-uid", 2, "launcher-uid")
texts = st.text(max_size=5)
uids = st.frozensets(texts, max_size=3)


@given(
    st.builds(
        Memory,
        st.builds(Report, st.integers(), texts, st.integers(), listed=uids, closed=uids),
        st.builds(
            HostMemory,
            generation=st.integers(),
            listed=st.tuples(st.builds(Entry, texts, texts, st.integers())),
            ever_listed=uids,
            offered=uids,
            served_generation=st.integers(),
            nonce=texts,
            started=st.booleans(),
        ),
        told=uids,
        nudges=st.integers(),
    )
)
def test_memory_survives_the_file(memory: Memory):
    assert decode_memory(encode_memory(memory)) == memory


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


def test_the_memory_of_another_launcher_is_not_ours(tmp_path: Path):
    path = tmp_path / "memory.json"
    write_whole(path, encode_memory(recall(path, IDENTITY)))
    other = recall(path, replace(IDENTITY, launcher_uid="another"))
    assert (other.report.broker_start, other.report.launcher_uid) == (1, "another")
