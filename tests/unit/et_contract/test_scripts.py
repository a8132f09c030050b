"""A script's commands and their words are those that a shell would make of it, in linear time."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_contract.scripts import read_commands

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
        PLAIN.map("`{} \\` b `".format),
    )
    return st.one_of(
        expanded,
        commands.map("<({})".format),
        st.tuples(PLAIN, expanded).map('"it\'s ({0[0]} {0[1]})"'.format),
        st.lists(inner, min_size=1, max_size=3).map("".join),
    )


def read_words(script: str) -> list[list[str]]:
    return [command.words for command in read_commands(script)]


WORDS = st.recursive(BASE, _expand, max_leaves=8)


@pytest.mark.long
@given(
    st.lists(WORDS, max_size=4), st.sampled_from([" ", "\t", " \\\n ", " 2>&1 ", " >a <<< 'b' "])
)
def test_words_behind_one_that_is_complete_are_seen(words: list[str], between: str) -> None:
    script = between.join([*words, "--nnodes=2:4", "train.py"])
    *_, found, behind = read_words(script + "; next")
    assert (len(found), found[-2:]) == (len(words) + 2, ["--nnodes=2:4", "train.py"])
    assert behind == ["next"]


@given(st.text("ab1 \t'\"\\=-", max_size=20))
def test_plain_words_are_those_of_shlex(text: str) -> None:
    try:
        words = shlex.split(text)
    except ValueError:
        return
    assert read_words(text) == ([words] if words else [])


@given(st.text("a1 \n'\"\\$`(){}<>&|;#", max_size=40))
def test_any_text_is_read(text: str) -> None:
    assert sum(map(len, read_words(text))) <= 2 * len(text)


@pytest.mark.parametrize(
    ("script", "commands"),
    [
        ("a 2>&1 b", ["a b"]),
        ("a >/dev/null b2>c d &>> e f", ["a b2 d f"]),
        ("a 2> >(tee b) <<<'c d' <<EOF e", ["tee b", "a e"]),
        (">a b; c>d", ["b", "c"]),
        ("a & b", ["a", "b"]),
        ("a # b; c\n# `d` it's (e\nf", ["a", "f"]),
        ("a `b # c` d", ["b", "a `` d"]),
        ("a#b 'c'2", ["a#b c2"]),
        ("a\\\nb '' \"\\$c\\\nd\\e\"", ["ab||$cd\\e"]),
        ("$'it\\'s )' a", ["it\\'s )|a"]),
        ('$"a b" c', ["a b|c"]),
        ('"${A:-it\'s}" a', ["${} a"]),
        ("${A:-(} a", ["${} a"]),
        ('"$A/b c" d', ["$A/b c|d"]),
        ('A="b c" D=$(( $(e) / 2 )) f', ["e", "$() / 2", "A=b c|D=$()|f"]),
        ('a "b $(c "d e" `f`) g"', ["f", "c|d e|``", "a|b $() g"]),
        ("if a; then ! b; elif c; then { d; }; else e; fi", ["a", "b", "c", "d", "e", "fi"]),
        ("while a; do b; done | until c", ["a", "b", "done", "c"]),
        ("(a; (b)); f() { c; }; d e!(f)", ["a", "b", "c", "d e!", "f"]),
        ("case $A in b|c) d;; (e) f; g ;; *) esac; h", ["d", "f", "g", "h"]),
        ("a $(case b in c) d ;; e) case f in g) h; esac;; esac) i", ["d", "h", "a $() i"]),
        ("do case a in\n b)\n c\nesac | d", ["c", "d"]),
        ("a <<E; b <<-'F G' c\nd\nE\ne\n\tF G\nf", ["a", "b c", "f"]),
        ("a $(b <<E\nc; d\nE\n) e", ["b", "a $() e"]),
        ("a <<E\nb", ["a", "b"]),  # as of a `<<` that is a shift of numbers
        ("a b$(c 'd e' --f", ["a bc 'd e' --f"]),
        ("a 'b --c\nd", ["a b --c", "d"]),
        ('a "b --c\n(d; e', ["a b --c", "(d", "e"]),
    ],
)
def test_the_commands_of_a_script(script: str, commands: list[str]) -> None:
    """Words are apart by blanks; where one has a blank, or is empty, by bars."""
    words = [line.split("|" if "|" in line else " ") for line in commands]
    assert read_words(script) == words


@pytest.mark.parametrize(
    ("script", "commands"),
    [
        ("a >b <<E 2>&1 c\n d\n\nE\ne", [(["a", "c"], ["b", "1"], [" d\n\n"]), (["e"], [], [])]),
        ("a <<E | b >c\nd\nE\n", [(["a"], [], ["d\n"]), (["b"], ["c"], ["d\n"])]),
        ("a <<<'b c' & d", [(["a"], [], ["b c"]), (["d"], [], [])]),
        ("a <<E; b <<F\nc\nE\nd\nF", [(["a"], [], ["c\n"]), (["b"], [], ["d\n"])]),
        ("a $(b <<E\nc\nE\n) <<F\nd\nF", [(["b"], [], ["c\n"]), (["a", "$()"], [], ["d\n"])]),
    ],
)
def test_what_a_command_reads_and_where_it_writes(script: str, commands: list[tuple]) -> None:
    assert read_commands(script) == commands


@pytest.mark.long
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
        "a#",
        "<<a\n",
        "<<a|b\n",
        "<<a b>c\na\n",
        "case a in (",
    ],
)
@pytest.mark.parametrize("end", ["", ")", "\n", "'"])
def test_time_is_linear(begin: str, end: str) -> None:
    script = begin * (LONG // len(begin))
    read_commands(script + end * (LONG - 1))
