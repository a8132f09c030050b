from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_contract import names, starters
from launcher.shim import environments

WEB = {
    "WEB_SERVICE_HOST": "10.0.0.2",
    "WEB_SERVICE_PORT": "80",
    "WEB_SERVICE_PORT_HTTP": "80",
    "WEB_PORT": "tcp://10.0.0.2:80",
    "WEB_PORT_80_TCP": "tcp://10.0.0.2:80",
    "WEB_PORT_80_TCP_PROTO": "tcp",
    "WEB_PORT_80_TCP_PORT": "80",
    "WEB_PORT_80_TCP_ADDR": "10.0.0.2",
    "WEB_PORT_53_UDP": "udp://10.0.0.2:53",
    "WEB_PORT_53_UDP_ADDR": "10.0.0.2",
}
"""As the kubelet makes them for a Service."""


def make(environ: dict[str, str]) -> dict[str, str]:
    return environments.make_command_environment(environ, "n0", "/bin-of-ours")


def test_what_scripts_extend_or_test_is_as_without_us():
    ours = {"PATH", names.ENV_NONCE, names.ENV_LAUNCHER}
    assert make({}).keys() - ours == starters.collect_settings().keys()
    paths = {"PYTHONPATH": "/app", "LD_LIBRARY_PATH": "/lib", "BASH_ENV": "/env", "HOME": "/"}
    assert paths.items() <= make(paths).items()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOSTNAME", "job-launcher"),
        ("EDL_JOB_UID", "u"),
        ("EDL_NONCE", "somebody's"),
        ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
        ("KUBERNETES_PORT", "tcp://10.0.0.1:443"),
        ("KUBERNETES_PORT_443_TCP_ADDR", "10.0.0.1"),
        ("NVIDIA_VISIBLE_DEVICES", "void"),
        ("NVIDIA_DRIVER_CAPABILITIES", "compute"),
        ("NVIDIA_REQUIRE_CUDA", "cuda>=12"),
    ],
)
def test_what_is_true_of_the_launcher_alone_does_not_reach_the_workers(name: str, value: str):
    assert make({name: value}).get(name) in (None, "n0")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MASTER_PORT", "29500"),
        ("HOME", "/root"),
        ("LD_LIBRARY_PATH", "/usr/lib"),
        ("HOROVOD_LOG_LEVEL", "info"),
        ("REPORT_PORT_NAME", "x"),
        ("MY_HOSTNAME", "x"),
        ("POD_IP", "10.0.0.3"),
        ("NVIDIA_TF32_OVERRIDE", "0"),
        ("KUBERNETES_NAMESPACE", "ns"),
        ("REDIS_SERVICE_HOST", "redis.example"),
        ("REDIS_SERVICE_PORT", "6379"),
        ("REDIS_PORT", "tcp://redis.example:6379"),
        ("REDIS_PORT_6379_TCP_ADDR", "redis.example"),
        ("WEB_PORT_70_TCP", "tcp://10.0.0.9:70"),
        ("WEB_SERVICE_PORT_NAME", "http"),
    ],
)
def test_everything_else_does(name: str, value: str):
    assert make({**WEB, name: value})[name] == value


@pytest.mark.parametrize("name", ["WEB_SERVICE_HOST", "WEB_PORT_80_TCP_ADDR"])
def test_what_somebody_sets_under_the_name_of_a_service_is_theirs(name: str):
    mine = {name: "mine.example"}
    env = make({**WEB, **mine})
    assert env.keys() & WEB.keys() == mine.keys()
    assert env.items() >= mine.items()


@pytest.mark.parametrize("host", ["10.0.0.2", "fd00::2"])
def test_the_links_of_a_service_do_not(host: str):
    place = f"[{host}]:" if ":" in host else f"{host}:"
    web = {
        name: value.replace("10.0.0.2:", place).replace("10.0.0.2", host)
        for name, value in WEB.items()
    }
    assert make(web).keys() & WEB.keys() == set()


def test_what_the_template_sets_is_kept_whatever_its_name():
    environ = {
        names.ENV_KEEP: "NVIDIA_TF32_OVERRIDE,DB_SERVICE_HOST",
        "NVIDIA_TF32_OVERRIDE": "0",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "DB_SERVICE_HOST": "db",
    }
    env = make(environ)
    assert env["NVIDIA_TF32_OVERRIDE"] == "0"
    assert env["DB_SERVICE_HOST"] == "db"
    assert "NVIDIA_VISIBLE_DEVICES" not in env
    assert names.ENV_KEEP not in env


def test_only_a_command_whose_job_wants_that_hears_how_losses_go():
    assert names.ENV_LOSSES not in make({})
    assert make({names.ENV_LOSSES: names.FAST})[names.ENV_LOSSES] == names.FAST


def test_our_programs_come_first_and_mpirun_knows_them():
    env = make({"PATH": "/usr/bin"})
    assert env["PATH"] == "/bin-of-ours:/usr/bin"
    assert env["OMPI_MCA_plm_rsh_agent"] == "/etc/mpi/kubexec.sh"
    assert env["OMPI_MCA_plm_rsh_no_tree_spawn"] == "1"
    assert env["OMPI_MCA_orte_leave_session_attached"] == "1"
    assert env["OMPI_MCA_if_base_do_not_resolve"] == "1"


@pytest.mark.point("case-31")
def test_case_31_the_links_of_5000_services_are_left_out():
    links = {}
    for n in range(5000):
        links[f"S{n}_SERVICE_HOST"] = links[f"S{n}_PORT_80_TCP_ADDR"] = "10.0.0.2"
        links[f"S{n}_PORT"] = links[f"S{n}_PORT_80_TCP"] = "tcp://10.0.0.2:80"
    env = make({"HOME": "/root", **links})
    assert env.keys() & links.keys() == set()
    assert sum(map(len, [*env, *env.values()])) < 2000


def test_settings_of_the_user_stand():
    env = make({"OMPI_MCA_plm_rsh_agent": "/usr/bin/ssh"})
    assert env["OMPI_MCA_plm_rsh_agent"] == "/usr/bin/ssh"


def test_a_script_has_no_nonce():
    assert "EDL_NONCE" not in environments.make_script_environment({"EDL_NONCE": "n"})


def test_horovodrun_does_not_tell_workers_our_address():
    environ = {"POD_IP": "10.0.0.3", "MY_NODE_NAME": "n", "POD_NAMESPACE": "ns", "A": "1"}
    assert environments.drop_pod_facts(environ) == {"POD_NAMESPACE": "ns", "A": "1"}


@pytest.mark.long
@given(st.dictionaries(st.text(alphabet="ABC_PORT80", min_size=1), st.text()))
def test_scrubbing_only_ever_drops(environ: dict[str, str]):
    scrubbed = environments.make_script_environment(environ)
    assert scrubbed.items() <= environ.items()
