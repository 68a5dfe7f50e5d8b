"""What lies in an environment now, so that a change of it during a run is noticed: names, sizes and times, never contents.

Bytecode in ``__pycache__`` is left out, because every interpreter that uses the environment writes it. So are environments of
the system (below /usr), which every command sees anyway.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gatewright.contracts.vocabulary import EnvironmentState
from gatewright.errors import ConfigurationError, DeniedError

CHANGED = "environment_changed"
#: Folder of the environments that were made for baselines, in a home.
MADE = "environments"
#: In an environment that was made for a baseline: what it was made from, by which tool.
PREPARED = "gatewright-environment.json"
ADVICE = "give runs an environment that nothing else changes, and run it again"
_BYTECODE = b"__pycache__"
_SYSTEM = Path("/usr")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
#: Names that a refusal lists.
_MOST_NAMED = 5


@dataclass(frozen=True)
class Seen:
    """An environment as it was once: what is known of each entry by its path below the prefix."""

    prefix: Path
    device: int
    entries: Mapping[bytes, str]

    def document(self) -> EnvironmentState:
        """Two states of one place can be compared by their digests; states of two places cannot."""
        place = "\n".join((_boot(), str(self.device), str(self.prefix.resolve())))
        files = hashlib.sha256()
        for name, facts in sorted(self.entries.items()):
            files.update(name + b"\0" + facts.encode("utf-8", "surrogateescape") + b"\0")
        place_sha256 = hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()
        return EnvironmentState(prefix=str(self.prefix), place_sha256=place_sha256, files_sha256=files.hexdigest())


def see_environment(prefix: Path | None) -> Seen | None:
    """What lies below ``prefix`` now; None where there is nothing to watch. Reads folders: not for an event loop.

    Raises ConfigurationError when the prefix cannot be read.
    """
    if prefix is None or prefix.resolve().is_relative_to(_SYSTEM):
        return None
    top = os.fsencode(prefix.resolve())
    try:
        return Seen(prefix, os.lstat(top).st_dev, dict(_entries(top)))
    except OSError as error:
        raise ConfigurationError(f"the environment {prefix} cannot be read: {error}") from error


def refuse_changed(before: Seen | None) -> None:
    """Look again. Raises DeniedError (``environment_changed``) when the environment is not what it was."""
    after = see_environment(before.prefix) if before is not None else None
    if before is None or after is None or before == after:
        return
    both = before.entries.keys() | after.entries.keys()
    changed = sorted(name for name in both if before.entries.get(name) != after.entries.get(name))
    named = ", ".join(repr(os.fsdecode(name)) for name in changed[:_MOST_NAMED])
    more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
    raise DeniedError(f"{before.prefix} changed while commands used it: {named}{more}; {ADVICE}", code=CHANGED)


def _entries(top: bytes) -> Iterator[tuple[bytes, str]]:
    waiting = [b""]
    while waiting:
        folder = waiting.pop()
        # What goes away meanwhile is missing from what is seen: a difference like any other.
        with contextlib.suppress(FileNotFoundError), os.scandir(top + b"/" + folder) as found:
            for entry in found:
                name = folder + entry.name
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != _BYTECODE:
                        waiting.append(name + b"/")
                        yield name, "folder"
                else:
                    yield name, _facts(entry)


def _facts(entry: os.DirEntry[bytes]) -> str:
    try:
        if entry.is_symlink():
            return f"link {os.readlink(entry.path)!r}"  # noqa: PTH115 - a path in bytes
        facts = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return "gone"
    return f"{facts.st_mode:o} {facts.st_ino} {facts.st_size} {facts.st_mtime_ns}"


@cache
def _boot() -> str:
    try:
        return _BOOT.read_text("ascii")
    except OSError:
        return os.uname().nodename
