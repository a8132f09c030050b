"""Hostile inputs for every parser: what comes out is a value or the one error that it promises.

    python -m tests.fuzzing [inputs in all] [seed]

Inputs are good ones with some bytes, words or JSON values changed, so that they reach deep.
The seed decides all of them; an input that breaks a promise is printed.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from et_contract import frames
from et_contract.documents import (
    HostConfig,
    InvalidDocument,
    Member,
    MemberState,
    Report,
    ScriptOrder,
    ScriptResult,
    SessionExit,
    ToldNotice,
    decode_config,
    decode_report,
    encode_config,
    encode_report,
)
from et_contract.frames import Decoder, Frame, ProtocolError
from et_contract.hosts import InvalidHosts, format_hosts, parse_hosts
from launcher.broker import bodies
from launcher.broker.brokering import Broker
from launcher.broker.hosts import HostMemory
from launcher.broker.memories import Identity, Memory, decode_memory, encode_memory
from launcher.protocol import effects
from launcher.protocol.agents import Agent
from launcher.protocol.claims import Claim
from launcher.shim.arguments import UsageError, parse_remote

SESSION = b"s" * 16
ODD = (
    None, True, False, 0, -1, 1, 255, 256, 2**31, 2**63, 2**64, -(2**64), 10**30, 0.5, 1e308,
    float("inf"), float("nan"), "", "x", "0", "\0", "\ud800", "é" * 9, "w-0", [], [[]], {},
    {"": {}}, [0, 0], [-1, 0], ["a"], "s" * 70_000, SESSION.hex(),
)  # fmt: skip
CONFIG = HostConfig(
    "job", "ns", "j", 3, 1, 2, 1,
    tuple(Member(f"w-{n}", f"u-{n}", 1, state, "main") for n, state in enumerate(MemberState)),
    (ScriptOrder("a/1", "true", "w-0:1", (("A", "b"),), 60),),
    notices=(ToldNotice("it ends", "a taint", "2026-01-31T12:00:00Z", ("u-0", "l")),),
    notice_signal="SIGUSR1",
)  # fmt: skip
REPORT = Report(
    1, "l", 2, 3, 3, frozenset({"u-0"}), frozenset({"u-1"}), {"u-0": (SessionExit("ab", 1, "x"),)},
    {"a/1": ScriptResult(0, "out")}, 0, {"ExecForbidden": "no"},
)  # fmt: skip
WELCOME = {
    "instance": "i", "epoch": 1, "closed": False, "terminating": None, "noticed": True,
    "sessions": [
        {"id": SESSION.hex(), "state": "running", "code": None},
        {"id": "00" * 16, "state": "exited", "code": 1, "reason": "exited"},
    ],
}  # fmt: skip
BODIES: dict[int, dict[str, Any]] = {
    frames.HELLO: {
        "job": "j", "pod": "u-0", "epoch": 1, "launcher": "l", "brokerStart": 1, "connection": 1,
    },
    frames.WELCOME: WELCOME,
    frames.SPAWN: {"host": "w-0", "command": "true", "env": {"A": "b"}, "window": 99},
    frames.SPAWNED: {"pid": 1, "instance": "i"},
    frames.ACK: {"window": 300_000},
    frames.DROPPED: {"to": 5},
    frames.SIGNAL: {"signal": 15},
    frames.EXIT: {"code": 0, "produced": [0, 0], "reason": "exited"},
    frames.RESUME: {"host": "w-0", "instance": "i", "received": [0, 0], "window": 99},
    frames.LOST: {"reason": "gone", "code": 137},
    frames.PONG: {"sent": 1.5},
    frames.HOSTS: {"nonce": "n"},
    frames.LAUNCH: {"nonce": "n", "noticed": False},
    frames.SCRIPT_DONE: {"id": "a/1", "code": 0, "output": "o", "timedOut": False},
    frames.ENDED: {"code": 0},
    frames.NOTICE: {
        "notice": {
            "reason": "r", "source": "s", "deadline": "2026-01-31T12:00:00Z",
            "pods": {"w-0": "2026-01-31T12:00:00Z", "w-1": None},
        },
        "signal": "SIGUSR1",
    },
}  # fmt: skip
COMMANDS = (
    ["-o", "StrictHostKeyChecking=no", "-p", "22", "w-0", "cd /x ; A=b exec python train.py"],
    ["-x", "-l", "root", "root@w-1.svc", "--", "orted", "-mca", "ess", "env"],
    ["-tt", "10.0.0.1", "true"],
)
HOSTS = "w-0:1\nw-1:8\nedl-nudge-1:0\n"


class Fuzzer:
    """Changes good inputs; `dice` is the only source of chance."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice

    def bytes(self, data: bytes) -> bytes:
        """Flip, cut, double, insert."""
        out = bytearray(data)
        for _ in range(self.dice.randint(0, 3)):
            place = self.dice.randint(0, len(out))
            kind = self.dice.randrange(5)
            if kind == 0 and place < len(out):
                out[place] = self.dice.randrange(256)
            elif kind == 1:
                del out[place:]
            elif kind == 2:
                del out[place : place + self.dice.randint(1, 8)]
            elif kind == 3:
                out[place:place] = self.dice.randbytes(self.dice.randint(1, 8))
            else:
                out += out[place : place + 64]
        return bytes(out)

    def text(self, text: str) -> str:
        """The same for characters, any of Unicode."""
        return self.bytes(text.encode()).decode(errors=self.dice.choice(("replace", "ignore")))

    def json(self, value: Any) -> Any:
        """Another value somewhere inside, a key less or one more."""
        if self.dice.random() < 0.15 or not isinstance(value, (dict, list)) or not value:
            return self.dice.choice(ODD) if self.dice.random() < 0.7 else value
        copy = value.copy()
        keys = list(copy) if isinstance(copy, dict) else range(len(copy))
        key = self.dice.choice(keys)
        if self.dice.random() < 0.1:
            del copy[key]
        else:
            copy[key] = self.json(copy[key])
        return copy

    def dump(self, value: Any) -> str:
        """JSON of a changed value, now and then with changed characters."""
        text = json.dumps(self.json(value))
        return self.text(text) if self.dice.random() < 0.2 else text

    def frame(self) -> Frame:
        """One with a changed body, header fields that may be wrong, or bytes for a payload."""
        kind = self.dice.choice(list(frames.NAMES))
        if kind == frames.DATA:
            payload = b"x" * self.dice.choice((0, 1, 9, 40_000))
        elif kind in BODIES:
            payload = self.dump(BODIES[kind]).encode("utf-8", "surrogatepass")
        else:
            payload = self.dice.choice((b"", b"{}", b"[]", b"{"))
        session = self.dice.choice((SESSION, SESSION, SESSION, frames.NO_SESSION, b"t" * 16))
        offset = self.dice.choice((0, 0, 1, 5, 40_000, 2**63, 2**64 - 1))
        return Frame(kind, session, self.dice.choice((0, 1, 1, 2, 9)), offset, payload)


@contextmanager
def allowing(*errors: type[Exception]) -> Iterator[None]:
    """These are promised; any other goes on."""
    try:
        yield
    except errors:
        return


# ---------------------------------------------------------------- parsers
def fuzz_frames(fuzzer: Fuzzer) -> None:
    good = [fuzzer.frame() for _ in range(3)]
    data = b"".join(
        frames.encode(f.type, f.session, f.payload, flags=f.flags, offset=f.offset) for f in good
    )
    data = fuzzer.bytes(data)
    decoder = Decoder()
    with allowing(ProtocolError):
        while data:
            size = fuzzer.dice.choice((1, 7, 32, 1000, 100_000))
            decoder.feed(data[:size])
            data = data[size:]
            for frame in decoder:
                assert frame.type in frames.NAMES


def fuzz_bodies(fuzzer: Fuzzer) -> None:
    frame = fuzzer.frame()
    for read in (bodies.read_welcome, bodies.read_exit, bodies.read_opening, bodies.read_pong):
        with allowing(ProtocolError):
            read(frame)  # type: ignore[operator]  # of one shape


def fuzz_config(fuzzer: Fuzzer) -> None:
    with allowing(InvalidDocument):
        config = decode_config(fuzzer.dump(json.loads(encode_config(CONFIG))))
        assert decode_config(encode_config(config)) == config


def fuzz_report(fuzzer: Fuzzer) -> None:
    with allowing(InvalidDocument):
        report = decode_report(fuzzer.dump(json.loads(encode_report(REPORT))))
        assert decode_report(encode_report(report)) == report


def fuzz_memory(fuzzer: Fuzzer) -> None:
    whole = json.loads(encode_memory(Memory(REPORT, HostMemory(generation=1))))
    with allowing(InvalidDocument):
        memory = decode_memory(fuzzer.dump(whole))
        assert decode_memory(encode_memory(memory)) == memory


def fuzz_arguments(fuzzer: Fuzzer) -> None:
    words = [
        fuzzer.text(word) if fuzzer.dice.random() < 0.3 else word
        for word in fuzzer.dice.choice(COMMANDS)
    ]
    fuzzer.dice.shuffle(words)
    with allowing(UsageError):
        remote = parse_remote(words)
        assert remote.host
        assert remote.command in " ".join(words)


def fuzz_discovery(fuzzer: Fuzzer) -> None:
    with allowing(InvalidHosts):
        hosts = parse_hosts(fuzzer.text(HOSTS))
        assert parse_hosts(format_hosts(hosts)) == hosts


# ---------------------------------------------------------------- what stands behind the parsers
def fuzz_agent(fuzzer: Fuzzer) -> None:
    agent = Agent(instance="i", job="j", pod="u-0", epoch=1, grace=30)
    agent.connected(1, 0.0)
    hello = json.dumps(BODIES[frames.HELLO]).encode()
    agent.receive(1, Frame(frames.HELLO, frames.NO_SESSION, 0, 0, hello), 0.0)
    for _ in range(4):
        with allowing(ProtocolError):
            for effect in agent.receive(1, fuzzer.frame(), 1.0):
                if isinstance(effect, effects.ShowNotice) and effect.text:
                    assert set(json.loads(effect.text)) == {"reason", "source", "deadline", "pods"}
                    assert effect.text.isascii()
                if isinstance(effect, effects.Spawn):
                    agent.started(effect.session, 7)
                    agent.output(effect.session, 1, b"out")
        while agent.next_data(1) is not None:
            pass
    agent.tick(40.0)


def fuzz_claim(fuzzer: Fuzzer) -> None:
    claim = Claim(session=SESSION, host="w-0", command="c")
    claim.opening()
    for _ in range(4):
        with allowing(ProtocolError):
            claim.receive(fuzzer.frame())
        for channel in frames.CHANNELS:
            claim.wrote(channel, len(claim.unwritten(channel)))
        claim.outgoing()
    if claim.exit_code == 0:
        assert claim.is_complete
    claim.opening()


class Nowhere:
    """Wire and shelf that take everything."""

    is_kept = True

    def to_agent(self, uid: str, data: bytes) -> None:
        list(_decode(data))

    def to_peer(self, peer: int, data: bytes, sessions: int = 1) -> bool:
        list(_decode(data))
        return True

    def hang_up(self, peer: int) -> None:
        pass

    def publish(self, text: str) -> None:
        parse_hosts(text)

    def keep(self, memory: Memory) -> None:
        assert decode_memory(encode_memory(memory)) == memory


def _decode(data: bytes) -> Iterator[Frame]:
    decoder = Decoder()
    decoder.feed(data)
    yield from decoder


def fuzz_broker(fuzzer: Fuzzer) -> None:
    edge = Nowhere()
    fresh = Memory(Report(1, "l", 1))
    broker = Broker(Identity("job", "ns", "j", 1, "l"), fresh, wire=edge, shelf=edge, now=0.0)
    broker.take_config(CONFIG, 0.0)
    opening = json.dumps(BODIES[frames.SPAWN]).encode()
    broker.take_peer_frame(1, Frame(frames.SPAWN, SESSION, 0, 0, opening), 0.0)
    for now in range(5):
        frame = fuzzer.frame()
        with allowing(ProtocolError):
            if frame.type == frames.WELCOME:
                broker.take_welcome("u-0", bodies.read_welcome(frame), float(now))
            elif fuzzer.dice.random() < 0.5:
                broker.take_agent_frame("u-0", frame, float(now))
            else:
                broker.take_peer_frame(fuzzer.dice.randint(1, 2), frame, float(now))
        broker.conclude(float(now))
    broker.lose_peer(1, 9.0)
    broker.conclude(200.0)


Targets = tuple[tuple[Callable[[Fuzzer], None], int], ...]
TARGETS: Targets = (
    (fuzz_frames, 20), (fuzz_bodies, 20), (fuzz_config, 10), (fuzz_report, 10), (fuzz_memory, 10),
    (fuzz_arguments, 10), (fuzz_discovery, 10), (fuzz_agent, 4), (fuzz_claim, 4), (fuzz_broker, 2),
)  # fmt: skip
"""Each with its share of a hundred inputs."""


@dataclass(frozen=True, slots=True)
class Done:
    """How many inputs of a target were tried."""

    name: str
    inputs: int


def run(inputs: int, seed: int, targets: Targets = TARGETS) -> list[Done]:
    """Try all targets; raises what no target may raise, with the input's own seed in a note."""
    done = []
    for target, share in targets:
        count = inputs * share // 100
        for number in range(count):
            own = f"{seed}/{target.__name__}/{number}"
            try:
                target(Fuzzer(random.Random(own)))  # noqa: S311 (a die, not a secret)
            except Exception as error:
                error.add_note(f"input {own}")
                raise
        done.append(Done(target.__name__, count))
    return done


def main(argv: list[str]) -> int:
    """The exit code."""
    inputs = int(argv[0]) if argv else 100_000
    seed = int(argv[1]) if len(argv) > 1 else 1
    for done in run(inputs, seed):
        print(f"{done.name:16} {done.inputs:>9,} inputs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
