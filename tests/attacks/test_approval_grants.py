"""What was approved in advance, stretched, borrowed, replayed, outlived: the run asks a person then, and nothing lands."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.clock import timestamp
from gatewright.contracts import (
    ApprovalGrant,
    ApprovalsRequest,
    ApproverRoster,
    GrantChange,
    GrantRevocation,
    ReviewRouting,
    codec,
)
from gatewright.contracts.people.approvals import GrantStanding, Risk, SignedDecision
from gatewright.contracts.routing import RoutingSignal, SignalName
from gatewright.contracts.vocabulary import Document, Person, Scope
from gatewright.errors import ConfigurationError, GatewrightError
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.rules.approvals import NAMESPACE, pending
from gatewright.rules.grants import GRANT_NAMESPACE, REVOCATION_NAMESPACE, document_digest, judge_grant, why_uncovered
from gatewright.run.state import FoundReason, Run
from gatewright.services.gatekeeper.gates.standing_grants import StandingGrants
from gatewright.services.gatekeeper.policies.load import load
from gatewright.ssh_signatures import sign_ssh
from tests.attacks.people import KEYS, LANDING, Inbox, open_inbox, policies_with, roster
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository

HOUR = 3600
RULE = LANDING | {"grants": {"within_seconds": 8 * HOUR, "uses": 5}}
FILES = {"README.md": b"text\n", "requirements.txt": b"\n", "docs/b.txt": b"b\n", "tests/test_a.py": b"\n"}
Opened = Callable[..., AbstractAsyncContextManager[Inbox]]


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def opened(make_repository: MakeRepository, tmp_path: Path, clock: HandClock) -> Opened:
    return lambda *rules: open_inbox(make_repository(files=FILES), tmp_path, *(rules or (RULE,)), clock=clock)


@pytest.fixture
async def inbox(opened: Opened) -> AsyncIterator[Inbox]:
    async with opened() as found:
        yield found


def grant_on(inbox: Inbox, **changes: object) -> ApprovalGrant:
    """Ana lets README.md land for an hour, once."""
    grant = ApprovalGrant(
        grant_id="grant-0123456789abcdef",
        repository=inbox.gatekeeper.repository.url,
        rule="landing",
        reason="landing",
        risk_at_most="medium",
        paths=("README.md",),
        person="ana",
        made_at=timestamp(inbox.clock.now()),
        not_after="2026-01-01T01:00:00.000Z",
        max_uses=1,
    )
    return replace(grant, **changes)


def signed(document: Document, namespace: str = GRANT_NAMESPACE, key: str = "ana") -> SignedDecision:
    data = codec.encode(document)
    return SignedDecision(document=data.decode(), signature=sign_ssh(KEYS[key], namespace, data))


async def bring(inbox: Inbox, grant: ApprovalGrant, key: str = "ana", namespace: str = GRANT_NAMESPACE) -> GrantStanding:
    change = GrantChange(kind="grant", signed=signed(grant, namespace, key))
    return (await inbox.service.change_grant(codec.encode(change))).grants[0]


def revocation_of(inbox: Inbox, grant: ApprovalGrant, person: str = "ben") -> GrantRevocation:
    digest = document_digest(signed(grant))
    now = timestamp(inbox.clock.now())
    return GrantRevocation(grant_id=grant.grant_id, grant_sha256=digest, person=person, revoked_at=now)


async def revoke(inbox: Inbox, revocation: GrantRevocation, key: str = "ben") -> GrantStanding:
    change = GrantChange(kind="revocation", signed=signed(revocation, REVOCATION_NAMESPACE, key))
    return (await inbox.service.change_grant(codec.encode(change))).grants[0]


async def listed(inbox: Inbox) -> GrantStanding:
    (found,) = (await inbox.service.listed(codec.encode(ApprovalsRequest(grants=True)))).grants
    return found


async def asked_all_the_same(inbox: Inbox, run: Run) -> bool:
    """The run waits for a person, nothing has landed, and no use was spent."""
    spent = [each.uses for each in (await inbox.service.listed(codec.encode(ApprovalsRequest(grants=True)))).grants]
    return run.parked and bool(pending(run)) and inbox.gatekeeper.nothing_landed() and not any(spent)


async def refused(inbox: Inbox, grant: ApprovalGrant, key: str = "ana", namespace: str = GRANT_NAMESPACE) -> str:
    with pytest.raises(GatewrightError) as refusal:
        await bring(inbox, grant, key, namespace)
    assert (await inbox.service.listed(codec.encode(ApprovalsRequest(grants=True)))).grants == ()
    return refusal.value.reason


async def test_a_granted_run_continues_and_its_bundle_names_the_grantor(inbox: Inbox, tmp_path: Path) -> None:
    await bring(inbox, grant_on(inbox))
    run = await inbox.to_the_candidate()
    assert run.status == "SUCCESS"
    (asked,) = run.approvals.values()
    assert (asked.status, asked.person) == ("granted", "ana")
    found = await listed(inbox)
    assert (found.status, [each.run_id for each in found.uses]) == ("used_up", [run.run_id])
    bundle = tmp_path / "runs" / run.run_id
    verified = verify(bundle, [keys.load(tmp_path / "key.pem").public])
    assert verified.findings == ()
    (words,) = verified.approved
    assert words.startswith("ana (SHA256:")
    assert "in advance" in words
    assert "grant-0123456789abcdef: run 1 of 1" in words
    assert sorted(path.name for path in bundle.glob("approvals/*/*")) == [
        "grant.approver.json",
        "grant.json",
        "grant.roster.txt",
        "grant.sshsig",
        "request.json",
    ]


async def test_a_grant_that_is_over_lets_nothing_pass(inbox: Inbox, clock: HandClock) -> None:
    await bring(inbox, grant_on(inbox))
    clock.seconds += HOUR
    assert await asked_all_the_same(inbox, await inbox.to_the_candidate())
    assert (await listed(inbox)).status == "expired"


async def test_a_grant_that_was_revoked_lets_nothing_pass(inbox: Inbox) -> None:
    grant = grant_on(inbox)
    await bring(inbox, grant)
    found = await revoke(inbox, revocation_of(inbox, grant))
    assert (found.status, found.revoked_by) == ("revoked", "ben")
    assert await asked_all_the_same(inbox, await inbox.to_the_candidate())


async def test_a_grant_and_its_end_count_once(inbox: Inbox) -> None:
    grant = grant_on(inbox)
    await bring(inbox, grant)
    revocation = revocation_of(inbox, grant)
    with pytest.raises(GatewrightError) as twice:
        await bring(inbox, grant)
    await revoke(inbox, revocation)
    with pytest.raises(GatewrightError) as again:
        await bring(inbox, grant)
    with pytest.raises(GatewrightError) as ended:
        await revoke(inbox, revocation)
    assert [each.value.reason for each in (twice, again, ended)] == ["grant_known", "grant_known", "grant_over"]
    assert (await listed(inbox)).status == "revoked"


async def test_a_revocation_is_signed_by_a_person_for_just_this_purpose(inbox: Inbox) -> None:
    grant = grant_on(inbox)
    await bring(inbox, grant)
    revocation = revocation_of(inbox, grant)
    with pytest.raises(GatewrightError) as stranger:
        await revoke(inbox, replace(revocation, person="eve"), "eve")
    with pytest.raises(GatewrightError) as other:
        await revoke(inbox, replace(revocation, grant_sha256="e" * 64))
    assert [stranger.value.reason, other.value.reason] == ["approver_unknown", "grant_unknown"]
    assert (await listed(inbox)).status == "standing"


@pytest.mark.parametrize(
    "changes",
    [
        {"repository": "https://git.example.org/other.git"},
        {"paths": ("docs/",)},
        {"paths": ("readme.md",)},
        {"paths": ("README.mD", "*.MD")},
        {"paths": ("README.md/",)},
        {"paths": ("\uff32EADME.md",)},
    ],
    ids=["another-repository", "another-folder", "case-of-a-name", "case-of-an-ending", "a-folder", "look-alike"],
)
async def test_a_run_outside_of_the_pattern_asks(inbox: Inbox, changes: dict[str, object]) -> None:
    await bring(inbox, grant_on(inbox, **changes))
    assert await asked_all_the_same(inbox, await inbox.to_the_candidate())


@pytest.mark.parametrize(
    ("granted", "written"),
    [
        ("guides/", "Guides/b.txt"),
        ("guides/", "guides2/b.txt"),
        ("guides/", "guide\uff53/b.txt"),
        ("gu\u00edas/", "gui\u0301as/b.txt"),
    ],
    ids=["case", "longer-name", "look-alike", "decomposed"],
)
async def test_a_folder_is_that_folder_as_it_is_spelled(opened: Opened, granted: str, written: str) -> None:
    async with opened() as inbox:
        await bring(inbox, grant_on(inbox, paths=(granted,)))
        await inbox.submit(allowed_paths=(written,))
        assert await asked_all_the_same(inbox, await inbox.work({written: b"new\n"}))


async def test_a_move_into_a_granted_folder_also_changes_its_origin(opened: Opened) -> None:
    async with opened() as inbox:
        await bring(inbox, grant_on(inbox, paths=("docs/",)))
        await inbox.submit(allowed_paths=("README.md", "docs"))
        assert await asked_all_the_same(inbox, await inbox.work({"README.md": None, "docs/README.md": b"text\n"}))


async def test_a_link_out_of_a_granted_folder_is_refused(opened: Opened) -> None:
    async with opened() as inbox:
        await bring(inbox, grant_on(inbox, paths=("docs/",)))
        await inbox.submit(allowed_paths=("docs",))
        (inbox.gatekeeper.repository.path / "docs" / "link.txt").symlink_to("../requirements.txt")
        run = await inbox.gatekeeper.work(inbox.gatekeeper.patch({}))
        assert run.failure is not None
        assert run.failure.code == "symlink_refused"
        assert inbox.gatekeeper.nothing_landed()
        assert (await listed(inbox)).uses == ()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"paths": ("docs/../",)}, "grant_too_wide"),
        ({"paths": ("./README.md",)}, "grant_too_wide"),
        ({"paths": ("docs//",)}, "grant_too_wide"),
        ({"paths": ("*d",)}, "grant_too_wide"),
        ({"paths": ("e\u0301/",)}, "grant_too_wide"),
        ({"not_after": "2026-01-01T08:00:00.001Z"}, "grant_too_wide"),
        ({"not_after": "2026-01-01T01:00:00"}, "grant_too_wide"),
        ({"not_after": "2025-12-31T23:00:00.000Z"}, "grant_over"),
        ({"made_at": "2026-01-01T00:30:00.000Z"}, "signing_time_wrong"),
        ({"max_uses": 6}, "grant_too_wide"),
        ({"risk_at_most": "low"}, "grant_too_wide"),
        ({"reason": "destructive"}, "grant_too_wide"),
        ({"rule": "another"}, "grant_too_wide"),
        ({"person": "ben"}, "approver_differs"),
    ],
)
async def test_a_grant_beyond_its_rule_is_refused(inbox: Inbox, changes: dict[str, object], code: str) -> None:
    assert await refused(inbox, grant_on(inbox, **changes)) == code


async def test_who_may_not_decide_may_not_grant(inbox: Inbox) -> None:
    assert await refused(inbox, grant_on(inbox, person="eve"), "eve") == "approver_unknown"
    assert await refused(inbox, grant_on(inbox), "old") == "approver_key_revoked"
    assert await refused(inbox, grant_on(inbox), namespace=NAMESPACE) == "signature_invalid"


async def test_who_is_not_asked_by_the_rule_may_not_grant(opened: Opened) -> None:
    async with opened(RULE | {"approvers": ["@release"]}) as inbox:
        assert await refused(inbox, grant_on(inbox)) == "approver_not_allowed"


async def test_a_person_who_leaves_the_roster_takes_their_grants_along(inbox: Inbox, tmp_path: Path) -> None:
    await bring(inbox, grant_on(inbox))
    people = roster()
    people["people"] = [each for each in people["people"] if each["name"] != "ana"]  # type: ignore[attr-defined]
    (tmp_path / "policies" / "approvers.json").write_text(json.dumps(people))
    assert await asked_all_the_same(inbox, await inbox.to_the_candidate())


async def test_a_roster_that_cannot_be_read_lets_no_grant_count(inbox: Inbox, tmp_path: Path) -> None:
    await bring(inbox, grant_on(inbox))
    (tmp_path / "policies" / "approvers.json").write_text("{}")
    assert await asked_all_the_same(inbox, await inbox.to_the_candidate())


async def test_a_grant_is_none_for_a_run_of_ones_own(opened: Opened) -> None:
    async with opened() as inbox:
        await bring(inbox, grant_on(inbox, person="ben"), "ben")
        run = await inbox.to_the_candidate(author=Person(name="B. N.", email="ben@example.org"))
        assert await asked_all_the_same(inbox, run)


async def test_of_two_uses_at_once_there_is_one(inbox: Inbox) -> None:
    """Two gatekeepers, each with its own view of the table; and the one that asks again has the use that it had."""
    await bring(inbox, grant_on(inbox))
    now = inbox.clock.now()
    tables = [StandingGrants(inbox.gatekeeper.bus) for _ in range(8)]
    claims = [table.claim("grant-0123456789abcdef", f"run-{number:08}", "a" * 40, now) for number, table in enumerate(tables)]
    given = await asyncio.gather(*claims)
    assert sorted(given) == [0] * 7 + [1]
    winner = f"run-{given.index(1):08}"
    assert await tables[0].claim("grant-0123456789abcdef", winner, "a" * 40, now) == 1
    assert await tables[0].claim("grant-0123456789abcdef", winner, "b" * 40, now) == 0
    assert [each.run_id for each in (await listed(inbox)).uses] == [winner]
    run = await inbox.to_the_candidate()
    assert run.parked
    assert inbox.gatekeeper.nothing_landed()


async def test_a_crash_does_not_spend_a_grant_use_twice(inbox: Inbox) -> None:
    """The claim is on the bus, and the transition was never written: the run asks again, and finds its own claim."""
    await bring(inbox, grant_on(inbox))
    await inbox.submit()
    await inbox.gatekeeper.work(inbox.gatekeeper.patch({"README.md": b"another text\n"}))
    run = await inbox.gatekeeper.review()
    assert run.candidate is not None
    standing = StandingGrants(inbox.gatekeeper.bus)
    assert await standing.claim("grant-0123456789abcdef", run.run_id, run.candidate.tree, inbox.clock.now()) == 1
    await inbox.gatekeeper.test()
    run = await inbox.run()
    assert run.status == "SUCCESS"
    assert len((await listed(inbox)).uses) == 1


def signal(name: SignalName, tier: Risk) -> RoutingSignal:
    return RoutingSignal(signal=name, tier=tier, detail="told so")


async def test_what_is_asked_about_each_time_is_covered_by_no_grant(inbox: Inbox) -> None:
    run = await inbox.to_the_candidate()
    (rule,) = run.accepted.approval_rules
    people = codec.decode(json.dumps(roster()).encode(), ApproverRoster)
    grant = grant_on(inbox)
    now = inbox.clock.now()

    def why(run: Run, paths: tuple[bytes, ...] = (b"README.md",), **changes: object) -> str:
        judged = judge_grant(signed(replace(grant, **changes)), people, now)
        return why_uncovered(run, rule, judged, paths, now)

    def found(reason: str) -> Run:
        return replace(run, found_reasons=(FoundReason(reason, "words", run.attempt, 0),))

    assert why(run) == ""
    assert run.contract is not None
    destroying = replace(run.contract, scope=Scope(destructive=("drop the table",)))
    assert "destructive" in why(replace(run, contract=destroying))
    assert "broad" in why(found("broad_scope"))
    for name in ("protected", "ci", "runner", "migrations"):
        assert "touches" in why(found(f"protected_class:{name}"), classes=("dependencies",))
    assert why(run, ()) == "no changed paths are known"
    assert "b\\xff" in why(run, (b"README.md", b"b\xff"))
    assert why(run, (b"docs/../README.md",))
    for signals, passes in (
        ((signal("paths", "medium"),), True),
        ((signal("size", "high"),), False),
        ((signal("protected", "high"),), False),
    ):
        routing = ReviewRouting(
            run_id=run.run_id, attempt=1, contract_sha256="a" * 64, candidate_tree="b" * 40, tier="high", signals=signals,
            critic_triggers=(), lanes=(),
        )  # fmt: skip
        assert (why(replace(run, routing=routing)) == "") == passes


DEPENDENCIES = RULE | {"name": "dependencies", "reason": "protected_class", "classes": ["dependencies"]}


@pytest.mark.parametrize(
    ("classes", "touched", "lands"),
    [
        (("dependencies",), ("requirements.txt",), True),
        ((), ("requirements.txt",), False),
        (("dependencies",), ("requirements.txt", "tests/test_a.py"), False),
    ],
    ids=["named", "not-named", "and-a-test"],
)
async def test_only_the_classes_that_it_names_are_covered(
    opened: Opened, classes: tuple[str, ...], touched: tuple[str, ...], *, lands: bool
) -> None:
    async with opened(DEPENDENCIES) as inbox:
        fields = {"rule": "dependencies", "reason": "protected_class", "classes": classes, "paths": touched}
        await bring(inbox, grant_on(inbox, **fields))
        scope = Scope(allow_dependency_change=True, allow_protected_paths=("tests/test_a.py",))
        await inbox.submit(allowed_paths=touched, scope=scope)
        run = await inbox.work(dict.fromkeys(touched, b"x = 1\n"))
        assert (run.status == "SUCCESS") == lands
        assert lands or await asked_all_the_same(inbox, run)


@pytest.mark.parametrize(
    "rule",
    [
        {"risk": "high"},
        {"phrase": "land it"},
        {"reason": "destructive"},
        {"reason": "broad_scope"},
        {"reason": "critic"},
        {"reason": "budget", "above_usd": 1},
        {"reason": "network"},
    ],
)
def test_a_rule_that_asks_each_time_cannot_be_answered_in_advance(tmp_path: Path, rule: dict[str, object]) -> None:
    folder = policies_with(tmp_path / "policies", RULE | rule)
    with pytest.raises(ConfigurationError, match="in advance"):
        load(folder)


PINNED = b"alpha==1.2.3\nbeta==2.0.0\n"


@pytest.mark.parametrize(
    ("versions", "after", "passes"),
    [
        ("patch", PINNED.replace(b"1.2.3", b"1.2.4"), True),
        ("minor", PINNED.replace(b"1.2.3", b"1.3.0"), True),
        ("patch", PINNED.replace(b"1.2.3", b"1.3.0"), False),
        ("patch", PINNED.replace(b"1.2.3", b"1.2.2"), False),
        ("minor", PINNED.replace(b"1.2.3", b"2.0.0"), False),
        ("patch", PINNED.replace(b"1.2.3", b"1.2.4") + b"evil==1.0.0\n", False),
        ("patch", PINNED.replace(b"alpha==1.2.3", b"a1pha==1.2.4"), False),
    ],
    ids=["patch", "minor", "minor for patch", "down", "major", "a line more", "another name"],
)
async def test_updates_pass_as_far_as_their_versions_move_and_nothing_else_does(
    versions: str, after: bytes, passes: bool, make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    repository = make_repository(files={"README.md": PINNED})
    async with open_inbox(repository, tmp_path, RULE, clock=clock) as inbox:
        await bring(inbox, grant_on(inbox, versions=versions))
        await inbox.submit()
        run = await inbox.work({"README.md": after})
        if passes:
            assert run.status == "SUCCESS"
            assert verify(tmp_path / "runs" / run.run_id, [keys.load(tmp_path / "key.pem").public]).findings == ()
        else:
            assert await asked_all_the_same(inbox, run)


async def test_how_far_versions_move_cannot_be_granted_before_there_is_a_change(opened: Opened) -> None:
    rule = RULE | {"name": "agents", "reason": "agent"}
    async with opened(rule) as inbox:
        grant = grant_on(inbox, rule="agents", reason="agent", versions="patch")
        assert await refused(inbox, grant) == "grant_too_wide"
