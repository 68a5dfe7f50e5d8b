"""Tests of C and C++ by their syntax trees: GoogleTest, Catch2, doctest, Check, CMocka, Unity, and programs that use assert.

A test is a function that is named like one, a macro of a framework, or ``main`` in a file of tests. One that is never named
but where it is defined does not run, and what stands in ``#if 0`` is not there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from tree_sitter import Node

from gatewright.ecosystems.test_syntax.language import ParsedSource, Reader, WalkPosition, Words, line_of, mentions_names
from gatewright.ecosystems.test_syntax.tests_model import Body, FileTests
from gatewright.patterns import BytesPattern

_MACRO = (
    rb"(?:TYPED_|FRIEND_)?TEST(?:_F|_P|_CASE|_METHOD|_GROUP)?|SCENARIO|START_TEST|BOOST_(?:AUTO|FIXTURE|DATA)_TEST_CASE|MU_TEST"
)
WORDS = Words(
    functions=frozenset({"function_definition"}),
    groups=frozenset({"namespace_definition", "class_specifier", "struct_specifier"}),
    calls=frozenset({"call_expression"}),
    case_name=BytesPattern(rb"^(?:" + _MACRO + rb")\(|^(?:main$|[tT]est[_A-Z]?\w*)|_tests?$"),
    check=BytesPattern(
        rb"(?i)^(?:std::)?(?:\w*assert\w*|(?:expect|require|check|ck|should|verify|fail|cu|mu|munit|g_test|boost)(?:_\w+)?"
        rb"|(?:add_)?fail(?:ure)?(?:_at)?|error|err|errx|die|abort|exit|expect\w*|check\w*|verify\w*)$"
    ),
    skip=BytesPattern(rb"^(?:GTEST_SKIP\w*|TEST_IGNORE\w*|TEST_PASS\w*|ck_skip|g_test_skip|SKIP|skip|munit_skip)$"),
)
#: A name in the head of a test, or a call, that leaves a test out.
_LEFT_OUT = BytesPattern(
    rb"\bDISABLED_|\[(?:\.|!hide|!mayfail|!shouldfail)|doctest::(?:skip|may_fail|should_fail)|disabled\(\)"
)
_FALSE = frozenset({b"0", b"false", b"(0)", b"!1", b"0L"})
_NOTHING = frozenset({b"", b"0", b"EXIT_SUCCESS", b"(0)", b"{}", b"false", b"nullptr", b"NULL"})
_ALWAYS = BytesPattern(rb"\|\|\s*(?:1|true|!0)\s*(?:\)|\|\||$)|^\(\s*(?:1|true|!0)\s*\|\|")
_ENDS = BytesPattern(rb"^(?:std::|::)?(?:_?exit|_Exit|quick_exit|abort|longjmp|terminate|pthread_exit|GTEST_SKIP)\b")
#: Preprocessor directives in a test file that remove its checks.
_SETTING = BytesPattern(
    rb"^#\s*(?:define\s+(?:NDEBUG|main|abort|exit|return|if|"
    + _MACRO
    + rb"|\w*[aA][sS][sS][eE][rR][tT]\w*)\b|undef\s+assert\b)"
)
_WITH_TITLE = (b"TEST_CASE", b"SCENARIO", b"TEST_CASE_METHOD", b"TEST_CASE_FIXTURE", b"TEMPLATE_TEST_CASE")
_PARTS = (b"SECTION", b"SUBCASE", b"GIVEN", b"WHEN", b"THEN", b"AND_WHEN", b"AND_THEN", b"AND_GIVEN")
_LONG, _DEEP = 400, 12


def without_macros(content: bytes) -> bytes:
    """``content`` with macros of frameworks, which are no C, as functions and conditions of the same length and lines."""
    if not any(each in content for each in (*_WITH_TITLE, *_PARTS, b"END_TEST")):
        return content
    return b"\n".join(_normalize_line(line) for line in content.split(b"\n"))


def _normalize_line(line: bytes) -> bytes:
    text = line.lstrip()
    name = text.partition(b"(")[0].rstrip()
    if name == b"END_TEST" or text.rstrip() == b"END_TEST":
        return line.replace(b"END_TEST", b"        ", 1)
    if name not in _WITH_TITLE and name not in _PARTS:
        return line
    start = line.find(b"(")
    end = _closing(line, start)
    if end <= start:
        return line
    inner = bytes(each if each in _WORD else 0x5F for each in line[start + 1 : end])
    inner = b"_" + inner[1:] if inner else inner
    before = line[:start] if name in _WITH_TITLE else line[: len(line) - len(text)] + b"if".ljust(start - len(line) + len(text))
    return before + b"(" + inner + line[end:]


def _closing(line: bytes, start: int) -> int:
    """Where the parenthesis at ``start`` is closed, beside texts; -1 where it is not."""
    depth, is_text, is_escaped = 0, False, False
    for at in range(start, len(line)):
        each = line[at]
        if is_escaped or each == 0x5C:
            is_escaped = not is_escaped
        elif each == 0x22:
            is_text = not is_text
        elif not is_text and each in b"()":
            depth += 1 if each == 0x28 else -1
            if not depth:
                return at
    return -1


_WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


def function_name(source: ParsedSource, node: Node) -> str:
    """The name of a function's definition; of a macro's, with what stands in its parentheses. Empty for none."""
    inner: Node | None = node.child_by_field_name("declarator")
    for _ in range(_DEEP):
        if inner is None:
            break
        if inner.type == "function_declarator":
            named = inner.child_by_field_name("declarator")
            text = b"".join(source.cut(named, 200).split()) if named is not None else b""
            typed = node.child_by_field_name("type") is not None
            if text.isupper() and not typed:
                text += b" ".join(source.cut(inner, _LONG)[len(text) :].split()).replace(b" ", b"")
            return text.decode("utf-8", "replace")
        if inner.type == "parenthesized_declarator":  # START_TEST(name), which looks like a declaration
            return source.cut(inner, 200).strip(b"() \n").decode("utf-8", "replace")
        inner = inner.child_by_field_name("declarator") or next(
            (child for child in inner.named_children[:4] if child.type.endswith("declarator")), None
        )
    return ""


class CReader(Reader):
    """One file of C or C++."""

    def tests(self, root: Node) -> FileTests:
        found = super().tests(root)
        mentioned: Counter[bytes] = Counter()
        stack = [root]
        while stack:
            node = stack.pop()
            if node.type in {"identifier", "field_identifier"}:
                mentioned[self.source.cut(node, 200)] += 1
            elif node.type == "preproc_arg":
                mentioned.update(_WORDS.groups(self.source.cut(node, 4000)))
            stack.extend(node.named_children if not self.is_left_out(node) else [])
        # A file with a main of its own names each of its tests there, or it is not run.
        if "main" in found.cases:
            for name, case in found.cases.items():
                if name != "main" and name.isidentifier() and mentioned[name.encode()] < 2:
                    case.skipped = True
        return found

    def is_left_out(self, node: Node) -> bool:
        """Return whether a node is between ``#if 0`` and the next branch."""
        if node.type != "preproc_if":
            return False
        condition = node.child_by_field_name("condition")
        return condition is not None and b"".join(self.source.cut(condition, 40).split()) in _FALSE

    def enter(self, node: Node, place: WalkPosition, found: FileTests) -> WalkPosition | None:
        match node.type:
            case "preproc_def" | "preproc_function_def" | "preproc_call":
                text = self.source.cut(node, _LONG)
                if _SETTING.first(text) is not None:
                    found.hooks[b" ".join(text.split()[:2]).decode("utf-8", "replace")] = (
                        line_of(node),
                        b" ".join(text.split()),
                    )
                return None
            case "function_definition" if place.body is None:
                return self._test(node, place, found)
            case "return_statement":
                self._return(node, place)
            case _:
                pass
        return super().enter(node, place, found)

    def _test(self, node: Node, place: WalkPosition, found: FileTests) -> WalkPosition:
        name = function_name(self.source, node)
        body = Body("::".join((*place.names, name)), line_of(node))
        if WORDS.case_name.first(name.encode()) is not None:
            body.skipped = _LEFT_OUT.first(self.source.head(node)) is not None
            body.text = b" ".join(self.source.cut(node).split())
            while body.name in found.cases:
                body.name += "'"
            found.cases[body.name] = body
        else:
            found.helpers[name] = body
        return WalkPosition(place.named(name), body, heard=place.heard)

    def _return(self, node: Node, place: WalkPosition) -> None:
        """What ``main`` returns is how its test went."""
        if place.body is None or not place.heard or place.body.name.rpartition("::")[2] != "main":
            return
        value = b"".join(self.source.cut(node, 200).split()).removeprefix(b"return").rstrip(b";")
        if value == b"77":
            place.body.skipped = True
        elif value not in _NOTHING:
            place.body.checks += 1

    def is_constant(self, node: Node) -> bool:
        arguments = node.child_by_field_name("arguments")
        if arguments is None or not arguments.named_child_count:
            return False
        callee, text = self.source.callee_of(node), self.source.cut(arguments, 4000)
        if callee.endswith((b"exit", b"Exit")):
            return text[1:-1].strip() in _NOTHING
        if b"ail" in callee or callee in {b"abort", b"error", b"err", b"errx", b"die"}:
            return False
        if _ALWAYS.first(text) is not None or not mentions_names(arguments):
            return True
        given = arguments.named_children[:2]
        if len(given) == 2 and self.source.cut(given[0], 2000) == self.source.cut(given[1], 2000):
            return True
        left, right = (given[0].child_by_field_name(side) for side in ("left", "right"))
        same = left is not None and right is not None and self.source.cut(left, 2000) == self.source.cut(right, 2000)
        return same and b"==" in text and b"(" not in text[1:-1]

    def is_end(self, node: Node) -> bool:
        inner = node.named_children[0] if node.type == "expression_statement" and node.named_child_count == 1 else None
        if inner is not None and inner.type == "call_expression":
            return _ENDS.first(self.source.callee_of(inner)) is not None
        return super().is_end(node)

    def children(self, node: Node, place: WalkPosition) -> Iterator[tuple[Node, WalkPosition]]:
        if self.is_left_out(node):
            alternative = node.child_by_field_name("alternative")
            if alternative is not None:
                yield alternative, place
            return
        if node.type == "catch_clause":
            place = replace(place, before=b"")
        yield from super().children(node, place)


_WORDS = BytesPattern(rb"([A-Za-z_]\w*)")
