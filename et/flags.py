"""Flags that several commands have, and how a command of theirs is run.

For the modules that register commands. Nothing of a cluster is imported before a command runs, for
`--help` and Tab load this file too.
"""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from et.completing import complete_contexts, complete_jobs

if TYPE_CHECKING:
    from et.running import Work


class Output(StrEnum):
    """How an answer is written."""

    TEXT = "text"
    JSON = "json"


UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


LONGEST = timedelta(days=3650)
"""A date can say that far ahead."""


def parse_duration(text: str) -> timedelta:
    """`90`, `90s`, `10m`, `2h`, `1d`."""
    found = re.fullmatch(r"(\d{1,9})([smhd]?)", text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no time; write 90s, 10m, 2h or 1d")
    span = int(found[1]) * UNITS[found[2] or "s"]
    if span > LONGEST.total_seconds():
        raise typer.BadParameter(f"{text!r} is too long; {LONGEST.days}d at most")
    return timedelta(seconds=span)


Job = Annotated[str, typer.Argument(metavar="JOB", help="Its name.", autocompletion=complete_jobs)]
Namespace = Annotated[
    str | None,
    typer.Option("-n", "--namespace", metavar="NAME", help="Default: that of the context."),
]
Context = Annotated[
    str | None,
    typer.Option(
        "--context", metavar="NAME", help="Of the kubeconfig.", autocompletion=complete_contexts
    ),
]
Kubeconfig = Annotated[
    str | None,
    typer.Option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, else ~/.kube/config."),
]
Timeout = Annotated[str, typer.Option("--timeout", help="Of waiting: 90s, 10m.", metavar="TIME")]
Format = Annotated[Output, typer.Option("-o", "--output", help="text or json.")]


def run_command(
    ctx: typer.Context,
    work: Work,
    namespace: str | None,
    context: str | None,
    kubeconfig: str | None,
) -> None:
    """Do the work on the cluster that the flags name, and exit as it went."""
    from et.clusters import Place
    from et.running import run

    run(ctx, Place(kubeconfig, context, namespace), work)
