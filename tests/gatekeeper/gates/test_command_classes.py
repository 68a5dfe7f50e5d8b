"""Classes of commands: by name and words, through wrappers, and not by words that merely look like programs."""

from __future__ import annotations

import pytest

from gatewright.services.gatekeeper.gates.commands.classes import classify
from gatewright.services.gatekeeper.policies.commands import CommandClass

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
        ("git push origin +main", {C.NETWORK, C.DESTRUCTIVE}),
        ("git push origin :main", {C.NETWORK, C.DESTRUCTIVE}),
        ("git push --force-with-lease", {C.NETWORK, C.DESTRUCTIVE}),
        ("git checkout -- src", {C.DESTRUCTIVE}),
        ("git checkout main", {C.READ_ONLY}),
        ("git restore src", {C.DESTRUCTIVE}),
        ("find . -name x -delete", {C.DESTRUCTIVE}),
        ("dd if=x of=y", {C.DESTRUCTIVE}),
        ("pip uninstall x", {C.DESTRUCTIVE}),
        ("uv pip install x", {C.DEPENDENCY_INSTALL, C.NETWORK}),
        ("uvx tool", {C.DEPENDENCY_INSTALL, C.NETWORK}),
        ("pip download x", {C.NETWORK}),
        ("npm exec x", {C.DEPENDENCY_INSTALL, C.NETWORK}),
        ("go install ./x", {C.DEPENDENCY_INSTALL, C.NETWORK}),
        ("env", {C.CREDENTIAL_SENSITIVE}),
        ("nice env", {C.CREDENTIAL_SENSITIVE}),
        ("cat /proc/self/environ", {C.CREDENTIAL_SENSITIVE}),
        ("cat x/.git-credentials", {C.CREDENTIAL_SENSITIVE}),
        ("kubectl get secrets", {C.CREDENTIAL_SENSITIVE, C.NETWORK}),
        ("docker system prune -af", {C.DESTRUCTIVE}),
        ("truncate -s 0 data.db", {C.DESTRUCTIVE}),
        ("pip install x", {C.DEPENDENCY_INSTALL, C.NETWORK}),
        ("python -m pip install x", {C.DEPENDENCY_INSTALL, C.NETWORK}),
        ("npm ci", {C.DEPENDENCY_INSTALL, C.NETWORK}),
        ("npx anything", {C.DEPENDENCY_INSTALL, C.NETWORK}),
        ("curl example.org", {C.NETWORK}),
        ("printenv", {C.CREDENTIAL_SENSITIVE}),
        ("gh auth token", {C.CREDENTIAL_SENSITIVE, C.NETWORK}),
        ("cat home/.ssh/id_rsa", {C.CREDENTIAL_SENSITIVE}),
        ("grep -q kill src/a.py", {C.READ_ONLY}),
        ("pytest -k pass tests/host", {C.READ_ONLY}),
        ("", {C.READ_ONLY}),
    ],
)
def test_the_arguments_of_a_command_determine_its_classes(command: str, kinds: set[CommandClass]) -> None:
    assert classify(tuple(command.split())) == kinds


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("true && rm -rf build", C.DESTRUCTIVE),
        ("x=$(gh auth token); echo $x", C.CREDENTIAL_SENSITIVE),
        ("cd x; { npm ci; }", C.DEPENDENCY_INSTALL),
        ("sudo bash -c 'git clean -fd'", C.DESTRUCTIVE),
    ],
)
def test_an_inline_script_of_a_shell_hides_no_class(script: str, kind: CommandClass) -> None:
    assert kind in classify(("/bin/sh", "-ec", script))
