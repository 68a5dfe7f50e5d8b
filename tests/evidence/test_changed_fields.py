"""Fields of landed runs that were changed under a good key: a few of those that ``test_every_field`` changes."""

from __future__ import annotations

import asyncio
import shutil
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from gatewright.evidence.signing.envelopes import Signer
from tests.attacks.whole_gatekeeper import RUN, contract_on, open_gatekeeper
from tests.evidence.bundle_stories import BundleStory
from tests.evidence.mutated_stories import Mutation, sampled
from tests.git.repositories import Repository

Changes = dict[tuple[str, str], list[Mutation]]
#: Documents and places in them, of a run that the real gatekeeper judged.
OF_THE_GATEKEEPER = (
    ("gate_judged.diff", "/payload/report/evidence"),
    ("gate_judged.integrated", "/payload/report/evidence"),
    ("gate_judged.tests", "/payload/report/evidence"),
    ("gate_judged.landing", "/payload/report/evidence"),
    ("run_accepted", "/payload/idempotency_key"),
    ("run_accepted", "/payload/publisher"),
    ("run_accepted", "/payload/recording"),
    ("run_accepted", "/payload/requested_by"),
    ("run_accepted", "/payload/policies/command_allowlist.json"),
    ("task_dispatched.reviewer", "/payload/contract/inputs/spec"),
    ("task_dispatched.testrunner", "/payload/contract/tool_permissions/network"),
    ("plan_accepted", "/payload/plan/contracts/*/required_outputs"),
    ("plan_accepted", "/payload/plan/contracts/*/role_contract"),
    ("gate_judged.diff", "/task_id"),
    ("task_finished", "/role"),
    ("task_finished", "/payload/result/started_at"),
    ("review_received", "/payload/report/reviewed_at"),
    ("tests_received", "/payload/report/commands/*/stdout"),
    ("tests_received", "/payload/report/sandbox"),
    ("run_finished", "/payload/message"),
)
#: The same of a recorded run, whose roles reported more.
OF_ROLES = (
    ("task_finished", "/payload/result/artifacts/*/sha256"),
    ("tests_received", "/payload/report/commands/*/stdout"),
    ("tests_received", "/payload/report/commands/*/proof/framework"),
    ("tests_received", "/payload/report/commands/*/proof/control/failing"),
    ("tests_received", "/payload/report/commands/*/proof/baseline_tests/failed"),
    ("tests_received", "/payload/report/commands/*/proof/red_first/failed_count"),
    ("tests_received", "/payload/report/commands/*/proof/red_first/passed"),
    ("tests_received", "/payload/report/commands/*/proof/baseline_tests/paths/*"),
)


@pytest.fixture(scope="module")
def landed(first_repository: Repository, tmp_path_factory: pytest.TempPathFactory) -> BundleStory:
    folder = tmp_path_factory.mktemp("landed")
    # A copy: the run lands in it, and every other test begins with the first one as it was made.
    path = shutil.copytree(first_repository.path, folder / "source", symlinks=True)
    return asyncio.run(landed_story(Repository(path, first_repository.home), folder))


@pytest.fixture(scope="module")
def of_the_gatekeeper(landed: BundleStory) -> Changes:
    return by_field(landed)


@pytest.fixture(scope="module")
def of_roles(sealed_bundles: dict[str, Path]) -> Changes:
    return by_field(BundleStory.of(sealed_bundles["success"]))


def by_field(story: BundleStory) -> Changes:
    found: Changes = defaultdict(list)
    for mutation in sampled(story, 1):
        found[mutation.field].append(mutation)
    return found


async def landed_story(repository: Repository, folder: Path) -> BundleStory:
    """A run of the real gatekeeper on a branch of its own."""
    async with open_gatekeeper(repository, folder) as gatekeeper:
        await gatekeeper.submit(contract_on(repository))
        await gatekeeper.plan()
        await gatekeeper.work(gatekeeper.patch({"README.md": b"changed\n"}))
        await gatekeeper.review()
        run = await gatekeeper.test()
    assert run.status == "SUCCESS", run
    return BundleStory.of(folder / "runs" / RUN)


def test_the_unchanged_story_holds(landed: BundleStory, signer: Signer, tmp_path: Path) -> None:
    assert landed.findings(signer, tmp_path) == ()


@pytest.mark.parametrize("field", OF_THE_GATEKEEPER, ids=" ".join)
def test_a_changed_field_is_found(field: tuple[str, str], of_the_gatekeeper: Changes, signer: Signer, tmp_path: Path) -> None:
    assert missed(of_the_gatekeeper[field], signer, tmp_path) == []


@pytest.mark.parametrize("field", OF_ROLES, ids=" ".join)
def test_a_changed_field_of_a_report_is_found(
    field: tuple[str, str], of_roles: Changes, signer: Signer, tmp_path: Path
) -> None:
    assert missed(of_roles[field], signer, tmp_path) == []


def missed(changes: Sequence[Mutation], signer: Signer, folder: Path) -> list[str]:
    assert changes
    return [change.change for change in changes if not change.make_story().findings(signer, folder)]


@pytest.mark.parametrize("recording", [1, 2, 4, 0, -3])
def test_a_run_that_names_a_laxer_form_is_refused(recording: int, landed: BundleStory, signer: Signer, tmp_path: Path) -> None:
    first = landed.events[0]
    story = landed.with_event(0, {**first, "payload": {**first["payload"], "recording": recording}})
    refused = story.findings(signer, tmp_path)
    assert refused == (
        f"bad_event: event 1 (run_accepted): the run is recorded in form {recording}, and this version reads form 3 alone"
    )
