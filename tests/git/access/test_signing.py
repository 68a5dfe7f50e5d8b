"""Who signs commits, with which key, and what of it anybody can read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gatewright.errors import GitError
from gatewright.git.access.credentials import RepositoryAccess
from gatewright.git.access.policy import PUSHING, AccessRole, RepositoriesPolicy
from gatewright.git.access.signing import CommitSigner, make_signer, without_signer
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.git.refs import parse_url
from tests.git.access.conftest import write_policy
from tests.git.access.signing_keys import SigningKey, make_ssh_key, needs_signing_programs
from tests.git.repositories import MakeRepository, Repository

pytestmark = needs_signing_programs
WHEN = datetime(2026, 3, 1, tzinfo=UTC)


async def landed(mirror: Mirror, repository: Repository, *, signed: bool = True) -> str:
    base = repository.head()
    await mirror.ensure(base)
    return await mirror.commit_tree(await mirror.tree_of(base), parent=base, message="land\n", when=WHEN, signed=signed)


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An SSH agent of this test; the folder of the key that it holds, of which no file is left."""
    key = make_ssh_key(tmp_path / "key").folder
    socket = Path("/tmp") / f"agent-{os.getpid()}-{tmp_path.name[-20:]}"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    subprocess.run(["ssh-add", "-q", key / "signing"], check=True)
    (key / "signing").unlink()
    yield key
    process.terminate()
    process.wait()
    process.stdout.close()
    socket.unlink(missing_ok=True)


async def test_an_ssh_agent_signs(agent: Path, make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    key = SigningKey({"format": "ssh", "agent": True, "key": (agent / "signing.pub").read_text().strip()}, agent)
    mirrors = Mirrors(tmp_path / "mirrors", access=key.access(tmp_path / "policies", repository.url))
    mirror = await mirrors.open(repository.url)
    commit = await landed(mirror, repository)
    assert key.verifies(Repository(mirror.path, repository.home), commit)


@pytest.mark.parametrize("sha256", [False, True])
async def test_signed_commits_differ_by_their_signer(make_repository: MakeRepository, tmp_path: Path, sha256: bool) -> None:
    repository, key = make_repository(sha256=sha256), make_ssh_key(tmp_path / "key", "ecdsa")
    access = key.access(tmp_path / "policies", repository.url)
    mirror = await Mirrors(tmp_path / "mirrors", access=access).open(repository.url)
    plain = await landed(mirror, repository, signed=False)
    one, other = await landed(mirror, repository), await landed(mirror, repository)
    raw = await mirror.raw_objects((plain, one, other), "commit")
    assert one != other
    assert without_signer(raw[one]) == without_signer(raw[other]) == without_signer(raw[plain])
    assert all(key.verifies(Repository(mirror.path, repository.home), commit) for commit in (one, other))
    assert not key.verifies(Repository(mirror.path, repository.home), plain)


def test_words_of_a_message_are_no_signature() -> None:
    text = b"tree 1\nparent 2\n\nwords\ngpgsig x\n y\ncommitter z\n"
    assert without_signer(text) == text


@pytest.mark.parametrize("role", ["gatekeeper", "operator", "worker", "testrunner", "pm", "techlead", "reviewer"])
async def test_a_role_that_never_lands_never_signs(make_repository: MakeRepository, tmp_path: Path, role: AccessRole) -> None:
    repository, key = make_repository(), make_ssh_key(tmp_path / "key")
    mirrors = Mirrors(tmp_path / "mirrors", access=key.access(tmp_path / "policies", repository.url, role))
    mirror = await mirrors.open(repository.url)
    assert key.verifies(Repository(mirror.path, repository.home), await landed(mirror, repository)) == (role in PUSHING)


def test_a_place_beside_the_entry_is_not_signed_for(tmp_path: Path) -> None:
    key = make_ssh_key(tmp_path / "key")
    access = key.access(tmp_path / "policies", "https://forge.example/team/")
    place, beside = (parse_url(f"https://forge.example/{name}", ("https",)) for name in ("team/x", "team-evil/x"))
    assert access.signing(place) is not None
    assert access.signing(beside) is None


def test_the_first_entry_of_a_place_decides(tmp_path: Path) -> None:
    entries = ({"places": ["/srv/git/open/"], "signatures": "required"}, {"places": ["*"], "sign": make_ssh_key(tmp_path).sign})
    access = RepositoryAccess.load(write_policy(tmp_path / "policies", *entries), "gatekeeper")
    place, other = (parse_url(name, ("file",)) for name in ("/srv/git/open/x", "/srv/git/x"))
    assert (access.signing(place), access.demands_signatures(place)) == (None, True)
    assert access.signing(other) is not None
    assert not access.demands_signatures(other)


async def test_a_key_file_that_is_no_key_is_not_quoted(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository, key = make_repository(), make_ssh_key(tmp_path / "key")
    secret = "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0LW9mLXRoZS1vcGVyYXRvcg==\n-----END OPENSSH PRIVATE KEY-----\n"
    (tmp_path / "key" / "signing").write_text(secret)
    mirror = await Mirrors(tmp_path / "mirrors", access=key.access(tmp_path / "policies", repository.url)).open(repository.url)
    with pytest.raises(GitError) as caught:
        await landed(mirror, repository)
    assert caught.value.reason == "commit_signing_unavailable"
    assert "c2VjcmV0" not in repr(caught.value.__dict__) + str(caught.value) + repr(caught.value.__cause__)


def test_output_of_the_program_is_shortened() -> None:
    refusal = CommitSigner("the SSH key /k", {}, {}).refusal("x" * 10_000)
    assert len(refusal.message) < 600


def test_an_agent_that_does_not_run_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    public = (make_ssh_key(tmp_path).folder / "signing.pub").read_text().strip()
    sign = {"format": "ssh", "agent": True, "key": public}
    policy = RepositoriesPolicy.model_validate({"version": "1", "repositories": [{"places": ["*"], "sign": sign}]})
    assert policy.repositories[0].sign is not None
    with pytest.raises(GitError, match="SSH_AUTH_SOCK") as caught:
        make_signer(policy.repositories[0].sign)
    assert caught.value.reason == "commit_signing_unavailable"


def test_a_keyring_is_located_for_who_signs_alone() -> None:
    sign = {"format": "openpgp", "agent": True, "key": "F" * 40}
    policy = RepositoriesPolicy.model_validate({"version": "1", "repositories": [{"places": ["*"], "sign": sign}]})
    assert policy.variables("gatekeeper") == policy.variables("operator") == {"GNUPGHOME"}
    assert policy.variables("worker") == frozenset()
