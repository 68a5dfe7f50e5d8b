"""Whether a task may ask people what it cannot tell, and what they have said to what the run asked before."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gatewright.contracts.vocabulary import Document, NonEmpty

#: Of the answers, so many; and characters of each text in one.
MOST_ANSWERS = 16
MOST_ANSWER_WORDS = 2000
_Words = Annotated[str, Meta(max_length=MOST_ANSWER_WORDS)]


class PersonsAnswer(Document):
    """What a person said to a question of the run. ``stands``: they let the guess stand; else they only commented on it."""

    question: _Words
    best_guess: _Words
    person: NonEmpty
    words: _Words = ""
    stands: bool = False


class TaskQuestions(Document):
    """A task that has this may ask, in the file that is reserved for it. Written by the gatekeeper alone."""

    answers: Annotated[tuple[PersonsAnswer, ...], Meta(max_length=MOST_ANSWERS)] = ()
