"""Classes of paths that an operator's rule names: the people of each class approve, and each person counts once in a class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gatewright.errors import ConfigurationError
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.rules.approvals import decision_on, pending
from gatewright.services.gatekeeper.policies.load import load
from gatewright.services.gatekeeper.projections.deadlines import Deadlines
from gatewright.ssh_signatures import public_line
from tests.attacks.people import KEYS, LANDING, WEEK, Inbox, open_inbox, policies_with, roster, signed
from tests.attacks.test_approvals import refused
from tests.attacks.whole_gatekeeper import RUN
from tests.gatekeeper.entries import make_entry
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository

FILES = {"src/billing/pay.py": b"pay = 1\n", "src/auth/login.py": b"login = 1\n", "src/shop.py": b"shop = 1\n"}
PAY: dict[str, bytes | None] = {"src/billing/pay.py": b"pay = 2\n"}
BILLING = LANDING | {"name": "billing", "reason": "path_class", "paths": ["/src/billing/", "stripe_*"], "approvals": 2}
AUTH = BILLING | {"name": "auth", "paths": ["auth/"], "approvers": ["ben"], "approvals": 1}


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


async def worked(inbox: Inbox, files: dict[str, bytes | None]) -> Sequence[tuple[str, str]]:
    """The rules that ask about a change of these files, with what they name."""
    await inbox.submit(allowed_paths=("src",))
    run = await inbox.work(files)
    assert (run.parked, inbox.gatekeeper.nothing_landed()) == (bool(pending(run)), bool(pending(run))), run.failure
    return [(each.request.rule, each.request.why) for each in pending(run)]


async def approve(inbox: Inbox, person: str, rule: str = "billing", key: str = "") -> None:
    (request,) = (each.request for each in pending(await inbox.run()) if each.request.rule == rule)
    at = (await inbox.said()).decided_at
    await inbox.decide(signed(decision_on(request, verdict="approve", person=person, decided_at=at), key or person))


async def test_a_class_lands_with_as_many_people_as_it_needs(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    async with open_inbox(make_repository(files=FILES), tmp_path, BILLING, clock=clock) as inbox:
        assert await worked(inbox, PAY) == [("billing", "billing: src/billing/pay.py")]
        await approve(inbox, "ana")
        (asked,) = pending(await inbox.run())
        assert (asked.progress, inbox.gatekeeper.nothing_landed()) == ("1 of 2 approvals: ana", True)
        await approve(inbox, "ben")
        assert (await inbox.run()).status == "SUCCESS"
    found = verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public])
    assert (found.findings, len(found.approved)) == ((), 2)
    assert "approved billing at" in found.approved[0]


@pytest.mark.parametrize("verdict", ["approve", "delegate"])
async def test_a_person_counts_once_in_a_class(
    verdict: str, make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    async with open_inbox(make_repository(files=FILES), tmp_path, BILLING, clock=clock) as inbox:
        await worked(inbox, PAY)
        await approve(inbox, "ana")
        to = {"delegate_to": "ben"} if verdict == "delegate" else {}
        assert await refused(inbox, signed(await inbox.said(verdict, **to))) == "approval_repeated"  # type: ignore[arg-type]
        assert inbox.gatekeeper.nothing_landed()


async def test_a_rejection_after_an_approval_ends_the_run(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    async with open_inbox(make_repository(files=FILES), tmp_path, BILLING, clock=clock) as inbox:
        await worked(inbox, PAY)
        await approve(inbox, "ana")
        await inbox.decide(signed(await inbox.said("reject", "ben"), "ben"))
        run = await inbox.run()
        assert (run.failure is not None and run.failure.code, inbox.gatekeeper.nothing_landed()) == ("approval_rejected", True)


async def test_several_classes_add_up(make_repository: MakeRepository, tmp_path: Path, clock: HandClock) -> None:
    async with open_inbox(make_repository(files=FILES), tmp_path, BILLING, AUTH, clock=clock) as inbox:
        asked = await worked(inbox, PAY | {"src/auth/login.py": b"login = 2\n"})
        assert [rule for rule, _ in asked] == ["billing", "auth"]
        await approve(inbox, "ana")
        await approve(inbox, "ben")
        assert inbox.gatekeeper.nothing_landed()
        await approve(inbox, "ben", "auth")
        assert (await inbox.run()).status == "SUCCESS"


RENAMED = {
    "out of the class": {"src/billing/pay.py": None, "src/paying.py": b"pay = 1\n"},
    "into the class": {"src/shop.py": None, "src/billing/shop.py": b"shop = 1\n"},
    "deleted": {"src/billing/pay.py": None},
    "in other letters": {"src/new/Stripe_Hook.py": b"pay = 2\n"},
}


@pytest.mark.parametrize("files", RENAMED.values(), ids=RENAMED.keys())
async def test_a_path_moved_around_its_class_asks_its_people(
    files: dict[str, bytes | None], make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    async with open_inbox(make_repository(files=FILES), tmp_path, BILLING, clock=clock) as inbox:
        assert [rule for rule, _ in await worked(inbox, files)] == ["billing"]


@pytest.mark.parametrize(
    ("rule", "files"),
    [
        (BILLING, {"src/shop.py": b"shop = 2\n"}),
        (BILLING | {"repositories": ["https://git.example.org/other.git"]}, PAY),
        (BILLING | {"paths": ["/src/billing/*", "!pay.py"]}, PAY),
    ],
    ids=["another path", "another repository", "an exception"],
)
async def test_a_change_outside_of_the_class_asks_no_person(
    rule: dict[str, object], files: dict[str, bytes | None], make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    async with open_inbox(make_repository(files=FILES), tmp_path, rule, clock=clock) as inbox:
        assert not await worked(inbox, files)


async def test_an_approval_whose_key_is_revoked_counts_no_more(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    async with open_inbox(make_repository(files=FILES), tmp_path, BILLING, clock=clock) as inbox:
        await worked(inbox, PAY)
        await approve(inbox, "ana")
        people = policies_with(tmp_path / "other", people=_without_key("ana"))
        (tmp_path / "policies" / "approvers.json").write_bytes((people / "approvers.json").read_bytes())
        await approve(inbox, "ben")
        (asked,) = pending(await inbox.run())
        assert (asked.approved_by, inbox.gatekeeper.nothing_landed()) == (("ben",), True)
        await approve(inbox, "ana", key="eve")
        assert (await inbox.run()).status == "SUCCESS"
    assert verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public]).findings == ()


def _without_key(name: str) -> dict[str, object]:
    """The roster with another key of one person."""
    people = roster()
    listed: list[dict[str, object]] = people["people"]  # type: ignore[assignment]
    return people | {
        "people": [each | ({"keys": [{"key": public_line(KEYS["eve"])}]} if each["name"] == name else {}) for each in listed]
    }


async def test_a_wait_ends_although_one_of_two_approved(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    async with open_inbox(make_repository(files=FILES), tmp_path, BILLING, clock=clock) as inbox:
        await worked(inbox, PAY)
        await approve(inbox, "ana")
        deadlines = Deadlines()
        for each in (await inbox.gatekeeper.orchestrator.ledger.get(RUN)).transitions:
            deadlines.saw(make_entry(each))
        end = clock.now().timestamp() + WEEK + 1
        assert deadlines.due(end) == (RUN,)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"approvals": 3}, "needs 3 approvals, and approvers.json has 2 people"),
        ({"escalate_to": ["ben"]}, "has 1 people among ben"),
        ({"paths": []}, "needs paths"),
        ({"reason": "landing"}, "no other reason has them"),
        ({"paths": ["!docs/"]}, "only exclude"),
        ({"paths": ["src\\billing"]}, "matches no path"),
        ({"paths": ["/"]}, "matches no path"),
        ({"paths": ["# billing"]}, "matches no path"),
        ({"risk": "low", "autopilot": True}, "several approvals fit"),
        ({"risk": "low", "autopilot": True, "approvals": 1}, "cannot approve by itself"),
        ({"grants": {"within_seconds": 60, "uses": 1}, "approvals": 1}, "cannot be answered in advance"),
        ({"reason": "blocked", "paths": []}, "several approvals fit"),
    ],
)
def test_a_class_that_no_run_could_pass_stops_the_gatekeeper(change: dict[str, object], words: str, tmp_path: Path) -> None:
    policies = policies_with(tmp_path / "policies", BILLING | change)
    with pytest.raises(ConfigurationError, match=words):
        load(policies)
