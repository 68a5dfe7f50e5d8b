"""Server-sent events: the updates of an open page. The id of an event is the stream sequence that it covers.

An event has everything that changed since the page's last update, so that an interruption loses nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import msgspec

from gatewright.app.console.common_look import CommonLook
from gatewright.app.feed.agent_words import AgentWord, AgentWords
from gatewright.contracts.activity import MOMENTARY
from gatewright.view.board import Board
from gatewright.view.filters import BoardFilter
from gatewright.view.resuming import BoardResync, event_id, position_of
from gatewright.view.rows import BoardRow
from gatewright.view.safe_text import visible

#: Minimum seconds between two events of one page, and seconds after which an unchanged page gets a heartbeat.
SHORTEST_PAUSE = 0.25
BEAT = 5.0


class PageStream:
    """The updates of one open page. ``run_id``: the page of that run; else the board with this filter, or the list of needs.

    ``needs``: the fingerprint of the needs on the page. ``words``: the agents' output; ``heard``: the last number of it on
    the page.
    """

    def __init__(
        self,
        look: CommonLook,
        *,
        chosen: BoardFilter | None = None,
        run_id: str = "",
        needs: str = "",
        words: AgentWords | None = None,
        heard: int = 0,
    ) -> None:
        self._look, self._follower = look, look.follower
        self._chosen, self._run_id = chosen, run_id
        self._needs = needs
        self._words, self._heard = words, heard
        self._connected: bool | None = None
        #: By run, the processes that claim its tasks, as last sent to the page.
        self._claimed: Mapping[str, tuple[str, ...]] = {}

    async def run(self, last_event_id: str) -> AsyncGenerator[bytes, None]:
        """Events without end, beginning with what happened after ``last_event_id``."""
        seen = position_of(last_event_id)
        clock, last_update_at = asyncio.get_running_loop().time, -SHORTEST_PAUSE
        while not self._follower.ended:
            revision = self._follower.revision
            if self._connected != self._follower.connected:
                self._connected = self._follower.connected
                yield format_event("state", {"connected": self._connected})
            if self._follower.current:
                found = self._since(*seen) if seen is not None else BoardResync("other_ledger")
                if isinstance(found, BoardResync):
                    yield format_event("resync", {"why": found.why, "at": event_id(self._follower.board)})
                    return
                # Recorded before sending: changes during a slow transfer are sent in the next event.
                seen, position = (self._follower.board.origin, self._follower.board.sequence), event_id(self._follower.board)
                if found is not None:
                    last_update_at = clock()
                    yield format_event("update", found, position)
            try:
                async with asyncio.timeout(BEAT):
                    await self._follower.changed(revision)
                # Send immediately after an idle period; soon after another event, wait and combine.
                await asyncio.sleep(max(0.0, last_update_at + SHORTEST_PAUSE - clock()))
            except TimeoutError:
                yield format_event("beat", {})

    def _since(self, origin: str, sequence: int) -> dict[str, Any] | BoardResync | None:
        """Return the next update; None if nothing changed."""
        board = self._follower.board
        found = self._look.changes(origin, sequence, self._chosen or BoardFilter())
        if isinstance(found, BoardResync):
            return found
        count, needs = self._look.needs()
        anew, self._needs = needs != self._needs, needs
        document: dict[str, Any] = {"needs": count}
        claimed = self._claimed_anew(board)
        if self._chosen is not None:
            sent = {row.run_id for row in found.shown}
            others = (row for row in claimed if row.run_id not in sent and self._chosen.fits(row))
            shown = (*found.shown, *others)
            document["rows"] = [{"id": row.run_id, "stage": row.stage, "html": self._look.drawn(row)} for row in shown]
            document["gone"] = found.gone
            document["counts"] = self._look.counts(self._chosen)
            moved = bool(shown or found.gone)
        elif self._run_id:
            entries = self._words.entries(self._run_id, self._heard) if self._words is not None else ()
            self._heard = entries[-1].number if entries else self._heard
            document["activities"] = [_entry_document(entry) for entry in entries]
            document["refresh"] = any(row.run_id == self._run_id for row in (*found.shown, *claimed))
            moved = bool(entries) or document["refresh"]
        else:
            moved = anew
            document["refresh"] = moved
        return document if moved or anew or sequence != board.sequence else None

    def _claimed_anew(self, board: Board) -> list[BoardRow]:
        """Return rows whose claiming processes changed: claims do not advance the ledger's sequence."""
        claimed = self._look.claimed()
        before, self._claimed = self._claimed, claimed
        if before is claimed:
            return []
        changed = {run_id for run_id in before.keys() | claimed.keys() if before.get(run_id) != claimed.get(run_id)}
        return [board.rows[run_id] for run_id in changed if run_id in board.rows]


def _entry_document(entry: AgentWord) -> dict[str, Any]:
    activity = entry.activity
    task, text = visible(activity.task_id.removeprefix(f"{activity.run_id}.")), visible(activity.text)
    momentary = activity.event in MOMENTARY
    return {"number": entry.number, "task": task, "event": activity.event, "text": text, "momentary": momentary}


def format_event(kind: str, document: Any, position: str = "") -> bytes:
    """Return one event. JSON contains no line end, so that no text can end an event or begin another."""
    head = f"event: {kind}\n" + (f"id: {position}\n" if position else "")
    return head.encode() + b"data: " + msgspec.json.encode(document) + b"\n\n"
