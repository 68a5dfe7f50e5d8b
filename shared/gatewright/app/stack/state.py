"""``stack.json``: shows other commands of this host where the stack of a home folder is, and that it is alive.

The file has the address of the bus and the path of the credentials. It is private to its owner; a file that others could
have written is ignored, because a repository may contain a forged one. It lists the processes; it starts and stops nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gatewright.app.stack.processes import Identity, identity
from gatewright.errors import ConfigurationError, UnavailableError
from gatewright.file_locks import lock_file
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.host_errors import host_error
from gatewright.private_files import read_private, write_private

if TYPE_CHECKING:
    from gatewright.bus.identities import BusAddress

STATE_FILE = "stack.json"
LOCK_FILE = "stack.lock"
#: Marks a home folder that is being restored and is incomplete.
UNFINISHED = ".restoring"


class Member(msgspec.Struct, frozen=True):
    """A process of the stack: ``worker-2`` is the second worker; ``restarts`` counts how often it was started again."""

    name: str
    pid: int
    restarts: int = 0


class StackState(msgspec.Struct, frozen=True, kw_only=True):
    """A stack as it announces itself. ``keys``: the folder of the bus's identities; ``shared`` is false for that of one run."""

    pid: int
    boot: str
    started: int
    url: str
    keys: str
    home: str
    shared: bool
    workers: int
    ready: bool = False
    environments: tuple[str, ...] = ()
    #: The number of streams of its ledger.
    ledger_partitions: int = 1
    #: The cassette that its roles replay instead of calling models; empty if they call them.
    cassette: str = ""
    members: tuple[Member, ...] = ()
    #: The file in which the owner offers further environments; empty where its roles read none.
    offers: str = ""
    #: The folder of the policies that its gatekeeper keeps to.
    policies: str = ""
    #: Idle minutes after which it ends by itself; 0 for one that a person keeps, and for that of one run.
    linger: float = 0.0
    #: Covers all that it has read once; empty unless it lingers.
    fingerprint: str = ""
    #: Why the NATS server stores nothing; empty if it does.
    fault: str = ""

    def address(self, identity: str | None = None) -> BusAddress:
        """The bus as ``identity`` reaches it, by default the operator."""
        # Imported late: whether a stack is alive is checked before anything else.
        from gatewright.bus.identities import OPERATOR, BusAddress, seed_file

        return BusAddress(self.url, seed_file(Path(self.keys), identity or OPERATOR), partitions=self.ledger_partitions)


def write(home: Path, state: StackState) -> None:
    """Announce the stack: a whole file or none, readable by its owner only."""
    write_private(home / STATE_FILE, msgspec.json.format(msgspec.json.encode(state), indent=2))


def read(home: Path) -> StackState | None:
    """The stack that lives in ``home`` now; None when there is none, or only the file of one that died.

    Raises ConfigurationError when the file is not private to its owner.
    """
    data = read_private(home / STATE_FILE)
    if data is None:
        return None
    try:
        state = read_json(data, StackState)
    except UnreadableDocumentError:
        return None
    return state if identity(state.pid) == Identity(state.boot, state.started) else None


def remove(home: Path) -> None:
    (home / STATE_FILE).unlink(missing_ok=True)


@contextlib.contextmanager
def exclusive(home: Path) -> Iterator[None]:
    """Hold the home folder for one stack: two NATS servers on one store would ruin it.

    Raises UnavailableError (code ``home_in_use``) when another process holds it, ConfigurationError when it cannot be
    written, or was restored in part only (``restore_unfinished``). The kernel lets go when the holder dies.
    """
    if (home / UNFINISHED).exists():
        raise ConfigurationError(
            f"{home} was being restored from a backup, and that was not finished: do it again", code="restore_unfinished"
        )
    try:
        descriptor = lock_file(home / LOCK_FILE)
    except BlockingIOError:
        raise UnavailableError(
            f"another stack runs in {home}: `gatewright down` ends a shared one", code="home_in_use"
        ) from None
    except OSError as error:
        raise host_error(error) or ConfigurationError(f"{home} cannot be used as a home folder: {error.strerror}") from error
    try:
        yield
    finally:
        os.close(descriptor)
