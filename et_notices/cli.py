"""Flags and environment become Settings; exit codes are here.

Nothing else of et-notices reads the environment. A flag that cannot be used ends the process here,
with a sentence and code 2, before a cloud or the cluster is asked anything.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence

from et_kube import __version__
from et_kube.errors import KubeError
from et_notices.assembly import run
from et_notices.choosing import CLOUDS
from et_notices.settings import Settings
from et_process.logging import add_logging_flags


def build_parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    """Every flag has an environment variable of the same name in capitals."""
    parser = argparse.ArgumentParser(
        prog="et-notices", description="Writes on its node what the node's cloud says of its end."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument(
        "--node-name",
        metavar="NODE",
        dest="node",
        default=environ.get("NODE_NAME", ""),
        help="its own node",
    )
    parser.add_argument(
        "--cloud",
        type=_check_cloud,
        metavar="NAME",
        default=environ.get("CLOUD", ""),
        help=f"{', '.join(CLOUDS)}; without one the node's providerID says it",
    )
    parser.add_argument(
        "--metadata-url",
        metavar="URL",
        default=environ.get("METADATA_URL", ""),
        help="of the cloud's metadata service, where it is not at its own address",
    )
    add_logging_flags(parser, environ)
    return parser


def read_settings(argv: Sequence[str], environ: Mapping[str, str]) -> Settings:
    """Settings from flags before environment; SystemExit(2) with a sentence for bad ones."""
    parser = build_parser(environ)
    settings = Settings(**vars(parser.parse_args(argv)))
    if not settings.node:
        parser.error("--node-name (or NODE_NAME) is missing")
    return settings


def _check_cloud(text: str) -> str:
    if text and text not in CLOUDS:
        raise argparse.ArgumentTypeError(f"(or CLOUD): {text!r} is none of {', '.join(CLOUDS)}")
    return text


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM; 0 after an orderly stop, 1 with the reason otherwise."""
    settings = read_settings(sys.argv[1:] if argv is None else argv, os.environ)
    code = 0
    try:
        asyncio.run(run(settings))
    except* (KubeError, OSError, ValueError) as group:
        for error in group.exceptions:
            sys.stderr.write(f"et-notices: {error}\n")
        code = 1
    return code
