"""Everything that can be done to a bundle, file by file: each is found, and the file is named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gatewright.evidence import layout
from gatewright.evidence.signing.keys import PrivateKey
from gatewright.evidence.verification.findings import Verification
from gatewright.evidence.verification.verify import verify
from tests.evidence.conftest import MakeBundle
from tests.evidence.recorded_runs import MAKERS
from tests.evidence.tampering import CODES, KINDS, UNLISTED_CODES, files_of, put, restore

NAMES = ("extra.json", ".hidden", "manifest.json.bak", "-rf", "new\nline", b"bad\xff".decode(errors="surrogateescape"))


def named(verification: Verification) -> set[str]:
    return {finding.path for finding in verification.findings}


#: What `make test` plays: every kind on the smallest bundle, and one on every file of a whole run.
FEW = {*(("unplanned", kind) for kind in KINDS), ("success", "flip_middle")}


@pytest.mark.parametrize(
    ("run", "kind"),
    [
        pytest.param(run, kind, marks=() if (run, kind) in FEW else pytest.mark.long, id=f"{run}-{kind}")
        for run in MAKERS
        for kind in KINDS
    ],
)
def test_no_file_can_be_changed(
    make_bundle: MakeBundle,
    sealed_bundles: dict[str, Path],
    private_key: PrivateKey,
    record_property: Callable[[str, object], None],
    run: str,
    kind: str,
) -> None:
    bundle, original, trusted = make_bundle(run), sealed_bundles[run], [private_key.public]
    files = files_of(original)
    tampered = 0
    for index, path in enumerate(files):
        if KINDS[kind](bundle, path):
            tampered += 1
            found = verify(bundle, trusted)
            assert found.outcome != "ok", path
            codes = {finding.code for finding in found.findings if finding.path == path}
            assert codes & (UNLISTED_CODES if path in layout.UNLISTED else CODES[kind]), (path, found.findings)
        restore(bundle, original, [path, files[(index + 1) % len(files)]])
    assert tampered > 0
    record_property("tampered", (run, kind, tampered))
    assert verify(bundle, trusted).ok


def test_nothing_can_be_added_at_any_level(make_bundle: MakeBundle, private_key: PrivateKey) -> None:
    bundle, trusted = make_bundle("success"), [private_key.public]
    folders = [bundle, *(path for path in sorted(bundle.rglob("*")) if path.is_dir())]
    assert len(folders) > 10
    for folder in folders:
        for name in NAMES if folder == bundle else NAMES[-2:]:
            path = folder / name
            path.write_bytes(b"")
            found = verify(bundle, trusted)
            shown = os.fsencode(path.relative_to(bundle)).decode(errors="backslashreplace")
            assert [(finding.code, finding.path) for finding in found.findings] == [("file_unlisted", shown)]
            path.unlink()
        empty = folder / "empty"
        empty.mkdir()
        found = verify(bundle, trusted)
        assert [finding.code for finding in found.findings] == ["folder_unlisted"]
        assert named(found) == {str(empty.relative_to(bundle))}
        empty.rmdir()
    assert verify(bundle, trusted).ok


def test_no_link_or_special_file_can_be_added(make_bundle: MakeBundle, private_key: PrivateKey) -> None:
    bundle, trusted = make_bundle("success"), [private_key.public]
    odd = bundle / "reports" / "odd"
    attacks: list[tuple[Callable[[], None], str]] = [
        (lambda: odd.symlink_to("/etc/passwd"), "symlink"),
        (lambda: odd.symlink_to("/"), "symlink"),
        (lambda: odd.symlink_to("nowhere"), "symlink"),
        (lambda: os.mkfifo(odd), "special_file"),
        (lambda: odd.hardlink_to(bundle / "patch.diff"), "hard_link"),
    ]
    for make, code in attacks:
        make()
        found = verify(bundle, trusted)
        assert code in {finding.code for finding in found.findings if finding.path == "reports/odd"}
        assert found.outcome == "malformed"
        odd.unlink()
    assert verify(bundle, trusted).ok


def test_a_folder_can_not_be_moved_away_behind_a_link(make_bundle: MakeBundle, private_key: PrivateKey, tmp_path: Path) -> None:
    bundle = make_bundle("success")
    (bundle / "reports").rename(tmp_path / "reports")
    (bundle / "reports").symlink_to(tmp_path / "reports")
    found = verify(bundle, [private_key.public])
    assert {"reports", "reports/test_report.json"} <= named(found)


def test_an_unlisted_name_in_another_case_is_another_file(make_bundle: MakeBundle, private_key: PrivateKey) -> None:
    bundle = make_bundle("success")
    put(bundle / "Manifest.json", (bundle / "manifest.json").read_bytes())
    assert named(verify(bundle, [private_key.public])) == {"Manifest.json"}
