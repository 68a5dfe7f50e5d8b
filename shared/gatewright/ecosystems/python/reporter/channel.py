"""The way out for records, the order that came in, and the files of the workspace that this process reads.

What is needed later is kept in closures, out of the reach of what replaces functions of ``os`` for a test. The pipe is opened
for every record: a test may close every descriptor that it finds, and one that is then given to another file must not be
written to.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

#: Name of the variable with the token, and of the file beside this package with the rest of the reporter's order.
TOKEN = "GATEWRIGHT_REPORT_TOKEN"  # noqa: S105 - its name
ORDER = "order.json"
#: Bytes of a record that are written in one piece, and characters of a text in it that always fit.
_LONGEST = 4096
_FITS = 500

if TYPE_CHECKING:  # 3.8 has no such type when it runs
    Emit = Callable[..., None]


class ReceivedOrder:
    """The order to execute. ``only`` has ids, in order: the tests to run if ``purpose`` is not ``all``."""

    def __init__(self) -> None:
        folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - cheaper to start
        with open(os.path.join(folder, ORDER), encoding="utf-8") as file:  # noqa: PTH118, PTH123
            loaded = json.load(file)
        self.folder = folder
        self.purpose: str = loaded["purpose"]
        self.pipe: str = loaded["pipe"]
        self.workspace: str = loaded["workspace"]
        self.only: dict[str, None] = dict.fromkeys(loaded["only"])
        self.planted: list[str] = loaded["planted"]
        self.modules: list[str] = loaded["modules"]
        self.lines: dict[str, list[int]] = loaded["lines"]
        self.recorded: dict[str, None] = dict.fromkeys(loaded["recorded"])
        self.calls: list[list[Any]] = loaded["calls"]

    def here(self, path: str) -> str | None:
        """``path`` relative to the workspace; None for one that is not in it."""
        if not path.startswith(self.workspace + "/"):
            path = os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118
        path = os.path.normpath(path)
        return path[len(self.workspace) + 1 :] if path.startswith(self.workspace + "/") else None


def take_token() -> str:
    """The token, which is then in the environment no more; neither is our folder, for what tests start."""
    token = os.environ.pop(TOKEN, "")
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    rest = [place for place in os.environ.pop("PYTHONPATH", "").split(os.pathsep) if place and place != folder]
    if rest:
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)
    return token


def open_channel(pipe: str, token: str) -> Emit:
    """Return a function that writes one record, in this process only, not in forked ones."""
    opened, write, close, current = os.open, os.write, os.close, os.getpid
    flags, owner, dumps = os.O_WRONLY | os.O_CLOEXEC, os.getpid(), json.dumps

    def emit(kind: str, **fields: Any) -> None:
        if current() != owner:
            return
        record = {"token": token, "kind": kind, **fields}
        line = dumps(record).encode() + b"\n"
        if len(line) > _LONGEST:
            line = dumps({name: _shortened(value) for name, value in record.items()}).encode() + b"\n"
        # The reader notices a missing record, and then trusts none.
        with contextlib.suppress(OSError):
            file = opened(pipe, flags)
            try:
                write(file, line)
            finally:
                close(file)

    return emit


def _shortened(value: Any) -> Any:
    if not isinstance(value, str) or len(value) <= _FITS:
        return value
    return value[: _FITS - 80] + "..." + hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


def watch_reading() -> set[str]:
    """The paths that this process opens to read from now on, as they are given: a set that grows."""
    seen: set[str] = set()
    writes = os.O_WRONLY

    def hook(event: str, arguments: Any) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str) and path not in seen and not (flags or 0) & writes:
                seen.add(path if path.startswith("/") else os.path.join(os.getcwd(), path))  # noqa: PTH109, PTH118

    sys.addaudithook(hook)
    return seen


def loaded_files(order: ReceivedOrder, seen: Iterable[str]) -> list[str]:
    """The files of the workspace that were opened or imported, relative to it."""
    files = {order.here(path) for path in list(seen)}
    for module in list(sys.modules.values()):
        place = getattr(module, "__file__", None)
        if isinstance(place, str):
            files.add(order.here(place))
    return sorted(path for path in files if path is not None)


def strange_origins(order: ReceivedOrder) -> dict[str, str]:
    """Modules that the workspace has, and that came from elsewhere: name -> place."""
    found = {}
    for name in order.modules:
        places = _places(sys.modules.get(name))
        if places and not any(order.here(place) is not None or place == order.workspace for place in places):
            found[name] = places[0]
    return found


def _places(module: Any) -> list[str]:
    place = getattr(module, "__file__", None)
    if isinstance(place, str):
        return [place]
    try:
        return [str(each) for each in getattr(module, "__path__", ())]
    except Exception:  # noqa: BLE001 - an odd module of the repository must not end its tests
        return []
