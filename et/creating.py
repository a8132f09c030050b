"""The commands that make jobs, and their flags."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from et.flags import Context, Format, Kubeconfig, Namespace, Output, run_command

if TYPE_CHECKING:
    from et.clusters import Cluster
    from et.manifests import Objects
    from et.screens import Screen


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
    run_command(ctx, work, namespace, context, kubeconfig)
