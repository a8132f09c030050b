"""The values of the Helm chart, before Helm looks at them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

import et_kube

CHART = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "et-operator"
FREE = {"resources"}
"""Whose inner names are Kubernetes' own."""

Object = dict[str, Any]


def test_every_value_is_in_the_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(list_values(values)) <= set(list_properties(schema, schema["definitions"]))
    assert set(schema["properties"]) == {*values, "global"}


def list_properties(schema: Object, definitions: Object, above: str = "") -> Iterator[str]:
    """Paths of all properties that the schema names."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    for name, inner in schema.get("properties", {}).items():
        yield above + name
        yield from list_properties(inner, definitions, f"{above}{name}.")


def list_values(values: Object, above: str = "") -> Iterator[str]:
    for name, value in values.items():
        yield above + name
        if isinstance(value, dict) and name not in FREE:
            yield from list_values(value, f"{above}{name}.")


def test_the_chart_has_the_products_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == et_kube.__version__
