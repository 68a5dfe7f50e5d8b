"""Exit codes: one table for errors, one for runs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gatewright import errors
from gatewright.app.cli.outcome import Exit, exit_of_error, exit_of_run
from gatewright.client.refusals import error_of
from gatewright.contracts import Error, OrchestratorEvent
from gatewright.reasons import Family, family_of
from gatewright.run.events import GateJudged
from gatewright.view.run_view import view_of
from tests.cli.runs.test_showing_runs import events_of
from tests.gatekeeper.simulated_run import Script


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.MalformedError("x"), Exit.INPUT),
        (errors.UnknownSchemaError("x"), Exit.INPUT),
        (errors.DeniedError("x"), Exit.FAILED),
        (errors.CommandRefusedError("x"), Exit.FAILED),
        (errors.PatchError("x"), Exit.FAILED),
        (errors.VerificationError("x"), Exit.FAILED),
        (errors.BusError("x"), Exit.INFRASTRUCTURE),
        (errors.SandboxError("x"), Exit.INFRASTRUCTURE),
        (errors.GitError("x"), Exit.INFRASTRUCTURE),
        (errors.ConfigurationError("x"), Exit.INFRASTRUCTURE),
        (errors.GatewrightError("x"), Exit.INFRASTRUCTURE),
    ],
)
def test_every_family_of_errors_has_its_exit_code(error: errors.GatewrightError, code: Exit) -> None:
    assert exit_of_error(error) == code


def test_every_error_class_has_an_exit_code_other_than_good() -> None:
    classes = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.GatewrightError)]
    assert all(exit_of_error(kind("x")) != Exit.GOOD for kind in classes)


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        (None, Exit.GOOD),
        ("tests_failed", Exit.FAILED),
        ("path_out_of_scope", Exit.FAILED),
        ("review_failed", Exit.FAILED),
        ("command_not_allowed", Exit.FAILED),
        ("landing_conflict", Exit.FAILED),
        ("aborted", Exit.FAILED),
        ("a_code_of_a_later_version", Exit.FAILED),
        ("request_incomplete", Exit.INPUT),
        ("ref_not_found", Exit.INPUT),
        ("bad_ref", Exit.INPUT),
        ("repository_unavailable", Exit.INPUT),
        ("repository_unreadable", Exit.INPUT),
        ("sandbox_unavailable", Exit.INFRASTRUCTURE),
        ("git_missing", Exit.INFRASTRUCTURE),
        ("artifact_missing", Exit.INFRASTRUCTURE),
        ("object_missing", Exit.INFRASTRUCTURE),
    ],
)
def test_every_end_of_a_run_has_its_exit_code(code: str | None, exit_code: Exit) -> None:
    assert exit_of_run(family_of(code) if code else None) == exit_code


@pytest.mark.parametrize("code", ["tests_failed", "ref_not_found", "sandbox_unavailable", "unavailable"])
def test_refused_submission_and_failed_run_of_the_same_code_end_alike(code: str) -> None:
    assert exit_of_error(error_of(Error(code=code, message=""))) == exit_of_run(family_of(code))


@pytest.mark.parametrize(
    ("family", "exit_code"),
    [
        ("bad_input", Exit.INPUT),
        ("refused", Exit.FAILED),
        ("failed", Exit.FAILED),
        ("infrastructure", Exit.INFRASTRUCTURE),
    ],
)
@pytest.mark.parametrize("code", ["a_code_of_a_later_version", "tests_failed"])
def test_the_family_of_an_answer_decides_the_exit_code(family: Family, exit_code: Exit, code: str) -> None:
    assert exit_of_error(error_of(Error(code=code, message="", family=family))) == exit_code


def test_a_number_of_the_bus_server_keeps_the_family_of_its_class() -> None:
    assert exit_of_error(errors.BusError("x", code="jetstream_10047")) == Exit.INFRASTRUCTURE


@pytest.mark.parametrize(
    ("told", "exit_code"), [({"family": "infrastructure"}, Exit.INFRASTRUCTURE), ({"family": "bad_input"}, Exit.INPUT), ({}, 1)]
)
def test_the_family_of_a_failed_gate_decides_the_exit_code(told: dict[str, str], exit_code: int) -> None:
    def with_family(event: OrchestratorEvent) -> OrchestratorEvent:
        if event.event_type != GateJudged.event_type or event.payload["report"]["code"] == "ok":
            return event
        return replace(event, payload={**event.payload, "report": {**event.payload["report"], **told}})

    view = view_of(with_family(event) for event in events_of(Script(refused_shard=1)))
    assert view is not None
    assert exit_of_run(view.failure_family) == exit_code
