"""A worker on a real repository, with a real sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.services.worker.handler import WorkerHandler, make_handler
from gatewright.services.worker.settings import Settings
from tests.handler_fixture import Desk, make_desk

FILES = {
    "README.md": b"read me\n",
    "src/a.py": b"x = 1\n",
    "src/b.py": b"y = 1\n",
    "src/run.sh": b"#!/bin/sh\n",
    "tools/fix.py": b"import sys\nfor name in sys.argv[1:]:\n    print(name)\n    open(name, 'a').write('# fixed\\n')\n",
}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    # Commands run as another user than root: the way to the workspaces must be open to it.
    tmp_path.chmod(0o755)
    made = make_desk(tmp_path, FILES)
    (made.repository.path / "src" / "run.sh").chmod(0o755)
    made.baseline = made.repository.commit({}, "make it executable")
    return made


@pytest.fixture
def worker(desk: Desk) -> WorkerHandler:
    return make_handler(Settings(home=desk.state, agent_id="worker-here-7"))
