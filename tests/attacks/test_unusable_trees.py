"""Trees that no system checks out, and names that are not what they look like: refused early, whichever way they come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from gatewright import scope
from gatewright.errors import DeniedError, PatchError, ScopeError
from gatewright.git.changes import FileChange
from gatewright.git.names import LARGEST
from gatewright.services.gatekeeper.policies.load import DiffLimits, Policies
from tests.attacks.real_gate import RealGate, codes, open_gate
from tests.git.repositories import MakeRepository, Repository

FILES = {"src/app.py": b"one\n"}

DEEP = b"src/" + b"d/" * 10_000 + b"f"
DEEPEST_OF_ALL = b"src/" + b"d/" * 1_000_000 + b"f"
LONG = b"src/" + b"/".join([b"n" * 200] * 20)
LONG_NAME = b"src/" + b"n" * 300

MONSTERS: dict[str, tuple[list[bytes], str]] = {
    "10,000 nested folders": ([DEEP], "path_too_long"),
    "a million nested folders": ([DEEPEST_OF_ALL], "path_too_long"),
    "200 nested folders": ([b"src/" + b"d/" * 200 + b"f"], "path_too_deep"),
    "a path of 4 kB": ([LONG], "path_too_long"),
    "a name of 300 bytes": ([LONG_NAME], "name_too_long"),
    "50,000 folders": ([b"src/%05d/f" % number for number in range(50_000)], "too_many_files"),
    "50,000 files": ([b"src/%05d" % number for number in range(50_000)], "too_many_files"),
    "15,000 folders": ([b"src/%05d/f" % number for number in range(15_000)], "too_many_directories"),
    "folders in folders in few files": (
        [b"src/%03d/" % number + b"d/" * 90 + b"f" for number in range(150)],
        "too_many_directories",
    ),
}
#: The ways to say in a patch that a file is new.
FORMS: dict[str, bytes] = {
    "as git writes it": b"diff --git a/%s b/%s\nnew file mode 100644\n--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+x\n",
    "empty": b"diff --git a/%s b/%s\nnew file mode 100644\nindex 0000000..e69de29\n",
    "without git's own header": b"--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+x\n",
    "in quotes": b'diff --git "a/%s" "b/%s"\nnew file mode 100644\n--- /dev/null\n+++ "b/%s"\n@@ -0,0 +1 @@\n+x\n',
    "renamed": b"diff --git a/src/app.py b/%s\nsimilarity index 100%%\nrename from src/app.py\nrename to %s\n",
}

#: Invisible, turning the text round, leading a terminal, or no text at all.
DISGUISES: dict[str, bytes] = {
    "right-to-left override": "src/tab\u202egnp.py".encode(),
    "left-to-right isolate": "src/a\u2066b.py".encode(),
    "zero-width space": "src/a\u200bb.py".encode(),
    "soft hyphen": "src/a\u00adb.py".encode(),
    "byte order mark": "src/\ufeffa.py".encode(),
    "tag letters": "src/a\U000e0061.py".encode(),
    "a filler of Hangul": "src/a\u3164.py".encode(),
    "a combining joiner": "src/a\u034f.py".encode(),
    "a variation of a letter": "src/a\ufe0f.py".encode(),
    "private use": "src/a\ue000.py".encode(),
    "line separator": "src/a\u2028b.py".encode(),
    "C1 control": "src/a\u009bb.py".encode(),
    "escape": b"src/a\x1b[2Jb.py",
    "newline": b"src/a\nb.py",
    "tab": b"src/a\tb.py",
    "bell": b"src/a\x07.py",
    "delete": b"src/a\x7f.py",
    "backslash": b"src/a\\b.py",
    "not UTF-8": b"src/a\xff.py",
    "a surrogate": b"src/a\xed\xa0\x80.py",
    "a folder": "src/a\u202eb/plain.py".encode(),
}
HONEST = [
    "src/caf\u00e9.py",
    "src/\u65b0\u3057\u3044.md",
    "src/\u0628\u0631.txt",
    "src/\u2600\ufe0f.png",
    "src/\U0001f600.md",
    "src/a b.py",
]


@pytest.fixture
async def gate(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[RealGate]:
    async with open_gate(make_repository(files=FILES), tmp_path) as opened:
        yield opened


def patch_of(form: bytes, paths: Iterable[bytes]) -> bytes:
    return b"".join(form % ((path,) * form.count(b"%s")) for path in paths)


def named(repository: Repository, *names: bytes) -> bytes:
    """A patch by git's own plumbing that adds files of these names."""
    blob = repository.git("hash-object", "-w", "--stdin", stdin=b"x\n").strip()
    lines = b"".join(b"100644 " + blob + b"\t" + name + b"\0" for name in names)
    settings = ("-c", "core.protectHFS=false", "-c", "core.protectNTFS=false")
    repository.git(*settings, "update-index", "-z", "--index-info", stdin=lines)
    return repository.git("diff", "--cached", "--binary", "--no-renames", "HEAD")


@pytest.mark.parametrize("what", MONSTERS)
async def test_a_tree_that_cannot_be_used_is_refused(what: str, gate: RealGate) -> None:
    paths, code = MONSTERS[what]
    result = await gate.worked(patch_of(FORMS["as git writes it"], paths))
    report = await gate.diff(result)
    assert codes(report) == [code]


@pytest.mark.parametrize("form", FORMS)
async def test_no_form_of_a_patch_hides_a_path_that_is_too_deep(form: str, gate: RealGate) -> None:
    patch = patch_of(FORMS[form], [b"src/" + b"d/" * 300 + b"f"])
    assert codes(await gate.diff(await gate.worked(patch))) == ["path_too_deep"]


@pytest.mark.parametrize("what", MONSTERS)
async def test_a_role_refuses_such_a_patch_before_git_meets_it(what: str, gate: RealGate) -> None:
    paths, code = MONSTERS[what]
    mirror = await gate.gates.mirrors.open(gate.repository.url)
    with pytest.raises(PatchError) as refused:
        await mirror.apply(gate.run.accepted.baseline_commit, patch_of(FORMS["as git writes it"], paths))
    assert refused.value.reason == code
    assert len(refused.value.message) < 1000


@pytest.mark.parametrize("what", MONSTERS)
async def test_generated_files_keep_to_the_same_limits(what: str, gate: RealGate) -> None:
    paths, code = MONSTERS[what]
    mirror = await gate.gates.mirrors.open(gate.repository.url)
    with pytest.raises(DeniedError) as refused:
        await mirror.write_tree(gate.run.accepted.baseline_commit, [FileChange(path, "100644", b"x\n") for path in paths])
    assert refused.value.reason == code


async def test_what_is_as_large_as_may_be_passes(gate: RealGate) -> None:
    deepest = b"src/" + b"d/" * (LARGEST.depth - 2) + b"f"
    longest = b"src/" + b"/".join([b"n" * 203] * 5)
    paths = [deepest, longest, b"src/" + b"n" * LARGEST.name_bytes, *(b"src/%04d/f" % number for number in range(2000))]
    assert len(longest) <= LARGEST.path_bytes
    assert codes(await gate.diff(await gate.worked(patch_of(FORMS["as git writes it"], paths)))) == []


async def test_what_the_baseline_holds_already_may_be_changed(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files=FILES)
    old = [b"src/" + b"d/" * 300 + b"f", LONG_NAME[:255] + b"/\xe2\x80\xae", "src/\u202eold/known.py".encode()]
    named(repository, *old)
    repository.git("commit", "--quiet", "-m", "as it is")
    async with open_gate(repository, tmp_path) as gate:
        edit = b"diff --git a/%s b/%s\n--- a/%s\n+++ b/%s\n@@ -1 +1 @@\n-x\n+y\n"
        patch = patch_of(edit, old[:2]) + patch_of(FORMS["as git writes it"], ["src/\u202eold/new.py".encode()])
        assert codes(await gate.diff(await gate.worked(patch))) == []


@pytest.mark.parametrize("what", DISGUISES)
async def test_a_name_in_disguise_is_refused_in_a_patch(what: str, gate: RealGate) -> None:
    patch = named(gate.repository, DISGUISES[what])
    assert "name_unreadable" in codes(await gate.diff(await gate.worked(patch)))


@pytest.mark.parametrize("what", sorted(DISGUISES.keys() - {"not UTF-8", "a surrogate"}))
def test_the_same_name_is_refused_in_a_reply_and_in_a_contract(what: str) -> None:
    with pytest.raises(ScopeError):
        scope.check_path(DISGUISES[what].decode())


async def test_honest_names_pass_in_a_patch_as_in_a_reply(gate: RealGate) -> None:
    assert codes(await gate.diff(await gate.worked(named(gate.repository, *(name.encode() for name in HONEST))))) == []
    assert [scope.check_path(name) for name in HONEST] == HONEST


async def test_an_operator_may_set_narrower_limits(gate: RealGate) -> None:
    result = await gate.worked(named(gate.repository, b"src/a/b/c/d.py"))
    assert codes(await gate.diff(result)) == []
    protected = gate.gates.policies.protected
    limits = protected.limits.model_copy(update={"max_path_depth": 4})
    policies = replace(gate.gates.policies, protected=protected.model_copy(update={"limits": limits}))
    narrow = replace(gate, gates=replace(gate.gates, policies=policies))
    assert codes(await narrow.diff(result)) == ["path_too_deep"]


def test_no_policy_sets_wider_limits_than_every_role_holds_to(policies: Policies) -> None:
    limits = policies.protected.limits.model_dump()
    with pytest.raises(ValidationError):
        DiffLimits.model_validate({**limits, "max_path_depth": LARGEST.depth + 1})
