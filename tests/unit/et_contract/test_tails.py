from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_contract.tails import (
    MOST_BYTES,
    TOLD,
    LastLines,
    cut_lines,
    decode_last_lines,
    encode_last_lines,
)


def encode(last: LastLines) -> str:
    return json.dumps({**encode_last_lines(last), "event": TOLD, "level": "info"})


@given(printed=st.binary(max_size=300), is_cut=st.booleans())
def test_whatever_was_printed_comes_back_as_valid_text_in_one_line(printed: bytes, is_cut: bool):
    lines, is_cut = cut_lines(printed, MOST_BYTES, is_cut=is_cut)
    last = LastLines("train-worker-0", lines, is_cut)

    text = encode(last)

    assert "\n" not in text
    assert decode_last_lines(text) == last
    "\n".join(lines).encode()  # no half of a character


@given(printed=st.binary(max_size=500), most=st.integers(2, 200))
def test_no_more_than_so_many_bytes_are_kept_whatever_they_are(printed: bytes, most: int):
    lines, is_cut = cut_lines(printed, most, is_cut=False)

    assert sum(len(json.dumps(line)) + 2 for line in lines) <= max(most, 4)
    assert is_cut or "\n".join(lines) == printed.decode("utf-8", "replace").removesuffix("\n")


def test_the_end_is_kept_and_a_line_without_its_beginning_is_left_out():
    assert cut_lines(b"one\ntwo\nthree\n", 17, is_cut=False) == (("two", "three"), True)
    assert cut_lines(b"ne\ntwo\n", 100, is_cut=True) == (("two",), True)
    assert cut_lines(b"", 100, is_cut=False) == ((), False)


def test_of_a_line_that_is_too_long_the_end_is_kept():
    [line], is_cut = cut_lines(b"x" * 1000 + b"y", 100, is_cut=True)
    assert is_cut
    assert 60 < len(line) <= 96
    assert line.endswith("xy")


@pytest.mark.parametrize(
    "text",
    [
        TOLD,
        f'"{TOLD}"',
        f'["{TOLD}"]',
        f'{{"event":"{TOLD}"}}',
        f'{{"event":"{TOLD}","worker":1,"cut":false,"lines":[]}}',
        f'{{"event":"{TOLD}","worker":"w","cut":false,"lines":[1]}}',
        f'{{"event":"{TOLD}","worker":"w","cut":false,"lines":3}}',
        f'{{"event":"hosts","worker":"w","cut":false,"lines":[],"of":"{TOLD}"}}',
        f'{{"event":"{TOLD}","worker":"w","cut":false,"lines":["{"x" * 5 * MOST_BYTES}"]}}',
    ],
)
def test_other_lines_say_nothing(text: str):
    assert decode_last_lines(text) is None
