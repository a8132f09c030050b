"""Pages are read, and followed, as whoever types what they say does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pages import PageError, Saved, Step, Typed, read_fences, read_steps, split_commands
from tests.shapes import find_missing
from tests.shown import ROOT
from tests.walks import Answer, WalkError, walk

PAGE = """\
Save as `a.yaml`:
```yaml
a: 1
```
Then
```sh
# a comment
one \\
  --flag   # why
two
```
```
what two prints
```
and at last:
```
$ three \\
    --long
answer
$ four
```
"""
WORDS = st.sampled_from(["get pods", "a=$PWD", "one   # why", "'it''s' -o x", 'say "```"', "a | b"])
LINES = st.lists(WORDS, min_size=1, max_size=3).map(lambda lines: "\n".join(lines) + "\n")
FILES = st.builds(Saved, st.just(0), st.sampled_from(["a.yaml", "train.py"]), LINES)
COMMANDS = st.builds(
    Typed,
    st.just(0),
    st.lists(WORDS, min_size=1, max_size=3).map(tuple),
    st.lists(LINES, max_size=2).map(tuple),
)


def read(page: str) -> list[Step]:
    return read_steps([*read_fences(page)])


def test_files_commands_and_answers_are_told_apart():
    assert read(PAGE) == [
        Saved(2, "a.yaml", "a: 1\n"),
        Typed(6, ("one --flag   # why", "two"), ("what two prints\n",)),
        Typed(17, ("three --long",), ("answer",)),
        Typed(20, ("four",)),
    ]


@pytest.mark.parametrize("page", ["```yaml\na: 1\n```\n", "```\nan answer to nothing\n```\n"])
def test_a_fence_that_nobody_knows_what_to_do_with_is_told_by_its_line(page: str):
    with pytest.raises(PageError, match="line 3"):
        read("words\n\n" + page)


@pytest.mark.long
@given(st.lists(st.one_of(FILES, COMMANDS), max_size=4))
def test_what_is_written_is_read(steps: list[Step]):
    found = read("\n".join(map(write, steps)))
    assert [without_line(step) for step in found] == [without_line(step) for step in steps]


@given(st.lists(WORDS, min_size=1, max_size=4))
def test_a_command_over_many_lines_is_one(words: list[str]):
    assert split_commands(" \\\n    ".join(words)) == (" ".join(words),)


def write(step: Step) -> str:
    if isinstance(step, Saved):
        return f"Save as `{step.name}`:\n```yaml\n{step.text}```\n"
    commands = "\n".join(step.commands)
    return f"Type\n```sh\n{commands}\n```\n" + "".join(f"```\n{text}```\n" for text in step.shown)


def without_line(step: Step) -> tuple[object, ...]:
    return (step.name, step.text) if isinstance(step, Saved) else (step.commands, step.shown)


SAME = {
    "first   Running   2/2   13s": "first   Running   2/2     5m1s",
    "elastic-out-rfcrd   2   12s": "elastic-out-7xk2p   2   9s",
    "[0]<stdout>:step 20, 2 workers, loss 4.8884": "[3]<stdout>:step 25, 2 workers, loss 0.1234",
    "x left: graceful after 12.7 s": "x left: graceful after 3.0 s",
    'uid":"6ffb9312-..."': 'uid":"007fef03-dfdf-4adc-bef9-efa15735ed75"',
    "step=26 loss=0.0975 size=2 host=a-worker-1 t=17.22": "step=3 loss=1.501 size=2 host=b t=1.0",
    '"seconds":1.086}': '"seconds":2.66}',
    "12:33:22 at 10.0.0.1": "01:02:03 at 192.168.100.7",
}
OTHER = {
    "first   Running   2/2": "first   Running   2/3",
    "NAME   PHASE   AGE": "NAME   PHASE   QUEUE   AGE",
    "step 20, 2 workers, loss 4.8884": "step 20, 4 workers, loss 4.8884",
    "cpu  has 0.42, due 0.46": "cpu  has 0.44, due 0.46",
    "first-worker-0   Running": "first-worker-1   Running",
}


@pytest.mark.parametrize("shown", SAME)
def test_what_differs_from_run_to_run_is_the_same_shape(shown: str):
    assert find_missing(shown, SAME[shown]) == ""


@pytest.mark.parametrize("shown", OTHER)
def test_what_says_something_else_is_another_shape(shown: str):
    assert find_missing(shown, OTHER[shown]) == shown


def test_lines_stand_together_unless_the_page_leaves_some_out():
    printed = "NAME\na\nb\nc\n\nNAME\nd\n"
    assert find_missing("NAME\na\nb", printed) == ""
    assert find_missing("NAME\n...\nc\n\nNAME\nd", printed) == ""
    assert find_missing("NAME\na\nc", printed) == "NAME\na\nc"
    assert find_missing("NAME\nd\n\nNAME\na", printed) == "NAME\na", "in this order"


class Typewriter:
    """A terminal that knows its answers, one for each time; the last one is for all that follow."""

    def __init__(self, answers: Mapping[str, Sequence[str]]) -> None:
        self._answers = {command: [*texts] for command, texts in answers.items()}
        self.typed: list[str] = []
        self.opened: list[str] = []
        self.saved: dict[str, str] = {}

    def save(self, name: str, text: str) -> None:
        self.saved[name] = text

    def type(self, command: str) -> Answer:
        self.typed.append(command)
        texts = self._answers.get(command, [""])
        printed = texts.pop(0) if len(texts) > 1 else texts[0]
        return Answer(printed, code=int(printed.startswith("error")))

    def open(self, command: str) -> None:
        self.opened.append(command)

    def read_others(self) -> Sequence[str]:
        return [self.type(command).printed for command in self.opened]

    def pause(self) -> None:
        self.typed.append("")


def test_everything_is_saved_and_typed_once_in_its_order():
    terminal = Typewriter({"two": ["what two prints"], "three --long": ["answer"]})
    walk(read(PAGE), terminal)
    assert terminal.saved == {"a.yaml": "a: 1\n"}
    assert terminal.typed == ["one --flag   # why", "two", "three --long", "four"]


def test_only_what_looks_is_typed_again_until_it_shows_what_the_page_shows():
    get = "kubectl get pods"
    terminal = Typewriter({get: ["Pending", "Pending", "Running"], "apply": ["made"]})
    walk([Typed(1, ("apply", get), ("Running",))], terminal)
    assert terminal.typed == ["apply", get, "", get, "", get]


@pytest.mark.parametrize(
    "endless", ["et watch first   # in a second terminal", "kubectl logs --follow pod -c launcher"]
)
def test_what_does_not_end_is_in_a_second_terminal_and_goes_on(endless: str):
    terminal = Typewriter({endless: ["step 1", "step 2", "step 3"]})
    walk([Typed(1, (endless,), ("step 1",)), Typed(2, ("scale",), ("step 3",))], terminal)
    assert terminal.opened == [endless]
    assert terminal.typed.count("scale") == 1


def test_what_fails_and_what_never_shows_is_told_with_its_line():
    with pytest.raises(WalkError, match=r"line 7: `apply` ends with 1\nerror: no"):
        walk([Typed(7, ("apply",))], Typewriter({"apply": ["error: no"]}))
    with pytest.raises(WalkError, match="line 8: nothing like\nRunning\nin\nPending"):
        walk(
            [Typed(8, ("kubectl get pods",), ("Running",))],
            Typewriter({"kubectl get pods": ["Pending"]}),
        )


def test_every_fence_of_the_tutorial_is_a_file_a_command_or_an_answer():
    text = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    steps = read(text)
    assert sum(isinstance(step, Saved) for step in steps) == 4
    fences = len(re.findall("^```", text, re.MULTILINE)) // 2
    assert len(steps) + sum(len(step.shown) for step in steps if isinstance(step, Typed)) == fences
