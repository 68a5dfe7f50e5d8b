"""The document of a backup in any shape: read, or refused by name; none of its names leads out of the folder."""

from __future__ import annotations

from pathlib import Path

from gatewright.app.backup.contents import CONTENTS, FORM, check_files, read_backup
from gatewright.errors import MalformedError, VerificationError
from tests.odd_values import Message, few_or_all, odd_bytes

DOCUMENT: Message = {
    "form": FORM,
    "version": "1",
    "created_at": "2026-05-04T10:00:00Z",
    "finished_at": "2026-05-04T10:00:00Z",
    "moment": 5,
    "signing_key": "k",
    "identities": {"worker": "UABC"},
    "bundle_store": "",
    "streams": [
        {
            "stream": "RUNS",
            "sha256": "0",
            "size": 1,
            "messages": 1,
            "last_sequence": 1,
            "config": {"name": "RUNS"},
            "state": {"x": 1},
        }
    ],
    "files": [{"path": "keys/a", "sha256": "0", "size": 1, "mode": 384}],
    "bundles": [{"run_id": "run-0", "sha256": "0", "size": 1, "pruned": False}],
}


@few_or_all
def test_contents_of_any_shape_are_altered_or_read(values: tuple[object, ...], tmp_path: Path) -> None:
    read = 0
    for data in odd_bytes(DOCUMENT, values):
        (tmp_path / CONTENTS).write_bytes(data)
        try:
            contents, _ = read_backup(tmp_path)
            assert not any(".." in place.split("/") or place.startswith("/") for place, _, _ in contents.places())
            read += 1
            check_files(tmp_path, contents)
        except (MalformedError, VerificationError):
            continue
    assert read > 0
