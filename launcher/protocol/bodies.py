"""What brokers and shims say to agents, checked.

Checked before the state machine looks at them (agents.py): what is wrong is a ProtocolError, or for
a SPAWN the words that its shim is told. Nothing here knows a session.
"""

from __future__ import annotations

import re

from et_contract.frames import Frame, ProtocolError, decode_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

MOST_ADDRESSES = 8192
"""Of members that are gone: two for each of the largest job, and of those that it has lost."""
_ADDRESS = re.compile(r"[0-9A-Fa-f:.]{2,45}")


def read_break(frame: Frame, now: float) -> Tuple[float, List[str]]:
    """The agent's time that BREAK names, and the addresses; raises ProtocolError.

    It is what the agent has said itself, in a PONG, so it has been.
    """
    body: Dict[str, Any] = decode_json(frame)
    before: Any = body.get("before")
    addresses: Any = body.get("addresses")
    if type(before) is not float or not 0 <= before <= now:
        raise ProtocolError("BREAK of a time that has not been")
    if not isinstance(addresses, list) or len(addresses) > MOST_ADDRESSES:
        raise ProtocolError("BREAK without addresses")
    if not all(isinstance(each, str) and _ADDRESS.fullmatch(each) for each in addresses):
        raise ProtocolError("BREAK with an address that is none")
    return before, addresses


def find_fault(body: Dict[str, Any]) -> Optional[str]:
    """What is wrong with the body of a SPAWN; None when nothing is."""
    command, env = body.get("command"), body.get("env") or {}
    if not isinstance(command, str) or not isinstance(env, dict):
        return "SPAWN needs a command, and env as an object"
    texts = [command, *env, *env.values()]
    if not all(isinstance(text, str) and "\0" not in text for text in texts):
        return "SPAWN needs texts without NUL"
    if any(not name or "=" in name for name in env):
        return "SPAWN has an env name that is none"
    return None
