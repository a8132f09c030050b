"""The second scene: of two jobs in a queue the first gives what the second needs, and gets it back.

The manifests are those of examples/ that docs/tutorial.md shows, with other numbers of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from examples.demo.observing import Observer
from examples.demo.picture import draw_sharing
from examples.demo.trainings import DemoError, Training, list_changes

TITLE = "two jobs and a queue: the first gives what the second needs, and gets it back"
EXAMPLES = Path(__file__).resolve().parent.parent
QUEUE = "et-demo"
ALL, LEFT, NEEDED = 4, 2, 2
"""Workers of the large job while it is alone and while it is not, and of the small one."""
STEPS_LARGE = 3000
"""More than it trains before it is taken away: it ends by itself where nobody does that."""
STEPS_SMALL = 30
STEPS_BETWEEN = 10
STEP_SECONDS = "0.2"
COOLDOWN_SECONDS = 30
PICTURE = Path("out/demo-queue.png")


def run(observer: Observer, image: str) -> None:
    """One job takes all of a queue, another comes, trains and ends; sum up, and tidy up."""
    queue, jobs = build_queue(), build_jobs(image)
    remove(observer, [*jobs, queue])
    observer.create(queue)
    large, small, outcomes = play(observer, *jobs)
    remove(observer, [*jobs, queue])
    close(large, small, outcomes)


def play(
    observer: Observer, first: dict[str, Any], second: dict[str, Any]
) -> tuple[Training, Training, list[tuple[str, float]]]:
    """Both trainings, and what happened with the seconds that it took."""
    print(f"--> large comes: it takes whatever is idle, up to {ALL} workers", flush=True)
    large = observer.submit(first)
    alone = observer.wait(large, lambda: large.size == ALL, f"large trains with {ALL} workers")
    observer.train_on(large, STEPS_BETWEEN)
    print(f"--> small comes: it needs {NEEDED} workers, or does not start", flush=True)
    small = observer.submit(second)
    what = f"large gives until it has {LEFT} workers"
    given = observer.wait(large, lambda: large.size == LEFT, what)
    what = f"small trains with {NEEDED} workers"
    started = given + observer.wait(small, lambda: small.size == NEEDED, what)
    observer.wait(small, lambda: small.phase == "Succeeded", "small succeeds")
    print("--> small has ended: what it had is idle", flush=True)
    back = observer.wait(large, lambda: large.size == ALL, f"large has {ALL} workers again")
    observer.train_on(large, STEPS_BETWEEN)
    outcomes = [
        (f"large comes, trains with {ALL} workers", alone),
        (f"small comes, large goes on with {LEFT}", given),
        (f"small comes, trains with {NEEDED} workers", started),
        (f"small has ended, large trains with {ALL} again", back),
    ]
    return large, small, outcomes


def remove(observer: Observer, manifests: Sequence[dict[str, Any]]) -> None:
    """Take away what this scene makes: nobody waits for the end of the large job."""
    for manifest in manifests:
        observer.delete(manifest)


def close(large: Training, small: Training, outcomes: list[tuple[str, float]]) -> None:
    """Print the summary, draw the picture, check what the trainings themselves saw."""
    trainings = (large, small)
    sizes, other = (" -> ".join(map(str, one.sizes)) for one in trainings)
    title = f"two jobs in a queue: large {sizes}, while small trains with {other}"
    draw_sharing(*trainings, PICTURE, title=title)
    print("\nSummary")
    for title, seconds in outcomes:
        print(f"  {title:<42} {seconds:5.1f} s")
    print("\n".join(format_changes(trainings)))
    for one in trainings:
        lost = one.count_repeated_steps()
        print(
            f"  {one.name + ':':<7}steps: {len(one.steps)}   steps lost: {lost}"
            f"   restarts: {one.restarts}"
        )
    print(f"  picture: {PICTURE}")
    check(large, small)


def check(large: Training, small: Training) -> None:
    """DemoError where a step was trained twice or sizes were others than they must be."""
    for one in (large, small):
        if one.count_repeated_steps() or one.restarts:
            raise DemoError(f"{one.name} lost steps, or was started again: see above")
    if small.sizes != [NEEDED]:
        raise DemoError(f"small saw the sizes {small.sizes}, not {[NEEDED]}")


def format_changes(trainings: Sequence[Training]) -> list[str]:
    """A table: when the size of any training changed, and all of them from then on."""
    lines = ["  world sizes over time" + "".join(f"{one.name:>8}" for one in trainings)]
    for seconds, sizes in list_changes(trainings):
        lines.append(f"{seconds:>21.1f} s" + "".join(f"{size or '-':>8}" for size in sizes))
    return lines


def build_queue() -> dict[str, Any]:
    """The example queue under a name of the demo's own: queues are the whole cluster's."""
    queue = _read_example("training_queue.yaml")
    queue["metadata"]["name"] = QUEUE
    return queue


def build_jobs(image: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The large and the small example job in the demo's queue, on this image."""
    return (
        _build_job("queued_large.yaml", image, STEPS_LARGE),
        _build_job("queued_small.yaml", image, STEPS_SMALL),
    )


def _build_job(name: str, image: str, steps: int) -> dict[str, Any]:
    job = _read_example(name)
    job["spec"] |= {"queue": QUEUE, "resizeCooldownSeconds": COOLDOWN_SECONDS}
    for role in job["spec"]["etReplicaSpecs"].values():
        [container] = role["template"]["spec"]["containers"]
        container["image"] = image
    [launcher] = job["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"]["containers"]
    command = launcher["command"]
    options = ["--steps", str(steps), "--step-seconds", STEP_SECONDS]
    launcher["command"] = [*command[: command.index("--steps")], *options]
    return job


def _read_example(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text("utf-8"))
    return found
