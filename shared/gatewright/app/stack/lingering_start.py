"""Starts the process that holds a lingering stack, for a run that then uses it; see ``gatewright.app.stack.lingering``."""

from __future__ import annotations

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
#: Log text when another run started one first.
_LOST: Final = "[home_in_use]"


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
        environment = {**options.base_environment, **options.model_keys, **keys, "GATEWRIGHT_HOME": str(options.home)}
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

        Raises UnavailableError (``not_ready``), with the end of its log, if it has ended for another reason.
        """
        if self.process.poll() is None:
            return False
        with self.log.open("rb") as stream:
            stream.seek(self.begins)
            said = stream.read().decode("utf-8", "replace")
        if _LOST not in said:
            tail = "\n".join(said.splitlines()[-_TAIL:])
            raise UnavailableError(f"the stack did not start; {self.log} ends:\n{tail}", code="not_ready")
        return True
