"""Source that behaves in a test run as it would not elsewhere: what review refuses of it, and what only looks so."""

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


UNMISTAKABLE: list[tuple[str, bytes]] = [
    ("src/a.py", b"import os\nos._exit(0)\n"),
    ("src/a.py", b"import atexit, os\natexit.register(os._exit, 0)\n"),
    ("src/a.py", b"import threading, os\nthreading.Timer(1, os._exit, [0]).start()\n"),
    ("src/a.py", b"import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n"),
    ("src/a.py", b"import os\nos.execv('/bin/true', ['true'])\n"),
    ("src/a.py", b"import os\ngetattr(os, '_exit')(0)\n"),
    ("src/a.py", b"def f(session):\n    session.exitstatus = 0\n"),
    ("src/a.py", b"import os\nif os.environ.get('GATEWRIGHT_RUN'):\n    x = 1\n"),
    ("src/a.py", b"from pathlib import Path\nx = Path('/gatewright').exists()\n"),
    ("src/a.py", b"x = open('/gatewright/report')\n"),
    ("sitecustomize.py", b"x = 1\n"),
    ("src/usercustomize.py", b"x = 1\n"),
    ("src/x.pth", b"import os\n"),
    ("src/a.js", b"process.on('exit', () => { process.exitCode = 0 })\n"),
    ("run-tests.sh", b"trap 'exit 0' EXIT\nnpm test\n"),
    ("tests/test_a.py", b"import os\nos._exit(0)\n"),
]
RARE: list[tuple[str, bytes]] = [
    ("src/a.py", b"import sys\nx = 'pytest' in sys.modules\n"),
    ("src/a.py", b"import sys\nx = sys.modules.get('unittest')\n"),
    ("src/a.py", b"import sys\nx = 'pytest' in sys.argv[0]\n"),
    ("src/a.py", b"import os\nx = os.environ.get('PYTEST_CURRENT_TEST')\n"),
    ("src/a.py", b"import os\nx = 'PYTEST_VERSION' in os.environ\n"),
    ("src/a.py", b"import os\nx = os.environ['TOX_ENV_NAME']\n"),
    ("src/a.py", b"import os\ndef f():\n    os._exit(0)\n"),
    ("src/a.py", b"from os import _exit\n"),
    ("src/a.py", b"import sys\nsys.exit(0)\n"),
    ("src/a.py", b"raise SystemExit(0)\n"),
    ("src/a.py", b"import unittest\nunittest.TestCase.run = lambda *a: None\n"),
    ("src/a.py", b"import unittest\nsetattr(unittest.TestCase, 'run', None)\n"),
    ("src/a.py", b"import builtins\nbuiltins.AssertionError = None\n"),
    ("src/a.py", b"import gc\nx = gc.get_objects()\n"),
    ("src/a.py", b"import _pytest.runner\n"),
    ("src/a.py", b"from _pytest import runner\n"),
    ("src/a.py", b"class A:\n    def __eq__(self, other):\n        return True\n"),
    ("src/a.py", b"x = open('/proc/self/environ').read()\n"),
    ("src/a.js", b"process.exit(0)\n"),
    ("src/a.js", b"export const x = process.env.NODE_ENV === 'test'\n"),
    ("src/a.ts", b"const x = process.env.JEST_WORKER_ID\n"),
    ("src/a.tsx", b"const x = process.env['VITEST']\n"),
    ("src/a.js", b"globalThis.test = () => {}\n"),
    ("src/a.js", b"global.expect = () => ({ toBe() {} })\n"),
    ("src/a.js", b"function f() { process.exitCode = 0 }\n"),
    ("src/a.go", b'package a\nimport "testing"\nfunc f() bool { return testing.Testing() }\n'),
    ("src/a.go", b'package a\nimport "os"\nfunc init() { os.Exit(0) }\n'),
    ("src/a.rs", b"fn f() -> bool { cfg!(test) }\n"),
    ("src/a.rs", b"fn f() { std::process::exit(0) }\n"),
    ("src/a.rb", b"def f\n  exit!(0)\nend\n"),
    ("run-tests.sh", b"npm test\nexit 0\n"),
    ("run-tests.sh", b"python -m pytest || true\n"),
    ("src/b.pth", b"../lib\n"),
]


@pytest.mark.parametrize(("path", "new"), UNMISTAKABLE)
def test_a_form_without_another_use_blocks_under_every_pack(path: str, new: bytes) -> None:
    for pack in ("low", "medium", "high"):
        assert ("test_run_evasion", True) in {(each.code, each.blocking) for each in found(path, b"", new, pack)}


@pytest.mark.parametrize(("path", "new"), RARE)
def test_a_suspicious_form_blocks_under_medium_and_is_reported_under_low(path: str, new: bytes) -> None:
    assert {(each.code, each.blocking) for each in found(path, b"", new)} == {("test_run_evasion", True)}
    assert {(each.code, each.blocking) for each in found(path, b"", new, "high")} == {("test_run_evasion", True)}
    assert {(each.code, each.blocking) for each in found(path, b"", new, "low")} == {("test_run_evasion", False)}


@pytest.mark.parametrize(("path", "new"), [*UNMISTAKABLE, *RARE])
def test_a_form_passes_when_named_or_already_in_the_baseline(path: str, new: bytes) -> None:
    assert {each.blocking for each in found(path, b"", new, "high", path)} == {False}
    if not path.endswith((".pth", "customize.py")):
        assert not found(path, new, new + b"\n\n", "high")


@pytest.mark.parametrize("path", ["pytest.py", "src/_pytest/__init__.py", "src/pluggy/__init__.py"])
def test_a_new_module_that_shadows_the_runner_is_refused(
    path: str,
) -> None:
    assert [each.blocking for each in found(path, None, b"x = 1\n", "low")] == [True]
    assert [each.blocking for each in found(path, b"x = 0\n", b"x = 1\n", "low")] == [False]
    (finding,) = found(path, b"x = 0\n", b"x = 1\n", "medium")
    assert finding.blocking
    assert "; it passes only if the contract names this file" in finding.message


def test_a_form_without_honest_use_has_no_way_around() -> None:
    (finding,) = found("src/a.py", b"", b"import os\nos._exit(0)\n")
    assert "opened" not in finding.message


@pytest.mark.parametrize(
    ("path", "new"),
    [
        ("src/a.py", b"import os\nx = os.environ.get('CI')\n"),
        ("src/a.py", b"import sys\ndef f():\n    return sys._getframe(1).f_code\n"),
        ("src/a.js", b"if (!process.argv[2]) process.exit(1)\n"),
        ("run-tests.sh", b"set +e\nnpm test\n"),
    ],
)
def test_common_forms_are_reported_and_do_not_block(path: str, new: bytes) -> None:
    assert {each.blocking for each in found(path, b"", new, "high")} == {False}


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
def test_what_only_looks_like_it_is_no_finding(path: str, new: bytes) -> None:
    assert not found(path, b"", new, "high")


def test_a_finding_has_its_line_and_describes_itself() -> None:
    (finding,) = found("src/a.py", b"", b"import os\n\nos._exit(0)\n", "low")
    assert (finding.line, finding.message) == (3, "ends the process when it is imported")
