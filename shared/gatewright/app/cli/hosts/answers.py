"""What a tool gives back: a document, or a refusal with its stable code; both as JSON text and as structured content."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import msgspec
from mcp_types import CallToolResult, TextContent

from gatewright.app.cli.known_errors import as_known
from gatewright.app.cli.output import error_document
from gatewright.reasons import advice_for

P = ParamSpec("P")
Tools = TypeVar("Tools")
#: ``compact`` fits into a conversation; ``full`` is all that is known.
Detail = Literal["compact", "full"]
#: Characters of a text that is given in one answer.
MAX_TEXT = 60_000


def answer(document: Any) -> CallToolResult:
    """A tool's result. ``document``: what msgspec writes as a JSON object."""
    told: dict[str, Any] = msgspec.to_builtins(document, enc_hook=str)
    return CallToolResult(content=[_text(told)], structured_content=told)


def refusal(error: Exception) -> CallToolResult:
    """A result that says why there is none: code, message, family, faults, and what to do where that is known."""
    told = error_document(error)
    advice = advice_for(told["code"])
    document = {"error": {**told, "advice": advice} if advice else told}
    return CallToolResult(content=[_text(document)], structured_content=document, is_error=True)


def told(
    tool: Callable[Concatenate[Tools, P], Awaitable[CallToolResult]],
) -> Callable[Concatenate[Tools, P], Awaitable[CallToolResult]]:
    """A tool whose known errors become refusals; what is not known is a defect, and for the protocol's library to report."""

    @functools.wraps(tool)
    async def guarded(self: Tools, /, *args: P.args, **kwargs: P.kwargs) -> CallToolResult:
        try:
            return await tool(self, *args, **kwargs)
        except Exception as error:
            known = as_known(error)
            if known is None:
                raise
            return refusal(known)

    return guarded


def excerpt(text: str, first_line: int, lines: int) -> dict[str, Any]:
    """Lines of a text from ``first_line`` (from 1) on; ``next_line`` where there are more, ``cut`` where they were too long."""
    every = text.splitlines()
    chosen = every[first_line - 1 : first_line - 1 + lines]
    kept, room = [], MAX_TEXT
    for line in chosen:
        if len(line) > room:
            break
        kept.append(line)
        room -= len(line) + 1
    cut = len(kept) < len(chosen)
    if cut and not kept:  # one line that is longer than an answer may be
        kept = [chosen[0][:MAX_TEXT]]
    following = first_line + len(kept)
    return {
        "first_line": first_line,
        "total_lines": len(every),
        "text": "\n".join(kept),
        "next_line": following if following <= len(every) else None,
        "cut": cut,
    }


def _text(document: dict[str, Any]) -> TextContent:
    return TextContent(type="text", text=msgspec.json.encode(document).decode())
