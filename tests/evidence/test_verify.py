"""What ``verify`` says: about whole bundles, forged ones, and folders that are none."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import RunManifest, codec
from gatewright.evidence import layout
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import PrivateKey
from gatewright.evidence.verification import reading
from gatewright.evidence.verification.findings import Verification
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from gatewright.run import events as e
from tests.evidence.conftest import MakeBundle
from tests.evidence.recorded_runs import MAKERS, RecordedRun, make_success
from tests.evidence.tampering import files_of, put, read_events, remake_manifest, sign_again, write_events
from tests.evidence.test_writer import bytes_of


def codes(verification: Verification) -> set[tuple[str, str]]:
    return {(finding.code, finding.path) for finding in verification.findings}


@pytest.fixture
def stranger(tmp_path: Path) -> Signer:
    return Signer(keys.create(tmp_path / "stranger.pem"))


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_an_untouched_bundle_is_verified(sealed_bundles: dict[str, Path], private_key: PrivateKey, name: str) -> None:
    found = verify(sealed_bundles[name], [private_key.public])
    assert (found.ok, found.outcome, found.findings) == (True, "ok", ())
    assert found.signer == private_key.public.key_id
    assert found.run_id == "run-a31d0eeaa8061bb92728"
    assert found.status == {"success": "SUCCESS", "fixed": "SUCCESS", "aborted": "ABORTED"}.get(name, "FAILED")
    assert found.files == len(files_of(sealed_bundles[name]))
    assert found.size == sum((sealed_bundles[name] / path).stat().st_size for path in files_of(sealed_bundles[name]))
    assert len(found.checked) == 7
    assert len(found.unchecked) == 4


def test_verifying_writes_nothing(make_bundle: MakeBundle, private_key: PrivateKey) -> None:
    bundle = make_bundle("success")
    before = bytes_of(bundle.parent)
    verify(bundle, [private_key.public])
    assert bytes_of(bundle.parent) == before


def test_a_copy_elsewhere_verifies(make_bundle: MakeBundle, private_key: PrivateKey, tmp_path: Path) -> None:
    shutil.copytree(make_bundle("success"), tmp_path / "far" / "away")
    assert verify(tmp_path / "far" / "away", [private_key.public]).ok


def test_parallel_and_sequential_reading_report_the_same_findings(
    make_bundle: MakeBundle, private_key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = make_bundle("success")
    altered = sorted({*files_of(bundle)} - {layout.MANIFEST, *layout.ENVELOPES})[::3]
    for path in altered:
        data = (bundle / path).read_bytes()
        put(bundle / path, bytes([data[0] ^ 1]) + data[1:] if data else b"x")
    in_turn = verify(bundle, [private_key.public])
    monkeypatch.setattr(reading, "_TOGETHER_FROM", 0)
    at_once = verify(bundle, [private_key.public])
    assert at_once == in_turn
    assert {finding.path for finding in at_once.findings} >= set(altered)
    untouched = verify(make_bundle("fixed"), [private_key.public])
    assert (untouched.ok, untouched.findings) == (True, ())


def test_without_a_trusted_key_nothing_is_verified(sealed_bundles: dict[str, Path]) -> None:
    found = verify(sealed_bundles["success"], [])
    assert (found.ok, found.outcome, found.signer) == (False, "not_verified", "")
    assert codes(found) == {("no_trusted_key", "manifest.dsse.json")}


def test_a_strangers_signature_is_not_ours(
    sealed_bundles: dict[str, Path], make_bundle: MakeBundle, private_key: PrivateKey, stranger: Signer
) -> None:
    untrusted = {("untrusted_key", path) for path in layout.ENVELOPES}
    assert codes(verify(sealed_bundles["success"], [stranger.public])) == untrusted
    bundle = make_bundle("success")
    sign_again(bundle, stranger)
    found = verify(bundle, [private_key.public])
    assert codes(found) == untrusted
    assert found.outcome == "not_verified"
    assert verify(bundle, [stranger.public]).ok


def test_a_manifest_made_anew_without_the_key_is_found_out(make_bundle: MakeBundle, private_key: PrivateKey) -> None:
    bundle = make_bundle("success")
    put(bundle / "patch.diff", b"another patch\n")
    remake_manifest(bundle)
    found = verify(bundle, [private_key.public])
    assert ("manifest_altered", "manifest.json") in codes(found)
    assert {("story_differs", "patch.diff"), ("statement_differs", "manifest.dsse.json")} <= codes(found)


def test_the_signature_of_another_bundle_does_not_fit(
    make_bundle: MakeBundle, sealed_bundles: dict[str, Path], private_key: PrivateKey
) -> None:
    bundle = make_bundle("success")
    put(bundle / "manifest.dsse.json", (sealed_bundles["fixed"] / "manifest.dsse.json").read_bytes())
    assert ("manifest_altered", "manifest.json") in codes(verify(bundle, [private_key.public]))


def reorder(bundle: Path) -> None:
    first, second, third, *rest = read_events(bundle)
    write_events(bundle, [first, third, second, *rest])


def drop_one(bundle: Path) -> None:
    first, _, *rest = read_events(bundle)
    write_events(bundle, [first, *rest])


def drop_last(bundle: Path) -> None:
    write_events(bundle, read_events(bundle)[:-1])


def drop_one_and_chain_anew(bundle: Path) -> None:
    first, _, *rest = read_events(bundle)
    write_events(bundle, [first, *rest], chained=True)


def repeat_one(bundle: Path) -> None:
    first, *rest = read_events(bundle)
    write_events(bundle, [first, first, *rest])


@pytest.mark.parametrize(
    ("attack", "code"),
    [
        (reorder, "chain_order"),
        (drop_one, "chain_order"),
        (repeat_one, "chain_order"),
        (drop_last, "chain_end"),
        (drop_one_and_chain_anew, "chain_end"),
    ],
)
def test_events_can_not_be_reordered_dropped_or_repeated(
    make_bundle: MakeBundle, private_key: PrivateKey, attack: Callable[[Path], None], code: str
) -> None:
    bundle = make_bundle("success")
    attack(bundle)
    found = verify(bundle, [private_key.public])
    assert (code, "events.jsonl") in codes(found)
    assert {path for code, path in codes(found) if code in {"size_differs", "digest_differs"}} == {"events.jsonl"}


class TestWithTheKey:
    """Even whoever has the key can only sign a story that holds together: the last line against a gatekeeper gone wrong."""

    @pytest.fixture
    def resign(self, signer: Signer, private_key: PrivateKey) -> Callable[..., Verification]:
        def resign(bundle: Path, **claims: object) -> Verification:
            remake_manifest(bundle)
            sign_again(bundle, signer, **claims)
            return verify(bundle, [private_key.public])

        return resign

    def test_signing_what_was_there_is_no_fault(self, make_bundle: MakeBundle, resign: Callable[..., Verification]) -> None:
        assert resign(make_bundle("success")).ok

    @pytest.mark.parametrize(
        "path",
        [
            "contract.json",
            "request.json",
            "meta.json",
            "patch.diff",
            "git/patch.diff",
            "diff_name_only.txt",
            "git/landed.json",
            "git/baseline_commit.txt",
            "reports/task_result.json",
            "reports/review_report.json",
            "reports/test_report.json",
            "reports/gates/005-diff-run-a31d0eeaa8061bb92728.plan.w01.json",
            "tasks/run-a31d0eeaa8061bb92728.plan.w01.json",
            "results/run-a31d0eeaa8061bb92728.plan.w01/result.json",
            "results/run-a31d0eeaa8061bb92728.plan.w01/stdout.log",
            "ci/run-a31d0eeaa8061bb92728.test.a1/01-stdout.log",
            "tests/stdout.log",
            "trace/trace_id.txt",
        ],
    )
    def test_a_file_that_contradicts_the_events_is_named(
        self, make_bundle: MakeBundle, resign: Callable[..., Verification], path: str
    ) -> None:
        bundle = make_bundle("success")
        data = (bundle / path).read_bytes()
        put(bundle / path, data.replace(b"0", b"1") if b"0" in data else data + b"0")
        found = resign(bundle)
        assert ("story_differs", path) in codes(found)
        assert found.outcome != "ok"

    def test_an_event_can_not_be_left_out(self, make_bundle: MakeBundle, resign: Callable[..., Verification]) -> None:
        bundle = make_bundle("success")
        records = [record for record in read_events(bundle) if record.payload.get("report", {}).get("gate") != "reviewer"]
        write_events(bundle, records, chained=True)
        found = resign(bundle)
        assert ("story_differs", "reports/task_result.json") in codes(found)
        assert ("story_unknown", "reports/gates/010-landing.json") in codes(found)

    def test_events_that_can_not_happen_are_refused(self, make_bundle: MakeBundle, resign: Callable[..., Verification]) -> None:
        bundle = make_bundle("success")
        records = [record for record in read_events(bundle) if record.payload.get("state") != "S3"]
        write_events(bundle, records, chained=True)
        assert ("bad_event", "events.jsonl") in codes(resign(bundle))

    def test_a_run_without_its_end_is_incomplete(self, make_bundle: MakeBundle, resign: Callable[..., Verification]) -> None:
        bundle = make_bundle("success")
        write_events(bundle, read_events(bundle)[:-3])
        found = resign(bundle)
        assert ("run_not_ended", "events.jsonl") in codes(found)

    def test_a_file_can_not_be_left_out(self, make_bundle: MakeBundle, resign: Callable[..., Verification]) -> None:
        bundle = make_bundle("success")
        (bundle / "reports" / "test_report.json").unlink()
        assert {("required_missing", "reports/test_report.json"), ("story_missing", "reports/test_report.json")} <= codes(
            resign(bundle)
        )

    def test_a_file_that_no_event_speaks_of_is_named(
        self, make_bundle: MakeBundle, resign: Callable[..., Verification]
    ) -> None:
        bundle = make_bundle("success")
        put(bundle / "reports" / "approval.json", b"{}")
        assert ("story_unknown", "reports/approval.json") in codes(resign(bundle))

    def test_a_document_that_its_schema_refuses_is_malformed(
        self, make_bundle: MakeBundle, resign: Callable[..., Verification]
    ) -> None:
        bundle = make_bundle("success")
        put(bundle / "reports" / "test_report.json", b'{"status":"PASS"}')
        found = resign(bundle)
        assert ("schema", "reports/test_report.json") in codes(found)
        assert found.outcome == "malformed"

    def test_a_verdict_missing_from_the_events_is_refused(
        self, make_bundle: MakeBundle, resign: Callable[..., Verification]
    ) -> None:
        found = resign(make_bundle("failed"), verificationResult="PASSED")
        assert codes(found) == {(code, "manifest.dsse.json") for code in ("statement_differs", "statements_contradict")}

    @pytest.mark.parametrize(
        "changes",
        [{"status": "SUCCESS"}, {"user_request": "something else"}, {"tasks": ()}, {"run_id": "run-another"}, {"model": "x"}],
    )
    def test_a_manifest_that_contradicts_the_events_is_refused(
        self, make_bundle: MakeBundle, signer: Signer, private_key: PrivateKey, changes: dict[str, object]
    ) -> None:
        bundle = make_bundle("failed")
        manifest = codec.decode((bundle / layout.MANIFEST).read_bytes(), RunManifest)
        put(bundle / layout.MANIFEST, codec.encode(replace(manifest, **changes)))
        sign_again(bundle, signer)
        found = verify(bundle, [private_key.public])
        assert ("manifest_differs", "manifest.json") in codes(found)

    def test_a_manifest_that_names_another_signer_is_refused(
        self, make_bundle: MakeBundle, signer: Signer, stranger: Signer, private_key: PrivateKey
    ) -> None:
        bundle = make_bundle("success")
        sign_again(bundle, stranger)
        manifest = (bundle / layout.MANIFEST).read_bytes()
        sign_again(bundle, signer)
        put(bundle / layout.MANIFEST, manifest)
        found = codes(verify(bundle, [private_key.public]))
        assert {("signer_differs", "manifest.json"), ("manifest_altered", "manifest.json")} <= found


async def test_a_run_that_goes_on_is_incomplete_and_not_forged(tmp_path: Path, private_key: PrivateKey) -> None:
    recorded = RecordedRun()
    recorded.accept()
    recorded.plan()
    await BundleWriter(tmp_path).append(recorded.run, recorded.records)
    found = verify(tmp_path / recorded.run_id, [private_key.public])
    assert (found.outcome, found.status) == ("incomplete", "RUNNING")
    assert codes(found) == {("not_sealed", "manifest.json"), ("run_not_ended", "events.jsonl")}


def test_a_bundle_without_its_signature_is_not_verified(make_bundle: MakeBundle, private_key: PrivateKey) -> None:
    bundle = make_bundle("success")
    (bundle / "manifest.dsse.json").unlink()
    found = verify(bundle, [private_key.public])
    assert (found.outcome, codes(found)) == ("not_verified", {("not_signed", "manifest.dsse.json")})


def test_an_unsigned_bundle_passes_only_on_explicit_request(make_bundle: MakeBundle, private_key: PrivateKey) -> None:
    bundle = make_bundle("success")
    for envelope in layout.ENVELOPES:
        (bundle / envelope).unlink()
        assert verify(bundle, [private_key.public]).outcome == "not_verified"
    found = verify(bundle, [], insecure_allow_unsigned=True)
    assert found.ok
    assert found.signer == ""
    assert "2 signature" not in found.checked
    assert any("ANYBODY" in words for words in found.unchecked)


def test_half_of_the_signatures_is_not_taken_for_none(make_bundle: MakeBundle, private_key: PrivateKey) -> None:
    for envelope in layout.ENVELOPES:
        bundle = make_bundle("success")
        (bundle / envelope).unlink()
        found = verify(bundle, [private_key.public], insecure_allow_unsigned=True)
        assert codes(found) == {("not_signed", envelope)}
        shutil.rmtree(bundle)


def test_the_two_statements_cannot_stand_for_each_other(make_bundle: MakeBundle, private_key: PrivateKey) -> None:
    bundle = make_bundle("success")
    put(bundle / layout.CHECKS, (bundle / layout.ENVELOPE).read_bytes())
    found = codes(verify(bundle, [private_key.public]))
    assert found == {("statement_differs", layout.CHECKS), ("statements_contradict", layout.ENVELOPE)}


def test_a_bundle_of_an_older_layout_is_not_a_forgery(make_bundle: MakeBundle, signer: Signer) -> None:
    """Layout 1: no layout in the manifest, one envelope, fewer files. Its signature and digests can still be checked."""
    bundle = make_bundle("success")
    for path in (layout.DECISIONS, layout.GIT_BASELINE_TREE):
        (bundle / path).unlink()
    remake_manifest(bundle)
    manifest = codec.decode((bundle / layout.MANIFEST).read_bytes(), RunManifest)
    put(bundle / layout.MANIFEST, codec.encode(replace(manifest, layout=None)))
    sign_again(bundle, signer)
    (bundle / layout.CHECKS).unlink()
    found = verify(bundle, [signer.public])
    assert codes(found) == {("layout_unknown", "manifest.json")}
    assert found.outcome == "malformed"
    assert "verify it with gatewright 0.1.0" in found.findings[0].message
    assert found.signer == signer.key_id
    put(bundle / layout.PATCH, b"forged")
    assert ("size_differs", layout.PATCH) in codes(verify(bundle, [signer.public]))


def test_allowing_no_signature_allows_no_wrong_one_or_changed_file(make_bundle: MakeBundle, private_key: PrivateKey) -> None:
    bundle = make_bundle("success")
    assert verify(bundle, [], insecure_allow_unsigned=True).outcome == "not_verified"
    assert verify(bundle, [private_key.public], insecure_allow_unsigned=True).ok
    envelope = (bundle / layout.ENVELOPE).read_bytes()
    put(bundle / layout.ENVELOPE, envelope.replace(b'"sig":"', b'"sig":"A', 1))
    assert not verify(bundle, [private_key.public], insecure_allow_unsigned=True).ok
    for path in layout.ENVELOPES:
        (bundle / path).unlink()
    put(bundle / layout.PATCH, b"another patch\n")
    assert not verify(bundle, [], insecure_allow_unsigned=True).ok


@pytest.mark.parametrize("make", [Path.exists, Path.touch, Path.mkdir])
def test_a_folder_that_is_no_bundle_is_reported(
    tmp_path: Path, private_key: PrivateKey, make: Callable[[Path], object]
) -> None:
    make(tmp_path / "none")
    found = verify(tmp_path / "none", [private_key.public])
    assert not found.ok
    assert {finding.code for finding in found.findings} & {"not_a_bundle", "not_sealed"}


@pytest.mark.parametrize("path", ["manifest.json", "manifest.dsse.json", "events.jsonl", "reports/test_report.json"])
def test_garbage_is_a_finding_and_not_a_crash(make_bundle: MakeBundle, private_key: PrivateKey, path: str) -> None:
    bundle = make_bundle("failed")
    for data in (b"", b"{}", b"null", b"[" * 100_000, b"\xff\xfe", b'{"run_id":1}', b"0" * 70_000):
        put(bundle / path, data)
        found = verify(bundle, [private_key.public])
        assert path in {finding.path for finding in found.findings}, data[:20]


def test_a_document_without_end_is_not_parsed(
    make_bundle: MakeBundle, private_key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_DOCUMENT_BYTES", 20_000)
    assert ("too_large", "events.jsonl") in codes(verify(make_bundle("success"), [private_key.public]))


def test_a_folder_of_too_many_files_is_no_bundle(
    make_bundle: MakeBundle, private_key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_ENTRIES", 10)
    assert ("too_many_files", "") in codes(verify(make_bundle("success"), [private_key.public]))


def test_every_fault_is_reported_and_not_only_the_first(make_bundle: MakeBundle, private_key: PrivateKey) -> None:
    bundle = make_bundle("success")
    (bundle / "meta.json").unlink()
    put(bundle / "patch.diff", b"x" * (bundle / "patch.diff").stat().st_size)
    (bundle / "extra").write_bytes(b"")
    (bundle / "link").symlink_to("meta.json")
    found = verify(bundle, [private_key.public])
    assert codes(found) == {
        ("symlink", "link"),
        ("file_missing", "meta.json"),
        ("digest_differs", "patch.diff"),
        ("file_unlisted", "extra"),
    }
    assert found.outcome == "malformed"


async def test_lost_evidence_makes_a_bundle_incomplete(tmp_path: Path, signer: Signer, private_key: PrivateKey) -> None:
    recorded = make_success()
    assert recorded.run.tests
    del recorded.store.blobs[recorded.run.tests.commands[1].stdout]
    sealed = await BundleWriter(tmp_path).seal(recorded.run, recorded.transitions, recorded.store, signer, recorded.sequences)
    found = verify(Path(sealed.location), [private_key.public])
    assert (found.outcome, codes(found)) == ("incomplete", {("evidence_lost", "reports/evidence_report.json")})


async def test_a_workers_worthless_report_is_noted_and_does_not_spoil_the_bundle(
    tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    recorded = RecordedRun()
    recorded.accept()
    recorded.plan(shards=1)
    (task,) = recorded.run.workers()
    result = recorded.result(task.task_id, patch=b"p\n")
    junk = recorded.artifact("work_report", b"trust me")
    failed = replace(result, artifacts=(junk,), status="FAILED", failure="executor_failed: no")
    recorded.step(e.LabelledEvent(e.TaskFinished(result=failed, accepted=False), task_id=task.task_id))
    recorded.end("FAILED", "executor_failed", "no")
    sealed = await BundleWriter(tmp_path).seal(recorded.run, recorded.transitions, recorded.store, signer, recorded.sequences)
    found = verify(Path(sealed.location), [private_key.public])
    assert found.ok
    assert any("work_report.json" in line for line in found.unchecked)


def test_every_code_is_in_the_documentation() -> None:
    sources = Path(verify.__code__.co_filename).parent
    code = re.compile(r"""(?:malformed|wrong|incomplete)\(step, "([a-z_]+)"|code="([a-z_]+)"|odd\[path\] = "([a-z_]+)\"""")
    words = (Path(__file__).parents[2] / "docs" / "bundle.md").read_text(encoding="utf-8")
    found = set()
    for name in ("verify", "reading", "document_checks", "projected", "../signing/envelopes"):
        text = (sources / f"{name}.py").read_text(encoding="utf-8")
        found |= {next(filter(None, match)) for match in code.findall(text)}
    assert len(found) > 30
    assert {each for each in found if f"`{each}`" not in words} == set()


def test_every_place_is_in_the_documentation() -> None:
    words = (Path(__file__).parents[2] / "docs" / "bundle.md").read_text(encoding="utf-8")
    for path in (*layout.REQUIRED, layout.REQUEST, *layout.ENVELOPES, layout.GIT_CANDIDATE, layout.GIT_LANDED):
        folder, _, name = path.rpartition("/")
        assert f"`{path}`" in words or (f"`{folder}/`" in words and f"`{name}`" in words) or folder in {"git", "tests"}, path
