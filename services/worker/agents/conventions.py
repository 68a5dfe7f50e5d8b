"""Reads the files by which a repository describes how to work in it (``AGENTS.md``, ``CLAUDE.md``, skills), for the order.

They come from the baseline's git objects alone: what an agent or an earlier attempt wrote is never among them. Links are not
followed, secrets are taken out, and number and size are bounded. What is left out is named, with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from gatewright import scope
from gatewright.contracts import TaskContract
from gatewright.git.changes import FileChange, TreeEntry
from gatewright.git.mirror import Mirror
from gatewright.git.modes import REGULAR, SYMLINK
from gatewright.git.paths import display
from gatewright.prompts.prompt import fence_text
from gatewright.secrets.redaction import redact_output
from gatewright.secrets.scanner import SecretScanner

MOST_FILES: Final = 24
#: Bytes of a file that is read at all, characters of it that are given, and characters of all files.
MOST_BYTES: Final = 256 * 1024
MOST_CHARACTERS: Final = 24_000
MOST_IN_ALL: Final = 64_000
_MOST_NAMED: Final = 20
#: In any folder. ``.cursorrules`` and the like are earlier names for the same thing.
_NAMES: Final = frozenset(
    (
        *(b"AGENTS.md", b"AGENTS.override.md", b"AGENT.md", b"CLAUDE.md", b"CLAUDE.local.md", b"GEMINI.md", b"QWEN.md"),
        *(b"CRUSH.md", b"WARP.md", b".cursorrules", b".windsurfrules", b".clinerules", b".goosehints"),
    )
)
#: Folders that hold conventions, each with how the names of its files end; at any depth below it.
_FOLDERS: Final[tuple[tuple[tuple[bytes, ...], tuple[bytes, ...]], ...]] = (
    ((b".github", b"instructions"), (b".instructions.md",)),
    ((b".cursor", b"rules"), (b".mdc", b".md")),
    ((b".claude", b"rules"), (b".md",)),
)
#: Files below a folder of their own, by the folder's name and theirs.
_FILES: Final = frozenset({(b".github", b"copilot-instructions.md"), (b".claude", b"CLAUDE.md")})
_WITH_CONTENT: Final = REGULAR | {SYMLINK}
_SKILLS: Final = frozenset({b".agents", b".claude", b".codex", b".github", b".opencode"})


@dataclass(frozen=True, slots=True)
class Conventions:
    """``files``: path and text, in the order in which they are given. ``omitted``: lines that name what is not, and why."""

    files: tuple[tuple[str, str], ...] = ()
    omitted: tuple[str, ...] = ()

    def blocks(self) -> list[str]:
        """Fenced blocks for an order. Together they have at most ``MOST_IN_ALL`` characters of files."""
        blocks, left = [], MOST_IN_ALL
        for path, text in self.files:
            limit = min(MOST_CHARACTERS, left)
            left -= min(limit, len(text))
            blocks.append(fence_text(path, text, limit=limit, kind="CONVENTIONS"))
        return [*blocks, fence_text("conventions that are left out", "\n".join(self.omitted))] if self.omitted else blocks


def folder_of(path: bytes) -> bytes | None:
    """The folder that a file of conventions applies to (``b""``: all of the repository); None for any other file.

    Example: ``src/AGENTS.md`` applies to ``src``, ``.claude/skills/release/SKILL.md`` to the whole repository.
    """
    parts = path.split(b"/")
    if parts[-1] in _NAMES and not any(part.startswith(b".") for part in parts[:-1]):
        return b"/".join(parts[:-1])
    for place, part in enumerate(parts[:-1]):
        if part.startswith(b"."):
            return b"/".join(parts[:place]) if _is_convention(tuple(parts[place:])) else None
    return None


def applying(entries: Iterable[TreeEntry], allowed: Sequence[str]) -> list[TreeEntry]:
    """The files of conventions that apply to a path of ``allowed``: the widest first, those of skills last."""
    paths = scope.AllowedPaths(allowed)
    found = []
    for entry in entries:
        folder = folder_of(entry.path)
        if folder is not None and (not folder or paths.holds(folder) or _leads_to(folder, paths)):
            found.append((_is_skill(entry.path), folder.count(b"/") + bool(folder), entry.path, entry))
    return [each[-1] for each in sorted(found, key=lambda each: each[:-1])]


async def restore_conventions(mirror: Mirror, baseline: str, tree: str, contract: TaskContract) -> tuple[str, tuple[str, ...]]:
    """``tree`` with the conventions of ``baseline``, and the paths that were put back, but for those that ``contract`` names.

    An agent may read such files by itself. One that an earlier attempt wrote would direct the next. Raises GitError.
    """
    opened = contract.scope.allow_protected_paths if contract.scope is not None else ()
    named = {path.removesuffix("/").encode("utf-8", "surrogatepass") for path in (*contract.allowed_paths, *opened)}
    found = await mirror.changes(baseline, tree)
    changed = [each for each in found if folder_of(each.path) is not None and each.path not in named]
    if not changed:
        return tree, ()
    wanted = {each.old_id for each in changed if each.old_mode in _WITH_CONTENT}
    contents = await mirror.blobs(wanted) if wanted else {}
    back = [
        FileChange(each.path, each.old_mode, contents[each.old_id]) if each.old_id in contents else FileChange(each.path, None)
        for each in changed
    ]
    return await mirror.write_tree(tree, back), tuple(display(each.path) for each in changed)


def restored_block(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the prompt's block about restored convention files; empty without one."""
    return (fence_text("files of the refused change that are again as they were", "\n".join(paths)),) if paths else ()


async def read_conventions(mirror: Mirror, baseline: str, allowed: Sequence[str], scanner: SecretScanner) -> Conventions:
    """The conventions of the commit ``baseline`` for a change below ``allowed``. Raises GitError."""
    reading = _Reading()
    entries = reading.readable(applying(await mirror.files(await mirror.tree_of(baseline)), allowed))
    wanted = {entry.object_id for entry in entries if entry.size <= MOST_BYTES}
    contents = await mirror.blobs(wanted) if wanted else {}
    for entry in entries:
        content = contents.get(entry.object_id)
        if content is None:
            reading.omit(entry, f"it has {entry.size:,} bytes; at most {MOST_BYTES:,} are read")
        else:
            await asyncio.to_thread(reading.add, entry, content, scanner)
    return reading.conventions()


@dataclass
class _Reading:
    files: list[tuple[str, str]] = field(default_factory=list)
    omitted: list[str] = field(default_factory=list)
    seen: dict[str, bytes] = field(default_factory=dict)
    characters: int = 0

    def readable(self, entries: Iterable[TreeEntry]) -> list[TreeEntry]:
        """The first plain files among ``entries``, each content once."""
        readable: list[TreeEntry] = []
        for entry in entries:
            if entry.mode not in REGULAR:
                self.omit(entry, "it is a link, and links are not followed")
            elif (same := self.seen.setdefault(entry.object_id, entry.path)) != entry.path:
                self.omit(entry, f"it equals {display(same)}")
            elif len(readable) == MOST_FILES:
                self.omit(entry, f"there are more than {MOST_FILES}")
            else:
                readable.append(entry)
        return readable

    def add(self, entry: TreeEntry, content: bytes, scanner: SecretScanner) -> None:
        """Runs long: use a thread."""
        if self.characters >= MOST_IN_ALL:
            self.omit(entry, f"those before it have {MOST_IN_ALL:,} characters")
            return
        try:
            text = redact_output(display(entry.path), content, scanner).data.decode("utf-8")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            self.omit(entry, "it is not text")
        elif text.strip():
            self.characters += min(len(text), MOST_CHARACTERS)
            self.files.append((display(entry.path), text))

    def omit(self, entry: TreeEntry, why: str) -> None:
        self.omitted.append(f"{display(entry.path)}: {why}")

    def conventions(self) -> Conventions:
        beyond = len(self.omitted) - _MOST_NAMED
        more = (f"and {beyond:,} more",) if beyond > 0 else ()
        return Conventions(tuple(self.files), (*self.omitted[:_MOST_NAMED], *more))


def _is_convention(parts: tuple[bytes, ...]) -> bool:
    """``parts`` of a path from its first folder with a dot on."""
    if parts in _FILES or _is_skill(b"/".join(parts)):
        return True
    return any(
        parts[: len(folder)] == folder and len(parts) > len(folder) and parts[-1].endswith(endings)
        for folder, endings in _FOLDERS
    )


def _is_skill(path: bytes) -> bool:
    parts = path.split(b"/")
    return len(parts) >= 4 and parts[-1] == b"SKILL.md" and parts[-3] == b"skills" and parts[-4] in _SKILLS


def _leads_to(folder: bytes, paths: scope.AllowedPaths) -> bool:
    """Whether a path of the contract lies below ``folder``."""
    return any(path.startswith(folder + b"/") for path in paths.exact)


def masking(masked: Iterable[str]) -> Callable[[bytes], bool]:
    """Return a test for paths that have one of these names, or are below one, case-insensitively."""
    names = {name.encode().lower() for name in masked}
    return lambda path: not names.isdisjoint(path.lower().split(b"/"))


async def without_masked(mirror: Mirror, tree: str, masked: Iterable[str]) -> str:
    """``tree`` (or that of a commit) without the files that are, or lie in a folder, of these names at any depth.

    The change that an agent makes is compared with this tree and written over the whole one: what is hidden stays as it is.
    """
    is_masked = masking(masked)
    entries = await mirror.files(await mirror.tree_of(tree), ())
    hidden = [entry.path for entry in entries if is_masked(entry.path)]
    if not hidden:
        return await mirror.tree_of(tree)
    return await mirror.write_tree(tree, [FileChange(path, None) for path in hidden])
