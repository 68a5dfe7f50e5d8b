"""Grants on the command line: when they end, what they repeat of a request, and how they are listed and signed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gatewright.app.cli.people.granting import end_of, grant_like, grants_table
from gatewright.app.cli.people.signing import public_key, sign_document
from gatewright.contracts import ApprovalList, codec
from gatewright.errors import MalformedError
from gatewright.evidence.signing import keys
from gatewright.resources import schema_directory
from gatewright.rules.grants import GRANT_NAMESPACE
from gatewright.ssh_signatures import verify_ssh

NOW = datetime(2026, 5, 4, 11, tzinfo=UTC)
EXAMPLE = schema_directory() / "examples" / "approval_list.v1" / "valid" / "full.json"


def test_an_end_accepts_everyday_time_formats() -> None:
    assert end_of("90m", NOW) - NOW == timedelta(minutes=90)
    assert end_of("4h", NOW) - NOW == timedelta(hours=4)
    assert end_of("2d", NOW) - NOW == timedelta(days=2)
    assert end_of("2026-05-04T18:00+02:00", NOW) == datetime(2026, 5, 4, 16, tzinfo=UTC)
    today = end_of("18:00", NOW).astimezone()
    assert (today.date(), today.hour, today.minute) == (NOW.astimezone().date(), 18, 0)


@pytest.mark.parametrize("words", ["", "soon", "25:00", "2026-05-04T18:00", "-4h", "4w", "9999999999d"])
def test_what_is_no_end_is_refused(words: str) -> None:
    with pytest.raises(MalformedError) as refusal:
        end_of(words, NOW)
    assert refusal.value.reason == "bad_time"


def test_a_grant_copies_rule_and_repository_of_its_request(tmp_path: Path) -> None:
    request = codec.decode(EXAMPLE.read_bytes(), ApprovalList).approvals[0].request
    until = NOW + timedelta(hours=1)
    grant = grant_like(request, "ana", NOW, until, paths=["docs/"], max_uses=2, risk_at_most="low")
    assert (grant.repository, grant.rule, grant.reason) == (request.repository, request.rule, request.reason)
    assert grant.grant_id != grant_like(request, "ana", NOW, until, paths=["docs/"], max_uses=2, risk_at_most="low").grant_id
    keys.create(tmp_path / "key.pem")
    signed = sign_document(grant, tmp_path / "key.pem", GRANT_NAMESPACE)
    verify_ssh(public_key(tmp_path / "key.pem"), GRANT_NAMESPACE, signed.document.encode(), signed.signature)
    wrongs: tuple[dict[str, object], ...] = ({"paths": []}, {"paths": ["*"]}, {"paths": ["docs/"], "classes": ["protected"]})
    for wrong in wrongs:
        with pytest.raises(MalformedError) as refusal:
            grant_like(request, "ana", NOW, until, **{"max_uses": 2, "risk_at_most": "low", **wrong})
        assert refusal.value.reason == "bad_grant"


def test_the_list_shows_owner_end_frequency_and_scope() -> None:
    found = codec.decode(EXAMPLE.read_bytes(), ApprovalList).grants
    line = grants_table(found)[1]
    for words in ("grant-0123456789abcdef", "revoked", "1/5", "ana: dependencies", "(dependencies)", "pay.git"):
        assert words in line
