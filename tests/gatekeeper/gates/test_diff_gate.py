"""The diff gate against patches made by plain git in a real repository, as a hostile worker would make them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gatewright.contracts import TaskContract
from gatewright.contracts.vocabulary import Scope
from gatewright.git.mirror import Mirrors
from gatewright.services.gatekeeper.gates.change.candidate import judge_patch
from gatewright.services.gatekeeper.gates.change.secrets import SecretsCheck
from gatewright.services.gatekeeper.policies.load import Policies
from tests.factories import make_contract
from tests.gatekeeper.contexts import make_context
from tests.gatekeeper.recorded import make_open_run
from tests.git.repositories import MakeRepository, Repository

RUN = "run-0123456789"
FILES = {
    "README.md": b"read me\n",
    "src/app.py": b"one\ntwo\n",
    "src/data.bin": b"\0\1\2",
    "src2/other.py": b"other\n",
    "tests/test_app.py": b"def test_app(): assert True\n",
    "pyproject.toml": b"[project]\n",
    "src/migrations/0001.py": b"first\n",
}
Edit = Callable[[Path], object]


def write(name: str, content: bytes) -> Edit:
    def edit(root: Path) -> None:
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)

    return edit


def patch_of(repository: Repository, *edits: Edit) -> bytes:
    """The patch that a worker would hand over after ``edits``."""
    for edit in edits:
        edit(repository.path)
    repository.git("add", "--all", "--force")
    return repository.git("diff", "--cached", "--binary", "--no-renames", "HEAD")


async def judge(
    repository: Repository, patch: bytes, contract: TaskContract, policies: Policies, tmp_path: Path
) -> list[tuple[str, str | None]]:
    mirror = await Mirrors(tmp_path / "judging").open(repository.url)
    baseline = await mirror.resolve("HEAD")
    run = make_open_run(RUN, contract, baseline, await mirror.tree_of(baseline))
    context = make_context(RUN, "diff", policies).of_change(contract, mirror)
    await judge_patch(context, SecretsCheck(), patch, run)
    return [(violation.code, violation.path) for violation in context.report.violations]


async def test_an_edit_inside_the_scope_passes(make_repository: MakeRepository, policies: Policies, tmp_path: Path) -> None:
    repository = make_repository(files=FILES)
    patch = patch_of(repository, write("src/app.py", b"one\n"), write("src/new/deep.py", b"x\n"))
    assert await judge(repository, patch, make_contract(RUN), policies, tmp_path) == []


@pytest.mark.parametrize(
    ("edit", "violation"),
    [
        (write("README.md", b"mine\n"), ("path_out_of_scope", "README.md")),
        (write("src2/other.py", b"mine\n"), ("path_out_of_scope", "src2/other.py")),
        (write("SRC/app.py", b"mine\n"), ("path_out_of_scope", "SRC/app.py")),
        (write(".src/app.py", b"mine\n"), ("path_out_of_scope", ".src/app.py")),
        (lambda root: (root / "README.md").unlink(), ("path_out_of_scope", "README.md")),
        (lambda root: (root / "README.md").rename(root / "src/README.md"), ("path_out_of_scope", "README.md")),
        (lambda root: (root / "src/app.py").rename(root / "app.py"), ("path_out_of_scope", "app.py")),
        (lambda root: (root / "src/link").symlink_to("/etc/passwd"), ("symlink_refused", "src/link")),
        (lambda root: (root / "src/app.py").chmod(0o755), ("executable_refused", "src/app.py")),
        (write("src/.env", b"TOKEN=1\n"), ("path_protected", "src/.env")),
        (write("src/.gitattributes", b"* -diff\n"), ("path_protected", "src/.gitattributes")),
        (write("src/test_app.py", b"pass\n"), ("path_protected", "src/test_app.py")),
        (write("src/package.json", b"{}\n"), ("path_protected", "src/package.json")),
        (write("src/migrations/0001.py", b"changed\n"), ("path_protected", "src/migrations/0001.py")),
        (write("src/blob", b"a\0b"), ("binary_refused", "src/blob")),
        (write("src/huge.txt", b"a" * 1_048_577), ("file_too_large", "src/huge.txt")),
    ],
)
async def test_a_change_beyond_the_contract_is_refused(
    edit: Edit, violation: tuple[str, str], make_repository: MakeRepository, policies: Policies, tmp_path: Path
) -> None:
    repository = make_repository(files=FILES)
    patch = patch_of(repository, edit)
    assert violation in await judge(repository, patch, make_contract(RUN), policies, tmp_path)


async def test_a_submodule_is_refused(make_repository: MakeRepository, policies: Policies, tmp_path: Path) -> None:
    repository = make_repository(files=FILES)
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{repository.head()},src/sub")
    patch = repository.git("diff", "--cached", "--binary", "HEAD")
    assert ("submodule_refused", "src/sub") in await judge(repository, patch, make_contract(RUN), policies, tmp_path)


async def test_a_new_migration_is_let_in(make_repository: MakeRepository, policies: Policies, tmp_path: Path) -> None:
    repository = make_repository(files=FILES)
    patch = patch_of(repository, write("src/migrations/0002.py", b"second\n"))
    assert await judge(repository, patch, make_contract(RUN), policies, tmp_path) == []


@pytest.mark.parametrize(
    ("edit", "scope"),
    [
        (write("src/test_app.py", b"pass\n"), Scope(allow_protected_paths=("src/test_app.py",))),
        (write("src/package.json", b"{}\n"), Scope(allow_dependency_change=True)),
        (write("src/blob", b"a\0b"), Scope(allow=("binary",))),
    ],
)
async def test_the_contract_opens_a_class_by_its_own_field(
    edit: Edit, scope: Scope, make_repository: MakeRepository, policies: Policies, tmp_path: Path
) -> None:
    repository = make_repository(files=FILES)
    patch = patch_of(repository, edit)
    assert await judge(repository, patch, make_contract(RUN, scope=scope), policies, tmp_path) == []


@pytest.mark.parametrize(
    "patch",
    [
        b"not a patch",
        b"--- a/src/app.py\n+++ b/src/app.py\n@@ -1 +1 @@\n-nothing like it\n+x\n",
        b"diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n",
        b"diff --git a/.git/config b/.git/config\nnew file mode 100644\n--- /dev/null\n+++ b/.git/config\n@@ -0,0 +1 @@\n+x\n",
    ],
)
async def test_a_patch_that_git_will_not_have_is_refused(
    patch: bytes, make_repository: MakeRepository, policies: Policies, tmp_path: Path
) -> None:
    repository = make_repository(files=FILES)
    ((code, _),) = await judge(repository, patch, make_contract(RUN), policies, tmp_path)
    assert code in {"patch_malformed", "patch_does_not_apply", "git_path"}


async def test_names_that_are_not_text_are_judged_by_their_bytes(
    make_repository: MakeRepository, policies: Policies, tmp_path: Path
) -> None:
    repository = make_repository(files=FILES)
    inside, outside = b"src/new\nline\xff.py", b"\xffsrc/x.py"
    patch = patch_of(repository, *(write(name.decode("utf-8", "surrogateescape"), b"x\n") for name in (inside, outside)))
    found = await judge(repository, patch, make_contract(RUN), policies, tmp_path)
    assert found == [
        ("path_out_of_scope", r"\xffsrc/x.py"),
        ("name_unreadable", r"src/new\nline\xff.py"),
        ("name_unreadable", r"\xffsrc/x.py"),
    ]
