"""Which launcher a command is, and what is put in place for all of them."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Sequence
from functools import partial

import pytest

from et_contract import options, starters, wrappers
from tests.counting import count_steps

ELASTIC = "horovodrun -np 2 --min-np 1 --host-discovery-script /etc/edl/discover_hosts.sh python t"


@pytest.mark.parametrize(
    ("command", "choice"),
    [
        (ELASTIC.split(), ("horovodrun", True)),
        (["sh", "-c", ELASTIC], ("horovodrun", True)),
        (["/bin/bash", "-lc", f"set -e\ncd /x && A=1 B=2 exec {ELASTIC}"], ("horovodrun", True)),
        (["horovodrun", "-np", "2", "--host-disc", "x", "python"], ("horovodrun", True)),
        (["horovodrun", "-np", "2", "--min-num-proc=1", "python"], ("horovodrun", True)),
        (["horovodrun", "-np", "2", "-hostfile", "/job/hostfile", "python"], ("horovodrun", False)),
        (["horovodrun", "-np", "2", "python", "t", "--min-news", "3"], ("horovodrun", False)),
        (["horovodrun", "-np", "2", "python", "t", "--min-np", "3"], ("horovodrun", False)),
        (["horovodrun", "-np", "2", "python", "t", "--host-cache", "4g"], ("horovodrun", False)),
        (["sh", "-c", "horovodrun -np 2 t; python r --host-name x"], ("horovodrun", False)),
        (["horovodrun", "-np", "2", "--min-n", "1", "python"], ("horovodrun", True)),
        (["horovodrun", "--mpi-args", "-x A", "--min-np=1", "python"], ("horovodrun", True)),
        (["horovodrun", "--a-new-one", "--min-np", "1", "python"], ("horovodrun", True)),
        (["horovodrun", "--a-new-one", "7", "--min-np", "1", "python"], ("horovodrun", True)),
        (["horovodrun", "-np", "$(N)", "", "--min-np", "1"], ("horovodrun", False)),
        (["horovodrun", "-np"], ("horovodrun", False)),
        (["sh", "-c", "horovodrun -np $(nproc) \\\n --min-np 1 t"], ("horovodrun", True)),
        (["sh", "-c", 'horovodrun -np "$N" ${MORE} --min-np 1 t'], ("horovodrun", True)),
        (["sh", "-c", "horovodrun -v 2>&1 --min-np 1 t"], ("horovodrun", True)),
        (["sh", "-c", "torchrun --tee=$(( $(nproc) / 2 )) --nnodes=2:4 t"], ("torchrun", True)),
        (["sh", "-c", "torchrun --tee=$((N*(2-1))) --nnodes=2:4 t"], ("torchrun", True)),
        (["sh", "-c", "horovodrun -np $(( $(wc -l < h) * 2 )) --min-np 2 t"], ("horovodrun", True)),
        (["sh", "-c", "horovodrun -p a/$(b $(c $(d))) --min-np 2 t"], ("horovodrun", True)),
        (["sh", "-c", "torchrun --rdzv-conf <(a) --nnodes=2:4 t"], ("torchrun", True)),
        (["sh", "-c", "torchrun --tee=$(mpirun a | wc -l) --nnodes=2:4 t"], ("torchrun", True)),
        (["sh", "-c", "torchrun --nnodes=2:4 --tee=$(a t"], ("torchrun", True)),
        (["sh", "-c", "torchrun --tee=$(a --nnodes=2:4 t"], ("torchrun", True)),
        (["sh", "-c", "# don't\nhorovodrun --host-disc x t | tee 'log'"], ("horovodrun", True)),
        (["sh", "-c", "horovodrun -cb; torchrun --nnodes=2:4 t"], ("torchrun", True)),
        (["sh", "-c", "horovodrun -np 1 a && horovodrun --min-np 2 b"], ("horovodrun", True)),
        (["sh", "-c", "horovodrun -np 2 a; mpirun b"], ("horovodrun", False)),
        (["mpirun", "-np", "2", "python3", "-m", "mpi4py", "x.py"], ("mpirun", False)),
        (["/opt/ompi/bin/mpiexec", "x"], ("mpirun", False)),
        (["bash", "-c", "if true; then mpirun x; fi"], ("mpirun", False)),
        (["bash", "-c", "(nohup mpirun x)&"], ("mpirun", False)),
        (["sh", "-c", 'A="b c" UCX_TLS="tcp self" mpirun x'], ("mpirun", False)),
        (["sh", "-c", "N=$(( $(nproc) / 2 )) mpirun x"], ("mpirun", False)),
        (["sh", "-c", "until mpirun x; do sleep 5; done"], ("mpirun", False)),
        (["sh", "-c", "if a; then b; elif mpirun x; then c; fi"], ("mpirun", False)),
        (["sh", "-c", "case $A in\n mpi) mpirun x;;\nesac"], ("mpirun", False)),
        (["sh", "-c", '"$MPI_HOME/bin/mpirun" x'], ("mpirun", False)),
        (["sh", "-c", ">/logs/out mpirun x"], ("mpirun", False)),
        (["sh", "-c", "mpirun>log x"], ("mpirun", False)),
        (["sh", "-c", "timeout -k 5 12h nice -n 5 mpirun x"], ("mpirun", False)),
        (["sh", "-c", "sudo -E -u me env -u A B=1 mpirun x"], ("mpirun", False)),
        (["sh", "-c", "numactl -N 0 stdbuf -oL command mpirun x"], ("mpirun", False)),
        (["sh", "-c", "conda run -n a torchrun --nnodes=2 t"], ("torchrun", False)),
        (["sh", "-c", "eval 'deepspeed t'"], ("deepspeed", False)),
        (["sh", "-c", "sudo -u me bash -lc 'cd a; mpirun x'"], ("mpirun", False)),
        (["sh", "-c", 'set -- mpirun x; exec "$@"'], ("mpirun", False)),
        (["bash", "-c", 'exec "$@"', "--", "mpirun", "x"], ("mpirun", False)),
        (["bash", "-ec", '. /env; exec "$0" "$@"', "mpirun", "x"], ("mpirun", False)),
        (["bash", "-c", "$1 -np 2 $2", "sh", "mpirun", "x"], ("mpirun", False)),
        (["sh", "-c", 'a; "$@"', "sh", *ELASTIC.split()], ("horovodrun", True)),
        (["sh", "-c", 'exec horovodrun "$@"', "sh", *ELASTIC.split()[1:]], ("horovodrun", True)),
        (["sh", "-c", 'sh -c "$1" sh "$2"', "sh", 'exec "$1" x', "mpirun"], ("mpirun", False)),
        (["sh", "-c", 'eval "$@"', "sh", "mpirun -np 2 x"], ("mpirun", False)),
        (["sh", "-c", '"$2" x', "sh", "mpirun"], ("other", True)),
        (["sh", "-c", '"$@"', "sh"], ("other", True)),
        (["sh", "-c", "$(which mpirun) -np $(nproc) x"], ("mpirun", False)),
        (["sh", "-c", "exec `command -v mpirun` x"], ("mpirun", False)),
        (["sh", "-c", "$(find_it) x; which mpirun"], ("other", True)),
        (["sh", "-c", "function f { time -p mpirun x; }; f"], ("mpirun", False)),
        (["sh", "-c", "--", "mpirun x"], ("mpirun", False)),
        (["bash", "-c", "-e", "mpirun x"], ("mpirun", False)),
        (["env", "A=1", "bash", "-o", "pipefail", "-c", "mpirun x"], ("mpirun", False)),
        (["bash", "-euxo", "pipefail", "-c", "mpirun x"], ("mpirun", False)),
        (["bash", "-eco", "pipefail", "mpirun x"], ("mpirun", False)),
        (["bash", "--rcfile", "a", "+o", "posix", "-c", "mpirun x"], ("mpirun", False)),
        (["sh", "-c", "su - me -c 'mpirun x'"], ("mpirun", False)),
        (["tini", "-s", "--", "mpirun", "x"], ("mpirun", False)),
        (["busybox", "sh", "-c", "mpirun x"], ("mpirun", False)),
        (["sh", "-c", "# before: cd a; torchrun --nnodes=1:4 t\nmpirun x"], ("mpirun", False)),
        (["sh", "-c", "echo 'a; torchrun --nnodes=1:4 t'; mpirun x"], ("mpirun", False)),
        (["sh", "-c", "cat <<E\ntorchrun --nnodes=1:4 t\nE\nmpirun x"], ("mpirun", False)),
        (["sh", "-c", "# (mpirun is not needed)\npython3 driver.py"], ("other", True)),
        (["sh", "-c", "python3 - <<'E'\nhorovodrun = 1\nE\npython3 x"], ("other", True)),
        (
            ["sh", "-c", "cat >/a/r.sh <<'E'\n#!/bin/bash\nmpirun x\nE\nbash -e /a/r.sh"],
            ("mpirun", False),
        ),
        (["sh", "-c", "cat <<E >$F\nmpirun x\nE\nchmod +x $F; exec $F"], ("mpirun", False)),
        (["sh", "-c", "tee r.sh <<E\nmpirun x\nE\n. ./r.sh"], ("mpirun", False)),
        (["sh", "-c", "cat <<E | tee r\nmpirun x\nE\nsu me -c '/a/r'"], ("mpirun", False)),
        (["sh", "-c", "sh -c 'cat >r <<E\nmpirun x\nE\n'; sh r"], ("mpirun", False)),
        (["sh", "-c", "bash <<E\nmpirun x\nE"], ("mpirun", False)),
        (["sh", "-c", "bash -s a <<-E\n\tset -e\n\tmpirun x\n\tE"], ("mpirun", False)),
        (["sh", "-c", "sudo su - me <<E\nmpirun x\nE"], ("mpirun", False)),
        (["sh", "-c", "sed s/a/b/ <<E |\nmpirun x\nE\n (sh /dev/stdin)"], ("mpirun", False)),
        (["sh", "-c", "bash <<<'mpirun x'"], ("mpirun", False)),
        (["sh", "-c", "sh <<E\nsh <<F\nmpirun x\nF\nE"], ("mpirun", False)),
        (["sh", "-c", "cat >t.py <<E\nds = 1\nE\npython t.py"], ("other", True)),
        (["sh", "-c", "cat >t <<E\n#!/usr/bin/env python\nds = 1\nE\n./t"], ("other", True)),
        (["sh", "-c", "cat >r.sh <<E\nmpirun x\nE\npython3 x"], ("other", True)),
        (
            ["sh", "-c", "cat >w.sh <<E\ntorchrun --nnodes=1:4 t\nE\nmpirun sh w.sh"],
            ("mpirun", False),
        ),
        (["sh", "-c", "bash x.sh <<E\nmpirun x\nE"], ("other", True)),
        (["sh", "-c", "bash -c 'cat' <<E; sh\nmpirun x\nE"], ("other", True)),
        (["sh", "-c", "command -v mpirun && python3 x"], ("other", True)),
        (["sh", "-c", "command -pv mpirun && python3 x"], ("other", True)),
        (["sh", "-c", "sudo -l mpirun && python3 x"], ("other", True)),
        (["sh", "-c", "mpirun () { echo; }; python3 x"], ("other", True)),
        (["sh", "-c", "run() { mpirun x; }; run"], ("mpirun", False)),
        (["sh", "-c", "case $A in mpirun) python3 x;; esac"], ("other", True)),
        (["sh", "-c", "pip install deepspeed && python3 x"], ("other", True)),
        (["bash", "run.sh", "-c", "mpirun x"], ("other", True)),
        (["env"], ("other", True)),
        (["deepspeed", "train.py"], ("deepspeed", False)),
        (["sh", "-c", "deepspeed"], ("deepspeed", False)),
        (["torchrun", "--nnodes=1:4", "train.py"], ("torchrun", True)),
        (["torchrun", "--nproc_per_node", "2", "--nnodes", "1:4", "t"], ("torchrun", True)),
        (["sh", "-c", "cd /x; exec torchrun --nn '2:10' t"], ("torchrun", True)),
        (["sh", "-c", "torchrun --nnodes=1:12 t"], ("torchrun", True)),
        (["torchrun", "--nnodes=2", "t"], ("torchrun", False)),
        (["torchrun", "--nnodes=2", "t", "--nnodes=1:4"], ("torchrun", False)),
        (["sh", "-c", "torchrun --nnodes=2 t --nn-layers 2:4"], ("torchrun", False)),
        (["torchrun", "--no-python", "t", "--nnodes=1:4"], ("torchrun", False)),
        (
            ["torchrun", "--rdzv-id", "7", "--max_restarts", "3", "--nnodes", "1:4", "t"],
            ("torchrun", True),
        ),
        (["torchrun", "--nnodes=2:2", "t"], ("torchrun", False)),
        (["torchrun", "t", "--x--nnodes=1:4"], ("torchrun", False)),
        (["torchrun", "--standalone", "t"], ("torchrun", False)),
        (["python3", "-m", "torch.distributed.run", "--nnodes=1:4", "t"], ("other", True)),
        (["python3", "train.py"], ("other", True)),
        (["python3", "mpirun", "x"], ("other", True)),
        (["sh", "-c", "echo mpirun; python x.py --launcher=mpirun"], ("other", True)),
        (["sh", "-c", "./mpirun.sh"], ("other", True)),
        (["sh", "-c"], ("other", True)),
        (["sh", "run.sh"], ("other", True)),
        ([], ("other", True)),
    ],
)
def test_the_launcher_of_a_command(command: list[str], choice: tuple[str, bool]):
    assert starters.choose(command)[:2] == choice


OURS = "--host-discovery-script /etc/edl/discover_hosts.sh"


@pytest.mark.parametrize(
    ("words", "least"),
    [
        (f"horovodrun -np 8 --min-np 4 --max-np 8 {OURS} python t", 2),
        ("horovodrun -np 8 --min-num-proc=5 python t --min-np 1", 3),
        (f"horovodrun -np 4 {OURS} python t", 2),
        (f"horovodrun {OURS} python t", 0),
        ("horovodrun -np 4 --min-np $N python t", 0),
        (f"horovodrun $MORE -np 4 {OURS} python t", 0),
        ("horovodrun $MORE -np 4 --min-np 2 python t", 1),
        (f"horovodrun -np 4 --a-new-one {OURS} python t", 0),
        ("horovodrun -np 4 --min-np 2 python t; horovodrun -np 4 --min-np 4 python t", 1),
        ("horovodrun -np 4 --min-np 2 python t; horovodrun --min-np $N python t", 0),
        ("horovodrun -np 8 python prepare; horovodrun -np 4 --min-np 4 python t", 2),
        ("horovodrun -np 4 --min-np 99999999999 python t", 0),
        ("horovodrun -np 4 python t", 0),
        ("torchrun --nnodes=3:4 t", 3),
        ("torchrun --nnodes=2 t", 0),
        ("mpirun -np 4 x", 0),
        ("python3 train.py", 0),
        ("horovodrun -np 4 --min-np 4 --host-discovery-script /my/hosts.sh python t", 0),
        ("horovodrun -np 4 --min-np 4 --host-discovery-script $SCRIPT python t", 0),
        ("horovodrun -np 4 --min-np 4 -H a:4,b:4 python t", 0),
        ("horovodrun -np 4 --min-np 4 --hostfile=hosts python t", 0),
    ],
)
def test_with_how_few_workers_it_goes_on(words: str, least: int):
    assert starters.choose(["sh", "-c", words], slots=2).least == least


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (f"horovodrun -np 2 --max-np 4 {OURS} python t", 4),
        (f"horovodrun -np 2 --max-num-proc=5 {OURS} python t --max-np 9", 5),
        (f"horovodrun -np 2 {OURS} python t", 0),
        (f"horovodrun -np 2 --max-np $N {OURS} python t", 0),
        ("horovodrun -np 2 --max-np 4 --host-discovery-script /my/hosts.sh python t", 0),
        ("horovodrun -np 2 --max-np 4 -H a:4 python t", 0),
        (f"horovodrun --max-np 4 {OURS} x; horovodrun --max-np 8 {OURS} y", 8),
        (f"horovodrun --max-np 4 {OURS} x; horovodrun {OURS} y", 0),
        ("torchrun --nnodes=2 t", 4),
        ("torchrun --nnodes=3:4 t", 8),
        ("torchrun --nnodes=3:44444444444 t", 0),
        ("mpirun -np 4 x", 0),
    ],
)
def test_with_how_many_processes_it_runs_at_most(words: str, most: int):
    assert starters.choose(["sh", "-c", words], slots=2).most == most


@pytest.mark.parametrize(
    ("words", "is_alone"),
    [
        ("horovodrun -np 2 python t", True),
        ("horovodrun --min-np 2 --max-np 4 python t", True),
        ("horovodrun -np 2 python prepare && horovodrun -np 2 python t", True),
        (f"horovodrun -np 2 {OURS} python t", False),
        (f"horovodrun -np 1 python prepare; horovodrun -np 2 {OURS} python t", False),
        ("horovodrun -np 2 -H a:1,b:1 python t", False),
        ("horovodrun -np 2 --hostfile /etc/edl/hostfile python t", False),
        ("horovodrun -np 2 $MORE python t", False),
        ("horovodrun -np 2 --config-file my.yaml python t", False),
        ("horovodrun --check-build", False),
        ("torchrun t", True),
        ("torchrun --nnodes=1 t", True),
        ("torchrun --nnodes 1:1 t", True),
        ("torchrun --standalone --nnodes=1:4 t", True),
        ("torchrun --nnodes=2:4 --rdzv_endpoint=other:29400 t", True),
        ("torchrun --nnodes=2:4 --rdzv-backend=etcd t", True),
        ("torchrun --nnodes=2 --master_addr=node-1 t", True),
        ("torchrun --nnodes=2:4 --rdzv-backend=c10d t", False),
        ("torchrun --nnodes=1:4 t", False),
        ("torchrun --nnodes=10 t", False),
        ("torchrun $MORE t", False),
        ("torchrun prepare.py && torchrun --nnodes=1:4 t", False),
        ("mpirun -np 4 x", False),
        ("deepspeed t", False),
        ("python3 train.py", False),
    ],
)
def test_whether_it_stays_in_the_launchers_own_pod(words: str, *, is_alone: bool):
    assert starters.choose(["sh", "-c", words]).is_alone is is_alone


def test_a_wish_decides():
    assert starters.choose(["sh", "run.sh"], "mpirun") == ("mpirun", False, 0, 0, False)
    assert starters.choose(["mpirun", "x"], "other") == ("other", True, 0, 0, False)
    assert starters.choose([], "horovodrun-in-process") == (
        "horovodrun-in-process",
        True,
        0,
        0,
        False,
    )
    chosen = starters.choose(ELASTIC.split(), "horovodrun-per-slot")
    assert chosen[:3] == ("horovodrun-per-slot", True, 1)
    with pytest.raises(KeyError):
        starters.choose(["mpirun"], "mpi")


def test_no_two_launchers_speak_of_the_same_thing():
    rows = starters.LAUNCHERS
    programs = [name for row in rows for name in row.programs]
    settings = [
        name for row in rows if not row.name.startswith("horovodrun-") for name in row.settings
    ]
    commands = [name for row in rows for name in row.commands]
    for names in (programs, settings, commands, list(starters.NAMES)):
        assert len(names) == len(set(names))
    assert sorted(starters.collect_programs()) == sorted(programs)


@pytest.mark.long
@pytest.mark.parametrize(
    "begin",
    [
        "\n",
        "A=1\n",
        ";A=",
        "(",
        "a/",
        "do ",
        "; ",
        "A=1 ",
        "a --nn ",
        "$(",
        "{ ",
        "sh <<E|",
        "sh<<E\nE\n",
        "sh r;tee r<<E\nE\n",
    ],
)
def test_a_word_is_looked_at_once_however_long_the_script_is(begin: str):
    script = begin * (starters.MAX_SCRIPT // len(begin))
    assert starters.choose(["sh", "-c", script]).name == "other"
    assert starters.choose(["sh", "-c", script[:2000] + "\nmpirun x"]).name == "mpirun"
    assert starters.choose(["sh", "-c", script * 2 + "\nmpirun x"]).name == "other"


@pytest.mark.long
@pytest.mark.parametrize(
    "word",
    ["-np \\\n", "$A ", "$(", "$(a", "$((", "-v ", "-np 1 ", "'", '"', '"\\', "`", "\\", "a", "&>"],
)
def test_so_are_the_arguments_of_a_launcher(word: str):
    for begin in (word, "horovodrun " + word, "horovodrun -np \\\n" + word, "$(horovodrun " + word):
        script = "horovodrun " + begin * (starters.MAX_SCRIPT // len(begin))
        assert starters.choose(["sh", "-c", script])[:3] == ("horovodrun", False, 0)


@pytest.mark.long
def test_what_a_script_says_of_its_parameters_is_bounded():
    long = ["sh", *["a" * 100] * 500]
    command = ["sh", "-c", '"$@";' * 10_000, *long]
    tracemalloc.start()
    try:
        assert starters.choose(command).name == starters.OTHER
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()


class Looked(str):
    """A word that counts how often it is looked at, with all others."""

    __slots__ = ()
    looks = 0

    def __len__(self) -> int:
        Looked.looks += 1
        return super().__len__()


@pytest.mark.parametrize("word", ["$*", '"$@"'])
def test_parameters_are_looked_at_as_long_as_there_is_room_for_them(word: str):
    parameters = [Looked("") for _ in range(500)]
    Looked.looks = 0
    assert starters.choose(["sh", "-c", f"{word} " * 3000, *parameters]).name == starters.OTHER
    assert Looked.looks < 4 * starters.MAX_SCRIPT


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", "a;" * (starters.MAX_SCRIPT // 2)],
        ["sh", "-c", "ds;" * (starters.MAX_SCRIPT // 3)],
        ["sh", "-c", "`a`" * (starters.MAX_SCRIPT // 3)],
        ["sh", "-c", "horovodrun " + "-a " * (starters.MAX_SCRIPT // 3)],
        ["sh", "-c", 'horovodrun "$@";' * 4096, *["-a"] * 2048],
        ["sh", "-c", 'sh -c "$1";' * 70, "sh", "a;" * 450],
    ],
    ids=["commands", "calls", "substitutions", "options", "parameters", "script-in-script"],
)
def test_of_commands_and_words_no_more_are_looked_at_than_any_job_has(
    command: list[str], monkeypatch: pytest.MonkeyPatch
):
    """A character may be a command, and whoever reads jobs reads those of all others too."""
    looked: Counter[str] = Counter()
    find_program, split = wrappers.find_program, options._split

    def find(words: Sequence[str]) -> int:
        looked["commands"] += 1
        return find_program(words)

    def look(word: str, table: options.Table) -> tuple[str, str | None]:
        looked["options"] += 1
        return split(word, table)

    monkeypatch.setattr(wrappers, "find_program", find)
    monkeypatch.setattr(options, "_split", look)
    starters.choose(command)
    assert looked["commands"] <= 4096
    assert looked["options"] <= 8192


def test_no_command_line_costs_more_than_its_commands_and_words():
    """A word may be the beginning of all options, or be put in as often as there is room for it."""
    each = "horovodrun $@\n"
    plain, many, few = (
        count_steps(partial(starters.choose, ["sh", "-c", *words]))
        for words in (
            ["a;" * (starters.MAX_SCRIPT // 2)],
            [each * 1000, "sh", *["-="] * 8],
            [each * 60 + "horovodrun " + "-= " * 3900, "sh", *["-="] * 120],
        )
    )
    assert max(many, few) < 1.5 * plain
