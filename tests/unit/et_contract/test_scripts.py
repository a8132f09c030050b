"""A command's words are those that a shell would make of it, in linear time."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_contract.scripts import read_words

LONG = 2**16
PLAIN = st.text("ab1-=:/.,~%", min_size=1, max_size=4)
QUOTED = st.text("a )(}{$;&|#`\n", max_size=4).map("'{}'".format)
ESCAPED = st.sampled_from([r"\(", r"\)", r"\'", r"\"", r"\ ", r"\$", r"\`", r"\}", r"$'\''"])
BASE = PLAIN | QUOTED | ESCAPED


def _expand(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    commands = st.lists(inner, min_size=1, max_size=3).map(" | ".join)
    expanded = st.one_of(
        commands.map("$({})".format),
        commands.map("$(a # don't (\n{})".format),
        PLAIN.map("$(( (2-1) * ({}) ))".format),
        inner.map("$(( 2*({}) ))".format),
        inner.map("${{V:-{}}}".format),
        PLAIN.map("`{} \\` ( `".format),
    )
    return st.one_of(
        expanded,
        commands.map("<({})".format),
        st.tuples(PLAIN, expanded).map('"it\'s ({0[0]} {0[1]})"'.format),
        st.lists(inner, min_size=1, max_size=3).map("".join),
    )


WORDS = st.recursive(BASE, _expand, max_leaves=8)


@given(
    st.lists(WORDS, max_size=4), st.sampled_from([" ", "\t", " \\\n ", " 2>&1 ", " >a <<< 'b' "])
)
def test_words_behind_one_that_is_complete_are_seen(words: list[str], between: str) -> None:
    script = between.join([*words, "--nnodes=2:4", "train.py"])
    found, end = read_words(script + "; next")
    assert (len(found), found[-2:], end) == (
        len(words) + 2,
        ["--nnodes=2:4", "train.py"],
        len(script),
    )


@given(st.text("ab1 \t'\"\\=-", max_size=20))
def test_plain_words_are_those_of_shlex(text: str) -> None:
    try:
        words = shlex.split(text)
    except ValueError:
        return
    assert read_words(text) == (words, len(text))


@given(st.text("a1 \n'\"\\$`(){}<>&|;#", max_size=40))
def test_any_text_is_read(text: str) -> None:
    words, end = read_words(text)
    assert 0 <= end <= len(text)
    assert sum(map(len, words)) <= len(text)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("a 2>&1 b", ["a", "b"]),
        ("a >/dev/null b2>c d &>> e f", ["a", "b2", "d", "f"]),
        ("a 2> >(tee b) <<<'c d' <<EOF e", ["a", "e"]),
        ("a & b", ["a"]),
        ("a # b", ["a"]),
        ("a#b 'c'2", ["a#b", "c2"]),
        ("a\\\nb '' \"\\$c\\\nd\\e\"", ["ab", "", "$cd\\e"]),
        ("$'it\\'s )' a", ["it\\'s )", "a"]),
        ('"${A:-it\'s}" a', ["${A:-it's}", "a"]),
        ("${A:-(} a", ["${A:-(}", "a"]),
        ("a b$(c 'd e' --f", ["a", "b$(c", "'d", "e'", "--f"]),
        ("a 'b --c\nd", ["a", "'b", "--c"]),
    ],
)
def test_the_words_of_a_command(script: str, words: list[str]) -> None:
    assert read_words(script)[0] == words


@pytest.mark.parametrize(
    "begin",
    [
        "$(",
        "${",
        '"$(',
        '"${',
        "'",
        "''",
        "`",
        "``",
        "\\",
        '""',
        "a'b'",
        "<(",
        "> ",
        "$'",
        "$",
        "(",
    ],
)
@pytest.mark.parametrize("end", ["", ")", "\n", "'"])
def test_time_is_linear(begin: str, end: str) -> None:
    script = begin * (LONG // len(begin))
    read_words(script + end * (LONG - 1))
