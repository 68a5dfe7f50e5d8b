"""The work or a check of it did not succeed: a test, a review, an executor, the verification of a bundle."""

from __future__ import annotations

from typing import Final

from gatewright.reasons.reason import Reason, RetryOffer, section

_MODELS = {
    "cassette_miss": "record the cassette again; the message names the first difference",
    "model_reply_incomplete": "order less, or name another model: the model declined or its reply was cut off",
    "model_reply_invalid": "check the provider's address in models.json: its reply does not match the API",
    "model_reply_too_large": "ask for less at a time: the reply exceeds the limit",
}
_FORGED = "treat the bundle as forged until you can explain the difference"
_INCOMPLETE = "get the complete bundle, and verify it again"
_ROLE = "check the role: its answer contradicts itself or its task"
_RUNS = {
    "aborted": "run it again if you still need the change; the target is unchanged",
    "budget_exceeded": "raise the budget (--max-seconds, --max-tokens, --max-cost, --max-iterations), or order less",
    "conflict_markers": "remove the merge conflict markers from the file",
    "judgement_limit": "split the work: the gates exceeded their time or memory limit",
    "landed_before": "check the commit that the message names: the run landed it before the ledger was restored",
    "landed_tree_differs": "inspect the repository before you use it: its tree differs from the judged one",
    "landing_conflict": "run it again on the new commit: the target moved during the run",
    "locks_held": "run it again: another run held the paths for too long",
    "locks_lost": "run it again: another run took over the paths",
    "no_candidate_passed": "read `gatewright show {run}`: its table names the reason for each candidate",
    "reply_not_usable": "return whole files in one of the documented forms",
    "review_failed": "correct the findings; `gatewright show {run} --as decisions` lists them",
    "review_limit": "split the work: the change exceeds the reviewer's limit",
    "task_timeout": "raise --timeout, or split the work with --shards",
    "tests_not_run": "read reports/test_report.json in the bundle: an acceptance command did not start",
    "tests_weakened": "restore the removed, skipped or empty tests, or open the file by its name",
    "behaves_differently_under_test": "make the function behave alike outside of tests, or have a person open the file by name",
    "test_run_evasion": "remove the code that ends or patches a test run, or open the file by its name",
    "tree_differs": "run it again: the repeated change has another tree than the judged one",
}
_MERGES = {
    "merge_budget_exceeded": "correct its flaky tests, or raise `tests_of_entry` in policies/queues.json, then run it again",
    "merge_dequeued": "ask who removed it: `gatewright merge show` names that person; then run it again if you need it",
    "merge_policy_changed": "add a queue for the branch to policies/queues.json, or order the run with another --land",
    "merge_requeues_exhausted": "correct why the change left the merge queue, and order the correction as a new run",
    "merge_superseded": "no action needed: a later run replaces this one",
    "merge_tests_timed_out": "correct what makes the tests hang, or raise `timeouts` in policies/queues.json",
}
_REPEATED_MERGES = {
    "merge_approval_void": "run it again on the current branch, and have people approve the new change",
    "merge_conflict": "make the change again on the current branch: `gatewright run --again {run}`",
    "merge_scope": "no change leads to this: delete the gatekeeper's mirror of the repository, then run it again",
    "merge_tests_failed": "run the tests on the branch with your change, correct it, then `gatewright run --again {run}`",
}
_TESTS = {
    "executor_failed": "read the output of the command: `gatewright show {run} --log`",
    "hidden_tests_failed": "read the output of the hidden tests: `gatewright show {run} --log`",
    "tests_failed": "read `gatewright show {run} --log`; correct tests that failed before the change, or omit them",
}
_PATCHES = {
    "patch_does_not_apply": "correct the file or hunk that the message names, or make the patch from the run's commit",
    "patch_limit": "split the patch: applying it exceeded the time limit",
    "patch_malformed": "correct the line that the message names, or make the patch with `git diff --binary`",
    "patch_outcome_differs": "make the patch with `git diff --binary`: Git and Gatewright read this one differently",
    "patch_too_large": "split the patch",
}
_AGENTS = {
    "agent_declined": "read the agent's transcript in the bundle: a missing permission stopped the agent",
    "agent_failed": "read the agent's last output: `gatewright show {run} --log`",
    "escalated": "read the last refusal, then order less or describe more: three rounds in a row were refused",
    "agent_protocol_refused": "set a protocol version that the agent supports in its entry in agents.json",
    "agent_silent": "check the version of the agent, or run it again: it sent nothing for too long",
    "no_change": "describe the change in more detail, or order an audit: the agent finished without a change",
}
_PROOFS = {
    "audit_findings_new": "correct the findings that the message names, or raise `max_new` of the acceptance test's audit",
    "audit_missing": "have the command write the file that its acceptance test's audit declares, in a known format",
    "audit_score_too_low": "raise the score, or lower `min_score` of the acceptance test's audit",
    "coverage_missing": "have the command write the coverage report that its acceptance test declares, for the changed sources",
    "coverage_too_low": "write tests that run the lines that the message names, or lower `changed_lines_percent`",
    "licence_refused": "remove the package, or have the operator except it in licences.json",
    "vulnerability_found": "update the package, or have the operator accept the advisory in vulnerabilities.json",
    "vulnerabilities_unknown": "use an environment that the test runner can list, or correct vulnerabilities.json",
    "licences_unknown": "use an environment that the test runner can list, or have the operator change licences.json",
    "environment_shadows_candidate": "remove the other copy of the project from environment or change, or use --env auto",
    "report_missing": "find what ends the test command early or sets its exit code: some tests have no final outcome",
    "runner_patched": "remove the code that replaces the test runner; the message names the file",
    "tests_lost": "restore the tests that the message names, and remove what skips them",
    "tests_none": "check what the command selects: no test ran",
    "tests_not_alive": "check how the change affects the test run: the command succeeds although a test fails",
    "tests_too_weak": "write tests that detect the reported mutants; `must_kill` of the policy pack sets the share",
    "untested_change": "have a command run tests that use the file or its package; `untested_change` of the pack requires it",
    "passes_without_change": "make the test fail without the change, or order characterisation: --tests characterisation",
    "tests_unproven": "use a known test command (--test 'pytest'), or land a change of tests by itself",
}
_ANSWERS = {
    "answer_cut_off": "order less, or name another model: the provider cut off the answer",
    "directive_mismatch": "run again, or name another model for the role: the model answered another order",
    "model_finding": "correct the model's finding if it is right; it does not block the change",
    "structured_output_invalid": "name another model for the role: its answer does not have the required form",
    "review_unfounded": "name another model for the reviewer: its verdict cites no line of the change",
}
_ROLES = {
    "report_contradicts": _ROLE,
    "rerun_not_allowed": "allow reruns of failed tests in the contract, or correct the test runner",
    "result_contradicts": _ROLE,
    "reviewer_not_independent": "name a reviewer that did not make the change",
    "reviewer_wrong_tree": _ROLE,
    "times_contradict": "synchronise the clock of the role's host by NTP, then run it again",
    "tests_incomplete": "check the test runner: it did not run every acceptance command",
    "tests_wrong_image": _ROLE,
    "tests_wrong_tree": _ROLE,
}
_COMPLETION = {
    "completion_audit_changed": "order the change without audit_only: an audit changes nothing",
    "completion_document_missing": "write the document that the contract requires",
    "completion_file_not_owned": "keep each shard within the files that the plan assigns to it",
    "completion_output_missing": "produce the missing output that reports/completion_report.json names",
    "completion_shards_open": "check the task of the shard that did not finish",
    "completion_tests_missing": "check the test runner: an acceptance test did not run on the tree that lands",
    "completion_violation_open": "correct the refusal that the message names: no later round resolved it",
}
_CONTRADICTIONS = dict.fromkeys(
    (
        *("approval_contradicts", "routing_contradicts", "summons_contradicts", "transfer_contradicts"),
        *("attempt_contradicts", "bad_signature", "baseline_contradicts", "baseline_differs", "budget_contradicts"),
        *("receipt_contradicts", "chain_broken", "chain_digest", "chain_end", "chain_order", "change_contradicts"),
        *("choice_contradicts", "completion_contradicts", "contract_contradicts", "digest_differs", "end_contradicts"),
        *("file_unlisted", "folder_unlisted", "gate_contradicts", "gate_evidence_missing", "memory_contradicts"),
        *("gate_ignored", "gate_missing", "label_contradicts", "landed_contradicts", "landed_differs", "landed_not_on_ref"),
        *("locks_contradict", "manifest_altered", "manifest_differs", "not_verified", "order_contradicts", "out_of_turn"),
        *("patch_leads_elsewhere", "patch_not_canonical", "plan_contradicts", "policies_contradict", "refusal_unfounded"),
        *("role_contradicts", "rounds_contradict", "run_contradicts", "signer_differs", "size_differs"),
        *("statement_differs", "statements_contradict", "status", "story_differs", "story_unknown", "task_contradicts"),
        *("tests_contradict", "time_reversed", "trailers_differ", "unjudgeable", "inventory_contradicts"),
    ),
    _FORGED,
)
_INCOMPLETE_BUNDLES = dict.fromkeys(
    (
        *("evidence_lost", "file_missing", "landed_missing", "not_sealed", "pruned", "receipt_missing", "required_missing"),
        "story_missing",
    ),
    _INCOMPLETE,
)
_BUNDLES = {
    "bad_manifest": "use the manifest exactly as Gatewright wrote it",
    "bad_statement": "use the statement exactly as Gatewright wrote it",
    "bundle_not_verified": "run `gatewright verify {run}` to list the faults of the bundle",
    "changing": "verify the bundle again when no process writes to it",
    "layout_unknown": "upgrade: a newer version wrote the bundle",
    "ledger_damaged": "restore the ledger: an entry differs from the form that was written",
    "ledger_gap": "restore the ledger before you trust the run: an entry is missing",
    "no_trusted_key": "name the key that you trust with --key FILE, or add it to keys/trusted",
    "rebuild_differs": "trust neither ledger nor bundle until you can explain the difference",
    "schema": "upgrade, or treat the bundle as forged: a document does not match its schema",
    "signed_after_retirement": "treat the bundle as forged until explained: its key was retired before the signature",
    "too_large": "treat the bundle as forged: the file exceeds every limit of a bundle",
    "untrusted_key": "add the signing key to keys/trusted, if you know its owner",
}
_NOTES = {
    "commit_unattested": "attach the evidence of its run, or fetch the notes again; no run of Gatewright may have made it",
    "note_malformed": "attach the bundle again: `gatewright attach RUN`",
    "note_of_other_commit": "treat the note as forged, or attach the bundle of this commit's own run",
    "note_of_other_repository": "check --landed-in: the run recorded another address",
    "run_not_passed": "do not use the commit: its run did not succeed",
}
_FORGES = {"merged_elsewhere": "inspect the target branch: no run judged its commit; revert it, or judge it as a new run"}
_STORED_BUNDLES = {"stored_bundle_altered": "treat the stored bundle as forged; look for an intact older version in the store"}
_BACKUPS = {
    "backup_altered": "restore another backup, and find out what changed this one",
    "backup_incomplete": "take a new backup, or restore an earlier one: this one is incomplete",
}
_RESEARCH = {
    "citation_missing": "give each claim a quote from a source",
    "citation_not_found": "quote a stored source word by word: the message names the quote or source that does not hold",
    "citations_not_independent": "quote sources of more hosts; `independent_hosts` in policies/research.json sets the number",
    "research_not_answered": "ask a narrower question, give more documents, or name another model",
}
_EGRESS = {"egress_log_altered": "do not trust the environment: install it again, and keep its log"}
FAILED: Final[tuple[Reason, ...]] = (
    *section("failed", "order-changes.md#when-a-run-does-not-succeed", _RUNS),
    *section("failed", "order-changes.md#when-a-run-does-not-succeed", _TESTS, RetryOffer.PROVIDE),
    *section("failed", "queue.md#how-changes-land", _MERGES),
    *section("failed", "queue.md#how-changes-land", _REPEATED_MERGES, RetryOffer.AGAIN),
    *section("failed", "order-changes.md#patch", _PATCHES),
    *section("failed", "models.md#failures", _MODELS),
    *section("failed", "agents.md#failures", _AGENTS),
    *section("failed", "testing.md#what-a-green-run-has-to-show", _PROOFS),
    *section("failed", "threat-model.md#reports-and-evidence", _ROLES),
    *section("failed", "models.md#answers", _ANSWERS),
    *section("failed", "research.md#refusals", _RESEARCH),
    *section("failed", "egress.md#refusals", _EGRESS),
    *section("failed", "bundle.md#definition-of-done", _COMPLETION),
    *section("failed", "bundle.md#checks-and-codes", _CONTRADICTIONS | _INCOMPLETE_BUNDLES | _BUNDLES),
    *section("failed", "verify.md#verify-commits", _NOTES),
    *section("failed", "forges.md#merges", _FORGES),
    *section("failed", "evidence-storage.md#error-codes", _STORED_BUNDLES),
    *section("failed", "evidence-storage.md#error-codes", _BACKUPS),
)
