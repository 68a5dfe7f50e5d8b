"""How the gates' answer is told to people: a table of rules, then the verdict with what would open each violation."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gatewright.app.cli.checking.asking import DryRunAnswer
from gatewright.contracts import RoleContractSummary
from gatewright.reasons import advice_for
from gatewright.view.safe_text import printable
from gatewright.work_documents.remarks import first_lines, gate_remarks

#: More violations than this are counted, not listed.
MOST_VIOLATIONS = 50


def rule_table(answer: DryRunAnswer) -> None:
    """Print every rule with its verdict and what decided."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("gate")
    table.add_column("", no_wrap=True)
    table.add_column("rule", no_wrap=True)
    table.add_column("why", overflow="fold")
    before = ""
    for gate, rule in answer.rules:
        mark = Text("✔", "green") if rule.verdict == "PASS" else Text("✘", "red")
        table.add_row(gate if gate != before else "", mark, Text(printable(rule.rule)), Text(printable(rule.detail)))
        before = gate
    Console(highlight=False).print(table)


def role_line(role: RoleContractSummary) -> str:
    """Who the contract is for and what they are given, on one line; the contract alone counts."""
    given, runtime = role.tool_permissions, role.runtime_binding
    bound = " ".join(each for each in (runtime.runner, runtime.provider, runtime.model) if each)
    words = f"role {role.identity.role} ({role.identity.agent_id}): filesystem {given.filesystem}, shell {given.shell}"
    return f"{words}, network {given.network}, tools {', '.join(role.resolved_mcp_tool_set)}{f', by {bound}' if bound else ''}"


def verdict_lines(answer: DryRunAnswer) -> list[str]:
    """The verdict first, then each violation on a line."""
    violations = [violation for report in answer.reports for violation in report.violations]
    refusal = f"✘ it would be refused: {violations[0].code if violations else 'gate_not_evaluated'}"
    lines = [f"{'✔ it would pass' if answer.passed else refusal} ({_verdict_word(answer)})"]
    for violation in violations[:MOST_VIOLATIONS]:
        where = f"{violation.path}: " if violation.path else ""
        lines.append(f"  {where}{violation.code} ({violation.rule}) {violation.detail}")
    more = len(violations) - MOST_VIOLATIONS
    lines += [f"  ... and {more} more"] if more > 0 else []
    hints = dict.fromkeys(hint for violation in violations if (hint := advice_for(violation.code)))
    lines += [f"  advice: {hint}" for hint in hints]
    shown = first_lines((each for report in answer.reports for each in gate_remarks(report)), MOST_VIOLATIONS)
    lines += [f"  ! remark  {line}" for line in shown.lines]
    lines += [f"  ! remark  ... and {shown.more} more"] if shown.more else []
    lines += [f"  not judged: {words}" for words in answer.unjudged]
    return lines


def _verdict_word(answer: DryRunAnswer) -> str:
    if answer.judged_files is None:
        return "no change was judged"
    return f"{answer.judged_files} changed file{'' if answer.judged_files == 1 else 's'} judged"
