"""The pages say what the code says, and lead where they point."""

from __future__ import annotations

import ast
import re
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from et_operator.measuring import Metrics
from et_operator.model.conditions import TROUBLES, USUAL
from et_scheduler.measuring import Metrics as SchedulerMetrics
from tests.points import POINTS

ROOT = Path(__file__).resolve().parents[2]
API = ROOT / "docs" / "api.md"
DOCS = sorted(path for path in (ROOT / "docs").glob("*.md"))
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
DEFINITIONS = [ROOT / "crds" / f"{name}.yaml" for name in ("trainingjobs", "scaleins", "scaleouts")]
"""Of the kinds that et-operator has too."""
PLANNING = sorted((ROOT / "et_operator" / "planning").glob("*.py"))
REPORTERS = {
    "tell": 0,
    "fail": 1,
    "set_condition": 0,
    "_show": 1,
    "_fail": 0,
    "_lose": 0,
    "Ending": 0,
    "Report": 2,
}
"""Calls that give people a reason, and which argument it is."""
HIDDEN = {"LauncherSucceeded"}
"""Of an ending that becomes `Succeeded`; nobody reads it."""
WORD = re.compile(r"[A-Z][a-zA-Z]+")


@pytest.mark.long
def test_the_tables_are_what_the_script_writes():
    render: Callable[[str], str] = runpy.run_path(str(ROOT / "docs" / "generate_api.py"))["render"]
    page = API.read_text("utf-8")
    assert render(page) == page, "run python3 docs/generate_api.py"


@pytest.mark.parametrize("source", PLANNING, ids=lambda path: path.name)
def test_every_reason_that_people_read_is_explained(source: Path):
    page = API.read_text("utf-8")
    reasons = set(find_reasons(ast.parse(source.read_text("utf-8")))) - HIDDEN
    assert not sorted(reason for reason in reasons if f"`{reason}`" not in page)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_link_leads_to_a_heading_or_a_file(page: Path):
    links = re.findall(r"\]\((?!https?:|\[)([^)#]*)#?([^)]*)\)", page.read_text("utf-8"))
    targets = [((page.parent / name) if name else page, anchor) for name, anchor in links]
    assert not [
        f"{target}#{anchor}"
        for target, anchor in targets
        if not target.exists() or (anchor and anchor not in list_anchors(target))
    ]


@pytest.mark.parametrize("page", DOCS, ids=lambda path: path.name)
def test_every_page_begins_with_whom_it_is_for(page: Path):
    assert page.read_text("utf-8").split("\n\n")[1].startswith("For "), "say for whom it is"


def test_every_event_and_condition_that_is_explained_exists():
    words = {
        str(node.value)
        for package in ("et_operator", "et_scheduler", "et_contract")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant)
    }
    told = API.read_text("utf-8").partition("\n## Phases\n")[2]
    rows = re.findall(r"^\| (`.*?) \|", told, re.MULTILINE)
    named = {word for row in rows for word in re.findall(r"`(\w+)`", row)}
    assert not named - words


def test_the_metrics_are_those_of_the_code():
    kept = {
        family.name + ("_total" if family.type == "counter" else "")
        for metrics in (Metrics(), SchedulerMetrics())
        for family in metrics.registry.collect()
    }
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE)) == kept


def test_each_condition_of_a_job_is_a_usual_one_or_a_trouble():
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    table = page.split("## Conditions of a TrainingJob\n")[1].split("\n\n")[1]
    told = set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE))
    assert told == USUAL | TROUBLES


def test_alerts_and_advice_name_metrics_that_exist():
    series = {
        family.name + end
        for family in Metrics().registry.collect()
        for end in (("_total",) if family.type == "counter" else ("", "_bucket"))
    }
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    assert not set(re.findall(r"\bet_operator_[a-z_]+", page)) - series


def test_what_the_comparison_calls_run_is_in_the_closing_table():
    rows = (ROOT / "docs" / "comparison.md").read_text("utf-8").splitlines()
    ours = [row.split("|")[2] for row in rows if row.startswith("|")]
    named = {key for cell in ours for key in re.findall(r"`([a-z]+(?:-[a-z0-9]+)+)`", cell)}
    assert "no-lost-step" in named
    assert not named - {point.key for point in POINTS}


def test_the_front_page_compares_as_the_page_with_the_evidence_does():
    front = (ROOT / "README.md").read_text("utf-8")
    front = front.partition("\n## How it compares\n")[2].partition("\n## ")[0]
    whole = (ROOT / "docs" / "comparison.md").read_text("utf-8")
    assert [row for row in map(strip_evidence, whole.splitlines()) if row.startswith("|")] == [
        row for row in map(strip_evidence, front.splitlines()) if row.startswith("|")
    ]


def test_every_decision_is_in_the_index_under_its_title():
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text("utf-8")
    missing = [path.name for path in folder.glob("0*.md") if build_line(path) not in index]
    assert not missing, "put these under their headings in docs/decisions/README.md"


def build_line(path: Path) -> str:
    number, _, title = path.read_text("utf-8").partition("\n")[0].partition(": ")
    return f"- [{number.removeprefix('# ')}]({path.name}): {title}\n"


def strip_evidence(row: str) -> str:
    """A row of a table without links, and without the tests that it names in brackets."""
    row = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", row)
    return re.sub(r" \(`[a-z0-9-]+`(?:, `[a-z0-9-]+`)*\)", "", row)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda path: path.name)
def test_every_field_is_named_where_people_come_from_et_operator(definition: Path):
    version = yaml.safe_load(definition.read_text("utf-8"))["spec"]["versions"][0]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    page = (ROOT / "docs" / "migration.md").read_text("utf-8")
    assert not [name for name in list_leaves(spec) if name not in page]


def test_every_rule_has_a_home_that_exists():
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    table = page.partition("\n## Where a rule is\n")[2].partition("\n## ")[0]
    named = re.findall(r"`(\w[\w/]+\.py)`", table)
    homes = {find_home(name) for name in named}
    assert not [home for home in homes if not home.exists()]
    assert {path for path in PLANNING if path.stem not in {"__init__", "drafts"}} <= homes


def test_the_three_ways_lead_through_files_that_exist():
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    ways = page.partition("\n## Three ways through the files\n")[2].partition("\n## ")[0]
    rows = re.findall(r"`([\w/]+)/` (\w+(?: · \w+)*)", ways.replace("\\_", "_"))
    homes = [
        find_home(f"{folder}/{name}.py") for folder, names in rows for name in names.split(" · ")
    ]
    assert len(homes) > 100
    assert not [home for home in homes if not home.exists()]


def find_home(name: str) -> Path:
    """A file that the page names; what is in no other package is the operator's."""
    packages = ("launcher", "hostdiscovery", "et_contract", "et_kube", "et_notices", "et_process")
    packages += ("et_scheduler",)
    return ROOT / name if name.startswith(packages) else ROOT / "et_operator" / name


def list_leaves(schema: dict[str, Any]) -> Iterator[str]:
    """The names of fields that have none below them; of a pod template its own name."""
    for name, field in schema["properties"].items():
        if "properties" in field and name != "template":
            yield from list_leaves(field)
        else:
            yield name


def list_anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub links to them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


def find_reasons(tree: ast.AST) -> Iterator[str]:
    """Words in CamelCase where a reason is given: in a call, or first in an answer of two."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from find_words(node.args, REPORTERS.get(get_name(node.func), len(node.args)))
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            yield from find_words(node.value.elts, 0)


def find_words(nodes: list[ast.expr], place: int) -> Iterator[str]:
    for node in nodes[place : place + 1]:
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and WORD.fullmatch(str(part.value)):
                yield str(part.value)


def get_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_test_that_a_page_names_exists(page: Path):
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text("utf-8"))
    assert not [
        f"{path}::{test}"
        for path, test in named
        if not (ROOT / path).exists() or (test and f"def {test}(" not in (ROOT / path).read_text())
    ]


def test_every_failure_has_its_number_once_and_a_test_or_says_that_it_has_none():
    page = (ROOT / "docs" / "failures.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d*) ?\| .* \|([^|]+)\|([^|]+)\|$", page, re.MULTILINE)
    numbers = sorted(int(number) for number, _, _ in rows if number)
    assert numbers == list(range(1, len(numbers) + 1))
    for number, how, test in rows:
        is_named = how.strip() in {"real", "joined", "model"} and test.strip().startswith("`tests/")
        assert is_named or (not how.strip() and test.strip() == "no test yet"), number
