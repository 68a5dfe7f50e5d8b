"""Source forms that interfere with the tests of one kind of suite: Node, Go, Rust, the JVM, Ruby or PHP.

Each is recognised by what it names: a replaced matcher, a value equal to everything, the flags of a test binary, the words or
frames of a runner. All are read from the text of one node of bounded size, so that a file is read in linear time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tree_sitter import Node

from gatewright.ecosystems.test_syntax.language import ParsedSource
from gatewright.patterns import BytesPattern
from gatewright.services.reviewer.syntax.forms import Doubt, Evasion, form_at

_LONG = 400
_REPLACES = "replaces what tests rely on"
_LOOKS = "looks for a test runner"
_ALL = "is equal to everything"
_BUILD = "may be another one in the build that is tested"
#: What the runners of JavaScript put among the names of the whole process.
_GLOBAL = (
    rb"(?:it|describe|suite|specify|before|after|beforeEach|afterEach|beforeAll|afterAll|jest|vi|vitest|expect|mocha|Mocha)"
)

#: By language: what the text of a node begins with, or has in it, and what that does. The first that fits counts.
_Forms = tuple[tuple[BytesPattern, str], ...]

_JAVASCRIPT: _Forms = (
    (BytesPattern(rb"^Object\.keys\(require\.cache\)\.\w+\(.*[\"'`/](?:mocha|jest|vitest|chai)"), _LOOKS),
    (BytesPattern(rb"^(?:\w+\.)?expect\.(?:extend|addEqualityTesters)\("), _REPLACES),
    (BytesPattern(rb"^(?:\w+\.)?chai\.use\("), _REPLACES),
    (BytesPattern(rb"^(?:\w+\.)?expect\.(?:anything|any|closeTo|objectContaining|stringMatching)\("), _ALL),
    (BytesPattern(rb"^Symbol\.for\([\"'`](?:\$\$jest-matchers-object|expect-global|jest[.-]|\$\$jest|vitest[.:-])"), _REPLACES),
    (BytesPattern(rb"^(?:\w+\.)?expect\.getState\(|^globalThis\.__vitest_\w+__$"), _LOOKS),
    (BytesPattern(rb"^typeof\s+(?:(?:globalThis|global|window|self)\.)?(?:jest|describe|expect|beforeEach)\s*[!=]==?"), _LOOKS),
    (BytesPattern(rb"^Object\.is\s*=[^=>]"), _REPLACES),
    (
        BytesPattern(rb"^require\([\"'`](?:mocha|jest-circus|jest-jasmine2|@vitest/runner|@jest/expect)/[^\"'`]*[\"'`]\)\."),
        _REPLACES,
    ),
    (BytesPattern(rb"^(?:it|test|describe|beforeEach|before|beforeAll)\(.*\bthis\.skip\("), "skips tests"),
    (BytesPattern(rb"^[\"'`]" + _GLOBAL + rb"[\"'`]\s+in\s+(?:globalThis|global|window|self)\b"), _LOOKS),
    (BytesPattern(rb"^(?:globalThis|global)(?:\." + _GLOBAL + rb"|\[[\"'`]" + _GLOBAL + rb"[\"'`]\])$"), _LOOKS),
    (
        BytesPattern(
            rb"^(?:Reflect\.(?:has|get|ownKeys|getOwnPropertyDescriptor)"
            rb"|Object\.(?:keys|entries|hasOwn|getOwnPropertyNames|getOwnPropertyDescriptors?))\((?:globalThis|global)\b"
        ),
        "looks through the names of the whole process",
    ),
    (
        BytesPattern(
            rb"^(?:eval|Function|new Function|(?:[\w.]+\.|require\([^()]*\)\.)?runIn\w*Context)\(.*\btypeof\s+"
            + _GLOBAL
            + rb"\b"
        ),
        _LOOKS,
    ),
    (
        BytesPattern(rb"^process\.env\.npm_lifecycle_event\s*[!=]==?\s*[\"'`][\w:]*test|^process\.execArgv\.\w+\(.*--test\b"),
        _LOOKS,
    ),
    (
        BytesPattern(rb"^(?:require\.main|process\.mainModule|module(?:\.parent)?)\.children\b|^process\.report\.getReport\("),
        _LOOKS,
    ),
    (BytesPattern(rb"^Error\.prepareStackTrace\s*=[^=].*(?:test|spec\b|mocha|jest|vitest|node_modules)"), _LOOKS),
    (
        BytesPattern(rb"^console\.constructor\.|^(?:[\w.]+\.|require\([^()]*\)\.)?isContext\((?:globalThis|global|this)\)"),
        _LOOKS,
    ),
    (BytesPattern(rb"^require\([\"'`](?:node:)?inspector(?:/promises)?[\"'`]\)"), "reaches into the interpreter"),
    (
        BytesPattern(
            rb"\.isDeepStrictEqual\s*=[^=]|^Object\.getPrototypeOf\((?:\w+\.)?expect\(|^Promise\.prototype\.then\s*=[^=]"
            rb"|^(?:Number|String|Boolean|Array|Object)\.prototype\.(?:valueOf|toString|constructor)\s*=[^=]"
        ),
        _REPLACES,
    ),
    (BytesPattern(rb"^new Error\([^()]*\)\.stack\b.*[\"'`/](?:mocha|jest|vitest|node:internal/test)"), _LOOKS),
    (BytesPattern(rb"^process\.kill\(process\.p?pid\b"), "ends the process at once"),
)
_GO: _Forms = (
    (BytesPattern(rb"^flag\.(?:CommandLine\.)?Set\(\"test\."), _REPLACES),
    (BytesPattern(rb"^flag\.(?:CommandLine\.)?(?:Lookup|Visit(?:All)?)\(\"test\."), _LOOKS),
    (BytesPattern(rb"^os\.Args\s*(?:\[[^]]*\])?\s*=[^=].*-test\."), _REPLACES),
    (BytesPattern(rb"^//go:linkname\s+\w+\s+testing\."), _REPLACES),
    (BytesPattern(rb"^strings\.\w+\(.*\"[^\"]*(?:testing\.tRunner|testing\.\(\*)[^\"]*\""), _LOOKS),
    (BytesPattern(rb"^flag\.(?:CommandLine\.)?Lookup\([^)]*\+"), _LOOKS),
    (BytesPattern(rb"^syscall\.Exec\("), "puts another program in the place of the process"),
    (BytesPattern(rb"^(?:strings|bytes)\.\w+\(.*\"(?:-test\.|[^\"]*\btRunner)"), _LOOKS),
    (BytesPattern(rb"^flag\.(?:CommandLine\.)?Visit(?:All)?\(.*\"-?test\."), _LOOKS),
)
_RUST: _Forms = (
    (
        BytesPattern(
            rb"^(?:std::)?thread::current\(\)\.name\(\)(?:\..*(?:contains|starts_with|ends_with|eq|find)\(\s*\"|\s*[!=]=)"
        ),
        "looks for tests by their names",
    ),
    (
        BytesPattern(
            rb"^(?:std::)?env::args(?:_os)?\(\).*\"(?:--(?:logfile|exact|nocapture|test-threads)\"|[^\"]*(?:/deps|target/debug))"
        ),
        _LOOKS,
    ),
    (BytesPattern(rb"^(?:std::)?env::current_exe\(\)\.?.*\.(?:contains|ends_with|starts_with|find|matches)\("), _LOOKS),
    (BytesPattern(rb"^(?:[\w:]*::)?Backtrace::(?:force_)?capture\(\).*\"[^\"]*test"), _LOOKS),
    (BytesPattern(rb"^debug_assert\w*!\s*\(.*(?:[^=!<>+*/-]=[^=>]|[+*/|&^-]=[^=])"), _BUILD),
    (BytesPattern(rb"^(?:std::)?env::var(?:_os)?\(\s*\"(?:CARGO|NEXTEST)"), _BUILD),
)
_JAVA: _Forms = (
    (
        BytesPattern(
            rb"^[\w.()]*get(?:ClassName|MethodName)\(\)\.(?:endsWith|contains|startsWith|equals|matches)\("
            rb" ?\"[^\"]*(?:junit|testng|surefire|Tests?)\"? ?"
        ),
        _LOOKS,
    ),
    (BytesPattern(rb"^System\.getProperty\(\s*\"(?:surefire|failsafe)\."), _LOOKS),
    (BytesPattern(rb"^(?:org\.junit\.)?(?:jupiter\.api\.)?(?:Assume|Assumptions)\.assume\w+\("), "skips tests"),
    (
        BytesPattern(
            rb"^new\s+(?:org\.opentest4j\.TestAbortedException|org\.junit\.(?:internal\.)?AssumptionViolatedException)\("
        ),
        "skips tests",
    ),
    (
        BytesPattern(rb"^package\s+(?:org\.junit|junit\.framework|org\.opentest4j|org\.testng)\b"),
        "takes the place of a test runner",
    ),
    (BytesPattern(rb"^\w+(?:\.\w+)*\.getResource(?:AsStream)?\(\s*\"[^\"]*Test\.class\""), _LOOKS),
    (BytesPattern(rb"^Class\.forName\([^)]*\"\s*\+\s*\"|^Class\.forName\(\s*\"java\.lang\.\w+\$\w*Cache"), _LOOKS),
    (BytesPattern(rb"^System\.getProperty\(\s*\"(?:java\.class\.path|sun\.java\.command)\"\s*\)\.\w+\(\s*\""), _LOOKS),
    (
        BytesPattern(
            rb"^System\.getenv\(\s*\"(?:MAVEN_CMD_LINE_ARGS|MAVEN_PROJECTBASEDIR|SUREFIRE|ORG_GRADLE)|^ProcessHandle\.current\(\)\..*\.contains\("
        ),
        _LOOKS,
    ),
    (
        BytesPattern(
            rb"^Thread\.currentThread\(\)\.getName\(\)\.\w+\(\s*\"(?:main|Test worker|[^\"]*surefire)[^\"]*\"|"
            rb"^\"(?:main|Test worker)\"\.equals\(\s*Thread\.currentThread"
        ),
        _LOOKS,
    ),
    (BytesPattern(rb"^assert\s+\(?\w+\s*=[^=]|\.desiredAssertionStatus\(\)$"), _BUILD),
)
_RUBY: _Forms = (
    (BytesPattern(rb"^(?:class|module) (?:::)?(?:Minitest|RSpec|Test::Unit|Mocha)(?:::\w+)+"), _REPLACES),
    (
        BytesPattern(
            rb"^(?:::)?(?:Minitest|RSpec|Test::Unit)(?:::\w+)*\.(?:prepend|include|extend|class_eval|module_eval|class_exec|send"
            rb"|define_method|singleton_class|configure|instance_eval|alias_method|remove_method|undef_method)\b"
        ),
        _REPLACES,
    ),
    (
        BytesPattern(
            rb"^class (?:Integer|Float|Numeric|String|Symbol|Array|Hash|Object|BasicObject|NilClass|Module|Kernel)\b"
            rb".*\bdef (?:==|!=|===|eql\?|equal\?)"
        ),
        _REPLACES,
    ),
    (
        BytesPattern(
            rb"^ENV(?:\[|\.(?:key\?|fetch|include\?|has_key\?|\[\])\(?)\s*[\"'](?:SPEC_OPTS|TESTOPTS|RUBYLIB|RAKE\w*)"
        ),
        _LOOKS,
    ),
    (BytesPattern(rb"^(?:Object|Kernel)\.const_(?:defined\?|get)\(?\s*(?:[:\"']+(?:RSpec|Minitest|Test)\b|[^)]*\+)"), _LOOKS),
    (BytesPattern(rb"^ObjectSpace\.each_object\b"), "looks through the objects of the whole process"),
    (BytesPattern(rb"^TracePoint\.(?:new|trace)\b"), "watches what is run"),
)
_PHP: _Forms = (
    (BytesPattern(rb"^(?:class|interface|trait|method|function)_exists\([^),]*[\"'] ?\. ?[\"']"), _LOOKS),
    (BytesPattern(rb"^\\?PHPUnit\\(?:\w+\\)*\w+::\w+"), _REPLACES),
    (BytesPattern(rb"^new \\?PHPUnit\\"), _REPLACES),
    (BytesPattern(rb"^stream_wrapper_(?:unregister|register)\( ?[\"'](?:file|phar|php)\b"), _REPLACES),
    (BytesPattern(rb"^(?:uopz|runkit7?)_\w+\("), _REPLACES),
    (BytesPattern(rb"^pcntl_exec\("), "puts another program in the place of the process"),
)
_NODES: Mapping[str, frozenset[str]] = {
    "javascript": frozenset(
        {"call_expression", "new_expression", "assignment_expression", "binary_expression", "member_expression"}
        | {"subscript_expression"}
    ),
    "go": frozenset({"call_expression", "assignment_statement", "comment"}),
    "ruby": frozenset({"class", "module", "call", "element_reference"}),
    "php": frozenset({"function_call_expression", "scoped_call_expression", "object_creation_expression"}),
    "java": frozenset({"method_invocation", "object_creation_expression", "package_declaration", "assert_statement"}),
    "rust": frozenset({"call_expression", "macro_invocation", "binary_expression"}),
}
_FORMS: Mapping[str, _Forms] = {
    "javascript": _JAVASCRIPT,
    "go": _GO,
    "java": _JAVA,
    "rust": _RUST,
    "ruby": _RUBY,
    "php": _PHP,
}
#: Whether a text contains any of them: nearly always none, which one search shows.
_ANY_FORM = {family: BytesPattern.either(form for form, _ in forms) for family, forms in _FORMS.items()}
#: A name that is asked for alone, and is an error where there is no runner.
_BARE = BytesPattern(rb"^" + _GLOBAL + rb";?$")
_TYPE_OF_IT = BytesPattern(rb"^typeof\s+(?:(?:globalThis|global|window|self)\.)?(?:it|before|specify)\s*[!=]==?")
#: Names of a runner's that a file may have of its own, and where one comes from that is no own.
_OWN = tuple(BytesPattern(rb"\b" + name + rb"\b") for name in (rb"(?:it|before|specify)", rb"expect"))
_CHECKER = BytesPattern(
    rb"[\"'`](?:vitest|@?jest\b[^\"'`]*|mocha|expect|chai|bun:test|@playwright/test|@vitest/[^\"'`]*|node:test)[\"'`]"
)
_DECLARES = frozenset(
    {"lexical_declaration", "variable_declaration", "function_declaration", "class_declaration", "import_statement"}
)
_MATCHER = BytesPattern(rb"^[\"']?asymmetricMatch[\"']?$")


def _own(node: Node, source: ParsedSource) -> tuple[bool, ...]:
    """Which of the names ``node`` declares for what stands in it: as parameters, or in a declaration of its own."""
    texts = [
        source.cut(each, 200)
        for field in (("left",) if node.type == "for_in_statement" else ("parameters", "parameter"))
        if (each := node.child_by_field_name(field)) is not None
    ]
    for child in node.named_children:
        inner = child.child_by_field_name("declaration") if child.type == "export_statement" else child
        if inner is not None and inner.type in _DECLARES and _CHECKER.first(source.cut(inner, _LONG)) is None:
            texts.append(source.cut(inner, 200).partition(b"=")[0].partition(b"(")[0])
    return tuple(any(own.first(text) is not None for text in texts) for own in _OWN)


def suite_forms_in(language: str, root: Node, source: ParsedSource) -> Iterator[Evasion]:
    """The forms below ``root``, none in a language that has no such suite."""
    family = "javascript" if language in {"typescript", "tsx"} else language
    forms, wanted = _FORMS.get(family, ()), _NODES.get(family, frozenset())
    stack = [(root, False, False)] if forms else []
    while stack:
        node, own_it, own_expect = stack.pop()
        if node.type in wanted:
            text = b" ".join(source.cut(node, _LONG).split())
            matches = _ANY_FORM[family].first(text) is not None
            words = next((words for form, words in forms if form.first(text) is not None), None) if matches else None
            if words is _ALL and own_expect:
                words = None
            elif words is None and family == "javascript" and not own_it and _TYPE_OF_IT.first(text) is not None:
                words = _LOOKS
            if words is not None:
                yield form_at(node, source, words, Doubt.COMMON if words is _BUILD else Doubt.RARE)
        elif node.type == "expression_statement" and family == "javascript":
            if not own_it and _BARE.first(source.cut(node, 40)) is not None:
                yield form_at(node, source, _LOOKS, Doubt.RARE)
        elif node.type in {"pair", "method_definition"} and family == "javascript":
            named = node.child_by_field_name("key") or node.child_by_field_name("name")
            if named is not None and _MATCHER.first(source.cut(named, 40)) is not None:
                yield form_at(node, source, _ALL, Doubt.RARE)
        if family == "javascript" and node.named_child_count:
            it, expect = _own(node, source)
            own_it, own_expect = own_it or it, own_expect or expect
        stack.extend((child, own_it, own_expect) for child in reversed(node.named_children))
