"""The intake gate on real repositories: what is pinned, and what never becomes a run that works."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.artifacts import inline_uri
from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.task_contract import Rollback
from gatewright.contracts.vocabulary import AcceptanceTest, Agent, Artifact, Executor, Repository, ToolPermissions
from gatewright.services.gatekeeper.decider.gate_checks import IntakeCheck, IntakeVerdict
from gatewright.services.gatekeeper.gates.engine import GateEngine
from tests.factories import make_contract, make_request
from tests.git.repositories import MakeRepository

RUN = "run-0123456789"


async def judge(gates: GateEngine, document: RunRequest | TaskContract) -> IntakeVerdict:
    verdict = await gates.answer(IntakeCheck(RUN, document))
    assert isinstance(verdict, IntakeVerdict)
    return verdict


async def test_the_baseline_is_pinned_to_a_commit(gates: GateEngine, make_repository: MakeRepository) -> None:
    repository = make_repository()
    verdict = await judge(gates, make_request(repository=Repository(url=repository.url), baseline_ref="main"))
    assert verdict.passed, verdict.report
    assert verdict.baseline_commit == repository.head()
    assert isinstance(verdict.document, RunRequest)
    assert verdict.document.baseline_ref == repository.head()


async def test_inline_artifacts_are_stored_and_named_by_digest(gates: GateEngine, make_repository: MakeRepository) -> None:
    data = b"a reply"
    digest = hashlib.sha256(data).hexdigest()
    request = make_request(
        repository=Repository(url=make_repository().url),
        executor=Executor(kind="reply", artifacts=("reply",)),
        artifacts=(Artifact(name="reply", uri=inline_uri(data), sha256=digest),),
    )
    verdict = await judge(gates, request)
    assert isinstance(verdict.document, RunRequest)
    (stored,) = verdict.document.artifacts
    assert stored.uri == f"artifact:sha256:{digest}"
    assert await gates.artifacts.get_artifact(stored.uri) == data


async def test_an_artifact_that_differs_from_its_digest_is_refused(gates: GateEngine, make_repository: MakeRepository) -> None:
    request = make_request(
        repository=Repository(url=make_repository().url),
        artifacts=(Artifact(name="reply", uri=inline_uri(b"other"), sha256="0" * 64),),
    )
    assert (await judge(gates, request)).report.code == "artifact_invalid"


@pytest.mark.parametrize("ref", ["--output=/tmp/x", "-x", "main~1", "HEAD^", "main:src", "@{u}", "a..b", "nowhere", "f" * 40])
async def test_a_ref_that_is_no_plain_name_never_reaches_a_run(
    ref: str, gates: GateEngine, make_repository: MakeRepository
) -> None:
    request = make_request(repository=Repository(url=make_repository().url), baseline_ref=ref)
    assert (await judge(gates, request)).report.code in {"bad_ref", "ref_not_found"}


@pytest.mark.parametrize("url", ["ext::sh -c id", "--upload-pack=id", "", "/nowhere/at/all"])
async def test_a_repository_that_cannot_be_fetched_safely_is_refused(url: str, gates: GateEngine) -> None:
    repository = Repository(url=url or " ")
    verdict = await judge(gates, make_request(repository=repository))
    assert not verdict.passed
    assert verdict.report.code in {"repository_unreadable", "bad_url"}, verdict.report


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"allowed_paths": (".",)}, "path_too_broad"),
        ({"allowed_paths": ("src/*",)}, "path_invalid"),
        ({"allowed_paths": ("../x",)}, "path_invalid"),
        ({"allowed_paths": (".env",)}, "path_protected"),
        ({"acceptance_tests": (AcceptanceTest(name="t", cmd="curl x", must_pass=True),)}, "action_forbidden"),
        ({"acceptance_tests": (AcceptanceTest(name="t", cmd="bash x", must_pass=True),)}, "command_not_allowed"),
        ({"executor": None}, "executor_missing"),
        ({"executor": Executor(kind="patch", artifacts=("none",))}, "executor_missing"),
        ({"assigned_agent": Agent(role="WORKER", agent_id="stranger")}, "agent_unknown"),
        (
            {
                "tool_permissions": ToolPermissions(filesystem="workspace-write", shell="never", network="allow", mcp_tools=()),
                "policy_pack": "high",
            },
            "permission_too_wide",
        ),
        ({"mcp_tool_set": ("browser",)}, "tool_unknown"),
        ({"repository": None}, "repository_missing"),
        ({"repository": Repository(url="/x", landing="target", target_ref="main")}, "bad_ref"),
    ],
)
async def test_a_contract_beyond_the_policy_is_refused(changes: dict[str, object], code: str, gates: GateEngine) -> None:
    verdict = await judge(gates, make_contract(RUN, **changes))
    assert verdict.report.verdict == "FAIL"
    assert code in {violation.code for violation in verdict.report.violations}


async def test_a_contract_keeps_everything_but_what_is_pinned(gates: GateEngine, make_repository: MakeRepository) -> None:
    repository = make_repository()
    contract = make_contract(
        "run-of-somebody-else",
        repository=Repository(url=repository.url),
        rollback=Rollback(strategy="worktree_drop", baseline_ref="HEAD"),
    )
    verdict = await judge(gates, contract)
    assert verdict.passed
    assert isinstance(verdict.document, TaskContract)
    pinned = verdict.document
    assert pinned.log_refs.run_id == RUN
    assert pinned.rollback.baseline_ref == repository.head()
    assert replace(pinned, log_refs=contract.log_refs, rollback=contract.rollback) == contract


@pytest.mark.parametrize(
    ("ref", "code"),
    [
        ("refs/heads/never-was", "target_missing"),
        ("refs/heads/older", "target_elsewhere"),
        ("refs/heads/main", "target_checked_out"),
        ("refs/heads/linked", "target_checked_out"),
        ("refs/heads/a..b", "bad_ref"),
        ("refs/heads/x.lock", "bad_ref"),
        ("refs/heads/free", "ok"),
    ],
)
async def test_an_unusable_landing_target_is_refused_at_intake(
    gates: GateEngine, make_repository: MakeRepository, tmp_path: Path, ref: str, code: str
) -> None:
    repository = make_repository()
    repository.git("branch", "older")
    repository.commit({"later.txt": b"later\n"})
    repository.git("branch", "free")
    repository.git("worktree", "add", "--quiet", "-b", "linked", str(tmp_path / "linked"))
    target = Repository(url=repository.url, landing="target", target_ref=ref)
    verdict = await judge(gates, make_request(repository=target, baseline_ref="HEAD"))
    assert verdict.report.code == code, verdict.report


async def test_the_branch_of_a_bare_repository_is_checked_out_nowhere(
    gates: GateEngine, make_repository: MakeRepository, tmp_path: Path
) -> None:
    bare = tmp_path / "bare.git"
    make_repository().git("clone", "--quiet", "--bare", ".", str(bare))
    target = Repository(url=str(bare), landing="target", target_ref="refs/heads/main")
    verdict = await judge(gates, make_request(repository=target))
    assert verdict.passed, verdict.report
