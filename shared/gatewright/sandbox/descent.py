"""The step from root to the sandbox account, for a service that was started as root.

The account may not enter root's folders (an interpreter below /root, a state folder only for root). So an outer bubblewrap,
still root, makes a mount namespace with only what the inner one will need, at the same paths, every parent folder
accessible to all; then ``setpriv`` gives root up for good, and the inner bubblewrap runs exactly as for an unprivileged
user.

The outer one has a PID namespace too. Dying with the parent relies on a signal from the parent, and a root parent without
capabilities may not signal another account; but the kernel itself ends a PID namespace.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from gatewright.errors import SandboxError
from gatewright.sandbox.account import SandboxAccount
from gatewright.sandbox.binary import Bwrap

#: The devices of the inner /dev.
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")


def descend(
    bwrap: Bwrap, account: SandboxAccount, system: Sequence[str], *, shown: Iterable[Path], writable: Iterable[Path]
) -> tuple[str, ...]:
    """The argv prefix that runs the rest as ``account``. Raises SandboxError when there is no setpriv.

    ``system`` are the mounts of the system; ``shown`` and ``writable`` the host paths that the rest names.
    """
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise SandboxError("the service runs as root and setpriv (util-linux) is missing, so commands cannot give root up")
    rights = {**dict.fromkeys((*bwrap.files, *shown), "--ro-bind"), **dict.fromkeys(writable, "--bind")}
    arguments = [str(bwrap.path), "--die-with-parent", "--unshare-pid", *system, "--proc", "/proc"]
    # A /proc without covers must be somewhere, or the kernel does not let an unprivileged user mount another.
    arguments += ["--dev-bind", "/proc", "/uncovered"]
    arguments += ["--perms", "0755", "--dir", "/dev"]
    # One bind is faster than six; but below it no folder could be made accessible to all.
    for device in _DEVICES if any(path.is_relative_to("/dev") for path in rights) else ("/dev",):
        arguments += ["--dev-bind", device, device]
    arguments += ["--perms", "1777", "--dir", "/tmp"]  # noqa: S108 - where the inner one builds its root
    made: set[Path] = set()
    for path in sorted(rights, key=lambda place: len(place.parts)):
        if path.is_relative_to("/usr"):
            continue
        for parent in reversed(path.parents[:-1]):
            if parent not in made and str(parent) != "/tmp":  # noqa: S108
                made.add(parent)
                arguments += ["--perms", "0755", "--dir", str(parent)]
        made.add(path)
        arguments += [rights[path], str(path), str(path)]
    identity = [f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups", "--inh-caps=-all"]
    return (*arguments, "--", setpriv, *identity, "--")
