"""Tests that prove less than before: lost, skipped, or left with fewer checks that can fail. By their syntax trees.

A test that moved to another file of the change, got another name, was split or became a row of parameters is not lost. What has
no grammar, or did not parse before, is counted by patterns; a test file that does not parse any more is a finding.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from gatewright.contracts.reports import Finding
from gatewright.ecosystems.runner.names import has_test_name, is_test
from gatewright.ecosystems.test_syntax.reading import tests_in
from gatewright.ecosystems.test_syntax.tests_model import Body, FileTests
from gatewright.patterns import BytesPattern
from gatewright.services.reviewer.subject import ChangedFile, Subject

CODE = "tests_weakened"
_NOTHING = FileTests()
#: Lost tests of one file that are named.
_MOST_NAMED = 20
_INLINE = {b".rs": (b"test", b"#["), b".py": (b">>> ",)}


@dataclass(frozen=True)
class _Read:
    """One changed file, with the tests that it held and holds; None where they cannot be read."""

    file: ChangedFile
    old: FileTests | None
    new: FileTests | None

    @property
    def came(self) -> list[Body]:
        """Tests that this file did not hold before."""
        before = self.old.cases if self.old is not None else {}
        return [case for name, case in self.new.cases.items() if name not in before] if self.new is not None else []


def weakened_tests(subject: Subject) -> Iterator[Finding]:
    """Blocking unless the contract opens the path; doctests block only where a command of the contract runs them."""
    arrived = {each.change.new_id: each.path for each in subject.files if each.change.status == "A" and is_test(each.path)}
    read = [_read_tests(file) for file in subject.files if is_test(file.path) or _holds_tests(file)]
    places = _Places([each for each in read if each.new is not None])
    runs_doctests = any("doctest" in test.cmd for test in subject.contract.acceptance_tests)
    for each in read:
        file = each.file
        blocking = not subject.is_opened(file.path)
        if file.old is None:
            yield from _hooks(file, _NOTHING, each.new or _NOTHING, blocking=blocking)
        elif file.new is None:
            yield from _deleted_tests(each, arrived, places, blocking=blocking)
        elif each.old is not None and each.new is not None:
            yield from _hooks(file, each.old, each.new, blocking=blocking)
            yield from _cases(file, each.old, each.new, places, blocking=blocking)
            yield from _examples(file, each.old, each.new, blocking=blocking and runs_doctests)
        elif each.old is not None:
            yield file.finding(CODE, "tests that parsed before do not parse any more", blocking=blocking)
        elif is_test(file.path):
            for words in counted_losses(file.old, file.new):
                yield file.finding(CODE, words, blocking=blocking)


def _holds_tests(file: ChangedFile) -> bool:
    """Whether a file of the product may hold tests inside: doctests, or Rust's."""
    marks = next((marks for ending, marks in _INLINE.items() if file.path.endswith(ending)), ())
    return bool(marks) and all(mark in (file.old or b"") for mark in marks)


def _read_tests(file: ChangedFile) -> _Read:
    old, new = (tests_in(file.path, content) if content is not None else None for content in (file.old, file.new))
    return _Read(file, old, new)


class _Places:
    """Where a test that is gone from its file may have gone: each new test, and each new row, takes one."""

    def __init__(self, read: list[_Read]) -> None:
        self._same: defaultdict[bytes, list[tuple[bytes, Body]]] = defaultdict(list)
        self._named: defaultdict[str, list[tuple[bytes, Body]]] = defaultdict(list)
        self._in: defaultdict[bytes, list[Body]] = defaultdict(list)
        self._rows: Counter[bytes] = Counter()
        self._taken: set[int] = set()
        for each in read:
            path = each.file.path
            for case in each.came:
                self._same[case.text].append((path, case))
                self._named[case.leaf].append((path, case))
                self._in[path].append(case)
            old = each.old.cases if each.old is not None else {}
            for name, case in (each.new.cases if each.new is not None else {}).items():
                self._rows[path] += max(case.rows - (old[name].rows if name in old else 1), 0)
            self._in[path].sort(key=lambda case: case.checks)

    def take(self, path: bytes, lost: Body) -> bool:
        """Return whether ``lost`` of the file at ``path`` still exists elsewhere or under another name."""
        found = self._first_place(path, self._same[lost.text], lost) or self._first_place(path, self._named[lost.leaf], lost)
        if found is None:
            while self._in[path] and id(self._in[path][-1]) in self._taken:
                self._in[path].pop()
            if self._in[path] and _is_as_good(self._in[path][-1], lost):
                found = self._in[path].pop()
        if found is not None:
            self._taken.add(id(found))
            return True
        if self._rows[path]:
            self._rows[path] -= 1
            return True
        return False

    def take_checks(self, path: bytes, wanted: int) -> bool:
        """Return whether new tests of the file have ``wanted`` checks that an old one lost: it was split."""
        free = [case for case in self._in[path][-_MOST_NAMED:] if id(case) not in self._taken and not case.skipped]
        if sum(case.checks for case in free) < wanted:
            return False
        for case in reversed(free):
            if wanted > 0:
                self._taken.add(id(case))
                wanted -= case.checks
        return True

    def _first_place(self, path: bytes, places: list[tuple[bytes, Body]], lost: Body) -> Body | None:
        while places:
            place, case = places[-1]
            if id(case) in self._taken:
                places.pop()
                continue
            kept = has_test_name(place) or not has_test_name(path)
            return places.pop()[1] if kept and _is_as_good(case, lost) else None
        return None


def _is_as_good(case: Body, lost: Body) -> bool:
    return case.checks >= lost.checks and (lost.skipped or not case.skipped) and (case.steps > 0 or not lost.steps)


def _deleted_tests(each: _Read, arrived: dict[str, bytes], places: _Places, *, blocking: bool) -> Iterator[Finding]:
    file = each.file
    if file.old is None or not is_test(file.path):
        lost = [case for case in (each.old.cases if each.old is not None else {}).values() if not places.take(file.path, case)]
        if lost:
            yield file.finding(CODE, f"{_name_tests(lost)} lost with the file", blocking=blocking)
        return
    place = arrived.get(file.change.old_id)
    if place is not None and (has_test_name(place) or not has_test_name(file.path)):
        return
    if each.old is not None and each.old.cases:
        lost = [case for case in each.old.cases.values() if not places.take(file.path, case)]
        if lost:
            yield file.finding(CODE, f"a test file is deleted: {_name_tests(lost)} lost", blocking=blocking)
    else:
        yield file.finding(CODE, "a test file is deleted", blocking=blocking)


def _name_tests(lost: list[Body]) -> str:
    names = ", ".join(case.name[:100] for case in lost[:3])
    return f"{len(lost)} test(s) ({names}{', ...' if len(lost) > 3 else ''}) are"


def _cases(file: ChangedFile, old: FileTests, new: FileTests, places: _Places, *, blocking: bool) -> Iterator[Finding]:
    gone = sorted((case for name, case in old.cases.items() if name not in new.cases), key=lambda case: -case.checks)
    lost = [case for case in gone if not places.take(file.path, case)]
    for case in lost[:_MOST_NAMED]:
        yield file.finding(CODE, f"{case.name[:200]} is not a test that runs any more", blocking=blocking)
    if len(lost) > _MOST_NAMED:
        yield file.finding(CODE, f"{len(lost) - _MOST_NAMED} more tests do not run any more", blocking=blocking)
    for name, before in old.cases.items():
        after = new.cases.get(name)
        if after is None:
            continue
        for words in _losses(file.path, before, after, places):
            yield file.finding(CODE, f"{name[:200]} {words}", blocking=blocking, line=after.line)


def _losses(path: bytes, before: Body, after: Body, places: _Places) -> Iterator[str]:
    if after.skipped and not before.skipped:
        yield "is skipped, or expected to fail"
    missing = before.checks - after.checks
    if missing > 0 and not places.take_checks(path, missing):
        yield f"checks less: {missing} of {before.checks} checks are gone, or cannot fail any more"
    elif before.steps and not after.steps:
        yield "does nothing any more"
    if after.rows < before.rows:
        yield f"runs for {after.rows} rows of parameters, not {before.rows}"


def _hooks(file: ChangedFile, old: FileTests, new: FileTests, *, blocking: bool) -> Iterator[Finding]:
    for name, (line, text) in new.hooks.items():
        if name not in old.hooks or old.hooks[name][1] != text:
            words = "the rest is not run" if name == "only" else "decides which tests are run, or whether they failed"
            yield file.finding(CODE, f"{name} {words}", blocking=blocking, line=line)


def _examples(file: ChangedFile, old: FileTests, new: FileTests, *, blocking: bool) -> Iterator[Finding]:
    for name, count in old.examples.items():
        left = new.examples.get(name, 0)
        if left < count and (not name or name in new.names):
            yield file.finding(CODE, f"{name or 'the module'} has {left} examples that run, not {count}", blocking=blocking)


# Tests counted by patterns, for a language without a grammar.
_CASES = BytesPattern(
    rb"(?m)^[ \t]*(?:async[ \t]+)?def[ \t]+test\w*|^[ \t]*(?:it|test|specify)(?:\.each\b.*?)?[ \t]*\(|^func[ \t]+Test\w*"
    rb"|^[ \t]*@(?:Parameterized)?Test\b|^[ \t]*#\[(?:\w+::)?test\b|^[ \t]*\[(?:Test|Fact|Theory)\b"
    rb"|^[ \t]*(?:static[ \t]+)?void[ \t]+test\w*[ \t]*\("
    rb"|^[ \t]*(?:START_TEST|TEST(?:_F|_P|_CASE)?|SCENARIO|BOOST_\w*TEST_CASE)[ \t]*\("
)
_ASSERTIONS = BytesPattern(
    rb"\bassert\w*|\bexpect[ \t]*\(|\bpytest\.(?:raises|warns)\b|\.should\b|\brequire\.\w+\(|\bt\.(?:Error|Fatal)f?\b"
    rb"|\b(?:EXPECT_|ASSERT_|REQUIRE|CHECK|TEST_ASSERT|BOOST_(?:CHECK|REQUIRE|TEST)|CU_ASSERT|ck_assert|g_assert)\w*[ \t]*\("
)
_SKIPS = BytesPattern(
    rb"\bmark\.(?:skip|skipif|xfail)\b|\bpytest\.(?:skip|xfail|importorskip)\b|\bunittest\.(?:skip\w*|expectedFailure)\b"
    rb"|@skip\w*|\b(?:it|test|describe)\.(?:skip|todo|fixme)\b|\bx(?:it|describe|test)[ \t]*\(|@(?:Disabled|Ignore)\b"
    rb"|#\[ignore\b|\bt\.Skip\w*\(|\.skipTest\(|\bGTEST_SKIP\b|\bDISABLED_\w|\bTEST_IGNORE\w*\(|(?m:^[ \t]*#[ \t]*if[ \t]+0\b)"
)


@dataclass(frozen=True, slots=True)
class _Strength:
    """How much a file seems to prove."""

    cases: int
    assertions: int
    skips: int


def counted_losses(old: bytes, new: bytes) -> Iterator[str]:
    """Yield as text what ``new`` seems to prove less than ``old``. Crude: for files that cannot be parsed."""
    before, after = _strength(old), _strength(new)
    if after.cases < before.cases:
        yield f"{before.cases} test cases became {after.cases}"
    if after.assertions < before.assertions:
        yield f"{before.assertions} assertions became {after.assertions}"
    if after.skips > before.skips:
        yield f"{after.skips - before.skips} more case(s) are skipped or expected to fail"


def _strength(content: bytes) -> _Strength:
    return _Strength(*(pattern.count(content) for pattern in (_CASES, _ASSERTIONS, _SKIPS)))
