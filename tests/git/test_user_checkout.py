"""The user's own checkout is read as the user's git reads it, and nothing that a planted configuration names is started."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gatewright.contracts.vocabulary import Person
from gatewright.errors import GitError
from gatewright.git.access.signing import make_signer
from gatewright.git.host import user_checkout
from gatewright.git.host.user_checkout import Folders, Identity, Uncommitted, UserCheckout, UserSigning
from gatewright.git.library_git import RefFiles
from tests.git.repositories import IDENTITY, MakeRepository, MakeTrap, Repository


@pytest.fixture
def repository(make_repository: MakeRepository, tmp_path: Path) -> Repository:
    """Has a home folder of its own, which a test may write to."""
    home = tmp_path / "home"
    home.mkdir()
    return Repository(make_repository("my wörk").path, home)


def checkout(repository: Repository, start: Path | None = None, **variables: str) -> UserCheckout:
    environment = {"PATH": os.environ["PATH"], "HOME": str(repository.home), "GIT_CONFIG_NOSYSTEM": "1", **variables}
    return UserCheckout(start or repository.path, environment)


def locks(folder: Path) -> Iterator[Path]:
    return folder.rglob("*.lock")


def plant(repository: Repository, text: str) -> None:
    with (repository.path / ".git" / "config").open("a") as config:
        config.write(text)


@pytest.mark.parametrize("name", [b"plain", b"two words", "Öl".encode(), b"odd\xff", b"$HOME", b"~", b"a\nb", b"-C"])
def test_folders_are_found_at_any_path(name: bytes, repository: Repository) -> None:
    top = repository.path.parent / os.fsdecode(name) / "r"
    top.parent.mkdir()
    repository.path.rename(top)
    (top / "src" / "deep").mkdir()
    git_dir = top / ".git"
    for start in (top, top / "src" / "deep"):
        assert checkout(repository, start).folders == Folders(git_dir, git_dir, top)
    assert checkout(repository, git_dir).folders == Folders(git_dir, git_dir, None)


def test_linked_work_tree_has_a_git_folder_of_its_own(repository: Repository, tmp_path: Path) -> None:
    linked = tmp_path / "lïnked"
    repository.git("worktree", "add", "--quiet", "-b", "other", str(linked))
    common = repository.path / ".git"
    assert checkout(repository, linked).folders == Folders(common / "worktrees" / "lïnked", common, linked)
    assert checkout(repository, linked).exact_ref("main") == "main"
    assert checkout(repository, linked).resolve() == repository.head()


def test_submodule_is_a_checkout_of_its_own(repository: Repository, make_repository: MakeRepository) -> None:
    part = make_repository("part")
    repository.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", part.url, "part")
    modules = repository.path / ".git" / "modules" / "part"
    inside = checkout(repository, repository.path / "part")
    assert inside.folders == Folders(modules, modules, repository.path / "part")
    assert inside.commit_named("HEAD") == part.head()
    (repository.path / "part" / "README.md").write_text("changed\n")
    assert inside.uncommitted() == Uncommitted(1, 0)
    assert checkout(repository).uncommitted().untracked == 0


def test_bare_repository_has_refs_and_no_work_tree(repository: Repository, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    repository.git("clone", "--quiet", "--bare", repository.url, str(bare))
    found = checkout(repository, bare)
    assert found.folders == Folders(bare, bare, None)
    assert (found.exact_ref("main"), found.resolve("main")) == ("main", repository.head())
    assert found.uncommitted() == Uncommitted(0, 0)


def test_shallow_clone_names_its_commits(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"a": b"2\n"})
    repository.git("clone", "--quiet", "--depth=1", f"file://{repository.path}", str(tmp_path / "shallow"))
    found = checkout(repository, tmp_path / "shallow")
    assert found.exact_ref("origin/main") == "refs/remotes/origin/main"
    assert found.commit_named("main") == repository.head()
    with pytest.raises(GitError, match="shallow"):
        found.resolve("HEAD~1")


@pytest.mark.parametrize("packed", [False, True])
def test_repository_with_sha256_is_read_by_git_alone(packed: bool, make_repository: MakeRepository) -> None:
    repository = make_repository("new", sha256=True)
    if packed:
        repository.git("pack-refs", "--all")
    found = repository.checkout
    assert not RefFiles(found.folders.common).has("refs/heads/main")
    assert found.exact_ref("main") == "main"
    assert found.exact_ref("HEAD^{commit}") == found.commit_named("main") == repository.head()
    (repository.path / "new").write_text("")
    assert found.uncommitted() == Uncommitted(0, 1)


@pytest.mark.parametrize("packed", [False, True])
def test_ref_whose_name_is_not_utf8_hides_no_other(packed: bool, repository: Repository) -> None:
    subprocess.run(["git", "update-ref", b"refs/heads/odd\xff", "HEAD"], cwd=repository.path, check=True)
    repository.git("branch", "ünlaut")
    if packed:
        repository.git("pack-refs", "--all")
    assert RefFiles(repository.path / ".git").has("refs/heads/ünlaut") is not packed
    assert checkout(repository).exact_ref("ünlaut") == "ünlaut"


def test_identity_follows_includes_in_the_order_of_git(repository: Repository) -> None:
    (repository.home / "work").write_text("[user]\nname = At work\nemail = work@shop.example\n")
    condition = f'[includeIf "gitdir:{repository.path.parent}/"]\npath = work\n'
    (repository.home / ".gitconfig").write_text(f"{condition}[user]\nemail = later@shop.example\n")
    assert checkout(repository).identity() == Identity("At work", "later@shop.example")
    (repository.home / "other").write_text("[author]\nname = Other\n")
    named = checkout(repository, GIT_CONFIG_GLOBAL=str(repository.home / "other"))
    assert named.identity() == Identity("Other", "")


def test_identity_in_another_encoding_is_text(repository: Repository) -> None:
    (repository.home / ".gitconfig").write_bytes(b"[user]\nname = L\xf6we\nemail = l@shop.example\n")
    assert checkout(repository).identity() == Identity("L\ufffdwe", "l@shop.example")


def test_signing_is_what_the_users_git_does(repository: Repository) -> None:
    assert checkout(repository).signing() is None
    settings = repository.home / ".gitconfig"
    settings.write_text("[user]\nname = Ada\nemail = ada@shop.example\n[commit]\ngpgSign\n")
    person, common = Person(name="Ada", email="ada@shop.example"), str(repository.path / ".git")
    assert checkout(repository).signing() == UserSigning(common, "openpgp", committer=person)
    with settings.open("a") as more:
        more.write('[gpg]\nformat = ssh\n[user]\nsigningKey = ~/.ssh/id.pub\n[gpg "ssh"]\nprogram = ~/bin/sign\n')
    key = str(repository.home / ".ssh" / "id.pub")
    assert checkout(repository).signing() == UserSigning(common, "ssh", key, str(repository.home / "bin" / "sign"), person)
    repository.configure(commit__gpgSign="off")
    assert checkout(repository).signing() is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[gpg]\nprogram = {trap}\n", "gpg.program is a setting of the repository"),
        ('[gpg "openpgp"]\nprogram = {trap}\n', "gpg.openpgp.program is a setting of the repository"),
        ("[gpg]\nformat = x509\n", "x509"),
        ("[gpg]\nformat = ssh\n", "user.signingKey of git is not set"),
        ('[gpg]\nformat = ssh\n[gpg "ssh"]\ndefaultKeyCommand = {trap}\n', "user.signingKey of git is not set"),
    ],
)
def test_planted_signing_program_is_a_fault(repository: Repository, make_trap: MakeTrap, text: str, fault: str) -> None:
    trap = make_trap()
    plant(repository, "[commit]\ngpgSign = true\n" + text.format(trap=trap.program))
    signing = checkout(repository).signing()
    assert signing is not None
    assert fault in signing.fault
    with pytest.raises(GitError) as refused:
        make_signer(signing)
    assert refused.value.reason == "commit_signing_unavailable"
    assert not trap.sprung


def test_identity_outside_of_a_repository_is_the_users(repository: Repository, tmp_path: Path) -> None:
    (repository.home / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@shop.example\n")
    assert checkout(repository, tmp_path).identity() == Identity("Ada", "ada@shop.example")


def test_relative_start_is_the_folder_that_the_user_stands_in(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.configure(user__name="Here", user__email="here@shop.example")
    monkeypatch.chdir(repository.path)
    assert checkout(repository, Path()).identity() == Identity("Here", "here@shop.example")


def test_files_that_the_user_ignores_everywhere_are_not_counted(repository: Repository) -> None:
    for name in ("x.log", "y.tmp", "z.new"):
        (repository.path / name).write_text("")
    (repository.home / ".config" / "git").mkdir(parents=True)
    (repository.home / ".config" / "git" / "ignore").write_text("*.log\n")
    assert checkout(repository).uncommitted() == Uncommitted(0, 2)
    (repository.home / ".gitconfig").write_text("[core]\nexcludesFile = ~/ignored\n")
    (repository.home / "ignored").write_text("*.tmp\n*.log\n")
    assert checkout(repository).uncommitted() == Uncommitted(0, 1)


def test_conflict_and_what_the_index_has_are_counted(repository: Repository) -> None:
    repository.git("switch", "--quiet", "-c", "other")
    repository.commit({"src/app.py": b"other\n"})
    repository.git("switch", "--quiet", "main")
    repository.commit({"src/app.py": b"main\n", "b": b"1\n", "c": b"1\n"})
    repository.git("merge", "--quiet", "other", check=False)
    (repository.path / "b").write_text("2\n")
    repository.git("add", "b")
    (repository.path / "c").unlink()
    assert checkout(repository).uncommitted() == Uncommitted(3, 0)
    assert checkout(repository).uncommitted(beyond_index=True) == Uncommitted(2, 0)
    (repository.path / "b").unlink()
    assert checkout(repository).uncommitted(beyond_index=True) == Uncommitted(3, 0)


def test_inherited_variables_name_no_other_repository(
    repository: Repository, make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_repository("other")
    other.git("branch", "elsewhere")
    for name in ("GIT_DIR", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(other.path / ".git"))
    for name, value in {"GIT_WORK_TREE": str(other.path), "GIT_CONFIG_COUNT": "oops", "GIT_NAMESPACE": "x"}.items():
        monkeypatch.setenv(name, value)
    repository.path.joinpath("new").write_text("")
    found = checkout(repository)
    assert found.folders.top == repository.path
    assert found.uncommitted() == Uncommitted(0, 1)
    assert found.exact_ref("main") == "main"
    with pytest.raises(GitError, match="no branch"):
        found.exact_ref("elsewhere")


def test_repository_of_another_account_is_refused(repository: Repository) -> None:
    plant(repository, f"[user]\nname = Eve\nemail = eve@evil.example\n[safe]\ndirectory = {repository.path}\ndirectory = *\n")
    found = checkout(repository, GIT_TEST_ASSUME_DIFFERENT_OWNER="1")
    for question in (lambda: found.folders, found.resolve, lambda: found.exact_ref("main"), found.uncommitted):
        with pytest.raises(GitError, match="dubious ownership") as refused:
            question()
        assert refused.value.reason == "not_a_repository"
    assert found.identity() == Identity("", ""), "its configuration is not read"


def test_repository_that_the_user_calls_safe_is_read(repository: Repository) -> None:
    (repository.home / ".gitconfig").write_text(f"[safe]\ndirectory = {repository.path}\n")
    assert checkout(repository, GIT_TEST_ASSUME_DIFFERENT_OWNER="1").resolve() == repository.head()


@pytest.mark.parametrize("driver", ["evil", "e=vil", "e.v=i.l", 'e\\"v', "é"])
def test_planted_filter_of_any_name_is_not_started(driver: str, repository: Repository, make_trap: MakeTrap) -> None:
    trap = make_trap()
    program = trap.program
    plant(repository, f'[filter "{driver}"]\nclean = {program}\nsmudge = {program}\nprocess = {program}\nrequired = true\n')
    name = driver.replace("\\", "")
    (repository.path / ".gitattributes").write_text(f"* filter={name}\n")
    (repository.path / "README.md").write_text("changed\n")
    assert checkout(repository).uncommitted() == Uncommitted(1, 1)
    assert not trap.sprung


PLANTED: Mapping[str, str] = {
    "monitor": "[core]\nfsmonitor = {trap}\n",
    "hooks": "[core]\nhooksPath = {folder}\n",
    "pager and editor": "[core]\npager = {trap}\neditor = {trap}\n[pager]\nstatus = {trap}\nrev-parse = {trap}\n",
    "alias": "[alias]\nstatus = !{trap}\nrev-parse = !{trap}\nconfig = !{trap}\n",
    "transport": "[core]\nsshCommand = {trap}\ngitProxy = {trap}\n[credential]\nhelper = !{trap}\n",
    "diff": '[diff]\nexternal = {trap}\n[diff "x"]\ntextconv = {trap}\ncommand = {trap}\n',
    "promisor": '[remote "o"]\nurl = ext::{trap}\npromisor = true\n[extensions]\npartialClone = o\n',
    "submodules": "[status]\nsubmoduleSummary = true\n[submodule]\nrecurse = true\n",
}


@pytest.mark.parametrize("what", PLANTED)
@pytest.mark.every_case
def test_planted_configuration_starts_nothing(what: str, repository: Repository, make_trap: MakeTrap, tmp_path: Path) -> None:
    trap, folder = make_trap(), tmp_path / "planted-hooks"
    folder.mkdir()
    for hook in ("post-index-change", "reference-transaction", "post-checkout"):
        (folder / hook).symlink_to(trap.program)
        repository.hook(hook, trap.program)
    trap.mark.unlink(missing_ok=True)
    plant(repository, PLANTED[what].format(trap=trap.program, folder=folder))
    (repository.path / ".gitattributes").write_text("* diff=x\n")
    (repository.path / "README.md").write_text("changed\n")
    index = (repository.path / ".git" / "index").read_bytes()
    found = checkout(repository)
    assert found.uncommitted() == Uncommitted(1, 1)
    assert found.exact_ref("HEAD^{commit}") == found.commit_named("main")
    found.identity()
    assert not trap.sprung
    assert (repository.path / ".git" / "index").read_bytes() == index
    assert not list(locks(repository.path))


def test_planted_work_tree_elsewhere_counts_no_files_there(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "letter").write_text("")
    plant(repository, f"[core]\nworktree = {tmp_path / 'private'}\n")
    assert checkout(repository).folders.top is None
    assert checkout(repository).uncommitted() == Uncommitted(0, 0)


def test_hooks_are_read_from_the_configured_folder(repository: Repository) -> None:
    (repository.home / ".gitconfig").write_text("[core]\nhooksPath = /shared/by/all\n")
    assert checkout(repository).hooks_folder() == repository.path / ".git" / "hooks"
    repository.configure(core__hooksPath="tools/hooks")
    assert checkout(repository).hooks_folder() == repository.path / "tools" / "hooks"


@pytest.mark.parametrize("place", ["config", "refs/heads/pipe", "packed-refs", "HEAD"])
def test_pipe_in_a_git_folder_holds_nothing_up(place: str, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_checkout, "_SECONDS", 0.5)
    path = repository.path / ".git" / place
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(GitError) as refused:
        checkout(repository).exact_ref("pipe")
    assert refused.value.reason in {"git_timeout", "ref_not_found", "not_a_repository"}
    assert not list(locks(repository.path))


def test_git_that_is_missing_is_named(repository: Repository, tmp_path: Path) -> None:
    text = (
        "import sys\nfrom pathlib import Path\nfrom gatewright.errors import GitError\n"
        "from gatewright.git.host.user_checkout import UserCheckout\n"
        "try:\n    UserCheckout(Path(sys.argv[1]), {}).resolve()\nexcept GitError as error:\n    print(error.reason)\n"
    )
    environment = {"PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    asked = [sys.executable, "-c", text, str(repository.path)]
    assert subprocess.run(asked, env=environment, capture_output=True, text=True, check=True).stdout == "git_missing\n"


def test_library_uses_our_git_whatever_the_environment_names(repository: Repository, make_trap: MakeTrap) -> None:
    trap = make_trap()
    text = (
        "import os, sys\nfrom pathlib import Path\n"
        "from gatewright.git.host.user_checkout import UserCheckout\n"
        "print(UserCheckout(Path(sys.argv[1]), {'PATH': os.environ['PATH']}).resolve())\n"
        "print(os.environ['GIT_PYTHON_GIT_EXECUTABLE'])\n"
    )
    named = {"GIT_PYTHON_GIT_EXECUTABLE": str(trap.program), "GIT_PYTHON_REFRESH": "raise", "GIT_PYTHON_TRACE": "full"}
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), **named, **IDENTITY}
    asked = [sys.executable, "-c", text, str(repository.path)]
    said = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True).stdout.split()
    assert said == [repository.head(), str(trap.program)]
    assert not trap.sprung


@pytest.mark.parametrize("words", ["--help", "list --help", "run --help", "list", "show no-such-run", "verify no-such-bundle"])
@pytest.mark.every_case
def test_commands_that_read_no_checkout_do_not_load_the_library(words: str, repository: Repository) -> None:
    text = (
        "import atexit, sys\natexit.register(lambda: print('LOADED', 'git' in sys.modules, 'gitdb' in sys.modules))\n"
        "from gatewright.app.cli.main import main\nmain()\n"
    )
    environment = {"PATH": os.environ["PATH"], "HOME": str(repository.home), "PYTHONPATH": os.pathsep.join(sys.path)}
    asked = [sys.executable, "-c", text, *words.split()]
    said = subprocess.run(asked, cwd=repository.path, env=environment, capture_output=True, text=True, check=False)
    assert "LOADED False False" in said.stdout, said.stderr
