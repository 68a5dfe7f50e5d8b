"""Forms by which source of C or C++ evades a test run, or meddles with the tests that are linked with it.

A planted test of CTest or meson is a program of its own, often without the candidate's sources: what they do in the suite's
programs is seen here alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from gatewright.ecosystems.test_syntax.c_tests import function_name
from gatewright.ecosystems.test_syntax.language import ParsedSource
from gatewright.patterns import BytesPattern
from gatewright.services.reviewer.syntax.forms import Doubt, Evasion, form_at

_LONG, _BODY = 400, 20_000
_REPLACES, _LOOKS, _ENDS = "replaces what tests rely on", "looks for a test runner", "ends the process in success"
_EARLY = "ends the process in success before its main"
_AT_ONCE = frozenset(
    {b"_exit", b"_Exit", b"quick_exit", b"std::_Exit", b"std::quick_exit", b"::_exit", b"::_Exit", b"::quick_exit"}
)
_EXIT = frozenset({b"exit", b"std::exit", b"::exit"})
_EXEC = BytesPattern(rb"^(?:::)?(?:execl[pe]?|execvp?e?|fexecve|execveat)$")
_FORKS = BytesPattern(rb"\b(?:v?fork|clone3?|forkpty|rfork|daemon)\s*\(")
_HELPS = BytesPattern(rb"(?i)usage|help|version")
_FAILURE = BytesPattern(rb"^(?:-?0*[1-9]\d*|EXIT_FAILURE)$")
_NAMES = BytesPattern(rb"[A-Za-z_]")
_SUCCESS = BytesPattern(rb"^(?:EXIT_SUCCESS|NULL|nullptr|false|!\w+)$")
_CONSTRUCTOR = BytesPattern(
    rb"\b_*(?:con|de)structor_*\b|\b_*ifunc_*\s*\(|section\s*\(\s*\"\.(?:(?:preinit|init|fini)_array|init|fini|[cd]tors)"
)
_FAILS = rb"(?:__assert(?:_fail|_rtn|_perror_fail|_func|13|2)?|_assert|_wassert|UnityFail|UnityAssert\w+|_?ck_assert_failed)"
_WEAK = BytesPattern(rb"\b_*weak_*\b|\b_*alias_*\s*\(|#\s*pragma\s+(?:weak|redefine_extname)\b")
_LIBRARY = rb"(?:abort|exit|_exit|raise|strcmp|strncmp|memcmp|main|__libc_start_main|__cxa_throw|printf)"
_DEFINED = BytesPattern(
    rb"^(?:" + _FAILS + rb"|__wrap_(?:main|assert\w*|exit|abort)|__libc_start_main|__cxa_throw|RUN_ALL_TESTS)$"
)
_WEAKENED = BytesPattern(rb"\b(?:" + _FAILS + rb"|" + _LIBRARY + rb")\b")
_WEAK_TEST = BytesPattern(rb"\b(?:test_\w+|\w+_tests?|Test[A-Z]\w*|setUp|tearDown|UnityBegin|RUN_ALL_TESTS|LLVMFuzzer\w+)\s*\(")
_CHECKS = (
    rb"(?:EXPECT|ASSERT)_(?:EQ|NE|LT|LE|GT|GE|TRUE|FALSE|STR\w+|NEAR|THROW|DEATH|FLOAT_EQ|DOUBLE_EQ)|TEST(?:_F|_P|_CASE)"
    rb"|TEST_ASSERT\w*|TEST_FAIL\w*|RUN_TEST|ck_assert\w*|CU_ASSERT\w*|BOOST_(?:CHECK|REQUIRE|TEST|AUTO)\w*|RUN_ALL_TESTS"
    rb"|assert_(?:true|false|(?:int|string|ptr|memory|float)_\w+|null|non_null)|g_assert\w*|mu_assert\w*|cmocka_\w+"
)
_DEFINE = BytesPattern(
    rb"^#\s*(?:define|undef)\s+(?:(?:assert|main|abort|exit|_exit|return|if|else|while|for|int|strcmp|strncmp|memcmp|fabs)(?:[\s(]|$)"
    rb"|(?:" + _CHECKS + rb")(?:\(|$)|true\s+\(*0|false\s+\(*1)"
)
#: A number of the system's by its own name.
_NUMBERED = BytesPattern(rb"^#\s*define\s+(?:SYS_|__NR_)\w+\s")
_STANDS_IN = BytesPattern(rb"\b(?:_exit|_Exit|quick_exit|SYS_exit_group|__NR_exit_group)\b|\bexit\s*\(\s*0?\s*\)")
_SIGNALS = BytesPattern(rb"^(?:std::)?(?:signal|sigaction|bsd_signal|sigset)\(\s*(?:SIGABRT|6)\b|^(?:std::)?set_terminate\(")
_PRELOAD = BytesPattern(rb"\"LD_(?:PRELOAD|AUDIT|LIBRARY_PATH)\b|\"DYLD_INSERT_LIBRARIES\b")
_SETS = BytesPattern(rb"^(?:::)?(?:setenv|putenv|_putenv\w*)$")
_SYSCALL = BytesPattern(rb"^syscall\(\s*(?:SYS_exit(?:_group)?|__NR_exit(?:_group)?|60|231|94)\b")
_KILLS = BytesPattern(rb"^(?:::)?(?:kill|killpg|tgkill)\(\s*(?:getppid\(\)|0|-1|getpgrp\(\))\s*,")
_PARENT = BytesPattern(rb"\"/proc/self/mem\"|^ptrace\(|^process_vm_writev\(|\bdl_iterate_phdr\(")
_LOADED = BytesPattern(
    rb"^dlv?sym\(.*\"(?:test_\w+|\w+_tests?|_?_?assert\w*|_?exit|_Exit|quick_exit|abort|main|RUN_ALL_TESTS|Unity\w+|_ZN7testing\w*)\""
)
_COMPARES = BytesPattern(rb"^(?:std::)?(?:str(?:n?(?:case)?cmp|(?:case|r)?str|rchr|spn)|memmem|memcmp|fnmatch|regexec|wcsstr)$")
_ASKS = BytesPattern(rb"(?:find|contains|ends_with|starts_with|rfind|compare|endsWith|startsWith)$")
_TEST_TEXT = BytesPattern(
    rb"\"(?:[\w./*-]*[./_*-])?(?:[uU]nit)?[tT]ests?(?:[./_*-][\w./*-]*)?\"|\"[tT]est[_A-Z*]?\w*\"|\"\w+_tests?\""
)
#: What a program is called, or lies at.
_CALLED = (
    rb"\bprogram_invocation_(?:short_)?name\b|\b__progname\b|\bgetprogname\b|/proc/self/(?:exe|comm|cmdline)|\bAT_EXECFN\b"
    rb"|\b_NSGetExecutablePath\b|\bbacktrace_symbols\b|\bdladdr\b|\bPR_GET_NAME\b"
)
_PROGRAM = BytesPattern(_CALLED)
#: The same, and all else by which source learns where it runs.
_WHO = BytesPattern(
    _CALLED + rb"|\bargv\s*\[\s*0\s*\]|\bbacktrace\b|/proc/self\b|/proc/%\w+/(?:exe|comm|cmdline|maps)"
    rb"|\bGetModuleFileName\w*\b|\b__BASE_FILE__\b|\bcurrent_exe|\bstd::source_location\b|\bstacktrace::current\b"
)
_VARIABLE = BytesPattern(rb"\"(?:CTEST|GTEST|MESON_TEST|CK|CATCH|BOOST_TEST|CMOCKA|UNITY)_\w*=?\"|\"MESON_TEST\w*\"")
_INCLUDES = BytesPattern(
    rb"__has_include(?:_next)?\s*\(\s*[<\"][^>\")]*(?:gtest|gmock|catch2?|doctest|unity|cmocka|check|tests?)[/.]"
)
_ENVIRONMENT = frozenset(
    {b"getenv", b"secure_getenv", b"std::getenv", b"::getenv", b"__secure_getenv", b"g_getenv", b"_dupenv_s"}
)
_ASSEMBLY = BytesPattern(rb"\b(?:syscall|svc|int\s+\$?0x80|sysenter|main|" + _FAILS + rb"|abort|exit)\b")
_TRUE = BytesPattern(rb"^\{return(?:true|1|!0|!false);?\}$")


@dataclass(frozen=True, slots=True)
class _Place:
    """The function around: its name, whether it starts processes of its own, whether it runs before main or after.

    ``program``: the file has a main of its own, so that it is linked with no test. ``asks``: it learns what program it is in.
    """

    name: str | None = None
    forks: bool = False
    early: bool = False
    program: bool = False
    asks: bool = False


#: Where a name is called, declared, or a part of a longer one.
_NO_USES = frozenset({"call_expression", "function_declarator", "using_declaration", "qualified_identifier"})


def c_forms_in(language: str, root: Node, source: ParsedSource) -> Iterator[Evasion]:
    """The forms below ``root``; none in another language than C or C++."""
    if language not in {"c", "cpp"}:
        return
    yield from _conditions(source)
    early = frozenset(_declared_early(root, source))
    looks = _WHO.first(source.content) is not None
    program = any(each.type == "function_definition" and function_name(source, each) == "main" for each in root.named_children)
    stack: list[tuple[Node, Node, _Place]] = [(root, root, _Place())]
    while stack:
        node, parent, place = stack.pop()
        inner = place
        if node.type == "function_definition":
            yield from _defined_forms(node, source)
            if place.name is None:
                name, head = function_name(source, node), source.head(node)
                runs_early = name in early or _CONSTRUCTOR.first(head) is not None
                text = source.cut(node, _BODY)
                inner = _Place(name, _FORKS.first(text) is not None, runs_early, program, _PROGRAM.first(text) is not None)
                if _CONSTRUCTOR.first(head) is not None:
                    yield Evasion(
                        b"runs early" + name.encode(), node.start_point[0] + 1, "runs before main, or after it", Doubt.COMMON
                    )
        yield from _at(node, parent, place, source, looks=looks)
        stack.extend((child, node, inner) for child in reversed(node.named_children))


def _declared_early(root: Node, source: ParsedSource) -> Iterator[str]:
    """Functions that a declaration, before or after, makes run before main."""
    for node in root.named_children:
        if node.type == "declaration" and _CONSTRUCTOR.first(source.cut(node, _LONG)) is not None:
            yield function_name(source, node)
            # A pointer in a section of the loader's: what it is set to.
            declared = node.child_by_field_name("declarator")
            value = declared.child_by_field_name("value") if declared is not None else None
            if value is not None:
                yield source.cut(value, 200).strip(b"&{} ").decode("utf-8", "replace")


def _at(node: Node, parent: Node, place: _Place, source: ParsedSource, *, looks: bool) -> Iterator[Evasion]:
    match node.type:
        case "call_expression":
            yield from _call(node, place, source, looks=looks)
        case "identifier" | "qualified_identifier" if source.cut(node, 20) in _AT_ONCE:
            if parent.type not in _NO_USES:
                yield form_at(parent, source, "passes on a function that ends the process at once", Doubt.RARE)
        case "preproc_def" | "preproc_function_def" | "preproc_call":
            yield from _preprocessor(node, source)
        case "declaration":
            yield from _declared_forms(node, place, source)
        case "gnu_asm_expression":
            if _ASSEMBLY.first(source.cut(node, _LONG)) is not None:
                yield form_at(node, source, "calls the system, or names what tests rely on, in assembly", Doubt.RARE)
        case "binary_expression":
            text, operator = source.cut(node, _LONG), node.child_by_field_name("operator")
            if (
                operator is not None
                and operator.type == "=="
                and _WHO.first(text) is not None
                and _TEST_TEXT.first(text) is not None
            ):
                yield form_at(node, source, _LOOKS, Doubt.RARE)
        case _:
            pass


def _join_texts(text: bytes) -> bytes:
    """One line, with texts that stand beside each other as one."""
    return b" ".join(text.split()).replace(b'" "', b"")


def _call(node: Node, place: _Place, source: ParsedSource, *, looks: bool) -> Iterator[Evasion]:
    callee, text = source.callee_of(node), _join_texts(source.cut(node, _LONG))
    given = b"".join(text.partition(b"(")[2].rstrip(b")").split())
    if callee in _AT_ONCE | _EXIT:
        yield from _exit(node, place, source, callee, given)
    elif _EXEC.first(callee) is not None and place.name != "main" and not place.forks:
        yield form_at(node, source, "puts another program in the place of the process", Doubt.RARE)
    elif callee in _ENVIRONMENT and _VARIABLE.first(text) is not None:
        yield form_at(node, source, "asks whether tests are run", Doubt.RARE)
    elif _SIGNALS.first(text) is not None:
        yield form_at(node, source, "catches what a failed assertion ends in", Doubt.RARE)
    elif _SETS.first(callee) is not None and _PRELOAD.first(text) is not None:
        yield form_at(node, source, "loads into every program that is started", Doubt.RARE)
    elif _SYSCALL.first(text) is not None:
        yield form_at(node, source, "ends the process at once", Doubt.RARE)
    elif _KILLS.first(text) is not None:
        yield form_at(node, source, "ends what runs the tests", Doubt.RARE)
    elif _PARENT.first(text) is not None:
        yield form_at(node, source, "reaches into the memory of a process", Doubt.RARE)
    elif _LOADED.first(text) is not None:
        yield form_at(node, source, "looks for tests by their names", Doubt.RARE)
    elif _COMPARES.first(callee) is not None or _ASKS.first(callee) is not None:
        named = _VARIABLE.first(text) is not None and b"environ" in text
        is_held = place.asks and not place.program and _LITERAL.first(text) is not None and _COMPARES.first(callee) is not None
        if (
            named
            or is_held
            or (
                _TEST_TEXT.first(text) is not None
                and _ARGUMENT.first(text) is None
                and (looks or _INCLUDED.first(text) is not None)
            )
        ):
            yield form_at(node, source, _LOOKS, Doubt.RARE)


_LITERAL = BytesPattern(rb"\"[A-Za-z_][\w./*-]*\"")
#: A word of a command line, which is no name of a program.
_ARGUMENT = BytesPattern(rb"\bargv\s*\[\s*[^0\s]|\"--?\w")
_INCLUDED = BytesPattern(rb"\b__FILE__\b|\bgetppid\b")


def _exit(node: Node, place: _Place, source: ParsedSource, callee: bytes, given: bytes) -> Iterator[Evasion]:
    """A call that ends the process: in success, or with what nothing here shows."""
    at_once = callee in _AT_ONCE
    if _FAILURE.first(given) is not None or (not at_once and _NAMES.first(given) is not None and _SUCCESS.first(given) is None):
        return
    if place.name is None or place.early:
        yield form_at(node, source, _EARLY, Doubt.UNMISTAKABLE)
    elif place.name != "main" and not place.forks:
        helps = not at_once and (place.program or _HELPS.first(place.name.encode()) is not None)
        yield form_at(node, source, _ENDS, Doubt.COMMON if helps else Doubt.RARE)


def _preprocessor(node: Node, source: ParsedSource) -> Iterator[Evasion]:
    text = b" ".join(source.cut(node, _LONG).split())
    if _DEFINE.first(text) is not None or (_WEAK.first(text) is not None and _WEAKENED.first(text) is not None):
        yield form_at(node, source, _REPLACES, Doubt.RARE)
    elif text.startswith((b"#define NDEBUG", b"# define NDEBUG")):
        yield form_at(node, source, "takes assertions out of the build", Doubt.RARE)
    elif (
        node.type != "preproc_call" and _NUMBERED.first(text) is None and _STANDS_IN.first(text.partition(b"/*")[0]) is not None
    ):
        yield form_at(node, source, "passes on a function that ends the process at once", Doubt.RARE)


def _conditions(source: ParsedSource) -> Iterator[Evasion]:
    """Questions of the preprocessor, by their lines: not each of them is read by the grammar."""
    if b"__has_include" not in source.content and b"__INCLUDE_LEVEL__" not in source.content:
        return
    for number, line in enumerate(source.content.split(b"\n"), 1):
        text = b" ".join(line[:_LONG].split())
        if text.startswith(b"#") and (_INCLUDES.first(text) is not None or b"__INCLUDE_LEVEL__" in text):
            yield Evasion(b"asks" + text, number, "asks whether tests are built", Doubt.RARE)


def _declared_forms(node: Node, place: _Place, source: ParsedSource) -> Iterator[Evasion]:
    text = _join_texts(source.cut(node, _LONG))
    if place.name is None and _WEAK.first(text) is not None:
        if _WEAKENED.first(text) is not None:
            yield form_at(node, source, _REPLACES, Doubt.RARE)
        elif _WEAK_TEST.first(text) is not None:
            yield form_at(node, source, "looks for tests by their names", Doubt.RARE)


def _defined_forms(node: Node, source: ParsedSource) -> Iterator[Evasion]:
    name, head = function_name(source, node).encode("utf-8", "replace"), source.head(node)
    body = node.child_by_field_name("body")
    text = b"".join(source.cut(body, 60).split()) if body is not None else b""
    weak = _WEAK.first(head) is not None and _WEAKENED.first(head) is not None
    if _DEFINED.first(name) is not None or weak:
        yield form_at(node, source, _REPLACES, Doubt.RARE)
    elif name.endswith(b"operator==") and _TRUE.first(text) is not None:
        yield form_at(node, source, "is equal to everything", Doubt.RARE)
