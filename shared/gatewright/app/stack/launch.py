"""The plan of a process of the stack, and its plain launch in a fresh interpreter."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gatewright.app.stack.processes import dies_with_parent
from gatewright.errors import ConfigurationError

#: A log that has grown beyond this many bytes is moved aside when its process starts.
LOG_LIMIT = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """A process to start: ``module`` runs as a program, with only this environment; ``name`` is for example ``worker-2``."""

    name: str
    module: str
    environment: Mapping[str, str]
    directory: Path
    log: Path


class Running(Protocol):
    """A process that was started; ``returncode`` is None while it lives, negative after a signal."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    async def wait(self) -> int:
        """Wait until it has ended; its return code."""


def interpreter(module: str, *words: str) -> tuple[str, ...]:
    """Return the argv that runs a module. ``-P``: a folder of that name in the user's directory must not be imported."""
    return (sys.executable, "-P", "-m", module, *words)


async def execute(plan: ProcessPlan) -> Running:
    """Start the process in a fresh interpreter. Raises ConfigurationError when that cannot be done."""
    prepare_log(plan.log)
    try:
        with plan.log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *interpreter(plan.module),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=plan.directory,
                env=dict(plan.environment),
                # Ctrl-C at the terminal is for the command line alone; it decides how its processes end.
                start_new_session=True,
                preexec_fn=dies_with_parent(),
            )
    except OSError as error:
        raise ConfigurationError(f"{plan.name} cannot be started: {error}") from error


def prepare_log(log: Path) -> None:
    """Create the folder of a log and rotate a large one. Raises ConfigurationError if it cannot be written."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.exists() and log.stat().st_size > LOG_LIMIT:
            log.replace(log.with_suffix(".old.log"))
    except OSError as error:
        raise ConfigurationError(f"the log {log} cannot be written: {error.strerror}") from error
