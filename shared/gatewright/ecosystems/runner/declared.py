"""Tests that a build file of C or C++ declares (CMake, Meson), and what it sets for them. Pure, linear; the input is hostile.

A test that a file declares anew changes nothing that was there before; one that is declared otherwise, or no more, does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from gatewright.patterns import BytesPattern

#: Before the name of a declared test.
DECLARED = "declared test: "
_ARGUMENTS = rb"\s*\(([^()]*(?:\([^()]*\)[^()]*){0,20})\)"
_CMAKE = BytesPattern(rb"(?i)\b((?:add_test|[a-z_]*discover_tests)" + _ARGUMENTS + rb")")
_CMAKE_LINES = BytesPattern(
    rb"(?i)\b(?:enable_testing|set_tests_properties|set_property\s*\(\s*TEST|WILL_FAIL|CTEST_\w+|NDEBUG)\b"
)
_MESON = BytesPattern(rb"(?m)^[ \t]*((?:test|benchmark)" + _ARGUMENTS + rb")")
_MESON_LINES = BytesPattern(
    rb"\b(?:should_fail|add_test_setup|b_ndebug|testcase|override_find_program|expected_exitcode)\b|^\s*test\s*="
)
#: Words of a declaration that say what follows.
_NAMES = frozenset({"name", "target"})


def cmake_settings(content: bytes) -> Mapping[str, Any]:
    """The parts of a ``CMakeLists.txt`` that decide which tests run."""
    text = b"\n".join(line.partition(b"#")[0] if b'"' not in line else line for line in content.split(b"\n"))
    return {**_declared_calls(_CMAKE.groups(text)), **_spoken_of(text, _CMAKE_LINES)}


def meson_settings(content: bytes) -> Mapping[str, Any]:
    """The parts of a ``meson.build`` that decide which tests run."""
    return {**_declared_calls(_MESON.groups(content)), **_spoken_of(content, _MESON_LINES)}


def _declared_calls(calls: Iterator[bytes]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for call in calls:
        words = call.partition(b"(")[2].replace(b",", b" ").decode("utf-8", "backslashreplace").split()
        name = next((word.strip("\"')") for word in words if word.casefold() not in _NAMES), "")
        found.setdefault(f"{DECLARED}{name}", []).append(" ".join(call.decode("utf-8", "backslashreplace").split()))
    return found


def _spoken_of(content: bytes, wanted: BytesPattern) -> Mapping[str, int]:
    lines = (b" ".join(line.split()) for line in content.split(b"\n"))
    return {f"{line.decode('utf-8', 'backslashreplace')}": n for line, n in Counter(filter(wanted.first, lines)).items()}
