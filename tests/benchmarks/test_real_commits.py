"""The list of real commits: what it names, and that an edit which breaks sources changes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.real_commits.listing import SourceEdit, read_list


def test_the_list_has_commits_of_projects_of_every_kind() -> None:
    commits = read_list()
    kinds = {commit.kind.partition(",")[0] for commit in commits}
    assert len(commits) == len({commit.name for commit in commits}) >= 30
    assert kinds >= {"Python", "npm", "Go", "Rust", "C"}
    assert len({commit.project for commit in commits if commit.silent is not None}) == len({each.project for each in commits})


def test_an_edit_changes_one_place_or_adds_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one = 1\none = 1\n")
    SourceEdit("a.py", old="1", new="2").apply(tmp_path)
    SourceEdit("a.py", append="end\n").apply(tmp_path)
    SourceEdit("new.py", create="new\n").apply(tmp_path)
    assert ((tmp_path / "a.py").read_text(), (tmp_path / "new.py").read_text()) == ("one = 2\none = 1\nend\n", "new\n")


def test_an_edit_of_text_that_is_not_there_ends_the_program(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one = 1\n")
    with pytest.raises(SystemExit, match=r"commits\.toml"):
        SourceEdit("a.py", old="absent", new="2").apply(tmp_path)
