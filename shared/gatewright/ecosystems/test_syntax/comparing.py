"""Which tests of changed files are as they were: a question and an answer in bytes, for a child process. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from gatewright.ecosystems.test_syntax.reading import tests_in
from gatewright.ecosystems.test_syntax.tests_model import Body

#: What the child is started with.
FUNCTION = "gatewright.ecosystems.test_syntax.comparing:compare"

Versions = dict[str, tuple[bytes | None, bytes | None]]
_Texts = dict[str, frozenset[bytes]]


class ComparedTests(msgspec.Struct, array_like=True):
    """Keys of the tests of one file: with the same text, with another text, and from elsewhere with the same text."""

    kept: set[str] = msgspec.field(default_factory=set)
    changed: set[str] = msgspec.field(default_factory=set)
    moved: set[str] = msgspec.field(default_factory=set)


_QUESTIONS = msgspec.msgpack.Decoder(Versions)
_ANSWERS = msgspec.msgpack.Decoder(dict[str, ComparedTests])


def answer_in(data: bytes) -> dict[str, ComparedTests]:
    """Return the child's result; a file that cannot be read is left out."""
    return _ANSWERS.decode(data)


def compare(question: bytes) -> bytes:
    """In the child."""
    return msgspec.msgpack.encode(compare_tests(_QUESTIONS.decode(question)))


def compare_tests(versions: Mapping[str, tuple[bytes | None, bytes | None]]) -> dict[str, ComparedTests]:
    """Compare the tests of each file on the baseline with those on the candidate; a content of None is no file."""
    texts: dict[str, tuple[_Texts, _Texts]] = {}
    for path, contents in versions.items():
        old, new = (_texts(path, content) for content in contents)
        if old is not None and new is not None:
            texts[path] = (old, new)
    gone = Counter(each for old, new in texts.values() for key in old.keys() - new.keys() for each in old[key])
    found = {}
    for path, (old, new) in texts.items():
        found[path] = compared = ComparedTests()
        for key, its in new.items():
            if key in old:
                (compared.kept if old[key] == its else compared.changed).add(key)
            elif all(gone[each] > 0 for each in its):
                gone.subtract(its)
                compared.moved.add(key)
    return found


def key_of_test(name: str) -> str:
    """Return the name of a test without the marks between its parts, which readers and runners write differently."""
    return "".join(filter(str.isalnum, name))


def _texts(path: str, content: bytes | None) -> _Texts | None:
    """Return the texts of the tests without their names, by key; None if the file cannot be read."""
    tests = tests_in(path.encode(), content) if content is not None else None
    if tests is None:
        return {} if content is None else None
    found: dict[str, frozenset[bytes]] = {}
    for case in tests.cases.values():
        key = key_of_test(case.name)
        found[key] = found.get(key, frozenset()) | {_body_text(case)}
    return found


def _body_text(case: Body) -> bytes:
    return case.text.replace(case.leaf.encode(), b"") if case.leaf else case.text
