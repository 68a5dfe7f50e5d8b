"""What can be changed in written lines, language by language, and what is left alone."""

from __future__ import annotations

import pytest

from gatewright.git.patches.lines import written_lines
from gatewright.services.testrunner.mutation.drawing import DrawingRequest, DrawingResult, drawn_for


def added(path: str, content: bytes) -> bytes:
    """The patch that adds ``path``."""
    lines = content.splitlines()
    head = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n"
    return head.encode() + b"".join(b"+" + line + b"\n" for line in lines)


def drawn(path: str, content: bytes, *, most: int = 200, seed: str = "a") -> DrawingResult:
    return drawn_for(DrawingRequest(added(path, content), {path: content}, seed, most))


def shown(answer: DrawingResult) -> list[str]:
    return [
        f"{each.line} {each.before} -> {each.after}" for each in sorted(answer.drawn, key=lambda one: (one.line, one.column))
    ]


#: One source a language, and all its mutants.
SOURCES: dict[str, tuple[str, list[str]]] = {
    "a.py": (
        (
            "def f(a, b):\n    if not a < 3 and b:\n        b += 2.5\n    if a:\n        send(a)\n        raise OSError(a)\n"
            "    return a + True\n"
        ),
        [
            "2 not -> (nothing)",
            "2 < -> <=",
            "2 3 -> 4",
            "2 and -> or",
            "3 += -> -=",
            "3 2.5 -> 3.5",
            "4 a -> not (a)",
            "5 send(a) -> pass",
            "6 raise OSError(a) -> pass",
            "7 a + True -> None",
            "7 + -> -",
            "7 True -> False",
        ],
    ),
    "a.ts": (
        (
            "export function f(a: number): number {\n  if (a === 3) { send(a); }\n"
            "  if (a) { throw new Error('x'); }\n  return a ?? 1;\n}\n"
        ),
        [
            "2 === -> !==",
            "2 3 -> 4",
            "2 send(a); -> ;",
            "3 (a) -> (!(a))",
            "3 throw new Error('x'); -> ;",
            "4 a ?? 1 -> undefined",
            "4 ?? -> &&",
            "4 1 -> 2",
        ],
    ),
    "a.go": (
        "package a\n\nfunc f(a int, b bool) int {\n\tif a < 3 && !b {\n\t\tsend(a)\n\t}\n\treturn a + 1\n}\n",
        ["4 < -> <=", "4 3 -> 4", "4 && -> ||", "4 ! -> (nothing)", "5 send(a) -> (nothing)", "7 + -> -", "7 1 -> 2"],
    ),
    "a.rs": (
        (
            "fn f(a: i32, b: bool) -> i32 {\n    if b { send(a); }\n    a % 2\n}\n\n"
            "#[cfg(test)]\nmod tests {\n    fn x() -> i32 { 1 + 2 }\n}\n"
        ),
        ["2 b -> !(b)", "2 send(a); -> ;", "3 % -> *", "3 2 -> 3"],
    ),
    "A.java": (
        "class A {\n  int f(int a) {\n    return a > 3 ? 1 : 2;\n  }\n}\n",
        ["3 > -> >=", "3 3 -> 4", "3 1 -> 2", "3 2 -> 3"],
    ),
    "a.kt": ("fun f(a: Int): Int {\n  return a + 1\n}\n", ["2 + -> -", "2 1 -> 2"]),
    "a.cs": ("class A { int f(int a) {\n  return a - 1;\n} }\n", ["2 - -> +", "2 1 -> 2"]),
    "a.php": ("<?php function f($a) {\n  return $a * 2;\n}\n", ["2 $a * 2 -> null", "2 * -> /", "2 2 -> 3"]),
    "a.rb": ("def f(a)\n  return a == true\nend\n", ["2 a == true -> nil", "2 == -> !=", "2 true -> false"]),
    "a.swift": ("func f(a: Int) -> Int {\n  return a + 1\n}\n", ["2 + -> -", "2 1 -> 2"]),
    "a.c": (
        (
            "int f(int a, bool b) {\n  if (a < 3 && !b) { send(a); b += 2; }\n  if (p->x) return -1;\n"
            "  return a ? b << 1 : 2.5;\n}\n"
        ),
        [
            "2 < -> <=",
            "2 3 -> 4",
            "2 && -> ||",
            "2 ! -> (nothing)",
            "2 send(a); -> ;",
            "2 += -> -=",
            "2 2 -> 3",
            "3 (p->x) -> (!(p->x))",
            "4 a -> (!a)",
            "4 << -> >>",
            "4 1 -> 2",
            "4 2.5 -> 3.5",
        ],
    ),
    "a.cc": (
        (
            "bool f(int a) {\n  if (int x = g(a)) { return x == a; }\n  if (bool y = a; y) { push(a); }\n"
            '  if (a) { throw std::out_of_range("a"); }\n  return out << a || true;\n}\n'
        ),
        [
            "2 == -> !=",
            "3 push(a); -> ;",
            "4 (a) -> (!(a))",
            '4 throw std::out_of_range("a"); -> ;',
            "5 || -> &&",
            "5 true -> false",
        ],
    ),
}


@pytest.mark.parametrize("path", SOURCES)
def test_written_lines_have_these_mutants_and_each_still_parses(path: str) -> None:
    source, mutants = SOURCES[path]
    answer = drawn(path, source.encode())
    assert shown(answer) == mutants
    assert answer.possible == len(answer.drawn)
    assert len({each.applied(source.encode()) for each in answer.drawn}) == len(answer.drawn)


LEFT_ALONE = {
    "a docstring": 'def f():\n    """Adds 1 + 2."""\n',
    "a comment": "x = y  # 1 + 2\n",
    "an annotation": "def f(a: Annotated[int, 3]) -> Literal[4]: ...\n",
    "a log": "def f(a):\n    logger.info('%s', a + 1)\n    self._log.debug(3)\n    print(a - 1)\n",
    "__all__": "__all__ = ['a', *b[1:]]\n__version__ = 3\n",
    "an import": "from a import b\n",
    "the main block": "if __name__ == '__main__':\n    run(1 + 2)\n",
    "imports for types": "if TYPE_CHECKING:\n    x = 1\n",
    "an assertion": "assert a < 3\n",
    "a text": "x = f'{a + 1}'\n",
    "what returns nothing": "def f():\n    return None\n",
}


@pytest.mark.parametrize("what", LEFT_ALONE)
def test_what_no_test_could_notice_is_left_alone(what: str) -> None:
    assert shown(drawn("a.py", LEFT_ALONE[what].encode())) == []


LEFT_ALONE_IN_C = {
    "a question of the preprocessor": "#if defined(A) && B > 3\nint a;\n#elif B < 1\nint b;\n#endif\n",
    "a macro": "#define TWICE(x) ((x) + 2)\n",
    "the size of an array": "static int sizes[4 + 1];\n",
    "bits": "struct s { int b : 2; };\n",
    "an assertion": "void f(int a) { assert(a == 3); }\nstatic_assert(1 + 1 == 2);\n",
    "memory that is given back": "void f(void *p) { free(p); }\n",
    "words for people": 'void f(int a) { fprintf(stderr, "%d", a + 1); perror("a"); }\n',
    "an attribute": "__attribute__((aligned(4))) int a;\n",
    "a type in its brackets": "template <int N = 3> struct S { std::array<int, 4> v; };\n",
}


@pytest.mark.parametrize("what", LEFT_ALONE_IN_C)
def test_what_the_compiler_or_people_alone_read_is_left_alone(what: str) -> None:
    assert shown(drawn("a.h", LEFT_ALONE_IN_C[what].encode())) == []


def test_what_stands_below_a_question_of_the_preprocessor_is_mutated() -> None:
    content = b"#if B > 3\nint f(int a) { return a + 1; }\n#else\nint f(int a) { return a - 2; }\n#endif\n"
    assert shown(drawn("a.c", content)) == ["2 + -> -", "2 1 -> 2", "4 - -> +", "4 2 -> 3"]


def test_only_written_lines_are_mutated() -> None:
    content = b"a = 1\nb = 2\nc = 3\n"
    patch = b"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n a = 1\n-b = 0\n+b = 2\n c = 3\n"
    assert shown(drawn_for(DrawingRequest(patch, {"a.py": content}, "a", 9))) == ["2 2 -> 3"]


def test_added_lines_that_look_like_heads_of_a_patch_are_lines() -> None:
    content = b"++ b/other.py\n@@ -1 +1 @@\nx\n"
    patch = added("a.txt", content) + added("b.py", b"x = 1\n")
    assert written_lines(patch) == {"a.txt": {1, 2, 3}, "b.py": {1}}


def test_a_file_that_does_not_parse_has_no_mutants() -> None:
    assert drawn("a.py", b"def f(:\n    return 1 + 1\n").possible == 0


def test_the_draw_is_seeded_and_covers_each_line_first() -> None:
    content = b"".join(b"x%d = %d + %d\n" % (number, number, number) for number in range(20))
    first, again, other = (drawn("a.py", content, most=20, seed=seed) for seed in ("a", "a", "b"))
    assert first == again
    assert shown(first) != shown(other)
    assert sorted(each.line for each in first.drawn) == list(range(1, 21))
