"""The mutants of a change, and those of them that are tried: a question and an answer in bytes, for a child process.

The draw depends on its seed alone: who asks again gets the same. Of each line one mutant is drawn before the second of any.
"""

from __future__ import annotations

import hashlib
import time

import msgspec

from gatewright.git.patches.lines import written_lines
from gatewright.services.testrunner.mutation.mutants import Edit, Mutation, mutants_of
from gatewright.syntax_trees import language_of, parse

#: What the child is started with.
FUNCTION = "gatewright.services.testrunner.mutation.drawing:draw"
#: Mutants of all files that are counted.
MOST_IN_ALL = 50_000
#: Seconds of processor time for parsing mutants once more before they are tried: the others are left to the tests.
_PARSING_AGAIN = 2.0
#: Characters of a piece of source that are shown.
_SHOWN = 80


class DrawingRequest(msgspec.Struct, array_like=True):
    """``contents`` are the changed files that may be mutated, by path; ``most`` are drawn."""

    patch: bytes
    contents: dict[str, bytes]
    seed: str
    most: int


class Drawn(msgspec.Struct, array_like=True, frozen=True):
    """One mutant: the file, the bytes and what is put there; where that is, and ``before`` and ``after``, to be shown."""

    path: str
    start: int
    end: int
    new: bytes
    line: int
    column: int
    before: str
    after: str

    def applied(self, content: bytes) -> bytes:
        """The file ``content`` with the mutant in it."""
        return content[: self.start] + self.new + content[self.end :]


class DrawingResult(msgspec.Struct, array_like=True):
    """``possible``: how many mutants the written lines have."""

    possible: int
    drawn: tuple[Drawn, ...]


_QUESTIONS = msgspec.msgpack.Decoder(DrawingRequest)
_ANSWERS = msgspec.msgpack.Decoder(DrawingResult)


def answer_in(data: bytes) -> DrawingResult:
    """Return the child's result."""
    return _ANSWERS.decode(data)


def draw(question: bytes) -> bytes:
    """In the child."""
    return msgspec.msgpack.encode(drawn_for(_QUESTIONS.decode(question)))


def drawn_for(asked: DrawingRequest) -> DrawingResult:
    """The mutants of lines that the patch has written, and the first of them in the order of the draw."""
    lines = written_lines(asked.patch)
    found: list[tuple[str, Mutation]] = []
    for path, content in sorted(asked.contents.items()):
        language = language_of(path.encode())
        written = sorted(lines.get(path, ()))
        root = parse(language, content) if language is not None and written else None
        if language is not None and root is not None and not root.has_error:
            found += ((path, mutant) for mutant in mutants_of(language, content, root, written))
        if len(found) >= MOST_IN_ALL:
            break
    drawn: list[Drawn] = []
    end = time.process_time() + _PARSING_AGAIN
    for path, mutant in _in_order(found, asked.seed):
        if len(drawn) == asked.most:
            break
        content, edit = asked.contents[path], mutant.edit
        place = (mutant.line, mutant.column)
        one = Drawn(path, edit.start, edit.end, edit.new, *place, *_show_edit(content, edit))
        if time.process_time() > end or _parses(path, one.applied(content)):
            drawn.append(one)
    return DrawingResult(len(found), tuple(drawn))


def _in_order(found: list[tuple[str, Mutation]], seed: str) -> list[tuple[str, Mutation]]:
    def digest(each: tuple[str, Mutation]) -> bytes:
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


def _parses(path: str, content: bytes) -> bool:
    language = language_of(path.encode())
    root = parse(language, content) if language is not None else None
    return root is not None and not root.has_error


def _show_edit(content: bytes, edit: Edit) -> tuple[str, str]:
    return _shown_text(content[edit.start : min(edit.end, edit.start + 4 * _SHOWN)]), _shown_text(edit.new) or "(nothing)"


def _shown_text(data: bytes) -> str:
    words = " ".join(data.decode("utf-8", "replace").split())
    return words if len(words) <= _SHOWN else words[: _SHOWN - 3] + "..."
