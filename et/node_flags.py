"""`et node`: its commands and their flags.

commands.py registers them; their work is in nodes.py, imported when they run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from et.flags import Context, Kubeconfig, Namespace, parse_duration, run_command

if TYPE_CHECKING:
    from et.clusters import Cluster
    from et.screens import Screen

Node = Annotated[str, typer.Argument(metavar="NODE", help="Its name.")]

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command()
def leaving(
    ctx: typer.Context,
    *,
    node: Node,
    in_: Annotated[str, typer.Option("--in", metavar="TIME", help="In 120s, 10m.")] = "",
    at: Annotated[str, typer.Option("--at", metavar="TIME", help="2026-01-31T12:00:00Z.")] = "",
    reason: Annotated[str, typer.Option("--reason", metavar="WORDS", help="Why.")] = "",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Say that a node ends, at once unless it is said when: who runs there is moved before.

    Where you may not change nodes, the jobs' pods of the namespace that are there are told instead.
    """
    if in_ and at:
        raise typer.BadParameter("give one of --in and --at")
    span = parse_duration(in_) if in_ else None

    async def work(cluster: Cluster, screen: Screen) -> None:
        from et.nodes import Departure, say_leaving

        await say_leaving(cluster, screen, node, Departure(span, at, reason))

    run_command(ctx, work, namespace, context, kubeconfig)


@app.command()
def staying(
    ctx: typer.Context,
    *,
    node: Node,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Take that back: new workers may be put there again."""

    async def work(cluster: Cluster, screen: Screen) -> None:
        from et.nodes import say_staying

        await say_staying(cluster, screen, node)

    run_command(ctx, work, namespace, context, kubeconfig)
