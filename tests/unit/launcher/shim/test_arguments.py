from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.shim.arguments import Remote, UsageError, parse_remote

WORDS = st.text(alphabet="abc '\"$;|&\\", min_size=1)


@pytest.mark.parametrize(
    ("argv", "host", "command"),
    [
        # horovodrun's kubexec form: one quoted string
        (["w-1", "cd /x > /dev/null 2>&1 ; env A=1 python t.py"], "w-1", None),
        # horovodrun's ssh form: options behind the host too
        (
            ["-o", "A=no", "-o", "B=no", "w-1", "-p", "22", "-i", "/id", "-o", "C=10", "true"],
            "w-1",
            "true",
        ),
        # horovodrun's task_fn: unquoted words
        (["w-1", "python", "-m", "horovod.runner.task_fn", "a"], "w-1", None),
        # pdsh
        (["-2", "-a", "-x", "-lroot", "w-1", "pkill", "-f", "train"], "w-1", "pkill -f train"),
        # mpirun
        (["-x", "w-1", "PATH=/a:$PATH ;", "orted", "-mca", "ess", '"env"'], "w-1", None),
        # DeepSpeed
        (["-p", "2222", "w-1", "hostname", "-I"], "w-1", "hostname -I"),
        (["-p2222", "-4nTq", "root@w-1", "x"], "w-1", "x"),
        (["-vp", "22", "w-1", "x"], "w-1", "x"),
        (["w-1.ns.svc.cluster.local", "x"], "w-1", "x"),
        (["me@w-1.ns", "x"], "w-1", "x"),
        (["10.1.2.3", "x"], "10.1.2.3", "x"),
        (["--", "w-1", "--", "-x"], "w-1", "-x"),
    ],
)
def test_arguments_are_read_as_ssh_reads_them(argv: list[str], host: str, command: str | None):
    expected = " ".join(argv[argv.index(host) + 1 :]) if command is None else command
    assert parse_remote(argv)[:2] == (host, expected)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "no host given"),
        (["-p"], "option -p needs a value"),
        (["-p", "22"], "no host given"),
        (["w-1"], "no command given for w-1"),
        (["w-1", "-p", "22"], "no command given for w-1"),
        (["-z", "w-1", "x"], "unknown ssh option -z"),
        (["user@", "x"], "no host in 'user@'"),
    ],
)
def test_what_ssh_would_refuse_is_refused_with_a_reason(argv: list[str], message: str):
    with pytest.raises(UsageError, match=message):
        parse_remote(argv)


@pytest.mark.long
@given(st.lists(WORDS, min_size=1))
def test_every_word_of_the_command_is_kept_behind_one_space(words: list[str]):
    wanted = Remote("w-1", " ".join(words), {"n"}, 0)
    assert parse_remote(["-n", "w-1", "--", *words]) == wanted


@pytest.mark.parametrize(
    ("command", "ranks"),
    [
        ("cd /x > /dev/null 2>&1 ; env HOROVOD_HOSTNAME=w HOROVOD_RANK=0 python train.py", 1),
        ("HOROVOD_RANK=3 python train.py", 1),
        ("true", 0),
        ("PATH=/x orted -mca ess env", 0),
        ("echo $HOROVOD_RANK", 0),
        ("env | grep HOROVOD_RANK=", 0),
    ],
)
def test_a_rank_of_horovodrun_is_known_by_its_command(command: str, ranks: int):
    assert parse_remote(["w-1", command]).ranks == ranks


def test_options_without_a_value_are_told_wherever_they_stand():
    assert parse_remote(["-xT", "-p22", "w-1", "-f", "-vn", "c", "-q"]).flags == set("xTfvn")
