"""How what is ours begins in a pod: `python3 -I -S boot.py agent|launch|torchrun -- [argument...]`.

PID 1 of a worker is `agent`, of a launcher `launch`; `torchrun` is a process in a worker.

The runtime is mounted read-only at <edl>/src, flat, for the keys of a ConfigMap have no "/". Here
its files are copied to their paths below <edl>/run/lib, where Python can keep what it has compiled
and where all later programs (rsh, discover) start from, but the bridge, which may come first.

This file alone must be readable by every Python 3, so that one that is too old gets a sentence.
"""

import _signal  # type: ignore[import-not-found]  # `signal` takes 5 ms more
import os
import sys

OLDEST = (3, 7)
ENDING = (
    _signal.SIGTERM,
    _signal.SIGINT,
    _signal.SIGHUP,
    _signal.SIGQUIT,
    _signal.SIGUSR1,
    _signal.SIGUSR2,
    _signal.SIGWINCH,
    _signal.SIGPWR,
    *range(_signal.SIGRTMIN, _signal.SIGRTMAX + 1),
)
"""As in launcher/agent/catching.py, which is not installed yet."""
PID_1 = ("agent", "launch")
EXIT_USAGE = 64
EXIT_IO = 74
EXIT_MISCONFIGURED = 78
ROLES = ("agent", "launch", "torchrun")
USAGE = "usage: boot.py " + "|".join(ROLES) + " -- [command [argument...]]"
SLASH = ".."
RUNTIME_DIR = os.path.dirname(os.path.abspath(__file__))
RUN_DIR = os.path.join(os.path.dirname(RUNTIME_DIR), "run")
LIB_DIR = os.path.join(RUN_DIR, "lib")


def hold_signals() -> None:
    """Have the signals that end a pod wait until PID 1 takes them, seconds from now on a slow node.

    From a PID 1 without a handler the kernel keeps them, unless they are blocked.
    """
    _signal.pthread_sigmask(_signal.SIG_BLOCK, ENDING)


def drop_own_locale() -> None:
    """Take back LC_CTYPE where Python has set it for itself (PEP 538): children would get it."""
    try:
        with open("/proc/self/environ", "rb") as file:
            given = file.read().split(b"\0")
    except OSError:
        return
    if not any(variable.startswith(b"LC_CTYPE=") for variable in given):
        os.environ.pop("LC_CTYPE", None)


def copy_files(source: str, target: str) -> None:
    """Copy each file in `source` to the path below `target` that it is named after; raises OSError.

    A ConfigMap's own folders (`..data` and the like) are left out: the files are links into them.
    """
    os.makedirs(target)
    for name in os.listdir(source):
        if name.startswith("."):
            continue
        path = os.path.join(target, *name.split(SLASH))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(os.path.join(source, name), "rb") as reader, open(path, "wb") as writer:
            writer.write(reader.read())


def remove_tree(path: str) -> None:
    """Remove a folder of ours, if it is there; raises OSError."""
    for folder, _folders, files in os.walk(path, topdown=False):
        for name in files:
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)


def install(source: str, target: str) -> None:
    """Make `target` a folder of what `source` holds, in one step; one that is there is complete.

    Any number of processes may do so at once. Raises OSError.
    """
    if os.path.isdir(target):
        return
    # As PID 1 it is always 1: what a container that was killed half-way left goes away first.
    fresh = "%s.new-%d" % (target, os.getpid())
    remove_tree(fresh)
    copy_files(source, fresh)
    try:
        os.rename(fresh, target)
    except OSError:
        if not os.path.isdir(target):
            raise
        remove_tree(fresh)  # another process was first


def link_ranks() -> None:
    """Have launcher/ranks where ranks look for it; they go without where that cannot be."""
    try:
        os.symlink(os.path.join(LIB_DIR, "launcher", "ranks"), os.path.join(RUN_DIR, "ranks"))
    except FileExistsError:
        return  # of the container before this one
    except OSError as error:
        sys.stderr.write("edl: broken rings are left to Horovod: %s\n" % error)


def run(role: str, command: "list[str]") -> int:
    """Run the program that the pod has for this role, until it ends; its exit code.

    `main` calls it once everything is in LIB_DIR: a worker's container with the role `agent`, the
    launcher's with `launch`, and a torchrun that the launcher starts in a worker with `torchrun`.
    """
    if role == "torchrun":
        from launcher.shim import torchrun

        return int(torchrun.join(command))
    if role == "agent":
        # Imports compile all that a worker starts.
        from launcher.agent import refusing, serving

        refusing.place_refusal()
        link_ranks()
        return serving.main(command, socket_path=os.path.join(RUN_DIR, "agent.sock"))
    from launcher.shim import launching

    return int(launching.main(command))


def main(argv: "list[str]") -> int:
    """The exit code; `argv` begins with the role."""
    if sys.version_info < OLDEST:
        found = "%d.%d" % sys.version_info[:2]
        sys.stderr.write("edl: this image has Python %s, at least 3.7 is needed\n" % found)
        return EXIT_MISCONFIGURED
    if not argv or argv[0] not in ROLES or argv[1:2] not in ([], ["--"]):
        sys.stderr.write(USAGE + "\n")
        return EXIT_USAGE
    drop_own_locale()
    try:
        install(RUNTIME_DIR, LIB_DIR)
    except OSError as error:
        sys.stderr.write("edl: cannot install the runtime in %s: %s\n" % (LIB_DIR, error))
        return EXIT_IO
    sys.path.insert(0, LIB_DIR)
    return run(argv[0], argv[2:])


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in PID_1:
        hold_signals()
    sys.exit(main(sys.argv[1:]))
