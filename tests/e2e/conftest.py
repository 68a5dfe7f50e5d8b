"""One running stack for the tests that only use it; a stack of its own for each test that breaks it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e.stack import Stack, running_stack
from tests.git.repositories import MakeRepository

#: Edits every file below its paths, after a pause.
EDIT = b"""import pathlib, sys, time
time.sleep(float(sys.argv[1]))
for top in map(pathlib.Path, sys.argv[2:]):
    for file in [top] if top.is_file() else sorted(top.rglob("*.py")):
        file.write_text(file.read_text() + "edited = True\\n")
"""
#: Succeeds when every file of src was edited, after a pause.
CHECK = b"""import pathlib, sys, time
time.sleep(float(sys.argv[1]))
files = sorted(pathlib.Path("src").rglob("*.py"))
sys.exit(0 if files and all("edited" in file.read_text() for file in files) else 1)
"""
STRAY = b"""import pathlib
pathlib.Path("src/a.py").write_text("a = 2\\n")
pathlib.Path("README.md").write_text("mine\\n")
"""
MARKERS = b"""import pathlib
pathlib.Path("src/a.py").write_text("<<<<<<< ours\\na = 1\\n=======\\na = 2\\n>>>>>>> theirs\\n")
"""
FILES: Mapping[str, bytes] = {
    "README.md": b"read me\n",
    "src/a.py": b"a = 1\n",
    "src/b.py": b"b = 1\n",
    "tools/edit.py": EDIT,
    "tools/check.py": CHECK,
    "tools/stray.py": STRAY,
    "tools/markers.py": MARKERS,
}
MakeProject = Callable[..., Path]
HERE = Path(__file__).parent


#: What ends the shared stack, while it runs: it is not left to use up processor time beside the tests of other folders.
_RUNNING = pytest.StashKey[contextlib.ExitStack]()


@pytest.fixture(scope="session")
def _stacks(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Callable[[], Stack]]:
    """Tells the shared stack, and starts it where it does not run."""
    started: dict[contextlib.ExitStack, Stack] = {}

    def running() -> Stack:
        if _RUNNING not in pytestconfig.stash:
            end = contextlib.ExitStack()
            home = tmp_path_factory.mktemp("shared") / "home"
            started[end] = end.enter_context(running_stack(home, workers=2))
            pytestconfig.stash[_RUNNING] = end
        return started[pytestconfig.stash[_RUNNING]]

    yield running
    end_stack(pytestconfig)


@pytest.fixture
def stack(_stacks: Callable[[], Stack]) -> Stack:
    return _stacks()


def end_stack(config: pytest.Config) -> None:
    end = config.stash.get(_RUNNING, None)
    if end is not None:
        del config.stash[_RUNNING]
        end.close()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """With the last test of this folder, as far as this process knows, the shared stack ends."""
    if nextitem is None or HERE not in nextitem.path.parents:
        end_stack(item.config)


@pytest.fixture
def own_stack(tmp_path: Path) -> Iterator[Stack]:
    with running_stack(tmp_path / "home-of-stack", workers=2) as stack:
        yield stack


@pytest.fixture
def make_project(make_repository: MakeRepository) -> MakeProject:
    """A small project with tools that edit it well, badly and slowly."""

    def make(**files: bytes) -> Path:
        extra = {name.replace("__", "/") + ".py": content for name, content in files.items()}
        return make_repository("project", files={**FILES, **extra}).path

    return make
