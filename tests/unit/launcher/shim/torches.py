"""A stand-in for torch: the names, signatures and calls that are used of it, in a folder to import.

The end-to-end tests have the real one.
"""

from __future__ import annotations

from pathlib import Path

from tests.unit.launcher.shim.brokers import PYTHON

DISTRIBUTED = """
import threading, time
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()  # as numpy does

class TCPStore:
    port = 29999
    def __init__(self, host_name, port, world_size=None, is_master=False, wait_for_workers=True):
        assert is_master and port == 0 and not wait_for_workers
"""
DIST_ERROR = "class DistError(RuntimeError): pass\n"
RUN = """
import argparse, os, socket, sys
from torch.distributed.elastic.multiprocessing import SignalException
from torch import distributed
from torch.distributed.elastic import rendezvous
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler

def parse_args(args):
    parser = argparse.ArgumentParser()
    def add(name, default, **more):
        default = os.environ.get("PET_" + name.upper(), default)
        parser.add_argument("--" + name, default=default, **more)
    add("nnodes", "1:1")
    add("nproc_per_node", "1")
    add("rdzv_backend", "static")
    add("rdzv_endpoint", "")
    add("rdzv_conf", "")
    add("master_addr", "127.0.0.1")
    {more}
    parser.add_argument("--standalone", action="store_true")
    parser.add_argument("-m", "--module", action="store_true")
    parser.add_argument("training_script")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return parser.parse_args(args)

def main(args=None):
    print("program", sys.argv[0], "arguments", args, "name", socket.getfqdn(), flush=True)
    how = parse_args(args).training_script
    is_open = how == "signal"
    try:
        if how == "signal":
            raise SignalException("got SIGTERM", sigval=15)
        if how == "closed":
            raise rendezvous.RendezvousClosedError
        if how == "cut":
            raise rendezvous.RendezvousConnectionError("60 s without an answer")
        if how == "store":
            raise distributed.DistError("wait timeout")
        if how == "failed":
            raise RuntimeError("a worker failed")
    finally:
        if not is_open:
            DynamicRendezvousHandler().shutdown()
"""
HANDLER = """
class DynamicRendezvousHandler:
    def shutdown(self):
        print("closed for all", flush=True)
        return True
"""
ENDS = "class {}(Exception):\n    def __init__(self, *_, sigval=0):\n        self.sigval = sigval\n"
TORCHRUN = "#!{python} -IS\nimport signal, sys\n"
TORCHRUN += "print('the real one', *sys.argv[1:], signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"


def build_torch(tree: Path, *, options: str = "") -> str:
    """A folder with a `torch` to import and a `torchrun`; the path of that.

    `options` is code for options that only some releases have.
    """
    packages = ("", "/distributed", "/distributed/elastic", "/distributed/elastic/rendezvous")
    for package in packages:
        (tree / f"torch{package}").mkdir(parents=True)
        (tree / f"torch{package}/__init__.py").touch()
    distributed = tree / "torch/distributed"
    (distributed / "__init__.py").write_text(DISTRIBUTED + DIST_ERROR)
    (distributed / "run.py").write_text(RUN.format(more=options or "pass"))
    (distributed / "elastic/multiprocessing.py").write_text(ENDS.format("SignalException"))
    errors = map(ENDS.format, ("RendezvousClosedError", "RendezvousConnectionError"))
    (distributed / "elastic/rendezvous/__init__.py").write_text("".join(errors))
    (distributed / "elastic/rendezvous/dynamic_rendezvous.py").write_text(HANDLER)
    program = tree / "torchrun"
    program.write_text(TORCHRUN.format(python=PYTHON))
    program.chmod(0o755)
    return str(program)
