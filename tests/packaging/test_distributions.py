"""The wheel and the sdist: built without a network, installed where nothing else is.

Proven here: the sdist is the clone, passes tests, and builds the wheel; the wheel and the packages
that its metadata names, in the locked versions, are enough to run every console script. They come
from the interpreter that runs the tests, linked one by one, so that a package that is used and not
declared is missing here as it would be for a user. Not proven: that an index serves them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import et_kube

pytestmark = pytest.mark.timeout(120)

ROOT = Path(__file__).resolve().parents[2]
MADE = re.compile(r"PKG-INFO|setup\.cfg|et_operator\.egg-info/.*")
"""What setuptools adds to an sdist."""
EXTRAS = ("", "cli")
PAGES = ("cli", "crds", "deploy", "docs")
"""Tests that read code, manifests and pages."""


def list_sources() -> list[str]:
    """Every file of the clone; of an unpacked sdist, where this test runs as well, all there is."""
    if not (ROOT / ".git").exists():
        found = (path for path in ROOT.rglob("*") if path.is_file() and path.suffix != ".pyc")
        return [name for name in (str(p.relative_to(ROOT)) for p in found) if not MADE.match(name)]
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in names.split("\0") if name and (ROOT / name).exists()]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an sdist and of the wheel that was built from it."""
    clone = tmp_path_factory.mktemp("clone")
    for name in list_sources():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, clone / name, follow_symlinks=False)
    run([sys.executable, "-m", "build", "--no-isolation", "."], folder=clone)
    return clone / "dist"


PACKAGES = {
    "et",
    "et_contract",
    "et_kube",
    "et_notices",
    "et_operator",
    "et_process",
    "et_scheduler",
    "hostdiscovery",
    "launcher",
}


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    [path] = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Distribution:
    [folder] = (path for path in zipfile.Path(wheel).iterdir() if path.name.endswith(".dist-info"))
    return PathDistribution(folder)


@pytest.mark.point("distributions")
def test_the_sdist_is_the_clone(built: Path) -> None:
    [path] = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        packed = {m.name.partition("/")[2] for m in archive.getmembers() if not m.isdir()}
    assert {name for name in packed if not MADE.fullmatch(name)} == set(list_sources())


@pytest.mark.point("distributions")
def test_the_sdist_can_be_tested(built: Path, tmp_path: Path) -> None:
    [path] = built.glob("*.tar.gz")
    shutil.unpack_archive(path, tmp_path)
    [folder] = tmp_path.iterdir()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    run([*command, *(f"tests/unit/test_{name}.py" for name in PAGES)], folder=folder)


@pytest.mark.point("distributions")
def test_the_wheel_has_the_packages_and_nothing_else(wheel: Path, metadata: Distribution) -> None:
    names = {str(file) for file in metadata.files or ()}
    tops = {name.split("/")[0] for name in names} - {wheel.name.split("-py3")[0] + ".dist-info"}
    assert tops == {
        "et",
        "et_contract",
        "et_kube",
        "et_notices",
        "et_operator",
        "et_process",
        "et_scheduler",
        "launcher",
        "hostdiscovery",
    }
    assert {f"{top}/py.typed" for top in tops} <= names
    assert not {"tests", "devcluster", "fakes", "docs", "examples"} & tops


@pytest.mark.point("distributions")
def test_the_version_comes_from_one_place(metadata: Distribution) -> None:
    assert metadata.version == et_kube.__version__


@pytest.mark.point("distributions")
@pytest.mark.parametrize("extra", EXTRAS)
def test_every_console_script_runs_where_only_its_dependencies_are(
    wheel: Path, metadata: Distribution, tmp_path: Path, extra: str
) -> None:
    program = make_environment(tmp_path / "venv", wheel, metadata, extra)
    for name in list_scripts(metadata, extra):
        script = program.with_name(name)
        assert "usage" in run([script, "--help"], folder=tmp_path).lower()
        assert et_kube.__version__ in run([script, "--version"], folder=tmp_path)


def list_scripts(metadata: Distribution, extra: str) -> Iterator[str]:
    """Names of the console scripts that the wheel promises to whoever installs it with `extra`."""
    for entry in metadata.entry_points.select(group="console_scripts"):
        if extra or entry.module.partition(".")[0] == "et_operator":
            yield entry.name


def make_environment(folder: Path, wheel: Path, metadata: Distribution, extra: str) -> Path:
    """An environment with the wheel and what it needs; returns its Python."""
    venv.create(folder, symlinks=True)
    program = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", program, "--isolated"]
    run([*pip, "install", "--quiet", "--no-index", "--no-deps", wheel], folder=folder)
    [packages] = folder.glob("lib/python*/site-packages")
    for name in sorted(find_needed(metadata, extra)):
        link(distribution(name), packages)
    assert "No broken requirements" in run([*pip, "check"], folder=folder)
    return program


def find_needed(metadata: Distribution, extra: str) -> set[str]:
    """Names of all distributions that this one asks for here, directly or not."""
    needed: set[str] = set()
    waiting = [(metadata, extra)]
    while waiting:
        asking, asked = waiting.pop()
        for requirement in map(Requirement, asking.requires or ()):
            marker = requirement.marker
            name = canonicalize_name(requirement.name)
            if name not in needed and (marker is None or marker.evaluate({"extra": asked})):
                needed.add(name)
                waiting += [(distribution(name), more) for more in ("", *requirement.extras)]
    return needed


def link(found: Distribution, packages: Path) -> None:
    """Make the files of an installed distribution importable from `packages`."""
    for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
        (packages / top).symlink_to(Path(str(found.locate_file(top))).resolve())


def run(command: list[str | Path], *, folder: Path) -> str:
    """What the command prints; it fails with all of it."""
    environment = {key: os.environ[key] for key in ("HOME", "PATH", "TMPDIR") if key in os.environ}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout
