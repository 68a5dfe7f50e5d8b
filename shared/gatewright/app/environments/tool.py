"""Execution of the user's own programs on this host, before the pull phase: they fetch nothing, and see nothing of a tree."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from gatewright.app.environments.errors import NotPreparedError
from gatewright.ecosystems.port import TreeFiles

#: Lines of a failed tool that are quoted, and characters of each.
_QUOTED_LINES = 12
_QUOTED = 300
#: The longest that an installer may take.
SECONDS = 1800.0


async def run_tool(argv: Sequence[str], *, folder: Path, environment: Mapping[str, str], seconds: float = SECONDS) -> bytes:
    """Return the output of ``argv``; NotPreparedError with its last lines if it fails or takes longer than ``seconds``."""
    code, output, errors = await run_on_host(argv, folder, environment, seconds)
    if code:
        raise ended_badly(argv, code, output + errors)
    return output


async def run_on_host(
    argv: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float = SECONDS
) -> tuple[int, bytes, bytes]:
    """Return exit code, output and errors of ``argv``. On cancellation it is ended with all that it started.

    Raises NotPreparedError if it cannot be started, or takes longer than ``seconds``.
    """
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=folder,
            env=dict(environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
            umask=0o022,  # what is installed is read by the account that commands run as
        )
    except OSError as error:
        raise NotPreparedError(f"{argv[0]} cannot be started: {error.strerror}") from error
    try:
        output, errors = await asyncio.wait_for(process.communicate(), seconds)
    except TimeoutError:
        raise NotPreparedError(f"{_command_name(argv)} took more than {seconds:.0f} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return process.returncode or 0, output, errors


def ended_badly(
    argv: Sequence[str], code: int, output: bytes, notes: str = "", *, reason_first: bool = False
) -> NotPreparedError:
    """Return the error of ``argv``, with its last lines, and ``notes``.

    ``reason_first``: with its first lines, for a tool that prints its usage after the error.
    """
    lines = _first_lines(output) if reason_first else _last_lines(output)
    return NotPreparedError(f"{_command_name(argv)} ended with {code}{lines}{notes}")


def _command_name(argv: Sequence[str]) -> str:
    """The program and what of it, without options."""
    words = [word for word in argv[1:4] if not word.startswith("-")]
    return " ".join((Path(argv[0]).name, *words[:2]))


def _last_lines(output: bytes) -> str:
    lines = [line for line in output[-64 * 1024 :].decode("utf-8", "replace").splitlines() if line.strip()]
    return _quote_lines(lines[-_QUOTED_LINES:])


def _first_lines(output: bytes) -> str:
    lines = output[: 64 * 1024].decode("utf-8", "replace").splitlines()
    return _quote_lines(
        [line for line in lines if line.strip() not in {"", "npm error"} and " warn " not in line][:_QUOTED_LINES]
    )


def _quote_lines(lines: Sequence[str]) -> str:
    shown = ("".join(each if each.isprintable() else "?" for each in line)[:_QUOTED] for line in lines)
    return "".join(f"\n  | {line}" for line in shown)


async def read_file(tree: TreeFiles, path: str) -> bytes:
    """Return the content of a file of a tree. Raises NotPreparedError if there is none that can be read."""
    content = await tree.read(path) if path in tree.paths else None
    if content is None:
        raise NotPreparedError(f"{path} is not a file of the repository that can be read")
    return content


def write_files(top: Path, files: Mapping[str, bytes]) -> None:
    """Write files below ``top``, with their folders."""
    for path, content in files.items():
        place = top / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
