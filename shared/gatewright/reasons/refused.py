"""A policy or a gate said no: change what was asked for, or have the policy changed."""

from __future__ import annotations

from typing import Final

from gatewright.reasons.reason import Reason, section
from gatewright.reasons.retries import RetryOffer

_ALLOW = "change it, or have the contract allow it"
_NARROW = "narrow what the contract asks for, or have the policy changed"
_PUBLISHERS = {
    "abort_not_allowed": "ask the publisher of the run or an operator to end it",
    "idempotency_key_reused": "use a new key for a new document",
    "kind_not_allowed": "`kinds` of the publisher in policies/publishers.json says what it may send",
    "priority_not_allowed": "`priorities` of the publisher in policies/publishers.json says which it may ask for",
    "publisher_unknown": "list the publisher in policies/publishers.json; an operator's identity is the publisher `operator`",
    "ref_not_allowed": "`landing_refs` of the publisher in policies/publishers.json says where it may land",
    "repository_not_allowed": "`repositories` of the publisher in policies/publishers.json says which it may name",
}
_CONTRACTS = {
    "action_forbidden": "leave the action out; policies/forbidden_actions.json or the contract forbids it",
    "agent_not_admitted": "have the operator run `gatewright agents probe NAME` on the worker's host, with this very agent",
    "agent_not_permitted": "name another agent: the probe of this one found that it cannot be held to such a contract",
    "agent_unknown": "name an agent that agent_registry.json lists, or for coding agents agents.json: `gatewright agents list`",
    "candidates_in_parts": "order candidates or a split: each candidate makes the whole change (--candidates, --shards)",
    "contract_differs": "the contract is not the one that was asked for: look at the role that made it",
    "danger_full_access": "ask for a sandbox that is confined",
    "denied": "the message names the rule: change what was asked for, or have the rule changed",
    "dispatch_forbidden": "policies/roles.json says who may give work to whom",
    "environment_changed": "change the environment while no run uses it, then run again",
    "environment_image_unavailable": "unpack the image where commands run: `gatewright image NAME@sha256:...`",
    "environment_not_allowed": "name one that the system was started with; a stack of yours takes those of your runs (--env)",
    "environment_tool_missing": "offer an environment that has the program, or correct the tools in policies/environments.json",
    "environment_tracked": "take the environment out of the repository, or name one that it does not track",
    "executor_missing": "say how the change is made: --exec, --patch, --reply or --head",
    "need_unknown": "name needs that a pool of policies/pools.json offers: the message lists them",
    "no_further_answer": "give the executor one answer for each round, or allow fewer rounds",
    "no_pool_for_needs": "ask for less at once, or have the operator add a pool to policies/pools.json that has it all",
    "organisation_rule": "a rule in policies/organisation says no: the violation names it",
    "output_schema_mismatch": "the role answered with another document than its task asks for: look at the role",
    "path_too_broad": "allow the directories that the change needs, not the whole repository",
    "permission_too_wide": _NARROW,
    "plan_invalid": "correct the split: the violation names what is wrong with it",
    "policy_pack_refused": "ask for a pack that policies/policy_packs.json has, within its limits",
    "repository_has_credentials": "take the credentials out of the URL",
    "repository_has_links": "take the links out of the repository's own folder (.git)",
    "repository_has_special_files": "take what is no plain file out of the repository's own folder (.git)",
    "repository_leads_elsewhere": "name the repository where it lies; its own folder points to another place",
    "repository_role_not_allowed": "repositories.json says which roles read it; of the roles only the gatekeeper pushes",
    "role_contract_drift": "the role works by another contract than policies/roles.json has: start it again",
    "scope_violation": "narrow or correct the path that the message names",
    "task_not_held": "abort the run if the gatekeeper's key was revoked meanwhile; else look at the host that answered",
    "tool_unknown": "name tools that policies/agent_registry.json lists for the agent",
}
_COMMANDS = {
    "command_not_allowed": "use a plain command that policies/command_allowlist.json lists; there is no shell",
    "too_many_commands": "split the work into several runs, or put the commands into a script of the repository",
}
_CHANGES = {
    "attributes_too_large": "shorten the .gitattributes files of the repository: they are judged up to 1 MiB",
    "blast_radius_exceeded": "delete or rewrite less in one run, or have the contract state it",
    "change_too_large": "split the work into several runs",
    "destructive_unstated": "state in the contract what is deleted, or keep it",
    "empty_diff": "no file differs from the baseline; check that the change is committed, or the command and its paths",
    "file_unowned": "let each shard change only files that the plan gives to it",
    "filter_not_applied": "let a commit with that filter add the file, or take the path out of .gitattributes",
    "git_path": "leave git's own files alone",
    "lfs_pointer_expected": "let a commit with git-lfs add the file, or take the path out of .gitattributes",
    "name_too_long": "shorten the name: no file system holds more than 255 bytes",
    "name_unreadable": "take the characters out of the name that cannot be seen, or that lead a terminal",
    "patches_collide": "give each shard paths of its own",
    "path_collision": "give the files names that differ by more than case or the form of their letters",
    "path_too_deep": "put fewer folders into each other",
    "path_too_long": "shorten the path: no checkout holds it everywhere",
    "reviewer_produced_diff": "a reviewer changes nothing: look at the reviewer",
    "sacred_content": "write the file anew: content of the sacred path that the message names may lie nowhere else",
    "secret": "take the secret out of the change, and revoke it",
    "secret_found": "take the secret out, and revoke it: it has been seen",
    "place_not_free": "the tree has something in this place already: name a file that the repository does not track",
    "special_file": "write plain files only",
    "stored_form_differs": "convert the file as the message says, or change what .gitattributes says of it",
    "symlink_escapes": "let the link lead to a place inside of the repository",
    "too_many_directories": "bring in fewer new folders at once",
    "too_many_files": "bring in fewer new files at once; generated ones are made where they are needed",
    "unsafe_path": "write inside of the workspace, through no link",
}
_KINDS = {
    "binary_refused": _ALLOW,
    "diff_too_large": "split the work into several runs, or have the contract allow a large diff",
    "executable_refused": _ALLOW,
    "file_too_large": "keep large files elsewhere, or have the contract allow them",
    "mode_change_refused": _ALLOW,
    "submodule_refused": _ALLOW,
    "symlink_refused": _ALLOW,
}
_SCOPES = {
    "path_out_of_scope": "the change touched a path that it was not allowed: correct the change, or allow the path",
}
_PROTECTED = {
    "path_protected": "keep the path as it is, or allow it where the message names what opens it",
}
_LANDING = {
    "deletion_refused": "the repository keeps the branch: its message says why",
    "landing_refused": "the repository refused the push: its message says why",
    "landing_unsigned": "exempt refs/heads/gatewright/** from the rule of signed commits, or land nothing and sign it yourself",
    "ref_in_the_way": "land on a branch of another name, or delete or rename the branch that the message names",
    "target_has_hooks": "land by ssh or https, whose server runs the hook, or take the hook out of the target repository",
    "target_not_own": "run Gatewright as the account that owns the repository, or land by ssh or https",
    "target_read_only": "land in another repository, or have its owner let git write there",
    "target_not_confined": "land on a new branch; this host cannot confine a push to the target",
    "ref_folder_is_link": "take the link out of refs/heads/gatewright",
    "ref_moved": "the branch has moved: look at it, then run the same command again",
}
_TARGETS = {
    "target_checked_out": "the branch that a change lands on may not be in use: switch away from it, or land on a new one",
}
_MODELS = {
    "endpoint_not_allowed": "the gateway has only the endpoints that the documentation lists",
    "model_calls_limit": "make fewer calls at a time; a task has a bound of all its calls, too",
    "model_content_not_allowed": "send files and images as they are, not by an address or an id of the provider",
    "model_field_not_allowed": "leave the field out, or name it in `fields` of the provider in models.json",
    "model_not_allowed": "ask for a model that a route of models.json gives to the role, by an API of its provider",
    "model_price_unknown": "give the price of the model in models.json, or set the budget in tokens",
    "transfer_not_approved": "look at policies/transfers.json, and have a rule of the reason `transfer` ask: docs/models.md",
    "model_tool_not_allowed": "leave the tool out, or name its type in `server_tools` of the provider in models.json",
}
_REVIEWS = {
    "anchor_unresolved": "point at a line that the judged patch shows, at a command of its tests, or at a document of the run",
    "vote_misplaced": "vote on a review (`gatewright review vote`), and approve or reject what is none",
    "vote_not_later": "vote anew: what is brought is not later than your last vote",
    "vote_without_mitigation": "name what is done about it, by whom, and until which day to come: ACTION|OWNER|YYYY-MM-DD",
}
_APPROVALS = {
    "agent_question_differs": "look at the worker's log: it brought another question by the id of one that was asked",
    "agent_question_out_of_turn": "nothing is to be done: the task is over, or its contract lets no agent ask",
    "agent_question_unasked": "have a rule of the reason `agent_question` in policies/approval_rules.json ask people",
    "agent_question_unreadable": "have the agent ask for shorter commands: a person is shown the whole of one",
    "too_many_agent_questions": "nothing is to be done: the agent asked more than people are asked in a task, and is refused",
    "approval_decided": "nothing is to be done: it has its answer; `gatewright approvals show {run}` says whose",
    "approval_expired": "run it again, and answer in time: a rule in policies/approval_rules.json says how long is waited",
    "routing_missing": "look at the gatekeeper's log: how much the change risks was not told before it was to land",
    "approval_handed_on": "ask the person whom `gatewright approvals show {run}` names: who hands a request on has it no more",
    "approval_lapsed": "nothing is to be done: the run waits for a person again, and says why",
    "approval_missing": "look at the gatekeeper's log: what was to land has no approval",
    "approval_of_own_run": "ask another person of the roster: the rule wants one who neither ordered nor made the change",
    "approval_other_request": "look at the request as it stands (`gatewright approvals show {run}`), and decide about that",
    "approval_other_subject": "look at the request as it stands (`gatewright approvals show {run}`), and decide about that",
    "approval_phrase_differs": "type the words that the request shows, letter by letter",
    "approval_rejected": "change what was asked for: a person has said no, and the report says why",
    "review_rejected": "wait: the change goes back to who made it, with the votes; `gatewright show {run} --as trail` tells",
    "change_refused_before": "order it anew, in other words: the maker handed over again what people had refused",
    "approval_repeated": "say one thing about each request",
    "approval_void": "decide about what the run has now: what was asked about has changed",
    "approval_withdrawn": "nothing is to be done: the run has ended",
    "approver_differs": "sign with your own key, under the name that the roster gives it",
    "approver_key_not_valid": "sign with a key that is valid now, or have the roster changed",
    "approver_key_revoked": "sign with a key that is in force",
    "approver_not_allowed": "ask one of those whom the request names",
    "approver_unknown": "have the operator enter your key into policies/approvers.json",
    "batch_high_risk": "decide what is of high risk alone",
    "batch_not_allowed": "decide it alone: its rule allows no batch",
    "delegate_not_allowed": "hand it to another person whom the request names",
    "delegate_unknown": "hand it to a person whom policies/approvers.json names, just as it does",
    "delegation_misplaced": "name the person to hand it to in a delegation, and in nothing else",
    "grant_known": "nothing is to be done: it was brought before; `gatewright approvals grants` says how it stands",
    "grant_over": "make a new one: its time is over, or it was revoked",
    "grant_too_wide": "grant less: `grants` of the rule in policies/approval_rules.json says for how long and how often",
    "grant_unknown": "name a grant that `gatewright approvals grants` lists",
    "orderer_unknown": "order it where you are known (`gatewright run`, a sign-in), or have publishers.json name `persons`",
    "passkey_origin_differs": "decide on a page that the roster names with the passkey, or have the operator name this one",
    "passkey_person_unverified": "use the passkey with what recognises you: a finger, a face or its number",
    "signing_time_wrong": "set the clock of the device that signs, and sign again",
    "signature_invalid": "sign exactly the decision, for the purpose `gatewright-approval-v1`, with the key that you name",
    "too_many_grants": "revoke grants that are not needed, or wait until some are over",
    "too_many_delegations": "decide it: it was handed on as often as it may be",
    "too_many_comments": "approve or reject it",
}
_SUMMONSES = {
    "summons_after_end": "read what was answered with `gatewright show {run}`: only an open run can be asked about",
    "summons_no_model": "name the role in GATEWRIGHT_CONSULT, and give it a route and a key in policies/models.json",
    "summons_not_allowed": "ask the publisher of the run or an operator to ask",
    "summons_off": "have the operator write policies/summons.json; it holds for runs that are accepted after that",
    "summons_role_not_allowed": "ask a role that policies/summons.json names",
    "too_many_summonses": "read what was answered already: `gatewright summon {run}`",
}
_CONSOLE = {
    "agent_code_wrong": "give the page the code that `gatewright sign-agent` printed when it was started",
    "console_read_only": "start the console without --read-only, and with the identity that the message names",
    "form_foreign": "load the page again: what was sent did not come from a form of this browser",
    "role_not_allowed": "sign in with a role that may: docs/console.md",
    "sign_in_no_role": "ask the operator of the console for a role, or have the provider name one: docs/console.md",
    "sign_in_refused": "begin the sign-in again; where that does not help, hold the file of --oidc against the provider",
    "signature_declined": "nothing is to be done: the person at the signing agent said no",
}
_OPERATIONS = {
    "dead_letter_altered": "what is kept is not what was sent, so it cannot be sent again: submit it anew",
    "dead_letter_misplaced": "the message was for another queue: submit it anew",
    "dead_letter_settled": "nothing is to be done: its run has ended or its task is answered",
}
REFUSED: Final[tuple[Reason, ...]] = (
    *section("refused", "publishing.md#publisher-policy-publishersjson", _PUBLISHERS),
    *section("refused", "policies.md", _CONTRACTS),
    *section("refused", "commands.md#how-a-command-is-read", _COMMANDS),
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
    *section("refused", "order-changes.md#when-a-run-does-not-succeed", _TARGETS, RetryOffer.LAND_BRANCH),
    *section("refused", "approvals.md#what-is-refused", _APPROVALS),
    *section("refused", "review.md#what-is-refused", _REVIEWS),
    *section("refused", "summons.md#what-is-refused", _SUMMONSES),
    *section("refused", "console.md#refusals", _CONSOLE),
    *section("refused", "delivery.md#dead-letters", _OPERATIONS),
    *section("refused", "models.md#failures", _MODELS),
)
