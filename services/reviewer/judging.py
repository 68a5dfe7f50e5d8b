"""The review as a question and an answer in bytes, for the child process that holds it within its bounds."""

from __future__ import annotations

from itertools import chain, islice

import msgspec

from gatewright.contracts import TaskContract
from gatewright.contracts.reports import Finding
from gatewright.git.changes import TreeChange
from gatewright.services.reviewer.checks import CHECKS
from gatewright.services.reviewer.subject import ChangedFile, Subject

#: What the child is started with.
FUNCTION = "gatewright.services.reviewer.judging:judge"


class _File(msgspec.Struct, array_like=True):
    change: TreeChange
    old: bytes | None
    new: bytes | None


class _Question(msgspec.Struct, array_like=True):
    contract: TaskContract
    files: tuple[_File, ...]
    max_file_bytes: int


_QUESTIONS = msgspec.msgpack.Decoder(_Question)
_ANSWERS = msgspec.msgpack.Decoder(tuple[Finding, ...])


def question_about(subject: Subject) -> bytes:
    """``subject`` as it goes to the child."""
    files = tuple(_File(file.change, file.old, file.new) for file in subject.files)
    return msgspec.msgpack.encode(_Question(subject.contract, files, subject.max_file_bytes))


def findings_in(answer: bytes) -> tuple[Finding, ...]:
    """Return the findings of the child process."""
    return _ANSWERS.decode(answer)


def judge(question: bytes) -> bytes:
    """In the child: the findings of all checks."""
    asked = _QUESTIONS.decode(question)
    files = tuple(ChangedFile(file.change, file.old, file.new) for file in asked.files)
    return msgspec.msgpack.encode(review(Subject(asked.contract, files, asked.max_file_bytes)))


# Runs every check over a candidate. Pure.
#: Findings that a report holds. What blocks comes first, so that the cut never hides a reason to refuse.
MAX_FINDINGS = 500
#: Findings of one check; a hostile patch must not make one of them endless.
_MAX_OF_ONE = 10_000


def review(subject: Subject) -> tuple[Finding, ...]:
    """The findings of all checks, blocking ones first."""
    found = list(chain.from_iterable(islice(check(subject), _MAX_OF_ONE) for check in CHECKS.values()))
    return tuple(sorted(found, key=lambda finding: not finding.blocking)[:MAX_FINDINGS])
