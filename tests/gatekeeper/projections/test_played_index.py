"""Results by test of all runs: folded from real ledger records, kept over a restart, bounded, and asked for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from gatewright.app.cli.runs.sources import BundleSource
from gatewright.bus.permissions import publisher_subjects
from gatewright.bus.port import SCHEMA_HEADER, Message
from gatewright.bus.topology import CONTEXT_SUBJECT, run_subject
from gatewright.contracts import Error, FlakyTest, FlakyTests, FlakyTestsRequest, codec
from gatewright.ledger.expiry import expire
from gatewright.rules.reports.flakes import flaky_tests
from gatewright.services.gatekeeper.intake import run_queries
from gatewright.services.gatekeeper.intake.limits import PublisherLimits
from gatewright.services.gatekeeper.intake.run_queries import RunQueries
from gatewright.services.gatekeeper.projections.bundle_archives import BundleArchives
from gatewright.services.gatekeeper.projections.checkpoint import Checkpoint
from gatewright.services.gatekeeper.projections.entries import LedgerEntry, read_entry
from gatewright.services.gatekeeper.projections.follower import LedgerFollower
from gatewright.services.gatekeeper.projections.played_index import PlayedIndex
from gatewright.services.gatekeeper.projections.publisher_runs import PublisherRuns
from gatewright.services.gatekeeper.projections.run_index import RunIndex
from tests.gatekeeper.entries import make_entry
from tests.gatekeeper.gates.test_played_tests import GREEN, RED
from tests.gatekeeper.played_runs import PlayedRuns, open_played_runs
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository

__all__ = ["first_repository", "make_repository"]

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def flakes(index: PlayedIndex, repository: str = "") -> list[FlakyTest]:
    return flaky_tests(index.records(repository, LONG_AGO, lambda _: True))


async def entries(runs: PlayedRuns) -> list[LedgerEntry]:
    found = [read_entry(message) async for message in runs.gatekeeper.bus.replay(run_subject("*"))]
    return [entry for entry in found if entry is not None]


async def restart(runs: PlayedRuns, folder: Path) -> PlayedIndex:
    """What a gatekeeper knows after a start with the checkpoint in ``folder``; it saves its own at its end."""
    follower = LedgerFollower(runs.gatekeeper.orchestrator, checkpoint=Checkpoint.in_folder(folder))
    await follower.catch_up()
    follower.close()
    return follower.played


async def ask(runs: PlayedRuns, publisher: str = "default", repository: str = "", **fields: int) -> FlakyTests | Error:
    orchestrator = runs.gatekeeper.orchestrator
    limits = PublisherLimits(PublisherRuns(orchestrator.clock, frozenset()), orchestrator.clock)
    index = RunIndex()
    index.read_to_the_end()
    archives = BundleArchives(Path("none"), Path("none"))
    queries = RunQueries(runs.gatekeeper.bus, orchestrator, limits, index, archives, orchestrator.log, played=runs.index)
    request = codec.encode(FlakyTestsRequest(repository=repository, **fields))
    subject = publisher_subjects(publisher)["context"]
    message = Message(subject, request, {SCHEMA_HEADER: "flaky_tests_request.v1"})
    reply = await queries.endpoints()[CONTEXT_SUBJECT](message)
    answered = reply.schema == "flaky_tests.v1"
    return codec.decode(reply.data, FlakyTests) if answered else codec.decode(reply.data, Error)


async def test_a_restart_keeps_the_result(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_played_runs(make_repository(), tmp_path) as runs:
        await runs.play(RED)
        first = await restart(runs, tmp_path / "ledger")
        await runs.play(GREEN)
        second = await restart(runs, tmp_path / "ledger")
        third = await restart(runs, tmp_path / "ledger")
        assert flakes(first) == []
        assert flakes(second) == flakes(third) == flakes(runs.index) != []


async def test_old_runs_are_not_restored(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_played_runs(make_repository(), tmp_path) as runs:
        await runs.play(RED, GREEN)
        await restart(runs, tmp_path / "ledger")
        orchestrator = runs.gatekeeper.orchestrator
        later = orchestrator.clock.now() + timedelta(days=91)
        clock = type("LaterClock", (), {"now": lambda _: later, "monotonic": lambda _: 0.0})()
        runs.gatekeeper.orchestrator = replace(orchestrator, clock=clock)
        assert flakes(await restart(runs, tmp_path / "ledger")) == []
        assert runs.index.records("", later - timedelta(days=90), lambda _: True) == []


async def test_an_expired_run_is_forgotten(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_played_runs(make_repository(), tmp_path) as runs:
        await runs.play(RED)
        await runs.play(GREEN)
        await restart(runs, tmp_path / "ledger")
        ledger = runs.gatekeeper.orchestrator.ledger
        position = await ledger.load(runs.run_id)
        assert position.run is not None
        await ledger.append(position, expire(position.run, datetime.now(UTC), "tests", "old"))
        await runs.read()
        assert flakes(runs.index) == flakes(await restart(runs, tmp_path / "ledger")) == []
        assert runs.index._sizes.total() == 2


async def test_a_message_that_arrives_twice_counts_once(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_played_runs(make_repository(), tmp_path) as runs:
        await runs.play(RED, GREEN)
        before = flakes(runs.index), runs.index._sizes.copy()
        await runs.read()
        assert (flakes(runs.index), runs.index._sizes) == before


async def test_equal_tests_of_two_repositories_are_separate(make_repository: MakeRepository, tmp_path: Path) -> None:
    index = PlayedIndex()
    async with open_played_runs(make_repository("one"), tmp_path / "a", index) as runs:
        await runs.play(RED)
    async with open_played_runs(make_repository("two"), tmp_path / "b", index) as others:
        others.number = runs.number
        await others.play(GREEN)
        assert flakes(index) == []
        await others.play(RED)
    (flake,) = flakes(index)
    assert (flake.plays, flake.failures) == (2, 1)
    assert flakes(index, flake.repository) == [flake]
    assert flakes(index, "//elsewhere.example/x") == []


async def test_a_million_results_stay_within_the_limit(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_played_runs(make_repository("small"), tmp_path / "a") as quiet:
        await quiet.play(RED, GREEN)
        kept = await entries(quiet)
    async with open_played_runs(make_repository("large"), tmp_path / "b") as busy:
        busy.number = 1
        await busy.play({f"t.py::{number}": "failed" for number in range(100)}, text="two")
        steps = await entries(busy)
    index = PlayedIndex()
    for entry in kept:
        index.saw(entry)
    before = flakes(index)
    for number in range(10_000):
        for entry in steps:
            index.saw(msgspec.structs.replace(entry, run_id=f"run-{number:020x}"))
    assert index._sizes.total() <= index.most
    assert len(index._reports) <= index.most // 100 + 1
    assert index._open == {}
    assert [each for each in flakes(index) if each.repository == before[0].repository] == before


def test_malformed_entries_add_nothing() -> None:
    index = PlayedIndex()
    for kind in ("run_accepted", "gate_judged", "run_expired", "run_finished"):
        for payload in (b"null", b"[]", b'{"report": {"played": 1}}', b'{"report": {"evaluated_at": "x", "played": [{}]}}'):
            event = b'{"event_type": "%s", "ts": "2026-01-01T00:00:00.000Z", "payload": %s}' % (kind.encode(), payload)
            index.saw(make_entry(b'{"number": 1, "events": [%s]}' % event, "run-0123456789"))
    assert flakes(index) == []


async def test_a_publisher_asks_for_its_own_flaky_tests(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    async with open_played_runs(repository, tmp_path) as runs:
        await runs.play(RED, GREEN, publisher="acme")
        own, all_of_them = await ask(runs), await ask(runs, "operator")
        assert isinstance(own, FlakyTests)
        assert isinstance(all_of_them, FlakyTests)
        assert (own.tests, own.reports) == ((), 0)
        assert [each.test for each in all_of_them.tests] == ["t.py::b"]
        assert await ask(runs, "operator", f"{repository.path}/.git") == all_of_them
        elsewhere = await ask(runs, "operator", "https://elsewhere.example/x")
        assert isinstance(elsewhere, FlakyTests)
        assert elsewhere.reports == 0
        odd = await ask(runs, "operator", "ftp://x\n")
        assert isinstance(odd, Error)
        assert odd.code == "bad_url"


async def test_an_answer_names_no_more_than_its_limit(
    make_repository: MakeRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_queries, "ANSWER_BYTES", 1_000)
    names = [f"t.py::{number}" for number in range(40)]
    async with open_played_runs(make_repository(), tmp_path) as runs:
        await runs.play(dict.fromkeys(names, "failed"), dict.fromkeys(names, "passed"))
        found = await ask(runs)
    assert isinstance(found, FlakyTests)
    assert 1 <= len(found.tests) < 10
    assert found.more


async def test_bundles_show_the_same_without_a_stack(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    async with open_played_runs(repository, tmp_path) as runs:
        await runs.play(RED)
        await runs.play(GREEN)
        served = await ask(runs)
    source = BundleSource(tmp_path, print)
    assert await source.flaky_tests("", 3600) == await source.flaky_tests(str(repository.path), 3600) == served
    assert (await source.flaky_tests("/elsewhere", 3600)).reports == 0
