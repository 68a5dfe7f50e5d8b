"""What a publisher may have commands shown beside the repository's files, judged before anything runs."""

from __future__ import annotations

import hashlib

import pytest

from gatewright.artifacts import inline_uri
from gatewright.contracts import RunRequest
from gatewright.contracts.vocabulary import Artifact, Repository, Scope
from gatewright.services.gatekeeper.decider.gate_checks import IntakeCheck, IntakeVerdict
from gatewright.services.gatekeeper.gates.engine import GateEngine
from tests.factories import make_request
from tests.git.repositories import MakeRepository


def provide(path: str, content: bytes = b"generated") -> Artifact:
    return Artifact(name=f"provide:{path}", uri=inline_uri(content), sha256=hashlib.sha256(content).hexdigest())


async def judge(gates: GateEngine, request: RunRequest) -> IntakeVerdict:
    verdict = await gates.answer(IntakeCheck("run-0123456789", request))
    assert isinstance(verdict, IntakeVerdict)
    return verdict


async def test_a_generated_file_is_recorded_with_its_digest(gates: GateEngine, make_repository: MakeRepository) -> None:
    request = make_request(repository=Repository(url=make_repository().url), artifacts=(provide("src/_version.py"),))
    verdict = await judge(gates, request)
    assert verdict.passed, verdict.report
    digest = hashlib.sha256(b"generated").hexdigest()
    assert ("provide:src/_version.py", digest) in {(each.name, each.digest) for each in verdict.report.evidence}


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../x", "unsafe_path"),
        ("/etc/x", "unsafe_path"),
        ("", "unsafe_path"),
        ("src/.git/config", "unsafe_path"),
        ("x" * 300, "unsafe_path"),
        ("tests/conftest.py", "path_protected"),
        (".github/workflows/ci.yml", "path_protected"),
        (".env", "path_protected"),
    ],
)
async def test_a_provided_file_at_a_protected_path_is_refused(
    path: str, code: str, gates: GateEngine, make_repository: MakeRepository
) -> None:
    request = make_request(repository=Repository(url=make_repository().url), artifacts=(provide(path),))
    assert (await judge(gates, request)).report.code == code


async def test_a_protected_place_that_the_contract_opens_by_name_can_be_provided(
    gates: GateEngine, make_repository: MakeRepository
) -> None:
    request = make_request(
        repository=Repository(url=make_repository().url),
        artifacts=(provide("tests/data.bin"),),
        scope=Scope(allow_protected_paths=("tests/data.bin",)),
    )
    verdict = await judge(gates, request)
    assert verdict.passed, verdict.report


async def test_a_provided_file_that_the_baseline_tracks_is_refused(gates: GateEngine, make_repository: MakeRepository) -> None:
    repository = make_repository()
    repository.commit({"src/generated.py": b"committed"})
    request = make_request(repository=Repository(url=repository.url), artifacts=(provide("src/generated.py"),))
    assert (await judge(gates, request)).report.code == "place_not_free"
