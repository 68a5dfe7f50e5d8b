"""Limits of publishers: rates by the clock, quotas by the ledger, and a flood that harms nobody else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatewright.bus.memory.bus import MemoryBus
from gatewright.contracts import AbortRequest, Error, RunRequest, RunStatus, SubmitReply
from gatewright.contracts.vocabulary import Repository
from gatewright.errors import ConfigurationError, LimitError
from gatewright.git.host.identity import repository_identity
from gatewright.resources import policy_directory
from gatewright.services.gatekeeper.decider.inputs import Submitted
from gatewright.services.gatekeeper.gates.engine import GateEngine
from gatewright.services.gatekeeper.intake.limits import MOST_HELD, Bucket, PublisherLimits
from gatewright.services.gatekeeper.intake.result_consumer import KEPT_BYTES
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.policies.load import load
from gatewright.services.gatekeeper.policies.publishers import Publisher, Rate, RepositoryQuota
from gatewright.services.gatekeeper.projections.publisher_runs import PublisherRuns
from tests.factories import make_request
from tests.gatekeeper.publishing import HandClock, IntakeFixture, make_publisher, open_intake
from tests.waiting import until

Open = Callable[..., IntakeFixture]


@pytest.fixture
async def open_for(bus: MemoryBus, gates: GateEngine, tmp_path: Path) -> AsyncIterator[Open]:
    opened: list[IntakeFixture] = []

    def make(*publishers: Publisher, quotas: Sequence[RepositoryQuota] = ()) -> IntakeFixture:
        opened.append(open_intake(bus, gates, tmp_path, *publishers, quotas=quotas))
        return opened[-1]

    yield make
    for counter in opened:
        for task in counter.following:
            task.cancel()


def refused(answer: object) -> Error:
    assert isinstance(answer, Error), answer
    return answer


def accepted(answer: object) -> str:
    assert isinstance(answer, SubmitReply), answer
    return answer.run_id


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    bucket = Bucket(Rate(per_minute=60, burst=3), 0.0)
    assert [bucket.take(0.0) for _ in range(4)] == [0.0, 0.0, 0.0, 1.0]
    assert bucket.take(0.5) == pytest.approx(0.5)
    assert [bucket.take(1.0), bucket.take(1.0)] == [0.0, 1.0]
    assert [bucket.take(1000.0) for _ in range(4)] == [0.0, 0.0, 0.0, 1.0]
    assert bucket.take(0.0) == 1.0, "a clock that goes back neither gives nor takes"


async def test_a_flood_is_answered_with_when_to_come_again(open_for: Open, request_for: RunRequest) -> None:
    flood, calm = make_publisher("flood", submissions={"per_minute": 30, "burst": 3}), make_publisher("calm")
    intake = open_for(flood, calm)
    answers = [await intake.submit(b"{", "flood") for _ in range(200)]
    codes = [refused(answer).code for answer in answers]
    assert (codes.count("malformed"), codes.count("rate_exceeded")) == (3, 197)
    late = refused(answers[-1])
    assert late.retry_after_seconds == 2.0
    accepted(await intake.submit(request_for, "calm"))
    intake.clock.seconds += late.retry_after_seconds
    accepted(await intake.submit(request_for, "flood"))


async def test_slow_submissions_of_one_leave_room_for_others(
    open_for: Open, request_for: RunRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = make_publisher("slow", submissions={"per_minute": 60, "burst": 2})
    intake = open_for(slow, make_publisher("calm"))
    accept, tarpit = Orchestrator.accept, asyncio.Event()

    async def wait_and_accept(self: Orchestrator, item: Submitted) -> bool:
        if item.publisher == "slow":
            await tarpit.wait()
        return await accept(self, item)

    monkeypatch.setattr(Orchestrator, "accept", wait_and_accept)
    hanging = [asyncio.create_task(intake.submit(request_for, "slow")) for _ in range(2)]
    await asyncio.sleep(0.2)
    intake.clock.seconds += 60
    answer = refused(await intake.submit(request_for, "slow"))
    assert (answer.code, answer.retry_after_seconds) == ("rate_exceeded", 1.0)
    accepted(await intake.submit(request_for, "calm"))
    tarpit.set()
    for task in hanging:
        accepted(await task)
    accepted(await intake.submit(request_for, "slow"))


async def test_questions_have_a_rate_of_their_own(open_for: Open, request_for: RunRequest) -> None:
    intake = open_for(make_publisher("acme", questions={"per_minute": 60, "burst": 2}))
    run_id = accepted(await intake.submit(request_for, "acme"))
    answers = [await intake.status(run_id, "acme") for _ in range(3)]
    assert [type(answer) for answer in answers] == [RunStatus, RunStatus, Error]
    accepted(await intake.submit(request_for, "acme"))


async def test_open_runs_are_limited_until_one_ends(open_for: Open, request_for: RunRequest) -> None:
    intake = open_for(make_publisher("acme", max_open_runs=2), make_publisher("beta", max_open_runs=2))
    first, _ = [accepted(await intake.submit(request_for, "acme")) for _ in range(2)]
    answer = refused(await intake.submit(request_for, "acme"))
    assert (answer.code, answer.retry_after_seconds) == ("too_many_open_runs", 5.0)
    accepted(await intake.submit(request_for, "beta"))
    await intake.store(AbortRequest(run_id=first, reason="enough", requested_by="me"), "acme", want="abort")
    await until(lambda: len(intake.results.submissions.limits.runs.open("acme")) == 1)
    accepted(await intake.submit(request_for, "acme"))


async def test_many_at_once_do_not_slip_past_a_quota(open_for: Open, request_for: RunRequest) -> None:
    intake = open_for(make_publisher("acme", max_open_runs=3))
    answers = await asyncio.gather(*(intake.submit(request_for, "acme") for _ in range(20)))
    assert sum(isinstance(answer, SubmitReply) for answer in answers) == 3
    assert len(await intake.runs()) == 3


async def test_quotas_count_what_other_gatekeepers_accepted(open_for: Open, request_for: RunRequest) -> None:
    rule = make_publisher("acme", max_open_runs=2)
    one, other = open_for(rule), open_for(rule)
    for intake in (one, other):
        accepted(await intake.submit(request_for, "acme"))
    await until(lambda: len(one.results.submissions.limits.runs.open("acme")) == 2)
    assert refused(await one.submit(request_for, "acme")).code == "too_many_open_runs"
    late = open_for(rule)
    assert refused(await late.submit(request_for, "acme")).code == "too_many_open_runs"


async def test_runs_of_a_day_are_limited_whether_they_ended_or_not(open_for: Open, request_for: RunRequest) -> None:
    intake = open_for(make_publisher("acme", max_runs_per_day=2))
    refusable = make_request(repository=request_for.repository, allowed_paths=("/",))
    for document in (refusable, request_for):
        accepted(await intake.submit(document, "acme"))
        intake.clock.seconds += 3600
    answer = refused(await intake.submit(request_for, "acme"))
    assert (answer.code, answer.retry_after_seconds) == ("daily_runs_exhausted", 22 * 3600.0)
    assert answer.retry_after_seconds is not None
    intake.clock.seconds += answer.retry_after_seconds
    accepted(await intake.submit(request_for, "acme"))


async def test_a_refusal_above_the_hourly_limit_names_the_next_slot(open_for: Open, request_for: RunRequest) -> None:
    intake = open_for(make_publisher("acme", max_runs_per_hour=2), make_publisher("beta"))
    accepted(await intake.submit(request_for, "acme"))
    intake.clock.seconds += 600
    accepted(await intake.submit(request_for, "acme"))
    answer = refused(await intake.submit(request_for, "acme"))
    assert (answer.code, answer.retry_after_seconds) == ("quota_exceeded", 3000.0)
    accepted(await intake.submit(request_for, "beta"))
    again = open_for(make_publisher("acme", max_runs_per_hour=2))  # a gatekeeper that was started anew, or another one
    again.clock.seconds = intake.clock.seconds
    await until(lambda: len(again.results.submissions.limits.runs.begun("acme")) == 2)
    assert refused(await again.submit(request_for, "acme")).code == "quota_exceeded"
    for each in (intake, again):
        each.clock.seconds += 3000
    accepted(await again.submit(request_for, "acme"))
    await until(lambda: len(intake.results.submissions.limits.runs.begun("acme")) == 3)
    answer = refused(await intake.submit(request_for, "acme"))
    assert answer.retry_after_seconds == 600.0


async def test_a_stricter_quota_waits_for_all_that_is_beyond_it(open_for: Open, request_for: RunRequest) -> None:
    """Of three runs in the hour two have to be gone before one may begin where two are the bound."""
    intake = open_for(make_publisher("acme", max_runs_per_hour=3))
    for _ in range(3):
        accepted(await intake.submit(request_for, "acme"))
        intake.clock.seconds += 60
    strict = open_for(make_publisher("acme", max_runs_per_hour=2))
    strict.clock.seconds = intake.clock.seconds
    await until(lambda: len(strict.results.submissions.limits.runs.begun("acme")) == 3)
    assert refused(await strict.submit(request_for, "acme")).retry_after_seconds == 3600.0 - 180 + 60


@pytest.mark.parametrize("bound", ["max_open_runs", "max_runs_per_hour", "max_runs_per_day"])
async def test_a_repository_has_its_own_quota_for_all_publishers(open_for: Open, request_for: RunRequest, bound: str) -> None:
    quota = RepositoryQuota.model_validate({"repositories": ["*"], bound: 2})
    one, other = (open_for(make_publisher("acme"), make_publisher("beta"), quotas=[quota]) for _ in range(2))
    first = accepted(await one.submit(request_for, "acme"))
    accepted(await one.submit(request_for, "beta"))
    url = request_for.repository.url if request_for.repository is not None else ""
    identity = repository_identity(url)
    await until(lambda: len(other.results.submissions.limits.runs.open(identity)) == 2)
    for intake, publisher in ((one, "acme"), (other, "beta")):
        answer = refused(await intake.submit(request_for, publisher))
        assert answer.code == "quota_exceeded"
        assert answer.retry_after_seconds == {"max_open_runs": 5.0, "max_runs_per_hour": 3600.0}.get(bound, 86_400.0)
        assert "repository" in answer.message
    spelled = msgspec.structs.replace(request_for, repository=Repository(url=f"{url}/.git"))
    assert refused(await one.submit(spelled, "acme")).code == "quota_exceeded"
    order = make_request(repository=request_for.repository, idempotency_key="order-4711")
    assert refused(await one.submit(order, "acme")).code == "quota_exceeded"
    await one.store(AbortRequest(run_id=first, reason="enough", requested_by="me"), "acme", want="abort")
    await until(lambda: len(other.results.submissions.limits.runs.open(identity)) == 1)
    if bound == "max_open_runs":
        accepted(await other.submit(order, "acme"))
    else:
        assert refused(await other.submit(order, "acme")).code == "quota_exceeded"


async def test_many_at_once_do_not_slip_past_the_quota_of_a_repository(open_for: Open, request_for: RunRequest) -> None:
    quota = RepositoryQuota(repositories=("*",), max_runs_per_hour=3)
    intake = open_for(make_publisher("acme"), make_publisher("beta"), quotas=[quota])
    answers = await asyncio.gather(*(intake.submit(request_for, name) for name in ("acme", "beta") * 8))
    assert sum(isinstance(answer, SubmitReply) for answer in answers) == 3


async def test_the_first_quota_that_covers_a_repository_holds_for_it(open_for: Open, request_for: RunRequest) -> None:
    elsewhere = RepositoryQuota(repositories=("https://forge.example/",), max_open_runs=1)
    intake = open_for(make_publisher("acme"), quotas=[elsewhere])
    for _ in range(3):
        accepted(await intake.submit(request_for, "acme"))


@pytest.mark.parametrize(
    "quota",
    [
        {"repositories": ["*"]},
        {"repositories": [], "max_open_runs": 1},
        {"repositories": ["https://forge.example/../x"], "max_open_runs": 1},
        {"repositories": ["*"], "max_runs_per_hour": 0},
    ],
)
def test_a_quota_of_repositories_that_bounds_nothing_is_refused(tmp_path: Path, quota: object) -> None:
    policies = make_policy(tmp_path, [make_publisher("acme").model_dump(mode="json")])
    file = policies / "publishers.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "repository_quotas": [quota]}))
    with pytest.raises(ConfigurationError):
        load(policies)


async def test_a_run_that_has_ended_already_is_not_counted_as_open(open_for: Open, request_for: RunRequest) -> None:
    intake = open_for(make_publisher("acme"))
    refusable = make_request(repository=request_for.repository, allowed_paths=("/",))
    run = await intake.run(accepted(await intake.submit(refusable, "acme")))
    assert run is not None
    runs = PublisherRuns(intake.clock, frozenset({"acme"}))
    runs.note(run)
    assert (runs.open("acme"), list(runs.begun("acme"))) == (frozenset(), [run.run_id])


async def test_a_repetition_is_no_new_run_for_a_quota(open_for: Open, request_for: RunRequest) -> None:
    intake = open_for(make_publisher("acme", max_open_runs=1, max_runs_per_day=1))
    order = make_request(repository=request_for.repository, baseline_ref="main", idempotency_key="order-4711")
    first = accepted(await intake.submit(order, "acme"))
    assert accepted(await intake.submit(order, "acme")) == first
    assert (await intake.store(order, "acme")).settled == ["ack"]
    intake.clock.seconds += 48 * 3600
    assert accepted(await intake.submit(order, "acme")) == first


async def test_a_stored_submission_waits_for_the_limits(open_for: Open, request_for: RunRequest) -> None:
    intake = open_for(make_publisher("acme", submissions={"per_minute": 6, "burst": 1}))
    assert (await intake.store(request_for, "acme")).settled == ["ack"]
    waiting = await intake.store(request_for, "acme", sequence=7)
    assert (waiting.settled, waiting.delay) == (["nak"], 10.0)
    early = await intake.store(request_for, "acme", sequence=7, attempts=2)
    assert early.settled == ["nak"], "to have waited once is no token"
    intake.clock.seconds += 10
    assert (await intake.store(request_for, "acme", sequence=7, attempts=3)).settled == ["ack"]
    assert len(await intake.runs()) == 2
    assert await intake.dead() == []


async def test_a_stored_flood_is_put_aside_before_it_fills_the_queue(open_for: Open, request_for: RunRequest) -> None:
    intake = open_for(make_publisher("flood", submissions={"per_minute": 1, "burst": 1}), make_publisher("calm"))
    settled = [(await intake.store(request_for, "flood")).settled[0] for _ in range(MOST_HELD + 30)]
    assert (settled.count("ack"), settled.count("nak"), settled.count("term")) == (1, MOST_HELD, 29)
    assert {letter.headers["Gw-Dead-Code"] for letter in await intake.dead()} == {"rate_exceeded"}
    assert (await intake.store(request_for, "calm")).settled == ["ack"]


def test_large_waiting_messages_do_not_fill_the_queue() -> None:
    limits, rule = PublisherLimits(PublisherRuns(HandClock(), frozenset()), HandClock()), make_publisher("flood")
    error = LimitError("too many", retry_after=1.0, code="rate_exceeded")
    waits = [limits.hold(rule, sequence, 8 << 20, error) for sequence in range(12)]
    assert [wait is not None for wait in waits] == [True] * 8 + [False] * 4
    limits.let_go(rule, 0)
    assert limits.hold(rule, 12, 8 << 20, error) is not None


async def test_large_messages_cannot_fill_the_permanent_dead_letters(open_for: Open) -> None:
    intake = open_for(make_publisher("flood"))
    await intake.store(b'{"request": "' + b"x" * 100_000 + b'"}', "flood")
    await intake.store(b"[]", "flood")
    large, small = await intake.dead()
    assert len(large.data) == KEPT_BYTES
    assert large.headers["Gw-Dead-Altered"] == "yes"
    assert large.headers["Gw-Dead-Reason"].startswith("(of 100015 bytes the first 65536 are kept)")
    assert (small.data, "Gw-Dead-Altered" in small.headers) == (b"[]", False)


def make_policy(folder: Path, publishers: object) -> Path:
    for path in policy_directory().iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    (folder / "organisation").mkdir()
    (folder / "publishers.json").write_text(json.dumps({"version": "1", "publishers": publishers}))
    return folder


SHIPPED: dict[str, Any] = json.loads((policy_directory() / "publishers.json").read_text())["publishers"][0]


@pytest.mark.parametrize(
    "publishers",
    [
        [],
        [SHIPPED, SHIPPED],
        [{key: value for key, value in SHIPPED.items() if key != "max_open_runs"}],
        [SHIPPED | {"comment": "mine"}],
        [SHIPPED | {"name": "Not A Name"}],
        [SHIPPED | {"repositories": ["forge.example"]}],
        [SHIPPED | {"landing_refs": ["main"]}],
        [SHIPPED | {"kinds": ["anything"]}],
        [SHIPPED | {"max_open_runs": 0}],
        [SHIPPED | {"max_document_bytes": 1 << 40}],
        [SHIPPED | {"submissions": {"per_minute": 0, "burst": 1}}],
        [SHIPPED | {"highest_priority": "urgent"}],
        [SHIPPED | {"may_abort": True}],
    ],
)
def test_a_policy_on_publishers_that_is_not_whole_stops_the_gatekeeper(tmp_path: Path, publishers: object) -> None:
    with pytest.raises(ConfigurationError, match=r"publishers\.json"):
        load(make_policy(tmp_path, publishers))


def test_the_policy_is_part_of_the_digests(tmp_path: Path) -> None:
    changed = load(make_policy(tmp_path, [SHIPPED, SHIPPED | {"name": "acme", "may_see": "own"}]))
    shipped = load(policy_directory())
    assert changed.digests["publishers.json"] != shipped.digests["publishers.json"]
    assert changed.sha256 != shipped.sha256
