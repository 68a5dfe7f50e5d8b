"""What was a valid document stays one, and what was refused stays refused at the same places."""

from __future__ import annotations

import json
from itertools import islice

import pytest

from gatewright.contracts import codec
from tests.contracts.frozen_verdicts import FROZEN, compare, examples, made
from tests.series import lengths

#: Documents in one of four parts.
EXAMPLES = pytest.mark.parametrize("number", lengths(100, 2_500))


@pytest.mark.parametrize("name", FROZEN)
def test_no_document_is_lost_and_every_example_has_its_old_verdict(name: str) -> None:
    assert name in codec.DOCUMENTS
    for data in set(examples(name)):
        compare(name, json.loads(data))


@EXAMPLES
@pytest.mark.parametrize("seed", range(4))
def test_documents_made_at_random_have_their_old_verdict(seed: int, number: int) -> None:
    for name, value in islice(made(seed), number):
        compare(name, value)
