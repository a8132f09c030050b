"""How to reach the API server and who we are to it: one session a process.

Inside a pod this costs no more than aiohttp itself: the broker starts while a user waits for it.
kubernetes_asyncio is imported only for kubeconfig files: it knows their plugins and merge rules.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from et_kube import __version__
from et_kube.errors import Unreachable
from et_kube.translating import translate_answer

MOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts token, ca.crt and namespace."""

DEFAULT_KUBECONFIG = "~/.kube/config"
CREDENTIALS_AGE = 60.0
"""Seconds after which a kubeconfig's credentials are looked at again, as client-go does."""

PLUGIN_SECONDS = 300.0
"""A plugin that gives a kubeconfig's credentials may have a person log in; it hangs after that."""

MAX_REASON = 2**16

T = TypeVar("T")
Authorize = Callable[[], Awaitable[Mapping[str, str]]]
Replace = Callable[[Mapping[str, str]], Awaitable[bool]]
"""Told of headers that were refused; whether there are others now."""


async def keep(_: Mapping[str, str]) -> bool:
    """A Replace for those whose file is read again whenever it changes."""
    return False


@dataclass(frozen=True, slots=True)
class Connection:
    """An API server. Its session raises errors.ApiError for every answer that is not 2xx or 101.

    `options` go with every request: they name the proxy and the server's name in its certificate.
    `trust` says whom to believe; without it, the system's own authorities.
    """

    session: aiohttp.ClientSession
    url: str
    namespace: str
    authorize: Authorize
    options: Mapping[str, Any] = field(default_factory=dict)
    trust: Trust | None = None
    replace: Replace = keep

    def choose_options(self) -> dict[str, Any]:
        """What goes with the next request, besides its headers."""
        tls = {"ssl": self.trust.choose()} if self.trust is not None else {}
        return {**self.options, **tls}


@dataclass(frozen=True, slots=True)
class Access:
    """What a configuration says, before there is a session."""

    url: str
    namespace: str
    trust: Trust
    authorize: Authorize
    options: Mapping[str, Any] = field(default_factory=dict)
    replace: Replace = keep


@asynccontextmanager
async def connect(
    *, kubeconfig: str | None = None, context: str | None = None, program: str = "et-operator"
) -> AsyncIterator[Connection]:
    """A connection to the cluster that the environment means, closed at the end.

    The cluster is that of `kubeconfig`, else $KUBECONFIG, else the pod's own account, else
    ~/.kube/config. `program` is what the audit log calls us.

    Raises:
        Unreachable: no configuration, or one that cannot be used.
    """
    path = kubeconfig or os.environ.get("KUBECONFIG")
    if path is None and context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
        access = load_pod_access(os.environ, MOUNT)
    else:
        access = await load_kubeconfig_access(path or DEFAULT_KUBECONFIG, context)
    async with open_session(program) as session:
        yield Connection(
            session,
            access.url,
            access.namespace,
            access.authorize,
            access.options,
            access.trust,
            access.replace,
        )


def raise_file_limit() -> None:
    """Allow this process as many files as it may have: a connection for each stream of a pod.

    Many images and shells allow a thousand.
    """
    with suppress(ImportError, ValueError, OSError):  # some name a limit that they do not grant
        import resource  # Windows has none, and the command line runs there too

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def open_session(program: str = "et-operator") -> aiohttp.ClientSession:
    """A session as a Connection needs it.

    It has no limit of connections, because each watch and each exec holds one for long.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        headers={"User-Agent": f"{program}/{__version__}"},
        timeout=aiohttp.ClientTimeout(total=None),
        raise_for_status=raise_for_answer,
        read_bufsize=2**18,
    )


async def raise_for_answer(response: aiohttp.ClientResponse) -> None:
    """Raise what an answer other than success means, in the server's own words."""
    if response.status >= 300:  # noqa: PLR2004 (HTTP; redirects are never followed)
        body = bytearray()
        # Half an answer is enough: the status says what it means.
        with suppress(aiohttp.ClientError, OSError):
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > MAX_REASON:
                    break
        raise translate_answer(response.status, bytes(body), response.headers, response.url.path)


def load_pod_access(environ: Mapping[str, str], mount: Path) -> Access:
    """The account that the kubelet mounted: its files are read again whenever they change."""
    host = environ["KUBERNETES_SERVICE_HOST"]
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    authority = str(mount / "ca.crt")
    try:
        trust = Trust(lambda: (authority,), lambda: ssl.create_default_context(cafile=authority))
        namespace = (mount / "namespace").read_text(encoding="utf-8").strip()
    except OSError as error:
        raise Unreachable(f"no service account is mounted in {mount}: {error}") from error
    bracketed = f"[{host}]" if ":" in host else host
    token = TokenFile(mount / "token")
    return Access(f"https://{bracketed}:{port}", namespace, trust, token.authorize)


class Trust:
    """Whom to believe, and as whom to be believed, as files say that somebody else keeps fresh.

    An authority is rotated while we run: for some time both are in the file, then only the new one.
    A connection that is made after that must know it; those that are open live on.

    Args:
        find: the paths of all files that count, None for one that is not there.
        build: TLS from these files; raises OSError.
    """

    def __init__(
        self, find: Callable[[], Sequence[str | None]], build: Callable[[], ssl.SSLContext]
    ) -> None:
        self._find = find
        self._build = build
        self._seen = self._look()
        self._tls = build()

    def choose(self) -> ssl.SSLContext:
        """For the next connection; one stat call a file while they are the same.

        Files that cannot be used, half written or gone, change nothing: they are tried again.
        """
        with suppress(OSError):  # ssl.SSLError is one
            seen = self._look()
            if seen != self._seen:
                self._tls = self._build()
                self._seen = seen
        return self._tls

    def _look(self) -> list[tuple[str, int, int]]:
        paths = [path for path in self._find() if path]
        stats = [(path, Path(path).stat()) for path in paths]
        return [(path, stat.st_mtime_ns, stat.st_ino) for path, stat in stats]


class TokenFile:
    """A bearer token in a file that somebody else keeps fresh."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._token = ""

    async def authorize(self) -> Mapping[str, str]:
        """The header; one stat call while the file is the same.

        Raises:
            Unreachable: there is no token to be read.
        """
        try:
            stat = self._path.stat()
            if self._seen != (stat.st_mtime_ns, stat.st_ino):
                self._token = self._path.read_text(encoding="ascii").strip()
                self._seen = (stat.st_mtime_ns, stat.st_ino)
        except (OSError, UnicodeDecodeError) as error:
            raise Unreachable(f"the token cannot be read: {error}") from error
        return {"Authorization": f"Bearer {self._token}"}


async def load_kubeconfig_access(
    path: str, context: str | None, patience: float = PLUGIN_SECONDS
) -> Access:
    """What a kubeconfig says for a context (None: its current one)."""
    # Half a second of generated models: only people and kubeconfig users pay for it.
    from kubernetes_asyncio import config
    from kubernetes_asyncio.client import Configuration

    settings = Configuration()
    try:
        loader = await _hear_plugin(
            config.load_kube_config(
                config_file=path,
                context=context,
                client_configuration=settings,
                persist_config=False,
            ),
            patience,
        )
        trust = Trust(
            lambda: (settings.ssl_ca_cert, settings.cert_file, settings.key_file),
            lambda: build_tls(settings),
        )
    except Exception as error:  # a file that people write breaks the loader in any way
        raise Unreachable(f"kubeconfig {path} cannot be used: {error}") from error
    chosen = (loader.current_context or {}).get("context", {})
    options = {"proxy": settings.proxy, "server_hostname": settings.tls_server_name}
    credentials = LoadedCredentials(loader, settings, patience)
    return Access(
        settings.host or "https://localhost:443",
        chosen.get("namespace") or "default",
        trust,
        credentials.authorize,
        {name: value for name, value in options.items() if value},
        credentials.replace,
    )


async def _hear_plugin(load: Awaitable[T], seconds: float) -> T:
    """What is loaded; TimeoutError, with words, after so long."""
    try:
        async with asyncio.timeout(seconds):
            return await load
    except TimeoutError as error:
        raise TimeoutError(f"the plugin has not answered within {seconds:.0f} s") from error


def build_tls(settings: Any) -> ssl.SSLContext:
    """TLS as a kubernetes_asyncio Configuration wants it."""
    tls = ssl.create_default_context(cafile=settings.ssl_ca_cert)
    if settings.cert_file:
        tls.load_cert_chain(settings.cert_file, keyfile=settings.key_file)
    if not settings.verify_ssl:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls


class LoadedCredentials:
    """A kubeconfig's token, from wherever it says; loaded again each minute, and when refused."""

    def __init__(self, loader: Any, settings: Any, patience: float) -> None:
        self._patience = patience
        self._loader = loader
        self._settings = settings
        self._lock = asyncio.Lock()
        self._loaded = asyncio.get_running_loop().time()

    async def authorize(self) -> Mapping[str, str]:
        """The header, or none where a client certificate says who we are.

        Raises:
            Unreachable: the plugin or file that gives the token failed.
        """
        async with self._lock:
            if asyncio.get_running_loop().time() - self._loaded > CREDENTIALS_AGE:
                await self._load()
            return self._build()

    async def replace(self, refused: Mapping[str, str]) -> bool:
        """See Replace: loads them anew, but for what somebody else has loaded meanwhile.

        Raises:
            Unreachable: as authorize.
        """
        async with self._lock:
            if self._build() == refused:
                vars(self._loader).pop("exec_plugin_expiry", None)  # it was refused before that
                await self._load()
            return self._build() != refused

    async def _load(self) -> None:
        try:
            await _hear_plugin(self._loader.load_and_set(self._settings), self._patience)
        except Exception as error:
            raise Unreachable(f"no fresh credentials: {error}") from error
        self._loaded = asyncio.get_running_loop().time()

    def _build(self) -> Mapping[str, str]:
        token = self._settings.api_key.get("BearerToken")
        return {"Authorization": token} if token else {}
