"""The class of an error alone decides what becomes of a task."""

from __future__ import annotations

import asyncio

import pytest

from gatewright import errors
from gatewright.bus.topology import handled_deliveries
from gatewright.tasks.disposition import LONGEST_DELAY, MAX_WORDS, backoff, disposition

ERRORS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.GatewrightError)]


@pytest.mark.parametrize("kind", ERRORS)
def test_only_unavailable_errors_are_tried_again(kind: type[errors.GatewrightError]) -> None:
    why = disposition(kind("words"), attempts=1, max_deliver=6)
    assert why.action == ("retry" if issubclass(kind, errors.UnavailableError) else "refuse")
    assert (why.code, why.message) == (kind.code, "words")


@pytest.mark.parametrize("error", [ValueError("x"), OSError(28, "disk full"), TimeoutError(), asyncio.CancelledError()])
def test_an_unexpected_error_ends_the_process_and_returns_the_task(error: BaseException) -> None:
    why = disposition(error, attempts=1, max_deliver=6)
    assert (why.action, why.code) == ("crash", "internal_error")
    assert why.delay > 0


@pytest.mark.parametrize("error", [ValueError("x"), errors.BusError("x")])
def test_every_error_is_final_on_the_last_delivery_that_is_worked_on(error: Exception) -> None:
    assert disposition(error, attempts=4, max_deliver=6).action != "refuse"
    assert disposition(error, attempts=5, max_deliver=6).action == "refuse"
    assert disposition(error, attempts=6, max_deliver=6).action == "refuse"
    assert disposition(error, attempts=1, max_deliver=1).action == "refuse"
    assert disposition(error, attempts=10_000, max_deliver=-1).action != "refuse"


def test_one_delivery_is_kept_back_to_refuse_what_kills_its_process() -> None:
    assert [handled_deliveries(limit) for limit in (1, 2, 6)] == [1, 1, 5]
    assert handled_deliveries(-1) == float("inf")


def test_pause_doubles_up_to_a_bound() -> None:
    assert [backoff(attempts) for attempts in (1, 2, 3, 4)] == [0.5, 1.0, 2.0, 4.0]
    assert backoff(10**9) == LONGEST_DELAY


def test_own_reason_code_of_an_error_is_kept() -> None:
    assert disposition(errors.GitError("x", code="ref_not_found"), 1, 6).code == "ref_not_found"


def test_words_of_an_unexpected_error_stay_in_the_log() -> None:
    assert disposition(KeyError("customer data"), 5, 6).message == (
        "the role failed with KeyError; see its log (given up after 5 attempts)"
    )


def test_words_that_leave_the_process_are_bounded_and_hold_no_secret() -> None:
    message = disposition(errors.DeniedError("https://u:hunter2@h/ " + "x" * 100_000), 1, 6).message
    assert "hunter2" not in message
    assert len(message) <= MAX_WORDS + 3
