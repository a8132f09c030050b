"""The commands that make jobs, and their flags.

commands.py registers them; their work is in submitting.py and runs.py, imported when they run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from et.flags import (
    Context,
    Format,
    Kubeconfig,
    Namespace,
    Output,
    Timeout,
    parse_duration,
    run_command,
)

if TYPE_CHECKING:
    from et.clusters import Cluster
    from et.manifests import Objects
    from et.runs import Run
    from et.screens import Screen

Image = Annotated[str, typer.Option("--image", help="Of the launcher and the workers.")]
Replicas = Annotated[int, typer.Option("--replicas", min=1, help="Workers to start with.")]
Minimum = Annotated[
    int | None, typer.Option("--min", min=1, help="So many are enough to start and go on.")
]
Maximum = Annotated[int | None, typer.Option("--max", min=1, help="Never more.")]
Gpus = Annotated[int, typer.Option("--gpus", min=0, help="Of each worker, a process each.")]
Slots = Annotated[
    int | None,
    typer.Option("--slots", min=1, help="Processes of each worker; else as --gpus, or 1."),
]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME=VALUE", help="For anybody to read; may be repeated."),
]
EnvFrom = Annotated[
    list[str] | None,
    typer.Option(
        "--env-from",
        metavar="secret/NAME",
        help="All variables of a Secret, or configmap/NAME, for the workers; may be repeated.",
    ),
]
SecretEnv = Annotated[
    list[str] | None,
    typer.Option(
        "--secret-env",
        metavar="NAME=SECRET/KEY",
        help="One variable of a Secret, for the workers; may be repeated.",
    ),
]
Volumes = Annotated[
    list[str] | None,
    typer.Option(
        "--volume",
        metavar="CLAIM:/path[:ro]",
        help="A claim, secret/NAME or configmap/NAME, in the workers; may be repeated.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be sent, and send nothing.")
]
Update = Annotated[
    bool,
    typer.Option(
        "--update",
        help="Change a job that is there, or create it; its number of workers stays, "
        "unless --replicas sets it.",
    ),
]
Watch = Annotated[bool, typer.Option("-w", "--watch", help="Then watch the job.")]


def submit(
    ctx: typer.Context,
    *,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE | -- COMMAND", help="YAML, or - for stdin; or what --image runs."
        ),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The job's name.")] = "",
    image: Image = "",
    replicas: Replicas = 1,
    minimum: Minimum = None,
    maximum: Maximum = None,
    gpus: Gpus = 0,
    slots: Slots = None,
    env: Env = None,
    env_from: EnvFrom = None,
    secret_env: SecretEnv = None,
    volumes: Volumes = None,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw",
            help="The command as it is, without horovodrun before it; "
            "the launcher has the volumes too.",
        ),
    ] = False,
    is_update: Update = False,
    dry_run: DryRun = False,
    watch: Watch = False,
    output: Format = Output.TEXT,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Submit a job from a file, or from an image and a command.

    et submit job.yaml

    et submit --update job.yaml

    et submit --name first --image IMAGE --replicas 2 --max 4 -- python3 train.py
    """
    from et.manifests import collect
    from et.quickjobs import QuickJob
    from et.running import run_alone
    from et.submitting import Change, Manner, show_manifests, submit_and_watch

    source = ctx.get_parameter_source("replicas")
    is_said = source is not None and source.name != "DEFAULT"
    change = Change(replicas if is_said else None) if is_update else None
    as_json = output is Output.JSON
    bounds = (replicas, minimum, maximum, gpus, slots)
    others = (env or (), env_from or (), secret_env or (), volumes or ())
    quick = QuickJob(name, image, tuple(words or ()), *bounds, *others, is_raw=raw)

    async def work(cluster: Cluster, screen: Screen) -> bool:
        objects: Objects = collect(quick)
        manner = Manner(namespace or "", as_json, watch, change)
        return await submit_and_watch(cluster, screen, objects, manner)

    if dry_run:
        run_alone(ctx, lambda screen: show_manifests(screen, collect(quick), as_json=as_json))
    run_command(ctx, work, namespace, context, kubeconfig)


def run(
    ctx: typer.Context,
    *,
    script: Annotated[str, typer.Argument(metavar="SCRIPT.py", help="A file of yours.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="-- ARG", help="What the script is given.")
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="FILE", help="Put beside the script, to be imported; repeatable."
        ),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The job's; else as the script's.")] = "",
    image: Image = "",
    replicas: Replicas = 1,
    minimum: Minimum = None,
    maximum: Maximum = None,
    gpus: Gpus = 0,
    slots: Slots = None,
    env: Env = None,
    env_from: EnvFrom = None,
    secret_env: SecretEnv = None,
    volumes: Volumes = None,
    yes: Annotated[
        bool, typer.Option("-y", "--yes", help="Do not ask before an ended job is replaced.")
    ] = False,
    timeout: Timeout = "10m",
    dry_run: DryRun = False,
    watch: Watch = False,
    output: Format = Output.TEXT,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Run a script of yours on the workers; changed, run it again by the same command.

    et run train.py --image IMAGE --replicas 2 --max 4 --with model.py -- --lr 0.1

    The files are sent with the job, and go with it. Where a job of this name has ended, it is asked
    whether it may be replaced; one that has not ended is left alone.
    """
    from et.clusters import get_meta
    from et.quickjobs import QuickJob
    from et.running import run_alone
    from et.runs import build_run, run_script
    from et.submitting import show_manifests
    from et.watching import watch as watch_job

    as_json, limit = output is Output.JSON, parse_duration(timeout)
    bounds = (replicas, minimum, maximum, gpus, slots)
    others = (env or (), env_from or (), secret_env or (), volumes or ())
    quick = QuickJob(name, image, tuple(arguments or ()), *bounds, *others)

    def build() -> Run:
        return build_run(quick, script, files or ())

    async def work(cluster: Cluster, screen: Screen) -> bool:
        stored = await run_script(
            cluster, screen, build(), is_sure=yes, limit=limit, as_json=as_json
        )
        name = get_meta(stored, "name")
        return not watch or await watch_job(cluster, screen, name, stored=stored)

    if dry_run:
        run_alone(ctx, lambda screen: show_manifests(screen, build().objects, as_json=as_json))
    run_command(ctx, work, namespace, context, kubeconfig)
