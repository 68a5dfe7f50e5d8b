"""What an attacker can do to the files of a bundle, with and without the gatekeeper's key."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from gatewright.contracts import OrchestratorEvent, RunManifest, codec
from gatewright.contracts.records import FileRecord
from gatewright.evidence import layout
from gatewright.evidence.signing.envelopes import Signer, payload_of
from gatewright.ledger import chain
from gatewright.run.state import GENESIS


def put(path: Path, data: bytes) -> None:
    """New bytes for a file that is read-only."""
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def files_of(bundle: Path) -> list[str]:
    return sorted(str(path.relative_to(bundle)) for path in bundle.rglob("*") if path.is_file())


def flip(at: Callable[[bytes], int]) -> Callable[[Path, str], bool]:
    """Change one bit of the byte at a place; False where there is none."""

    def tamper(bundle: Path, path: str) -> bool:
        data = (bundle / path).read_bytes()
        if not data:
            return False
        place = at(data)
        put(bundle / path, data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        return True

    return tamper


def truncate(bundle: Path, path: str) -> bool:
    data = (bundle / path).read_bytes()
    put(bundle / path, data[:-1])
    return bool(data)


def empty(bundle: Path, path: str) -> bool:
    data = (bundle / path).read_bytes()
    put(bundle / path, b"")
    return bool(data)


def delete(bundle: Path, path: str) -> bool:
    (bundle / path).unlink()
    return True


def append(bundle: Path, path: str) -> bool:
    put(bundle / path, (bundle / path).read_bytes() + b"\n")
    return True


def prepend(bundle: Path, path: str) -> bool:
    put(bundle / path, b" " + (bundle / path).read_bytes())
    return True


def replace_by_symlink(bundle: Path, path: str) -> bool:
    """To a copy with the right bytes, outside."""
    copy = bundle.parent / "copy"
    put(copy, (bundle / path).read_bytes())
    (bundle / path).unlink()
    (bundle / path).symlink_to(copy)
    return True


def replace_by_hard_link(bundle: Path, path: str) -> bool:
    copy = bundle.parent / "copy"
    put(copy, (bundle / path).read_bytes())
    (bundle / path).unlink()
    (bundle / path).hardlink_to(copy)
    return True


def replace_by_folder(bundle: Path, path: str) -> bool:
    (bundle / path).unlink()
    (bundle / path).mkdir()
    return True


def reorder_lines(bundle: Path, path: str) -> bool:
    """The last line first; False for a file of one line, or of equal ones."""
    lines = (bundle / path).read_bytes().splitlines(keepends=True)
    changed = b"".join([*lines[-1:], *lines[:-1]])
    if changed == b"".join(lines):
        return False
    put(bundle / path, changed)
    return True


def write_again(bundle: Path, path: str) -> bool:
    """The same JSON in another form: a reader of documents sees no difference. False for what is no JSON."""
    try:
        documents = [json.loads(line) for line in (bundle / path).read_bytes().splitlines()]
    except ValueError:
        return False
    if not all(isinstance(document, dict) for document in documents) or not documents:
        return False
    put(bundle / path, b"".join(json.dumps(document, indent=None).encode() + b"\n" for document in documents))
    return True


def swap_with_next(bundle: Path, path: str) -> bool:
    """Exchange two files; False when they are equal."""
    files = files_of(bundle)
    other = files[(files.index(path) + 1) % len(files)]
    mine, theirs = (bundle / path).read_bytes(), (bundle / other).read_bytes()
    put(bundle / path, theirs)
    put(bundle / other, mine)
    return mine != theirs


KINDS: dict[str, Callable[[Path, str], bool]] = {
    "flip_first": flip(lambda data: len(data) - len(data)),
    "flip_middle": flip(lambda data: len(data) // 2),
    "flip_last": flip(lambda data: len(data) - 1),
    "truncate": truncate,
    "empty": empty,
    "delete": delete,
    "append": append,
    "prepend": prepend,
    "symlink": replace_by_symlink,
    "hard_link": replace_by_hard_link,
    "folder": replace_by_folder,
    "reorder_lines": reorder_lines,
    "write_again": write_again,
    "swap": swap_with_next,
}
#: What a listed file that was changed so is found to be.
CODES: dict[str, frozenset[str]] = {
    "flip_first": frozenset({"digest_differs"}),
    "flip_middle": frozenset({"digest_differs"}),
    "flip_last": frozenset({"digest_differs"}),
    "truncate": frozenset({"size_differs"}),
    "empty": frozenset({"size_differs"}),
    "delete": frozenset({"file_missing"}),
    "append": frozenset({"size_differs"}),
    "prepend": frozenset({"size_differs"}),
    "symlink": frozenset({"symlink"}),
    "hard_link": frozenset({"hard_link"}),
    "folder": frozenset({"file_missing", "folder_unlisted"}),
    "reorder_lines": frozenset({"digest_differs"}),
    "write_again": frozenset({"size_differs", "digest_differs"}),
    "swap": frozenset({"size_differs", "digest_differs"}),
}
#: What the manifest and the envelopes, which no list names, are found to be, however they were changed.
UNLISTED_CODES = frozenset(
    {"bad_manifest", "manifest_altered", "not_sealed", "bad_envelope", "bad_signature", "untrusted_key", "bad_statement"}
    | {"not_signed", "symlink", "hard_link", "folder_unlisted", "unreadable"}
)


def restore(bundle: Path, original: Path, paths: Sequence[str]) -> None:
    """Undo: these files as they were."""
    for path in paths:
        target = bundle / path
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        put(target, (original / path).read_bytes())


def read_events(bundle: Path) -> list[OrchestratorEvent]:
    return [codec.decode(line, OrchestratorEvent) for line in (bundle / layout.EVENTS).read_bytes().splitlines()]


def write_events(bundle: Path, records: Sequence[OrchestratorEvent], *, chained: bool = False) -> None:
    """Write other events; ``chained``: with a new chain over them."""
    head, written = GENESIS, []
    for seq, each in enumerate(records, 1):
        record = each
        if chained:
            record = replace(record, seq=seq, prev_hash=head)
            record = replace(record, hash=chain.digest(record))
            head = record.hash
        written.append(codec.encode(record) + b"\n")
    put(bundle / layout.EVENTS, b"".join(written))


def remake_manifest(bundle: Path) -> None:
    """A manifest that fits the files as they are now; the signature stays what it was."""
    manifest = codec.decode((bundle / layout.MANIFEST).read_bytes(), RunManifest)
    assert manifest.integrity
    firsts = {record.path: record.same_as for record in manifest.integrity.files}
    listed = []
    for path in files_of(bundle):
        if path not in layout.UNLISTED:
            data = (bundle / path).read_bytes()
            listed.append(FileRecord(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest()))
    digests = {record.path: record.sha256 for record in listed}
    repeats = {record.path: first for record in listed if digests.get(first := firsts.get(record.path) or "") == record.sha256}
    listed = [replace(record, same_as=repeats.get(record.path)) for record in listed]
    last = read_events(bundle)[-1]
    integrity = replace(manifest.integrity, files=tuple(listed), chain_head=last.hash, chain_length=last.seq)
    hashes = {path: digests[path] for path in manifest.evidence_hashes if path in digests}
    put(bundle / layout.MANIFEST, codec.encode(replace(manifest, integrity=integrity, evidence_hashes=hashes)))


def sign_again(bundle: Path, signer: Signer, **claims: object) -> None:
    """Sign the manifest as it is now, with the old statements, or other claims in the verdict; it names the signer."""
    manifest = codec.decode((bundle / layout.MANIFEST).read_bytes(), RunManifest)
    assert manifest.integrity
    named = codec.encode(replace(manifest, integrity=replace(manifest.integrity, signer=signer.key_id)))
    put(bundle / layout.MANIFEST, named)
    digests = {path: hashlib.sha256((bundle / path).read_bytes()).hexdigest() for path in (layout.MANIFEST, layout.PATCH)}
    for envelope in layout.ENVELOPES:
        statement = json.loads(payload_of((bundle / envelope).read_bytes()))
        for subject in statement["subject"]:
            if subject["name"] in digests:
                subject["digest"] = {"sha256": digests[subject["name"]]}
        statement["predicate"].update(claims if envelope == layout.ENVELOPE else {})
        put(bundle / envelope, signer.envelope(json.dumps(statement, separators=(",", ":"), sort_keys=True).encode()))
