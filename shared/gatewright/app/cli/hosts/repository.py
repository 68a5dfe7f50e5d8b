"""Read-only, bounded access to one repository: committed files only, without files that look like secrets.

Contents come from git objects, so links cannot lead outside, and ignored files are invisible.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pathspec
from mcp_types import CallToolResult
from pydantic import Field

from gatewright.app.cli.hosts.access import answer, excerpt, refuse_known_errors
from gatewright.app.cli.user_git import user_checkout
from gatewright.errors import MalformedError
from gatewright.git.host.tree_at import TreeAt, tree_at
from gatewright.prompts.repository_view import listing_of
from gatewright.secret_names import IN_REPOSITORIES
from gatewright.secrets.redaction import redact_output
from gatewright.secrets.selection import DEFAULT_SCANNER, local_catalogue, make_scanner

MOST_PATHS = 2000
MOST_HITS = 200
#: Maximum files that one search reads.
MOST_SEARCHED = 5000
_LINE = 300
#: Names of files that are never shown, and folders that other tools created.
_HIDDEN = (*IN_REPOSITORIES, ".git/", ".gatewright/", "node_modules/", ".venv/")
_hidden = pathspec.GitIgnoreSpec.from_lines(_HIDDEN)

Revision = Annotated[str, Field(max_length=200, description="A branch, tag or commit.")]
RepositoryPath = Annotated[str, Field(max_length=1000, description="Relative to the top of the repository.")]


@dataclass(frozen=True, slots=True)
class RepositoryTools:
    """Tools for one repository. ``top``: a folder of it."""

    top: Path

    @refuse_known_errors
    async def list_files(
        self,
        folder: RepositoryPath = "",
        ref: Revision = "HEAD",
        limit: Annotated[int, Field(ge=1, le=MOST_PATHS)] = 200,
    ) -> CallToolResult:
        """List committed files below a folder; if there are many, folders with their number of files. Discloses paths."""
        commit, tree = await self._at(ref)
        below = _folder(folder)
        paths = [path for path in _shown_files(tree) if path.startswith(below)]
        listed = listing_of(paths) if len(paths) > limit else sorted(paths)
        return answer({"commit": commit, "files": len(paths), "paths": list(listed)[:limit], "cut": len(paths) > limit})

    @refuse_known_errors
    async def read_file(
        self,
        path: RepositoryPath,
        ref: Revision = "HEAD",
        first_line: Annotated[int, Field(ge=1)] = 1,
        lines: Annotated[int, Field(ge=1, le=2000)] = 400,
    ) -> CallToolResult:
        """Read lines of one committed text file, without secrets. Discloses its content."""
        commit, tree = await self._at(ref)
        text, redacted = await self._read_text(tree, _check_path(path))
        return answer({"commit": commit, "path": path, "redacted": redacted, **excerpt(text, first_line, lines)})

    @refuse_known_errors
    async def search_files(
        self,
        text: Annotated[str, Field(min_length=1, max_length=200, description="Exact text to find; not a pattern.")],
        folder: RepositoryPath = "",
        ref: Revision = "HEAD",
        limit: Annotated[int, Field(ge=1, le=MOST_HITS)] = 50,
    ) -> CallToolResult:
        """Find lines of committed text files that contain a text, without secrets. Discloses these lines."""
        commit, tree = await self._at(ref)
        below = _folder(folder)
        paths = sorted(path for path in _shown_files(tree) if path.startswith(below))
        hits: list[dict[str, Any]] = []
        for path in paths[:MOST_SEARCHED]:
            content = await tree.read(path)
            if content is None or text.encode() not in content or b"\0" in content:
                continue
            clean, _ = await self._clean(path, content)
            hits += [{"path": path, "line": number, "text": line} for number, line in _matching(clean, text)]
            if len(hits) > limit:
                break
        cut = len(hits) > limit or len(paths) > MOST_SEARCHED
        return answer({"commit": commit, "hits": hits[:limit], "cut": cut})

    async def _at(self, ref: str) -> tuple[str, TreeAt]:
        if ref.startswith("-"):
            raise MalformedError(f"{ref!r} names no commit", code="invalid_input")
        checkout = user_checkout(self.top)
        commit = await asyncio.to_thread(checkout.commit_named, ref)
        return commit, await asyncio.to_thread(tree_at, checkout, commit)

    async def _read_text(self, tree: TreeAt, path: str) -> tuple[str, int]:
        content = await tree.read(path) if path in tree.paths and not _hidden.match_file(path) else None
        if content is None:
            words = f"{path} cannot be shown: it is not committed, no regular file, too large, or of a name that secrets have"
            raise MalformedError(words, code="invalid_input")
        if b"\0" in content:
            raise MalformedError(f"{path} is no text", code="invalid_input")
        return await self._clean(path, content)

    async def _clean(self, path: str, content: bytes) -> tuple[str, int]:
        scanner = make_scanner(DEFAULT_SCANNER, local_catalogue())
        redacted = await asyncio.to_thread(redact_output, path, content, scanner)
        return redacted.data.decode("utf-8", "replace"), sum(each.count for each in redacted.redactions)


def _shown_files(tree: TreeAt) -> list[str]:
    return [path for path in tree.paths if not _hidden.match_file(path)]


def _check_path(path: str) -> str:
    """Return ``path`` as git spells it. Raises MalformedError for an absolute path or one that leads outside."""
    normal = posixpath.normpath(path)
    if path.startswith("/") or "\\" in path or "\0" in path or normal == ".." or normal.startswith("../"):
        raise MalformedError(f"{path!r} is no path inside of the repository", code="invalid_input")
    return normal


def _folder(path: str) -> str:
    """Return the prefix of paths below the folder."""
    normal = _check_path(path or ".")
    return "" if normal == "." else f"{normal}/"


def _matching(text: str, wanted: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if wanted in line:
            yield number, line[:_LINE]
