"""Starts the process that holds a lingering stack, for a run that then uses it; see ``gatewright.app.stack.lingering``."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gatewright.app.stack.launch import interpreter, prepare_log
from gatewright.app.stack.supervisor import StackOptions
from gatewright.errors import ConfigurationError, UnavailableError

_PROGRAM: Final = "gatewright.app.cli.stack_process"
_LOG: Final = "logs/stack.log"
_TAIL: Final = 15
#: The error that a command reports at its end.
_REPORTED: Final = re.compile(r"^error: (.{1,100000}) \[([a-z0-9_]{1,100})\]\s{0,9}\Z", re.DOTALL | re.MULTILINE)  # noqa: TID251 - bounded, and of our own log
#: Log text when another run started one first.
_LOST: Final = "[home_in_use]"


def start_error(output: str, log: Path) -> UnavailableError:
    """The error that a stack reported before it ended, with its code; ``not_ready`` with its last lines where it has none."""
    if (reported := _REPORTED.search(output)) is not None:
        return UnavailableError(f"the stack did not start: {reported[1]}", code=reported[2])
    tail = "\n".join(output.splitlines()[-_TAIL:])
    return UnavailableError(f"the stack did not start; {log} ends:\n{tail}", code="not_ready")


@dataclass(frozen=True, slots=True)
class LingeringStart:
    """A started process; ``begins`` is the offset of its output in the ``log``."""

    process: subprocess.Popen[bytes]
    log: Path
    begins: int

    @classmethod
    def begin(cls, options: StackOptions, minutes: float) -> LingeringStart:
        """Start it, with the settings of this run. Raises ConfigurationError."""
        log = options.home / _LOG
        prepare_log(log)
        keys = {name: value for each in options.repository_keys.values() for name, value in each.items()}
        environment = {
            **(options.puller or {}),
            **options.base_environment,
            **options.model_keys,
            **keys,
            "GATEWRIGHT_HOME": str(options.home),
        }
        try:
            with log.open("ab") as output:
                begins = output.tell()
                process = subprocess.Popen(
                    interpreter(_PROGRAM, str(minutes), str(options.workers)),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=options.home,
                    env=environment,
                    start_new_session=True,
                )
        except OSError as error:
            raise ConfigurationError(f"the stack cannot be started: {error}") from error
        return cls(process, log, begins)

    def lost(self) -> bool:
        """Return whether it has ended because another process holds the home folder.

        Raises UnavailableError, as ``start_error``, if it has ended for another reason.
        """
        if self.process.poll() is None:
            return False
        with self.log.open("rb") as stream:
            stream.seek(self.begins)
            output = stream.read().decode("utf-8", "replace")
        if _LOST not in output:
            raise start_error(output, self.log)
        return True
