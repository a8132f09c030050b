"""A training's own words: step, loss and world size, read from the lines that it prints.

Nobody has to print in a form of ours. Understood are the common ones: `step=12 loss=0.1 size=2`,
`step 31, 2 workers, loss 3.05`, `Train Epoch: 1 [640/60000 (1%)]  Loss: 2.29`, `Epoch 3/10`,
`{'loss': 0.43, 'epoch': 1.0}`, `12/250 [=>..] - loss: 0.31`; each
with or without horovodrun's `[0]<stdout>:` in front.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_NUMBER = r"([+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:e[+-]?\d{1,9})?|nan|inf)"
_SEPARATOR = r"['\"]?\s*(?:[=:#]\s*)?"
_COUNT = r"(?:\s*[=:#]\s*|\s+#?)\[?(\d{1,12})(?:\s*/\s*(\d{1,12}))?"
_PREFIX = re.compile(r"^\[(\d{1,9}(?:,\d{1,9})?)\]<std(?:out|err)>:\s*")
_STEP = re.compile(
    rf"(?<![a-z])(?:global[_ ])?(?:step|iteration|iter)['\"]?{_COUNT}(?!\.?\d)", re.IGNORECASE
)
_EPOCH = re.compile(rf"(?<![a-z])epoch['\"]?{_COUNT}", re.IGNORECASE)
_BAR = re.compile(r"(?:\[\s*|(?<![\d.]))(\d{1,12})\s*/\s*(\d{1,12})(?=\s[\[(]|\])")
_LOSS = re.compile(
    rf"(?<![a-z])(?<!val_)(?<!val )loss{_SEPARATOR}{_NUMBER}(?![\w.])", re.IGNORECASE
)
_SIZE = re.compile(
    r"(?:(?<![a-z])world[_ ]?size|(?<![\w-])(?<!batch )(?:size|workers))"
    r"\s*[=:]\s*(\d{1,6})\b",
    re.IGNORECASE,
)
_WORKERS = re.compile(r"\b(\d{1,6}) (?:workers|processes|ranks)\b", re.IGNORECASE)
MAX_LINE = 2000
"""Characters that are looked at: nobody's progress line is longer, a dumped tensor may be."""
MAX_SIZES = 32
"""World sizes that are remembered of a training that is watched."""
_CAUSE = re.compile(
    r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt)\b.*"
    r"|.*: can't open file .*|.*: (?:command )?not found"
)
_NO_CAUSE = re.compile(r"RuntimeError: (?:Horovod|Gloo job) detected that")
_EXIT = re.compile(
    r"(?:failed more often than backoffLimit \d+ allows: )?"
    r"[^:\n]* ended with exit code \d+(?: \([^)]*\))?(?=: )"
)
"""How the operator begins what it says of a command that has failed: its output follows."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one line told. `total` is how many steps there will be, where the line said it.

    `epoch` and `epochs` are the same of epochs; a line may have only these.
    """

    number: int | None = None
    total: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    loss: float | None = None
    size: int | None = None


def parse_step(line: str) -> Step | None:
    """The step that a line tells of, None for any other line."""
    text = _PREFIX.sub("", line[:MAX_LINE])
    number, total = _find_count(_STEP, text)
    epoch, epochs = _find_count(_EPOCH, text)
    loss = _LOSS.search(text)
    if number is None and (epoch is not None or loss is not None):
        number, total = _find_count(_BAR, text)
    if number is None and (epoch is None or (loss is None and epochs is None)):
        return None
    size = _SIZE.search(text) or _WORKERS.search(text)
    return Step(
        number=number,
        total=total,
        epoch=epoch,
        epochs=epochs,
        loss=float(loss[1]) if loss else None,
        size=int(size[1]) if size else None,
    )


def parse_rank(line: str) -> str:
    """Whose line it is, as horovodrun says before it; "" where it does not."""
    found = _PREFIX.match(line)
    return found[1] if found is not None else ""


def list_sizes(steps: Iterable[Step]) -> list[int]:
    """World sizes in the order in which the training saw them, repetitions dropped."""
    sizes: list[int] = []
    for step in steps:
        if step.size is not None and sizes[-1:] != [step.size]:
            sizes.append(step.size)
    return sizes


def count_repeats(steps: Iterable[Step]) -> int:
    """Steps that were trained more than once."""
    numbers = [step.number for step in steps if step.number is not None]
    return len(numbers) - len(set(numbers))


def _find_count(pattern: re.Pattern[str], text: str) -> tuple[int | None, int | None]:
    """`12` or `12/100`, None for what is not there."""
    found = pattern.search(text)
    if found is None:
        return None, None
    return int(found[1]), int(found[2]) if found[2] else None


@dataclass(slots=True)
class Progress:
    """How far a training has come, line by line; each fact is the newest that any line told."""

    newest: Step = field(default_factory=Step)
    sizes: list[int] = field(default_factory=list)
    """World sizes as list_sizes has them, the last MAX_SIZES."""

    def take(self, line: str) -> bool:
        """Read a line; whether it told of a step."""
        step = parse_step(line)
        if step is None:
            return False
        old = self.newest
        self.newest = Step(
            number=step.number if step.number is not None else old.number,
            total=step.total if step.number is not None else old.total,
            epoch=step.epoch if step.epoch is not None else old.epoch,
            epochs=step.epochs if step.epoch is not None else old.epochs,
            loss=step.loss if step.loss is not None else old.loss,
            size=step.size if step.size is not None else old.size,
        )
        if step.size is not None and step.size != old.size:
            self.sizes = [*self.sizes, step.size][-MAX_SIZES:]
        return True


def has_no_cause(text: str) -> bool:
    """Whether horovodrun says there that a process has failed, which is nothing of why."""
    return bool(_NO_CAUSE.search(text))


def find_cause(text: str) -> str:
    """The last line of an output that names an error as Python and shells do, "" if none does.

    A rank's own goes before others, and horovodrun's, which only says that one has failed, counts
    for nothing.
    """
    lines = [line[:MAX_LINE].strip() for line in reversed(text.splitlines())]
    ranks = [_PREFIX.sub("", line) for line in lines if _PREFIX.match(line)]
    causes = (line for line in (*ranks, *lines) if _CAUSE.fullmatch(line))
    return next((line for line in causes if not _NO_CAUSE.match(line)), "")


def tell_cause(text: str) -> str:
    """What the operator says of an end; of a long output in it only the error, if it has one."""
    how = _EXIT.match(text, 0, MAX_LINE)
    cause = find_cause(text[how.end() + 2 :]) if how else ""
    if not cause and has_no_cause(text):
        cause = "a process in a worker has failed"
    return f"{how[0]}: {cause}" if how and cause else text
