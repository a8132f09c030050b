from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_operator.model.packing import Packed
from et_operator.model.texts import cut, find_reason_limit, keep_end, measure

TEXTS = st.text(st.characters(), max_size=300) | st.text('<>&\x01\\"a\U0001f600', max_size=300)


@pytest.mark.long
@given(TEXTS, st.integers(4, 200))
def test_a_text_is_cut_to_so_many_bytes_and_no_shorter_than_it_must(text: str, limit: int) -> None:
    short = cut(text, limit)
    assert measure(short) <= limit
    if measure(text) <= limit:
        assert short == text
    else:
        assert short.endswith("...")
        assert text.startswith(short[:-3])
        assert measure(short) > limit - 24


@given(TEXTS, st.integers(4, 200))
def test_the_end_of_a_text_is_kept_in_so_many_bytes(text: str, limit: int) -> None:
    short = keep_end(text, limit)
    assert measure(short) <= limit
    if measure(text) <= limit:
        assert short == text
    else:
        assert short.startswith("...")
        assert text.endswith(short[3:])
        assert measure(short) > limit - 24


@pytest.mark.timeout(20)
@pytest.mark.parametrize("shorten", [cut, keep_end])
@given(TEXTS, st.integers(-2, 3))
def test_where_there_is_no_room_nothing_is_left(
    shorten: Callable[[str, int], str], text: str, limit: int
) -> None:
    short = shorten(text, limit)
    assert short in {text, "..."[: max(limit, 0)]}
    assert measure(short) <= max(limit, 0)


def test_the_more_workers_the_shorter_the_reasons() -> None:
    assert find_reason_limit(0) == find_reason_limit(8) == 256
    assert find_reason_limit(1024) == 24
    assert find_reason_limit(10**6) == 0


@pytest.mark.long
@given(st.dictionaries(st.text(), st.integers() | st.lists(st.text())))
def test_what_was_packed_is_unpacked_as_it_was(body: dict[str, object]) -> None:
    packed = Packed(body)
    assert dict(packed) == body
    assert packed == body
    assert packed == Packed(body)
    assert hash(packed) == hash(Packed(body))
    assert packed != Packed({**body, "more": 1})
    assert json.loads(packed.text) == body
