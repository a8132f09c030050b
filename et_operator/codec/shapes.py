"""What a pod template must look like where planning relies on it; the rest is the API server's.

A CRD cannot say it: it keeps unknown fields of a pod as they are, so that pods may have what comes
after it. So a number without quotes reaches us, and its author is told here which one it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from et_kube.errors import InvalidObject
from et_kube.shaping import MAX_TERMS
from et_operator.codec.fields import MAX_SECONDS, Fields

MAX_DEPTH = 64
"""Levels of a template. No pod has half as many; Python gives up at some hundreds."""
MAX_VALUES = 10_000
"""Values of a template, lists and objects among them. The largest that is taken has fewer; looking
at each of half a million, which an object has room for, would keep all other jobs waiting."""
_TEXT_MAPS = ("labels", "annotations")
_MAX_TEXTS = 256
"""In each of these, which no pod has: every worker has a copy of its own, and a pass has them all
at once."""
_LISTS = ("imagePullSecrets", "volumes")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NAMED_LEVELS = 2
_MAX_KEY = 64
"""Of a name in a path: one that is longer would be there once for each value that it has."""
_AMOUNT = re.compile(r"[+-]?[0-9.]{1,40}([a-zA-Z]{0,2}|[eE][+-]?[0-9]{1,3})")


def check_template(template: Fields) -> None:
    """Raise InvalidObject for what has another type than pods have there."""
    _check_size(template)
    metadata = template.get_object("metadata") or Fields({}, "")
    for key in _TEXT_MAPS:
        metadata.get_text_map(key)
        if (count := len(metadata.body.get(key) or ())) > _MAX_TEXTS:
            words = f"are {count}, {_MAX_TEXTS} at most: each pod has them all, remove some"
            raise metadata.fail(key, words)
    spec = template.require_object("spec")
    spec.get_text_map("nodeSelector")
    for key in ("serviceAccountName", "serviceAccount"):
        spec.get_text(key)
    spec.get_integer("terminationGracePeriodSeconds", minimum=0, maximum=MAX_SECONDS)
    for key in _LISTS:
        spec.get_objects(key)
    for toleration in spec.get_objects("tolerations"):
        toleration.get_text("key")
        toleration.get_text("effect")
    _check_affinity(spec.get_object("affinity") or Fields({}, ""))
    for container in (*spec.get_objects("containers"), *spec.get_objects("initContainers")):
        _check_container(container)


def _check_affinity(affinity: Fields) -> None:
    for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity"):
        found = affinity.get_object(kind)
        if found is None:
            continue
        found.get_objects(_PREFERRED)
        if kind != "nodeAffinity":
            found.get_objects(_REQUIRED)
        elif (required := found.get_object(_REQUIRED)) is not None:
            _check_terms(required)


def _check_terms(required: Fields) -> None:
    """Names of nodes go into each of them (planning/manifests/placement)."""
    terms = required.get_objects("nodeSelectorTerms")
    if len(terms) > MAX_TERMS:
        words = f"are {len(terms)}, {MAX_TERMS} at most: name labels that nodes share"
        raise required.fail("nodeSelectorTerms", words)
    for term in terms:
        for one in (*term.get_objects("matchExpressions"), *term.get_objects("matchFields")):
            one.get_text("key")
            one.get_text("operator")
            one.get_texts("values")


def _check_container(container: Fields) -> None:
    for key in ("command", "args"):
        container.get_texts(key)
    for variable in container.get_objects("env"):
        variable.require_text("name")
        variable.get_text("value")
    for mount in container.get_objects("volumeMounts"):
        mount.get_text("mountPath")
    resources = container.get_object("resources") or Fields({}, "")
    for key in ("limits", "requests"):
        _check_amounts(resources.get_object(key) or Fields({}, ""))


def _check_amounts(amounts: Fields) -> None:
    for name, amount in amounts.body.items():
        is_number = isinstance(amount, int | float) and not isinstance(amount, bool)
        is_text = isinstance(amount, str) and _AMOUNT.fullmatch(amount) is not None
        if amount is not None and not is_number and not is_text:
            raise amounts.fail(name, "must be an amount, for example 2, 500m or 16Gi")


def _check_size(template: Fields) -> None:
    """One level after the other: what is too deep for Python is not looked into by recursion."""
    count = 0
    level: list[tuple[str, Any]] = [(template.path, template.body)]
    for number in range(MAX_DEPTH):
        is_named = number < _NAMED_LEVELS
        below: list[tuple[str, Any]] = []
        for path, value in level:
            count += len(value)
            if count > MAX_VALUES:
                raise InvalidObject(
                    path, f"has more than {MAX_VALUES} values, which no pod has: remove some"
                )
            below += (
                (f"{path}.{str(key)[:_MAX_KEY]}" if is_named else path, inner)
                for key, inner in _list_inner(value)
                if isinstance(inner, Mapping | list)
            )
        level = below
    if level:
        raise InvalidObject(level[0][0], f"is nested deeper than {MAX_DEPTH} levels, remove it")


def _list_inner(value: Any) -> Iterator[tuple[object, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)
