"""Finds tests in a syntax tree by a language's keywords: test functions, checking calls, skipping calls.

One walk over the tree, without recursion, at any depth. Code after a return, under a condition that is never true, or in an
attempt whose failure is ignored, checks nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tree_sitter import Node

from gatewright.ecosystems.test_syntax.tests_model import Body, FileTests
from gatewright.patterns import BytesPattern

_NEVER = BytesPattern(rb"$^x")
_HEARD = BytesPattern(rb"throw|raise|fail|assert|expect|done\(|reject")
#: Calls that fail with any arguments.
_FAILS = BytesPattern(rb"(?i)(?:fail|fatal|error|panic|unreachable|flunk)\w*!?$")
#: Bytes of a callee, a head, a condition that are looked at.
_SHORT, _HEAD = 200, 4000
_MOST_NAMES = 40
#: Nodes of an argument list that are looked at for a name.
_MOST_LOOKED_AT = 300


@dataclass(frozen=True)
class ParsedSource:
    """The bytes of a file, as its nodes have them: slices of one buffer."""

    content: bytes

    def cut(self, node: Node, most: int | None = None) -> bytes:
        """The text of ``node``, or the beginning of it."""
        end = node.end_byte if most is None else min(node.end_byte, node.start_byte + most)
        return self.content[node.start_byte : end]

    def name_of(self, node: Node) -> str:
        """The name of a function or class; empty for none."""
        named = node.child_by_field_name("name")
        if named is None:
            named = next((child for child in node.named_children[:9] if "identifier" in child.type), None)
        return self.cut(named, _SHORT).decode("utf-8", "replace") if named is not None else ""

    def callee_of(self, node: Node) -> bytes:
        """What a call calls: the text up to its arguments, without white space."""
        for name in ("function", "macro"):
            callee = node.child_by_field_name(name)
            if callee is not None:
                return b"".join(self.cut(callee, _SHORT).split())
        named = node.child_by_field_name("name") or node.child_by_field_name("method")
        if named is not None:
            return self.cut(named, _SHORT)
        return b"".join(self.cut(node, _SHORT).partition(b"(")[0].split())

    def title_of(self, node: Node) -> str:
        """The first argument of a call, where it is a text."""
        arguments = node.child_by_field_name("arguments")
        first = arguments.named_children[0] if arguments is not None and arguments.named_child_count else None
        return self.cut(first, _SHORT).decode("utf-8", "replace") if first is not None and "string" in first.type else ""

    def head(self, node: Node) -> bytes:
        """What stands before the body of a function or class."""
        body = node.child_by_field_name("body")
        end = body.start_byte if body is not None else node.end_byte
        return self.cut(node, min(end - node.start_byte, _HEAD))


@dataclass(frozen=True, slots=True)
class WalkPosition:
    """Where the walk is: the names around, the function it is in, and whether anything here can make a test fail."""

    names: tuple[str, ...] = ()
    body: Body | None = None
    heard: bool = True
    skipped: bool = False
    #: Attributes or comments that stand before a node and belong to it.
    before: bytes = b""
    #: Functions here are not collected.
    ignored: bool = False

    def named(self, name: str) -> tuple[str, ...]:
        """The names around with one more; those of a depth that has no reader are left out."""
        return (*self.names, name) if len(self.names) < _MOST_NAMES else self.names


@dataclass(frozen=True)
class Words:
    """The words of one language, as node types and patterns. ``head`` is what stands before a function's body."""

    functions: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset({"call_expression"})
    #: A test by its name, or by what stands in its head.
    case_name: BytesPattern = _NEVER
    case_head: BytesPattern = _NEVER
    skip_head: BytesPattern = _NEVER
    #: Calls that check, that skip what they stand in, that are a test or a group of tests of their own.
    check: BytesPattern = _NEVER
    skip: BytesPattern = _NEVER
    #: A name that alone is such a call.
    bare_skip: BytesPattern = _NEVER
    case_call: BytesPattern = _NEVER
    group_call: BytesPattern = _NEVER
    skip_call: BytesPattern = _NEVER
    only_call: BytesPattern = _NEVER
    ends: frozenset[str] = frozenset({"return_statement", "throw_statement", "raise_statement", "return_expression", "return"})
    conditions: frozenset[str] = frozenset({"if_statement", "while_statement", "if_expression", "if", "while_expression"})
    attempts: frozenset[str] = frozenset({"try_statement", "try_expression"})
    catches: frozenset[str] = frozenset({"catch_clause", "catch_block"})
    heard_catch: BytesPattern = _HEARD
    before: frozenset[str] = frozenset()
    steps: frozenset[str] = field(default=frozenset({"assignment", "assignment_expression", "lexical_declaration"}))


class Reader:
    """Reads one file: ``words`` of its language, over ``source``."""

    def __init__(self, words: Words, source: ParsedSource) -> None:
        self.words = words
        self.source = source

    def tests(self, root: Node) -> FileTests:
        """All tests of the file."""
        found = FileTests()
        stack: list[tuple[Node, WalkPosition]] = [(root, self.start(root))]
        while stack:
            node, place = stack.pop()
            inner = self.enter(node, place, found)
            if inner is not None:
                stack.extend(reversed(list(self.children(node, inner))))
        found.settle()
        return found

    def start(self, _root: Node) -> WalkPosition:
        return WalkPosition()

    def enter(self, node: Node, place: WalkPosition, found: FileTests) -> WalkPosition | None:
        """Take ``node`` in; the place of what is in it, None for nothing."""
        kind = node.type
        if kind in self.words.functions and (place.body is None or kind in self.words.groups):
            return self._function(node, place, found)
        if kind in self.words.groups:
            skipped = place.skipped or self.words.skip_head.first(place.before + self.source.head(node)) is not None
            return replace(place, names=place.named(self.source.name_of(node)), skipped=skipped, before=b"")
        if kind in self.words.calls:
            return self._call(node, place, found)
        if place.body is not None and kind == "identifier" and self.words.bare_skip.fullmatch(self.source.cut(node, _SHORT)):
            place.body.skipped = True
        if place.body is not None and kind in self.words.steps:
            place.body.steps += 1
        return place

    def _function(self, node: Node, place: WalkPosition, found: FileTests) -> WalkPosition:
        name = self.source.name_of(node)
        before = place.before + self.source.head(node)
        body = Body("::".join((*place.names, name)), line_of(node))
        is_case = self.words.case_name.first(name.encode()) is not None or self.words.case_head.first(before) is not None
        if is_case and not place.ignored:
            body.skipped = place.skipped or self.words.skip_head.first(before) is not None
            body.text = b" ".join(self.source.cut(node).split())
            found.cases[body.name] = body
        else:
            found.helpers[name] = body
        return WalkPosition(place.named(name), body, skipped=place.skipped)

    def _call(self, node: Node, place: WalkPosition, found: FileTests) -> WalkPosition:
        callee = self.source.callee_of(node)
        if self.words.only_call.first(callee) is not None:
            found.hooks["only"] = (line_of(node), b"only")
        is_case = self.words.case_call.first(callee) is not None
        # A test in a test is part of it.
        if place.body is None and (is_case or self.words.group_call.first(callee) is not None):
            if not place.heard:
                return place
            name = self.source.title_of(node)
            skipped = place.skipped or self.words.skip_call.first(callee) is not None
            if not is_case:
                return replace(place, names=place.named(name), skipped=skipped)
            body = Body(
                "::".join((*place.names, name)), line_of(node), b" ".join(self.source.cut(node).split()), skipped=skipped
            )
            while body.name in found.cases:
                body.name += "'"
            found.cases[body.name] = body
            return WalkPosition(place.named(name), body, skipped=skipped)
        if place.body is None:
            return place
        place.body.steps += 1
        if self.words.skip.first(callee) is not None:
            place.body.skipped = True
        leaf = callee.rpartition(b".")[2].rpartition(b":")[2].strip()
        place.body.calls += [leaf.decode("utf-8", "replace")] if place.heard else []
        if place.heard and self.words.check.first(callee) is not None and not self.is_constant(node):
            place.body.checks += 1
        return place

    def is_constant(self, node: Node) -> bool:
        """Whether a call checks only what is written there: no name stands in its arguments."""
        if _FAILS.first(self.source.callee_of(node)) is not None:
            return False
        arguments = node.child_by_field_name("arguments") or (node.named_children[-1] if node.named_child_count else None)
        return arguments is not None and arguments.named_child_count > 0 and not mentions_names(arguments)

    def children(self, node: Node, place: WalkPosition) -> Iterator[tuple[Node, WalkPosition]]:
        """What is in ``node``, each with its place."""
        if not node.named_child_count:
            return
        unheard: WalkPosition | None = None
        dead = self.dead_part(node)
        swallowed = node.type in self.words.attempts and self._is_swallowed(node)
        ended = False
        before = b""
        for number, child in enumerate(node.named_children):
            if child.type in self.words.before:
                before = (before + self.source.cut(child))[:_HEAD]
                continue
            inner = place
            if ended or (dead is not None and child == dead) or (swallowed and number == 0):
                unheard = inner = unheard or replace(place, heard=False)
            yield child, (replace(inner, before=before) if before else inner)
            before = b""
            ended = ended or self.is_end(child)

    def is_end(self, node: Node) -> bool:
        if node.type == "expression_statement" and node.named_child_count == 1:
            node = node.named_children[0]
        return node.type in self.words.ends and node.named_child_count < _SHORT

    def dead_part(self, node: Node) -> Node | None:
        """What of a condition is never run."""
        if node.type not in self.words.conditions:
            return None
        condition = node.child_by_field_name("condition") or (node.named_children[0] if node.named_child_count else None)
        if condition is None or self.source.cut(condition, _SHORT).strip(b"() ") not in {
            b"false",
            b"False",
            b"0",
            b"None",
            b"null",
            b"nil",
            b'""',
        }:
            return None
        return node.child_by_field_name("consequence") or node.child_by_field_name("body") or node.named_children[-1]

    def _is_swallowed(self, node: Node) -> bool:
        handlers = [child for child in node.named_children if child.type in self.words.catches]
        return bool(handlers) and all(self.words.heard_catch.first(self.source.cut(child, _HEAD)) is None for child in handlers)


def line_of(node: Node) -> int:
    return int(node.start_point[0]) + 1


def mentions_names(node: Node) -> bool:
    """Whether a name stands anywhere in ``node``; of much, only the beginning is looked at."""
    waiting: list[Node] = [node]
    for _ in range(_MOST_LOOKED_AT):
        if not waiting:
            return False
        each = waiting.pop()
        if "identifier" in each.type or each.type in {"name", "variable_name", "constant", "call", "token_tree_name", "this"}:
            return True
        waiting += each.named_children[:_MOST_LOOKED_AT]
    return True
