"""What people and programs are shown of a run, from its events alone."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from msgspec import structs
from rich.console import Console

from gatewright.app.cli.run.display import JsonDisplay, LiveDisplay, PlainDisplay
from gatewright.app.cli.runs.listing import run_details, run_story
from gatewright.app.cli.runs.result import closing_words, failure_of, result_of
from gatewright.contracts import AgentActivity, OrchestratorEvent, codec
from gatewright.contracts.activity import ActivityKind
from gatewright.contracts.reports import (
    BaselineTests,
    Finding,
    GateReport,
    MutationSample,
    Remark,
    TestCommand,
    TestCounts,
    TestProof,
    Violation,
)
from gatewright.contracts.vocabulary import Budget, Executor
from gatewright.run import events as e
from gatewright.run.state import RunFailure
from gatewright.view.rows import tasks_in_hand
from gatewright.view.run_view import RunView, advance, view_of
from gatewright.view.safe_text import printable
from gatewright.view.stages import view_with_stages
from tests.cli.conftest import RESULT_FIELDS, Command
from tests.client.conftest import make_run
from tests.gatekeeper.budgeted_run import BudgetedRun, make_usage
from tests.gatekeeper.simulated_run import NOW, RUN_ID, Script

SCREEN = io.StringIO()
ESCAPE = "\x1b[31mred\x1b[0m"


def events_of(script: Script) -> list[OrchestratorEvent]:
    return [event for transition in make_run(script).transitions for event in transition.events]


def view_after(script: Script) -> RunView:
    view = view_of(events_of(script))
    assert view is not None
    return view


def shown(script: Script, capsys: pytest.CaptureFixture[str], *, verbose: bool = False) -> str:
    return shown_events(events_of(script), capsys, verbose=verbose)


def shown_events(events: Iterable[OrchestratorEvent], capsys: pytest.CaptureFixture[str], *, verbose: bool = False) -> str:
    view: RunView | None = None
    with PlainDisplay(verbose=verbose) as display:
        for event in events:
            view = advance(view, event)
            display.show(event, view)
        assert view is not None
        display.close(view)
    return capsys.readouterr().out


def test_plain_timeline_shows_states_roles_verdicts_and_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(Script(shards=2), capsys, verbose=True)
    for words in ("S0 intake", "S1 plan", "S2 execute", "S3 review", "S4 test", "S6 done", "techlead: 2 shards", "✔ diff gate"):
        assert words in out
    assert "\x1b" not in out
    assert out.index("S1 plan") < out.index("S4 test") < out.index("Landed in")


def test_a_run_that_lands_has_one_line_for_each_stage_that_matters(capsys: pytest.CaptureFixture[str]) -> None:
    title, _, *lines = shown(Script(), capsys).splitlines()
    assert title.endswith(f"  {RUN_ID}")
    assert len(title) == 80
    assert [line[:12].split() for line in lines[: lines.index("")]] == [
        ["✔", "scope"],
        ["✔", "review"],
        ["✔", "tests"],
        ["✔", "landed"],
    ]
    assert lines[-2:] == ["Next:     git -C /srv/r merge x", f"Evidence: gatewright show {RUN_ID}"] or lines[-1].startswith(
        "Evidence"
    )
    assert sum(line.startswith("Next:") for line in lines) == 1


def test_failed_run_shows_gate_reason_and_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(Script(refused_shard=1), capsys)
    assert out.count("✘") == 1, "a refusal is shown once"
    assert "✘ scope  " in out
    assert "Nothing landed." in out
    assert "Advice:" in out or "To allow it:" in out
    assert f"Evidence: gatewright show {RUN_ID}" in out


def test_round_of_the_fix_loop_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(Script(retries=1, tests_fail_until=1), capsys)
    assert out.index("✘ tests") < out.index("! fix       attempt 2 starts: tests_failed") < out.index("✔ tests")
    assert "Landed in" in out
    assert "S5 fix" in shown(Script(retries=1, tests_fail_until=1), capsys, verbose=True)


def test_cured_failure_is_not_the_reason_of_a_later_success() -> None:
    assert view_after(Script(retries=1, tests_fail_until=1)).failing_gate is None


def test_a_gate_that_ordered_a_fix_is_not_blamed_later() -> None:
    view = view_after(Script(retries=1, tests_fail_until=1, landing_refused=True))
    assert view.failing_gate is not None
    assert view.failing_gate.gate == "landing"
    assert view.run.failure is not None
    other = replace(view, run=structs.replace(view.run, failure=structs.replace(view.run.failure, code="executor_failed")))
    assert other.failing_gate is None


#: A command that passed.
SUITE = TestCommand(
    name="suite", cmd_argv=("pytest",), must_pass=True, timeout_sec=60.0, exit_code=0, duration_sec=1.0, stdout="", stderr=""
)


def remarked_events() -> list[OrchestratorEvent]:
    """A run that lands, with a remark of its diff gate, of its reviewer and of its tests."""
    baseline = BaselineTests(
        paths=("t.py",),
        exit_code=1,
        complete=True,
        counts=TestCounts(passed=1, failed=2, skipped=0),
        failed=("t.py::a", "t.py::b"),
    )
    sample = MutationSample(seed="0", possible=8, tried=0, mutants=(), seconds=0.5, out_of_time=True)
    proof = TestProof(
        framework="pytest",
        complete=True,
        counts=TestCounts(passed=3, failed=0, skipped=0),
        collected_before=3,
        baseline_tests=baseline,
        mutation=sample,
    )
    command = structs.replace(SUITE, proof=proof)
    finding = Finding(code="odd_import", message="looks for a test runner", blocking=False, path="src/a.py", line=3)
    remark = Remark(rule="line_ends", message="The line ends are mixed.", path="src/b.py")
    events = []
    for event in events_of(Script()):
        payload = e.event_of(event)
        match payload:
            case e.GateJudged(report=report) if report.gate == "diff":
                payload = structs.replace(payload, report=structs.replace(report, remarks=(remark,)))
            case e.ReviewReceived(report=review):
                payload = structs.replace(payload, report=structs.replace(review, findings=(finding,)))
            case e.TestsReceived(report=tests):
                payload = structs.replace(payload, report=structs.replace(tests, commands=(command,)))
            case _:
                pass
        events.append(structs.replace(event, payload=e.plain(payload)))
    return events


REMARKS = (
    "diff gate: src/b.py: line_ends: The line ends are mixed.",
    "reviewer: src/a.py:3: odd_import: looks for a test runner",
    "tests: suite: the baseline's tests on this change: 1 passed, 2 failed: t.py::a, t.py::b",
    "tests: suite: no mutant was tried of 8 possible: the time was over before the first",
)


def test_each_remark_has_a_marked_line_while_the_run_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown_events(remarked_events(), capsys, verbose=True).splitlines()
    for remark in REMARKS:
        assert [line.split("] ")[1][11:] for line in lines if line.endswith(remark)] == [f"! remark of {remark}"]


def test_each_remark_has_a_marked_line_below_its_stage(capsys: pytest.CaptureFixture[str]) -> None:
    view = view_with_stages(remarked_events())
    assert view is not None
    for lines in (shown_events(remarked_events(), capsys).splitlines(), run_story(view)):
        assert [line for line in lines if "!" in line] == [f"! remark    {remark}" for remark in STAGE_REMARKS]
        assert next(line for line in lines if "✔ review" in line) == "✔ review    passed, 1 remark"
    assert "  suite: 3 tests before, 3 now: 0 lost, 0 new" in run_story(view, verbose=True), "what is doubtful is a remark"


STAGE_REMARKS = (
    "src/b.py: The line ends are mixed. [line_ends]",
    "src/a.py:3: looks for a test runner [odd_import]",
    *(each.removeprefix("tests: ") for each in REMARKS[2:]),
)


def test_remarks_are_in_the_documents_of_run_and_show() -> None:
    view = view_of(remarked_events())
    assert view is not None
    told = json.loads(msgspec.json.encode(run_details(view)))["result"]["remarks"]
    assert told == json.loads(msgspec.json.encode(result_of(view)))["remarks"]
    assert [(each["source"], each["rule"], each["path"], each["line"]) for each in told] == [
        ("diff gate", "line_ends", "src/b.py", None),
        ("reviewer", "odd_import", "src/a.py", 3),
        ("tests", "test_proof", None, None),
        ("tests", "test_proof", None, None),
    ]


def test_many_remarks_are_counted_for_people_and_all_listed_for_programs() -> None:
    view = view_of(remarked_events())
    assert view is not None
    finding = Finding(code="odd", message=ESCAPE, blocking=False)
    findings = tuple(structs.replace(finding, line=n) for n in range(1, 41))
    assert view.run.review is not None
    review = structs.replace(view.run.review, findings=findings)
    many = replace(view, run=structs.replace(view.run, review=review))
    events = []
    for event in remarked_events():
        payload = e.event_of(event)
        if isinstance(payload, e.ReviewReceived):
            payload = structs.replace(payload, report=structs.replace(payload.report, findings=findings))
        events.append(structs.replace(event, payload=e.plain(payload)))
    staged = view_with_stages(events)
    assert staged is not None
    lines = [line for line in run_story(staged) if line.startswith("! remark") and "src/" not in line and "suite" not in line]
    assert len(lines) == 13
    assert lines[-1].endswith("... and 28 more; the JSON document lists all")
    assert all(line.isprintable() for line in lines)
    assert len(result_of(many).remarks) == 43


def test_result_has_the_promised_shape() -> None:
    result = json.loads(msgspec.json.encode(result_of(view_after(Script()))))
    assert tuple(result) == RESULT_FIELDS
    assert (result["status"], result["branch"], result["commit"], result["tree"]) == ("SUCCESS", "x", "7" * 40, "4" * 40)
    failed = json.loads(msgspec.json.encode(result_of(view_after(Script(landing_refused=True)))))
    assert (failed["status"], failed["branch"], failed["commit"]) == ("FAILED", None, None)
    assert failed["failure"] == {
        "code": "landing_conflict",
        "message": "landing gate: landing_conflict",
        "family": "failed",
    }


def test_the_failure_names_what_the_failed_command_checks() -> None:
    view = view_after(Script())
    assert view.run.tests is not None
    good = structs.replace(SUITE, name="unit")
    bad = structs.replace(SUITE, name="types", cmd_argv=("mypy",), exit_code=1)
    optional = structs.replace(bad, name="style", cmd_argv=("ruff",), must_pass=False)
    tests = structs.replace(view.run.tests, commands=(optional, good, bad))
    for code, named in (("tests_failed", "typecheck"), ("hidden_tests_failed", "typecheck"), ("test_unproven", None)):
        failed = replace(view, run=structs.replace(view.run, tests=tests, failure=RunFailure(code, "")))
        failure = failure_of(failed)
        assert failure is not None
        assert failure.failure_class == named


def test_json_display_prints_every_event_and_then_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    view: RunView | None = None
    events = events_of(Script())
    with JsonDisplay() as display:
        for event in events:
            view = advance(view, event)
            display.show(event, view)
        assert view is not None
        display.close(view)
    *lines, last = capsys.readouterr().out.splitlines()
    assert [codec.encode(codec.decode(line.encode(), OrchestratorEvent)) for line in lines] == list(map(codec.encode, events))
    assert json.loads(last)["status"] == "SUCCESS"


def test_live_display_draws_every_stage_of_a_run() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=140, highlight=False, markup=False)
    display = LiveDisplay(console)
    view: RunView | None = None
    with display:
        display.note("[bold]waiting[/bold]")
        for event in events_of(Script(retries=1, review_fails_until=1)):
            view = advance(view, event)
            display.show(event, view)
            console.print(display._below())
        assert view is not None
        display.close(view)
    drawn = screen.getvalue()
    assert "reviewer · reviewing the change" in drawn
    assert "attempt 2 starts" in drawn
    assert "Landed in" in drawn


def said_by_an_agent(view: RunView, event: ActivityKind, text: str) -> AgentActivity:
    (task,) = tasks_in_hand(view.run, view.dispatched)
    return AgentActivity(run_id=view.run.run_id, task_id=task.task_id, event=event, text=text)


def view_at_work() -> RunView:
    """A run whose worker is at work."""
    view: RunView | None = None
    for event in events_of(Script()):
        view = advance(view, event)
        if [task.role for task in tasks_in_hand(view.run, view.dispatched)] == ["worker"]:
            break
    assert view is not None
    return view


def test_the_live_display_shows_an_agents_current_messages_and_usage() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=False, width=60, highlight=False, markup=False)
    display, view = LiveDisplay(console), view_at_work()
    display.waits(view, ())
    console.print(display._below())
    assert "worker · making the change · " in screen.getvalue()
    for text in ("I look", "I look at the tests\nThey fail because \x1b[2J[bold]of a sign " + "x" * 100):
        display.activity(view, said_by_an_agent(view, "text", text))
    display.activity(view, said_by_an_agent(view, "usage", "1,200 tokens, 3 turns, 4 of 300 s"))
    console.print(display._below())
    drawn = screen.getvalue()
    assert "worker · They fail…" in drawn, "what an agent says gives way to what it used"
    assert "· 1,200 tokens, 3 turns, 4 of 300 s" in drawn
    assert "I look" not in drawn
    assert "\x1b[2J" not in drawn
    assert max(map(len, drawn.splitlines())) <= 60


def test_log_lines_leave_out_an_agents_live_messages(capsys: pytest.CaptureFixture[str]) -> None:
    display, view = PlainDisplay(verbose=True), view_at_work()
    display.activity(view, said_by_an_agent(view, "text", "half a mess"))
    display.activity(view, said_by_an_agent(view, "usage", "1 tokens"))
    display.activity(view, said_by_an_agent(view, "message", "\n".join(f"line {number}" for number in range(20))))
    said = capsys.readouterr().out
    assert "half" not in said
    assert "1 tokens" not in said
    assert "line 7" in said
    assert "line 8" not in said
    assert f"… 12 more lines: gatewright show {view.run.run_id} --log" in said


@pytest.mark.parametrize("display", [PlainDisplay(), LiveDisplay(Console(file=SCREEN, force_terminal=True, width=200))])
def test_escape_sequence_from_a_repository_never_reaches_the_terminal(
    display: PlainDisplay | LiveDisplay, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file name, a message or an agent's name may hold anything."""
    events = events_of(Script())[:1]
    view = view_of(events)
    assert view is not None
    report = GateReport(
        run_id=RUN_ID,
        gate="diff",
        verdict="FAIL",
        code="path_out_of_scope",
        summary=ESCAPE,
        violations=(Violation(code="path_out_of_scope", rule="allowed_paths", detail=ESCAPE, path=f"a{ESCAPE}\u202e"),) * 2,
        evidence=(),
        evaluated_at="2026-01-02T00:00:00.000Z",
    )
    event = msgspec.structs.replace(events[0], event_type="gate_judged", payload=e.plain(e.GateJudged(report=report)))
    with display:
        display.show(event, view)
    printed = SCREEN.getvalue() if isinstance(display, LiveDisplay) else capsys.readouterr().out
    assert "\x1b[31m" not in printed
    assert "\u202e" not in printed
    assert "\\x1b[31mred" in printed


def test_everything_that_people_are_shown_of_a_run_is_printable() -> None:
    view = view_after(Script(refused_shard=1))
    accepted = msgspec.structs.replace(view.run.accepted, user_request=ESCAPE, repository_url=f"/srv/{ESCAPE}")
    hostile = replace(view, run=structs.replace(view.run, accepted=accepted), folder=f"/x/{ESCAPE}")
    for line in [*run_story(hostile), *closing_words(hostile)]:
        assert line.isprintable() or not line, line


def test_show_names_the_agent_and_its_workers_report() -> None:
    view = view_after(Script())
    task = view.run.workers()[0]
    assert task.contract is not None
    assert task.result is not None
    contract = msgspec.structs.replace(task.contract, executor=Executor(kind="agent", agent="codex", model="m-1"))
    asked = structs.replace(
        task, contract=contract, result=msgspec.structs.replace(task.result, summary=f"codex 0.1 {ESCAPE}" + "x" * 999)
    )
    with_agent = replace(view, run=structs.replace(view.run, tasks={**view.run.tasks, task.task_id: asked}))
    (line,) = [line for line in run_story(with_agent, verbose=True) if " with codex" in line]
    assert line.strip().startswith("with codex m-1: codex 0.1 \\x1b[31mred")
    assert line.isprintable()
    assert len(line) < 150
    assert [entry.asked for entry in run_details(with_agent).tasks if entry.task_id == task.task_id] == ["codex m-1"]
    assert not any(" with " in line for line in run_story(view, verbose=True)[:12])


@pytest.mark.parametrize(
    ("text", "plain"), [("a b", "a b"), ("é→", "é→"), ("a\tb\n", "a\\tb\\n"), ("\x9b", "\\x9b"), ("\u2066", "\\u2066")]
)
def test_printable_escapes_what_does_not_simply_print(text: str, plain: str) -> None:
    assert printable(text) == plain


def test_runs_and_show_read_the_bundles_when_no_system_runs(gatewright: Command, tmp_path: Path) -> None:
    bundle = tmp_path / ".gatewright" / "runs" / RUN_ID
    bundle.mkdir(parents=True)
    lines = [codec.encode(event) for event in events_of(Script(shards=2)) if event.event_type != "bundle_sealed"]
    (bundle / "events.jsonl").write_bytes(b"\n".join(lines) + b'\n{"torn')
    listed = gatewright("runs", "--json").documents
    assert [(run["run_id"], run["status"]) for run in listed[0]["runs"]] == [(RUN_ID, "SUCCESS")]
    details = gatewright("show", "--json").documents[0]
    assert set(details) == {"run", "result", "baseline", "budget", "tasks", "gates", "waits", "candidates", "environment"}
    assert details["waits"] == []
    assert details["result"]["bundle"] == str(bundle)
    assert [task["role"] for task in details["tasks"]] == ["pm", "techlead", "worker", "worker", "reviewer", "testrunner"]
    said = gatewright("show", RUN_ID[:8])
    assert (said.exit_code, said.err) == (0, "")
    assert "✔ landed " in said.out
    assert "✔ integrated" in gatewright("show", RUN_ID, "--verbose").out


def test_bundle_that_cannot_be_read_does_not_hide_the_others(gatewright: Command, tmp_path: Path) -> None:
    for name, content in (("run-aaaaaaaaaa", b'{"not": "an event"}\n'), (RUN_ID, None)):
        bundle = tmp_path / ".gatewright" / "runs" / name
        bundle.mkdir(parents=True)
        lines = b"".join(codec.encode(event) + b"\n" for event in events_of(Script()) if event.event_type != "bundle_sealed")
        (bundle / "events.jsonl").write_bytes(content or lines)
    said = gatewright("runs", "--json")
    assert [run["run_id"] for run in said.documents[0]["runs"]] == [RUN_ID]
    assert "run-aaaaaaaaaa" in said.err


@pytest.mark.parametrize("wanted", ["run-unknown", "../../etc", "*"])
def test_unknown_run_is_bad_input(gatewright: Command, wanted: str) -> None:
    for command in ("show", "verify"):
        said = gatewright(command, wanted, "--json")
        assert (said.exit_code, said.documents[0]["error"]["code"]) == (2, "run_unknown")


def test_details_hold_every_verdict() -> None:
    gates = [gate.gate for gate in run_details(view_after(Script())).gates]
    assert gates == ["policy", "policy", "plan", "locks", "diff", "integrated", "reviewer", "tests", "landing"]


def budgeted(**failures: str) -> BudgetedRun:
    """Two shards that have used something of what there is."""
    world = BudgetedRun(Script(shards=2), budget=Budget(wall_sec=100, tokens=2000), failures=dict(failures))
    world.used[f"{RUN_ID}.plan.w01"] = make_usage(tokens=1200, cost_usd=0.25)
    world.deliver_until("S2")
    return world


def view_of_world(world: BudgetedRun) -> RunView:
    view = view_of(event for transition in world.transitions for event in transition.events)
    assert view is not None
    return view


def test_show_reports_the_used_part_of_the_budget() -> None:
    world = budgeted()
    assert "  used       30 of 100 s; 0 of 2,000 tokens" in run_story(
        view_of_world(world), NOW + timedelta(seconds=30), verbose=True
    )
    world.deliver_all()
    view = view_of_world(world)
    assert any("of 100 s; 1,200 of 2,000 tokens; 0.25 USD, no limit" in line for line in run_story(view, verbose=True))
    entry = run_details(view).budget
    assert (entry.tokens.used, entry.tokens.limit, entry.cost_usd.used, entry.cost_usd.limit) == (1200, 2000, 0.25, None)


def test_show_leaves_out_the_budget_where_there_is_none() -> None:
    assert not any(line.startswith("  used ") for line in run_story(view_after(Script()), verbose=True))


def test_the_budget_that_ended_a_run_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    name = f"{RUN_ID}.plan.w01"
    world = budgeted(**{name: "budget_exceeded: 1,200 of 1,000 tokens used"})
    world.deliver_until("FAILED")
    events = [event for transition in world.transitions for event in transition.events]
    out = shown_events(events, capsys, verbose=True)
    assert "worker: plan.w01 used 1,200 tokens, 0.25 USD" in out
    assert "gatekeeper: budget: 1,200 of 1,000 tokens used by plan.w01, of its share" in out
    calm = shown_events(events, capsys)
    assert calm.count("budget_exceeded") == 1
    assert "--max-tokens" in calm
