"""Organisation rules: only ``true`` allows, at each of three stages; one that cannot be used stops the gatekeeper."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from cel_expr_python import cel
from msgspec.structs import replace

from gatewright.contracts import TaskContract
from gatewright.contracts.vocabulary import AcceptanceTest
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.errors import ConfigurationError
from gatewright.resources import policy_directory
from gatewright.services.gatekeeper.gates.cel_gate import contract_document, diff_document, evidence_document
from gatewright.services.gatekeeper.policies.cel_rules import CONTRACT, DIFF, EVIDENCE, Stage, load_rules, sample
from gatewright.services.gatekeeper.policies.load import Policies, load
from tests.attacks.whole_gatekeeper import Gatekeeper, contract_on, open_gatekeeper
from tests.git.repositories import MakeRepository

EXAMPLES = Path(__file__).parents[3] / "examples" / "organisation-rules"
REAL = AcceptanceTest(name="unit", cmd="test -s README.md", must_pass=True)


def write_rule(folder: Path, expression: str, stage: Stage = "contract", extra: str = "") -> Path:
    """The operator's policies, with one rule of their own beside those that come with the package."""
    policies = folder / "policies"
    if not policies.exists():
        shutil.copytree(policy_directory(), policies)
    header = f"// name: test-rule\n// stage: {stage}\n// message: The rule of the test says no.\n{extra}"
    (policies / "organisation" / "test-rule.cel").write_text(header + expression)
    return policies


async def land(gatekeeper: Gatekeeper, contract: TaskContract, patch: bytes) -> tuple[str, str]:
    """The whole way with honest roles; the run's status and reason code."""
    run = await gatekeeper.submit(contract)
    for step in (gatekeeper.plan, lambda: gatekeeper.work(patch), gatekeeper.review, gatekeeper.test):
        if run.ended:
            break
        run = await step()
    return run.status, run.failure.code if run.failure else ""


@pytest.mark.parametrize(
    "expression",
    [
        "false",
        "contract.no_such_field",
        "has(contract.no_such_field)",
        "contract.task_id",
        "contract.max_retries",
        "1 / contract.max_retries == 1",
        "contract.spec.matches('[')",
        "contract.allowed_paths[7] == 'src'",
        "contract.repository.target_ref == null",
    ],
)
async def test_whatever_is_not_true_denies(expression: str, make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files={"README.md": b"one\n", "src/a.py": b"a = 1\n"})
    folder = write_rule(tmp_path, "true")
    # Past the try-out at the start: a rule can meet at work what it did not meet there.
    policies = load(folder)
    rule = next(rule for rule in policies.rules if rule.name == "test-rule")
    program = cel.NewEnv(variables={"contract": cel.Type.DYN}).compile(expression)
    object.__setattr__(rule, "program", program)
    async with open_gatekeeper(repository, tmp_path, policies=folder) as gatekeeper:
        object.__setattr__(gatekeeper.orchestrator.gates, "policies", policies)
        run = await gatekeeper.submit(contract_on(repository))
        assert run.failure is not None
        assert run.failure.code == "organisation_rule"
        assert "The rule of the test says no." in run.failure.message
        assert gatekeeper.nothing_landed()


async def test_a_rule_that_needs_too_many_steps_denies(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files={"README.md": b"one\n", "src/a.py": b"a = 1\n"})
    thrice = "diff.changes.all(a, diff.changes.all(b, diff.changes.all(c, a.path + b.path + c.path != '')))"
    folder = write_rule(tmp_path, thrice, "diff")
    files: dict[str, bytes | None] = {f"src/n{number}.py": b"n = 1\n" for number in range(60)}
    async with open_gatekeeper(repository, tmp_path, policies=folder) as gatekeeper:
        outcome = await land(gatekeeper, contract_on(repository, allowed_paths=("src",)), gatekeeper.patch(files))
        assert outcome == ("FAILED", "organisation_rule")
        (report,) = await gatekeeper.reports("integrated")
        assert "Iteration budget exceeded" in report.summary
        assert gatekeeper.nothing_landed()


@pytest.mark.parametrize(
    ("stage", "gate", "expression"),
    [
        ("contract", "policy", "contract.requirement_ids.size() > 0"),
        ("diff", "integrated", "diff.changes.all(c, c.path != 'README.md')"),
        ("evidence", "landing", "evidence.tests.commands.exists(c, c.name == 'security')"),
    ],
)
async def test_a_rule_is_asked_at_its_stage_and_named_in_the_report(
    stage: Stage, gate: str, expression: str, make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository(files={"README.md": b"one\n", "src/a.py": b"a = 1\n"})
    folder = write_rule(tmp_path, expression, stage)
    async with open_gatekeeper(repository, tmp_path, policies=folder) as gatekeeper:
        contract = contract_on(repository, acceptance_tests=(REAL,))
        outcome = await land(gatekeeper, contract, gatekeeper.patch({"README.md": b"two\n"}))
        assert outcome == ("FAILED", "organisation_rule")
        (report,) = await gatekeeper.reports(gate)
        assert [violation.rule for violation in report.violations] == ["organisation.test-rule"]
        assert "organisation.test-rule" in {rule.rule for rule in report.rules if rule.verdict == "FAIL"}
        assert "organisation.test-rule" in {seen.name for seen in report.evidence}
        assert gatekeeper.nothing_landed()


@pytest.mark.parametrize("stage", ["contract", "diff", "evidence"])
async def test_a_rule_that_evaluates_to_true_lets_the_change_land(
    stage: Stage, make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository(files={"README.md": b"one\n", "src/a.py": b"a = 1\n"})
    folder = write_rule(tmp_path, "contract.task_type == 'IMPLEMENT'", stage)
    async with open_gatekeeper(repository, tmp_path, policies=folder) as gatekeeper:
        contract = contract_on(repository, acceptance_tests=(REAL,))
        assert await land(gatekeeper, contract, gatekeeper.patch({"README.md": b"two\n"})) == ("SUCCESS", "")
        assert not gatekeeper.nothing_landed()


async def test_sizes_are_there_for_a_rule_that_asks_for_them(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files={"README.md": b"one\n", "src/a.py": b"a = 1\n"})
    folder = write_rule(tmp_path, "diff.changes.all(c, c.size < 1000)", "diff", "// needs: sizes\n")
    async with open_gatekeeper(repository, tmp_path, policies=folder) as gatekeeper:
        contract = contract_on(repository, acceptance_tests=(REAL,))
        outcome = await land(gatekeeper, contract, gatekeeper.patch({"README.md": b"x" * 1000}))
        assert outcome == ("FAILED", "organisation_rule")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.cel", b"true", "name"),
        ("a.cel", b"// name: a-rule\n// stage: contract\ntrue", "message"),
        ("a.cel", b"// name: a-rule\n// stage: merge\n// message: the rule says no\ntrue", "stage"),
        ("a.cel", b"// name: a-rule\n// stage: diff\n// message: the rule says no\n// owner: me\ntrue", "owner"),
        ("a.cel", b"// name: a-rule\n// name: b-rule\n// stage: diff\n// message: the rule says no\ntrue", "twice"),
        ("a.cel", b"// name: a-rule\n// stage: diff\n// message: the rule says no\n", "Syntax error"),
        ("a.cel", b"// name: a-rule\n// stage: diff\n// message: the rule says no\n1 +", "Syntax error"),
        ("a.cel", b"// name: a-rule\n// stage: diff\n// message: the rule says no\n1", "true or false"),
        ("a.cel", b"// name: a-rule\n// stage: diff\n// message: the rule says no\nevidence.attempt == 1", "evidence"),
        ("a.cel", b"// name: a-rule\n// stage: diff\n// message: the rule says no\ndiff.nothing == 1", "tried on a sample"),
        (
            "a.cel",
            b"// name: a-rule\n// stage: diff\n// message: the rule says no\ndiff.changes.all(c, c.size < 9)",
            "tried on a sample",
        ),
        ("a.cel", b"\xff\xfe", "decode"),
        ("a.cel", b"//" + b" " * 20_000, "bytes"),
        ("a.rego", b"package x", "only rules"),
        (".a.cel", b"// name: a-rule\n// stage: diff\n// message: the rule says no\ntrue", "only rules"),
        ("b.cel", (policy_directory() / "organisation" / "landing-on-a-target-is-tested.cel").read_bytes(), "two rules"),
    ],
)
def test_a_rule_that_cannot_be_used_stops_the_gatekeeper(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(policy_directory(), tmp_path / "policies"))
    (folder / "organisation" / name).write_bytes(content)
    with pytest.raises(ConfigurationError, match=words):
        load(folder)


def test_a_rule_that_cannot_be_read_stops_the_gatekeeper(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(policy_directory(), tmp_path / "policies"))
    (folder / "organisation" / "a.cel").mkdir()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load(folder)


def test_every_change_of_a_rule_changes_the_digest_of_the_policies(tmp_path: Path, policies: Policies) -> None:
    folder = Path(shutil.copytree(policy_directory(), tmp_path / "policies"))
    (rule,) = (folder / "organisation").iterdir()
    digests = {policies.sha256}
    rule.write_bytes(rule.read_bytes() + b"\n")
    digests.add(load(folder).sha256)
    shutil.copy(EXAMPLES / "main-needs-medium.cel", folder / "organisation")
    digests.add(load(folder).sha256)
    for each in (folder / "organisation").iterdir():
        each.unlink()
    digests.add(load(folder).sha256)
    assert len(digests) == 4
    (folder / "organisation").rmdir()
    with pytest.raises(ConfigurationError, match="every policy but organisation"):
        load(folder)


def keys_of(value: Any) -> Any:
    """The names in a document, without its values."""
    if isinstance(value, dict) and not set(value) <= {"sacred", "ci", "protected", "dependencies", "migrations", "plain"}:
        return {key: keys_of(inner) for key, inner in value.items()}
    if isinstance(value, list) and value:
        return [keys_of(value[0])]
    return type(value).__name__


async def test_the_samples_have_the_names_of_the_real_documents(
    make_repository: MakeRepository, policies: Policies, tmp_path: Path
) -> None:
    repository = make_repository(files={"README.md": b"one\n", "src/a.py": b"a = 1\n"})
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        contract = contract_on(repository, acceptance_tests=(REAL,))
        await land(gatekeeper, contract, gatekeeper.patch({"README.md": b"two\n"}))
        run = await gatekeeper.run()
        mirror = await gatekeeper.orchestrator.gates.mirrors.open(repository.url)
        assert run.candidate is not None
        assert run.contract is not None
        changes = await mirror.changes(run.accepted.baseline_tree, run.candidate.tree)
        assert set(contract_document(run.contract, policies, run.contract.executor)) == set(CONTRACT)
        diff = diff_document(changes, 1, {changes[0].new_id: 4}, policies)
        assert keys_of(diff) == keys_of(dict(DIFF))
        evidence = evidence_document(run, policies)
        real, shown = keys_of(evidence), keys_of(dict(EVIDENCE))
        real["review"].pop("findings")
        shown["review"].pop("findings")
        assert real == shown


def test_the_examples_can_be_used_and_cover_every_stage() -> None:
    rules = load_rules(EXAMPLES)
    assert {rule.header.stage for rule in rules} == {"contract", "diff", "evidence"}


@pytest.mark.parametrize(
    ("name", "changes", "allowed"),
    [
        ("main-needs-medium", {}, True),
        ("main-needs-medium", {"contract": {"repository": {"landing": "target", "target_ref": "refs/heads/main"}}}, False),
        (
            "main-needs-medium",
            {"contract": {"policy_pack": "medium", "repository": {"landing": "target", "target_ref": "refs/heads/main"}}},
            True,
        ),
        (
            "main-needs-medium",
            {
                "contract": {
                    "policy_pack": "high",
                    "requirement_ids": [],
                    "repository": {"landing": "target", "target_ref": "refs/heads/main"},
                }
            },
            False,
        ),
        ("dependencies-come-alone", {}, True),
        ("dependencies-come-alone", {"diff": {"classes": {"dependencies": 1}}}, False),
        (
            "dependencies-come-alone",
            {"diff": {"changed_files": 1, "classes": {"dependencies": 1}, "changes": [{"path": "pyproject.toml"}]}},
            False,
        ),
        (
            "dependencies-come-alone",
            {"diff": {"changed_files": 1, "classes": {"dependencies": 1}, "changes": [{"path": "web/yarn.lock"}]}},
            True,
        ),
        ("new-code-has-tests", {}, True),
        (
            "new-code-has-tests",
            {"diff": {"changes": [{"path": "src/new.py", "status": "added", "classes": ["plain"]}]}},
            False,
        ),
        ("proved-in-a-sandbox", {}, True),
        ("proved-in-a-sandbox", {"evidence": {"tests": {"sandbox": "none"}}}, False),
        ("proved-in-a-sandbox", {"evidence": {"tests": {"commands": []}}}, False),
    ],
)
def test_each_example_rule_judges_its_documented_case(name: str, changes: dict[str, Any], allowed: bool) -> None:
    rule = next(rule for rule in load_rules(EXAMPLES) if rule.name == name)
    documents = merged(sample(sizes=False), changes)
    assert (rule.refusal(documents) is None) == allowed


def merged(some: Any, other: dict[str, Any]) -> dict[str, Any]:
    return {
        **some,
        **{key: merged(some[key], value) if isinstance(value, dict) else value for key, value in other.items()},
    }


async def test_what_lands_on_a_branch_in_use_has_been_tested(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files={"README.md": b"one\n", "src/a.py": b"a = 1\n"})
    repository.git("branch", "release")
    landing = RepositoryField(url=repository.url, landing="target", target_ref="refs/heads/release")
    proves_nothing = AcceptanceTest(name="unit", cmd="true", must_pass=True)
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        contract = contract_on(repository, acceptance_tests=(proves_nothing,))
        outcome = await land(gatekeeper, replace(contract, repository=landing), gatekeeper.patch({"README.md": b"two\n"}))
        assert outcome == ("FAILED", "organisation_rule")
        assert gatekeeper.nothing_landed()
