"""The image's torchrun in a worker, which joins the rendezvous in the launcher.

    python joining.py /path/of/the/image's/torchrun HOST:PORT [argument...]

Workers of torchrun find each other at the address of the first node, for which torchrun takes the
name of its host: in a pod nobody else can resolve it. So it is told the pod's address, by its
option --local_addr (torch 2.0 and newer) or as the name of the host. And three ends get codes of
their own, which an exception has not: a signal, a training that had ended before, and a connection
to the rendezvous that is lost, which closes it for nobody else.
"""

from __future__ import annotations

import socket
import sys

sys.path.insert(0, __file__.rpartition("/launcher/")[0])

from launcher.shim import programs, torch_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Sequence, Tuple, Type

_OPTION = "local_addr"


def main(argv: Sequence[str]) -> int:
    """Becomes torchrun; the exit code. Raises what torchrun raises where workers have failed."""
    real, endpoint, words = argv[0], argv[1], list(argv[2:])
    programs.take_place(real)
    sys.argv[:] = [real, *words]
    from torch import distributed
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.rendezvous import (
        RendezvousClosedError,
        RendezvousConnectionError,
        dynamic_rendezvous,
    )

    # torch 2 has an error of its own for what it reads of the store beside the rendezvous.
    cuts = (RendezvousConnectionError, getattr(distributed, "DistError", RendezvousConnectionError))
    leave_open(dynamic_rendezvous.DynamicRendezvousHandler, cuts)
    address = programs.find_address(endpoint.rpartition(":")[0].strip("[]"))
    try:
        run.main(tell_address(words, vars(run.parse_args(words)), address))
    except SignalException as error:
        return 128 + int(error.sigval)
    except RendezvousClosedError:
        programs.say("the training ended before this worker took part in it")
        return torch_options.LATE
    except cuts as error:
        programs.say(f"the connection to the rendezvous is lost: {error}")
        return torch_options.CUT_OFF
    return 0


def leave_open(handler: Any, cuts: Tuple[Type[Exception], ...]) -> None:
    """Have a rendezvous stay open that torchrun leaves because of these errors.

    torchrun closes it at any end but a signal's (torch/distributed/launcher/api.py, launch_agent),
    for all others and for ever. By then the network may be back.
    """
    shutdown = handler.shutdown

    def leave(self: Any) -> bool:
        return not isinstance(sys.exc_info()[1], cuts) and shutdown(self)

    handler.shutdown = leave


def tell_address(words: List[str], known: "dict[str, object]", address: str) -> List[str]:
    """The arguments with the address in them; where there is no option, names mean it from now on.

    Args:
        words: the arguments of torchrun.
        known: the same, parsed: every option of the installed torchrun is there.
        address: the pod's.
    """
    if _OPTION not in known:
        socket.getfqdn = lambda name="": address  # noqa: ARG005 (what torch 1 asks for its name)
        return words
    return words if known[_OPTION] else [f"--{_OPTION}={address}", *words]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
