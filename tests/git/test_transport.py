"""What of the operator's environment reaches git: proxies and the SSH agent where it speaks to another host; nothing else."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from gatewright.app.cli.settings import inherited_environment
from gatewright.errors import GitError
from gatewright.git.access.credentials import RepositoryAccess
from gatewright.git.access.policy import RepositoriesPolicy
from gatewright.git.command import GitCommand
from gatewright.git.mirror import Mirrors

#: An alias that shows the environment of git itself.
SHOW = ("-c", "alias.surroundings=!env", "surroundings")
OPERATORS = {
    "HTTPS_PROXY": "http://user:secret@127.0.0.1:1",
    "no_proxy": "localhost",
    "SSH_AUTH_SOCK": "/run/agent.sock",
    "SSL_CERT_FILE": "/etc/company.pem",
    "AWS_SECRET_ACCESS_KEY": "not for git",
    "GIT_SSH_COMMAND": "touch /tmp/never",
    "GIT_PROXY_COMMAND": "touch /tmp/never",
}


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in OPERATORS.items():
        monkeypatch.setenv(name, value)
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "bare"], check=True, env={"PATH": os.environ["PATH"]})
    return tmp_path / "bare"


def seen(bare: Path, *protocols: str) -> dict[str, str]:
    words = GitCommand(bare, protocols=protocols).execute(*SHOW).decode()
    return dict(line.split("=", 1) for line in words.splitlines() if "=" in line)


def test_the_proxy_and_its_certificates_reach_git_over_https_only(bare: Path) -> None:
    https = seen(bare, "https")
    assert (https["HTTPS_PROXY"], https["no_proxy"]) == (OPERATORS["HTTPS_PROXY"], "localhost")
    assert https["GIT_SSL_CAINFO"] == "/etc/company.pem"
    assert not {"SSH_AUTH_SOCK", "AWS_SECRET_ACCESS_KEY", "GIT_SSH_COMMAND", "GIT_PROXY_COMMAND"} & set(https)


def test_the_agent_reaches_git_over_ssh_only(bare: Path) -> None:
    ssh = seen(bare, "ssh")
    assert ssh["SSH_AUTH_SOCK"] == OPERATORS["SSH_AUTH_SOCK"]
    assert not {"HTTPS_PROXY", "AWS_SECRET_ACCESS_KEY", "GIT_SSH_COMMAND", "GIT_PROXY_COMMAND"} & set(ssh)


@pytest.mark.parametrize("protocols", [(), ("file",)])
def test_a_command_on_a_repository_of_this_host_sees_none_of_it(bare: Path, protocols: tuple[str, ...]) -> None:
    assert not set(OPERATORS) & set(seen(bare, *protocols))


def test_the_password_of_a_proxy_stands_in_no_argument(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments: list[str] = []

    def run(argv: list[str], _environment: dict[str, str], **_: object) -> None:
        arguments.extend(argv)
        raise GitError("enough")

    monkeypatch.setattr("gatewright.git.command.run_to_end", run)
    with pytest.raises(GitError):
        GitCommand(bare, protocols=("https",)).execute("ls-remote")
    assert arguments
    assert not [word for word in arguments if "secret" in word]


@pytest.mark.parametrize("name", ["SSH_AUTH_SOCK", "SSL_CERT_FILE", "https_proxy", "ALL_PROXY", "all_proxy", "no_proxy"])
def test_what_git_is_left_is_what_the_processes_of_a_stack_inherit(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "said by the operator")
    assert inherited_environment()[name] == "said by the operator"


async def test_a_fetch_over_https_goes_through_the_operators_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def answer() -> None:
            connection, _ = proxy.accept()
            with connection:
                asked.append(connection.recv(4096))
                connection.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.delenv("no_proxy", raising=False)
        with pytest.raises(GitError):
            await (await Mirrors(tmp_path / "mirrors").open("https://example.invalid/x.git")).resolve("main")
        thread.join(10)
    assert asked[0].startswith(b"CONNECT example.invalid:443 ")


AGENT = {"places": ("*",), "read": {"agent": True}}
KEY = {
    "places": ("ssh://git@example.invalid/",),
    "read": {"key_file": "/run/secrets/key"},
    "known_hosts": "/etc/gatewright/known_hosts",
}


@pytest.mark.parametrize("entry", [AGENT, KEY], ids=["agent", "key"])
async def test_ssh_receives_what_the_policy_grants_and_no_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: dict[str, object]
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    said = tmp_path / "said"
    (programs / "ssh").write_text(f'#!/bin/sh\necho "agent=$SSH_AUTH_SOCK $*" > {said}\nexit 1\n')
    (programs / "ssh").chmod(0o755)
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent.sock")
    monkeypatch.setattr("os.defpath", f"{programs}:{os.defpath}")
    monkeypatch.setattr("os.access", lambda *_: True)
    monkeypatch.setattr("gatewright.git.command.executable", lambda name: str(_program(name, programs)))
    policy = RepositoriesPolicy.model_validate({"version": "1", "repositories": [entry]})
    mirrors = Mirrors(tmp_path / "mirrors", access=RepositoryAccess(policy, "worker"))
    with pytest.raises(GitError):
        await (await mirrors.open("ssh://git@example.invalid/x.git")).resolve("main")
    words = said.read_text()
    for option in ("-F /dev/null ", "-o BatchMode=yes ", "-o StrictHostKeyChecking=yes ", "-o PermitLocalCommand=no "):
        assert option in words
    own = ("IdentityFile=/run/secrets/key", "IdentitiesOnly=yes", "IdentityAgent=none", "UserKnownHostsFile=/etc/gatewright/kn")
    assert [option in words for option in own] == [entry is KEY] * len(own)
    assert words.startswith("agent=/run/agent.sock " if entry is AGENT else "agent= ")


def _program(name: str, programs: Path) -> Path:
    """git and env as links in the folder of the false ssh, which is then looked for there first."""
    link = programs / name
    if not link.exists():
        import shutil

        found = shutil.which(name)
        assert found is not None
        link.symlink_to(found)
    return link
