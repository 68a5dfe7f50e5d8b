"""Tests of Python by its syntax tree: pytest's and unittest's, what conftest decides, and doctests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tree_sitter import Node

from gatewright.ecosystems.test_syntax.language import Reader, WalkPosition, Words, line_of, mentions_names
from gatewright.ecosystems.test_syntax.tests_model import FileTests
from gatewright.patterns import BytesPattern

WORDS = Words(
    calls=frozenset({"call"}),
    case_name=BytesPattern(rb"^test"),
    skip_head=BytesPattern(rb"\bmark\s*\.\s*(?:skip|skipif|xfail)\b|\bskip\w*\b|\bexpectedFailure\b"),
    skip=BytesPattern(rb"(?:^|\.)(?:skip|xfail|importorskip|skipTest)$"),
    check=BytesPattern(rb"(?i)(?:^|[._])(?:assert|expect|verify|check|should|must|fail|raises|warns|deprecated_call)\w*$"),
    catches=frozenset({"except_clause", "except_group_clause"}),
)
#: What pytest asks a conftest or a test file, and gets another answer for which tests are run, or whether they failed.
_HOOKS = frozenset(
    [
        *("pytest_ignore_collect", "pytest_collection_modifyitems", "pytest_sessionfinish", "pytest_runtest_makereport"),
        *("pytest_runtest_protocol", "pytest_pyfunc_call", "pytest_runtestloop", "pytest_collect_file"),
        *("pytest_collect_directory", "pytest_pycollect_makeitem", "pytest_pycollect_makemodule", "pytest_itemcollected"),
        *("pytest_deselected", "pytest_report_teststatus", "pytest_cmdline_main", "pytest_collection"),
        *("pytest_make_collect_report", "pytest_runtest_call", "pytest_exception_interact", "pytest_cmdline_preparse"),
        *("pytest_load_initial_conftests", "pytest_unconfigure", "pytest_assertrepr_compare", "load_tests"),
    ]
)
_SETTINGS = (b"collect_ignore", b"collect_ignore_glob", b"python_functions", b"python_files", b"python_classes")
_STATUS = (b".exitstatus", b".testsfailed", b".wasxfail")
_CLASS = BytesPattern(rb"^Test|Tests?$|TestCase$|Spec$")
_SPECIFIC = BytesPattern(rb"\b(?:Exception|BaseException|AssertionError)\b|^except\s*:")
_SUPPRESS = BytesPattern(rb"suppress\s*\(.*\b(?:Exception|BaseException|AssertionError)\b")
_RAISED = BytesPattern(rb"\b(?:raise|fail|exit)\b")
_SKIPPED_HERE = BytesPattern(rb"\b(?:skip|skipif|xfail|SkipTest)\b")
_DEPTH = 20


class PythonReader(Reader):
    """One file of Python."""

    def start(self, root: Node) -> WalkPosition:
        return WalkPosition(skipped=self._all_skipped(root))

    def enter(self, node: Node, place: WalkPosition, found: FileTests) -> WalkPosition | None:
        match node.type:
            case "decorated_definition":
                decorators = [child for child in node.named_children if child.type == "decorator"]
                return replace(place, before=b"\n".join(self.source.cut(each, 2000) for each in decorators))
            case "decorator":
                return None
            case "class_definition":
                return self._class(node, place, found)
            case "function_definition":
                return self._function_definition(node, place, found)
            case "assert_statement":
                self._assert(node, place)
            case "raise_statement":
                if place.body is not None and b"SkipTest" in self.source.cut(node, 200):
                    place.body.skipped = True
            case "expression_statement":
                self._examples(node, place, found)
            case "assignment" | "delete_statement" | "augmented_assignment":
                self._assignment(node, place, found)
            case "with_statement":
                if _SUPPRESS.first(self.source.cut(node, 200).partition(b":\n")[0]) is not None:
                    return replace(place, heard=False)
            case _:
                pass
        return super().enter(node, place, found)

    def _class(self, node: Node, place: WalkPosition, found: FileTests) -> WalkPosition:
        name = self.source.name_of(node)
        bases = node.child_by_field_name("superclasses")
        is_case = bases is not None and b"Test" in self.source.cut(bases, 500)
        is_test = is_case or _CLASS.first(name.encode()) is not None
        found.names.add(name)
        body = node.child_by_field_name("body")
        text = self.source.cut(body, 2000) if body is not None else b""
        # pytest collects no class that is made with arguments of its own.
        ignored = not is_test or b"__test__ = False" in text or (not is_case and b"def __init__(" in text)
        skipped = place.skipped or WORDS.skip_head.first(place.before) is not None
        skipped = skipped or (body is not None and self._all_skipped(body))
        names = place.named(name)
        return WalkPosition(names, place.body, skipped=skipped, ignored=ignored or place.ignored or not place.heard)

    def _function_definition(self, node: Node, place: WalkPosition, found: FileTests) -> WalkPosition:
        name = self.source.name_of(node)
        qualified = "::".join((*place.names, name))
        found.names.add(qualified)
        if place.body is not None:
            return replace(place, names=place.named(name))
        if name in _HOOKS:
            found.hooks[name] = (line_of(node), b" ".join(self.source.cut(node).split()))
        decorators = replace(place, ignored=place.ignored or not place.heard)
        inner = super()._function(node, decorators, found)
        if inner.body is not None and qualified in found.cases:
            inner.body.skipped = place.skipped or WORDS.skip_head.first(place.before) is not None
            parent = node.parent if place.before else None
            if parent is not None:
                inner.body.rows = self._rows(parent)
        return inner

    def _rows(self, decorated: Node) -> int:
        rows = 1
        for decorator in decorated.named_children:
            call = decorator.named_children[0] if decorator.type == "decorator" and decorator.named_child_count else None
            if call is None or call.type != "call" or not self.source.callee_of(call).endswith(b"parametrize"):
                continue
            arguments = call.child_by_field_name("arguments")
            values = arguments.named_children[1] if arguments is not None and arguments.named_child_count > 1 else None
            rows *= values.named_child_count if values is not None and values.type in {"list", "tuple", "set"} else 1
        return rows

    def _assert(self, node: Node, place: WalkPosition) -> None:
        if place.body is None:
            return
        place.body.steps += 1
        if place.heard and node.named_child_count and not self.is_true(node.named_children[0]):
            place.body.checks += 1

    def is_constant(self, node: Node) -> bool:
        """Whether a check by a call cannot fail: of what is written there, of one thing with itself, of what is always true."""
        arguments = node.child_by_field_name("arguments")
        if arguments is None or not arguments.named_child_count:
            return False
        callee, given = self.source.callee_of(node), arguments.named_children
        if callee.endswith(b"assertTrue"):
            return self.is_true(given[0])
        if callee.endswith((b"assertEqual", b"assertIs", b"assert_equal")) and len(given) > 1:
            return self.source.cut(given[0]) == self.source.cut(given[1]) or not mentions_names(arguments)
        return not mentions_names(arguments) and callee.startswith(b"self.assert")

    def is_true(self, node: Node, depth: int = 0) -> bool:
        """Return whether an expression is true regardless of the code under test."""
        inner = node.named_children
        match node.type:
            case "true":
                return True
            case "integer":
                return self.source.cut(node, 20).strip(b"0_xX") != b""
            case "string":
                return node.end_byte - node.start_byte > 2
            case "tuple" | "list" | "dictionary" | "set":
                return bool(inner)
            case "parenthesized_expression":
                return bool(inner) and depth < _DEPTH and self.is_true(inner[0], depth + 1)
            case "boolean_operator" if depth < _DEPTH:
                sides = [self.is_true(side, depth + 1) for side in inner]
                operator = node.child_by_field_name("operator")
                return any(sides) if operator is not None and operator.type == "or" else all(sides)
            case "comparison_operator":
                if not mentions_names(node):
                    return True
                texts = {self.source.cut(side) for side in inner}
                marks = self.source.cut(node, 4000)
                return len(texts) == 1 and (b"==" in marks or b" is " in marks or b">=" in marks) and b"(" not in marks
            case "not_operator":
                return bool(inner) and inner[0].type in {"false", "none"}
            case "lambda":
                return True
            case _:
                return False

    def _is_swallowed(self, node: Node) -> bool:
        handlers = [child for child in node.named_children if child.type in WORDS.catches]
        texts = [self.source.cut(handler, 4000) for handler in handlers]
        return any(_SPECIFIC.first(text[:200]) is not None and _RAISED.first(text) is None for text in texts)

    def children(self, node: Node, place: WalkPosition) -> Iterator[tuple[Node, WalkPosition]]:
        if node.type == "for_statement":
            over = node.child_by_field_name("right")
            if over is not None and over.type in {"list", "tuple"} and not over.named_child_count:
                place = replace(place, heard=False)
        return super().children(node, place)

    def _assignment(self, node: Node, place: WalkPosition, found: FileTests) -> None:
        target = self.source.cut(node.named_children[0], 200) if node.named_child_count else b""
        if target.endswith(_STATUS):
            found.hooks[target.rpartition(b".")[2].decode()] = (line_of(node), self.source.cut(node, 400))
        if place.body is not None:
            return
        if target in _SETTINGS:
            found.hooks[target.decode()] = (line_of(node), self.source.cut(node, 4000))
        for name in target.split(b","):
            found.cases.pop("::".join((*place.names, name.strip().decode("utf-8", "replace"))), None)

    def _all_skipped(self, body: Node) -> bool:
        """Whether a mark or a call at the level of ``body`` skips everything in it."""
        for child in body.named_children:
            if child.type != "expression_statement" or not child.named_child_count:
                continue
            inner, text = child.named_children[0], self.source.cut(child, 1000)
            if inner.type == "assignment" and text.startswith(b"pytestmark") and _SKIPPED_HERE.first(text) is not None:
                return True
            if inner.type == "call" and WORDS.skip.first(self.source.callee_of(inner)) is not None:
                return True
        return False

    def _examples(self, node: Node, place: WalkPosition, found: FileTests) -> None:
        first = node.named_children[0] if node.named_child_count else None
        if first is None or first.type != "string":
            return
        text = self.source.cut(first)
        prompts = [line for line in text.split(b"\n") if line.lstrip().startswith(b">>> ")]
        if prompts:
            name = "::".join(place.names)
            found.examples[name] = found.examples.get(name, 0) + sum(b"+SKIP" not in line for line in prompts)
