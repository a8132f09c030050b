"""One command: the cluster is opened, the work done, and what went wrong said in a sentence.

Exit codes are chosen here and nowhere else. An EtError or an error of the server is a sentence;
anything else is a defect, and keeps its traceback.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import typer
from rich.text import Text

from et.clusters import Cluster, Place, open_cluster
from et.errors import EtError, explain
from et.screens import Screen
from et_kube.errors import KubeError

FAILED = 1
INTERRUPTED = 130
BROKEN_PIPE = 141

Work = Callable[[Cluster, Screen], Awaitable[object]]
"""What a command does. False: it went as it should, and what was waited for has failed."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What a command works with; tests hand in their own as the context's `obj`."""

    open: Callable[[Place], AbstractAsyncContextManager[Cluster]]
    screen: Screen


def run(context: typer.Context, place: Place, work: Work) -> None:
    """Do the work on the cluster of this place, and exit as it went."""
    tools = find_tools(context)
    try:
        code = asyncio.run(_run(tools, place, work))
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = _leave_pipe()
    raise typer.Exit(code)


def run_alone(context: typer.Context, work: Callable[[Screen], None]) -> NoReturn:
    """Do work that asks no cluster, and exit."""
    screen = find_tools(context).screen
    try:
        work(screen)
    except EtError as error:
        complain(screen, error)
        raise typer.Exit(FAILED) from error
    except BrokenPipeError as error:
        raise typer.Exit(_leave_pipe()) from error
    raise typer.Exit(0)


def _leave_pipe() -> int:
    """The exit code once `et logs | head` has seen enough; what is not written yet goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE


def find_tools(context: typer.Context) -> Tools:
    """The tests' own, or the real one."""
    found: Any = context.find_root().obj
    return found if isinstance(found, Tools) else Tools(open_cluster, Screen())


@contextmanager
def _heeding() -> Iterator[None]:
    """Whoever ends us otherwise, or closes the terminal, interrupts as Ctrl-C does, and once.

    What was begun is then told, or taken back. A second signal would cut that off, and comes: a
    shell whose terminal is closed sends HUP on, and so does the kernel once the shell has ended; a
    session that is ended sends TERM and HUP. Whoever wants no more of it presses Ctrl-C again.
    """
    task = asyncio.current_task()

    def interrupt(*_: object) -> None:
        if task is None or not task.cancelling():
            signal.raise_signal(signal.SIGINT)

    is_heard = callable(signal.getsignal(signal.SIGINT))
    names = ("SIGTERM", "SIGHUP") if is_heard else ()
    ends = [getattr(signal, name) for name in names if hasattr(signal, name)]  # Windows: no HUP
    heeded = [number for number in ends if signal.getsignal(number) == signal.SIG_DFL]
    for number in heeded:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in heeded:
            signal.signal(number, signal.SIG_DFL)


async def _run(tools: Tools, place: Place, work: Work) -> int:
    try:
        with _heeding():
            async with tools.open(place) as cluster:
                return FAILED if await work(cluster, tools.screen) is False else 0
    except (EtError, KubeError, ExceptionGroup) as error:
        complain(tools.screen, error)
        return FAILED


def complain(screen: Screen, error: Exception) -> None:
    """Say it; anything that is not an error of ours is raised again."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, KubeError):
        words = explain(error)
    elif isinstance(error, EtError):
        words = str(error)
    else:
        raise error
    screen.err.print(Text.assemble(("et: ", "bold red"), words), soft_wrap=True)
