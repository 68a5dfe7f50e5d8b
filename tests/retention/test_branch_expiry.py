"""Branches of runs that expire: merged, and by bundles that are sealed, stored, old, verify and are on no hold."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gatewright.app.cli.user_git import user_checkout
from gatewright.app.retention.branch_expiry import BranchExpiry
from gatewright.app.retention.expiry_policy import load_expiry
from gatewright.app.retention.holds import HoldBook
from gatewright.clock import timestamp
from gatewright.contracts import LegalHold
from gatewright.errors import ConfigurationError
from gatewright.evidence.signing import keys
from gatewright.git.host.run_refs import LocalRunRefs, run_refs
from gatewright.run.state import run_id_of
from tests.cli.conftest import Command, gatewright  # noqa: F401
from tests.evidence.tampering import put
from tests.retention.conftest import NOW, House


def git(here: Path, *words: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "init.defaultBranch=main")
    return subprocess.run(("git", *identity, *words), cwd=here, check=True, capture_output=True, text=True).stdout.strip()


def name(number: int) -> str:
    return run_id_of(str(number))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Merged branches of the runs 1 to 5, and the unmerged one of run 6."""
    top = tmp_path / "repository"
    top.mkdir()
    git(top, "init", "-q")
    git(top, "commit", "-q", "--allow-empty", "-m", "first")
    for number in range(1, 7):
        git(top, "branch", f"gatewright/{name(number)}")
    git(top, "switch", "-q", f"gatewright/{name(6)}")
    git(top, "commit", "-q", "--allow-empty", "-m", "not merged")
    git(top, "switch", "-q", "main")
    return top


def branches(top: Path) -> set[str]:
    return {each.name for each in run_refs(user_checkout(top))}


def hold(house: House, run_id: str) -> None:
    HoldBook(house.home).write(LegalHold(run_id=run_id, act="place", reason="a dispute", by="counsel", at=timestamp(NOW)))


def expiry(house: House, repository: Path) -> BranchExpiry:
    return BranchExpiry(LocalRunRefs(user_checkout(repository)), house.collector(), 30, house.clock)


def test_what_is_merged_old_and_proved_goes_and_all_else_stays(house: House, repository: Path) -> None:
    for number, days in ((1, 100), (2, 3), (3, 100), (4, 100), (6, 100)):
        house.seal(number, days_old=days)
    hold(house, name(3))
    put(house.root / name(4) / "events.jsonl", b"{}\n")
    before, made = branches(repository), expiry(house, repository)
    plan = made.plan()
    assert branches(repository) == before
    why = {item.branch.name: item.why for item in plan if item.action == "keep"}
    assert set(why) == {name(number) for number in (2, 3, 4, 5, 6)}
    assert "3.0 days old" in why[name(2)]
    assert "a dispute" in why[name(3)]
    assert "does not verify" in why[name(4)]
    assert why[name(5)] == "no bundle of its run is stored here"
    assert why[name(6)] == "unmerged"
    assert [(done.item.branch.name, done.code) for done in made.carry_out(plan)] == [(name(1), "")]
    assert branches(repository) == before - {name(1)}


def test_a_hold_that_comes_after_the_plan_keeps_the_branch(house: House, repository: Path) -> None:
    house.seal(1)
    made = expiry(house, repository)
    plan = made.plan()
    hold(house, name(1))
    assert [done.code for done in made.carry_out(plan)] == ["bundle_changed"]
    assert name(1) in branches(repository)


def test_a_branch_that_is_merged_no_more_when_its_turn_comes_stays(house: House, repository: Path) -> None:
    """Its commit would be lost: the owner has taken back what held it."""
    house.seal(6)
    git(repository, "merge", "-q", "--no-ff", "-m", "merged", f"gatewright/{name(6)}")
    made = expiry(house, repository)
    plan = made.plan()
    assert [item.branch.name for item in plan if item.action == "expire"] == [name(6)]
    git(repository, "reset", "-q", "--hard", "HEAD^1")
    assert [done.code for done in made.carry_out(plan)] == ["ref_moved"]
    assert name(6) in branches(repository)


@pytest.mark.parametrize("text", ['{"version": "1"}', '{"version": "1", "branches": {"days": 30}}'])
def test_a_part_that_the_policy_does_not_name_never_expires(tmp_path: Path, text: str) -> None:
    (tmp_path / "retention.json").write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        load_expiry(tmp_path).of_bus()
    assert refused.value.reason == "nothing_expires"


def test_the_command_shows_the_plan_first_and_needs_the_policy(
    house: House,
    repository: Path,
    private_key: keys.PrivateKey,
    tmp_path: Path,
    gatewright: Command,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house.seal(1, days_old=3000)
    key = tmp_path / "gatekeeper.pem"
    key.write_bytes(keys.private_pem(private_key))
    key.chmod(0o600)
    keys.load_or_create(key)
    for variable, value in {"HOME": house.home, "POLICIES": tmp_path, "KEY": key}.items():
        monkeypatch.setenv(f"GATEWRIGHT_{variable}", str(value))
    words = ("refs", "tidy", "--repo", repository, "--expired")
    assert "nothing_expires" in (refused := gatewright(*words)).err + refused.out
    (tmp_path / "retention.json").write_text('{"version": "1", "branches": {"days": 30}}')
    before = branches(repository)
    said = gatewright(*words)
    assert (said.exit_code, f"goes   gatewright/{name(1)} at " in said.out, "--yes" in said.out) == (0, True, True)
    assert gatewright(*words, "--force", name(6)).exit_code == 2
    assert branches(repository) == before
    (document,) = gatewright(*words, "--yes", "--json").documents
    assert [(each["name"], each["code"]) for each in document["done"]] == [(name(1), "")]
    assert branches(repository) == before - {name(1)}
