"""Blobs in another form than the one in which the repository's own attributes have git store a file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gatewright.contracts import GateReport
from gatewright.contracts.vocabulary import Scope
from tests.attacks.real_gate import RealGate, codes, evidence, open_gate
from tests.git.repositories import MakeRepository, Repository

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 12345\n"
BINARY = bytes(range(256)) * 8
DOS, UNIX = b"a\r\nb\r\n", b"a\nb\n"
SCOPE = Scope(allow=("binary", "gitattributes"))


@pytest.fixture
def make(make_repository: MakeRepository, tmp_path: Path) -> MakeGate:
    return MakeGate(make_repository, tmp_path)


class MakeGate:
    """Gates of repositories with these attributes and files."""

    def __init__(self, make_repository: MakeRepository, folder: Path) -> None:
        self._make, self._folder = make_repository, folder

    @asynccontextmanager
    async def __call__(self, attributes: str, **files: bytes) -> AsyncIterator[RealGate]:
        made = {"README.md": b"x\n", **{f"src/{name.replace('__', '.')}": content for name, content in files.items()}}
        repository = self._make(files=made)
        store(repository, {".gitattributes": attributes.encode(), **made})
        async with open_gate(repository, self._folder, scope=SCOPE) as gate:
            yield gate


def store(repository: Repository, files: Mapping[str, bytes]) -> None:
    """Commit these very bytes: no attribute has a say."""
    for name, content in files.items():
        blob = repository.git("hash-object", "-w", "--no-filters", "--stdin", stdin=content).decode().strip()
        repository.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{name}")
    repository.git("commit", "--quiet", "--message", "as it is")


async def judged(gate: RealGate, files: Mapping[str, bytes]) -> GateReport:
    """The integrated gate's verdict on a change that leaves these very bytes."""
    baseline = gate.repository.head()
    store(gate.repository, files)
    result = await gate.worked(gate.repository.git("diff", "--binary", "--no-renames", baseline, "HEAD"))
    report = await gate.diff(result)
    return await gate.integrated(result, evidence(report)["candidate_tree"]) if report.verdict == "PASS" else report


def is_stored_so(repository: Repository, folder: Path, path: str) -> bool:
    """Whether git, in a fresh clone, would store the file as it lies in the commit."""
    repository.git("clone", "--quiet", str(repository.path), str(folder))
    clone = Repository(folder, repository.home)
    clone.git("add", "--renormalize", ".")
    return not clone.git("diff", "--cached", "--name-only", "--", path)


#: Attributes and content: refused, and with which code.
FORMS = {
    "CRLF, text=auto eol=lf": ("* text=auto eol=lf", DOS, "stored_form_differs"),
    "CRLF, text=auto": ("* text=auto", DOS, "stored_form_differs"),
    "CRLF, text": ("*.txt text", DOS, "stored_form_differs"),
    "CRLF, text eol=crlf": ("*.txt text eol=crlf", DOS, "stored_form_differs"),
    "CRLF, eol=crlf": ("*.txt eol=crlf", DOS, "stored_form_differs"),
    "CRLF, the old name crlf": ("*.txt crlf", DOS, "stored_form_differs"),
    "CRLF, crlf=input": ("*.txt crlf=input", DOS, "stored_form_differs"),
    "CRLF, a macro": ("[attr]words text eol=lf\n*.txt words", DOS, "stored_form_differs"),
    "one CRLF among LF, text": ("* text", b"a\nb\r\nc\n", "stored_form_differs"),
    "CRLF, no text": ("* -text", DOS, None),
    "CRLF, binary": ("*.txt binary", DOS, None),
    "CRLF, no attribute": ("*.md text", DOS, None),
    "CRLF, a later line takes it back": ("* text=auto\n*.txt -text", DOS, None),
    "LF, text eol=crlf": ("* text eol=crlf", UNIX, None),
    "CR alone, text=auto": ("* text=auto", b"a\rb\r\nc\n", None),
    "binary with CRLF, text=auto": ("* text=auto", b"\0\r\n", None),
    "UTF-16, working-tree-encoding": ("*.txt text working-tree-encoding=UTF-16", "a\n".encode("utf-16"), "stored_form_differs"),
    "Latin-1, working-tree-encoding": ("*.txt working-tree-encoding=latin1", b"\xe4\n", "stored_form_differs"),
    "UTF-8, working-tree-encoding": ("*.txt working-tree-encoding=UTF-16", "\u00e4\n".encode(), None),
    "an expanded keyword, ident": ("*.txt ident", b"$Id: 0123456789 $\n", "stored_form_differs"),
    "a keyword, ident": ("*.txt ident", b"$Id$\n", None),
    "an expanded keyword": ("*.txt text", b"$Id: 0123456789 $\n", None),
    "content, lfs": ("*.txt filter=lfs diff=lfs merge=lfs -text", BINARY, "lfs_pointer_expected"),
    "text, lfs": ("*.txt filter=lfs", UNIX, "lfs_pointer_expected"),
    "a pointer without its object, lfs": ("*.txt filter=lfs diff=lfs merge=lfs -text", POINTER, "lfs_object_missing"),
    "an empty file, lfs": ("*.txt filter=lfs", b"", None),
    "a pointer without its size, lfs": ("*.txt filter=lfs", POINTER.partition(b"size")[0], "lfs_pointer_expected"),
    "a pointer with more behind it, lfs": ("*.txt filter=lfs", POINTER + b"secret\n", "lfs_pointer_expected"),
    "a pointer in capitals, lfs": ("*.txt filter=lfs", POINTER.replace(b"a" * 64, b"A" * 64), "lfs_pointer_expected"),
    "plain text, git-crypt": ("*.txt filter=git-crypt diff=git-crypt", UNIX, "filter_not_applied"),
    "ciphertext, git-crypt": ("*.txt filter=git-crypt", b"\0GITCRYPT\0" + BINARY, None),
    "plain text, a key of git-crypt": ("*.txt filter=git-crypt-team", UNIX, "filter_not_applied"),
    "plain text, another filter": ("*.txt filter=nbstripout", UNIX, "filter_not_applied"),
    "plain text, a filter taken back": ("*.txt filter=lfs\n*.txt -filter", UNIX, None),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
async def test_new_file_in_another_form_than_its_attributes_ask_for(name: str, make: MakeGate, tmp_path: Path) -> None:
    attributes, content, code = FORMS[name]
    async with make(attributes) as gate:
        report = await judged(gate, {"src/new.txt": content})
        assert codes(report) == ([code] if code else [])
        if code == "stored_form_differs" and "encoding" not in name:
            assert not is_stored_so(gate.repository, tmp_path / "clone", "src/new.txt")
        elif code is None and "filter" not in attributes:
            assert is_stored_so(gate.repository, tmp_path / "clone", "src/new.txt")


async def test_attributes_of_the_change_itself_decide(make: MakeGate) -> None:
    async with make("*.md text") as gate:
        report = await judged(gate, {"src/.gitattributes": b"*.txt text eol=lf\n", "src/new.txt": DOS})
        assert codes(report) == ["stored_form_differs"]
        assert "text eol=lf" in report.summary


async def test_attributes_of_the_host_and_of_the_mirror_decide_nothing(make: MakeGate) -> None:
    async with make("* text=auto eol=lf") as gate:
        mirror = await gate.gates.mirrors.open(gate.repository.url)
        assert b"-text" in (mirror.path / "info/attributes").read_bytes()
        assert codes(await judged(gate, {"src/new.txt": DOS})) == ["stored_form_differs"]


async def test_file_that_was_in_the_same_form_before_is_remarked(make: MakeGate) -> None:
    async with make("* text", old__txt=DOS) as gate:
        report = await judged(gate, {"src/old.txt": DOS + b"c\r\n"})
        assert codes(report) == []
        assert [(each.rule, each.path) for each in report.remarks] == [("stored_form", "src/old.txt")]


async def test_file_that_text_auto_leaves_alone_is_left_alone(make: MakeGate) -> None:
    async with make("* text=auto", old__txt=DOS, unix__txt=UNIX) as gate:
        report = await judged(gate, {"src/old.txt": DOS + b"c\r\n", "src/unix.txt": DOS})
        assert [(each.code, each.path) for each in report.violations] == [("stored_form_differs", "src/unix.txt")]


async def test_huge_file_of_attributes_fails_closed(make: MakeGate) -> None:
    async with make("# words\n" * 200_000) as gate:
        assert codes(await judged(gate, {"src/new.txt": UNIX})) == ["attributes_too_large"]


REMARKS = {
    "mixed in a new file": (None, b"a\nb\r\nc\n", 2),
    "mixed in a changed file": (UNIX, b"a\nb\nc\r\n", 3),
    "mixed before": (b"a\nb\r\n", b"a\nb\r\nc\n", 0),
    "turned to CRLF": (UNIX, DOS, None),
    "turned to LF": (DOS, UNIX, None),
    "CRLF that stays": (DOS, DOS + b"c\r\n", 0),
    "binary": (UNIX, b"\0a\r\nb\n", 0),
}


@pytest.mark.parametrize("name", REMARKS)
async def test_line_ends_that_a_change_mixes_or_turns_round_are_remarked(name: str, make: MakeGate) -> None:
    before, after, line = REMARKS[name]
    async with make("", **({"file__txt": before} if before is not None else {})) as gate:
        report = await judged(gate, {"src/file.txt": after})
        assert codes(report) == []
        expected = [] if line == 0 else [("line_ends", "src/file.txt", line)]
        assert [(each.rule, each.path, each.line) for each in report.remarks] == expected


async def test_pointers_that_lose_their_filter_are_remarked(make: MakeGate, tmp_path: Path) -> None:
    async with make("*.bin filter=lfs") as prepared:
        store(
            prepared.repository,
            {"src/a.bin": POINTER, "src/b.txt": DOS, "src/c.py": UNIX, "src/.gitattributes": b"*.bin filter=lfs\n"},
        )
        async with open_gate(prepared.repository, tmp_path / "again", scope=SCOPE) as gate:
            report = await judged(gate, {"src/.gitattributes": b"*.bin -filter\n*.txt text\n"})
            assert codes(report) == []
            assert {each.path for each in report.remarks} == {"src/.gitattributes"}
            words = " ".join(each.message for each in report.remarks)
            assert "1 files are pointers of Git LFS" in words
            assert "src/b.txt" in words
