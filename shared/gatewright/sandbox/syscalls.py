"""A small seccomp filter for what namespaces and missing capabilities do not stop.

It blocks: sockets that are not network-namespaced (vsock reaches the hypervisor), kernel keyrings (not namespaced either),
kernel interfaces that tests do not need and exploits often use (io_uring, bpf, perf, userfaultfd), and every way to access
process 1, which must die with its parent and could be made to ignore that. Namespaces handle all else: this is no list of
allowed calls, and an architecture outside the table has no filter.
"""

from __future__ import annotations

import errno
import platform
import struct
from functools import cache
from typing import Final, NamedTuple

# Classic BPF, as in linux/bpf_common.h, linux/seccomp.h and linux/audit.h.
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW: Final = 0x7FFF0000
_FAIL: Final = 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
#: Calls of the x32 ABI carry this bit; they would slip past the numbers of the table.
_X32: Final = 0x4000_0000

#: AF_UNIX, AF_INET, AF_INET6, AF_NETLINK: all of them end at the network namespace.
_FAMILIES: Final = (1, 2, 10, 16)


class _Numbers(NamedTuple):
    audit: int
    socket: int
    ptrace: int
    process_vm: tuple[int, ...]
    refused: tuple[int, ...]


# add_key, request_key, keyctl, perf_event_open, bpf, userfaultfd, io_uring_setup/enter/register, pidfd_getfd
_TABLE: Final = {
    "x86_64": _Numbers(0xC000003E, 41, 101, (310, 311), (248, 249, 250, 298, 321, 323, 425, 426, 427, 438)),
    "aarch64": _Numbers(0xC00000B7, 198, 117, (270, 271), (217, 218, 219, 241, 280, 282, 425, 426, 427, 438)),
}


@cache
def seccomp_filter(machine: str | None = None) -> bytes | None:
    """The filter as bubblewrap's ``--seccomp`` reads it, for ``machine`` (default: this one); None when it is not known."""
    numbers = _TABLE.get(machine or platform.machine())
    if numbers is None:
        return None
    refuse = _FAIL | errno.EPERM
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        # 32-bit programs use other numbers: all of their calls fail.
        (_JUMP_EQUAL, 1, 0, numbers.audit),
        (_RETURN, 0, 0, refuse),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, refuse),
    ]
    for call in numbers.refused:
        program += [(_JUMP_EQUAL, 0, 1, call), (_RETURN, 0, 0, refuse)]
    program += _unless_argument_is(numbers.socket, _FIRST_ARGUMENT, _FAMILIES, _FAIL | errno.EAFNOSUPPORT)
    program += _if_argument_is(numbers.ptrace, _SECOND_ARGUMENT, 1, refuse)
    for call in numbers.process_vm:
        program += _if_argument_is(call, _FIRST_ARGUMENT, 1, refuse)
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _if_argument_is(call: int, argument: int, value: int, verdict: int) -> list[tuple[int, int, int, int]]:
    return [
        (_JUMP_EQUAL, 0, 4, call),
        (_LOAD, 0, 0, argument),
        (_JUMP_EQUAL, 0, 1, value),
        (_RETURN, 0, 0, verdict),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _unless_argument_is(call: int, argument: int, values: tuple[int, ...], verdict: int) -> list[tuple[int, int, int, int]]:
    allow_at = len(values) + 1
    tests = [(_JUMP_EQUAL, allow_at - place - 1, 0, value) for place, value in enumerate(values)]
    return [
        (_JUMP_EQUAL, 0, len(values) + 3, call),
        (_LOAD, 0, 0, argument),
        *tests,
        (_RETURN, 0, 0, verdict),
        (_RETURN, 0, 0, _ALLOW),
    ]
