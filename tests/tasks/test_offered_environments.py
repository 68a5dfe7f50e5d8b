"""Which environments a contract may name: those that the operator lists, one by one or as all that lie in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.contracts.vocabulary import Environment
from gatewright.errors import DeniedError
from gatewright.tasks.inputs import environment_prefix


def test_a_starred_folder_offers_exactly_its_entries(tmp_path: Path) -> None:
    for name in ("envs/one/deep", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "envs/way").symlink_to(tmp_path / "other")
    listed = (tmp_path / "envs/*",)
    assert environment_prefix(Environment(prefix=str(tmp_path / "envs/one")), listed) == tmp_path / "envs/one"
    for name in ("envs", "envs/one/deep", "other", "envs/way", "envs/../other", "envs/one/.."):
        with pytest.raises(DeniedError) as refused:
            environment_prefix(Environment(prefix=str(tmp_path / name)), listed)
        assert refused.value.reason == "environment_not_allowed"
    with pytest.raises(DeniedError):
        environment_prefix(Environment(prefix="envs/one"), listed)


def test_a_path_that_no_folder_has_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "loop").symlink_to("loop")
    for name in ("envs/o\0ne", "envs/loop/x", "envs/x/" + "x" * 4_000):
        with pytest.raises(DeniedError) as refused:
            environment_prefix(Environment(prefix=str(tmp_path / name)), (tmp_path / "envs" / "*", tmp_path / "other"))
        assert refused.value.reason == "environment_not_allowed"
