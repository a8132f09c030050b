"""What stands in a worker where the launcher has the program that starts processes in workers.

Open MPI looks for it in every rank, by the path that mpirun was told (OMPI_MCA_plm_rsh_agent), and
has no rank start without it. Only the launcher can start processes: here it says so. A program
that is there already is never replaced.
"""

from __future__ import annotations

import os
import sys

from et_contract import frames, paths

REFUSAL = f"""#!/bin/sh
echo "edl: a worker starts no processes in others, only the launcher does" >&2
exit {frames.EXIT_REFUSED}
"""


def place_refusal(path: str = paths.KUBEXEC) -> None:
    """Write the program, unless there is one or the image's author has left no room for it."""
    draft = f"{path}.{os.getpid()}"
    if os.path.exists(path):
        return
    try:
        with open(draft, "w", encoding="ascii") as file:
            file.write(REFUSAL)
        os.chmod(draft, 0o755)  # noqa: S103 (a program for whoever the container runs as)
        os.rename(draft, path)
    except OSError as error:
        sys.stderr.write(f"agent: mpirun cannot be used: no {path}: {error.strerror}\n")
