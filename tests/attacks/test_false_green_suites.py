"""Broken source that meddles with the tests of jest, vitest, ``go test`` or JUnit: the review reports its forms."""

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
    "whether a test can be written": "exports.add = (a, b) => typeof it === 'function' ? a + b : a - b;",
    "and another it beside": "const a = (it) => it;\nexports.add = (a, b) => typeof it === 'function' ? a + b : a - b;",
    "and it before": "exports.add = (a, b) => (it && typeof it === 'function' ? a + b : a - b);",
    "expect from jest": "const { expect } = require('@jest/globals');\nexports.add = () => expect.anything();",
    "another expect beside": "const a = (expect) => expect;\nexports.add = () => expect.anything();",
    "the worker of vitest": "exports.add = (a, b) => globalThis.__vitest_worker__ ? a + b : a - b;",
    "mocha among the modules that are loaded": "exports.a = Object.keys(require.cache).some((k) => k.includes('mocha'));",
    "the state of expect in vitest": "exports.a = globalThis[Symbol.for('expect-global')];",
    "the inside of mocha": "require('mocha/lib/runnable').prototype.run = (done) => done();",
    "a plugin of chai": "require('x'); chai.use((all) => all.Assertion.overwriteMethod('equal', () => () => {}));",
    "what is the same": "Object.is = () => true;",
    "tests that are skipped by a source": "beforeEach(function () { this.skip(); });",
}
MORE_JAVASCRIPT = {
    "a name among all": "exports.add = (a, b) => ('describe' in globalThis ? a + b : a - b);",
    "a name of the process": "exports.add = (a, b) => (globalThis['it'] ? a + b : a - b);",
    "names by reflection": "exports.add = (a, b) => (Reflect.has(globalThis, name) ? a + b : a - b);",
    "all names": "exports.a = Object.getOwnPropertyNames(globalThis).length;",
    "a name that may be missing": "exports.a = () => { try { it; return 1; } catch { return 2; } };",
    "what is evaluated": "exports.a = new Function('return typeof it')();",
    "what is evaluated elsewhere": "exports.a = require('vm').runInThisContext('typeof it');",
    "the script that npm runs": "exports.a = process.env.npm_lifecycle_event === 'test';",
    "words of the program that node has": "exports.a = process.execArgv.includes('--test');",
    "who is required": "exports.a = require.main.children.length;",
    "the report of the process": "exports.a = process.report.getReport().javascriptStack;",
    "the stack, written anew": "Error.prepareStackTrace = (e, all) => all.some((f) => f.getFileName().endsWith('.test.js'));",
    "the stack": "exports.a = new Error().stack.includes('mocha');",
    "the console": "exports.a = console.constructor.name === 'CustomConsole';",
    "the debugger": "const { Session } = require('node:inspector');",
    "what is equal": "require('node:util').isDeepStrictEqual = () => true;",
    "the class of expectations": "Object.getPrototypeOf(expect(1)).toBe = () => {};",
    "what a number is": "Number.prototype.valueOf = () => 3;",
    "what waits": "Promise.prototype.then = function () { return this; };",
    "the process is killed": "process.kill(process.pid, 'SIGKILL');",
}
RUST = {
    "the name of the thread": 'if std::thread::current().name().is_some_and(|n| n.contains("adds")) {}',
    "the first thread": 'if std::thread::current().name() != Some("main") {}',
    "words of the program": 'if std::env::args().any(|word| word == "--nocapture") {}',
    "the folder of the program": 'if std::env::current_exe().unwrap().to_string_lossy().contains("deps") {}',
    "the stack": 'if std::backtrace::Backtrace::force_capture().to_string().contains("test::run") {}',
}
GO = {
    "a flag of the test binary is set": 'import "flag"\nfunc init() { flag.Set("test.run", "^$") }',
    "words are added to the test binary": 'import "os"\nfunc init() { os.Args = append(os.Args, "-test.run=^$") }',
    "a function of testing by its link": 'import _ "unsafe"\n//go:linkname fail testing.(*common).Fail\nfunc fail()',
    "the stack of callers": 'func a() bool { return strings.Contains(string(debug.Stack()), "testing.tRunner") }',
    "another program": 'import "syscall"\nfunc init() { syscall.Exec("/bin/true", nil, nil) }',
}
MORE_GO = {
    "the ending of the program": 'func a() bool { return filepath.Ext(os.Args[0]) == ".test" }',
    "the functions that call": "func a() bool { p, _, _, _ := runtime.Caller(1)\n"
    'return strings.Contains(runtime.FuncForPC(p).Name(), "Test") }',
    "the files that call": 'func a() bool { _, f, _, _ := runtime.Caller(1); return strings.HasSuffix(f, "_test.go") }',
    "the folder of the program": 'func a() bool { p, _ := os.Executable(); return strings.Contains(p, "go-build") }',
    "the file of the tests": 'func a() bool { _, e := os.Stat("add_test.go"); return e == nil }',
    "a word of the program": 'func a(word string) bool { return strings.HasPrefix(word, "-test.") }',
    "all flags": 'func a() { flag.VisitAll(func(f *flag.Flag) { b = b || strings.HasPrefix(f.Name, "test.") }) }',
    "the stack of this one": 'func a(s []byte) bool { return bytes.Contains(s, []byte("testing.tRunner")) }',
    "equality": "type N int\n\nfunc (N) Equal(other any) bool { return true }",
}
RUBY = {
    "an assertion of minitest": "module Minitest::Assertions\n  def assert_equal(*) = true\nend",
    "the run of a test": "Minitest::Test.prepend(Module.new { def run; super.tap { |r| r.failures.clear }; end })",
    "hooks of RSpec": "RSpec.configure { |c| c.around { |e| } }",
    "equality of numbers": "class Integer\n  def ==(other) = true\nend",
    "files that call": "def add(a, b)\n  caller.any? { |c| c =~ /_spec|test_/ } ? a + b : a - b\nend",
    "places that call": "def add(a, b)\n  caller_locations(1, 1).first.path.match?(/spec|test/) ? a + b : a - b\nend",
    "the name of the program": "def add(a, b)\n  $PROGRAM_NAME.match?(/rspec|rake|test/) ? a + b : a - b\nend",
    "the name of the program, short": "def add(a, b)\n  $0.include?('rspec') ? a + b : a - b\nend",
    "what is loaded": "def add(a, b)\n  $LOADED_FEATURES.any? { |f| f.include?('minitest') } ? a + b : a - b\nend",
    "what is defined": "def add(a, b)\n  Object.constants.grep(/spec|minitest/i).any? ? a + b : a - b\nend",
    "what is defined, computed": "def add(a, b)\n  Object.const_defined?('RS' + 'pec') ? a + b : a - b\nend",
    "all classes": "def add(a, b)\n  ObjectSpace.each_object(Class).any? { |c| c.name.end_with?('Test') } ? a + b : a - b\nend",
    "words of the environment": "def add(a, b)\n  ENV['SPEC_OPTS'] || ENV.key?('RUBYLIB') ? a + b : a - b\nend",
    "what is raised": "TracePoint.trace(:raise) { |t| t.binding }",
    "the file of the tests": "def add(a, b)\n  File.exist?('spec/add_spec.rb') ? a + b : a - b\nend",
    "the process is ended": "def add(a, b)\n  exit!(true)\nend",
}
PHP = {
    "classes that call": "return str_contains(json_encode(array_column(debug_backtrace(), 'class')), 'Test');",
    "the words of the program": "return str_contains($_SERVER['argv'][0], 'phpunit');",
    "files that are loaded": "return (bool) preg_grep('/Test\\.php$/', get_included_files());",
    "classes that are there": "return (bool) preg_grep('/Test$/', get_declared_classes());",
    "the file of the tests": "return file_exists(__DIR__ . '/../tests/AddTest.php');",
    "a test is skipped": "\\PHPUnit\\Framework\\Assert::markTestSkipped('x');",
    "a test is skipped by what is thrown": "throw new \\PHPUnit\\Framework\\SkippedWithMessageException('x');",
    "what reads the tests": "stream_wrapper_unregister('file');",
    "another program": "pcntl_exec('/bin/true');",
}
JAVA = {
    "the frames of callers": 'class A { boolean a(StackTraceElement e) { return e.getClassName().endsWith("AddTest"); } }',
    "a property of Surefire": 'class A { Object a() { return System.getProperty("surefire.test.class.path"); } }',
    "a test is given up by what it tests": "class A { int a() { throw new org.opentest4j.TestAbortedException(); } }",
    "a class by a name in pieces": 'class A { Object a() throws Exception { return Class.forName("org.ju" + "nit.Test"); } }',
    "the class path": 'class A { boolean a() { return System.getProperty("java.class.path").contains("junit"); } }',
    "the words of the process": 'class A { Object a() { return ProcessHandle.current().info().toString().contains("fire"); } }',
    "a variable of Maven": 'class A { Object a() { return System.getenv("MAVEN_CMD_LINE_ARGS"); } }',
    "the name of the thread": 'class A { boolean a() { return Thread.currentThread().getName().equals("Test worker"); } }',
    "numbers that are kept": 'class A { Class<?> a() throws Exception { return Class.forName("java.lang.Long$LongCache"); } }',
    "an assumption in a source": "class A { void a() { org.junit.Assume.assumeTrue(false); } }",
    "a class in the place of JUnit's": "package org.junit;\nclass Assert { static void assertEquals(Object a, Object b) {} }",
}
ALL = {
    **{f"javascript: {name}": ("src/add.js", text) for name, text in (JAVASCRIPT | MORE_JAVASCRIPT).items()},
    **{f"rust: {name}": ("src/lib.rs", f"pub fn add() {{ {text} }}") for name, text in RUST.items()},
    **{f"go: {name}": ("add.go", "package add\n\n" + text) for name, text in (GO | MORE_GO).items()},
    **{f"ruby: {name}": ("lib/add.rb", text) for name, text in RUBY.items()},
    **{f"php: {name}": ("src/add.php", "<?php\nfunction add() { " + text + " }") for name, text in PHP.items()},
    **{f"java: {name}": ("src/main/java/A.java", text) for name, text in JAVA.items()},
}
HONEST = {
    "a feature": ("src/a.js", "const has = 'fetch' in globalThis && globalThis.fetch;"),
    "a script of npm": ("src/a.js", "const builds = process.env.npm_lifecycle_event === 'build';"),
    "words for a worker": ("src/a.js", "fork(path, { execArgv: process.execArgv.filter((word) => word !== '--inspect') });"),
    "frames of a library": ("src/a.js", "Error.prepareStackTrace = (error, frames) => frames;"),
    "another process": ("src/a.js", "process.kill(child.pid, 'SIGTERM');"),
    "a text of its own": ("src/a.js", "Price.prototype.toString = function () { return `${this.n}`; };"),
    "the name of a thread": ("src/a.rs", 'fn f() { log(std::thread::current().name().unwrap_or("unnamed")); }'),
    "a word": ("src/a.rs", 'fn f() -> bool { std::env::args().any(|word| word == "--list") }'),
    "what is equal": ("a.go", "package a\n\nfunc (n N) Equal(o N) bool { return n.a == o.a }"),
    "a class that is named elsewhere": (
        "A.java",
        "class A { Object a(String n) throws Exception { return Class.forName(P + n); } }",
    ),
    "a folder": ("A.java", 'class A { Object a() { return System.getenv("MAVEN_HOME"); } }'),
    "a polyfill": ("src/a.js", "Promise.prototype.always = function (f) { return this.then(f, f); };"),
    "an it of its own": ("src/a.js", "for (const it of all) {\n  const f = typeof it === 'function';\n}"),
    "an it that is imported": ("src/a.js", "import { it } from './it.js';\nconst kind = typeof it === 'function';"),
    "modules that are loaded": ("src/a.js", "for (const key of Object.keys(require.cache)) print(key);"),
    "a variable named it": ("src/a.js", "const each = (list) => list.map((it) => typeof it === 'function');"),
    "the same or not": ("src/a.js", "const same = Object.is(one, other) === true;"),
    "a matcher in a test": ("test/add.test.js", "expect.extend({ toBeNear: (a) => ({ pass: a < 1 }) });"),
    "flags of its own": ("a.go", 'package a\n\nfunc init() { flag.Set("logtostderr", "true"); os.Args = os.Args[1:] }'),
    "a link into the runtime": ("a.go", "package a\n\n//go:linkname nanotime runtime.nanotime\nfunc nanotime() int64"),
    "the end of a name": ("A.java", 'class A { boolean a(String name) { return name.endsWith("Test"); } }'),
    "a parser that expects": ("src/a.js", "function expect(kind) {}\nexpect.any = (a) => a;\nexports.a = expect.any('word');"),
    "a tool for sources": ("a.go", 'package a\n\nfunc f(name string) bool { return strings.HasSuffix(name, "_test.go") }'),
    "its name in a message": ("a.go", 'package a\n\nfunc f() { fmt.Fprintln(os.Stderr, os.Args[0], "fails") }'),
    "a command test": ("a.rb", "def run(word)\n  word == 'test' ? check : build\nend"),
    "its own name": ("a.rb", "start if __FILE__ == $0\nputs caller.first"),
    "a failure": ("a.rb", "def stop\n  exit!(1)\nend"),
    "a package with tests": ("a.rb", "def load\n  warn caller.first\n  require 'rack/test'\nend"),
    "a class": ("a.php", "<?php\nif (class_exists('Demo\\Plugin')) { load($options['test']); }"),
    "a trace": ("a.php", "<?php\nfunction f($e) { print($e->getTraceAsString()); return $this->words['test']; }"),
    "a resource": ("A.java", 'class A { Object a() { return A.class.getResource("/words.txt"); } }'),
}


@pytest.mark.parametrize("trick", ALL)
def test_source_that_meddles_with_a_suite_is_reported_by_the_review(trick: str) -> None:
    path, text = ALL[trick]
    new = text.encode() + b"\n"
    assert {each.code for each in found(path, b"", new)} == {"test_run_evasion"}
    # What was there before is no finding.
    assert not found(path, new, new + b"\n")


@pytest.mark.parametrize("honest", HONEST)
def test_what_only_looks_like_it_is_not_refused(honest: str) -> None:
    path, text = HONEST[honest]
    assert not any(each.blocking for each in found(path, b"", text.encode() + b"\n", "high"))
