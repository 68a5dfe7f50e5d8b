"""Forms by which source of Python or JavaScript meddles with tests that it knows: no planted test can show these.

A planted test has another name than those of the suite, asks for other things, and loads none of the sources. So what is
replaced for some tests alone, or looks for them by their names, passes every run. Names are followed through ``import`` and
``require``, as far as they stand at the place where they are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tree_sitter import Node

from gatewright.ecosystems.test_syntax.language import ParsedSource
from gatewright.patterns import BytesPattern
from gatewright.services.reviewer.syntax.forms import LONGEST, Doubt, Evasion, form_at

#: What tests are read, compiled and checked with; a program that replaces parts of it is rare.
_CHECKING = (
    rb"unittest|pytest|_pytest|pluggy|builtins|doctest|mock|hypothesis|nose2?|testtools|numpy\.testing|pandas\.testing|ast"
    rb"|importlib|pathlib|io|_io|inspect|linecache|tokenize|math|operator|difflib|codecs|marshal|runpy|pkgutil|types|site"
)
_REPLACED = BytesPattern(
    rb"^(?:" + _CHECKING + rb")(?:\.\w+)+$|\.__(?:code|eq)__\b|^sys\.modules\[[^\]_]*\]\.|^sys\.(?:meta_path|path_hooks)\b"
    rb"|\.(?:runtest|runtestprotocol|addFailure|addError|wasSuccessful|pytest_\w+)$"
)
_CHECKER = BytesPattern(rb"^(?:" + _CHECKING + rb")(?:\.\w+)*$")
_WATCHING = BytesPattern(
    rb"^(?:sys|threading)\.set(?:trace|profile)(?:_all_threads)?$|^sys\.(?:addaudithook|monitoring\.\w+)$|^ctypes\.pythonapi\b"
    rb"|^sys\.(?:meta_path|path_hooks)\.(?:insert|append|extend)$"
)
_HOOKS = BytesPattern(
    rb"pytest_(?:pyfunc_call|runtest(?:_call|_protocol|_makereport|_setup|_logreport|loop)|sessionfinish|cmdline_main"
    rb"|collection_modifyitems|ignore_collect|itemcollected|collect_file|pycollect_make(?:item|module)|generate_tests"
    rb"|fixture_setup|report_teststatus)"
)
#: Implementations of ``==``, ``isinstance`` and ``in``: one that ignores its arguments always accepts.
_COMPARING = frozenset({"__eq__", "__instancecheck__", "__contains__"})
#: Values that are equal to what they are compared with.
_EQUAL = BytesPattern(rb"^(?:unittest\.|mock\.)?mock\.ANY$|^pytest\.approx$|^(?:dirty_equals|hamcrest)(?:\.\w+)+$")
_TEST_MODULE = BytesPattern(rb"^(?:\w+\.)*(?:tests?|test_\w+|\w+_test)\.(?:\w+\.)*\w+$")
_INSIDE = BytesPattern(rb"[\"'](?:_pytest|pluggy|unittest\.(?:case|runner|result|main|suite))\b")
_PROFILE = BytesPattern(rb"^hypothesis\.settings\.(?:load|register)_profile$")
_LOADS = BytesPattern(rb"^(?:importlib\.import_module|__import__)$")
_LOADED = BytesPattern(rb"^(?:[\w.]*import_module|__import__|sys\.modules(?:\.get)?)\s*[(\[]\s*[\"']([\w.]+)[\"']\s*[)\],]")
#: A module that is computed, in the place of its name.
_COMPUTED = BytesPattern(rb"^(?:[\w.]*import_module\(|__import__\(|sys\.modules(?:\.get\(|\[[^\]_]))")
_SOME_MODULE = b"sys.modules[]"
_LOOKS = BytesPattern(
    rb"\.(?:tb_frame|f_back)\b|^(?:sys\.(?:_getframe|_current_frames|modules)|inspect\.(?:stack|currentframe)"
    rb"|traceback\.(?:extract_stack|walk_stack|format_stack))\b"
)
_TEST_NAME = BytesPattern(rb"(?:[\w./]*[./])?(?:tests?_\w*|\w+_tests?)(?:\.py)?|[\w./]*/?tests?/[\w./]*")
_TEST_PATH = BytesPattern(
    rb"(?:[\w.-]+/)*(?:tests?|__tests__|specs?)/(?:[\w.-]+/)*(?:test_\w+\.py|\w+_test\.py|[\w.-]+\.(?:test|spec)\.\w+)"
)
_FRAME = BytesPattern(rb"\bf_code\b|\bco_(?:name|qualname|filename)\b|\.function\b|\.filename\b")
_ANYTHING = BytesPattern(
    rb"return ?isinstance\(\w+,\(?(?:int|str|float|object|list|dict|tuple|bytes|bool|complex|set)\b[^()]*\)+"
)
_ENVIRONMENT = BytesPattern(rb"\benviron\b|\bgetenv\b")
_SPELLED = BytesPattern(
    rb"(?:_?pytest|unittest|pluggy|doctest|hypothesis)(?:\.[\w.]+)?|(?:py)?test_\w+|runtest|PYTEST_\w+|GATEWRIGHT_\w+|NODE_TEST_CONTEXT"
    rb"|(?:mocha|jest|vitest|chai|node:test|node:assert|JEST_WORKER_ID|VITEST)(?:[./]\w+)*"
)
#: Names of modules that a program may as well give to a variable.
_COMMON_WORDS = frozenset({b"io", b"ast", b"mock", b"math", b"operator", b"types", b"site", b"inspect"})
_STAR = b"*"
_LONG = 400


def interferences_in(language: str, root: Node, source: ParsedSource) -> Iterator[Evasion]:
    """The forms below ``root``; none in a language that is not looked at."""
    if language == "python":
        yield from _in_python(root, source)
    elif language in {"javascript", "typescript", "tsx"}:
        yield from _in_javascript(root, source)


class _Placed(NamedTuple):
    """A node with its parent, the parent of that, and the comparison or call that it belongs to.

    A node finds its parent from the root down: asked of each of many nodes that lie deep, that would never end.
    """

    node: Node
    parent: Node | None = None
    above: Node | None = None
    around: Node | None = None


_AROUND = frozenset({"comparison_operator", "call"})
_BOUNDARY = frozenset({"block", "module", "function_definition"})


def _placed_nodes(root: Node) -> Iterator[_Placed]:
    stack = [_Placed(root)]
    while stack:
        place = stack.pop()
        yield place
        node = place.node
        around = node if node.type in _AROUND else None if node.type in _BOUNDARY else place.around
        stack.extend(_Placed(child, node, place.parent, around) for child in reversed(node.named_children))


def _nodes(root: Node) -> Iterator[Node]:
    return (place.node for place in _placed_nodes(root))


# ---------------------------------------------------------------------------------------------------- Python


def _in_python(root: Node, source: ParsedSource) -> Iterator[Evasion]:
    places = [place for place in _placed_nodes(root) if place.node.type in _PYTHON]
    names = _imported_names([place.node for place in places], source)
    looks = False
    named: list[_Placed] = []
    for place in places:
        node = place.node
        if node.type in {"binary_operator", "concatenated_string", "subscript"}:
            yield from _spelled_name(node, source)
            continue
        if node.type in {"comparison_operator", "call"} and _looks_for_runner(node, source):
            yield form_at(node, source, "looks for a test runner", Doubt.RARE)
        yield from _python_forms(place, source, names)
        if node.type in {"attribute", "call"} and _LOOKS.first(_full(source.cut(node, _LONG), names)) is not None:
            looks = looks or not _is_own_module(place, source)
        elif node.type == "string":
            text = source.cut(node, _LONG).lstrip(b"bfru").strip(b"\"'")
            if _TEST_PATH.fullmatch(text):
                yield form_at(node, source, "names a file of the tests", Doubt.RARE)
            elif _TEST_NAME.fullmatch(text) or (text in {b"test", b"tests"} and _is_of_frame(place, source)):
                named.append(place)
    for place in named:
        if looks or _asks_environment(place, source):
            yield form_at(place.node, source, "looks for tests by their names", Doubt.RARE)


_PYTHON = frozenset(
    {"import_statement", "import_from_statement", "assignment", "augmented_assignment", "call", "attribute", "identifier"}
    | {"function_definition", "lambda", "string", "binary_operator", "concatenated_string"}
    | {"comparison_operator", "subscript"}
)
#: A module that is asked for by what a call or an operator gives, and how many there are.
_COMPUTED_KEYS = frozenset({"call", "subscript", "binary_operator", "concatenated_string"})
_COUNTED = BytesPattern(rb"^len\(sys\.modules\)")
_RUNNERS_CLASS = BytesPattern(rb"[\"'](?:EncodedFile|CaptureIO|LogCaptureHandler|DontReadFromInput|TextTestResult)[\"']")
_BEGINNING = BytesPattern(rb"^\w+\.startswith\([\"']PYTEST")
_OWN_PROGRAM = BytesPattern(rb"[\"']\w*test\w*[\"']\s+in\s+sys\.(?:orig_)?argv\[0\]")
#: What a name is put together from.
_PIECES = BytesPattern(rb"[\"']\w[\w.]+[\"']|\b(?:bytes|bytearray|chr|decode)\(")


def _looks_for_runner(node: Node, source: ParsedSource) -> bool:
    """Whether a comparison or a call asks for a runner, by a name that is computed or one of its classes."""
    text = source.cut(node, _LONG)
    if node.type == "call":
        return _BEGINNING.first(text) is not None
    left = node.named_children[0].type if node.named_child_count else ""
    in_modules = text.rstrip().endswith(b"in sys.modules") and left in _COMPUTED_KEYS and _PIECES.first(text) is not None
    return (
        in_modules
        or _OWN_PROGRAM.first(text) is not None
        or _COUNTED.first(text) is not None
        or _RUNNERS_CLASS.first(text) is not None
    )


def _spelled_name(node: Node, source: ParsedSource) -> Iterator[Evasion]:
    """Yield names of a runner or a test that are assembled from several texts."""
    if node.type == "subscript":
        whole = b"".join(source.cut(node, _LONG).split())
        text, reverse = whole.removesuffix(b"[::-1]").strip(b"\"'"), whole.endswith(b"[::-1]")
        if reverse and node.named_children[0].type == "string" and _SPELLED.fullmatch(text[::-1]):
            yield form_at(node, source, "spells a name of the tests in pieces", Doubt.RARE)
        return
    if node.end_byte - node.start_byte > _LONG or any(each.type != "string" for each in node.named_children):
        return
    pieces = [source.cut(each, _LONG).lstrip(b"bfruBFRU").strip(b"\"'") for each in node.named_children]
    if _SPELLED.fullmatch(b"".join(pieces)) and not any(_SPELLED.fullmatch(each) for each in pieces):
        yield form_at(node, source, "spells a name of the tests in pieces", Doubt.RARE)


def _python_forms(place: _Placed, source: ParsedSource, names: Mapping[bytes, bytes]) -> Iterator[Evasion]:
    node = place.node
    if node.type in {"assignment", "augmented_assignment"} and node.named_child_count:
        target = source.cut(node.named_children[0], _LONG)
        full = _full(target, names)
        if _is_own_name(target, names):
            return
        if b"." in target and any(each.first(full) is not None for each in (_REPLACED, _TEST_MODULE)):
            yield form_at(node, source, "replaces what tests rely on", Doubt.RARE)
    elif node.type == "call":
        yield from _python_call(place, source, names)
    elif node.type in {"attribute", "identifier"} and not _is_inner(place):
        if _EQUAL.first(_full(source.cut(node, _LONG), names)) is not None:
            yield form_at(node, source, "is equal to everything", Doubt.RARE)
    elif node.type == "function_definition":
        if _HOOKS.fullmatch(source.name_of(node).encode()):
            yield form_at(node, source, "decides which tests are run, or their results", Doubt.RARE)
        elif source.name_of(node) in _COMPARING and _is_equal_to_all(node, source):
            yield form_at(node, source, "is equal to everything", Doubt.RARE)
    elif node.type == "lambda" and _is_named_equal(place, source) and _is_equal_to_all(node, source):
        yield form_at(node, source, "is equal to everything", Doubt.RARE)


def _python_call(place: _Placed, source: ParsedSource, names: Mapping[bytes, bytes]) -> Iterator[Evasion]:
    node = place.node
    callee, text = _full(source.callee_of(node), names), source.cut(node, _LONG)
    if callee in {b"setattr", b"delattr", b"object.__setattr__", b"type.__setattr__"}:
        target, _, attribute = text.partition(b"(")[2].partition(b",")
        patched = _CHECKER.first(_full(b"".join(target.split()), names)) is not None
        if patched or attribute.strip().startswith((b'"__code__"', b"'__code__'")):
            yield form_at(node, source, "replaces what tests rely on", Doubt.RARE)
    elif callee.startswith((b"unittest.mock.patch", b"mock.patch")):
        target = text.partition(b"(")[2].partition(b",")[0].strip(b" \n\"')")
        if _CHECKER.first(_full(target, names)) is not None:
            yield form_at(node, source, "replaces what tests rely on", Doubt.RARE)
    elif _PROFILE.first(callee) is not None:
        yield form_at(node, source, "decides how tests are run", Doubt.RARE)
    elif _LOADS.first(callee) is not None and _INSIDE.first(text) is not None:
        yield form_at(node, source, "imports the inside of a test runner", Doubt.RARE)
    elif _WATCHING.first(callee) is not None or (callee.startswith(b"ctypes.") and b"id(" in text):
        yield form_at(node, source, "reaches into the interpreter", Doubt.RARE)
    elif callee == b"pytest.fixture" and b"".join(text.split()).find(b"autouse=True") >= 0:
        yield form_at(place.above if place.above is not None else node, source, "is a fixture of every test", Doubt.RARE)


def _imported_names(nodes: list[Node], source: ParsedSource) -> dict[bytes, bytes]:
    """What each name that is imported stands for, in full."""
    found: dict[bytes, bytes] = {}
    for node in nodes:
        if node.type == "assignment" and node.named_child_count > 1 and node.named_children[0].type == "identifier":
            loaded = next(_LOADED.groups(source.cut(node.named_children[1], _LONG)), None)
            computed = _COMPUTED.first(source.cut(node.named_children[1], _LONG)) is not None
            if loaded is not None or computed:
                found[source.cut(node.named_children[0], _LONG)] = loaded or _SOME_MODULE
        if node.type not in {"import_statement", "import_from_statement"}:
            continue
        module = node.child_by_field_name("module_name")
        above = source.cut(module, _LONG) + b"." if module is not None else b""
        for child in node.named_children:
            if child.type == "aliased_import" and child.named_child_count > 1:
                found[source.cut(child.named_children[1], _LONG)] = above + source.cut(child.named_children[0], _LONG)
            elif child.type == "dotted_name" and module is None:
                first = source.cut(child, _LONG).partition(b".")[0]
                found.setdefault(first, first)
            elif child.type == "wildcard_import":
                found[_STAR] = _STAR
            elif child.type == "dotted_name" and module is not None and child.start_byte != module.start_byte:
                found[source.cut(child, _LONG)] = above + source.cut(child, _LONG)
    return found


def _full(text: bytes, names: Mapping[bytes, bytes]) -> bytes:
    first, dot, rest = text.partition(b".")
    return names.get(first, first) + dot + rest


def _is_own_name(target: bytes, names: Mapping[bytes, bytes]) -> bool:
    """Whether it begins with a common word that the file does not import: a variable of its own."""
    first = target.partition(b".")[0]
    return first in _COMMON_WORDS and first not in names and _STAR not in names


def _is_inner(place: _Placed) -> bool:
    """Whether it is a part of a longer name, or of an import."""
    parent = place.parent
    return parent is not None and parent.type in {"attribute", "dotted_name", "aliased_import", "keyword_argument"}


def _is_of_frame(place: _Placed, source: ParsedSource) -> bool:
    """Whether the text is held against the name of what calls."""
    around = place.above if place.parent is not None and place.parent.type == "argument_list" else place.parent
    return around is not None and _FRAME.first(source.cut(around, 200)) is not None


def _is_own_module(place: _Placed, source: ParsedSource) -> bool:
    parent = place.parent
    return parent is not None and parent.type == "subscript" and b"__name__" in source.cut(parent, _LONG)


def _asks_environment(place: _Placed, source: ParsedSource) -> bool:
    """Whether the text is compared with something of the environment."""
    around = place.around
    compared = around is not None and around.type == "comparison_operator"
    return compared and around is not None and _ENVIRONMENT.first(source.cut(around, _LONG)) is not None


def _is_named_equal(place: _Placed, source: ParsedSource) -> bool:
    parent = place.parent
    if parent is None or parent.type not in {"assignment", "pair"} or not parent.named_child_count:
        return False
    return source.cut(parent.named_children[0], 20).strip(b"\"'").decode("utf-8", "replace") in _COMPARING


def _is_long(node: Node) -> bool:
    return node.end_byte - node.start_byte > LONGEST


def _is_equal_to_all(node: Node, source: ParsedSource) -> bool:
    """Whether what is compared is not looked at, or by its type alone."""
    parameters, body = node.child_by_field_name("parameters"), node.child_by_field_name("body")
    if parameters is None or body is None or parameters.named_child_count != 2 or _is_long(body):
        return False
    text, other = source.cut(body, _LONG), source.cut(parameters.named_children[1], 100).partition(b":")[0].strip()
    if (
        any(each in text for each in (b"NotImplemented", b"raise", b"return False", b"...", b"super()"))
        or text.strip() == b"pass"
    ):
        return False
    if body.type == "block" and all(each.type in {"expression_statement", "comment"} for each in body.named_children):
        return False  # a text with instructions for others
    words = {source.cut(each, 100) for each in _nodes(body) if each.type == "identifier"}
    return other not in words or _ANYTHING.fullmatch(b" ".join(text.split()).replace(b", ", b","))


# ---------------------------------------------------------------------------------------------------- JavaScript

_CHECKERS = (
    rb"(?:node:)?(?:assert(?:/strict)?|test|module)|chai|expect|vitest|jest|@jest/globals|mocha|sinon|should"
    rb"|power-assert|tape|ava"
)
_REQUIRED = BytesPattern(rb"^(?:await\s+import|require)\(\s*[\"'`](?:" + _CHECKERS + rb")[\"'`]\s*\)")
_IMPORTED = BytesPattern(rb"[\"'`](?:" + _CHECKERS + rb")[\"'`]\s*;?\s*$")
_CACHE = BytesPattern(rb"^require\.(?:cache|extensions)\b|^Module\.|^process\.(?:exit|reallyExit|emit|emitWarning|on)$")
_TEST_FILE = BytesPattern(rb"[\"'`/.](?:test|spec|__tests__)s?[\"'`/.]|[\"'`]_?(?:test|spec)\b")
_MAIN = BytesPattern(rb"\.stack\b|require\.main\b|module\.(?:parent|children)\b|process\.(?:argv|execArgv|mainModule)\b")
_SWALLOWS = BytesPattern(rb"\(\)=>\{\}|=>\{\}|function\(\w*\)\{\}|process\.exit\(0?\)")
_JAVASCRIPT = frozenset({"assignment_expression", "call_expression", "binary_expression", "lexical_declaration"})
_JAVASCRIPT |= {"variable_declarator", "import_statement", "string"}


def _in_javascript(root: Node, source: ParsedSource) -> Iterator[Evasion]:
    nodes = [node for node in _nodes(root) if node.type in _JAVASCRIPT]
    names = frozenset(name for node in nodes for name in _checkers_of(node, source))
    for node in nodes:
        if node.type == "binary_expression":
            yield from _spelled_name(node, source)
        if node.type == "assignment_expression":
            if _is_checker(source.cut(node.named_children[0], _LONG), names):
                yield form_at(node, source, "replaces what tests rely on", Doubt.RARE)
        elif node.type == "call_expression":
            yield from _javascript_call(node, source, names)
        elif node.type == "string":
            if _TEST_PATH.fullmatch(source.cut(node, _LONG).strip(b"\"'").removeprefix(b"./")):
                yield form_at(node, source, "names a file of the tests", Doubt.RARE)
        elif node.type == "binary_expression":
            yield from _looks_for_a_test(node, source)


def _checkers_of(node: Node, source: ParsedSource) -> Iterator[bytes]:
    """Names that this declaration gives to what checks."""
    if node.type == "variable_declarator":
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if (
            name is not None
            and value is not None
            and not _is_long(name)
            and _REQUIRED.first(source.cut(value, _LONG)) is not None
        ):
            yield from (source.cut(each, 100) for each in _nodes(name) if each.type.endswith("identifier"))
    elif node.type == "import_statement" and not _is_long(node) and _IMPORTED.first(source.cut(node, _LONG)) is not None:
        yield from (source.cut(each, 100) for each in _nodes(node) if each.type == "identifier")


def _is_checker(target: bytes, names: frozenset[bytes], *, whole: bool = False) -> bool:
    """Whether it is a part of what checks; ``whole``: or that itself."""
    first = target.partition(b".")[0].partition(b"[")[0].strip()
    inner = len(first) < len(target.strip())
    required = _REQUIRED.first(target) is not None
    return _CACHE.first(target.strip()) is not None or required or (first in names and (inner or whole))


def _javascript_call(node: Node, source: ParsedSource, names: frozenset[bytes]) -> Iterator[Evasion]:
    callee, text = source.callee_of(node), source.cut(node, _LONG)
    target = text.partition(b"(")[2].partition(b",")[0].strip()
    if callee in {
        b"Object.defineProperty",
        b"Object.defineProperties",
        b"Object.assign",
        b"Reflect.set",
        b"Reflect.defineProperty",
    }:
        if _is_checker(target, names, whole=True):
            yield form_at(node, source, "replaces what tests rely on", Doubt.RARE)
    elif callee in {b"process.on", b"process.once", b"process.prependListener"}:
        swallows = _SWALLOWS.first(b"".join(text.split())) is not None
        if swallows and target.strip(b"\"'`") in {b"uncaughtException", b"unhandledRejection"}:
            yield form_at(node, source, "forgets what failed", Doubt.RARE)
    else:
        yield from _looks_for_a_test(node, source)


def _looks_for_a_test(node: Node, source: ParsedSource) -> Iterator[Evasion]:
    text = source.cut(node, 200)
    if node.end_byte - node.start_byte <= len(text) and _MAIN.first(text) is not None and _TEST_FILE.first(text) is not None:
        yield form_at(node, source, "looks for tests by their names", Doubt.RARE)
