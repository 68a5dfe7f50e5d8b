"""What would stop a run for certain, found out on this host before anything is started: programs, the sandbox, and work that
is not committed, which stops nothing and is told.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from gatewright.app.cli.settings import DoctorSettings
from gatewright.app.cli.user_git import user_checkout
from gatewright.errors import CommandRefusedError, Fault, GitError, SandboxError
from gatewright.sandbox import make_sandbox, parse_command
from gatewright.sandbox.environments import Shown, environments_of
from gatewright.sandbox.programs import not_found

#: For a user who has named no environment, or one that is not there.
AUTO_ADVICE = "--env auto makes an environment from what the repository declares"


def missing_programs(commands: Sequence[str], tests: Sequence[str], shown: Shown) -> Iterator[Fault]:
    """A fault for every command whose program the sandbox will not have. What is no plain command is left to the gates."""
    named = [(f"/executor/commands/{number}", "--exec", line) for number, line in enumerate(commands)]
    named += [(f"/acceptance_tests/{number}/cmd", "--test", line) for number, line in enumerate(tests)]
    for pointer, option, line in named:
        try:
            program = parse_command(line)[0]
        except CommandRefusedError:
            continue
        if words := not_found(program, shown):
            yield Fault(
                pointer, "program_not_found", f"{option}: {words}{_elsewhere(program)}{_environment_hint(program, shown)}"
            )


def _elsewhere(program: str) -> str:
    """Where the caller has it: most often in the environment that was forgotten."""
    found = shutil.which(program)
    if found is None:
        return ""
    folder = Path(found).parent
    hint = f": give --env {shlex.quote(str(folder.parent))}" if folder.name == "bin" else ""
    return f"; yours is {found}{hint}"


def _environment_hint(program: str, shown: Shown) -> str:
    """That ``--env auto`` may bring it, where no environment was given."""
    # Imported late: only a refusal needs it.
    from gatewright.app.environments.prepare import is_known_program

    return f"; {AUTO_ADVICE}" if not environments_of(shown).folders and is_known_program(program) else ""


async def require_sandbox() -> None:
    """Raises SandboxError with the cause when commands cannot be run on this host."""
    if DoctorSettings.load().sandbox == "none":
        return
    report = await make_sandbox("bubblewrap").probe()
    if not report.available:
        raise SandboxError(report.cause)


def uncommitted_words(repository: str, ref: str) -> str | None:
    """A warning about what a run that starts from ``ref`` will not see; None when all is committed, or git cannot tell."""
    folder = Path(repository)
    words = left_out_words(folder) if folder.is_dir() else None
    return f"warning: {words} and no part of the run, which starts from {ref}" if words is not None else None


def left_out_words(start: Path, *, beyond_index: bool = False) -> str | None:
    """How many files of the work tree of ``start`` are not committed (``beyond_index``: not staged); None for no file.

    None as well where git cannot tell.
    """
    try:
        found = user_checkout(start).uncommitted(beyond_index=beyond_index)
    except GitError:
        return None
    total = found.changed + found.untracked
    if not total:
        return None
    noun = "1 file is" if total == 1 else f"{total} files are"
    parts = [f"{number} {what}" for number, what in ((found.changed, "changed"), (found.untracked, "untracked")) if number]
    return f"{noun} not {'staged' if beyond_index else 'committed'} ({', '.join(parts)})"
