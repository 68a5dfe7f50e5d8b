"""Real commits, and the same with their sources broken: ``python -m benchmarks.real_commits --clones DIR [--only WORD] ...``.

DIR holds the repositories as ``owner/name``, made by ``git clone``; nothing is fetched but what `--env auto` installs.
Each commit's change is run on its parent and has to land, at the second try at the latest, as exactly the commit's tree.
The same change with its sources broken, and, once for each project, with sources that end the process before a test fails,
must never land, though everything is opened to it that the good one needed. The program prints a line for each, and ends
with 1 when a verdict is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from benchmarks.real_commits.listing import RealCommit, read_list
from benchmarks.real_commits.trial import Verdict, clone, git, make_change, try_change

console = Console(highlight=False, width=150)


@dataclass(frozen=True)
class Row:
    """One commit in one form, its verdict, and whether that is the right one."""

    project: str
    commit: str
    form: str
    verdict: Verdict
    right: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clones", type=Path, required=True, help="the folder with owner/name")
    parser.add_argument("--work", type=Path, help="where clones and environments are kept; by default a folder that is removed")
    parser.add_argument("--only", action="append", default=[], help="projects or commits with this in their name")
    parser.add_argument("--form", action="append", choices=["good", "broken", "silent"], default=[], help="all by default")
    parser.add_argument("--pack", default="low", choices=["low", "medium", "high"])
    parser.add_argument("--record", type=Path, help="a file that gets each result as a line of JSON")
    options = parser.parse_args()
    commits = [each for each in read_list() if not options.only or any(word in each.name for word in options.only)]
    with tempfile.TemporaryDirectory(prefix="gatewright-commits-") as folder:
        work = (options.work or Path(folder)).absolute()
        rows = []
        for commit in commits:
            for row in _forms(commit, options.clones.absolute(), work, options.pack, options.form):
                rows.append(row)
                _report(row, options.record)
    _show(rows)
    raise SystemExit(0 if all(row.right for row in rows) else 1)


def _forms(commit: RealCommit, clones: Path, work: Path, pack: str, forms: list[str]) -> Iterator[Row]:
    """The commit as it is, then in its wrong forms, with what the first needed to be opened."""
    repository = clone(clones / commit.project, work / commit.project)
    patch = work / f"{commit.commit}.patch"
    opened: tuple[str, ...] = ()
    for form, edit in (("good", None), ("broken", commit.broken), ("silent", commit.silent)):
        unwanted = forms and form not in forms and form != "good"
        if unwanted or (form != "good" and (edit is None or commit.refused)):
            continue
        paths = make_change(repository, commit, edit, patch)
        verdict, asked = try_change(repository, commit, paths, patch, pack, opened)
        if form == "good":
            opened = asked
            same = verdict.tree == git(repository, "rev-parse", f"{commit.commit}^{{tree}}")
            right = verdict.code == commit.refused if commit.refused else verdict.landed and same
        else:
            right = verdict.status == "FAILED"
        yield Row(commit.project, commit.commit, form, verdict, right)
        if form == "good" and not right:
            return  # what is refused anyhow shows nothing of the other forms


def _report(row: Row, record: Path | None) -> None:
    verdict = row.verdict
    took = f"{verdict.seconds:.1f} s ({verdict.processor:.1f} s of processor)"
    console.print(
        f"{'right' if row.right else 'WRONG'} {row.project} {row.commit} {row.form}: {verdict.status} {verdict.code} "
        f"after {verdict.tries}, {took} {verdict.run_id} {verdict.message}",
        soft_wrap=True,
        markup=False,
    )
    if record is not None:
        with record.open("a") as lines:
            lines.write(json.dumps(asdict(row)) + "\n")


def _show(rows: list[Row]) -> None:
    table = Table("project", "commit", "form", "verdict", "tries", "seconds", "right")
    for row in rows:
        verdict = row.verdict
        ended = "landed" if verdict.landed else verdict.code
        table.add_row(
            row.project, row.commit, row.form, ended, str(verdict.tries), f"{verdict.seconds:.1f}", "yes" if row.right else "NO"
        )
    console.print(table)


if __name__ == "__main__":
    main()
