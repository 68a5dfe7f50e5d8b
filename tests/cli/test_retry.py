"""What a refusal says to do: options in the place of a contract's fields, and a command that can be pasted."""

from __future__ import annotations

import io
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from rich.console import Console

from gatewright.app.cli.run.command_line import command_line
from gatewright.app.cli.run.display import PlainDisplay
from gatewright.app.cli.run.live import LiveDisplay
from gatewright.app.cli.run.request import RunOptions
from gatewright.app.cli.runs.outputs import shown_lines
from gatewright.app.cli.runs.result import closing_words, result_of
from gatewright.app.cli.runs.retry import in_options, retry_options
from gatewright.app.cli.runs.view import OutputTail, RunView
from gatewright.contracts.reports import GateReport, Violation
from gatewright.ledger.run import RunFailure
from gatewright.reasons import advice_for
from tests.cli.test_showing_runs import view_after
from tests.gatekeeper.simulated_run import RUN_ID, Script

#: Everything that a shell would take for something else.
ODD = 'tests/it\'s a "test" $HOME & co.py'
COMMAND = ("gatewright", "run", "it's done", "--allow", "src", "--exec", "ruff check {paths}", "--test", "python -m pytest -q")


def refusal(*violations: tuple[str, str, str, str | None]) -> GateReport:
    found = tuple(Violation(code=code, rule=rule, detail=detail, path=path) for code, rule, detail, path in violations)
    return GateReport(
        run_id=RUN_ID,
        gate="diff",
        verdict="FAIL",
        code=found[0].code,
        summary=found[0].detail,
        violations=found,
        evidence=(),
        evaluated_at="2026-01-05T09:30:00.000Z",
    )


def protected(path: str) -> tuple[str, str, str, str]:
    return ("path_protected", "protected_paths.protected", "opened only by scope.allow_protected_paths", path)


def runner(path: str) -> tuple[str, str, str, str]:
    return ("path_protected", "protected_paths.runner", "opened only by scope.allow_protected_paths, by name", path)


def refused(report: GateReport) -> RunView:
    view = view_after(Script(refused_shard=1))
    run = view.run
    assert run.failure is not None
    return replace(view, gates=(report,), run=structs.replace(run, failure=RunFailure(report.code, report.summary)))


def test_a_protected_test_is_refused_with_the_command_to_retry_with() -> None:
    words = closing_words(refused(refusal(protected("tests/test_x.py"))), COMMAND)
    (line,) = [line for line in words if "retry with" in line]
    pasted = shlex.split(line.partition("retry with: ")[2])
    assert tuple(pasted) == (*COMMAND, "--allow-tests", "tests/test_x.py")
    assert not any("scope.allow" in line for line in words), "contract words"
    assert any("opened only by --allow-tests" in line for line in words)


def test_a_name_full_of_shell_words_comes_back_as_one_word() -> None:
    words = closing_words(refused(refusal(protected(ODD))), COMMAND)
    (line,) = [line for line in words if "retry with" in line]
    assert shlex.split(line.partition("retry with: ")[2])[-1] == ODD


@pytest.mark.parametrize(
    ("violations", "options"),
    [
        ((protected("tests/a.py"), protected("tests/b.py")), ("--allow-tests", "tests/a.py", "--allow-tests", "tests/b.py")),
        (
            (("path_out_of_scope", "allowed_paths", "outside", "tests/a.py"), protected("tests/a.py")),
            ("--allow-tests", "tests/a.py"),
        ),
        ((("path_out_of_scope", "allowed_paths", "outside", "doc/a.md"),), ("--allow", "doc/a.md")),
        (
            (("path_protected", "protected_paths.dependencies", "x", "setup.py"),) * 2,
            ("--allow-dependencies",),
        ),
        ((("executable_refused", "change_kinds.executable", "x", "run.sh"),), ("--allow-kind", "executable")),
        (
            (
                (
                    "review_failed",
                    "test_run_evasion",
                    "ends the process at once; opened only by scope.allow_protected_paths",
                    "a.py",
                ),
            ),
            ("--allow-tests", "a.py"),
        ),
        ((("review_failed", "test_run_evasion", "ends the process when it is imported", "a.py"),), ()),
        (
            (("tests_lost", "test_proof", "x", "src/a.py"), ("tests_lost", "test_proof", "y", "t.py")),
            ("--allow-tests", "src/a.py", "--allow-tests", "t.py"),
        ),
        (
            (("file_too_large", "protected_paths.limits", "9 bytes; opened only by scope.allow: large_file", "x"),),
            ("--allow-kind", "large_file"),
        ),
        ((protected("tests/a.py"), ("path_protected", "protected_paths.sacred", "no contract opens it", ".env")), ()),
        ((("path_out_of_scope", "shard owners", "not in the shard", "a.py"),), ()),
        ((protected("tests/\\xff.py"),), ()),
        ((("diff_too_large", "protected_paths.limits", "9 changed files where 2 are allowed", None),), ()),
        ((("target_checked_out", "target", "in use", None),), ("--land", "branch")),
        (tuple(protected(f"tests/deep/{number}.py") for number in range(20)), ("--allow-tests", "tests/deep")),
        (
            (runner("web/jest.config.js"), *(protected(f"tests/deep/{number}.py") for number in range(20))),
            ("--allow-tests", "web/jest.config.js", "--allow-tests", "tests/deep"),
        ),
    ],
)
def test_options_are_offered_when_they_open_all_that_was_refused_and_only_then(
    violations: tuple[tuple[str, str, str, str | None], ...], options: tuple[str, ...]
) -> None:
    view = refused(refusal(*violations))
    assert retry_options(view.failing_gate) == options
    assert result_of(view).retry_with == options


def test_without_the_command_the_options_alone_are_told() -> None:
    words = closing_words(refused(refusal(protected("tests/test_x.py"))))
    assert "  retry with: the same command and --allow-tests tests/test_x.py" in words


def test_words_of_a_contract_become_options() -> None:
    said = in_options("opened only by scope.allow_dependency_change; opened only by scope.allow: large_file")
    assert said == "opened only by --allow-dependencies; opened only by --allow-kind large_file"


def test_advice_names_the_run() -> None:
    assert "gatewright show run-1 --log" in (advice_for("tests_failed", "run-1") or "")


def test_the_command_to_retry_is_what_was_given_and_no_default() -> None:
    options = RunOptions(
        request="it's done",
        repo="/srv/ä b",
        allow=("src",),
        allow_tests=("tests",),
        allow_dependencies=True,
        allow_kinds=("binary",),
        commands=("ruff check {paths}",),
        tests=("python -m pytest -q",),
        env=(Path(".venv"),),
        timeout=2_500_000.0,
        max_cost=0.25,
    )
    words = command_line(options, 3)
    assert " ".join(words[:4]) == "gatewright run it's done --repo"
    assert shlex.split(shlex.join(words)) == list(words)
    pairs = [("--repo", "/srv/ä b"), ("--allow-kind", "binary"), ("--exec", "ruff check {paths}"), ("--env", ".venv")]
    for option, value in [*pairs, ("--timeout", "2500000"), ("--max-cost", "0.25"), ("--workers", "3")]:
        assert words[words.index(option) + 1] == value
    assert not {"--shards", "--ref", "--land", "--priority"} & set(words)


def test_a_value_that_looks_like_an_option_stays_a_value() -> None:
    assert "--test=-x" in command_line(RunOptions(request="x", tests=("-x",)))
    assert command_line(RunOptions(request="x", patch="-"))[-2:] == ("--patch", "-")


def test_colours_in_the_output_of_a_test_are_left_out_of_its_last_lines() -> None:
    assert list(shown_lines(b"\x1b[31m\x1b[1mE   assert 1 == 2\x1b[0m\n\x1b[2J\n")) == ["E   assert 1 == 2", "\\x1b[2J"]


def test_escapes_in_the_output_of_a_test_are_shown_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = b"ok\n\x1b]0;title\x07\x1b[2Jgone \xe2\x80\xae evil\nprogress\rE   assert 1 == 2\n"
    tail = OutputTail("test-1: python -m pytest (exit 1), stdout", tuple(shown_lines(hostile)), cut=True)
    view = replace(refused(refusal(protected("tests/x.py"))), tails=(tail,))
    PlainDisplay(COMMAND).close(view)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "\u202e" not in out
    assert "  │ E   assert 1 == 2" in out
    screen = io.StringIO()
    LiveDisplay(Console(file=screen, force_terminal=True, width=60), COMMAND).close(view)
    drawn = screen.getvalue()
    assert "\x1b]" not in drawn
    assert "\x1b[2J" not in drawn
    assert "\x1b[31mE   assert 1 == 2" in drawn
