"""The words of each language, and the way in: the tests that a file holds."""

from __future__ import annotations

from gatewright.ecosystems.test_syntax import c_tests, python
from gatewright.ecosystems.test_syntax.language import ParsedSource, Reader, Words
from gatewright.ecosystems.test_syntax.tests_model import FileTests
from gatewright.patterns import BytesPattern
from gatewright.syntax_trees import language_of, parse

_DISABLED = BytesPattern(rb"@(?:\w+\.)*(?:Disabled\w*|Ignore\w*|EnabledIf\w*|EnabledOn\w*)\b|enabled[ \t]*=[ \t]*false")

_JAVASCRIPT = Words(
    functions=frozenset({"function_declaration", "method_definition", "generator_function_declaration"}),
    groups=frozenset({"class_declaration"}),
    case_call=BytesPattern(rb"^(?:[fx]?it|x?test|specify|x?specify)(?:\.\w+)*(?:[(`]|$)"),
    group_call=BytesPattern(rb"^(?:test\.)?(?:[fx]?describe|x?context|x?suite)(?:\.\w+)*(?:[(`]|$)"),
    skip_call=BytesPattern(rb"^x\w|\.(?:skip|todo|fixme|failing|fails|skipIf|runIf)\b"),
    only_call=BytesPattern(rb"^(?:fit|fdescribe|(?:it|test|describe|context|suite|specify)(?:\.\w+)*\.only)\b"),
    skip=BytesPattern(rb"(?:^|\.)(?:skip|pending|todo|fixme)$"),
    check=BytesPattern(
        rb"^(?:expect\w*|(?:\w+\.)?assert(?:\.\w+)*|t\.\w+|chai\.\w+|\w*[aA]ssert\w*|verify\w*|check\w*|should)$|\.should\b"
    ),
)
_GO = Words(
    functions=frozenset({"function_declaration", "method_declaration"}),
    case_name=BytesPattern(rb"^(?:Test|Fuzz|Example)"),
    skip=BytesPattern(rb"\.(?:Skip|Skipf|SkipNow)$"),
    check=BytesPattern(
        rb"^\w+\.(?:Errorf?|Fatalf?|Fail|FailNow)$|^(?:require|assert|is|qt)\.\w+$|(?i:^(?:assert|check|verify|must|expect)\w*$)"
    ),
)
_RUST = Words(
    functions=frozenset({"function_item"}),
    groups=frozenset({"mod_item", "impl_item"}),
    calls=frozenset({"call_expression", "macro_invocation"}),
    before=frozenset({"attribute_item"}),
    case_head=BytesPattern(rb"#\[(?:\w+::)*(?:test|rstest|test_case|quickcheck|proptest|wasm_bindgen_test)\b"),
    skip_head=BytesPattern(rb"#\[[ \t]*(?:ignore|cfg_attr\b|cfg[ \t]*\([ \t]*(?:[^t \t]|t[^e]|test[ \t]*,|test\w))"),
    check=BytesPattern(
        rb"^(?:\w+::)*(?:\w*assert\w*|panic|unreachable|prop_assert\w*)$|\.(?:unwrap|expect|unwrap_err|expect_err)$|^(?:check|verify)\w*$"
    ),
)
_JVM_CHECK = BytesPattern(rb"(?i)(?:^|\.)(?:assert|verify|expect|fail|then|should|check|await)\w*$|\.and(?:Expect)\w*$")
_JAVA = Words(
    functions=frozenset({"method_declaration"}),
    groups=frozenset({"class_declaration"}),
    calls=frozenset({"method_invocation"}),
    case_head=BytesPattern(rb"@(?:\w+\.)*(?:\w*Test|TestFactory|TestTemplate|Property)\b"),
    case_name=BytesPattern(rb"^test[A-Z_]"),
    skip_head=_DISABLED,
    check=_JVM_CHECK,
    skip=BytesPattern(rb"(?:^|\.)assume\w*$"),
)
_KOTLIN = Words(
    functions=frozenset({"function_declaration"}),
    groups=frozenset({"class_declaration", "object_declaration"}),
    case_head=_JAVA.case_head,
    skip_head=_DISABLED,
    check=BytesPattern(rb"(?i)(?:^|\.)(?:assert|verify|expect|fail|should|check)\w*$"),
    case_call=BytesPattern(rb"^(?:it|x?it|test|xtest)$"),
    group_call=BytesPattern(rb"^x?(?:describe|context)$"),
    skip_call=BytesPattern(rb"^x"),
)
_CSHARP = Words(
    functions=frozenset({"method_declaration"}),
    groups=frozenset({"class_declaration"}),
    calls=frozenset({"invocation_expression"}),
    case_head=BytesPattern(rb"\[[^\]]*\b(?:Fact|Theory|Test|TestMethod|TestCase|TestCaseSource|DataTestMethod)\b"),
    skip_head=BytesPattern(rb"\bSkip[ \t]*=|\bIgnore\b|\bExplicit\b"),
    check=BytesPattern(rb"(?i)(?:^|\.)(?:Assert|Verify|Should|Expect|CollectionAssert|StringAssert)\w*(?:\.\w+)*$"),
    skip=BytesPattern(rb"Assert\.(?:Ignore|Inconclusive|Skip)$"),
)
_SWIFT = Words(
    functions=frozenset({"function_declaration"}),
    groups=frozenset({"class_declaration", "struct_declaration"}),
    calls=frozenset({"call_expression", "macro_invocation"}),
    case_name=BytesPattern(rb"^test"),
    case_head=BytesPattern(rb"@Test\b"),
    skip_head=BytesPattern(rb"\.disabled\b|\.enabled\(if:"),
    check=BytesPattern(rb"^(?:XCT(?:Assert|Fail|Unwrap)\w*|#?expect|#?require|(?:assert|check|verify)\w*)$"),
    skip=BytesPattern(rb"^XCTSkip\w*$"),
)
_PHP = Words(
    functions=frozenset({"method_declaration", "function_definition"}),
    groups=frozenset({"class_declaration"}),
    calls=frozenset({"member_call_expression", "scoped_call_expression", "function_call_expression"}),
    before=frozenset({"comment"}),
    case_name=BytesPattern(rb"^test"),
    case_head=BytesPattern(rb"#\[[^\]]*\bTest\b|@test\b"),
    check=BytesPattern(rb"(?i)^(?:assert|expect|verify|should|fail|see|dontSee)\w*$"),
    skip=BytesPattern(rb"^markTest(?:Skipped|Incomplete)$|^skip$"),
    case_call=BytesPattern(rb"^(?:it|test)$"),
    group_call=BytesPattern(rb"^describe$"),
)
_RUBY = Words(
    functions=frozenset({"method"}),
    groups=frozenset({"class", "module"}),
    calls=frozenset({"call"}),
    case_name=BytesPattern(rb"^test"),
    case_call=BytesPattern(rb"^(?:x?it|x?specify|test|x?example|fit|should)$"),
    group_call=BytesPattern(rb"^(?:[fx]?describe|x?context|feature|shared_examples\w*)$"),
    skip_call=BytesPattern(rb"^x"),
    only_call=BytesPattern(rb"^(?:fit|fdescribe|fcontext)$"),
    skip=BytesPattern(rb"^(?:skip|pending)$"),
    bare_skip=BytesPattern(rb"skip|pending"),
    check=BytesPattern(rb"^(?:expect\w*|assert\w*|refute\w*|must_\w+|wont_\w+|should\w*|flunk|raise_error)$"),
)
WORDS = {
    **dict.fromkeys(("javascript", "typescript", "tsx"), _JAVASCRIPT),
    "go": _GO,
    "rust": _RUST,
    "java": _JAVA,
    "kotlin": _KOTLIN,
    "csharp": _CSHARP,
    "swift": _SWIFT,
    "php": _PHP,
    "ruby": _RUBY,
    **dict.fromkeys(("c", "cpp"), c_tests.WORDS),
    "python": python.WORDS,
}
_READERS: dict[str, type[Reader]] = {"python": python.PythonReader, "c": c_tests.CReader, "cpp": c_tests.CReader}


def tests_in(path: bytes, content: bytes) -> FileTests | None:
    """The tests of a file; None where there is no grammar for it, or the file does not parse."""
    language = language_of(path)
    if language in {"c", "cpp"}:
        content = c_tests.without_macros(content)
    root = parse(language, content) if language is not None else None
    if language is None or root is None or root.has_error:
        return None
    reader = _READERS.get(language, Reader)(WORDS[language], ParsedSource(content))
    return reader.tests(root)
