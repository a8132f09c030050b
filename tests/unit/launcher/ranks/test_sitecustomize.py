"""That a rank finds Python as its image and its template have made it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.launcher.ranks.horovods import RANKS, install, run_python, train

SHOW = """
import os, subprocess, sys
ours = sys.modules.get("sitecustomize")
print(sys.path, os.environ.get("PYTHONPATH"), ours and (ours.__file__, ours.__spec__.origin))
print([name for name in os.environ if "PYTHON" in name])
if len(sys.argv) == 1:
    subprocess.run([sys.executable, "-c", sys.argv[0], "child"], check=True)
"""


def compare(path: str | None, **environ: str) -> str:
    """What Python says, with ours before this path and without: the same. Its stderr."""
    script = SHOW.replace("sys.argv[0]", repr(SHOW))
    ours = str(RANKS) if not path else f"{RANKS}:{path}"
    without, having = (run_python("-c", script, path=p, **environ) for p in (path, ours))
    assert (having.returncode, having.stdout) == (without.returncode, without.stdout)
    assert having.stderr == without.stderr
    return having.stderr


@pytest.mark.long
@pytest.mark.parametrize("path", [None, "/app/libs", "/app/libs:/more", ":/app", "/app:", "/a::/b"])
def test_the_path_is_what_launcher_and_template_say(path: str | None):
    assert compare(path) == ""


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("print('mine', __name__, __file__)", ""),
        ("import sys; sys.path.append('/by/the/image')", ""),
        ("raise ValueError('of the image')", "Error in sitecustomize"),
        ("import missing_of_the_image", "ModuleNotFoundError"),
        ("raise ImportError('none', name='sitecustomize')", ""),
        ("def broken(", "SyntaxError"),
    ],
)
def test_a_sitecustomize_of_the_image_runs_and_fails_as_it_would(
    tmp_path: Path, text: str, said: str
):
    (tmp_path / "sitecustomize.py").write_text(text)
    err = compare(str(tmp_path))
    assert said in err


def test_what_ends_python_ends_it(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit(5)")
    paths = (str(tmp_path), f"{RANKS}:{tmp_path}")
    without, having = (run_python("-c", "print('on')", path=path) for path in paths)
    ends = [(d.returncode, d.stdout, d.stderr.splitlines()[-1:]) for d in (without, having)]
    assert ends[0] == ends[1]


def test_the_images_own_and_ours_both_have_their_effect(tmp_path: Path):
    folder = install(tmp_path)
    (folder / "sitecustomize.py").write_text("print('mine')")
    leave = "horovod.init(); accept(); horovod.shutdown(); horovod.init(); "
    done = train(folder, leave + "print(look())")
    assert (done.stdout, done.stderr) == ("mine\n[True, True]\n", "")


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_who_wants_no_path_or_no_site_goes_without(tmp_path: Path, option: str):
    without = run_python(
        option, "-c", "import sys; print([str(f)[:40] for f in sys.meta_path])", path=str(tmp_path)
    )
    having = run_python(
        option,
        "-c",
        "import sys; print([str(f)[:40] for f in sys.meta_path])",
        path=f"{RANKS}:{tmp_path}",
    )
    assert (having.stdout, having.stderr) == (without.stdout, without.stderr)


def test_a_script_that_extends_the_path_has_both(tmp_path: Path):
    script = f"{RANKS}:{tmp_path}"
    done = run_python("-c", "import os; print(os.environ['PYTHONPATH'])", path=f"/first:{script}")
    assert done.stdout == f"/first:{tmp_path}\n"


def test_nobody_else_is_asked_for_horovod_twice_and_nothing_stays_in_the_way(tmp_path: Path):
    script = """
print(type(sys.modules["horovod.common.basics"].__loader__).__name__)
print(vars(sys.modules["horovod.common.basics"].__loader__).keys() - {"name", "path"})
print([finder for finder in sys.meta_path if type(finder).__name__ == "Watch"])
"""
    done = train(install(tmp_path), script)
    assert done.stdout.splitlines() == ["SourceFileLoader", "set()", "[]"]


def test_who_only_asks_where_horovod_is_does_not_hide_it_from_us(tmp_path: Path):
    folder = install(tmp_path)
    (folder / "sitecustomize.py").write_text(
        "import importlib.util; importlib.util.find_spec('horovod.common.basics')"
    )
    done = train(folder, "print(horovod.init.__wrapped__.__name__)")
    assert (done.stdout, done.stderr) == ("init\n", "")


def test_a_finder_that_asks_all_others_again_has_its_answer(tmp_path: Path):
    folder = install(tmp_path)
    (folder / "sitecustomize.py").write_text("""
import importlib.util, sys
class Hook:
    busy = False
    def find_spec(self, name, path=None, target=None):
        if self.busy or name != "horovod.common.basics": return None
        self.busy = True
        try: return importlib.util.find_spec(name)
        finally: self.busy = False
sys.meta_path.insert(0, Hook())
""")
    done = train(folder, "print(horovod.init.__wrapped__.__name__)")
    assert (done.stdout, done.stderr) == ("init\n", "")


def test_a_horovod_that_cannot_be_imported_says_why(tmp_path: Path):
    done = train(install(tmp_path, "raise ImportError('no library')"), "")
    assert done.stderr.endswith("ImportError: no library\n")
    none = run_python("-c", "import horovod.common.basics", path=str(RANKS))
    assert none.stderr.endswith("No module named 'horovod'\n")
