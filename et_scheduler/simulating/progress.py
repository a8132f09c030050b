"""How fast a simulated job trains with so many workers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Curve:
    """Time of one step: (compute^power + network^power)^(1/power), compute shared by all workers.

    In units of the step of one worker; network = base + each x workers, and nothing for one.
    """

    base: float = 0.02
    each: float = 0.001
    power: float = 1.6

    def get_rate(self, workers: float) -> float:
        """Steps in the time in which one worker does one."""
        if workers < 1:
            return 0.0
        compute = 1 / workers
        network = self.base + self.each * workers if workers > 1 else 0.0
        total: float = (compute**self.power + network**self.power) ** (1 / self.power)
        return 1 / total
