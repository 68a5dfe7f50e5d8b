"""Reading of a repository's requirement files: packages by name, and nothing from elsewhere. Pure.

A file is hostile: it could name another registry, a repository, a file of this host. Names with versions, markers and
digests are accepted, and commits of git repositories, which are judged later. Options that name a registry are skipped and
reported; all else is refused.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.git_sources import GitSource
from gatewright.app.environments.tool import read_file
from gatewright.ecosystems.port import TreeFiles
from gatewright.patterns import TextPattern

#: PEP 508 by name, with pip's digests. No ``@``: a package with an address is not from a registry.
_NAMED = TextPattern(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[A-Za-z0-9._, -]*\])?\s*"
    r"(?:\(?[<>=!~][A-Za-z0-9.*+!_<>=~, -]*\)?)?\s*(?:;[^@#\\]*)?(?:\s*--hash[= ]\w+:[0-9a-f]+)*\s*"
)
#: The same with a whole commit of a repository. Options after ``#`` name a folder of it, and the package.
_GIT = TextPattern(
    r"(?:[A-Za-z0-9][A-Za-z0-9._-]*\s*(?:\[[A-Za-z0-9._, -]*\])?\s*@\s*)?git\+(?P<url>https://[^\s@#?;\\]+)@(?P<commit>[0-9a-f]{40})"
    r"(?:#(?:egg|subdirectory)=[\w./-]+(?:&(?:egg|subdirectory)=[\w./-]+)*)?(?:\s+;[^@#\\]*|\s*;\s[^@#\\]*)?\s*"
)
#: The project itself, or another one of the repository: these come from the tree.
_OWN = TextPattern(r"(?:(?:-e|--editable)[= ]?\s*)?(?:file:)?\.{1,2}(?:/[\w./-]*)?(?:\[[\w, -]*\])?")
_INCLUDED = TextPattern(r"(?P<option>-r|--requirement|-c|--constraint)[= ]?\s*(?P<path>\S+)")
_REGISTRY = TextPattern(r"(?:-i|--index-url|--extra-index-url|-f|--find-links|--trusted-host|--no-index)(?:[= ].*)?")
_HARMLESS = TextPattern(r"--(?:pre|prefer-binary|require-hashes|no-binary|only-binary|use-feature|config-settings?)(?:[= ].*)?")
_MOST_FILES = 50


@dataclass
class Requirements:
    """``lines`` in pip's format; ``constraints`` likewise; ``by_file`` the same by file; ``notes`` the skipped options."""

    lines: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    by_file: dict[str, tuple[str, ...]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def hashed(self) -> bool:
        """Return whether digests are given: pip then accepts no package without one."""
        return any("--hash" in line for line in self.lines)

    def take(self, path: str, lines: tuple[str, ...]) -> None:
        """Have ``path`` ask for ``lines``."""
        self.by_file[path] = lines
        self.lines += lines


def is_named(line: str) -> str | None:
    """The normalised name of a requirement that a registry can answer; None for any other."""
    groups = _NAMED.fullmatch(line.strip())
    return normalise_name(groups["name"]) if groups is not None else None


def git_source(line: str) -> GitSource | None:
    """Return the repository of a requirement that names one and a whole commit id; None for any other."""
    found = _GIT.fullmatch(line.strip())
    return GitSource(found["url"], found["commit"]) if found is not None else None


def normalise_name(name: str) -> str:
    """PEP 503."""
    return "-".join(part for part in name.lower().replace("_", "-").replace(".", "-").split("-") if part)


async def read_requirements(tree: TreeFiles, path: str, into: Requirements, *, constraint: bool = False) -> None:
    """Add the content of ``path``, and of its includes. Raises NotPreparedError for refused content."""
    if path in into.by_file:
        return
    content = await read_file(tree, path)
    if len(into.by_file) >= _MOST_FILES:
        raise NotPreparedError(f"{path}: more than {_MOST_FILES} requirement files include each other")
    into.by_file[path] = ()
    lines_of_file: list[str] = []
    for number, line in _requirement_lines(content.decode("utf-8", "replace")):
        included = _INCLUDED.fullmatch(line)
        if included is not None:
            inside = posixpath.normpath(posixpath.join(posixpath.dirname(path), included["path"]))
            only = constraint or included["option"] in ("-c", "--constraint")
            await read_requirements(tree, inside, into, constraint=only)
        elif is_named(line) or git_source(line):
            lines_of_file.append(line)
            (into.constraints if constraint else into.lines).append(line)
        elif _REGISTRY.fullmatch(line) is not None:
            into.notes.append(f"{path} line {number} names a registry: not used, pip's own configuration counts")
        elif _OWN.fullmatch(line) is None and _HARMLESS.fullmatch(line) is None:
            raise NotPreparedError(f"{path} line {number} is not a package of a registry: {line[:100]!r}")
    into.by_file[path] = tuple(lines_of_file)


def _requirement_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines without comments and continuations, with the number of the first physical line."""
    held, first = "", 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if line.startswith("#"):
            continue
        line = line.partition(" #")[0].rstrip()
        first = first or number
        if line.endswith("\\"):
            held += line[:-1].strip() + " "
            continue
        if whole := (held + line).strip():
            yield first, whole
        held, first = "", 0
    if held.strip():
        yield first, held.strip()
