"""Whether an operator does what is decided here, as far as one can see.

A part of the draft that only reads, from pods and admissions: there is no other word of an operator
here. While one does not do what it was told, nobody else is asked in vain.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from et_contract.admissions import AdmissionState
from et_scheduler.model.rules import Rules
from et_scheduler.planning.standings import Standing


class Hearing:
    """What operators have done last, and what was asked of jobs that none has begun."""

    def __init__(self, standings: Mapping[str, Standing], rules: Rules, now: int) -> None:
        self._standings, self._rules, self._now = standings, rules, now

    @cached_property
    def made_at(self) -> int:
        """When the server has made a job, or a job's pod, last: it is no earlier now."""
        moments = [one.job.created for one in self._standings.values()]
        for one in self._standings.values():
            moments += [pod.created for pod in one.job.pods]
        return max(moments, default=0)

    @cached_property
    def heard_at(self) -> int:
        """When an operator has done anything last, as far as one can see.

        It is the only one that makes pods of jobs and begins their leaving, and no job is given
        here before it has spoken of it.
        """
        moments = [self.made_at]
        for one in self._standings.values():
            moments += [pod.leaving_since for pod in one.job.pods if pod.is_draining]
        return max(moments)

    @cached_property
    def _unheard(self) -> dict[str, int]:
        """Since when somebody was asked to give or go for these, of which nobody has begun."""
        found: dict[str, int] = {}
        for one in self._standings.values():
            told = one.was
            if told is None or not one.is_unheard:
                continue
            if told.state is AdmissionState.WAITING:
                uid, since = told.evictions[-1].uid if told.evictions else "", told.since
            else:
                uid = told.gave_for.uid if told.gave_for is not None else ""
                since = told.leaving_since or 0
            found[uid] = min(since, found.get(uid, since))
        return found

    @cached_property
    def gone_for(self) -> Mapping[str, int]:
        """For whom whole jobs have gone, and when last: who cannot be written has not gone.

        Who had not come to stand loses nothing. What a clock that was wrong calls later than now
        is not heard before it is set right, or now has come.
        """
        found: dict[str, int] = {}
        for one in self._standings.values():
            for eviction in one.was.evictions if one.was is not None else ():
                if eviction.at <= self._now and not eviction.is_early:
                    found[eviction.uid] = max(eviction.at, found.get(eviction.uid, 0))
        return found

    def may_ask(self, standing: Standing) -> bool:
        """Whether others may be asked for room for it.

        Nobody else is where what was asked long ago has not been begun: whom an operator finds
        named when it is back, it ends, all of them. One that has done other things since leaves
        that one alone: then it is waited for no longer.
        """
        if not standing.job.preempts or standing.has_failed:
            return False
        asked_at = self._unheard.get(standing.job.uid)
        if asked_at is None or self._now < asked_at + self._rules.coming_most:
            return True
        return self.heard_at > asked_at + self._rules.bound_within
