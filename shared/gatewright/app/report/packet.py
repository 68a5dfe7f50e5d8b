"""The Completion Proposal and the Delivery Packet of a run, in Markdown, from its bundle alone (CHORUS rules 3 and 5).

Every statement comes from a recorded fact. A value that a run does not measure is shown as not measured; nothing is filled
in.
"""

from __future__ import annotations

import contextlib
import shlex
from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from gatewright.app.report.account import MAX_READ_BYTES, BundleAccount
from gatewright.app.report.changes import PatchFile, change_of
from gatewright.app.report.limits import PageLimits, clip_text
from gatewright.app.report.markdown import block, bullets, code, field, words
from gatewright.budgets import amount_words
from gatewright.contracts import EnvironmentInventory, GateReport, TestReport, codec
from gatewright.errors import MalformedError
from gatewright.evidence import layout
from gatewright.evidence.projection.history import RunHistory
from gatewright.evidence.verification.findings import Verification
from gatewright.rules.reports.tests import failure_class, final_runs, passed
from gatewright.rules.reports.untested import coverage_in_words
from gatewright.run.events import CandidateComposed
from gatewright.run.spending import budget_of, elapsed_seconds, spending_of
from gatewright.run.state import AskedApproval, Run
from gatewright.view.safe_text import seconds_words
from gatewright.work_documents.remarks import run_remarks

#: Files, findings and rules that a list names; the rest is counted.
MOST = 40
#: Bytes of the patch that the packet quotes.
EXCERPT = 6_000
NOT_MEASURED = "not measured by this run"
_DOCUMENTS = ("docs/", "doc/")
_DOCUMENT_ENDINGS = (".md", ".rst", ".adoc", ".txt")


def packet(account: BundleAccount, verification: Verification) -> str:
    """Return both documents, one after the other. Never raises because of the bundle: an unreadable one gets a note."""
    lines = [*_proof(verification), ""]
    history = account.history
    if history is None:
        return "\n".join(
            [*lines, f"This bundle does not contain a readable run: {words(account.trouble or 'it has not ended')}.", ""]
        )
    change = change_of(account, layout.PATCH, PageLimits())
    lines += [*_proposal(history, change, account), "", *_delivery(history, change, account)]
    return "\n".join([*lines, ""])


def _proof(result: Verification) -> list[str]:
    if result.ok:
        return [f"> Verified: every one of {result.files} files is as it was signed by key {code(result.signer)}."]
    codes = ", ".join(code(name) for name in dict.fromkeys(finding.code for finding in result.findings))
    outcome = result.outcome.replace("_", " ").upper()
    return [f"> **{outcome}** ({codes}). What follows is what the bundle claims: do not rely on it."]


def _proposal(history: RunHistory, change: PatchFile, account: BundleAccount) -> list[str]:
    run, contract = history.run, history.run.contract
    candidate = run.candidate.tree if run.candidate else ""
    requirements = contract.requirement_ids if contract else ()
    return [
        "### Completion Proposal",
        "",
        field("Artifact", f"tree {code(candidate)}" if candidate else "none: no candidate was composed"),
        field("Scope", words(clip_text(run.accepted.user_request, 1_000))),
        field("Snapshot", f"{words(run.finished_at)}, run {code(run.run_id)}, event {run.seq} {code(run.head[:12])}"),
        field("Outcome", f"{run.status}{_failure(history)}"),
        field("Spec & DR Links", ", ".join(code(each) for each in requirements) or "no requirement ids were given"),
        field("Diff Summary", _change_words(change)),
        field("Risk Tier", _risk_words(run)),
        *_file_lines(change),
        field("Tests", _tests_words(run.tests)),
        *_command_lines(run.tests),
        field("Perf/SLO", f"the run took {seconds_words(_seconds(run.tests))} in tests; a target is {NOT_MEASURED}"),
        field("Security", _gates_words(history.decisive, ("diff", "integrated", "reviewer"))),
        field("Compliance", _gates_words(history.decisive, ("policy", "plan"))),
        field("Docs/Runbooks", _documents(change)),
        field("Rollback Plan", _rollback(history)),
        field("Open Yellows", _remarks(history)),
        "",
        "### Provenance",
        "",
        *bullets(_provenance(history), "none"),
        "",
        "### Evidence",
        "",
        *bullets(_evidence(account), "none"),
        "",
        "### Request for Review",
        "",
        field("Needed roles", _needed_words(history)),
        field("Due by", _deadlines(history)),
    ]


def _delivery(history: RunHistory, change: PatchFile, account: BundleAccount) -> list[str]:
    run, landed = history.run, history.run.landed
    version = landed.commit if landed and landed.commit else run.candidate.tree if run.candidate else ""
    where = f"{code(landed.ref)} of {code(run.accepted.repository_url)}" if landed and landed.ref else "nothing was landed"
    excerpt = account.excerpt(layout.PATCH, EXCERPT)
    quoted = block(excerpt.head.decode("utf-8", "backslashreplace"), "diff") if excerpt.size else ["No change."]
    if excerpt.left_out:
        quoted.append(f"The first {len(excerpt.head)} of {excerpt.size} bytes; the whole is in {code(layout.PATCH)}.")
    return [
        "### Delivery Packet",
        "",
        field("Artifact", where),
        field("Version", code(version) if version else "none"),
        "",
        "**Consensus Receipt:**",
        "",
        *bullets(_votes(history), "no reviewer has voted"),
        "",
        "**Approvals:**",
        "",
        *bullets(_approvals(history), "no person was asked"),
        "",
        "**Gates:**",
        "",
        *bullets((_gate(gate, run.run_id) for gate in history.gates[-MOST:]), "no gate has judged anything"),
        "",
        "**Provenance:**",
        "",
        *bullets(_provenance(history), "none"),
        "",
        "**Final Diff:**",
        "",
        field("Summary", _change_words(change)),
        "",
        *quoted,
        "",
        "**Compliance:**",
        "",
        *bullets(_compliance(history, account), "none"),
    ]


def _failure(history: RunHistory) -> str:
    failure = history.run.failure
    return f": {code(failure.code)} {words(clip_text(failure.message, 500))}" if failure else ""


def _change_words(change: PatchFile) -> str:
    added, removed = sum(file.added for file in change.files), sum(file.removed for file in change.files)
    noun = "file" if len(change.files) == 1 else "files"
    partly = "" if change.read == change.size else " in the part of the patch that was read"
    return (
        f"{len(change.files)} {noun} changed, {added} lines added, {removed} removed{partly}" if change.files else "no change"
    )


def _file_lines(change: PatchFile) -> list[str]:
    lines = [
        f"- {code(file.name)} +{file.added} \\-{file.removed}{' (binary)' if file.binary else ''}"
        for file in change.files[:MOST]
    ]
    more = len(change.files) - MOST
    return ["", *lines, *([f"- and {more} more"] if more > 0 else []), ""] if lines else []


def _tests_words(report: TestReport | None) -> str:
    if report is None:
        return "none were run"
    good = sum(map(passed, report.commands))
    proofs = [command.proof for command in final_runs(report.commands) if command.proof is not None]
    covered = [words(clip_text(coverage_in_words(proof.coverage), 500)) for proof in proofs if proof.coverage is not None]
    coverage = "; ".join(covered) or f"coverage is {NOT_MEASURED}"
    return f"{report.status}, {good} of {len(report.commands)} commands ended with 0; {coverage}"


def _command_lines(report: TestReport | None) -> list[str]:
    lines = []
    for command in report.commands[:MOST] if report else ():
        ended = "timed out" if command.timed_out else f"exit code {command.exit_code}"
        need = "" if command.must_pass else ", need not pass"
        argv = code(clip_text(shlex.join(command.cmd_argv), 300))
        failed = "" if passed(command) else f", failed as {failure_class(command)}"
        lines.append(f"- {words(command.name)}: {argv}: {ended}, {seconds_words(command.duration_sec)}{need}{failed}")
    return ["", *lines, ""] if lines else []


def _seconds(report: TestReport | None) -> float:
    return sum(command.duration_sec for command in report.commands) if report else 0.0


def _gates_words(gates: Iterable[GateReport], names: tuple[str, ...]) -> str:
    judged = [gate for gate in gates if gate.gate in names]
    summary = "; ".join(
        f"{gate.gate} gate {gate.verdict}{'' if gate.verdict == 'PASS' else f' ({code(gate.code)})'}" for gate in judged
    )
    return summary or f"no {' or '.join(names)} gate has judged"


def _documents(change: PatchFile) -> str:
    named = [
        file.name for file in change.files if file.name.startswith(_DOCUMENTS) or file.name.lower().endswith(_DOCUMENT_ENDINGS)
    ]
    more = f" and {len(named) - MOST} more" if len(named) > MOST else ""
    return ", ".join(code(name) for name in named[:MOST]) + more if named else "no documentation file was changed"


def _rollback(history: RunHistory) -> str:
    run, landed = history.run, history.run.landed
    if landed is None or not landed.ref:
        return "nothing was landed, so there is nothing to take back"
    if landed.mode == "branch":
        return f"delete {code(landed.ref)}; {code(run.accepted.baseline_commit)} is where it began"
    before = landed.previous or run.accepted.baseline_commit
    return f"{code(f'git revert {landed.commit}')}, or move {code(landed.ref)} back to {code(before)}"


def _remarks(history: RunHistory) -> str:
    remarks = run_remarks(history.decisive, history.run)
    summary = "; ".join(f"{code(each.rule)} {words(clip_text(each.message, 200))}" for each in remarks[:MOST])
    more = f"; and {len(remarks) - MOST} more" if len(remarks) > MOST else ""
    return summary + more if summary else "none were reported"


def _provenance(history: RunHistory) -> list[str]:
    run, landed = history.run, history.run.landed
    accepted = run.accepted
    facts = [
        f"repository {code(accepted.repository_url)} from commit {code(accepted.baseline_commit)}",
        f"baseline tree {code(accepted.baseline_tree)}",
        f"order {code('sha256:' + accepted.submitted_sha256)} by {words(accepted.requested_by)}, {words(run.created_at)}",
        "policies " + ", later ".join(code("sha256:" + sha256) for sha256 in history.policies()),
        f"event chain {run.seq} {code(run.head)}, trace {code(run.trace_id)}",
    ]
    facts += [f"{_which(each, number)}: tree {code(each.tree)}" for number, each in enumerate(history.candidates, 1)]
    if landed and landed.commit:
        facts.append(f"commit {code(landed.commit)} with tree {code(landed.tree)} on {code(landed.ref)}")
    return facts


def _which(composed: CandidateComposed, number: int) -> str:
    return f"candidate {composed.candidate}" if composed.candidate else f"attempt {number}"


def _evidence(account: BundleAccount) -> list[str]:
    wanted = (layout.PATCH, layout.REVIEW_REPORT, layout.TEST_REPORT, layout.TEST_STDOUT, layout.EVENTS, layout.MANIFEST)
    return [f"{code(path)} {_format_digest(account, path)}" for path in wanted if path in account.files]


def _format_digest(account: BundleAccount, path: str) -> str:
    record = account.listed.get(path)
    return code(f"sha256:{record.sha256}") if record else f"({account.files[path]} bytes)"


def _risk_words(run: Run) -> str:
    if run.routing is None:
        return "no rule rated the change"
    signals = (f"{each.signal}: {each.detail}" for each in run.routing.signals if each.tier == run.routing.tier)
    return f"{run.routing.tier}; {words(clip_text('; '.join(signals), 500))}"


def _requests(history: RunHistory) -> list[AskedApproval]:
    """Return the requests to people that the run waited for."""
    return [each for each in history.run.approvals.values() if each.request.stage != "beside"][:MOST]


def _deadlines(history: RunHistory) -> str:
    shown = [f"{code(each.request.rule)} {words(each.request.expires_at)}" for each in _requests(history)]
    return ", ".join(shown) or "no request had a deadline"


def _needed_words(history: RunHistory) -> str:
    landed = history.run.landed
    needed = [
        f"{each.request.approvals} of {words(', '.join(each.request.approvers))} for {code(each.request.rule)}, {each.status}"
        for each in _requests(history)
    ]
    if landed and landed.mode == "branch":
        needed.append("the owner who merges the branch")
    ended = "what was to be reviewed has been" if history.run.status == "SUCCESS" else "the run did not succeed"
    return "; ".join(needed) or f"none; {ended}"


def _votes(history: RunHistory) -> list[str]:
    votes = {"PASS": "green", "FAIL": "red", "BLOCKED": "red"}
    return [
        f"{votes[report.verdict]}: {words(report.reviewer.agent_id)} ({report.reviewer.role}), {code(task_id)}: "
        f"{words(clip_text(report.summary, 300))}"
        for task_id, report in history.reviews.items()
    ] + [
        f"{cast.vote.colour}: {words(cast.person.name)} (person), {code(each.request.rule)}, {words(cast.at)}: "
        f"{words(clip_text(cast.vote.rationale, 300))}"
        for each in _requests(history)
        for cast in each.votes[:MOST]
    ]


def _approvals(history: RunHistory) -> list[str]:
    """Return each decision that the run waited for, with the rule, which may name a class of paths, and what it was about."""
    return [
        f"{code(each.request.rule)}, {each.status}{f' by {words(each.person)}' if each.person else ''}: "
        f"{words(clip_text(each.request.why, 300))}"
        for each in _requests(history)
    ]


def _gate(gate: GateReport, run_id: str) -> str:
    about = f" ({code(gate.task_id.removeprefix(f'{run_id}.'))})" if gate.task_id else ""
    why = "" if gate.verdict == "PASS" else f": {code(gate.code)} {words(clip_text(gate.summary, 300))}"
    return f"{gate.verdict} {gate.gate}{about}, {len(gate.rules)} rules named{why}"


def _licences(report: TestReport | None, account: BundleAccount) -> str:
    """Return how many packages declare which licence, most frequent first."""
    place = layout.artifact(report.inventory.sha256) if report is not None and report.inventory is not None else ""
    with contextlib.suppress(MalformedError):
        inventory = codec.decode(account.excerpt(place, MAX_READ_BYTES).head, EnvironmentInventory)
        counts = Counter(each.licence or "not measured" for tree in inventory.trees for each in tree.packages)
        named = ", ".join(f"{words(clip_text(name, 80))} ({count})" for name, count in counts.most_common(MOST))
        more = f" and {len(counts) - MOST} more licences" if len(counts) > MOST else ""
        return f"declared licences of {counts.total()} packages: {named or 'none'}{more}"
    return f"licences are {NOT_MEASURED}"


def _compliance(history: RunHistory, account: BundleAccount) -> list[str]:
    run = history.run
    sandbox = run.tests.sandbox if run.tests else None
    return [
        _gates_words(history.decisive, ("policy", "plan", "diff", "integrated")),
        f"acceptance commands ran in: {words(sandbox) if sandbox else 'none ran'}",
        _licences(run.tests, account),
        *(
            f"{code(rule.rule)} policy {rule.verdict}: {words(rule.detail)}"
            for gate in history.decisive
            for rule in gate.rules
            if rule.rule in {"licences", "vulnerabilities"}
        ),
        f"budget: {_budget(run)}",
    ]


def _budget(run: Run) -> str:
    limits, used = budget_of(run), spending_of(run)
    amounts = {
        "wall_sec": (elapsed_seconds(run, datetime.fromisoformat(run.finished_at)), limits.wall_sec),
        "tokens": (used.tokens, limits.tokens),
        "cost_usd": (used.cost_usd, limits.cost_usd),
        "iterations": (used.iterations, limits.iterations),
    }
    phrases = [
        amount_words(much, name, limit, least=name in used.least)
        for name, (much, limit) in amounts.items()
        if limit is not None
    ]
    return ", ".join(phrases) or "none was set"
