"""The ssh command that git is given: no configuration file, one identity, known hosts only, and nothing that could ask."""

from __future__ import annotations

import shlex
from pathlib import Path

from gatewright.git.access.policy import RepositoryCredential

_ALWAYS = {
    "BatchMode": "yes",
    "StrictHostKeyChecking": "yes",
    "UpdateHostKeys": "no",
    "PasswordAuthentication": "no",
    "KbdInteractiveAuthentication": "no",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ClearAllForwardings": "yes",
    "PermitLocalCommand": "no",
    "ControlMaster": "no",
    "ControlPath": "none",
    "ConnectTimeout": "30",
    "ServerAliveInterval": "15",
    "ServerAliveCountMax": "4",
}


def ssh_command(credential: RepositoryCredential, known_hosts: Path | None) -> str:
    """The value of ``core.sshCommand``. A shell takes it apart; every word is quoted, and none is a secret."""
    options = dict(_ALWAYS)
    if credential.key_file is not None:
        options |= {"IdentitiesOnly": "yes", "IdentityFile": str(credential.key_file), "IdentityAgent": "none"}
    if known_hosts is not None:
        options |= {"UserKnownHostsFile": str(known_hosts), "GlobalKnownHostsFile": "/dev/null"}
    words = (word for name, value in options.items() for word in ("-o", f"{name}={value}"))
    # The configuration of the account, and of the host, could run commands and lead to another server.
    return shlex.join(["ssh", "-F", "/dev/null", *words])
