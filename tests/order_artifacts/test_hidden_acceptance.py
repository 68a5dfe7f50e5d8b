"""What is taken out of orders and reports for those who must not know of hidden checks."""

from __future__ import annotations

from msgspec.structs import replace

from gatewright.contracts import TestReport, codec
from gatewright.contracts.reports import TestCommand
from gatewright.contracts.vocabulary import AcceptanceTest, Agent, Artifact
from gatewright.order_artifacts.hidden_acceptance import CHANGES, FAILED, shown_to_makers, visible, with_hidden_part
from tests.factories import make_contract, make_request

SEEN = AcceptanceTest(name="unit", cmd="pytest -q", must_pass=True)
HIDDEN = AcceptanceTest(name="secret-check", cmd="pytest -q tests/secret.py", must_pass=True, hidden=True)
FILE = Artifact(name="hidden:tests/secret.py", uri="artifact:sha256:" + "a" * 64, sha256="a" * 64)


def command(name: str, code: int, run: int = 1) -> TestCommand:
    return TestCommand(
        name=name,
        cmd_argv=("pytest", name),
        must_pass=True,
        timeout_sec=9,
        exit_code=code,
        duration_sec=1,
        stdout="",
        stderr="",
        run=run,
    )


def report(*commands: TestCommand, failure: str | None = None) -> TestReport:
    told = (Artifact(name=CHANGES, uri=FILE.uri, sha256=FILE.sha256), Artifact(name="kept", uri=FILE.uri, sha256=FILE.sha256))
    return TestReport(
        run_id="run-0123456789",
        task_id="run-0123456789.test.a1",
        runner=Agent(role="TEST_RUNNER", agent_id="testrunner-1"),
        started_at="2026-01-01T00:00:00.000000Z",
        finished_at="2026-01-01T00:00:01.000000Z",
        status="FAIL",
        commands=commands,
        artifacts=told,
        failure=failure,
    )


def test_an_order_without_hidden_checks_is_itself() -> None:
    contract = make_contract(acceptance_tests=(SEEN,))
    assert visible(contract) is contract


def test_hidden_checks_are_removed_from_orders_and_restored_in_place() -> None:
    request = make_request(acceptance_tests=(HIDDEN, SEEN), artifacts=(FILE,))
    assert b"secret" not in codec.encode(visible(request))
    compiled = make_contract(acceptance_tests=(SEEN,))
    whole = with_hidden_part(compiled, request)
    assert (whole.acceptance_tests, whole.inputs.artifacts) == ((HIDDEN, SEEN), (FILE,))
    assert visible(whole) == compiled


def test_a_contract_with_other_tests_is_left_unchanged() -> None:
    request = make_request(acceptance_tests=(HIDDEN, SEEN), artifacts=(FILE,))
    other = make_contract(acceptance_tests=(replace(SEEN, cmd="true"),))
    assert with_hidden_part(other, request) is other


def test_a_further_round_learns_only_how_many_hidden_commands_failed() -> None:
    contract = make_contract(acceptance_tests=(SEEN, HIDDEN, replace(HIDDEN, name="secret-too")))
    ended = report(command("unit", 0), command("secret-check", 1), command("secret-too", 0), failure="secret-check failed")
    shown = shown_to_makers(ended, contract)
    assert isinstance(shown, TestReport)
    assert b"secret" not in codec.encode(shown)
    assert [each.name for each in shown.commands] == ["unit"]
    assert [each.name for each in shown.artifacts] == ["kept"]
    assert shown.failure == f"{FAILED}: 1 of 2 hidden checks did not pass"


def test_a_second_run_that_passed_counts_for_a_hidden_command_too() -> None:
    contract = make_contract(acceptance_tests=(SEEN, HIDDEN))
    ended = report(
        command("unit", 1), command("secret-check", 1), command("secret-check", 0, run=2), failure="tests_failed: unit"
    )
    shown = shown_to_makers(ended, contract)
    assert isinstance(shown, TestReport)
    assert shown.failure == "tests_failed: unit"
