"""A policy or a gate refused: change the order, or have the policy changed."""

from __future__ import annotations

from typing import Final

from gatewright.reasons.reason import Reason, RetryOffer, section

_ALLOW = "remove this kind of change, or allow it in the contract"
_PUBLISHERS = {
    "abort_not_allowed": "ask the run's publisher or an operator to abort it",
    "idempotency_key_reused": "use a new key for a new document",
    "kind_not_allowed": "send a document type that `kinds` of the publisher in policies/publishers.json lists",
    "priority_not_allowed": "request a priority that `priorities` of the publisher in policies/publishers.json lists",
    "publisher_unknown": "add the publisher to policies/publishers.json; the operator's identity is the publisher `operator`",
    "ref_not_allowed": "name a ref that `landing_refs` of the publisher in policies/publishers.json allows",
    "repository_not_allowed": "name a repository that `repositories` of the publisher in policies/publishers.json allows",
}
_CONTRACTS = {
    "action_forbidden": "remove the action; policies/forbidden_actions.json or the contract forbids it",
    "agent_not_admitted": "have the operator run `gatewright agents probe NAME` on the worker's host with this agent version",
    "agent_not_permitted": "name another agent: the probe shows that this one cannot enforce such a contract",
    "agent_unknown": "name an agent of agent_registry.json, or a coding agent that `gatewright agents list` shows",
    "candidates_in_parts": "order candidates or shards, but not both (--candidates, --shards)",
    "contract_differs": "check the role that made the contract: it differs from the request",
    "danger_full_access": "request a confined sandbox",
    "denied": "change the request, or have the operator change the rule that the message names",
    "dispatch_forbidden": "follow policies/roles.json, which lists the permitted assignments",
    "environment_changed": "change the environment while no run uses it, then run again",
    "environment_image_unavailable": "unpack the image on the host of the commands: `gatewright image NAME@sha256:...`",
    "environment_not_allowed": "name an environment that the system was started with, or pass it with --env to your stack",
    "environment_tool_missing": "use an environment that has the program, or correct the tools in policies/environments.json",
    "environment_tracked": "remove the environment from the repository, or name an untracked one",
    "executor_missing": "choose how to make the change: --exec, --patch, --reply or --head",
    "field_unread": "remove the field that the message names: a run of this kind does not read it",
    "need_unknown": "name needs that a pool of policies/pools.json offers; the message lists them",
    "no_further_answer": "give the executor one answer per round, or allow fewer rounds",
    "no_pool_for_needs": "request less, or have the operator add a pool with all needs to policies/pools.json",
    "organisation_rule": "follow the rule of policies/organisation that the violation names",
    "output_schema_mismatch": "check the role: it answered with another document than its task requires",
    "path_too_broad": "allow the directories that the change needs instead of the whole repository",
    "permission_too_wide": "narrow the contract's permissions, or have the operator change the policy",
    "plan_invalid": "correct the split as the violation describes",
    "policy_pack_refused": "request a pack of policies/policy_packs.json, within its limits",
    "repository_has_credentials": "remove the credentials from the URL",
    "repository_has_links": "remove the links from the repository's .git folder",
    "repository_has_special_files": "remove files that are not plain files from the repository's .git folder",
    "repository_leads_elsewhere": "name the repository at its real path: its .git folder points to another place",
    "repository_role_not_allowed": "add the role in repositories.json for reading; only the gatekeeper pushes",
    "role_contract_drift": "restart the role: its contract differs from policies/roles.json",
    "scope_violation": "narrow or correct the path that the message names",
    "task_not_held": "check the host that answered; abort the run if the gatekeeper's key was revoked",
    "tool_unknown": "name tools that policies/agent_registry.json lists for the agent",
}
_COMMANDS = {
    "command_not_allowed": "use a plain command that policies/command_allowlist.json lists, without shell syntax",
    "too_many_commands": "split the work into several runs, or put the commands into a script of the repository",
}
_CHANGES = {
    "attributes_too_large": "shorten the .gitattributes files to at most 1 MiB",
    "blast_radius_exceeded": "delete or rewrite less in one run, or state the scope in the contract",
    "change_too_large": "split the work into several runs",
    "destructive_unstated": "state the deletion in the contract, or keep the files",
    "empty_diff": "check that the change is committed, or check the command and its paths: no file changed",
    "file_unowned": "keep each shard within the files that the plan assigns to it",
    "filter_not_applied": "add the file by a commit with that filter, or remove the path from .gitattributes",
    "git_path": "leave git's own files unchanged",
    "lfs_object_missing": "run `git lfs fetch` in the repository, or list the path in lfs.fetchexclude to see pointers",
    "lfs_pointer_expected": "add the file by a commit with git-lfs, or remove the path from .gitattributes",
    "linked_contents_too_large": "set `update = none` for submodules in .gitmodules, or list paths in lfs.fetchexclude",
    "name_too_long": "shorten the name to at most 255 bytes",
    "name_unreadable": "remove invisible and control characters from the name",
    "patches_collide": "give each shard separate paths",
    "path_collision": "choose names that differ by more than letter case or Unicode form",
    "path_too_deep": "use fewer nested folders",
    "path_too_long": "shorten the path",
    "reviewer_produced_diff": "check the reviewer: a reviewer must not change files",
    "sacred_content": "write new content: the change copies the sacred path that the message names",
    "secret": "remove the secret from the change, and revoke it",
    "secret_found": "remove the secret, and revoke it: other processes have read it",
    "place_not_free": "name a file that the repository does not track: the path exists in the tree",
    "special_file": "write plain files only",
    "stored_form_differs": "convert the file as the message describes, or change its attributes in .gitattributes",
    "submodule_changed": "change the file in the submodule's own repository, then move the submodule to that commit",
    "submodule_missing": "run `git submodule update --init PATH` in the repository, then run the same command again",
    "submodule_unsafe": "correct the entry in .gitmodules that the message names",
    "symlink_escapes": "point the link to a path inside the repository",
    "too_many_directories": "add fewer new folders at once",
    "too_many_files": "add fewer new files at once, and generate files where you need them",
    "unsafe_path": "write inside the workspace, without links",
}
_KINDS = {
    "binary_refused": _ALLOW,
    "diff_too_large": "split the work into several runs, or allow a large diff in the contract",
    "executable_refused": _ALLOW,
    "file_too_large": "store large files elsewhere, or allow them in the contract",
    "mode_change_refused": _ALLOW,
    "submodule_refused": _ALLOW,
    "symlink_refused": _ALLOW,
}
_SCOPES = {
    "path_out_of_scope": "restrict the change to the allowed paths, or allow this path",
}
_PROTECTED = {
    "path_protected": "restore the path, or open it as the message describes",
}
_LANDING = {
    "deletion_refused": "read the repository's message: it refused to delete the branch",
    "landing_refused": "read the repository's message: it refused the push",
    "ref_in_the_way": "land on another branch name, or delete or rename the branch that the message names",
    "target_has_hooks": "land by SSH or HTTPS, where the server runs the hook, or remove the hook from the repository",
    "target_not_own": "run Gatewright as the owner of the repository, or land by SSH or HTTPS",
    "target_read_only": "land in another repository, or have its owner grant write access",
    "target_not_confined": "land on a new branch: this host cannot confine a push to the target",
    "ref_folder_is_link": "remove the link at refs/heads/gatewright",
    "revert_differs": "order the revert with `gatewright revert RUN`, or leave out `reverts`",
    "source_moved": "order the new head of the pull request: it changed after the run was ordered",
    "source_differs": "order the change of the pull request's own commits, or leave out `source_branch.ref`",
    "ref_moved": "inspect the moved branch, then run the same command again",
}
_SIGNATURES = {
    "landing_unsigned": "set `sign` for the repository in repositories.json, with a key that its server accepts",
    "target_demands_signatures": "set `sign` for the repository in repositories.json, or use --land none and sign it yourself",
}
_TARGETS = {
    "target_checked_out": "switch your checkout to another branch, or land on a new branch",
}
_MODELS = {
    "endpoint_not_allowed": "use a documented endpoint of the gateway",
    "model_calls_limit": "make fewer calls at a time; each task also limits its total calls",
    "model_content_not_allowed": "send files and images inline, not by address or provider id",
    "model_field_not_allowed": "omit the field, or add it to `fields` of the provider in models.json",
    "model_not_allowed": "request a model that a route of models.json gives to the role, by its provider's API",
    "model_price_unknown": "set the price of the model in models.json, or set the budget in tokens",
    "transfer_not_approved": "check policies/transfers.json, and add an approval rule of reason `transfer`",
    "model_tool_not_allowed": "omit the tool, or add its type to `server_tools` of the provider in models.json",
}
_REVIEWS = {
    "anchor_unresolved": "cite a line of the judged patch, a command of its tests, or a document of the run",
    "vote_misplaced": "vote on reviews with `gatewright review vote`; approve or reject other requests",
    "vote_not_later": "vote again with a later time than your last vote",
    "vote_without_mitigation": "add action, owner and a future date: ACTION|OWNER|YYYY-MM-DD",
}
_APPROVALS = {
    "agent_question_differs": "read the worker's log: it sent another question under an existing id",
    "agent_question_out_of_turn": "no action needed: the task has ended, or its contract allows no questions",
    "agent_question_unasked": "have the operator add a rule of reason `agent_question` to policies/approval_rules.json",
    "agent_question_unreadable": "have the agent ask for shorter commands that a person can read in full",
    "too_many_agent_questions": "no action needed: the agent exceeded the limit of its task and was refused",
    "approval_decided": "no action needed: `gatewright approvals show {run}` shows the answer",
    "approval_expired": "run it again, and answer within the time that its rule in policies/approval_rules.json sets",
    "routing_missing": "read the gatekeeper's log: the change has no risk tier",
    "approval_handed_on": "ask the person whom `gatewright approvals show {run}` names: you delegated the request",
    "approval_lapsed": "no action needed: the run waits for a new approval",
    "approval_missing": "read the gatekeeper's log: the change has no approval",
    "approval_of_own_run": "ask another person of the roster who neither ordered nor made the change",
    "approval_other_request": "decide about the current request: `gatewright approvals show {run}`",
    "approval_other_subject": "decide about the current request: `gatewright approvals show {run}`",
    "approval_phrase_differs": "type exactly the words that the request shows",
    "approval_rejected": "change the order as the rejection in the report describes",
    "review_rejected": "wait for the repair; `gatewright show {run} --as trail` lists the votes",
    "change_refused_before": "order it again in other words: the maker repeated a change that people had refused",
    "approval_repeated": "send one decision per request",
    "approval_void": "decide about the current change: the earlier one was replaced",
    "approval_withdrawn": "no action needed: the run has ended",
    "approver_differs": "sign with your own key, under its name in the roster",
    "approver_key_not_valid": "sign with a key that is valid now, or have the operator change the roster",
    "approver_key_revoked": "sign with a key that is not revoked",
    "approver_not_allowed": "ask a person whom the message names",
    "approver_unknown": "have the operator add your key to policies/approvers.json",
    "batch_high_risk": "decide high risk requests one at a time",
    "batch_not_allowed": "decide it alone: its rule allows no batch",
    "delegate_not_allowed": "delegate it to another person whom the request names",
    "delegate_unknown": "delegate it to a person by the exact name in policies/approvers.json",
    "delegation_misplaced": "name the delegate in a delegation only",
    "grant_known": "no action needed: `gatewright approvals grants` shows the existing grant",
    "grant_over": "make a new grant: this one has expired or was revoked",
    "grant_too_wide": "grant less: `grants` of the rule in policies/approval_rules.json limits time and uses",
    "grant_unknown": "name a grant that `gatewright approvals grants` lists",
    "orderer_unknown": "order it with a known identity (`gatewright run`, a sign-in), or add `persons` to publishers.json",
    "passkey_origin_differs": "decide on a page that the roster lists for the passkey, or have the operator add this page",
    "passkey_person_unverified": "use the passkey with finger, face or PIN",
    "signing_time_wrong": "set the clock of the signing device, and sign again",
    "signature_invalid": "sign exactly the document that you send with the named key, for its own purpose",
    "too_many_grants": "revoke unused grants, or wait until some expire",
    "too_many_delegations": "decide it yourself: the request has reached its delegation limit",
    "too_many_comments": "approve or reject it",
}
_SUMMONSES = {
    "summons_after_end": "read the answers with `gatewright show {run}`: only an open run accepts questions",
    "summons_no_model": "name the role in GATEWRIGHT_CONSULT, and give it a route and key in policies/models.json",
    "summons_not_allowed": "have the run's publisher or an operator send the question",
    "summons_off": "have the operator add policies/summons.json; it applies to later runs",
    "summons_role_not_allowed": "name a role that policies/summons.json lists",
    "too_many_summonses": "read the existing answers: `gatewright summon {run}`",
}
_CONSOLE = {
    "agent_code_wrong": "enter the code that `gatewright sign-agent` printed at its start",
    "console_read_only": "start the console without --read-only, and with the identity that the message names",
    "form_foreign": "reload the page, and send the form from this browser",
    "role_not_allowed": "sign in with a permitted role: docs/console.md",
    "sign_in_no_role": "ask the operator or the provider for a console role: docs/console.md",
    "sign_in_refused": "start the sign-in again; if it fails again, compare the --oidc file with the provider",
    "signature_declined": "no action needed: the person at the signing agent declined",
}
_MERGES = {
    "merge_action_differs": "repeat the command: it signs exactly the action that it sends",
    "merge_action_outdated": "read `gatewright merge show`, then repeat the command: another action came first",
    "merge_action_unsigned": "repeat it with `--as NAME --key FILE` of a person whom the message names",
    "merge_landing": "wait until the merge queue has landed the run; then `gatewright revert {run}` takes it back",
    "merge_not_possible": "correct what the message names; `gatewright merge show` prints the state of the queue",
    "merge_queue_missing": "restart the gatekeeper, and read its log: it runs without merge queues",
}
_OPERATIONS = {
    "dead_letter_altered": "submit the message again: the stored copy differs from the original",
    "dead_letter_misplaced": "submit the message again: it was for another queue",
    "dead_letter_settled": "no action needed: the run has ended, or the task has its answer",
}
_FORGES = {
    "delivery_unsigned": "set the same webhook secret at the forge and where policies/forges.json names it",
    "head_moved": "judge the new head of the pull request; only that one can then be merged",
}
_RESEARCH = {
    "research_address_refused": "add the host to a service of policies/research.json, if searchers may read it",
    "research_limit": "raise `requests` in policies/research.json, or ask a narrower question",
}
REFUSED: Final[tuple[Reason, ...]] = (
    *section("refused", "publishing.md#publisher-policy-publishersjson", _PUBLISHERS),
    *section("refused", "policies.md", _CONTRACTS),
    *section("refused", "policies.md#commands", _COMMANDS),
    *section("refused", "policies.md#limits-of-a-change-protected_pathsjson-limits", _CHANGES),
    *section("refused", "policies.md#limits-of-a-change-protected_pathsjson-limits", _KINDS, RetryOffer.KIND),
    *section("refused", "policies.md#limits-of-a-change-protected_pathsjson-limits", _SCOPES, RetryOffer.PATH),
    *section(
        "refused",
        "policies.md#limits-of-a-change-protected_pathsjson-limits",
        _PROTECTED,
        RetryOffer.PROTECTED_PATH,
        RetryOffer.DEPENDENCIES,
        RetryOffer.KIND,
    ),
    *section("refused", "order-changes.md#when-a-run-does-not-succeed", _LANDING),
    *section("refused", "order-changes.md#signed-commits", _SIGNATURES),
    *section("refused", "order-changes.md#when-a-run-does-not-succeed", _TARGETS, RetryOffer.LAND_BRANCH),
    *section("refused", "approvals.md#refusals", _APPROVALS),
    *section("refused", "approvals.md#refusals", _REVIEWS),
    *section("refused", "approvals.md#refusals", _SUMMONSES),
    *section("refused", "console.md#refusals", _CONSOLE),
    *section("refused", "queue.md#watch-and-operate", _MERGES),
    *section("refused", "delivery.md#dead-letters", _OPERATIONS),
    *section("refused", "forges.md#failures", _FORGES),
    *section("refused", "models.md#failures", _MODELS),
    *section("refused", "research.md#refusals", _RESEARCH),
)
