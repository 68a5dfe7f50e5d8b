"""The stages of a run: one line for each that matters, and lines that fit where they are printed."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from gatewright.app.cli.runs.result import change_lines
from gatewright.contracts.reports import GateReport, Violation
from gatewright.view.retry import retry_label
from gatewright.view.run_view import FileChange, StageLine
from gatewright.view.safe_text import fit, hang
from gatewright.view.stages import refusal_stages, stage_text, title_lines, view_with_stages, work_lines
from tests.cli.runs.test_showing_runs import events_of, view_at_work
from tests.gatekeeper.simulated_run import RUN_ID, Script


def refusal(*violations: Violation) -> GateReport:
    return GateReport(
        run_id=RUN_ID,
        gate="diff",
        verdict="FAIL",
        code=violations[0].code,
        summary="refused",
        violations=violations,
        evidence=(),
        evaluated_at="2026-01-02T00:00:00.000Z",
    )


def outside(path: str) -> Violation:
    return Violation(code="path_out_of_scope", rule="allowed_paths", detail="outside the contract's paths", path=path)


def test_a_refusal_names_the_path_the_allowed_paths_and_the_code() -> None:
    (line,) = refusal_stages(refusal(outside("docs/index.md")), ("src", "a", "b", "c"))
    assert stage_text(line) == (
        "✘ scope     docs/index.md is outside the allowed paths (src, a, b and 1 more) [path_out_of_scope]"
    )


def test_contract_fields_of_a_refusal_become_options() -> None:
    broken = Violation(
        code="path_protected", rule="protected_paths.x", detail="opened only by scope.allow_dependency_change", path="a"
    )
    (line,) = refusal_stages(refusal(broken), ("src",))
    assert line.text == "a: opened only by --allow-dependencies [path_protected]"


def test_many_broken_rules_are_listed_in_part() -> None:
    lines = refusal_stages(refusal(*(outside(f"docs/{number}.md") for number in range(9))), ("src",))
    assert [line.mark for line in lines] == ["bad", *["more"] * 6]
    assert lines[-1].text == "... and 3 more"


def test_passed_gates_are_folded() -> None:
    view = view_with_stages(events_of(Script()))
    assert view is not None
    assert [(line.mark, line.name) for line in view.stages] == [
        ("good", "scope"),
        ("good", "review"),
        ("good", "tests"),
        ("good", "landed"),
    ]


def test_a_role_at_work_is_named_with_its_work_and_time() -> None:
    view = view_at_work()
    (words,) = work_lines(view, datetime.fromisoformat(view.run.at).astimezone(UTC))
    assert words == "worker · making the change · 0 s"


def test_a_title_that_does_not_fit_has_a_line_of_its_own() -> None:
    view = view_at_work()
    assert title_lines(view.run, 80) == [f"{'modernise the sources':<54}  {RUN_ID}"]
    assert title_lines(view.run, 40) == ["modernise the sources", RUN_ID]


def test_a_long_stage_is_broken_between_words() -> None:
    line = StageLine("bad", "scope", "a sentence of many words that is too long for a narrow terminal")
    lines = stage_text(line, 40).splitlines()
    assert max(map(len, lines)) <= 40
    assert all(each.startswith(" " * 12) for each in lines[1:])
    assert " ".join(" ".join(lines).split()) == " ".join(stage_text(line).split())


@given(st.lists(st.text("ab", min_size=1, max_size=9), min_size=1, max_size=9), st.integers(1, 40))
def test_a_text_is_cut_between_words(words: list[str], width: int) -> None:
    cut = fit(" ".join(words), width)
    assert len(cut) <= width
    if len(words[0]) < width:
        kept = cut.removesuffix("…").split()
        assert kept == words[: len(kept)]


def test_broken_lines_keep_a_word_that_is_longer_than_the_terminal() -> None:
    assert "x" * 90 in hang(f"see {'x' * 90} there", 60, 2)


def test_ten_changed_files_are_listed_and_the_others_are_summed_up() -> None:
    lines = change_lines([FileChange(f"src/{number:02}.py", number, 1) for number in range(13)])
    assert lines[1] == " " * 12 + "src/01.py  +1 -1"
    assert lines[10:] == [" " * 12 + "and 3 more"]
    assert change_lines([FileChange("a")]) == [" " * 12 + "a"]


def test_only_a_wider_scope_allows_what_was_refused() -> None:
    assert retry_label(("--allow", "a", "--allow-tests", "--x")) == "Retry with"
    assert retry_label(("--allow", "a", "--allow-tests", "b")) == "To allow it"
    assert retry_label(("--allow", "src", "--test", "pytest")) == "Retry with"
