"""What is told about a change, with traps in the place of files. Every test runs on overlays and on copies."""

from __future__ import annotations

import pytest

from gatewright.errors import DeniedError
from gatewright.git.changes import FileChange
from gatewright.workspace import ChangeBounds, Workspaces
from tests.workspace.conftest import Project
from tests.workspace.shells import Shell


async def change(workspaces: Workspaces, project: Project, shell: Shell, script: str) -> tuple[FileChange, ...]:
    async with workspaces.open(project.mirror, project.commit) as workspace:
        await shell(workspace, script)
        return await workspace.changes()


@pytest.mark.parametrize(
    "script",
    [
        *(
            "touch README.md",
            "cp README.md x; cat x >README.md; rm x",
            "chmod 600 README.md",
            "chmod 777 run.sh",
            "mkdir -p new/empty",
        ),
        *(
            "rm README.md; echo 'read me' >README.md",
            "rm link; ln -s README.md link",
            "rm -rf only; mkdir only; echo alone >only/one.txt",
        ),
        *(
            "mv src moved; mv moved src",
            "echo x >new; rm new",
            "chmod 000 src/deep; chmod 755 src/deep",
            "touch -h link",
            "chmod 700 .",
        ),
    ],
)
async def test_what_is_the_same_in_the_end_is_no_change(
    workspaces: Workspaces, project: Project, shell: Shell, script: str
) -> None:
    assert await change(workspaces, project, shell, script) == ()


@pytest.mark.parametrize(
    ("script", "changes"),
    [
        ("echo x >README.md", {b"README.md": ("100644", b"x\n")}),
        ("rm README.md", {b"README.md": (None, b"")}),
        ("chmod +x README.md", {b"README.md": ("100755", b"read me\n")}),
        ("chmod -x run.sh", {b"run.sh": ("100644", b"#!/bin/sh\necho run\n")}),
        ("ln -s /etc/shadow out", {b"out": ("120000", b"/etc/shadow")}),
        ("rm README.md; ln -s run.sh README.md", {b"README.md": ("120000", b"run.sh")}),
        ("ln -sfn run.sh link", {b"link": ("120000", b"run.sh")}),
        ("rm link; cp README.md link", {b"link": ("100644", b"read me\n")}),
        ("rm -r only", {b"only/one.txt": (None, b"")}),
        ("rm -r only; echo f >only", {b"only": ("100644", b"f\n"), b"only/one.txt": (None, b"")}),
        ("rm -r only; ln -s src only", {b"only": ("120000", b"src"), b"only/one.txt": (None, b"")}),
        ("rm run.sh; mkdir run.sh; echo f >run.sh/f", {b"run.sh": (None, b""), b"run.sh/f": ("100644", b"f\n")}),
        ("rm run.sh; mkdir run.sh", {b"run.sh": (None, b"")}),
        ("rm src/up; mkdir src/up; echo f >src/up/f", {b"src/up": (None, b""), b"src/up/f": ("100644", b"f\n")}),
        (
            "rm -r src/deep; mkdir src/deep; echo z >src/deep/z",
            {
                b"src/deep/er/x.py": (None, b""),
                b"src/deep/er/y.py": (None, b""),
                b"src/deep/z": ("100644", b"z\n"),
            },
        ),
        ("mv only/one.txt only/two.txt", {b"only/one.txt": (None, b""), b"only/two.txt": ("100644", b"alone\n")}),
        ("mv only gone", {b"only/one.txt": (None, b""), b"gone/one.txt": ("100644", b"alone\n")}),
        ("mkdir -p .git/hooks; echo x >.git/hooks/pre-commit", {b".git/hooks/pre-commit": ("100644", b"x\n")}),
        ("mkdir -p src/.git; echo x >src/.git/config", {b"src/.git/config": ("100644", b"x\n")}),
        (
            "ln README.md hard; echo x >>hard",
            {
                b"README.md": ("100644", b"read me\nx\n"),
                b"hard": ("100644", b"read me\nx\n"),
            },
        ),
        ("echo x >README.md; chmod 000 README.md", {b"README.md": ("100644", b"x\n")}),
        ("mkdir shut; echo x >shut/f; chmod 000 shut/f shut", {b"shut/f": ("100644", b"x\n")}),
        ("echo x >run.sh; chmod 111 run.sh", {b"run.sh": ("100755", b"x\n")}),
        ("touch 'a\tb'", {b"a\tb": ("100644", b"")}),
        ("echo x >odd/-dash; rm 'odd/a b'", {b"odd/-dash": ("100644", b"x\n"), b"odd/a b": (None, b"")}),
    ],
)
async def test_a_change_is_reported_exactly(
    workspaces: Workspaces, project: Project, shell: Shell, script: str, changes: dict[bytes, tuple[str | None, bytes]]
) -> None:
    expected = tuple(FileChange(path, mode, content) for path, (mode, content) in sorted(changes.items()))
    assert await change(workspaces, project, shell, script) == expected


@pytest.mark.parametrize(
    "script",
    [
        *("mkfifo pipe", "rm README.md; mkfifo README.md", "mkdir -p a/b; mkfifo a/b/c"),
        "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => q(sock), Listen => 1) or die'",
    ],
)
async def test_special_file_is_refused(workspaces: Workspaces, project: Project, shell: Shell, script: str) -> None:
    with pytest.raises(DeniedError) as refused:
        await change(workspaces, project, shell, script)
    assert refused.value.reason == "special_file"


async def test_link_is_never_followed(workspaces: Workspaces, project: Project, shell: Shell) -> None:
    """A folder of the baseline becomes a link to the host's files of the same names."""
    changes = await change(workspaces, project, shell, "rm -r only; ln -s /etc only; rm -r src/deep; ln -s / src/deep")
    assert [(made.path, made.content) for made in changes if made.mode] == [(b"only", b"/etc"), (b"src/deep", b"/")]


@pytest.mark.parametrize(
    ("script", "bounds"),
    [
        ("truncate -s 900M sparse", ChangeBounds(content_bytes=1 << 20)),
        ("head -c 600k /dev/zero >a; head -c 600k /dev/zero >b", ChangeBounds(content_bytes=1 << 20)),
        ("for i in $(seq 30); do echo >f$i; done", ChangeBounds(files=20)),
        ("rm -r odd src data", ChangeBounds(files=5)),
        ("for i in $(seq 200); do mkdir d$i; done", ChangeBounds(entries=100)),
        ("perl -e 'for (1..40) { mkdir q(d) x 200; chdir q(d) x 200 } open F, q(>f)'", ChangeBounds()),
    ],
)
@pytest.mark.parametrize("overlay", [True, False])
async def test_change_beyond_its_bounds_is_refused(
    project: Project,
    shell: Shell,
    tmp_path_factory: pytest.TempPathFactory,
    script: str,
    bounds: ChangeBounds,
    *,
    overlay: bool,
) -> None:
    workspaces = Workspaces(tmp_path_factory.mktemp("bounded"), overlay=overlay, bounds=bounds)
    with pytest.raises(DeniedError) as refused:
        await change(workspaces, project, shell, script)
    assert refused.value.reason == "change_too_large"


async def test_large_file_that_did_not_change_is_no_matter(
    project: Project, shell: Shell, tmp_path_factory: pytest.TempPathFactory
) -> None:
    commit = project.repository.commit({"large": b"x" * (3 << 20)})
    await project.mirror.resolve("HEAD")
    workspaces = Workspaces(tmp_path_factory.mktemp("bounded"), overlay=True, bounds=ChangeBounds(content_bytes=1 << 20))
    async with workspaces.open(project.mirror, commit) as workspace:
        await shell(workspace, "touch large; mv large x; mv x large; echo y >small")
        assert await workspace.changes() == (FileChange(b"small", "100644", b"y\n"),)
