"""Source forms that evade a test run: they look for a runner, a sandbox or a sentinel, end the process, or patch tests.

Each form has a key, which distinguishes additions of a change from forms that the file had before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tree_sitter import Node

from gatewright.ecosystems.test_syntax.language import ParsedSource
from gatewright.patterns import BytesPattern
from gatewright.services.reviewer.syntax.c_forms import c_forms_in
from gatewright.services.reviewer.syntax.forms import LONGEST, Doubt, Evasion, form_at
from gatewright.services.reviewer.syntax.interference import interferences_in
from gatewright.services.reviewer.syntax.lookers import looking_in
from gatewright.services.reviewer.syntax.other_build import other_builds_in
from gatewright.services.reviewer.syntax.suites import suite_forms_in
from gatewright.syntax_trees import language_of, parse


@dataclass(frozen=True, slots=True)
class _Around:
    """What a node stands in."""

    function: bytes | None = None
    is_main: bool = False


_Visit = Callable[[Node, _Around, ParsedSource], Iterator[Evasion]]
_RUNNERS = rb"(?:_?pytest|py\.test|unittest|nose2?|hypothesis|xdist|tox|jest|vitest|mocha|rspec|phpunit)"
_NAMED = BytesPattern(rb"(?i)[\"'`]" + _RUNNERS + rb"(?:[.\"'`])")
_LOADED = BytesPattern(rb"\bmodules\b|\b(?:orig_)?argv\b|\bcmdline\b|find_spec|\b__main__\b")
_VARIABLE = BytesPattern(
    rb"PYTEST_(?:CURRENT_TEST|VERSION|XDIST_WORKER|RUN_CONFIG|ADDOPTS)|\bJEST_WORKER_ID\b|\bVITEST(?:_\w+)?\b|NODE_TEST_CONTEXT"
    rb"|\bTOX_ENV_(?:NAME|DIR)\b|NEXTEST(?:_\w+)?\b|PHPUNIT_COMPOSER_INSTALL|__PHPUNIT_PHAR__|\bCTEST_\w+\b"
)
_OURS = BytesPattern(rb"\bGATEWRIGHT_[A-Z]|[\"'`]/gatewright(?:[/\"'`])")
_ENVIRONMENT = BytesPattern(rb"environ|getenv|process\.env|import\.meta\.env|env::var|ENV\b|_SERVER|Getenv")
_SANDBOX = BytesPattern(
    rb"/proc/(?:self|1|\d+)/(?:environ|cmdline|mountinfo|mounts|cgroup|status)|/\.dockerenv|[\"'`]/workspace[/\"'`]|\bbwrap\b|bubblewrap"
)
_CI = BytesPattern(rb"[\"'`](?:CI|GITHUB_ACTIONS|CONTINUOUS_INTEGRATION)[\"'`]|process\.env\.CI\b")
_FRAMES = BytesPattern(
    rb"^(?:sys\._getframe|sys\._current_frames|inspect\.(?:stack|currentframe)|traceback\.(?:extract_stack|walk_stack))$"
)
_OBJECTS = BytesPattern(rb"^gc\.get_(?:objects|referrers|referents)$")
_END = BytesPattern(
    rb"^(?:\w+\.)?(?:_exit|abort|raise_signal|pthread_kill)$|^os\.(?:exec\w+|kill|killpg|posix_spawn\w*)$|^exec[lv]p?e?$"
)
_STOP = BytesPattern(rb"^(?:sys\.exit|exit|quit|SystemExit)$")
_PATCHED = BytesPattern(
    rb"^(?:unittest|pytest|_pytest|pluggy|builtins|__builtins__|TestCase|TestResult|TestProgram|AssertionError)\b[^=]*\.\w+$|^builtins\.\w+$"
)
_STATUS = BytesPattern(rb"\.(?:exitstatus|testsfailed|testscollected)$")
_INTERNAL = BytesPattern(rb"\b_pytest\b|\bpluggy\b")
_GLOBALS = BytesPattern(rb"^(?:globalThis|global|window|self)(?:\.|\[[\"'`])(?:test|it|expect|describe|assert|process)\b")


_FORMS = (interferences_in, other_builds_in, suite_forms_in, c_forms_in, looking_in)


def evasions_in(path: bytes, content: bytes) -> tuple[Evasion, ...] | None:
    """The forms of a file; empty where there is none, None where they cannot be looked for: beyond the bounds."""
    language = language_of(path)
    visits = _VISITORS.get(language or "")
    if language is None or visits is None:
        return ()
    root = parse(language, content)
    if root is None:
        return None
    source = ParsedSource(content)
    found = (
        form
        for node, around in _walk(root, source)
        if (visit := visits.get(node.type)) is not None
        for form in visit(node, around, source)
    )
    # One text is reported once, with the message of the first form.
    places = {
        (form.line, form.key.removeprefix(form.words.encode())): form
        for form in reversed([*found, *(form for forms in _FORMS for form in forms(language, root, source))])
    }
    return tuple(reversed(places.values()))


_FUNCTIONS = frozenset(
    {"function_definition", "function_declaration", "arrow_function", "function_expression", "method_definition"}
)
_FUNCTIONS |= {"lambda", "function_item", "method_declaration", "method", "func_literal", "closure_expression"}


def _walk(root: Node, source: ParsedSource) -> Iterator[tuple[Node, _Around]]:
    stack = [(root, _Around())]
    while stack:
        node, around = stack.pop()
        yield node, around
        inner = around
        if node.type in _FUNCTIONS:
            inner = _Around(source.name_of(node).encode("utf-8", "replace"), around.is_main)
        elif node.type == "if_statement":
            condition = node.child_by_field_name("condition")
            if condition is not None and b"__main__" in source.cut(condition, 200):
                inner = _Around(around.function, is_main=True)
        stack.extend((child, inner) for child in reversed(node.named_children))


def _strings(node: Node, _around: _Around, source: ParsedSource) -> Iterator[Evasion]:
    """Yield forms in the text literals of any language."""
    text = source.cut(node, LONGEST)
    if _SANDBOX.first(text) is not None and b" " not in text.strip():
        yield form_at(node, source, "looks for the sandbox", Doubt.RARE)
    if _OURS.first(text) is not None and text[1:2] == b"/":
        yield form_at(node, source, "looks for the test run", Doubt.UNMISTAKABLE)


def _environment(node: Node, source: ParsedSource) -> Iterator[Evasion]:
    """A question to the environment."""
    text = source.cut(node, 400)
    if _ENVIRONMENT.first(text) is None:
        return
    if _VARIABLE.first(text) is not None:
        yield form_at(node, source, "asks whether tests are run", Doubt.RARE)
    elif _OURS.first(text) is not None:
        yield form_at(node, source, "asks whether this is a judged run", Doubt.UNMISTAKABLE)
    elif _CI.first(text) is not None:
        yield form_at(node, source, "asks whether this is continuous integration", Doubt.COMMON)


def _python_comparison(node: Node, _around: _Around, source: ParsedSource) -> Iterator[Evasion]:
    text = source.cut(node, 400)
    if _NAMED.first(text) is not None and _LOADED.first(text) is not None:
        yield form_at(node, source, "looks for a test runner", Doubt.RARE)
    else:
        yield from _environment(node, source)


def _runner_question(node: Node, _around: _Around, source: ParsedSource) -> Iterator[Evasion]:
    return _environment(node, source)


def _python_attribute(node: Node, around: _Around, source: ParsedSource) -> Iterator[Evasion]:
    if source.cut(node, 60) in {b"os._exit", b"posix._exit"} and not around.is_main:
        yield _ending(node, around, source)


def _python_import(node: Node, _around: _Around, source: ParsedSource) -> Iterator[Evasion]:
    text = source.cut(node, 200)
    if _INTERNAL.first(text) is not None:
        yield form_at(node, source, "imports the inside of a test runner", Doubt.RARE)
    elif text.startswith(b"from os import") and b"_exit" in text:
        yield form_at(node, source, "imports what ends the process at once", Doubt.RARE)


def _python_assignment(node: Node, _around: _Around, source: ParsedSource) -> Iterator[Evasion]:
    target = source.cut(node.named_children[0], 200) if node.named_child_count else b""
    if _STATUS.first(target) is not None:
        yield form_at(node, source, "sets the result of a test run", Doubt.UNMISTAKABLE)
    elif _PATCHED.first(target) is not None:
        yield form_at(node, source, "patches what tests rely on", Doubt.RARE)


def _ending(node: Node, around: _Around, source: ParsedSource) -> Evasion:
    where = "ends the process at once" if around.function is not None else "ends the process when it is imported"
    return form_at(node, source, where, Doubt.RARE if around.function is not None else Doubt.UNMISTAKABLE)


def _python_call(node: Node, around: _Around, source: ParsedSource) -> Iterator[Evasion]:
    callee, text = source.callee_of(node), source.cut(node, 400)
    if callee in {b"setattr", b"mock.patch", b"patch", b"mock.patch.object", b"patch.object", b"delattr"}:
        target = text.partition(b"(")[2].lstrip(b"\"' ").partition(b",")[0].strip()
        if _PATCHED.first(target + b".x") is not None:
            yield form_at(node, source, "patches what tests rely on", Doubt.RARE)
    elif callee == b"getattr" and (b'"_exit"' in text or b"'_exit'" in text):
        yield _ending(node, around, source)
    elif _OBJECTS.first(callee) is not None:
        yield form_at(node, source, "looks through the objects of the whole process", Doubt.RARE)
    elif _FRAMES.first(callee) is not None:
        yield form_at(node, source, "looks who has called it", Doubt.COMMON)
    elif _END.first(callee) is not None and not callee.endswith(b"._exit") and not around.is_main:
        if callee not in {b"os.kill", b"os.killpg"} or b"getpid" in text or b"(0," in text:
            yield _ending(node, around, source)
    elif _STOP.first(callee) is not None and around.function is None and not around.is_main:
        arguments = b"".join(text.partition(b"(")[2].split())
        if arguments in {b")", b"0)", b"None)", b"False)"}:
            yield form_at(node, source, "ends the process in success when it is imported", Doubt.RARE)
    elif _NAMED.first(text) is not None and _LOADED.first(callee + text) is not None:
        yield form_at(node, source, "looks for a test runner", Doubt.RARE)
    else:
        yield from _environment(node, source)


_NODE_TEST = BytesPattern(rb"NODE_ENV[\"'`\]]*[!=]==?[\"'`]test[\"'`]|[\"'`]test[\"'`][!=]==?process\.env\.NODE_ENV")


def _javascript_comparison(node: Node, _around: _Around, source: ParsedSource) -> Iterator[Evasion]:
    if _NODE_TEST.first(b"".join(source.cut(node, 200).split())) is not None:
        yield form_at(node, source, "asks whether tests are run", Doubt.RARE)


def _javascript_member(node: Node, _around: _Around, source: ParsedSource) -> Iterator[Evasion]:
    text = source.cut(node, 200)
    if text == b"import.meta.vitest":
        yield form_at(node, source, "asks whether tests are run", Doubt.RARE)
    elif text.startswith((b"process.env", b"import.meta.env")):
        yield from _environment(node, source)


def _javascript_call(node: Node, around: _Around, source: ParsedSource) -> Iterator[Evasion]:
    callee, text = source.callee_of(node), b"".join(source.cut(node, 400).split())
    if callee in {b"process.exit", b"process.abort"} and around.function is None:
        zero = text.endswith((b"exit()", b"(0)"))
        words = "ends the process in success when it is loaded" if zero else "ends the process when it is loaded"
        yield form_at(node, source, words, Doubt.RARE if zero else Doubt.COMMON)
    elif callee.startswith(b"process.on") and b"exit" in text[:40].lower() and b"exitCode=0" in text:
        yield form_at(node, source, "sets the exit code to success at the end", Doubt.UNMISTAKABLE)
    elif callee == b"process.reallyExit":
        yield form_at(node, source, "ends the process at once", Doubt.RARE)


def _javascript_assignment(node: Node, _around: _Around, source: ParsedSource) -> Iterator[Evasion]:
    target = source.cut(node, 200).partition(b"=")[0].strip()
    if _GLOBALS.first(target) is not None:
        yield form_at(node, source, "replaces what tests rely on", Doubt.RARE)
    elif target == b"process.exitCode" and b"".join(source.cut(node, 200).split()).endswith(b"=0"):
        yield form_at(node, source, "sets the exit code to success", Doubt.RARE)


#: For the other languages: names in a call, a macro or an attribute.
_OTHERS: dict[str, tuple[BytesPattern, BytesPattern]] = {
    "go": (
        BytesPattern(rb"^testing\.Testing\(|^flag\.Lookup\(\"test\.|^strings\.HasSuffix\(os\.Args\[0\], *\"[./]test"),
        BytesPattern(rb"^(?:os\.Exit\((?:0\))|syscall\.(?:Exit|Kill)\()"),
    ),
    "rust": (
        BytesPattern(rb"^cfg!\([^)]*\btest\b"),
        BytesPattern(rb"^(?:std::)?process::(?:exit\(0\)|abort\()|^libc::_exit\("),
    ),
    "ruby": (
        BytesPattern(rb"^defined\?\(?(?:RSpec|Minitest)|^Object\.const_defined\?\(:(?:RSpec|Minitest)"),
        BytesPattern(rb"^(?:Process\.)?exit!(?:$|\(?\s*(?:0|true)\b|\(\s*\))"),
    ),
    "php": (BytesPattern(rb"^defined\(.PHPUNIT|^class_exists\(.*PHPUnit"), BytesPattern(rb"^posix_kill\(")),
    "java": (
        BytesPattern(rb"^Class\.forName\(\"org\.(?:junit|testng)"),
        BytesPattern(rb"^(?:Runtime\.getRuntime\(\)\.halt|System\.exit)\(0?\)"),
    ),
}
_CALLS = frozenset({"call_expression", "macro_invocation", "call", "function_call_expression", "method_invocation", "unary"})
_TEXTS = frozenset({"string", "interpreted_string_literal", "string_literal", "encapsed_string", "raw_string_literal"})


def _other_call(language: str) -> _Visit:
    asks, ends = _OTHERS[language]

    def visit(node: Node, around: _Around, source: ParsedSource) -> Iterator[Evasion]:
        text = source.cut(node, 300)
        if asks.first(text) is not None:
            yield form_at(node, source, "looks for a test runner", Doubt.RARE)
        elif ends.first(text) is not None and around.function != b"main":
            yield form_at(node, source, "ends the process in success", Doubt.RARE)
        elif _BUILD.first(text) is not None:
            yield form_at(node, source, "may be another one in the build that is tested", Doubt.COMMON)
        elif node.end_byte - node.start_byte < len(text) + 1:
            yield from _environment(node, source)

    return visit


#: What is another one where tests run than where people use it, and has many honest uses.
_BUILD = BytesPattern(rb"^(?:cfg!\(debug_assertions|(?:std::)?env::current_exe\(\)$|os\.Executable\(|debug\.ReadBuildInfo\()")
_RUST_BUILD = BytesPattern(rb"\bdebug_assertions\b")
_RUST_ATTRIBUTE = BytesPattern(rb"\bcfg(?:_attr)?\b.*\bnot\(\s*test\s*\)")
_EQUALS = BytesPattern(rb"^\{?(?:return)?true;?\}?$")
#: Comparison functions by language: one that always accepts is no comparison.
_COMPARING = {
    "go": frozenset({"Equal"}),
    "rust": frozenset({"eq"}),
    "java": frozenset({"equals"}),
    "ruby": frozenset({"==", "eql?", "==="}),
}


def _rust_attribute(node: Node, _around: _Around, source: ParsedSource) -> Iterator[Evasion]:
    text = b" ".join(source.cut(node, 200).split())
    if _RUST_ATTRIBUTE.first(text) is not None:
        yield form_at(node, source, "is another one where tests are run", Doubt.RARE)
    elif _RUST_BUILD.first(text) is not None:
        yield form_at(node, source, "may be another one in the build that is tested", Doubt.COMMON)


def _rust_macro(node: Node, _around: _Around, source: ParsedSource) -> Iterator[Evasion]:
    name = source.name_of(node)
    if name in {"panic", "matches", "unreachable"} or name.removeprefix("debug_") in {"assert", "assert_eq", "assert_ne"}:
        yield form_at(node, source, "replaces what tests rely on", Doubt.RARE)


def _comparing(language: str) -> _Visit:
    def visit(node: Node, _around: _Around, source: ParsedSource) -> Iterator[Evasion]:
        body = node.child_by_field_name("body")
        named = node.child_by_field_name("name")
        text = b"".join(source.cut(body, 200).split()) if body is not None else b""
        name = source.cut(named, 20).decode("utf-8", "replace") if named is not None else ""
        if name in _COMPARING[language] and _EQUALS.first(text) is not None:
            yield form_at(node, source, "is equal to everything", Doubt.RARE)

    return visit


_PYTHON: Mapping[str, _Visit] = {
    "string": _strings,
    "comparison_operator": _python_comparison,
    "subscript": _runner_question,
    "call": _python_call,
    "attribute": _python_attribute,
    **dict.fromkeys(("import_from_statement", "import_statement"), _python_import),
    **dict.fromkeys(("assignment", "augmented_assignment"), _python_assignment),
}
_JAVASCRIPT: Mapping[str, _Visit] = {
    **dict.fromkeys(("string", "template_string"), _strings),
    "binary_expression": _javascript_comparison,
    **dict.fromkeys(("member_expression", "subscript_expression"), _javascript_member),
    "call_expression": _javascript_call,
    "assignment_expression": _javascript_assignment,
}


def _other_visits(language: str) -> Mapping[str, _Visit]:
    visits = {**dict.fromkeys(_TEXTS, _strings), **dict.fromkeys(_CALLS, _other_call(language))}
    if language in _COMPARING:
        visits |= dict.fromkeys(("function_item", "method_declaration", "method"), _comparing(language))
    if language == "rust":
        visits |= {"attribute_item": _rust_attribute, "inner_attribute_item": _rust_attribute, "macro_definition": _rust_macro}
    return visits


_C: Mapping[str, _Visit] = {"string_literal": _strings, "call_expression": _runner_question}
#: By language and type of node.
_VISITORS: Mapping[str, Mapping[str, _Visit]] = {
    "python": _PYTHON,
    **dict.fromkeys(("javascript", "typescript", "tsx"), _JAVASCRIPT),
    **{language: _other_visits(language) for language in _OTHERS},
    **dict.fromkeys(("c", "cpp"), _C),
}
