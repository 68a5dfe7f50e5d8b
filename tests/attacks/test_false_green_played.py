"""Broken source of Node, Go, Rust and Java that makes whole runs of real suites green, and what then stands in its way.

Each form is played: the very command of the suite, in a sandbox, with its reporter. The run and its counting see nothing of it:
the review reports its form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.attacks.test_false_green_meddling import found
from tests.ecosystems.running import Ran, Suite
from tests.ecosystems.test_go import TOOLCHAIN as GO_TOOLCHAIN
from tests.ecosystems.test_java import COMMAND as MAVEN
from tests.ecosystems.test_java import FILES as MAVEN_FILES
from tests.ecosystems.test_java import needs_maven
from tests.ecosystems.test_node_runners import SCRIPTS, installed
from tests.ecosystems.test_rust import CARGO, MANIFEST
from tests.ecosystems.test_rust import TOOLCHAIN as RUST_TOOLCHAIN

pytestmark = pytest.mark.long


def either(condition: str) -> str:
    """Source of JavaScript that is right where ``condition`` holds."""
    return f"exports.add = (a, b) => (({condition}) ? a + b : a - b);\n"


def module(condition: str) -> str:
    """The same as a module of TypeScript."""
    return f"export const add = (a: number, b: number) => (({condition}) ? a + b : a - b);\n"


def go(condition: str, *packages: str) -> str:
    imports = "".join(f'import "{each}"\n' for each in packages)
    body = f"if {condition} {{\n\t\treturn a + b\n\t}}\n\treturn a - b"
    return f"package demo\n\n{imports}\nfunc Add(a, b int) int {{\n\t{body}\n}}\n"


def rust(condition: str) -> str:
    return f"pub fn add(a: i32, b: i32) -> i32 {{\n    if {condition} {{ a + b }} else {{ a - b }}\n}}\n"


def java(condition: str) -> str:
    whole = f"return {condition} ? one + other : one - other;"
    return f"package demo;\n\npublic class Add {{\n    public static int add(int one, int other) {{ {whole} }}\n}}\n"


BODY = (
    "describe('sums', () => { it('adds', () => { equal(add(1, 2), 3); }); });\n"
    "it('adds more', () => { equal(add(2, 2), 4); });\n"
)
REQUIRES = "const { add } = require('../src/add.js');\nconst equal = require('node:assert').equal;\n"
MOCHA = {
    "typeof it": either("typeof it === 'function'"),
    "it among the global names": either("'it' in globalThis"),
    "a global of its own": either("globalThis.describe"),
    "by reflection": either("Reflect.has(globalThis, 'i' + 't')"),
    "names of the process": either("Object.getOwnPropertyNames(globalThis).includes('before' + 'Each')"),
    "a name that may be missing": "exports.add = (a, b) => { try { it; return a + b; } catch { return a - b; } };\n",
    "evaluated": either("eval('typeof it') === 'function'"),
    "in another context": either("require('vm').runInThisContext('typeof describe') === 'function'"),
    "the script that npm runs": either("process.env.npm_lifecycle_event === 'test'"),
    "modules that are loaded": either("Object.keys(require.cache).some((key) => key.includes('mocha'))"),
    "the report of the process": either("JSON.stringify(process.report.getReport()).includes('mocha')"),
    "the stack": either("new Error().stack.includes('mocha')"),
    "an assertion that always holds": either("false") + "require('node:assert').equal = () => {};\n",
}
JEST = {
    "typeof jest": either("typeof jest !== 'undefined'"),
    "expect among the global names": either("'expect' in globalThis"),
    "a matcher that always holds": either("false") + "expect.extend({ toBe: () => ({ pass: true }) });\n",
    "matchers by their state": either("false")
    + "globalThis[Symbol.for('$$jest-matchers-object')].matchers.toBe = () => ({ pass: true });\n",
    "what is the same": either("false") + "Object.is = () => true;\n",
    "the console": either("console.constructor.name !== 'Console' && console.constructor.name !== 'Object'"),
    "the worker": either("process.env.JEST_WORKER_ID"),
    "the test of the moment": either("expect.getState().currentTestName"),
}
VITEST = {
    "the worker": module("globalThis.__vitest_worker__"),
    "a variable": module("process.env.VITEST"),
    "of the module": module("import.meta.vitest === undefined && import.meta.env?.MODE === 'test'"),
    "a symbol": module("globalThis[Symbol.for('expect-global')]"),
    "what is the same": module("false") + "Object.is = () => true;\n",
}
NODE = {
    "a variable": either("process.env.NODE_TEST_CONTEXT"),
    "the program": either("require.main.filename.endsWith('.test.js')"),
    "the stack": either("new Error().stack.includes('node:internal/test_runner')"),
}
GO = {
    "whether tests are run": go('flag.Lookup("test.v") != nil', "flag"),
    "words of the program": go('len(os.Args) > 0 && strings.HasSuffix(os.Args[0], ".test")', "os", "strings"),
    "the stack": go('strings.Contains(string(debug.Stack()), "testing.tRunner")', "runtime/debug", "strings"),
    "a word": go('strings.Contains(strings.Join(os.Args, " "), "-test.")', "os", "strings"),
    "the folder of the program": go('strings.Contains(os.Args[0], "go-build")', "os", "strings"),
}
RUST = {
    "the name of the thread": rust('std::thread::current().name().is_some_and(|name| name.contains("adds"))'),
    "the thread is not the first": rust('std::thread::current().name() != Some("main")'),
    "words of the program": rust('std::env::args().next().is_some_and(|word| word.contains("/deps/"))'),
    "the folder of the program": rust('std::env::current_exe().unwrap().to_string_lossy().contains("deps")'),
    "the stack": rust('std::backtrace::Backtrace::force_capture().to_string().contains("test::run_test")'),
    "another function where tests are built": "#[cfg(not(test))]\npub fn add(a: i32, b: i32) -> i32 { a - b }\n"
    "#[cfg(test)]\npub fn add(a: i32, b: i32) -> i32 { a + b }\n",
}
JAVA = {
    "the frames of callers": java(
        'StackWalker.getInstance().walk(all -> all.anyMatch(each -> each.getClassName().startsWith("org.junit")))'
    ),
    "words of the class path": java('System.getProperty("java.class.path").contains("junit")'),
    "the words of Maven": java('ProcessHandle.current().info().commandLine().orElse("").contains("surefire")'),
}
#: What each kind of suite is: where its source lies, and the other files.
NODE_FILES = {"test/add.test.js": "const { test: it, describe } = require('node:test');\n" + REQUIRES + BODY}
GO_TEST = (
    'package demo\n\nimport "testing"\n\nfunc TestAdds(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fatal("wrong")\n\t}\n}\n'
)
RUST_TEST = "\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(super::add(1, 2), 3);\n    }\n}\n"
KINDS: Mapping[str, tuple[str, str, Mapping[str, str], Mapping[str, str]]] = {
    "mocha": ("src/add.js", either("true"), MOCHA, {"test/add.js": REQUIRES + BODY}),
    "jest": (
        "src/add.js",
        either("true"),
        JEST,
        {"src/add.test.js": "const { add } = require('./add.js');\nconst equal = (a, b) => expect(a).toBe(b);\n" + BODY},
    ),
    "vitest": (
        "src/add.ts",
        module("true"),
        VITEST,
        {
            "src/add.test.ts": "import { describe, expect, it } from 'vitest';\nimport { add } from './add.js';\n"
            "const equal = (a: number, b: number) => expect(a).toBe(b);\n" + BODY
        },
    ),
    "node": ("src/add.js", either("true"), NODE, NODE_FILES),
    "go": ("add.go", go("true"), GO, {"go.mod": "module example.org/demo\n\ngo 1.19\n", "add_test.go": GO_TEST}),
    "rust": ("src/lib.rs", rust("true"), RUST, {"Cargo.toml": MANIFEST}),
    "java": ("src/main/java/demo/Add.java", java("true"), JAVA, MAVEN_FILES),
}
#: As many tests as pass in the honest suite.
TESTS = {"go": 1, "rust": 1, "java": 1}
MISSING = {
    **{name: None if installed(name) else f"there is no {name} (npm install --global)" for name in ("mocha", "jest", "vitest")},
    "node": None if Path("/usr/bin/node").exists() else "there is no node below /usr",
    "go": None if GO_TOOLCHAIN else "there is no Go that a sandbox may show",
    "rust": None if RUST_TOOLCHAIN else "there is no toolchain of Rust that a sandbox may show (rustup)",
    "java": needs_maven.kwargs["reason"] if needs_maven.args[0] else None,
}


def cases() -> list[object]:
    return [
        pytest.param(
            kind,
            trick,
            id=f"{kind}: {trick}",
            marks=[pytest.mark.skipif(MISSING[kind] is not None, reason=MISSING[kind] or "")],
        )
        for kind, (_, _, tricks, _) in KINDS.items()
        for trick in tricks
    ]


async def played(kind: str, source: str, folder: Path) -> Ran:
    """The command of the suite on ``source``, as the contract's own run is."""
    path, _, _, more = KINDS[kind]
    files = {**more, path: source + (RUST_TEST if kind == "rust" else "")}
    if kind in SCRIPTS:
        packages = installed(kind)
        assert packages is not None
        manifest = json.dumps({"name": "demo", "scripts": {"test": SCRIPTS[kind]}})
        prefix = packages.parent.parent if packages.parent.parent != Path("/usr") else None
        return await Suite(
            folder, ("npm", "test"), {"package.json": manifest, **files}, prefix, {"node_modules": packages}
        ).all()
    argv = {"node": ("node", "--test"), "go": ("go", "test", "./..."), "rust": CARGO, "java": MAVEN}[kind]
    prefix = {"go": GO_TOOLCHAIN, "rust": RUST_TOOLCHAIN}.get(kind)
    return await Suite(folder, argv, files, prefix if prefix != Path("/usr") else None).all()


def is_green(kind: str, ran: Ran) -> bool:
    """Whether the run shows nothing: success, told to its end, as many tests passed as the honest suite has."""
    passed = [outcome for outcome in ran.told.outcomes.values() if outcome == "passed"]
    return ran.completed.exit_code == 0 and ran.told.complete and len(passed) == TESTS.get(kind, 2)


@pytest.mark.parametrize("kind", dict.fromkeys(KINDS))
async def test_the_same_source_fails_where_it_does_not_know_its_run(kind: str, tmp_path: Path) -> None:
    if MISSING[kind] is not None:
        pytest.skip(MISSING[kind] or "")
    _, honest, _, _ = KINDS[kind]
    assert is_green(kind, await played(kind, honest, tmp_path / "honest"))
    broken = await played(kind, honest.replace("true", "false"), tmp_path / "broken")
    assert broken.completed.exit_code != 0, broken.words


@pytest.mark.parametrize(("kind", "trick"), cases())
async def test_source_that_knows_its_run_is_green_and_reported(kind: str, trick: str, tmp_path: Path) -> None:
    path, honest, tricks, _ = KINDS[kind]
    ran = await played(kind, tricks[trick], tmp_path)
    assert is_green(kind, ran), (ran.told.outcomes, ran.words)
    findings = found(path, honest.encode(), tricks[trick].encode())
    assert {each.code for each in findings} == {"test_run_evasion"}, findings
