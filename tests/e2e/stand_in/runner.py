"""A stand-in for DeepSpeed's runner: it calls ssh and pdsh as release 0.16.4 does.

deepspeed/launcher/runner.py, lines 462-470 (is the first host there), 476-496 (its address),
607-629 (start, SIGINT and SIGTERM, wait) and multinode_runner.py, lines 74-117 (the command lines).
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType


def read_hosts() -> dict[str, list[int]]:
    lines = Path("/job/hostfile").read_text().splitlines()
    pairs = [line.split(" slots=") for line in lines]
    return {name: list(range(int(slots))) for name, slots in pairs}


def main() -> None:
    hosts, environment = read_hosts(), {**os.environ, "PDSH_RCMD_TYPE": "ssh"}
    first = next(iter(hosts))
    check = shlex.split(f"ssh -o PasswordAuthentication=no {first} hostname")
    subprocess.check_call(check, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    address = subprocess.check_output(shlex.split(f"ssh  {first} hostname -I")).decode().split()[0]
    world = base64.urlsafe_b64encode(json.dumps(hosts).encode()).decode()
    path = ":".join([str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])])
    pdsh = ["pdsh", "-S", "-f", "1024", "-w", ",".join(hosts)]
    launch = [
        f'export PYTHONPATH="{path}"; ',
        f"cd {Path.cwd()};",
        *(sys.executable, "-u", "-m", "deepspeed.launcher.launch"),
        *(f"--world_info={world}", "--node_rank=%n"),
        *(f"--master_addr={address}", "--master_port=29500"),
    ]
    kill = [*pdsh, "pkill -f ", " ".join(word + "\\" for word in launch[2:6])[:-2]]
    arguments = [f'"{word}"' if " " in word else word for word in sys.argv[1:]]
    running = subprocess.Popen([*pdsh, *launch, *arguments], env=environment)

    def end(_number: int, _frame: FrameType | None) -> None:
        running.send_signal(signal.SIGINT)
        time.sleep(0.1)  # noqa: TID251 (as the runner does)
        running.send_signal(signal.SIGTERM)
        killing = subprocess.Popen(kill, env=environment)
        print("pkill ended with", killing.wait(), flush=True)
        time.sleep(1)  # noqa: TID251 (the same)
        sys.exit(1)

    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGTERM, end)
    running.wait()
    if running.returncode > 0:
        sys.exit(running.returncode)


if __name__ == "__main__":
    main()
