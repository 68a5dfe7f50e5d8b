"""A key does not make a lie true: stories that contradict themselves are found under a good signature, with two places."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from gatewright.contracts.reports import GateName
from gatewright.evidence import layout
from gatewright.evidence.projection.history import ended_history
from gatewright.evidence.signing.envelopes import Signer, payload_of
from gatewright.evidence.signing.keys import PrivateKey
from gatewright.evidence.verification.consistency import check
from gatewright.evidence.verification.findings import STEPS, Verification
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from tests.evidence.conftest import MakeBundle
from tests.evidence.contradictions import as_told, evidence, gate, replay_history
from tests.evidence.recorded_runs import MAKERS, RecordedRun
from tests.evidence.stories import STORIES
from tests.evidence.stories_of_order import STORIES_OF_ORDER
from tests.evidence.tampering import put, sign_again

ALL = {**STORIES, **STORIES_OF_ORDER}
STEP = STEPS.index("consistency") + 1


def sealed(recorded: RecordedRun, signer: Signer, root: Path) -> Verification:
    written = asyncio.run(BundleWriter(root).seal(recorded.run, recorded.transitions, recorded.store, signer))
    return verify(Path(written.location), [signer.public])


def test_there_are_enough_stories() -> None:
    assert len(ALL) >= 100


@pytest.mark.parametrize("name", ALL)
def test_story_that_contradicts_itself_is_found_offline(name: str, signer: Signer, tmp_path: Path) -> None:
    story = ALL[name]
    found = sealed(replay_history(story.make(), story.change), signer, tmp_path)
    assert (found.outcome, found.signer) == ("not_verified", signer.key_id)
    # The key, the files, the chain and the projection are all good: it is the story alone that does not hold.
    assert {finding.step for finding in found.findings} == {STEP}
    named = [(finding.code, finding.path, finding.against) for finding in found.findings]
    assert any(
        code == story.code and path.startswith(story.path) and against.startswith(story.against)
        for code, path, against in named
    ), named
    assert all(path and against for _, path, against in named)


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_a_replayed_honest_history_is_consistent(name: str, signer: Signer, tmp_path: Path) -> None:
    assert sealed(replay_history(MAKERS[name](), as_told), signer, tmp_path).findings == ()


LATER = "9" * 64


@pytest.mark.parametrize("name", ["policy", "plan", "landing"])
def test_a_policy_change_during_a_run_is_consistent_and_reported(name: GateName, signer: Signer, tmp_path: Path) -> None:
    """The gatekeeper restarted with other policies before its gate judged the answers of the meantime."""
    recorded = MAKERS["success"]()
    (judged,) = [gate for gate in ended_history(recorded.run, recorded.records).gates if gate.gate == name][-1:]
    seen = tuple(found for found in judged.evidence if found.name != "policies")
    told = replay_history(
        recorded, gate(name, evidence=(*seen, *evidence("policies", LATER), *evidence("policies/roles.json", LATER)))
    )
    assert sealed(told, signer, tmp_path).findings == ()
    assert ended_history(told.run, told.records).policies() == (told.run.accepted.policy_sha256, LATER)
    (bundle,) = tmp_path.iterdir()
    assert any(LATER in report.read_text() for report in (bundle / "reports" / "gates").glob(f"*{name}*"))


@pytest.mark.parametrize(
    ("claims", "against"),
    [
        ({"verificationResult": "FAILED"}, {layout.CHECKS, layout.MANIFEST}),
        ({"verificationResult": "SOMETHING"}, {layout.CHECKS, layout.MANIFEST}),
    ],
)
def test_two_signed_statements_that_contradict_each_other_are_named(
    make_bundle: MakeBundle, signer: Signer, private_key: PrivateKey, claims: dict[str, str], against: set[str]
) -> None:
    bundle = make_bundle("success")
    sign_again(bundle, signer, **claims)
    found = [each for each in verify(bundle, [private_key.public]).findings if each.code == "statements_contradict"]
    assert {(each.path, each.against) for each in found} == {(layout.ENVELOPE, place) for place in against}


def test_verdict_and_checks_about_different_things_are_named(
    make_bundle: MakeBundle, signer: Signer, private_key: PrivateKey
) -> None:
    bundle = make_bundle("success")
    checks = json.loads(payload_of((bundle / layout.CHECKS).read_bytes()))
    (commit,) = [subject for subject in checks["subject"] if "gitCommit" in subject["digest"]]
    commit["digest"]["gitCommit"] = "8" * 40
    put(bundle / layout.CHECKS, signer.envelope(json.dumps(checks).encode()))
    found = [each for each in verify(bundle, [private_key.public]).findings if each.code == "statements_contradict"]
    assert [(each.path, each.against, each.message) for each in found] == [
        (layout.ENVELOPE, layout.CHECKS, "they are about different things")
    ]


def test_failed_run_whose_verdict_was_signed_as_passed_is_named(
    make_bundle: MakeBundle, signer: Signer, private_key: PrivateKey
) -> None:
    bundle = make_bundle("failed")
    sign_again(bundle, signer, verificationResult="PASSED")
    found = verify(bundle, [private_key.public]).findings
    assert (layout.ENVELOPE, layout.CHECKS) in {
        (each.path, each.against) for each in found if each.code == "statements_contradict"
    }


def test_every_code_of_a_contradiction_is_in_the_documentation() -> None:
    words = (Path(__file__).parents[2] / "docs" / "bundle.md").read_text(encoding="utf-8")
    named = re.compile(r"""^[A-Z]+ = "([a-z_]+)"$""", re.MULTILINE)
    folder = Path(check.__file__).parent
    codes = {code for file in folder.glob("*.py") for code in named.findall(file.read_text(encoding="utf-8"))}
    codes |= {story.code for story in ALL.values()}
    assert len(codes) > 25
    assert {code for code in codes if f"`{code}`" not in words} == set()
