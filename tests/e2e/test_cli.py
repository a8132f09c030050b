"""`et` as somebody uses it who has no more than the role `edit`, or `view`, in a namespace."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.e2e.persons import Person
from tests.e2e.world import IMAGE, RealWorld

pytestmark = pytest.mark.cluster

LOOP = """
n=0; seen=
while :; do
  size=$(/etc/edl/discover_hosts.sh | grep -vc ':0$'); n=$((n + 1))
  echo "step=$n loss=0.$n size=$size"
  case "$seen" in *"$size") ;; *) seen=$seen$size ;; esac
  case "$seen" in *3*1*2) exit 0 ;; esac
  sleep 0.3
done
"""
"""A command that takes the hosts with slots for its world; it ends when they were 3, 1, and 2."""


@pytest.mark.point("cli")
def test_a_job_from_submit_to_its_end_with_the_rights_of_edit(
    world: RealWorld, tmp_path: Path
) -> None:
    person = Person(world, "edit", tmp_path)
    flags = ("--name", "loop", "--image", IMAGE, "--replicas", "2", "--min", "1", "--max", "3")

    assert "TrainingJob loop is created" in person.type(
        "submit", *flags, "--raw", "--", "sh", "-c", LOOP
    )
    with person.running("watch", "loop") as watch, person.running("logs", "-f", "loop") as logs:
        world.wait(lambda: "size=2" in world.log("loop-launcher"), "the loop has two hosts")
        grown = person.type("scale", "loop", "--by", "+1", "--wait")
        world.wait(lambda: "size=3" in world.log("loop-launcher"), "the loop has three hosts")
        listed = person.type("list")
        removed = person.type("scale", "loop", "--remove", "1", "--wait")
        lowered = person.type("scale", "loop", "--to", "1", "--wait")
        person.type("scale", "loop", "--to", "2")
        watched, _ = watch.communicate(timeout=120)
        followed, _ = logs.communicate(timeout=120)
    story = json.loads(person.type("describe", "loop", "-o", "json"))["story"]

    assert "loop-worker-2 joined" in grown
    assert re.search(r"^loop +(Running|Scaling) +3/3 +1 +3 +0 ", listed, re.MULTILINE)
    assert "loop-worker-1 left: graceful after" in removed
    assert "loop-worker-2 left: graceful after" in lowered
    assert watch.returncode == 0
    assert "world size 3" in watched
    assert watched.rstrip().endswith("loop has succeeded: the user's command ended with 0")
    steps = re.findall(r"^launcher \| step=(\d+) ", followed, re.MULTILINE)
    assert [int(step) for step in steps] == list(range(1, len(steps) + 1))
    assert set(re.findall(r"size=(\d)", followed)) == {"1", "2", "3"}
    told = [entry["reason"] for entry in story]
    assert told[0] == "Submitted"
    assert told[-1] == "Succeeded"
    assert told.count("ScaleSucceeded") >= 3
    assert "\x1b" not in watched + followed + grown


@pytest.mark.point("cli")
def test_what_is_wrong_is_one_sentence(world: RealWorld, tmp_path: Path) -> None:
    person, editor = Person(world, "view", tmp_path), Person(world, "edit", tmp_path)
    flags = ("--name", "mine", "--image", IMAGE)
    job = yaml.safe_load(editor.type("submit", *flags, "--dry-run", "--", "run"))
    job["spec"]["suspended"] = True
    misspelt = tmp_path / "job.yaml"
    misspelt.write_text(yaml.safe_dump(job))

    refusals = {
        'unknown field "spec.suspended"': editor.type("submit", str(misspelt), code=1),
        "you may not do this: ": person.type("submit", *flags, "--", "run", code=1),
        "there is no TrainingJob 'nobody'": person.type("describe", "nobody", code=1),
        "has no context 'other'": person.type("list", "--context", "other", code=1),
    }
    for words, said in refusals.items():
        assert said.startswith("et: ")
        assert words in said
        assert len(said.splitlines()) == 1
    assert "there is no TrainingJob in namespace" in person.type("list")
