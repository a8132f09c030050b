"""Which launcher the agent obeys, and which of its bridges: bridges.py asks at each HELLO.

No I/O, no clock. Epochs never fall. Within an epoch there is one launcher, and of its connections
only the greatest (brokerStart, connection) counts, for good: a bridge that was on its way for long
cannot come back.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from et_contract.frames import ProtocolError


class Fenced(ProtocolError):  # noqa: N818 (names say what is so)
    """Another launcher is obeyed here, for good: the one that asks never is."""


class Fence:
    """`job` and `pod` are the uids that a HELLO must name; `epoch` is the floor."""

    def __init__(self, *, job: str, pod: str, epoch: int) -> None:
        self._job = job
        self._pod = pod
        self.epoch = epoch
        self._launcher: Optional[str] = None
        self._newest: Tuple[int, int] = (-1, -1)

    def admit(self, body: Dict[str, Any]) -> bool:
        """Take a HELLO; whether it begins a new epoch.

        Raises ProtocolError with the reason when it must be refused; then nothing has changed. It
        is Fenced where no connection of this launcher will ever be admitted.
        """
        hello = {key: _field(body, key, kind) for key, kind in _FIELDS.items()}
        epoch, launcher = hello["epoch"], hello["launcher"]
        newest = (hello["brokerStart"], hello["connection"])
        if hello["job"] != self._job or hello["pod"] != self._pod:
            raise ProtocolError("HELLO is for another job or pod")
        if epoch < self.epoch:
            raise Fenced(f"epoch {epoch} is over, now is {self.epoch}")
        is_new: bool = epoch > self.epoch
        if not is_new and self._launcher not in (None, launcher):
            raise Fenced(f"epoch {epoch} belongs to launcher {self._launcher}")
        if not is_new and newest <= self._newest:
            raise ProtocolError("a newer connection of this launcher was here")
        self.epoch, self._launcher, self._newest = epoch, launcher, newest
        return is_new


_FIELDS = {
    "job": str,
    "pod": str,
    "launcher": str,
    "epoch": int,
    "brokerStart": int,
    "connection": int,
}


def _field(body: Dict[str, Any], key: str, kind: type) -> Any:
    value = body.get(key)
    if type(value) is not kind:
        raise ProtocolError(f"HELLO: {key} must be {kind.__name__}")
    return value
