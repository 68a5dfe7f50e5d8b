"""What a contract points at is what is used, or nothing is."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.budgets import LONGEST_COMMAND, command_seconds
from gatewright.contracts.task_contract import Inputs
from gatewright.contracts.vocabulary import Artifact, Environment, TimeoutRetry
from gatewright.errors import DeniedError, GitError, MalformedError, PatchError
from gatewright.tasks.inputs import environment_prefix, find_artifact, open_baseline, rebuild_candidate
from gatewright.worker_role import resolve_role
from tests.factories import make_contract
from tests.handler_fixture import make_handler_fixture

DIGEST = "a" * 64


async def test_the_candidate_is_rebuilt_to_the_same_tree(tmp_path: Path) -> None:
    fixture = make_handler_fixture(tmp_path, {"a.py": b"1\n"})
    tree, patch = await fixture.changed({"a.py": b"2\n", "b.bin": b"\0\1"})
    contract = fixture.contract(inputs=Inputs(spec="x", artifacts=(fixture.artifacts.hold("candidate.patch", patch),)))
    candidate = await rebuild_candidate(contract, fixture.mirrors, fixture.artifacts)
    assert (candidate.tree, candidate.baseline) == (tree, fixture.baseline)
    wrong = fixture.contract(inputs=Inputs(spec="x", artifacts=(fixture.artifacts.hold("candidate.patch", b"words"),)))
    with pytest.raises(PatchError):
        await rebuild_candidate(wrong, fixture.mirrors, fixture.artifacts)


@pytest.mark.parametrize("baseline", ["main", "HEAD~1", "--output=x", ""])
async def test_a_baseline_that_is_not_a_full_commit_id_is_refused(tmp_path: Path, baseline: str) -> None:
    fixture = make_handler_fixture(tmp_path, {"a.py": b"1\n"})
    fixture.baseline = baseline
    with pytest.raises((MalformedError, GitError)):
        await open_baseline(fixture.contract(), fixture.mirrors)


def test_a_repeated_artifact_merges_and_a_name_clash_fails() -> None:
    artifact = Artifact(name="a", uri=f"artifact:sha256:{DIGEST}", sha256=DIGEST)
    upper = Artifact(name="a", uri=artifact.uri, sha256=DIGEST.upper())
    other = Artifact(name="a", uri="artifact:sha256:" + "b" * 64, sha256="b" * 64)
    assert find_artifact(make_contract(inputs=Inputs(spec="x", artifacts=(artifact, upper))), "a").uri == artifact.uri
    with pytest.raises(MalformedError, match="2 input artifact"):
        find_artifact(make_contract(inputs=Inputs(spec="x", artifacts=(artifact, other))), "a")


def test_only_a_listed_environment_is_given(tmp_path: Path) -> None:
    real, link = tmp_path / "env", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    assert environment_prefix(None, [real]) is None
    assert environment_prefix(Environment(prefix=str(real)), [link]) == link
    for asked in (tmp_path, real / "bin", Path("env"), real.parent / "env2"):
        with pytest.raises(DeniedError) as refused:
            environment_prefix(Environment(prefix=str(asked)), [link])
        assert refused.value.reason == "environment_not_allowed"


def test_no_command_gets_more_time_than_the_kernel_can_count() -> None:
    endless = TimeoutRetry(timeout_sec=1.7e308, max_retries=0, retry_backoff_sec=0)
    assert command_seconds(make_contract(timeout_retry=endless)) == LONGEST_COMMAND
    assert command_seconds(make_contract()) == 60


def test_the_resolved_role_follows_the_contract_it_resolves() -> None:
    contract = make_contract(mcp_tool_set=("a", "b"))
    role = resolve_role(contract)
    assert role.resolved_mcp_tool_set == ("a", "b")
    assert role.tool_permissions.shell == contract.tool_permissions.shell
    assert (role.handoff.eligible, role.handoff.max_handoffs) == (False, 0)
