"""What horovodrun's own options lack, as far as they come before the user's command. Pure.

horovodrun.py asks it before it becomes the image's own. No word of the user's is taken away, and
only the number behind -np is changed: it is lowered, never below --min-np.
"""

from __future__ import annotations

from et_contract import options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Container, List, Mapping, Optional, Sequence

    from et_contract.options import Option

GLOO_TIMEOUT_SECONDS = 120
GLOO_TIMEOUT_VARIABLE = "HOROVOD_GLOO_TIMEOUT_SECONDS"


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
    given, _ = options.read(argv, options.HOROVODRUN)
    return given if all(option.name for option in given) else []


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
