"""Manifests and other objects as a careless or hostile author writes them, all from one seed.

A case is a life: what is posted, what it is then edited to, and its deletion. The same builders
serve a real API server, which is given the text of a case, and the fakes, which are given what the
server would make of it. The dice may be Hypothesis' own (`st.randoms()`): failures then shrink.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from et_kube.resources import SCALE_INS, SCALE_OUTS, TRAINING_JOBS, Resource
from tests.makers import NOWHERE, Document, make_job, make_scale_in, make_scale_out
from tests.specs.odds import ODDS, REFUSED, Raw
from tests.specs.places import Path, find_schema, list_places, put, sample, show

TARGET = "target"
"""The job that scalings of a case are about; whoever posts them sees to it that it is there."""
SUBRESOURCES = ("", "", "", "status", "scale")
_KINDS = (TRAINING_JOBS,) * 6 + (SCALE_INS, SCALE_OUTS)


PLACED = 0.02
DEEPEST = 300
"""Levels that the fakes can copy."""


class NotStored(ValueError):  # noqa: N818 (what the server does)
    """No API server takes this text, whatever the schema says."""


@dataclass(frozen=True)
class Written:
    """One thing that somebody writes: `odd` has a line `class at path` for each odd value."""

    document: Any
    odd: tuple[str, ...]

    @property
    def title(self) -> str:
        """What is odd about it."""
        return "; ".join(self.odd) or "nothing is odd"

    @property
    def text(self) -> str:
        """The JSON as it is sent."""
        return dump(self.document)

    @property
    def stored(self) -> Document:
        """What a server takes it for; raises NotStored, also of what is too deep for the fakes."""
        found: Document = as_stored(self.document)
        return found


@dataclass(frozen=True)
class Edit:
    """A merge patch of the object or of a subresource."""

    subresource: str
    written: Written


@dataclass(frozen=True)
class Case:
    """One object from its creation on; `seed` alone decides all of it."""

    seed: str
    resource: Resource
    manifest: Written
    edits: tuple[Edit, ...]


def build_case(seed: str, *, name: str) -> Case:
    """The case of this seed; its object is called `name` unless its name is what is odd.

    Few jobs have pods that a scheduler takes: the others cost a real cluster nothing but objects.
    """
    dice = random.Random(seed)  # noqa: S311 (a die, no secret)
    scheduler = "" if dice.random() < PLACED else NOWHERE
    return Generator(dice, scheduler=scheduler).build_case(seed, name)


class Generator:
    """Builders that share their dice.

    Args:
        dice: the only source of chance.
        scheduler: who places the pods of jobs; by default the cluster's own.
    """

    def __init__(self, dice: random.Random, *, scheduler: str = "") -> None:
        self.dice = dice
        self._scheduler = scheduler

    def build_case(self, seed: str, name: str) -> Case:
        """A TrainingJob most often, now and then a scaling of TARGET."""
        resource = self.dice.choice(_KINDS)
        manifest = self.build_manifest(resource, name)
        edits = [self.build_edit(resource, name) for _ in range(self.dice.choice((0, 1, 1, 2)))]
        return Case(seed, resource, manifest, tuple(edits))

    def build_manifest(self, resource: Resource, name: str, job: str = TARGET) -> Written:
        """An object of a kind of ours with no to three odd values in its spec and metadata."""
        spec, metadata = list_places(resource, "spec"), list_places(resource, "metadata")
        good = self.build_good(resource, name, job)
        return self._spoil(good, lambda: spec if self.dice.random() < 0.9 else metadata)

    def build_good(self, resource: Resource, name: str, job: str = TARGET) -> Document:
        """One with nothing odd about it."""
        count = self.dice.randint(1, 3)
        if resource == SCALE_OUTS:
            return make_scale_out(name, job, count, **self._choose_options(resource))
        if resource == SCALE_INS:
            return make_scale_in(name, job, count=count, **self._choose_options(resource))
        manifest = make_job(name, workers=count, **self._choose_options(resource))
        for role in manifest["spec"]["etReplicaSpecs"].values():
            if self._scheduler:
                role["template"]["spec"]["schedulerName"] = self._scheduler
        return manifest

    def build_edit(self, resource: Resource, name: str) -> Edit:
        """A change of the spec, of the status, or of the number of workers."""
        subresource = self.dice.choice(SUBRESOURCES)
        if subresource == "status":
            return Edit(subresource, self.build_status(resource))
        if subresource == "scale" and resource == TRAINING_JOBS:
            return Edit(subresource, self._spoil({}, lambda: (("spec", "replicas"),)))
        whole = self.build_manifest(resource, name)
        fields = {"spec": whole.document["spec"]} if self.dice.random() < 0.9 else whole.document
        return Edit("", Written(fields, whole.odd))

    def build_status(self, resource: Resource) -> Written:
        """A merge patch of the status: anybody who may edit the object may send it."""
        places = list_places(resource, "status")
        schema = find_schema(resource)["properties"]["status"]
        good = {"status": sample(schema, self.dice)} if self.dice.random() < 0.5 else {}
        return self._spoil(good, lambda: places)

    # ------------------------------------------------------------ inside
    def _choose_options(self, resource: Resource) -> dict[str, Any]:
        """Some of the optional plain fields of the spec, as the schema takes them."""
        fields = find_schema(resource)["properties"]["spec"]["properties"]
        plain = [key for key, inner in fields.items() if inner.get("type") != "object"]
        chosen = [key for key in plain if self.dice.random() < 0.15]
        return {key: sample(fields[key], self.dice) for key in chosen}

    def _spoil(self, good: Document, choose: Callable[[], Sequence[Path]]) -> Written:
        odd: list[str] = []
        document: Any = good
        for _ in range(self.dice.choice((0, 1, 1, 1, 1, 1, 1, 2, 2, 3))):
            path = self.dice.choice(choose())
            kind = self.dice.choice(tuple(ODDS))
            document = put(document, path, ODDS[kind](self.dice))
            odd.append(f"{kind} at {show(path)}")
        return Written(document, tuple(odd))


# ---------------------------------------------------------------- text
def dump(document: Any) -> str:
    """JSON, with what only a Raw can say."""
    raws: list[str] = []

    def note(value: Any) -> str:
        assert isinstance(value, Raw), f"{value!r} is not JSON"
        raws.append(value.text)
        return f"@raw {len(raws) - 1}@"

    text = json.dumps(document, default=note)
    for number, raw in enumerate(raws):
        text = text.replace(f'"@raw {number}@"', raw)
    return text


def as_stored(value: Any, level: int = 0) -> Any:
    """The value as an API server reads it from its text; raises NotStored.

    Halves of surrogate pairs become U+FFFD, whole numbers beyond 64 bits become floats.
    """
    if level > DEEPEST:
        raise NotStored(f"more than {DEEPEST} levels")
    if isinstance(value, Raw):
        if value.value is REFUSED:
            raise NotStored(value.text[:40])
        return as_stored(value.value, level)
    if isinstance(value, dict):
        return {as_stored(key): as_stored(item, level + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [as_stored(item, level + 1) for item in value]
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return float(value)
    return value
