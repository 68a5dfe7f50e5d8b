"""The list of real commits (``commits.toml``): project, commit, the command that tests it, and how its sources are broken."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIST = Path(__file__).parent / "commits.toml"


@dataclass(frozen=True)
class SourceEdit:
    """A change of one file: ``old`` that becomes ``new``, or text at its end (a file that is not there is made)."""

    file: str
    old: str = ""
    new: str = ""
    append: str = ""
    create: str = ""

    def apply(self, tree: Path) -> None:
        """Change the file below ``tree``. Raises SystemExit when the text is not there: the list is wrong then."""
        path = tree / self.file
        text = path.read_text() if path.exists() else ""
        if self.old and self.old not in text:
            raise SystemExit(f"{path}: {self.old!r} is not there; commits.toml has to name other text")
        changed = text.replace(self.old, self.new, 1) if self.old else text
        path.write_text(changed + self.append + self.create)


@dataclass(frozen=True)
class RealCommit:
    """One commit, and what is expected of it: that it lands as it is (or is ``refused``), and never with one of these edits."""

    project: str
    kind: str
    commit: str
    tests: tuple[str, ...]
    broken: SourceEdit
    silent: SourceEdit | None
    #: Beginnings of paths that are tests, or files that tests read.
    opens: tuple[str, ...]
    #: By which code the commit is refused, where it is right to refuse it; empty: it lands.
    refused: str

    @property
    def name(self) -> str:
        return f"{self.project} {self.commit}"


def read_list(path: Path = LIST) -> tuple[RealCommit, ...]:
    """Every commit of the list, with its project's fields where it has none of its own."""
    return tuple(
        _commit(project, each if isinstance(each, dict) else {"commit": each}, first=number == 0)
        for project in tomllib.loads(path.read_text())["project"]
        for number, each in enumerate(project["commits"])
    )


def _commit(project: dict[str, Any], own: dict[str, Any], *, first: bool) -> RealCommit:
    fields = {**project, **own}
    return RealCommit(
        project=fields["name"],
        kind=fields["kind"],
        commit=fields["commit"],
        tests=tuple(fields["tests"]),
        broken=SourceEdit(**fields["broken"]),
        silent=SourceEdit(**fields["silent"]) if first else None,
        opens=tuple(fields["opens"]),
        refused=fields.get("refused", ""),
    )
