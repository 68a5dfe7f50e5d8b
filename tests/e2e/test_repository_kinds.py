"""A whole run on each kind of repository: it lands, or it is refused with a stable code before anything runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import EDIT as EDIT_FILE
from tests.e2e.stack import Stack
from tests.git.repositories import Repository
from tests.workspace.linked_repositories import (
    LFS_ATTRIBUTES,
    add_submodule,
    bump,
    new_repository,
    pointer,
    store_object,
)

EDIT = "python tools/edit.py 0 {paths}"
LOOK = "python tools/look.py"
CONTENT = b"\0content" * 100


def project(place: Path, look: str = "", **files: bytes) -> Repository:
    """Return a repository whose test runs the lines ``look``."""
    place.parent.chmod(0o755)
    made = new_repository(place)
    named = {name.replace("__", "/").replace("_DOT_", "."): content for name, content in files.items()}
    made.commit({"src/a.py": b"a = 1\n", "tools/edit.py": EDIT_FILE, "tools/look.py": look.encode() + b"\n", **named})
    return made


def cloned(source: Repository, place: Path, *words: str) -> Repository:
    source.configure(uploadpack__allowFilter="true", uploadpack__allowAnySHA1InWant="true")
    source.git("clone", "--quiet", *words, f"file://{source.path}", str(place))
    return Repository(place, source.home)


def with_submodule(place: Path) -> Repository:
    library = new_repository(place / "library")
    library.commit({"lib.py": b"one = 1\n"})
    made = project(place / "outer", "assert open('vendor/lib/lib.py').read() == 'one = 1\\n'")
    add_submodule(made, library, "vendor/lib")
    return made


def without_submodule(place: Path) -> Repository:
    return cloned(with_submodule(place), place / "clone")


def with_lfs(place: Path) -> Repository:
    made = project(place / "media", "assert open('a.bin', 'rb').read() == b'\\0content' * 100")
    made.commit({".gitattributes": LFS_ATTRIBUTES, "a.bin": pointer(CONTENT)})
    store_object(made.path / ".git/lfs", CONTENT)
    return made


def without_lfs(place: Path) -> Repository:
    made = with_lfs(place)
    store_object(made.path / ".git/lfs", CONTENT).unlink()
    return made


def described(place: Path) -> Repository:
    look = "import subprocess\nout = subprocess.run(['git', 'describe'], capture_output=True).stdout\n"
    made = project(place / "described", look + "assert out.startswith(b'v1.0-1-g'), out")
    made.git("tag", "-a", "-m", "first", "v1.0")
    made.commit({"b.txt": b"b\n"})
    return made


def sha256(place: Path) -> Repository:
    made = project(place / "sha1")
    other = Repository(place / "sha256", made.home)
    other.path.mkdir()
    other.git("init", "--quiet", "--initial-branch=main", "--object-format=sha256")
    other.commit({name: made.git("show", f"HEAD:{name}") for name in ("src/a.py", "tools/edit.py", "tools/look.py")})
    return other


def shallow(place: Path) -> Repository:
    made = project(place / "whole")
    made.commit({"b.txt": b"b\n"})
    return cloned(made, place / "clone", "--depth=1")


def blobless(place: Path) -> Repository:
    made = project(place / "whole", b__txt=b"old\n")
    made.commit({"b/txt": b"new\n"})
    return cloned(made, place / "clone", "--filter=blob:none")


def treeless(place: Path) -> Repository:
    made = project(place / "whole")
    made.commit({"b.txt": b"new\n"})
    return cloned(made, place / "clone", "--filter=tree:0")


def blobless_and_empty(place: Path) -> Repository:
    return cloned(project(place / "whole"), place / "clone", "--filter=blob:none", "--no-checkout")


def sparse(place: Path) -> Repository:
    made = project(place / "sparse", "assert open('other/x.txt').read() == 'x\\n'", other__x_DOT_txt=b"x\n")
    made.git("sparse-checkout", "set", "src")
    assert not (made.path / "other").exists()
    return made


def worktree(place: Path) -> Repository:
    made = project(place / "main")
    made.git("worktree", "add", "--quiet", "-b", "other", str(place / "tree"))
    return Repository(place / "tree", made.home)


def odd_names(place: Path) -> Repository:
    made = project(place / "odd", "import os\nassert os.listdir(b'data') == [b'\\xff\\xfe']")
    (made.path / "data").mkdir()
    Path(os.fsdecode(bytes(made.path) + b"/data/\xff\xfe")).write_bytes(b"x\n")
    made.commit({})
    return made


def line_ends(place: Path) -> Repository:
    """The checkout has CRLF, the repository LF; a workspace has what the repository stores."""
    made = project(place / "ends", "assert open('src/b.py', 'rb').read() == b'b = 1\\nedited = True\\n'")
    made.commit({".gitattributes": b"*.py text eol=crlf\n", "src/b.py": b"b = 1\n"})
    (made.path / "src/b.py").unlink()
    made.git("checkout", "--", "src/b.py")
    assert b"\r\n" in (made.path / "src/b.py").read_bytes()
    return made


def case_collision(place: Path) -> Repository:
    look = "assert open('Read.txt').read() + open('read.txt').read() == 'Aa'"
    made = project(place / "case", look)
    made.commit({"Read.txt": b"A", "read.txt": b"a"})
    return made


def reftable(place: Path) -> Repository:
    made = project(place / "plain")
    made.git("config", "core.repositoryFormatVersion", "1")
    made.git("config", "extensions.refStorage", "reftable")
    return made


KINDS: dict[str, tuple[Callable[[Path], Repository], str]] = {
    "submodule": (with_submodule, ""),
    "missing submodule": (without_submodule, "submodule_missing"),
    "lfs": (with_lfs, ""),
    "missing lfs object": (without_lfs, "lfs_object_missing"),
    "version from tags": (described, ""),
    "sha256": (sha256, ""),
    "shallow clone": (shallow, ""),
    "blobless clone": (blobless, ""),
    "treeless clone": (treeless, ""),
    "blobless clone without files": (blobless_and_empty, "repository_partial"),
    "sparse checkout": (sparse, ""),
    "linked worktree": (worktree, ""),
    "names that are not UTF-8": (odd_names, ""),
    "line ends by attributes": (line_ends, ""),
    "names that differ by case": (case_collision, ""),
    "reftable without its tables": (reftable, "repository_unreadable"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_repository_of_a_kind_lands_or_is_refused(stack: Stack, tmp_path: Path, kind: str) -> None:
    make, code = KINDS[kind]
    repository = make(tmp_path)
    status, result = stack.run(repository.path, "--allow", "src", "--exec", EDIT, "--test", LOOK)
    if code:
        assert (result["status"], result["failure"]["code"]) == ("FAILED", code)
        return
    assert (status, result["status"]) == (0, "SUCCESS"), result
    assert repository.git("show", f"{result['commit']}:src/a.py") == b"a = 1\nedited = True\n"


WRITES = b"""import pathlib, sys
sys.path.insert(0, "vendor/lib")
import lib
pathlib.Path("src/a.py").write_text("a = 1\\nedited = True\\n")
for name in sys.argv[1:]:
    pathlib.Path(name).write_text("changed\\n")
"""


def run_script(stack: Stack, repository: Repository, words: str, *allow: str) -> tuple[str, str]:
    """Status and failure of a run whose command imports the submodule, and writes to the files in ``words``."""
    repository.commit({"tools/write.py": WRITES})
    allowed = (word for path in ("src", *allow) for word in ("--allow", path))
    _, result = stack.run(repository.path, *allowed, "--exec", f"python tools/write.py {words}".strip(), "--test", LOOK)
    return result["status"], (result["failure"] or {}).get("code", "")


def test_command_may_import_a_submodule(stack: Stack, tmp_path: Path) -> None:
    """Python writes a cache into the submodule; it is no change."""
    assert run_script(stack, with_submodule(tmp_path), "") == ("SUCCESS", "")


def test_command_that_changes_a_submodule_is_refused(stack: Stack, tmp_path: Path) -> None:
    found = run_script(stack, with_submodule(tmp_path), "vendor/lib/lib.py", "vendor")
    assert found == ("FAILED", "submodule_changed")


def test_command_that_writes_content_over_a_pointer_is_refused(stack: Stack, tmp_path: Path) -> None:
    repository = with_lfs(tmp_path)
    repository.commit({"vendor/lib/lib.py": b""})
    assert run_script(stack, repository, "a.bin", "a.bin") == ("FAILED", "lfs_pointer_expected")


@pytest.mark.parametrize(("known", "code"), [(True, ""), (False, "submodule_missing")])
def test_moved_submodule_is_tested_with_its_new_contents(stack: Stack, tmp_path: Path, known: bool, code: str) -> None:
    repository = with_submodule(tmp_path)
    repository.commit({"tools/look.py": b"assert open('vendor/lib/lib.py').read() == 'two = 2\\n'\n"})
    library = Repository(tmp_path / "library", repository.home)
    newer = library.commit({"lib.py": b"two = 2\n"})
    if known:
        repository.git("-C", "vendor/lib", "fetch", "--quiet")
    base = repository.head()
    bump(repository, "vendor/lib", newer)
    patch = tmp_path / "move.patch"
    patch.write_bytes(repository.git("diff", "--binary", "--submodule=short", base, "HEAD"))
    repository.git("reset", "--quiet", "--hard", base)
    words = ("--allow", "vendor", "--allow-kind", "submodule", "--patch", str(patch), "--test", LOOK)
    _, result = stack.run(repository.path, *words)
    assert (result["failure"] or {}).get("code", "") == code
    if known:
        assert repository.git("rev-parse", f"{result['commit']}:vendor/lib").decode().strip() == newer
