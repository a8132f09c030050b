"""Images as archives in the OCI layout: making one of a single program, and reading one.

Files and nothing else: no image store, no registry. One that is read is never unpacked further than
to its index.
"""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import Any

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"


def write_program_image(program: Path, name: str, path: Path) -> None:
    """Write an image that holds one static program and starts it."""
    layer = _pack({f"{program.name}": program.read_bytes()}, mode=0o755)
    config = _encode(
        {
            "architecture": _find_architecture(),
            "os": "linux",
            "config": {"Entrypoint": [f"/{program.name}"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _encode(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _describe(config, _CONFIG),
            "layers": [_describe(layer, _LAYER)],
        }
    )
    named = _describe(manifest, _MANIFEST) | {"annotations": {"io.containerd.image.name": name}}
    files = {"oci-layout": _encode({"imageLayoutVersion": "1.0.0"})}
    files["index.json"] = _encode({"schemaVersion": 2, "manifests": [named]})
    files |= {
        f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}": blob
        for blob in (layer, config, manifest)
    }
    path.write_bytes(_pack(files, mode=0o644))


def read_digest(path: Path) -> str:
    """Return the digest of the one image in this archive; "" if it is not in the OCI layout."""
    return str(_read_manifest(path).get("digest", ""))


def is_listed(path: Path, listing: str) -> bool:
    """Whether `ctr images list` shows this very image, under the name that the archive gives it."""
    manifest = _read_manifest(path)
    names = manifest.get("annotations", {})
    name = names.get("io.containerd.image.name") or names.get("org.opencontainers.image.ref.name")
    return bool(manifest) and any(
        manifest["digest"] in line and (not name or line.split()[0] == name)
        for line in listing.splitlines()
    )


def _read_manifest(path: Path) -> dict[str, Any]:
    with tarfile.open(path) as archive:
        for member in archive:
            if member.name.removeprefix("./") == "index.json":
                file = archive.extractfile(member)
                manifests = json.load(file)["manifests"] if file else []
                return manifests[0] if len(manifests) == 1 else {}
    return {}


def _find_architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def _pack(files: dict[str, bytes], *, mode: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _describe(blob: bytes, kind: str) -> dict[str, Any]:
    return {"mediaType": kind, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _encode(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode()
