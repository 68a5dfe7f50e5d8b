"""``--env auto`` of a run: the option is replaced by environments that were made for the commit that the run starts from.

A file of the project's version that only its build would write is provided besides, from git's tags.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from gatewright.app.cli import settings
from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.home import make_home
from gatewright.app.cli.run.files.written import written_files
from gatewright.app.cli.run.places import repository_folder
from gatewright.app.cli.run.request import RunOptions
from gatewright.app.cli.user_git import user_checkout
from gatewright.errors import MalformedError

#: The word that stands for an environment to be made; a folder of that name is ``./auto``.
AUTO = Path("auto")


async def with_environment(
    options: RunOptions,
    place: CommandContext,
    note: Callable[[str], None],
    *,
    first: Callable[[], Awaitable[None]] | None = None,
) -> RunOptions:
    """The options with prefixes that exist. ``first`` is awaited before anything is installed, and not where nothing is.

    Raises NotPreparedError, MalformedError, GitError; what ``first`` raises.
    """
    if AUTO not in options.env:
        return options
    top = repository_folder(options.repo, place.here)
    if place.bus is not None or top is None:
        words = "--env auto prepares an environment on this host, for a repository on this host: name one with --env DIR"
        raise MalformedError(words, code="not_local")
    make_home(place.home)
    ref = await asyncio.to_thread(user_checkout(top).exact_ref, options.ref)
    made = await environments_for(place, top, ref, (*options.tests, *options.commands), note, first=first)
    given = (made if each == AUTO else (each,) for each in options.env)
    written = await written_files(top, ref, options.provide, note)
    return replace(options, env=tuple(dict.fromkeys(prefix for each in given for prefix in each)), written=written)


async def environments_for(
    place: CommandContext,
    top: Path,
    ref: str,
    commands: tuple[str, ...],
    note: Callable[[str], None],
    *,
    first: Callable[[], Awaitable[None]] | None = None,
) -> tuple[Path, ...]:
    """The prefixes for ``commands`` on what ``ref`` names in the repository ``top``."""
    # Imported late: no other run pays for it.
    from gatewright.app.environments.baseline_tree import baseline_tree
    from gatewright.app.environments.plan import Installer
    from gatewright.app.environments.prepare import prepare_environments

    tree = await asyncio.to_thread(baseline_tree, user_checkout(top), ref)
    installer = Installer(settings.installer_environment(), source_builds=settings.load().source_builds)
    return await prepare_environments(place.home.resolve(), tree, commands, installer, note, first=first)
