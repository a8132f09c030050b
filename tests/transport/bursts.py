"""A burst of output, hashed on both sides."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from typing import BinaryIO

from fakes.podless import PodlessJob

SHOUT = """
import hashlib, os, sys
size, path = int(sys.argv[1]), sys.argv[2]
block, seen = os.urandom(1 << 20), hashlib.sha256()
while size:
    part = block[:size]
    seen.update(part)
    sys.stdout.buffer.write(part)
    size -= len(part)
sys.stdout.flush()
open(path, "w").write(seen.hexdigest())
sys.exit(3)
"""


async def send_burst(job: PodlessJob, size: int) -> None:
    """A session prints `size` random bytes and ends with 3; they must come whole, and then it."""
    script, told = job.folder / "shout.py", job.folder / "told"
    script.write_text(SHOUT)
    reader, writer = os.pipe()
    with open(reader, "rb", buffering=0) as ours:  # noqa: ASYNC230, PTH123 (a pipe of our own)
        command = f"{sys.executable} -S {script} {size} {told}"
        shim = await job.start_shim(command, stdout=writer)
        os.close(writer)
        seen = await asyncio.to_thread(hash_all, ours)
    assert await shim.wait() == 3
    assert seen == told.read_text()


def hash_all(file: BinaryIO) -> str:
    """Until its end."""
    seen = hashlib.sha256()
    while data := file.read(1 << 20):
        seen.update(data)
    return seen.hexdigest()
