"""Runs the image's own horovodrun with what an elastic job in pods needs and the user left out.

First in PATH as `horovodrun`. Elastic runs get `--network-interface` (without it horovodrun starts
a second process on every host, needs two hosts, and puts its secret into a command line) and
`--gloo-timeout-seconds 120` (with its 30 s a new worker that is slow to start ends all others),
and `-np` is lowered to the slots that are listed, never below `--min-np`. Everything else, static
runs as a whole included, stays as the user wrote it. BIN_DIR stays in PATH: horovodrun sends PATH
to the workers, where that folder does not exist.

Where the job's losses are to cost seconds, its ranks begin with our folder in PYTHONPATH
(ranks.py), and horovodrun waits for no worker that is lost (notifying.py, registering.py).

An elastic run of many slots, or with an environment too long for a command line, gets our transport
inside (injecting.py): a process per slot costs 30 MB and 0.1 s of start. An annotation of the job
decides where there is one.
"""

from __future__ import annotations

import os
import sys

sys.path.insert(0, __file__.rpartition("/launcher/")[0])  # `python3 -I` adds no folder

from et_contract import hosts, names, paths, starters
from launcher.shim import beginnings, environments, horovod_options, programs, ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Optional, Sequence

MANY_SLOTS = 32
"""From here on a process per slot costs too much."""
LONG_ENVIRONMENT = 96 * 1024
"""Bytes: horovodrun repeats its environment in one argument, which Linux limits to 128 KiB."""
ROUTES = "/proc/net/route"
INJECTING = __file__.rpartition("/")[0] + "/injecting.py"
NOTIFYING = __file__.rpartition("/")[0] + "/notifying.py"


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Becomes the real horovodrun; returns only when there is none."""
    beginnings.note("horovodrun")
    real = programs.find_program("horovodrun", environ.get("PATH", ""), paths.BIN_DIR)
    if real is None:
        programs.say("horovodrun is not in PATH: is Horovod installed in this image?")
        return programs.NOT_FOUND
    listed = count_listed(paths.HOSTS_FILE)
    words = horovod_options.adjust(
        argv, slots=listed, interface=find_interface(ROUTES), environ=environ
    )
    changed = find_changed(argv, words)
    if changed:
        programs.say(f"horovodrun is given {' '.join(changed)}")
    env = environments.drop_pod_facts(environ)
    most = horovod_options.read_most(words)
    is_fast = env.pop(names.ENV_LOSSES, "") == names.FAST and most is not None
    if is_fast:
        words = list(prepare_ranks(words, env.get("PATH", "")))
    ours = INJECTING if is_for_inside(most, listed, env) else NOTIFYING if is_fast else ""
    # The Python of its first line: Horovod is installed there.
    python = programs.find_interpreter(real) if ours else []
    command = [*python, ours, real, *words] if python else [real, *words]
    return programs.become(command, env)


def prepare_ranks(words: Sequence[str], path: str) -> Sequence[str]:
    """The words, with our folder in the path of each rank; people are told where that cannot be."""
    prepared = ranks.prepare(words, lambda program: is_python(program, path))
    if prepared is None:
        programs.say(ranks.LEFT_OUT)
    return prepared or words


def is_python(program: str, path: str) -> bool:
    """Whether a command of this name is Python, or a program that runs under it here."""
    if ranks.is_named_python(program):
        return True
    is_path = "/" in program
    file = program if is_path else programs.find_program(program, path, paths.BIN_DIR)
    return bool(file and programs.is_program(file) and programs.find_interpreter(file))


def find_changed(given: Sequence[str], words: Sequence[str]) -> Sequence[str]:
    """What is not as the user wrote it.

    The rest is not for a log: a kubelet puts the values of variables, secret ones too, into
    arguments that name them.
    """
    added = len(words) - len(given)
    changed = [word for place, word in enumerate(words[added:]) if word != given[place]]
    numbers = [word if word.startswith("-") else f"-np {word}" for word in changed]
    return [*words[:added], *numbers]


def is_for_inside(most: Optional[int], listed: Optional[int], environ: Mapping[str, str]) -> bool:
    """Whether our transport is to be inside horovodrun.

    Args:
        most: the processes that an elastic run may come to have; None for a static run.
        listed: the slots in the broker's list.
        environ: what horovodrun will repeat on every command line.
    """
    wish = environ.get(names.ENV_LAUNCHER, "")
    if most is None or wish == starters.PER_SLOT:
        return False
    length = sum(len(name) + len(value) for name, value in environ.items())
    is_large = max(most, listed or 0) >= MANY_SLOTS or length >= LONG_ENVIRONMENT
    return is_large or wish == starters.IN_PROCESS


def find_interface(routes: str) -> Optional[str]:
    """The interface that holds the IPv4 default route; None when there is none."""
    try:
        with open(routes) as file:
            rows = [line.split() for line in file][1:]
    except OSError:
        return None
    defaults = []
    for name, destination, _, _, _, _, metric, mask, *_ in rows:
        if destination == mask == "00000000":
            defaults.append((int(metric), name))
    return min(defaults)[1] if defaults else None


def count_listed(file: str) -> Optional[int]:
    """The slots in the broker's list; None when there is no list."""
    try:
        return hosts.count_slots(hosts.read_hosts(file))
    except (OSError, hosts.InvalidHosts):
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
