"""The command line as a person types it."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from et.clusters import Cluster, Place
from et.commands import app
from et.documents import read_documents
from et.running import run
from et.screens import Screen
from et_kube.resources import SCALE_OUTS, TRAINING_JOBS, TRAINING_QUEUES, Ref
from fakes.clients import Call, CallLog, Moment
from fakes.clock import FakeClock
from fakes.cluster import FakeCluster
from tests.counting import find_peak
from tests.makers import make_job, make_scale_out
from tests.simulation.worlds import NAMESPACE
from tests.unit.et.rigs import make_cluster, make_rig, make_screen, read

ROOT = Path(__file__).resolve().parents[3]
QUICK = ("--name", "quick", "--image", "img", "--replicas", "2", "--max", "4")
WINDOWS = """
import asyncio, signal, sys, time
known = ("SIG_", "SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM")
unix = [name for name in dir(signal) if name.startswith("SIG") and not name.startswith(known)]
clocks = [name for name in dir(time) if name.lower().startswith("clock_")]
for module, names in ((signal, unix), (time, clocks)):
    for name in names:
        delattr(module, name)
sys.modules.update(dict.fromkeys(["fcntl", "grp", "pwd", "resource", "termios"]))
import pkgutil, et
for module in pkgutil.iter_modules(et.__path__, "et."):
    __import__(module.name)
from et.__main__ import main
main()
"""
"""Runs `et` without what Python has on other systems alone."""
NOBODY_LISTENS = """
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: t}}]
current-context: c
"""


class Desk:
    """A person at a terminal of 80 columns, and a cluster."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.cluster = FakeCluster(self.clock.now)
        self.screen = make_screen()
        self.log = CallLog()

    def type(self, *words: str, stdin: str = "") -> int:
        """Run `et words`; its exit code."""
        self.screen = make_screen()
        cluster = make_cluster(self.cluster, self.clock, log=self.log)
        rig = make_rig(cluster, self.screen)
        result = CliRunner().invoke(app, list(words), obj=rig, input=stdin)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code

    @property
    def out(self) -> str:
        return read(self.screen.out)

    @property
    def err(self) -> str:
        return read(self.screen.err)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def written(desk: Desk) -> str:
    """To the byte."""
    stream = desk.screen.out.file
    assert isinstance(stream, io.StringIO)
    return stream.getvalue()


def test_a_list_of_nothing_says_where_nothing_is(desk: Desk):
    assert desk.type("list") == 0
    assert desk.out == ""
    assert desk.err == f"there is no TrainingJob in namespace {NAMESPACE}"


def test_jobs_are_listed_by_name_within_80_columns(desk: Desk):
    for name in ("b-job", "a-job"):
        desk.cluster.create(TRAINING_JOBS, NAMESPACE, make_job(name, workers=3, maxReplicas=6))

    assert desk.type("list") == 0

    header, first, second = desk.out.splitlines()
    assert header.split() == [
        "NAME",
        "PHASE",
        "WORKERS",
        "MIN",
        "MAX",
        "RESTARTS",
        "SCALING",
        "TROUBLE",
        "AGE",
    ]
    assert first.split() == ["a-job", "-", "0/3", "1", "6", "0", "-", "-", "0s"]
    assert second.startswith("b-job")
    assert max(map(len, desk.out.splitlines())) <= 80
    assert not any(line.endswith(" ") for line in written(desk).splitlines())


def test_a_list_shows_trouble_and_counts_nobody_of_what_has_ended(desk: Desk):
    troubled = [
        {"type": "ImagePullFailing", "status": "True"},
        {"type": "Running", "status": "True"},
    ]
    for name, phase, conditions in (("bad", "Created", troubled), ("done", "Succeeded", [])):
        ref = Ref(TRAINING_JOBS, NAMESPACE, name)
        desk.cluster.create(TRAINING_JOBS, NAMESPACE, make_job(name))
        status = {"phase": phase, "conditions": conditions}
        desk.cluster.patch(ref, {"status": status}, subresource="status")

    assert desk.type("list") == 0

    _, bad, done = desk.out.splitlines()
    assert bad.split() == ["bad", "Created", "0/2", "1", "-", "0", "-", "ImagePullFailing", "0s"]
    assert done.split()[:3] == ["done", "Succeeded", "-"]


@pytest.mark.long
@pytest.mark.parametrize("words", [("list", "-A"), ("queue", "research")])
def test_jobs_are_not_held_as_they_are_by_who_shows_a_line_of_each(words: tuple[str, ...]):
    """Of whoever may write one: a template keeps fields that nobody knows."""

    def measure(count: int) -> int:
        desk = Desk()
        kind = {"apiVersion": TRAINING_QUEUES.api_version, "kind": TRAINING_QUEUES.kind}
        queue = {**kind, "metadata": {"name": "research"}, "spec": {"weight": 1}}
        desk.cluster.create(TRAINING_QUEUES, "", queue)
        for number in range(count):
            job = make_job(f"job-{number}", queue="research")
            template = job["spec"]["etReplicaSpecs"]["worker"]["template"]
            template["invented"] = [[] for _ in range(3000)]
            desk.cluster.create(TRAINING_JOBS, NAMESPACE, job)
        peak = find_peak(lambda: desk.type(*words))
        assert f"job-{count - 1}" in desk.out
        return peak

    measure(1)  # imports what it needs
    assert measure(8) < 1.2 * measure(4)


@pytest.mark.long
def test_jobs_of_all_namespaces_are_listed_with_theirs(desk: Desk):
    assert desk.type("list", "-A") == 0
    assert desk.err == "there is no TrainingJob in any namespace"
    for namespace in ("other", NAMESPACE):
        desk.cluster.create(TRAINING_JOBS, namespace, make_job("train"))

    assert desk.type("list", "-A") == 0

    header, *rows = desk.out.splitlines()
    assert header.split()[:3] == ["NAMESPACE", "NAME", "PHASE"]
    assert sorted(row.split()[:2] for row in rows) == sorted(
        [["other", "train"], [NAMESPACE, "train"]]
    )
    assert desk.type("list") == 0
    assert len(desk.out.splitlines()) == 2


@pytest.mark.long
def test_lists_and_objects_are_json_when_asked_for(desk: Desk):
    desk.cluster.create(TRAINING_JOBS, NAMESPACE, make_job("train"))
    environment = [{"name": "A", "value": "b"}]
    desk.cluster.create(SCALE_OUTS, NAMESPACE, make_scale_out("more", env=environment))

    assert desk.type("list", "-o", "json") == 0
    assert json.loads(desk.out)["items"][0]["metadata"]["name"] == "train"

    assert desk.type("describe", "train", "-o", "json") == 0
    told = json.loads(desk.out)
    assert told["job"]["metadata"]["name"] == "train"
    assert told["story"][0]["reason"] == "Submitted"
    assert [scaling["spec"]["env"] for scaling in told["scalings"]] == [environment]

    assert desk.type("submit", *QUICK, "-o", "json", "--", "python3", "x.py") == 0
    assert json.loads(desk.out)["metadata"]["name"] == "quick"


def test_a_job_of_flags_is_an_elastic_one_that_the_schema_accepts(desk: Desk):
    assert desk.type("submit", *QUICK, "--min", "1", "--gpus", "2", "--", "python3", "x.py") == 0

    (job,) = desk.cluster.list(TRAINING_JOBS)
    roles = job["spec"]["etReplicaSpecs"]
    command = roles["launcher"]["template"]["spec"]["containers"][0]["command"]
    assert " ".join(command) == (
        "horovodrun -np 4 --min-np 2 --max-np 8 "
        "--host-discovery-script /etc/edl/discover_hosts.sh python3 x.py"
    )
    assert (roles["worker"]["replicas"], roles["worker"]["maxReplicas"]) == (2, 4)
    assert desk.out == f"TrainingJob quick is created in namespace {NAMESPACE}"


@pytest.mark.parametrize("words", [("--raw", "--", "sh", "-c", "x"), ("--", "horovodrun", "x")])
def test_a_command_that_launches_itself_stays_as_it_is(desk: Desk, words: tuple[str, ...]):
    assert desk.type("submit", *QUICK, "--env", "A=1=2", *words) == 0

    (job,) = desk.cluster.list(TRAINING_JOBS)
    container = job["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"]["containers"][0]
    assert container["command"] == list(words[words.index("--") + 1 :])
    assert container["env"] == [{"name": "A", "value": "1=2"}]


def test_workers_that_would_run_nothing_are_told_as_their_job_is_submitted(desk: Desk):
    assert desk.type("submit", *QUICK, "--", "horovodrun", "-np", "2", "python3", "x.py") == 0
    assert desk.err.startswith("warning: the command of the launcher tells horovodrun of no hosts")
    assert desk.out == f"TrainingJob quick is created in namespace {NAMESPACE}"


def test_a_dry_run_prints_yaml_that_submit_takes(desk: Desk):
    assert desk.type("submit", *QUICK, "--dry-run", "--", "python3", "x.py") == 0
    printed = desk.out
    assert desk.cluster.list(TRAINING_JOBS) == []

    assert yaml.safe_load(printed)["kind"] == "TrainingJob"
    assert desk.type("submit", "-", stdin=printed) == 0
    assert len(desk.cluster.list(TRAINING_JOBS)) == 1


def test_files_are_submitted_in_order(desk: Desk, tmp_path: Path):
    path = tmp_path / "jobs.yaml"
    path.write_text(yaml.safe_dump_all([make_job("one"), None, make_job("two")]))

    assert desk.type("submit", str(path)) == 0
    assert desk.out.splitlines() == [
        f"TrainingJob {name} is created in namespace {NAMESPACE}" for name in ("one", "two")
    ]


COMPLAINTS = {
    "": "give a file, or --name, --image and a command after --",
    "x.yaml": "x.yaml cannot be read: No such file or directory",
    "--image i -- run": "--image needs --name too: what the job is called",
    "--name n --image i": "--image needs a command: put it at the end, after --",
    "--name n x.yaml": "--name is for a job of flags, which needs --image too",
    "--name n --image i --env A -- run": "--env A: write NAME=VALUE",
    "--name Bad_Name --image i -- run": "the API server refuses this:",
}


@pytest.mark.parametrize(("words", "complaint"), COMPLAINTS.items())
def test_what_cannot_be_submitted_is_said_in_a_sentence(desk: Desk, words: str, complaint: str):
    assert desk.type("submit", *words.split()) == 1
    assert desk.out == ""
    assert desk.err.startswith(f"et: {complaint}")


LEVELS = list(zip("abcdefghi", ("{}", "*a", "*b", "*c", "*d", "*e", "*f", "*g", "*h"), strict=True))
"""Names, and what each of them stands for nine times."""
BAD_FILES = {
    "{": "is not YAML",
    "---\n": "is empty",
    "kind: ConfigMap\napiVersion: v1": "has an object of kind 'ConfigMap'; et submits",
    "kind: TrainingJob\napiVersion: v1": "apiVersion of a TrainingJob must be kai.alibabacloud",
    "kind: TrainingJob\napiVersion: kai.alibabacloud.com/v1alpha1": "without metadata.name",
    "just words": "has an object of kind None",
    "a: 1\nb: {c: 1, d: 2,\n  c: 3}": "'c' is there twice in line 3, column 3",
    "a: !!binary aGk=": "has what JSON cannot hold",
    "a: !!set {b}": "has what JSON cannot hold",
    "a: !!timestamp 2026-01-01": "has what JSON cannot hold",
    "a: &a [*a]": "has more than 1000000 values",
    "a: .nan": "has what JSON cannot hold",
    "[" * 2000: "is nested too deeply",
    "a: 0x_": "has a value that YAML cannot read: ValueError",
    f"a: {'9' * 5000}": "has a value that YAML cannot read: ValueError",
    "a: !!bool x": "has a value that YAML cannot read: KeyError('x')",
    "a: !!int ''": "has a value that YAML cannot read: ",
    "a: !!timestamp x": "has a value that YAML cannot read: ",
    'a: "\\UFFFFFFFF"': "has a value that YAML cannot read: ",
    "\n".join(f"{x}: &{x} [{', '.join([y] * 9)}]" for x, y in LEVELS): "more than 1000000 values",
    "\n".join(f"{x}: &{x} {{<<: [{', '.join([y] * 9)}]}}" for x, y in LEVELS).replace(
        "[{}", "[{z: 1}"
    ): "more than 1000000 values",
}


@pytest.mark.long
@pytest.mark.parametrize(("text", "complaint"), BAD_FILES.items())
def test_a_file_that_cannot_be_used_is_named(desk: Desk, text: str, complaint: str):
    assert desk.type("submit", "-", stdin=text) == 1
    assert desk.err.startswith("et: -")
    assert complaint in desk.err


@pytest.mark.long
@pytest.mark.parametrize("command", ["watch", "logs", "describe"])
def test_a_job_that_is_not_there_is_said_in_a_sentence(desk: Desk, command: str):
    assert desk.type(command, "nobody") == 1
    assert desk.err == (
        f"et: there is no TrainingJob 'nobody' in namespace '{NAMESPACE}'; "
        "`et list -A` shows all that there are"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["scale", "train"],
        ["scale", "train", "--to", "2", "--by", "1"],
        ["scale", "train", "--by", "0"],
        ["scale", "train", "--to", "0"],
        ["scale", "train", "--by", "1", "--wait", "--timeout", "soon"],
        ["logs", "train", "--since", "yesterday"],
    ],
)
def test_flags_that_make_no_sense_are_refused_before_anything_is_asked(
    desk: Desk, words: list[str]
):
    assert desk.type(*words) == 2


@pytest.mark.long
def test_names_are_offered_to_the_shell(desk: Desk):
    for name in ("alpha", "alto", "beta"):
        desk.cluster.create(TRAINING_JOBS, NAMESPACE, make_job(name))
    rig = make_rig(make_cluster(desk.cluster, desk.clock), Screen())

    def complete(words: str) -> list[str]:
        number = str(len(words.split()) - 1)
        asked = {"_ET_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": number}
        return CliRunner().invoke(app, [], obj=rig, prog_name="et", env=asked).stdout.split()

    assert complete("et watch al") == ["alpha", "alto"]
    assert complete("et delete beta al") == ["alpha", "alto"]
    assert complete("et restart b") == ["beta"]
    assert complete("et logs beta l") == ["launcher"]


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_its_libraries_it_names_what_to_install(missing: str):
    code = (
        f"import sys; sys.modules[{missing!r}] = None; "
        "from et.__main__ import main; sys.exit(main())"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert done.stderr == (
        f"et: the Python package {missing} is missing: "
        "the command line is installed with pip install 'et-operator[cli]'\n"
    )


@pytest.mark.long
def list_jobs(kubeconfig: Path, *program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *program, "list", "--kubeconfig", kubeconfig]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("kubeconfig", "complaint"),
    [
        ("", "et: there is no kubeconfig ("),
        ("contexts: [", "et: the kubeconfig "),
        ("clusters: []", "et: the cluster cannot be reached: kubeconfig "),
        (NOBODY_LISTENS, "et: the cluster cannot be reached: list /apis/kai.alibabacloud.com"),
    ],
    ids=["none", "no-yaml", "no-context", "no-server"],
)
def test_a_cluster_that_cannot_be_asked_is_one_sentence(
    tmp_path: Path, kubeconfig: str, complaint: str
):
    path = tmp_path / "config"
    if kubeconfig:
        path.write_text(kubeconfig)

    done = list_jobs(path, "-m", "et")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(complaint)
    assert len(done.stderr.splitlines()) == 1


def test_it_runs_where_python_has_less_than_here(tmp_path: Path):
    (path := tmp_path / "config").write_text(NOBODY_LISTENS)
    done = list_jobs(path, "-c", WINDOWS)
    assert done.stderr.startswith("et: the cluster cannot be reached: list /apis/")


def test_a_manifest_means_what_it_means_to_kubectl(desk: Desk):
    """No dates, no numbers to the base of 60; what is merged may be overridden."""
    labels = "{day: 2026-01-01, at: 2026-01-01 10:00:00, pace: 1:30, lap: 1:30.5, n: 5}"
    documents = list(read_documents("-", f"a: {labels}\nb: &b {{x: 1}}\nc: {{<<: *b, x: 2}}"))

    assert documents[0]["a"] == {
        "day": "2026-01-01",
        "at": "2026-01-01 10:00:00",
        "pace": "1:30",
        "lap": "1:30.5",
        "n": 5,
    }
    assert documents[0]["c"] == {"x": 2}
    dated = make_job("train")
    dated["metadata"]["annotations"] = {"began": "DATE"}
    assert desk.type("submit", "-", stdin=yaml.safe_dump(dated).replace("DATE", "2026-01-01")) == 0
    (job,) = desk.cluster.list(TRAINING_JOBS)
    assert job["metadata"]["annotations"] == {"began": "2026-01-01"}


# ------------------------------------------------------------------ Tab
def test_a_shell_is_offered_plain_words_alone(tmp_path: Path):
    names = [r"\$(touch /tmp/evil)", "a b", "`id`", "-o", "a\x1b[2J", "arn:aws:eks:1:cluster/c_1"]
    contexts = [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in names]
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump({**yaml.safe_load(NOBODY_LISTENS), "contexts": contexts}))
    asked = {
        "KUBECONFIG": str(file),
        "_TYPER_COMPLETE_ARGS": "et list --context ",
        "_ET_COMPLETE": "complete_zsh",
    }
    offered = CliRunner().invoke(app, prog_name="et", env=asked).output
    assert offered.strip() == """_arguments '*: :(("arn\\\\:aws\\\\:eks\\\\:1\\\\:cluster/c_1"))'"""


# ------------------------------------------------------------------ delete
@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 0), ("n\n", 1, 1), ("", 1, 1)])
def test_a_job_is_deleted_when_the_person_in_front_says_yes(
    desk: Desk, answer: str, code: int, left: int
):
    desk.cluster.create(TRAINING_JOBS, NAMESPACE, make_job("train"))

    assert desk.type("delete", "train", stdin=answer) == code

    assert len(desk.cluster.list(TRAINING_JOBS)) == left
    assert ("nobody has said yes: --yes does not ask" in desk.err) == (not answer)


@pytest.mark.long
@pytest.mark.parametrize("name", ["", ".", "..", "first/status", "%2e"])
def test_what_names_no_job_is_asked_of_nobody(desk: Desk, name: str):
    desk.cluster.create(TRAINING_JOBS, NAMESPACE, make_job("first"))
    for words in (
        *(("delete", "-y", "--no-wait", "first"), ("restart",), ("watch",), ("describe",)),
        *(("why",), ("logs",), ("scale", "--to", "2")),
    ):
        assert desk.type(*words, name) == 1, words
        said = f"et: {name!r} is no name of a TrainingJob; `et list -A` shows all that there are"
        assert desk.err == said
    assert [call for call in desk.log.calls if call.ref.name != "first"] == []
    assert desk.log.list_writes("et") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_whoever_ends_a_command_interrupts_it(desk: Desk, number: int):
    """`timeout 5m et restart`, or a terminal that is closed."""
    desk.cluster.create(TRAINING_JOBS, NAMESPACE, make_job("train"))

    def end(call: Call, moment: Moment) -> None:
        if (call.user, call.verb, moment) == ("et", "patch", Moment.AFTER):
            os.kill(os.getpid(), number)

    desk.log.faults.append(end)
    assert desk.type("restart", "train") == 130
    assert "train stays suspended: `et restart train` goes on" in desk.err
    assert desk.cluster.get(Ref(TRAINING_JOBS, NAMESPACE, "train"))["spec"]["suspend"] is True
    assert signal.getsignal(number) == signal.SIG_DFL


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(
            signal.SIGHUP, signal.SIGHUP, id="by the shell and, once that ends, the kernel"
        ),
        pytest.param(signal.SIGTERM, signal.SIGHUP, id="by the end of a session"),
        pytest.param(signal.SIGINT, signal.SIGHUP, id="by who goes"),
        pytest.param(signal.SIGINT, signal.SIGTERM, id="by a limit that ends meanwhile"),
    ],
)
def test_what_is_taken_back_is_not_cut_off_by_a_second_signal(desk: Desk, first: int, second: int):
    taken: list[str] = []

    async def work(_: Cluster, __: Screen) -> None:
        try:
            os.kill(os.getpid(), first)
            await asyncio.sleep(60)
        finally:
            os.kill(os.getpid(), second)
            await asyncio.sleep(0)  # a request
            taken.append("back")

    rig = make_rig(make_cluster(desk.cluster, desk.clock, log=desk.log), desk.screen)
    with pytest.raises(typer.Exit) as end:
        run(typer.Context(typer.main.get_command(app), obj=rig), Place(), work)
    assert (end.value.exit_code, taken) == (130, ["back"])


FOLLOWING = """
import asyncio
from contextlib import asynccontextmanager
import typer
from et.clusters import Place
from et.commands import app
from et.running import Tools, run
from et.screens import Screen
from et_kube.racing import run_unless

@asynccontextmanager
async def open_it(place):
    yield None

async def work(cluster, screen):
    async def follow():
        while True:
            screen.say("a line")
            await asyncio.sleep(0)

    with screen.telling("this is left"):
        await run_unless(asyncio.Event().wait(), follow())

context = typer.Context(typer.main.get_command(app), obj=Tools(open_it, Screen()))
try:
    run(context, Place(), work)
except typer.Exit as end:
    raise SystemExit(end.exit_code)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["-c", FOLLOWING], "this is left\n", id="of who follows something"),
        pytest.param(
            ["-m", "et", "submit", "--dry-run", "--name=a", "--image=b", "--", "c"],
            "",
            id="of who asks no cluster",
        ),
    ],
)
def test_a_pipe_of_which_nobody_wants_more_ends_it_quietly(words: list[str], said: str):
    """`et logs -f | head`: what is left is told, and nothing of a defect."""
    pipe, piped = subprocess.PIPE, [sys.executable, *words]
    with subprocess.Popen(piped, cwd=ROOT, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (said, 141)


@pytest.mark.long
def test_what_the_locale_has_no_character_for_is_shown_as_an_escape():
    """A progress bar in a log, say, where text is of Latin-1."""
    words = ["submit", "--dry-run", "-o", "json", "--name=a", "--image=b", "--", "\u2588\xe9"]
    done = subprocess.run(
        [sys.executable, "-m", "et", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u2588\xe9" in done.stdout
