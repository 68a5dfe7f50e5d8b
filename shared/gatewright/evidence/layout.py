"""Names in a run bundle (specification 5.2), listed once: the path of each file, whether it is required, and its schema.

This module does no I/O. Ids become file names only through ``safe``, so that no id can lead out of the bundle.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gatewright import contracts
from gatewright.artifacts import stored_digest
from gatewright.contracts.vocabulary import Document
from gatewright.errors import MalformedError
from gatewright.executor_kinds import place_of_log

#: Version of this layout, which the manifest names. Version 1 had no version field.
VERSION = 2

#: Equal files of at least this size in bytes may be hard links of one file: a patch has four paths.
SHARED_FROM = 1 << 20

MANIFEST = "manifest.json"
#: The signed verdict: an envelope around a SLSA verification summary.
ENVELOPE = "manifest.dsse.json"
#: The signed checks: an envelope around an in-toto test result.
CHECKS = "checks.dsse.json"
ENVELOPES: tuple[str, ...] = (ENVELOPE, CHECKS)
CONTRACT = "contract.json"
REQUEST = "request.json"
EVENTS = "events.jsonl"
PATCH = "patch.diff"
NAMES = "diff_name_only.txt"
META = "meta.json"
WORKTREE_REF = "worktree_ref.txt"
DECISIONS = "decisions.json"

TASK_RESULT = "reports/task_result.json"
REVIEW_REPORT = "reports/review_report.json"
REVIEW_ROUTING = "reports/review_routing.json"
TEST_REPORT = "reports/test_report.json"
EVIDENCE_BUNDLE = "reports/evidence_bundle.json"
EVIDENCE_REPORT = "reports/evidence_report.json"
COMPLETION_REPORT = "reports/completion_report.json"
#: Only in runs accepted since this file exists.
PROGRESS_PACKET = "reports/progress_packet.json"

GIT_BASELINE = "git/baseline_commit.txt"
GIT_BASELINE_TREE = "git/baseline_tree.txt"
GIT_PATCH = "git/patch.diff"
GIT_NAMES = "git/diff_name_only.txt"
GIT_CANDIDATE = "git/candidate_tree.txt"
GIT_LANDED = "git/landed.json"
#: Only in runs that a merge queue landed.
QUEUE_RECEIPT = "queue/receipt.json"

TEST_COMMAND = "tests/command.txt"
TEST_STDOUT = "tests/stdout.log"
TEST_STDERR = "tests/stderr.log"
TRACE_ID = "trace/trace_id.txt"

#: Files of every bundle (specification 5.2 and 5.3). ``contract.json`` is ``null`` in a run without a contract.
REQUIRED: tuple[str, ...] = (
    CONTRACT, MANIFEST, EVENTS, PATCH, NAMES, META, WORKTREE_REF, DECISIONS,
    TASK_RESULT, REVIEW_REPORT, TEST_REPORT, EVIDENCE_BUNDLE, EVIDENCE_REPORT, COMPLETION_REPORT, PROGRESS_PACKET,
    GIT_BASELINE, GIT_BASELINE_TREE, GIT_PATCH, GIT_NAMES, TEST_COMMAND, TEST_STDOUT, TEST_STDERR, TRACE_ID,
)  # fmt: skip
#: Files that ``evidence_hashes`` of the manifest always names.
HASHED: tuple[str, ...] = (CONTRACT, EVENTS, PATCH, NAMES, REVIEW_REPORT, TEST_REPORT, TASK_RESULT)
#: Files that cannot be in the manifest's own list.
UNLISTED: frozenset[str] = frozenset({MANIFEST, *ENVELOPES})
#: Content of ``contract.json`` in a run without a contract.
NO_CONTRACT = b"null"

#: Artifacts of a task's result with a path of their own, beside the logs of its executor; all others are under ``artifacts/``.
RESULT_ARTIFACTS: dict[str, str] = {
    "work_report": "results/{}/work_report.json",
    "redactions": "results/{}/redactions.json",
    "model_cassette": "cassettes/{}.cassette.jsonl",
}

#: Names of files of interrupted work; all others have the artifact's name.
_INTERRUPTED: dict[str, str] = {"model_calls": "calls.jsonl", "model_cassette": "calls.cassette.jsonl"}

_SAFE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9_-])?", re.ASCII)  # noqa: TID251 - linear: anchored, and no repetition can give to the next


def is_safe(name: str) -> bool:
    """Return whether an id may be part of a file name: 1 to 128 of ``A-Z a-z 0-9 . _ -``, no dot at either end."""
    return _SAFE.fullmatch(name) is not None


def safe(name: str) -> str:
    """Return ``name`` if it may be part of a file name.

    Raises:
        MalformedError: it may not (``unsafe_name``).
    """
    if not is_safe(name):
        raise MalformedError(f"an id that cannot be a file name: {name[:200]!r}", code="unsafe_name")
    return name


def digest_of(uri: str) -> str | None:
    """Return the sha256 in an artifact URI; None for anything other than ``artifact:sha256:<64 hex>``."""
    try:
        return stored_digest(uri)
    except MalformedError:
        return None


def task_contract(task_id: str) -> str:
    return f"tasks/{safe(task_id)}.json"


def task_result(task_id: str) -> str:
    return f"results/{safe(task_id)}/result.json"


def task_error(task_id: str) -> str:
    return f"results/{safe(task_id)}/error.json"


def consultation(task_id: str, name: str) -> str:
    """Return the path of a part of a task's model consultation: the prompt, an answer, the records of the calls."""
    return f"consultations/{safe(task_id)}/{safe(name)}"


def interrupted_artifact(task_id: str, number: int, name: str) -> str:
    """Return the path of an artifact of the ``number``-th interrupted delivery of a task (from 1)."""
    return f"interrupted/{safe(task_id)}/{number:02}/{_INTERRUPTED.get(name) or safe(name)}"


def task_plan(task_id: str) -> str:
    return f"results/{safe(task_id)}/plan.json"


def result_patch(task_id: str) -> str:
    return f"results/{safe(task_id)}/patch.diff"


def task_patch(task_id: str) -> str:
    return f"patches/{safe(task_id)}.diff"


def result_artifact(task_id: str, name: str) -> str | None:
    """Return the path of the artifact ``name`` of a task's result; None for a path under ``artifacts/``."""
    place = RESULT_ARTIFACTS.get(name) or place_of_log(name)
    return place.format(safe(task_id)) if place else None


def review(task_id: str) -> str:
    return f"reviews/{safe(task_id)}.json"


def test(task_id: str) -> str:
    return f"ci/{safe(task_id)}.json"


def test_output(task_id: str, number: int, stream: str) -> str:
    """Return the path of the output of command ``number`` (from 1) of a test task; ``stream`` is ``stdout`` or ``stderr``."""
    return f"ci/{safe(task_id)}/{number:02}-{stream}.log"


def gate_report(number: int, gate: str, task_id: str | None) -> str:
    """Return the path of the run's ``number``-th verdict (from 1). It includes the task id where that is safe."""
    suffix = f"-{task_id}" if task_id and is_safe(task_id) else ""
    return f"reports/gates/{number:03}-{safe(gate)}{suffix}.json"


def first_places(reviewed: str | None, tested: str | None) -> dict[str, str]:
    """Map each duplicate path of a fact in this layout to its first path, which has the same bytes.

    Args:
        reviewed: task whose report is the run's review report; None without one.
        tested: task whose report is the run's test report; None without one.
    """
    places = {GIT_PATCH: PATCH, GIT_NAMES: NAMES}
    if reviewed is not None:
        places[REVIEW_REPORT] = review(reviewed)
    if tested is not None:
        places[TEST_REPORT] = test(tested)
    return places


def folders_of(paths: Iterable[str]) -> set[str]:
    """Return every folder inside the bundle that contains files with these paths."""
    folders: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return folders


def approval_request(request_id: str) -> str:
    """Return the path of an approval request."""
    return f"approvals/{safe(request_id)}/request.json"


def approval_decision(request_id: str, number: int, ending: str = "json") -> str:
    """Return the path of the run's ``number``-th decision (from 1), as signed; ``ending`` selects its companion files."""
    return f"approvals/{safe(request_id)}/decision-{number:03}.{ending}"


def approval_grant(request_id: str, ending: str = "json") -> str:
    """Return the path of the grant that answered a request, as signed; ``ending`` selects its companion files."""
    return f"approvals/{safe(request_id)}/grant.{ending}"


def summons_question(task_id: str) -> str:
    """Return the path of a question to a role beside the run."""
    return f"summonses/{safe(task_id)}/question.json"


def summons_answer(task_id: str) -> str:
    """Return the path of the role's answer, or of the reason why there is none."""
    return f"summonses/{safe(task_id)}/answer.json"


def artifact(digest: str) -> str:
    return f"artifacts/{digest}"


_KINDS: tuple[tuple[re.Pattern[str], type[Document]], ...] = tuple(
    (re.compile(pattern), kind)  # noqa: TID251 - linear: anchored, and no repetition can give to the next
    for pattern, kind in (
        (r"contract\.json|tasks/[^/]+\.json", contracts.TaskContract),
        (r"request\.json", contracts.RunRequest),
        (r"decisions\.json", contracts.DecisionsLog),
        (r"manifest\.json", contracts.RunManifest),
        (r"reports/task_result\.json|results/[^/]+/result\.json", contracts.TaskResult),
        (r"reports/review_report\.json|reviews/[^/]+\.json", contracts.ReviewReport),
        (r"reports/test_report\.json|ci/[^/]+\.json", contracts.TestReport),
        (r"reports/evidence_bundle\.json", contracts.EvidenceBundle),
        (r"reports/evidence_report\.json", contracts.EvidenceReport),
        (r"reports/completion_report\.json", contracts.CompletionReport),
        (r"reports/progress_packet\.json", contracts.ProgressPacket),
        (r"reports/review_routing\.json", contracts.ReviewRouting),
        (r"queue/receipt\.json", contracts.QueueReceipt),
        (r"reports/gates/[^/]+\.json", contracts.GateReport),
        (r"results/[^/]+/error\.json", contracts.Error),
        (r"results/[^/]+/plan\.json", contracts.Plan),
        (r"approvals/[^/]+/request\.json", contracts.ApprovalRequest),
        (r"approvals/[^/]+/decision-[0-9]+\.json", contracts.ApprovalDecision),
        (r"approvals/[^/]+/grant\.json", contracts.ApprovalGrant),
        (r"summonses/[^/]+/question\.json", contracts.SummonsTask),
        (r"summonses/[^/]+/answer\.json", contracts.SummonsAnswer),
    )
)


def kind_of(path: str) -> type[Document] | None:
    """Return the document type of a file in the bundle; None for a file without a schema."""
    return next((kind for pattern, kind in _KINDS if pattern.fullmatch(path)), None)


def is_work_report(path: str) -> bool:
    """Return whether a file is a worker's own report: an unverified claim, stored unchanged, valid or not."""
    return path.startswith("results/") and path.endswith(RESULT_ARTIFACTS["work_report"].partition("{}")[2])
