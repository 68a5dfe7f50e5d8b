"""A private repository on a server of the test's own, and what the roles may use for it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gatewright.git.access.credentials import RepositoryAccess
from gatewright.git.access.policy import AccessRole
from gatewright.git.mirror import Mirrors
from tests.git.access.servers import PUSH, READ, GitServer, git_server, make_certificate
from tests.git.repositories import Repository

RIGHTS = {READ: frozenset({"read"}), PUSH: frozenset({"read", "push"})}
MakeMirrors = Callable[..., Mirrors]


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def remote(tmp_path: Path, first_repository: Repository) -> Repository:
    """What the server offers as ``team/shop.git``."""
    path = tmp_path / "served" / "team" / "shop.git"
    path.parent.mkdir(parents=True)
    shutil.copytree(first_repository.path / ".git", path)
    repository = Repository(path, first_repository.home)
    repository.git("config", "core.bare", "true")
    return repository


@pytest.fixture
def server(tmp_path: Path, remote: Repository, certificate: Path) -> Iterator[GitServer]:
    with git_server(tmp_path / "served", certificate, RIGHTS) as served:
        yield served


def write_policy(folder: Path, *entries: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "repositories.json").write_text(json.dumps({"version": "1", "repositories": list(entries)}))
    return folder


def entry(server: GitServer, folder: Path, read: str | None = READ, push: str | None = PUSH, **more: Any) -> dict[str, Any]:
    """An entry for the repositories of ``server``, whose tokens lie in files of ``folder``."""
    found: dict[str, Any] = {"places": [server.url("team/")], "ca_file": str(server.authority), **more}
    folder.mkdir(exist_ok=True)
    for purpose, token in (("read", read), ("push", push)):
        if token is not None:
            (folder / purpose).write_text(token + "\n")
            found[purpose] = {"token": {"file": str(folder / purpose)}}
    return found


@pytest.fixture
def make_mirrors(tmp_path: Path, server: GitServer) -> MakeMirrors:
    """The mirrors of a role that has tokens for the server, or whatever ``entries`` say."""

    def make(role: AccessRole = "worker", *entries: dict[str, Any], seconds: float = 60, most: int | None = None) -> Mirrors:
        folder = write_policy(tmp_path / "policies", *(entries or (entry(server, tmp_path / "tokens"),)))
        access = RepositoryAccess.load(folder, role)
        return Mirrors(tmp_path / f"mirrors-of-{role}", access=access, transfer_seconds=seconds, most=most)

    return make
