"""Change requests of others: whether one is judged, and the order of the run that judges its exact head.

Paths, tests, risk tier and budget come from the policy alone. The text of a request is in one fenced part of one field, and
nothing else of an order depends on it. The patch is computed from a mirror: nothing is checked out and nothing is executed.
The gatekeeper fetches the head itself and compares (``gatewright.git.request_head``), so that this process decides nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol

from msgspec.structs import replace

from gatewright.app.forge.desired import ForgeView, ended_by_fault
from gatewright.app.forge.port import ChangeRequest, Forge
from gatewright.bus.identities import DEFAULT_PUBLISHER
from gatewright.contracts import RunRequest
from gatewright.contracts.forge_policy import ForgeEntry, JudgeRule
from gatewright.contracts.people.authors import author_line, commit_author
from gatewright.contracts.vocabulary import Artifact, Budget, Executor, Repository, Scope, SourceBranch, TimeoutRetry
from gatewright.errors import DeniedError, GitError, MalformedError
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.git.mirror import Mirrors
from gatewright.git.request_head import HeadChange, change_of_head
from gatewright.prompts.prompt import fence_text
from gatewright.run.state import run_id_of
from gatewright.view.rows import BoardRow, seconds_since

_PATCH: Final = EXECUTOR_KINDS["patch"].artifact
_REQUESTED_BY: Final = "forge"
#: Characters of a request's title and text in an order.
MOST_TEXT: Final = 4_000
#: Characters of a name in ``ordered_by``.
_LONGEST_LOGIN: Final = 320
#: Seconds from the end of a run by a fault of the infrastructure until its head is judged again: after the first such run, the
#: second, and the third. Then a person has to act.
JUDGED_AGAIN_AFTER: Final = (60.0, 300.0, 1800.0)
#: The gatekeeper has the key of an order whose text or baseline was another one.
_ORDERED_BEFORE: Final = "idempotency_key_reused"


class SkipReason(StrEnum):
    """Why a change request is not judged now."""

    MISSING = "missing"
    CLOSED = "closed"
    OTHER_TARGET = "other_target"
    HAS_RUN = "has_run"
    FORK = "fork"
    AUTHOR = "author"
    UNREADABLE = "unreadable"
    MOVED = "moved"
    UNFIT = "unfit"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A change request that is not judged now. ``message`` is for logs."""

    number: int
    reason: SkipReason
    message: str


@dataclass(frozen=True, slots=True)
class Ordered:
    """The run that judges ``head`` of a change request. ``repeated``: it was ordered before."""

    number: int
    head: str
    run_id: str
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class JudgedHeads:
    """``done``: commits that need no run. ``broken``: runs of a head that is to be judged again, as each ended by a fault."""

    done: frozenset[str] = frozenset()
    broken: Mapping[str, int] = field(default_factory=dict)


def judged_heads(view: ForgeView, now: datetime) -> JudgedHeads:
    """Return the commits that runs are about, and those that no run could judge. It depends on the ledger alone."""
    about: dict[str, list[BoardRow]] = {}
    for row in view.rows:
        for commit in view.commits(row):
            about.setdefault(commit, []).append(row)
    broken = {commit: len(rows) for commit, rows in about.items() if _is_due_again(rows, now)}
    return JudgedHeads(frozenset(about.keys() - broken.keys()), broken)


def _is_due_again(rows: Sequence[BoardRow], now: datetime) -> bool:
    if len(rows) > len(JUDGED_AGAIN_AFTER) or not all(map(ended_by_fault, rows)):
        return False
    return seconds_since(max(row.finished_at for row in rows), now) >= JUDGED_AGAIN_AFTER[len(rows) - 1]


class Orders(Protocol):
    """The connection of a publisher that orders runs; ``gatewright.client.client.Client`` is one."""

    async def attach(self, name: str, data: bytes) -> Artifact:
        """Store ``data`` as an artifact of an order."""
        ...

    async def submit_request(self, request: RunRequest) -> str:
        """Submit an order; return its run id."""
        ...


def request_key(entry: ForgeEntry, number: int, head: str, broken: int = 0) -> str:
    """Return the idempotency key of the run that judges ``head``: one for any number of deliveries, polls and restarts.

    ``broken``: number of its earlier runs, which faults of the infrastructure ended.
    """
    named = "\0".join((entry.repository, entry.project, str(number), head, *([str(broken)] if broken else [])))
    return f"forge-{hashlib.sha256(named.encode()).hexdigest()}"


def skip_reason(
    entry: ForgeEntry, rule: JudgeRule, request: ChangeRequest, judged: Collection[str], *, writer: bool
) -> SkipReason | None:
    """Return why a change request is not judged; None if it is. Nothing here depends on its text.

    1. It is open.
    2. It is for the target branch.
    3. Its head has no run.
    4. A fork's requests are judged, and the author may write to the project (``writer``).
    5. The author is listed or, without a list, may write to the project.
    """
    if request.state != "open":  # 1
        return SkipReason.CLOSED
    if request.base != entry.target:  # 2
        return SkipReason.OTHER_TARGET
    if request.head in judged:  # 3
        return SkipReason.HAS_RUN
    if request.fork and not (rule.forks == "writers" and writer):  # 4
        return SkipReason.FORK
    listed = request.author.isascii() and request.author.lower() in {login.lower() for login in rule.authors}
    if not (listed if rule.authors else writer):  # 5
        return SkipReason.AUTHOR
    return None


def order_of(entry: ForgeEntry, rule: JudgeRule, request: ChangeRequest, change: HeadChange, broken: int = 0) -> RunRequest:
    """Return the order of the run that judges a change request, without its patch.

    Only ``request`` depends on the title and the text: its first paragraph is fixed, and a fence contains both.
    """
    text = fence_text("title and text of the change request", f"{request.title}\n\n{request.body}", limit=MOST_TEXT)
    (name, email), *others = change.authors
    login = request.author if request.author.isprintable() and len(request.author) <= _LONGEST_LOGIN else ""
    return RunRequest(
        request=f"Judge change request {request.number} of {entry.project}\n\n{text}",
        repository=Repository(url=entry.repository, target_ref=_target(entry), landing=rule.landing),
        requested_by=_REQUESTED_BY,
        ordered_by=(login,) if login else (),
        author=commit_author(name, email) if not others else None,
        baseline_ref=_target(entry),
        allowed_paths=tuple(dict.fromkeys((*rule.allowed_paths, *rule.allow_tests))),
        acceptance_tests=rule.tests,
        environment=rule.environment,
        executor=Executor(kind="patch", artifacts=(_PATCH,)),
        scope=Scope(allow_protected_paths=rule.allow_tests) if rule.allow_tests else None,
        budget=Budget(wall_sec=rule.max_seconds),
        timeout_retry=TimeoutRetry(timeout_sec=rule.max_seconds, max_retries=0, retry_backoff_sec=0),
        policy_pack=rule.policy_pack,
        tests=rule.tests_purpose,
        source_branch=SourceBranch(
            name=request.head_ref,
            head=change.head,
            base=change.base,
            commits=change.commits,
            authors=tuple(author_line(*each) for each in change.authors),
            ref=request.head_ref,
        ),
        idempotency_key=request_key(entry, request.number, change.head, broken),
    )


def _target(entry: ForgeEntry) -> str:
    return f"refs/heads/{entry.target}"


@dataclass(frozen=True, slots=True)
class Inward:
    """Orders the runs that judge the change requests of one entry. Several calls at a time are allowed.

    ``judged`` returns what runs of ``publisher``, who orders these, have judged. It may lag behind: the key of an order makes
    it one run. ``mirrors`` are this process's own, with read access.
    """

    entry: ForgeEntry
    rule: JudgeRule
    forge: Forge
    mirrors: Mirrors
    orders: Orders
    judged: Callable[[], JudgedHeads]
    publisher: str = DEFAULT_PUBLISHER

    async def judge(self, number: int) -> Ordered | Skipped:
        """Read a change request from the forge, and order the run that judges its head.

        Raises:
            ForgeUnavailableError, BusError, LimitError: it is tried again later.
            DeniedError: the forge refused to answer.
        """
        request = await self.forge.request(number)
        if request is None:
            return Skipped(number, SkipReason.MISSING, f"{self.entry.project} has no change request {number}")
        return await self.judge_request(request)

    async def judge_request(self, request: ChangeRequest) -> Ordered | Skipped:
        """Order the run that judges the head of ``request``, which was read from the forge just now. Raises as ``judge`` does.

        1. The rules of ``skip_reason`` allow it.
        2. The repository has the head at the ref of the request now.
        3. The change can be computed.
        4. The gatekeeper accepts the order; the same head twice is the same run.

        What a stranger offers, however odd, raises no error: it must not end the poll for the requests of others.
        """
        judged = self.judged()
        reason = skip_reason(self.entry, self.rule, request, judged.done, writer=True)  # 1
        if reason is None and (request.fork or not self.rule.authors):
            writer = await self.forge.may_write(request.author)
            reason = skip_reason(self.entry, self.rule, request, judged.done, writer=writer)
        if reason is not None:
            return Skipped(request.number, reason, f"change request {request.number} is not judged: {reason}")
        try:
            change = await self._read_change(request)
        except GitError as error:
            return Skipped(request.number, SkipReason.UNREADABLE, f"{error.reason}: {error.message}")
        except (MalformedError, DeniedError) as error:
            return Skipped(request.number, SkipReason.UNFIT, f"{error.reason}: {error.message}")
        if change is None:
            words = f"{request.head_ref} is not at {request.head}, which the forge reported"
            return Skipped(request.number, SkipReason.MOVED, words)
        return await self._submit(request, change, judged.broken.get(request.head, 0))

    async def _read_change(self, request: ChangeRequest) -> HeadChange | None:
        """Fetch the head and compute its change; None if the ref is not at the head."""
        mirror = await self.mirrors.open(self.entry.repository)
        if await mirror.current(request.head_ref) != request.head:  # 2
            return None
        return await change_of_head(mirror, request.head, await mirror.resolve(_target(self.entry)))  # 3

    async def _submit(self, request: ChangeRequest, change: HeadChange, broken: int) -> Ordered | Skipped:
        order = order_of(self.entry, self.rule, request, change, broken)
        order = replace(order, artifacts=(await self.orders.attach(_PATCH, change.patch),))
        try:
            return Ordered(request.number, request.head, await self.orders.submit_request(order))  # 4
        except (MalformedError, DeniedError) as error:
            if error.reason != _ORDERED_BEFORE:
                return Skipped(request.number, SkipReason.REFUSED, f"{error.reason}: {error.message}")
        key = request_key(self.entry, request.number, request.head, broken)
        return Ordered(request.number, request.head, run_id_of(key, self.publisher), repeated=True)
