"""Source of Go, Ruby or PHP that inspects how it was started, or its name, and compares that with test names.

Either half has honest uses: a program prints its name, a command is called ``test``. Both in one function are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tree_sitter import Node

from gatewright.ecosystems.test_syntax.language import ParsedSource
from gatewright.patterns import BytesPattern
from gatewright.services.reviewer.syntax.forms import Doubt, Evasion, form_at

_LONG, _BODY = 200, 20_000


@dataclass(frozen=True)
class _Questions:
    """``asks``: how a program learns what it runs in; ``compares``: nodes in which it is held against ``texts``."""

    asks: BytesPattern
    texts: BytesPattern
    files: BytesPattern
    functions: frozenset[str]
    compares: frozenset[str]
    strings: frozenset[str]


_QUESTIONS: Mapping[str, _Questions] = {
    "go": _Questions(
        BytesPattern(
            rb"\bos\.Args\[0\]|\bos\.Executable\(|\bruntime\.(?:Callers?|CallersFrames|FuncForPC|Stack)\(|\bdebug\.Stack\("
        ),
        BytesPattern(rb"[\"`](?:[^\"`\s]*[./_])?[tT]ests?(?:[./_][^\"`\s]*)?[\"`]|[\"`]Test[A-Z_.]?\w*[\"`]|[\"`/]go-build"),
        BytesPattern(rb"[\"`](?:[\w.-]*/)*\w+_test\.go[\"`]"),
        frozenset({"function_declaration", "method_declaration", "func_literal"}),
        frozenset({"call_expression", "binary_expression", "expression_case"}),
        frozenset({"interpreted_string_literal", "raw_string_literal"}),
    ),
    "ruby": _Questions(
        BytesPattern(
            rb"\bcaller(?:_locations)?\b|\$PROGRAM_NAME\b|\$0\b|\$LOADED_FEATURES\b|\$\"|\bObject\.constants\b|\bObjectSpace\b"
            rb"|\bProcess\.argv0\b"
        ),
        BytesPattern(rb"(?i)[\"'/](?:[^\"'\s]*[/_.:|(])?(?:tests?|specs?|rspec|minitest|rake)(?:[/_|).:\\$][^\"'\s]*)?[\"'/]"),
        BytesPattern(rb"[\"'](?:[\w.-]*/)*(?:\w+_(?:spec|test)|test_\w+|spec_helper|test_helper)\.rb[\"']"),
        frozenset({"method", "singleton_method"}),
        frozenset({"call", "binary"}),
        frozenset({"string"}),
    ),
    "php": _Questions(
        BytesPattern(
            rb"\bdebug_(?:print_)?backtrace\(|->getTrace(?:AsString)?\(|\$_SERVER\[.(?:argv|SCRIPT_(?:NAME|FILENAME)|PHP_SELF).\]"
            rb"|\$argv\b|\bget_(?:included_files|required_files|declared_classes)\("
        ),
        BytesPattern(rb"(?:^|[^\[])[\"'](?:[^\"'\s]*[/\\_.])?(?:[tT]ests?|phpunit|PHPUnit)(?:\\*[/\\_.$][^\"'\s]*)?[\"']"),
        BytesPattern(rb"[\"'](?:[\w.-]*/)*\w+Test\.php[\"']"),
        frozenset({"function_definition", "method_declaration"}),
        frozenset({"function_call_expression", "binary_expression"}),
        frozenset({"string", "encapsed_string"}),
    ),
}


def looking_in(language: str, root: Node, source: ParsedSource) -> Iterator[Evasion]:
    """The forms below ``root``; none in a language that is not looked at."""
    questions = _QUESTIONS.get(language)
    if questions is None:
        return
    at_top = root.end_byte <= _BODY and questions.asks.first(source.content) is not None
    stack: list[tuple[Node, bool | None]] = [(root, None)]
    while stack:
        node, asks = stack.pop()
        if asks is None and node.type in questions.functions:
            asks = questions.asks.first(source.cut(node, _BODY)) is not None
        if node.type in questions.strings and questions.files.fullmatch(source.cut(node, _LONG)):
            yield form_at(node, source, "names a file of the tests", Doubt.RARE)
        elif node.type in questions.compares and (at_top if asks is None else asks):
            text = source.cut(node, _LONG)
            if source.callee_of(node).startswith(b"require"):
                continue
            is_whole = node.end_byte - node.start_byte <= len(text) and b"{" not in text
            if is_whole and questions.texts.first(text) is not None:
                yield form_at(node, source, "looks for tests by their names", Doubt.RARE)
                continue
        stack.extend((child, asks) for child in reversed(node.named_children))
