from __future__ import annotations

import errno
import io
import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.shim.sinks import LONGEST, Sink

PIECES = st.lists(st.binary(max_size=40) | st.sampled_from([b"a\n", b"\r", b"\r\n", b"\0", b"x"]))


def collect(pieces: list[bytes], prefix: bytes = b"[0]<stdout>:") -> bytes:
    output = io.BytesIO()
    sink = Sink([output], prefix)
    for piece in pieces:
        sink.write(piece)
    sink.close()
    return output.getvalue()


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([b"one\ntw", b"o\n"], b"P one\nP two\n"),
        ([b"half"], b"P half"),
        ([b"10%\r20%\r", b"done\n"], b"P 10%\rP 20%\rP done\n"),
        ([b"\n\n"], b"P \nP \n"),
        ([b"a\r\n"], b"P a\rP \n"),
        ([], b""),
    ],
)
def test_each_line_has_its_origin(pieces: list[bytes], text: bytes):
    assert collect(pieces, b"P ") == text


@pytest.mark.long
@given(PIECES)
def test_no_byte_is_lost_or_changed(pieces: list[bytes]):
    assert collect(pieces, b"") == b"".join(pieces)


@pytest.mark.long
@given(PIECES)
def test_where_it_is_cut_makes_no_difference(pieces: list[bytes]):
    assert collect(pieces) == collect([b"".join(pieces)])


def test_a_line_without_an_end_is_not_kept_for_ever():
    output = io.BytesIO()
    sink = Sink([output], b"P")
    sink.write(b"x" * (LONGEST + 1))
    assert output.getvalue() == b"P" + b"x" * (LONGEST + 1)
    sink.write(b"y\nz\n")
    assert output.getvalue().endswith(b"xy\nPz\n")


def test_a_long_line_that_grows_byte_by_byte_is_not_looked_through_each_time():
    sink = Sink([io.BytesIO()], b"P")
    sink.write(b"." * (LONGEST - 2000))
    began = time.process_time()
    for _ in range(1000):
        sink.write(b".")
    assert time.process_time() < began + 1


def test_a_file_gets_the_same_and_is_closed(tmp_path: Path):
    output, file = io.BytesIO(), (tmp_path / "rank").open("wb")
    sink = Sink([output], b"P", owned=[file])
    sink.write(b"a\nb")
    sink.close()
    assert (tmp_path / "rank").read_bytes() == output.getvalue() == b"Pa\nPb"
    assert file.closed


def test_the_time_comes_first():
    output = io.BytesIO()
    sink = Sink([output], b"[0]<stdout>:", has_time=True)
    sink.write(b"a\n")
    assert output.getvalue().endswith(b"[0]<stdout>:a\n")
    assert len(output.getvalue()) > 30


class Broken(io.BytesIO):
    """An output that cannot be written."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def write(self, _: object) -> int:
        raise OSError(self._number, os.strerror(self._number))


def test_a_full_disk_is_told_once_and_costs_no_other_output_a_line(
    capfd: pytest.CaptureFixture[str],
):
    output = io.BytesIO()
    sink = Sink([Broken(errno.ENOSPC), output], b"P", owned=[Broken(errno.EIO)])
    for _ in range(3):
        sink.write(b"a\n")
    sink.close()
    assert output.getvalue() == b"Pa\n" * 3
    assert capfd.readouterr().err == "edl: output of b'P' is lost: No space left on device\n"


def test_a_reader_that_has_gone_is_said_to_the_caller():
    sink = Sink([Broken(errno.EPIPE)], b"P")
    with pytest.raises(BrokenPipeError):
        sink.write(b"a\n")


@pytest.mark.parametrize("buffering", [0, -1])
def test_a_file_that_others_have_made_non_blocking_loses_nothing(buffering: int):
    lines = b"".join(b"%d\n" % number for number in range(100_000))
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    taken: list[bytes] = []
    with open(reader, "rb") as ours, open(writer, "wb", buffering=buffering) as theirs:  # noqa: PTH123 (a pipe)
        thread = threading.Thread(target=lambda: taken.append(ours.read()))
        thread.start()
        sink = Sink([theirs], b"", owned=[])
        sink.write(lines)
        sink.close()
        theirs.close()
        thread.join(20)
    assert taken == [lines]
