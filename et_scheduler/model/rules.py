"""How long things are waited for, and what is worth a change: the same for all queues.

Handed in with each pass and kept in its record, so that it can be decided again by the same ones.
The only one that an installation sets is `level_quiet`.
"""

from __future__ import annotations

from dataclasses import dataclass

from et_scheduler.model.shapes import HOUR, MINUTE, SECOND


@dataclass(frozen=True, slots=True)
class Rules:
    """Durations in milliseconds, shares in hundredths.

    `reserve_after`: a queue's first that fits nowhere for so long holds nodes; `held_first`: for so
    long at first, before others may start there for as long (`Draft.is_open`). `protected`: no
    eviction so soon after a start; `evicted_again`: nor of the same job for the same queue, nor of
    any for one that has failed to stand twice, and the longer the more often.
    `tried_within`: so long a new job is in no line while its pods are being tried.
    `bound_within`: all of a gang, or it is taken back; `grown_within`: workers above that.
    `retry_least` doubles up to `retry_most`. `service_counts`: so long a pending pod of others
    makes jobs shrink. `given_back`: a worker that is unbound for so long beside such a pod.
    `grown_together`: what a job grows so soon after its first growth is one with it.
    `short_most`: a job below its least size is evicted then. `coming_most`: after it, room that
    comes is not relied on, who was evicted waits for nobody, and who could not be written holds no
    nodes; a worker has ten minutes to leave, unless its job says otherwise.
    `unready_most`: so long what a node has that is not ready is room that comes.
    `level_quiet`: so long after a start nobody shrinks for the level of all.
    `worth`: no growth by less of what the job has; `level_worth`: nobody shrinks for the level of
    all by less. `looks`: so many workers are looked at in a pass in search of room for pods of
    others, and as many for gangs, some twenty microseconds each; with `Turns`, twice as many. For
    the level of all as many more are looked at as there are kinds of jobs below it, in a pass in
    which nothing else changes. `kinds`: so many kinds of pods of others are looked at in a pass,
    and so many of gangs, with `Turns` twice as many, and those whose turn it is to have others
    asked, and so many of gangs for which a limit might be kept; some milliseconds each.
    """

    reserve_after: int = MINUTE
    held_first: int = HOUR
    protected: int = 10 * MINUTE
    evicted_again: int = HOUR
    tried_within: int = 10 * SECOND
    bound_within: int = MINUTE
    autoscaled_within: int = 10 * MINUTE
    grown_within: int = 2 * MINUTE
    retry_least: int = 30 * SECOND
    retry_most: int = 15 * MINUTE
    service_counts: int = 5 * MINUTE
    given_back: int = 10 * SECOND
    grown_together: int = 10 * SECOND
    short_most: int = 10 * MINUTE
    coming_most: int = 12 * MINUTE
    unready_most: int = MINUTE
    level_quiet: int = 0
    worth: int = 10
    level_worth: int = 20
    looks: int = 50_000
    kinds: int = 256
