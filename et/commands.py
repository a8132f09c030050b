"""The commands and their flags. What they do is in the modules that each of them imports."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from et.completing import complete_contexts, complete_jobs, complete_queues, complete_workers

if TYPE_CHECKING:
    from et.clusters import Cluster
    from et.manifests import Objects
    from et.running import Work
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


class Output(StrEnum):
    """How an answer is written."""

    TEXT = "text"
    JSON = "json"


UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(text: str) -> timedelta:
    """`90`, `90s`, `10m`, `2h`, `1d`."""
    found = re.fullmatch(r"(\d{1,9})([smhd]?)", text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no time; write 90s, 10m, 2h or 1d")
    return timedelta(seconds=int(found[1]) * UNITS[found[2] or "s"])


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
Format = Annotated[Output, typer.Option("-o", "--output", help="text or json.")]


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

    _run(ctx, work, namespace, context, kubeconfig)


@app.command()
def submit(
    ctx: typer.Context,
    *,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE...] | --image ... -- COMMAND...", help="YAML, or - for stdin."
        ),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The job's name.")] = "",
    image: Annotated[str, typer.Option("--image", help="Of the launcher and the workers.")] = "",
    replicas: Annotated[int, typer.Option("--replicas", min=1, help="Workers to start with.")] = 1,
    minimum: Annotated[
        int | None, typer.Option("--min", min=1, help="So many are enough to start and go on.")
    ] = None,
    maximum: Annotated[int | None, typer.Option("--max", min=1, help="Never more.")] = None,
    gpus: Annotated[int, typer.Option("--gpus", min=0, help="Of each worker, a process each.")] = 0,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="May be repeated.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="The command as it is, without horovodrun before it.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be sent, and send nothing.")
    ] = False,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Then watch the job.")] = False,
    output: Format = Output.TEXT,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Submit a job from a file, or from an image and a command.

    et submit job.yaml

    et submit --name first --image IMAGE --replicas 2 --max 4 -- python3 train.py
    """
    from et.manifests import QuickJob, collect, parse_variables
    from et.running import run_alone
    from et.submitting import show_manifests, submit_and_watch

    as_json = output is Output.JSON
    quick = QuickJob(name, image, tuple(words or ()), replicas, minimum, maximum, gpus, is_raw=raw)

    def gather() -> Objects:
        return collect(replace(quick, env=parse_variables(env or ())))

    async def work(cluster: Cluster, screen: Screen) -> bool:
        objects = gather()
        place = namespace or ""
        return await submit_and_watch(
            cluster, screen, objects, namespace=place, as_json=as_json, is_watching=watch
        )

    if dry_run:
        run_alone(ctx, lambda screen: show_manifests(screen, gather(), as_json=as_json))
    _run(ctx, work, namespace, context, kubeconfig)


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

    _run(ctx, work, namespace, context, kubeconfig)


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
        str, typer.Option("--timeout", help="Of --wait: 90s, 10m.", metavar="TIME")
    ] = "30m",
    output: Format = Output.TEXT,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Give a job more or fewer workers while it trains.

    --to sets the number, and the newest number wins. --by and --remove create a ScaleOut or
    ScaleIn, which waits for its turn. With --wait, exit code 1 if it did not succeed.
    """
    if sum((to is not None, by is not None, bool(remove))) != 1 or by == 0:
        raise typer.BadParameter("give one of --to N, --by +N, --by -N and --remove WORKER")
    limit = parse_duration(timeout) if wait else None

    async def work(cluster: Cluster, screen: Screen) -> bool:
        from et.scaling import Wish
        from et.scaling import scale as scale_job

        wish = Wish(to, by, tuple(remove or ()), limit)
        return await scale_job(cluster, screen, job, wish, as_json=output is Output.JSON)

    _run(ctx, work, namespace, context, kubeconfig)


@app.command()
def logs(
    ctx: typer.Context,
    *,
    job: Job,
    workers: Annotated[
        list[str] | None,
        typer.Argument(help="Only of these: launcher, 0, 1 ...", autocompletion=complete_workers),
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

    async def work(cluster: Cluster, screen: Screen) -> None:
        from et.logs import Beginning
        from et.tailing import follow_logs, show_logs

        show = follow_logs if follow else show_logs
        await show(cluster, screen, job, Beginning(tail, span), tuple(workers or ()))

    _run(ctx, work, namespace, context, kubeconfig)


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

    _run(ctx, work, namespace, context, kubeconfig)


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

    _run(ctx, work, namespace, context, kubeconfig)


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

    _run(ctx, work, namespace, context, kubeconfig)


def _run(
    ctx: typer.Context,
    work: Work,
    namespace: str | None,
    context: str | None,
    kubeconfig: str | None,
) -> None:
    from et.clusters import Place
    from et.running import run

    run(ctx, Place(kubeconfig, context, namespace), work)
