"""What an operator is told when the sandbox cannot be had."""

from __future__ import annotations

import pytest

from gatewright.sandbox.causes import explain

APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
DEBIAN = "/proc/sys/kernel/unprivileged_userns_clone"
COUNT = "/proc/sys/user/max_user_namespaces"


@pytest.mark.parametrize(
    ("said", "files", "word"),
    [
        ("bwrap: setting up uid map: Permission denied", {APPARMOR: "1\n"}, "AppArmor"),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", {APPARMOR: "1\n"}, "AppArmor"),
        ("bwrap: No permissions to create a new namespace, likely because", {DEBIAN: "0\n"}, "unprivileged_userns_clone=1"),
        ("bwrap: No permissions to creating new namespace, likely", {"/proc/self/status": "Seccomp:\t2\n"}, "seccomp"),
        ("bwrap: Creating new namespace failed: nesting depth or", {COUNT: "0\n"}, "max_user_namespaces"),
        ("bwrap: Creating new namespace failed: Operation not permitted", {"/proc/self/status": "Seccomp:\t2\n"}, "seccomp"),
        ("bwrap: Creating new namespace failed: Operation not permitted", {}, "refuses user namespaces"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", {}, "systempaths=unconfined"),
        ("setpriv: setresuid failed: Operation not permitted", {}, "ordinary user"),
        ("bwrap: Can't make overlay mount on /newroot/workspace with options", {}, "plain workspaces"),
        ("bwrap: Unknown option --disable-userns", {}, "Unknown option"),
        ("", {}, "printed no message"),
    ],
)
def test_cause_explains_the_next_step(said: str, files: dict[str, str], word: str) -> None:
    cause = explain(said, lambda path: files.get(path, ""))
    assert word in cause
    assert said in cause
