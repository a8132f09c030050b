"""`et rehearse`: its flags.

commands.py registers it; its work is in rehearsing.py, imported when it runs.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from et.completing import complete_workers
from et.flags import Context, Job, Kubeconfig, Namespace, Timeout, parse_duration, run_command

if TYPE_CHECKING:
    from et.clusters import Cluster
    from et.screens import Screen

SOON = "60s"
FURTHEST = timedelta(hours=1)


class Kind(StrEnum):
    """What is lost: a worker that is told before, one that is killed, or one of its ranks."""

    NOTICE = "notice"
    KILL = "kill"
    RANK = "rank"


def rehearse(
    ctx: typer.Context,
    *,
    job: Job,
    kind: Annotated[
        Kind, typer.Option("--kind", help="It is told that it ends, or killed, or one rank is.")
    ] = Kind.NOTICE,
    worker: Annotated[
        str,
        typer.Option(
            "--worker",
            metavar="WORKER",
            help="This one (JOB-worker-3, or 3); the newest without it.",
            autocompletion=complete_workers,
        ),
    ] = "",
    in_: Annotated[
        str, typer.Option("--in", metavar="TIME", help=f"When it ends, of a notice ({SOON}).")
    ] = "",
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
    timeout: Timeout = "10m",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Take one worker of a job that trains away, and say what that cost and what would lower it.

    Asks first. Refused where the job could not go on without it, and while anything else comes or
    goes. Exit code 1 if the job did not have all its workers again within --timeout.
    """
    if in_ and kind is not Kind.NOTICE:
        raise typer.BadParameter("--in is of a notice: a kill comes at once")
    span, limit = parse_duration(in_ or SOON), parse_duration(timeout)
    if span > FURTHEST:
        raise typer.BadParameter("--in is an hour at most: it is waited for")

    async def work(cluster: Cluster, screen: Screen) -> bool:
        from et.rehearsing import Wish
        from et.rehearsing import rehearse as rehearse_loss

        is_kill, is_rank = kind is not Kind.NOTICE, kind is Kind.RANK
        wish = Wish(worker, span, limit, is_kill=is_kill, is_rank=is_rank, is_sure=yes)
        return await rehearse_loss(cluster, screen, job, wish)

    run_command(ctx, work, namespace, context, kubeconfig)
