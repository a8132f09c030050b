"""What a node says of its own end, in annotations that are applied by us and taken back by us.

A server-side apply keeps the account of who wrote what: applied with less than before it takes away
what this program wrote and nobody else has changed since, and nothing else, also after a restart.
That apply, tried (`dryRun=All`), is how the node is read: as it would be without our words. So the
right to patch nodes is all that is needed, and a policy holds it to the own node and these keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import structlog

from et_kube.api import APPLY_PATCH, Patching
from et_kube.errors import Conflict, KubeError, Refused
from et_kube.notices import (
    LEAVING_ADVISED,
    LEAVING_AT,
    LEAVING_REASON,
    is_long_over,
    read_annotation,
)
from et_kube.resources import GROUP, NODES, Json, Ref
from et_kube.times import format_time
from et_notices.judging import Word

MANAGER = "et-notices"
"""Under which the server keeps account of what is ours."""
REFUSAL = "et-notices says of its own node when and why it ends, and nothing else"
"""What the policy says of all that it refuses; a test compares."""
FOREIGN_LABEL = f"{GROUP}/nobody-may"
TRIES = 3
"""Of a word whose node is changed in between."""
_TRIAL = Word(datetime(2100, 1, 1, tzinfo=UTC), "a trial", datetime(2100, 1, 1, tzinfo=UTC))

log = structlog.get_logger()


class Unheld(KubeError):  # noqa: N818 (a fact about the cluster)
    """No policy holds this program to its own node, or one keeps it from its work."""


class Node:
    """One's own node.

    Args:
        api: writes as MANAGER.
        trial: the same, and nothing of it is stored.
        name: of the node.
    """

    def __init__(self, api: Patching, trial: Patching, name: str) -> None:
        self._api = api
        self._trial = trial
        self._ref = Ref(NODES, "", name)
        self._told: Mapping[str, str] = {}

    async def look(self) -> Json:
        """The node without what this program has said of it."""
        return await self._apply(self._trial, {})

    async def prove(self) -> None:
        """Unheld where what must not be allowed is, or what must be allowed is not."""
        label = {"metadata": {"labels": {FOREIGN_LABEL: "tried"}}}
        try:
            await self._trial.patch(self._ref, label)
        except Refused as error:
            if REFUSAL not in error.message:
                raise Unheld(f"refused, but not by the policy of et-notices: {error}") from error
        else:
            raise Unheld(
                "this account may change all of a node: install the policy of et-notices with it"
            )
        try:
            await self._apply(self._trial, build_annotations(_TRIAL))
        except Refused as error:
            raise Unheld(f"this account may not say that its node ends: {error}") from error

    async def say(self, word: Word, now: Callable[[], datetime]) -> Word:
        """Have the node say this, and of ours nothing else; what it says of ours is returned.

        What time it is, is asked once the server was heard.

        The word of somebody else that ends it no later stands, and ours is not needed as long as
        that holds; one that ends it later gives way.

        Raises:
            Unheld: see `prove`.
            Conflict: the node was changed by others TRIES times in a row.
        """
        left = TRIES
        while True:
            left -= 1
            await self.prove()
            node = await self.look()
            chosen = self._choose(word, node, now())
            version = node["metadata"]["resourceVersion"]
            try:
                await self._apply(self._api, build_annotations(chosen), version)
            except Conflict:
                if not left:
                    raise
            else:
                return chosen

    def _choose(self, word: Word, node: Json, now: datetime) -> Word:
        theirs, _ = read_annotation(node["metadata"])
        if theirs is None or theirs.deadline is None or word.at is None:
            return word
        told = {"theirs": format_time(theirs.deadline), "why": theirs.reason}
        is_new, self._told = told != self._told, told
        if theirs.deadline <= word.at and not is_long_over(theirs.deadline, now):
            if is_new:
                log.info("somebody says already that it ends, and no later", **told)
            return replace(word, at=None, reason="")
        log.warning("somebody's word gives way to one that ends it sooner", **told)
        return word

    async def _apply(
        self, api: Patching, annotations: Mapping[str, str], version: str | None = None
    ) -> Json:
        metadata: dict[str, Any] = {"name": self._ref.name}
        if annotations:
            metadata["annotations"] = annotations
        if version is not None:
            metadata["resourceVersion"] = version
        body = {"apiVersion": NODES.api_version, "kind": NODES.kind, "metadata": metadata}
        return await api.patch(self._ref, body, content_type=APPLY_PATCH)


def build_annotations(word: Word) -> dict[str, str]:
    """A word as annotations."""
    found = {}
    if word.at is not None:
        found = {LEAVING_AT: format_time(word.at), LEAVING_REASON: word.reason}
    if word.advised is not None:
        found[LEAVING_ADVISED] = format_time(word.advised)
    return found
