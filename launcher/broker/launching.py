"""PID 1 of the launcher: when it may start the user's command, and which scripts it runs.

No I/O, no clock: all times are monotonic seconds handed in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from et_contract.documents import HostConfig, ScriptOrder, ScriptResult
from launcher.broker.bodies import is_code

PATIENCE_SECONDS = 30.0
"""How long fewer than all replicas are waited upon once the least number is there."""


@dataclass(slots=True)
class Launching:
    """`peer` is PID 1's connection; it comes back after a restart of ours and asks again."""

    peer: int | None = None
    is_told: bool = False
    """This connection got its GO."""
    _enough_since: float | None = None
    _handed: set[str] = field(default_factory=set)
    """Scripts that this connection was given."""

    def register(self, peer: int) -> None:
        """PID 1 is (again) there."""
        self.peer = peer
        self.is_told = False
        self._handed.clear()

    def leave(self, peer: int) -> None:
        """A connection ended."""
        if self.peer == peer:
            self.peer = None

    def may_start(self, listed: int, config: HostConfig | None, now: float) -> bool:
        """Whether enough hosts are listed for GO: all, or the least number for half a minute."""
        if config is None:
            return False
        if listed < max(config.min_replicas, 1):
            self._enough_since = None
            return False
        if self._enough_since is None:
            self._enough_since = now
        return listed >= config.replicas or now >= self._enough_since + PATIENCE_SECONDS

    def take_orders(
        self, orders: Iterable[ScriptOrder], done: Iterable[str]
    ) -> list[dict[str, Any]]:
        """Bodies of SCRIPT for this connection, each once; PID 1 runs an id once in its life."""
        if self.peer is None:
            return []
        skipped = self._handed.union(done)
        fresh = [order for order in orders if order.id not in skipped]
        self._handed.update(order.id for order in fresh)
        return [
            {
                "id": order.id,
                "script": order.script,
                "argument": order.hosts,
                "env": dict(order.env),
                "timeout": order.timeout_seconds,
                "shell": order.is_shell,
            }
            for order in fresh
        ]

    def due(self) -> float | None:
        """When waiting for all replicas ends."""
        if self.peer is None or self.is_told or self._enough_since is None:
            return None
        return self._enough_since + PATIENCE_SECONDS


def read_result(body: dict[str, Any], cut: int) -> ScriptResult:
    """SCRIPT_DONE's result, with the last `cut` bytes of output."""
    code = body.get("code")
    text = str(body.get("output") or "").encode(errors="replace")
    output = text[-cut:].decode(errors="replace")
    return ScriptResult(code if is_code(code) and not body.get("timedOut") else None, output)
