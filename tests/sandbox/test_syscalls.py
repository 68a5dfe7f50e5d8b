"""The seccomp program itself, played through by a small interpreter; what it does to real calls is in test_walls.py."""

from __future__ import annotations

import struct

import pytest

from gatewright.sandbox.syscalls import seccomp_filter

X86_64, I386, AARCH64 = 0xC000003E, 0x40000003, 0xC00000B7
ALLOWED, EPERM, EAFNOSUPPORT = 0x7FFF0000, 0x00050001, 0x00050061


def verdict(machine: str, architecture: int, call: int, *arguments: int) -> int:
    """What the kernel would answer: a classic BPF machine with the four instructions that the filter uses."""
    program = seccomp_filter(machine)
    assert program is not None
    instructions = list(struct.iter_unpack("=HBBI", program))
    data = struct.pack("=IIQ6Q", call, architecture, 0, *arguments, *([0] * (6 - len(arguments))))
    at = accumulator = 0
    while True:
        code, if_true, if_false, value = instructions[at]
        at += 1
        if code == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        elif code == 0x15:
            at += if_true if accumulator == value else if_false
        elif code == 0x35:
            at += if_true if accumulator >= value else if_false
        else:
            assert code == 0x06
            return int(value)


@pytest.mark.parametrize(
    ("machine", "architecture", "socket", "keyctl"), [("x86_64", X86_64, 41, 250), ("aarch64", AARCH64, 198, 219)]
)
def test_filter_stops_what_namespaces_do_not(machine: str, architecture: int, socket: int, keyctl: int) -> None:
    assert verdict(machine, architecture, 0) == ALLOWED
    assert verdict(machine, architecture, keyctl) == EPERM
    assert [verdict(machine, architecture, socket, family) for family in (1, 2, 10, 16)] == [ALLOWED] * 4
    assert [verdict(machine, architecture, socket, family) for family in (0, 3, 17, 31, 38, 40)] == [EAFNOSUPPORT] * 6


def test_calls_of_another_architecture_are_refused() -> None:
    assert verdict("x86_64", I386, 1) == EPERM
    assert verdict("x86_64", X86_64, 0x40000000 | 1) == EPERM
    assert verdict("aarch64", X86_64, 1) == EPERM


def test_high_half_of_an_argument_does_not_hide_process_one() -> None:
    """The kernel looks at the low half of a process number only."""
    assert verdict("x86_64", X86_64, 101, 16, 0xFFFFFFFF00000001) == EPERM
    assert verdict("x86_64", X86_64, 101, 16, 2) == ALLOWED
    assert verdict("x86_64", X86_64, 310, 0xFFFFFFFF00000001) == EPERM


def test_unknown_processor_has_no_filter() -> None:
    assert seccomp_filter("mips64") is None
