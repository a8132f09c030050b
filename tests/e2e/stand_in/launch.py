"""A stand-in for deepspeed.launcher.launch: starts this node's ranks, and ends them on a signal."""

from __future__ import annotations

import argparse
import base64
import json
import os
import signal
import subprocess
import sys
from types import FrameType


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("world_info", "node_rank", "master_addr", "master_port"):
        parser.add_argument(f"--{name}")
    arguments, script = parser.parse_known_args()
    world = json.loads(base64.urlsafe_b64decode(arguments.world_info))
    node = int(arguments.node_rank)
    slots = list(world.values())
    base = sum(map(len, slots[:node]))
    processes = []
    for local in slots[node]:
        environment = {
            **os.environ,
            "RANK": str(base + local),
            "LOCAL_RANK": str(local),
            "WORLD_SIZE": str(sum(map(len, slots))),
            "MASTER_ADDR": arguments.master_addr,
            "MASTER_PORT": arguments.master_port,
        }
        command = [sys.executable, "-u", script[0], f"--local_rank={local}", *script[1:]]
        processes.append(subprocess.Popen(command, env=environment))

    def end(_number: int, _frame: FrameType | None) -> None:
        for process in processes:
            process.terminate()
        sys.exit(1)

    signal.signal(signal.SIGTERM, end)
    sys.exit(max(process.wait() for process in processes))


if __name__ == "__main__":
    main()
