"""Landed commits with the operator's signature: plain git verifies them, and a target that wants them is no late surprise."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatewright.contracts.vocabulary import LandingMode
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.git.access.credentials import RepositoryAccess
from gatewright.git.host.user_checkout import UserSigning
from gatewright.ledger.store import Ledger
from gatewright.resources import policy_directory
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider.inputs import RoleReplied
from gatewright.services.gatekeeper.projections.follower import LedgerFollower
from tests.attacks.test_moved_targets import MAIN, repository, without_rules
from tests.attacks.whole_gatekeeper import RUN, Gatekeeper, contract_on, make_tests, open_gatekeeper
from tests.gatekeeper.gates.test_landing import BRANCH, DiedError, LedgerThatDies
from tests.git.access.conftest import entry, write_policy
from tests.git.access.servers import PUSH, READ, GitServer, git_server, make_certificate
from tests.git.access.signing_keys import EMAIL, SigningKey, make_ssh_key, needs_signing_programs, openpgp_key
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository, Repository

__all__ = ["first_repository", "make_repository", "repository"]

pytestmark = needs_signing_programs


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """Those of the package, without the rule that asks for tests that prove something."""
    folder = Path(shutil.copytree(policy_directory(), tmp_path / "policies"))
    without_rules(folder)
    return folder


@pytest.fixture
def openpgp(monkeypatch: pytest.MonkeyPatch) -> Iterator[SigningKey]:
    with openpgp_key(monkeypatch.setenv) as key:
        yield key


@pytest.fixture(params=["ssh", "openpgp"])
def key(request: pytest.FixtureRequest, tmp_path: Path) -> SigningKey:
    found: SigningKey = request.getfixturevalue("openpgp") if request.param == "openpgp" else make_ssh_key(tmp_path / "key")
    return found


async def order(gatekeeper: Gatekeeper, url: str = "", landing: LandingMode = "branch") -> Run:
    target = MAIN if landing == "target" else None
    where = RepositoryField(url=url or gatekeeper.repository.url, landing=landing, target_ref=target)
    return await gatekeeper.submit(replace(contract_on(gatekeeper.repository), repository=where))


async def work(gatekeeper: Gatekeeper) -> None:
    """All that comes between the order and the tests."""
    failure = (await gatekeeper.run()).failure
    assert failure is None, failure
    await gatekeeper.plan()
    await gatekeeper.work(gatekeeper.patch({"README.md": b"changed\n"}))
    await gatekeeper.review()


async def check_bundle(repository: Repository, folder: Path) -> None:
    """``verify`` accepts the bundle, and its commit in the repository."""
    key = keys.load(folder / "key.pem").public
    found = await asyncio.to_thread(verify, folder / "runs" / RUN, [key], repository=repository.url)
    assert found.ok, found


def fault(run: Run) -> tuple[str, str]:
    assert run.failure is not None
    assert not run.tasks, "work was given out"
    return run.failure.code, run.failure.message


@pytest.mark.parametrize("landing", ["branch", "target"])
async def test_plain_git_verifies_a_landed_commit(
    repository: Repository, tmp_path: Path, policies: Path, key: SigningKey, landing: LandingMode
) -> None:
    access = key.access(policies, repository.url)
    async with open_gatekeeper(repository, tmp_path, policies=policies, access=access) as gatekeeper:
        await order(gatekeeper, landing=landing)
        await work(gatekeeper)
        run = await gatekeeper.test()
    assert run.landed is not None, run.failure
    assert run.landed.commit == repository.head(BRANCH if landing == "branch" else MAIN)
    assert key.verifies(repository, run.landed.commit)
    assert repository.git("show", "-s", "--format=%ce", run.landed.commit).decode().strip() == EMAIL
    await check_bundle(repository, tmp_path)


@pytest.mark.parametrize("landing", ["branch", "target"])
async def test_a_crash_after_the_landing_keeps_its_signature(
    repository: Repository, tmp_path: Path, policies: Path, openpgp: SigningKey, landing: LandingMode
) -> None:
    access = openpgp.access(policies, repository.url)
    async with open_gatekeeper(repository, tmp_path, policies=policies, access=access) as gatekeeper:
        await order(gatekeeper, landing=landing)
        await work(gatekeeper)
        dying = dataclasses.replace(gatekeeper.orchestrator, ledger=LedgerThatDies(gatekeeper.bus))
        tests = make_tests(await gatekeeper.run())
        with pytest.raises(DiedError):
            await dying.advance(RUN, RoleReplied("testrunner", tests, "answer"))
        first = repository.head(BRANCH if landing == "branch" else MAIN)
        again = dataclasses.replace(gatekeeper.orchestrator, ledger=Ledger(gatekeeper.bus))
        await LedgerFollower(again).resume()
        run = (await again.ledger.load(RUN)).run
    assert run is not None
    assert run.landed is not None, run.failure
    assert (run.landed.commit, run.landed.found) == (first, False)
    assert openpgp.verifies(repository, first)
    await check_bundle(repository, tmp_path)


@pytest.mark.parametrize("linked", [False, True])
async def test_a_run_of_the_user_signs_as_the_users_git_does(
    make_repository: MakeRepository, tmp_path: Path, linked: bool
) -> None:
    key, repository = make_ssh_key(tmp_path / "key"), Repository(make_repository().path, tmp_path / "home")
    repository.home.mkdir()
    settings = f"[user]\nname = Ada\nemail = {EMAIL}\nsigningKey = {key.folder / 'signing'}\n"
    (repository.home / ".gitconfig").write_text(f"{settings}[commit]\ngpgSign = true\n[gpg]\nformat = ssh\n")
    access = dataclasses.replace(RepositoryAccess.load(policy_directory(), "gatekeeper"), user=repository.checkout.signing())
    link = tmp_path / "link"
    link.symlink_to(repository.path)
    async with open_gatekeeper(repository, tmp_path, access=access) as gatekeeper:
        await order(gatekeeper, str(link) if linked else "")
        await work(gatekeeper)
        run = await gatekeeper.test()
    assert run.landed is not None, run.failure
    assert key.verifies(repository, run.landed.commit)
    assert repository.git("show", "-s", "--format=%cn", run.landed.commit) == b"Ada\n"


async def test_a_key_of_the_user_is_for_the_users_repository_alone(make_repository: MakeRepository, tmp_path: Path) -> None:
    own, other = make_repository("own"), make_repository("other")
    signing = UserSigning(str(own.path / ".git"), "ssh", str(tmp_path / "no key"))
    access = dataclasses.replace(RepositoryAccess.load(policy_directory(), "gatekeeper"), user=signing)
    for place, code in ((own, "commit_signing_unavailable"), (other, None)):
        async with open_gatekeeper(place, tmp_path / place.path.name, access=access) as gatekeeper:
            run = await order(gatekeeper)
        assert (run.failure.code if run.failure is not None else None) == code


@pytest.mark.parametrize("fault_of_key", ["missing", "readable", "passphrase", "folder"])
async def test_an_unusable_key_stops_the_run_before_any_work(repository: Repository, tmp_path: Path, fault_of_key: str) -> None:
    key = make_ssh_key(tmp_path / "key", passphrase="correct horse" if fault_of_key == "passphrase" else "")
    file = tmp_path / "key" / "signing"
    if fault_of_key in {"missing", "folder"}:
        file.unlink()
    if fault_of_key == "folder":
        file.mkdir(mode=0o700)
    if fault_of_key == "readable":
        file.chmod(0o644)
    async with open_gatekeeper(repository, tmp_path, access=key.access(tmp_path / "policies", repository.url)) as gatekeeper:
        code, message = fault(await order(gatekeeper))
    assert code == "commit_signing_unavailable"
    assert str(file) in message
    assert message.isprintable()


async def test_a_missing_program_stops_the_run_before_any_work(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = make_ssh_key(tmp_path / "key").access(tmp_path / "policies", repository.url)
    async with open_gatekeeper(repository, tmp_path, access=access) as gatekeeper:
        monkeypatch.setattr("gatewright.git.access.signing.shutil.which", lambda _name: None)
        code, message = fault(await order(gatekeeper))
    assert (code, "ssh-keygen is not on PATH" in message) == ("commit_signing_unavailable", True)


async def test_a_key_that_is_lost_at_the_landing_fails_the_run(repository: Repository, tmp_path: Path) -> None:
    access = make_ssh_key(tmp_path / "key").access(tmp_path / "policies", repository.url)
    async with open_gatekeeper(repository, tmp_path, access=access) as gatekeeper:
        await order(gatekeeper)
        await work(gatekeeper)
        (tmp_path / "key" / "signing").unlink()
        run = await gatekeeper.test()
    assert run.failure is not None
    assert run.failure.code == "commit_signing_unavailable"
    assert gatekeeper.nothing_landed()


async def test_a_target_that_demands_signatures_needs_a_key(repository: Repository, tmp_path: Path) -> None:
    policies = write_policy(tmp_path / "policies", {"places": [repository.url], "signatures": "required"})
    access = RepositoryAccess.load(policies, "gatekeeper")
    async with open_gatekeeper(repository, tmp_path, access=access) as gatekeeper:
        assert fault(await order(gatekeeper))[0] == "target_demands_signatures"


async def test_a_run_that_lands_nothing_needs_no_key(repository: Repository, tmp_path: Path) -> None:
    policies = write_policy(tmp_path / "policies", {"places": [repository.url], "signatures": "required"})
    access = RepositoryAccess.load(policies, "gatekeeper")
    async with open_gatekeeper(repository, tmp_path, access=access) as gatekeeper:
        assert (await order(gatekeeper, landing="none")).failure is None


@pytest.fixture
def served(tmp_path: Path, repository: Repository, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServer]:
    """A server of another host with a bare copy of the repository."""
    repository.git("clone", "--quiet", "--bare", "--template=", repository.url, str(tmp_path / "served" / "shop.git"))
    certificate = make_certificate(tmp_path_factory.mktemp("authority"))
    rights = {READ: frozenset({"read"}), PUSH: frozenset({"read", "push"})}
    with git_server(tmp_path / "served", certificate, rights) as server:
        yield server


@pytest.mark.parametrize("signs", [True, False])
async def test_a_server_that_verifies_each_commit_takes_signed_ones_alone(
    served: GitServer, repository: Repository, tmp_path: Path, key: SigningKey, signs: bool
) -> None:
    bare = Repository(tmp_path / "served" / "shop.git", repository.home)
    key.hook(bare)
    signing: dict[str, Any] = {"sign": key.sign, "signatures": "required"} if signs else {}
    place = entry(served, tmp_path / "tokens", places=[served.url("")], **signing)
    access = RepositoryAccess.load(write_policy(tmp_path / "policies", place), "gatekeeper")
    async with open_gatekeeper(repository, tmp_path, access=access) as gatekeeper:
        await order(gatekeeper, served.url("shop.git"))
        await work(gatekeeper)
        run = await gatekeeper.test()
    if signs:
        assert run.landed is not None, run.failure
        assert bare.head(BRANCH) == run.landed.commit
        return
    assert run.failure is not None
    assert run.failure.code == "landing_unsigned"
    assert "is an unsigned commit" in run.failure.message
    assert not bare.exists(BRANCH)


async def test_a_server_that_refuses_the_signature_is_quoted(served: GitServer, repository: Repository, tmp_path: Path) -> None:
    bare = Repository(tmp_path / "served" / "shop.git", repository.home)
    make_ssh_key(tmp_path / "known").hook(bare)
    place = entry(served, tmp_path / "tokens", places=[served.url("")])
    place["sign"] = make_ssh_key(tmp_path / "unknown").sign
    access = RepositoryAccess.load(write_policy(tmp_path / "policies", place), "gatekeeper")
    async with open_gatekeeper(repository, tmp_path, access=access) as gatekeeper:
        await order(gatekeeper, served.url("shop.git"))
        await work(gatekeeper)
        run = await gatekeeper.test()
    assert run.failure is not None
    assert run.failure.code == "landing_unsigned"
    assert "the target does not accept the signature" in run.failure.message
