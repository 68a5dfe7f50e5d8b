"""The work was done or looked at, and did not come out well: a test, a review, an executor, the verification of a bundle."""

from __future__ import annotations

from typing import Final

from gatewright.reasons.reason import Reason, section
from gatewright.reasons.retries import RetryOffer

_MODELS = {
    "cassette_miss": "the work asked for what was not recorded: the message names the first difference; record it anew",
    "model_reply_incomplete": "order less, or name another model: the model declined, or its reply was cut off",
    "model_reply_invalid": "the provider sent what is no reply of its API: look at its address in models.json",
    "model_reply_too_large": "ask for less at a time: no reply is that large",
}
_FORGED = "treat the bundle as forged until the difference is explained"
_INCOMPLETE = "the bundle cannot be judged in full: get all of it, and verify it again"
_ROLE = "the answer of a role contradicts itself or its task: look at the role"
_RUNS = {
    "aborted": "run it again when you like; nothing was changed",
    "budget_exceeded": "raise the budget (--max-seconds, --max-tokens, --max-cost, --max-iterations), or order less",
    "conflict_markers": "take the markers of the merge out of the file",
    "judgement_limit": "split the work: judging the change took more time or memory than a judgement may take",
    "landed_before": "the run landed another change before the ledger was restored: look at the commit that the message names",
    "landed_tree_differs": "the repository has another tree than the one that was judged: look at it before you use it",
    "landing_conflict": "the target moved while the run went on; run it again on the new commit",
    "locks_held": "another run holds the paths and did not end in time: run it again",
    "locks_lost": "another run took the paths over: run it again",
    "no_candidate_passed": "`gatewright show {run}` has a table of the candidates, with what put each of them out",
    "reply_not_usable": "the reply must hold whole files in one of the forms that the documentation lists",
    "review_failed": "correct what the findings name; `gatewright show {run} --as decisions` tells what was decided",
    "review_limit": "split the work: the change is more than a reviewer reads",
    "task_timeout": "raise --timeout, or split the work with --shards",
    "tests_not_run": "an acceptance command could not be started; the bundle says why in reports/test_report.json",
    "tests_weakened": "keep the tests that the change takes out, skips or empties, or open the file by its name",
    "test_run_evasion": "take out what asks for a test run, ends it or patches it, or open the file by its name",
    "tree_differs": "the change made again has another tree than the one that was judged: run it again",
}
_TESTS = {
    "executor_failed": "`gatewright show {run} --log` prints all that the command said",
    "hidden_tests_failed": "`gatewright show {run} --log` prints all that the hidden tests said",
    "tests_failed": (
        "`gatewright show {run} --log` prints all that the tests said; correct tests that failed before the change too first, "
        "or leave them out of --test"
    ),
}
_PATCHES = {
    "patch_does_not_apply": "correct the file or hunk that the message names, or make the patch again on the commit of the run",
    "patch_limit": "split the patch: applying it took longer than a patch may take",
    "patch_malformed": "correct the line that the message names, or make the patch again with `git diff --binary`",
    "patch_outcome_differs": "make the patch again with `git diff --binary`: git read it differently than Gatewright did",
    "patch_too_large": "split the patch",
}
_AGENTS = {
    "agent_declined": "the agent gave up because it was not allowed something: its transcript says what",
    "agent_failed": "`gatewright show {run} --log` prints what the agent said at last; the bundle has its transcript",
    "escalated": "it was refused three times in a row: read what the last round was refused for, then order less, or say more",
    "agent_protocol_refused": "let the entry of the agent in agents.json name a version of the protocol that the agent speaks",
    "agent_silent": "the agent said nothing for too long: look at its version, or run it again",
    "no_change": "the agent said that it is done and changed nothing: say what is to be changed, or order an audit",
}
_PROOFS = {
    "environment_shadows_candidate": (
        "another copy was tested: take the project out of the environment (or bytecode, and modules in the place of others,"
        " out of the change), or use --env auto"
    ),
    "report_missing": "tests were not told to their end: look for what ends the command early, or sets its exit code",
    "runner_patched": "take out what the change puts in the place of the test runner; the message names the file",
    "tests_lost": "keep the tests that the message names, and take out what skips them",
    "tests_none": "no test ran: look at what the command selects",
    "tests_not_alive": "the command succeeds although a test fails: look at what the change does to how tests are run",
    "tests_too_weak": "write tests that notice the mutants that the report names; a policy pack says how many must be noticed",
    "untested_change": "write a test that loads the file; a policy pack says whether that is asked for",
    "tests_unproven": "give a test command that is known (--test 'pytest'), or land a change of tests by itself",
}
_ANSWERS = {
    "answer_cut_off": "order less, or name another model: the provider ended the answer before the model was done",
    "directive_mismatch": "the model answered another order: ask again, or name another model for the role",
    "model_finding": "correct what the finding names; the model said it, and the rules let the change pass",
    "structured_output_invalid": "the model gave no answer of the form that was asked for: name another model for the role",
    "review_unfounded": "the model's verdict names no place of the change: name another model for the reviewer",
}
_ROLES = {
    "report_contradicts": _ROLE,
    "rerun_not_allowed": "let the contract allow that failed tests are run again, or correct the test runner",
    "result_contradicts": _ROLE,
    "reviewer_not_independent": "let another agent review than the one that made the change",
    "reviewer_wrong_tree": _ROLE,
    "times_contradict": "set the clock of the role's host by NTP, which is days off, and order the run again",
    "tests_incomplete": "every acceptance command has to be run: look at the test runner",
    "tests_wrong_image": _ROLE,
    "tests_wrong_tree": _ROLE,
}
_COMPLETION = {
    "completion_audit_changed": "an audit changes nothing; order the change without audit_only",
    "completion_document_missing": "the contract asks for a document that the change does not write",
    "completion_file_not_owned": "let each shard change only files that the plan gives to it",
    "completion_output_missing": "the contract orders an output that is not there; reports/completion_report.json names it",
    "completion_shards_open": "a shard has not ended: look at its task",
    "completion_tests_missing": "an acceptance test was not run on the tree that lands: look at the test runner",
    "completion_violation_open": "a refusal was not answered by a later round: correct what it names",
}
_CONTRADICTIONS = dict.fromkeys(
    (
        "approval_contradicts",
        "routing_contradicts",
        "summons_contradicts",
        "transfer_contradicts",
        "attempt_contradicts",
        "bad_signature",
        "baseline_contradicts",
        "baseline_differs",
        "budget_contradicts",
        "chain_broken",
        "chain_digest",
        "chain_end",
        "chain_order",
        "change_contradicts",
        "choice_contradicts",
        "completion_contradicts",
        "contract_contradicts",
        "digest_differs",
        "end_contradicts",
        "file_unlisted",
        "folder_unlisted",
        "gate_contradicts",
        "gate_evidence_missing",
        "memory_contradicts",
        "gate_ignored",
        "gate_missing",
        "label_contradicts",
        "landed_contradicts",
        "landed_differs",
        "landed_not_on_ref",
        "locks_contradict",
        "manifest_altered",
        "manifest_differs",
        "not_verified",
        "order_contradicts",
        "out_of_turn",
        "patch_leads_elsewhere",
        "patch_not_canonical",
        "plan_contradicts",
        "policies_contradict",
        "refusal_unfounded",
        "role_contradicts",
        "rounds_contradict",
        "run_contradicts",
        "signer_differs",
        "size_differs",
        "statement_differs",
        "statements_contradict",
        "status",
        "story_differs",
        "story_unknown",
        "task_contradicts",
        "tests_contradict",
        "time_reversed",
        "trailers_differ",
        "unjudgeable",
    ),
    _FORGED,
)
_INCOMPLETE_BUNDLES = dict.fromkeys(
    ("evidence_lost", "file_missing", "landed_missing", "not_sealed", "pruned", "required_missing", "story_missing"),
    _INCOMPLETE,
)
_BUNDLES = {
    "bad_manifest": "use the manifest as it was written",
    "bad_statement": "use the statement as it was written",
    "bundle_not_verified": "`gatewright verify {run}` says what is wrong with the bundle",
    "changing": "verify the bundle again once nothing writes into it",
    "layout_unknown": "upgrade: a newer version wrote the bundle",
    "ledger_damaged": "the entry was kept in another form than it was written: restore the ledger",
    "ledger_gap": "an entry of the ledger is gone: restore it before you trust the run",
    "no_trusted_key": "name the key that you trust: --key FILE, or put it into keys/trusted",
    "rebuild_differs": "the ledger does not tell what the bundle tells: trust neither until that is explained",
    "schema": "the document in the bundle keeps no schema: upgrade, or treat it as forged",
    "signed_after_retirement": "the key was retired before the bundle was signed: treat it as forged until explained",
    "too_large": "the file is larger than any that a bundle holds",
    "untrusted_key": "trust the key that signed it (keys/trusted), if you know whose it is",
}
_STORED_BUNDLES = {
    "stored_bundle_altered": "the store gave what was never written: treat it as forged; older versions of it may be whole",
}
_BACKUPS = {
    "backup_altered": "restore another backup, and find out who changed this one or how it was cut off",
    "backup_incomplete": "the backup was cut short: take another one, or restore an earlier one",
}
FAILED: Final[tuple[Reason, ...]] = (
    *section("failed", "order-changes.md#when-a-run-does-not-succeed", _RUNS),
    *section("failed", "order-changes.md#when-a-run-does-not-succeed", _TESTS, RetryOffer.PROVIDE),
    *section("failed", "order-changes.md#patch", _PATCHES),
    *section("failed", "models.md#failures", _MODELS),
    *section("failed", "agents.md#failures", _AGENTS),
    *section("failed", "testing.md#what-a-green-run-has-to-show", _PROOFS),
    *section("failed", "threat-model.md#reports-and-evidence", _ROLES),
    *section("failed", "models.md#answers", _ANSWERS),
    *section("failed", "bundle.md#definition-of-done", _COMPLETION),
    *section("failed", "bundle.md#checks-and-codes", _CONTRADICTIONS | _INCOMPLETE_BUNDLES | _BUNDLES),
    *section("failed", "evidence-storage.md#error-codes", _STORED_BUNDLES),
    *section("failed", "evidence-storage.md#error-codes", _BACKUPS),
)
