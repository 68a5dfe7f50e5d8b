"""The pull phase of an environment: the installer runs in a box whose only connection is the egress gateway.

1. the user's registries become sources of the gateway, and their credentials stay with it  2. the box sees the system, the
tool's own folders, a scratch folder and the new environment; no home, no name service, no network  3. each request is a line
of the egress log  4. without a gateway the phase fails; nothing is ever fetched directly.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.git_sources import git_sending
from gatewright.app.environments.plan import Installer, log_of
from gatewright.app.environments.tool import SECONDS, ended_badly, run_on_host
from gatewright.app.gateway_clients import client_files, client_variables, read_output, while_served
from gatewright.clock import SystemClock
from gatewright.egress.allowed import AllowedAddresses
from gatewright.egress.gateway import EgressGateway
from gatewright.egress.policy import EgressPolicy, EgressSource
from gatewright.egress.record import EgressLog, EgressRecord
from gatewright.errors import ConfigurationError, GatewrightError, UnavailableError
from gatewright.sandbox import DOOR_PORT, HOME_INSIDE, Furnishing, SandboxLimits, sandbox_account
from gatewright.sandbox.bubblewrap import BubblewrapSandbox
from gatewright.sandbox.environments import EgressSummary
from gatewright.sandbox.system import PATH

_LIMITS: Final = SandboxLimits(
    wall_seconds=SECONDS, memory_bytes=16 << 30, processes=2048, file_bytes=16 << 30, tmp_bytes=2 << 30
)
#: Makes what is installed readable by the account that commands run as.
_READABLE: Final = ("/bin/sh", "-c", 'umask 022 && exec "$@"', "installer")
#: Stands for the home in the variables of ``Registries``.
HOME: Final = "@HOME@"
_STOPPED: Final[Mapping[str, str]] = {
    "time": f"it took more than {SECONDS:.0f} s",
    "memory": "it used more memory than an installer may",
    "processes": "it started more processes than an installer may",
    "disk": "the disk is nearly full; free some space",
}
T = TypeVar("T")
Addresses = Callable[[tuple[EgressSource, ...]], AllowedAddresses]
_MOST_REFUSALS: Final = 3


@dataclass(frozen=True, slots=True)
class Registries:
    """The user's registries, as the gateway and the box need them.

    ``variables`` (``HOME`` in them is the home in the box) and ``files`` (by path below it) are an installer's configuration
    without credentials, which are in ``secrets``, named by the sources. ``shown`` are local folders of packages. ``trusted`` is
    a file of authorities that the gateway trusts besides the system's.
    """

    sources: tuple[EgressSource, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    shown: tuple[Path, ...] = ()
    trusted: str = ""

    def tls(self) -> ssl.SSLContext | None:
        """Return how the gateway checks registries; None: as the system does. Raises NotPreparedError for an unusable file."""
        if not self.trusted:
            return None
        context = ssl.create_default_context()
        try:
            context.load_verify_locations(self.trusted)
        except OSError as error:
            raise NotPreparedError(f"your configuration trusts {self.trusted}, which cannot be read: {error}") from error
        return context


class PullPhase:
    """Runs the installers of one environment. ``scratch`` is writable in the box, at its own path, as the environment is."""

    def __init__(self, prefix: Path, scratch: Path, installer: Installer, registries: Registries, addresses: Addresses) -> None:
        self.scratch = scratch
        self._prefix, self._registries, self._boxed = prefix, registries, installer.sandbox != "none"
        self._log = EgressLog(log_of(prefix))
        self._seen: list[EgressRecord] = []
        policy = _policy_for(installer.egress, registries.sources)
        secrets = {**installer.secrets, **registries.secrets}
        self._gateway: EgressGateway | None = None  # without a registry there is nothing to connect to
        if policy.sources:
            allowed = addresses(policy.sources)
            self._gateway = EgressGateway(
                policy,
                allowed,
                self._keep_record,
                clock=SystemClock(),
                secrets=secrets,
                tls=registries.tls(),
                sending=git_sending(policy),
            )

    def summary(self) -> EgressSummary:
        """Return what the record of the environment names of its egress log."""
        refused = sum(each.decision == "refused" for each in self._seen)
        return EgressSummary(len(self._seen), refused, sum(each.bytes for each in self._seen), self._log.head)

    async def run(
        self,
        argv: Sequence[str],
        *,
        programs: Sequence[str] = (),
        toolchain: Path | None = None,
        folder: Path | None = None,
        variables: Mapping[str, str] | None = None,
        reason_first: bool = False,
    ) -> bytes:
        """Return the output of ``argv``, run in ``folder``; NotPreparedError with its last lines if it fails.

        It needs ``programs`` of the host besides the system's, and the folder ``toolchain``. ``reason_first``: see
        ``ended_badly``.
        """
        first = len(self._seen)
        needed = [place for each in programs for place in program_folders(each)]
        needed += [toolchain] if toolchain is not None and not _is_of_system(toolchain) else []
        shown = tuple(dict.fromkeys(needed))
        found = ":".join(dict.fromkeys(str(Path(each).parent) for each in programs))
        given = {"PATH": f"{found}:{PATH}" if found else PATH, **self._registries.variables, **(variables or {})}
        # Stores and caches of tools are on the disk: the home is memory.
        folders = {"TMPDIR": "tmp", "XDG_CACHE_HOME": "cache", "XDG_DATA_HOME": "data"}
        own = {name: str(self.scratch / inside) for name, inside in folders.items()} | {"LANG": "C.UTF-8", "CI": "true"}
        (self.scratch / "tmp").mkdir(exist_ok=True)
        run = self._run_boxed if self._boxed else self._run_unconfined
        try:
            code, output, errors = await run(argv, folder or self.scratch, {**own, **given}, shown)
        except GatewrightError as error:
            if isinstance(error, NotPreparedError):
                raise
            raise NotPreparedError(f"no box can be made for {Path(argv[0]).name}: {error.message}") from error
        if code:
            lines = errors + output if reason_first else output + errors
            raise ended_badly(argv, code, lines, self._refusals(first), reason_first=reason_first)
        return output

    @property
    def settings(self) -> Mapping[str, str]:
        """The variables that name the registries for installers."""
        return self._registries.variables

    def _keep_record(self, record: EgressRecord) -> None:
        self._log.append(record)
        self._seen.append(record)

    def _refusals(self, first: int) -> str:
        """Lines about the requests that the gateway refused since ``first``, or that had no complete answer."""
        failed = (each for each in self._seen[first:] if each.reason not in {"", "egress_interrupted"})
        named = (("refused" if each.decision == "refused" else "had no complete answer from", each) for each in failed)
        lines = dict.fromkeys(f"\n  the egress gateway {what} {each.host}{each.path}: {each.reason}" for what, each in named)
        return "".join(list(lines)[:_MOST_REFUSALS])

    def _variables_for(self, given: Mapping[str, str], home: str, port: int) -> dict[str, str]:
        return {**{name: value.replace(HOME, home) for name, value in given.items()}, **client_variables(home, port)}

    def _files(self) -> dict[str, bytes]:
        return {**client_files(self._gateway), **self._registries.files}

    async def _run_boxed(
        self, argv: Sequence[str], folder: Path, variables: Mapping[str, str], shown: Sequence[Path]
    ) -> tuple[int, bytes, bytes]:
        top = self._prefix
        furnishing = Furnishing(
            shown=(*shown, *self._registries.shown),
            variables=self._variables_for(variables, HOME_INSIDE, DOOR_PORT),
            files=self._files(),
            kept={str(self.scratch): self.scratch},
        )
        opened = BubblewrapSandbox().session(
            (*_READABLE, *argv),
            workspace=_NewEnvironment(top, folder, str(folder), ("--bind", str(top), str(top)), (top,)),
            prefix=None,
            limits=_LIMITS,
            furnishing=furnishing,
        )
        with _handed_over(self._prefix, self.scratch):
            async with opened as session:
                session.finish()
                output = await self._while_served(session.door, read_output(session))
        if session.stopped:
            raise NotPreparedError(f"{Path(argv[0]).name} was ended: {_STOPPED[session.stopped]}")
        return session.exit_code or 0, output, session.complaints

    async def _run_unconfined(
        self, argv: Sequence[str], folder: Path, variables: Mapping[str, str], shown: Sequence[Path]
    ) -> tuple[int, bytes, bytes]:
        """Without a box, by the user's setting: the gateway is the proxy all the same."""
        del shown
        home = self.scratch / "home"
        for name, content in self._files().items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_bytes(content)
        with socket.create_server(("127.0.0.1", 0)) as door:
            given = self._variables_for(variables, str(home), door.getsockname()[1])
            return await self._while_served(door, run_on_host(argv, folder, given))

    async def _while_served(self, listening: socket.socket, work: Coroutine[object, object, T]) -> T:
        """Return the result of ``work`` while the gateway serves. Raises NotPreparedError if the gateway ends first."""
        try:
            return await while_served(self._gateway, listening, work)
        except UnavailableError as error:
            raise NotPreparedError(error.message) from error


@asynccontextmanager
async def pull_phase(
    prefix: Path, installer: Installer, registries: Registries, addresses: Addresses
) -> AsyncIterator[PullPhase]:
    """Open the pull phase of the environment ``prefix``. ``addresses`` returns what may be read of the sources.

    Raises NotPreparedError for a registry that the operator forbids.
    """
    with tempfile.TemporaryDirectory(prefix="gatewright-env-") as name:
        try:
            phase = PullPhase(prefix, Path(name), installer, registries, addresses)
        except ConfigurationError as error:
            raise NotPreparedError(error.message, code=error.reason) from error
        yield phase


def program_folders(program: str) -> tuple[Path, ...]:
    """Return the folders outside the system that ``program`` needs: that of its link, and that of its file or Node package."""
    link, real = Path(program), Path(program).resolve()
    folder = real.parent
    if "node_modules" in real.parts:
        depth = real.parts.index("node_modules") + 2
        folder = Path(*real.parts[: depth + real.parts[depth - 1].startswith("@")])
    return tuple(each for each in (link.parent, folder) if not _is_of_system(each))


def _is_of_system(folder: Path) -> bool:
    return folder.resolve().is_relative_to("/usr")


def _policy_for(ceiling: EgressPolicy | None, sources: tuple[EgressSource, ...]) -> EgressPolicy:
    """Return the policy of a pull: the user's registries, within the operator's ``ceiling`` if there is one.

    Raises NotPreparedError (``egress_registry_outside``) for a registry that the operator does not allow.
    """
    if ceiling is None:
        return EgressPolicy(version="1", sources=sources)
    within = tuple(_within(ceiling, source) for source in sources)
    return ceiling.model_copy(update={"sources": (*within, *ceiling.sources)})


def _within(ceiling: EgressPolicy, source: EgressSource) -> EgressSource:
    """Return a registry of the user with the rights, and the credential, that the operator gives to its host."""
    host = source.hosts[0]
    for each in ceiling.sources:
        if any(host == name or (name.startswith("*.") and host.endswith(name[1:])) for name in each.hosts):
            hosts = tuple(dict.fromkeys((host, *each.hosts)))
            own = {"private": each.private, "http": each.http, "credential": each.credential or source.credential}
            return source.model_copy(update={"hosts": hosts, "ports": each.ports, **own})
    words = f"your configuration names the registry {host}, which the operator's egress.json does not allow"
    raise NotPreparedError(f"{words}; use an allowed registry, or have the operator add it", code="egress_registry_outside")


@dataclass(frozen=True)
class _NewEnvironment:
    """The ``WorkingFolder`` of an installer: the new environment at its own path, and the folder that it starts in."""

    path: Path
    scratch: Path
    path_inside: str
    mounts: tuple[str, ...]
    sources: tuple[Path, ...]

    def has_room(self, place: str) -> bool:
        return not place


@contextlib.contextmanager
def _handed_over(*folders: Path) -> Iterator[None]:
    """Give folders to the account that the box runs as, and take them back once nothing runs in it."""
    account = sandbox_account()
    if not account.switched:
        yield
        return
    _give(folders, account.uid, account.gid)
    try:
        yield
    finally:
        _give(folders, os.getuid(), os.getgid())


def _give(folders: Sequence[Path], uid: int, gid: int) -> None:
    for top in folders:
        os.chown(top, uid, gid)
        for folder, names, files in os.walk(top):
            for name in (*names, *files):
                os.lchown(os.path.join(folder, name), uid, gid)  # noqa: PTH118 - ten thousands of them
