"""Source that may behave in a test run as it would not elsewhere: what review refuses, reports, and what only looks so."""

from __future__ import annotations

from typing import Literal

import pytest

from gatewright.contracts.reports import Finding
from gatewright.contracts.vocabulary import Scope
from gatewright.services.reviewer.checks.evasion import evasion
from gatewright.services.reviewer.subject import Subject
from tests.factories import make_contract
from tests.reviewer.test_checks import changed

Pack = Literal["low", "medium", "high"]


def found(path: str, old: bytes | None, new: bytes, pack: Pack = "medium", *opened: str) -> list[Finding]:
    contract = make_contract(policy_pack=pack, scope=Scope(allow_protected_paths=opened))
    return list(evasion(Subject(contract, (changed(path, old, new),), 1 << 20)))


BLOCKED: list[tuple[str, bytes]] = [
    ("src/a.py", b"import os\nos._exit(0)\n"),
    ("src/a.py", b"import os\nos.fork()\nos._exit(os.EX_OK)\n"),
    ("src/a.py", b"from os import _exit\n\ndef price():\n    _exit(0)\n"),
    ("src/a.py", b"import atexit, os\natexit.register(os._exit, 0)\n"),
    ("src/a.py", b"import atexit, os\natexit.register(lambda: os._exit(0))\n"),
    ("src/a.py", b"def f(session):\n    session.exitstatus = 0\n"),
    ("src/a.py", b"from pytest import ExitCode\n\ndef f(session):\n    session.exitstatus = ExitCode.OK\n"),
    ("src/a.py", b"import os\nif os.environ.get('GATEWRIGHT_RUN'):\n    x = 1\n"),
    ("src/a.py", b"from pathlib import Path\nx = Path('/gatewright').exists()\n"),
    ("src/a.py", b"x = open('/gatewright/report')\n"),
    ("sitecustomize.py", b"x = 1\n"),
    ("src/usercustomize.py", b"x = 1\n"),
    ("src/x.pth", b"import os\n"),
    ("src/a.js", b"process.on('exit', () => { process.exitCode = 0 })\n"),
    ("src/a.js", b"process.on('exit', () => {\n  flush()\n  process.exitCode = 0\n})\n"),
    ("src/a.js", b"process.once('beforeExit', () => process.exit(0))\n"),
    ("src/a.js", b"exports.a = 1\nprocess.exit(0)\n"),
    ("src/a.go", b'package a\nimport "os"\nfunc init() { os.Exit(0) }\n'),
    ("src/a.rb", b"exit!(0)\n"),
    ("run-tests.sh", b"trap 'exit 0' EXIT\nnpm test\n"),
    ("run-tests.sh", b"npm test\nexit 0\n"),
    ("run-tests.sh", b"python -m pytest || true\n"),
    ("run-tests.sh", b"cargo test; true\n"),
    ("tests/test_a.py", b"import os\nos._exit(0)\n"),
    ("src/a.py", b"import _pytest.main\n_pytest.main.Session.testsfailed = property(int)\n"),
    ("conftest.py", b"def pytest_sessionfinish(session):\n    session.exitstatus = 0\n"),
]
#: Parts of what judges, which tests may replace for a while.
REPLACED: list[tuple[str, bytes]] = [
    ("src/a.py", b"import unittest\nunittest.TestCase.run = lambda *a: None\n"),
    ("src/a.py", b"import unittest\nsetattr(unittest.TestCase, 'run', None)\n"),
    ("src/a.py", b"import unittest.case as case\nsetattr(case.TestCase, name, None)\n"),
    ("src/a.py", b"from unittest import TestCase as Base\nBase.assertAlmostEqual = print\n"),
    ("src/a.py", b"from unittest import mock\nmock.patch('unittest.TestCase.assertEqual').start()\n"),
    ("src/a.py", b"import builtins\nbuiltins.AssertionError = None\n"),
    ("src/a.py", b"import builtins\nbuiltins.abs = lambda number: 0\n"),
    ("src/a.py", b"import _pytest.runner as runner\nrunner.CallInfo.from_call = None\n"),
    ("src/a.py", b"import doctest\ndoctest.OutputChecker.check_output = print\n"),
    ("src/a.py", b"for each in all_modules():\n    each.wasSuccessful = print\n"),
    ("src/a.py", b"import unittest\ndef pytest_configure(): pass\nunittest.TestCase.run = print\n"),
    ("src/a.js", b"require('node:assert').equal = () => {}\n"),
    ("src/a.js", b"const a = require('assert')\nfor (const name in a) a[name] = () => {}\n"),
    ("src/a.js", b"import { strict as assert } from 'assert'\nassert.equal = () => {}\n"),
    ("src/a.js", b"const assert = require('assert')\nObject.defineProperty(assert, 'ok', { value() {} })\n"),
    ("src/a.js", b"globalThis.test = () => {}\n"),
    ("src/a.js", b"global.expect = function () {}\n"),
    ("src/a.js", b"expect.extend({\n  toBe: () => ({ pass: true }),\n})\n"),
    ("src/a.rs", b"macro_rules! assert_eq {\n    () => {};\n}\n"),
    ("src/a.go", b"package a\n\n//go:linkname fail testing.(*common).Fail\nfunc fail()\n"),
    ("A.java", b"package org.junit;\nclass Assert {}\n"),
    ("A.php", b"<?php\nnamespace PHPUnit\\Framework;\n"),
]
REMARKS: list[tuple[str, bytes]] = [
    ("src/a.py", b"import sys\nx = 'pytest' in sys.modules\n"),
    ("src/a.py", b"import os\nx = os.environ.get('CI')\n"),
    ("src/a.py", b"import sys\nsys.exit(0)\n"),
    ("src/a.py", b"import threading, os\nthreading.Timer(1, os._exit, [0]).start()\n"),
    ("src/a.py", b"import os as system\n\ndef price():\n    system._exit(0)\n"),
    ("src/a.py", b"import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n"),
    ("src/a.py", b"import os\nos.execv('/bin/true', ['true'])\n"),
    ("src/a.py", b"import builtins\nbuiltins.print = None\n"),
    ("src/a.py", b"import _pytest.python as p\ndef pytest_configure():\n    p.Function.runtest = print\n"),
    ("src/a.py", b"class A:\n    def __eq__(self, other):\n        return True\n"),
    ("src/a.js", b"export const x = process.env.NODE_ENV === 'test'\n"),
    ("src/a.js", b"global.expect = chai.expect\n"),
    ("src/a.js", b"function f() { process.exitCode = 0 }\n"),
    ("src/a.js", b"process.exit(0)\n"),
    ("src/a.vue", b"<script>\nconst x = process.env.VITEST\n</script>\n"),
    ("src/a.kt", b"val x = Thread.currentThread().getStackTrace()\n"),
    ("src/a.go", b'package a\nimport "testing"\nfunc f() bool { return testing.Testing() }\n'),
    ("src/a.rs", b"fn f() -> bool { cfg!(test) }\n"),
    ("src/b.pth", b"../lib\n"),
    ("src/shop/pytest.py", b"x = 1\n"),
    ("src/a.py", b"x = [" + b"1, " * (1 << 19) + b"]\n"),
    ("check.sh", b"set +e\nnpm test\n"),
]


@pytest.mark.parametrize("pack", ["low", "medium", "high"])
@pytest.mark.parametrize(("path", "new"), BLOCKED + REPLACED)
def test_a_form_that_no_honest_change_needs_blocks(path: str, new: bytes, pack: Pack) -> None:
    blocking = [each for each in found(path, None, new, pack) if each.blocking]
    assert {each.code for each in blocking} == {"test_run_evasion"}
    assert all("; it passes only if the contract names this file" in each.message for each in blocking)


@pytest.mark.parametrize("pack", ["low", "medium", "high"])
@pytest.mark.parametrize(("path", "new"), REMARKS)
def test_a_form_with_honest_uses_is_a_remark(path: str, new: bytes, pack: Pack) -> None:
    assert {(each.code, each.blocking) for each in found(path, b"", new, pack)} == {("test_run_evasion", False)}


@pytest.mark.parametrize(("path", "new"), BLOCKED + REPLACED)
def test_a_form_passes_when_named_or_already_in_the_baseline(path: str, new: bytes) -> None:
    assert {each.blocking for each in found(path, b"", new, "high", path)} == {False}
    if not path.endswith((".pth", "customize.py")):
        assert not found(path, new, new + b"\n\n", "high")


@pytest.mark.parametrize(("path", "new"), [(path, new) for path, new in REPLACED if path.endswith((".py", ".js"))])
def test_tests_may_replace_what_judges(path: str, new: bytes) -> None:
    assert not found(f"tests/{path}", b"", new, "high")


@pytest.mark.parametrize("path", ["pytest.py", "src/_pytest/__init__.py", "src/pluggy/__init__.py", "lib/unittest.py"])
def test_a_new_module_that_shadows_the_runner_is_refused(path: str) -> None:
    assert [each.blocking for each in found(path, None, b"x = 1\n", "low")] == [True]
    assert [each.blocking for each in found(path, b"x = 0\n", b"x = 1\n", "medium")] == [False]


def test_equal_remarks_on_neighbouring_lines_are_one() -> None:
    text = b"".join(b"x%d = frame.f_back\n" % number for number in range(5)) + b"\ny = frame.f_back\n"
    assert [each.line for each in found("src/a.py", b"", text)] == [1, 7]


def test_a_file_has_at_most_twenty_remarks_and_every_refusal() -> None:
    lines = b"x = frame.f_back\n\n" * 30 + b"import os\nos._exit(0)\n"
    findings = found("src/a.py", b"", lines)
    assert [each.blocking for each in findings].count(False) == 20
    assert [each.line for each in findings if each.blocking] == [62]


def test_a_remark_hides_no_refusal_on_its_line() -> None:
    text = b"import os\nx = frame.f_back\nif frame.f_back: os._exit(0)\n"
    assert [(each.line, each.blocking) for each in found("src/a.py", b"", text)] == [(2, False), (3, True)]


@pytest.mark.parametrize(
    ("path", "new"),
    [
        ("src/a.py", b"import sys\n\ndef main() -> int:\n    return 0\n\nif __name__ == '__main__':\n    sys.exit(0)\n"),
        ("src/a.py", b"import sys\n\ndef main():\n    sys.exit(0)\n"),
        ("src/a.py", b"import sys\nsys.exit(main())\n"),
        ("src/a.py", b"import os\nx = os.environ.get('HOME')\n"),
        ("src/a.py", b"import os\n\ndef stop(pid):\n    os.kill(pid, 15)\n"),
        ("src/a.py", b"class A:\n    def __eq__(self, other):\n        return self.x == other.x\n"),
        ("src/a.py", b"x = 'we test with pytest'\n"),
        ("src/a.py", b"# os._exit(0)\nx = 'os._exit(0)'\n"),
        ("src/a.py", b"self.run = run\nx.builtins = 1\n"),
        ("src/a.py", b"import sys\nx = sys.modules[__name__]\ny = sys.modules.get('numpy')\n"),
        ("src/a.py", b"requires = ['pytest', 'tox']\nx = tool == 'pytest'\n"),
        ("src/a.js", b"if (process.env.NODE_ENV !== 'production') warn()\n"),
        ("src/a.js", b"function main() { process.exit(1) }\n"),
        ("src/a.js", b"export const test = x => /a/.test(x)\nwindow.location = 'a'\n"),
        ("src/main.go", b'package main\nimport "os"\nfunc main() { os.Exit(0) }\n'),
        ("src/main.rs", b"fn main() { std::process::exit(0) }\n"),
        ("src/lib.rs", b"#[cfg(test)]\nmod tests {}\n"),
        ("build.sh", b"cp a b\nexit 0\n"),
        ("model.pth", b"\x80\0binary"),
        ("tests/test_a.py", b"import os\n\ndef test_a():\n    os.environ['CI'] = '1'\n    assert 'pytest' in sys.modules\n"),
        ("tests/test_a.py", b"import os\n\ndef test_a():\n    if os.fork() == 0:\n        os._exit(0)\n"),
    ],
)
def test_what_only_looks_like_it_is_not_refused(path: str, new: bytes) -> None:
    assert not any(each.blocking for each in found(path, b"", new, "high"))


def test_a_finding_has_its_line_and_describes_itself() -> None:
    (finding,) = found("src/a.py", b"", b"import os\n\nos._exit(0)\n", "low")
    assert finding.line == 3
    assert finding.message.startswith("ends the process in success when it is loaded; ")
