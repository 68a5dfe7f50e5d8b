"""The list of all metrics of Gatewright: names, kinds, labels, descriptions, and label values.

``metrics.py`` does the counting. The tables in docs/observability.md are generated from the list. Tests check the alert
rules and the dashboard against it. Labels come from closed sets, never from ids, paths or foreign text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Seconds. The shortest task is a git fetch, the longest an agent's work.
_DURATIONS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
#: Seconds. A gate reads only trees and reports.
_MOMENTS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)

#: The outcomes of a task for the runner. ``answered``: the role's own document was published, with any result.
TaskOutcome = Literal["answered", "refused", "retried", "timed_out", "cancelled", "released", "exhausted", "crashed"]
#: ``existing``: the submission repeats one that created a run.
SubmissionOutcome = Literal["accepted", "existing", "refused"]
RunOutcome = Literal["success", "failed", "aborted"]
#: The lasting states of a run; in S6, FAILED and ABORTED it waits for its bundle.
Stage = Literal["S0", "S1", "S2", "S3", "S4", "S5", "S6", "AWAITING_APPROVAL", "QUEUED", "FAILED", "ABORTED"]
#: A work queue: of a role, of the gatekeeper, or one outside this list.
QueueName = Literal["intake", "results", "exhausted", "pm", "techlead", "worker", "reviewer", "testrunner", "other"]
#: Maximum number of values of the label ``pool``, the operator's names of pools; further pools are ``other``.
MOST_POOLS = 64
#: Value of the label ``pool`` for a queue without pools.
NO_POOL = "none"
#: ``none``: a queue without classes.
QueueClass = Literal["high", "normal", "low", "none"]
#: Maximum number of values of the label ``publisher``; further publishers are ``other``.
MOST_PUBLISHERS = 64
#: A stream that only one publisher fills.
PublisherRoom = Literal["intake", "uploads"]
#: ``probe``: a process checked whether it can work; ``task``: a task was due.
SandboxUse = Literal["probe", "task"]


#: The outcomes of a claim that a task is in progress.
ClaimOutcome = Literal["counted", "unknown", "refused"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric. ``name`` is the scraped name; a histogram adds ``_bucket``, ``_sum`` and ``_count``."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()


TASKS = Metric("gatewright_tasks_total", "counter", ("role", "outcome"), "Tasks of a role, by outcome.")
TASKS_RUNNING = Metric("gatewright_tasks_running", "gauge", ("role",), "Tasks in progress now.")
TASK_DURATION = Metric(
    "gatewright_task_duration_seconds", "histogram", ("role",), "Time from taking a task to settling it.", _DURATIONS
)
REDELIVERIES = Metric("gatewright_redeliveries_total", "counter", ("role",), "Tasks that the bus delivered again.")
DEAD_LETTERS = Metric("gatewright_dead_letters_total", "counter", ("role", "code"), "Dead letters, by reason code.")
DEAD_LETTERS_OPEN = Metric("gatewright_dead_letters_open", "gauge", (), "Dead letters without an operator's decision.")
QUEUE_DEPTH = Metric(
    "gatewright_queue_depth",
    "gauge",
    ("queue", "pool", "class", "state"),
    "Messages of a work queue: waiting, or delivered and not settled.",
)
QUEUE_OLDEST_AGE = Metric(
    "gatewright_queue_oldest_age_seconds",
    "gauge",
    ("queue", "pool", "class"),
    "Age of the oldest waiting message; 0: none waits.",
)
QUEUE_OPEN_PULLS = Metric(
    "gatewright_queue_open_pulls", "gauge", ("queue", "pool", "class"), "Open requests for work, from idle processes."
)
QUEUE_UNATTENDED = Metric(
    "gatewright_queue_unattended",
    "gauge",
    ("queue", "pool", "class"),
    "Waiting messages of queues without an open request for work and without a delivered message.",
)
QUEUE_PAUSED = Metric("gatewright_queue_paused", "gauge", ("queue", "pool", "class"), "1 while an operator pauses the queue.")
PUBLISHER_ROOM = Metric(
    "gatewright_publisher_room_used",
    "gauge",
    ("publisher", "room"),
    "Used share of a publisher's own stream, from 0 to 1: its submissions (intake) or its uploads (uploads).",
)
SUBMISSIONS = Metric(
    "gatewright_submissions_total", "counter", ("outcome", "code"), "Answers of `gw.submit`, by outcome and reason code."
)
GATE_DECISIONS = Metric(
    "gatewright_gate_decisions_total", "counter", ("gate", "verdict", "code"), "Verdicts of the gates, by reason code."
)
GATE_DURATION = Metric("gatewright_gate_duration_seconds", "histogram", ("gate",), "Time that a gate takes.", _MOMENTS)
RUNS = Metric("gatewright_runs_total", "counter", ("outcome",), "Runs that ended: success, failed or aborted.")
RUN_DURATION = Metric("gatewright_run_duration_seconds", "histogram", ("outcome",), "Time from intake to the end.", _DURATIONS)
STAGE_DURATION = Metric(
    "gatewright_stage_duration_seconds", "histogram", ("stage",), "Time of a run in a state, by the ledger.", _DURATIONS
)
LOCK_WAITS = Metric("gatewright_lock_waits_total", "counter", (), "Times that a run waited for paths of other runs.")
LOCK_WAIT_DURATION = Metric(
    "gatewright_lock_wait_seconds", "histogram", (), "Time from waiting for paths to locking them, by the ledger.", _DURATIONS
)
MERGE_ENTRIES = Metric("gatewright_merge_queue_entries", "gauge", (), "Runs that wait to land, in all merge queues.")
MERGE_HELD = Metric("gatewright_merge_queues_held", "gauge", (), "Merge queues on hold.")
MERGE_LANDINGS = Metric("gatewright_merge_landings_total", "counter", (), "Pushes of merge queues that moved a branch.")
MERGE_LEFT = Metric(
    "gatewright_merge_left_total", "counter", ("code",), "Runs that left a merge queue without landing, by reason code."
)
MERGE_RED_POSITIONS = Metric(
    "gatewright_merge_red_positions_total", "counter", (), "Positions of merge queues whose red result is final."
)
MERGE_TIME_TO_LAND = Metric(
    "gatewright_merge_time_to_land_seconds", "histogram", (), "Time from entering a merge queue to landing.", _DURATIONS
)
LEDGER_CONFLICTS = Metric(
    "gatewright_ledger_conflicts_total", "counter", (), "Transitions that another gatekeeper wrote first."
)
LEDGER_FOREIGN = Metric(
    "gatewright_ledger_foreign_messages_total", "counter", (), "Messages on a run's subject that are not ledger entries."
)
BUNDLES_OWED = Metric("gatewright_bundles_owed", "gauge", (), "Ended runs whose bundle the disk did not accept.")
BUDGET_USED = Metric(
    "gatewright_budget_used_ratio", "gauge", ("budget",), "Used and reserved share of the closest limit of a budget's period."
)
RUNS_SILENT = Metric(
    "gatewright_runs_silent", "gauge", (), "Runs without a claim for their tasks in progress for two beats; NaN: unknown."
)
STATUS_CLAIMS = Metric(
    "gatewright_status_claims_total",
    "counter",
    ("role", "outcome"),
    "Claims that a task is in progress: counted, unknown (no such task) or refused (forged, or malformed).",
)
SANDBOX_FAILURES = Metric(
    "gatewright_sandbox_failures_total", "counter", ("role", "during"), "Failures of the sandbox itself, in a probe or a task."
)
BUS_RECONNECTS = Metric("gatewright_bus_reconnects_total", "counter", (), "Reconnections to the bus.")
STORAGE_FAILING = Metric(
    "gatewright_storage_failing", "gauge", ("role",), "1 while a stream accepts no messages or this host's disk is full."
)
READY = Metric("gatewright_ready", "gauge", ("role",), "1 when `/readyz` returns ok, else 0.")
BUILD_INFO = Metric("gatewright_build_info", "gauge", ("role", "version"), "Always 1; its labels show the running version.")

METRICS: tuple[Metric, ...] = (
    TASKS,
    TASKS_RUNNING,
    TASK_DURATION,
    REDELIVERIES,
    DEAD_LETTERS,
    DEAD_LETTERS_OPEN,
    QUEUE_DEPTH,
    QUEUE_OLDEST_AGE,
    QUEUE_OPEN_PULLS,
    QUEUE_UNATTENDED,
    QUEUE_PAUSED,
    PUBLISHER_ROOM,
    SUBMISSIONS,
    GATE_DECISIONS,
    GATE_DURATION,
    RUNS,
    RUN_DURATION,
    STAGE_DURATION,
    LOCK_WAITS,
    LOCK_WAIT_DURATION,
    MERGE_ENTRIES,
    MERGE_HELD,
    MERGE_LANDINGS,
    MERGE_LEFT,
    MERGE_RED_POSITIONS,
    MERGE_TIME_TO_LAND,
    LEDGER_CONFLICTS,
    LEDGER_FOREIGN,
    BUNDLES_OWED,
    BUDGET_USED,
    RUNS_SILENT,
    STATUS_CLAIMS,
    SANDBOX_FAILURES,
    BUS_RECONNECTS,
    STORAGE_FAILING,
    READY,
    BUILD_INFO,
)

EXPIRED = Metric("gatewright_expired_total", "counter", ("what",), "Items that the retention policy removed.")
EXPIRY_LEFT = Metric("gatewright_expiry_left_total", "counter", ("what",), "Failed removals, and failed rounds.")
EXPIRY_LAST_ROUND = Metric(
    "gatewright_expiry_last_round_seconds", "gauge", ("rounds",), "Time of the last complete round, in seconds since 1970."
)
#: The process of the retention rounds exports them; it is not a role.
EXPIRY_METRICS: tuple[Metric, ...] = (EXPIRED, EXPIRY_LEFT, EXPIRY_LAST_ROUND)

#: Outcomes of a call of a forge: answered, refused by the forge, no usable answer.
ForgeOutcome = Literal["ok", "denied", "unavailable"]
FORGE_CALLS = Metric(
    "gatewright_forge_calls_total", "counter", ("forge", "method", "outcome"), "Calls of forges, by entry of `forges.json`."
)
FORGE_BEHIND = Metric(
    "gatewright_forge_behind_seconds", "gauge", ("forge",), "Age of the oldest event that the forge does not show yet."
)
FORGE_ALARMS = Metric(
    "gatewright_forge_alarms_total", "counter", ("forge",), "Change requests that were merged at a commit that no run proves."
)
FORGE_ORDERS = Metric("gatewright_forge_orders_total", "counter", ("forge",), "Runs ordered for change requests.")
#: `gatewright forge` exports them; it is not a role.
FORGE_METRICS: tuple[Metric, ...] = (FORGE_CALLS, FORGE_BEHIND, FORGE_ALARMS, FORGE_ORDERS)
