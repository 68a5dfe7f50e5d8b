"""Classes of commands: by name and words, through wrappers, and not by words that merely look like programs."""

from __future__ import annotations

import pytest

from services.gatekeeper.command_policy import CommandClass
from services.gatekeeper.gates.command_classes import classify

C = CommandClass


@pytest.mark.parametrize(
    ("command", "kinds"),
    [
        ("ls src", {C.READ_ONLY}),
        ("rm -r build", {C.DESTRUCTIVE}),
        ("rm -fr build", {C.DESTRUCTIVE}),
        ("rm --recursive build", {C.DESTRUCTIVE}),
        ("rm one.txt", {C.READ_ONLY}),
        ("/bin/rm -rf build", {C.DESTRUCTIVE}),
        ("env A=1 nice -n 5 rm -rf build", {C.DESTRUCTIVE}),
        ("timeout 5 git clean -fd", {C.DESTRUCTIVE}),
        ("git -C x reset --hard HEAD", {C.DESTRUCTIVE}),
        ("git push origin main", {C.NETWORK}),
        ("git push --force origin main", {C.NETWORK, C.DESTRUCTIVE}),
        ("find . -name x -delete", {C.DESTRUCTIVE}),
        ("docker system prune -af", {C.DESTRUCTIVE}),
        ("truncate -s 0 data.db", {C.DESTRUCTIVE}),
        ("pip install x", {C.DEPENDENCY_INSTALL, C.NETWORK}),
        ("python -m pip install x", {C.DEPENDENCY_INSTALL, C.NETWORK}),
        ("npm ci", {C.DEPENDENCY_INSTALL, C.NETWORK}),
        ("npx anything", {C.DEPENDENCY_INSTALL, C.NETWORK}),
        ("curl example.org", {C.NETWORK}),
        ("printenv", {C.CREDENTIAL_SENSITIVE}),
        ("gh auth token", {C.CREDENTIAL_SENSITIVE}),
        ("cat home/.ssh/id_rsa", {C.CREDENTIAL_SENSITIVE}),
        ("grep -q kill src/a.py", {C.READ_ONLY}),
        ("pytest -k pass tests/host", {C.READ_ONLY}),
        ("", {C.READ_ONLY}),
    ],
)
def test_the_words_of_a_command_tell_its_classes(command: str, kinds: set[CommandClass]) -> None:
    assert classify(tuple(command.split())) == kinds
