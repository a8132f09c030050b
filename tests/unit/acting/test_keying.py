from __future__ import annotations

import subprocess
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from et_contract import names
from et_operator.acting.keying import make_keys


def find_public(private: str) -> str:
    key = serialization.load_ssh_private_key(private.encode(), password=None)
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return public.decode()


def test_each_end_gets_its_own_private_key_and_the_others_public_one() -> None:
    keys = make_keys()
    user, host = find_public(keys[names.KEY_USER]), find_public(keys[names.KEY_HOST])
    assert user.startswith("ssh-ed25519 ")
    assert user != host
    assert keys[names.KEY_AUTHORIZED] == f"restrict {user}\n"
    assert keys[names.KEY_KNOWN_HOSTS] == f"edl-worker {host}\n"


def test_no_two_jobs_have_the_same_keys() -> None:
    first, second = make_keys(), make_keys()
    assert all(first[name] != second[name] for name in first)


def test_ssh_takes_them(tmp_path: Path) -> None:
    keys = make_keys()
    path = tmp_path / "id"
    path.write_text(keys[names.KEY_USER])
    path.chmod(0o600)
    try:
        words = ["ssh-keygen", "-y", "-f", str(path)]
        found = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        return  # no ssh on this machine: the run on the cluster has it
    assert found.split()[:2] == find_public(keys[names.KEY_USER]).split()[:2]
