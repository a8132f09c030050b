"""The parts of devcluster that need neither root nor a cluster."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from devcluster import __main__ as cli
from devcluster import (
    building,
    cgroups,
    checks,
    commands,
    hostsettings,
    images,
    lifecycles,
    manifests,
    nodes,
    ociimages,
    processes,
    reporting,
    settings,
    simulating,
)
from devcluster.failures import DevclusterError


@pytest.fixture
def cluster(tmp_path: Path) -> settings.Cluster:
    return settings.Cluster("tiny", tmp_path)


# ---------------------------------------------------------------- settings


def test_two_checkouts_have_clusters_of_different_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEVCLUSTER_NAME", raising=False)
    first = settings.find_cluster().name
    monkeypatch.setattr(settings, "CHECKOUT", Path("/elsewhere"))
    assert settings.find_cluster().name != first


def test_a_checkout_has_a_cluster_for_each_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEVCLUSTER_NAME", raising=False)
    monkeypatch.delenv("DEVCLUSTER_KUBERNETES", raising=False)
    newest = settings.find_cluster()
    monkeypatch.setenv("DEVCLUSTER_KUBERNETES", "oldest")
    oldest = settings.find_cluster()
    assert newest.release.version != oldest.release.version
    assert newest.name != oldest.name
    monkeypatch.setenv("DEVCLUSTER_KUBERNETES", "1.0")
    with pytest.raises(DevclusterError, match="give newest or oldest"):
        settings.find_cluster()


def test_a_cluster_is_never_mended_with_another_version(tmp_path: Path) -> None:
    oldest = settings.Cluster("tiny", tmp_path, settings.RELEASES["oldest"])
    lifecycles.keep_release(oldest)
    lifecycles.keep_release(oldest)
    with pytest.raises(DevclusterError, match=r"runs Kubernetes 1\.30"):
        lifecycles.keep_release(settings.Cluster("tiny", tmp_path))


@pytest.mark.parametrize("name", ["UPPER", "1first", "toolongname", "a-b", "a/b"])
def test_a_name_that_cannot_be_part_of_a_link_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVCLUSTER_NAME", name)
    with pytest.raises(DevclusterError, match="DEVCLUSTER_NAME"):
        settings.find_cluster()


def test_the_longest_name_still_fits_into_a_link_name() -> None:
    node = settings.Cluster("ninechars", Path("/")).node(settings.MAXIMUM_NODES)
    assert len(node.link) <= 15


@pytest.mark.parametrize("port", ["0", "65536", "http", "-1"])
def test_an_impossible_port_is_refused(port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVCLUSTER_PORT", port)
    with pytest.raises(DevclusterError, match="DEVCLUSTER_PORT"):
        settings.find_port()


def test_caches_follow_the_users_cache_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert settings.find_cache() == tmp_path / "et-operator-devcluster"


# ---------------------------------------------------------------- refusals


def test_a_missing_program_is_named_by_its_package_and_the_command_that_installs_it() -> None:
    with pytest.raises(DevclusterError, match=r"apt-get install .* some-package"):
        checks.check_programs({"no-such-program": "some-package", "sh": "dash"})


def test_a_port_in_use_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(DevclusterError, match="is in use"):
            checks.listen(taken.getsockname()[1])


def test_too_little_disk_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(checks, "_DISK", 10**18)
    with pytest.raises(DevclusterError, match="GB free"):
        checks.check_disk(tmp_path)


def test_too_little_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_MEMORY", 10**18)
    with pytest.raises(DevclusterError, match="GB of memory"):
        checks.check_memory()


def test_another_system_and_another_user_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks.os, "geteuid", lambda: 1000)
    with pytest.raises(DevclusterError, match="must be root"):
        checks.check_platform()
    monkeypatch.setattr(checks.platform, "system", lambda: "Darwin")
    with pytest.raises(DevclusterError, match="needs Linux"):
        checks.check_platform()


def test_a_refusal_is_one_line_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checks.os, "geteuid", lambda: 1000)
    assert cli.main(["up"]) == 1
    assert capsys.readouterr().err.startswith("devcluster: ")


@pytest.mark.parametrize(
    "arguments", [["up", "--nodes", "0"], ["up", "--simulated", "-1"], ["fault", "melt"], []]
)
def test_a_wrong_command_line_is_refused_before_anything_is_touched(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2


def test_a_failed_command_tells_what_it_wrote() -> None:
    with pytest.raises(DevclusterError, match=r"ended with 3.*\nthe reason"):
        commands.run(["sh", "-c", "echo the reason >&2; exit 3"])


# ---------------------------------------------------------------- artifacts


def test_an_artifact_is_made_once_and_appears_whole(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(new: Path) -> None:
        assert not (tmp_path / "artifacts" / "thing").exists()
        made.append(new)
        new.write_text("whole")

    for _ in range(2):
        assert building.keep(tmp_path, "thing", make).read_text() == "whole"
    assert len(made) == 1


def test_an_interrupted_build_leaves_nothing_that_counts(tmp_path: Path) -> None:
    def fail(new: Path) -> None:
        new.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        building.keep(tmp_path, "thing", fail)
    assert building.keep(tmp_path, "thing", lambda new: new.write_text("whole") and None)
    assert (tmp_path / "artifacts" / "thing").read_text() == "whole"


def _make_slowly(cache: Path, marks: Path) -> None:
    def make(new: Path) -> None:
        with marks.open("a") as file:
            file.write("made\n")
        time.sleep(0.3)  # noqa: TID251 - long enough for the other process to come
        new.write_text("whole")

    building.keep(cache, "thing", make)


@pytest.mark.long
def test_two_builds_at_once_make_an_artifact_once(tmp_path: Path) -> None:
    spawning = multiprocessing.get_context("spawn")
    arguments = (tmp_path, tmp_path / "marks")
    both = [spawning.Process(target=_make_slowly, args=arguments) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(30)
    assert [process.exitcode for process in both] == [0, 0]
    assert (tmp_path / "marks").read_text() == "made\n"


def test_the_digest_changes_with_names_content_and_texts(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "file"
    file.parent.mkdir()
    file.write_text("one")
    digests = {building.digest([tmp_path / "folder"]), building.digest([tmp_path / "folder", "x"])}
    file.write_text("two")
    digests.add(building.digest([tmp_path / "folder"]))
    file.rename(tmp_path / "folder" / "other")
    digests.add(building.digest([tmp_path / "folder"]))
    assert len(digests) == 4


def test_compiled_files_do_not_change_the_digest(tmp_path: Path) -> None:
    before = building.digest([tmp_path])
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").touch()
    assert building.digest([tmp_path]) == before


def test_the_image_of_one_program_is_an_archive_whose_digest_can_be_read(tmp_path: Path) -> None:
    program = tmp_path / "pause"
    program.write_bytes(b"program")
    ociimages.write_program_image(program, "localhost/pause:dev", tmp_path / "image.tar")
    digest = ociimages.read_digest(tmp_path / "image.tar")
    assert digest.startswith("sha256:")
    listed = f"REF TYPE DIGEST\nlocalhost/pause:dev application/x {digest} 1 KiB"
    assert ociimages.is_listed(tmp_path / "image.tar", listed)
    renamed = listed.replace(":dev", ":other")
    assert not ociimages.is_listed(tmp_path / "image.tar", renamed), "it needs its own name too"


# ---------------------------------------------------------------- processes


def _record(cluster: settings.Cluster, pid: int) -> Path:
    cluster.records.mkdir(parents=True, exist_ok=True)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    path = cluster.records / "thing"
    path.write_text(f"{boot} {Path(f'/proc/{pid}/stat').read_text()}")
    return path


def test_a_recorded_process_is_found_and_ended(cluster: settings.Cluster) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        _record(cluster, process.pid)
        assert processes.find(cluster, "thing") == process.pid
        assert processes.stop(cluster, "thing")
        assert process.wait(5) == -15
    assert processes.find(cluster, "thing") is None


@pytest.mark.long
def test_a_process_that_ignores_being_asked_is_killed(cluster: settings.Cluster) -> None:
    program = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"
    command = [sys.executable, "-c", f"{program}; time.sleep(60)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        _record(cluster, process.pid)
        assert processes.stop(cluster, "thing", grace=0.2)
        assert process.wait(5) == -9


@pytest.mark.parametrize("field", ["boot", "start"])
def test_a_later_process_of_the_same_number_is_left_alone(
    field: str, cluster: settings.Cluster
) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        path = _record(cluster, process.pid)
        if field == "boot":
            path.write_text(path.read_text().replace("-", "", 1))
        else:
            fields = path.read_text().split()
            fields[22] = str(int(fields[22]) - 1)
            path.write_text(" ".join(fields))
        assert processes.find(cluster, "thing") is None
        assert not processes.stop(cluster, "thing")
        assert process.poll() is None
        process.kill()


def test_a_torn_record_is_no_process(cluster: settings.Cluster) -> None:
    cluster.records.mkdir(parents=True)
    for text in ("", "boot", "boot 12 (a) S"):
        (cluster.records / "thing").write_text(text)
        assert processes.find(cluster, "thing") is None


def test_each_hierarchy_of_cgroup_v1_is_found_once(tmp_path: Path) -> None:
    for name in ("cpu,cpuacct", "memory"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").touch()
    (tmp_path / "cpu").symlink_to("cpu,cpuacct")
    (tmp_path / "empty").mkdir()
    assert [path.name for path in cgroups.find_hierarchies(tmp_path)] == ["cpu,cpuacct", "memory"]


def test_cgroup_v2_is_one_hierarchy(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    assert cgroups.find_hierarchies(tmp_path) == [tmp_path]


# ---------------------------------------------------------------- nodes


@pytest.mark.parametrize("unified", [True, False])
def test_only_a_kubelet_on_cgroup_v1_is_told_not_to_refuse_it(
    unified: bool, cluster: settings.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "is_v2", lambda: unified)
    content = json.loads(manifests.write_kubelet_configuration(cluster.node(1)))
    assert ("failCgroupV1" in content) is not unified


def test_the_slices_of_two_nodes_do_not_overlap(cluster: settings.Cluster) -> None:
    ranges = []
    for number in (1, 2):
        content = json.loads(manifests.write_network_configuration(cluster.node(number)))
        ranges.append(content["plugins"][0]["ipam"]["ranges"][0][0]["rangeStart"])
    assert ranges == ["10.87.1.10", "10.87.2.10"]


def test_the_script_of_a_node_is_valid_shell(cluster: settings.Cluster) -> None:
    script = nodes.write_setup(cluster.node(1))
    assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0


def test_a_simulated_node_has_ephemeral_storage_and_repels_ordinary_pods() -> None:
    node = simulating.write_node("simulated-1")
    assert "ephemeral-storage" in node["status"]["allocatable"]
    assert node["spec"]["taints"][0]["effect"] == "NoSchedule"


# ---------------------------------------------------------------- settings lent to image builds


def test_pip_variables_win_over_files(tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = https://file.invalid/simple\ntimeout = 7\n")
    found = hostsettings.read_pip_options(
        {"PIP_INDEX_URL": "https://variable.invalid/simple"}, (str(file),)
    )
    assert found == {"index-url": "https://variable.invalid/simple", "timeout": "7"}


def test_the_certificates_of_the_machine_are_lent_at_another_path() -> None:
    text = hostsettings.write_pip_configuration({"timeout": "7"}, "/run/host/certificates.crt")
    assert text == "[global]\ntimeout = 7\ncert = /run/host/certificates.crt\n"


FAKE_BUILDAH = """#!/bin/sh
echo >> {count}
[ $(wc -l < {count}) -gt {failures} ] && exit 0
echo '{words}'
exit 1
"""


@pytest.mark.parametrize(
    ("words", "failures", "runs"),
    [
        ("Close_Fd sealing memfd copy: Device or resource busy", 1, 2),
        ("Close_Fd sealing memfd copy: Device or resource busy", 9, 2),
        ("no such package", 9, 1),
    ],
)
def test_a_build_that_was_in_its_own_way_is_tried_once_more(
    words: str, failures: int, runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, program = tmp_path / "count", tmp_path / "buildah"
    program.write_text(FAKE_BUILDAH.format(count=count, words=words, failures=failures))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with reporting.step("building") as step:
        if runs > failures:
            images.run_buildah(tmp_path, ["bud"], step)
        else:
            with pytest.raises(DevclusterError, match=words):
                images.run_buildah(tmp_path, ["bud"], step)
    assert len(count.read_text().splitlines()) == runs
