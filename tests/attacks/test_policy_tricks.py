"""Breadth in other words, packs got round, policy files that come with the patch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import TaskContract
from gatewright.contracts.reports import Violation
from gatewright.contracts.vocabulary import AcceptanceTest, Executor, PolicyPack, TimeoutRetry
from gatewright.contracts.vocabulary import Repository as RepositoryField
from tests.attacks.people import policies_with
from tests.attacks.whole_gatekeeper import Gatekeeper, contract_on, open_gatekeeper
from tests.factories import make_request
from tests.git.repositories import MakeRepository, Repository

FILES: Mapping[str, bytes] = {
    "README.md": b"read me\n",
    "src/core/a.py": b"a = 1\n",
    "src/web/b.py": b"b = 1\n",
    "app.d/c.py": b"c = 1\n",
    "docs/guide.md": b"guide\n",
    "policies/agent_registry.json": b"{}\n",
}
REAL = AcceptanceTest(name="unit", cmd="test -s README.md", must_pass=True)
TRIVIAL = AcceptanceTest(name="unit", cmd="true", must_pass=True)


def under(pack: PolicyPack, repository: Repository, *paths: str, **changes: object) -> TaskContract:
    contract = contract_on(repository, policy_pack=pack, allowed_paths=paths, acceptance_tests=(REAL,))
    return replace(contract, **changes)


async def violations(gatekeeper: Gatekeeper, document: TaskContract) -> list[Violation]:
    """What the policy gate has against the document; it becomes work only when that is nothing."""
    run = await gatekeeper.submit(document)
    (report,) = await gatekeeper.reports("policy")
    assert bool(report.violations) == (run.status == "FAILED") == (not run.tasks)
    assert gatekeeper.nothing_landed()
    return list(report.violations)


BROAD: list[tuple[str, ...]] = [
    ("src",),
    ("src/",),
    ("app.d",),
    ("docs", "README.md"),
    ("src/core", "src/web"),
]


@pytest.mark.parametrize("paths", BROAD)
@pytest.mark.parametrize("pack", ["medium", "high"])
async def test_a_whole_directory_of_the_top_level_is_refused(
    paths: tuple[str, ...], pack: PolicyPack, make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository(files=FILES)
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        (violation,) = await violations(gatekeeper, under(pack, repository, *paths))
        assert (violation.code, violation.rule) == ("path_too_broad", "breadth.top_level")
        assert "approval_rules.json" in violation.detail


@pytest.mark.parametrize("paths", BROAD)
async def test_low_grants_a_directory_of_the_top_level(
    paths: tuple[str, ...], make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository(files=FILES)
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        assert await violations(gatekeeper, under("low", repository, *paths)) == []


@pytest.mark.parametrize("paths", [("src/core",), ("README.md",), ("NEW.md",), ("docs/guide.md", "src/core/a.py")])
async def test_a_file_without_a_dot_or_with_one_is_no_directory(
    paths: tuple[str, ...], make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository(files={**FILES, "Makefile": b"all:\n"})
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        assert await violations(gatekeeper, under("high", repository, *paths, "Makefile")) == []


@pytest.mark.parametrize("pack", ["low", "medium", "high"])
async def test_everything_listed_one_by_one_is_everything(
    pack: PolicyPack, make_repository: MakeRepository, tmp_path: Path
) -> None:
    files = {name: content for name, content in FILES.items() if not name.startswith("policies/")}
    repository = make_repository(files=files)
    paths = ("README.md", "src/core", "src/web", "app.d", "docs")
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        (violation,) = await violations(gatekeeper, under(pack, repository, *paths))
        assert (violation.code, violation.rule) == ("path_too_broad", "breadth.whole_repository")


@pytest.mark.parametrize("path", [".", "/", "./", "**", "*", "src/*", "src/**", "s?c", "[s]rc", "../x", "src/../docs", "/src"])
@pytest.mark.parametrize("pack", ["low", "medium", "high"])
async def test_a_spelling_of_everything_is_refused_in_every_pack(
    path: str, pack: PolicyPack, make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository(files=FILES)
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        found = await violations(gatekeeper, under(pack, repository, path))
        assert {violation.code for violation in found} <= {"path_too_broad", "path_invalid"}
        assert found


@pytest.mark.parametrize("path", ["src\n", "src\t", "sr\u200bc", "src\u202e", "s\x00rc", "src\x7f"])
async def test_a_path_with_a_character_that_cannot_be_seen_is_refused(
    path: str, make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository(files=FILES)
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        found = await violations(gatekeeper, under("low", repository, path))
        assert {violation.code for violation in found} == {"path_invalid"}


async def test_an_empty_path_in_a_request_is_everything(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files=FILES)
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(make_request(repository=RepositoryField(url=repository.url), allowed_paths=("",)))
        assert run.failure is not None
        assert run.failure.code == "path_too_broad"


async def test_a_request_is_reviewed_for_breadth_like_a_contract(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files=FILES)
    request = make_request(
        repository=RepositoryField(url=repository.url), allowed_paths=("src",), policy_pack="medium", acceptance_tests=(REAL,)
    )
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(request)
        assert run.failure is not None
        assert run.failure.code == "path_too_broad"


BROAD_SCOPE = {"name": "scope", "reason": "broad_scope", "risk": "medium", "approvers": ["ana"], "within_seconds": 3600}


def rule_of_the_repository(url: str) -> dict[str, bytes]:
    """Files by which a repository would let its own broad scopes be asked about."""
    rules = json.dumps({"version": "1", "rules": [BROAD_SCOPE | {"repositories": [url]}]}).encode()
    return {f"{folder}/approval_rules.json": rules for folder in ("policies", ".gatewright/policies")}


@pytest.mark.parametrize("pack", ["medium", "high"])
async def test_a_rule_turns_a_broad_scope_into_a_question(
    pack: PolicyPack, make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository(files=FILES)
    folder = policies_with(tmp_path / "policies", BROAD_SCOPE)
    async with open_gatekeeper(repository, tmp_path, policies=folder) as gatekeeper:
        assert await violations(gatekeeper, under(pack, repository, "src")) == []
        (report,) = await gatekeeper.reports("policy")
        told = {outcome.rule: outcome.detail for outcome in report.rules}
        assert told["asks.broad_scope"] == "all of 'src' is opened"


async def test_a_rule_about_another_repository_asks_nothing_here(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files=FILES)
    folder = policies_with(tmp_path / "policies", BROAD_SCOPE | {"repositories": ["https://git.example.org/other.git"]})
    async with open_gatekeeper(repository, tmp_path, policies=folder) as gatekeeper:
        (violation,) = await violations(gatekeeper, under("medium", repository, "src"))
        assert violation.code == "path_too_broad"


async def test_a_rule_that_comes_with_the_repository_does_not_count(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files={**FILES, **rule_of_the_repository(str(tmp_path / "source"))})
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        (violation,) = await violations(gatekeeper, under("medium", repository, "src"))
        assert violation.code == "path_too_broad"


@pytest.mark.parametrize(
    "path",
    [
        "policies/agent_registry.json",
        "policies/approval_rules.json",
        "policies/policy_packs.json",
        "policies/organisation/mine.cel",
        "POLICIES/roles.json",
        ".gatewright/policies/approval_rules.json",
    ],
)
async def test_a_patch_that_brings_its_own_policy_is_refused(
    path: str, make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository(files=FILES)
    top = path.partition("/")[0]
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        contract = under("low", repository, "src", *([] if top.startswith(".") else [top]))
        await gatekeeper.submit(contract)
        await gatekeeper.plan()
        run = await gatekeeper.work(gatekeeper.patch({path: b'{"version": "1"}\n', "src/core/a.py": b"a = 2\n"}))
        assert run.failure is not None
        assert run.failure.code in {"path_protected", "path_out_of_scope"}
        (report,) = await gatekeeper.reports("diff")
        assert "protected_paths.sacred" in {violation.rule for violation in report.violations}
        assert gatekeeper.nothing_landed()


@pytest.mark.parametrize("pack", ["medium", "high"])
async def test_a_test_that_proves_nothing_is_refused_by_the_pack(
    pack: PolicyPack, make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository(files=FILES)
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        found = await violations(gatekeeper, under(pack, repository, "src/core", acceptance_tests=(TRIVIAL,)))
        assert [violation.rule for violation in found] == ["command_allowlist"]


async def test_high_lands_on_no_branch_in_use(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files=FILES)
    landing = RepositoryField(url=repository.url, landing="target", target_ref="refs/heads/main")
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        (violation,) = await violations(gatekeeper, replace(under("high", repository, "src/core"), repository=landing))
        assert (violation.code, violation.rule) == ("policy_pack_refused", "policy_pack.high.landing")


async def test_high_does_not_try_for_ever(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files=FILES)
    retry = TimeoutRetry(timeout_sec=60, max_retries=10, retry_backoff_sec=0)
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        (violation,) = await violations(gatekeeper, under("high", repository, "src/core", timeout_retry=retry))
        assert (violation.code, violation.rule) == ("policy_pack_refused", "policy_pack.high.max_retries")


async def test_a_change_larger_than_the_pack_is_refused(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files=FILES)
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await gatekeeper.submit(under("high", repository, "src/core"))
        await gatekeeper.plan()
        run = await gatekeeper.work(gatekeeper.patch({f"src/core/n{number}.py": b"n = 1\n" for number in range(201)}))
        assert run.failure is not None
        assert run.failure.code == "diff_too_large"
        assert gatekeeper.nothing_landed()


@pytest.mark.parametrize(
    ("action", "command"),
    [
        ("python publish.py", "python publish.py"),
        ("python publish.py", "python3 -B tools/x.py"),
        ("sed -i", "sed -n -i s/a/b/ README.md"),
        ("sed -ni", "sed -in s/a/b/ README.md"),
        ("cp -f", "cp -rf README.md docs"),
    ],
)
async def test_what_the_contract_itself_forbids_is_refused(
    action: str, command: str, make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository(files=FILES)
    executor = Executor(kind="command", commands=(command,))
    contract = under("low", repository, "README.md", forbidden_actions=(action,), executor=executor)
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        found = await violations(gatekeeper, contract)
        expected = "publish.py" not in action or "publish.py" in command
        assert ("contract.forbidden_actions" in {violation.rule for violation in found}) == expected


@pytest.mark.parametrize("forbidden", ["edit guide.md", "edit docs/guide.md", "edit docs", "edit 'docs/'", "edit GUIDE.md"])
async def test_an_edit_that_the_contract_itself_forbids_is_refused(
    forbidden: str, make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository(files=FILES)
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await gatekeeper.submit(under("low", repository, "docs", forbidden_actions=(forbidden,)))
        await gatekeeper.plan()
        run = await gatekeeper.work(gatekeeper.patch({"docs/guide.md": b"mine\n"}))
        assert run.failure is not None
        assert run.failure.code == "action_forbidden"
        assert gatekeeper.nothing_landed()


async def test_more_forbidden_actions_than_can_be_watched_are_refused(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files=FILES)
    actions = tuple(f"action {number}" for number in range(10_000))
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        found = await violations(gatekeeper, under("low", repository, "README.md", forbidden_actions=actions))
        assert [violation.rule for violation in found] == ["contract.forbidden_actions"]
        (report,) = await gatekeeper.reports("policy")
        assert all(len(rule.detail) < 1000 for rule in report.rules)


async def test_a_forbidden_action_that_is_too_long_to_be_watched_is_refused(
    make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository(files=FILES)
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        found = await violations(gatekeeper, under("low", repository, "README.md", forbidden_actions=("a" * 500_000,)))
        assert [violation.code for violation in found] == ["action_forbidden"]


@pytest.mark.parametrize("commands", [("true",) * 300, ("grep -q " + "[" * 16_000 + " src/a.py",) * 9], ids=["many", "long"])
async def test_more_commands_than_can_be_judged_are_refused(
    commands: tuple[str, ...], make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository(files=FILES)
    tests = tuple(AcceptanceTest(name="t", cmd=command, must_pass=True) for command in commands)
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        found = await violations(gatekeeper, under("low", repository, "README.md", acceptance_tests=tests))
        assert {violation.code for violation in found} == {"too_many_commands"}


async def test_a_huge_wish_does_not_make_a_huge_report(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files=FILES)
    command = "curl " + "x" * 300_000
    test = AcceptanceTest(name="t", cmd=command, must_pass=True)
    paths = tuple(f"src/{number}*" for number in range(5000))
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await violations(gatekeeper, under("low", repository, *paths, acceptance_tests=(test,)))
        (report,) = await gatekeeper.reports("policy")
        assert len(str(report)) < 200_000
