"""The struct and the JSON Schema give the same verdict on documents that nobody thought of."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatewright.contracts import codec, schemas
from gatewright.contracts.vocabulary import Document
from gatewright.errors import Fault, MalformedError
from tests.contracts.generated import documents, mutated
from tests.series import lengths

#: Faults of the text itself, which a JSON Schema cannot express.
TEXT_CODES = {"not_json", "duplicate_key", "too_deep"}
#: Documents of each kind.
EXAMPLES = pytest.mark.parametrize("examples", lengths(6, 60))
#: Derandomized: the same documents on every machine; a wider search is a matter of raising the number of examples.
SEARCH = settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def decoded(name: str, data: bytes) -> Document | tuple[Fault, ...]:
    """The document, or the faults that it was refused for."""
    try:
        return codec.decode_named(data, name)
    except MalformedError as error:
        return error.faults


def check_agreement(name: str, data: bytes) -> None:
    faults = schemas.fault_report(name, data)
    if not {fault.code for fault in faults} & TEXT_CODES:
        assert schemas.validator(name).is_valid(json.loads(data)) == (not faults)
    outcome = decoded(name, data)
    assert isinstance(outcome, Document) == (not faults)
    if isinstance(outcome, Document):
        check_canonical(name, outcome)
    else:
        assert outcome == faults


def check_canonical(name: str, document: Document) -> None:
    canonical = codec.encode(document)
    assert schemas.fault_report(name, canonical) == ()
    assert codec.decode_named(canonical, name) == document
    assert codec.encode(codec.decode_named(canonical, name)) == canonical


@EXAMPLES
@pytest.mark.parametrize("name", codec.DOCUMENTS)
def test_what_the_schema_calls_valid_is_decoded_and_round_trips(name: str, examples: int) -> None:
    @settings(SEARCH, max_examples=examples)
    @given(documents(name))
    def check(value: Any) -> None:
        data = json.dumps(value).encode()
        assert isinstance(decoded(name, data), Document)
        check_agreement(name, data)

    check()


@EXAMPLES
@pytest.mark.parametrize("name", codec.DOCUMENTS)
def test_a_changed_document_is_judged_alike_by_schema_and_struct(name: str, examples: int) -> None:
    @settings(SEARCH, max_examples=examples)
    @given(mutated(name))
    def check(data: bytes) -> None:
        check_agreement(name, data)

    check()


@SEARCH
@given(data=st.binary(max_size=60), name=st.sampled_from(sorted(codec.DOCUMENTS)))
def test_arbitrary_bytes_are_refused_and_nothing_else_escapes(data: bytes, name: str) -> None:
    assert decoded(name, data) == schemas.fault_report(name, data) != ()
