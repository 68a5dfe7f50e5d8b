"""Results of earlier runs in an order: the gatekeeper compares them with what these runs ended with."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.artifacts import inline_uri
from gatewright.contracts import codec
from gatewright.contracts.task_contract import Inputs
from gatewright.contracts.vocabulary import Artifact
from gatewright.run.state import Run
from tests.attacks.people import Inbox
from tests.attacks.test_review_runs import README, opened, reviewed
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository

FORGED = b'{"verdict": "PASS"}'


@pytest.fixture
async def inbox(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[Inbox]:
    async with opened(make_repository(), tmp_path, HandClock()) as inbox:
        yield inbox


async def order_with(inbox: Inbox, name: str, data: bytes, *, publisher: str = "default") -> Run:
    """A later run whose order has this artifact."""
    gatekeeper = inbox.gatekeeper
    gatekeeper.key, gatekeeper.publisher = f"later {len(data)}", publisher
    artifact = Artifact(name=name, uri=inline_uri(data), sha256=hashlib.sha256(data).hexdigest())
    return await gatekeeper.submit(replace(inbox.contract(), inputs=Inputs(spec="use it", artifacts=(artifact,))))


def code_of(run: Run) -> str:
    return run.failure.code if run.failure is not None else ""


async def test_only_the_result_of_the_run_itself_is_an_input(inbox: Inbox) -> None:
    earlier = await reviewed(inbox, README)
    assert earlier.review is not None
    name = f"result:{earlier.run_id}"
    assert code_of(await order_with(inbox, name, FORGED)) == "result_differs"
    other = codec.encode(replace(earlier.review, summary="all is well"))
    assert code_of(await order_with(inbox, name, other)) == "result_differs"
    assert (await order_with(inbox, name, codec.encode(earlier.review))).state == "S1"


async def test_a_run_that_did_not_succeed_has_no_result(inbox: Inbox) -> None:
    earlier = await inbox.gatekeeper.submit(inbox.contract())
    assert code_of(await order_with(inbox, f"result:{earlier.run_id}", FORGED)) == "result_differs"


@pytest.mark.parametrize("run_id", ["run-0123456789abcdef0123", "*", "run-0123456789abcdef0123.>", ""])
async def test_a_result_of_an_unknown_run_is_recorded_as_a_claim(inbox: Inbox, run_id: str) -> None:
    await reviewed(inbox, README)
    run = await order_with(inbox, f"result:{run_id}", FORGED)
    assert run.state == "S1"
    (report,) = await inbox.gatekeeper.reports("policy")
    assert {"not compared: a claim of the publisher"} == {
        each.detail for each in report.rules if each.rule.startswith("results.")
    }


async def test_runs_of_other_publishers_stay_unknown(inbox: Inbox) -> None:
    earlier = await reviewed(inbox, README)
    run = await order_with(inbox, f"result:{earlier.run_id}", FORGED, publisher="shop")
    (report,) = await inbox.gatekeeper.reports("policy")
    assert (code_of(run), run.state) == ("", "S1")
    assert any(each.rule.startswith("results.") and each.detail.startswith("not compared") for each in report.rules)
