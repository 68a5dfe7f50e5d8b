"""A repository whose configuration, hooks and object store are hostile: fetching and pushing runs nothing of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gatewright.errors import GitError, MalformedError
from gatewright.git.command import GitCommand
from gatewright.git.mirror import Mirror, Mirrors
from tests.git.repositories import MakeRepository, MakeTrap, Repository

HOOKS = (
    "pre-receive",
    "update",
    "proc-receive",
    "post-receive",
    "post-update",
    "push-to-checkout",
    "reference-transaction",
    "pre-push",
    "post-checkout",
    "pre-auto-gc",
)


def arm(repository: Repository, program: Path) -> None:
    """Set every switch by which a repository makes git run a program."""
    repository.commit({".gitattributes": b"* filter=evil merge=evil diff=evil\n"})
    text = str(program)
    for name in HOOKS:
        repository.hook(name, program)
    repository.configure(
        core__fsmonitor=text,
        core__sshCommand=text,
        core__gitProxy=text,
        core__pager=text,
        core__editor=text,
        core__alternateRefsCommand=text,
        uploadpack__packObjectsHook=text,
        diff__external=text,
        filter__evil__clean=text,
        filter__evil__smudge=text,
        filter__evil__process=text,
        merge__evil__driver=text,
        gpg__program=text,
        credential__helper=f"!{text}",
        receive__denyCurrentBranch="updateInstead",
        receive__autogc="true",
        gc__auto="1",
        gc__recentObjectsHook=text,
        protocol__ext__allow="always",
    )


async def use(mirror: Mirror, repository: Repository) -> str:
    """Fetch, read, push: everything that meets the repository."""
    commit = await mirror.resolve("main")
    entries = await mirror.files(commit)
    await mirror.blobs(entry.object_id for entry in entries)
    await mirror.push(commit, "refs/heads/landed", expected=None)
    assert await mirror.current("refs/heads/landed") == commit == repository.head("landed")
    return commit


async def test_configuration_and_hooks_of_the_source_run_nothing(
    make_repository: MakeRepository, mirrors: Mirrors, make_trap: MakeTrap
) -> None:
    trap = make_trap()
    repository = make_repository()
    arm(repository, trap.program)
    trap.mark.unlink(missing_ok=True)
    mirror = await mirrors.open(repository.url)
    with pytest.raises(GitError) as caught:
        await use(mirror, repository)
    assert caught.value.reason == "target_has_hooks"
    shutil.rmtree(repository.path / ".git" / "hooks")
    await use(mirror, repository)
    assert not trap.sprung


async def test_hook_directory_elsewhere_is_not_used(
    make_repository: MakeRepository, mirrors: Mirrors, make_trap: MakeTrap
) -> None:
    trap = make_trap()
    repository = make_repository()
    for name in HOOKS:
        repository.hook(name, trap.program)
    (repository.path / ".git" / "hooks").rename(repository.path.with_name("hooks"))
    repository.configure(core__hooksPath=repository.path.with_name("hooks"))
    # The trap works: plain git walks into it.
    repository.git("push", "--quiet", repository.url, "main:refs/heads/plain")
    assert trap.sprung
    trap.mark.unlink()
    with pytest.raises(GitError) as caught:
        await use(await mirrors.open(repository.url), repository)
    assert caught.value.reason == "target_has_hooks"
    assert not trap.sprung


async def test_partial_clone_does_not_fetch_what_it_lacks_with_its_own_command(
    make_repository: MakeRepository, mirrors: Mirrors, make_trap: MakeTrap
) -> None:
    """CVE-2024-32004: the missing object of a source makes upload-pack start what the source's configuration says."""
    trap = make_trap()
    repository = make_repository()
    blob = repository.git("rev-parse", "HEAD:README.md").decode().strip()
    repository.configure(
        core__repositoryFormatVersion="1",
        extensions__partialClone="evil",
        remote__evil__url=repository.url,
        remote__evil__promisor="true",
        remote__evil__uploadpack=trap.program,
    )
    (repository.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    repository.git("cat-file", "-p", blob, check=False)
    assert trap.sprung
    trap.mark.unlink()
    mirror = await mirrors.open(repository.url)
    with pytest.raises(GitError):
        await mirror.resolve("main")
    assert not trap.sprung


async def test_command_for_alternate_refs_of_a_target_is_not_run(
    make_repository: MakeRepository, mirrors: Mirrors, make_trap: MakeTrap
) -> None:
    trap = make_trap()
    other = make_repository("other", files={"x": b"x\n"})
    repository = make_repository()
    (repository.path / ".git" / "objects" / "info" / "alternates").write_text(f"{other.path}/.git/objects\n")
    repository.configure(core__alternateRefsCommand=trap.program)
    repository.git("push", "--quiet", repository.url, "main:refs/heads/plain")
    assert trap.sprung
    trap.mark.unlink()
    await use(await mirrors.open(repository.url), repository)
    assert not trap.sprung


async def test_configured_hooks_of_a_target_are_not_run(
    make_repository: MakeRepository, mirrors: Mirrors, make_trap: MakeTrap
) -> None:
    """git 2.54 learned hooks without a hook directory; a target that configures one for pushes is refused."""
    trap = make_trap()
    repository = make_repository()
    repository.git("config", "hook.linter.command", str(trap.program))
    repository.git("config", "hook.linter.event", "pre-commit")
    mirror = await mirrors.open(repository.url)
    commit = await use(mirror, repository)
    included = repository.path.with_name("included.config")
    included.write_text(f'[hook "a=b.c"]\n\tcommand = {trap.program}\n\tevent = post-receive\n')
    repository.configure(include__path=included)
    with pytest.raises(GitError) as caught:
        await mirror.push(commit, "refs/heads/second", expected=None)
    assert caught.value.reason == "target_has_hooks"
    assert not repository.exists("second")
    assert not trap.sprung


async def test_replaced_objects_do_not_change_what_is_read(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    repository = make_repository()
    honest = repository.head()
    evil = repository.commit({"README.md": b"evil\n"})
    repository.git("reset", "--quiet", "--hard", honest)
    repository.git("replace", honest, evil)
    assert repository.git("show", "HEAD:README.md") == b"evil\n"
    mirror = await mirrors.open(repository.url)
    assert await mirror.resolve("main") == honest
    await mirror.ensure(evil)
    # Even a replacement that has found its way into the mirror is not looked at.
    await GitCommand(mirror.path).run("update-ref", f"refs/replace/{honest}", evil)
    (entry,) = await (await Mirrors(mirror.path.parent).open(repository.url)).files(honest, ("README.md",))
    assert await mirror.blob(entry.object_id) == b"read me\n"
    assert b"evil" in await mirror.diff(honest, evil)


async def test_mirror_does_not_depend_on_the_object_store_of_others(
    make_repository: MakeRepository, mirrors: Mirrors, tmp_path: Path
) -> None:
    repository = make_repository()
    repository.git("clone", "--quiet", "--shared", repository.url, str(tmp_path / "shared"))
    mirror = await mirrors.open(str(tmp_path / "shared"))
    commit = await mirror.resolve("main")
    shutil.rmtree(repository.path)
    shutil.rmtree(tmp_path / "shared")
    assert not (mirror.path / "objects" / "info" / "alternates").exists()
    assert not any(
        path.is_symlink() or path.stat().st_nlink > 1 for path in (mirror.path / "objects").rglob("*") if path.is_file()
    )
    entries = await mirror.files(commit)
    assert len(await mirror.blobs(entry.object_id for entry in entries)) == 2


async def test_tree_with_a_git_directory_is_not_let_in(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    """CVE-2014-9390 and its like: git cannot make such a tree, but an attacker can."""
    repository = make_repository()
    blob = repository.git("hash-object", "-w", "--stdin", stdin=b"[core]\n").strip()
    inner = repository.git("mktree", "-z", stdin=b"100644 blob " + blob + b"\tconfig\0").strip()
    outer = repository.git("mktree", "-z", stdin=b"040000 tree " + inner + b"\t.GIT\0").strip().decode()
    commit = repository.git("commit-tree", "-m", "x", outer).decode().strip()
    repository.git("branch", "evil", commit)
    mirror = await mirrors.open(repository.url)
    for name in ("evil", commit):
        with pytest.raises(GitError):
            await mirror.resolve(name)


async def test_submodules_are_not_followed(make_repository: MakeRepository, mirrors: Mirrors, make_trap: MakeTrap) -> None:
    """CVE-2018-17456, CVE-2025-48384: nothing in .gitmodules is acted upon; a harmful one is not let in at all."""
    trap = make_trap()
    repository = make_repository()
    modules = f'[submodule "sub"]\n\tpath = sub\n\turl = ext::{trap.program}\n\tupdate = !{trap.program}\n'
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{repository.head()},sub")
    repository.git("commit", "--quiet", "-m", "link")
    mirror = await mirrors.open(repository.url)
    entries = await mirror.files(await mirror.resolve("main"), ("sub",))
    assert [entry.mode for entry in entries] == ["160000"]
    repository.configure(submodule__recurse="false")
    (repository.path / ".gitmodules").write_text(modules.replace("ext::", "-u"))
    repository.git("add", ".gitmodules")
    repository.git("commit", "--quiet", "-m", "option as a url")
    with pytest.raises(GitError):
        await mirror.resolve("main")
    assert not trap.sprung


@pytest.mark.parametrize(
    "form", ["ext::{}", "--upload-pack={}", "-u{}", "ext::sh -c {}", "ssh://-oProxyCommand={}/x", "fd::{}"]
)
async def test_address_that_is_a_command_is_refused(mirrors: Mirrors, make_trap: MakeTrap, form: str) -> None:
    trap = make_trap()
    with pytest.raises(MalformedError) as caught:
        await mirrors.open(form.format(trap.program))
    assert caught.value.reason == "bad_url"
    assert not trap.sprung


async def test_path_with_shell_characters_is_only_a_path(
    make_repository: MakeRepository, mirrors: Mirrors, tmp_path: Path
) -> None:
    repository = make_repository("a'; touch sprung; $(touch sprung) `touch sprung` *")
    await use(await mirrors.open(repository.url), repository)
    assert not any("sprung" in names for _, _, names in os.walk(tmp_path))


async def test_files_in_the_working_directory_do_not_become_settings(
    make_repository: MakeRepository, mirrors: Mirrors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell that starts upload-pack must not expand ``safe.directory=*``, and git must not look around where we stand."""
    evil = make_repository("evil")
    (evil.path / "safe.directory=x").write_text("")
    evil.configure(core__bare="true", core__repositoryFormatVersion="99")
    monkeypatch.chdir(evil.path)
    repository = make_repository()
    assert await (await mirrors.open(repository.url)).resolve("main") == repository.head()
