"""``check`` and ``policy explain``: the gates' own answer, and a repository that is as it was before."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.app.stack import state
from gatewright.contracts import RoleContractSummary, TaskContract, codec
from gatewright.contracts.task_contract import Rollback
from gatewright.contracts.vocabulary import AcceptanceTest, Environment, Executor
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.resources import policy_directory
from tests.cli.conftest import Command
from tests.factories import make_contract, make_request
from tests.git.conftest import first_repository, make_trap
from tests.git.conftest import make_repository as make_git_repository
from tests.git.repositories import MakeRepository, MakeTrap, Repository
from tests.rosters import make_keys, write_roster
from tests.stack.test_state import make_state

__all__ = ["first_repository", "make_git_repository", "make_trap"]

WriteContract = Callable[..., Path]


@pytest.fixture
def repository(make_git_repository: MakeRepository) -> Repository:
    return make_git_repository()


@pytest.fixture
def write_contract(repository: Repository, tmp_path: Path) -> WriteContract:
    """A contract over ``src`` that begins at the first commit, as a file."""

    def write(**changes: object) -> Path:
        rollback = Rollback(strategy="worktree_drop", baseline_ref=repository.head())
        contract = make_contract(repository=RepositoryField(url=repository.url), rollback=rollback)
        contract = replace(contract, **changes)
        path = tmp_path / "contract.json"
        path.write_bytes(codec.encode(contract))
        return path

    return write


def everything(folder: Path) -> dict[str, str]:
    """Every file below ``folder`` with its digest and times."""
    return {
        str(path.relative_to(folder)): f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_mtime_ns}"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_change_inside_the_contract_passes_and_nothing_is_written(
    gatewright: Command, repository: Repository, write_contract: WriteContract
) -> None:
    contract = write_contract()
    repository.commit({"src/app.py": b"changed\n"})
    before = everything(repository.path)
    said = gatewright("check", "--contract", contract, "--repo", repository.path)
    assert (said.exit_code, said.out.splitlines()[0]) == (0, "✔ would pass: 1 changed file judged")
    assert everything(repository.path) == before


def test_a_change_outside_is_named_with_its_path_and_code(
    gatewright: Command, repository: Repository, write_contract: WriteContract
) -> None:
    contract = write_contract()
    repository.commit({"README.md": b"mine\n"})
    said = gatewright("check", "--contract", contract, "--repo", repository.path)
    assert said.exit_code == 1
    assert "README.md: outside the contract's paths [path_out_of_scope]" in said.out
    told = gatewright("check", "--contract", contract, "--repo", repository.path, "--json").documents[0]
    assert (told["passed"], told["reports"][0]["code"]) == (False, "path_out_of_scope")


def test_what_is_staged_is_judged_and_what_is_not_is_not(
    gatewright: Command, repository: Repository, write_contract: WriteContract
) -> None:
    contract = write_contract()
    (repository.path / "src/app.py").write_text("staged\n")
    repository.git("add", "src/app.py")
    (repository.path / "README.md").write_text("not staged\n")
    before = everything(repository.path)
    assert gatewright("check", "--contract", contract, "--repo", repository.path, "--staged").exit_code == 0
    assert everything(repository.path) == before
    repository.git("add", "README.md")
    before = everything(repository.path)
    said = gatewright("check", "--contract", contract, "--repo", repository.path, "--staged")
    assert said.exit_code == 1
    assert "README.md" in said.out
    assert everything(repository.path) == before


@pytest.mark.parametrize("how", ["nothing committed", "undone again", "nothing staged"])
def test_an_empty_change_is_refused(
    gatewright: Command, repository: Repository, write_contract: WriteContract, how: str
) -> None:
    contract = write_contract()
    (repository.path / "src/app.py").write_text("changed\n")
    (repository.path / "src/new.py").write_text("new\n")
    if how == "undone again":
        repository.git("commit", "--quiet", "--all", "--message=change")
        repository.git("revert", "--no-edit", "HEAD")
    options = ("--staged",) if how == "nothing staged" else ()
    said = gatewright("check", "--contract", contract, "--repo", repository.path, *options)
    lines = said.out.splitlines()
    assert (said.exit_code, lines[0]) == (1, "✘ would be refused: 0 changed files judged")
    assert lines[1].endswith("[empty_diff]")
    assert (
        lines[-1]
        == {
            "nothing committed": "  not judged: 2 files are not committed (1 changed, 1 untracked)",
            "undone again": "  not judged: 1 file is not committed (1 untracked)",
            "nothing staged": "  not judged: 2 files are not staged (1 changed, 1 untracked)",
        }[how]
    )


def test_an_empty_change_passes_for_an_audit(
    gatewright: Command, repository: Repository, write_contract: WriteContract
) -> None:
    said = gatewright("check", "--contract", write_contract(audit_only=True), "--repo", repository.path, "--json")
    assert (said.exit_code, said.documents[0]["judged_files"]) == (0, 0)


def test_work_that_is_not_committed_is_reported_beside_a_pass(
    gatewright: Command, repository: Repository, write_contract: WriteContract
) -> None:
    contract = write_contract()
    repository.commit({"src/app.py": b"changed\n"})
    repository.git("checkout", "--quiet", "--detach")
    (repository.path / "src/app.py").write_text("more\n")
    said = gatewright("check", "--contract", contract, "--repo", repository.path)
    assert said.exit_code == 0
    assert said.out.splitlines()[1:] == ["  not judged: 1 file is not committed (1 changed)"]
    other = gatewright("check", "--contract", contract, "--repo", repository.path, "--base", "HEAD", "--head", "HEAD~1")
    assert "not committed" not in other.out, "what lies in the work tree does not belong to another commit"


def test_an_empty_patch_is_refused_and_no_patch_is_no_change(
    gatewright: Command, write_contract: WriteContract, repository: Repository, tmp_path: Path
) -> None:
    (tmp_path / "x.diff").write_text("")
    words = ("policy", "explain", write_contract(), "--repo", repository.path)
    said = gatewright(*words, "--patch", tmp_path / "x.diff")
    assert said.exit_code == 1
    assert "✘ would be refused: 0 changed files judged" in said.out.splitlines()
    assert "✔ would pass: no change was judged" in gatewright(*words).out.splitlines()


def test_a_remark_has_a_line_of_its_own_beside_a_pass(
    gatewright: Command, repository: Repository, write_contract: WriteContract
) -> None:
    contract = write_contract()
    repository.commit({"src/copy.md": (repository.path / "README.md").read_bytes()})
    said = gatewright("check", "--contract", contract, "--repo", repository.path)
    assert said.exit_code == 0
    assert said.out.splitlines()[1].startswith("  ! remark  integrated gate: src/copy.md: copied_content: ")


def test_secrets_and_losses_are_judged_too(gatewright: Command, repository: Repository, write_contract: WriteContract) -> None:
    contract = write_contract()
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    repository.commit({"src/app.py": f"token = '{key}'\n".encode()})
    said = gatewright("check", "--contract", contract, "--repo", repository.path)
    assert said.exit_code == 1
    assert "secret_found" in said.out
    assert key not in said.out


@pytest.mark.long
def test_check_works_detached_in_subdirectories_and_linked_work_trees(
    gatewright: Command, repository: Repository, write_contract: WriteContract, tmp_path: Path
) -> None:
    contract = write_contract()
    repository.commit({"src/app.py": b"changed\n"})
    repository.git("checkout", "--quiet", "--detach")
    assert gatewright("check", "--contract", contract, "--repo", repository.path / "src").exit_code == 0
    linked = tmp_path / "linked"
    repository.git("worktree", "add", "--quiet", str(linked), "HEAD")
    (linked / "README.md").write_text("mine\n")
    Repository(linked, repository.home).git("add", "README.md")
    assert gatewright("check", "--contract", contract, "--repo", linked).exit_code == 0
    assert gatewright("check", "--contract", contract, "--repo", linked, "--staged").exit_code == 1


@pytest.mark.long
def test_a_base_that_a_shallow_clone_lacks_is_reported(
    gatewright: Command, repository: Repository, write_contract: WriteContract, tmp_path: Path
) -> None:
    contract = write_contract()
    repository.commit({"src/app.py": b"changed\n"})
    repository.git("clone", "--quiet", "--depth=1", f"file://{repository.path}", str(tmp_path / "shallow"))
    said = gatewright("check", "--contract", contract, "--repo", tmp_path / "shallow")
    assert said.exit_code == 2
    assert "ref_not_found" in said.err
    present = gatewright("check", "--contract", contract, "--repo", tmp_path / "shallow", "--base", "HEAD")
    assert (present.exit_code, "empty_diff" in present.out) == (1, True)


def test_a_request_serves_as_well_as_a_contract(gatewright: Command, repository: Repository, tmp_path: Path) -> None:
    request = make_request(
        repository=RepositoryField(url=repository.url),
        baseline_ref=repository.head(),
        executor=Executor(kind="command", commands=("touch src/x",)),
        artifacts=(),
    )
    (tmp_path / "request.json").write_bytes(codec.encode(request))
    repository.commit({"elsewhere.py": b"x\n"})
    said = gatewright("check", "--contract", tmp_path / "request.json", "--repo", repository.path)
    assert said.exit_code == 1
    assert "path_out_of_scope" in said.out


@pytest.mark.parametrize(("text", "code"), [("not json", "not_json"), ("{}", "malformed"), ('{"task_id": "x"}', "malformed")])
def test_what_is_no_contract_is_bad_input(
    gatewright: Command, repository: Repository, tmp_path: Path, text: str, code: str
) -> None:
    (tmp_path / "bad.json").write_text(text)
    said = gatewright("check", "--contract", tmp_path / "bad.json", "--repo", repository.path)
    assert said.exit_code == 2
    assert f"[{code}" in said.err or "[schema" in said.err or code in said.err


def test_outside_of_a_repository_check_reports_it(gatewright: Command, write_contract: WriteContract) -> None:
    said = gatewright("check", "--contract", write_contract(), "--repo", "/proc")
    assert said.exit_code == 2
    assert "not_a_repository" in said.err


def test_hostile_configuration_runs_nothing(
    gatewright: Command, repository: Repository, write_contract: WriteContract, make_trap: MakeTrap
) -> None:
    contract, trap = write_contract(), make_trap()
    repository.commit({"src/app.py": b"changed\n"})
    repository.git("add", "--all")
    (repository.path / ".git/info").mkdir(exist_ok=True)
    (repository.path / ".git/info/attributes").write_text("* filter=evil diff=evil\n")
    repository.configure(
        core__fsmonitor=trap.program,
        core__hooksPath=trap.program.parent,
        core__worktree="/etc",
        core__pager=trap.program,
        core__sshCommand=trap.program,
        diff__external=trap.program,
        filter__evil__clean=trap.program,
        diff__evil__textconv=trap.program,
        uploadpack__packObjectsHook=trap.program,
    )
    before = everything(repository.path / ".git")
    assert gatewright("check", "--contract", contract, "--repo", repository.path).exit_code == 0
    assert gatewright("check", "--contract", contract, "--repo", repository.path, "--staged").exit_code == 0
    assert everything(repository.path / ".git") == before
    assert not trap.sprung


def test_a_flag_hidden_edit_is_judged_as_indexed(
    gatewright: Command, repository: Repository, write_contract: WriteContract
) -> None:
    contract = write_contract()
    (repository.path / "README.md").write_text("mine\n")
    repository.git("add", "README.md")
    repository.git("update-index", "--skip-worktree", "README.md")
    assert gatewright("check", "--contract", contract, "--repo", repository.path, "--staged").exit_code == 1


# --- policy explain ---------------------------------------------------------------------------------------------------


def test_every_rule_is_explained_in_order(gatewright: Command, write_contract: WriteContract, repository: Repository) -> None:
    said = gatewright("policy", "explain", write_contract(), "--repo", repository.path, "--json")
    told = said.documents[0]
    assert (said.exit_code, told["passed"], told["unjudged"]) == (0, True, [])
    rules = [rule["rule"] for rule in told["reports"][0]["rules"]]
    for name in ("allowed_paths", "command_allowlist", "dispatch.table", "agent_registry.shell", "breadth.top_level"):
        assert name in rules
    assert len(rules) == len(set(rules))


def test_a_refused_contract_is_exit_1_with_the_reason(gatewright: Command, write_contract: WriteContract) -> None:
    said = gatewright("policy", "explain", write_contract(allowed_paths=("src", "../etc")))
    assert said.exit_code == 1
    assert "✘" in said.out
    assert "path_invalid" in said.out


def test_without_the_repository_explain_lists_unjudged_rules(
    gatewright: Command, write_contract: WriteContract, tmp_path: Path
) -> None:
    (tmp_path / "x.diff").write_text("--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-read me\n+mine\n")
    said = gatewright("policy", "explain", write_contract(), "--patch", tmp_path / "x.diff", "--json")
    assert len(said.documents[0]["unjudged"]) == 2


def test_an_environment_that_the_stack_does_not_offer_is_refused(
    gatewright: Command, write_contract: WriteContract, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, offered = tmp_path / "home", tmp_path / "env"
    for folder in (home, offered):
        folder.mkdir()
    monkeypatch.setenv("GATEWRIGHT_HOME", str(home))
    explain = ("policy", "explain", write_contract(environment=Environment(prefix="/nowhere/env")))
    unknown = gatewright(*explain)
    assert (unknown.exit_code, "not judged: the environment" in unknown.out) == (0, True)
    state.write(home, make_state(environments=(str(offered),)))
    refused = gatewright(*explain)
    assert (refused.exit_code, "[environment_not_allowed]" in refused.out) == (1, True)
    assert f"offered: {offered}" in refused.out
    passed = gatewright("policy", "explain", write_contract(environment=Environment(prefix=str(offered))))
    assert (passed.exit_code, "the environment" in passed.out) == (0, False)


def test_a_patch_is_explained_by_the_rules_of_the_diff_gate(
    gatewright: Command, write_contract: WriteContract, repository: Repository, tmp_path: Path
) -> None:
    (tmp_path / "x.diff").write_text("--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-read me\n+mine\n")
    said = gatewright(
        "policy", "explain", write_contract(), "--patch", tmp_path / "x.diff", "--repo", repository.path, "--json"
    )
    assert said.exit_code == 1
    _, change = said.documents[0]["reports"]
    verdicts = {rule["rule"]: rule["verdict"] for rule in change["rules"]}
    assert verdicts["allowed_paths"] == "FAIL"
    assert verdicts["protected_paths.sacred"] == "PASS"
    assert json.dumps(change).count("path_out_of_scope") >= 2


def test_the_operator_s_own_policies_can_be_asked(gatewright: Command, write_contract: WriteContract, tmp_path: Path) -> None:
    said = gatewright("policy", "explain", write_contract(), "--policies", tmp_path)
    assert said.exit_code == 3
    assert "agent_registry.json" in said.err


def test_a_wider_permission_is_shown_as_asked_and_granted(gatewright: Command, write_contract: WriteContract) -> None:
    contract = codec.decode(write_contract().read_bytes(), TaskContract)
    path = write_contract(tool_permissions=replace(contract.tool_permissions, network="allow"))
    told = gatewright("policy", "explain", path, "--json").documents[0]
    details = {rule["rule"]: rule.get("detail", "") for rule in told["reports"][0]["rules"]}
    assert details["agent_registry.network"].startswith("asked allow, granted deny")


@pytest.mark.long
def test_a_publisher_learns_beforehand_what_it_may_not_submit(
    gatewright: Command, write_contract: WriteContract, tmp_path: Path
) -> None:
    policies = tmp_path / "policies"
    shutil.copytree(policy_directory(), policies)
    known = json.loads((policies / "publishers.json").read_text())
    narrow = known["publishers"][0] | {"name": "narrow", "repositories": ["https://forge.example/acme"], "kinds": ["request"]}
    known["publishers"].append(narrow)
    (policies / "publishers.json").write_text(json.dumps(known))
    contract = write_contract()
    for publisher, codes in (
        ("default", []),
        ("narrow", ["kind_not_allowed", "repository_not_allowed"]),
        ("stranger", ["publisher_unknown"]),
    ):
        said = gatewright("policy", "explain", contract, "--policies", policies, "--publisher", publisher, "--json")
        (report,) = said.documents[0]["reports"]
        assert [found["code"] for found in report["violations"]] == codes
        assert said.exit_code == (1 if codes else 0)
        assert f"publishers.{publisher}" in {rule["rule"] for rule in report["rules"]}


def test_the_role_that_a_contract_resolves_to_is_explained(gatewright: Command, write_contract: WriteContract) -> None:
    words = ("policy", "explain", write_contract())
    told = gatewright(*words, "--json").documents[0]["role_contract_summary"]
    summary = codec.decode(json.dumps(told).encode(), RoleContractSummary)
    assert (summary.execution_authority, summary.identity.role) == ("task_contract", "WORKER")
    assert f"role WORKER ({summary.identity.agent_id})" in gatewright(*words).out


def test_what_each_acceptance_command_will_have_to_show_is_explained(
    gatewright: Command, write_contract: WriteContract, repository: Repository
) -> None:
    repository.commit({"package.json": b'{"scripts": {"test": "node --test"}}', "check.py": b"assert True\n"})
    tests = (
        AcceptanceTest(name="unit", cmd="python -m pytest -q", must_pass=True),
        AcceptanceTest(name="front", cmd="npm test", must_pass=True),
        AcceptanceTest(name="held-out", cmd="python -m pytest -q tests/held_out.py", must_pass=True, hidden=True),
        AcceptanceTest(name="script", cmd="python check.py", must_pass=True),
        AcceptanceTest(name="style", cmd="ruff check .", must_pass=False),
    )
    path = write_contract(acceptance_tests=tests)
    words = ("policy", "explain", path, "--base", "HEAD")
    told = gatewright(*words, "--repo", repository.path, "--json").documents[0]["testing"]
    assert [(each["name"], each["framework"], each["hidden"]) for each in told] == [
        ("unit", "pytest", False),
        ("front", "node:test", False),
        ("held-out", "pytest", True),
        ("script", "", False),
        ("style", "", False),
    ]
    assert told[3]["words"].startswith("unproven: ")
    assert "does not have to pass" in told[4]["words"]
    assert [bool(each["costs"]) for each in told] == [True, True, True, False, False]
    assert "every test file is loaded" in told[1]["costs"]
    printed = gatewright(*words, "--repo", repository.path).out
    assert "what a green run will have shown" in printed
    assert "held-out (hidden, pytest): " in printed
    assert (printed.count("costs beside it: "), printed.count("remains: "), printed.count("remains with each: ")) == (3, 1, 1)
    assert "costs the suite and its new tests once more" in printed
    without = gatewright(*words, "--json").documents[0]["testing"]
    assert "--repo" in without[1]["words"], "what npm starts stands in the repository"


def test_an_orderer_missing_from_the_roster_is_reported_first(
    gatewright: Command, repository: Repository, write_contract: WriteContract, tmp_path: Path
) -> None:
    policies = tmp_path / "policies"
    shutil.copytree(policy_directory(), policies)
    rule = {"name": "main", "reason": "landing", "risk": "high", "approvers": ["ana"], "within_seconds": 3600}
    (policies / "approval_rules.json").write_text(json.dumps({"version": "1", "rules": [rule]}))
    write_roster(policies, make_keys(tmp_path, ["ana"]))
    words = ("policy", "explain", "--policies", policies, "--publisher", "default")
    nobody = gatewright(*words, write_contract())
    assert "nothing names who ordered it" in nobody.out
    stranger = gatewright(*words, write_contract(ordered_by=("ben",)))
    assert "the roster of approvers does not know who ordered it (ben)" in stranger.out
    known = gatewright(*words, write_contract(ordered_by=("Ana",)))
    assert "approval by another person" not in known.out


def test_explain_names_the_rule_about_ci_files_and_check_refuses_them(
    gatewright: Command, repository: Repository, write_contract: WriteContract, tmp_path: Path
) -> None:
    """No person can be asked about a push: what a rule would ask about is refused there."""
    policies = tmp_path / "policies"
    shutil.copytree(policy_directory(), policies)
    rule = {"name": "pipeline", "reason": "protected_class", "classes": ["ci"], "risk": "high", "approvers": ["ana"]}
    (policies / "approval_rules.json").write_text(json.dumps({"version": "1", "rules": [rule | {"within_seconds": 3600}]}))
    write_roster(policies, make_keys(tmp_path, ["ana"]))
    contract = write_contract(allowed_paths=(".github",), ordered_by=("ben",))
    repository.commit({".github/workflows/test.yml": b"on: push\n"})
    patch = tmp_path / "ci.diff"
    patch.write_bytes(repository.git("diff", "HEAD~", "HEAD"))
    place = ("--repo", repository.path)
    explained = gatewright("policy", "explain", contract, "--patch", patch, *place, "--policies", policies, "--json")
    assert explained.documents[0]["reports"][1]["verdict"] == "PASS"
    details = {rule["rule"]: rule.get("detail", "") for rule in explained.documents[0]["reports"][1]["rules"]}
    assert details["protected_paths.ci"].startswith("opened by approval: the rule pipeline asks a person, touched: .github")
    checked = gatewright("check", "--contract", contract, *place, "--policies", policies, "--json")
    assert [each["rule"] for each in checked.documents[0]["reports"][0]["violations"]] == ["protected_paths.ci"]


def test_explain_names_the_classes_of_paths_that_a_change_touches(
    gatewright: Command, repository: Repository, write_contract: WriteContract, tmp_path: Path
) -> None:
    policies = tmp_path / "policies"
    policies.mkdir()
    rule = {"name": "billing", "reason": "path_class", "paths": ["billing/"], "risk": "high", "approvers": ["ana"]}
    others = rule | {"name": "auth", "paths": ["auth/"]}
    rules = [each | {"within_seconds": 3600} for each in (rule, others)]
    (policies / "approval_rules.json").write_text(json.dumps({"version": "1", "rules": rules}))
    write_roster(policies, make_keys(tmp_path, ["ana"]))
    contract = write_contract(allowed_paths=("src",), ordered_by=("ben",))
    repository.commit({"src/billing/pay.py": b"pay = 1\n"})
    patch = tmp_path / "pay.diff"
    patch.write_bytes(repository.git("diff", "HEAD~", "HEAD"))
    explained = gatewright(
        "policy", "explain", contract, "--patch", patch, "--repo", repository.path, "--policies", policies, "--json"
    )
    details = {rule["rule"]: rule.get("detail", "") for rule in explained.documents[0]["reports"][1]["rules"]}
    assert details["path_class.billing"] == "needs 1 approval of ana, touched: src/billing/pay.py"
    assert details["asks.path_class:billing"] == "billing: src/billing/pay.py"
    assert details["path_class.auth"] == "needs 1 approval of ana"
    assert "asks.path_class:auth" not in details
