"""A user's command that costs next to nothing: it plays horovodrun's part without training.

As horovodrun does, it reads the discovery script again and again, starts a process over `ssh` on
every host that is listed, and lets the process of a host go that has left the list. A process that
ends on a host that is still listed ends the command with 1: nobody may lose what is not leaving.
"""

from __future__ import annotations

PLAY = """
import subprocess, sys, time

def read():
    done = subprocess.run(["/etc/edl/discover_hosts.sh"], stdout=subprocess.PIPE, check=True)
    lines = done.stdout.decode().split()
    return sorted(line.split(":")[0] for line in lines if not line.endswith(":0"))

runs, before, look = {}, None, 0
while True:
    look += 1
    hosts = read()
    for host in set(runs) - set(hosts):
        runs.pop(host).terminate()
    for host in hosts:
        if host not in runs:
            runs[host] = subprocess.Popen(["ssh", host, "exec sleep 100000"])
        elif runs[host].poll() is not None and host in read():
            sys.exit("the process on %s ended with %s" % (host, runs[host].returncode))
    if hosts != before:
        print("step=%d loss=0 size=%d on=%s" % (look, len(hosts), ",".join(hosts)), flush=True)
    before = hosts
    time.sleep(0.5)
"""


def play() -> list[str]:
    """The command; it never ends by itself, and prints the line of a step for each new list."""
    return ["python3", "-c", PLAY]
