"""Keys, certificates and kubeconfigs, made by the openssl command.

In the cluster's own folder, which its owner alone can read. Keys and certificates that are there
stay as they are, for other parts of the cluster know them; kubeconfigs are written anew.
"""

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from devcluster.commands import run
from devcluster.settings import API_PORT, GATEWAY, SERVICE_ADDRESS, Cluster, Node

_DAYS = "3650"
_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc")
_API_NAMES = (
    f"IP:127.0.0.1,IP:{GATEWAY},IP:{SERVICE_ADDRESS},DNS:localhost,DNS:kubernetes,"
    "DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
)
INSIDE = f"https://{GATEWAY}:{API_PORT}"


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a certificate is for: the file's name, the distinguished name and the other names."""

    file: str
    name: str
    other_names: str = ""


_SUBJECTS = (
    Subject("apiserver", "/CN=kube-apiserver", _API_NAMES),
    Subject("apiserver-kubelet", "/O=system:masters/CN=kube-apiserver-kubelet-client"),
    Subject("admin", "/O=system:masters/CN=admin"),
    Subject("controller-manager", "/CN=system:kube-controller-manager"),
    Subject("scheduler", "/CN=system:kube-scheduler"),
    Subject("simulator", "/O=system:masters/CN=simulator", f"IP:{GATEWAY}"),
)


def make_cluster_certificates(cluster: Cluster) -> None:
    """Make what the control plane needs, unless it is there."""
    folder = cluster.certificates
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (folder / "ca.crt").exists():
        _make(folder, "ca", "-subj", f"/CN={cluster.name}-ca")
    if not (folder / "service-accounts.pub").exists():
        key, public = folder / "service-accounts.key", folder / "service-accounts.pub"
        run(
            [
                "openssl",
                "genpkey",
                "-algorithm",
                "EC",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-out",
                key,
            ]
        )
        run(["openssl", "pkey", "-in", key, "-pubout", "-out", public])
    for subject in _SUBJECTS:
        make_certificate(folder, subject)
        write_kubeconfig(folder, subject.file, INSIDE, folder / f"{subject.file}.conf")


def make_node_certificates(node: Node) -> None:
    """Make what one kubelet needs, unless it is there."""
    folder = node.cluster.certificates
    names = f"IP:{node.address},DNS:{node.name}"
    make_certificate(
        folder, Subject(node.name, f"/O=system:nodes/CN=system:node:{node.name}", names)
    )
    write_kubeconfig(folder, node.name, INSIDE, folder / f"{node.name}.conf")


def make_certificate(folder: Path, subject: Subject) -> None:
    """Make SUBJECT.key and SUBJECT.crt, signed by ca.crt, unless they are there."""
    if (folder / f"{subject.file}.crt").exists():
        return
    authority: list[str | Path] = [
        "-CA",
        folder / "ca.crt",
        "-CAkey",
        folder / "ca.key",
        "-subj",
        subject.name,
    ]
    extensions = [
        "-addext",
        "extendedKeyUsage=clientAuth,serverAuth",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
    ]
    if subject.other_names:
        extensions += ["-addext", f"subjectAltName={subject.other_names}"]
    _make(folder, subject.file, *authority, *extensions)


def write_kubeconfig(folder: Path, user: str, server: str, path: Path) -> None:
    """Write a kubeconfig that needs no other file."""
    cluster = {"server": server, "certificate-authority-data": _encode(folder / "ca.crt")}
    credentials = {
        "client-certificate-data": _encode(folder / f"{user}.crt"),
        "client-key-data": _encode(folder / f"{user}.key"),
    }
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "devcluster", "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "devcluster", "context": {"cluster": "devcluster", "user": user}}],
        "current-context": "devcluster",
    }
    new = path.with_name(path.name + ".new")
    new.touch(mode=0o600)
    new.write_text(json.dumps(content, indent=1) + "\n")
    new.replace(path)


def _make(folder: Path, name: str, *arguments: str | Path) -> None:
    key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
    new = folder / f"{name}.crt.new"
    run(
        [
            "openssl",
            "req",
            "-x509",
            *_CURVE,
            "-days",
            _DAYS,
            "-keyout",
            key,
            "-out",
            new,
            *arguments,
        ]
    )
    new.replace(certificate)


def _encode(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
