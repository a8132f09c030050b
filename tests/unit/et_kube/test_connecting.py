from __future__ import annotations

import asyncio
import os
import select
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import certifi
import pytest
import yaml

from et_kube.connecting import (
    LoadedCredentials,
    TokenFile,
    connect,
    load_kubeconfig_access,
    load_pod_access,
)
from et_kube.errors import Unreachable


def make_kubeconfig(path: Path, user: dict, **cluster: object) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1", **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
            {"name": "there", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
        ],
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)


async def test_a_token_is_read_again_when_its_file_changes(tmp_path: Path):
    path = tmp_path / "token"
    path.write_text("one\n")
    token = TokenFile(path)
    assert await token.authorize() == {"Authorization": "Bearer one"}
    renewed = tmp_path / "new"
    renewed.write_text("two\n")
    renewed.replace(path)  # as the kubelet does
    assert await token.authorize() == {"Authorization": "Bearer two"}


async def test_a_token_that_is_none_is_no_answer_until_there_is_one(tmp_path: Path):
    path = tmp_path / "token"
    path.write_bytes(b"\xff\xfe")
    token = TokenFile(path)
    for _ in range(2):
        with pytest.raises(Unreachable, match="token cannot be read"):
            await token.authorize()
    path.write_bytes(b"true one\n")
    assert await token.authorize() == {"Authorization": "Bearer true one"}


async def test_a_token_that_is_gone_is_no_answer(tmp_path: Path):
    with pytest.raises(Unreachable, match="token cannot be read"):
        await TokenFile(tmp_path / "token").authorize()


def test_a_pod_without_an_account_is_told_what_is_missing(tmp_path: Path):
    with pytest.raises(Unreachable, match="no service account is mounted"):
        load_pod_access({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path)


@pytest.mark.parametrize(
    ("host", "url"),
    [("10.0.0.1", "https://10.0.0.1:6443"), ("fd00::1", "https://[fd00::1]:6443")],
)
async def test_a_pod_uses_what_the_kubelet_mounted(tmp_path: Path, host: str, url: str):
    shutil.copy(certifi.where(), tmp_path / "ca.crt")
    (tmp_path / "namespace").write_text("team\n")
    (tmp_path / "token").write_text("planted\n")
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "6443"}
    access = load_pod_access(environ, tmp_path)
    assert (access.url, access.namespace) == (url, "team")
    assert await access.authorize() == {"Authorization": "Bearer planted"}


@pytest.mark.long
async def test_a_kubeconfig_gives_address_namespace_and_token(tmp_path: Path):
    path = make_kubeconfig(tmp_path / "config", {"token": "planted"})
    here = await load_kubeconfig_access(path, None)
    there = await load_kubeconfig_access(path, "there")
    assert (here.url, here.namespace) == ("http://127.0.0.1:1", "default")
    assert there.namespace == "team"
    assert await here.authorize() == {"Authorization": "Bearer planted"}


@pytest.mark.long
@pytest.mark.parametrize("until", ["", ', "expirationTimestamp": "2999-01-01T00:00:00Z"'])
async def test_an_exec_plugin_gives_the_token(tmp_path: Path, until: str):
    plugin = tmp_path / "plugin"
    plugin.write_text(
        "#!/bin/sh\n"
        'echo \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
        f' "status": {{"token": "from-plugin"{until}}}}}\'\n'
    )
    plugin.chmod(0o755)
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(plugin),
            "interactiveMode": "Never",
        }
    }
    access = await load_kubeconfig_access(make_kubeconfig(tmp_path / "config", user), None)
    who = {"Authorization": "Bearer from-plugin"}
    assert await access.authorize() == who

    assert not await access.replace(who)
    plugin.write_text(plugin.read_text().replace("from-plugin", "newer"))
    assert await access.authorize() == who
    assert await access.replace(who)
    assert await access.authorize() == {"Authorization": "Bearer newer"}
    assert await access.replace(who)  # somebody else has loaded them


@pytest.mark.long
async def test_a_plugin_that_hangs_is_told_and_holds_nobody_for_ever(tmp_path: Path):
    plugin, told, number = tmp_path / "plugin", tmp_path / "told", tmp_path / "number"
    os.mkfifo(told)
    plugin.write_text(f"#!/bin/sh\necho $$ >{number}\nexec cat {told}\n")
    plugin.chmod(0o755)
    api = "client.authentication.k8s.io/v1"
    path = make_kubeconfig(
        tmp_path / "config", {"exec": {"apiVersion": api, "command": str(plugin)}}
    )
    with pytest.raises(Unreachable, match="the plugin has not answered within 0 s"):
        await load_kubeconfig_access(path, None, patience=0.05)
    await asyncio.to_thread(told.write_text, "")  # now it ends
    with suppress(ProcessLookupError):  # the loop has reaped it
        end = os.pidfd_open(int(number.read_text()))
        await asyncio.to_thread(select.select, [end], [], [], 10)
        os.close(end)
    await forget_children()


async def forget_children() -> None:
    """Until the loop knows of all ends, and has closed what it had of them."""
    for thread in threading.enumerate():
        if "waitpid" in thread.name:
            await asyncio.to_thread(thread.join, 10)
    for _ in range(10):
        await asyncio.sleep(0)


async def test_nor_one_that_hangs_later():
    class Loader:
        async def load_and_set(self, _: object) -> None:
            await asyncio.Event().wait()

    settings = SimpleNamespace(api_key={"BearerToken": "Bearer one"})
    credentials = LoadedCredentials(Loader(), settings, 0.01)
    with pytest.raises(Unreachable, match="no fresh credentials: the plugin has not answered"):
        await credentials.replace(await credentials.authorize())


async def test_the_servers_name_and_proxy_go_with_every_request(tmp_path: Path):
    cluster = {"tls-server-name": "kubernetes", "proxy-url": "http://127.0.0.1:2"}
    path = make_kubeconfig(tmp_path / "config", {}, **cluster)
    access = await load_kubeconfig_access(path, None)
    assert access.options == {"server_hostname": "kubernetes", "proxy": "http://127.0.0.1:2"}
    assert await access.authorize() == {}


@pytest.mark.parametrize("content", ["{}", "[", "a: b"], ids=["empty", "not yaml", "no config"])
async def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path, content: str):
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(Unreachable, match="cannot be used"):
        await load_kubeconfig_access(str(path), None)


async def test_a_kubeconfig_that_is_missing_is_named(tmp_path: Path):
    with pytest.raises(Unreachable, match="cannot be used"):
        async with connect(kubeconfig=str(tmp_path / "nowhere")):
            pass


@pytest.mark.long
def test_the_way_that_pods_take_imports_no_generated_models():
    code = (
        "import sys, et_kube.rest, et_kube.execing;"
        "sys.exit('kubernetes_asyncio' in sys.modules or 'structlog' in sys.modules)"
    )
    root = Path(__file__).parents[3]
    environ = {**os.environ, "PYTHONPATH": str(root)}
    result = subprocess.run([sys.executable, "-c", code], env=environ, check=False, timeout=60)
    assert result.returncode == 0
