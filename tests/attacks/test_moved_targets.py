"""A request whose target has moved says so where it is decided, and promises no landing."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatewright.app.cli.hosts.server import approval_entry
from gatewright.app.cli.people.inbox import page, table
from gatewright.app.console.common_look import fingerprint
from gatewright.app.console.drawing import make_templates
from gatewright.app.feed.claims import claims_of
from gatewright.app.top.lines import need_lines
from gatewright.bus.permissions import publisher_subjects
from gatewright.bus.port import Message
from gatewright.bus.topology import RUNS_SUBJECT
from gatewright.contracts import ApprovalsRequest, RunList, RunsRequest, codec
from gatewright.contracts.people.approvals import ApprovalStanding
from gatewright.contracts.run_status import ListedRun
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.rules.approvals import pending
from gatewright.services.gatekeeper.gates.landing.targets import FRESH, target_of
from gatewright.services.gatekeeper.intake.limits import PublisherLimits
from gatewright.services.gatekeeper.intake.run_queries import RunQueries
from gatewright.services.gatekeeper.projections.bundle_archives import BundleArchives
from gatewright.services.gatekeeper.projections.follower import LedgerFollower
from gatewright.services.gatekeeper.projections.publisher_runs import PublisherRuns
from gatewright.telemetry.logs import make_logger
from gatewright.view.board import Board, SequencedTransition, advance_board
from gatewright.view.needs import needs_of
from gatewright.view.rows import BoardRow, with_target
from gatewright.view.run_view import RunView
from gatewright.work_documents.request_summary import target_words, yes_words
from tests.attacks.people import LANDING, Inbox, open_inbox, signed
from tests.attacks.whole_gatekeeper import RUN
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository, Repository
from tests.waiting import until

MAIN = "refs/heads/main"
PROMISE = "the change lands"


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    found = make_repository()
    found.git("checkout", "--quiet", "--detach")
    return found


@pytest.fixture
async def inbox(repository: Repository, tmp_path: Path) -> AsyncIterator[Inbox]:
    """A run that is to land on main, and waits for Ana."""
    async with open_inbox(repository, tmp_path, LANDING, clock=HandClock(), adapt=without_rules) as inbox:
        target = RepositoryField(url=repository.url, target_ref=MAIN, landing="target")
        await inbox.gatekeeper.submit(replace(inbox.contract(), repository=target))
        await inbox.gatekeeper.plan()
        await inbox.work()
        repository.git("reset", "--quiet", "--hard")
        yield inbox


def without_rules(policies: Path) -> None:
    """The tests of this run prove nothing, which the delivered rule of the organisation asks for."""
    for rule in (policies / "organisation").glob("*.cel"):
        rule.unlink()


def move(repository: Repository) -> str:
    """Somebody else's commit on main."""
    moved = repository.commit({"other.txt": b"another change\n"})
    repository.git("update-ref", MAIN, moved)
    return moved


async def standing(inbox: Inbox) -> ApprovalStanding:
    listed = await inbox.service.listed(codec.encode(ApprovalsRequest(run_id=RUN, details=True)))
    return listed.approvals[0]


async def row_of_run(inbox: Inbox) -> BoardRow:
    position = await inbox.gatekeeper.orchestrator.ledger.get(RUN)
    entries = [SequencedTransition(number, each) for number, each in enumerate(position.transitions, 1)]
    return advance_board(Board(), entries).rows[RUN]


def drawn(name: str, *values: Any) -> str:
    macro = getattr(make_templates().get_template("decide.html").module, name)
    return unescape(str(macro(*values)))


async def test_every_surface_shows_that_the_target_has_moved(inbox: Inbox, repository: Repository) -> None:
    before = await standing(inbox)
    assert before.summary is not None
    assert (before.summary.moved, yes_words(before.request, before.summary)) == (None, PROMISE)
    started, moved = repository.head(MAIN), move(repository)
    assert isinstance(inbox.clock, HandClock)
    inbox.clock.seconds += FRESH
    after = await standing(inbox)
    summary = after.summary
    assert summary is not None
    assert summary.moved is not None
    assert (summary.moved.ref, summary.moved.expected, summary.moved.found) == (MAIN, started, moved)
    words = target_words(summary)
    assert f"now at {moved[:12]}" in words
    assert "gatewright run ... --ref main" in words
    for shown in ("\n".join(page(after)), "\n".join(table([after], inbox.clock.now())), drawn("brief", summary)):
        assert words[:150] in shown
    at = after.request.created_at
    entry_of_run = ListedRun(run_id=RUN, publisher="default", status="RUNNING", created_at=at, moved=summary.moved)
    listed = RunList(runs=(entry_of_run,), more=False)
    row = with_target(await row_of_run(inbox), claims_of(listed).moved.get(RUN))
    needs = needs_of(Board(rows={RUN: row}), (), inbox.clock.now())
    assert need_lines(needs, inbox.clock.now())[0].cells[2].startswith("TARGET MOVED ")
    assert fingerprint(needs) != fingerprint(needs_of(Board(rows={RUN: await row_of_run(inbox)}), (), inbox.clock.now()))
    run = await inbox.run()
    entry = approval_entry(RunView(run), pending(run)[0], summary.moved)
    form = drawn("decide", after.request, summary, "mark")
    for promise in (entry["on_yes"], form, "\n".join(page(after))):
        assert PROMISE not in promise
        assert "nothing lands, because the target has moved" in promise


async def test_the_list_of_runs_shows_publishers_a_moved_target(inbox: Inbox, repository: Repository, tmp_path: Path) -> None:
    moved = move(repository)
    orchestrator = inbox.gatekeeper.orchestrator
    runs = PublisherRuns(inbox.clock, frozenset())
    follower = LedgerFollower(orchestrator, publishers=runs)
    following = asyncio.create_task(follower.follow())
    await until(lambda: bool(follower.approvals.runs(open_only=True)))
    follower.index.read_to_the_end()
    limits, archives = PublisherLimits(runs, inbox.clock), BundleArchives(tmp_path / "runs", tmp_path / "outgoing")
    log, index = make_logger(), follower.index
    queries = RunQueries(
        inbox.gatekeeper.bus, orchestrator, limits, index, archives, log, follower.silent, asked=follower.approvals
    )
    question = Message(publisher_subjects("default")["runs"], codec.encode(RunsRequest(open_only=True)), {})
    await orchestrator.gates.targets.moved([await inbox.run()], 60.0)
    reply = await queries.endpoints()[RUNS_SUBJECT](question)
    following.cancel()
    (listed,) = codec.decode(reply.data, RunList).runs
    assert listed.moved is not None
    assert (listed.run_id, listed.moved.found) == (RUN, moved)


async def test_an_approval_does_what_its_summary_announced(inbox: Inbox, repository: Repository) -> None:
    move(repository)
    promised = (await standing(inbox)).summary
    assert promised is not None
    assert "landing_conflict" in yes_words(await inbox.asked(), promised)
    await inbox.decide(signed(await inbox.said()))
    run = await inbox.run()
    assert run.failure is not None
    assert run.failure.code == "landing_conflict"


async def test_a_target_that_moved_back_is_promised_again(inbox: Inbox, repository: Repository) -> None:
    started = repository.head(MAIN)
    move(repository)
    assert (await standing(inbox)).summary != (before := await row_of_run(inbox)).summaries[0]
    repository.git("update-ref", MAIN, started)
    assert isinstance(inbox.clock, HandClock)
    inbox.clock.seconds += FRESH
    assert (await standing(inbox)).summary == before.summaries[0]


async def test_a_repository_that_is_gone_holds_up_no_answer(inbox: Inbox, repository: Repository) -> None:
    shutil.rmtree(repository.path)
    found = (await standing(inbox)).summary
    assert found is not None
    assert found.moved is None


async def test_runs_that_land_on_their_own_branch_are_not_looked_at(repository: Repository, tmp_path: Path) -> None:
    async with open_inbox(repository, tmp_path, LANDING, clock=HandClock()) as inbox:
        run = await inbox.to_the_candidate()
        assert target_of(run) == ""
        assert await inbox.gatekeeper.orchestrator.gates.targets.moved([run], 5.0) == {}
