"""What a branch adds to another, as ``run --head`` takes it."""

from __future__ import annotations

import pytest

from gatewright.errors import GitError
from gatewright.git.host.checkout import branch_change
from tests.git.repositories import MakeRepository


def test_a_branch_that_changes_no_file_is_refused(make_repository: MakeRepository) -> None:
    repository = make_repository()
    onto = repository.head()
    repository.git("checkout", "--quiet", "-b", "work")
    repository.commit({"src/app.py": b"changed\n"})
    assert branch_change(repository.path, "work", onto).commits == 1
    repository.git("revert", "--no-edit", "HEAD")
    with pytest.raises(GitError, match="change no file") as refused:
        branch_change(repository.path, "work", onto)
    assert refused.value.reason == "branch_has_nothing"
