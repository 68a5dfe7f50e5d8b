"""What was sent is not valid, or names something that does not exist: correct it and send it again."""

from __future__ import annotations

from typing import Final

from gatewright.reasons.reason import Reason, section
from gatewright.reasons.retries import RetryOffer

_COMMANDS = {
    "ambiguous": "say it in one way only",
    "already_held": "nothing is to be done: the bundle is kept",
    "bad_artifact_uri": "write artifact:sha256: and 64 hexadecimal digits",
    "bad_ref": "give --ref a branch, a tag or a full commit id",
    "bad_url": "name the repository by an absolute path or a URL that git can fetch",
    "baseline_missing": "fetch the commit that the run started from, or name a repository that has it",
    "branch_has_nothing": "commit to the branch first, or name another one",
    "too_many_authors": "land the branch in parts, each with the commits of fewer people",
    "bundle_exists": "name a folder that does not exist yet",
    "hook_exists": "keep the hook that is there, or replace it with --force",
    "hidden_acceptance_invalid": "name hidden tests apart, with a visible one beside them, and each hidden file once",
    "idempotency_key_invalid": "use 1 to 200 printable characters without blanks",
    "identity_limit_invalid": "name a limit within the bounds of the message, of an identity with an account of its own",
    "identity_replaced": "end the replacing with --finish, or begin one without it",
    "identity_unknown": "name one that `gatewright identities list` shows",
    "identity_invalid": "name an identity of the bus; `gatewright keys bus` makes them",
    "key_not_ed25519": "use an Ed25519 key",
    "key_unknown": "`gatewright keys` lists the keys that are known here",
    "key_unreadable": "check that the key exists and that you may read it, or name another one",
    "memory_given": "take the artifact canonical_memory out of the document: the gatekeeper gives a run its memory itself",
    "memory_unknown": "seal a run of this publisher there first; without memory.json in the policies nothing is kept",
    "missing": "name what is missing; `gatewright run --help` has an example",
    "no_active_contract": "put a contract where the hook looks for it, or install the hook with --contract FILE",
    "no_contract": "show the brief of a run whose contract is made",
    "no_verify_command": "show the brief of a run that has acceptance commands",
    "no_such_document": "show a run that has ended, and whose bundle holds the document",
    "no_terminal": "run it at a terminal and without --json; else without --interactive, or `gatewright top --once`",
    "no_bus_identity_here": "what deletes branches elsewhere is given no identity of the bus: unset GATEWRIGHT_NATS_SEED",
    "not_a_bundle": "name the folder of a run's bundle, or a run id",
    "not_a_repository": "name a git repository, or change into one",
    "not_blocked": "the run waits for nothing: follow it with `gatewright watch {run}`",
    "not_found": "check the path; it is looked for from where you stand",
    "not_held": "nothing is to be done: no hold keeps the bundle",
    "not_local": "use a repository on this host, or give --allow and --test yourself",
    "not_reexecutable": "name the bundle of a run that was not aborted, and whose calls to models are recorded in it",
    "nothing_expires": "say in policies/retention.json after how many days runs, artifacts, dead letters or branches go",
    "nothing_landed": "name a run that landed a commit",
    "nothing_to_approve": "name a run that was refused for want of an approval",
    "output_unwritable": "name a folder that you may write to",
    "outside": "name a path inside of the repository",
    "path_unusable": "check that the path exists, and what kind of file it is",
    "pause_too_long": "pause for less; a pause can be renewed",
    "program_not_found": "name a program that the system or an --env has",
    "provided_too_large": "provide less: what commands need of a large size belongs into an environment",
    "queue_unknown": "`gatewright queue list` names the queues",
    "ref_not_found": "check the name with `git ls-remote`; a commit must have been pushed",
    "repository_empty": "make a first commit and push it",
    "repository_missing": "name the repository: --repo, or `repository.url` of the document",
    "repository_partial": "`git archive` of the commit brings the files that it lacks; then run the same command again",
    "repository_unavailable": "check that the repository exists and that git can fetch it from here",
    "repository_unreadable": "give the user that Gatewright runs as the right to read the repository, or name another one",
    "request_incomplete": "name what is missing: --allow PATH, --test CMD and one of --exec, --patch, --reply, --head",
    "run_ambiguous": "write more of the run id",
    "run_expired": "read the run from its bundle: the message names it; `gatewright fetch` brings it from where it is stored",
    "run_id_invalid": "give a run id as `gatewright ls` prints it",
    "run_not_ended": "follow the run to its end: `gatewright watch`",
    "run_not_sealed": "wait until the bundle of the run is sealed",
    "run_unknown": "`gatewright ls` lists the runs",
    "target_elsewhere": "start from the target itself: --ref BRANCH",
    "target_missing": "name a branch that exists, or land on a new branch",
    "unreadable": "check that the file exists and that you may read it",
}
_REQUESTS = {
    "invalid_input": "correct what the message names",
}
_PROPOSALS = {
    "proposal_unconfirmed": "read the proposal, then run the printed command, or the same command with --yes",
}
_DOCUMENTS = {
    "blocked_illegal": "correct the document as the fault says",
    "bad_approval": "make the approval again with `gatewright approve`",
    "bad_envelope": "use the file as it was written; it is a DSSE envelope",
    "bad_event": "use the events as they were written; a line was changed, or a newer version wrote it",
    "bad_tombstone": "use the tombstone as it was written",
    "cortexpilot_form": "send the document in Gatewright's form; this one is CortexPilot's",
    "done_forbidden": "name only kinds of completion that the contract may have",
    "duplicate_key": "name each field of an object once",
    "duplicate_name": "give each artifact a name of its own",
    "event_malformed": "use the events as they were written",
    "event_torn": "the last line was cut off: use the whole file",
    "invalid": "correct the field that the pointer names",
    "malformed": "correct the fields that the faults name; `gatewright schema validate FILE` says the same",
    "nested_too_deeply": "nest the document less deeply",
    "not_json": "send one JSON document in UTF-8",
    "not_signed": "name the bundle of a run that was sealed",
    "other_run": "name the bundle of the run that is meant",
    "paths_word_missing": "put {paths} where the command takes its files, so that each shard is told its own part",
    "required": "add the field that the pointer names",
    "too_deep": "nest the document less deeply",
    "unknown_artifact": "attach the artifact, or correct its name",
    "unknown_event": "upgrade: a newer version wrote this event",
    "unknown_schema": "`gatewright schema list` names the schemas; correct the `Gw-Schema` header, or upgrade",
}
_BACKUPS = {
    "backup_exists": "name a folder that does not exist yet",
    "not_a_backup": "name the folder that `gatewright backup` wrote",
    "restore_target_in_use": "restore into a home folder and a NATS server that hold nothing yet",
    "backup_form_unknown": "restore with the version that wrote the backup, then upgrade",
}
_PUBLISHING = {
    "artifact_digest_mismatch": "send the bytes that the digest was made of",
    "artifact_invalid": "correct the artifact that the violation names",
    "memory_invalid": "submit again; if it comes again, the artifact store gives other bytes than it was given",
    "artifact_too_large": "make the artifact smaller, or split it",
    "document_too_large": "send less in one document; large parts are artifacts",
    "message_too_large": "send less in one message; large parts are artifacts",
    "not_submittable": "send a run_request.v1 or a task_contract.v1",
    "unexpected_document": "send the kind of document that the subject is for",
    "unknown_subject": "publish on one of the subjects that the page lists",
}
_CLOUD_EVENTS = {
    "cloud_event_batch": "send one event at a time",
    "cloud_event_binary_data": "put the document into `data`, as JSON",
    "cloud_event_binary_mode": "send the event in structured mode",
    "cloud_event_data_not_json": "set datacontenttype to application/json, or leave it out",
    "cloud_event_format": "send the event as application/cloudevents+json",
    "cloud_event_invalid": "correct the attribute that the pointer names",
    "cloud_event_type_mismatch": "give the event the type of its data",
    "cloud_event_type_unknown": "use one of the types that the page lists",
    "cloud_event_version": "set specversion to 1.0",
    "cloud_event_without_data": "put the document into `data`",
}
_PATHS = {
    "bad_author": "give author and committer a name and an address without control characters",
    "bad_changes": "name each path once, and no path below a file",
    "bad_message": "write a message without NUL bytes",
    "bad_mode": "use the mode of a plain or an executable file",
    "bad_object_id": "give the full id of the object",
    "bad_path": "give a path that git can keep",
    "path_invalid": "give paths relative to the top of the repository, without `..`, wildcards or a leading slash",
    "unsafe_name": "give a name without separators and control characters",
}
_BUS = {
    "answer_not_valid": "`gatewright dead-letters show` has the answer: correct the role that gave it",
    "answer_too_large": "order less in one task: its answer must fit into a message",
    "bad_header": "send headers of printable characters",
    "bad_key": "use letters, digits, `-` and `_`",
    "bad_pool": "name a pool by letters, digits, `-` and `_`",
    "bad_subject": "give a subject that the topology has",
    "dead_letter_unknown": "`gatewright dead-letters list` names those that are there",
    "schema_not_accepted": "send the document that the role takes",
    "usage_invalid": "correct the executor that reports what it used up",
}
_AGENTS = {
    "executor_contradicts": "name an agent for the executor agent only, and a model for agent and model",
}
_MODELS = {
    "cassette_invalid": "name a file that Gatewright recorded, as it was written",
    "model_request_invalid": "send a request as the API of the model describes it",
    "model_request_too_large": "send less at a time",
    "model_unknown": "name a model of models.json",
}
_STORES = {
    "store_address_invalid": "write s3://BUCKET/PREFIX/RUN or https://HOST/PATH/RUN, with the whole run id",
    "store_read_only": "name the store by its S3 address",
    "stored_bundle_too_large": "nothing of ours is that large: look at what the store holds",
}
_APPROVALS = {
    "approval_not_canonical": "sign what `gatewright approvals approve` writes, byte by byte",
    "approval_unknown": "`gatewright approvals list` names what waits for an answer",
    "bad_grant": "give paths, risk and classes as `gatewright approvals grant --help` says",
    "bad_time": "give 18:00, 4h, 2d, or a whole time with its zone (2026-05-04T18:00+02:00)",
    "bad_vote": "give a colour, a scope, a rationale and anchors as `gatewright review vote --help` says",
    "weak_ssh_key": "make another key: `ssh-keygen -t ed25519`; the operator enters its public half",
    "bad_ssh_key": "give a public key of OpenSSH: ed25519, ECDSA, RSA, or one of a hardware token",
    "bad_ssh_signature": "give the signature as `ssh-keygen -Y sign` writes it",
}
_SUMMONSES = {"bad_summons": "name a role, a kind and a question as `gatewright summon --help` says"}
BAD_INPUT: Final[tuple[Reason, ...]] = (
    *section("bad_input", "cli.md#for-scripts", _COMMANDS),
    *section("bad_input", "cli.md#for-scripts", _REQUESTS, RetryOffer.TEST),
    *section("bad_input", "cli.md#for-scripts", _PROPOSALS, RetryOffer.PROPOSAL),
    *section("bad_input", "schemas.md#when-a-document-is-refused", _DOCUMENTS),
    *section("bad_input", "publishing.md#error-codes", _PUBLISHING),
    *section("bad_input", "publishing.md#cloudevents", _CLOUD_EVENTS),
    *section("bad_input", "cli.md#when-a-run-does-not-succeed", _PATHS),
    *section("bad_input", "delivery.md#dead-letters", _BUS),
    *section("bad_input", "models.md#when-a-call-fails", _MODELS),
    *section("bad_input", "agents.md#what-comes-of-it", _AGENTS),
    *section("bad_input", "backup.md#when-something-is-wrong", _BACKUPS),
    *section("bad_input", "stores.md#when-something-is-wrong", _STORES),
    *section("bad_input", "approvals.md#what-is-refused", _APPROVALS),
    *section("bad_input", "summons.md#what-is-refused", _SUMMONSES),
)
