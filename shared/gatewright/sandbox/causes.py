"""Causes of bubblewrap failures, with advice for operators.

Hardened hosts and containers refuse user namespaces in several ways that look alike from inside; the settings of the kernel
distinguish them. Nothing is changed here, and nothing is retried.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

#: bubblewrap's messages when the host refuses namespaces.
_NAMESPACE_REFUSED: Final = (
    "No permissions to creat",
    "Creating new namespace failed",
    "setting up uid map",
    "setting up gid map",
    "Failed to make / slave",
    "RTM_NEWADDR",
    "unshare user ns",
    "Failed to mount tmpfs",
)

#: Kernel setting, the value that refuses, and what to do about it.
_SETTINGS: Final = (
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        (
            "AppArmor lets only programs with a profile make user namespaces; install the distribution's bubblewrap package "
            "(it brings a profile), or set kernel.apparmor_restrict_unprivileged_userns=0"
        ),
    ),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "the kernel refuses user namespaces to ordinary users; set kernel.unprivileged_userns_clone=1",
    ),
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "user namespaces are switched off; set user.max_user_namespaces to 10000, for example",
    ),
)


def _read_ascii(path: str) -> str:
    try:
        return Path(path).read_text("ascii", "replace")
    except OSError:
        return ""


def explain(output: str, read: Callable[[str], str] = _read_ascii) -> str:
    """Return the cause of a failure to start; ``output`` is bubblewrap's standard error, ``read`` returns a file of /proc or
    ""."""
    words = output.strip() or "it printed no message"
    if any(sign in output for sign in _NAMESPACE_REFUSED):
        for path, value, advice in _SETTINGS:
            if read(path).strip() == value:
                return f"the sandbox cannot be made: {advice} ({words})"
        if "Seccomp:\t2" in read("/proc/self/status"):
            advice = (
                "a seccomp profile, most likely the container's, refuses namespaces; run it with a profile that allows them"
            )
            return f"the sandbox cannot be made: {advice} ({words})"
        return f"the sandbox cannot be made: this host refuses user namespaces ({words})"
    if "Can't mount proc" in output:
        advice = "the container hides parts of /proc; run it with systempaths=unconfined (podman: --security-opt unmask=ALL)"
        return f"the sandbox cannot be made: {advice} ({words})"
    if "setpriv:" in output:
        advice = "the service runs as root but may not give root up (CAP_SETUID is missing); run it as an ordinary user"
        return f"the sandbox cannot be made: {advice} ({words})"
    if "overlay" in output:
        advice = (
            "this kernel or file system refuses overlays; use plain workspaces, or put the state folder on ext4, xfs or btrfs"
        )
        return f"the sandbox cannot be made: {advice} ({words})"
    return f"the sandbox cannot be made: {words}"
