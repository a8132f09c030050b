"""What torchrun is told in each worker, and when it is not ours to start there. Pure.

Options are read by torchrun's own parser (torch.distributed.run.parse_args), in the launcher: what
is here takes its result. Ours go behind the user's, where the last one counts. What the user may
decide otherwise is told by torchrun's variables PET_*, which any option goes before.
"""

from __future__ import annotations

import os
import shlex

from et_contract import names, paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Mapping, Sequence, Tuple

PROGRAM = ("python3", "-I", "-S", paths.BOOT, "torchrun", "--")
"""In a worker; the address of the rendezvous follows. It begins with boot.py, for where workers are
reached by ssh no PID 1 has put our programs in place."""
BACKEND = "--rdzv_backend=c10d"
MAX_RESTARTS = 100
"""Of an elastic run: a worker that leaves costs each of the others one
(torch/distributed/elastic/agent/server/api.py, _invoke_run), and without any left the run ends."""
LAST_CALL_SECONDS = 5
"""What a round waits for more workers once it has enough of them; torch's own are 30 s each time
that anybody comes or goes."""
OWN_STORES = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""With one store for rendezvous and training, a third node waits for ever (torch 2.4 and newer)."""
LATE = 75
"""The exit code in a worker of a torchrun that met a closed rendezvous (EX_TEMPFAIL)."""
CUT_OFF = 74
"""Exit code of a torchrun that has lost its connection to the rendezvous (EX_IOERR)."""
_LOOPBACK = "127.0.0.1"
_VARIABLES = "PET_"


def find_misfit(args: Any) -> str:
    """Why a run is not ours to start in workers; "" if it is.

    Args:
        args: the user's command line, parsed with BACKEND before it.
    """
    if args.standalone:
        return "--standalone"
    if args.rdzv_endpoint:
        return f"a rendezvous of its own, --rdzv_endpoint={args.rdzv_endpoint}"
    if args.rdzv_backend != "c10d":
        return f"a rendezvous of another kind, --rdzv_backend={args.rdzv_backend}"
    if args.master_addr != _LOOPBACK:
        return f"a fixed first node, --master_addr={args.master_addr}"
    if find_bounds(args)[1] == 1:
        return "one node; --nnodes=MIN:MAX makes it a run in the workers"
    return ""


def find_bounds(args: Any) -> Tuple[int, int]:
    """The least and the most nodes; raises ValueError where --nnodes is neither N nor MIN:MAX."""
    least, colon, most = args.nnodes.partition(":")
    return int(least), int(most if colon else least)


def build_endpoint(address: str, port: int) -> str:
    """HOST:PORT of a rendezvous; torch takes an IPv6 address in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def build_words(argv: Sequence[str], args: Any, endpoint: str) -> List[str]:
    """The arguments of torchrun in a worker: the user's, and where the rendezvous is."""
    script = [args.training_script, *args.training_script_args]
    options = list(argv[: len(argv) - len(script)])
    if options[-1:] == ["--"]:
        options.pop()
    conf = {"last_call_timeout": str(LAST_CALL_SECONDS)}
    for pair in filter(None, args.rdzv_conf.split(",")):
        name, _, value = pair.partition("=")
        conf[name.strip()] = value.strip()
    conf["is_host"] = "0"
    text = ",".join(f"{name}={value}" for name, value in conf.items())
    return [*options, BACKEND, f"--rdzv_endpoint={endpoint}", f"--rdzv_conf={text}", *script]


def build_command(
    words: Sequence[str], settings: Mapping[str, str], *, real: str, endpoint: str, folder: str
) -> str:
    """The shell's command in a worker. The shell becomes torchrun: signals are for that.

    Args:
        words: the arguments of torchrun.
        settings: its variables.
        real: the image's own torchrun, as the launcher has found it.
        endpoint: of the rendezvous.
        folder: where it is to run.
    """
    told = {**settings, names.ENV_REAL: os.path.join(folder, real)}
    pairs = [f"{name}={value}" for name, value in told.items()]
    line = " ".join(map(shlex.quote, [*pairs, *PROGRAM, endpoint, *words]))
    return f"cd {shlex.quote(folder)} > /dev/null 2>&1 ; exec env {line}"


def build_settings(environ: Mapping[str, str], args: Any, slots: int) -> Dict[str, str]:
    """The variables of torchrun in a worker of so many slots.

    Those that the user has set in the launcher stay.
    """
    least, most = find_bounds(args)
    settings = {**OWN_STORES, _VARIABLES + "NPROC_PER_NODE": str(slots)}
    if least < most:
        settings[_VARIABLES + "MAX_RESTARTS"] = str(MAX_RESTARTS)
    told = {name: value for name, value in environ.items() if name.startswith(_VARIABLES)}
    return {**settings, **told}
