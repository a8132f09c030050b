"""A few requests to the API server, from the host through the loopback port.

For devcluster itself, with the standard library: tests and the operator have clients of their own.
A server that does not answer is a sentence that says what to do.
"""

import http.client
import json
import ssl
from typing import Any

from devcluster.failures import DevclusterError
from devcluster.settings import Cluster

_HTTP_ERROR = 400


class Client:
    """The administrator's access to one cluster; every request is a connection of its own."""

    def __init__(self, cluster: Cluster, port: int) -> None:
        """Take the cluster's certificates and the port that its relay listens on."""
        folder = cluster.certificates
        self._port = port
        self._tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        self._tls.load_cert_chain(folder / "admin.crt", folder / "admin.key")

    def is_ready(self, path: str = "/readyz") -> bool:
        """Tell whether the API server answers and calls itself ready."""
        try:
            status, _ = self._request("GET", path)
        except OSError:
            return False
        except http.client.HTTPException:
            return False
        return status == http.client.OK

    def list_nodes(self) -> list[dict[str, Any]]:
        """Return every Node object, real and simulated."""
        found = self.get("/api/v1/nodes")
        return list(found.get("items", []))

    def get(self, path: str) -> dict[str, Any]:
        """Return the object at this path."""
        return self._ask("GET", path)

    def create(self, path: str, content: dict[str, Any]) -> None:
        """Create an object in the collection at this path."""
        self._ask("POST", path, json.dumps(content), "application/json")

    def delete(self, path: str) -> None:
        """Delete the object at this path."""
        self._ask("DELETE", path)

    def _ask(
        self, method: str, path: str, body: str | None = None, kind: str = ""
    ) -> dict[str, Any]:
        try:
            status, answer = self._request(method, path, body, kind)
        except (OSError, http.client.HTTPException) as error:
            message = (
                f"The API server does not answer ({error}): "
                "python -m devcluster up starts what ended."
            )
            raise DevclusterError(message) from error
        if status >= _HTTP_ERROR:
            text = answer.decode(errors="replace")[:300]
            message = f"{method} {path} was answered with {status}: {text}"
            raise DevclusterError(message)
        parsed = json.loads(answer)
        return parsed if isinstance(parsed, dict) else {}

    def _request(
        self, method: str, path: str, body: str | None = None, kind: str = ""
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self._port, timeout=10, context=self._tls
        )
        try:
            connection.request(method, path, body, {"Content-Type": kind} if kind else {})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


def is_node_ready(node: dict[str, Any]) -> bool:
    """Tell whether a Node object says that it is ready and may be used."""
    conditions = node.get("status", {}).get("conditions", [])
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)
