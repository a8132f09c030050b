"""The program itself, between an API server and a metadata service on the loopback interface."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
import yaml

from et_kube.notices import LEAVING_AT
from fakes import metadata, nodes
from fakes.metadata import AwsService, GcpService, Service
from fakes.nodes import NodeServer
from tests.unit.notices.rigs import at as moment
from tests.unit.notices.rigs import build_server, write

ROOT = Path(__file__).resolve().parents[3]


def write_kubeconfig(folder: Path, url: str) -> Path:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": {"server": url}}],
        "users": [{"name": "it", "user": {"token": "planted"}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "current-context": "it",
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return path


async def run_program(tmp_path: Path, server: NodeServer, service: Service, **how: str) -> None:
    """Until the node is told; `date`: what time the API server says that it is."""
    async with nodes.serving(server, how.pop("date", "")) as api, metadata.serving(service) as url:
        environment = {
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(write_kubeconfig(tmp_path, api)),
            "NODE_NAME": "node-1",
            "METADATA_URL": url,
            **how,
        }
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "et_notices"), cwd=ROOT, env=environment
        )
        async with asyncio.timeout(60):
            await server.is_written.wait()
            program.send_signal(signal.SIGTERM)
            assert await program.wait() == 0


@pytest.mark.long
async def test_a_notice_goes_from_the_cloud_to_the_node_and_sigterm_ends_it(tmp_path: Path):
    server, service = build_server(), AwsService()
    service.take_back(write(moment(120)))
    await run_program(tmp_path, server, service)
    assert server.annotations[LEAVING_AT] == "2026-01-01T00:02:00Z"


@pytest.mark.long
async def test_where_nobody_says_when_it_is_told_by_the_api_servers_clock(tmp_path: Path):
    """Which is nowhere near this machine's."""
    server, service = build_server(), GcpService()
    service.take_back()
    date = "Sun, 02 Feb 2020 12:00:00 GMT"
    await run_program(tmp_path, server, service, CLOUD="gcp", date=date)
    assert server.annotations[LEAVING_AT].startswith("2020-02-02T12:00:")
