"""The loop: a round of questions each PERIOD, and on the node the word that counts.

When something happens is decided here, and nothing else: what is asked is said in clouds, what
counts in judging.py, how a node is told in telling.py. No service makes it write without end.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta

import structlog

from et_kube.backoff import Backoff
from et_kube.clock import Clock
from et_kube.errors import KubeError
from et_kube.notices import Notice
from et_notices.asking import Ask, consult
from et_notices.choosing import CLOUDS, find_cloud
from et_notices.judging import Judge, Word
from et_notices.questions import Cloud, Unclear
from et_notices.telling import Node, Unheld

PERIOD = timedelta(seconds=5)
"""From the beginning of a round to that of the next one, as AWS recommends."""
# Failures are counted from round to round and told once, and what fails is tried without end.
STUMBLING = Backoff(PERIOD, timedelta(seconds=20))
"""After rounds without an answer: no notice is as short as to be missed by it, but Google's."""
SAYING = Backoff(PERIOD, timedelta(seconds=15))
"""After a word that could not be written: some have 30 s in all."""
READING = Backoff(PERIOD, timedelta(seconds=60))
"""At the start, when all nodes may be waiting for the API server."""
LOOKING = Backoff(timedelta(seconds=10), timedelta(hours=1))
"""For a cloud's name on the node: a new node gets it from its cloud controller within seconds."""
DOUBTING = timedelta(minutes=1)
"""After the server was asked for its time because an end is too far away by the clock."""
YIELDING = timedelta(minutes=1)
"""After a word that is not needed beside somebody else's: that one may be taken back, or over."""
PROVING = timedelta(minutes=1)
"""So long the policy may come after this program: both are installed at once."""
MOST_WORDS = 20
WITHIN = timedelta(hours=1)
"""A service that says something else all the time has so many words written in that time."""

log = structlog.get_logger()


class Spell:
    """Trouble is told when it begins and when it is over, however long it lasts."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.failures = 0

    def note(self, error: Exception) -> None:
        """The trouble has come once more; the first time of a spell is logged."""
        self.failures += 1
        if self.failures == 1:
            log.warning(self._what, reason=str(error))

    def end(self) -> None:
        """What is tried has worked: a spell, if there was one, is over and logged so."""
        if self.failures:
            log.info("over", what=self._what, failures=self.failures)
        self.failures = 0


class Poller:
    """One node's.

    Args:
        node: it.
        clock: for pauses, and for ends of which nobody says when: the server's, once that is heard.
        reach: gives an Ask of a cloud's metadata service.
        cloud: its name in CLOUDS; "": by the node's providerID.
        chance: the dice, in [0, 1).
    """

    def __init__(
        self,
        node: Node,
        clock: Clock,
        reach: Callable[[Cloud], Ask],
        *,
        cloud: str = "",
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._node = node
        self._clock = clock
        self._reach = reach
        self._cloud = cloud
        self._chance = chance
        self._judge = Judge()
        self._said: Word | None = None
        self._written: deque[float] = deque(maxlen=MOST_WORDS)
        self._asking = Spell("the metadata service says nothing that is understood")
        self._saying = Spell("the node cannot be told")
        self._reading = Spell("the node cannot be read")
        self._say_after = 0.0
        self._yielded: Word | None = None
        self._look_after = 0.0
        self._far_after = 0.0
        self._is_flooded = False

    async def prove(self) -> None:
        """Wait for the policy; Unheld where it does not come within PROVING."""
        end = self._clock.monotonic() + PROVING.total_seconds()
        while True:
            try:
                await self._node.prove()
            except Unheld:
                if self._clock.monotonic() >= end:
                    raise
                await self._clock.sleep(PERIOD)
            except KubeError as error:
                await self._rest(error)
            else:
                self._reading.end()
                return

    async def run(self) -> None:
        """Go round for ever; Unheld when the policy is taken away meanwhile."""
        cloud = CLOUDS[self._cloud or await self._find_cloud()]()
        ask = self._reach(cloud)
        while True:
            began = self._clock.monotonic()
            await self.go_round(cloud, ask)
            failures = self._asking.failures
            pause = STUMBLING.delay(failures, self._chance()) if failures else PERIOD
            spent = timedelta(seconds=self._clock.monotonic() - began)
            await self._clock.sleep(pause - spent)

    async def go_round(self, cloud: Cloud, ask: Ask) -> None:
        """One round."""
        try:
            notices = await consult(cloud, ask)
            heard = self._clock.monotonic()
            if self._needs_time(notices) and not self._is_flooded:
                await self._hear_time()
            waited = timedelta(seconds=self._clock.monotonic() - heard)
            self._judge.hear(notices, self._clock.now() - waited)
        except Unclear as error:
            self._asking.note(error)
        else:
            self._asking.end()
        word = self._judge.word
        if word is not None and word != self._said and not self._yields(word):
            await self._say(word)

    def _needs_time(self, notices: Sequence[Notice]) -> bool:
        """Whether to ask now; for what is far away, which may stay so, once in a while."""
        if self._judge.needs_time(notices):
            return True
        is_due = self._clock.monotonic() >= self._far_after
        return is_due and self._judge.is_far(notices, self._clock.now())

    async def _hear_time(self) -> None:
        """Have the API server say what time it is: others read by it when the node ends.

        This machine's clock may be wrong, or have been wrong when the server was heard last. Where
        it does not answer, what is known has to do.
        """
        with suppress(KubeError):
            await self._node.look()
            self._far_after = self._clock.monotonic() + DOUBTING.total_seconds()

    def _yields(self, word: Word) -> bool:
        return word == self._yielded and self._clock.monotonic() < self._look_after

    async def _find_cloud(self) -> str:
        looks = 0
        while True:
            try:
                node = await self._node.look()
            except KubeError as error:
                await self._rest(error)
                continue
            self._reading.end()
            provider_id = str((node.get("spec") or {}).get("providerID") or "")
            if name := find_cloud(provider_id):
                log.info("polling", cloud=name, provider_id=provider_id)
                return name
            looks += 1
            if looks == 1:
                log.warning("nothing is polled: of no cloud that is known", provider_id=provider_id)
            await self._clock.sleep(LOOKING.delay(looks, self._chance()))

    async def _say(self, word: Word) -> None:
        now = self._clock.monotonic()
        if now < self._say_after or self._is_too_often(now):
            return
        try:
            said = await self._node.say(word, self._clock.now)
        except Unheld:
            raise
        except KubeError as error:
            self._saying.note(error)
            delay = SAYING.delay(self._saying.failures, self._chance())
            self._say_after = self._clock.monotonic() + delay.total_seconds()
            return
        self._saying.end()
        is_new = word != self._yielded
        if said != word:
            self._yielded, self._look_after = word, now + YIELDING.total_seconds()
        if is_new or said != self._said:  # one that is not needed costs requests, too
            self._written.append(now)
        if said == self._said:
            return
        if not said.is_empty or self._said is not None:
            log.info("said", at=str(said.at), reason=said.reason, advised=str(said.advised))
        self._said = said

    def _is_too_often(self, now: float) -> bool:
        oldest = self._written[0] if len(self._written) == MOST_WORDS else None
        was, self._is_flooded = self._is_flooded, False
        if oldest is not None and now - oldest < WITHIN.total_seconds():
            self._is_flooded = True
            if not was:
                log.warning("the metadata service says something else all the time: not written")
        return self._is_flooded

    async def _rest(self, error: KubeError) -> None:
        self._reading.note(error)
        await self._clock.sleep(READING.delay(self._reading.failures, self._chance()))
