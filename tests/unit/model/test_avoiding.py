"""Which nodes a pod keeps off, as a text within bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_contract.admissions import MAX_NODES
from et_operator.model.avoiding import MAX_TEXT, keep_avoided, list_avoided, pack_avoided


def test_what_is_written_is_read_and_of_too_much_the_first() -> None:
    assert list_avoided(keep_avoided(pack_avoided(["n1", "n2.example.com"]))) == [
        "n1",
        "n2.example.com",
    ]
    assert pack_avoided([]) == ""
    assert list_avoided("") == []
    long = [f"{number:0253}" for number in range(MAX_NODES)]
    found = list_avoided(keep_avoided(pack_avoided(long)))
    assert found == long[: (MAX_TEXT + 1) // 254]
    whole = [f"{number:040}" for number in range(MAX_NODES - 1)]
    assert list_avoided(keep_avoided(pack_avoided(whole))) == whole


@pytest.mark.long
@given(st.one_of(st.text(max_size=300), st.text(alphabet="a,-.A", max_size=3000), st.integers()))
def test_whatever_stands_there_names_few_nodes_that_could_be(text: object) -> None:
    names = list_avoided(keep_avoided(text))
    assert len(names) <= MAX_NODES
    assert all(0 < len(name) <= 253 and name == name.lower() for name in names)


def test_what_cannot_be_ours_is_not_kept() -> None:
    assert keep_avoided("a" * (MAX_TEXT + 1)) == ""
    assert keep_avoided("\N{SNOWMAN}") == ""
    assert keep_avoided(None) == ""
