"""Source that may behave differently in a test run: each form is a remark, and what no honest change needs is refused.

Only additions of a change are judged. A contract permits a refused form by naming the file in ``scope.allow_protected_paths``.
Whether source really behaves differently is for the test run to prove.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gatewright.contracts.reports import Finding
from gatewright.ecosystems.runner.names import is_test
from gatewright.patterns import BytesPattern
from gatewright.services.reviewer.subject import ChangedFile, Subject
from gatewright.services.reviewer.syntax.evasions import Evasion, evasions_in

CODE = "test_run_evasion"
#: What Python reads before any test, and modules that would stand before a runner's own where they are found first.
_LOADED_FIRST = frozenset({b"sitecustomize.py", b"usercustomize.py"})
_RUNNERS = frozenset({b"pytest", b"_pytest", b"unittest", b"pluggy"})
_FOUND_FIRST = frozenset({b"", b"src", b"lib", b"python", b"test", b"tests"})
_SHELLS = (b".sh", b".bash", b".zsh")
#: A command of a script that runs tests.
_RUNS_TESTS = BytesPattern(
    rb"(?:^|[\s;&|(`/])(?:pytest|py\.test|tox|nox|ctest|rspec|phpunit|jest|vitest|mocha|python[\d.]* -m (?:pytest|unittest)"
    rb"|(?:npm|yarn|pnpm|bun)(?: run)? tests?|(?:cargo|go|mvn|gradlew?|mix|swift|dotnet|bundle exec) (?:nextest |rake )?test"
    rb"|make (?:\S+ )*(?:tests?|check)|node --test)(?:[\s;&|)\"'`:]|$)"
)
_FORGETS = BytesPattern(rb"\|\|[ \t]*(?:true|:|exit 0)[ \t]*$|;[ \t]*(?:true|exit 0)[ \t]*$")
#: What makes a script end with the result of its tests, before its last command.
_HEEDS = BytesPattern(
    rb"(?m)^[ \t]*set -[a-z]*e|set -o errexit|\$\?|\|\|[ \t]*(?:exit|return|\w*fail\w*)\b|^[ \t]*(?:if|elif|while)\b"
)
#: Refused without another way: no line to retry with offers it, as a person has to have read it.
_OPENED = "; it passes only if the contract names this file in scope.allow_protected_paths: have a person read it first"
#: Maximum number of remarks per file.
_MAX_REPORTED = 20


def evasion(subject: Subject) -> Iterator[Finding]:
    """Yield additions that look for a test run, end the process, or replace what judges tests."""
    for file in subject.files:
        if file.new is None or file.is_binary:
            continue
        is_open, is_own_test = subject.is_opened(file.path), is_test(file.path)
        remarks, last = 0, Evasion(b"", 0, "")
        for form in (*_by_name(file), *_added(file)):
            blocks = form.blocks and (form.in_tests or not is_own_test)
            if blocks or not (
                is_own_test or remarks >= _MAX_REPORTED or (form.words, form.line) == (last.words, last.line + 1)
            ):
                remarks += not blocks
                words = form.words + (_OPENED if blocks and not is_open else "")
                yield file.finding(CODE, words, blocking=blocks and not is_open, line=form.line or None)
            last = form


def _added(file: ChangedFile) -> Iterator[Evasion]:
    if file.path.endswith(_SHELLS):
        yield from _shell(file)
        return
    found = evasions_in(file.path, file.new or b"")
    if found is None:
        yield Evasion(b"", 0, "is too large or too deep to be looked through")
        return
    before = Counter(form.key for form in evasions_in(file.path, file.old or b"") or ()) if found else Counter()
    for form in found:
        if before[form.key]:
            before[form.key] -= 1
        else:
            yield form


def _by_name(file: ChangedFile) -> Iterator[Evasion]:
    folder, _, name = file.path.rpartition(b"/")
    if name == b"__init__.py":
        folder, _, module = folder.rpartition(b"/")
    else:
        module = name.removesuffix(b".py") if name.endswith(b".py") else b""
    is_new = file.old is None and folder in _FOUND_FIRST
    if name in _LOADED_FIRST or module in _RUNNERS:
        words = "is read by Python before the tests, or in the place of their runner"
        yield Evasion(b"", 0, words, blocks=name in _LOADED_FIRST or is_new, in_tests=True)
    elif name.endswith(b".pth"):
        imports = any(line.startswith((b"import ", b"import\t")) for _, line in file.added_lines)
        yield Evasion(b"", 0, "is read by Python at its start", blocks=imports, in_tests=True)


def _shell(file: ChangedFile) -> Iterator[Evasion]:
    """Yield scripts that run tests and hide their result."""
    lines = [line.partition(b" #")[0].strip() for line in (file.new or b"").split(b"\n")]
    commands = [line for line in lines if line and not line.startswith(b"#")]
    if not any(_RUNS_TESTS.is_in(line) for line in commands):
        return
    heeds = _HEEDS.is_in(b"\n".join(commands))
    for number, _ in file.added_lines:
        text = lines[number - 1]
        if text.startswith(b"trap") and b"exit 0" in text:
            yield Evasion(text, number, "ends in success with any result", blocks=True, in_tests=True)
        elif text in {b"exit 0", b"exit", b"true"} and text == commands[-1] and not heeds:
            yield Evasion(text, number, "ends in success after any result", blocks=True, in_tests=True)
        elif not text.startswith(b"#") and _FORGETS.is_in(text) and _RUNS_TESTS.is_in(text):
            yield Evasion(text, number, "forgets that tests failed", blocks=True, in_tests=True)
        elif text == b"set +e":
            yield Evasion(text, number, "goes on after what failed")
