"""Secrets in documents on the bus: refused from outside, taken out of what roles say."""

from __future__ import annotations

import base64

import pytest
from msgspec.structs import replace

from gatewright.contracts import codec
from gatewright.contracts.vocabulary import Artifact
from gatewright.errors import MalformedError
from gatewright.secrets.documents import _document_texts, _texts, check_document, redact_document, redacted_places
from tests.attacks import planted
from tests.attacks.real_gate import default_scanner, make_review
from tests.factories import make_contract, make_request

SCANNER = default_scanner()
TREE = "1" * 40


def test_a_refused_secret_is_reported_with_its_place_not_value() -> None:
    request = make_request(request=f"deploy with {planted.GITHUB}")
    with pytest.raises(MalformedError) as refused:
        check_document(request, SCANNER)
    assert refused.value.reason == "secret_found"
    assert [(fault.pointer, fault.code) for fault in refused.value.faults] == [("/request", "secret_found")]
    assert planted.GITHUB not in str(refused.value) + repr(refused.value.faults)


def test_an_escape_of_json_hides_nothing() -> None:
    escaped = "".join(f"\\u{ord(char):04x}" for char in planted.GITHUB)
    data = codec.encode(make_contract()).replace(b"modernise the sources", f"use {escaped}".encode())
    with pytest.raises(MalformedError, match="/inputs/spec"):
        check_document(codec.decode(data, type(make_contract())), SCANNER)


def test_documents_without_secrets_pass() -> None:
    for document in (make_contract(), make_request()):
        check_document(document, SCANNER)
        assert redact_document(document, SCANNER) == (document, ())


def test_inline_artifacts_are_the_publishers_own() -> None:
    """They are judged as what they are used for: a patch by the diff gate, on the objects that it leads to."""
    uri = "data:;base64," + base64.b64encode(planted.GITHUB.encode()).decode()
    request = make_request(artifacts=(Artifact(name="patch", uri=uri, sha256="0" * 64),))
    check_document(request, SCANNER)
    # What a role reports is not: there the same text is found.
    assert [place.partition(" ")[0] for place in redact_document(request, SCANNER)[1]] == ["/artifacts/0/uri"]


def test_a_text_that_calls_itself_inline_hides_nothing() -> None:
    with pytest.raises(MalformedError, match="/request"):
        check_document(make_request(request=f"data:,{planted.GITHUB}"), SCANNER)
    clean, _ = redact_document(make_review(TREE, summary=f"data:,{planted.GITHUB}"), SCANNER)
    assert planted.GITHUB not in clean.summary


def test_answers_of_a_role_are_kept_without_secrets() -> None:
    said = make_review(TREE, summary=f"saw {planted.GITHUB}", evidence=("harmless", planted.PRIVATE_KEY))
    clean, places = redact_document(said, SCANNER)
    assert clean.summary == "saw [redacted:github_token]"
    assert clean.evidence[0] == "harmless"
    assert places == ("/summary github_token", "/evidence/1 private_key")
    assert redacted_places(clean) == (("/summary", "github_token"), ("/evidence/1", "private_key"))
    assert redact_document(clean, SCANNER) == (clean, ())


def test_a_document_without_secrets_is_the_very_same() -> None:
    said = make_review(TREE)
    assert redact_document(said, SCANNER)[0] is said


def test_a_secret_where_only_an_id_may_stand_leaves_no_document() -> None:
    with pytest.raises(MalformedError):
        redact_document(replace(make_review(TREE), run_id=planted.GITHUB), SCANNER)


@pytest.mark.parametrize("inline", [True, False])
def test_the_look_at_everything_sees_each_text_that_has_a_place(inline: bool) -> None:
    value = {"uri": "data:x", "more": [{"uri": "data:y", "a": ["b", ("c", 1, None)]}, "data:z", {"uri": ["data:q"]}]}
    placed = [text for text in _texts(value, "") if inline or text.pointer not in ("/uri", "/more/0/uri")]
    assert _document_texts(value, inline=inline) == [text.content for text in placed]
    assert len(placed) == (6 if inline else 4)
