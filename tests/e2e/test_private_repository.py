"""A whole run on a private repository over https: the workers read, the gatekeeper pushes, and no credential is left behind."""

from __future__ import annotations

import base64
import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pytest

from gatewright.contracts import RunRequest
from gatewright.contracts.vocabulary import AcceptanceTest, Environment, Executor, Repository
from gatewright.errors import GatewrightError
from gatewright.resources import policy_directory
from tests.e2e.conftest import FILES
from tests.e2e.stack import PREFIX, Stack, running_stack
from tests.git.access.conftest import RIGHTS, entry
from tests.git.access.servers import PUSH, READ, GitServer, git_server, make_certificate
from tests.git.repositories import Repository as Checkout
from tests.waiting import PATIENCE

pytestmark = pytest.mark.long

EDIT = "python tools/edit.py 0 {paths}"
CHECK = "python tools/check.py 0"
#: As they are, and as basic authorization sends them.
FORMS = tuple(form for token in (READ, PUSH) for form in (token.encode(), base64.b64encode(f"x-access-token:{token}".encode())))


@dataclass(frozen=True)
class PrivateStack(Stack):
    policies: Path = Path()

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"GATEWRIGHT_POLICIES": str(self.policies)}


@dataclass
class Shop:
    """The stack, the server of the private repository, another server, and the repository as its owner sees it."""

    stack: PrivateStack
    server: GitServer
    elsewhere: GitServer
    owner: Checkout

    @property
    def url(self) -> str:
        return self.server.url("team/shop.git")


@dataclass
class ProcessWatch:
    """Looks at the arguments and the environment of every process, again and again, for as long as a block lasts."""

    looks: int = 0
    found: list[str] = field(default_factory=list)
    git: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.is_set():
            self.looks += 1
            for process in Path("/proc").glob("[0-9]*"):
                for name in ("cmdline", "environ"):
                    try:
                        content = (process / name).read_bytes()
                    except OSError:
                        continue
                    self.git += b"remote-https" in content
                    self.found += [f"{process}/{name}" for form in FORMS if form in content]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    base = tmp_path_factory.mktemp("shop")
    base.chmod(0o755)
    work = Checkout(base / "work", base / "home-of-owner")
    work.home.mkdir()
    work.path.mkdir()
    certificate = make_certificate(base / "authority")
    (base / "empty").mkdir()
    with git_server(base / "served", certificate, RIGHTS) as server, git_server(base / "empty", certificate) as elsewhere:
        leads_away = {
            ".gitmodules": f'[submodule "lib"]\n\tpath = lib\n\turl = {elsewhere.url("lib.git")}\n\tupdate = none\n'.encode(),
            ".lfsconfig": f"[lfs]\n\turl = {elsewhere.url('lfs')}\n".encode(),
            ".gitattributes": b"*.bin filter=lfs diff=lfs merge=lfs -text\n",
            "data.bin": b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 5\n",
        }
        work.git("init", "--quiet", "--template=", "--initial-branch=main")
        work.commit({**FILES, **leads_away}, "first")
        work.git("update-index", "--add", "--cacheinfo", f"160000,{work.head()},lib")
        work.git("commit", "--quiet", "-m", "a submodule")
        served = base / "served/team/shop.git"
        served.parent.mkdir(parents=True)
        work.git("clone", "--quiet", "--bare", str(work.path), str(served))
        policies = base / "policies"
        shutil.copytree(policy_directory(), policies)
        entries = [entry(server, base / "tokens")]
        (policies / "repositories.json").write_text(json.dumps({"version": "1", "repositories": entries}))
        stack = PrivateStack(base / "state" / "home", policies)
        stack.home.parent.mkdir()
        with running_stack(stack.home, workers=1, stack=stack):
            yield Shop(stack, server, elsewhere, Checkout(served, work.home))


def left_behind(folder: Path, forms: tuple[bytes, ...]) -> list[Path]:
    """The files below ``folder`` that hold one of ``forms``."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [path for path in files if any(form in path.read_bytes() for form in forms)]


def test_a_change_lands_by_push_and_no_credential_is_left_anywhere(shop: Shop) -> None:
    with ProcessWatch() as watch:
        code, result = shop.stack.run(
            shop.stack.home.parent, "--repo", shop.url, "--allow", "src", "--exec", EDIT, "--test", CHECK
        )
    assert (code, result["status"], result["failure"]) == (0, "SUCCESS", None)
    # 1. What was tested is what landed, and where it landed.
    assert shop.owner.head(result["branch"]) == result["commit"]
    assert shop.owner.git("rev-parse", f"{result['commit']}^{{tree}}").decode().strip() == result["tree"]
    # 2. Only the push has the pushing token; all that was read was read with the other one.
    by_push = {each.password for each in shop.server.seen if "receive-pack" in each.path}
    by_read = {each.password for each in shop.server.seen if "upload-pack" in each.path}
    assert (by_push, by_read) == ({None, PUSH}, {None, READ})
    # 3. Nothing that the repository names was asked.
    assert not shop.elsewhere.seen
    # 4. No process showed a token, no file holds one: logs, bundle, mirrors, ledger.
    assert watch.git
    assert watch.looks > 10
    assert not watch.found
    assert not left_behind(shop.stack.home, FORMS)
    # 5. The bundle verifies against the repository, which its owner's command reads by the same policy.
    verified = shop.stack.command("verify", result["bundle"], "--repo", shop.url, "--json")
    assert verified.returncode == 0, verified.stdout
    assert json.loads((Path(result["bundle"]) / "manifest.json").read_bytes())["repo"]["root"] == shop.url


def request(url: str, **more: str) -> RunRequest:
    return RunRequest(
        request="edit every file",
        repository=Repository(url=url, **more),  # type: ignore[arg-type]  # words of a document
        requested_by="tests",
        allowed_paths=("src",),
        acceptance_tests=(AcceptanceTest(name="edited", cmd=CHECK, must_pass=True),),
        executor=Executor(kind="command", commands=(EDIT,)),
        environment=Environment(prefix=str(PREFIX)),
    )


def test_a_protected_branch_fails_the_landing_with_the_words_of_the_server(shop: Shop) -> None:
    hook = shop.owner.path / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'GH006: protected branch'\nexit 1\n")
    hook.chmod(0o755)
    before = shop.owner.head("main")
    try:
        with shop.stack.client() as client:
            run = client.submit_request(request(shop.url, landing="target", target_ref="refs/heads/main"))
            ended = client.ended(run, timeout=PATIENCE)
    finally:
        hook.unlink()
    assert (ended.status, ended.code) == ("FAILED", "landing_refused")
    assert "GH006: protected branch" in (ended.message or "")
    assert shop.owner.head("main") == before


@pytest.mark.parametrize("address", ["https://me:{password}@h/x.git", "https://me:{password}@h/x?y", "me:{password}@h:x"])
def test_an_address_with_a_password_is_refused_and_the_password_kept_nowhere(shop: Shop, address: str) -> None:
    password = "correct-horse-91"
    url = address.format(password=password)
    code, result = shop.stack.run(shop.stack.home.parent, "--repo", url, "--allow", "src", "--exec", EDIT, "--test", CHECK)
    assert (code, "credentials" in json.dumps(result) or "not an address" in json.dumps(result)) == (2, True)
    assert password not in json.dumps(result)
    with shop.stack.client() as client, pytest.raises(GatewrightError) as caught:
        client.submit_request(request(url))
    assert caught.value.reason == "repository_has_credentials"
    assert password not in str(caught.value)
    assert not left_behind(shop.stack.home, (password.encode(),))
