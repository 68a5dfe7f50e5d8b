"""A listening socket inside the network of a sandbox, passed out to the service.

It is the only connection of a program without a network: made by us, inside, before the program runs, which finds a server
at 127.0.0.1. A process with several threads cannot enter another network, so a small program does it: this file, run by the
service's interpreter without any of its packages. It first enters the user namespace that owns the network if necessary,
which an ordinary user may do because all of these namespaces are its own.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from typing import Final

#: linux/sched.h, linux/nsfs.h
_NEW_USER, _NEW_NET = 0x1000_0000, 0x4000_0000
_OWNER_OF_NAMESPACE: Final = 0xB701
_LOOPBACK: Final = "127.0.0.1"
_BACKLOG: Final = 64
_SECONDS: Final = 20.0


class NotListeningError(Exception):
    """No socket could be made inside; the text is the reason."""


def listen_inside(pid: int, port: int) -> socket.socket:
    """A socket that listens on 127.0.0.1:``port`` in the network of process ``pid``, which is held back meanwhile. Blocks.

    Raises NotListeningError.
    """
    # Imported here: run as a program, this file has no package around it.
    from gatewright.own_interpreter import loader_variables

    ours, theirs = socket.socketpair()
    with ours, theirs, contextlib.ExitStack() as held:
        try:
            network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            held.callback(os.close, network)
            passed = (network, theirs.fileno())
            argv = [sys.executable, "-I", "-S", __file__, *map(str, (*passed, port))]
            done = subprocess.run(
                argv, pass_fds=passed, env=loader_variables(), capture_output=True, check=False, timeout=_SECONDS
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise NotListeningError(str(error)) from error
        if done.returncode != 0:
            raise NotListeningError(done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2])
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    if not descriptors:
        raise NotListeningError("the socket was not handed over")
    return socket.socket(fileno=descriptors[0])


def _enter(network: int) -> None:
    import ctypes
    import fcntl

    library = ctypes.CDLL(None, use_errno=True)

    def enter(namespace: int, kind: int) -> None:
        if library.setns(namespace, kind) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"setns: {os.strerror(number)}")

    try:
        enter(network, _NEW_NET)
    except PermissionError:
        enter(fcntl.ioctl(network, _OWNER_OF_NAMESPACE), _NEW_USER)
        enter(network, _NEW_NET)


def _main(network: int, channel: int, port: int) -> None:
    _enter(network)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made, socket.socket(fileno=channel) as out:
        made.bind((_LOOPBACK, port))
        made.listen(_BACKLOG)
        socket.send_fds(out, [b"."], [made.fileno()])


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
