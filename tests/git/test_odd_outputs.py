"""What strangers write into names, authors and objects comes back in git's output: it is read whole, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gatewright.errors import GitError
from gatewright.git.changes import (
    parse_changes,
    parse_copies,
    parse_directory,
    parse_entries,
    parse_objects,
    parse_sizes,
)
from gatewright.git.host.branch_change import branch_change
from gatewright.git.host.run_refs import run_refs
from gatewright.git.host.work_trees import checked_out_at
from gatewright.git.refs import RUN_BRANCHES
from tests.git.repositories import MakeRepository

HEX = b"0" * 40
#: What ends a line for ``str.splitlines`` and not for git.
ENDS = ("\u2028", "\u0085", "\u2029")


@pytest.mark.parametrize("odd", ["x\x1fy", "x\x1ey", "x\u2028y", "x\x0by", "x\x85y"])
def test_an_author_with_a_separator_in_the_name_is_still_an_author(make_repository: MakeRepository, odd: str) -> None:
    repository = make_repository(files={"a": b"1\n"})
    repository.git("switch", "--quiet", "-c", "fix")
    (repository.path / "a").write_bytes(b"2\n")
    repository.git("commit", "--quiet", f"--author={odd} <m@example.org>", "-am", f"one {odd} two")
    change = branch_change(repository.checkout, "fix", "main")
    assert (change.commits, change.authors) == (1, ((odd, "m@example.org"),))
    assert change.subject == f"one {odd} two"


@pytest.mark.parametrize("end", ENDS)
def test_a_subject_cannot_add_a_branch_to_the_list_of_runs(make_repository: MakeRepository, end: str) -> None:
    repository = make_repository(files={"a": b"1\n"})
    commit = repository.head()
    forged = f"x{end}{RUN_BRANCHES}run-forged\x1f{commit}\x1fcommit\x1f2026\x1fy"
    repository.git("commit", "--quiet", "--allow-empty", "-m", forged)
    repository.git("update-ref", f"{RUN_BRANCHES}run-real", "HEAD")
    repository.git("reset", "--quiet", "--hard", commit)
    (found,) = run_refs(repository.checkout)
    assert (found.name, found.subject) == ("run-real", forged)


@pytest.mark.parametrize("end", ENDS)
def test_a_branch_with_an_odd_name_holds_what_it_has(make_repository: MakeRepository, end: str) -> None:
    repository = make_repository(files={"a": b"1\n"})
    repository.commit({"a": b"2\n"})
    repository.git("update-ref", f"{RUN_BRANCHES}run-real", "HEAD")
    repository.git("branch", f"kept{end}here")
    repository.git("reset", "--quiet", "--hard", "HEAD~1")
    (found,) = run_refs(repository.checkout)
    assert (found.state, found.where) == ("merged", f"refs/heads/kept{end}here")


def test_a_branch_checked_out_at_an_odd_path_is_in_use(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files={"a": b"1\n"})
    place = tmp_path / "a\u2028b\n\nc"
    repository.git("worktree", "add", "--quiet", "-b", "odd", str(place))
    assert checked_out_at(repository.path / ".git", "refs/heads/odd") == place


HEAD = b":100644 100644 " + HEX + b" " + HEX + b" M"
OUTPUTS: tuple[tuple[Callable[[bytes], object], bytes], ...] = (
    (parse_changes, HEAD + b"\0a\0"),
    (parse_copies, HEAD[:-1] + b"C100\0a\0b\0"),
    (parse_entries, b"100644 blob " + HEX + b"     5\ta\0"),
    (lambda data: list(parse_objects(data, "blob")), HEX + b" blob 3\nabc\n"),
    (lambda data: list(parse_sizes(data)), HEX + b" blob 3\n"),
    (lambda data: parse_directory(data, 20), b"100644 a\0" + b"\1" * 20),
)


@pytest.mark.parametrize(("parse", "output"), OUTPUTS, ids=["changes", "copies", "entries", "objects", "sizes", "directory"])
def test_output_that_is_cut_or_changed_is_refused_by_name(parse: Callable[[bytes], object], output: bytes) -> None:
    parse(output)
    cut = [output[:at] for at in range(1, len(output))]
    changed = [
        output[:at] + odd + output[at + 1 :] for at in range(len(output)) for odd in (b"\0", b"\xff", b" ", b"9", b"-", b"\n")
    ]
    for odd in (*cut, *changed):
        try:
            parse(odd)
        except GitError as error:
            assert error.message  # noqa: PT017 - both ends are right


def test_an_object_that_is_cut_is_not_taken_for_whole() -> None:
    with pytest.raises(GitError):
        list(parse_objects(HEX + b" blob 300\nabc\n", "blob"))
