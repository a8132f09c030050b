"""The commands and their flags. What they do is in the modules that each of them imports.

`--help` has to be quick: a command imports its work when it runs, and the libraries of the cluster
with it. Here only the form of flags is judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from et import creating, node_flags, rehearse_flags
from et.completing import complete_jobs, complete_logs, complete_queues, complete_workers
from et.flags import (
    Context,
    Format,
    Job,
    Kubeconfig,
    Namespace,
    Output,
    Timeout,
    parse_duration,
    run_command,
)

if TYPE_CHECKING:
    from et.clusters import Cluster
    from et.screens import Screen

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(is_wanted: bool) -> None:  # noqa: FBT001 (typer's way to call)
    """Print the version and exit."""
    if is_wanted:
        from et_kube import __version__

        typer.echo(f"et {__version__}")
        raise typer.Exit


@app.callback()
def main(
    *,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=show_version, help="Print it.")
    ] = False,
) -> None:
    """Training jobs that grow and shrink while they train."""


@app.command("list")
def list_(
    ctx: typer.Context,
    *,
    everywhere: Annotated[bool, typer.Option("-A", "--all-namespaces")] = False,
    output: Format = Output.TEXT,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """List jobs, one a line."""

    async def work(cluster: Cluster, screen: Screen) -> None:
        from et.listing import show_list

        await show_list(cluster, screen, everywhere=everywhere, as_json=output is Output.JSON)

    run_command(ctx, work, namespace, context, kubeconfig)


app.command()(creating.submit)
app.command()(creating.run)
app.command()(rehearse_flags.rehearse)
app.add_typer(node_flags.app, name="node", help="Say that a node ends, or stays.")


@app.command()
def watch(
    ctx: typer.Context,
    *,
    job: Job,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Watch a job until it ends: phase, workers, step, loss, world size, scalings.

    Exit code 0 if the job succeeded, 1 if it failed or was deleted.
    """

    async def work(cluster: Cluster, screen: Screen) -> bool:
        from et.watching import watch as watch_job

        return await watch_job(cluster, screen, job)

    run_command(ctx, work, namespace, context, kubeconfig)


@app.command()
def scale(
    ctx: typer.Context,
    *,
    job: Job,
    to: Annotated[int | None, typer.Option("--to", min=1, help="So many workers.")] = None,
    by: Annotated[int | None, typer.Option("--by", help="So many more, or less: +2, -1.")] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(
            "--remove",
            metavar="WORKER",
            help="This worker (JOB-worker-3, or 3); may be repeated.",
            autocompletion=complete_workers,
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("-w", "--wait", help="Until it is done; tell how each worker left.")
    ] = False,
    timeout: Annotated[
        str, typer.Option("--timeout", help="Of waiting, and of a ScaleOut.", metavar="TIME")
    ] = "30m",
    no_timeout: Annotated[
        bool, typer.Option("--no-timeout", help="A ScaleOut waits for its workers for good.")
    ] = False,
    output: Format = Output.TEXT,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Give a job more or fewer workers while it trains.

    --to sets the number, and the newest number wins. --by and --remove create a ScaleOut or
    ScaleIn, which waits for its turn. A ScaleOut is given up when its workers are not there within
    --timeout. With --wait, what is waited for is told; exit code 1 if it did not succeed.
    """
    if sum((to is not None, by is not None, bool(remove))) != 1 or by == 0:
        raise typer.BadParameter("give one of --to N, --by +N, --by -N and --remove WORKER")
    limit = parse_duration(timeout)

    async def work(cluster: Cluster, screen: Screen) -> bool:
        from et.scaling import Wish
        from et.scaling import scale as scale_job

        patience = limit if wait else None
        own = None if no_timeout else limit
        wish = Wish(to, by, tuple(remove or ()), patience, own)
        return await scale_job(cluster, screen, job, wish, as_json=output is Output.JSON)

    run_command(ctx, work, namespace, context, kubeconfig)


@app.command()
def delete(
    ctx: typer.Context,
    *,
    jobs: Annotated[
        list[str],
        typer.Argument(metavar="JOB", help="Their names.", autocompletion=complete_jobs),
    ],
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Until their pods have ended.")
    ] = True,
    timeout: Timeout = "10m",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Delete jobs with their pods, logs and scalings.

    Says what goes and what stays, and asks. A command that runs is ended, with its grace to save.
    """
    limit = parse_duration(timeout) if wait else None

    async def work(cluster: Cluster, screen: Screen) -> None:
        from et.deleting import delete_jobs

        await delete_jobs(cluster, screen, jobs, is_sure=yes, limit=limit)

    run_command(ctx, work, namespace, context, kubeconfig)


@app.command()
def restart(
    ctx: typer.Context,
    *,
    job: Job,
    workers: Annotated[
        bool,
        typer.Option("--workers", help="Only these, one after the other, while the job trains."),
    ] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
    timeout: Timeout = "10m",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """End all pods of a job, and let it go on with new ones from its own checkpoint.

    Suspends it, waits until its pods have ended, and resumes it; asks where a place in a queue
    goes with that. With --workers nothing stops: the operator replaces them, never below the least
    number.
    """
    limit = parse_duration(timeout)

    async def work(cluster: Cluster, screen: Screen) -> None:
        if workers:
            from et.renewing import renew

            await renew(cluster, screen, job, limit)
            return
        from et.restarting import restart as restart_job

        await restart_job(cluster, screen, job, limit, is_sure=yes)

    run_command(ctx, work, namespace, context, kubeconfig)


@app.command()
def logs(
    ctx: typer.Context,
    *,
    job: Job,
    workers: Annotated[
        list[str] | None,
        typer.Argument(help="Only of these: launcher, 0, 1 ...", autocompletion=complete_logs),
    ] = None,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="And what is printed from now on.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", min=0, help="Only so many last lines of each.")
    ] = None,
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Only of the last 90s, 10m, 2h.")
    ] = "",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show the logs of the launcher and all workers, in one stream."""
    span = parse_duration(since) if since else None

    async def work(cluster: Cluster, screen: Screen) -> bool:
        from et.logs import Beginning
        from et.tailing import follow_logs, show_logs

        show = follow_logs if follow else show_logs
        return await show(cluster, screen, job, Beginning(tail, span), tuple(workers or ()))

    run_command(ctx, work, namespace, context, kubeconfig)


@app.command()
def describe(
    ctx: typer.Context,
    *,
    job: Job,
    output: Format = Output.TEXT,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Tell a job's story: conditions, scalings and Events, in the order of time."""

    async def work(cluster: Cluster, screen: Screen) -> None:
        from et.describing import describe as describe_job

        await describe_job(cluster, screen, job, as_json=output is Output.JSON)

    run_command(ctx, work, namespace, context, kubeconfig)


@app.command()
def why(
    ctx: typer.Context,
    *,
    job: Job,
    output: Format = Output.TEXT,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Say why a job waits, has the workers that it has, or has ended."""

    async def work(cluster: Cluster, screen: Screen) -> None:
        from et.whys import explain

        await explain(cluster, screen, job, as_json=output is Output.JSON)

    run_command(ctx, work, namespace, context, kubeconfig)


@app.command()
def queue(
    ctx: typer.Context,
    *,
    name: Annotated[
        str, typer.Argument(metavar="[QUEUE]", help="Its name.", autocompletion=complete_queues)
    ] = "",
    output: Format = Output.TEXT,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """List queues; of one, show what it has and is due, who runs in it, and who waits for what."""

    async def work(cluster: Cluster, screen: Screen) -> None:
        from et.queues import show_queue, show_queues

        as_json = output is Output.JSON
        if name:
            await show_queue(cluster, screen, name, as_json=as_json)
        else:
            await show_queues(cluster, screen, as_json=as_json)

    run_command(ctx, work, namespace, context, kubeconfig)
