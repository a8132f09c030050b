"""The manifests of our kinds that people are shown: those of the examples, and in pages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from et_kube.resources import (
    GROUP,
    SCALE_INS,
    SCALE_OUTS,
    TRAINING_JOBS,
    TRAINING_QUEUES,
    Json,
    Resource,
)

ROOT = Path(__file__).resolve().parents[1]
KINDS: Mapping[str, Resource] = {
    one.kind: one for one in (TRAINING_JOBS, SCALE_INS, SCALE_OUTS, TRAINING_QUEUES)
}
_BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read_shown() -> Mapping[str, Sequence[Json]]:
    """By file, and in a page by the line where the block begins: what each holds of our kinds."""
    texts = {path: path.read_text("utf-8") for path in _list_files()}
    found: dict[str, Sequence[Json]] = {}
    for path, text in texts.items():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix == ".yaml":
            found[name] = _load(text)
            continue
        for block in _BLOCK.finditer(text):
            line = text.count("\n", 0, block.start()) + 1
            found[f"{name}:{line}"] = _load(block[1])
    return {name: manifests for name, manifests in found.items() if manifests}


def _list_files() -> list[Path]:
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    return sorted([*(ROOT / "examples").rglob("*.yaml"), *pages])


def _load(text: str) -> list[Json]:
    """Those that are whole: what has another group, or none, is not ours."""
    documents = [one for one in yaml.safe_load_all(text) if isinstance(one, dict)]
    return [one for one in documents if str(one.get("apiVersion")).startswith(f"{GROUP}/")]
