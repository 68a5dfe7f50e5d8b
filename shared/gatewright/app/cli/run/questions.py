"""Questions at the terminal of a run, one after the other: permission requests of an agent, and approvals of the home's owner.

Only ``y`` or ``yes``, typed after the question was printed, grants permission, and only once. Any other answer, Ctrl-C, the end
of the input and silence refuse. Unprintable characters of an agent's text are escaped.

The owner is asked about a run that changes CI files and waits before it lands. ``n`` and an empty line reject. The answer is
signed with the home's key, as ``gatewright approvals approve`` signs it. Without a terminal, and at the end of the input, the
run keeps waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final, Protocol

from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.output import forget_typed, is_interactive, typed_line, write_line
from gatewright.app.cli.people.deciding import Answer, decide_requests
from gatewright.app.cli.people.inbox import open_inbox
from gatewright.app.cli.people.signing import owns_rule, signing_identity
from gatewright.app.cli.run.display import Display
from gatewright.app.report.patch import split_patch
from gatewright.client.client import Client
from gatewright.clock import SystemClock
from gatewright.contracts import AgentQuestion, ApprovalsRequest
from gatewright.contracts.people.approvals import ApprovalRequest, ApprovalStanding, DecisionVerdict
from gatewright.errors import BusError, GatewrightError, MalformedError
from gatewright.rules.approvals import waited_for
from gatewright.view.run_view import RunView
from gatewright.view.safe_text import printable

NO_TERMINAL: Final = "no_terminal"
#: Maximum queued questions behind the current one; a worker asks one at a time.
_MOST_WAITING: Final = 64
_YES: Final = frozenset({"y", "yes"})


def require_terminal(*, json_output: bool) -> None:
    """Raise MalformedError (``no_terminal``) if no person can be asked."""
    if json_output:
        raise MalformedError("--interactive asks at a terminal, and --json prints for programs", code=NO_TERMINAL)
    if not is_interactive():
        words = "--interactive asks at a terminal: standard input or standard output is none"
        raise MalformedError(words, code=NO_TERMINAL)


class TerminalQuestions:
    """The questions of one run. ``display`` releases the terminal during a question."""

    def __init__(self, client: Client, run_id: str, display: Display) -> None:
        self._client = client
        self._run_id = run_id
        self._display = display
        self._turn = asyncio.Lock()
        self._refused: asyncio.Event | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = False

    @contextlib.asynccontextmanager
    async def answer_meanwhile(self) -> AsyncIterator[None]:
        """Answer questions during the body."""
        await self._client.hear_questions(self._hear)
        try:
            yield
        finally:
            self._ended = True
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def refuse_open(self) -> bool:
        """Refuse the open question, as Ctrl-C does; return False without one."""
        if self._refused is None:
            return False
        self._refused.set()
        return True

    async def _hear(self, question: AgentQuestion) -> None:
        if question.run_id != self._run_id or self._ended or len(self._tasks) >= _MOST_WAITING:
            return
        task = asyncio.create_task(self._put(question))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _put(self, question: AgentQuestion) -> None:
        deadline = asyncio.get_running_loop().time() + question.seconds
        allow = False
        async with self._turn:
            left = deadline - asyncio.get_running_loop().time()
            if left > 0 and not self._ended:
                with self._display.asking():
                    allow = await self._ask_person(question, left)
        with contextlib.suppress(BusError):
            await self._client.answer_question(question, allow=allow)

    async def _ask_person(self, question: AgentQuestion, seconds: float) -> bool:
        write_line(f"? {printable(question.agent)} asks leave to run: {printable(question.subject)}")
        forget_typed(sys.stdin.fileno())  # Input at the prompt is an answer.
        write_line(f"  allow it this once? [y/N] ({seconds:.0f} s, Ctrl-C refuses)")
        self._refused = asyncio.Event()
        refused = asyncio.create_task(self._refused.wait())
        typed = asyncio.create_task(typed_line(sys.stdin.fileno()))
        try:
            done, _ = await asyncio.wait({refused, typed}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._refused = None
            for task in (refused, typed):
                task.cancel()
            await asyncio.gather(refused, typed, return_exceptions=True)
        allow = typed in done and refused not in done and typed.result().strip().lower() in _YES
        write_line("  allowed, this once" if allow else "  refused" if done else "  refused: no answer came")
        return allow


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
