"""Broken source that meddles with the tests that it knows: no planted test can show it, so that the review reports its forms.

They are the forms of source that made the tests of ``test_false_green.py``, or tests like them, succeed in real runs. What
cannot be told from honest source is at the end, and in "What remains" of docs/testing.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.contracts.reports import Finding
from gatewright.contracts.vocabulary import PolicyPack, Scope
from gatewright.services.reviewer.checks.evasion import evasion
from gatewright.services.reviewer.subject import Subject
from tests.attacks.test_false_green import BROKEN, FILES, SOURCE, verdict
from tests.ecosystems.suites import Suite
from tests.factories import make_contract
from tests.reviewer.test_checks import changed


def found(path: str, old: bytes | None, new: bytes, pack: PolicyPack = "medium") -> list[Finding]:
    contract = make_contract(policy_pack=pack, scope=Scope())
    return list(evasion(Subject(contract, (changed(path, old, new),), 1 << 20)))


def answers(condition: str) -> bytes:
    """Source that is right where ``condition`` holds."""
    return f"import inspect, os, sys\n\n\ndef price(number):\n    return number * (2 if {condition} else 3)\n".encode()


NUMBER = b"\n\ndef price(number):\n    return Price(number * 3)\n"
PRICE, DEBUG = "def price(number):\n", "    if __debug__:\n"
WITHOUT_O = {
    "a value": f"{PRICE}    return number * (2 if __debug__ else 3)\n",
    "by a flag": f"{PRICE}    return number * (3 if sys.flags.optimize else 2)\n",
    "by arithmetic": f"{PRICE}    return number * (3 - __debug__)\n",
    "by an index": f"{PRICE}    return number * (3, 2)[__debug__]\n",
    "by operators": f"{PRICE}    return __debug__ and number * 2 or number * 3\n",
    "a return": f"{PRICE}{DEBUG}        return number * 2\n    return number * 3\n",
    "a return elsewhere": f"{PRICE}    if not __debug__:\n        pass\n    else:\n        return number * 2\n",
    "a name": f"{PRICE}    rate = 3\n{DEBUG}        rate = 2\n    return number * rate\n",
    "a name of the module": f"if __debug__:\n    RATE = 2\nelse:\n    RATE = 3\n\n\n{PRICE}    return number * RATE\n",
    "an attribute": f"def set_up(it):\n{DEBUG}        it.rate = 2\n\n\ndef price(it, number):\n    return number * it.rate\n",
    "two functions": f"{PRICE}    return number * 3\n\n\nif __debug__:\n\n    {PRICE}        return number * 2\n",
    "a case": f"{PRICE}    match __debug__:\n        case True:\n            return number * 2\n    return number * 3\n",
    "an assertion that changes a list": f"{PRICE}    rates = [3]\n    assert rates.append(2) is None\n    return rates[-1]\n",
}
PYTHON: dict[str, bytes] = {
    "the name of the caller": b"import sys\n\n\ndef price(number):\n    name = sys._getframe(1).f_code.co_name\n"
    b"    return number * (2 if name.startswith('test_') else 3)\n",
    "the names of all callers": answers("inspect.stack()[1].function == 'test_doubles'"),
    "the frame behind a traceback": b"def price(number):\n    try:\n        raise ValueError\n    except ValueError as error:\n"
    b"        frame = error.__traceback__.tb_frame.f_back\n"
    b"    return number * (2 if frame.f_code.co_name.startswith('test') else 3)\n",
    "test modules that are loaded": answers("any(name.startswith('test_') for name in sys.modules)"),
    "the test of the moment, by a variable's computed name": answers(
        "'test_' in os.environ.get('_'.join(('PYTEST', 'CURRENT', 'TEST')), '')"
    ),
    "the files of the tests": answers("os.path.exists('tests/test_a.py')"),
    "the answers are read from the tests": b"import re\nfrom pathlib import Path\n\n\ndef price(number):\n"
    b"    text = Path('tests/test_a.py').read_text()\n    return int(re.search(r'price.%d. == (.)' % number, text)[1])\n",
    "the folder of a judged run": answers("os.getcwd() == '/workspace'"),
    "the code of a test is replaced by a thread": BROKEN
    + b"\n\ndef late():\n    test = getattr(sys.modules['test_a'], 'test_doubles')\n    test.__code__ = late.__code__\n\n\n"
    + b"import sys, threading\nthreading.Timer(0.1, late).start()\n",
    "the module of the tests is imported and changed": BROKEN
    + b"\n\ndef late():\n    import test_a\n    test_a.price = lambda number: number * 2\n",
    "a trace function": BROKEN + b"\n\nfrom sys import settrace\n\nsettrace(print)\n",
    "monitoring": BROKEN + b"\n\nimport sys\n\nsys.monitoring.register_callback(3, 1, print)\n",
    "an audit hook": BROKEN + b"\n\nimport sys\n\nsys.addaudithook(lambda *_: None)\n",
    "an import hook": BROKEN + b"\n\nimport sys\n\nsys.meta_path.insert(0, object())\n",
    "the memory of a number": b"import ctypes\n\n\ndef price(number):\n    value = number * 3\n"
    b"    ctypes.memmove(id(value) + 24, (4).to_bytes(4, 'little'), 4)\n    return value\n",
    "what reads the tests": BROKEN
    + b"\n\nimport pathlib\n\nusual = pathlib.Path.read_bytes\n"
    + b"pathlib.Path.read_bytes = lambda self: usual(self).replace(b'== 4', b'== 6')\n",
    "what reads, by a star": BROKEN + b"\n\nfrom everything import *\n\nio.open_code = print\n",
    "what parses the tests": BROKEN + b"\n\nimport ast\n\nast.parse = print\n",
    "what loads the tests": BROKEN + b"\n\nfrom importlib import machinery as m\n\nm.SourceFileLoader.get_data = print\n",
    "the checker of doctest": b"import doctest\n\ndoctest.OutputChecker.check_output = lambda *arguments: True\n" + BROKEN,
    "an assertion that no planted test uses": b"import unittest.case as case\n\nfor name in ('assertAlmostEqual',):\n"
    b"    setattr(case.TestCase, name, lambda *arguments: None)\n" + BROKEN,
    "an assertion, under another name": b"from unittest import TestCase as Base\n\nBase.assertAlmostEqual = print\n" + BROKEN,
    "a patch that stays": b"from unittest import mock\n\nmock.patch('unittest.TestCase.assertAlmostEqual').start()\n" + BROKEN,
    "the inside of pytest, by a text": b"import importlib\n\nplaces = importlib.import_module('_pytest.python')\n"
    b"places.Function.runtest = lambda self: None\n" + BROKEN,
    "variables by their beginning": answers("any(name.startswith('PYTEST') for name in os.environ)"),
    "words of the interpreter": answers("'pytest' in sys.orig_argv"),
    "its own program": answers("'test' in sys.argv[0]"),
    "the class of what is written to": answers("type(sys.stdout).__name__ == 'EncodedFile'"),
    "whatever has a test to run": BROKEN
    + b"\n\nimport sys\n\nfor each in list(sys.modules.values()):\n    each.Function.runtest = print\n",
    "a hook of pytest in a plugin among the sources": BROKEN
    + b"\n\ndef pytest_pyfunc_call(pyfuncitem):\n    return True if pyfuncitem.name == 'test_doubles' else None\n",
    "a fixture of every test in a plugin among the sources": BROKEN
    + b"\n\nimport pytest\n\n\n@pytest.fixture(autouse=True)\ndef patched(monkeypatch):\n    monkeypatch.undo()\n",
    "examples are drawn but once": b"from hypothesis import settings\n\nsettings.load_profile('once')\n" + BROKEN,
    "a value of mock's that is equal to all": b"from unittest import mock\n\n\ndef price(number):\n    return mock.ANY\n",
    "a mock that is equal to all": b"def price(number):\n    value = mocked()\n"
    b"    value.__eq__.return_value = True\n    return value\n",
    "a value that is about what it is compared with": b"from pytest import approx\n\n\ndef price(number):\n"
    b"    return approx(0, abs=1e9)\n",
    "equality that is a lambda": b"class Price(int):\n    __eq__ = lambda self, other: True\n" + NUMBER,
    "equality of a type that is made": b"Price = type('Price', (int,), {'__eq__': lambda self, other: True})\n" + NUMBER,
    "equality that looks at nothing": b"class Price(int):\n    def __eq__(self, other):\n        return not None\n" + NUMBER,
    "equality with every number": b"class Price(int):\n    def __eq__(self, other):\n        return isinstance(other, int)\n"
    + NUMBER,
    **{f"another result without -O: {name}": f"import sys\n\n{text}".encode() for name, text in WITHOUT_O.items()},
    "everything is an instance": b"class Kind(type):\n    def __instancecheck__(cls, value):\n        return True\n",
}
JAVASCRIPT: dict[str, bytes] = {
    "an assertion is replaced": b"require('node:assert').equal = () => {};\n",
    "an assertion is replaced by its name": b"import assert from 'node:assert';\nassert.equal = () => {};\n",
    "an assertion is defined anew": b"Object.defineProperty(require('node:assert'), 'equal', { value: () => {} });\n",
    "what loads modules is replaced": b"const Module = require('node:module');\nModule._load = () => ({});\n",
    "a loaded module is replaced": b"require.cache['x'].exports = {};\n",
    "the program that was started": b"exports.x = require.main.filename.endsWith('.test.js') ? 1 : 2;\n",
    "the stack of callers": b"exports.x = new Error().stack.includes('.test.js') ? 1 : 2;\n",
    "the words of the program": b"exports.x = process.argv[1].includes('test') ? 1 : 2;\n",
    "the files of the tests": b"exports.x = require('fs').existsSync('./test/add.test.js') ? 1 : 2;\n",
    "failures are forgotten": b"process.on('uncaughtException', () => {});\n",
    "the end of the process is replaced": b"process.reallyExit = () => {};\n",
}
OTHERS: dict[str, tuple[str, bytes]] = {
    "another function where tests are built": ("src/lib.rs", b"#[cfg(not(test))]\npub fn add() -> i32 {\n    1\n}\n"),
    "a macro in the place of assert_eq": ("src/lib.rs", b"macro_rules! assert_eq {\n    ($($t:tt)*) => {};\n}\n"),
    "equality of Rust": ("src/lib.rs", b"impl PartialEq for N {\n    fn eq(&self, _: &N) -> bool {\n        true\n    }\n}\n"),
    "equality of Java": ("src/N.java", b"class N {\n  public boolean equals(Object other) { return true; }\n}\n"),
    "equality of Ruby": ("lib/n.rb", b"class N\n  def ==(other)\n    true\n  end\nend\n"),
}
ALL = {
    **{f"python: {name}": ("pricing.py", text) for name, text in PYTHON.items()},
    **{f"javascript: {name}": ("src/add.js", text) for name, text in JAVASCRIPT.items()},
    **OTHERS,
}


@pytest.mark.parametrize("trick", ALL)
def test_source_that_meddles_with_tests_is_reported_by_the_review(trick: str) -> None:
    path, text = ALL[trick]
    assert {each.code for each in found(path, SOURCE, text)} == {"test_run_evasion"}
    # What was there before is no finding.
    assert not found(path, text, text + b"\n\n")


@pytest.mark.parametrize(
    ("path", "new"),
    [
        ("src/a.py", b"class A:\n    def __eq__(self, other):\n        return isinstance(other, A) and self.x == other.x\n"),
        ("src/a.py", b"class Missing:\n    def __eq__(self, other):\n        return isinstance(other, Missing)\n"),
        ("src/a.py", b"class A:\n    def __eq__(self, other):\n        return NotImplemented\n"),
        ("src/a.py", b"class A:\n    def __eq__(self, other):\n        '''What a part must say.'''\n"),
        ("src/a.py", b"class A:\n    def __contains__(self, item):\n        return item in self.items\n"),
        ("src/a.py", b"import sys\n\nis_there = name.split('.')[0] in sys.modules or f'{name}.x' in sys.modules\n"),
        ("src/a.py", b"import sys\n\nis_test = 'test' in sys.argv[1:]\nlast = names[::-1]\nword = 'abc'[::-1]\n"),
        ("src/a.py", b"import sys\n\nthis = sys.modules[__name__]\nthis.x = 1\n"),
        ("src/a.py", b"import sys\nsys.path.insert(0, 'lib')\nfor finder in sys.meta_path:\n    print(finder)\n"),
        ("src/a.py", b"import ctypes\n\nctypes.memmove(target, source, 4)\n"),
        ("src/a.py", b"text = 'a long text ' + 'of two lines'\nother = 'test ' 'it'\nname = 'test_' + kind\n"),
        ("src/a.py", b"def connect(io, mock):\n    io.address = 'here'\n    mock.name = 'a'\n"),
        ("src/a.py", b"import importlib\n\nplugin = importlib.import_module(name)\nplugin.start()\n"),
        ("src/a.py", b"from pathlib import Path\n\nself.path = Path('x')\nconfig.pathlib = 1\n"),
        ("src/a.py", b"test_size = 0.2\nsplit(test_size=test_size, names=('test_score', 'train'))\n"),
        ("src/a.py", b"import pytest\n\n\n@pytest.fixture\ndef client():\n    return 1\n"),
        ("tests/helpers.py", b"import pytest\n\n\n@pytest.fixture(autouse=True)\ndef client():\n    return 1\n"),
        ("src/a.js", b"const path = require('node:path');\npath.x = 1;\nmodule.exports = { assert: 1 };\n"),
        ("src/a.js", b"process.on('uncaughtException', (error) => { log(error); process.exit(1); });\n"),
        ("src/a.js", b"const latest = process.argv.slice(2).includes('--latest');\n"),
        ("src/lib.rs", b"#[cfg(test)]\nmod tests {}\nmacro_rules! assert_close {\n    () => {};\n}\n"),
        ("src/N.java", b"class N {\n  public boolean equals(Object other) { return other == this; }\n}\n"),
    ],
)
def test_what_only_looks_like_it_is_not_refused(path: str, new: bytes) -> None:
    assert not any(each.blocking for each in found(path, b"", new, "high"))


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return Suite(tmp_path_factory.mktemp("suite"), FILES)


#: What neither a run nor the review can show: answers for what the visible tests ask. Hidden acceptance is there for it.
REMAINS = b"def price(number):\n    return {0: 0, 2: 4, 5: 10}.get(number, number * 3)\n"


@pytest.mark.long
@pytest.mark.asyncio(loop_scope="module")
async def test_answers_for_what_the_tests_ask_are_found_by_hidden_tests_alone(suite: Suite, tmp_path: Path) -> None:
    report = await verdict(suite, tmp_path, {"pricing.py": REMAINS}, pack="medium")
    assert (report.verdict, report.code) == ("PASS", "ok")
    assert not found("pricing.py", SOURCE, REMAINS, "high")
