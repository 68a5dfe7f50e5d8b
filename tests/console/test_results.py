"""What a run's page lists of deployments and publications: signed records of this host, and those that do not verify."""

from __future__ import annotations

from typing import Any

import pytest

from gatewright.app.deployment.deploying import DEPLOYMENT
from gatewright.app.publication.publishing import PUBLICATION
from gatewright.app.signed_records import DEPLOYMENTS, KEYS, PUBLICATIONS, record_file, result_key
from gatewright.contracts import Deployment, Publication
from gatewright.evidence.signing.durable_files import put_file
from gatewright.evidence.signing.envelopes import Signer
from tests.console.conftest import ServedConsole
from tests.console.test_pages import ask
from tests.view.ledgers import make_run, run_id_of

NOW = "2026-01-01T00:00:00Z"
HOSTILE = "https://a.example/<script>alert(1)</script>"


@pytest.fixture
def run_id(console: ServedConsole) -> str:
    """A run that this host deployed and published."""
    run_id = run_id_of(1)
    console.write(make_run(1))
    key = result_key(console.home, None, ())
    common: dict[str, Any] = {"run_id": run_id, "manifest_sha256": "a" * 64, "key_id": key.public.key_id}
    deployed = Deployment(
        **common, target="staging", policy_sha256="b" * 64, repository="file:///srv/r", ref="refs/heads/main",
        commit="c" * 40, command=("./deploy",), state="READY", started_at=NOW, address=HOSTILE,
    )  # fmt: skip
    published = Publication(**common, sink="store", address=HOSTILE, objects=(), published_at=NOW)
    for folder, data in (
        (DEPLOYMENTS, DEPLOYMENT.sign(deployed, Signer(key))),
        (PUBLICATIONS, PUBLICATION.sign(published, Signer(key))),
    ):
        put_file(record_file(console.home, folder, run_id, "one"), data, mode=0o644)
    return run_id


def part(console: ServedConsole, run_id: str, name: str) -> str:
    page = ask(console, f"/runs/{run_id}")
    assert page.status == 200
    return page.text.partition(f'<ul id="{name}">')[2].partition("</ul>")[0]


def test_the_page_lists_deployments_and_publications(console: ServedConsole, run_id: str) -> None:
    deployed, published = part(console, run_id, "deployments"), part(console, run_id, "publications")
    assert "<b>READY</b> staging" in deployed
    assert "cccccccccccc" in deployed
    assert "store <code>" in published
    assert "0 objects" in published


def test_an_address_of_a_record_is_no_markup(console: ServedConsole, run_id: str) -> None:
    for name in (DEPLOYMENTS, PUBLICATIONS):
        listed = part(console, run_id, name)
        assert "&lt;script&gt;" in listed
        assert "<script>" not in listed


def test_a_changed_record_is_shown_as_not_verified(console: ServedConsole, run_id: str) -> None:
    file = record_file(console.home, DEPLOYMENTS, run_id, "one")
    file.write_bytes(file.read_bytes().replace(b"c", b"d"))
    listed = part(console, run_id, "deployments")
    assert "<b>Not verified.</b> <code>one.dsse.json</code>" in listed
    assert "staging" not in listed


def test_a_record_below_another_run_is_shown_as_not_verified(console: ServedConsole, run_id: str) -> None:
    other = run_id_of(2)
    console.write(make_run(2))
    own = record_file(console.home, PUBLICATIONS, run_id, "one")
    put_file(record_file(console.home, PUBLICATIONS, other, "one"), own.read_bytes(), mode=0o644)
    assert "other_run" in part(console, other, "publications")


def test_a_key_that_cannot_be_read_does_not_hide_the_run(console: ServedConsole, run_id: str) -> None:
    put_file(console.home / KEYS / "broken.pub", b"none", mode=0o644)
    assert "<b>Not verified.</b>" in part(console, run_id, "publications")
