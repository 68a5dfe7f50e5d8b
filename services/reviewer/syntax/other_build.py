"""Python code that differs without ``-O``, as tests are started. A query is reported; a result that depends on it is refused.

``__debug__`` has honest uses: guarded code inspects, reports, or raises. A value selected by it makes the tested program
another one than users may run: by a conditional expression, by arithmetic or an index, by a ``return`` below such a condition,
by a name that is set there and read elsewhere, by a function that is defined twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tree_sitter import Node

from gatewright.ecosystems.test_syntax.language import ParsedSource
from gatewright.patterns import BytesPattern
from gatewright.services.reviewer.syntax.forms import Doubt, Evasion, form_at

_ASKED = BytesPattern(rb"\b__debug__\b|\bsys\.flags\.optimize\b")
_DEBUG = BytesPattern(rb"\b__debug__\b")
#: What a condition, or an operation, may have bytes.
_LONG = 400
_CONDITIONS = frozenset({"if_statement", "elif_clause", "while_statement"})
_CHANGES = BytesPattern(rb":=|\.(?:__setitem__|__setattr__|append|add|pop|update|setdefault|clear|extend|remove)\(")
#: Calls that change something and give nothing: no honest assertion is made of one.
_CHANGES_ALONE = BytesPattern(
    rb"(?:\.(?:append|extend|insert|update|clear|__setitem__|__setattr__)|\bsetattr)\(.*\)\s*is\s+None\b"
)
_UNCERTAIN = "may be another one in the build that is tested"
_REFUSED = "gives another result in the tested build"


@dataclass(frozen=True, slots=True)
class _Place:
    """A node, the function that it stands in (its first byte, 0 for none) and the condition that it stands below."""

    node: Node
    function: int = 0
    below: Node | None = None


@dataclass
class _Seen:
    """What a walk has found: ``set_by`` conditions, and ``read`` elsewhere, by function and name; functions by name."""

    asked: list[Node] = field(default_factory=list)
    refused: dict[int, Node] = field(default_factory=dict)
    set_by: dict[tuple[int, bytes], Node] = field(default_factory=dict)
    read: set[tuple[int, bytes]] = field(default_factory=set)
    read_anywhere: set[bytes] = field(default_factory=set)
    functions: dict[tuple[int, str], list[_Place]] = field(default_factory=dict)
    returning: set[int] = field(default_factory=set)

    def refuse(self, node: Node) -> None:
        """The form begins at ``node``; each place counts once."""
        self.refused.setdefault(node.start_byte, node)


def other_builds_in(language: str, root: Node, source: ParsedSource) -> Iterator[Evasion]:
    """The forms below ``root``; none in another language than Python."""
    if language != "python":
        return
    seen = _Seen()
    for node in _changing_assertions(root, source):
        rare = _CHANGES_ALONE.first(source.cut(node, _LONG)) is not None
        yield form_at(node, source, _REFUSED if rare else _UNCERTAIN, Doubt.RARE if rare else Doubt.COMMON)
    if _ASKED.first(source.content) is None:
        return
    stack = [_Place(root)]
    while stack:
        place = stack.pop()
        _look_at(place, source, seen)
        stack += reversed(_inner(place, source))
    _judge(seen)
    covered = 0
    for node in sorted((*seen.refused.values(), *seen.asked), key=lambda each: (each.start_byte, -each.end_byte)):
        if seen.refused.get(node.start_byte) is node:
            yield form_at(node, source, _REFUSED, Doubt.RARE)
            covered = max(covered, node.end_byte)
        elif node.start_byte >= covered:
            yield form_at(node, source, _UNCERTAIN, Doubt.COMMON)


def _changing_assertions(root: Node, source: ParsedSource) -> Iterator[Node]:
    if b"assert" not in source.content or _CHANGES.first(source.content) is None:
        return
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "assert_statement" and _CHANGES.first(source.cut(node, _LONG)) is not None:
            yield node
        stack += reversed(node.named_children)


def _inner(place: _Place, source: ParsedSource) -> list[_Place]:
    node = place.node
    function = node.start_byte if node.type == "function_definition" else place.function
    below = place.below or (node if _is_conditional(node, source) else None)
    return [_Place(child, function, below) for child in node.named_children]


def _is_conditional(node: Node, source: ParsedSource) -> bool:
    condition = node.child_by_field_name("condition") if node.type in _CONDITIONS else None
    if node.type == "match_statement":
        condition = node.child_by_field_name("subject")
    return condition is not None and _ASKED.first(source.cut(condition, _LONG)) is not None


def _look_at(place: _Place, source: ParsedSource, seen: _Seen) -> None:
    node = place.node
    if node.type in {"identifier", "attribute"}:
        text = source.cut(node, 100)
        if text in {b"__debug__", b"sys.flags.optimize"}:
            seen.asked.append(node)
        elif place.below is None:
            seen.read.add((place.function, text))
            seen.read_anywhere.add(text)
    elif _chooses(node, source):
        seen.refuse(node)
    elif node.type == "function_definition":
        seen.functions.setdefault((place.function, source.name_of(node)), []).append(place)
    elif node.type == "return_statement" and node.named_child_count and node.named_children[0].type != "none":
        seen.returning.add(place.function)
        if place.below is not None and place.below.start_byte > place.function:
            seen.refuse(place.below)
    elif node.type in {"assignment", "augmented_assignment"} and place.below is not None and node.named_child_count:
        seen.set_by.setdefault((place.function, source.cut(node.named_children[0], 100)), place.below)


def _chooses(node: Node, source: ParsedSource) -> bool:
    """Whether an expression has one value with it, and another without."""
    if node.type == "conditional_expression":
        return node.named_child_count > 1 and _ASKED.first(source.cut(node.named_children[1], _LONG)) is not None
    if node.type in {"binary_operator", "subscript"}:
        return _DEBUG.first(source.cut(node, _LONG)) is not None
    left = node.named_children[0] if node.type == "boolean_operator" and node.named_child_count else None
    if left is not None and left.type == "parenthesized_expression" and left.named_child_count:
        left = left.named_children[0]
    chosen = left is not None and left.type == "boolean_operator" and _ASKED.first(source.cut(left, _LONG)) is not None
    return chosen and b" or " in source.cut(node, _LONG)


def _judge(seen: _Seen) -> None:
    for (function, name), condition in seen.set_by.items():
        anywhere = not function or b"." in name
        if name in seen.read_anywhere if anywhere else not seen.read.isdisjoint({(function, name), (0, name)}):
            seen.refuse(condition)
    for places in seen.functions.values():
        real = [place for place in places if place.node.start_byte in seen.returning]
        for place in real if len(real) > 1 else []:
            if place.below is not None:
                seen.refuse(place.below)
