"""What every test stands in: the machine's programs and nothing else of it; and the fixtures that several folders share."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import settings

from tests.git.conftest import first_repository, make_repository

__all__ = ["bare_surroundings", "first_repository", "make_repository"]

#: What is left of the environment: where programs and temporary files are, pytest's own, and how to reach a container engine.
KEPT = ("PATH", "TMPDIR", "PYTEST_", "DOCKER_")
UMASK = 0o022
# An example that takes long on a busy machine is no counter-example.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


def surroundings(inherited: Mapping[str, str], home: Path, *tops: Path) -> dict[str, str]:
    """The environment of the tests: ``home`` is empty, and git looks for no repository at or above ``tops``."""
    kept = {name: value for name, value in inherited.items() if name.startswith(KEPT)}
    engine = Path(inherited.get("HOME") or home, ".docker")
    if engine.is_dir():
        kept.setdefault("DOCKER_CONFIG", str(engine))
    ceilings = dict.fromkeys(str(path) for top in tops for path in (top, top.resolve()))
    return {**kept, "HOME": str(home), "LC_ALL": "C.UTF-8", "GIT_CEILING_DIRECTORIES": os.pathsep.join(ceilings)}


@pytest.fixture(scope="session", autouse=True)
def bare_surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No variable of the developer's shell, no configuration of theirs, no repository around the temporary folder."""
    inherited, mask = dict(os.environ), os.umask(UMASK)
    tops = (tmp_path_factory.getbasetemp(), Path(tempfile.gettempdir()))
    bare = surroundings(inherited, tmp_path_factory.mktemp("home"), *tops)
    try:
        os.environ.clear()
        os.environ.update(bare)
        yield
    finally:
        current = {name: value for name, value in os.environ.items() if name.startswith("PYTEST_")}
        os.environ.clear()
        os.environ.update(inherited | current)
        os.umask(mask)


#: Folders whose tests start whole systems: begun first, so that no processor is left with one of them alone in the end.
SLOW = ("faults", "e2e", "bounded", "docs", "cli", "evidence")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow folders first; within a folder, and among the others, as they are."""
    here = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        folder = item.path.relative_to(here).parts[0]
        return SLOW.index(folder) if folder in SLOW else len(SLOW)

    items.sort(key=place)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many files the tamper matrix changed; each of them was caught. Told where all reports meet."""
    passed = terminalreporter.stats.get("passed", ())
    cells = [value for report in passed for name, value in report.user_properties if name == "tampered"]
    if cells:
        runs, kinds = {run for run, _, _ in cells}, {kind for _, kind, _ in cells}
        total = sum(count for _, _, count in cells)
        terminalreporter.section("tamper matrix")
        terminalreporter.write_line(
            f"{total} changed files, each caught: {len(runs)} bundles x {len(kinds)} kinds x every file"
        )
