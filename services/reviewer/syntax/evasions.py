"""Source that evades a test run: it looks for one, ends it, or replaces what judges it.

Most forms have honest uses and are remarks. What no honest change needs blocks: see ``evasion_forms``. Each form has a key,
which distinguishes additions of a change from forms that the file had before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

from tree_sitter import Node

from gatewright.ecosystems.test_syntax.c_tests import function_name
from gatewright.ecosystems.test_syntax.language import ParsedSource, line_of
from gatewright.patterns import BytesPattern
from gatewright.services.reviewer.syntax import evasion_forms as forms
from gatewright.syntax_trees import language_of, parse

_FUNCTIONS = frozenset({"function_definition", "function_declaration", "arrow_function", "function_expression", "lambda"})
_FUNCTIONS |= {"method_definition", "function_item", "method_declaration", "method", "func_literal", "closure_expression"}
_FUNCTIONS |= {"lambda_expression"}
_CALLS = frozenset({"call", "call_expression", "method_invocation", "function_call_expression", "identifier"})
#: What a statement may stand in and still run at each load.
_PLAIN = frozenset({"program", "module", "expression_statement", "block", "statement_list", "translation_unit"})
_PLAIN |= {"source_file", "body_statement", "compound_statement"}
_COMMENTS = frozenset({"comment", "line_comment", "block_comment"})
_BLANK = bytes(10 if each == 10 else 32 for each in range(256))
_NAME = BytesPattern(rb"([A-Za-z_$][\w$]*)")
_CONSTRUCTOR = BytesPattern(rb"\bconstructor\b|\bdestructor\b|section\s*\(\s*\"\.(?:init|fini|preinit)")
_LAST_WORD = BytesPattern(rb"(\w+)\W*(?:[:=][^,]*)?$")
#: Files whose scripts are read without a syntax tree.
_EMBEDDED = (b".vue", b".svelte", b".astro")
_LONG = 400
#: Lines that a form without honest use may take.
_HEIGHT = 4


@dataclass(frozen=True)
class Evasion:
    """One place that evades. ``in_tests``: tests have no honest use of it either."""

    key: bytes
    line: int
    words: str
    blocks: bool = False
    in_tests: bool = False


@dataclass(frozen=True, slots=True)
class _Around:
    """What a node stands in. ``plain``: it runs each time that the file is loaded."""

    function: bytes | None = None
    excused: bool = False
    plain: bool = True


@dataclass(frozen=True, slots=True)
class _File:
    """Properties of a whole file. ``script``: nothing loads it. ``early``: a function of it runs before ``main``."""

    language: str
    script: bool
    forks: bool
    early: bool


def evasions_in(path: bytes, content: bytes) -> tuple[Evasion, ...] | None:
    """The forms of a file, one for each line; empty where there is none, None beyond the bounds of parsing."""
    language = "javascript" if path.endswith(_EMBEDDED) else language_of(path)
    if language is None or language not in forms.REMARKS:
        return ()
    if path.endswith(_EMBEDDED):
        return _by_line(content, _in_text(language, content, {}))
    root = parse(language, content)
    if root is None:
        return None
    source, code = ParsedSource(content), bytearray(content)
    found, names = list[Evasion](), dict[bytes, bytes]()
    file = _File(language, _is_script(path, language, content), b"fork" in content, _CONSTRUCTOR.is_in(content))
    for node, around in _walk(root, source):
        if node.type in _COMMENTS or (node.type == "string_content" and node.start_point[0] < node.end_point[0]):
            if source.cut(node, 5) != b"//go:":
                code[node.start_byte : node.end_byte] = content[node.start_byte : node.end_byte].translate(_BLANK)
        elif node.type in _CALLS:
            found += _exits(node, around, file, source)
        elif node.type in _FUNCTIONS:
            found += _comparisons(node, source)
        elif node.type in {"import_statement", "import_from_statement"}:
            names |= _imported(node, source)
    return _by_line(content, (*found, *_in_text(language, bytes(code), names)))


def _by_line(content: bytes, found: tuple[Evasion, ...]) -> tuple[Evasion, ...]:
    """One form for each line, a blocking one first, with the line's text as its key."""
    lines = content.split(b"\n")
    kept: dict[int, Evasion] = {}
    for form in sorted(found, key=lambda each: not each.blocks):
        kept.setdefault(form.line, replace(form, key=form.words.encode() + b"".join(lines[form.line - 1].split())))
    return tuple(kept[line] for line in sorted(kept))


def _in_text(language: str, code: bytes, names: dict[bytes, bytes]) -> tuple[Evasion, ...]:
    """The forms that patterns find: the first of each line, as a search for all may take quadratic time."""
    lines = code.split(b"\n")
    found = []
    for tables, blocks, height in ((forms.BLOCKED, True, _HEIGHT), (forms.REMARKS, False, 1)):
        table = tables[language]
        for number, line in enumerate(lines, 1) if table.pattern.is_in(code) else ():
            text = b"\n".join(lines[number - 1 : number - 1 + height]) if height > 1 else line
            group, start, _ = next(table.pattern.spans(text), (0, 0, 0))
            if group and start <= len(line):
                words = table.words(group)
                found.append(Evasion(b"", number, words, blocks, in_tests=blocks and words != forms.REPLACES))
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    setters = _python_setters(code, names) if language == "python" else _script_setters(language, code)
    return (*found, *(Evasion(b"", bisect_right(starts, start), forms.REPLACES, blocks) for start, blocks in setters))


def _python_setters(code: bytes, names: dict[bytes, bytes]) -> Iterator[tuple[int, bool]]:
    """Where what judges is replaced, and whether that blocks: a plugin of pytest, which has hooks, may change pytest.

    The test runner compares pytest's own functions itself (``runner_patched``).
    """
    is_plugin = b"def pytest_" in code
    for _, start, end in forms.SET_ATTRIBUTES.spans(code):
        target = b"".join(code[start:end].split()).replace(b",", b".").translate(None, b"\"'")
        first, dot, last = target.partition(b".")
        name = names.get(first, first) + dot + last
        if dot and forms.PATCHED.fullmatch(name):
            yield start, not (is_plugin and name.startswith((b"_pytest.", b"pluggy.")))


def _script_setters(language: str, code: bytes) -> Iterator[tuple[int, bool]]:
    if language not in {"javascript", "typescript", "tsx"}:
        return
    checkers = {name for text in forms.CHECKER_NAMES.groups(code) for name in _NAME.groups(text)}
    yield from ((start, True) for _, start, end in forms.SET_PARTS.spans(code) if code[start:end] in checkers)


def _imported(node: Node, source: ParsedSource) -> dict[bytes, bytes]:
    """Each name that an import of Python gives, with what it stands for."""
    module = node.child_by_field_name("module_name")
    above = source.cut(module, _LONG) + b"." if module is not None else b""
    found = {}
    for child in node.named_children[:_LONG]:
        if child.type == "aliased_import" and child.named_child_count > 1:
            found[source.cut(child.named_children[1], _LONG)] = above + source.cut(child.named_children[0], _LONG)
        elif child.type == "dotted_name" and module is not None and child.start_byte != module.start_byte:
            found[source.cut(child, _LONG)] = above + source.cut(child, _LONG)
    return found


def _is_script(path: bytes, language: str, content: bytes) -> bool:
    """Whether a file is a program, which nothing loads."""
    exports = any(each in content for each in (b"export ", b"export{", b"exports.", b"module.exports"))
    is_main = path.endswith(b"__main__.py")
    return content.startswith(b"#!") or is_main or (language in {"javascript", "typescript", "tsx"} and not exports)


def _walk(root: Node, source: ParsedSource) -> Iterator[tuple[Node, _Around]]:
    stack = [(root, _Around())]
    while stack:
        node, around = stack.pop()
        yield node, around
        inner = _inside(node, around, source)
        stack.extend((child, inner) for child in reversed(node.named_children))


def _inside(node: Node, around: _Around, source: ParsedSource) -> _Around:
    if node.type in _FUNCTIONS:
        name = source.name_of(node).encode("utf-8", "replace")
        is_lambda = node.type == "lambda_expression"
        if not is_lambda and node.child_by_field_name("declarator") is not None:  # of C
            name = function_name(source, node).encode("utf-8", "replace")
        return _Around(name, around.excused, plain=around.function is None and (name == b"init" or is_lambda))
    excused = around.excused
    if node.type == "if_statement":
        condition = node.child_by_field_name("condition")
        excused = excused or (condition is not None and b"__main__" in source.cut(condition, _LONG))
    elif node.type == "except_clause":
        excused = excused or b"KeyboardInterrupt" in source.cut(node, 60)
    plain = around.plain and node.type in _PLAIN
    return around if (excused, plain) == (around.excused, around.plain) else replace(around, excused=excused, plain=plain)


def _exits(node: Node, around: _Around, file: _File, source: ParsedSource) -> Iterator[Evasion]:
    pattern = forms.EXITS.get(file.language)
    if pattern is None or (node.type == "identifier" and file.language != "ruby"):
        return
    if not pattern.is_in(b"".join(source.cut(node, 60).split())) or around.function == b"main":
        return
    at_load = around.function is None or (around.plain and file.language == "go")
    match file.language:
        case "python":
            free = around.excused or (file.script and at_load)
            ends = file.forks or around.function == b"" or forms.ENDINGS.is_in(around.function or b"")
            blocks = not free and (at_load or not ends)
        case "c" | "cpp":
            blocks = at_load or (file.early and not file.forks) or around.plain
        case "java":
            blocks = False
        case _:
            blocks = at_load and around.plain and not file.script
    words = f"{forms.ENDS} when it is loaded" if at_load else forms.ENDS
    yield Evasion(b"", line_of(node), words, blocks, in_tests=blocks and at_load)


def _comparisons(node: Node, source: ParsedSource) -> Iterator[Evasion]:
    """A function that compares and does not look at its last parameter, or only at its type."""
    name = source.name_of(node).encode("utf-8", "replace")
    head, body = source.head(node), node.child_by_field_name("body")
    if b"operator==" in head:
        name = b"operator=="
    if name not in forms.COMPARING or body is None or body.end_byte - body.start_byte > _LONG:
        return
    text = b" ".join(source.cut(body).split())
    parameters = head.partition(name)[2].partition(b"(")[2].partition(b")")[0]
    other = next(iter(_LAST_WORD.groups(parameters.rpartition(b",")[2].partition(b":")[0].strip())), b"_")
    is_documentation = node.type == "function_definition" and text.startswith((b'"', b"'"))
    if is_documentation or forms.UNCOMPARED.is_in(text):
        return
    if other not in _NAME.groups(text) or forms.BY_TYPE_ALONE.fullmatch(text):
        yield Evasion(b"", line_of(node), forms.EQUAL)
