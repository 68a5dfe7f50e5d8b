"""Codex by ``codex exec --json``: one turn, no questions, for a version whose app server has changed.

The order is its standard input. What it reports comes as lines of events; a ``turn.failed`` or an end without
``turn.completed`` is a failure, whatever its exit code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gatewright.errors import AgentWireError
from gatewright.services.worker.agents.codex.app_server import files, variables
from gatewright.services.worker.agents.codex.home import start_of
from gatewright.services.worker.agents.port import AgentEnd, AgentOrder, HowEnded, Launch, Tell, Wire
from gatewright.services.worker.agents.telling import AgentReporter, quoted

Object = Mapping[str, object]
#: The order is in its home, because what it is told on its input comes without a mark of its end.
_ORDER: Final = "order.md"
_SCRIPT: Final = 'exec "$@" - <"$HOME/order.md"'


@dataclass(frozen=True, slots=True)
class CodexExec:
    """An ``AgentProtocol``; see ``CodexAppServer``. It knows no second turn."""

    program: tuple[str, ...]
    name: str = "codex-exec"
    own_catalogue: bool = False

    def launch(self, order: AgentOrder) -> Launch:
        """See ``AgentProtocol.launch``."""
        words = ["exec", "--json", "--skip-git-repo-check", "--color", "never", "-C", order.directory]
        if order.resume is not None:
            words += ["resume", order.resume]
        made = files(order, own_catalogue=self.own_catalogue) | {_ORDER: order.prompt.encode("utf-8", "replace")}
        argv = start_of(self.program, words, order, own_catalogue=self.own_catalogue)
        return Launch(("/bin/sh", "-c", _SCRIPT, "codex", *argv), variables(), made)

    async def converse(self, wire: Wire, order: AgentOrder, tell: Tell) -> AgentEnd:
        """See ``AgentProtocol.converse``. There is no way to ask it to stop: the box is."""
        telling = AgentReporter(tell, order.directory)
        session, how = "", "failed"
        while (said := await wire.receive()) is not None:
            match said.get("type"):
                case "thread.started":
                    session = quoted(said.get("thread_id"), 200)
                    telling.started(self.name, "", session)
                case "item.started" | "item.completed":
                    item = said.get("item")
                    if isinstance(item, dict):
                        _item(telling, item, over=said["type"] == "item.completed")
                case "turn.completed":
                    how = "completed"
                    usage = said.get("usage")
                    if isinstance(usage, dict):
                        telling.usage(usage.get("input_tokens"), usage.get("output_tokens"))
                case "turn.failed" | "error":
                    how = "failed"
                    error = said.get("error")
                    telling.problem(error.get("message") if isinstance(error, dict) else said.get("message"))
                case _:
                    pass
            await asyncio.sleep(0)
        if not session:
            raise AgentWireError("Codex ended before it began")
        ended: HowEnded = "completed" if how == "completed" else "failed"
        return AgentEnd(ended, telling.last, session)


def _item(telling: AgentReporter, item: Object, *, over: bool) -> None:
    match item.get("type"):
        case "agent_message" if over:
            telling.message(item.get("text"))
        case "command_execution" if over:
            telling.command(item.get("command"), item.get("exit_code"))
        case "command_execution":
            telling.command(item.get("command"))
        case "file_change" if over and item.get("status") == "completed":
            changes = item.get("changes")
            if isinstance(changes, list):
                telling.files(change.get("path") for change in changes if isinstance(change, dict))
        case "error" if over:
            telling.problem(item.get("message"))
        case _:
            pass
