"""What pages tell people to type is a command, and what they tell them to write is a field."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import typer

from et.commands import app
from fakes.schemas import load_definitions
from tests.pages import COMMANDS, read_fences, split_commands
from tests.shown import KINDS, ROOT

TABLES = (ROOT / "docs" / "what-to-type-instead.md").read_text("utf-8")
SCRIPTS = ROOT / "examples" / "from-a-script"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
VERBS = {"delete", "describe", "edit", "exec", "get", "logs", "patch", "scale", "top", "wait"}
OTHERS = {"pod", "pods", "deployment", "namespace", "first-launcher", "first-worker-1"}
"""What else than our kinds those act on in the tables; pods by their names."""
FIELD = re.compile(r"(?:(\w+)\.)?(spec\.[\w.\[\]]+)")
ET: Any = typer.main.get_command(app)
REFUSED: Any = typer.BadParameter.__mro__[1]
"""What is raised for every line that cannot be read."""


def list_ours() -> list[str]:
    """The code in the last column of every table there."""
    rows = [re.split(r"(?<!\\) \| ", row) for row in TABLES.splitlines() if row.startswith("| ")]
    return [code for row in rows for code in re.findall(r"`([^`]+)`", row[-1])]


def list_typed() -> Iterator[str]:
    """`et ...` in fences, where a page has commands, or a session."""
    for page in PAGES:
        for fence in read_fences(page.read_text("utf-8")):
            if fence.language in COMMANDS or not fence.language:
                for line in split_commands(fence.text):
                    words = line.removeprefix("$ ")
                    is_command = fence.language in COMMANDS or line.startswith("$ ")
                    if is_command and words.startswith("et "):
                        yield words


OURS = list_ours()
TYPED = sorted({*list_typed(), *(code for code in OURS if code.startswith("et "))})
KUBECTL = sorted({code for code in OURS if code.startswith("kubectl ") and "create -f" not in code})
FIELDS = sorted({code for code in OURS if FIELD.fullmatch(code)})


def test_nobody_is_told_to_wait_for_the_good_end_of_a_scaling_alone():
    """A wait for ScaleSucceeded sits out its time-out where the scaling has failed."""
    lines = [line for page in PAGES for line in page.read_text("utf-8").splitlines()]
    waits = [line for line in lines if re.match(r"kubectl wait scale(in|out)", line)]
    assert len(waits) >= 2
    assert all("{.status.completionTime}" in wait for wait in waits)


def test_the_tables_have_commands_and_fields():
    assert len(TYPED) > 40
    assert len(KUBECTL) > 8
    assert len(FIELDS) > 20


@pytest.mark.parametrize("line", TYPED)
def test_what_is_typed_is_understood(line: str):
    parse(line)


@pytest.mark.parametrize("line", ["et scale first --more 2", "et lst", "et scale first --to many"])
def test_what_et_does_not_know_would_be_noticed(line: str):
    with pytest.raises(REFUSED):
        parse(line)


def parse(line: str) -> None:
    """As `et` reads it, without doing it; REFUSED for what it would refuse."""
    [_, *words] = shlex.split(line, comments=True)
    with typer.Context(ET, info_name="et") as context:
        name, command, rest = ET.resolve_command(context, words)
        command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("line", KUBECTL)
def test_kubectl_is_told_a_kind_that_is_there(line: str):
    [_, verb, *words] = shlex.split(line)
    what = next(word for word in words if not word.startswith("-")).partition("/")[0]
    assert verb in VERBS
    assert what in {kind.lower() for kind in KINDS} | OTHERS


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_is_in_the_schema(field: str):
    assert has_field(field)


@pytest.mark.parametrize("field", ["spec.replicas", "ScaleIn.spec.toAdd.count", "spec.queue.name"])
def test_a_field_that_is_not_in_the_schema_would_be_noticed(field: str):
    assert not has_field(field)


def has_field(field: str) -> bool:
    """Whether the API server keeps it: of a TrainingJob unless the field begins with a kind."""
    found = FIELD.fullmatch(field)
    assert found is not None
    resource = KINDS[found[1] or "TrainingJob"]
    schema: Mapping[str, Any] = load_definitions()[resource.group, resource.plural]["schema"]
    schema = schema["openAPIV3Schema"]
    for name in found[2].split("."):
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            return True
        schema = schema.get("properties", {}).get(name.removesuffix("[]"))
        if schema is None:
            return False
        schema = schema["items"] if name.endswith("[]") else schema
    return True


def test_the_page_shows_what_was_changed_in_the_script():
    plain, elastic = (
        (SCRIPTS / name).read_text("utf-8").splitlines() for name in ("plain.py", "elastic.py")
    )
    page = (ROOT / "docs" / "from-a-script.md").read_text("utf-8")
    [shown] = [fence.text for fence in read_fences(page) if fence.language == "diff"]
    changes = [*difflib.unified_diff(plain, elastic, lineterm="", n=999)][3:]
    assert shown == "\n".join(changes) + "\n"


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.name)
def test_the_scripts_compile(path: Any):
    compile(path.read_text("utf-8"), path.name, "exec")
