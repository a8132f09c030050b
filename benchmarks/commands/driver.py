"""All slots of a job in one process, as a horovodrun does that starts them without shims.

    python driver.py <broker socket> starts <host> <count>      sessions one after the other
    python driver.py <broker socket> slots <slots> <host>...    all at once, held until SIGTERM

Prints one JSON object when it has measured. The slots run a command that says so and sleeps.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time

from et_contract import frames
from launcher.protocol.claims import Claim

SLOT = "echo up; exec sleep 3600"
SHORT = "exit 0"


class Slot:
    """One session: a claim and its connection."""

    def __init__(self, host: str, command: str) -> None:
        self.claim = Claim(session=os.urandom(16), host=host, command=command)
        self.spawned_at = 0.0
        self.first_at = 0.0
        self._decoder = frames.Decoder()

    async def run(self, path: str, *, until_output: bool = False) -> float:
        """Until it has ended, or printed; when its SPAWN was sent."""
        reader, writer = await asyncio.open_unix_connection(path)
        sent = time.perf_counter()
        writer.write(self.claim.opening())
        while self.claim.exit_code is None and not (until_output and self.first_at):
            self._decoder.feed(await reader.read(65536))
            for frame in self._decoder:
                self._take(frame)
            writer.write(self.claim.outgoing())
        if not until_output:
            writer.close()
        self._kept = (reader, writer)
        return sent

    def _take(self, frame: frames.Frame) -> None:
        now = time.perf_counter()
        if frame.type == frames.SPAWNED:
            self.spawned_at = now
        self.claim.receive(frame)
        for channel in frames.CHANNELS:
            size = len(self.claim.unwritten(channel))
            if size:
                self.first_at = self.first_at or now
                self.claim.wrote(channel, size)


async def measure_starts(path: str, host: str, count: int) -> dict[str, list[float]]:
    """Seconds from SPAWN to SPAWNED, and to the known end of a command that does nothing."""
    starts, ends = [], []
    for _ in range(count):
        slot = Slot(host, SHORT)
        sent = await slot.run(path)
        starts.append(slot.spawned_at - sent)
        ends.append(time.perf_counter() - sent)
    return {"starts": starts, "ends": ends}


async def hold_slots(path: str, hosts: list[str], slots: int) -> list[Slot]:
    """All slots at once; prints the seconds in which each was known to run."""
    held = [Slot(host, SLOT) for host in hosts for _ in range(slots)]
    begin = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for slot in held:
            group.create_task(slot.run(path, until_output=True))
    print(json.dumps({"slots": sorted(slot.first_at - begin for slot in held)}), flush=True)
    return held


async def main(path: str, what: str, *rest: str) -> None:
    """See the module."""
    if what == "starts":
        print(json.dumps(await measure_starts(path, rest[0], int(rest[1]))), flush=True)
        return
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    held = await hold_slots(path, list(rest[1:]), int(rest[0]))
    await stop.wait()
    del held


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
