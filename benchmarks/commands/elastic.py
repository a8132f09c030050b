"""What a launcher runs in place of horovodrun: one process on each listed host, none elsewhere.

It reads the list as discover_hosts.sh does, fifty times a second instead of once, starts a process
on each new host through kubexec.sh, and ends it when its host has left the list. It says when the
list changed, and each process says when it ended; all times are the machine's.
"""

import os
import subprocess
import sys
import time

sys.path.insert(0, "/opt/edl/run/lib")
from et_contract import names, paths
from hostdiscovery import discover

EVERY_SECONDS = 0.02
PROCESS = 'trap : TERM; sleep 1000000; echo "left $(date +%s.%N) $HOSTNAME"'


def main() -> None:
    """Never ends."""
    nonce = os.environ[names.ENV_NONCE]
    running: dict[str, subprocess.Popen[bytes]] = {}
    before = None
    while True:
        text = discover.ask(paths.BROKER_SOCKET, nonce, discover.ANSWER_SECONDS)
        now = time.time()
        if text is not None and text != before:
            lines = [line for line in text.splitlines() if not line.endswith(":0")]
            hosts = {line.partition(":")[0] for line in lines}
            print(f"listed {now:.6f} {','.join(sorted(hosts))}", flush=True)
            for host in hosts - set(running):
                running[host] = subprocess.Popen([paths.KUBEXEC, host, PROCESS])
            for host in set(running) - hosts:
                running.pop(host).terminate()
            before = text
        time.sleep(EVERY_SECONDS)


main()
