"""What can be changed in a language, as node types of its grammar: one entry each, so that the next one is a table, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gatewright.patterns import BytesPattern

#: Node types, over all languages, whose middle child is an operator.
BINARY: Final = frozenset(
    {
        *("comparison_operator", "boolean_operator", "binary_operator", "augmented_assignment"),
        *("binary_expression", "augmented_assignment_expression", "assignment_statement", "compound_assignment_expr"),
        *("assignment_expression", "assignment", "binary", "operator_assignment", "inc_statement", "dec_statement"),
        *("comparison_expression", "conjunction_expression", "disjunction_expression", "equality_expression"),
        *("additive_expression", "multiplicative_expression", "infix_expression"),
    }
)
#: Node types whose first child is a negation.
NEGATIONS: Final = frozenset(
    {"not_operator", "unary_expression", "prefix_unary_expression", "unary_op_expression", "unary", "prefix_expression"}
)
NOT: Final = frozenset({"not", "!", "bang"})
CONDITIONED: Final = frozenset(
    {"if_statement", "elif_clause", "if_expression", "if", "elsif", "unless", "ternary_expression", "conditional_expression"}
)
NUMBERS: Final = frozenset(
    {"integer", "float", "number", "int_literal", "float_literal", "integer_literal", "decimal_integer_literal"}
    | {"decimal_floating_point_literal", "number_literal", "real_literal"}
)
TRUTHS: Final = frozenset({"true", "false", "boolean_literal", "boolean"})
CALLS: Final = frozenset(
    {"call", "call_expression", "method_invocation", "invocation_expression", "function_call_expression", "await"}
    | {"member_call_expression", "scoped_call_expression", "await_expression", "macro_invocation"}
)
#: What is never entered: words for people and for tools. A change there is no change of what the program does.
PASSED_OVER: Final = frozenset(
    {
        *("comment", "line_comment", "block_comment", "multiline_comment", "string", "template_string", "string_literal"),
        *(
            "type",
            "type_annotation",
            "type_arguments",
            "type_parameters",
            "type_parameter",
            "generic_type",
            "type_alias_statement",
        ),
        *(
            "interface_declaration",
            "type_alias_declaration",
            "type_declaration",
            "type_item",
            "ambient_declaration",
            "user_type",
        ),
        *("import_statement", "import_from_statement", "future_import_statement", "import_declaration", "use_declaration"),
        *("import", "import_header", "using_directive", "namespace_use_declaration", "package_clause", "package_declaration"),
        *("decorator", "annotation", "marker_annotation", "attribute_item", "inner_attribute_item", "attribute_list"),
        *("assert_statement", "static_assert_declaration", "attribute_specifier", "attribute_declaration"),
        # Of C and C++: sizes of arrays and of bits, types in their angle brackets, assembly.
        *("array_declarator", "abstract_array_declarator", "bitfield_clause", "gnu_asm_expression", "type_descriptor"),
        *("template_argument_list", "template_parameter_list", "preproc_include"),
    }
)
OPERATORS: Final[Mapping[bytes, bytes]] = {
    b"<": b"<=",
    b"<=": b"<",
    b">": b">=",
    b">=": b">",
    b"==": b"!=",
    b"!=": b"==",
    b"===": b"!==",
    b"!==": b"===",
    b"+": b"-",
    b"-": b"+",
    b"*": b"/",
    b"/": b"*",
    b"%": b"*",
    b"//": b"/",
    b"**": b"*",
    b"&": b"|",
    b"|": b"&",
    b"^": b"&",
    b"<<": b">>",
    b">>": b"<<",
    b">>>": b"<<",
    b"and": b"or",
    b"or": b"and",
    b"&&": b"||",
    b"||": b"&&",
    b"??": b"&&",
    b"is": b"is not",
    b"is not": b"is",
    b"in": b"not in",
    b"not in": b"in",
    b"+=": b"-=",
    b"-=": b"+=",
    b"*=": b"/=",
    b"/=": b"*=",
    b"|=": b"&=",
    b"&=": b"|=",
    b"++": b"--",
    b"--": b"++",
}
OPPOSITES: Final[Mapping[bytes, bytes]] = {
    b"True": b"False",
    b"False": b"True",
    b"true": b"false",
    b"false": b"true",
    b"TRUE": b"FALSE",
    b"FALSE": b"TRUE",
}
#: Calls that print for people: no test checks their text.
LOGS: Final = BytesPattern(
    rb"(?i)(?:(?:self|cls|this)\.)?_*(?:log|logs|logger|logging|console|warnings|tracing|slog|structlog)(?:[.:]+\w+)*!?"
    rb"|(?:fmt|system\.out|system\.err)\.print\w*|e?print(?:ln)?!?|puts|pprint|dbg!|echo|nslog"
)
#: Names whose values are for tools, and conditions that a test run never sees otherwise.
FOR_TOOLS: Final = BytesPattern(rb"__\w+__")
NEVER_OTHERWISE: Final = BytesPattern(rb"__name__|TYPE_CHECKING")
#: Node types whose condition the compiler asks before there is a program.
BEFORE_THE_PROGRAM: Final = frozenset({"preproc_if", "preproc_elif"})
#: What stands around a condition.
AROUND: Final = frozenset({"parenthesized_expression", "condition_clause"})


@dataclass(frozen=True, slots=True)
class Grammar:
    """``negated``: what stands before and after a condition that is turned round; ``nothing``: a statement that does nothing.

    ``returned``: what to return instead of a value, empty where that depends on a type. ``removed``: statements to leave out.
    ``kept``: operators that have another meaning more often. ``alone``: further calls that are left alone, by what is called.
    """

    negated: tuple[bytes, bytes] = (b"!(", b")")
    nothing: bytes = b""
    returned: bytes = b""
    removed: frozenset[str] = frozenset()
    kept: frozenset[bytes] = frozenset()
    alone: BytesPattern | None = None


#: Of C and C++: what writes for people, asserts, or gives memory back, which no test misses.
_UNMISSED = BytesPattern(rb"(?:std::)?(?:v?f?printf|fputs|perror|v?syslog|free|assert)")
_SCRIPT = Grammar((b"(!", b")"), b";", b"undefined", frozenset({"throw_statement"}))
GRAMMARS: Final[Mapping[str, Grammar]] = {
    "python": Grammar((b"not (", b")"), b"pass", b"None", frozenset({"raise_statement"})),
    "javascript": _SCRIPT,
    "typescript": _SCRIPT,
    "tsx": _SCRIPT,
    "go": Grammar(),
    "rust": Grammar(nothing=b";"),
    "java": Grammar((b"(!", b")"), b";", b"", frozenset({"throw_statement"})),
    "csharp": Grammar((b"!(", b")"), b";", b"", frozenset({"throw_statement"})),
    "php": Grammar((b"(!", b")"), b";", b"null"),
    "kotlin": Grammar(),
    "swift": Grammar(),
    "ruby": Grammar(returned=b"nil"),
    "c": Grammar((b"(!", b")"), b";", alone=_UNMISSED),
    # Shifting is what streams are written with.
    "cpp": Grammar(
        (b"(!", b")"), b";", removed=frozenset({"throw_statement"}), kept=frozenset({b"<<", b">>"}), alone=_UNMISSED
    ),
}
