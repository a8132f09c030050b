"""New ssh keys of a job, as texts: executing writes them once, nobody keeps or reads them again.

No I/O: random bytes become text. The library is imported with the first pair and never before, for
most operators make none.
"""

from __future__ import annotations

from et_contract import names


def make_keys() -> dict[str, str]:
    """One key pair for the launcher and one for the sshd of all workers, as files of OpenSSH.

    By their names in contract. The launcher's key may run commands and nothing else (`restrict`).
    """
    user, user_public = _make_pair()
    host, host_public = _make_pair()
    return {
        names.KEY_USER: user,
        names.KEY_AUTHORIZED: f"restrict {user_public}\n",
        names.KEY_HOST: host,
        names.KEY_KNOWN_HOSTS: f"{names.SSH_HOST} {host_public}\n",
    }


def _make_pair() -> tuple[str, str]:
    """A new ed25519 key, private and public."""
    # Most operators never need this library, which takes some 10 MB of memory.
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return private.decode(), public.decode()
