"""What the children of the tests are asked: to answer, to take forever, to eat memory, to break."""

from __future__ import annotations

import os


def shout(question: bytes) -> bytes:
    return question.upper()


def who(question: bytes) -> bytes:
    return f"{os.getpid()} {sorted(os.environ)}".encode()


def forever(question: bytes) -> bytes:
    while question != b"answer":
        pass
    return question


def devour(question: bytes) -> bytes:
    return bytes(int(question))


def break_down(question: bytes) -> bytes:
    raise ValueError(question)


def chatter(question: bytes) -> bytes:
    print("no answer")  # noqa: T201 - a child that prints must not be taken at its word
    return question
