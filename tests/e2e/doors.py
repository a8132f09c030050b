"""What the API server calls, answered by the test itself.

The socket is made inside the cluster's network namespace: a socket belongs to the namespace in
which it was made, not to that of the process that uses it.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from devcluster.settings import GATEWAY, find_cluster

Json = dict[str, Any]
Answer = Callable[[str, Json], Json | None]
"""(path with its query, body of a POST or {}) -> the body of the answer; None: there is no such."""

CLONE_NEWNET = 0x40000000


@contextmanager
def open_door(answer: Answer, folder: Path) -> Iterator[tuple[str, Path]]:
    """Answer HTTPS requests while the context lasts.

    Yields the base address, and the file of the certificate, which is its own authority.
    """
    certificate, key = folder / "door.crt", folder / "door.key"
    make_certificate(certificate, key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with ThreadPoolExecutor(max_workers=1) as thread:  # one that ends: it stays in that namespace
        listener = thread.submit(listen_in_cluster).result()
    door = Door(answer, tls.wrap_socket(listener, server_side=True, do_handshake_on_connect=False))
    server = threading.Thread(target=door.serve_forever)
    server.start()
    try:
        yield f"https://{GATEWAY}:{door.server_port}", certificate
    finally:
        door.shutdown()
        door.server_close()
        server.join()


class Door(ThreadingHTTPServer):
    """A server on a socket that listens already."""

    daemon_threads = True  # one that still holds a request must not hold up the test's end

    def __init__(self, answer: Answer, listener: socket.socket) -> None:
        super().__init__((GATEWAY, 0), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.server_port = listener.getsockname()[1]
        self.answer = answer

    def handle_error(self, request: object, client_address: object) -> None:
        """A caller that hangs up (one that was killed, say) is nobody's failure."""


class Handler(BaseHTTPRequestHandler):
    """JSON in, JSON out."""

    server: Door

    def do_GET(self) -> None:
        self._reply(self.server.answer(self.path, {}))

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self._reply(self.server.answer(self.path, json.loads(self.rfile.read(length))))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base's own name)
        """Nothing: failures are told by who is waited for."""

    def _reply(self, body: Json | None) -> None:
        data = json.dumps({} if body is None else body).encode()
        with suppress(OSError):  # who asked may be dead by now: that is what tests are for
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)


def listen_in_cluster() -> socket.socket:
    """A listening socket at the gateway; leaves the calling thread in the cluster's namespace."""
    with find_cluster().namespace.open() as namespace:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(namespace.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return socket.create_server((GATEWAY, 0))


def make_certificate(certificate: Path, key: Path) -> None:
    """For the gateway's address, signed by itself."""
    command = [
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
        *("-noenc", "-days", "2", "-subj", "/CN=test", "-addext", f"subjectAltName=IP:{GATEWAY}"),
        *("-keyout", str(key), "-out", str(certificate)),
    ]
    subprocess.run(command, check=True, capture_output=True)
