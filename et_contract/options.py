"""The options of launchers, as far as they come before the user's command. Pure.

The operator reads them to know whether a job is elastic, a shim to add what is missing: both here,
with one table for a launcher. Like argparse it takes `--name=value`, and an abbreviation that can
mean but one option; the first word that is neither an option nor an option's value starts the
command, and nothing from there on is the launcher's.

Standard library only, Python >= 3.7: this file runs in user containers too.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Sequence, Tuple

Table = namedtuple(
    "Table",
    [
        "counts",  # option -> how many of the following words are its values
        "meant",  # option, or abbreviation -> the name it is read as, "" where it may be several
    ],
)
Option = namedtuple("Option", ["name", "value", "place"])
"""An option that was given, its (first) value or None, the index of the word that ends in it.

The name is "" where the table does not have it, or where its values are missing. What such an
option takes is not known: it is read as if the next word was its value, unless that is an option.
"""


def _make_table(counts: Dict[str, int], same: Dict[str, str]) -> Table:
    """`same` has the name that an option is read as, where it has several."""
    meant: Dict[str, str] = {}
    names = {name: same.get(name, name) for name in counts}
    for name, one in names.items():
        for end in range(len(name)):
            begin = name[:end]
            meant[begin] = one if meant.get(begin, one) == one else ""
    meant.update(names)
    return Table(counts, meant)


_FLAGS = """
    -v --version -cb --check-build -h --help --disable-cache --verbose --hierarchical-allreduce
    --no-hierarchical-allreduce --hierarchical-allgather --no-hierarchical-allgather
    --torus-allreduce --no-torus-allreduce --autotune --no-autotune --timeline-mark-cycles
    --no-timeline-mark-cycles --no-stall-check --stall-check --mpi-threads-disable
    --no-mpi-threads-disable --tcp --log-with-timestamp --log-without-timestamp -prefix-timestamp
    --prefix-output-with-timestamp --log-hide-timestamp --no-log-hide-timestamp --gloo --mpi --jsrun
"""
_WITH_VALUE = """
    -np --num-proc --start-timeout --network-interfaces --network-interface --output-filename
    --config-file -p --ssh-port -i --ssh-identity-file --fusion-threshold-mb --cycle-time-ms
    --cache-capacity --autotune-log-file --autotune-warmup-samples --autotune-steps-per-sample
    --autotune-bayes-opt-max-samples --autotune-gaussian-process-noise --min-np --min-num-proc
    --max-np --max-num-proc --slots-per-host --elastic-timeout --reset-limit --timeline-filename
    --stall-check-warning-time-seconds --stall-check-shutdown-time-seconds --mpi-args
    --binding-args --num-nccl-streams --thread-affinity --gloo-timeout-seconds --log-level
    -H --hosts -hostfile --hostfile --host-discovery-script
"""
HOROVODRUN = _make_table(
    counts={
        **dict.fromkeys(_FLAGS.split(), 0),
        **dict.fromkeys(_WITH_VALUE.split(), 1),
        "--blacklist-cooldown-range": 2,
    },
    same={
        "-np": "--num-proc",
        "--min-num-proc": "--min-np",
        "--max-num-proc": "--max-np",
        "--network-interfaces": "--network-interface",
    },
)
"""Of horovod 0.28.1 (runner/launch.py, parse_args); older releases know a part of it."""

_TORCH_FLAGS = "-h --help --standalone -m --module --no-python --run-path --use-env"
_TORCH_WITH_VALUE = """
    --nnodes --nproc-per-node --rdzv-backend --rdzv-endpoint --rdzv-id --rdzv-conf --max-restarts
    --monitor-interval --start-method --role --log-dir -r --redirects -t --tee --local-ranks-filter
    --node-rank --master-addr --master-port --local-addr --logs-specs --event-log-handler
"""
_TORCH = {
    **dict.fromkeys(_TORCH_FLAGS.split(), 0),
    **dict.fromkeys(_TORCH_WITH_VALUE.split(), 1),
}


def _underline(name: str) -> str:
    return name[:2] + name[2:].replace("-", "_")


TORCHRUN = _make_table(
    counts={form: n for name, n in _TORCH.items() for form in (name, _underline(name))},
    same={_underline(name): name for name in _TORCH},
)
"""Of torch 1.13 to 2.7 (distributed/run.py, get_args_parser), which take both spellings or one."""


def read(words: Sequence[str], table: Table, start: int = 0) -> Tuple[List[Option], int]:
    """The options from `start` up to the command, and the index at which that begins."""
    options = []
    place = start
    while place < len(words) and words[place].startswith("-") and words[place] not in ("-", "--"):
        name, inline = _split(words[place], table)
        following = table.counts.get(name, 0) if inline is None else 0
        if not name or place + following >= len(words):
            is_last = place + 1 == len(words) or "=" in words[place]
            name, following = "", 0 if is_last or words[place + 1].startswith("-") else 1
        value = words[place + 1] if following else inline
        options.append(Option(name, value, place + min(following, 1)))
        place += 1 + following
    return options, place


def _split(word: str, table: Table) -> Tuple[str, Optional[str]]:
    """The option's name, "" if it is not known, and the value in the same word.

    A word is looked up and nothing is searched: of a command line thousands are read.
    """
    name, equals, value = word.partition("=")
    meant = table.meant.get(name)
    if meant:
        if not equals:
            return meant, None
        return (meant, value) if table.counts[meant] else ("", None)
    short = word[:2]
    if not word.startswith("--") and table.counts.get(short) == 1:
        return short, word[2:]
    return "", None
