"""Writes the tables of docs/api.md from the definitions in crds/.

    python3 docs/generate_api.py

What is outside the markers in docs/api.md is written by hand and stays.
"""  # noqa: INP001 (a script, no package)

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "api.md"
KINDS = ("trainingjobs", "scaleins", "scaleouts", "trainingqueues")
BEGIN, END = "<!-- begin: generate_api.py -->\n", "<!-- end: generate_api.py -->\n"
HEAD = "| field | type | meaning |\n|---|---|---|\n"
_LIMITS = {
    "default": "Default `{}`.",
    "minimum": "At least {}.",
    "maximum": "At most {}.",
    "minLength": "Length at least {}.",
    "maxLength": "Length at most {}.",
    "minItems": "Length at least {}.",
    "maxItems": "Length at most {}.",
    "pattern": "Matches `{}`.",
}

Schema = dict[str, Any]


def render(page: str) -> str:
    """The page with its tables as the definitions say."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "".join(map(describe_kind, KINDS)) + END + after


def describe_kind(plural: str) -> str:
    """The section of one kind: spec, what is refused, status."""
    definition = yaml.safe_load((ROOT / "crds" / f"{plural}.yaml").read_text("utf-8"))["spec"]
    schema = definition["versions"][0]["schema"]["openAPIV3Schema"]
    spec, status = (schema["properties"][part] for part in ("spec", "status"))
    kind = definition["names"]["kind"]
    refused = "".join(f"- {line}\n" for line in dict.fromkeys(find_rules(schema, "")))
    return (
        f"\n## {kind}\n{schema['description']}\n"
        f"\n### {kind}.spec\n{spec['description']}\n\n{describe_fields(spec)}"
        f"\nThe API server refuses what breaks a rule, with these words:\n{refused}"
        f"\n### {kind}.status\n{status['description']}\n\n{describe_fields(status)}"
    )


def describe_fields(schema: Schema) -> str:
    """A table of everything below this object; what is the same twice is written once."""
    seen: dict[str, str] = {}
    rows = (
        f"| `{path}` | {describe_type(field)} | {meaning} |\n"
        for path, field, meaning in walk(schema, "", seen)
    )
    return HEAD + "".join(rows)


def walk(schema: Schema, prefix: str, seen: dict[str, str]) -> Iterator[tuple[str, Schema, str]]:
    """(path, field, meaning) of every field, outer ones first."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        inner = field.get("items", field)
        meaning = describe_meaning(field, is_required=name in required)
        shape = json.dumps(inner.get("properties", {}), sort_keys=True)
        if "properties" in inner and shape in seen:
            yield path, field, f"{meaning} Fields as in `{seen[shape]}`."
            continue
        yield path, field, meaning
        seen[shape] = path
        yield from walk(inner, f"{path}[]." if "items" in field else f"{path}.", seen)


def describe_type(field: Schema) -> str:
    """As people say it: `list of string`, one of the choices, `time`."""
    if field["type"] == "array":
        return f"list of {describe_type(field['items'])}"
    if "enum" in field:
        return " or ".join(f"`{choice}`" if choice else "empty" for choice in field["enum"])
    return "time" if field.get("format") == "date-time" else str(field["type"])


def describe_meaning(field: Schema, *, is_required: bool) -> str:
    """The description, whether it must be given, its default and its limits."""
    words = [escape(field["description"])]
    if is_required:
        words.append("Required.")
    words += [text.format(field[key]) for key, text in _LIMITS.items() if key in field]
    return " ".join(words)


def escape(text: str) -> str:
    """Words that Markdown would take for something else."""
    return text.replace("<", "&lt;").replace("|", "\\|")


def find_rules(schema: Schema, path: str) -> Iterator[str]:
    """The sentences with which the API server refuses an object."""
    for rule in schema.get("x-kubernetes-validations", ()):
        place = f"{path}{rule.get('fieldPath', '')}"
        words = escape(rule["message"])
        yield f"`{place}`: {words}" if place else words
    for name, field in schema.get("properties", {}).items():
        yield from find_rules(field, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from find_rules(schema["items"], f"{path}[]")


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text("utf-8")), "utf-8")
