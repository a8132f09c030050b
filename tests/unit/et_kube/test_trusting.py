"""An authority is rotated while we run: files change, and nobody starts us anew."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from et_kube.connecting import Connection, load_pod_access, open_session
from et_kube.errors import OutcomeUnknown, Unreachable
from et_kube.execing import open_exec
from et_kube.resources import CONFIG_MAPS, Ref
from et_kube.rest import Rest

REF = Ref(CONFIG_MAPS, "ns", "x")
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def make_authority(folder: Path, name: str) -> Path:
    """The certificate of an authority; beside it one that it has signed for a server here."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)

    openssl(
        "req", "-x509", *KEY, "-days", "2", "-subj", f"/CN={name}",
        "-keyout", f"{name}.ca.key", "-out", f"{name}.ca",
    )  # fmt: skip
    openssl(
        "req", "-x509", *KEY, "-days", "2", "-subj", "/CN=kubernetes",
        "-addext", "subjectAltName=IP:127.0.0.1",
        "-CA", f"{name}.ca", "-CAkey", f"{name}.ca.key",
        "-keyout", f"{name}.key", "-out", f"{name}.crt",
    )  # fmt: skip
    return folder / f"{name}.ca"


@asynccontextmanager
async def serving(folder: Path, name: str, port: int = 0) -> AsyncIterator[int]:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"metadata": {"resourceVersion": "1"}})

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / f"{name}.crt", folder / f"{name}.key")
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls, reuse_address=True).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def write(path: Path, text: str) -> None:
    """As the kubelet does: another file in its place."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


async def test_an_authority_that_is_rotated_is_believed_by_who_runs_and_the_old_one_no_more(
    tmp_path: Path,
):
    old, new = make_authority(tmp_path, "old"), make_authority(tmp_path, "new")
    mount = tmp_path / "mount"
    mount.mkdir()
    (mount / "token").write_text("planted")
    (mount / "namespace").write_text("ns")
    write(mount / "ca.crt", old.read_text())
    async with serving(tmp_path, "old") as port:
        environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(port)}
        access = load_pod_access(environ, mount)
        session = open_session()
        connection = Connection(session, access.url, "ns", access.authorize, trust=access.trust)
        api = Rest(connection)
        await api.get(REF)
    async with session:
        async with serving(tmp_path, "new", port):
            with pytest.raises(Unreachable, match="certificate"):
                await api.get(REF)
            write(mount / "ca.crt", "half written")
            with pytest.raises(Unreachable, match="certificate"):
                await api.get(REF)
            write(mount / "ca.crt", old.read_text() + new.read_text())
            await api.get(REF)
            with pytest.raises(OutcomeUnknown, match="200"):  # an answer, if no upgrade
                async with open_exec(connection, "ns", "p", container="c", command=["x"]):
                    pass
            write(mount / "ca.crt", new.read_text())
            await api.get(REF)
        async with serving(tmp_path, "old", port):
            with pytest.raises(Unreachable, match="certificate"):
                await api.get(REF)


async def test_while_the_files_are_the_same_so_is_the_context(tmp_path: Path):
    (tmp_path / "token").write_text("planted")
    (tmp_path / "namespace").write_text("ns")
    authority = make_authority(tmp_path, "one")
    authority.rename(tmp_path / "ca.crt")
    trust = load_pod_access({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path).trust
    first = trust.choose()
    assert trust.choose() is first
    (tmp_path / "ca.crt").unlink()
    assert trust.choose() is first
