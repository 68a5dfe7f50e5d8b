"""Output of a command: one JSON document for programs, or text for people; and lines that a person types after a question.

No other module of the package writes to a stream.

Paths, messages and names come from repositories and agents. All text for people passes ``printable`` first: an escape sequence
in a file name must not reach the terminal.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import shutil
import sys
import termios
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, ParamSpec, TextIO

import typer

from gatewright.app.cli.outcome import Exit, as_known, exit_of_error
from gatewright.errors import GatewrightError, MalformedError
from gatewright.view.safe_text import hang, printable

P = ParamSpec("P")


def write_line(text: str = "", *, stream: TextIO | None = None) -> None:
    """Print lines of text for people unchanged. Every external part has passed ``printable``."""
    print(text, file=stream or sys.stdout, flush=True)


def discard_output() -> None:
    """Discard pending output, so that the end of the process does not fail on it."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def terminal_width() -> int | None:
    """Return the columns of the terminal of standard output; None for a pipe or a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def note(words: str) -> None:
    """Print a note about progress for people, on standard error."""
    text = printable(words)
    write_line(hang(text, shutil.get_terminal_size().columns, 2) if sys.stderr.isatty() else text, stream=sys.stderr)


def emit(document: Any) -> None:
    """Print one JSON document on one line."""
    import msgspec

    sys.stdout.write(msgspec.json.encode(document, order="deterministic").decode() + "\n")
    sys.stdout.flush()


def reported(command: Callable[P, None]) -> Callable[P, None]:
    """Convert the errors of a command into its message and exit code. A user's mistake prints no traceback.

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
            write_line("interrupted", stream=sys.stderr)
            raise typer.Exit(Exit.FAILED) from None

    return guarded


def error_document(error: Any) -> dict[str, Any]:
    """Build an error for programs: stable code, message, family, and the faults by JSON pointer."""
    faults = [fault._asdict() for fault in getattr(error, "faults", ())]
    return {"code": error.reason, "message": error.message, "family": error.family, "faults": faults}


def complain(error: Any, options: Mapping[str, str] | None = None) -> None:
    """Print an error for people on standard error.

    Args:
        error: the error.
        options: option of each field, by JSON pointer.
    """
    write_line(f"error: {_printable_lines(error.message)} [{error.reason}]", stream=sys.stderr)
    for fault in getattr(error, "faults", ()):
        place = f"{printable(fault.pointer or '/')}: "
        if options is not None:
            option = options.get(fault.pointer, "")
            place = f"{option}: " if option and "--" not in fault.message else ""
        write_line(f"  {place}{printable(fault.message)} [{printable(fault.code)}]", stream=sys.stderr)


def _printable_lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.splitlines())


def write_whole(output: Path, data: bytes) -> None:
    """Write ``data`` to ``output`` atomically. Raises MalformedError (``output_unwritable``)."""
    draft = output.with_name(f".{output.name}.{os.getpid()}.draft")
    try:
        with draft.open("xb") as file:
            file.write(data)
        draft.replace(output)
    except OSError as error:
        raise MalformedError(f"{output} cannot be written: {error.strerror or error}", code="output_unwritable") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


_MOST_TYPED: Final = 4096


def is_interactive() -> bool:
    """Return whether a person can be asked: standard input and standard output are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def forget_typed(terminal: int) -> None:
    """Discard input from before a question was printed, since it is no answer. Only a terminal is affected."""
    with contextlib.suppress(termios.error):
        termios.tcflush(terminal, termios.TCIFLUSH)


async def typed_line(terminal: int) -> str:
    """Return the next typed line with its line end; empty at the end of the input."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(terminal, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(terminal)
    try:
        return os.read(terminal, _MOST_TYPED).decode("utf-8", "replace")
    except OSError:
        return ""
