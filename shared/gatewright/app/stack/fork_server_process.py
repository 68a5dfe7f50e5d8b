"""The fork server's own process: imports what all roles need once, then forks one process per order.

A fresh interpreter spends most of its start on imports that are the same for every role. Here they happen once, and their
memory is shared; so is the catalogue of the secret scanner, loaded in a thread during the imports. That thread has ended
before the first fork, and there is no event loop, so that forking is safe. The process reads orders from standard input and
reports on standard output, one JSON object a line; when its input ends, it ends with all that it forked.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import runpy
import selectors
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import msgspec
import setproctitle

from gatewright.app.stack.fork_orders import SECRETS, Report, StartOrder
from gatewright.app.stack.processes import dies_with_parent
from gatewright.errors import ConfigurationError
from gatewright.foreign_documents import read_json
from gatewright.secrets.selection import DEFAULT_SCANNER, make_scanner

#: The setting of all services, in the environment that they are started with.
_SCANNER = "GATEWRIGHT_SECRET_SCANNER"


def preload(module: str) -> None:
    """Import the modules of a package's program. A failed import is reported later, in that program's own process and log."""
    try:
        importlib.import_module(f"{module}.__main__")
        # The process of this role runs it again as the main program.
        del sys.modules[f"{module}.__main__"]
    except ImportError as error:
        sys.stderr.write(f"{module} is not preloaded: {error}\n")
    # Freeze existing objects: the collector of each child need not touch, and so copy, these pages.
    gc.freeze()


def load_secrets(fallback: Path) -> threading.Thread:
    """Start loading the catalogue. A role finds it loaded; if it cannot be loaded, each role reports so itself."""

    def load() -> None:
        try:
            make_scanner(DEFAULT_SCANNER, fallback).prepare()
        except ConfigurationError as error:
            sys.stderr.write(f"the catalogue of secrets is not preloaded: {error.message}\n")

    thread = threading.Thread(target=load, name="secrets")
    thread.start()
    return thread


class Forks:
    """Serves orders until its input ends. In a forked child, ``serve`` returns the order that the child must execute.

    ``modules`` are preloaded in that order whenever no order waits, so that the first role need not wait for the last one.
    ``ahead`` is a thread that must end before any fork.
    """

    def __init__(self, orders: int, reports: int, modules: Sequence[str], ahead: threading.Thread | None = None) -> None:
        self._ahead = ahead
        self._orders = orders
        self._reports = reports
        self._unloaded = list(modules)
        self._selector = selectors.DefaultSelector()
        self._selector.register(orders, selectors.EVENT_READ)
        self._names: dict[int, tuple[str, int]] = {}
        self._waiting: list[StartOrder] = []
        self._rest = b""

    def serve(self) -> StartOrder | None:
        while True:
            while self._waiting:
                order = self._waiting.pop(0)
                if not self._fork(order):
                    return order
            ready = self._selector.select(0 if self._unloaded else None)
            if not ready:
                preload(self._unloaded.pop(0))
            for key, _ in ready:
                if key.fd != self._orders:
                    self._bury(key.fd)
                elif not self._read_orders():
                    self._end_all()
                    return None

    def _read_orders(self) -> bool:
        """Read new orders; return False after the end of input."""
        data = os.read(self._orders, 65536)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._waiting += [read_json(line, StartOrder) for line in lines]
        return bool(data)

    def _fork(self, order: StartOrder) -> int:
        if order.module in self._unloaded:
            self._unloaded.remove(order.module)
            preload(order.module)
        if self._ahead is not None:
            self._ahead.join()
        before_program = dies_with_parent()
        pid = os.fork()
        if pid == 0:
            before_program()
            self._leave()
            return 0
        watched = os.pidfd_open(pid)
        self._names[watched] = (order.name, pid)
        self._selector.register(watched, selectors.EVENT_READ)
        self._send_report(Report(order.name, pid))
        return pid

    def _leave(self) -> None:
        """Close the fork server's descriptors in a child, so that its end is noticed and only it writes reports."""
        self._selector.close()
        for descriptor in (self._orders, self._reports, *self._names):
            os.close(descriptor)

    def _bury(self, watched: int) -> None:
        name, pid = self._names.pop(watched)
        self._selector.unregister(watched)
        os.close(watched)
        _, status = os.waitpid(pid, 0)
        self._send_report(Report(name, pid, os.waitstatus_to_exitcode(status)))

    def _end_all(self) -> None:
        for _, pid in self._names.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _send_report(self, report: Report) -> None:
        os.write(self._reports, msgspec.json.encode(report) + b"\n")


def become(order: StartOrder) -> None:
    """Turn this forked process into the one that was ordered, up to running its module."""
    os.setsid()
    log = os.open(order.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(log)
    os.close(nothing)
    # The title in `ps` and `top`; otherwise every role would look like the fork server. Before any change of the environment:
    # the library finds the space for a title by the address of the first environment, and otherwise does nothing.
    setproctitle.setproctitle(f"{order.module} ({order.name})")
    setproctitle.setthreadtitle(order.name)
    os.environ.clear()
    os.environ.update(order.environment)
    os.chdir(order.directory)
    sys.argv = [order.module]


def carry_out(module: str) -> NoReturn:
    """Run it as the main program, and end this process with its exit code.

    An interpreter that ends by itself takes all apart first, and so copies each page that it shares with the fork server.
    """
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as leaving:
        if leaving.code is not None and not isinstance(leaving.code, int):
            raise
        code = leaving.code or 0
    else:
        code = 0
    atexit._run_exitfuncs()  # noqa: SLF001 - what was promised for the end
    _leave_at_once(code)


def _leave_at_once(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def main() -> None:
    """Serve; in a child, run the module that was ordered as the main program."""
    # Imported objects are no garbage; a child enables its own collector.
    gc.disable()
    orders, reports = os.dup(0), os.dup(1)
    # Output of an import must not appear among the reports.
    os.dup2(2, 1)
    modules, ahead = sys.argv[1:], None
    if modules[:1] == [SECRETS]:
        wanted = os.environ.get(_SCANNER, DEFAULT_SCANNER) == DEFAULT_SCANNER
        modules, ahead = modules[2:], load_secrets(Path(modules[1])) if wanted else None
    order = Forks(orders, reports, modules, ahead).serve()
    if order is None:
        _leave_at_once(0)
    gc.enable()
    become(order)
    carry_out(order.module)


if __name__ == "__main__":
    main()
