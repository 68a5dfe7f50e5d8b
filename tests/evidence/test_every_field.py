"""Every field of every document of three real bundles, changed under a good key: each change is found, or is a claim by design.

The bundles are those of a run that landed, one that failed and one that people decided about, each made by a whole stack.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.verification.verify import verify
from tests.evidence.bundle_stories import BundleStory
from tests.evidence.claims_by_design import CLAIMS
from tests.evidence.mutated_stories import sampled
from tests.evidence.real_bundles import NAMES, RealBundles, make_real_bundles

pytestmark = pytest.mark.long
#: Changes of one kind that are tried at the places of one field: elements of a list, events of a kind.
MOST_OF_A_KIND = 2


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> RealBundles:
    return make_real_bundles(tmp_path_factory.mktemp("real"))


@pytest.fixture(scope="module")
def unfound() -> dict[str, set[tuple[str, str]]]:
    """The fields of each bundle whose changes were not found."""
    return {}


def test_one_change_of_each_field_is_found_or_a_claim_by_design(bundles: RealBundles, signer: Signer, tmp_path: Path) -> None:
    """The part of this file that CI plays: it stands first. A field that several bundles have is changed in one of them."""
    tried: set[tuple[str, str]] = set()
    missed: dict[tuple[str, str], str] = {}
    for name in NAMES:
        story = BundleStory.of(bundles.folders[name])
        assert story.findings(signer, tmp_path) == ()
        for mutation in (each for each in sampled(story, 1) if each.field not in tried):
            tried.add(mutation.field)
            if not mutation.make_story().findings(signer, tmp_path):
                missed[mutation.field] = f"{name}, event {mutation.event}: {mutation.change}"
    assert len(tried) > 1000
    assert {field: change for field, change in missed.items() if not any(claim.covers(field) for claim in CLAIMS)} == {}


@pytest.mark.parametrize("name", NAMES)
def test_an_untouched_real_bundle_holds(name: str, bundles: RealBundles) -> None:
    key = keys.load(bundles.homes[name] / "keys" / "gatekeeper.pem").public
    assert verify(bundles.folders[name], [key]).findings == ()


@pytest.mark.parametrize("name", NAMES)
def test_every_changed_field_is_found_or_a_claim_by_design(
    name: str, bundles: RealBundles, unfound: dict[str, set[tuple[str, str]]], signer: Signer, tmp_path: Path
) -> None:
    story = BundleStory.of(bundles.folders[name])
    assert story.findings(signer, tmp_path) == ()
    missed: dict[tuple[str, str], list[str]] = defaultdict(list)
    number = 0
    for number, mutation in enumerate(sampled(story, MOST_OF_A_KIND), 1):  # noqa: B007 - their number is told below
        if not mutation.make_story().findings(signer, tmp_path):
            missed[mutation.field].append(f"event {mutation.event}: {mutation.change}")
    assert number > 1000
    unfound[name] = set(missed)
    assert {field: changes for field, changes in missed.items() if not any(claim.covers(field) for claim in CLAIMS)} == {}


def test_no_claim_by_design_is_listed_in_vain(unfound: dict[str, set[tuple[str, str]]]) -> None:
    """Plays after the test above, with what it has found."""
    if unfound.keys() != set(NAMES):
        pytest.skip("only some of the bundles were tried")
    fields = set().union(*unfound.values())
    assert [claim for claim in CLAIMS if not any(claim.covers(field) for field in fields)] == []
