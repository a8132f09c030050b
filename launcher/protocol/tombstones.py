"""Sessions whose exit was acknowledged: what is kept of them, and for how many.

A shim that did not hear that its acknowledgement had come, or for which the broker acknowledged,
comes for the exit once more. So the newest MOST are kept. Of older ones it is only known that there
were some: then a SPAWN that may have been said before is refused, for it may be one of theirs.
"""

from __future__ import annotations

from collections import OrderedDict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional
    from typing import OrderedDict as Ordered

    from launcher.protocol.sessions import Session

MOST = 1024


class Tombstones:
    """See the module; emptied when an epoch ends."""

    def __init__(self, *, is_forgetful: bool = False) -> None:
        self._sessions: Ordered[bytes, Session] = OrderedDict()
        self.is_forgetful = is_forgetful
        """Some are not known any more."""

    def bury(self, session: Session) -> None:
        """The session's exit was acknowledged."""
        self._sessions[session.id] = session
        if len(self._sessions) > MOST:
            self._sessions.popitem(last=False)
            self.is_forgetful = True

    def find(self, session: bytes) -> Optional[Session]:
        """What is kept of this one."""
        return self._sessions.get(session)

    def clear(self) -> None:
        """Another epoch has begun: nobody comes for any of them."""
        self._sessions.clear()
        self.is_forgetful = False
