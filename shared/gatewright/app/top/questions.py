"""Small screens above the others: a message, the confirmation of an abort, the request to approve."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from gatewright.app.top.lines import cell, line
from gatewright.contracts.people.approvals import ApprovalRequest, ApprovalSummary
from gatewright.rules.approvals import tree_words
from gatewright.rules.transfers import transfer_lines
from gatewright.work_documents.request_summary import summary_facts, yes_words

BOX_CSS = """
ModalScreen { align: center middle; }
.box { width: 74; max-width: 100%; height: auto; max-height: 100%; padding: 0 2; border: round $accent; background: $surface; }
.box VerticalScroll { height: auto; max-height: 15; }
"""


class WordsScreen(ModalScreen[None]):
    """A message, closed by any of these keys."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q,question_mark", "leave", "back")]

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = words

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"), VerticalScroll():
            yield Static(Text("\n".join(line(each) for each in self._words.split("\n"))), id="words")

    def action_leave(self) -> None:
        self.dismiss(None)


class AbortScreen(ModalScreen[bool]):
    """The confirmation of an abort; only `y` confirms."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "end it"),
        Binding("n,escape,q,enter", "answer(False)", "let it go on"),
    ]

    def __init__(self, run_id: str, request: str) -> None:
        super().__init__()
        self._run_id, self._request = run_id, request

    def compose(self) -> ComposeResult:
        words = [
            f"End {self._run_id}?",
            f"  {self._request}",
            "",
            "Nothing of it lands, and its evidence is sealed.",
            "",
            "y  end it     n  let it go on",
        ]
        with Vertical(classes="box"):
            yield Static(Text("\n".join(line(each) for each in words)), id="question")

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


class ApproveScreen(ModalScreen[str | None]):
    """A request with what a yes does.

    The answer is the phrase that was typed, empty where none is wanted; None is no answer.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "yes", "approve"),
        Binding("escape", "leave", "back"),
        Binding("n,q", "leave", show=False),
    ]

    def __init__(self, request: ApprovalRequest, summary: ApprovalSummary, signer: str) -> None:
        super().__init__()
        self._request, self._summary, self._signer = request, summary, signer

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            with VerticalScroll():
                yield Static(Text("\n".join(self._fact_lines())), id="asked")
            if self._request.phrase:
                yield Static(Text(line(f"type exactly {self._request.phrase!r} and Enter; Esc: no answer")))
                yield Input(id="phrase", max_length=400, compact=True)
            else:
                yield Static(Text("y  approve     Esc  no answer"))

    def on_mount(self) -> None:
        if self._request.phrase:
            self.query_one("#phrase", Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)

    def action_yes(self) -> None:
        if not self._request.phrase:
            self.dismiss("")

    def action_leave(self) -> None:
        self.dismiss(None)

    def _fact_lines(self) -> list[str]:
        request = self._request
        facts = {
            "approve": request.request_id,
            **summary_facts(self._summary),
            "rule": f"{request.rule} ({request.reason}, risk {request.risk})",
            "repository": f"{request.repository} at {request.baseline_commit[:12]}",
            "tree": tree_words(request),
            "on yes": yes_words(request, self._summary),
            "on no": f"{request.on_no} (gatewright approvals reject {request.request_id})",
            "on silence": f"{self._summary.on_silence}, {request.expires_at}",
            "signed": self._signer,
        }
        sent = [f"{'sends':<11} {cell(line)}" for line in transfer_lines(request.transfers)]
        return [*(f"{name:<11} {cell(value)}" for name, value in facts.items()), *sent]
