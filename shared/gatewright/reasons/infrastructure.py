"""A required resource is unavailable; the submitted document is not at fault."""

from __future__ import annotations

from typing import Final

from gatewright.reasons.reason import Reason, section

_LOGS = "read the log of the service; report the error if it persists"
_ROOM = "free space on that volume; accepted work continues by itself"
_PASSING = {
    "bundle_unwritable": "free space in the home folder, or grant write access to it; Gatewright retries",
    "bus_no_answer": "the system is starting or busy; retry",
    "bus_no_responders": "start the system (`gatewright up`), or wait until the gatekeeper is back",
    "bus_storage_full": "give the bus more storage; accepted work continues by itself",
    "bus_unavailable": "check the NATS server and GATEWRIGHT_NATS_URL",
    "daily_runs_exhausted": "submit again when the oldest run is a day old; `max_runs_per_day` is the limit",
    "disk_full": _ROOM,
    "ledger_conflict": "no action needed: the gatekeeper decides again",
    "limit_reached": "send it again later",
    "organisation_budget_exceeded": "send it again when the named period has ended; `budgets.json` is the limit",
    "other_version": "finish the upgrade: a process of that version reads the message",
    "queue_full": "send it again when the gatekeeper has processed part of this publisher's queue",
    "quota_exceeded": "submit again after `retry_after_seconds`; `max_runs_per_hour` or `repository_quotas` is the limit",
    "rate_exceeded": "send more slowly; `submissions` and `questions` of the publisher are the limits",
    "service_busy": "retry in a moment",
    "service_stopping": "retry in a moment: the service is restarting",
    "too_many_open_runs": "submit again when a run has ended; `max_open_runs` is the limit",
    "unavailable": "Gatewright retries; look at the cause if it persists",
    "uploads_full": "send small files inside the document; uploads expire after seven days",
}
_BUS = {
    "bus_storage_too_small": "give the NATS server the storage that the message names",
    "account_refused": "read the server's message; its operator must have signed the account",
    "identities_unconfirmed": "have each NATS server read its configuration anew (SIGHUP), then `gatewright identities check`",
    "server_file_strange": "render the server's configuration anew with `gatewright topology --format nats-conf`",
    "credential_refused": "use a seed that the server knows; servers reject revoked ones",
    "consumer_missing": "restore the bus set-up with `gatewright topology --apply`",
    "identity_limits_unreadable": "correct `limits.json` beside the identities, or remove it to use the defaults",
    "identity_missing": "make the identity with `gatewright keys bus`",
    "ledger_being_read": "retry when the ledger is read",
    "ledger_partitions_differ": "set GATEWRIGHT_LEDGER_PARTITIONS to the number that the ledger started with, in all processes",
    "notice_failed": "correct the command or the webhook, then run `gatewright approvals watch --once` again",
    "no_stack": "start the system: `gatewright up`, or name a bus (GATEWRIGHT_NATS_URL)",
    "stack_gone": "`gatewright up` continues open runs, then `gatewright watch` follows it",
    "stream_replicas_too_many": "lower GATEWRIGHT_STREAM_REPLICAS, or add servers to the cluster",
    "topology_outdated": "update the bus with `gatewright topology --apply`",
}
_BACKUPS = {
    "backup_foreign": "restore the keys of the backup first, and start the NATS server with them",
    "restore_unfinished": "run `gatewright restore` again: it starts from the beginning",
    "snapshot_interrupted": "look at the NATS server's log and disk, then take the backup again",
}
_CONSOLE = {
    "sign_in_unavailable": "check that the console reaches the provider in the file of --oidc",
}
_CLUSTER = {
    "account_nearly_full": "give the account more storage, or let stored data expire",
    "clock_skew": "synchronise the clock of that host by NTP: time limits depend on it",
    "credential_expires": "`gatewright identities jwt --push` renews the accounts",
    "dead_letters_open": "`gatewright dead list` names them; requeue or drop each",
    "disk_low": "free space on that host, or limit its mirrors (GATEWRIGHT_MIRROR_BYTES)",
    "gatekeeper_single": "start a second gatekeeper if runs must survive the loss of a host",
    "identity_shared": "give each process a seed of its own: `gatewright keys bus --process ROLE-NAME`",
    "operator_needed": "set GATEWRIGHT_NATS_SEED to the seed of the operator, or of an observer",
    "queue_old": "start more processes of the role, or check why they are busy",
    "queue_paused": "resume it with `gatewright queue resume`",
    "queue_unattended": "start a process of that role which serves the pool (GATEWRIGHT_POOL)",
    "replica_behind": "check that this NATS server runs and has storage; it catches up by itself",
    "role_not_ready": "`/readyz` and the log of the process name the cause",
    "role_silent": "start a process of the role, and read its log if it ends",
    "server_payload_small": "set max_payload of the NATS server to 8 MiB: `gatewright topology --format nats-conf`",
    "server_too_old": "upgrade the NATS server",
    "stream_leaderless": "check which NATS servers run: the stream needs a majority",
    "stream_nearly_full": "raise the stream's limit or the server's storage, and check which consumer is slow",
    "stream_single_copy": "`gatewright topology --apply --replicas 3` puts it on more servers",
    "versions_differ": "finish the upgrade, or take it back: the older version may not read newer documents",
}
_HOST = {
    "disk_failed": "read the kernel's log: the device or its file system is damaged",
    "disk_read_only": "mount the volume for writing, or name another folder (GATEWRIGHT_HOME)",
    "host_failed": "correct what the message names; the work then continues",
    "memory_exhausted": "give the host more memory, or fewer tasks at a time",
    "permission_denied": "grant the account of Gatewright access, or name another folder",
    "too_many_open_files": "raise the limit on open files (ulimit -n)",
    "too_many_processes": "raise the limit on processes (ulimit -u, pids_limit)",
    "package_missing": "install the package that the message names",
}
_GIT = {
    "git_cancelled": "no action needed: the run has ended",
    "git_failed": "read git's message: check that the repository exists and is readable",
    "git_killed": "git was killed: give the host more memory, or look at its limits",
    "git_missing": "install git on the host that the message is from",
    "git_output_too_large": "git's output exceeds the limit: split the work",
    "git_timeout": "git took too long: check the connection to the repository, then run again",
    "mirror_busy": "another run uses the copy of the repository: run again",
    "no_common_history": "name branches of one history with --head and --ref, or merge one into the other first",
    "object_missing": "`git fsck` of the repository names the missing object; fetch it again",
}
_NOTES = {
    "history_shallow": "fetch the whole history: `git fetch --unshallow`",
    "notes_missing": "run `git fetch origin refs/notes/gatewright:refs/notes/gatewright`",
    "notes_unreadable": "fetch refs/notes/gatewright again",
}
_REPOSITORIES = {
    "mirrors_full": "raise GATEWRIGHT_MIRROR_BYTES on the host that the message is from, or wait until runs have ended",
    "repository_access_denied": "renew the credential that repositories.json refers to, or grant the missing right",
    "repository_credentials_missing": "have policies/repositories.json refer to a credential, and store it there",
    "repository_host_busy": "wait: the gatekeeper tries again; if it persists, check that the git server answers",
    "repository_not_trusted": "verify the server's key or certificate, then name it in known_hosts or ca_file",
    "repository_proxy_refused": "correct `proxy` in policies/repositories.json, or its password",
    "repository_redirected": "use the address that the server redirects to",
    "repository_too_large": "raise GATEWRIGHT_MIRROR_BYTES on the host that the message is from",
}
_SIGNING = {
    "commit_signing_unavailable": "make key, agent and program of the message usable for the gatekeeper's account",
}
_FORGES = {
    "forge_denied": "grant the token in policies/forges.json the right that the message names, or renew it",
    "forge_policy_missing": "write policies/forges.json: docs/forges.md has an example",
    "forge_refused": "read the forge's message, and correct the entry in policies/forges.json",
    "forge_token_missing": "store the token where policies/forges.json names it",
}
_FORGES_PASSING = {
    "forge_unavailable": "check that the forge answers at the `api` address in policies/forges.json; Gatewright retries",
}
_STORES = {
    "store_client_missing": "install the extra: pip install '/path/to/gatewright[stores]'",
    "store_credentials_missing": "have policies/stores.json refer to a credential, and store it there",
    "store_denied": "grant the credential its rights: read and write for the gatekeeper, read for readers",
    "store_lock_refused": "make the bucket with object lock, or take `lock` out of policies/stores.json",
    "store_locked": "wait until the store's own lock or hold has ended",
    "store_missing": "make the bucket that the address names, or correct the address",
    "store_not_write_once": "use a store that supports conditional writes (If-None-Match: *)",
    "store_redirects": "correct the address, `endpoint`, `region` or `addressing` in policies/stores.json or sinks.json",
    "store_refused": "look up the code of the message in the documentation of the store",
    "store_unreachable": "check the address, `endpoint` and `ca_file` in policies/stores.json; it is tried again",
    "stored_bundle_differs": "check who else writes to the store: its content is not the gatekeeper's",
    "stored_bundle_missing": "check address and run id; `gatewright replay --from-ledger` makes a lost bundle again",
}
_SANDBOX = {
    "environment_order_differs": "order the change again: the gatekeeper or the repository changed since people agreed",
    "puller_missing": "start the puller, or prepare the environment where the roles run and pass it with --env DIR",
    "environment_not_prepared": "correct the error of the tool, or pass an environment of your own with --env DIR",
    "environment_leads_elsewhere": "take the link out of the environment, or name the folder that it leads to as well",
    "sandbox_unavailable": "`gatewright doctor` names the cause",
    "workspace_unavailable": "`gatewright doctor` names the cause",
}
_SERVICES = {
    "answer_crashes_gatekeeper": "report it with the log of the gatekeeper; `gatewright dead list` names the answer",
    "artifact_ambiguous": "the store holds two artifacts of that name: run again",
    "artifact_damaged": "the store of the bus is damaged: check its disk, then run again",
    "artifact_missing": "the store no longer has it: run again, and check how long artifacts are kept",
    "artifact_unavailable": "start the system that ran it; a sealed bundle has its own copy",
    "attempts_exhausted": "read the logs of the role: every process with this task ended",
    "configuration_invalid": "correct the setting or the policy file that the message names",
    "gate_not_evaluated": "read the log of the gatekeeper for the cause, then run it again",
    "handler_stuck": _LOGS,
    "internal_error": _LOGS,
    "judgement_failed": _LOGS,
    "not_ready": "read the logs in the home folder for the cause",
    "not_stopped": "check the process, then run the same command again",
    "role_keeps_dying": "read its log in the home folder for the cause",
    "secret_scan_failed": "check that the scanner runs: `gatewright doctor`",
    "summons_unanswered": "see with `gatewright queue list` whether the role runs; the answer is recorded when it comes",
    "task_failed": _LOGS,
}
_PROMPTS = {
    "prompts_invalid": "correct the prompt file that the message names, or remove the folder setting",
}
_AGENTS = {
    "probe_unfinished": "run `gatewright agents probe NAME` again when the host is less busy; an earlier result stays valid",
    "tool_server_unavailable": "install the server in a folder of GATEWRIGHT_AGENT_INSTALLATIONS, or correct it in agents.json",
    "agent_not_installed": "install the agent, and name the folder in GATEWRIGHT_AGENT_INSTALLATIONS: `gatewright agents list`",
}
_MODELS = {
    "model_api_unknown": "name a model for the role whose provider has an API that the message lists",
    "protocol_version_unknown": "set an existing protocol version in the agent's entry in agents.json",
    "model_key_missing": "set the variable, file or keyring entry that models.json names as the provider's key",
    "model_key_refused": "store a valid key where models.json refers to the key of the provider",
    "model_unavailable": "read the provider's answer; then wait, name another model, or allow fallback models (--fallback)",
}
_HOME = {
    "bundle_busy": "wait for the other command that uses the bundle",
    "bundle_changed": "run the same command again: the bundle changed during it",
    "bundle_not_sealed": "read the cause at bundle_not_sealed in the gatekeeper's log; the gatekeeper retries",
    "evidence_unwritable": "free space in the home folder, or grant write access to it",
    "holds_unreadable": "correct the list of holds (runs/.holds.jsonl, or holds/ in a store), until which nothing expires",
    "address_unavailable": "choose another address with --http, or end the program that uses it",
    "home_in_use": "wait for the other command, or keep a system running with `gatewright up`",
    "home_not_own": "name your own home folder (GATEWRIGHT_HOME)",
    "home_tracked": "remove the home folder from the repository, and make new keys",
    "key_differs": "name the key that signed the bundle",
    "key_exists": "keep the existing key, or move it away first",
    "key_mismatch": "store the private and public key of the same pair together",
    "key_not_nkey": "use an NKey seed, as `gatewright keys bus` makes them",
    "key_permissions": "chmod 600 the key: no other account may read it",
    "key_tracked": "remove the key from the repository, and make a new one",
    "key_unwritable": "grant write access to the folder of the keys",
    "run_not_there": "read the gatekeeper's log: the submitted run has not started",
}
_POLICIES = {
    "policy_missing": "restore the policies; `gatewright policy show` lists those in force with their folder",
    "policy_unknown": "rename or move the file; `gatewright policy show` lists the policies in force with their folder",
}
_APPROVALS = {"approvers_unusable": "correct policies/approvers.json: the message names the place"}
_RESEARCH = {"research_source_unavailable": "run it again later: the search service or site gave no usable answer"}
_EGRESS = {
    "egress_credential_missing": "set the variable that the source of policies/egress.json names",
    "egress_gateway_ended": "look at the disk: the gateway ends when it cannot write its log",
    "egress_interrupted": "install again: the package manager or the pull ended before the answer did",
    "egress_policy_missing": "have the operator give the puller an egress.json with the permitted registries",
    "egress_registry_outside": "use a registry that the operator allows, or have it added to egress.json",
    "egress_source_unavailable": "install again later: the registry gave no usable answer",
}
_PUBLICATIONS = {
    "deployment_credentials_missing": "store the credential that the deployment of policies/deployments.json refers to",
    "deployment_running": "wait for the end of the other deployment, then deploy again",
    "publication_key_shared": "set `key` in policies/sinks.json or deployments.json to a key that signs nothing else",
    "publication_not_stored": "do not trust the sink: it reported success; look at its log, then publish again",
    "sink_credentials_missing": "store the credential that the sink of policies/sinks.json refers to",
}
INFRASTRUCTURE: Final[tuple[Reason, ...]] = (
    *section("infrastructure", "publishing.md#error-codes", _PASSING, passing=True),
    *section("infrastructure", "bus.md#error-codes", _BUS),
    *section("infrastructure", "observability.md#check-an-installation", _CLUSTER),
    *section("infrastructure", "console.md#refusals", _CONSOLE),
    *section("infrastructure", "evidence-storage.md#error-codes", _BACKUPS),
    *section("infrastructure", "deploy.md#disk-space", _HOST),
    *section("infrastructure", "cli.md#exit-codes", _GIT),
    *section("infrastructure", "verify.md#verify-commits", _NOTES),
    *section("infrastructure", "deploy.md#private-repositories", _REPOSITORIES),
    *section("infrastructure", "order-changes.md#signed-commits", _SIGNING),
    *section("infrastructure", "forges.md#failures", _FORGES),
    *section("infrastructure", "forges.md#failures", _FORGES_PASSING, passing=True),
    *section("infrastructure", "evidence-storage.md#error-codes", _STORES),
    *section("infrastructure", "publication.md#refusals", _PUBLICATIONS),
    *section("infrastructure", "sandbox.md#what-it-needs", _SANDBOX),
    *section("infrastructure", "observability.md#logs", _SERVICES),
    *section("infrastructure", "models.md#prompts-folder", _PROMPTS),
    *section("infrastructure", "cli.md#home-folder", _HOME),
    *section("infrastructure", "models.md#failures", _MODELS),
    *section("infrastructure", "agents.md#failures", _AGENTS),
    *section("infrastructure", "research.md#refusals", _RESEARCH),
    *section("infrastructure", "egress.md#refusals", _EGRESS),
    *section("infrastructure", "policies.md#a-folder-with-some-policies", _POLICIES),
    *section("infrastructure", "approvals.md#roster", _APPROVALS),
)
