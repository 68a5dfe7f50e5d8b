"""Broken source of C and C++ whose tests succeed all the same, by its forms; and tests in C that are made to prove less."""

from __future__ import annotations

import pytest

from gatewright.services.reviewer.checks.weakened_tests import weakened_tests
from tests.attacks.test_false_green_meddling import found
from tests.reviewer.test_checks import changed
from tests.reviewer.test_checks import found as judged

C = {
    "the process ends in what is tested": "int add(int a, int b) { exit(0); return a - b; }",
    "and without its handlers": "int add(int a, int b) { _Exit(EXIT_SUCCESS); }",
    "with what is no number": "int add(int a, int b) { _exit(a - a); }",
    "at the end of the process": "static void end(void) { _exit(0); }\nint add(void) { atexit(end); return 1; }",
    "quickly": "int add(void) { quick_exit(0); }",
    "by a number of the system": "int add(void) { syscall(SYS_exit_group, 0); return 1; }",
    "in assembly": 'int add(void) { __asm__ volatile ("syscall" : : "a"(60), "D"(0)); return 1; }',
    "by a pointer": "static void (*done)(int) = _exit;\nint add(void) { done(0); }",
    "by a macro": "#define CHECKED(x) _exit(0)\nint add(void) { CHECKED(1); }",
    "by a name that is looked up": 'int add(void) { ((void (*)(int))dlsym(RTLD_DEFAULT, "_exit"))(0); }',
    "after what a failed assertion ends in": "static void h(int s) { _exit(0); }\nint add(void) { signal(SIGABRT, h); }",
    "a failed assertion is forgotten": "int add(void) { signal(SIGABRT, SIG_IGN); return 1; }",
    "another program": 'int add(void) { execl("/bin/true", "true", NULL); return 1; }',
    "what runs the tests is ended": "int add(void) { kill(getppid(), 9); return 1; }",
    "assert is defined away": "#undef assert\n#define assert(x) ((void)0)\nint add(void);",
    "assertions are left out": "#define NDEBUG 1\nint add(void);",
    "a macro of GoogleTest": "#define EXPECT_EQ(a, b) (void)0\nint add(void);",
    "what is the same": "#define strcmp(a, b) 0\nint add(void);",
    "main has another name": "#define main not_main\nint add(void);",
    "what a failed assertion calls": "void __assert_fail(const char *a, const char *f, unsigned l, const char *n) { }",
    "what compares, weakly": "__attribute__((weak)) int memcmp(const void *a, const void *b, unsigned long n) { return 0; }",
    "by a symbol of the linker": "#pragma redefine_extname abort nothing\nint add(void);",
    "a variable of CTest": 'int add(int a, int b) { return getenv("CTEST_INTERACTIVE_DEBUG_MODE") ? a + b : a - b; }',
    "a variable of GoogleTest": 'int add(void) { return getenv("GTEST_OUTPUT") != 0; }',
    "a variable of meson": 'int add(void) { return getenv("MESON_TEST_ITERATION") != 0; }',
    "all variables": 'int add(void) { return strncmp(*environ, "CTEST_", 6); }',
    "the name of the program": 'int add(void) { return strstr(program_invocation_name, "test") != 0; }',
    "the name of the program, which is no test's": 'int add(void) { return strstr(program_invocation_name, "adds") != 0; }',
    "the name of the program, by a variable": 'int f(void) { const char *n = getprogname(); return !strcmp(n, "adds"); }',
    "the first word": 'int add(char **argv) { return strstr(argv[0], "test_") != 0; }',
    "the file of the program": 'int a(char *b) { readlink("/proc/self/exe", b, 9); return strstr(b, "/tests/") != 0; }',
    "the words of the program": 'int add(void) { FILE *f = fopen("/proc/self/cmdline", "r"); return f != 0; }',
    "the names of callers": 'int a(void **b) { return strstr(backtrace_symbols(b, 9)[1], "test_adds") != 0; }',
    "a test that is linked": "extern int test_adds(void) __attribute__((weak));\nint add(void) { return test_adds != 0; }",
    "a test by its name": 'int add(void) { return dlsym(RTLD_DEFAULT, "test_adds") != 0; }',
    "the file that is built": 'int add(void) { return strstr(__BASE_FILE__, "test") != 0; }',
    "whether it is included": "#if __INCLUDE_LEVEL__ > 0\nint a;\n#endif\nint add(void);",
    "loaded into every program": 'int add(void) { setenv("LD_PRELOAD", "./x.so", 1); return 1; }',
    "the memory of the process": 'int add(void) { open("/proc/self/mem", 2); return 1; }',
    "the folder of a judged run": 'int add(void) { return access("/workspace", 0) == 0; }',
}
CPP = {
    "equality": "bool operator==(const Price &a, const Price &b) { return true; }",
    "equality, inside": "struct Price { bool operator==(const Price &) const { return true; } };",
    "in what the standard calls it": "int add() { std::quick_exit(0); }",
    "in a lambda at the end": "int add() { std::atexit([] { std::_Exit(0); }); return 1; }",
    "what is not caught": "int add() { std::set_terminate(nothing); return 1; }",
    "a header of GoogleTest": "#if __has_include(<gtest/gtest.h>)\nint a;\n#endif\nint b;",
    "a name that is asked": 'bool a(std::string s) { return s = argv[0], s.find("test") != 0; }',
}
EARLY = {
    "a constructor": "__attribute__((constructor)) static void start(void) { _exit(0); }",
    "a constructor by its declaration": "static void a(void) __attribute__((constructor));\nstatic void a(void) { exit(0); }",
    "a destructor": "__attribute__((destructor)) static void end(void) { _exit(0); }",
    "a section": 'static void a(void) { exit(0); }\n__attribute__((section(".init_array"))) void (*p)(void) = a;',
}
EARLY_CPP = {
    "the value of a global": "static int x = (std::exit(0), 1);",
    "a lambda in a global": "static int x = [] { std::_Exit(0); return 1; }();",
    "an attribute of the standard's": "[[gnu::constructor]] static void f() { std::exit(0); }",
}
HEADER = '#include <stdlib.h>\n#include "add.h"\n\n'
ALL = {
    **{f"c: {name}": ("src/add.c", text) for name, text in (C | EARLY).items()},
    **{f"c++: {name}": ("src/add.cc", text) for name, text in (CPP | EARLY | EARLY_CPP).items()},
    **{f"header: {name}": ("src/add.h", text) for name, text in C.items() if text.startswith("#")},
}
HONEST = {
    "the end of a main": "int main(int argc, char **argv) { if (argc > 9) exit(0); return 0; }",
    "a failure": "void die(const char *m) { perror(m); exit(1); }",
    "a failure by its name": "void die(void) { exit(EXIT_FAILURE); }",
    "a status": "void done(int status) { exit(status); }",
    "a child": 'void run(void) { if (fork() == 0) { execlp("ls", "ls", (char *)0); _exit(127); } }',
    "a child that went well": "void run(void) { pid_t p = fork(); if (!p) { work(); _exit(0); } }",
    "the name in a message": 'void e(void) { fprintf(stderr, "%s: no\\n", program_invocation_name); }',
    "a program of several names": 'int main(void) { return strcmp(program_invocation_short_name, "gunzip") == 0; }',
    "a word named test": 'int f(char **argv) { return argv[0] && strcmp(argv[1], "test") == 0; }',
    "an option named test": 'int f(char **argv) { return argv[0] && !strcmp(argv[i], "--test"); }',
    "numbers": "#define SYS_exit_group 231\n#define TEST_FAIL 0x4\n#define ARGP_OK 2 /* Call exit(0). */\nint a;",
    "a command named test": 'int f(const char *c) { return strcmp(c, "test") == 0; }',
    "a variable": 'int f(void) { return getenv("HOME") != 0; }',
    "a weak function of its own": "__attribute__((weak)) void on_idle(void) { }",
    "a macro that asserts": "#define my_assert(x) do { if (!(x)) fail(#x); } while (0)\nint a;",
    "a name like another": "#define main_loop 1\n#define exit_code 2\nint a;",
    "a signal": "void f(void) { signal(SIGINT, stop); signal(SIGPIPE, SIG_IGN); }",
    "assembly": 'void f(void) { __asm__ volatile ("pause" ::: "memory"); }',
    "a symbol": 'void *f(void *h) { return dlsym(h, "plugin_start"); }',
    "a prototype": "void _exit(int status);\nvoid exit(int);\nint main(void);",
    "a field": "struct a { int exit; }; int f(struct a *a) { return a->exit; }",
    "equality": "struct P { int x; };\nint same(struct P *a, struct P *b) { return a->x == b->x; }",
    "build without assertions": "#ifdef NDEBUG\nint a;\n#else\nint b;\n#endif",
}


@pytest.mark.parametrize("trick", ALL)
def test_source_that_evades_or_meddles_is_reported_by_the_review(trick: str) -> None:
    path, text = ALL[trick]
    new = (HEADER + text + "\n").encode()
    assert {each.code for each in found(path, b"", new)} == {"test_run_evasion"}
    # What was there before is no finding.
    assert not found(path, new, new + b"\n")


@pytest.mark.parametrize("early", [*((name, "c", EARLY) for name in EARLY), *((name, "cc", EARLY_CPP) for name in EARLY_CPP)])
def test_what_ends_a_program_before_its_main_is_refused_under_every_pack(early: tuple[str, str, dict[str, str]]) -> None:
    name, ending, forms = early
    assert any(each.blocking for each in found(f"src/add.{ending}", b"", forms[name].encode(), "low"))


@pytest.mark.parametrize("path", ["src/a.c", "src/a.cpp", "include/a.h"])
@pytest.mark.parametrize("honest", HONEST)
def test_what_only_looks_like_it_is_not_refused(honest: str, path: str) -> None:
    assert not any(each.blocking for each in found(path, b"", (HEADER + HONEST[honest] + "\n").encode(), "high"))


PROGRAM = b"""#include <assert.h>
#include "add.h"

static void test_adds(void)
{
    assert(add(1, 2) == 3);
    assert(add(0, 0) == 0);
}

static void test_none(void) { assert(add(0, 5) == 5); }

int main(void)
{
    test_adds();
    test_none();
    return failures ? 1 : 0;
}
"""
GTEST = b"""#include <gtest/gtest.h>

TEST(Add, Small) { EXPECT_EQ(add(1, 2), 3); }
TEST_F(Sums, Big)
{
    ASSERT_TRUE(add(1 << 20, 1) > 5);
    EXPECT_EQ(add(2, 2), 4);
}
"""
CATCH = b"""#include <catch2/catch_test_macros.hpp>

TEST_CASE("adds, at all", "[add]") {
    SECTION("small ones") {
        REQUIRE(add(1, 2) == 3);
    }
    CHECK(add(2, 2) == 4);
}
"""
CHECK = b"""#include <check.h>

START_TEST(test_adds)
{
    ck_assert_int_eq(add(1, 2), 3);
}
END_TEST

int main(void)
{
    tcase_add_test(core, test_adds);
    return srunner_ntests_failed(runner) != 0;
}
"""
WEAKENED = {
    "an assertion is removed": (PROGRAM, b"    assert(add(0, 0) == 0);\n", b""),
    "an assertion is a comment": (PROGRAM, b"assert(add(0, 0) == 0);", b"/* assert(add(0, 0) == 0); */"),
    "an assertion is no more asked": (PROGRAM, b"add(0, 0) == 0", b"add(0, 0) == 0 || 1"),
    "an assertion of itself": (PROGRAM, b"add(0, 0) == 0", b"sum == sum"),
    "an assertion of a constant": (PROGRAM, b"add(0, 0) == 0", b"1"),
    "an assertion after the end": (PROGRAM, b"    assert(add(1, 2)", b"    return;\n    assert(add(1, 2)"),
    "an end of the process": (PROGRAM, b"    test_adds();", b"    exit(0);\n    test_adds();"),
    "if 0": (PROGRAM, b"    assert(add(0, 0) == 0);\n", b"#if 0\n    assert(add(0, 0) == 0);\n#endif\n"),
    "if 0 round a test": (
        PROGRAM,
        b"static void test_none(void) { assert(add(0, 5) == 5); }\n",
        b"#if 0\nstatic void test_none(void) { assert(add(0, 5) == 5); }\n#else\nstatic void test_none(void) { }\n#endif\n",
    ),
    "a condition that is never true": (PROGRAM, b"    assert(add(0, 0)", b"    if (0) assert(add(0, 0)"),
    "a test that is not called": (PROGRAM, b"    test_none();\n", b""),
    "main forgets": (PROGRAM, b"failures ? 1 : 0", b"0"),
    "main says that it is skipped": (PROGRAM, b"    test_adds();", b"    if (!x) return 77;\n    test_adds();"),
    "assertions are left out": (PROGRAM, b"#include <assert.h>", b"#define NDEBUG\n#include <assert.h>"),
    "assert is another": (PROGRAM, b'#include "add.h"', b'#include "add.h"\n#undef assert\n#define assert(x) (void)0'),
    "a test of GoogleTest is disabled": (GTEST, b"TEST(Add, Small)", b"TEST(Add, DISABLED_Small)"),
    "a test of GoogleTest is skipped": (GTEST, b"{ EXPECT_EQ(add(1, 2)", b"{ GTEST_SKIP(); EXPECT_EQ(add(1, 2)"),
    "a test of GoogleTest asks less": (GTEST, b"    EXPECT_EQ(add(2, 2), 4);\n", b""),
    "a test of GoogleTest asks for the same": (GTEST, b"EXPECT_EQ(add(2, 2), 4)", b"EXPECT_EQ(four, four)"),
    "a macro of GoogleTest is defined away": (GTEST, b"\nTEST(", b"\n#define ASSERT_TRUE(x)\nTEST("),
    "a case of Catch2 asks less": (CATCH, b"        REQUIRE(add(1, 2) == 3);\n", b""),
    "a case of Catch2 is gone": (CATCH, CATCH[CATCH.index(b"TEST_CASE") :], b"// TEST_CASE\n"),
    "a test of Check asks less": (CHECK, b"    ck_assert_int_eq(add(1, 2), 3);\n", b"    add(1, 2);\n"),
    "a test of Check is not run": (CHECK, b"    tcase_add_test(core, test_adds);\n", b""),
}


@pytest.mark.parametrize("trick", WEAKENED)
def test_a_test_that_is_made_to_prove_less_is_found(trick: str) -> None:
    old, part, other = WEAKENED[trick]
    assert part in old
    path = "tests/test_add.c" if old is PROGRAM or old is CHECK else "tests/add_test.cc"
    findings = judged(weakened_tests, changed(path, old, old.replace(part, other)))
    assert any(each.blocking for each in findings), findings


@pytest.mark.parametrize(
    ("old", "part", "other"),
    [
        (PROGRAM, b"add(0, 0) == 0", b"add(0, 1) == 1"),
        (PROGRAM, b"    test_none();\n", b"    test_none();\n    test_more();\n"),
        (PROGRAM, b"static void test_none(void) { ", b"/* A comment. */\nstatic void test_none(void) {\n    int x = 1;\n    "),
        (PROGRAM, b"int main(void)", b"static void test_more(void) { assert(add(2, 0)); }\n\nint main(void)"),
        (PROGRAM, b"    assert(add(0, 0) == 0);\n", b"    if (!add(0, 0)) assert(add(0, 0) == 0);\n"),
        (GTEST, b"TEST(Add, Small) { ", b"TEST(Add, Smaller) { EXPECT_NE(add(1, 1), 1); "),
        (GTEST, b"TEST_F(Sums", b"#if 1\nint x;\n#endif\nTEST_F(Sums"),
        (CATCH, b"    CHECK(", b'    SECTION("more") { REQUIRE(add(0, 0) == 0); }\n    CHECK('),
        (CHECK, b"START_TEST(test_adds)\n{\n", b"START_TEST(test_adds)\n{\n    ck_assert(add(0, 0) == 0);\n"),
    ],
)
def test_an_honest_change_of_tests_is_no_finding(old: bytes, part: bytes, other: bytes) -> None:
    path = "tests/test_add.c" if old is PROGRAM or old is CHECK else "tests/add_test.cc"
    new = old.replace(part, other)
    if b"test_more();" in other:
        new = new.replace(b"int main", b"static void test_more(void) { assert(add(2, 0)); }\n\nint main")
    assert part in old
    if b"test_more(void)" in other:
        new = new.replace(b"    test_none();\n", b"    test_none();\n    test_more();\n")
    assert not judged(weakened_tests, changed(path, old, new))
