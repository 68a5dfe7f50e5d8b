"""What a refusal says to do: options in the place of a contract's fields, and a command that can be pasted."""

from __future__ import annotations

import io
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from rich.console import Console

from gatewright.app.cli.run.display import LiveDisplay, PlainDisplay
from gatewright.app.cli.runs.result import closing_words, result_of, shown_lines
from gatewright.contracts.reports import GateReport, Violation
from gatewright.order_form.run_options import RunOptions
from gatewright.order_form.words import command_line, in_options
from gatewright.reasons import REASONS, RetryOffer, advice_for, offers_for
from gatewright.run.state import RunFailure
from gatewright.scope import check_allowed_path
from gatewright.view.retry import retry_line, retry_options
from gatewright.view.run_view import OutputTail, RunView
from gatewright.view.stages import refusal_stages
from tests.cli.runs.test_showing_runs import view_after
from tests.gatekeeper.simulated_run import RUN_ID, Script

NAMED = "opened only by scope.allow_protected_paths"
#: Everything that a shell would take for something else.
ODD = 'tests/it\'s a "test" $HOME & co.py'
ALLOWED_DEPENDENCY = ("--allow", "setup.py", "--allow-dependencies")
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


def dependency(path: str) -> tuple[str, str, str, str]:
    return ("path_protected", "protected_paths.dependencies", "opened only by scope.allow_dependency_change", path)


def outside(path: str) -> tuple[str, str, str, str]:
    return ("path_out_of_scope", "allowed_paths", "outside the contract's paths", path)


def refused(report: GateReport) -> RunView:
    view = view_after(Script(refused_shard=1))
    run = view.run
    assert run.failure is not None
    return replace(view, gates=(report,), run=structs.replace(run, failure=RunFailure(report.code, report.summary)))


def test_a_protected_test_is_refused_with_the_command_to_retry_with() -> None:
    words = closing_words(refused(refusal(protected("tests/test_x.py"))), COMMAND)
    (line,) = [line for line in words if line.startswith("To allow it: ")]
    pasted = shlex.split(line.partition(": ")[2])
    assert tuple(pasted) == (*COMMAND, "--allow-tests", "tests/test_x.py")
    stages = refusal_stages(refusal(protected("tests/test_x.py")), ("src",))
    assert "opened only by --allow-tests" in stages[0].text
    assert not any("scope.allow" in line.text for line in stages), "contract words"


def test_a_name_full_of_shell_words_comes_back_as_one_word() -> None:
    words = closing_words(refused(refusal(protected(ODD))), COMMAND)
    (line,) = [line for line in words if line.startswith("To allow it: ")]
    assert shlex.split(line.partition(": ")[2])[-1] == ODD


@pytest.mark.parametrize(
    ("violations", "options"),
    [
        ((protected("tests/a.py"), protected("tests/b.py")), ("--allow-tests", "tests/a.py", "--allow-tests", "tests/b.py")),
        (
            (("path_out_of_scope", "allowed_paths", "outside", "tests/a.py"), protected("tests/a.py")),
            ("--allow-tests", "tests/a.py"),
        ),
        ((("path_out_of_scope", "allowed_paths", "outside", "doc/a.md"),), ("--allow", "doc/a.md")),
        ((dependency("setup.py"), dependency("setup.cfg")), ("--allow-dependencies",)),
        ((("executable_refused", "change_kinds.executable", "x", "run.sh"),), ("--allow-kind", "executable")),
        ((("path_out_of_scope", "allowed_paths", "outside", "setup.py"), dependency("setup.py")), ALLOWED_DEPENDENCY),
        (
            (("file_too_large", "protected_paths.limits", "9 bytes; opened only by scope.allow: large_file", "x"),),
            ("--allow-kind", "large_file"),
        ),
        ((protected("tests/a.py"), ("path_protected", "protected_paths.sacred", "no contract opens it", ".env")), ()),
        ((("path_out_of_scope", "shard owners", "not in the shard", "a.py"),), ()),
        ((protected("tests/\\xff.py"),), ()),
        ((("diff_too_large", "protected_paths.limits", "9 changed files where 2 are allowed", None),), ()),
        ((("target_checked_out", "target", "in use", None),), ("--land", "branch")),
        ((runner("web/jest.config.js"),), ("--allow-tests", "web/jest.config.js")),
    ],
)
def test_options_are_offered_only_if_they_allow_every_refusal(
    violations: tuple[tuple[str, str, str, str | None], ...], options: tuple[str, ...]
) -> None:
    view = refused(refusal(*violations))
    assert retry_options(view.failing_gate) == options
    assert result_of(view).retry_with == options


#: What tries to pass unseen, or made a run refuse for another reason than that a path was not named.
EVASIVE = {
    "SkipTest in a source": ("tests_lost", "test_proof", "ran on the baseline and is skipped now: t", "tests/test_a.py"),
    "a doctest that goes": ("tests_lost", "test_proof", "of the baseline did not run: a", "src/a.py"),
    "a patched runner": ("runner_patched", "test_proof", "not as the runner brought it", "src/a.py"),
    "a process that ends": ("review_failed", "test_run_evasion", "ends the process at once; " + NAMED, "src/a.py"),
    "tests that are emptied": ("review_failed", "tests_weakened", "has no assertion now; " + NAMED, "tests/test_a.py"),
    "a model's finding that asks": ("review_failed", "model_finding", "it is fine; " + NAMED, "src/a.py"),
    "a role's own code": ("test_run_evasion", "protected_paths.protected", NAMED, "src/a.py"),
    "a command that cannot fail": ("tests_not_alive", "test_proof", NAMED, "tests/test_a.py"),
    "a report that is cut short": ("report_missing", "test_proof", NAMED, "tests/test_a.py"),
    "a change that no test loads": ("untested_change", "test_proof", "changed, and no test has loaded it", "src/a.py"),
    "a malformed patch": ("patch_malformed", "allowed_paths", "line 3: cut off", "src/a.py"),
    "a patch that git read otherwise": ("patch_outcome_differs", "allowed_paths", "another file changed", "src/a.py"),
    "a patch for another commit": ("patch_does_not_apply", "protected_paths.protected", NAMED, "tests/test_a.py"),
    "content of a sacred file": ("sacred_content", "allowed_paths", "has content of .env", "src/a.py"),
    "a secret": ("secret_found", "allowed_paths", "looks like a secret", "src/a.py"),
    "a rule of the organisation": ("organisation_rule", "allowed_paths", NAMED, "src/a.py"),
    "a code of a later version": ("of_a_later_version", "protected_paths.protected", NAMED, "tests/test_a.py"),
    "the pipeline": ("path_protected", "protected_paths.ci", "opened only by approval", ".github/workflows/ci.yml"),
    "an old migration": ("path_protected", "protected_paths.migrations", "may not change", "migrations/1.py"),
    "a class of a later version": ("path_protected", "protected_paths.later", NAMED, "src/a.py"),
    "a kind of a later version": ("executable_refused", "change_kinds.later", "x", "src/a.py"),
}


@pytest.mark.parametrize("cause", EVASIVE)
def test_what_caused_a_refusal_for_evasion_is_never_offered(cause: str) -> None:
    for violations in ((EVASIVE[cause],), (outside("doc/a.md"), EVASIVE[cause]), (EVASIVE[cause], protected("tests/b.py"))):
        view = refused(refusal(*violations))
        assert result_of(view).retry_with == ()
        assert not [line for line in closing_words(view, COMMAND) if line.startswith(("To allow it", "Retry with"))]


#: Paths that no line to paste may open, in whatever way they were refused.
NEVER_OFFERED = (
    *("src/__pycache__/m.pyc", "src/m.pyo", "node_modules/left-pad/index.js", "web/node_modules/.cache/x", "target/debug/app"),
    *("target/classes/A.class", ".mypy_cache/3.11/m.json", ".ruff_cache/x", ".pytest_cache/v/x", ".tox/py/x", ".venv/bin/pip"),
    *(
        ".gradle/8.0/x",
        ".next/server/x",
        ".cache/x",
        "src/pkg.egg-info/PKG-INFO",
        ".terraform/x",
        "coverage/.nyc_output/a.json",
    ),
    *(
        ".env",
        "deploy/.ENV",
        ".env.production",
        "id_rsa",
        ".ssh/config",
        ".git-credentials",
        "infra/prod.tfstate",
        "server.key",
    ),
    *("-rf", ":(glob)x", "src/*.py", "src/a?.py", "~/x", "../x", "/etc/x", "./x", "src/a\\nb.py", "src/\\u202egpj.py"),
    *(
        "src/a\nb.py",
        "src/\u202egpj.py",
        "src/\x1b[2J",
        "src/a\u00a0b.py",
        "src/[redacted:aws].py",
        "x" * 250 + "/" + "x" * 350,
    ),
    *("", ".", "/", "**"),
)


@pytest.mark.parametrize("path", NEVER_OFFERED)
def test_a_path_that_a_line_to_paste_never_opens(path: str) -> None:
    for violations in ((outside(path),), (protected(path),), (runner(path),), (outside("doc/a.md"), outside(path))):
        assert retry_options(refusal(*violations)) == ()


def test_many_refused_paths_are_not_opened_by_their_folder() -> None:
    paths = [f"tests/deep/{number}.py" for number in range(40)]
    options = retry_options(refusal(*map(protected, paths)))
    assert options == tuple(word for path in paths for word in ("--allow-tests", path))
    assert retry_options(refusal(*map(protected, [*paths, "tests/deep/40.py"]))) == ()


def test_a_bundle_file_is_offered_only_where_commands_missed_it() -> None:
    for code, provided in (("tests_failed", ("--provide", "src/v.py")), ("tests_lost", ()), ("runner_patched", ())):
        report = refusal((code, "test_proof", "x", None))
        view = replace(refused(report), provide=("--provide", "src/v.py"), unprovided=("src/v.py",))
        assert result_of(view).retry_with == provided
        assert any("--provide" in line for line in closing_words(view)) is bool(provided)


ODD_TEXT = st.text(
    st.sampled_from("ab/ .-~'\"$`\\!;&|<>(){}[]*?#=%^,:@+\n\r\t\x1b\x7f\u00a0\u202e\u2066\u2028\ufeff\u00e9\u4e2d")
)
PATHS = st.one_of(st.sampled_from(("src/a.py", "tests/b c.py", *NEVER_OFFERED)), ODD_TEXT)
RULES = ("allowed_paths", "protected_paths.protected", "protected_paths.runner", "protected_paths.dependencies", "test_proof")
VIOLATIONS = st.tuples(
    st.sampled_from(("path_out_of_scope", "path_protected", "path_protected", *REASONS)),
    st.sampled_from((*RULES, "protected_paths.sacred", "change_kinds.symlink", "change_kinds.x", "protected_paths.limits")),
    st.sampled_from(("x", NAMED, "opened only by scope.allow: large_file", "opened only by scope.allow: evil")),
    st.none() | PATHS,
)
#: What the words of a line to paste do to options; everything else of the command is as it was typed.
OPENS = {"--allow": RetryOffer.PATH, "--allow-tests": RetryOffer.PROTECTED_PATH, "--allow-kind": RetryOffer.KIND}


@given(st.lists(VIOLATIONS, min_size=1, max_size=4), st.lists(ODD_TEXT.filter(lambda text: text != "--"), max_size=3))
def test_the_retry_line_gives_a_shell_only_permitted_options(
    violations: list[tuple[str, str, str, str | None]], command: list[str]
) -> None:
    report = refusal(*violations)
    options = retry_options(report)
    words = shell_words(retry_line(["gatewright", "run", *command], options))
    assert words == ["gatewright", "run", *command, *options]
    offered = dict.fromkeys(offer for code, *_ in violations for offer in offers_for(code))
    for option, value in pairs(options):
        assert OPENS.get(option, RetryOffer(option)) in offered
        if option in {"--allow", "--allow-tests"}:
            (violation, *_) = [each for each in violations if each[3] == value and OPENS[option] in offers_for(each[0])]
            assert violation[0] in {"path_out_of_scope", "path_protected"}
            assert value not in NEVER_OFFERED
            assert check_allowed_path(value) == value


def pairs(options: Sequence[str]) -> Iterator[tuple[str, str]]:
    waiting = iter(options)
    for option in waiting:
        yield option, "" if option == "--allow-dependencies" else next(waiting)


def shell_words(line: str) -> list[str]:
    """The words of a line as a shell reads it, with a pattern of file names to meet and no variable."""
    script = f"set -- {line}\nprintf '%s\\0' \"$@\""
    done = subprocess.run(("bash", "--norc", "-c", script), capture_output=True, check=True, env={}, cwd="/")
    return done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]


@pytest.mark.parametrize("request_text", ["--help", "-x it", "two\nlines", "a\ttab", "it's \u202ereversed", "=ls", "~root"])
def test_an_odd_request_comes_back_as_it_was_given(request_text: str) -> None:
    words = command_line(RunOptions(request=request_text, allow=("src",), commands=("-x",)))
    line = retry_line(words, ("--allow-tests", "tests/a.py", "--test", "-q"))
    assert line.isprintable()
    _, verb, *read = shell_words(line)
    assert verb == "run"
    options = [word for word in read if word not in {"--", request_text}]
    assert options == ["--allow", "src", "--exec=-x", "--allow-tests", "tests/a.py", "--test=-q"]
    assert not request_text.startswith("-") or read[-2:] == ["--", request_text]


def test_without_the_command_only_the_options_are_shown() -> None:
    words = closing_words(refused(refusal(protected("tests/test_x.py"))))
    assert "To allow it: the same command and --allow-tests tests/test_x.py" in words


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
    words = command_line(replace(options, workers=3))
    assert " ".join(words[:4]) == "gatewright run it's done --repo"
    assert shlex.split(shlex.join(words)) == list(words)
    pairs = [("--repo", "/srv/ä b"), ("--allow-kind", "binary"), ("--exec", "ruff check {paths}"), ("--env", ".venv")]
    for option, value in [*pairs, ("--timeout", "2500000"), ("--max-cost", "0.25"), ("--workers", "3")]:
        assert words[words.index(option) + 1] == value
    assert not {"--shards", "--ref", "--land", "--priority"} & set(words)


def test_a_value_that_looks_like_an_option_stays_a_value() -> None:
    assert "--test=-x" in command_line(RunOptions(request="x", tests=("-x",)))
    assert command_line(RunOptions(request="x", patch="-"))[-2:] == ("--patch", "-")


def test_colours_in_test_output_are_removed_from_its_last_lines() -> None:
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
