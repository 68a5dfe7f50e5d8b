"""``gatewright``: the entry point. It handles errors that the commands do not."""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from gatewright.app.cli.run.ahead import Begun

#: New objects before a garbage collection. Imports alone create a hundred thousand lasting objects. The default of 700
#: collects them again and again, which costs a tenth of the time of a short command.
_YOUNG = 50_000
#: Arguments with which no command is run.
_HELP = frozenset({"-h", "--help", "--help-all"})


def main() -> None:
    """Run the command line. Ends the process with the exit code of the command."""
    gc.set_threshold(_YOUNG)
    # Python's own handler raises at any point of the program. Inside an import the exception can be swallowed, and the
    # interrupt is lost. So an interrupt just exits, until a command has something to undo and sets its own handler.
    signal.signal(signal.SIGINT, _leave_at_signal)
    sys.excepthook = _report_defect
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a tick must not stop a run.
            stream.reconfigure(errors="replace")
    words = sys.argv[1:]
    if words[:1] != ["run"] or not _HELP.isdisjoint(words):
        _carry_out(None)
    # Before the imports that read the command.
    from gatewright.app.cli.run.ahead import begin_ahead

    with begin_ahead() as ahead:
        _carry_out(ahead)


def _carry_out(ahead: Begun | None) -> NoReturn:
    from typer.main import get_command

    from gatewright.app.cli.app import app

    # A direct call would replace our exception hook with that of the application.
    get_command(app)(obj=ahead)
    sys.exit()


def _leave_at_signal(_number: int, _frame: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(1)


def _report_defect(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report an unhandled error: one sentence for people, and for a defect a file to attach to a report."""
    from gatewright.app.cli.outcome import Exit, as_known, exit_of_error
    from gatewright.app.cli.output import complain

    known = as_known(error)
    if known is not None:
        complain(known)
        os._exit(exit_of_error(known))
    sys.stderr.write(
        f"error: a defect in gatewright: {kind.__name__}; please report it with {_trace_file(kind, error, trace)}\n"
    )
    sys.stderr.flush()
    # An exit code of 1 would mean that a run or a check failed.
    os._exit(Exit.INFRASTRUCTURE)


def _trace_file(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> str:
    """Write the trace to a file and return its path; if no folder is writable, return the trace itself."""
    import tempfile
    import traceback

    words = "".join(traceback.format_exception(kind, error, trace))
    try:
        descriptor, name = tempfile.mkstemp(prefix="gatewright-", suffix=".trace")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(words)
    except OSError:
        return f"this trace:\n{words}"
    return name


if __name__ == "__main__":
    main()
