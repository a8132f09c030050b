"""Flags and environment become Settings, or a file of passes is replayed; exit codes are here.

Nothing else of et-scheduler reads the environment. A flag that cannot be used ends the process
here, with a sentence and code 2, before the cluster is asked anything.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from et_kube.errors import KubeError
from et_process.flags import read_between
from et_process.settings import add_process_flags, read_process_settings
from et_scheduler.assembly import run
from et_scheduler.codec.headroom import read_headroom
from et_scheduler.model.shapes import HOUR, SECOND
from et_scheduler.replaying import replay
from et_scheduler.settings import Settings

FLAGS = {"1": True, "true": True, "": False, "0": False, "false": False}
"""What an environment variable may say where there is a flag without a value."""


def build_parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    """Every flag has an environment variable of the same name in capitals."""
    parser = argparse.ArgumentParser(
        prog="et-scheduler",
        description="Says how many workers each TrainingJob with a queue may have, and where.",
    )
    parser.add_argument(
        "--observe",
        action="store_true",
        default=FLAGS.get(environ.get("OBSERVE", "").lower(), True),
        help="decide and show what would be decided, and write nothing",
    )
    parser.add_argument(
        "--pool-label",
        metavar="LABEL",
        default=environ.get("POOL_LABEL", ""),
        help="what nodes with another value of this label have are other resources for queues",
    )
    parser.add_argument(
        "--service-headroom",
        type=_check_headroom,
        metavar="PODS*SIZE",
        default=environ.get("SERVICE_HEADROOM", ""),
        help="room that is kept for pods without a queue, as 20*cpu=3,memory=3Gi",
    )
    parser.add_argument(
        "--level-quiet-seconds",
        type=read_between("LEVEL_QUIET_SECONDS", 0, HOUR // SECOND),
        metavar="SECONDS",
        dest="level_quiet",
        default=environ.get("LEVEL_QUIET_SECONDS", "0"),
        help="after a start: so long nobody who runs shrinks for the level of all",
    )
    parser.add_argument(
        "--record",
        metavar="FILE",
        default=environ.get("RECORD", ""),
        help="keep what passes were decided on that changed something, a line of JSON each",
    )
    parser.add_argument(
        "--hash-names",
        action="store_true",
        default=FLAGS.get(environ.get("HASH_NAMES", "").lower(), True),
        help="in that file all names of the cluster are hashed",
    )
    parser.add_argument(
        "--replay",
        metavar="FILE",
        help="decide the passes of such a file again, print what is decided, and end",
    )
    add_process_flags(parser, environ)
    return parser


def read_settings(argv: Sequence[str], environ: Mapping[str, str]) -> Settings:
    """Settings from flags before environment; SystemExit(2) with a sentence for bad ones."""
    args = build_parser(environ).parse_args(argv)
    return Settings(
        is_observing=args.observe,
        pool_label=args.pool_label,
        service_headroom=args.service_headroom,
        level_quiet=args.level_quiet,
        record=args.record,
        is_hashing=args.hash_names,
        **read_process_settings(args, environ),
    )


def _check_headroom(text: str) -> str:
    try:
        read_headroom(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"(or SERVICE_HEADROOM): {error}") from error
    return text


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM; 0 after an orderly stop, 1 with the reason otherwise."""
    words = sys.argv[1:] if argv is None else argv
    replayed = build_parser(os.environ).parse_args(words).replay
    try:
        if replayed:
            with Path(replayed).open(encoding="utf-8") as lines:
                replay(lines)
        else:
            asyncio.run(run(read_settings(words, os.environ)))
    except (KubeError, OSError, ValueError) as error:
        sys.stderr.write(f"et-scheduler: {error}\n")
        return 1
    return 0
