"""Comments, docstrings and messages of the product name who acts: publisher, operator, worker, replica, agent, process.

A pronoun for an unknown person hides which part of the system is meant, and a reader has to find out.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.patterns import BytesPattern

ROOT = Path(__file__).resolve().parents[2]
PRONOUNS = BytesPattern(rb"(?i)\b(?:who(?:m)?ever|nobody|somebody|someone)\b")
#: The account that owns nothing, by its name in the sandbox's list of accounts.
NAMES = (b"nobody:x:65534:65534:nobody:",)
ENDINGS = frozenset({".py", ".json", ".cel", ".yml", ".yaml", ".sh", ".html", ".css", ".md"})


def product_files(folder: str) -> list[Path]:
    return [
        path
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in ENDINGS and path.is_file() and "__pycache__" not in path.parts
    ]


@pytest.mark.parametrize("folder", ["services", "shared", "policies", "deploy", "benchmarks"])
def test_no_word_of_the_product_leaves_open_who_acts(folder: str) -> None:
    files = product_files(folder)
    assert files
    found = []
    for path in files:
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            for name in NAMES:
                line = line.replace(name, b"")  # noqa: PLW2901 - what is left of it
            if PRONOUNS.first(line) is not None:
                found.append(f"{path.relative_to(ROOT)}:{number}")
    assert found == [], "name the actor: publisher, operator, worker, replica, agent, reader, process"
