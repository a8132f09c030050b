"""Agents without processes, for as many streams as one likes: the real state machine, no fork.

Their sessions are started at once, print nothing, and run until a signal ends them.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from et_contract import frames
from launcher.protocol import effects
from launcher.protocol.agents import Agent
from launcher.protocol.fences import Fenced


class Agents:
    """`dial` is what exec means for them, see apiserver.Dial."""

    def __init__(self, job: str = "job-uid") -> None:
        self._job = job
        self._agents: dict[str, Agent] = {}
        self._peers: dict[tuple[str, int], socket.socket] = {}
        self._last_number = 0
        self._epoch = 1

    def dial(self, pod: str) -> socket.socket:
        """A bridge's socket."""
        if pod not in self._agents:
            uid = f"uid-{pod}"
            self._agents[pod] = Agent(
                instance=pod, job=self._job, pod=uid, epoch=self._epoch, grace=30
            )
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        self._last_number += 1
        number = self._last_number
        self._peers[pod, number] = theirs
        self._agents[pod].connected(number, self._now())
        decoder = frames.Decoder()
        asyncio.get_running_loop().add_reader(theirs, self._read, pod, number, decoder)
        return ours

    # ------------------------------------------------------------ inside

    def _end(self, pod: str, session: bytes, code: int) -> None:
        agent = self._agents[pod]
        for channel in frames.CHANNELS:
            self._carry_out(pod, agent.output_ended(session, channel))
        self._carry_out(pod, agent.ended(session, code, "exited", self._now()))
        self._flush(pod)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _read(self, pod: str, number: int, decoder: frames.Decoder) -> None:
        try:
            data = self._peers[pod, number].recv(65536)
        except OSError:
            data = b""
        if not data:
            self._close(pod, number)
            return
        decoder.feed(data)
        try:
            for frame in decoder:
                self._carry_out(pod, self._agents[pod].receive(number, frame, self._now()))
        except frames.ProtocolError as error:
            is_fenced = isinstance(error, Fenced)
            dropped = self._agents[pod].drop(number, str(error), is_fenced=is_fenced)
            self._carry_out(pod, dropped)
        self._flush(pod)

    def _carry_out(self, pod: str, wanted: list[Any]) -> None:
        agent = self._agents[pod]
        for effect in wanted:
            if isinstance(effect, effects.Send):
                self._send(pod, effect.connection, effect.data)
            elif isinstance(effect, effects.Spawn):
                self._carry_out(pod, agent.started(effect.session, 1))
            elif isinstance(effect, effects.Signal):
                self._end(pod, effect.session, 128 + effect.number)
            elif isinstance(effect, effects.Sweep):
                self._carry_out(pod, self._agents[pod].swept(effect.session, 0))
            elif isinstance(effect, effects.Survey):
                self._carry_out(pod, agent.surveyed(0, self._now()))
            elif isinstance(effect, effects.Hang):
                self._close(pod, effect.connection)

    def _flush(self, pod: str) -> None:
        for key in [key for key in self._peers if key[0] == pod]:
            while (data := self._agents[pod].next_data(key[1])) is not None:
                self._send(pod, key[1], data)

    def _send(self, pod: str, number: int, data: bytes) -> None:
        peer = self._peers.get((pod, number))
        # Little is said here: what a socket's buffer cannot hold is not read any more.
        if peer is not None and peer.send(data) != len(data):
            raise BlockingIOError(f"the broker does not read what {pod} says")

    def _close(self, pod: str, number: int) -> None:
        peer = self._peers.pop((pod, number), None)
        if peer is not None:
            asyncio.get_running_loop().remove_reader(peer)
            peer.close()
            self._carry_out(pod, self._agents[pod].disconnected(number))
