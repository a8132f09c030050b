"""The command line: python -m devcluster COMMAND.

What each command does is in the other modules. One command at a time works on a cluster, under its
lock; a failure is one sentence and code 1.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from devcluster import (
    checks,
    controlplane,
    deploying,
    faults,
    images,
    lifecycles,
    locks,
    nodes,
    reporting,
)
from devcluster.failures import DevclusterError
from devcluster.settings import MAXIMUM_NODES, MAXIMUM_SIMULATED, Cluster, find_cluster

_INTERRUPTED = 130


def main(arguments: list[str]) -> int:
    """Do what the command line asks and return the exit code; a failure is one sentence."""
    # what follows kubectl or helm is theirs, dashes and all
    mine = arguments[:1] if arguments[:1] in (["kubectl"], ["helm"]) else arguments
    options = _make_parser().parse_args(mine)
    archives: list[Path] = []
    try:
        cluster = find_cluster()
        checks.check_platform()
        checks.extend_path()
        if options.command == "kubectl":
            return deploying.run_kubectl(cluster, arguments[1:])
        if options.command == "helm":
            return deploying.run_helm(cluster, arguments[1:])
        if options.command in ("status", "kubeconfig"):
            return _show(cluster, options.command)
        if options.command == "images":  # each artifact has a lock of its own
            archives = _build_images(cluster, options.only)
            if not options.load:
                return 0
        with locks.hold(cluster.cache / "locks" / f"cluster-{cluster.name}"):
            _carry_out(cluster, options, archives)
    except (DevclusterError, OSError) as error:  # of the latter such as a full disk
        reporting.say(f"devcluster: {error}")
        return 1
    except KeyboardInterrupt:
        reporting.say("devcluster: interrupted; the next up or down puts things right")
        return _INTERRUPTED
    return 0


def _show(cluster: Cluster, command: str) -> int:
    if command == "kubeconfig":
        controlplane.find_client(cluster)
        reporting.answer(str(cluster.kubeconfig))
        return 0
    text, healthy = lifecycles.describe(cluster)
    reporting.answer(text)
    return 0 if healthy else 1


def _carry_out(cluster: Cluster, options: argparse.Namespace, archives: list[Path]) -> None:
    if options.command == "up":
        lifecycles.bring_up(cluster, options.nodes, options.simulated)
        reporting.say(f"cluster {cluster.name} is up; export KUBECONFIG={cluster.kubeconfig}")
    elif options.command == "down":
        lifecycles.take_down(cluster)
        reporting.say(f"cluster {cluster.name} is down")
    elif options.command in ("load", "images"):
        controlplane.find_client(cluster)
        for archive in archives or [options.archive]:
            images.load(nodes.list_nodes(cluster), archive)
    elif options.command == "deploy":
        deploying.deploy(cluster)
    elif options.command == "fault":
        faults.cause(cluster, options.fault, options.node)


def _build_images(cluster: Cluster, only: str | None) -> list[Path]:
    archives = []
    for image in (images.OPERATOR, images.TRAINER):
        if only in (None, image.title):
            archives.append(images.find_image(cluster.cache, image))
            reporting.answer(str(archives[-1]))
    return archives


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m devcluster", description="A real Kubernetes on one machine."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start the cluster, or mend a running one")
    up.add_argument(
        "--nodes",
        type=_count(1, MAXIMUM_NODES),
        help="real nodes (2; on a running cluster: add some)",
    )
    up.add_argument("--simulated", type=_count(0, MAXIMUM_SIMULATED), help="simulated nodes (0)")
    commands.add_parser("down", help="end the cluster and leave only caches and logs")
    commands.add_parser(
        "status", help="tell what runs and where it lives; exit code 1 unless all is well"
    )
    commands.add_parser("kubeconfig", help="print the path of the kubeconfig")
    commands.add_parser("kubectl", help="run kubectl ARGS... against the cluster")
    commands.add_parser("helm", help="run helm ARGS..., against the cluster if it is up")
    build = commands.add_parser(
        "images", help="build the images that changed and print their archives"
    )
    build.add_argument("only", nargs="?", choices=[images.OPERATOR.title, images.TRAINER.title])
    build.add_argument("--load", action="store_true", help="and load them into every node")
    load = commands.add_parser("load", help="load an image archive into every node")
    load.add_argument("archive", type=Path)
    commands.add_parser("deploy", help="build, load and start this checkout's operator")
    fault = commands.add_parser("fault", help="break something on purpose, or mend it")
    fault.add_argument("fault", choices=[*faults.OF_CLUSTER, *faults.OF_NODE])
    fault.add_argument("node", nargs="?", help="for the faults of a node")
    return parser


def _count(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            message = f"{text!r} is not a whole number from {least} to {most}"
            raise argparse.ArgumentTypeError(message)
        return int(text)

    return read


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
