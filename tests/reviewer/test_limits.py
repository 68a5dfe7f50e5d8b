"""A review that cannot be had within its bounds: it fails, it leaves nothing running, and it holds no other review up."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from gatewright.bounded.judge import BoundedJudge, ProcessBounds
from gatewright.contracts import ReviewReport
from gatewright.git.mirror import Mirrors
from gatewright.services.reviewer import handler
from gatewright.services.reviewer.handler import ReviewerHandler, RuleReview, Settings, make_handler
from gatewright.services.reviewer.judging import FUNCTION
from tests.bounded.test_judge import children
from tests.handler_fixture import HandlerFixture
from tests.reviewer.test_review import order, review_of

FOREVER = "tests.bounded.questions:forever"
TABS = b"it.each" + b"\t" * 900_000


def reviewer(fixture: HandlerFixture, seconds: float, function: str = FUNCTION) -> ReviewerHandler:
    mirrors = fixture.state / "mirrors"
    mirrors.mkdir(parents=True, exist_ok=True)
    rules = RuleReview(BoundedJudge(function, ProcessBounds(seconds)), 1 << 20)
    return ReviewerHandler("reviewer-1", Mirrors(mirrors), rules, confined=True)


def used(pid: int) -> float:
    """Seconds of processor time that a process has used: more than its start needs, once it is at work."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


async def review(fixture: HandlerFixture, by: ReviewerHandler, content: bytes) -> ReviewReport:
    _, patch = await fixture.changed({"src/test_a.js": content})
    report = await by.handle(order(fixture, patch), fixture.context())
    assert isinstance(report, ReviewReport)
    return report


async def test_a_test_file_of_tabs_is_reviewed_within_the_limit(fixture: HandlerFixture) -> None:
    await review_of(fixture, {"src/test_a.js": b"it.each(x)('y')\n"})  # its mirror and its child are there
    report = await review_of(fixture, {"src/test_a.js": TABS})
    assert (report.verdict, report.findings) == ("PASS", ())


async def test_what_cannot_be_judged_in_time_is_not_let_pass(fixture: HandlerFixture) -> None:
    report = await review(fixture, reviewer(fixture, 2.0, FOREVER), b"x\n")
    assert (report.verdict, [finding.code for finding in report.findings]) == ("FAIL", ["review_limit"])
    assert report.summary == "review_limit: not judged within 2 s"


async def test_more_than_can_be_read_is_not_let_pass(fixture: HandlerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "MOST_CONTENT", 1000)
    report = await review(fixture, make_handler(Settings(home=fixture.state)), b"x\n" * 1000)
    assert (report.verdict, [finding.code for finding in report.findings]) == ("FAIL", ["review_limit"])


@pytest.mark.long
async def test_a_review_that_is_given_up_ends_its_judge(fixture: HandlerFixture) -> None:
    before = children()
    handling = asyncio.create_task(review(fixture, reviewer(fixture, 60.0, FOREVER), b"x\n"))
    while not any(used(pid) > 1.0 for pid in children() - before):  # noqa: ASYNC110 - it is another process
        await asyncio.sleep(0.01)
    handling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await handling
    assert children() <= before
