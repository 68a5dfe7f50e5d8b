"""Three bundles that a whole stack has sealed: a run that landed, one that failed, and one that people decided about."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gatewright.client.sync import SyncClient
from gatewright.contracts import RunRequest
from gatewright.contracts.vocabulary import (
    AcceptanceTest,
    Budget,
    Environment,
    Executor,
    Person,
    Sharding,
    TimeoutRetry,
)
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.resources import policy_directory
from tests.e2e.conftest import FILES
from tests.e2e.stack import PREFIX, SECONDS, Stack, running_stack, wait_until
from tests.git.repositories import Repository
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Say
from tests.rosters import make_keys, write_roster
from tests.structured.scripted import answering, write_models

PEOPLE = ("ana", "owner", "tester")
SENDING: dict[str, object] = {
    "name": "sending", "reason": "transfer", "risk": "high", "approvers": ["ana"], "within_seconds": 3600, "phrase": "send it",
}  # fmt: skip
VOTING: dict[str, object] = {
    "name": "review", "reason": "review", "risk": "medium", "approvers": ["owner", "tester"], "within_seconds": 3600,
    "quorum": {"domain": ["owner"], "quality": ["tester"]},
}  # fmt: skip
ROUTING = {"version": "1", "low_paths": ["docs/"], "high_paths": ["src/b.py"]}
MUTANTS = {"time_share": 1, "least_seconds": 60, "most_mutants": 2}
REVIEW: dict[str, Any] = {
    "verdict": "PASS",
    "summary": "The marks are there.",
    "evidence": [{"path": "src/a.py", "line": 2, "note": "the mark"}],
}
WRITTEN = "\n".join(f"```python\n# file: src/{name}.py\n{name} = 1\nedited = True\n```\n" for name in "ab")
SHOP: dict[str, bytes] = {
    "src/pricing.py": b"def price(number):\n    return number * 2\n",
    "docs/pricing.md": b"Twice.\n",
    "tests/test_pricing.py": (
        b"from pricing import price\n\n\ndef test_price():\n    assert price(2)\n\n\n"
        b"def test_zero():\n    assert price(0) == 0\n"
    ),
    "tools/change.py": (
        b"import pathlib, sys\n\nfor top in sys.argv[1:]:\n"
        b"    file = pathlib.Path(top)\n"
        b"    file.write_text(file.read_text().replace('2', '3').replace('Twice', 'Three times'))\n"
    ),
}


#: Edits one file of two, which the acceptance command does not let through.
HALF = b"import pathlib\npathlib.Path('src/a.py').write_text('edited = True\\n')\n"
NAMES = ("landed", "failed", "people")


def make_repository(folder: Path, name: str, files: Mapping[str, bytes]) -> Path:
    """A repository with one commit of ``files``."""
    home, path = folder / f"home-of-{name}", folder / name
    home.mkdir()
    path.mkdir()
    repository = Repository(path, home)
    repository.git("init", "--quiet", "--template=", "--initial-branch=main")
    repository.commit(files, "first")
    return path


@dataclass(frozen=True)
class RuledStack(Stack):
    """A stack with policies of its own; ``asking`` are the roles that ask models."""

    policies: Path
    asking: str = ""

    @property
    def environment(self) -> dict[str, str]:
        given = {"GATEWRIGHT_POLICIES": str(self.policies), "GATEWRIGHT_CONSULT": self.asking, "SCRIPTED_KEY": KEY}
        return {**super().environment, **given}


def mutation_policies(folder: Path) -> Path:
    """The delivered policies, and mutants for the pack ``medium``."""
    shutil.copytree(policy_directory(), folder)
    packs = json.loads((folder / "policy_packs.json").read_text())
    packs["medium"]["mutation"] = MUTANTS
    (folder / "policy_packs.json").write_text(json.dumps(packs))
    return folder


def people_policies(folder: Path, provider: ScriptedProvider) -> Path:
    """The delivered policies, with rules by which people decide about transfers and changes; their keys lie beside it."""
    shutil.copytree(policy_directory(), folder)
    write_roster(folder, make_keys(folder.parent, PEOPLE))
    (folder / "approval_rules.json").write_text(json.dumps({"version": "1", "rules": [SENDING, VOTING]}))
    (folder / "routing_rules.json").write_text(json.dumps(ROUTING))
    (folder / "transfers.json").write_text(json.dumps({"version": "1", "externalTransfers": "manual"}))
    return write_models(folder, provider, {"worker": "write", "reviewer": "review"})


@dataclass(frozen=True)
class RealBundles:
    """The folders of sealed bundles by name, each with the stack's home that has its key."""

    folders: Mapping[str, Path]
    homes: Mapping[str, Path]


def make_real_bundles(folder: Path) -> RealBundles:
    """Run all three, each to its end."""
    plain = RuledStack(folder / "plain", mutation_policies(folder / "plain-policies"))
    with running_stack(plain.home, workers=2, stack=plain), plain.client() as client:
        landed = _ended(client, landing_request(make_repository(folder, "shop", SHOP)))
        failed = _ended(client, failing_request(make_repository(folder, "half", {**FILES, "tools/half.py": HALF})))
    with ScriptedProvider({"write": [Say(WRITTEN)], "review": answering(REVIEW)}) as provider:
        peopled = RuledStack(folder / "peopled", people_policies(folder / "people-policies", provider), "reviewer")
        with running_stack(peopled.home, workers=1, stack=peopled), peopled.client() as client:
            people = _decided(peopled, client, asked_request(make_repository(folder, "asked", FILES)), folder)
    return RealBundles(
        folders={"landed": landed, "failed": failed, "people": people},
        homes={"landed": plain.home, "failed": plain.home, "people": peopled.home},
    )


def landing_request(repository: Path) -> RunRequest:
    """Two shards, two acceptance commands, mutants."""
    return RunRequest(
        request="Ask for three times the price.",
        repository=RepositoryField(url=str(repository)),
        requested_by="tests",
        allowed_paths=("src/pricing.py", "docs/pricing.md"),
        acceptance_tests=(
            AcceptanceTest(name="unit", cmd="python -m pytest -q", must_pass=True),
            AcceptanceTest(name="compiles", cmd="python -m compileall -q src", must_pass=False, may_rerun=True),
        ),
        executor=Executor(kind="command", commands=("python tools/change.py {paths}",)),
        sharding=Sharding(count=2),
        environment=Environment(prefix=str(PREFIX)),
        policy_pack="medium",
        budget=Budget(wall_sec=600.0, tokens=1000),
        author=Person(name="Ada", email="ada@example.org"),
        requirement_ids=("GW-REQ-001",),
        idempotency_key="the landed run",
    )


def failing_request(repository: Path) -> RunRequest:
    """Two rounds, neither of which the acceptance command lets through."""
    return RunRequest(
        request="Edit every file.",
        repository=RepositoryField(url=str(repository)),
        requested_by="tests",
        allowed_paths=("src",),
        acceptance_tests=(AcceptanceTest(name="edited", cmd="python tools/check.py 0", must_pass=True),),
        executor=Executor(kind="command", commands=("python tools/half.py", "python tools/half.py")),
        environment=Environment(prefix=str(PREFIX)),
        timeout_retry=TimeoutRetry(timeout_sec=60, max_retries=1, retry_backoff_sec=0),
        idempotency_key="the failed run",
    )


def asked_request(repository: Path) -> RunRequest:
    """By a model, after a person let the repository go there; two more have to vote for the change."""
    return RunRequest(
        request="Edit both files.",
        repository=RepositoryField(url=str(repository)),
        requested_by="tests",
        ordered_by=("kim@example.org",),
        allowed_paths=("src",),
        acceptance_tests=(AcceptanceTest(name="edited", cmd="python tools/check.py 0", must_pass=True),),
        executor=Executor(kind="model", model="write-model"),
        environment=Environment(prefix=str(PREFIX)),
        timeout_retry=TimeoutRetry(timeout_sec=60, max_retries=0, retry_backoff_sec=0),
        idempotency_key="the run that people decide",
    )


def _ended(client: SyncClient, request: RunRequest) -> Path:
    run = client.wait(client.submit_request(request, patience=10.0), timeout=SECONDS)
    assert run.sealed is not None, run.failure
    return Path(run.sealed.location)


def _decided(stack: Stack, client: SyncClient, request: RunRequest, keys: Path) -> Path:
    run_id = client.submit_request(request, patience=10.0)

    def waits_for(*rules: str) -> None:
        wait_until(lambda: {each.request.rule for each in _open(client, run_id)} == set(rules), SECONDS)

    def said(*words: str, person: str) -> None:
        answer = stack.process(*words, "--key", str(keys / person), "--as", person, "--json")
        assert answer.returncode == 0, answer.stdout + answer.stderr

    waits_for("sending")
    said("approvals", "approve", run_id, "--phrase", "send it", person="ana")
    waits_for("review")
    for person in ("owner", "tester"):
        said(*_GREEN, run_id, "green", *_GROUNDS, person=person)
    run = client.wait(run_id, timeout=SECONDS)
    assert run.sealed is not None, run.failure
    return Path(run.sealed.location)


_GREEN = ("review", "vote")
_GROUNDS = ("--scope", "src", "--rationale", "read", "--evidence", "patch:src/a.py:2")


def _open(client: SyncClient, run_id: str) -> list[Any]:
    run = client.get(run_id)
    assert run.failure is None, run.failure
    return [asked for asked in run.approvals.values() if asked.status == "pending"] if run.parked else []
