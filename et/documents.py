"""YAML documents, with the meaning that kubectl gives them: what JSON holds, and no more.

manifests.py reads by it. No tag runs anything, and nothing is guessed: what kubectl would refuse,
or mean otherwise, is an EtError that names the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml

from et.errors import EtError

_TEXT = "tag:yaml.org,2002:str"
_TIME = "tag:yaml.org,2002:timestamp"
_NUMBERS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})
_MERGE = "tag:yaml.org,2002:merge"
MOST_VALUES = 1_000_000
"""Values of a document, those of an alias wherever it stands: an API server takes no more bytes."""
_TOO_MANY = f"more than {MOST_VALUES} values, with those that its aliases stand for"


def read_documents(source: str, text: str) -> Iterator[Any]:
    """One after the other; `source` is what errors call them.

    Raises:
        EtError: it is no YAML, a key is there twice, or there is what JSON cannot hold.
    """
    try:
        for document in yaml.load_all(text, Loader=_Loader):
            yield _check(source, document)
    except yaml.YAMLError as error:
        raise EtError(f"{source} is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise EtError(f"{source} is nested too deeply") from error
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise EtError(f"{source} has a value that YAML cannot read: {error!r}") from error


def _check(source: str, document: Any) -> Any:
    left = MOST_VALUES
    rest = [document]
    while rest:
        value = rest.pop()
        parts = [*value.values()] if isinstance(value, dict) else value
        if not isinstance(parts, (list, tuple)):
            continue
        left -= len(parts)
        rest += parts
        if left < 0:
            raise EtError(f"{source} has {_TOO_MANY}")
    try:
        json.dumps(document, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise EtError(f"{source} has what JSON cannot hold: {error}; write it as text") from error
    return document


class _Loader(yaml.SafeLoader):
    """Without dates, without numbers to the base of 60, and with each key once."""

    _left = MOST_VALUES

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge into a mapping what it names; those first, so that each is counted as it is."""
        for key, value in node.value:
            if key.tag == _MERGE:
                named = value.value if isinstance(value, yaml.SequenceNode) else [value]
                for one in named:
                    self._count_merged(one)
        super().flatten_mapping(node)

    def _count_merged(self, node: yaml.Node) -> None:
        if isinstance(node, yaml.MappingNode):
            self.flatten_mapping(node)
            self._left -= len(node.value)
        if self._left < 0:
            raise yaml.YAMLError(f"it has {_TOO_MANY}")

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        """The tag of what was written without one."""
        tag: str = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        is_text = tag == _TIME or (tag in _NUMBERS and ":" in value)
        return _TEXT if is_text else tag

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """A mapping as it was written, before anything is merged into it."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                mark = key.start_mark
                place = f"line {mark.line + 1}, column {mark.column + 1}"
                raise yaml.YAMLError(f"the key {key.value!r} is there twice in {place}")
            seen.add(key.value)
        return node
