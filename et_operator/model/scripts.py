"""Scripts that are run in a launcher: what is one where nobody has allowed shell text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

DEFAULT_TIMEOUT = timedelta(seconds=60)
_PATH = re.compile(r"/[A-Za-z0-9_./+@%:,=-]+")


@dataclass(frozen=True, slots=True)
class NoticeScript:
    """What the job's author has run before the launcher's node ends: as a scaling's script."""

    script: str
    timeout: timedelta = DEFAULT_TIMEOUT


def is_path(script: str) -> bool:
    """Whether this is the absolute path of a file, and nothing that a shell makes more of."""
    return _PATH.fullmatch(script) is not None
