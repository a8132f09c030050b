from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, resource, sys
from et.clusters import Place, open_cluster
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
async def look():
    async with open_cluster(Place(sys.argv[1])):
        print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
asyncio.run(look())
"""
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "here",
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "planted"}}],
}


def test_a_command_may_open_as_many_logs_as_the_system_allows(tmp_path: Path):
    path = tmp_path / "config"
    path.write_text(json.dumps(KUBECONFIG))
    command = [sys.executable, "-c", PROGRAM, str(path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert int(told.stdout) == resource.getrlimit(resource.RLIMIT_NOFILE)[1]
