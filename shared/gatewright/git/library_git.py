"""GitPython with our processes: what it starts is bounded and inherits nothing; its file readers start nothing.

Importing this module loads GitPython (0.04 s of processor time; it starts ``git version`` twice by itself). Import it only
inside functions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gatewright.errors import GitError
from gatewright.git.command import executable
from gatewright.git.process import Finished, run_to_end

_PROGRAM: Final = "GIT_PYTHON_GIT_EXECUTABLE"


def _import_library() -> None:
    """Import GitPython, which tries a program that the environment may name, with our git. GitError (``git_missing``)."""
    before, os.environ[_PROGRAM] = os.environ.get(_PROGRAM), executable("git")
    try:
        import git  # noqa: F401  # imported only to check that it loads
    except ImportError as error:
        raise GitError(f"GitPython cannot be loaded: {error}") from error
    finally:
        del os.environ[_PROGRAM]
        if before is not None:
            os.environ[_PROGRAM] = before


_import_library()

from git import Git, Repo, SymbolicReference  # noqa: E402  # loaded above
from git.exc import GitError as LibraryError  # noqa: E402


class UserGit(Git):
    """GitPython's ``Git`` in the folder ``start``, with exactly ``environment``, at most ``seconds`` and ``limit`` bytes.

    A method runs a git command and returns its result for every exit code: ``UserGit(...).rev_parse("--git-dir")``. It
    raises the errors of ``run_to_end``.
    """

    def __init__(self, start: Path, environment: Mapping[str, str], *, seconds: float, limit: int) -> None:
        # GitPython would expand ``~`` and ``$NAME`` in a working folder.
        super().__init__(None)
        self._options = ("--no-pager", "-C", os.fspath(start))
        self._surroundings = environment
        self._seconds = seconds
        self._limit = limit

    def execute(self, command: Sequence[str]) -> Finished:  # type: ignore[override]  # it takes none of the options
        """Start every process of this object; the base class would pass on the environment of this process."""
        argv = [executable("git"), *self._options, *command[1:]]
        return run_to_end(argv, self._surroundings, stdin=None, timeout=self._seconds, limit=self._limit)


class _NoProcess(Git):
    def execute(self, *_args: Any, **_kwargs: Any) -> Any:
        raise GitError("a reader of files starts no process")


class _Files(Repo):
    GitCommandWrapperType = _NoProcess


class RefFiles:
    """The refs of the repository with the common folder ``common``, read from its files in this process.

    It finds refs in the usual form only. A ref that it does not find may still exist: in a repository with SHA-256 or
    reftables, with a name that is not UTF-8, or where inherited variables name another repository. Then ask git.
    """

    def __init__(self, common: Path) -> None:
        self._common = common

    def has(self, name: str) -> bool:
        """Return whether the ref of this full name was found. False also if the files cannot be read."""
        # The kernel would have this process wait for a pipe's other end, without a limit.
        if not all(place.is_file() for place in (self._common / name, self._common / "packed-refs") if place.exists()):
            return False
        repository = self._open_repository()
        if repository is None:
            return False
        try:
            return bool(SymbolicReference.dereference_recursive(repository, name))
        except (ValueError, TypeError, AssertionError, OSError, LibraryError):
            return False

    def _open_repository(self) -> Repo | None:
        try:
            repository = _Files(os.fspath(self._common), expand_vars=False)
        except (ValueError, OSError, LibraryError):
            return None
        return repository if Path(repository.common_dir).resolve() == self._common else None
