"""Forms by which source meddles with the tests of one kind of suite: jest, vitest, mocha, ``go test``, JUnit.

Each is told by what it names: a matcher that is replaced, a value that is equal to all, the flags of a test binary, the words
or frames of a runner. All are read from the text of one node of bounded size, so that a file is read in linear time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tree_sitter import Node

from gatewright.patterns import BytesPattern
from gatewright.services.reviewer.syntax.forms import Doubt, Evasion, form_at
from gatewright.services.reviewer.syntax.language import ParsedSource

_LONG = 400
_REPLACES = "replaces what tests rely on"
_LOOKS = "looks for a test runner"
_ALL = "is equal to everything"

#: By language: what the text of a node begins with, or has in it, and what that does. The first that fits counts.
_Forms = tuple[tuple[BytesPattern, str], ...]

_JAVASCRIPT: _Forms = (
    (BytesPattern(rb"^Object\.keys\(require\.cache\)\.\w+\(.*[\"'`/](?:mocha|jest|vitest|chai)"), _LOOKS),
    (BytesPattern(rb"^(?:\w+\.)?expect\.(?:extend|addEqualityTesters)\("), _REPLACES),
    (BytesPattern(rb"^(?:\w+\.)?chai\.use\("), _REPLACES),
    (BytesPattern(rb"^(?:\w+\.)?expect\.(?:anything|any|closeTo|objectContaining|stringMatching)\("), _ALL),
    (BytesPattern(rb"^Symbol\.for\([\"'`](?:\$\$jest-matchers-object|expect-global|jest[.-]|\$\$jest|vitest[.:-])"), _REPLACES),
    (BytesPattern(rb"^(?:\w+\.)?expect\.getState\(|^globalThis\.__vitest_\w+__$"), _LOOKS),
    (
        BytesPattern(rb"^typeof\s+(?:(?:globalThis|global|window|self)\.)?(?:jest|describe|expect|beforeEach)\s*[!=]==?"),
        _LOOKS,
    ),
    (BytesPattern(rb"^Object\.is\s*=[^=>]"), _REPLACES),
    (
        BytesPattern(rb"^require\([\"'`](?:mocha|jest-circus|jest-jasmine2|@vitest/runner|@jest/expect)/[^\"'`]*[\"'`]\)\."),
        _REPLACES,
    ),
    (BytesPattern(rb"^(?:it|test|describe|beforeEach|before|beforeAll)\(.*\bthis\.skip\("), "skips tests"),
)
_GO: _Forms = (
    (BytesPattern(rb"^flag\.(?:CommandLine\.)?Set\(\"test\."), _REPLACES),
    (BytesPattern(rb"^flag\.(?:CommandLine\.)?(?:Lookup|Visit(?:All)?)\(\"test\."), _LOOKS),
    (BytesPattern(rb"^os\.Args\s*(?:\[[^]]*\])?\s*=[^=].*-test\."), _REPLACES),
    (BytesPattern(rb"^//go:linkname\s+\w+\s+testing\."), _REPLACES),
    (BytesPattern(rb"^strings\.\w+\(.*\"[^\"]*(?:testing\.tRunner|_test\.go|testing\.\(\*)[^\"]*\""), _LOOKS),
    (BytesPattern(rb"^syscall\.Exec\("), "puts another program in the place of the process"),
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
)
_NODES: Mapping[str, frozenset[str]] = {
    "javascript": frozenset({"call_expression", "assignment_expression", "binary_expression", "member_expression"}),
    "go": frozenset({"call_expression", "assignment_statement", "comment"}),
    "java": frozenset({"method_invocation", "object_creation_expression", "package_declaration"}),
}
_FORMS: Mapping[str, _Forms] = {"javascript": _JAVASCRIPT, "go": _GO, "java": _JAVA}
_MATCHER = BytesPattern(rb"^[\"']?asymmetricMatch[\"']?$")


def suite_forms_in(language: str, root: Node, source: ParsedSource) -> Iterator[Evasion]:
    """The forms below ``root``, none in a language that has no such suite."""
    family = "javascript" if language in {"typescript", "tsx"} else language
    forms, wanted = _FORMS.get(family, ()), _NODES.get(family, frozenset())
    stack = [root] if forms else []
    while stack:
        node = stack.pop()
        if node.type in wanted:
            text = b" ".join(source.cut(node, _LONG).split())
            words = next((words for form, words in forms if form.first(text) is not None), None)
            if words is not None:
                yield form_at(node, source, words, Doubt.RARE)
        elif node.type in {"pair", "method_definition"} and family == "javascript":
            named = node.child_by_field_name("key") or node.child_by_field_name("name")
            if named is not None and _MATCHER.first(source.cut(named, 40)) is not None:
                yield form_at(node, source, _ALL, Doubt.RARE)
        stack.extend(reversed(node.named_children))
