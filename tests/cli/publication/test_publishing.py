"""What is published of a run, by the command: every file with what stands beside it, once, and a record that verifies."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from gatewright.app.cli import results
from gatewright.contracts import ArtifactMeta, Publication, codec
from gatewright.evidence.signing.envelopes import open_envelope
from tests.cli.publication.conftest import TOKEN, Desk
from tests.evidence.store.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server
from tests.evidence.store.s3_server import serving as serving_s3

MINISIGN = shutil.which("minisign")


def test_each_file_stands_beside_its_meta_and_signatures(desk: Desk) -> None:
    said = desk.publish("--file", "patch.diff", "--file", "packet.md")
    assert said.exit_code == 0, said
    run = desk.bundle.name
    names = [
        f"{run}/{name}{ending}"
        for name in ("patch.diff", "packet.md")
        for ending in ("", ".meta.json", ".dsse.json", ".minisig")
    ]
    record = said.documents[0]["name"]
    assert sorted(desk.written) == sorted([*names, record])
    assert desk.written[f"{run}/patch.diff"] == (desk.bundle / "patch.diff").read_bytes()
    meta = codec.decode(desk.written[f"{run}/patch.diff.meta.json"], ArtifactMeta)
    manifest = hashlib.sha256((desk.bundle / "manifest.json").read_bytes()).hexdigest()
    assert (meta.classification, meta.pii, meta.findings, meta.manifest_sha256) == ("internal", None, 0, manifest)
    assert meta.sha256 == hashlib.sha256(desk.written[f"{run}/patch.diff"]).hexdigest()
    payload, key = open_envelope(desk.written[f"{run}/patch.diff.dsse.json"], [desk.key.public])
    statement = json.loads(payload)
    assert statement["subject"] == [{"name": "patch.diff", "digest": {"sha256": meta.sha256}}]
    assert statement["predicate"] == json.loads(desk.written[f"{run}/patch.diff.meta.json"])
    assert key == desk.key.public


def test_the_record_lists_every_object_with_its_digest(desk: Desk) -> None:
    said = desk.publish()
    record = codec.decode(json.dumps(said.documents[0]["publication"]).encode(), Publication)
    written = {name: data for name, data in desk.written.items() if name != said.documents[0]["name"]}
    assert {each.path: each.sha256 for each in record.objects} == {
        name: hashlib.sha256(data).hexdigest() for name, data in written.items()
    }
    assert record.key_id == desk.key.public.key_id


def test_a_second_call_changes_nothing_and_succeeds(desk: Desk) -> None:
    first = desk.publish()
    before = desk.written
    again = desk.publish()
    assert again.exit_code == 0
    assert first.documents[0]["new"]
    assert again.documents[0]["new"] == []
    assert again.documents[0]["publication"] == first.documents[0]["publication"]
    assert desk.written == before


def test_signatures_by_an_earlier_key_stay(desk: Desk) -> None:
    desk.publish("--file", "patch.diff")
    before, earlier = desk.written, desk.key.public.key_id
    for ending in ("pem", "pem.pub"):
        (desk.home / f"keys/publication.{ending}").unlink()
    said = desk.publish("--file", "patch.diff", "--file", "packet.md")
    assert said.exit_code == 0, said
    record = codec.decode(json.dumps(said.documents[0]["publication"]).encode(), Publication)
    written = {name: data for name, data in desk.written.items() if "publication-" not in name}
    assert {each.path: each.sha256 for each in record.objects} == {
        name: hashlib.sha256(data).hexdigest() for name, data in written.items()
    }
    assert record.key_id == desk.key.public.key_id != earlier
    assert desk.written.items() > before.items()
    assert {each.code for each in results.list_publications(None)} == {""}


@pytest.mark.parametrize("ending", ["dsse.json", "minisig"])
def test_a_signature_by_a_foreign_key_is_a_conflict(desk: Desk, ending: str) -> None:
    desk.publish("--file", "patch.diff")
    for name in ("publication.pem", "publication.pem.pub", "publication"):
        place = desk.home / "keys" / name
        shutil.rmtree(place) if place.is_dir() else place.unlink()
    other = {"dsse.json": "minisig", "minisig": "dsse.json"}[ending]
    (desk.share / f"{desk.bundle.name}/patch.diff.{other}").unlink()
    assert desk.code("--file", "patch.diff") == "publication_conflict"


@pytest.mark.parametrize("step", range(10))
def test_an_interrupted_publication_is_completed_by_the_next(desk: Desk, step: int) -> None:
    writes = 0

    def die(method: str, _path: str) -> tuple[int, bytes] | None:
        nonlocal writes
        writes += method == "PUT"
        return (0, b"") if writes > step else None

    desk.web.hook = die
    assert desk.code("--file", "patch.diff", "--file", "packet.md", to="http") == "store_unreachable"
    desk.web.hook = None
    said = desk.publish("--file", "patch.diff", "--file", "packet.md", to="http")
    assert said.exit_code == 0, said
    assert len(desk.web.objects) == 10
    assert [entry["code"] for entry in desk.command("publish", "--json").documents[0]["publications"]] == [""]


def test_a_bundle_in_a_sink_verifies_after_it_was_unpacked(desk: Desk) -> None:
    assert desk.publish("--file", "bundle.zip").exit_code == 0
    path = desk.share / desk.bundle.name / "bundle.zip"
    assert desk.command("verify", path).exit_code == 0


def test_s3_takes_the_same_objects(desk: Desk) -> None:
    (desk.folder / "access").write_text(ACCESS_KEY)
    (desk.folder / "secret").write_text(SECRET_KEY)
    for name in ("access", "secret"):
        (desk.folder / name).chmod(0o600)
    files = {"access_key": {"file": str(desk.folder / "access")}, "secret_key": {"file": str(desk.folder / "secret")}}
    with serving_s3(S3Server()) as server:
        store = {"places": [f"s3://{BUCKET}"], "endpoint": server.endpoint, "addressing": "path", "credentials": files}
        (desk.folder / "policies" / "stores.json").write_text(json.dumps({"version": "1", "stores": [store]}))
        desk.sinks({"kind": "s3", "address": f"s3://{BUCKET}", "prefix": "released"}, {})
        assert desk.publish(to="s3").exit_code == 0
        assert desk.publish(to="s3").documents[0]["new"] == []
        assert desk.publish().exit_code == 0
        stored = {key.removeprefix("released/"): versions[-1].data for key, versions in server.objects.items()}
    stored.pop("write-once")
    records = [name for name in stored if "/publication-" in name]
    assert len(records) == 1
    assert {name: data for name, data in stored.items() if name not in records} == {
        name: data for name, data in desk.written.items() if "/publication-" not in name
    }


def test_show_and_verify_list_a_publication(desk: Desk) -> None:
    assert "published" not in desk.command("show", desk.bundle.name).out
    desk.publish()
    assert "published  ✔" in desk.command("show", desk.bundle.name).out
    shown = desk.command("show", desk.bundle.name, "--json").documents[0]["publications"]
    verified = desk.command("verify", desk.bundle.name, "--json").documents[0]
    assert verified["publications"] == shown
    assert verified["ok"]
    assert "✔" in desk.command("publish").out


def test_a_changed_record_fails_verification(desk: Desk) -> None:
    desk.publish()
    file = Path(desk.command("publish", "--json").documents[0]["publications"][0]["file"])
    data = json.loads(file.read_bytes())
    payload = base64.b64decode(data["payload"]).replace(b"packet.md", b"packit.md")
    file.chmod(0o644)
    file.write_text(json.dumps({**data, "payload": base64.b64encode(payload).decode()}, separators=(",", ":"), sort_keys=True))
    assert desk.command("verify", desk.bundle.name).exit_code == 1
    said = desk.command("publish", "--json")
    assert (said.exit_code, said.documents[0]["publications"][0]["code"]) == (1, "bad_signature")


def test_a_key_of_its_own_signs_and_never_that_of_bundles(desk: Desk) -> None:
    desk.publish()
    bundle_key = json.loads((desk.bundle / "manifest.dsse.json").read_bytes())["signatures"][0]["keyid"]
    assert desk.key.public.key_id != bundle_key
    assert desk.key.public.key_id not in {each.stem for each in (desk.home / "keys" / "trusted").glob("*.pub")}


def test_an_inventory_is_offered_only_where_the_run_has_one(desk: Desk) -> None:
    desk.publish()
    assert not [name for name in desk.written if "inventory" in name]
    assert desk.code("--file", "inventory.cdx.json") == "publication_file_unknown"


def test_a_web_server_receives_the_credential(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.web.token = TOKEN
    desk.sinks({"kind": "http", "credentials": {"environment": "TOKEN_OF_A_SINK"}})
    monkeypatch.setenv("TOKEN_OF_A_SINK", TOKEN)
    assert desk.publish(to="http").exit_code == 0
    monkeypatch.setenv("TOKEN_OF_A_SINK", "another")
    assert desk.code(to="http") == "store_denied"


@pytest.mark.skipif(MINISIGN is None, reason="there is no minisign here (Debian: apt install minisign)")
def test_minisign_verifies_a_file_and_refuses_a_changed_one(desk: Desk) -> None:
    desk.publish()
    file = desk.share / desk.bundle.name / "patch.diff"
    public = desk.home / "keys" / "publication" / f"{desk.key.public.key_id}.minisign.pub"
    words = [str(MINISIGN), "-V", "-m", str(file), "-p", str(public)]
    good = subprocess.run(words, capture_output=True, text=True, check=False)
    assert good.returncode == 0, good
    assert desk.bundle.name in good.stdout
    file.chmod(0o644)
    file.write_bytes(file.read_bytes() + b"x")
    assert subprocess.run(words, capture_output=True, check=False).returncode != 0


def test_openssl_verifies_both_signatures_of_minisign(desk: Desk, tmp_path: Path) -> None:
    desk.publish()
    file = desk.share / desk.bundle.name / "patch.diff"
    _, head, comment, both = file.with_name("patch.diff.minisig").read_text().splitlines()
    signed = base64.b64decode(head)
    assert signed[:2] == b"ED"
    digest = hashlib.blake2b(file.read_bytes()).digest()
    tail = signed[10:] + comment.removeprefix("trusted comment: ").encode()
    (tmp_path / "key.pem").write_bytes(desk.key.public.pem())
    for number, (data, signature) in enumerate(((digest, signed[10:]), (tail, base64.b64decode(both)))):
        (tmp_path / "data").write_bytes(data)
        (tmp_path / "sig").write_bytes(signature)
        words = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "key.pem", "-rawin", "-in", "data", "-sigfile", "sig"]
        assert subprocess.run(words, cwd=tmp_path, capture_output=True, check=False).returncode == 0, number
        (tmp_path / "data").write_bytes(data + b"x")
        assert subprocess.run(words, cwd=tmp_path, capture_output=True, check=False).returncode != 0
