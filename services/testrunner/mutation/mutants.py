"""The small changes that can be made in one file: spans of its bytes and what is put there. Pure; one walk over its tree."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from gatewright.services.testrunner.mutation import grammars
from gatewright.services.testrunner.mutation.grammars import GRAMMARS, Grammar

#: Mutants of one file that are counted.
MOST_OF_A_FILE = 5_000
#: Bytes of a callee, a name or a condition that are looked at.
_LOOKED_AT = 200
#: Bytes of a condition that is turned round.
_LONGEST_CONDITION = 1_000
#: Digits of a number that is changed.
_MOST_DIGITS = 15
_RUST_TESTS = frozenset({b"test", b"tests"})


@dataclass(frozen=True, slots=True)
class Edit:
    """``new`` in the place of the bytes from ``start`` to ``end``."""

    start: int
    end: int
    new: bytes


@dataclass(frozen=True, slots=True)
class Mutation:
    """``edit`` begins in line ``line``, byte ``column``, both from 1."""

    edit: Edit
    line: int
    column: int


def mutants_of(language: str, content: bytes, root: Node, lines: Sequence[int]) -> list[Mutation]:
    """All mutants of ``content``, parsed to ``root``, that begin in one of ``lines`` (sorted, from 1), in its order."""
    walk = _Walk(GRAMMARS[language], content, lines)
    found: dict[Edit, Mutation] = {}
    stack = [root]
    while stack and len(found) < MOST_OF_A_FILE:
        node = stack.pop()
        if not walk.concerns(node) or walk.is_passed_over(node):
            continue
        for place, edit in walk.edits(node):
            row, column = place.start_point
            if walk.is_written(row + 1):
                found.setdefault(edit, Mutation(edit, row + 1, column + 1))
        stack.extend(reversed(walk.inside(node)))
    return list(found.values())


class _Walk:
    def __init__(self, grammar: Grammar, content: bytes, lines: Sequence[int]) -> None:
        self._grammar = grammar
        self._content = content
        self._lines = lines
        self._written = frozenset(lines)

    def is_written(self, line: int) -> bool:
        return line in self._written

    def concerns(self, node: Node) -> bool:
        """Whether any written line lies in ``node``."""
        at = bisect_left(self._lines, node.start_point[0] + 1)
        return at < len(self._lines) and self._lines[at] <= node.end_point[0] + 1

    def is_passed_over(self, node: Node) -> bool:
        """Words for people and tools, and tests that stand in sources."""
        kind = node.type
        if not node.is_named:
            return False
        if kind in grammars.PASSED_OVER:
            return True
        if kind in grammars.CALLS:
            callee, alone = self._callee(node), self._grammar.alone
            return grammars.LOGS.fullmatch(callee) or (alone is not None and alone.fullmatch(callee))
        if kind in {"assignment", "assignment_expression"}:
            left = node.child_by_field_name("left")
            return left is not None and grammars.FOR_TOOLS.fullmatch(self._cut(left))
        if kind == "if_statement":
            condition = node.child_by_field_name("condition")
            return condition is not None and grammars.NEVER_OTHERWISE.first(self._cut(condition)) is not None
        if kind == "mod_item":
            name = node.child_by_field_name("name")
            return name is not None and self._cut(name) in _RUST_TESTS
        return False

    def inside(self, node: Node) -> list[Node]:
        """The parts of ``node`` that are looked at."""
        if node.type not in grammars.BEFORE_THE_PROGRAM:
            return node.children
        condition = node.child_by_field_name("condition")
        return [child for child in node.children if child != condition]

    def edits(self, node: Node) -> Iterator[tuple[Node, Edit]]:
        """What can be changed in ``node`` itself, each with the node that it begins with."""
        if not node.is_named:
            return
        kind = node.type
        if kind in grammars.BINARY:
            yield from self._operators(node)
        if kind in grammars.NEGATIONS:
            yield from self._negation(node)
        if kind in grammars.CONDITIONED:
            yield from self._condition(node)
        if kind in grammars.NUMBERS:
            yield from self._number(node)
        elif kind in grammars.TRUTHS and (other := grammars.OPPOSITES.get(self._cut(node))):
            yield node, Edit(node.start_byte, node.end_byte, other)
        elif kind in {"return_statement", "return"}:
            yield from self._return_edits(node)
        elif kind in {"expression_statement", *self._grammar.removed}:
            yield from self._removal_edits(node)

    def _operators(self, node: Node) -> Iterator[tuple[Node, Edit]]:
        """Tokens between the operands; a chain of comparisons has several."""
        for child in node.children[:_LOOKED_AT]:
            operator = b" ".join(self._cut(child).split()) if not child.is_named else b""
            if operator not in self._grammar.kept and (other := grammars.OPERATORS.get(operator)):
                yield child, Edit(child.start_byte, child.end_byte, other)

    def _negation(self, node: Node) -> Iterator[tuple[Node, Edit]]:
        first = node.child(0)
        after = node.child(1)
        if first is not None and after is not None and first.type in grammars.NOT:
            yield node, Edit(node.start_byte, after.start_byte, b"")

    def _condition(self, node: Node) -> Iterator[tuple[Node, Edit]]:
        """Turned round, unless it has an operator of its own to be changed."""
        condition = node.child_by_field_name("condition")
        inner = condition
        while inner is not None and inner.type in grammars.AROUND and inner.named_child_count == 1:
            inner = inner.named_child(0)
        if condition is None or inner is None or inner.type in grammars.BINARY | grammars.NEGATIONS | grammars.TRUTHS:
            return
        if inner.type.startswith("let") or inner.type in {"declaration", *grammars.AROUND}:  # what binds a name
            return
        if condition.end_byte - condition.start_byte > _LONGEST_CONDITION:  # they may lie in each other
            return
        before, after = self._grammar.negated
        text = self._content[condition.start_byte : condition.end_byte]
        yield condition, Edit(condition.start_byte, condition.end_byte, before + text + after)

    def _number(self, node: Node) -> Iterator[tuple[Node, Edit]]:
        whole, point, rest = self._cut(node).partition(b".")
        if whole.isdigit() and len(whole) <= _MOST_DIGITS and (not point or rest.isdigit()):
            yield node, Edit(node.start_byte, node.end_byte, b"%d" % (int(whole) + 1) + point + rest)

    def _return_edits(self, node: Node) -> Iterator[tuple[Node, Edit]]:
        value = node.named_child(0) if node.named_child_count else None
        nothing = {b"None", b"nil", b"null", b"undefined"}
        if not self._grammar.returned or value is None or value.type in grammars.TRUTHS or self._cut(value) in nothing:
            return
        yield node, Edit(value.start_byte, value.end_byte, self._grammar.returned)

    def _removal_edits(self, node: Node) -> Iterator[tuple[Node, Edit]]:
        if node.type == "expression_statement":
            only = node.named_child(0) if node.named_child_count == 1 else None
            if only is None or only.type not in grammars.CALLS or self.is_passed_over(only):
                return
        yield node, Edit(node.start_byte, node.end_byte, self._grammar.nothing)

    def _callee(self, node: Node) -> bytes:
        callee = node.child_by_field_name("function") or node.child_by_field_name("macro")
        if callee is not None:
            return self._cut(callee)
        words = self._cut(node).partition(b"(")[0]
        return words.removeprefix(b"await ").strip()

    def _cut(self, node: Node) -> bytes:
        return self._content[node.start_byte : min(node.end_byte, node.start_byte + _LOOKED_AT)]
