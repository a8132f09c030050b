"""Listed workers in which the user's command runs nothing: nobody else would say so.

A host above the command's own most, ranks that were started in the launcher's own pod, a script
that never commits: the job is Running, and the workers cost what they cost. One whose rank has
ended with 0 has done its part, however long others save what was trained.

No I/O, no clock: all times are monotonic seconds handed in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

IDLE_SECONDS = 180.0
"""Without a process for so long, and it is told: a script that commits now and then lets new
workers in sooner."""
STANDS_SECONDS = 60.0
"""What was told stands for so long, unless it is over: of many that are idle now and then it would
be another one each second, and written each time."""
_NAMED = 3
_NOWHERE = (
    "the command has run no process in {where} for three minutes, and has {asked} the list of hosts"
)
_SOME = (
    "{idle} of {count} workers {verb} run no process for three minutes ({names}), and the command "
    "has {asked} the list of hosts"
)
_ASKED = "read", "never asked for"
"""Whether the command knows of them. Why it then does not use them, whoever knows it says."""


class Idleness:
    """Since when each listed worker runs nothing."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._told = ""
        self._stands_until = 0.0

    def advance(
        self,
        listed: Mapping[str, str],
        used: Collection[str],
        now: float,
        *,
        others: int = 0,
        has_asked: bool,
    ) -> str:
        """What is to be told, "" for nothing.

        Args:
            listed: name by uid of all workers on the list, none unless the user's command runs.
            used: uids of pods in which something runs, or has done its part of the training.
            now: monotonic seconds.
            others: so many workers are on no list any more, and the command runs there still.
            has_asked: the command has read the list.
        """
        self._since = {uid: self._since.get(uid, now) for uid in listed if uid not in used}
        idle = [uid for uid, since in self._since.items() if now >= since + IDLE_SECONDS]
        if not idle:
            self._told = ""
        elif not self._told or now >= self._stands_until:
            told = self._describe(idle, listed, others=others, has_asked=has_asked)
            if told != self._told:
                self._told, self._stands_until = told, now + STANDS_SECONDS
        return self._told

    def due(self, now: float) -> float | None:
        """When the next of them has been idle for long enough, or may be told of."""
        times = [since + IDLE_SECONDS for since in self._since.values()]
        times += [self._stands_until] if self._told else []
        return min((time for time in times if time > now), default=None)

    def _describe(
        self, idle: Sequence[str], listed: Mapping[str, str], *, others: int, has_asked: bool
    ) -> str:
        everybody, asked = len(listed) + others, _ASKED[not has_asked]
        if len(idle) == everybody:
            where = "its only worker" if everybody == 1 else f"any of the {everybody} workers"
            return _NOWHERE.format(where=where, asked=asked)
        names = sorted(listed[uid] for uid in idle)
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        named = ", ".join(names[:_NAMED]) + more
        verb = "has" if len(idle) == 1 else "have"
        return _SOME.format(idle=len(idle), count=everybody, verb=verb, names=named, asked=asked)
