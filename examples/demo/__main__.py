"""Prepare the cluster and play both scenes.

Exit code 0 only if every job went as it must and the trainings themselves saw the sizes.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from et.errors import EtError, explain
from et_kube.errors import KubeError
from examples.demo import __doc__ as description
from examples.demo import scaling, sharing
from examples.demo.observing import Observer
from examples.demo.places import Place, PlaceError, prepare_embedded, prepare_existing
from examples.demo.trainings import DemoError

NAMESPACE = "et-demo"


def main() -> int:
    """Run the demo; the exit code."""
    parser = argparse.ArgumentParser(prog="make demo", description=description)
    parser.add_argument("--quiet", action="store_true", help="one line a change, no live lines")
    quiet = parser.parse_args().quiet
    started = time.monotonic()
    try:
        place = prepare()
        for scene in (scaling, sharing):
            print(f"\n==> {scene.TITLE}", flush=True)
            with Observer(place, NAMESPACE, live=not quiet) as observer:
                scene.run(observer, place.trainer_image)
    except (DemoError, PlaceError, EtError) as error:
        sys.stderr.write(f"\ndemo failed: {error}\n")
        return 1
    except KubeError as error:
        sys.stderr.write(f"\ndemo failed: {explain(error)}\n")
        return 1
    print(f"\nwhole demo: {time.monotonic() - started:.0f} s")
    return 0


def prepare() -> Place:
    """The cluster with operator and scheduler on it."""
    context = os.environ.get("DEMO_CONTEXT")
    if not context:
        return prepare_embedded()
    return prepare_existing(
        context,
        operator_image=os.environ.get("DEMO_OPERATOR_IMAGE", ""),
        trainer_image=os.environ.get("DEMO_TRAINER_IMAGE", ""),
    )


if __name__ == "__main__":
    sys.exit(main())
