"""Questions to the owner of a home at the terminal of a run that changes CI files and waits before it lands.

``y`` or ``yes``, typed after the question was printed, approves; ``n`` and an empty line reject. The answer is signed with the
home's key, as ``gatewright approvals approve`` signs it. Without a terminal, and at the end of the input, the run keeps
waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final, Protocol

from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.output import write_line
from gatewright.app.cli.people.deciding import Answer, decide_requests
from gatewright.app.cli.people.inbox import open_inbox
from gatewright.app.cli.people.signing import owns_rule, signing_identity
from gatewright.app.cli.terminal import forget_typed, is_interactive, typed_line
from gatewright.app.report.patch import split_patch
from gatewright.clock import SystemClock
from gatewright.contracts import ApprovalsRequest
from gatewright.contracts.people.approvals import ApprovalRequest, ApprovalStanding, DecisionVerdict
from gatewright.errors import GatewrightError
from gatewright.rules.approvals import waited_for
from gatewright.view.run_view import RunView
from gatewright.view.safe_text import printable

#: Maximum files in the summary, and lines of CI files in the question.
_MOST_FILES: Final = 20
_MOST_LINES: Final = 80
#: Accepted answers with their line end. Input that has ended is no answer.
_ANSWERS: Final[dict[str, DecisionVerdict]] = {
    "y\n": "approve",
    "yes\n": "approve",
    "n\n": "reject",
    "no\n": "reject",
    "\n": "reject",
}


#: Reasons of the owner's rules, and what such a run changes.
_CHANGES = {"protected_class": "CI files", "network": "packages of its tests"}


class Screen(Protocol):
    """The display of the run."""

    def note(self, text: str) -> None:
        """Print a note about the command itself, not an event of the run."""

    def asking(self) -> contextlib.AbstractContextManager[None]:
        """Reserve the terminal for a question inside the body."""


@contextlib.asynccontextmanager
async def owner_asked(place: CommandContext, display: Screen) -> AsyncIterator[Callable[[RunView], None]]:
    """Ask the owner about the run's requests during the body, which passes each view of the run to the yielded function."""
    questions = OwnerQuestions(place, display)
    try:
        yield questions.look if is_interactive() else lambda _view: None
    finally:
        await questions.close()


class OwnerQuestions:
    """The questions of one run. ``display`` releases the terminal during a question."""

    def __init__(self, place: CommandContext, display: Screen) -> None:
        self._place = place
        self._display = display
        self._tasks: dict[str, asyncio.Task[None]] = {}
        #: Pending input, by request. An answer that was typed is sent in any case.
        self._typing: dict[str, asyncio.Task[str]] = {}

    def look(self, view: RunView) -> None:
        """Ask about each request that only the owner decides; withdraw the question of a request that was decided."""
        waiting = {each.request.request_id: each.request for each in waited_for(view.run)} if view.run.parked else {}
        for request_id, typing in self._typing.items():
            if request_id not in waiting:
                typing.cancel()
        for request_id, request in waiting.items():
            if request_id not in self._tasks and request.reason in _CHANGES and owns_rule(self._place):
                self._tasks[request_id] = asyncio.create_task(self._ask_owner(request))

    async def close(self) -> None:
        """Withdraw open questions."""
        for typing in self._typing.values():
            typing.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _ask_owner(self, request: ApprovalRequest) -> None:
        try:
            with self._display.asking():
                for line in question_lines(await self._load_standing(request)):
                    write_line(printable(line))
                forget_typed(sys.stdin.fileno())
                write_line("  Approve? [y/N]")
                typing = self._typing[request.request_id] = asyncio.create_task(typed_line(sys.stdin.fileno()))
                await asyncio.wait({typing})
                verdict = None if typing.cancelled() else _ANSWERS.get(typing.result().lower())
                if verdict is not None:
                    await self._decide(request, verdict)
        except GatewrightError as error:
            self._display.note(f"{error.message}; the run goes on waiting: gatewright approvals approve {request.request_id}")

    async def _load_standing(self, request: ApprovalRequest) -> ApprovalStanding:
        wanted = ApprovalsRequest(run_id=request.run_id, details=True)
        async with open_inbox(self._place) as inbox:
            listed = (await inbox.listed(wanted)).approvals
        return next(each for each in listed if each.request.request_id == request.request_id)

    async def _decide(self, request: ApprovalRequest, verdict: DecisionVerdict) -> None:
        answer = Answer(verdict, *signing_identity(self._place, "", None))
        await decide_requests(self._place, [request.request_id], answer, SystemClock().now())
        write_line("  approved" if verdict == "approve" else "  rejected: the run ends, and nothing lands")


def question_lines(standing: ApprovalStanding) -> Iterator[str]:
    """Format a question: what changes, the size of the change in each file, and the changed lines of the files that ask."""
    request, patch = standing.request, standing.patch.encode()
    changed = _CHANGES.get(request.reason, "CI files")
    yield f"? {request.run_id} changes {changed} and waits for you until {request.expires_at}: {request.why}"
    spans = split_patch(patch)
    yield from (f"  {each.name}  {each.kind}  +{each.added} -{each.removed}" for each in spans[:_MOST_FILES])
    if len(spans) > _MOST_FILES:
        yield f"  and {len(spans) - _MOST_FILES} more files"
    is_cut = request.why.endswith((" more", "..."))  # then some CI files are not named
    of_ci = b"".join(patch[each.start : each.end] for each in spans if is_cut or each.name in request.why)
    lines = of_ci.decode("utf-8", "replace").splitlines()
    yield from (f"  | {line}" for line in lines[:_MOST_LINES])
    left_out = f"{len(lines) - _MOST_LINES} lines are left out. " if len(lines) > _MOST_LINES else ""
    yield f"  {left_out}The whole change: gatewright approvals show {request.request_id}"
