"""What is printed about installing: nobody may take a package of a stranger for ours."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: A name that an index of packages would be asked for; a path, or a wheel's file name, is none.
FROM_AN_INDEX = re.compile(r"(?:pipx?|uv tool|uv pip|uvx) (?:install |run )?['\"]?gatewright(?![\w./*-])")


def test_the_name_is_never_installed_from_an_index() -> None:
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("shared/gatewright/**/*.py")]
    assert len(files) > 100
    found = [
        f"{file.relative_to(ROOT)}: {match[0]}" for file in files for match in FROM_AN_INDEX.finditer(file.read_text("utf-8"))
    ]
    assert found == []


def test_what_an_index_would_be_asked_for_is_recognised() -> None:
    for line in (
        "pip install gatewright",
        "pip install 'gatewright[cli]'",
        "pipx install gatewright",
        "uv tool install gatewright",
    ):
        assert FROM_AN_INDEX.search(line), line
    for line in ("pip install '/path/to/gatewright[cli]'", "pip install ./gatewright-*.whl"):
        assert FROM_AN_INDEX.search(line) is None, line
