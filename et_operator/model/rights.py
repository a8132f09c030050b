"""What a job's broker may do, as names: RBAC knows objects by nothing else.

planning/granting.py chooses them, the codec makes the rules of a Role of them. A verb or a kind of
object has no place here: these never vary.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rights:
    """Into which pods it may exec, which ConfigMaps it may read, and which it may write to.

    `seal` is in each rule, of rights that grant nothing too: see names.build_seal.
    """

    seal: str
    execs: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """All that there are rights on."""
        return self.execs | self.reads | self.writes
