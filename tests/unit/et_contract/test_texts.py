"""What others wrote: JSON that is bounded, words that can be shown."""

from __future__ import annotations

import json
import re
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_contract.texts import clean, parse_json

ANY_TEXT = st.text(st.characters(), max_size=40)
ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
)


def nest(levels: int, inside: str = "1") -> str:
    return '{"a":[' * (levels // 2) + inside + "]}" * (levels // 2)


@pytest.mark.long
# ------------------------------------------------------------------ JSON
@given(ANY_JSON, st.booleans())
def test_what_json_can_say_is_read_and_is_valid_unicode(value: object, is_ascii: bool):
    text = json.dumps(value, ensure_ascii=is_ascii)
    found = parse_json(text.encode("utf-8", "surrogatepass"), 10**6)
    written = json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
    if "\\ud" not in json.dumps(value):
        assert json.loads(written) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"\ud800"', "\ufffd"),
        (r'"\udfff\ud800"', "\ufffd\ufffd"),
        (r'"\uD83D\uDE00"', "\U0001f600"),
        (r'"\ud83dx\ude00"', "\ufffdx\ufffd"),
        (r'"\\ud800"', "\\ud800"),
        (r'"\\\ud800"', "\\\ufffd"),
        (r'"\u0041"', "A"),
        ("9" * 5000, sys.float_info.max),
        ("-" + "9" * 5000, -sys.float_info.max),
        ("1e999", sys.float_info.max),
        (str(2**63 - 1), 2**63 - 1),
    ],
)
def test_what_no_reader_after_us_can_take_is_made_valid(text: str, value: object):
    assert parse_json(text, 10**5) == value


PIECES = st.sampled_from(["\\", "\\\\", "ud83d", "uDE00", "udc80", "\\ud83d", "\\ude00", "a"])
PAIR = r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
BYTE, HALF = r"\\u[dD][cC][89a-fA-F][0-9a-fA-F]", r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"


@pytest.mark.long
@given(st.lists(PIECES, max_size=12), st.booleans())
def test_halves_are_found_as_by_whoever_reads_escape_after_escape(
    pieces: list[str], has_bytes: bool
) -> None:
    """Whose steps are as many as there are backslashes."""
    known = f"{PAIR}|{BYTE}" if has_bytes else PAIR
    text = f'"{"".join(pieces)}"'
    told = re.sub(f"({known})|{HALF}", lambda found: found[1] or r"\ufffd", text)
    try:
        value = json.loads(told)
    except ValueError:
        with pytest.raises(ValueError, match=r"."):
            parse_json(text, 1000, has_bytes=has_bytes)
        return
    assert parse_json(text, 1000, has_bytes=has_bytes) == value


def test_backslashes_cost_no_memory_of_their_own():
    text = '"' + "\\\\" * 100_000 + '\\ud800"'
    tracemalloc.start()
    try:
        value = parse_json(text, 10**6)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert value == "\\" * 100_000 + "\ufffd"
    assert peak < 6 * len(text)


def test_in_a_command_only_what_stands_for_a_byte_is_kept():
    text = r'"\udc80\udcFF\udc7f\ud800\ud83d\ude00"'
    assert parse_json(text, 100, has_bytes=True) == "\udc80\udcff\ufffd\ufffd\U0001f600"
    assert parse_json(text, 100) == "\ufffd" * 4 + "\U0001f600"


def test_bytes_that_are_no_text_are_replaced():
    assert parse_json(b'"a\xff\xed\xa0\x80"', 100) == "a" + "\ufffd" * 4


@pytest.mark.parametrize("text", ["", "{", "NaN", "[-Infinity]", "'a'", "\ufeff{}"])
def test_what_is_no_json_is_refused(text: str):
    with pytest.raises(ValueError, match=r"."):
        parse_json(text, 100)


def test_a_text_that_is_too_large_is_not_parsed():
    with pytest.raises(ValueError, match="larger than 9 bytes"):
        parse_json(b'"' + b"a" * 8 + b'"', 9)
    assert parse_json(b'"' + b"a" * 8 + b'"', 10) == "a" * 8


@pytest.mark.parametrize("levels", [500, 2000, 9998])
def test_a_text_that_is_too_deep_is_refused_or_cut(levels: int):
    deep = nest(levels, '"]}{[\\""')
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(deep, 10**6)
    found = parse_json('{"before":[1,"[["],"deep":' + deep + ',"after":[2]}', 10**6, 4)
    assert found == {"before": [1, "[["], "deep": {"a": [{"a": None}]}, "after": [2]}


def test_a_text_is_cut_where_it_is_too_deep_however_deep_python_reads():
    text = '[[[[]]], {"b": [[1]], "c": [2, "[[[["]}]'
    assert parse_json(text, 100, 4) == json.loads(text)
    assert parse_json(text, 100, 3) == [[[None]], {"b": [None], "c": [2, "[[[["]}]
    assert parse_json(text, 100, 1) == [None, None]
    assert parse_json(nest(400), 10**4) == json.loads(nest(400))


@pytest.mark.parametrize("text", ["[" * 5000, "[" * 5000 + "}" * 5000, "]" * 5000 + "[" * 5000])
def test_brackets_that_do_not_match_are_no_json(text: str):
    with pytest.raises(ValueError, match=r"."):
        parse_json(text, 10**6, 4)


# ------------------------------------------------------------------ words
@given(st.text(st.characters(), max_size=200), st.integers(10, 100))
def test_words_are_bounded_and_can_be_encoded_and_shown(text: str, limit: int):
    words = clean(text, limit)
    assert len(words) <= limit
    words.encode()
    assert not [c for c in words if (ord(c) < 32 or 127 <= ord(c) < 160) and c not in "\t\n"]
    assert clean(words, limit) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("plain \u00e9 words\n\ttoo", "plain \u00e9 words\n\ttoo"),
        ("\x1b[31mError\x1b[0m: no", "Error: no"),
        ("\x9b31mError", "Error"),
        ("\x1b]0;owned\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("10 %\r20 %\r\nend", "10 %\n20 %\nend"),
        ("a\0b\ud800c\u202ed\x7f", "a\ufffdb\ufffdc\ufffdd\ufffd"),
        ("x" * 30, "x" * 14 + " [...]"),
        (5, "5"),
        (None, ""),
        ({"a": 1}, ""),
    ],
)
def test_words_for_people(text: object, words: str):
    assert clean(text, 20 if text == "x" * 30 else 100) == words
