"""``--candidates``: who makes the change where several do, as the request says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.app.cli.run.change_source import candidate_count
from gatewright.app.cli.run.request import prepare
from gatewright.app.cli.run.run_flow import leaves_open
from gatewright.contracts.vocabulary import Executor
from gatewright.errors import MalformedError
from gatewright.order_form.run_options import RunOptions
from gatewright.order_form.words import command_line
from tests.cli.conftest import MakeRepository


def options(place: Path, **given: object) -> RunOptions:
    fixed: dict[str, object] = {"request": "do it", "repo": str(place), "allow": ("src",), "tests": ("true",)}
    return RunOptions(**{**fixed, **given})  # type: ignore[arg-type]


def command(text: str) -> Executor:
    return Executor(kind="command", commands=(text,))


@pytest.mark.parametrize(
    ("given", "candidates", "retries"),
    [
        ({"candidates": "3", "agent": "codex"}, (Executor(kind="agent", agent="codex"),) * 3, 2),
        ({"candidates": "2", "agent": "any", "model": "m"}, (Executor(kind="agent", model="m"),) * 2, 2),
        ({"candidates": "2", "model": "m"}, (Executor(kind="model", model="m"),) * 2, 2),
        ({"candidates": "2", "commands": ("a", "b")}, (command("a"), command("b")), 0),
        (
            {"candidates": "codex, claude=opus,=gpt-5.1,any"},
            (
                Executor(kind="agent", agent="codex"),
                Executor(kind="agent", agent="claude", model="opus"),
                Executor(kind="model", model="gpt-5.1"),
                Executor(kind="agent"),
            ),
            2,
        ),
        (
            {"candidates": "codex,claude=opus", "model": "m"},
            (Executor(kind="agent", agent="codex", model="m"), Executor(kind="agent", agent="claude", model="opus")),
            2,
        ),
    ],
    ids=["one_agent", "any_agent", "one_model", "commands", "names", "names_and_a_model"],
)
def test_the_request_names_every_candidate(
    given: dict[str, object], candidates: tuple[Executor, ...], retries: int, make_repository: MakeRepository
) -> None:
    request = prepare(options(make_repository("r"), **given), Path.cwd()).request
    assert (request.executor, request.candidates) == (None, candidates)
    assert request.timeout_retry is not None
    assert request.timeout_retry.max_retries == retries


def test_replies_are_one_for_each_candidate(make_repository: MakeRepository, tmp_path: Path) -> None:
    files = tuple(tmp_path / name for name in ("one", "two"))
    for file in files:
        file.write_text("a reply")
    given = options(make_repository("r"), candidates="2", replies=tuple(map(str, files)))
    request = prepare(given, Path.cwd()).request
    assert request.candidates == tuple(Executor(kind="reply", artifacts=(f"reply-{number}",)) for number in (1, 2))


@pytest.mark.parametrize(
    "given",
    [
        {"candidates": "1", "agent": "codex"},
        {"candidates": "9", "agent": "codex"},
        {"candidates": "codex"},
        {"candidates": "codex,"},
        {"candidates": "codex,../claude"},
        {"candidates": "codex,claude", "agent": "codex"},
        {"candidates": "codex,claude", "commands": ("a", "b")},
        {"candidates": "2", "commands": ("a",)},
        {"candidates": "2", "commands": ("a", "b", "c")},
        {"candidates": "2", "agent": "codex", "shards": 2},
        {"candidates": "2", "head": "branch"},
        {"candidates": "99999999999999999999", "agent": "codex"},
    ],
    ids=str,
)
def test_candidates_that_cannot_be_made_are_refused_with_the_option_named(
    given: dict[str, object], make_repository: MakeRepository
) -> None:
    with pytest.raises(MalformedError) as caught:
        prepare(options(make_repository("r"), **given), Path.cwd())
    faults = [fault for fault in caught.value.faults if fault.pointer.startswith("/candidates")]
    assert faults
    assert all("--candidates" in fault.message or "--head" in fault.message for fault in faults)


def test_names_choose_the_executors_and_a_number_does_not(make_repository: MakeRepository) -> None:
    place = make_repository("r")
    assert not leaves_open(options(place, candidates="codex,claude"))
    assert leaves_open(options(place, candidates="3"))
    with pytest.raises(MalformedError) as caught:
        prepare(options(place, candidates="3"), Path.cwd())
    assert [fault.pointer for fault in caught.value.faults] == ["/executor"]


def test_the_command_can_be_pasted_with_its_candidates(make_repository: MakeRepository) -> None:
    assert "--candidates" in command_line(options(make_repository("r"), candidates="codex,=m"))
    assert [candidate_count(given) for given in (None, "3", "codex,=m")] == [1, 3, 2]
