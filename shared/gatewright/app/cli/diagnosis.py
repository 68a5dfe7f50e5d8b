"""The checks of ``gatewright doctor``: each checks one requirement of a run, and names the fix if it is not met.

The checks change nothing, except for a small file in the home folder that times the disk and is removed again.

Checks of the bus: space for its streams, writes to its streams, load sharing between processes of a role, and the requirements
of the processes. A bus that was named reports its own space. For the embedded server, the check reads the free space of the
home folder's volume, as the server does when it starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gatewright.app.cli.context import CommandContext, find_place
from gatewright.app.cli.settings import DoctorSettings, load
from gatewright.app.cli.stack import stack_words
from gatewright.app.stack import state
from gatewright.app.stack.store_watch import granted
from gatewright.bus.identities import DEFAULT_PUBLISHER, PUBLISHER, SEED_SUFFIX, BusAddress, bus_keys, publisher_of
from gatewright.bus.jetstream.queue_depths import Offered, offered, reserved_bytes
from gatewright.bus.topology import STREAMS, publisher_streams
from gatewright.errors import BusError, ConfigurationError, GatewrightError
from gatewright.host_errors import host_error

if TYPE_CHECKING:
    from gatewright.bus.jetstream.processes import Process

OLDEST_PYTHON = (3, 11)
#: First git version whose configuration GIT_CONFIG_GLOBAL can replace.
OLDEST_GIT = (2, 32)
LEAST_FREE_BYTES = 1 << 30
#: Maximum seconds of a synced write. Above it, every step of a run is slow.
SLOW_SYNC = 0.1
_PROBE_SECONDS = 30.0
#: Checks that only the host of a service needs.
_OF_SERVICES = frozenset({"nats-server", "sandbox", "home", "key", "disk", "stack"})
_NOT_NEEDED = "not needed here: GATEWRIGHT_NATS_URL names a system whose services have their own"
#: Findings of the probe that are reported.
_SANDBOX_FACTS = ("version", "overlay", "seccomp", "account")
_PATIENCE = 3.0


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The finding of one check. ``detail``: what was found. ``hint``: what to do; empty when the check passed.

    Without ``needed``, a check that is not ``ok`` is no fault: a client of a remote system does not use the feature.
    """

    name: str
    ok: bool
    detail: str
    hint: str = ""
    needed: bool = True


def diagnose() -> tuple[Diagnosis, ...]:
    """Run all checks; return the findings in the order in which to fix them."""
    settings = DoctorSettings.load()
    place = find_place()
    checks: tuple[tuple[str, Callable[[], str], str], ...] = (
        (
            "python",
            check_python,
            "install a Python 3.11 or newer that starts without further variables (one of the system, or built with an rpath)",
        ),
        ("git", _git, "install git 2.32 or newer"),
        ("nats-server", _nats_server, "install the extra: pip install '/path/to/gatewright[cli]'"),
        (
            "sandbox",
            lambda: _sandbox(settings.sandbox),
            "commands run in it only; correct the cause above",
        ),
        ("policies", lambda: _policies(settings.policies), "correct the file, or unset GATEWRIGHT_POLICIES"),
        ("home", lambda: _home(place.home), "make it writable, or set GATEWRIGHT_HOME to a folder that is"),
        ("key", lambda: _describe_key(place.key), "run `gatewright init`"),
        ("disk", lambda: _disk(place.home), "free some space, or set GATEWRIGHT_HOME to a folder on a local disk"),
        ("stack", lambda: stack_words(place.home), "look at the file that it names"),
        ("bus", lambda: look_at_bus(place), "see the server's log; docs/deploy.md explains its storage"),
        (
            "processes",
            lambda: look_at_processes(place),
            "correct the cause above, or see the log of that process; the runs go on by themselves then",
        ),
    )
    findings = tuple(_finding(name, look, hint) for name, look, hint in checks)
    if place.bus is None:
        return findings
    return tuple(
        each if each.ok or each.name not in _OF_SERVICES else replace(each, hint=_NOT_NEEDED, needed=False) for each in findings
    )


def _finding(name: str, look: Callable[[], str], hint: str) -> Diagnosis:
    try:
        return Diagnosis(name, ok=True, detail=look())
    except UnfitError as error:
        return Diagnosis(name, ok=False, detail=str(error), hint=hint)
    except GatewrightError as error:
        return Diagnosis(name, ok=False, detail=error.message, hint=hint)
    except OSError as error:
        known = host_error(error)
        words = known.message if known else f"{error.filename or ''} {error.strerror or error}".strip()
        return Diagnosis(name, ok=False, detail=words, hint=hint)


def check_python() -> str:
    """Return the Python version. Raises UnfitError if it is too old, or does not start in the sandbox."""
    version = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        raise UnfitError(f"Python {version} is too old")
    # As in the sandbox, which passes on no variable of the host.
    bare = subprocess.run(
        (sys.executable, "-I", "-c", ""),
        env={},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_PROBE_SECONDS,
        check=False,
    )
    if bare.returncode:
        lines = bare.stderr.decode("utf-8", "replace").strip().splitlines()
        cause = lines[-1][:200] if lines else f"it ends with {bare.returncode}"
        words = f"Python {version} at {sys.executable} does not start without variables of this host (such as LD_LIBRARY_PATH)"
        raise UnfitError(f"{words}, which commands in the sandbox do not get: {cause}")
    return f"Python {version} at {sys.executable}"


def _git() -> str:
    words = _output("git", "--version")
    numbers = re.search(r"(\d+)\.(\d+)", words)  # noqa: TID251 - the operator's own text
    if numbers is None or (int(numbers[1]), int(numbers[2])) < OLDEST_GIT:
        raise UnfitError(f"{words} is too old")
    return words


def _nats_server() -> str:
    from gatewright.app.stack.nats_server import find_binary

    binary = find_binary()
    return f"{_output(str(binary), '--version')} at {binary}"


def _output(*argv: str) -> str:
    program = shutil.which(argv[0])
    if program is None:
        raise UnfitError(f"there is no {argv[0]} on PATH")
    try:
        done = subprocess.run(
            (program, *argv[1:]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnfitError(f"{argv[0]} does not answer") from None
    words = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode:
        raise UnfitError(words.splitlines()[-1] if words else f"{argv[0]} failed with exit code {done.returncode}")
    return words


def _sandbox(mode: str) -> str:
    from gatewright.sandbox import make_sandbox

    if mode == "none":
        return "switched off by GATEWRIGHT_SANDBOX=none: commands run as you, and every bundle records that"
    report = asyncio.run(make_sandbox("bubblewrap").probe())
    if not report.available:
        raise UnfitError(report.cause)
    shown = (f"{name} {report.facts[name]}" for name in _SANDBOX_FACTS if name in report.facts)
    return ", ".join(("bubblewrap works", *shown))


def _policies(folder: Path) -> str:
    from gatewright.app.deployment.policy import DEPLOYMENTS_FILE
    from gatewright.app.forge.policy import FORGES_FILE, load_forges
    from gatewright.app.publication.sinks import SINKS_FILE
    from gatewright.app.retention.expiry_policy import RETENTION_FILE
    from gatewright.egress.policy import EGRESS_FILE
    from gatewright.evidence.store.policy import STORES_FILE

    for file in (RETENTION_FILE, EGRESS_FILE, STORES_FILE, SINKS_FILE, DEPLOYMENTS_FILE):
        file.load_if_present(folder)
    if FORGES_FILE.path(folder).exists():
        load_forges(folder)
    # The gatekeeper's own code in a separate process, since the library does not import services.
    return _output(sys.executable, "-P", "-m", "gatewright.services.gatekeeper.policies.check", str(folder))


def _home(home: Path) -> str:
    folder = _existing(home)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UnfitError(f"{folder} cannot be written")
    return str(home) if folder == home else f"{home} will be made"


def _describe_key(path: Path) -> str:
    from gatewright.evidence.signing import keys

    if not path.exists():
        return "none yet; the first run makes one"
    return f"ed25519 {keys.load(path).public.key_id[:16]}"


def _disk(home: Path) -> str:
    folder = _existing(home)
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE_BYTES:
        raise UnfitError(f"only {free >> 20} MiB free in {folder}")
    took = _sync_seconds(folder)
    if took > SLOW_SYNC:
        raise UnfitError(f"a synced write takes {took * 1000:.0f} ms in {folder}")
    return f"{free >> 30} GiB free, a synced write takes {took * 1000:.1f} ms"


def _existing(home: Path) -> Path:
    """Return the home folder, or its nearest existing parent."""
    return next(folder for folder in (home, *home.parents) if folder.is_dir())


def _sync_seconds(folder: Path) -> float:
    """Return the median seconds of a few small synced writes."""
    probe = folder / f".gatewright-probe-{os.getpid()}"
    times = []
    descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    # The name is removed immediately, so that a killed check leaves no file.
    probe.unlink()
    try:
        for _ in range(5):
            start = time.perf_counter()
            os.write(descriptor, b"x" * 512)
            os.fsync(descriptor)
            times.append(time.perf_counter() - start)
    finally:
        os.close(descriptor)
    return sorted(times)[2]


class UnfitError(Exception):
    """A failed check: the host or system does not meet a requirement of runs."""


def look_at_bus(place: CommandContext) -> str:
    """Check the bus and describe it. Raises UnfitError, BusError, ConfigurationError."""
    if place.bus is not None:
        found, shared = asyncio.run(_ask_server(place.bus))
        return _finding_words(found) + "".join(
            f"; {number} processes share the identity {identity}, and each can see and answer what the others are given: give "
            f"each a seed of its own (`gatewright keys bus --process {identity}-2`)"
            for identity, number in shared.items()
        )
    running = state.read(place.home)
    if running is not None and running.fault:
        raise UnfitError(f"the server of the stack that runs here stores nothing: {running.fault}")
    store = place.home / "nats"
    folder = next(each for each in (store, *store.parents) if each.is_dir())
    taken = _bytes_below(store / "jetstream")
    named = [publisher_of(path.stem) for path in bus_keys(place.home).glob(f"{PUBLISHER}-*{SEED_SUFFIX}")]
    publishers = (DEFAULT_PUBLISHER, *(name for name in named if name))
    return _fits(granted(folder, taken), f"{folder} gives its streams", publishers)


def look_at_processes(place: CommandContext) -> str:
    """Describe the running processes by their own reports. Raises UnfitError, BusError, ConfigurationError."""
    address = place.bus
    if address is None:
        running = state.read(place.home)
        if running is None:
            return "no system runs here"
        address = running.address()
    processes = asyncio.run(_find_processes(address))
    if processes is None:
        return "the processes report to an operator only"
    lacking = [f"{each.role} {each.id}: {lacks}" for each in processes if (lacks := each.metadata.get("lacks"))]
    if lacking:
        raise UnfitError("; ".join(sorted(lacking)))
    return f"{len(processes)} processes report that they are ready" if processes else "no process of a role answers"


async def _find_processes(address: BusAddress) -> Sequence[Process] | None:
    """Return the processes that answer; None if the identity may not ask."""
    from gatewright.bus.jetstream.bus import JetStreamBus
    from gatewright.bus.jetstream.processes import ask_processes

    bus = await JetStreamBus.connect(address, name="doctor", patience=_PATIENCE)
    try:
        if bus.connection.guest:
            return None
        return await ask_processes(bus.connection)
    finally:
        await bus.close()


def _fits(space: int, giver: str, publishers: Sequence[str] = (DEFAULT_PUBLISHER,)) -> str:
    """Describe whether ``space`` bytes are enough for the streams. Raises UnfitError below the minimum."""
    streams = (*STREAMS, *(stream for publisher in publishers for stream in publisher_streams(publisher)))
    wanted, least = reserved_bytes([load().stream_settings.apply_to(stream) for stream in streams])
    if space < least:
        raise UnfitError(
            f"{giver} {_format_size(space)}; they need at least {_format_size(least)}, and should have {_format_size(wanted)}"
        )
    smaller = (
        ""
        if space >= wanted
        else f", of the {_format_size(wanted)} that are meant: they are smaller, and hold fewer waiting messages"
    )
    return f"{giver} {_format_size(space)}{smaller}"


def _finding_words(found: Offered | None) -> str:
    if found is None:
        return "the server answers; only an operator may read how much its account may store"
    if found.limit is None:
        return f"the server answers, {_format_size(found.used)} are stored, its account has no limit"
    return _fits(found.limit, "the server's account gives its streams")


async def _ask_server(address: BusAddress) -> tuple[Offered | None, Mapping[str, int]]:
    # Imported late: the NATS client takes longer to import than everything else here.
    from gatewright.bus.jetstream.bus import JetStreamBus
    from gatewright.bus.jetstream.processes import ask_processes, shared_identities

    bus = await JetStreamBus.connect(address, name="doctor", patience=_PATIENCE)
    try:
        return await offered(bus.connection), shared_identities(await ask_processes(bus.connection))
    except BusError as error:
        if not bus.connected:
            raise
        if error.reason.startswith("jetstream_"):
            raise ConfigurationError(error.message, code=error.reason) from error
        return None, {}
    finally:
        await bus.close()


def _bytes_below(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # a running server removes files that it no longer needs
                total += (Path(parent) / name).lstat().st_size
    return total


def _format_size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count >> 20} MiB"
