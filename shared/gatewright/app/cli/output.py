"""What a command prints: one JSON document for programs, or text for people. Nothing else in the package writes to a stream.

Paths, messages and names come from repositories and agents. Whatever is printed for people passes ``printable`` first: an
escape sequence in a file name must not reach the terminal.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TextIO

import typer

from gatewright.app.cli.outcome import Exit, as_known, exit_of_error
from gatewright.errors import GatewrightError
from gatewright.view.safe_text import hang, printable

P = ParamSpec("P")


def say(text: str = "", *, stream: TextIO | None = None) -> None:
    """Print lines of text for people as they are; every part from outside has passed ``printable``."""
    print(text, file=stream or sys.stdout, flush=True)


def discard_output() -> None:
    """What is not written yet goes nowhere: at the end of the process, its failure would be another one."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def terminal_width() -> int | None:
    """The columns of the terminal that standard output goes to; None for a pipe or a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def note(words: str) -> None:
    """A remark for people while something takes its time, on standard error."""
    text = printable(words)
    say(hang(text, shutil.get_terminal_size().columns, 2) if sys.stderr.isatty() else text, stream=sys.stderr)


def emit(document: Any) -> None:
    """Print one JSON document on one line."""
    import msgspec

    sys.stdout.write(msgspec.json.encode(document, order="deterministic").decode() + "\n")
    sys.stdout.flush()


def reported(command: Callable[P, None]) -> Callable[P, None]:
    """Turn the errors of a command into its message and exit code: no user is shown a traceback for a mistake.

    With ``--json`` the error is a document, ``{"error": {"code", "message", "family", "faults"}}``.
    """

    @functools.wraps(command)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (GatewrightError, OSError, MemoryError, RecursionError, ImportError, ExceptionGroup) as error:
            known = as_known(error)
            if known is None:
                raise
            if kwargs.get("json_output"):
                emit({"error": error_document(known)})
            else:
                complain(known)
            raise typer.Exit(exit_of_error(known)) from error
        except KeyboardInterrupt:
            say("interrupted", stream=sys.stderr)
            raise typer.Exit(Exit.FAILED) from None

    return guarded


def error_document(error: Any) -> dict[str, Any]:
    """An error for programs: stable code, words, what the code is about, and the faults by JSON pointer."""
    faults = [fault._asdict() for fault in getattr(error, "faults", ())]
    return {"code": error.reason, "message": error.message, "family": error.family, "faults": faults}


def complain(error: Any, options: Mapping[str, str] | None = None) -> None:
    """An error for people, on standard error. ``options``: by JSON pointer, the option that stands for the field."""
    say(f"error: {_lines(error.message)} [{error.reason}]", stream=sys.stderr)
    for fault in getattr(error, "faults", ()):
        place = f"{printable(fault.pointer or '/')}: "
        if options is not None:
            option = options.get(fault.pointer, "")
            place = f"{option}: " if option and "--" not in fault.message else ""
        say(f"  {place}{printable(fault.message)} [{printable(fault.code)}]", stream=sys.stderr)


def _lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.splitlines())
