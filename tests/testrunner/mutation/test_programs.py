"""Mutants of sources that are compiled: tried by real suites of CTest and Meson, and none counted that was never built."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gatewright.contracts.reports import MutationSample
from gatewright.contracts.vocabulary import MutationBounds
from tests.ecosystems.suites import Suite, proof_of
from tests.ecosystems.tools import needs

pytestmark = [pytest.mark.long, needs("cmake", "ctest", "gcc", "make")]

#: As much time as it takes.
BOUNDS = MutationBounds(time_share=1, least_seconds=600, most_mutants=8)
#: A mutant of it has two cases of one value, which cannot be compiled.
CHANGED = (
    b"int price(int number)\n{\n    if (number > 10) return 7;\n"
    b"    switch (number) { case 2: case 3: return 5; }\n    return 8;\n}\n"
)
WEAK = (
    b"#include <assert.h>\nint price(int);\n"
    b"int main(void)\n{\n    assert(price(11) == 7);\n    assert(price(3));\n    return 0;\n}\n"
)
TOP = b"cmake_minimum_required(VERSION 3.20)\nproject(a C)\nenable_testing()\nadd_executable(prices checks/prices.c price.c)\n"
TREE = {
    "CMakeLists.txt": TOP + b"add_test(NAME prices COMMAND prices)\n",
    "price.c": b"int price(int number)\n{\n    return number == 11 ? 7 : 1;\n}\n",
    "checks/prices.c": WEAK,
}
CTEST = ("cmake -S . -B build", "cmake --build build", "ctest --test-dir build")


async def sampled(folder: Path, tree: Mapping[str, bytes], *commands: str) -> MutationSample:
    suite = Suite(folder, tree)
    report = await suite.tested({"price.c": CHANGED}, *commands, mutation=BOUNDS)
    assert report.status == "PASS", suite.printed(report)
    found = proof_of(report).mutation
    assert found is not None
    assert found.unproven == ""
    return found


def outcomes(sample: MutationSample) -> dict[str, str]:
    return {f"{each.line} {each.before} -> {each.after}": each.outcome for each in sample.mutants}


EXPECTED = {
    "3 > -> >=": "survived",
    "3 10 -> 11": "killed",
    "3 7 -> 8": "killed",
    "4 2 -> 3": "invalid",
    "4 3 -> 4": "survived",
    "4 5 -> 6": "survived",
    "5 8 -> 9": "survived",
}


async def test_ctest_programs_kill_c_mutants_and_uncompilable_ones_are_invalid(tmp_path: Path) -> None:
    assert outcomes(await sampled(tmp_path, TREE, *CTEST)) == EXPECTED


@needs("meson", "ninja")
async def test_a_mutant_that_meson_cannot_build_is_not_killed(tmp_path: Path) -> None:
    meson = b"project('a', 'c')\ntest('prices', executable('prices', 'checks/prices.c', 'price.c'))\n"
    tree = {"meson.build": meson, "price.c": TREE["price.c"], "checks/prices.c": WEAK}
    assert outcomes(await sampled(tmp_path, tree, "meson setup build", "meson test -C build")) == EXPECTED
