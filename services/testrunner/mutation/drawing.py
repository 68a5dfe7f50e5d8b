"""The mutants of a change, and those of them that are tried: a question and an answer in bytes, for a child process.

The draw depends on its seed alone: who asks again gets the same. Of each line one mutant is drawn before the second of any.
"""

from __future__ import annotations

import hashlib

import msgspec

from gatewright.services.testrunner.mutation.changed_lines import written_lines
from gatewright.services.testrunner.mutation.mutants import Edit, Mutant, mutants_of
from gatewright.syntax_trees import language_of, parse

#: What the child is started with.
FUNCTION = "gatewright.services.testrunner.mutation.drawing:draw"
#: Bytes of a file whose mutants are parsed once more before they are tried: larger ones are left to the tests.
_PARSED_AGAIN = 200_000
#: Characters of a piece of source that are shown.
_SHOWN = 80


class Question(msgspec.Struct, array_like=True):
    """``contents`` are the changed files that may be mutated, by path; ``most`` are drawn."""

    patch: bytes
    contents: dict[str, bytes]
    seed: str
    most: int


class Drawn(msgspec.Struct, array_like=True, frozen=True):
    """One mutant: the whole file ``path`` with it, where it is, and the ``before`` and ``after`` of the piece, to be shown."""

    path: str
    content: bytes
    line: int
    column: int
    before: str
    after: str


class Answer(msgspec.Struct, array_like=True):
    """``possible``: how many mutants the written lines have."""

    possible: int
    drawn: tuple[Drawn, ...]


_QUESTIONS = msgspec.msgpack.Decoder(Question)
_ANSWERS = msgspec.msgpack.Decoder(Answer)


def answer_in(data: bytes) -> Answer:
    """What the child said."""
    return _ANSWERS.decode(data)


def draw(question: bytes) -> bytes:
    """In the child."""
    return msgspec.msgpack.encode(drawn_for(_QUESTIONS.decode(question)))


def drawn_for(asked: Question) -> Answer:
    """The mutants of lines that the patch has written, and the first of them in the order of the draw."""
    lines = written_lines(asked.patch)
    found: list[tuple[str, Mutant]] = []
    for path, content in sorted(asked.contents.items()):
        language = language_of(path.encode())
        written = sorted(lines.get(path, ()))
        root = parse(language, content) if language is not None and written else None
        if language is not None and root is not None and not root.has_error:
            found += ((path, mutant) for mutant in mutants_of(language, content, root, written))
    drawn: list[Drawn] = []
    for path, mutant in _in_order(found, asked.seed):
        if len(drawn) == asked.most:
            break
        content = asked.contents[path]
        changed = mutant.edit.applied(content)
        if _still_parses(path, changed):
            drawn.append(Drawn(path, changed, mutant.line, mutant.column, *_shown(content, mutant.edit)))
    return Answer(len(found), tuple(drawn))


def _in_order(found: list[tuple[str, Mutant]], seed: str) -> list[tuple[str, Mutant]]:
    def digest(each: tuple[str, Mutant]) -> bytes:
        path, mutant = each
        edit = mutant.edit
        return hashlib.sha256(f"{seed}\0{path}\0{edit.start}\0{edit.end}\0".encode() + edit.new).digest()

    ranks: dict[tuple[str, int], int] = {}
    ranked = []
    for each in sorted(found, key=digest):
        line = (each[0], each[1].line)
        ranks[line] = ranks.get(line, 0) + 1
        ranked.append((ranks[line], each))
    return [each for _, each in sorted(ranked, key=lambda one: one[0])]


def _still_parses(path: str, content: bytes) -> bool:
    language = language_of(path.encode())
    if language is None or len(content) > _PARSED_AGAIN:
        return language is not None
    root = parse(language, content)
    return root is not None and not root.has_error


def _shown(content: bytes, edit: Edit) -> tuple[str, str]:
    return _text(content[edit.start : edit.end]), _text(edit.new) or "(nothing)"


def _text(data: bytes) -> str:
    words = " ".join(data[: 4 * _SHOWN].decode("utf-8", "replace").split())
    return words if len(words) <= _SHOWN else words[: _SHOWN - 3] + "..."
