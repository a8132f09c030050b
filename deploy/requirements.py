"""Which packages of requirements.lock the image needs, without the tools of its developers.

The image build runs this file alone: ``python3 requirements.py pyproject.toml requirements.lock``
prints the entries, pins and hashes as they are, for ``pip install --require-hashes --no-deps``.
"""  # noqa: INP001 (a script, no package)

import re
import sys
import tomllib
from pathlib import Path

_ENTRY = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==", re.MULTILINE)
_ARGUMENTS = 3


def select_runtime(project: str, lock: str) -> str:
    """Return the entries of ``lock`` that the dependencies named in ``project`` lead to.

    Those are the operator's own, and what et-scheduler needs besides: both run from one image.
    The comments of the lock tell which package each one is there for.
    """
    entries = split_entries(lock)
    content = tomllib.loads(project)["project"]
    direct = content["dependencies"] + content.get("optional-dependencies", {}).get("scheduler", [])
    wanted = {
        normalize(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0])
        for requirement in direct
    }
    missing = wanted - set(entries)
    if missing:
        raise ValueError(f"the lock has no {', '.join(sorted(missing))}")
    grown = True
    while grown:
        more = {name for name, entry in entries.items() if read_parents(entry) & wanted}
        grown = not more <= wanted
        wanted |= more
    return "".join(entries[name] for name in sorted(wanted))


def split_entries(lock: str) -> dict[str, str]:
    """Return the text of each package's entry by its normalized name."""
    starts = [match.start() for match in _ENTRY.finditer(lock)]
    ends = [*starts[1:], len(lock)]
    texts = [lock[start:end] for start, end in zip(starts, ends, strict=True)]
    return {normalize(text.split("==")[0].split("[")[0]): text for text in texts}


def read_parents(entry: str) -> set[str]:
    """Return the packages for whose sake an entry is in the lock."""
    _, _, comment = entry.partition("# via")
    return {normalize(word) for word in re.findall(r"[A-Za-z0-9._-]+", comment)}


def normalize(name: str) -> str:
    """Return the name under which all spellings of a package meet."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    if len(sys.argv) != _ARGUMENTS:
        sys.exit("usage: requirements.py PYPROJECT LOCK")
    sys.stdout.write(select_runtime(*(Path(name).read_text("utf-8") for name in sys.argv[1:])))
