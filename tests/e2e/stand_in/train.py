"""The training: every rank says hello to rank 0 at the address that the runner found."""

from __future__ import annotations

import os
import socket
import sys
import time

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
PLACE = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
# One write, for `python -u` writes what print is given and the end of the line by themselves.
sys.stdout.write(f"rank={RANK} size={SIZE} host={socket.gethostname()} {sys.argv[2:]}\n")
sys.stdout.flush()
if RANK == 0:
    with socket.create_server(PLACE) as server:
        for _ in range(SIZE - 1):
            server.accept()[0].close()
    print("everybody is here", flush=True)
else:
    for _ in range(100):
        try:
            socket.create_connection(PLACE).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.1)  # noqa: TID251 (a training has no clock of its own)
    else:
        sys.exit("nobody answers")
if "forever" in sys.argv:
    time.sleep(1000)  # noqa: TID251 (the same)
