"""The source forms that look for a test run, by language: patterns over code without comments.

``REMARKS`` have honest uses, so that review reports them only; each is on one line. ``BLOCKED`` forms are needed by no honest
change, and may span a few lines. No pattern holds a group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from gatewright.patterns import BytesPattern

_Forms = tuple[tuple[bytes, str], ...]


@dataclass(frozen=True)
class FormTable:
    """Patterns with what each does as text; of several that match at a place, the first."""

    forms: _Forms

    @cached_property
    def pattern(self) -> BytesPattern:
        """One group for each form, in their order."""
        return BytesPattern(rb"(?m)" + b"|".join(b"(" + form + b")" for form, _ in self.forms))

    def words(self, group: int) -> str:
        """Return the text of the form with the number ``group``, from 1."""
        return self.forms[group - 1][1]


ASKS = "asks whether tests run"
CALLERS = "looks at its callers"
ENDS = "ends the process in success"
EQUAL = "accepts everything as equal"
REPLACES = "replaces what tests rely on"
JUDGED = "asks whether this is a judged run"
_FILES = "names files of the tests"
_PROCESS = "looks through the whole process"
_BUILD = "may differ in the tested build"
_FRAMEWORK = "uses a test framework"
_PLACE = "asks where it runs"

_Q, _NOT_Q = rb"[\"'`]", rb"[^\"'`\s]*"
_RUNNER = (
    rb"(?:_?pytest|py\.test|unittest|nose2?|xdist|tox|doctest|jest|vitest|mocha|jasmine|cypress|playwright|karma|jsdom"
    rb"|rspec|minitest|phpunit|junit|testng|surefire|node:test|googletest|gtest)"
)
_TEST = _Q + rb"(?:unit_?)?tests?(?:ing)?" + _Q
_FOLDER = rb"(?:tests?|__tests__|specs?|fixtures|__fixtures__|testdata)"
_MODE = rb"(?i:\w*(?:env|argv|mode|stage|profile|settings|config|co_name|function|program|basename|modulename)\w*|__name__)"
_FLAG = (
    rb"\b(?i:(?:is|in|under|running|run)_?(?:unit_?)?test(?:s|ing)?(?:_?(?:mode|env|run|environment))?|test_?mode|__test__)\b"
    rb"|\bTESTING\b|\.testing\b|\bNODE_ENV\b"
)
_COMMON: _Forms = (
    (_Q + rb"(?i:(?:" + _NOT_Q + rb"[^\"'`\s\w])?" + _RUNNER + rb"(?:[^\"'`\s]" + _NOT_Q + rb")?)" + _Q, ASKS),
    (rb"\b(?:PYTEST|JEST|VITEST|NODE_TEST|TOX_ENV|NEXTEST|PHPUNIT|CTEST|GTEST|MESON_TEST|RSPEC|MOCHA)(?:_\w*)?\b", ASKS),
    (_FLAG, ASKS),
    (_MODE + rb".*" + _TEST + rb"|" + _TEST + rb".*" + _MODE, ASKS),
    (_Q + rb"(?:[\w.-]*/)*" + _FOLDER + rb"/[\w./*-]*" + _Q, _FILES),
    (rb"[\"'`/](?:test_\w*|\w+[._-](?:test|spec)|test|spec)\.(?:py|[cm]?[jt]sx?|go|rb|php|java|rs)\b", _FILES),
    (rb"(?:[/,]\s*|(?:exists|isdir|is_dir|open|Path|listdir|readdir|join|Sync)\()" + _Q + _FOLDER + _Q, _FILES),
    (_Q + rb"[./^]*(?:tests?|spec)[_./\\$]*" + _Q + rb"\s*\)", _FILES),
    (rb"\w[}\w]*/" + _FOLDER + _Q + rb"|\}/" + _FOLDER + _Q, _FILES),
    (_Q + rb"(?:CI|GITHUB_ACTIONS|CONTINUOUS_INTEGRATION)" + _Q + rb"|\benv\.CI\b", _PLACE),
    (rb"/proc/(?:self|1|%|\{|\d)|/\.dockerenv|[\"'`]/workspace[/\"'`]|\bbwrap\b|bubblewrap", _PLACE),
)
_PYTHON: _Forms = (
    (
        rb"^[ \t]*(?:import|from)[ \t]+(?:test_\w+|pytest|_pytest|unittest|mock|pluggy|nose|hypothesis|doctest|xdist)\b",
        _FRAMEWORK,
    ),
    (rb"^[ \t]*(?:async[ \t]+)?def[ \t]+pytest_\w+|\bautouse[ \t]*=[ \t]*True", _FRAMEWORK),
    (
        rb"\b(?:NonCallable|Magic|Async)?Mock\b|\bmock\.ANY\b|\bapprox\(|assert_called|\bFakeDatetime\b|(?:_|\.)mock_\w+",
        _FRAMEWORK,
    ),
    (
        (
            rb"\b_getframe\b|\b_current_frames\b|\binspect\.(?:stack|currentframe|getouterframes|trace)\b|\bcurrentframe\("
            rb"|\b(?:extract|format|walk|print)_stack\b|\.(?:tb_frame|f_back|f_globals|f_code|f_locals)\b|\bstack\(\)"
        ),
        CALLERS,
    ),
    (rb"\bsys\.modules(?:[^\[\w]|\[[^_]|$)|\bfrom[ \t]+sys[ \t]+import\b.*\bmodules\b|\bimport[ \t]+__main__\b", _PROCESS),
    (rb"\bgc\.get_(?:objects|referrers|referents)\b|\borig_argv\b|\bcmdline\(", _PROCESS),
    (
        (
            rb"\bsys\.(?:settrace|setprofile|addaudithook|monitoring|meta_path|path_hooks)\b"
            rb"|\bthreading\.set(?:trace|profile)\b"
            rb"|\bfrom[ \t]+sys[ \t]+import\b.*\bset(?:trace|profile)\b|\bctypes\.pythonapi\b|\bmemmove\(|\.__code__[ \t]*="
        ),
        "reaches into the interpreter",
    ),
    (rb"\bEncodedFile\b|\bCaptureIO\b|\bLogCaptureHandler\b|\bDontReadFromInput\b|\b__std(?:out|err|in)__\b", ASKS),
    (rb"\b__debug__\b|\bsys\.flags\b|\bassert\b.*(?::=|\.(?:append|update|pop|extend|clear)\()", _BUILD),
    (rb"\b_exit\b", "ends or replaces the process"),
    (rb"\bos\.(?:kill(?:pg)?\((?:os\.getp|0)|exec[lv]\w*\(|abort\()", "ends or replaces the process"),
    (rb"^(?:sys\.exit|exit|quit|raise[ \t]+SystemExit)\((?:0|)\)", ENDS),
    (
        rb"^[ \t]*(?:builtins|__builtins__|importlib|\w*\.?SourceFileLoader|pathlib\.Path|io|ast)(?:\.\w+)+[ \t]*=[^=]",
        REPLACES,
    ),
    (rb"\.runtest(?:protocol)?[ \t]*=[^=]", REPLACES),
    (rb"\b__eq__(?:\.return_value)?[\"']?[ \t]*[=:]", EQUAL),
)
_GLOBALS = rb"(?:jest|vi|describe|it|test|expect|suite|before|beforeEach|afterEach|beforeAll|mocha|Cypress|__\w+__)"
_GLOBAL = rb"(?:globalThis|global|window|self)"
_JAVASCRIPT: _Forms = (
    (rb"\btypeof\s+(?:" + _GLOBAL + rb"\.)?" + _GLOBALS + rb"\b", ASKS),
    (rb"\b" + _GLOBAL + rb"(?:\?)?(?:\.|\[[\"'`])" + _GLOBALS + rb"\b|[\"'`]" + _GLOBALS + rb"[\"'`]\s+in\s+" + _GLOBAL, ASKS),
    (rb"\b(?:keys|ownKeys|has|getOwnPropertyNames|entries)\(\s*(?:globalThis|global|window|require\.cache)\b", _PROCESS),
    (rb"\bimport\.meta\.(?:vitest|env)\b|\bnpm_lifecycle_event\b|\bexecArgv\b", ASKS),
    (rb"\b(?:_isMockFunction|isMockFunction|isFakeTimers)\b|\.(?:mock|clock)\b|native code", _FRAMEWORK),
    (
        rb"(?:\bfrom|\brequire\(|\bimport\()\s*[\"'`](?:node:test|test|chai|vitest|@?jest\b[^\"'`]*|mocha|sinon|expect)[\"'`/]",
        _FRAMEWORK,
    ),
    (rb"\b(?:process\.argv|filename)\b.*/[^/\n]*(?:test|spec)", CALLERS),
    (rb"\.stack\b|\b(?:captureStackTrace|prepareStackTrace)\b|\bcallsites?\(", CALLERS),
    (rb"\brequire\.main(?:\.|\?|\[)|\bmodule\.(?:parent|children)\b|\bprocess\.(?:mainModule\b|argv\[1\]|report\b)", CALLERS),
    (rb"\brequire\.cache\b|\bModule\._\w+|[\"'](?:node:)?(?:inspector|vm)[\"']", _PROCESS),
    (rb"\basymmetricMatch\b|\bexpect\.(?:any\w*|extend|addEqualityTesters)\(|\bchai\.use\(|\$\$jest-matchers", EQUAL),
    (
        rb"\bexpect\.getState\(|\bSymbol\.for\(.*(?:expect|jest|vitest)|\bconsole\.constructor\b|\btry\s*\{\s*"
        + _GLOBALS
        + rb";",
        ASKS,
    ),
    (rb"\bisDeepStrictEqual\s*=[^=>]|\bgetPrototypeOf\(\s*expect\(|\bthis\.skip\(", REPLACES),
    (rb"\bObject\.is\s*=[^=>]|\b[A-Z]\w+\.prototype\.(?:then|valueOf|toString|constructor|equals)\s*=[^=>]", REPLACES),
    (rb"\bprocess\.(?:exit|reallyExit|emit)\s*=[^=>]|\bprocess\.kill\(process\.p?pid\b", "ends or replaces the process"),
    (rb"\bprocess\.exitCode\s*=\s*0|[\"'](?:uncaughtException|unhandledRejection)[\"']", "decides the exit status"),
)
_GO: _Forms = (
    (rb"^(?:import)?[ \t]*\"testing\"|\btesting\.Testing\(|\"-?test\.|\.test\"|\"/?go-build", ASKS),
    (rb"\btRunner\b|\bruntime\.(?:Callers?|CallersFrames|FuncForPC|Stack)\(|\bdebug\.Stack\(|\"Test\w*\"", CALLERS),
    (rb"\bos\.(?:Args\[0\]|Executable\()|\bdebug\.ReadBuildInfo\(|\bsyscall\.(?:Exec|Kill)\(", _PLACE),
)
_RUST: _Forms = (
    (rb"\bcfg(?:_attr)?!?\(.*\btest\b", ASKS),
    (rb"\bdebug_assert\w*!|\bdebug_assertions\b|\bcurrent_exe\(|\"CARGO\w*\"", _BUILD),
    (rb"\bthread::current\(\)|\bBacktrace::|\benv::args\w*\(\).*\"", CALLERS),
)
_JVM: _Forms = (
    (rb"\bStackWalker\b|\bgetStackTrace\(|\bStackTraceElement\b|\bget(?:ClassName|MethodName)\(|\bgetName\(\)\.\w+\(", CALLERS),
    (
        rb"\"(?:java\.class\.path|sun\.java\.command|(?:surefire|failsafe)[\w.]*|MAVEN_\w+|ORG_GRADLE\w*)\"|\bProcessHandle\b",
        ASKS,
    ),
    (rb"\bClass\.forName\(\s*\"|\borg\.(?:junit|testng|opentest4j)\b|\bAssum(?:e|ptions)\.", _FRAMEWORK),
    (rb"\bdesiredAssertionStatus\(|\bassert\s+\(?\w+\s*=[^=]", _BUILD),
)
_RUBY: _Forms = (
    (
        rb"\b(?:RSpec|Minitest)\b|\bTest::Unit\b|\bRails\.env\b|\b(?:RAILS|RACK)_ENV\b|\bRAKE\w*|\bSPEC_OPTS\b|\bTESTOPTS\b",
        ASKS,
    ),
    (rb"\bcaller(?:_locations)?\b|\$PROGRAM_NAME\b|\$0\b|\$LOADED_FEATURES\b", CALLERS),
    (rb"\bObjectSpace\b|\bTracePoint\b|\bObject\.const(?:ants|_defined\?|_get)", _PROCESS),
    (rb"^[ \t]*class (?:Integer|Float|Numeric|String|Symbol|Array|Hash|Object|BasicObject)\b", REPLACES),
)
_PHP: _Forms = (
    (rb"\bPHPUnit\b|\brunningUnitTests\(|(?i:_exists\(.*phpunit)|\bAPP_ENV\b", ASKS),
    (
        (
            rb"\bdebug_(?:print_)?backtrace\(|->getTrace|\bget_(?:included_files|declared_classes)\(|\$argv\b"
            rb"|SCRIPT_(?:NAME|FILENAME)"
        ),
        CALLERS,
    ),
    (rb"\bstream_wrapper_\w+\(|\b(?:uopz|runkit7?)_\w+\(|\bpcntl_exec\(|\bposix_kill\(", REPLACES),
)
_C: _Forms = (
    (
        rb"\"(?:CTEST|GTEST|MESON_TEST|CK|CATCH|BOOST_TEST|CMOCKA|UNITY)_\w*=?\"|\b__has_include\b.*test|\b__INCLUDE_LEVEL__\b",
        ASKS,
    ),
    (
        (
            rb"\bprogram_invocation_\w*name\b|\b__progname\b|\bgetprogname\b|\bbacktrace\w*\(|\bdladdr\b|\bAT_EXECFN\b"
            rb"|\bargv\s*\[\s*0\s*\].*\"|\b__BASE_FILE__\b|\bstacktrace::current\b"
        ),
        CALLERS,
    ),
    (
        rb"\bsyscall\(|\bptrace\(|\bprocess_vm_writev\(|\bdl(?:v?sym|_iterate_phdr)\(|\bLD_(?:PRELOAD|AUDIT)\b|\b_*asm_*\b",
        _PROCESS,
    ),
    (
        (
            rb"^[ \t]*#[ \t]*(?:define|undef)[ \t]+(?:NDEBUG|assert|main|abort|exit|_exit|return|strn?cmp|memcmp"
            rb"|(?:EXPECT|ASSERT)_\w+|TEST\w*"
            rb"|RUN_TEST|REQUIRE|CHECK|ck_assert\w*|CU_ASSERT\w*|BOOST_\w+)\b|\b__assert\w*\s*\(|\b_*(?:weak|alias|ifunc)_*\b"
            rb"|\bredefine_extname\b"
        ),
        REPLACES,
    ),
    (
        (
            rb"\b(?:_exit|_Exit|quick_exit|SYS_exit\w*|set_terminate)\b|\bSIGABRT\b|\bexec[lv]\w*\("
            rb"|\bkill\(\s*(?:getppid|0)\b|\b_*constructor_*\b"
        ),
        "ends or replaces the process",
    ),
)
#: What differs by language is searched before what is common.
REMARKS: Mapping[str, FormTable] = {
    "python": FormTable(_PYTHON + _COMMON),
    **dict.fromkeys(("javascript", "typescript", "tsx"), FormTable(_JAVASCRIPT + _COMMON)),
    "go": FormTable(_GO + _COMMON),
    "rust": FormTable(_RUST + _COMMON),
    **dict.fromkeys(("java", "kotlin", "csharp", "swift"), FormTable(_JVM + _COMMON)),
    "ruby": FormTable(_RUBY + _COMMON),
    "php": FormTable(_PHP + _COMMON),
    **dict.fromkeys(("c", "cpp"), FormTable(_C + _COMMON)),
}
_ENVIRONMENT = rb"(?:environ|[gG]etenv|process\.env|import\.meta\.env|env::var|\bENV\b|_SERVER)"
_GATEWRIGHT: _Forms = (
    (_ENVIRONMENT + rb".*\bGATEWRIGHT_[A-Z]|\bGATEWRIGHT_[A-Z].*" + _ENVIRONMENT + rb"|[\"'`]/gatewright[/\"'`]", JUDGED),
)
_CHECKERS = _Q + rb"(?:node:)?(?:assert(?:/strict)?|test|chai|expect|vitest|@jest/globals)" + _Q
_MATCHERS = rb"to(?:Be|Equal|StrictEqual|Throw|Contain|Match|MatchObject|HaveLength|HaveBeenCalled\w*)"
BLOCKED: Mapping[str, FormTable] = {
    "python": FormTable(
        (
            *_GATEWRIGHT,
            (
                rb"\bsession\.exitstatus[ \t]*=[ \t]*(?:0|[\w.]*ExitCode\.OK)\b|\.testsfailed[ \t]*=[^=]",
                "sets the result of a test run",
            ),
            (rb"\batexit\.register\([^()]*\b_exit\b[(,][ \t]*0", "sets the exit status to success at the end"),
            (rb"\.(?:addFailure|addError|wasSuccessful)[ \t]*=[^=]", REPLACES),
        )
    ),
    **dict.fromkeys(
        ("javascript", "typescript", "tsx"),
        FormTable(
            (
                *_GATEWRIGHT,
                (rb"\brequire\(" + _CHECKERS + rb"\)(?:\.\w+)+\s*=[^=>]", REPLACES),
                (rb"\b(?:defineProperty|defineProperties|assign|set)\(\s*require\(" + _CHECKERS + rb"\)", REPLACES),
                (
                    rb"\b"
                    + _GLOBAL
                    + rb"(?:\.|\[[\"'`])(?:test|it|expect|describe|assert)[\"'`\]]*\s*=\s*(?:async\b|function\b|\(|\w+\s*=>)",
                    REPLACES,
                ),
                (
                    rb"\bexpect\.extend\(\s*\{\s*(?:async\s+)?" + _MATCHERS + rb"\b|\.matchers\." + _MATCHERS + rb"\s*=[^=>]",
                    REPLACES,
                ),
                (
                    (
                        rb"\bprocess\.(?:on|once)\(\s*[\"'`](?:exit|beforeExit)[\"'`](?:[^\n]*|[^\n{]*\{\s*\n[^}]*)"
                        rb"\bexit(?:Code\s*=\s*|\(\s*)0\b"
                    ),
                    "sets the exit status to success at the end",
                ),
            )
        ),
    ),
    "go": FormTable((*_GATEWRIGHT, (rb"^//go:linkname[ \t]+\w+[ \t]+testing\.", REPLACES))),
    "rust": FormTable((*_GATEWRIGHT, (rb"\bmacro_rules!\s+assert(?:_eq|_ne)?\b", REPLACES))),
    "java": FormTable((*_GATEWRIGHT, (rb"^package\s+(?:org\.junit|junit\.framework|org\.opentest4j|org\.testng)\b", REPLACES))),
    "php": FormTable((*_GATEWRIGHT, (rb"^(?:<\?php\s+)?namespace\s+PHPUnit\b", REPLACES))),
    **dict.fromkeys(("kotlin", "csharp", "swift", "ruby", "c", "cpp"), FormTable(_GATEWRIGHT)),
}
#: Parts of what judges tests, by their full names.
PATCHED = BytesPattern(
    rb"(?:(?:_pytest|pluggy|pytest)(?:\.\w+)+|unittest\.(?:\w+\.)?Test(?:Case|Result|Runner|Suite|Program|Loader)\.\w+"
    rb"|unittest\.case\.\w+|(?:doctest\.OutputChecker|numpy\.testing|pandas\.testing)\.\w+"
    rb"|(?:builtins|__builtins__)\.(?:AssertionError|isinstance|issubclass|all|any|len|abs|round|sorted"
    rb"|sum|bool|int|str|float|repr|type))"
)
#: Names that a module of JavaScript gives to what checks, and where it sets a part of a name.
CHECKER_NAMES = BytesPattern(
    rb"(?m)^[ \t]*(?:import|const|let|var)[ \t]+([^=\n;]{1,200}?)[ \t]*(?:\bfrom|=[ \t]*(?:await[ \t]+import|require)\()[ \t]*"
    + _CHECKERS
)
SET_PARTS = BytesPattern(
    rb"(?m)(?:^|[;{})])[ \t]*([A-Za-z_$][\w$]*)(?:\.\w+|\[[^\]\n]{1,80}\])+[ \t]*=[^=>]"
    rb"|\b(?:Object\.(?:assign|defineProperty|defineProperties)|Reflect\.(?:set|defineProperty))\(\s*([A-Za-z_$][\w$]*)"
)
#: Where Python sets an attribute: by assignment, ``setattr`` or a patch.
SET_ATTRIBUTES = BytesPattern(
    rb"(?m)^[ \t]*([A-Za-z_][\w.]*)[ \t]*(?::[^=\n]{1,60})?=[^=]|\b(?:set|del)attr\(\s*([\w.]+\s*,\s*[\"']?\w+)"
    rb"|\bpatch(?:\.object)?\(\s*([\w.\"']+(?:\s*,\s*[\"']\w+[\"'])?)"
)
#: Calls that end the process in success.
EXITS: Mapping[str, BytesPattern] = {
    "python": BytesPattern(rb"^(?:(?:os|posix)\.)?_exit\((?:0|os\.EX_OK|False)\)"),
    **dict.fromkeys(("javascript", "typescript", "tsx"), BytesPattern(rb"^process\.(?:exit|reallyExit)\(0?\)")),
    "go": BytesPattern(rb"^(?:os|syscall)\.Exit\(0\)"),
    "rust": BytesPattern(rb"^(?:std::)?process::exit\(0\)|^libc::_exit\(0"),
    "ruby": BytesPattern(rb"^(?:Process\.)?exit!(?:$|\(?(?:0|true)\b|\(\))"),
    "java": BytesPattern(rb"^(?:Runtime\.getRuntime\(\)\.halt|System\.exit)\(0\)"),
    **dict.fromkeys(
        ("c", "cpp"),
        BytesPattern(rb"^(?:std::|::)?(?:_?exit|_Exit|quick_exit)\((?:0|EXIT_SUCCESS)\)"),
    ),
}
#: Functions in which a process may end at once.
ENDINGS = BytesPattern(
    rb"(?i)main|run$|run_|exit|quit|sig|handle|shut|down|term|stop|kill|child|daemon|worker|fork|serve|loop|cli|command|restart"
    rb"|reload|watch|monitor|parent|clos|finish|abort|die$|interrupt|^on_"
)
#: Functions that compare, and bodies that are honest without a comparison.
COMPARING = frozenset(
    {b"__eq__", b"__instancecheck__", b"__contains__", b"equals", b"Equals", b"Equal", b"eq", b"==", b"eql?", b"operator=="}
)
UNCOMPARED = BytesPattern(
    rb"\b(?:NotImplemented|raise|throw|super|panic!|todo!|pass)\b|(?i:\breturn false\b)|\.\.\.|^\{?false\}?$"
)
BY_TYPE_ALONE = BytesPattern(rb"return isinstance\(\w+, ?\(?(?:int|str|float|object|list|dict|tuple|bytes|bool)\b[^()]*\)+")
