"""What to do about each stable reason code, in one sentence."""

from __future__ import annotations

_ADVICE: dict[str, str] = {
    "request_incomplete": "name what is missing: --allow PATH, --test CMD and one of --exec, --patch, --reply, --head",
    "paths_word_missing": "put {paths} where the command takes its files, so that each shard is told its own part",
    "bad_ref": "give --ref a branch, a tag or a full commit id",
    "repository_partial": "`git archive` of the commit brings the files that it lacks; then run the same command again",
    "path_too_long": "shorten the path: no checkout holds it everywhere",
    "name_too_long": "shorten the name: no file system holds more than 255 bytes",
    "path_too_deep": "put fewer folders into each other",
    "too_many_files": "bring in fewer new files at once; generated ones are made where they are needed",
    "too_many_directories": "bring in fewer new folders at once",
    "name_unreadable": "take the characters out of the name that cannot be seen, or that lead a terminal",
    "ref_not_found": "check the name with `git ls-remote`; a commit must have been pushed",
    "repository_unavailable": "check that the repository exists and that git can fetch it from here",
    "path_too_broad": "allow the directories that the change needs, not the whole repository",
    "path_invalid": "give paths relative to the top of the repository, without `..`, wildcards or a leading slash",
    "path_protected": "this path is protected by policy: what opens it, if anything does, stands above",
    "path_out_of_scope": "the change touched a path that it was not allowed: correct the change, or allow the path",
    "too_many_commands": "split the work into several runs, or put the commands into a script of the repository",
    "command_not_allowed": "use a plain command that policies/command_allowlist.json lists; there is no shell",
    "executor_missing": "say how the change is made: --exec, --patch, --reply or --head",
    "network_denied": "the sandbox has no network; fetch what the command needs beforehand (see --env)",
    "patch_does_not_apply": "make the patch again on the commit that the run starts from",
    "empty_diff": "the executor changed nothing; check the command and its paths",
    "reply_not_usable": "the reply must hold whole files in one of the forms that the documentation lists",
    "executor_failed": "`gatewright show {run} --log` prints all that the command said",
    "budget_exceeded": "raise the budget (--max-seconds, --max-tokens, --max-cost, --max-iterations), or order less",
    "task_timeout": "raise --timeout, or split the work with --shards",
    "review_failed": "correct what the findings name; `gatewright show {run} --as decisions` tells what was decided",
    "tests_failed": "`gatewright show {run} --log` prints all that the tests said",
    "tests_not_run": "an acceptance command could not be started; the bundle says why in reports/test_report.json",
    "completion_output_missing": "the contract orders an output that is not there; reports/completion_report.json names it",
    "completion_document_missing": "the contract asks for a document that the change does not write",
    "completion_audit_changed": "an audit changes nothing; order the change without audit_only",
    "landing_conflict": "the target moved while the run went on; run it again on the new commit",
    "target_checked_out": "the branch that a change lands on may not be in use: switch away from it, or land on a new one",
    "target_missing": "name a branch that exists, or land on a new branch",
    "target_elsewhere": "start from the target itself: --ref BRANCH",
    "publisher_unknown": "list the publisher in policies/publishers.json; an operator's identity is the publisher `operator`",
    "repository_not_allowed": "`repositories` of the publisher in policies/publishers.json says which it may name",
    "ref_not_allowed": "`landing_refs` of the publisher in policies/publishers.json says where it may land",
    "tree_not_usable": "correct the names that the change gives its files",
    "sandbox_unavailable": "`gatewright doctor` names the cause",
    "aborted": "run it again when you like; nothing was changed",
}


def advice_for(code: str, run: str = "RUN") -> str | None:
    """One sentence, or None where the reason says it all; ``run`` is the id of the run that it is about."""
    words = _ADVICE.get(code)
    return words.replace("{run}", run) if words else None
