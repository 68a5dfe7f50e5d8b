"""What every test stands in: the machine's programs and nothing else of it; and the fixtures that several folders share."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests.git.conftest import first_repository, make_repository
from tests.scheduling import SharedStacks
from tests.selection import ci_left_out, further_cases, slow_tests

__all__ = ["bare_surroundings", "first_repository", "make_repository"]

#: What is left of the environment: where programs and temporary files are, pytest's own, and how to reach a container engine.
KEPT = ("PATH", "TMPDIR", "PYTEST_", "DOCKER_")
UMASK = 0o022
# The modules and the thousands of tests that are collected stay to the end: they are not looked through for garbage, neither
# while there are more and more of them nor later.
gc.disable()
# An example that takes long on a busy machine is no counter-example.
settings.register_profile("unhurried", deadline=None)
# What `make test` plays of the searches that set no number of examples.
settings.register_profile("few", settings.get_profile("unhurried"), max_examples=25)
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


@pytest.fixture(scope="session", autouse=True)
def interrupts() -> Iterator[None]:
    """Ctrl-C as it ever was, by a handler that is not Python's own: for that one each ``asyncio.Runner``, and so each test and
    fixture that is a coroutine, puts another in place, and has it written as text, with the result of its task, when it goes.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    yield
    signal.signal(signal.SIGINT, before)


#: Folders whose files take longest, by what they were measured to take: begun first, so that no processor is left with one of
#: them alone in the end.
SLOW = (
    "compose",
    "e2e",
    "faults",
    "worker/agents/probe",
    "testrunner",
    "bounded",
    "attacks",
    "service",
    "ci",
    "docs",
    "ecosystems",
    "reviewer",
    "cli",
    "evidence",
    "environments",
    "git",
    "bus",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    words = "of each test with more cases play so many, spread over all of them"
    parser.addoption("--most-cases", type=int, default=0, metavar="N", help=words)
    parser.addoption("--quick", action="store_true", help="leave out the tests that tests/slow_tests.txt lists")
    words = "with --most-cases: play one long test of each kind as well"
    parser.addoption("--one-of-each-series", action="store_true", help=words)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The cases that are played; the slow folders first; within a folder, and among the others, as they are."""
    here = Path(__file__).parent
    left_out = slow_tests(items) if config.getoption("quick") else set()
    if most := config.getoption("most_cases"):
        choose = ci_left_out if config.getoption("one_of_each_series") else further_cases
        left_out |= choose(items, most)
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]

    def place(item: pytest.Item) -> int:
        folders = [str(folder) for folder in item.path.relative_to(here).parents]
        return next((place for place, slow in enumerate(SLOW) if slow in folders), len(SLOW))

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    return SharedStacks(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many files the tamper matrix changed; each of them was caught. The process that collects all reports prints it."""
    passed = terminalreporter.stats.get("passed", ())
    cells = [value for report in passed for name, value in report.user_properties if name == "tampered"]
    if cells:
        runs, kinds = {run for run, _, _ in cells}, {kind for _, kind, _ in cells}
        total = sum(count for _, _, count in cells)
        terminalreporter.section("tamper matrix")
        terminalreporter.write_line(
            f"{total} changed files, each caught: {len(runs)} bundles x {len(kinds)} kinds x every file"
        )
