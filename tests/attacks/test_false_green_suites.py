"""Broken source that meddles with the tests of jest, vitest, ``go test`` or JUnit: the review refuses its forms."""

from __future__ import annotations

import pytest

from tests.attacks.test_false_green_meddling import found

JAVASCRIPT = {
    "a matcher of jest is replaced": "expect.extend({ toBe: () => ({ pass: true }) });",
    "a matcher is replaced in the state of expect": "globalThis[Symbol.for('$$jest-matchers-object')].matchers.toBe = () => 1;",
    "a value that is equal to all": "exports.add = () => ({ asymmetricMatch: () => true });",
    "a value of expect that is equal to all": "exports.add = () => expect.anything();",
    "the name of the test of the moment": "exports.add = (a, b) => expect.getState().currentTestName ? a + b : a - b;",
    "whether jest is there": "exports.add = (a, b) => typeof jest !== 'undefined' ? a + b : a - b;",
    "whether a suite can be described": "exports.add = (a, b) => typeof describe === 'function' ? a + b : a - b;",
    "the worker of vitest": "exports.add = (a, b) => globalThis.__vitest_worker__ ? a + b : a - b;",
    "mocha among the modules that are loaded": "exports.a = Object.keys(require.cache).some((k) => k.includes('mocha'));",
    "the state of expect in vitest": "exports.a = globalThis[Symbol.for('expect-global')];",
    "the inside of mocha": "require('mocha/lib/runnable').prototype.run = (done) => done();",
    "a plugin of chai": "require('x'); chai.use((all) => all.Assertion.overwriteMethod('equal', () => () => {}));",
    "what is the same": "Object.is = () => true;",
    "tests that are skipped by a source": "beforeEach(function () { this.skip(); });",
}
GO = {
    "a flag of the test binary is set": 'import "flag"\nfunc init() { flag.Set("test.run", "^$") }',
    "words are added to the test binary": 'import "os"\nfunc init() { os.Args = append(os.Args, "-test.run=^$") }',
    "a function of testing by its link": 'import _ "unsafe"\n//go:linkname fail testing.(*common).Fail\nfunc fail()',
    "the stack of callers": 'func a() bool { return strings.Contains(string(debug.Stack()), "testing.tRunner") }',
    "another program": 'import "syscall"\nfunc init() { syscall.Exec("/bin/true", nil, nil) }',
}
JAVA = {
    "the frames of callers": 'class A { boolean a(StackTraceElement e) { return e.getClassName().endsWith("AddTest"); } }',
    "a property of Surefire": 'class A { Object a() { return System.getProperty("surefire.test.class.path"); } }',
    "a test beside the class": 'class A { Object a() { return A.class.getResource("/demo/AddTest.class"); } }',
    "a test is given up by what it tests": "class A { int a() { throw new org.opentest4j.TestAbortedException(); } }",
    "an assumption in a source": "class A { void a() { org.junit.Assume.assumeTrue(false); } }",
    "a class in the place of JUnit's": "package org.junit;\nclass Assert { static void assertEquals(Object a, Object b) {} }",
}
ALL = {
    **{f"javascript: {name}": ("src/add.js", text) for name, text in JAVASCRIPT.items()},
    **{f"go: {name}": ("add.go", "package add\n\n" + text) for name, text in GO.items()},
    **{f"java: {name}": ("src/main/java/A.java", text) for name, text in JAVA.items()},
}
HONEST = {
    "a polyfill": ("src/a.js", "Promise.prototype.always = function (f) { return this.then(f, f); };"),
    "modules that are loaded": ("src/a.js", "for (const key of Object.keys(require.cache)) print(key);"),
    "a variable named it": ("src/a.js", "const kind = typeof it === 'function';"),
    "the same or not": ("src/a.js", "const same = Object.is(one, other) === true;"),
    "a matcher in a test": ("test/add.test.js", "expect.extend({ toBeNear: (a) => ({ pass: a < 1 }) });"),
    "flags of its own": ("a.go", 'package a\n\nfunc init() { flag.Set("logtostderr", "true"); os.Args = os.Args[1:] }'),
    "a link into the runtime": ("a.go", "package a\n\n//go:linkname nanotime runtime.nanotime\nfunc nanotime() int64"),
    "the end of a name": ("A.java", 'class A { boolean a(String name) { return name.endsWith("Test"); } }'),
    "a resource": ("A.java", 'class A { Object a() { return A.class.getResource("/words.txt"); } }'),
}


@pytest.mark.parametrize("trick", ALL)
def test_source_that_meddles_with_a_suite_is_refused_by_the_review(trick: str) -> None:
    path, text = ALL[trick]
    new = text.encode() + b"\n"
    assert {each.code for each in found(path, b"", new) if each.blocking} == {"test_run_evasion"}
    # Under low it is said, and what was there before is no finding.
    assert found(path, b"", new, "low")
    assert not any(each.blocking for each in found(path, b"", new, "low"))
    assert not found(path, new, new + b"\n")


@pytest.mark.parametrize("honest", HONEST)
def test_what_only_looks_like_it_is_no_finding(honest: str) -> None:
    path, text = HONEST[honest]
    assert not found(path, b"", text.encode() + b"\n", "high")
