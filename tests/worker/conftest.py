"""A worker on a real repository, with a real sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.services.worker.handler import WorkerHandler, make_handler
from gatewright.services.worker.settings import Settings
from tests.handler_fixture import HandlerFixture, make_handler_fixture

FILES = {
    "README.md": b"read me\n",
    "src/a.py": b"x = 1\n",
    "src/b.py": b"y = 1\n",
    "src/run.sh": b"#!/bin/sh\n",
    "tools/fix.py": b"import sys\nfor name in sys.argv[1:]:\n    print(name)\n    open(name, 'a').write('# fixed\\n')\n",
}


@pytest.fixture
def fixture(tmp_path: Path) -> HandlerFixture:
    # Commands run as another user than root: the way to the workspaces must be open to it.
    tmp_path.chmod(0o755)
    made = make_handler_fixture(tmp_path, FILES)
    (made.repository.path / "src" / "run.sh").chmod(0o755)
    made.baseline = made.repository.commit({}, "make it executable")
    return made


@pytest.fixture
def worker(fixture: HandlerFixture) -> WorkerHandler:
    return make_handler(Settings(home=fixture.state, agent_id="worker-here-7"))
