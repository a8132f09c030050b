"""Container images: built from ordinary Dockerfiles, kept as archives, loaded into nodes.

No registry of images is asked: bases are made of Debian packages. An image is built only when what
it is made of has changed, and is known by that.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tenacity import Retrying, retry_if_exception, stop_after_attempt

from devcluster import building, hostsettings, locks, nodes, ociimages, reporting
from devcluster.checks import IMAGE_PROGRAMS, check_programs
from devcluster.commands import attempt
from devcluster.failures import DevclusterError
from devcluster.settings import CHECKOUT, OPERATOR_IMAGE, PAUSE_IMAGE, TRAINER_IMAGE, Node

_SUITE = "bookworm"
_KEPT_ARCHIVES = 3
_LEFT_OUT = (
    "/usr/lib/x86_64-linux-gnu/gconv/*",
    "/usr/share/doc/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
)
# the layout with one /usr from the start; the package that would merge it later brings all of perl
_MERGED = "/usr/share/mmdebstrap/hooks/merged-usr"
# how this machine reaches its mirrors is not for the image
_FORGET = 'rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap"'

_IN_ITS_WAY = "sealing memfd copy: Device or resource busy"
"""What a program says that seals a copy of itself while another process, which was just made of
it, has that open yet: it happens on a busy machine, seldom."""


@dataclass(frozen=True, slots=True)
class Base:
    """A root of Debian packages that takes the place of an image from a registry."""

    title: str
    variant: str
    packages: tuple[str, ...]

    @property
    def inputs(self) -> list[str]:
        """All that it is made from."""
        return [self.variant, *self.packages, *_LEFT_OUT, _MERGED, _FORGET, _SUITE]

    @property
    def name(self) -> str:
        """The image's name in the store of buildah, another one whenever it changes."""
        return f"localhost/{self.title}:{building.digest(self.inputs)}"


@dataclass(frozen=True, slots=True)
class Image:
    """What an image is built from; ``inputs`` are paths of the checkout, those that exist count."""

    name: str
    base: Base
    dockerfile: str
    context: str
    inputs: tuple[str, ...] = field(default=())

    @property
    def title(self) -> str:
        """The name without registry and tag."""
        return self.name.rpartition("/")[2].partition(":")[0]


_DEBIAN = Base("debian-base", "minbase", ("usr-is-merged",))
_PYTHON = Base(
    "python-base", "essential", ("libstdc++6", "python3", "python3-venv", "usr-is-merged")
)
OPERATOR = Image(
    OPERATOR_IMAGE,
    _PYTHON,
    "Dockerfile",
    ".",
    (
        "Dockerfile",
        "pyproject.toml",
        "requirements.lock",
        "deploy/requirements.py",
        "et_contract",
        "et_kube",
        "et_notices",
        "et_operator",
        "et_process",
        "et_scheduler",
        "launcher",
        "hostdiscovery",
    ),
)
TRAINER = Image(
    TRAINER_IMAGE,
    _DEBIAN,
    "examples/images/horovod-torch/Dockerfile",
    ".",
    (
        "examples/images/horovod-torch",
        "examples/horovod-torch",
        "examples/mpi4py",
        "examples/scripts",
        "examples/torchrun",
    ),
)


def find_image(cache: Path, image: Image) -> Path:
    """Return the archive of an image, built if what it is made of has changed.

    The archive of the newest build also has the fixed name images/TITLE.tar.
    """
    inputs = [CHECKOUT / name for name in image.inputs if (CHECKOUT / name).exists()]
    key = building.digest([*inputs, *image.base.inputs])
    path = building.keep(cache, f"{image.title}-{key}.tar", lambda new: _build(cache, image, new))
    link = cache / "images" / f"{image.title}.tar"
    link.parent.mkdir(exist_ok=True)
    new = link.with_name(f"{link.name}.{os.getpid()}")
    new.symlink_to(path)
    new.replace(link)
    _drop_old_archives(path, image)
    return link


def find_pause_image(cache: Path) -> Path:
    """Return the archive of the image that pod sandboxes are made from."""
    program = building.find_pause(cache)
    return building.keep(
        cache,
        f"{program.name}.tar",
        lambda new: ociimages.write_program_image(program, PAUSE_IMAGE, new),
    )


def load(targets: Iterable[Node], archive: Path) -> bool:
    """Load an archive into every node that lacks this very image; return whether any did."""
    if not archive.is_file():
        message = (
            f"There is no file {archive}: give an image archive, for example from docker save."
        )
        raise DevclusterError(message)
    missing = [
        node
        for node in targets
        if not ociimages.is_listed(archive, nodes.run_ctr(node, "images", "list"))
    ]
    if missing:
        names = ", ".join(node.name for node in missing)
        with reporting.step(f"loading {archive.name} into {names}"), ThreadPoolExecutor() as pool:
            list(
                pool.map(
                    lambda node: nodes.run_ctr(node, "images", "import", archive.resolve()), missing
                )
            )
    return bool(missing)


def _build(cache: Path, image: Image, new: Path) -> None:
    check_programs(IMAGE_PROGRAMS)
    base = image.base
    archive = building.keep(
        cache, f"base-{building.digest(base.inputs)}.tar", lambda path: _make_base(base, path)
    )
    # builds of different images may run side by side: buildah keeps its store in order itself
    with locks.hold(cache / "locks" / image.title), hostsettings.gather() as settings:
        _import_base(cache, base, archive)
        with reporting.step(f"building {image.name}") as step:
            arguments = ["bud", "--isolation=chroot", "--layers", "--pull-never"]
            arguments += [f"--build-arg=BASE={base.name}", *settings.list_mounts()]
            arguments += [f"--tag={image.name}", f"--file={CHECKOUT / image.dockerfile}"]
            run_buildah(cache, [*arguments, str(CHECKOUT / image.context)], step)
            step.detail = "writing the archive"
            target = f"oci-archive:{new}:{image.name}"
            run_buildah(cache, ["push", "--quiet", image.name, target], step)
        _unmount_store(cache)


def _make_base(base: Base, path: Path) -> None:
    check_programs(IMAGE_PROGRAMS)
    options = [f"--variant={base.variant}", "--format=tar", f"--include={','.join(base.packages)}"]
    options += [f"--hook-dir={_MERGED}", f"--customize-hook={_FORGET}"]
    options += [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
    options += [f"--aptopt={option}" for option in hostsettings.read_apt_options()]
    # of the host's sources only what belongs to the suite; none means mmdebstrap's own choice
    sources = hostsettings.read_apt_sources(_SUITE)
    with reporting.step(f"making {base.name} from Debian packages") as step:
        _run_shown(
            ["mmdebstrap", *options, _SUITE, str(path), *(["-"] if sources else [])],
            step,
            "\n".join(sources),
        )


def _import_base(cache: Path, base: Base, archive: Path) -> None:
    if attempt([*_buildah(cache), "inspect", "--type=image", base.name]).returncode == 0:
        return
    folder = cache / "bases" / base.title
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.link(archive, folder / "base.tar")
    (folder / "Dockerfile").write_text("FROM scratch\nADD base.tar /\n")
    with reporting.step(f"importing {base.name}") as step:
        run_buildah(cache, ["bud", "--isolation=chroot", f"--tag={base.name}", str(folder)], step)
    shutil.rmtree(folder)


def _unmount_store(cache: Path) -> None:
    """Take down what buildah leaves mounted in its store; the caller holds its lock."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    points = [line.split()[1] for line in mounts]
    for point in sorted(points, reverse=True):  # deepest first
        if Path(point).is_relative_to(cache / "buildah"):
            attempt(["umount", point])


def _buildah(cache: Path) -> list[str]:
    store = cache / "buildah"
    places = [f"--root={store / 'storage'}", f"--runroot={store / 'run'}"]
    return ["buildah", *places, "--storage-driver=overlay"]


def run_buildah(cache: Path, arguments: list[str], step: reporting.Step) -> None:
    """Run it, and once more where it was in its own way; what it had built by then is not anew."""
    for trial in Retrying(
        retry=retry_if_exception(lambda error: _IN_ITS_WAY in str(error)),
        stop=stop_after_attempt(2),
        reraise=True,
    ):
        with trial:
            _run_shown([*_buildah(cache), *arguments], step)


def _run_shown(command: list[str], step: reporting.Step, given: str = "") -> None:
    """Run a program, showing its newest line on the way, and its last ones if it fails."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    lines: list[str] = []
    with process:
        if process.stdin:
            process.stdin.write(given)
            process.stdin.close()
        for line in process.stdout or ():
            if line.strip():
                lines = [*lines[-29:], line.rstrip()]
                step.detail = line.strip()[:100]
    if process.returncode:
        message = f"{command[0]} ended with {process.returncode}:\n" + "\n".join(lines)
        raise DevclusterError(message)


def _drop_old_archives(newest: Path, image: Image) -> None:
    archives = sorted(
        newest.parent.glob(f"{image.title}-*.tar"), key=lambda path: path.stat().st_mtime
    )
    for path in archives[:-_KEPT_ARCHIVES]:
        if path != newest:
            path.unlink(missing_ok=True)
