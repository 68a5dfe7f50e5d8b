"""``gatewright show --as`` and ``--packet``: from the bundle alone, with or without a running system."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest

from gatewright.app.cli.show import READ_MODELS
from gatewright.app.cli.work_documents import KINDS
from gatewright.contracts import codec
from gatewright.evidence import layout
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.writer import BundleWriter
from tests.cli.conftest import Command
from tests.cli.test_report import make_bundle
from tests.evidence.remembered_runs import BOUNDS, make_entry, make_memory, make_remembered

SCHEMAS = {
    "brief": "brief.v1",
    "done": "done.v1",
    "decisions": "decisions_log.v1",
    "trail": "revision_trail.v1",
    "provenance": "provenance_manifest.v1",
}


@pytest.mark.parametrize("kind", sorted(SCHEMAS))
def test_run_is_shown_as_a_valid_document(gatewright: Command, tmp_path: Path, kind: str) -> None:
    bundle = make_bundle(tmp_path)
    said = gatewright("show", bundle.name, "--as", kind, "--json")
    assert said.exit_code == 0
    codec.decode_named(said.out.encode(), SCHEMAS[kind])
    assert gatewright("show", bundle, "--as", kind).out.strip()


@pytest.mark.parametrize("kind", READ_MODELS)
def test_roles_are_shown_as_read_models_of_the_contracts(gatewright: Command, tmp_path: Path, kind: str) -> None:
    bundle = make_bundle(tmp_path)
    said = gatewright("show", bundle.name, "--as", kind, "--json")
    assert said.exit_code == 0
    codec.decode_named(said.out.encode(), f"{kind}.v1")
    assert said.documents[0]["execution_authority"] == "task_contract"
    assert gatewright("show", bundle, "--as", kind, "--json").documents == said.documents
    assert "execution_authority: task_contract" in gatewright("show", bundle, "--as", kind).out
    refused = gatewright("show", "run-" + "0" * 20, "--as", kind, "--json")
    assert refused.documents[0]["error"]["code"] == "run_unknown"


def test_the_digest_in_the_bindings_is_that_of_the_bundles_contract(gatewright: Command, tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path)
    said = gatewright("show", bundle.name, "--as", "role_binding_summary", "--json")
    digest = hashlib.sha256((bundle / layout.CONTRACT).read_bytes()).hexdigest()
    assert said.documents[0]["contract_sha256"] == digest


def test_run_that_is_not_blocked_has_no_such_document(gatewright: Command, tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path)
    said = gatewright("show", bundle.name, "--as", "blocked", "--json")
    assert said.exit_code == 2
    assert said.documents[0]["error"]["code"] == "not_blocked"


def test_packet_and_memory_are_files_of_the_bundle(gatewright: Command, tmp_path: Path) -> None:
    said = gatewright("show", make_bundle(tmp_path).name, "--as", "memory", "--json")
    assert said.exit_code == 2
    assert said.documents[0]["error"]["code"] == "no_such_document"
    memory = make_memory(make_entry(1, touched=("src/\\033[2J.py",)))
    run = make_remembered("cured", memory=memory, bounds=BOUNDS)
    signer = Signer(keys.load_or_create(tmp_path / "other.pem"))
    writer = BundleWriter(tmp_path / "elsewhere")
    made = asyncio.run(writer.seal(run.run, run.transitions, run.store, signer, run.sequences))
    for kind, schema in (("progress", "progress_packet.v1"), ("memory", "canonical_memory.v1")):
        said = gatewright("show", made.location, "--as", kind, "--json")
        assert said.exit_code == 0
        codec.decode_named(said.out.encode(), schema)
        words = gatewright("show", made.location, "--as", kind)
        assert "src/" in words.out
        assert "\x1b" not in words.out


def test_unknown_kind_is_bad_input_and_names_those_that_there_are(gatewright: Command, tmp_path: Path) -> None:
    make_bundle(tmp_path)
    said = gatewright("show", "--as", "poem")
    assert said.exit_code == 2
    assert all(kind in said.err for kind in KINDS)


def test_packet_of_the_newest_run_is_markdown(gatewright: Command, tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path)
    said = gatewright("show", "--packet")
    assert said.exit_code == 0
    assert said.out.startswith("> Verified: ")
    assert "### Delivery Packet" in said.out
    assert gatewright("show", bundle, "--packet", "--json").documents[0]["packet"].rstrip() == said.out.rstrip()
