"""PID 1 of the launcher: when it may start the user's command, which scripts it runs, its end.

No I/O, no clock: all times are monotonic seconds handed in.
"""

from __future__ import annotations

from typing import Any

from et_contract import frames
from et_contract.documents import ScriptOrder, ScriptResult, read_flag
from et_contract.frames import Frame, ProtocolError
from launcher.broker.bodies import is_code
from launcher.broker.facts import OUTPUT_KEPT, Ledger
from launcher.broker.hosts import HostList
from launcher.broker.relaying import Wire

PATIENCE_SECONDS = 30.0
"""How long fewer than all replicas are waited upon once the least number is there."""


class Launching:
    """What PID 1 tells goes into the list and the ledger; it hears only what was kept before.

    Its connection comes back after a restart of ours, and asks again.
    """

    def __init__(self, hosts: HostList, ledger: Ledger, wire: Wire) -> None:
        self._hosts = hosts
        self._ledger = ledger
        self._wire = wire
        self.peer: int | None = None
        """The connection of PID 1."""
        self._is_told = False
        """This connection got its GO."""
        self._enough_since: float | None = None
        self._handed: set[str] = set()
        """Scripts that this connection was given."""
        self._ended: list[int] = []
        """Connections on which ENDED came."""

    # ------------------------------------------------------------ what it tells

    def register(self, peer: int, frame: Frame) -> None:
        """A LAUNCH has come: PID 1 of the launcher is there, or there again."""
        self._hosts.register(str(frames.decode_json(frame).get("nonce") or ""))
        self.peer = peer
        self._is_told = False
        self._handed.clear()

    def finish_script(self, _peer: int, frame: Frame) -> None:
        """SCRIPT_DONE; of an order that is none (yet) nothing is kept, and it is told again."""
        body = frames.decode_json(frame)
        key = body.get("id")
        if any(order.id == key for order in self._orders):
            self._ledger.finish_script(str(key), _read_result(body))

    def end(self, peer: int, frame: Frame) -> None:
        """ENDED; raises ProtocolError for one without a code."""
        body = frames.decode_json(frame)
        code = body.get("code")
        if not is_code(code):
            raise ProtocolError("ENDED without a code")
        self._ledger.end(code, is_told_to_end=read_flag(body.get("toldToEnd")))
        self._ended.append(peer)

    def leave(self, peer: int) -> None:
        """A connection ended."""
        if self.peer == peer:
            self.peer = None

    # ------------------------------------------------------------ what it is told

    def decide(self, now: float) -> None:
        """Whether the user's command may start; it is told when that was kept."""
        is_waiting = self.peer is not None and not self._hosts.memory.started
        if is_waiting and self._are_enough(now):
            self._hosts.start()

    def tell_all(self, text: str | None) -> None:
        """GO with the list and scripts, and that ENDED is safe by hanging up: all that was kept.

        No GO where `text` is None: there is no list that is served.
        """
        ended, self._ended = self._ended, []
        for peer in ended:
            self._wire.hang_up(peer)
        if self.peer is None:
            return
        if self._hosts.memory.started and not self._is_told and text is not None:
            self._is_told = True
            self.tell(frames.encode_json(frames.GO, {"hosts": text}))
        self._order()

    def tell(self, data: bytes) -> bool:
        """Say something to it; whether it is there."""
        return self.peer is not None and self._wire.to_peer(self.peer, data)

    def due(self) -> float | None:
        """When waiting for all replicas ends."""
        if self.peer is None or self._hosts.memory.started or self._enough_since is None:
            return None
        return self._enough_since + PATIENCE_SECONDS

    # ------------------------------------------------------------ inside

    @property
    def _orders(self) -> tuple[ScriptOrder, ...]:
        return self._hosts.config.scripts if self._hosts.config else ()

    def _are_enough(self, now: float) -> bool:
        """Whether all hosts are listed, or the least number for half a minute."""
        config, listed = self._hosts.config, len(self._hosts.memory.listed)
        if config is None:
            return False
        if listed < max(config.min_replicas, 1):
            self._enough_since = None
            return False
        if self._enough_since is None:
            self._enough_since = now
        return listed >= config.replicas or now >= self._enough_since + PATIENCE_SECONDS

    def _order(self) -> None:
        """SCRIPT, each once for this connection, unless it was taken back meanwhile.

        PID 1 runs an id once in its life, and says its result again.
        """
        self._handed.intersection_update(order.id for order in self._orders)
        skipped = self._handed.union(self._ledger.report.scripts)
        for order in self._orders:
            if order.id in skipped:
                continue
            self._handed.add(order.id)
            body = {
                "id": order.id,
                "script": order.script,
                "argument": order.hosts,
                "env": dict(order.env),
                "timeout": order.timeout_seconds,
                "shell": order.is_shell,
            }
            self.tell(frames.encode_json(frames.SCRIPT, body))


def _read_result(body: dict[str, Any]) -> ScriptResult:
    """SCRIPT_DONE's result, with the last bytes of its output."""
    code = body.get("code")
    text = str(body.get("output") or "").encode(errors="replace")
    output = text[-OUTPUT_KEPT:].decode(errors="replace")
    return ScriptResult(code if is_code(code) and not body.get("timedOut") else None, output)
