"""Each family of reasons, as a script meets it: a real command, the code that it gives, and its exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.git.command import executable
from gatewright.reasons import family_of
from tests.cli.conftest import Command
from tests.cli.test_check import WriteContract, first_repository, make_git_repository, make_trap, repository, write_contract
from tests.git.repositories import Repository

__all__ = ["first_repository", "make_git_repository", "make_trap", "repository", "write_contract"]


def test_bad_input_ends_with_2(gatewright: Command, write_contract: WriteContract) -> None:
    said = gatewright("check", "--contract", write_contract(), "--repo", "/proc", "--json")
    code = said.documents[0]["error"]["code"]
    assert (code, family_of(code), said.exit_code) == ("not_a_repository", "bad_input", 2)


def test_a_refusal_exits_1_and_its_report_names_the_family(
    gatewright: Command, repository: Repository, write_contract: WriteContract
) -> None:
    contract = write_contract()
    repository.commit({"README.md": b"mine\n"})
    said = gatewright("check", "--contract", contract, "--repo", repository.path, "--json")
    (report,) = [each for each in said.documents[0]["reports"] if each["verdict"] == "FAIL"]
    assert (report["code"], report["family"], said.exit_code) == ("path_out_of_scope", "refused", 1)


def test_a_failed_verification_ends_with_1(gatewright: Command, tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    gatewright("init")
    said = gatewright("verify", "bundle", "--json")
    assert {family_of(finding["code"]) for finding in said.documents[0]["findings"]} == {"failed"}
    assert said.exit_code == 1


def test_a_host_without_git_ends_with_3(
    gatewright: Command, write_contract: WriteContract, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = write_contract()
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    executable.cache_clear()  # a command that has just begun has found no program yet
    said = gatewright("check", "--contract", contract, "--repo", repository.path, "--json")
    code = said.documents[0]["error"]["code"]
    assert (code, family_of(code), said.exit_code) == ("git_missing", "infrastructure", 3)
