"""How much a call is: steps that the interpreter takes, bytes that are held at once.

Both are the same on every machine.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_steps(call: Callable[[], object]) -> int:
    """Bytecode instructions that run inside `call`; what C code does in one of them counts as 1.

    What was left behind by whoever ran before, and has a finalizer, ends before or after it.
    """
    steps = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        steps += event == "opcode"
        return trace

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return steps


def find_peak(call: Callable[[], object]) -> int:
    """The most bytes that are held at once inside `call`, without those that were held before."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
