"""Validation of ledger entries: only the next link of a run's chain is accepted among the messages on its subject.

Other messages can arrive there: the server itself sends an answer to any reply subject that a request names. Such foreign
messages are ignored. They cannot replace an entry, make a history unreadable, or block the next entry. A history with a missing
or changed entry is still refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from gatewright.bus.port import SCHEMA_HEADER, Message
from gatewright.contracts import Transition, codec
from gatewright.errors import MalformedError, VerificationError
from gatewright.ledger import chain
from gatewright.ledger.expiry import is_remains
from gatewright.run.state import GENESIS

TRANSITION_SCHEMA = "transition.v1"


@dataclass(frozen=True, slots=True)
class End:
    """End of a history: the number of its last transition, and the number and hash of its last event."""

    number: int = 0
    seq: int = 0
    head: str = GENESIS

    def after(self, transition: Transition) -> End:
        return End(transition.number, transition.events[-1].seq, transition.events[-1].hash)


def next_link(message: Message, run_id: str, end: End) -> Transition | None:
    """Return the transition that ``message`` adds to the history of ``run_id`` after ``end``; None for a foreign message.

    1. A message that is no transition is foreign, unless it is labelled as one: then an entry is damaged.
    2. A transition of another run is foreign.
    3. A number that the history already has is a copy, and foreign.
    4. A number after the next means that entries are missing.
    5. The next one must continue the hash chain; before the last one of an expired run anything may be missing.

    Raises:
        MalformedError: ``ledger_damaged``.
        VerificationError: ``ledger_gap``, ``chain_...``.
    """
    try:
        transition = codec.decode(message.data, Transition)
    except MalformedError as error:  # 1
        if message.headers.get(SCHEMA_HEADER) != TRANSITION_SCHEMA:
            return None
        raise MalformedError(f"{run_id}: message {message.sequence} is damaged: {error}", code="ledger_damaged") from error
    if transition.run_id != run_id or transition.number <= end.number:  # 2, 3
        return None
    remains = is_remains(transition) and transition.number > end.number + 1
    if transition.number != end.number + 1 and not remains:  # 4
        words = f"{run_id}: transition {end.number + 1} is missing before message {message.sequence}"
        raise VerificationError(words, code="ledger_gap")
    if any(record.run_id != run_id for record in transition.events):
        raise VerificationError(f"{run_id}: message {message.sequence} holds events of another run", code="chain_broken")
    last = transition.events[0]
    start = (last.seq - 1, last.prev_hash) if remains else (end.seq, end.head)
    chain.check(transition.events, seq=start[0], head=start[1])  # 5
    return transition
