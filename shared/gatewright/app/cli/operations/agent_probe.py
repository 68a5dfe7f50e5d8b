"""Runs the admission probe of an agent in a process of the worker's, which the command line is no part of."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gatewright.app.cli import settings
from gatewright.app.stack.launch import interpreter
from gatewright.errors import DeniedError, GatewrightError, UnavailableError
from gatewright.foreign_documents import UnreadableDocumentError, read_json

_MODULE: Final = "gatewright.services.worker.agents.probe"
_LARGEST_LINE: Final = 1 << 20


def probe_agent(name: str, home: Path) -> Iterator[dict[str, Any]]:
    """The documents of the probe as they come: each step, and at last the admission, which is kept below ``home``.

    Raises GatewrightError with the reason of the probe where it could not be made.
    """
    environment = settings.inherited_environment() | {"GATEWRIGHT_HOME": str(home)}
    argv = interpreter(_MODULE, name)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment) as process:
        if process.stdout is None:
            raise UnavailableError("the probe was started without a pipe")
        try:
            yield from _documents(process.stdout)
        except BaseException:
            process.terminate()
            raise


def _documents(lines: Any) -> Iterator[dict[str, Any]]:
    whole = False
    while line := lines.readline(_LARGEST_LINE):
        try:
            document = read_json(line, dict[str, Any])
        except UnreadableDocumentError as error:
            raise UnavailableError(f"the probe printed what is no record of it: {error}") from error
        if "code" in document:
            raise _error(document)
        whole = "admitted" in document
        yield document
    if not whole:
        raise UnavailableError("the probe ended before it was done; what it said stands above")


def _error(document: dict[str, Any]) -> GatewrightError:
    """The reason's own family decides the exit code."""
    return DeniedError(str(document.get("message")), code=str(document["code"]))
