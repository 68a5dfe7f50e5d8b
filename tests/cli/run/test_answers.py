"""Where the change of a run comes from: a pipe, and commits that exist already; and by whom it is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gatewright.app.cli.run import start as start_run
from gatewright.app.cli.run.request import Prepared, prepare
from gatewright.app.cli.user_git import author
from gatewright.contracts.people.authors import commit_author
from gatewright.errors import MalformedError
from gatewright.order_form.run_options import RunOptions
from tests.cli.conftest import MakeRepository
from tests.command_line import invoke

ADA = ("-c", "user.name=Ada", "-c", "user.email=ada@shop.example")
BOB = ("-c", "user.name=Bob", "-c", "user.email=bob@shop.example")


def git(repository: Path, *words: str) -> str:
    return subprocess.run(("git", *words), cwd=repository, check=True, capture_output=True, text=True).stdout.strip()


def commit(repository: Path, who: tuple[str, ...], message: str) -> None:
    git(repository, "add", "-A")
    git(repository, *who, "commit", "-q", "-m", message)


@pytest.fixture
def agents_work(make_repository: MakeRepository) -> Path:
    """A repository whose branch agents/fix has what a patch finds hardest; its default branch went on meanwhile."""
    repository = make_repository("wörk here")
    (repository / "old name.txt").write_text("moved\n" * 20)
    commit(repository, ADA, "second")
    git(repository, "switch", "-q", "-c", "agents/fix")
    (repository / "blob.bin").write_bytes(bytes(range(256)) * 4)
    git(repository, "mv", "old name.txt", "new näme.txt")
    commit(repository, BOB, "rename it")
    (repository / "run.sh").write_text("#!/bin/sh\n")
    (repository / "run.sh").chmod(0o755)
    commit(repository, BOB, "fix the parser\n\nand more")
    git(repository, "switch", "-q", "-")
    (repository / "elsewhere.txt").write_text("e\n")
    commit(repository, ADA, "meanwhile")
    return repository


def options(repository: Path, **changes: object) -> RunOptions:
    given = {"request": "", "repo": str(repository), "allow": ("a.txt",), "tests": ("true",), **changes}
    return RunOptions(**given)  # type: ignore[arg-type]  # valid ones


def taken(repository: Path, prepared: Prepared) -> str:
    """The tree that the patch makes of the default branch."""
    ((_, patch),) = prepared.attachments
    index = repository.parent / "index"
    for words, data in ((("read-tree", "HEAD"), None), (("apply", "--cached", "--binary", "-"), patch)):
        subprocess.run(
            ("git", *words), cwd=repository, check=True, input=data, env={"GIT_INDEX_FILE": str(index), "PATH": "/usr/bin:/bin"}
        )
    return subprocess.run(
        ("git", "write-tree"),
        cwd=repository,
        check=True,
        capture_output=True,
        text=True,
        env={"GIT_INDEX_FILE": str(index), "PATH": "/usr/bin:/bin"},
    ).stdout.strip()


def test_the_commits_of_a_branch_become_one_complete_change(agents_work: Path) -> None:
    prepared = prepare(options(agents_work, head="agents/fix"), agents_work)
    merged = git(agents_work, "merge-tree", "--write-tree", "HEAD", "agents/fix").splitlines()[0]
    assert taken(agents_work, prepared) == merged
    source = prepared.request.source_branch
    assert source is not None
    assert (source.name, source.commits) == ("agents/fix", 2)
    assert source.head == git(agents_work, "rev-parse", "agents/fix")
    assert source.base == git(agents_work, "merge-base", "HEAD", "agents/fix")


def test_the_change_of_a_branch_keeps_its_author_and_title(agents_work: Path) -> None:
    request = prepare(options(agents_work, head="agents/fix"), agents_work).request
    assert request.request == "fix the parser"
    assert request.author is not None
    assert (request.author.name, request.author.email) == ("Bob", "bob@shop.example")
    assert prepare(options(agents_work, head="agents/fix", request="my words"), agents_work).request.request == "my words"


def test_a_branch_of_several_authors_is_by_the_user(agents_work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(agents_work, "switch", "-q", "agents/fix")
    (agents_work / "a.txt").write_text("b\n")
    commit(agents_work, ADA, "another")
    git(agents_work, "switch", "-q", "-")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Carol")
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "carol@shop.example")
    request = prepare(options(agents_work, head="agents/fix"), agents_work).request
    assert request.author is not None
    assert request.author.name == "Carol"


@pytest.mark.parametrize("head", ["no-such-branch", "HEAD", "--output=x", "main~1", ""])
def test_a_branch_that_is_not_there_or_adds_nothing_is_bad_input(agents_work: Path, head: str) -> None:
    with pytest.raises(MalformedError) as refused:
        prepare(options(agents_work, head=head), agents_work)
    assert refused.value.reason == "invalid_input"


def test_a_checked_out_branch_is_refused_with_the_next_step(agents_work: Path) -> None:
    git(agents_work, "switch", "-q", "agents/fix")
    with pytest.raises(MalformedError) as refused:
        prepare(options(agents_work, head="agents/fix"), agents_work)
    assert "give --ref" in refused.value.faults[0].message


def test_a_branch_of_a_repository_elsewhere_is_refused(agents_work: Path) -> None:
    with pytest.raises(MalformedError) as refused:
        prepare(options(agents_work, head="x", repo="https://host.invalid/x.git"), agents_work)
    assert [fault.code for fault in refused.value.faults] == ["not_local"]


@pytest.mark.parametrize(("option", "name"), [("--patch", "patch.diff"), ("--reply", "reply-1")])
def test_a_dash_reads_the_change_from_a_pipe(
    make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch, option: str, name: str
) -> None:
    repository = make_repository("r")
    seen: list[Prepared] = []

    async def look(given: RunOptions, **_others: object) -> int:
        seen.append(prepare(given, repository))
        return 0

    monkeypatch.setattr(start_run, "start_run", look)
    words = ["run", "x", "--repo", str(repository), "--allow", "a", option, "-", "--test", "true"]
    ended = invoke(words, b"from a pipe \xff\n")
    assert ended.returncode == 0, ended.stderr
    assert [prepared.attachments for prepared in seen] == [((name, b"from a pipe \xff\n"),)]


def test_standard_input_cannot_be_read_twice(make_repository: MakeRepository) -> None:
    repository = make_repository("r")
    with pytest.raises(MalformedError) as refused:
        prepare(options(repository, request="x", replies=("-", "-")), repository)
    assert "once only" in refused.value.faults[0].message


def test_the_user_of_git_is_the_author(
    make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    repository = make_repository("r")
    assert author(repository) is None, "an identity that git would have to guess is none"
    (tmp_path / ".gitconfig").write_text("[user]\nname = Ada Löwe\nemail = ada@shop.example\n")
    found = author(repository)
    assert found is not None
    assert (found.name, found.email) == ("Ada Löwe", "ada@shop.example")
    git(repository, "config", "user.name", "Ada at work")
    found = author(repository)
    assert found is not None
    assert found.name == "Ada at work"


@pytest.mark.parametrize(
    ("name", "email", "kept"),
    [
        (
            "Ada\ncommitter Eve <eve@evil.example>",
            "ada@shop.example",
            ("Adacommitter Eve eve@evil.example", "ada@shop.example"),
        ),
        ("Ada \u202eevE", "ada@shop.example>\n<", ("Ada evE", "ada@shop.example")),
        ("A" * 500, "a@b", ("A" * 200, "a@b")),
        ("<>", "a@b", None),
        (" .,", "a@b", None),
        ("Ada", " \n", None),
        ("Ada", "a" * 300, None),
    ],
)
def test_a_name_that_would_forge_a_commit_loses_what_would(name: str, email: str, kept: tuple[str, str] | None) -> None:
    found = commit_author(name, email)
    assert (None if found is None else (found.name, found.email)) == kept
