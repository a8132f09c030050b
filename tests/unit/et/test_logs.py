from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from et.logs import Beginning, LogLine, PodLog, merge, parse_line
from et_kube.parsing import MAX_LOG_LINE
from et_kube.resources import Ref
from et_kube.times import format_time
from et_operator.codec.pods import decode_pod
from et_operator.model.pods import Pod
from fakes.clock import START, FakeClock
from fakes.cluster import FakeCluster
from tests.makers import make_pod
from tests.unit.et.rigs import FakeLogs, make_cluster


def make_log(logs: FakeLogs, name: str, beginning: Beginning | None = None) -> PodLog:
    clock = FakeClock()
    pod = decode_pod(make_pod(name, namespace="n", labels={"training-job-role": "worker"}))
    assert isinstance(pod, Pod)
    cluster = make_cluster(FakeCluster(clock.now), clock, logs)
    return PodLog(cluster, pod, beginning or Beginning())


async def read_all(log: PodLog, limit: int = 10**6) -> list[str]:
    texts: list[str] = []
    async with aclosing(log.read(is_following=False)) as lines:
        async for line in lines:
            texts.append(line.text)
            if len(texts) == limit:
                break
    return texts


async def test_several_logs_are_one_in_the_order_of_time():
    logs = FakeLogs()
    logs.write("a", "a1", at=START)
    logs.write("b", "b1", at=START + timedelta(seconds=1))
    logs.write("a", "a2", at=START + timedelta(seconds=2))

    async with aclosing(merge([make_log(logs, "b"), make_log(logs, "a")])) as lines:
        texts = [line.text async for line in lines]

    assert texts == ["a1", "b1", "a2"]


@pytest.mark.long
@settings(deadline=None, max_examples=50)  # the first one loads what the others use
@given(
    moments=st.lists(st.sampled_from([0, 1, 999_999, 1_000_000, 1_000_001, 3_000_000]), min_size=1),
    cuts=st.lists(st.integers(1, 4)),
)
async def test_a_log_that_breaks_off_is_read_on_with_no_line_lost_or_twice(
    moments: list[int], cuts: list[int]
):
    logs = FakeLogs()
    stamps = [START + timedelta(microseconds=moment) for moment in sorted(moments)]
    logs.lines["w"] = [(stamp, f"line {index}") for index, stamp in enumerate(stamps)]
    log = make_log(logs, "w")

    texts = [text for cut in cuts for text in await read_all(log, cut)]
    texts += await read_all(log)

    assert texts == [f"line {index}" for index in range(len(moments))]


async def test_the_beginning_counts_once_and_then_the_place_that_was_reached():
    logs = FakeLogs()
    logs.write("w", "one", "two", "three")
    log = make_log(logs, "w", Beginning(tail=2))

    assert await read_all(log) == ["two", "three"]
    logs.write("w", "four")
    assert await read_all(log) == ["four"]
    assert "tailLines" not in logs.requests[-1][1]


async def test_a_pod_that_is_gone_has_no_lines():
    log = make_log(FakeLogs(gone={"gone"}), "gone")

    assert await read_all(log) == []
    assert log.is_gone


async def test_what_the_kubelet_itself_says_is_told_once():
    class Crowded(FakeLogs):
        async def read_log(
            self, ref: Ref, params: Mapping[str, str]
        ) -> AsyncGenerator[bytes, None]:
            async for line in FakeLogs.read_log(self, ref, params):
                yield line
            yield b"failed to create fsnotify watcher: too many open files"

    logs = Crowded()
    logs.write("w", "one")
    log = make_log(logs, "w")

    assert await read_all(log) == ["one", "failed to create fsnotify watcher: too many open files"]
    logs.write("w", "two")
    assert await read_all(log) == ["two"]


class Cut(FakeLogs):
    """Lines come in pieces where they have a tab, as all above MAX_LOG_LINE do."""

    async def read_log(self, ref: Ref, params: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        async for line in FakeLogs.read_log(self, ref, params):
            for piece in line.split(b"\t"):
                yield piece


async def test_a_line_in_pieces_is_whole_and_not_kept_in_mind():
    long = "x" * (MAX_LOG_LINE + 1)
    logs = Cut()
    logs.write("w", f"{long}\t{long}\tend", f"{long}\t{long}\tend")
    log = make_log(logs, "w")

    assert await read_all(log) == [long, long, "end"] * 2
    assert await read_all(log) == []
    assert not log.notes


async def test_a_piece_of_a_line_has_no_time_of_its_own():
    """Its script decides how it begins."""
    first, rest = "x" * MAX_LOG_LINE, "8999-01-01T00:00:00Z forged"
    logs = Cut()
    logs.write("w", f"{first}\t{rest}")
    log = make_log(logs, "w")

    assert await read_all(log) == [first, rest]
    assert log.at == START


async def test_a_line_that_has_the_length_of_a_piece_ends_with_nothing():
    stamp = f"{format_time(START)} "
    logs = Cut()
    logs.write("w", "x" * (MAX_LOG_LINE - len(stamp)) + "\t", "two")

    texts = await read_all(make_log(logs, "w"))

    assert [text[-3:] for text in texts] == ["xxx", "two"]


async def test_of_much_that_no_container_printed_a_part_is_kept_in_mind():
    logs = Cut()
    logs.write("w", "\t".join(["a line", *map(str, range(1000)), "y" * 2000]))
    log = make_log(logs, "w")

    assert len(await read_all(log)) == 1002
    assert len(log.notes) < 100
    assert "y" * 2000 in await read_all(log)


def test_a_line_has_the_time_that_its_node_wrote_in_whatever_zone():
    line = parse_line("w", "2026-01-01T08:00:01.123456789+08:00 x y")

    assert line == LogLine(START + timedelta(seconds=1, microseconds=123456), "w", "x y")
    assert parse_line("w", "failed to rotate the log") is None
