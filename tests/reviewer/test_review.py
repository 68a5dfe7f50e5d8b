"""A review of a real candidate: the tree that was rebuilt, the verdict, and what cannot be reviewed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from gatewright.contracts import ReviewReport, TaskContract, codec
from gatewright.contracts.task_contract import Inputs
from gatewright.contracts.vocabulary import Agent, Scope
from gatewright.errors import ArtifactError, MalformedError
from gatewright.services.reviewer.handler import Settings, make_handler
from gatewright.services.reviewer.judging import MAX_FINDINGS
from tests.handler_fixture import HandlerFixture

REVIEWER = Agent(role="REVIEWER", agent_id="reviewer-1")


def order(fixture: HandlerFixture, patch: bytes, **changes: object) -> TaskContract:
    inputs = Inputs(spec="review it", artifacts=(fixture.artifacts.hold("candidate.patch", patch),))
    task = fixture.contract(task_type="REVIEW", task_id="run-0123456789.review.a1", assigned_agent=REVIEWER, executor=None)
    return replace(task, **{"inputs": inputs, **changes})


async def reviewed(fixture: HandlerFixture, task: TaskContract) -> ReviewReport:
    report = await make_handler(Settings(home=fixture.state)).handle(task, fixture.context())
    return codec.decode(codec.encode(report), ReviewReport)


async def review_of(fixture: HandlerFixture, files: Mapping[str, bytes | None], **changes: object) -> ReviewReport:
    _, patch = await fixture.changed(files)
    return await reviewed(fixture, order(fixture, patch, **changes))


async def test_a_clean_candidate_passes_for_the_tree_that_was_rebuilt(fixture: HandlerFixture) -> None:
    tree, patch = await fixture.changed({"src/a.py": b"x = 2\n"})
    report = await reviewed(fixture, order(fixture, patch))
    assert (report.verdict, report.tree, report.findings) == ("PASS", tree, ())
    assert (report.reviewer, report.produced_diff, report.scope_check.passed) == (REVIEWER, False, True)
    assert (report.run_id, report.task_id) == ("run-0123456789", "run-0123456789.review.a1")
    assert f"baseline {fixture.baseline}" in report.evidence
    assert f"tree {tree}" in report.evidence


async def test_blocking_findings_fail_the_review_and_come_first(fixture: HandlerFixture) -> None:
    report = await review_of(fixture, {"src/a.py": b"<<<<<<< a\n=======\n>>>>>>> b\n", "README.md": b"x\n"})
    assert report.verdict == "FAIL"
    assert {finding.code for finding in report.findings} == {"conflict_markers", "path_out_of_scope"}
    assert (report.scope_check.passed, report.scope_check.violations) == (False, ("README.md",))
    assert report.summary.endswith("(and 1 more)")


async def test_weakened_tests_fail_the_review_unless_the_contract_opens_them(fixture: HandlerFixture) -> None:
    files = {"tests/test_a.py": b"def test_a():\n    pass\n"}
    inside = {"allowed_paths": ("src", "tests")}
    assert (await review_of(fixture, files, **inside)).verdict == "FAIL"
    opened = await review_of(fixture, files, **inside, scope=Scope(allow_protected_paths=("tests",)))
    assert (opened.verdict, [finding.blocking for finding in opened.findings]) == ("PASS", [False])
    assert opened.summary == "nothing blocks it; 1 remark(s)"


async def test_a_deleted_test_is_seen(fixture: HandlerFixture) -> None:
    report = await review_of(fixture, {"tests/test_a.py": None}, allowed_paths=("tests",))
    assert [finding.message for finding in report.findings] == ["a test file is deleted: 1 test(s) (test_a) are lost"]


async def test_an_empty_candidate_is_the_baseline_s_tree(fixture: HandlerFixture) -> None:
    report = await reviewed(fixture, order(fixture, b""))
    mirror = await fixture.mirror()
    assert (report.verdict, report.tree) == ("PASS", await mirror.tree_of(fixture.baseline))


async def test_submodules_and_links_are_reviewed_without_being_followed(fixture: HandlerFixture) -> None:
    (fixture.repository.path / "src" / "link").symlink_to("/etc/passwd")
    commit = fixture.repository.commit({})
    entry = f"160000,{fixture.baseline},src/sub"
    fixture.repository.git("update-index", "--add", "--cacheinfo", entry)
    fixture.repository.git("commit", "--quiet", "-m", "submodule")
    mirror = await fixture.mirror()
    await mirror.ensure(fixture.repository.head())
    patch = await mirror.diff(fixture.baseline, fixture.repository.head())
    report = await reviewed(fixture, order(fixture, patch))
    assert {(finding.code, finding.path) for finding in report.findings} == {
        ("symlink_refused", "src/link"),
        ("submodule_refused", "src/sub"),
    }
    assert commit != fixture.repository.head()


@pytest.mark.parametrize(
    "changes",
    [
        {"owner_agent": Agent(role="WORKER", agent_id="reviewer-1")},
        {"assigned_agent": Agent(role="WORKER", agent_id="worker-1")},
    ],
)
async def test_who_ordered_or_made_the_change_does_not_review_it(fixture: HandlerFixture, changes: dict[str, object]) -> None:
    report = await review_of(fixture, {"src/a.py": b"x = 2\n"}, **changes)
    assert (report.verdict, report.tree, report.scope_check.passed) == ("BLOCKED", None, False)
    assert [finding.code for finding in report.findings] == ["reviewer_not_independent"]


async def test_a_process_named_like_the_worker_does_not_review(fixture: HandlerFixture) -> None:
    _, patch = await fixture.changed({"src/a.py": b"x = 2\n"})
    handler = make_handler(Settings(home=fixture.state, agent_id="worker-1"))
    report = await handler.handle(order(fixture, patch), fixture.context())
    assert isinstance(report, ReviewReport)
    assert report.verdict == "BLOCKED"


async def test_a_candidate_that_cannot_be_rebuilt_is_blocked(fixture: HandlerFixture) -> None:
    report = await reviewed(fixture, order(fixture, b"no patch\n"))
    assert (report.verdict, report.tree) == ("BLOCKED", None)
    assert report.findings[0].code == "patch_malformed"


async def test_a_candidate_that_is_not_there_is_no_verdict(fixture: HandlerFixture) -> None:
    with pytest.raises(MalformedError, match="no input artifact"):
        await reviewed(fixture, order(fixture, b"", inputs=Inputs(spec="x", artifacts=())))
    task = order(fixture, b"something")
    fixture.artifacts.stored.clear()
    with pytest.raises(ArtifactError):
        await reviewed(fixture, task)


async def test_a_flood_of_findings_does_not_hide_one_that_blocks(fixture: HandlerFixture) -> None:
    files: dict[str, bytes | None] = {f"src/f{n}.bin": b"\0" for n in range(MAX_FINDINGS + 10)}
    report = await review_of(fixture, {**files, "zzz.py": b"x\n"}, scope=Scope(allow=("binary",)))
    assert report.verdict == "FAIL"
    assert len(report.findings) == MAX_FINDINGS
    assert report.findings[0].code == "path_out_of_scope"
