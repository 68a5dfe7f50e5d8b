"""The packet for people: the sections that the rules ask for, facts only, and no markup out of a bundle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace

from gatewright.app.report import markdown
from gatewright.app.report.account import read_account
from gatewright.app.report.packet import packet
from gatewright.contracts.reports import ChangedCoverage
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.run import events as e
from tests.evidence.approved_runs import make_approved
from tests.evidence.recorded_runs import RecordedRun, make_failed, make_success
from tests.evidence.routed_runs import make_routed
from tests.evidence.test_egress_logs import LoggedRun
from tests.evidence.test_inventories import TREE
from tests.evidence.test_reviews import make_reviewed
from tests.report.conftest import HostileRun, SealRun

MakePacket = Callable[[Path], str]
PROPOSAL = (
    *(
        "Artifact",
        "Scope",
        "Snapshot",
        "Spec & DR Links",
        "Diff Summary",
        "Risk Tier",
        "Tests",
        "Perf/SLO",
        "Security",
        "Compliance",
    ),
    *("Docs/Runbooks", "Rollback Plan", "Open Yellows", "Needed roles", "Due by"),
)
RENDERER = MarkdownIt("gfm-like", {"linkify": False})


@pytest.fixture
def make_packet(private_key: keys.PrivateKey) -> MakePacket:
    return lambda bundle: packet(read_account(bundle), verify(bundle, [private_key.public]))


def test_every_run_has_a_packet_with_every_part(recorded: RecordedRun, seal: SealRun, make_packet: MakePacket) -> None:
    text = make_packet(seal(recorded))
    for heading in (
        "### Completion Proposal",
        "### Provenance",
        "### Evidence",
        "### Request for Review",
        "### Delivery Packet",
    ):
        assert f"\n{heading}\n" in text
    for name in PROPOSAL:
        assert f"\n**{name}:** " in text
    for name in ("Consensus Receipt", "Final Diff", "Provenance", "Compliance"):
        assert f"\n**{name}:**\n" in text


def test_facts_of_a_landed_run_are_named(seal: SealRun, make_packet: MakePacket) -> None:
    run = make_success()
    text = make_packet(seal(run))
    assert run.run.landed is not None
    assert text.startswith("> Verified: ")
    for fact in (run.run.landed.commit, run.run.landed.ref, run.run.head, "python -m pytest 'a b'"):
        assert f"`{fact}`" in text
    assert "green: reviewer-1 (REVIEWER)" in text
    assert "not measured by this run" in text, "nothing is filled in"


def test_open_yellows_list_what_the_tests_left_in_doubt(seal: SealRun, make_packet: MakePacket) -> None:
    text = make_packet(seal(make_success()))
    yellows = next(line for line in text.splitlines() if line.startswith("**Open Yellows:**"))
    assert "`test_proof` unit: the baseline's tests on this change: 2 passed, 1 failed" in yellows.replace("\\", "")


def test_failed_run_claims_nothing(seal: SealRun, make_packet: MakePacket) -> None:
    text = make_packet(seal(make_failed()))
    assert "**Outcome:** FAILED" in text
    assert "**Rollback Plan:** nothing was landed" in text
    assert "no reviewer has voted" in text


def test_the_people_who_approved_are_named_with_rule_and_reason(seal: SealRun, make_packet: MakePacket) -> None:
    assert "- `landing`, approved by ana: it lands on" in make_packet(seal(make_approved()))


class MeasuredRun(LoggedRun):
    """A run whose tests measured coverage, and whose environment has an inventory."""

    def tests(self, task_id: str) -> e.LabelledEvent:
        event = super().tests(task_id).event
        assert isinstance(event, e.TestsReceived)
        first, *others = event.report.commands
        assert first.proof is not None
        covered = ChangedCoverage(file="coverage.xml", lines=4, covered=3, uncovered=("src/a.py:4",))
        first = replace(first, proof=replace(first.proof, coverage=covered))
        return e.LabelledEvent(e.TestsReceived(report=replace(event.report, commands=(first, *others))))


def test_measured_coverage_and_licences_replace_not_measured(seal: SealRun, make_packet: MakePacket) -> None:
    text = make_packet(seal(make_success(run=MeasuredRun())))
    assert "coverage of changed lines: 3 of 4 (75 %); not executed: src/a.py:4" in text
    declared = Counter(each.licence or "not measured" for each in TREE.packages)
    assert f"- declared licences of {len(TREE.packages)} packages: " in text
    assert all(f"{name} ({count})" in text for name, count in declared.items())
    bare = make_packet(seal(make_success()))
    assert "coverage is not measured by this run" in bare
    assert "- licences are not measured by this run" in bare


def test_votes_of_people_needed_roles_and_dates_are_named(seal: SealRun, make_packet: MakePacket) -> None:
    run = make_reviewed()
    text = make_packet(seal(run))
    (asked,) = run.run.approvals.values()
    assert f"- green: ana (person), `review`, {asked.votes[0].at}: read" in text
    assert "**Needed roles:** 1 of ana for `review`, approved" in text
    assert f"**Due by:** `review` {asked.request.expires_at}" in text


def test_the_risk_tier_is_named_with_its_signals(seal: SealRun, make_packet: MakePacket) -> None:
    run = make_routed()
    assert run.run.routing is not None
    assert f"**Risk Tier:** {run.run.routing.tier}; " in make_packet(seal(run))
    assert "**Risk Tier:** no rule rated the change" in make_packet(seal(make_success()))


def test_altered_bundle_is_reported_first(seal: SealRun, make_packet: MakePacket) -> None:
    bundle = seal(make_success())
    (bundle / "added").write_text("x")
    assert make_packet(bundle).startswith("> **NOT VERIFIED** (`file_unlisted`).")


def test_folder_without_a_readable_run_is_reported(tmp_path: Path, make_packet: MakePacket) -> None:
    assert "This bundle does not contain a readable run: there are no events." in make_packet(tmp_path)


def test_hostile_words_make_no_markup(
    make_hostile_run: Callable[..., HostileRun], seal: SealRun, make_packet: MakePacket
) -> None:
    text = make_packet(seal(make_hostile_run()))
    html = RENDERER.render(text)
    assert "<script" not in html
    assert "<img" not in html
    assert "<a " not in html
    assert html.count("<h3>") == 5
    assert "\u202e" not in text
    assert "\x1b" not in text


@given(st.text(max_size=60))
def test_words_are_one_plain_paragraph(text: str) -> None:
    tokens = RENDERER.parse(f"- {markdown.words(text)}")
    inline = [token for token in tokens if token.type == "inline"]
    assert {token.type for token in tokens} <= {
        *("bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close"),
        *("paragraph_open", "paragraph_close", "inline"),
    }
    assert {child.type for token in inline for child in token.children or ()} <= {"text", "text_special"}


@given(st.text(max_size=60))
def test_code_stays_one_code_span(text: str) -> None:
    (_, inline, _) = RENDERER.parse(f"x {markdown.code(text)} y")
    assert [child.type for child in inline.children or ()] == ["text", "code_inline", "text"]


@given(st.text(max_size=200))
def test_block_stays_one_block(text: str) -> None:
    assert [token.type for token in RENDERER.parse("\n".join(markdown.block(text)))] == ["fence"]
