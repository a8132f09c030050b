"""What every process of ours is told: who it is, where it reports, how it logs.

The cli of a program adds its own flags, and reads all of them by what is here. Flags go before the
environment; the pod's name and namespace come from that alone.
"""

from __future__ import annotations

import argparse
import socket
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

from et_kube import __version__
from et_kube.notices import ROWS, Row
from et_process.flags import read_between
from et_process.logging import add_logging_flags
from et_process.noticing import read_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """The part of a program's settings that all programs have; docs/operations.md tells each."""

    identity: str
    """Name of this replica in the leader lease."""
    lease_name: str
    own_namespace: str = "et-operator"
    lease_duration: timedelta = timedelta(seconds=15)
    renew_deadline: timedelta = timedelta(seconds=10)
    retry_period: timedelta = timedelta(seconds=2)
    http_port: int = 8080
    """/healthz, /readyz, /metrics."""
    log_format: str = "json"
    """json or console."""
    log_level: str = "info"
    notices: tuple[Row, ...] = ROWS
    """The signs by which the end of a node is known."""


def add_process_flags(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Every flag has an environment variable of the same name in capitals."""
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument(
        "--http-port",
        type=read_between("HTTP_PORT", 0, 65535),
        default=environ.get("HTTP_PORT", "8080"),
        help="0: any that is free",
    )
    parser.add_argument(
        "--notices-file",
        type=_read_notices,
        default=environ.get("NOTICES_FILE", ""),
        dest="notices",
        metavar="FILE",
        help="signs (YAML) by which the end of a node is known, beside those that are known anyway",
    )
    add_logging_flags(parser, environ)


def read_process_settings(args: argparse.Namespace, environ: Mapping[str, str]) -> dict[str, Any]:
    """Values of ProcessSettings: from these flags, and from what the pod is told of itself."""
    told = {
        "own_namespace": environ.get("POD_NAMESPACE", "et-operator"),
        "identity": environ.get("POD_NAME") or socket.gethostname(),
    }
    known = {field.name for field in fields(ProcessSettings)}
    return told | {name: value for name, value in vars(args).items() if name in known}


def _read_notices(path: str) -> tuple[Row, ...]:
    try:
        return read_rows(path)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"(or NOTICES_FILE): {error}") from error
