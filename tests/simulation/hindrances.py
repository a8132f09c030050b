"""What somebody puts in the operator's way, where it stays until it is taken away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from et_kube.errors import ApiError, Refused, ServerFailed
from et_kube.resources import (
    CONFIG_MAPS,
    NETWORK_POLICIES,
    PODS,
    ROLES,
    SCALE_INS,
    SCALE_OUTS,
    TRAINING_JOBS,
    Resource,
)
from fakes.clients import Call, Moment
from tests.simulation.invariants import OPERATOR

FINALIZER = "example.com/keep"


def refuse(_: Call) -> ApiError:
    """As a policy does."""
    return Refused(403, "Forbidden", "denied by policy keep-out")


def fail(call: Call) -> ApiError:
    """As a webhook does that is away; no two times in the same words."""
    message = f'failed calling webhook "keep-out.example.com": EOF (request {call.number})'
    return ServerFailed(500, "InternalError", message)


@dataclass(frozen=True)
class Hindrance:
    """A policy or a webhook that lets the operator not do one thing to one kind."""

    verb: str
    resource: Resource
    build: Callable[[Call], ApiError] = refuse
    subresource: str = ""

    def __call__(self, call: Call, moment: Moment) -> None:
        """As a Fault of the call log."""
        if moment is not Moment.BEFORE or call.user != OPERATOR:
            return
        what = (call.verb, call.ref.resource, call.subresource)
        if what == (self.verb, self.resource, self.subresource):
            raise self.build(call)


HINDRANCES = tuple(
    Hindrance(verb, resource, build, subresource)
    for build in (refuse, fail)
    for verb, resource, subresource in (
        ("create", PODS, ""),
        ("delete", PODS, ""),
        ("create", ROLES, ""),
        ("patch", ROLES, ""),
        ("create", NETWORK_POLICIES, ""),
        ("create", CONFIG_MAPS, ""),
        ("patch", CONFIG_MAPS, ""),
        ("patch", TRAINING_JOBS, ""),
        ("patch", TRAINING_JOBS, "status"),
        ("patch", SCALE_INS, ""),
        ("patch", SCALE_INS, "status"),
        ("patch", SCALE_OUTS, "status"),
    )
)
"""By verb and kind, each as a policy has it and as a webhook that fails."""
