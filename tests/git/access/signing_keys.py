"""Keys of ssh-keygen and gpg that sign commits, and plain git that verifies them."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gatewright.git.access.credentials import RepositoryAccess
from gatewright.git.access.policy import AccessRole
from tests.ecosystems.tools import needs
from tests.git.access.conftest import write_policy
from tests.git.repositories import Repository

EMAIL = "delivery@example.org"
COMMITTER = {"name": "Delivery", "email": EMAIL}
needs_signing_programs = needs("ssh-keygen", "gpg", "gpgconf")
SetVariable = Callable[[str, str], object]


@dataclass(frozen=True)
class SigningKey:
    """``sign`` of an entry of repositories.json, and the folder with all that verifies its signatures."""

    sign: dict[str, Any]
    folder: Path

    def access(self, folder: Path, place: str, role: AccessRole = "gatekeeper", **more: Any) -> RepositoryAccess:
        """The policy of an operator whose commits at ``place`` are signed with this key."""
        policies = write_policy(folder, {"places": [place], "sign": self.sign, **more})
        return RepositoryAccess.load(policies, role)

    @property
    def settings(self) -> tuple[str, ...]:
        return ("-c", f"gpg.ssh.allowedSignersFile={self.folder / 'allowed'}")

    def verifies(self, repository: Repository, commit: str) -> bool:
        """What ``git verify-commit`` answers."""
        argv = ["git", "-C", str(repository.path), *self.settings, "verify-commit", commit]
        variables = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "GNUPGHOME": str(self.folder)}
        return subprocess.run(argv, env=variables, capture_output=True, check=False).returncode == 0

    def hook(self, repository: Repository) -> None:
        """Have a bare repository refuse every pushed commit that does not verify."""
        hook = repository.path / "hooks" / "pre-receive"
        hook.parent.mkdir(exist_ok=True)
        words = " ".join(self.settings)
        hook.write_text(
            f"#!/bin/sh\nexport GNUPGHOME={self.folder}\nwhile read old new ref; do\n"
            "  for commit in $(git rev-list $new --not --all); do\n"
            f"    git {words} verify-commit $commit 2>/dev/null || {{ echo $commit is an unsigned commit >&2; exit 1; }}\n"
            "  done\ndone\n"
        )
        hook.chmod(0o755)


def make_ssh_key(folder: Path, kind: str = "ed25519", passphrase: str = "") -> SigningKey:
    """A private key in a file."""
    folder.mkdir(exist_ok=True, parents=True)
    key = folder / "signing"
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "", "-f", key], check=True)
    (folder / "allowed").write_text(f"{EMAIL} {key.with_suffix('.pub').read_text()}")
    return SigningKey({"format": "ssh", "key_file": str(key), "committer": COMMITTER}, folder)


@contextmanager
def openpgp_key(set_variable: SetVariable) -> Iterator[SigningKey]:
    """A key in a keyring of its own, which ``GNUPGHOME`` of this process names; its signatures differ each time."""
    with tempfile.TemporaryDirectory(prefix="gpg-", ignore_cleanup_errors=True) as name:  # a socket's path may not be long
        variables = {"PATH": os.environ["PATH"], "HOME": name, "GNUPGHOME": name}
        words = ("--batch", "--quiet", "--passphrase", "", "--quick-gen-key", f"Delivery <{EMAIL}>", "rsa2048", "sign", "never")
        subprocess.run(["gpg", *words], env=variables, check=True, capture_output=True)
        listed = subprocess.run(
            ["gpg", "--list-keys", "--with-colons"], env=variables, check=True, capture_output=True, text=True
        )
        key = next(line.split(":")[9] for line in listed.stdout.splitlines() if line.startswith("fpr:"))
        set_variable("GNUPGHOME", name)
        try:
            yield SigningKey({"format": "openpgp", "agent": True, "key": key, "committer": COMMITTER}, Path(name))
        finally:
            subprocess.run(["gpgconf", "--kill", "gpg-agent"], env=variables, check=True)
