"""Flags and environment become Settings; the process's exit code comes from here.

Flags go before the environment, which nothing else of the operator reads. What is missing or
misspelt ends the process here, with a sentence and code 2, before the cluster is asked anything.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence

from et_kube.errors import KubeError
from et_operator.assembly import run
from et_operator.settings import Queueing, Settings
from et_process.flags import read_between, read_one_of
from et_process.settings import add_process_flags, read_process_settings


def build_parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    """Every flag has an environment variable of the same name in capitals."""
    parser = argparse.ArgumentParser(
        prog="et-operator",
        description="Runs elastic training jobs (TrainingJob, ScaleIn, ScaleOut) on Kubernetes.",
    )
    parser.add_argument(
        "--broker-image",
        default=environ.get("BROKER_IMAGE", ""),
        help="image of the launcher's sidecar; normally the operator's own",
    )
    parser.add_argument(
        "--broker-pull-secrets",
        default=environ.get("BROKER_PULL_SECRETS", ""),
        help="comma-separated names of pull secrets in users' namespaces",
    )
    parser.add_argument(
        "--namespaces",
        default=environ.get("NAMESPACES", ""),
        help="comma-separated namespaces to work in; default: the whole cluster",
    )
    parser.add_argument(
        "--queueing",
        type=read_one_of("QUEUEING", Queueing),
        default=environ.get("QUEUEING", Queueing.OPTIONAL.value),
        metavar="{Optional,Required}",
        help="whether jobs without spec.queue start at once, or wait in the queue named default",
    )
    parser.add_argument(
        "--workers",
        type=read_between("WORKERS", 1, 1024),
        default=environ.get("WORKERS", "32"),
        help="how many jobs are looked at at the same time",
    )
    add_process_flags(parser, environ)
    return parser


def read_settings(argv: Sequence[str], environ: Mapping[str, str]) -> Settings:
    """Settings from flags before environment; SystemExit(2) with a sentence for bad ones."""
    parser = build_parser(environ)
    args = parser.parse_args(argv)
    if not args.broker_image:
        parser.error("--broker-image (or BROKER_IMAGE) is missing: give the operator's own image")
    return Settings(
        broker_image=args.broker_image,
        broker_pull_secrets=split_list(args.broker_pull_secrets),
        namespaces=split_list(args.namespaces),
        queueing=Queueing(args.queueing),
        workers=args.workers,
        **read_process_settings(args, environ),
    )


def split_list(text: str) -> tuple[str, ...]:
    """Names between commas, blanks ignored."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the operator until SIGTERM; 0 after an orderly stop, 1 with the reason otherwise."""
    settings = read_settings(sys.argv[1:] if argv is None else argv, os.environ)
    try:
        asyncio.run(run(settings))
    except KubeError as error:
        sys.stderr.write(f"et-operator: {error}\n")
        return 1
    return 0
