"""Source that behaves differently in a test run: no test can reveal it, so its forms are refused.

Only additions of a change are judged. Forms without another use block under every pack. Forms with a rare use block under
medium and high, and are reported under low. Common forms are only reported. A contract permits one by naming the file in
``scope.allow_protected_paths``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gatewright.contracts.reports import Finding
from gatewright.ecosystems.runner.names import is_test
from gatewright.services.reviewer.subject import ChangedFile, Subject
from gatewright.services.reviewer.syntax.evasions import evasions_in
from gatewright.services.reviewer.syntax.forms import Doubt, Evasion

CODE = "test_run_evasion"
#: What Python reads before any test, and names that would stand before a runner's own.
_LOADED_FIRST = frozenset({b"sitecustomize.py", b"usercustomize.py"})
_PACKAGES = (b"pytest/__init__.py", b"_pytest/__init__.py", b"unittest/__init__.py", b"pluggy/__init__.py")
_RUNNERS = (b"pytest", b"unittest", b"npm", b"node ", b"make ", b"cargo ", b"go test", b"ctest", b"rspec", b"phpunit", b"test")
_SHELLS = (b".sh", b".bash", b".zsh")
#: Modules that a project may itself be: its own changes are reported like other rare forms.
_OWN = frozenset({b"pytest.py", b"_pytest.py", b"unittest.py", b"pluggy.py"})
#: No line to retry with opens it: a person has to have read it.
_OPENED = "; it passes only if the contract names this file in scope.allow_protected_paths: have a person read it first"
#: Maximum number of reported forms per file.
_MAX_REPORTED = 20


def evasion(subject: Subject) -> Iterator[Finding]:
    """Yield additions that look for a runner, a sandbox or a sentinel, end the process, or patch the test machinery."""
    strict = subject.contract.policy_pack in {"medium", "high"}
    for file in subject.files:
        if file.new is None:
            continue
        opened = subject.is_opened(file.path)
        for form in _added_evasions(file):
            blocks = form.doubt is Doubt.UNMISTAKABLE or (form.doubt is Doubt.RARE and strict)
            words = form.words + (_OPENED if form.doubt is Doubt.RARE and blocks and not opened else "")
            yield file.finding(CODE, words, blocking=blocks and not opened, line=form.line or None)


def _added_evasions(file: ChangedFile) -> Iterator[Evasion]:
    if file.is_binary:
        return
    yield from _by_name(file)
    if file.path.endswith(_SHELLS):
        yield from _shell(file)
        return
    forms = evasions_in(file.path, file.new or b"")
    if forms is None:
        yield Evasion(b"", 0, "is too large or too deep to be looked through", Doubt.RARE)
        return
    if not forms:
        return
    before = Counter(form.key for form in evasions_in(file.path, file.old or b"") or ())
    reported = 0
    for form in forms:
        if before[form.key]:
            before[form.key] -= 1
        # Tests start processes, patch and ask for the environment; what ends the run itself has no use there either.
        elif (not is_test(file.path) or form.doubt is Doubt.UNMISTAKABLE) and reported < _MAX_REPORTED:
            reported += 1
            yield form


def _by_name(file: ChangedFile) -> Iterator[Evasion]:
    *_, name = file.path.split(b"/")
    of_runner = name in _OWN or any(file.path == each or file.path == b"src/" + each for each in _PACKAGES)
    if name in _LOADED_FIRST or of_runner:
        doubt = Doubt.RARE if of_runner and file.old is not None else Doubt.UNMISTAKABLE
        yield Evasion(b"", 0, "is read by Python before the tests, or in the place of their runner", doubt)
    elif name.endswith(b".pth"):
        imports = any(line.startswith((b"import ", b"import\t")) for _, line in file.added_lines)
        yield Evasion(b"", 0, "is read by Python at its start", Doubt.UNMISTAKABLE if imports else Doubt.RARE)


def _shell(file: ChangedFile) -> Iterator[Evasion]:
    """Yield scripts that run tests and hide their result."""
    content = file.new or b""
    if not any(runner in content for runner in _RUNNERS):
        return
    last = next((line.strip() for line in reversed(content.split(b"\n")) if line.strip()), b"")
    for number, line in file.added_lines:
        text = line.strip()
        if text.startswith(b"#"):
            continue
        if text.startswith(b"trap") and b"exit 0" in text:
            yield Evasion(text, number, "ends in success with any result", Doubt.UNMISTAKABLE)
        elif text in {b"exit 0", b"exit", b"true"} and text == last:
            yield Evasion(text, number, "ends in success after any result", Doubt.RARE)
        elif text.endswith((b"|| true", b"|| :", b"; true", b"|| exit 0")) and any(runner in text for runner in _RUNNERS):
            yield Evasion(text, number, "forgets that tests failed", Doubt.RARE)
        elif text == b"set +e":
            yield Evasion(text, number, "goes on after what failed", Doubt.COMMON)
