"""Label and field selectors, as far as the operator and its broker use them.

Of fields only those few are known that a server selects by; any other one is refused, as there.
Pure: which objects are looked at is the caller's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from et_kube.errors import Refused

Predicate = Callable[[Mapping[str, Any]], bool]

_SET = re.compile(r"^(?P<key>[^\s!=,()]+)\s+(?P<op>in|notin)\s+\((?P<values>[^)]*)\)$")
_TERMS = re.compile(r",(?![^()]*\))")


def parse_label_selector(text: str) -> Predicate:
    """`a=b`, `a==b`, `a!=b`, `a`, `!a`, `a in (b, c)`, `a notin (b)`, joined by commas."""
    terms = [_parse_label_term(t.strip()) for t in _TERMS.split(text) if t.strip()]

    def matches(document: Mapping[str, Any]) -> bool:
        labels = document["metadata"].get("labels") or {}
        return all(term(labels) for term in terms)

    return matches


def parse_field_selector(text: str) -> Predicate:
    """`path=value` and `path!=value`, joined by commas; the paths are the server's few."""
    terms = [_parse_field_term(t.strip()) for t in text.split(",") if t.strip()]

    def matches(document: Mapping[str, Any]) -> bool:
        return all(term(document) for term in terms)

    return matches


def _parse_label_term(term: str) -> Predicate:
    if found := _SET.match(term):
        key = found["key"]
        values = {v.strip() for v in found["values"].split(",")}
        if found["op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    for sign, wanted in (("!=", False), ("==", True), ("=", True)):
        if sign in term:
            key, value = (part.strip() for part in term.split(sign, 1))
            return _label_equals(key, value, wanted=wanted)
    if term.startswith("!"):
        return lambda labels: term[1:] not in labels
    return lambda labels: term in labels


def _label_equals(key: str, value: str, *, wanted: bool) -> Predicate:
    return lambda labels: (labels.get(key) == value) is wanted


_FIELDS = {
    "involvedObject.name": ("involvedObject", "name"),
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
    "spec.nodeName": ("spec", "nodeName"),
    "status.phase": ("status", "phase"),
}


def _parse_field_term(term: str) -> Predicate:
    wanted = "!=" not in term
    path, value = term.replace("==", "=").split("=" if wanted else "!=", 1)
    if path not in _FIELDS:
        raise Refused(400, "BadRequest", f"field label not supported: {path}")
    first, second = _FIELDS[path]
    return lambda document: (str(document.get(first, {}).get(second, "")) == value) is wanted
