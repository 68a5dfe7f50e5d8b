"""Stacks whose roles are small programs that need no bus, beside a real NATS server."""

from __future__ import annotations

import os
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gatewright.app.stack.supervised_process import RestartPolicy
from gatewright.app.stack.supervisor import StackOptions, Supervisor

SLEEPER = "import time; time.sleep(600)"
#: Ends only by SIGKILL, and has a child in a session of its own that would outlive it.
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"], start_new_session=True)
time.sleep(600)
"""
DYING = "import sys; print('the role says why it dies', file=sys.stderr); sys.exit(3)"

MakeStack = Callable[..., Supervisor]


ROLES = ("gatekeeper", "worker")


def make_package(folder: Path, text: str) -> dict[str, str]:
    """A package ``roles`` in which every role is the program ``text``, and the environment to find it in."""
    for role in ROLES:
        module = folder / "python" / "roles" / role
        module.mkdir(parents=True, exist_ok=True)
        (module / "__init__.py").write_text("")
        (module / "__main__.py").write_text(f"if __name__ == '__main__':\n{textwrap.indent(text, '    ')}")
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder / "python")}


@pytest.fixture
async def make_stack(tmp_path: Path) -> AsyncIterator[MakeStack]:
    """Makes supervisors of sleeping roles; those that still run are stopped at the end."""
    made: list[Supervisor] = []

    def make(
        text: str = SLEEPER,
        *,
        policy: RestartPolicy | None = None,
        workers: int = 1,
        grace: float = 0.3,
        environments: tuple[Path, ...] = (),
        offered: str = "",
    ) -> Supervisor:
        options = StackOptions(
            home=tmp_path,
            # Nothing is searched here: the catalogue of secrets would be loaded for each stack.
            base_environment=make_package(tmp_path, text)
            | {"GATEWRIGHT_ENVIRONMENTS": offered, "GATEWRIGHT_SECRET_SCANNER": "patterns"},
            environments=environments,
            workers=workers,
            roles=ROLES,
            policy=policy or RestartPolicy(),
            grace=grace,
            package="roles",
        )
        made.append(Supervisor(options))
        return made[-1]

    yield make
    for supervisor in made:
        await supervisor.stop()
