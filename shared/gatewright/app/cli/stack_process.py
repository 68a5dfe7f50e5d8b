"""Start and stop of the stack, in the foreground or in the background.

As a program it runs a stack that stays after its run: ``gatewright up --linger``, without the table of all commands.
Usage: ``python -m gatewright.app.cli.stack_process MINUTES WORKERS``; its settings are in the environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gatewright.app.cli.context import CommandContext, find_place
from gatewright.app.cli.home import make_home
from gatewright.app.cli.outcome import Exit, as_known, exit_of_error
from gatewright.app.cli.output import complain, emit, note, write_line
from gatewright.app.cli.run.preflight import require_sandbox
from gatewright.app.cli.run.request import environment_prefix
from gatewright.app.cli.settings import inherited_environment, installer_environment, model_keys, repository_keys
from gatewright.app.cli.user_git import with_user_signing
from gatewright.app.stack import state
from gatewright.app.stack.lingering import end, fingerprint, make_way, until_idle
from gatewright.app.stack.lingering_start import start_error
from gatewright.app.stack.start_patience import StartPatience, progress_of
from gatewright.app.stack.supervisor import StackOptions, Supervisor
from gatewright.environment_state import MADE
from gatewright.errors import GatewrightError, MalformedError, UnavailableError
from gatewright.git.tracked import refuse_tracked_folder
from gatewright.tasks.inputs import EVERY
from gatewright.view.safe_text import printable

#: Maximum seconds without progress of a start, and maximum seconds of the whole start: a busy host is slow. Maximum seconds
#: until a stopped stack has ended.
READY_SECONDS = 30.0
MOST_SECONDS = 120.0
STOP_SECONDS = 20.0
_POLL = 0.05
#: Beginning of the line in which the live page prints its address.
CONSOLE_IS_ON = "the console is on "
#: Seconds that the live page has to end by itself.
_CONSOLE_SECONDS = 5.0
_COMMAND = (sys.executable, "-P", "-m", "gatewright.app.cli.main")


async def bring_up(
    workers: int, environments: tuple[Path, ...], *, console: bool = False, linger: float = 0.0, json_output: bool
) -> Exit:
    """Run the stack until it is interrupted, or idle for ``linger`` minutes if that is not 0.

    Raises:
        UnavailableError: ``home_in_use``, ``not_ready`` or ``role_keeps_dying``.
    """
    place = _embedded_place()
    options = StackOptions(
        home=place.home,
        base_environment=inherited_environment(),
        model_keys=model_keys(),
        repository_keys=with_user_signing(repository_keys(), place.here),
        workers=workers,
        # Environments that ``run --env auto`` makes while the stack runs are offered, too.
        environments=(*_prefixes(environments, place), place.home.resolve() / MADE / EVERY),
        shared=True,
        adopt=True,
        puller=installer_environment(),
        linger=linger,
    )
    options = replace(options, fingerprint=fingerprint(options) if linger else "")
    make_way(place.home)
    if not linger:
        await require_sandbox()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    supervisor, idle = Supervisor(options), contextlib.ExitStack()
    await supervisor.start()
    try:
        if linger:  # A run that waits for this stack has tested the sandbox already. For `up`, the test runs in the meantime.
            await require_sandbox()
        await _until_stopped(supervisor.ready(READY_SECONDS, MOST_SECONDS), stop)
        if not stop.is_set():
            _print_stack(state.read(place.home), json_output=json_output)
            async with _console(place.home) if console else contextlib.nullcontext():
                idle = await _until_stopped(supervisor.broken(), stop, until_idle(place.home, linger) if linger else None)
    finally:
        await supervisor.stop()
        idle.close()
    return Exit.GOOD


@contextlib.asynccontextmanager
async def _console(home: Path) -> AsyncIterator[None]:
    """Run the live page in a separate process, so that its failure does not affect the stack."""
    process = await asyncio.create_subprocess_exec(
        *_COMMAND, "console", env={**inherited_environment(), "GATEWRIGHT_HOME": str(home)}, stdin=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(_CONSOLE_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _until_stopped(
    work: Any, stop: asyncio.Event, idle: Coroutine[Any, Any, contextlib.ExitStack] | None = None
) -> contextlib.ExitStack:
    """Wait for the end of ``work``, for ``stop``, or for the end of ``idle``. The caller closes the result at the end."""
    working, stopping = asyncio.ensure_future(work), asyncio.create_task(stop.wait())
    idling = [asyncio.create_task(idle)] if idle is not None else []
    held = contextlib.ExitStack()
    try:
        await asyncio.wait({working, stopping, *idling}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        for task in (working, stopping, *idling):
            task.cancel()
        ended = await asyncio.gather(working, stopping, *idling, return_exceptions=True)
        for each in ended:
            if isinstance(each, contextlib.ExitStack):
                held.push(each)
    return held


def bring_up_detached(
    workers: int, environments: tuple[Path, ...], *, console: bool = False, linger: float = 0.0, json_output: bool
) -> None:
    """Start the stack in a separate process and return when it is ready.

    Raises UnavailableError (``home_in_use``; as ``start_error``).
    """
    place = _embedded_place()
    make_way(place.home)
    running = state.read(place.home)
    if running is not None:
        raise UnavailableError(f"a stack runs already in {place.home} (process {running.pid})", code="home_in_use")
    log = place.home / "logs" / "stack.log"
    log.parent.mkdir(exist_ok=True)
    command = [*_COMMAND, "up", "--workers", str(workers), *(["--console"] if console else [])]
    command += ["--linger", str(linger)] if linger else []
    for prefix in _prefixes(environments, place):
        command += ["--env", str(prefix)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=place.home,
            env={
                **inherited_environment(),
                **model_keys(),
                **_of_all_roles(with_user_signing(repository_keys(), place.here)),
                "GATEWRIGHT_HOME": str(place.home),
            },
            start_new_session=True,
        )
    started = _wait_ready(place.home, process)
    if started is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        raise start_error(log.read_text("utf-8", "replace"), log)
    _print_stack(started, _console_line(log, process) if console else "", json_output=json_output)


def _console_line(log: Path, process: subprocess.Popen[bytes]) -> str:
    """Return the line in which the live page prints its address; empty, with a warning, if it does not start."""
    give_up = time.monotonic() + READY_SECONDS
    while process.poll() is None and time.monotonic() < give_up:
        lines = log.read_text("utf-8", "replace").splitlines()
        if (line := next((each for each in lines if each.startswith(CONSOLE_IS_ON)), None)) is not None:
            return line
        if (fault := next((each for each in lines if each.startswith("error: ")), None)) is not None:
            note(f"warning: the live page did not start: {fault.removeprefix('error: ')}")
            return ""
        time.sleep(_POLL)
    note(f"warning: the live page did not start; see {log}")
    return ""


def _wait_ready(home: Path, process: subprocess.Popen[bytes]) -> state.StackState | None:
    # Longer than the timeout of the stack itself, whose message is more precise.
    patience = StartPatience(READY_SECONDS + 5, MOST_SECONDS + 5, time.monotonic)
    while process.poll() is None and not patience.is_over(partial(progress_of, process.pid)):
        found = state.read(home)
        if found is not None and found.pid == process.pid and found.ready:
            return found
        time.sleep(_POLL)
    return None


def bring_down(*, json_output: bool) -> None:
    """Stop the shared stack of the home folder; without a stack this succeeds. Raises UnavailableError if it does not end."""
    place = find_place()
    running = state.read(place.home)
    stopped = running is not None and running.shared
    if running is not None and stopped:
        end(running)
    if json_output:
        emit({"stopped": stopped, "pid": running.pid if running and stopped else None})
    elif stopped and running is not None:
        write_line(f"stopped the stack in {printable(str(place.home))} (process {running.pid})")
    elif running is not None:
        write_line(f"process {running.pid} has a stack for its own run only; interrupt it, or `gatewright abort` the run")
    else:
        write_line(f"no stack runs in {printable(str(place.home))}")


def _embedded_place() -> CommandContext:
    place = find_place()
    if place.bus is not None:
        raise MalformedError("GATEWRIGHT_NATS_URL names a system that runs elsewhere: unset it", code="invalid_input")
    make_home(place.home)
    return place


def _of_all_roles(keys: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    return {name: value for each in keys.values() for name, value in each.items()}


def _prefixes(environments: tuple[Path, ...], place: CommandContext) -> tuple[Path, ...]:
    prefixes = tuple(environment_prefix(prefix, place.here) for prefix in environments)
    for prefix in prefixes:
        if not prefix.is_dir():
            raise MalformedError(f"there is no folder {prefix}", code="invalid_input")
    for given in environments:
        refuse_tracked_folder(place.here / given.expanduser())
    return prefixes


def _print_stack(running: state.StackState | None, console_line: str = "", *, json_output: bool) -> None:
    if running is None:
        return
    if json_output:
        emit(
            {
                "pid": running.pid,
                "home": running.home,
                "state": str(Path(running.home) / state.STATE_FILE),
                "workers": running.workers,
                "environments": running.environments,
                "processes": [{"name": member.name, "pid": member.pid} for member in running.members],
                **({"console": console_line.removeprefix(CONSOLE_IS_ON)} if console_line else {}),
            }
        )
        return
    write_line(f"the stack is up in {printable(running.home)} (process {running.pid})")
    for member in running.members:
        write_line(f"  {member.name:<12} {member.pid}")
    if console_line:
        write_line(f"  {console_line}")
    write_line("  next: gatewright run ...; stop it with gatewright down")


def main() -> int:
    minutes, workers = float(sys.argv[1]), int(sys.argv[2])
    try:
        return asyncio.run(bring_up(workers, (), linger=minutes, json_output=True))
    except (GatewrightError, OSError) as error:
        known = as_known(error)
        if known is None:
            raise
        complain(known)
        return exit_of_error(known)


if __name__ == "__main__":
    sys.exit(main())
