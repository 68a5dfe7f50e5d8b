"""How far a diff moves versions: only what is plainly a move up is one, and nothing hostile beside it."""

from __future__ import annotations

import pytest

from gatewright.git.patches.version_moves import version_move
from tests.git.repositories import MakeRepository

PINS = b"alpha==1.2.3\nbeta>=0.4.0,!=0.4.9\ngamma==2.0.0rc1\nhost==10.0.0.1\ndelta==1.2\n"
HASHED = b"alpha==1.2.3 \\\n    --hash=sha256:" + b"a" * 64 + b"\nbeta==1.0.0 \\\n    --hash=sha256:" + b"b" * 64 + b"\n"
LOCK = (
    b'{\n  "packages": {\n    "node_modules/x": {\n      "version": "1.2.3",\n'
    b'      "resolved": "https://registry.example.org/x/-/x-1.2.3.tgz",\n      "integrity": "sha512-'
    + b"A" * 86
    + b'=="\n    }\n  }\n}\n'
)

MOVES: dict[str, tuple[bytes, bytes, str | None]] = {
    "a patch": (PINS, PINS.replace(b"1.2.3", b"1.2.4"), "patch"),
    "a minor": (PINS, PINS.replace(b"1.2.3", b"1.3.0"), "minor"),
    "a major": (PINS, PINS.replace(b"1.2.3", b"2.0.0"), "major"),
    "the widest of two": (PINS, PINS.replace(b"1.2.3", b"1.2.9").replace(b">=0.4.0", b">=0.5.0"), "minor"),
    "many digits": (PINS, PINS.replace(b"1.2.3", b"1.2.10"), "patch"),
    "with its digest": (HASHED, HASHED.replace(b"1.2.3", b"1.2.4").replace(b"a" * 64, b"c" * 64), "patch"),
    "with more digests": (
        HASHED,
        HASHED.replace(b"1.2.3", b"1.2.4").replace(b"a" * 64, b"c" * 64 + b" \\\n    --hash=sha256:" + b"d" * 64),
        "patch",
    ),
    "in a lock of npm": (LOCK, LOCK.replace(b"1.2.3", b"1.2.4").replace(b"A" * 86, b"B" * 86), "patch"),
    "down": (PINS, PINS.replace(b"1.2.3", b"1.2.2"), None),
    "up and down": (PINS, PINS.replace(b"1.2.3", b"1.2.4").replace(b">=0.4.0", b">=0.3.9"), None),
    "of another name": (PINS, PINS.replace(b"alpha==1.2.3", b"a1pha==1.2.4"), None),
    "to a release candidate": (PINS, PINS.replace(b"1.2.3", b"1.2.4rc1"), None),
    "to a local build": (PINS, PINS.replace(b"1.2.3", b"1.2.4+evil"), None),
    "to a fourth number": (PINS, PINS.replace(b"1.2.3", b"1.2.3.1"), None),
    "of an address": (PINS, PINS.replace(b"10.0.0.1", b"10.0.0.2"), None),
    "of two numbers": (PINS, PINS.replace(b"==1.2\n", b"==1.3\n"), None),
    "with a zero before": (PINS, PINS.replace(b"1.2.3", b"1.2.04"), None),
    "from exact to any": (PINS, PINS.replace(b"alpha==1.2.3", b"alpha>=1.2.4"), None),
    "with a word behind": (PINS, PINS.replace(b"1.2.3", b"1.2.4 --index-url https://evil.example"), None),
    "and a line more": (PINS, PINS.replace(b"1.2.3", b"1.2.4") + b"evil==1.0.0\n", None),
    "and a line less": (PINS, PINS.replace(b"1.2.3", b"1.2.4").replace(b"delta==1.2\n", b""), None),
    "of two lines that changed places": (b"a==1.0.0\nb==1.0.1\n", b"b==1.0.1\na==1.0.0\n", None),
    "of a digest alone": (HASHED, HASHED.replace(b"b" * 64, b"e" * 64), None),
    "and of another's digest": (
        HASHED + b"\n" * 9 + HASHED.replace(b"alpha", b"gamma"),
        HASHED.replace(b"1.2.3", b"1.2.4") + b"\n" * 9 + HASHED.replace(b"alpha", b"gamma").replace(b"b" * 64, b"e" * 64),
        None,
    ),
    "from another registry": (
        LOCK,
        LOCK.replace(b"1.2.3", b"1.2.4").replace(b"registry.example.org", b"evil.example.org"),
        None,
    ),
    "of one line in two ways": (b"a==1.0.0  # was 1.0.5\n", b"a==1.0.1  # was 1.0.7\n", None),
    "of words": (b"read me\n", b"read me again\n", None),
    "without an end of line": (b"a==1.0.0", b"a==1.0.1", None),
    "to nothing": (PINS, PINS, None),
}


@pytest.mark.parametrize(("before", "after", "move"), MOVES.values(), ids=MOVES)
def test_only_what_is_plainly_a_move_up_is_one(
    before: bytes, after: bytes, move: str | None, make_repository: MakeRepository
) -> None:
    repository = make_repository(files={"requirements.txt": before})
    (repository.path / "requirements.txt").write_bytes(after)
    assert version_move(repository.git("diff", "--binary", "--no-renames")) == move


def test_a_new_deleted_or_mode_changed_file_is_no_move(make_repository: MakeRepository) -> None:
    repository = make_repository(files={"a.txt": b"a==1.0.0\n", "b.txt": b"b==1.0.0\n"})
    (repository.path / "a.txt").write_bytes(b"a==1.0.1\n")
    plain = repository.git("diff", "--binary", "--no-renames")
    assert version_move(plain) == "patch"
    for change in ("new", "mode", "gone", "binary"):
        repository.git("reset", "--quiet", "--hard")
        (repository.path / "a.txt").write_bytes(b"a==1.0.1\n")
        match change:
            case "new":
                (repository.path / "c.txt").write_bytes(b"c==1.0.0\n")
            case "mode":
                (repository.path / "b.txt").chmod(0o755)
            case "gone":
                (repository.path / "b.txt").unlink()
            case _:
                (repository.path / "b.txt").write_bytes(b"\0b==1.0.1\n")
        repository.git("add", "--all")
        assert version_move(repository.git("diff", "--cached", "--binary", "--no-renames")) is None, change


def test_what_is_no_patch_moves_nothing() -> None:
    for data in (b"", b"\0", b"@@ -1 +1 @@\n-a==1.0.0\n", b"@@ -1,999999999 +1,999999999 @@\n" + b"-1.0.0\n" * 9, b"rubbish"):
        assert version_move(data) is None
