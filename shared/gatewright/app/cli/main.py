"""``gatewright``: the entry point. What goes wrong outside of any command's own foresight is met here."""

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

#: Objects that are made before the collector looks at the young ones. Imports alone make a hundred thousand that stay, and the
#: usual 700 have it look at all of them again and again: a tenth of the time of a short command.
_YOUNG = 50_000
#: Where one of these stands, nothing is run.
_HELP = frozenset({"-h", "--help", "--help-all"})


def main() -> None:
    """Run the command line. Ends the process with the exit code of the command."""
    gc.set_threshold(_YOUNG)
    # Python's own handler raises wherever the program happens to be; inside an import that can be swallowed, and the
    # interrupt is lost. Until a command has something to undo and says so, leaving is all there is to do.
    signal.signal(signal.SIGINT, _leave)
    sys.excepthook = _report_defect
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a tick must not stop a run.
            stream.reconfigure(errors="replace")
    words = sys.argv[1:]
    if words[:1] != ["run"] or not _HELP.isdisjoint(words):
        _carry_out(None)
    # Before all that reads the command is imported.
    from gatewright.app.cli.run.ahead import begin_ahead

    with begin_ahead() as ahead:
        _carry_out(ahead)


def _carry_out(ahead: Begun | None) -> NoReturn:
    from typer.main import get_command

    from gatewright.app.cli.app import app

    # Called directly, the application would put its own exception hook in the place of ours.
    get_command(app)(obj=ahead)
    sys.exit()


def _leave(_number: int, _frame: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(1)


def _report_defect(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """What no command foresaw: people get one sentence, and for a defect a file to report it with."""
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
    # An exit code of 1 would say that a run or a check has failed.
    os._exit(Exit.INFRASTRUCTURE)


def _trace_file(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> str:
    """Where the trace was written; where no folder takes it, the trace itself."""
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
