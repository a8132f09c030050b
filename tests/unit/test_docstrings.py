"""Docstrings name what they are about: a stranger opens a file in the middle."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    *("benchmarks", "devcluster", "et", "et_contract", "et_kube", "et_notices", "et_operator"),
    *("et_process", "et_scheduler", "examples", "fakes", "hostdiscovery", "launcher"),
)
PRONOUN = "(?:it|its|they|their|them|he|his|she|her)"
NAMELESS = re.compile(
    rf'^ *"""(?:(?:{PRONOUN}|those|such|the same|as above)\b|'
    r"(?:be )?(?:that|this|these|none|both)[,;.]|"
    rf"that (?:{PRONOUN}|none of|is|was|of|limit)\b|"
    r"these(?: \w+){0,2} (?:are|were|have|had)\b|these (?:came|come|went|go)\b)|"
    rf'^(?: {{4}})?"""whether {PRONOUN}\b',
    re.MULTILINE | re.IGNORECASE,
)
"""A docstring's first words that stand for something which is named elsewhere, or nowhere.

A method's "whether it" is about its object.
"""


def find_nameless(source: str) -> list[int]:
    """The lines, from 1, on which such a docstring begins."""
    return [source.count("\n", 0, found.start()) + 1 for found in NAMELESS.finditer(source)]


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_begin_with_their_subject(package: str):
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in (ROOT / package).rglob("*.py")
        for line in find_nameless(path.read_text("utf-8"))
    }
    assert found == set()


def test_those_that_do_not_would_be_seen():
    source = '''
"""Its own module."""
LIMIT = 1
"""The same, for one."""
class Itself:
    """Italics are a word like others."""
    field: int
    """They wait."""
    def wait(self):
        """These pods wait."""
        return "It is no docstring."
    def run(self):
        """Be that; the exit code."""
    def is_over(self):
        """Whether it waits no more."""
def is_done(thing):
    """Whether it is done."""
    """Whether the thing is done."""
    """That it is done."""
    """That limit, for one."""
    """That of one thing."""
    """That the thing is done."""
    """These were done."""
    """These three things are done."""
    """These came."""
    """These things wait."""
    """Such as are done."""
'''
    assert find_nameless(source) == [2, 4, 8, 13, 17, 19, 20, 21, 23, 24, 25, 27]
