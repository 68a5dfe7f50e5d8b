"""What people sign says when, and that lies between what they were asked and now: nothing of 1990 or 2099 counts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.clock import timestamp
from gatewright.errors import GatewrightError
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.rules.people.signing_times import CLOCK_TOLERANCE
from tests.attacks import test_approval_grants as grants
from tests.attacks import test_review as reviews
from tests.attacks.people import LANDING, Inbox, open_inbox, signed
from tests.attacks.test_approvals import refused
from tests.attacks.whole_gatekeeper import RUN
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
#: Times that no clock within the tolerance shows, an hour after the request.
WRONG = {
    "long before": "1990-01-01T00:00:00.000Z",
    "long after": "2099-01-01T00:00:00.000Z",
    "just too early": timestamp(HandClock().now() - CLOCK_TOLERANCE - SECOND),
    "just too late": timestamp(HandClock().now() + HOUR + CLOCK_TOLERANCE + SECOND),
    "no zone": "2026-01-01T00:30:00.000",
    "no time": "this morning",
    "no such day": "2026-02-31T00:00:00.000Z",
    "a date": "2026-01-01",
}
RIGHT = {
    "when it was asked": HandClock().now(),
    "a clock that is behind": HandClock().now() - CLOCK_TOLERANCE,
    "a clock that is ahead": HandClock().now() + HOUR + CLOCK_TOLERANCE,
}
CODE = "signing_time_wrong"


@pytest.fixture
async def inbox(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[Inbox]:
    clock = HandClock()
    async with open_inbox(make_repository(), tmp_path, LANDING, clock=clock) as opened:
        await opened.to_the_candidate()
        clock.seconds += HOUR.total_seconds()
        yield opened


@pytest.mark.parametrize("said", WRONG.values(), ids=WRONG.keys())
async def test_no_answer_of_another_time_counts(inbox: Inbox, said: str) -> None:
    for verdict in ("approve", "reject", "comment"):
        assert await refused(inbox, signed(replace(await inbox.said(verdict), decided_at=said))) == CODE
    delegation = replace(await inbox.said("delegate", delegate_to="ben"), decided_at=said)
    assert await refused(inbox, signed(delegation)) == CODE


@pytest.mark.parametrize("said", RIGHT.values(), ids=RIGHT.keys())
async def test_clocks_may_differ_by_the_tolerance(inbox: Inbox, tmp_path: Path, said: datetime) -> None:
    await inbox.decide(signed(replace(await inbox.said(), decided_at=timestamp(said))))
    assert (await inbox.run()).status == "SUCCESS"
    assert verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public]).findings == ()


@pytest.mark.parametrize("said", [WRONG["long before"], WRONG["long after"], WRONG["no time"]])
async def test_no_vote_of_another_time_counts(make_repository: MakeRepository, tmp_path: Path, said: str) -> None:
    people, clock = reviews.voters(), HandClock()
    async with open_inbox(make_repository(), tmp_path, reviews.REVIEW, clock=clock, people=people) as opened:
        await opened.to_the_candidate()
        vote = replace(await reviews.vote(opened, "owner", "green"), decided_at=said)
        assert await refused(opened, signed(vote, "owner")) == CODE


@pytest.mark.parametrize("said", [WRONG["long before"], WRONG["long after"], WRONG["no time"]])
async def test_no_revocation_of_another_time_counts(make_repository: MakeRepository, tmp_path: Path, said: str) -> None:
    async with open_inbox(make_repository(files=grants.FILES), tmp_path, grants.RULE, clock=HandClock()) as opened:
        grant = grants.grant_on(opened)
        with pytest.raises(GatewrightError) as early:
            await grants.bring(opened, replace(grant, made_at=said))
        assert early.value.reason == (CODE if said != WRONG["long before"] else "grant_too_wide")
        await grants.bring(opened, grant)
        with pytest.raises(GatewrightError) as wrong:
            await grants.revoke(opened, replace(grants.revocation_of(opened, grant), revoked_at=said))
        assert wrong.value.reason == CODE
        assert (await grants.listed(opened)).status == "standing"
        assert (await grants.revoke(opened, grants.revocation_of(opened, grant))).status == "revoked"
