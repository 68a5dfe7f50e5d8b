"""The language of a request, told by the written priorities, chooses its environment profile."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from gatewright.contracts import RequestTask, RunRequest
from gatewright.contracts.vocabulary import AcceptanceTest, Agent, Environment, Executor, Repository
from gatewright.errors import DeniedError
from gatewright.profiles.choice import chosen_profile, environment_of, image_of
from gatewright.profiles.policy import ENVIRONMENTS_FILE, EnvironmentsPolicy, LanguageProfile
from gatewright.resources import policy_directory
from gatewright.rules.contracts import differences
from gatewright.services.pm.compiler import compile_contract
from gatewright.tasks.inputs import refuse_missing_tools
from tests.factories import BASELINE, make_contract, make_request

DIGEST = "sha256:" + "a" * 64
PROFILES = EnvironmentsPolicy(
    version="1",
    profiles=(
        LanguageProfile(language="python", prefix="/srv/environments/python", tools=("python3",)),
        LanguageProfile(language="rust", prefix="/srv/environments/rust", tools=("cargo",)),
        LanguageProfile(language="node", tools=("node",)),
        LanguageProfile(language="java", image=f"registry.example/java@{DIGEST}"),
    ),
)
OWNER = Agent(role="PM", agent_id="pm-1")


def told(**changes: object) -> tuple[str, str] | None:
    found = chosen_profile(make_request(**changes), PROFILES)
    return (found.language, found.chosen_by) if found is not None else None


def task(request: RunRequest) -> RequestTask:
    return RequestTask(run_id="run-1", task_id="run-1.pm", baseline_commit=BASELINE, request=request)


RUST_MODEL = Executor(kind="agent", model="rust-coder-7b")
PYTHON_NAME = Repository(url="/srv/parser-py.git")
NODE_WORDS = "run npm install and fix what fails"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"language": "python", "executor": RUST_MODEL, "repository": PYTHON_NAME}, ("python", "language")),
        ({"executor": RUST_MODEL, "repository": PYTHON_NAME, "request": NODE_WORDS}, ("rust", "model")),
        ({"repository": PYTHON_NAME, "request": NODE_WORDS}, ("python", "repository")),
        ({"repository": Repository(url="https://example.org/team/parser-rs/")}, ("rust", "repository")),
        ({"request": NODE_WORDS}, ("node", "request")),
        ({"request": "Fix it, then Cargo-Build; `cargo build` fails"}, ("rust", "request")),
        ({"acceptance_tests": (AcceptanceTest(name="t", cmd="python -m pytest -q", must_pass=True),)}, ("python", "request")),
        ({"executor": Executor(kind="agent", model="claude-sonnet-4-5")}, None),
        ({"repository": Repository(url="/srv/happy")}, None),
        ({"request": "go on and make tests pass"}, None),
        ({"request": "cargo build fails where npm install works"}, None),
        ({"request": "run go build"}, None),
    ],
)
def test_the_first_sign_of_one_language_decides(changes: dict[str, object], expected: tuple[str, str] | None) -> None:
    assert told(**changes) == expected


def test_commands_see_the_profiles_prefix_and_the_contract_explains_why() -> None:
    contract = compile_contract(task(make_request(language="python")), OWNER, PROFILES)
    assert contract.environment == Environment(prefix="/srv/environments/python")
    assert contract.environment_profile is not None
    assert contract.environment_profile.chosen_by == "language"
    assert list(differences(contract, make_request(language="python"), BASELINE, "run-1")) == []


def test_an_environment_that_the_request_names_is_never_replaced() -> None:
    request = make_request(language="python", environment=Environment(prefix="/srv/mine"))
    contract = compile_contract(task(request), OWNER, PROFILES)
    assert contract.environment == Environment(prefix="/srv/mine")
    assert environment_of(request, contract.environment_profile) == Environment(prefix="/srv/mine")


def test_a_foreign_prefix_from_a_pm_is_a_difference() -> None:
    request = make_request(language="python")
    contract = make_contract(environment=Environment(prefix="/srv/evil"))
    assert "environment" in set(differences(contract, request, BASELINE, "run-1"))


@pytest.mark.parametrize("image", ["python:3.12", "python", "example/python:3.12@sha256:abc", f"@{DIGEST}", "python@latest"])
def test_an_image_by_a_tag_is_refused(image: str) -> None:
    with pytest.raises(ValidationError, match="named by its digest"):
        LanguageProfile(language="python", image=image)


def test_commands_use_the_profiles_image_unless_the_request_decides() -> None:
    contract = compile_contract(task(make_request(language="java")), OWNER, PROFILES)
    assert contract.environment is None
    assert image_of(contract) == f"registry.example/java@{DIGEST}"
    named = make_request(language="java", environment=Environment(prefix="/srv/mine"))
    assert image_of(compile_contract(task(named), OWNER, PROFILES)) is None


def test_a_language_has_one_profile_and_a_profile_one_place() -> None:
    one = LanguageProfile(language="go")
    with pytest.raises(ValidationError, match="2 profiles"):
        EnvironmentsPolicy(version="1", profiles=(one, one))
    with pytest.raises(ValidationError, match="not both"):
        LanguageProfile(language="go", prefix="/srv/go", image=f"go@{DIGEST}")


def test_every_language_has_a_profile_in_the_policy_that_ships() -> None:
    languages = {profile.language for profile in ENVIRONMENTS_FILE.load(policy_directory()).policy.profiles}
    assert languages == {"python", "node", "go", "rust", "java", "cpp"}


def test_a_missing_promised_tool_is_refused_before_anything_runs(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    (prefix / "bin").mkdir(parents=True)
    policy = EnvironmentsPolicy(
        version="1", profiles=(LanguageProfile(language="rust", prefix=str(prefix), tools=("sh", "no-such-cargo")),)
    )
    asked = compile_contract(task(make_request(language="rust")), OWNER, policy)
    with pytest.raises(DeniedError, match="no-such-cargo") as caught:
        refuse_missing_tools(asked, (prefix,))
    assert caught.value.reason == "environment_tool_missing"
    (prefix / "bin" / "no-such-cargo").touch(0o755)
    refuse_missing_tools(asked, (prefix,))
    (prefix / "bin" / "no-such-cargo").unlink()
    refuse_missing_tools(compile_contract(task(make_request(request="cargo build it")), OWNER, policy), (prefix,))
