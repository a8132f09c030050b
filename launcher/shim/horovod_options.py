"""horovodrun's own options, as far as they come before the user's command. Pure.

The table is that of horovod 0.28.1 (runner/launch.py, parse_args); older releases know a part of
it. Like argparse it takes `--name=value` and abbreviations; the first word that is neither an
option nor an option's value starts the command, and nothing after it is ours.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Container, Dict, List, Mapping, Optional, Sequence

GLOO_TIMEOUT_SECONDS = 120
GLOO_TIMEOUT_VARIABLE = "HOROVOD_GLOO_TIMEOUT_SECONDS"

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
VALUE_COUNTS: Dict[str, int] = {
    **dict.fromkeys(_FLAGS.split(), 0),
    **dict.fromkeys(_WITH_VALUE.split(), 1),
    "--blacklist-cooldown-range": 2,
}
"""How many of the following words belong to an option."""
_SAME = {
    "-np": "--num-proc",
    "--min-num-proc": "--min-np",
    "--max-num-proc": "--max-np",
    "--network-interfaces": "--network-interface",
}

Option = namedtuple("Option", ["name", "value", "place"])
"""An option that was given, its (first) value or None, the index of the word that ends in it."""


def adjust(
    argv: Sequence[str],
    *,
    slots: Optional[int],
    interface: Optional[str],
    environ: Mapping[str, str],
) -> List[str]:
    """The words for the real horovodrun: `argv` with what an elastic run lacks.

    Ours come first, where --config-file and everything of the user's overrides them. A static run,
    and a command line that the table does not explain, stays as it is.
    """
    words = list(argv)
    given = {option.name: option for option in read_options(argv)}
    if not _is_elastic(given):
        return words
    number = _lower_processes(given, slots)
    if number is not None:
        option = given["--num-proc"]
        words[option.place] = words[option.place][: -len(option.value)] + str(number)
    added = []
    if interface and "--network-interface" not in given:
        added += ["--network-interface", interface]
    if "--gloo-timeout-seconds" not in given and GLOO_TIMEOUT_VARIABLE not in environ:
        added += ["--gloo-timeout-seconds", str(GLOO_TIMEOUT_SECONDS)]
    return added + words


def read_most(argv: Sequence[str]) -> Optional[int]:
    """How many processes an elastic run may come to have, as far as it says; None: it is static."""
    given = {option.name: option.value for option in read_options(argv)}
    if not _is_elastic(given):
        return None
    numbers = [given.get(name) or "" for name in ("--num-proc", "--min-np", "--max-np")]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def read_options(argv: Sequence[str]) -> List[Option]:
    """The options before the command, by their first long names; none if one is not known."""
    options = []
    place = 0
    while place < len(argv) and argv[place].startswith("-") and argv[place] not in ("-", "--"):
        name, inline = _split(argv[place])
        if name is None:
            return []
        following = 0 if inline is not None else VALUE_COUNTS[name]
        if place + following >= len(argv):
            return []
        value = argv[place + 1] if following else inline
        options.append(Option(_SAME.get(name, name), value, place + min(following, 1)))
        place += 1 + following
    return options


def _is_elastic(given: Container[str]) -> bool:
    return "--host-discovery-script" in given or "--min-np" in given


def _lower_processes(given: Mapping[str, Option], slots: Optional[int]) -> Optional[int]:
    """What -np must become; None where it stays. Without --min-np it is the least itself."""
    if slots is None or "--num-proc" not in given or "--min-np" not in given:
        return None
    try:
        wanted, least = int(given["--num-proc"].value), int(given["--min-np"].value)
    except ValueError:
        return None
    number = max(min(wanted, slots), least)
    return number if number < wanted else None


def _split(word: str) -> tuple[Optional[str], Optional[str]]:
    """The option's full name, None if it is not known, and the value in the same word."""
    if word in VALUE_COUNTS:
        return word, None
    name, equals, value = word.partition("=")
    matches = [name] if name in VALUE_COUNTS else [n for n in VALUE_COUNTS if n.startswith(name)]
    if len(matches) == 1:
        takes = VALUE_COUNTS[matches[0]]
        return (matches[0], value if equals else None) if takes or not equals else (None, None)
    short = word[:2]
    if not word.startswith("--") and VALUE_COUNTS.get(short) == 1:
        return short, word[2:]
    return None, None
