"""et_kube/api on HTTP: plain JSON, one answer per question, no retries and no models.

A write is sent at most once, but for one that was refused because nobody knew who asked, when there
are other credentials now, and a deletion that met a connection which was closed while at rest (by
aiohttp; each names the uid). Whether it may have happened when no answer comes is told by the kind
of error (see translating).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import aiohttp

from et_kube.api import APPLY_PATCH, MERGE_PATCH, Listing, WatchEvent
from et_kube.connecting import Connection, raise_for_answer
from et_kube.errors import ApiError, Expired, NotLeader, Refused, Unauthorized
from et_kube.parsing import (
    MAX_LOG_LINE,
    TooLarge,
    count_values,
    decode_event,
    name_kind,
    read_lines,
    read_object,
    trim,
)
from et_kube.resources import Json, Ref, Resource, is_name
from et_kube.translating import translated

WRITING: Mapping[str, str] = {"fieldManager": "et-operator"}
"""What is said with every write."""

MAX_BODY = 3 * 2**20
"""Bytes that an API server reads of a body (k8s.io/apiserver, server/config.go)."""

PAGES = 4
"""So many pages of lists are asked for, or held until they are looked at, at a time."""

MOST_LISTS = 4
"""So many times a list is begun that takes longer than its tokens live, whatever came of it; then
as often as more of its objects are known than the time before."""

Guard = Callable[[], None]
"""Called last before a write is sent; raises NotLeader where it must not be."""

Observe = Callable[[str, Resource, int, float], None]
"""Told verb, resource, HTTP status (0: no answer) and seconds of each request."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a request may take in all, a connection to be made, a watch to be silent.

    `page_body` is the size in bytes of a page of a list, `page_values` its number of values: small
    ones take forty times their size in Python; a list in one page may be as large as `whole` of
    these. `body` is the size of an object, of a line with one, and of a page with one. An API
    server takes 3 MiB of one (etcd 1.5), and writes some characters ("<", controls) as six: what is
    larger would keep every list of its kind from its end.

    The server sends a bookmark each minute, so a watch that is silent for longer is dead.
    Connecting is short because the guard was asked before it.
    """

    call: timedelta = timedelta(seconds=15)
    listing: timedelta = timedelta(seconds=60)
    connect: timedelta = timedelta(seconds=3)
    silence: timedelta = timedelta(seconds=70)
    page: int = 500
    page_body: int = 2**23
    page_values: int = 500_000
    whole: int = 4
    body: int = 20 * 2**20


@dataclass(frozen=True, slots=True)
class Request:
    """One request, ready to be sent. `timeout` None: a stream, which may only not be silent."""

    verb: str
    method: str
    resource: Resource
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: object = None
    content_type: str = "application/json"
    timeout: timedelta | None = None

    @property
    def is_write(self) -> bool:
        """Whether it changes anything."""
        return self.method != "GET"


class _Once:
    """What is kept of each object: looked at once for each of its versions.

    The last one of each is remembered; nothing where nothing is kept, as of all that is no job's.
    """

    def __init__(self, keep: Callable[[Json], Any]) -> None:
        self._keep = keep
        self._known: dict[Any, tuple[Any, Any]] = {}
        """By uid: the version and what is kept of it."""

    @property
    def size(self) -> int:
        """How many objects are known."""
        return len(self._known)

    def __call__(self, obj: Json) -> Any:
        meta = obj.get("metadata") or {}
        uid, version = meta.get("uid"), meta.get("resourceVersion")
        known, kept = self._known.get(uid, (None, None))
        if known is None or known != version:
            kept = self._keep(obj)
            if kept is not None and uid and version:
                self._known[uid] = version, kept
        return kept


@dataclass(slots=True)
class _Outcome:
    """What is known of a request while it runs."""

    code: int = 0


DEFAULT_LIMITS = Limits()


class Rest:
    """An api.Api over one connection.

    Args:
        connection: where to and as whom.
        guard: asked last before each write.
        observe: told of each request.
        limits: on time and page size.
        writing: query parameters of every create and patch.
        hear: told with each answer what time it is there.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        guard: Guard | None = None,
        observe: Observe | None = None,
        limits: Limits = DEFAULT_LIMITS,
        writing: Mapping[str, str] = WRITING,
        hear: Callable[[datetime], None] | None = None,
    ) -> None:
        self._connection = connection
        self._guard = guard
        self._observe = observe
        self._limits = limits
        self._writing = writing
        self._hear = hear
        self._pages = asyncio.Semaphore(PAGES)
        """Whose page of a list is asked for or held."""
        self._page = asyncio.Lock()
        """Whose page of a list is looked at."""

    def guarded(self, guard: Guard) -> Rest:
        """An Api on the same connection whose every write must pass `guard`.

        Of all that is limited both have one share.
        """
        other = copy(self)
        other._guard = guard  # noqa: SLF001 (one of ours)
        return other

    async def list(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str | None = None,
        keep: Callable[[Json], Any] | None = None,
    ) -> Listing:
        """See Api.list."""
        params = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "resourceVersion": resource_version or "",
        }
        place = (resource, namespace, params)
        look = None if keep is None else _Once(keep)
        lists, known = 0, 0
        while lists < MOST_LISTS or (look is not None and look.size > known):
            lists, known = lists + 1, look.size if look else 0
            with suppress(Expired):
                return await self._list_pages(*place, page=self._limits.page, keep=look)
            # The token for the next page lives for minutes only; one page has no next.
            with suppress(TooLarge):
                return await self._list_pages(*place, page=0, keep=look)
            # Where looking at them took so long, they are known now, and it goes faster.
        raise TooLarge(f"list {resource.plural}: too large for one page, and the next ones expire")

    async def watch(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout: timedelta,  # noqa: ASYNC109 (the server's own time-out)
    ) -> AsyncGenerator[WatchEvent, None]:
        """See Api.watch. To stop early, close the generator (contextlib.aclosing)."""
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, int(timeout.total_seconds()))),
            "resourceVersion": resource_version,
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
        }
        path = build_path(resource, namespace)
        request = Request("watch", "GET", resource, path, params)
        longest = self._limits.body
        async with (
            self._send(request) as response,
            aclosing(read_lines(response, longest)) as lines,
        ):
            async for line in lines:
                yield decode_event(line)
                await asyncio.sleep(0)  # a chunk has hundreds of them: see _take_page

    async def get(self, ref: Ref) -> Json:
        """See Api.get."""
        return await self._call(Request("get", "GET", ref.resource, build_ref_path(ref)))

    async def get_managed(self, ref: Ref) -> Json:
        """See Api.get_managed."""
        request = Request("get", "GET", ref.resource, build_ref_path(ref))
        return await self._call(request, is_whole=True)

    async def create(self, resource: Resource, namespace: str | None, manifest: Json) -> Json:
        """See Api.create."""
        path = build_path(resource, namespace)
        request = Request("create", "POST", resource, path, self._writing, manifest)
        return await self._call(request)

    async def dry_run(self, resource: Resource, namespace: str | None, manifest: Json) -> Json:
        """See Api.dry_run."""
        path, params = build_path(resource, namespace), {**self._writing, "dryRun": "All"}
        return await self._call(Request("dry-run", "POST", resource, path, params, manifest))

    async def patch(
        self,
        ref: Ref,
        body: Json | Sequence[Any],
        *,
        subresource: str = "",
        content_type: str = MERGE_PATCH,
    ) -> Json:
        """See Api.patch."""
        path, params = build_ref_path(ref, subresource), dict(self._writing)
        if content_type == APPLY_PATCH:
            params["force"] = "true"
        return await self._call(
            Request("patch", "PATCH", ref.resource, path, params, body, content_type)
        )

    async def delete(
        self,
        ref: Ref,
        *,
        uid: str,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
        propagation: str | None = None,
    ) -> None:
        """See Api.delete."""
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": omit_none({"uid": uid, "resourceVersion": resource_version}),
            "gracePeriodSeconds": grace_seconds,
            "propagationPolicy": propagation,
        }
        path = build_ref_path(ref)
        await self._call(Request("delete", "DELETE", ref.resource, path, body=omit_none(options)))

    async def read_log(self, ref: Ref, params: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """The lines of a container's log that are not blank, without their ends.

        Args:
            ref: the pod.
            params: as the API server's own: container, follow, sinceTime, tailLines, timestamps.
        """
        request = Request("get", "GET", ref.resource, build_ref_path(ref, "log"), params)
        async with (
            self._send(request) as response,
            aclosing(read_lines(response, MAX_LOG_LINE)) as lines,
        ):
            async for line in lines:
                yield line

    async def _list_pages(
        self,
        resource: Resource,
        namespace: str | None,
        params: Mapping[str, str],
        *,
        page: int,
        keep: Callable[[Json], Any] | None,
    ) -> Listing:
        """All pages; where large objects make one too large, it is asked for in smaller ones."""
        path = build_path(resource, namespace)
        query = {**params, "limit": str(page or "")}
        items: list[Any] = []
        while True:
            request = Request("list", "GET", resource, path, query, timeout=self._limits.listing)
            try:
                objects, meta = await self._read_page(request, keep)
            except TooLarge:
                if page <= 1:
                    raise
                page = max(page // 8, 1)
                query = {**query, "limit": str(page)}
                continue
            page = min(page * 2, self._limits.page)
            items += objects
            if not meta.get("continue"):
                return Listing(tuple(items), meta.get("resourceVersion", ""))
            token = {"continue": meta["continue"], "resourceVersion": "", "limit": str(page)}
            query = {**query, **token}

    async def _read_page(
        self, request: Request, keep: Callable[[Json], Any] | None
    ) -> tuple[Sequence[Any], Json]:
        """A page, once it is its turn: what was asked for waits in memory for those before it.

        All have their turn in the order in which they came, each page anew, and the time of a
        request begins with it. An answer that hangs has its place until then, and asks again behind
        all others.
        """
        async with self._pages:
            return await self._take_page(await self._fetch(request), request, keep)

    async def _take_page(
        self, body: bytes, request: Request, keep: Callable[[Json], Any] | None
    ) -> tuple[Sequence[Any], Json]:
        """What is kept of the objects of a page, and the list's metadata.

        Their authors decide how long each takes, so all others have their turn after it; but no
        other page, for two at once would be too much.
        """
        async with self._page:
            answer = read_object(body, describe(request))
            found = [item for item in answer.get("items") or () if isinstance(item, dict)]
            meta: Json = answer.get("metadata") or {}
            if keep is None:
                return [name_kind(item, request.resource) for item in found], meta
            kept = []
            for item in found:
                kept.append(keep(name_kind(item, request.resource)))
                await asyncio.sleep(0)
            return kept, meta

    async def _read_body(self, response: aiohttp.ClientResponse, request: Request) -> bytes:
        """All of an answer, unless it is larger than the limit."""
        body = bytearray()
        page = request.params.get("limit")
        is_page = request.verb == "list" and page != "1"
        pages = 1 if page else self._limits.whole
        longest = self._limits.page_body * pages if is_page else self._limits.body
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > longest:
                raise TooLarge(f"{describe(request)}: more than {longest} bytes")
        most = self._limits.page_values * pages
        if is_page and count_values(body) > most:
            raise TooLarge(f"{describe(request)}: more than {most} values")
        return bytes(body)

    async def _fetch(self, request: Request) -> bytes:
        """Send a request and read all of its answer."""
        async with self._send(request, request.timeout or self._limits.call) as response:
            return await self._read_body(response, request)

    async def _call(self, request: Request, *, is_whole: bool = False) -> dict[str, Any]:
        """Send a request and read its answer, an object."""
        answer = read_object(await self._fetch(request), describe(request))
        if not is_whole:
            trim(answer)
        return answer

    @asynccontextmanager
    async def _send(
        self, request: Request, total: timedelta | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to a request, its body unread; any status but success is raised."""
        timeout = aiohttp.ClientTimeout(
            total=total.total_seconds() if total else None,
            connect=self._limits.connect.total_seconds(),
            sock_read=None if total else self._limits.silence.total_seconds(),
        )
        with self._observed(request) as outcome, translated(describe(request)):
            who = await self._connection.authorize()
            try:
                response = await self._open(request, who, timeout)
            except Unauthorized:
                # nothing was done: a token may have run out before it was looked at again
                if not await self._connection.replace(who):
                    raise
                response = await self._open(request, await self._connection.authorize(), timeout)
            async with response:
                outcome.code = response.status
                yield response

    async def _open(
        self, request: Request, who: Mapping[str, str], limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        data = None if request.body is None else encode(request.body)
        headers = {"Accept": "application/json", **who}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        if request.is_write and self._guard is not None:
            self._guard()
        response = await self._connection.session.request(
            request.method,
            self._connection.url + request.path,
            params={key: value for key, value in request.params.items() if value},
            data=data,
            headers=headers,
            timeout=limits,
            allow_redirects=False,
            raise_for_status=False,
            **self._connection.choose_options(),
        )
        self._tell_time(response)
        try:
            await raise_for_answer(response)
        except BaseException:
            response.close()
            raise
        return response

    def _tell_time(self, response: aiohttp.ClientResponse) -> None:
        """As its Date says (RFC 9110, 6.6.1); what is no time says nothing."""
        if self._hear is None:
            return
        with suppress(ValueError, OverflowError):
            moment = parsedate_to_datetime(response.headers.get("Date", ""))
            self._hear(moment.replace(tzinfo=moment.tzinfo or UTC))

    @contextmanager
    def _observed(self, request: Request) -> Iterator[_Outcome]:
        outcome = _Outcome()
        loop = asyncio.get_running_loop()
        start = loop.time()
        is_sent = True
        try:
            yield outcome
        except NotLeader:
            is_sent = False
            raise
        except ApiError as error:
            outcome.code = outcome.code or error.status
            raise
        finally:
            if self._observe is not None and is_sent:
                seconds = loop.time() - start
                self._observe(request.verb, request.resource, outcome.code, seconds)


def encode(body: object) -> bytes:
    """A body as it is sent; Refused where the server would read no more of it.

    It would say so and close the connection while we still write: an answer that never comes would
    look as if it might have happened.
    """
    data = json.dumps(body).encode()
    if len(data) > MAX_BODY:
        text = f"it would have {len(data)} bytes, of which an API server reads {MAX_BODY} at most"
        raise Refused(413, "RequestEntityTooLarge", text)
    return data


def describe(request: Request) -> str:
    """A request in words, for messages."""
    return f"{request.verb} {request.path}"


def build_path(resource: Resource, namespace: str | None) -> str:
    """The path of a collection; Refused for what is no name of a namespace."""
    root = f"/apis/{resource.group}" if resource.group else "/api"
    place = f"/namespaces/{quote_name('Namespace', namespace)}" if namespace else ""
    return f"{root}/{resource.version}{place}/{resource.plural}"


def build_ref_path(ref: Ref, subresource: str = "") -> str:
    """The path of an object or of a part of it; Refused for what is no name of one."""
    tail = f"/{subresource}" if subresource else ""
    name = quote_name(ref.resource.kind, ref.name)
    return f"{build_path(ref.resource, ref.namespace)}/{name}{tail}"


def quote_name(kind: str, name: str) -> str:
    """As it stands in a path; Refused where the path would be that of something else."""
    if not is_name(name):
        raise Refused(400, "BadRequest", f"{name!r} is no name of a {kind}")
    return quote(name, safe="")


def omit_none(content: Mapping[str, Any]) -> dict[str, Any]:
    """Without the keys that have no value."""
    return {key: value for key, value in content.items() if value is not None}
