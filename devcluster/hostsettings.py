"""How this machine reaches its package mirrors, lent to image builds and never left in an image.

images.py shows them to each step of a build as mounted files. No password or proxy of this machine
is written into a layer or an archive.
"""

import configparser
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from devcluster.commands import attempt

_INSIDE = "/run/host"
_PIP_FILES = ("/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")
_PIP_OPTIONS = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "retries")
_CERTIFICATES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
_SYSTEM_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_APT_OPTIONS = (
    "Acquire::http",
    "Acquire::https",
    "Acquire::Check-Date",
    "Acquire::Check-Valid-Until",
    "Acquire::Retries",
    "Acquire::ForceIPv4",
)


@dataclass(frozen=True, slots=True)
class HostSettings:
    """A temporary folder with the files that a build is shown."""

    folder: Path

    def list_mounts(self) -> list[str]:
        """Return the options that show these files to every step of a build."""
        shown = {
            self.folder / "certificates.crt": f"{_INSIDE}/certificates.crt",
            self.folder / "pip.conf": "/etc/pip.conf",
            self.folder / "apt.conf": "/etc/apt/apt.conf.d/99host",
        }
        return [f"--volume={source}:{target}:ro" for source, target in shown.items()]


@contextmanager
def gather() -> Iterator[HostSettings]:
    """Collect the settings of this machine for as long as a build takes."""
    with tempfile.TemporaryDirectory(prefix="devcluster-") as name:
        folder = Path(name)
        certificates = find_certificates(dict(os.environ))
        if certificates:
            shutil.copyfile(certificates, folder / "certificates.crt")
        else:
            (folder / "certificates.crt").touch()
        inside = f"{_INSIDE}/certificates.crt" if certificates else ""
        (folder / "pip.conf").write_text(
            write_pip_configuration(read_pip_options(dict(os.environ)), inside)
        )
        options = read_apt_options()
        if inside:
            options.append(f'Acquire::https::CAInfo "{inside}"')
        (folder / "apt.conf").write_text("".join(f"{option};\n" for option in options))
        yield HostSettings(folder)


def find_certificates(environment: dict[str, str]) -> Path | None:
    """Return the file of certificate authorities that this machine trusts."""
    named = [environment[name] for name in _CERTIFICATES if environment.get(name)]
    return next(
        (Path(path) for path in [*named, _SYSTEM_CERTIFICATES] if Path(path).is_file()), None
    )


def read_pip_options(
    environment: dict[str, str], files: tuple[str, ...] = _PIP_FILES
) -> dict[str, str]:
    """Return how pip reaches its index here; variables win over files, as they do for pip."""
    parser = configparser.RawConfigParser()
    parser.read(Path(name).expanduser() for name in files)
    found: dict[str, str] = {}
    for option in _PIP_OPTIONS:
        value = environment.get(f"PIP_{option.upper().replace('-', '_')}")
        value = value or parser.get("global", option, fallback=None)
        if value:
            found[option] = value
    return found


def write_pip_configuration(options: dict[str, str], certificates: str) -> str:
    """Return the text of a pip.conf."""
    settings = options | ({"cert": certificates} if certificates else {})
    return "".join(["[global]\n", *(f"{name} = {value}\n" for name, value in settings.items())])


def read_apt_options() -> list[str]:
    """Return how apt reaches its mirrors here, as lines of apt.conf without their semicolons."""
    shown = attempt(["apt-config", "dump", *_APT_OPTIONS]).stdout
    lines = [line.rstrip(";") for line in shown.splitlines()]
    return [line for line in lines if line.startswith("Acquire::") and not line.endswith(' ""')]


def read_apt_sources(suite: str) -> list[str]:
    """Return the host's own Debian sources of this suite; none if it has another."""
    layout = "$(REPO_URI) $(RELEASE) $(CODENAME) $(ORIGIN) $(COMPONENT) $(CREATED_BY)"
    shown = attempt(["apt-get", "indextargets", "--format", layout]).stdout
    sources = set()
    for line in shown.splitlines():
        address, release, codename, origin, component, kind = (line.split(" ") + [""] * 6)[:6]
        if (
            origin == "Debian"
            and codename.startswith(suite)
            and component == "main"
            and kind == "Packages"
        ):
            sources.add(f"deb {address} {release} main")
    return sorted(sources) if any(source.endswith(f" {suite} main") for source in sources) else []
