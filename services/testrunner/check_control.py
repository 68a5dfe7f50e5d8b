"""Whether a command in which no test is known looks at the change: run once more, with an error planted in a changed file."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from gatewright.contracts.reports import CheckControl
from gatewright.ecosystems.checkers import SourceChecker
from gatewright.ecosystems.planting import words
from gatewright.ecosystems.suppressions.finding import MOST_BYTES, files_without
from gatewright.git.changes import TreeChange
from gatewright.git.mirror_tree import list_tree
from gatewright.git.modes import REGULAR
from gatewright.sandbox import Sandbox
from gatewright.services.testrunner.commands import CommandPlace
from gatewright.services.testrunner.instrumented import build_earlier
from gatewright.workspace import Workspaces

#: Bytes of changed files that are searched for what switches the tool off, and files that the proof names.
_MOST_BYTES_OF_ALL: Final = 64 << 20
_MOST_NAMED: Final = 100
#: Which of the changed files gets the error is drawn anew each time.
_DRAW: Final = random.SystemRandom()


async def run_check_control(
    checker: SourceChecker, argv: tuple[str, ...], place: CommandPlace, sandbox: Sandbox, workspaces: Workspaces
) -> CheckControl | None:
    """What became of the error; None where the change has no file that such a tool checks.

    Raises SandboxError, ConfigurationError, DeniedError, GitError, UnavailableError.
    """
    candidate = place.candidate
    changes = await candidate.mirror.changes(candidate.baseline_tree, candidate.tree)
    names = [change.path.decode("utf-8", "replace") for change in changes if change.new_mode in REGULAR]
    looked_at = [name for name in names if checker.looks_at(name)]
    if not looked_at:
        return None
    path = _DRAW.choice(looked_at)
    content = await (await list_tree(candidate.mirror, candidate.tree)).read(path)
    if content is None:
        return None
    name = "_".join(words(_DRAW))
    async with workspaces.open(
        candidate.mirror,
        candidate.baseline,
        candidate.tree,
        plain=not place.workspace.overlay,
        planted=place.provided,
        replaced={path.encode(): checker.planted(content, name)},
        compiled=place.compiled,
    ) as workspace:
        await build_earlier(place, workspace, sandbox)
        completed = await sandbox.run(argv, workspace=workspace, prefix=place.prefix, limits=place.limits)
    named = checker.names(completed.stdout + completed.stderr, path, name)
    noticed = completed.exit_code != 0 and named and not completed.stopped
    off = await _files_without(checker, place)
    return CheckControl(tool=checker.name, path=path, exit_code=completed.exit_code, noticed=noticed, switched_off=off)


async def _files_without(checker: SourceChecker, place: CommandPlace) -> tuple[str, ...]:
    """The changed files in which the tool is switched off for the whole file; the first 100. Raises GitError."""
    mirror = place.candidate.mirror
    changes = await mirror.changes(place.candidate.baseline_tree, place.candidate.tree)
    written = [each for each in changes if each.new_mode in REGULAR and checker.looks_at(each.path.decode("utf-8", "replace"))]
    sizes = await mirror.sizes({each.new_id for each in written})
    portion: list[TreeChange] = []
    left = _MOST_BYTES_OF_ALL
    for change in written:
        left -= sizes[change.new_id]
        if sizes[change.new_id] <= MOST_BYTES and left >= 0:
            portion.append(change)
    contents = await mirror.blobs({each.new_id for each in portion})
    files = [(each.path, contents[each.new_id]) for each in portion]
    return (await asyncio.to_thread(files_without, checker.tool, files))[:_MOST_NAMED]
