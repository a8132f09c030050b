"""One node as the API server has it for et-notices: applied to, tried, and held by the policy.

In memory, or served on the loopback interface for the real client. Who owns which annotation is
computed by ownership.py; of an API server there is no more than patches of one node.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from et_kube.api import APPLY_PATCH, MERGE_PATCH
from et_kube.errors import ApiError, Conflict, Refused
from et_kube.notices import MAX_WORDS
from et_kube.resources import NODES, Json, Ref
from fakes import ownership
from fakes.documents import copy_json, merge_patch

SCHEMA = ownership.build_schema(None)


class NodeServer:
    """See the module.

    Args:
        name: of the node that the token names.
        refusal: the policy's words.
        own: the annotations that it leaves to this account.
        spec: of the node.

    Attributes:
        is_held: whether the policy is in force.
        writes: the annotations after each write.
        is_written: set by the first one.
        strike: called before each request; raises what the server says instead.
    """

    def __init__(self, name: str, refusal: str, own: Sequence[str], spec: Json) -> None:
        self._refusal = refusal
        self._own = frozenset(own)
        self._version = 1
        self.name = name
        self.node: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "annotations": {"others": "stay"}, "labels": {"a": "b"}},
            "spec": dict(spec),
        }
        kubelet = ownership.Manager("kubelet", "Update")
        self._owners = ownership.note_update({}, kubelet, {}, self.node, SCHEMA)
        self.is_held = True
        self.writes: list[dict[str, str]] = []
        self.is_written = asyncio.Event()
        self.strike: Callable[[], None] = lambda: None

    @property
    def annotations(self) -> dict[str, str]:
        """What is on the node."""
        found: dict[str, str] = self.node["metadata"].get("annotations") or {}
        return found

    def annotate(self, annotations: Mapping[str, str | None], manager: str = "kubectl") -> None:
        """As somebody else does, whom no policy holds."""
        body = {"metadata": {"annotations": annotations}}
        self._store(*self._merge(body, ownership.Manager(manager, "Update")))

    def connect(self, manager: str, *, is_dry: bool = False) -> Client:
        """What this account patches with."""
        return Client(self, manager, is_dry=is_dry)

    def answer(
        self, ref: Ref, body: Json | Sequence[Any], content_type: str, manager: str, *, is_dry: bool
    ) -> Json:
        """One patch of this account's."""
        self.strike()
        if content_type == APPLY_PATCH:
            new, owners = self._apply(body, ownership.Manager(manager, "Apply"))
        else:
            new, owners = self._merge(body, ownership.Manager(manager, "Update"))
        is_own = ref.name == self.name and not self._differs(new)
        if self.is_held and not (is_own and self._is_short(new)):
            words = (
                f"ValidatingAdmissionPolicy 'p' with binding 'p' denied request: {self._refusal}"
            )
            raise Refused(422, "Invalid", f'nodes "{ref.name}" is forbidden: {words}')
        if not is_dry and new != self.node:
            self._store(new, owners)
            self.writes.append(dict(self.annotations))
            self.is_written.set()
        return self._show(new)

    def _differs(self, new: dict[str, Any]) -> bool:
        def strip(node: dict[str, Any]) -> dict[str, Any]:
            metadata = dict(node["metadata"])
            found = metadata.pop("annotations", None) or {}
            kept = {key: text for key, text in found.items() if key not in self._own}
            return {**node, "metadata": {**metadata, "annotations": kept}}

        return strip(new) != strip(self.node)

    def _is_short(self, new: dict[str, Any]) -> bool:
        """Whether nothing that was not there before is longer than the policy takes it."""
        annotations: dict[str, str] = new["metadata"].get("annotations") or {}
        return all(
            len(text) <= MAX_WORDS for _, text in annotations.items() - self.annotations.items()
        )

    def _apply(self, body: Any, who: ownership.Manager) -> tuple[Any, ownership.Owners]:
        config: dict[str, Any] = copy_json(body)
        version = config["metadata"].pop("resourceVersion", None)
        if version not in {None, str(self._version)}:
            raise Conflict(409, "Conflict", "the object has been modified")
        new, owners = ownership.apply(self._owners, who, self.node, config, SCHEMA)
        new["metadata"]["annotations"] = new["metadata"].get("annotations") or {}
        return new, owners

    def _merge(self, body: Any, who: ownership.Manager) -> tuple[Any, ownership.Owners]:
        new = merge_patch(copy_json(self.node), body)
        return new, ownership.note_update(self._owners, who, self.node, new, SCHEMA)

    def _store(self, new: dict[str, Any], owners: ownership.Owners) -> None:
        self._version += 1
        self.node, self._owners = new, owners

    def _show(self, node: dict[str, Any]) -> Json:
        shown: dict[str, Any] = copy_json(node)
        shown["metadata"]["resourceVersion"] = str(self._version)
        return shown


class Client:
    """A client of it: patches, as et_kube/api has them, or tries them."""

    def __init__(self, server: NodeServer, manager: str, *, is_dry: bool) -> None:
        self._server = server
        self._manager = manager
        self._is_dry = is_dry

    async def patch(
        self,
        ref: Ref,
        body: Json | Sequence[Any],
        *,
        subresource: str = "",
        content_type: str = MERGE_PATCH,
    ) -> Json:
        """See Api.patch."""
        return self._server.answer(ref, body, content_type, self._manager, is_dry=self._is_dry)


@asynccontextmanager
async def serving(server: NodeServer, date: str = "") -> AsyncIterator[str]:
    """The URL where patches of it are answered while the context lasts; `date`: then it is."""

    async def answer(request: web.Request) -> web.Response:
        ref = Ref(NODES, "", request.match_info["name"])
        manager, is_dry = request.query["fieldManager"], request.query.get("dryRun") == "All"
        body = await request.json()
        try:
            kind = request.content_type
            return web.json_response(server.answer(ref, body, kind, manager, is_dry=is_dry))
        except ApiError as error:
            status = {"reason": error.reason, "message": error.message, "code": error.status}
            return web.json_response({"kind": "Status", **status}, status=error.status)

    async def tell_time(_: web.Request, response: web.StreamResponse) -> None:
        if date:
            response.headers["Date"] = date

    app = web.Application()
    app.on_response_prepare.append(tell_time)
    app.router.add_patch("/api/v1/nodes/{name}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handle_signals=False)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
