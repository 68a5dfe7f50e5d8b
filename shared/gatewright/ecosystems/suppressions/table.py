"""The comments and attributes that silence a tool, language by language. Data; ``finding.py`` says where they stand."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple

from gatewright.ecosystems.suppressions import syntax


class Reach(Enum):
    """How far a suppression goes."""

    LINE = auto()
    #: All of the file.
    FILE = auto()
    #: All of the file when no code stands before it, else the line.
    FIRST = auto()
    #: From its place to what ends it, or to the end of the file.
    BLOCK = auto()
    #: The same when it is alone on its line, else the line.
    ALONE = auto()


class Row(NamedTuple):
    """``pattern`` silences ``tools``. It stands in a comment, or with ``in_code`` in code; ``until`` ends a block."""

    tools: str
    pattern: bytes
    reach: Reach = Reach.LINE
    until: bytes = b""
    in_code: bool = False


class Language(NamedTuple):
    """How a language writes comments, and its rows."""

    syntax: syntax.Syntax
    rows: tuple[Row, ...]


#: Where the words of a comment begin: behind what opens it, or on a further line of it.
_OPEN: Final = rb"(?:(?m:^[ \t*]*)|[#;%!]+|//+!?|/\*+!?|--+|<!--+|\{-+|\(\*+|\{#+)[ \t]*"


def _row(tools: str, words: str, reach: Reach = Reach.LINE, until: str = "") -> Row:
    """A comment that begins with ``words``."""
    end = _OPEN + b"(?i:" + until.encode() + b")" if until else b""
    return Row(tools, _OPEN + b"(?i:" + words.encode() + b")", reach, end)


def _within(tools: str, words: str, reach: Reach = Reach.LINE, until: str = "") -> Row:
    """A comment that has ``words`` anywhere."""
    return Row(tools, b"(?i:" + words.encode() + b")", reach, b"(?i:" + until.encode() + b")" if until else b"")


def _code(tools: str, words: str, reach: Reach = Reach.LINE, until: str = "") -> Row:
    """Code that has ``words``."""
    return Row(tools, words.encode(), reach, until.encode(), in_code=True)


#: Of tools for many languages.
_EVERYWHERE: Final = (
    _within("SonarQube", r"\bNOSONAR\b"),
    _within("semgrep", r"\bnosem(?:grep)?\b"),
    _within("gitleaks", r"\bgitleaks:allow\b"),
    _within("kingfisher", r"\bkingfisher:ignore\b"),
    _within("trufflehog", r"\btrufflehog:ignore\b"),
    _within("ggshield", r"\b(?:ggignore|pragma: ggignore)\b"),
    _within("detect-secrets", r"pragma: ?(?:allow|white)list(?:[ -]nextline)?[ -]secret"),
    _within("CodeQL", r"\b(?:lgtm|codeql) ?\["),
    _row("Coverity", r"coverity\["),
    _row("trivy", r"trivy:ignore:"),
    _row("checkov", r"(?:checkov|bridgecrew):skip="),
    _row("tfsec", r"tfsec:ignore:"),
    _row("kics", r"kics-scan (?:ignore-line|ignore-block|disable)"),
    _row("kics", r"kics-scan ignore\b", Reach.FILE),
    _row("Snyk", r"(?:deepcode ignore|snyk:ignore)\b"),
    _row("IntelliJ", r"noinspection\b"),
    _row("DeepSource", r"skipcq\b"),
    _row("Sourcery", r"sourcery skip\b"),
    _row("Stryker", r"Stryker disable\b", Reach.BLOCK, r"Stryker restore\b"),
    _row("cspell", r"c?spell-?(?:checker)?: ?(?:disable-(?:line|next)|ignore)"),
    _row("cspell", r"c?spell-?(?:checker)?: ?disable\b", Reach.BLOCK, r"c?spell-?(?:checker)?: ?enable\b"),
    _row("codespell", r"codespell:ignore\b"),
    _row("prettier", r"prettier-ignore\b"),
    _row("dprint", r"dprint-ignore-file\b", Reach.FILE),
    _row("dprint", r"dprint-ignore\b"),
    _row("Biome", r"(?:biome|rome)-ignore-all\b", Reach.FILE),
    _row("Biome", r"(?:biome|rome)-ignore(?:-start)?\b"),
    _row("Spotless", r"spotless:off\b", Reach.BLOCK, r"spotless:on\b"),
    _row("editorconfig-checker", r"editorconfig-checker-disable-file\b", Reach.FILE),
    _row("editorconfig-checker", r"editorconfig-checker-disable\b"),
    _row("zizmor", r"zizmor: ignore\b"),
    _within("LCOV", r"\b(?:LCOV|GCOVR?|GRCOV|COV)_EXCL_(?:LINE|BR_LINE|EXCEPTION_BR_LINE)\b"),
    _within(
        "LCOV",
        r"\b(?:LCOV|GCOVR?|GRCOV|COV)_EXCL_(?:BR_)?START\b",
        Reach.BLOCK,
        r"\b(?:LCOV|GCOVR?|GRCOV|COV)_EXCL_(?:BR_)?STOP\b",
    ),
)
_PYTHON: Final = (
    _row("ruff", r"ruff: ?noqa\b", Reach.FILE),
    Row("flake8, ruff", rb"(?m:^)[ \t]*# *(?i:flake8[:=] ?noqa)\b", Reach.FILE),
    _row("flake8, ruff", r"noqa\b"),
    _row("ruff", r"ruff: ?disable\b", Reach.BLOCK, r"ruff: ?enable\b"),
    _row("ruff", r"ruff: ?ignore\b"),
    _row("mypy", r"mypy: ?ignore-errors\b", Reach.FILE),
    _row("mypy", r"mypy: ?(?:disable-error-code|follow-imports|allow-|no-|disallow-.*false|ignore-)", Reach.FILE),
    _row("mypy, pyright", r"type: ?ignore\b", Reach.FIRST),
    _row("pyright", r"(?:based)?pyright: ?ignore\b"),
    _row("pyright", r"(?:based)?pyright: ?(?:basic|off|report[a-z]+ ?= ?(?:false|none|\"?information|\"?warning))", Reach.FILE),
    _row("pyre", r"pyre-ignore-all-errors\b", Reach.FILE),
    _row("pyre", r"pyre-(?:ignore|fixme)\b"),
    _row("pytype", r"pytype: ?skip-file\b", Reach.FILE),
    _row("pytype", r"pytype: ?disable\b"),
    _row("ty", r"ty: ?ignore\b"),
    _row("pylint", r"pylint: ?(?:skip-file|disable-all)\b", Reach.FILE),
    Row("pylint", rb"(?m:^)# *(?i:pylint: ?disable ?=)", Reach.BLOCK, _OPEN + rb"(?i:pylint: ?enable)\b"),
    _row("pylint", r"pylint: ?disable(?:-next|-msg)? ?="),
    _row("bandit", r"nosec\b"),
    _row("coverage", r"pragma: ?no ?(?:cover|branch)\b"),
    _row("mutmut", r"pragma: ?no ?mutate\b"),
    _row("black, ruff format", r"fmt: ?off\b", Reach.BLOCK, r"fmt: ?on\b"),
    _row("black, ruff format", r"fmt: ?skip\b"),
    _row("yapf", r"yapf: ?disable\b", Reach.BLOCK, r"yapf: ?enable\b"),
    _row("isort", r"isort: ?skip_file\b", Reach.FILE),
    _row("isort", r"isort: ?off\b", Reach.BLOCK, r"isort: ?on\b"),
    _row("isort", r"isort: ?(?:skip|split|dont)"),
    _row("autopep8", r"autopep8: ?off\b", Reach.BLOCK, r"autopep8: ?on\b"),
    _row("fixit", r"lint-(?:ignore|fixme)\b"),
    _code("type checkers", r"@(?:typing\.|t\.)?no_type_check\b"),
    _code("beartype, typeguard", r"@(?:typeguard\.)?(?:typeguard_ignore|suppress_type_checks)\b"),
)
_SCRIPT: Final = (
    _row("ESLint", r"eslint-disable-(?:next-)?line\b"),
    _row("ESLint", r"eslint-disable\b", Reach.BLOCK, r"eslint-enable\b"),
    _row("ESLint", r"eslint [\w@/-]+ ?: ?(?:\[? ?[\"']?off\b|\[? ?0\b)", Reach.FILE),
    _row("tsc", r"@ts-nocheck\b", Reach.FILE),
    _row("tsc", r"@ts-(?:ignore|expect-error)\b"),
    _row("oxlint", r"oxlint-disable-(?:next-)?line\b"),
    _row("oxlint", r"oxlint-disable\b", Reach.BLOCK, r"oxlint-enable\b"),
    _row("TSLint", r"tslint:disable-(?:next-)?line\b"),
    _row("TSLint", r"tslint:disable\b", Reach.BLOCK, r"tslint:enable\b"),
    _row("JSHint", r"jshint ignore:line\b"),
    _row("JSHint", r"jshint ignore:start\b", Reach.BLOCK, r"jshint ignore:end\b"),
    _row("JSCS", r"jscs:(?:disable|ignore)\b"),
    _row("Flow", r"@noflow\b", Reach.FILE),
    _row("Flow", r"\$Flow(?:FixMe|Ignore|ExpectedError|Issue)\b|@flow-ignore\b"),
    _row("Deno lint", r"deno-lint-ignore-file\b", Reach.FILE),
    _row("Deno lint", r"deno-lint-ignore\b"),
    _row("Deno fmt", r"deno-fmt-ignore-file\b", Reach.FILE),
    _row("Deno fmt", r"deno-fmt-ignore\b"),
    _row("Deno coverage", r"deno-coverage-ignore-file\b", Reach.FILE),
    _row("Deno coverage", r"deno-coverage-ignore\b"),
    _row("Istanbul, c8, v8", r"(?:istanbul|c8|v8) ignore file\b", Reach.FILE),
    _row("Istanbul, c8, v8", r"(?:istanbul|c8|v8) ignore start\b", Reach.BLOCK, r"(?:istanbul|c8|v8) ignore (?:stop|end)\b"),
    _row("Istanbul, c8, v8", r"(?:istanbul|c8|v8) ignore\b"),
    _row("node coverage", r"node:coverage disable\b", Reach.BLOCK, r"node:coverage enable\b"),
    _row("node coverage", r"node:coverage ignore\b"),
    _row("Svelte", r"svelte-ignore\b"),
    _row("Vue", r"@vue-(?:ignore|skip|expect-error)\b"),
    _row("Stylelint", r"stylelint-disable-(?:next-)?line\b"),
    _row("Stylelint", r"stylelint-disable\b", Reach.BLOCK, r"stylelint-enable\b"),
)
_STYLES: Final = (
    *(row for row in _SCRIPT if row.tools == "Stylelint"),
    _row("sass-lint", r"(?:sass|scss)-lint:disable\b", Reach.BLOCK, r"(?:sass|scss)-lint:enable\b"),
    _row("CSSLint", r"csslint (?:ignore|allow):"),
)
_MARKUP: Final = (
    *_STYLES,
    *_SCRIPT,
    _row("djLint", r"djlint:off\b", Reach.BLOCK, r"djlint:on\b"),
    _row("HTMLHint", r"htmlhint [\w-]+:(?:false|0)", Reach.FILE),
    _row("erb-lint, haml-lint", r"(?:erb_?lint|haml-lint|slim-lint):disable\b"),
)
_MARKDOWN: Final = (
    _row("markdownlint", r"markdownlint-disable-file\b", Reach.FILE),
    _row("markdownlint", r"markdownlint-disable-(?:next-)?line\b"),
    _row("markdownlint", r"markdownlint-(?:disable|configure-file)\b", Reach.BLOCK, r"markdownlint-(?:enable|restore)\b"),
    _row("remark-lint", r"lint (?:disable|ignore)\b", Reach.BLOCK, r"lint enable\b"),
    _row("Vale", r"vale (?:off|[\w.]+ ?= ?no)\b", Reach.BLOCK, r"vale (?:on|[\w.]+ ?= ?yes)\b"),
    _row("textlint", r"textlint-disable\b", Reach.BLOCK, r"textlint-enable\b"),
    _row("alex", r"alex (?:ignore|disable)\b"),
    _row("mdformat", r"mdformat off\b", Reach.BLOCK, r"mdformat on\b"),
)
_GO: Final = (
    _row("golangci-lint", r"nolint\b", Reach.FIRST),
    _row("staticcheck", r"lint:file-ignore\b", Reach.FILE),
    _row("staticcheck", r"lint:ignore\b"),
    _row("gosec", r"#?nosec\b"),
    _row("go", r"(?:go:build|\+build)[ \t]+(?:.*[ (])?(?:ignore|never|none)\b", Reach.FILE),
    _row("revive", r"revive:disable-(?:next-)?line\b"),
    _row("revive", r"revive:disable\b", Reach.BLOCK, r"revive:enable\b"),
    _row("exhaustive", r"exhaustive:ignore\b"),
    _row("go coverage", r"coverage:ignore\b"),
    _row("go race detector", r"go:norace\b"),
    _row("go checkptr", r"go:nocheckptr\b"),
    _row("gofumpt, goimports", r"(?:gofumpt|goimports|gci):(?:skip|ignore)"),
)
_RUST: Final = (
    _code("clippy, rustc", r"#!\[\s{0,20}(?:cfg_attr\([^\]]{0,200}?\b)?(?:allow|expect)\s{0,20}\(", Reach.FILE),
    _code("clippy, rustc", r"#\[\s{0,20}(?:cfg_attr\([^\]]{0,200}?\b)?(?:allow|expect)\s{0,20}\("),
    _code("rustfmt", r"#!\[\s{0,20}(?:cfg_attr\([^\]]{0,200}?)?rustfmt::skip", Reach.FILE),
    _code("rustfmt", r"#\[\s{0,20}(?:cfg_attr\([^\]]{0,200}?)?rustfmt::skip"),
    _code("coverage", r"#!?\[\s{0,20}(?:cfg_attr\([^\]]{0,200}?)?(?:coverage\(off|no_coverage|cfg\(not\(tarpaulin)"),
    _code("mutants", r"#!?\[\s{0,20}(?:cfg_attr\([^\]]{0,200}?)?mutants::(?:skip|exclude_re)"),
    _code("Miri", r"#!?\[\s{0,20}cfg_attr\(\s{0,20}miri\s{0,20},\s{0,20}ignore"),
)
_JVM: Final = (
    _code("Kotlin compiler, detekt", r"@file:\s{0,9}\[?\s{0,9}Suppress(?:Warnings|Lint)?\b", Reach.FILE),
    _code("compiler, linters", r"@(?:[a-z]\w{0,40}\.){0,9}Suppress(?:Warnings|Lint|FBWarnings|)\b|@SuppressModernizer\b"),
    _code("IDE, animal-sniffer", r"@Ignore(?:JRERequirement|CheckReturnValue)\b"),
    _code("Scala compiler", r"@(?:[a-z]\w{0,40}\.){0,9}(?:nowarn|silent)\b"),
    _row(
        "Checkstyle",
        r"(?:CHECKSTYLE[.: ]?(?:OFF|STOP)|CSOFF)\b",
        Reach.BLOCK,
        r"(?:CHECKSTYLE[.: ]?(?:ON|START|RESUME)|CSON)\b",
    ),
    _row("Checkstyle", r"(?:CHECKSTYLE[.:]? ?(?:SUPPRESS|IGNORE)|SUPPRESS CHECKSTYLE)\b"),
    _within("PMD", r"\bNOPMD\b"),
    _row("PMD CPD", r"CPD-OFF\b", Reach.BLOCK, r"CPD-ON\b"),
    _row("ktlint", r"ktlint-disable\b", Reach.ALONE, r"ktlint-enable\b"),
    _row("formatter", r"@formatter:off\b", Reach.BLOCK, r"@formatter:on\b"),
    _row("Scalastyle", r"scalastyle:off\b", Reach.ALONE, r"scalastyle:on\b"),
    _row("Scalafix", r"scalafix:off\b", Reach.BLOCK, r"scalafix:on\b"),
    _row("Scalafix", r"scalafix:ok\b"),
    _row("Scalafmt", r"(?:scalafmt: ?off|format: ?off)\b", Reach.BLOCK, r"(?:scalafmt: ?on|format: ?on)\b"),
    _row("scoverage", r"\$COVERAGE-OFF\$", Reach.BLOCK, r"\$COVERAGE-ON\$"),
    _row("CodeNarc", r"codenarc-disable-line\b"),
    _row("CodeNarc", r"codenarc-disable\b", Reach.BLOCK, r"codenarc-enable\b"),
)
_DOTNET: Final = (
    _code(
        "C# compiler, analyzers",
        r"(?m:^)[ \t]*#[ \t]*pragma[ \t]+warning[ \t]+disable\b",
        Reach.BLOCK,
        r"(?m:^)[ \t]*#[ \t]*pragma[ \t]+warning[ \t]+(?:restore|enable)\b",
    ),
    _code(
        "C# compiler",
        r"(?m:^)[ \t]*#[ \t]*nullable[ \t]+disable\b",
        Reach.BLOCK,
        r"(?m:^)[ \t]*#[ \t]*nullable[ \t]+(?:restore|enable)\b",
    ),
    _code(
        "analyzers",
        r"[\[<]\s{0,9}(?:assembly|module)\s{0,9}:\s{0,9}(?:[\w.]{0,80}\.)?(?:Unconditional)?SuppressMessage\b",
        Reach.FILE,
    ),
    _code("analyzers", r"[\[<,]\s{0,9}(?:[\w.]{0,80}\.)?(?:Unconditional)?SuppressMessage(?:Attribute)?\b"),
    _code("coverage", r"[\[<,]\s{0,9}(?:[\w.]{0,80}\.)?ExcludeFromCodeCoverage(?:Attribute)?\b"),
    _code("VB compiler", r"(?m:^)[ \t]*#Disable Warning\b", Reach.BLOCK, r"(?m:^)[ \t]*#Enable Warning\b"),
    _code("F# compiler", r"(?m:^)[ \t]*#nowarn\b", Reach.FILE),
    _row("analyzers", r"<auto-?generated", Reach.FILE),
    _row("ReSharper", r"ReSharper disable once\b"),
    _row("ReSharper", r"ReSharper disable\b", Reach.BLOCK, r"ReSharper restore\b"),
    _row("FSharpLint", r"fsharplint:disable(?:-next|-line)?\b", Reach.ALONE, r"fsharplint:enable\b"),
    _row("Fantomas", r"fantomas-ignore\b"),
)
_C: Final = (
    _within("clang-tidy", r"\bNOLINTBEGIN\b", Reach.BLOCK, r"\bNOLINTEND\b"),
    _within("clang-tidy", r"\bNOLINT(?:NEXTLINE)?\b"),
    _row("cppcheck", r"cppcheck-suppress-file\b", Reach.FILE),
    _row("cppcheck", r"cppcheck-suppress-begin\b", Reach.BLOCK, r"cppcheck-suppress-end\b"),
    _row("cppcheck", r"cppcheck-suppress\b"),
    _row("clang-format", r"clang-format off\b", Reach.BLOCK, r"clang-format on\b"),
    _row("uncrustify, indent", r"\*?INDENT-OFF\*?", Reach.BLOCK, r"\*?INDENT-ON\*?"),
    _row("PVS-Studio", r"-V(?:::)?\d"),
    _row("PC-lint", r"(?:lint -save|lint [^\n]{0,80}-e\w|-e\d{3})"),
    _row("IWYU", r"IWYU pragma: ?(?:keep|export|no_include|private)"),
    _code(
        "compiler",
        r"(?m:^)[ \t]*#[ \t]*pragma[ \t]+(?:GCC|clang)[ \t]+diagnostic[ \t]+ignored\b",
        Reach.BLOCK,
        r"(?m:^)[ \t]*#[ \t]*pragma[ \t]+(?:GCC|clang)[ \t]+diagnostic[ \t]+pop\b",
    ),
    _code("compiler", r"(?m:^)[ \t]*#[ \t]*pragma[ \t]+(?:GCC|clang)[ \t]+system_header\b", Reach.FILE),
    _code(
        "compiler",
        r"(?m:^)[ \t]*#[ \t]*pragma[ \t]+warning[ \t]*\([ \t]*(?:disable|push[ \t]*,[ \t]*0)\b",
        Reach.BLOCK,
        r"(?m:^)[ \t]*#[ \t]*pragma[ \t]+warning[ \t]*\([ \t]*(?:pop|default)\b",
    ),
    _code("compiler", r"\b_Pragma\s{0,9}\(|\b__pragma\s{0,9}\(\s{0,9}warning\b"),
    _code("sanitizers", r"\bno_sanitize(?:_\w{1,30})?\b|\bNO_SANITIZE\w{0,40}\b"),
    _code("static analyzers", r"\[\[\s{0,9}gsl::suppress\b|\bNO_THREAD_SAFETY_ANALYSIS\b|\b__clang_analyzer__\b"),
)
_SWIFT: Final = (
    _row("SwiftLint", r"swiftlint:disable:(?:next|this|previous)\b"),
    _row("SwiftLint", r"swiftlint:disable\b", Reach.BLOCK, r"swiftlint:enable\b"),
    _row("SwiftFormat", r"swiftformat:disable:next\b"),
    _row("SwiftFormat", r"swiftformat:disable\b", Reach.BLOCK, r"swiftformat:enable\b"),
    _row("swift-format", r"swift-format-ignore-file\b", Reach.FILE),
    _row("swift-format", r"swift-format-ignore\b"),
    _row("Periphery", r"periphery:ignore:all\b", Reach.FILE),
    _row("Periphery", r"periphery:ignore\b"),
)
_PHP: Final = (
    _row("PHP_CodeSniffer", r"(?:phpcs:ignoreFile|@codingStandardsIgnoreFile)\b", Reach.FILE),
    _row("PHP_CodeSniffer", r"phpcs:disable\b", Reach.BLOCK, r"phpcs:enable\b"),
    _row("PHP_CodeSniffer", r"@codingStandardsIgnoreStart\b", Reach.BLOCK, r"@codingStandardsIgnoreEnd\b"),
    _row("PHP_CodeSniffer", r"(?:phpcs:ignore|@codingStandardsIgnoreLine|@phpcsSuppress)\b"),
    _row("PHPStan", r"@phpstan-ignore(?:-line|-next-line)?\b"),
    _row("Psalm", r"@psalm-suppress\b"),
    _row("Phan", r"@phan-file-suppress\b", Reach.FILE),
    _row("Phan", r"@phan-suppress\b"),
    _row("Mago", r"@mago-(?:ignore|expect)\b"),
    _row("PHPMD", r"@SuppressWarnings\b"),
    _row("PhpStorm", r"@noinspection\b"),
    _row("PHPUnit coverage", r"@codeCoverageIgnoreStart\b", Reach.BLOCK, r"@codeCoverageIgnoreEnd\b"),
    _row("PHPUnit coverage", r"@codeCoverageIgnore\b"),
    _row("Infection", r"@infection-ignore-all\b"),
    _code("PHPUnit coverage", r"#\[\s{0,9}\\?(?:[\w\\]{0,80}\\)?CodeCoverageIgnore\b"),
)
_RUBY: Final = (
    _row("RuboCop, Standard", r"(?:rubocop|standard): ?(?:disable|todo)\b", Reach.ALONE, r"(?:rubocop|standard): ?enable\b"),
    _within("RuboCop, Standard", r"# ?(?:rubocop|standard): ?(?:disable|todo)\b"),
    _row("SimpleCov", r":nocov:"),
    _row("Reek", r":reek:"),
    _row("Sorbet", r"typed: ?(?:ignore|false)\b", Reach.FILE),
    _row("Steep", r"steep:ignore:start\b", Reach.BLOCK, r"steep:ignore:end\b"),
    _row("Steep", r"steep:ignore\b"),
    _row("Ameba", r"ameba:disable\b"),
    _row("mutant", r"mutant:disable\b"),
    _row("erb-lint, haml-lint", r"(?:erb_?lint|haml-lint|slim-lint):disable\b"),
)
_SHELL: Final = (
    _row("ShellCheck", r"shellcheck disable=", Reach.FIRST),
    _row("bashate", r"noqa\b"),
)
_CONFIGURED: Final = (
    *_SHELL[:1],
    _row("yamllint", r"yamllint disable-file\b", Reach.FILE),
    _row("yamllint", r"yamllint disable-line\b"),
    _row("yamllint", r"yamllint disable\b", Reach.BLOCK, r"yamllint enable\b"),
    _row("ansible-lint, sqlfluff", r"noqa\b"),
    _row("hadolint", r"hadolint global ignore=", Reach.FILE),
    _row("hadolint", r"hadolint ignore="),
    _row("Docker build checks", r"check=skip=", Reach.FILE),
    _row("tflint", r"tflint-ignore-file:", Reach.FILE),
    _row("tflint", r"tflint-ignore:"),
    _row("Terrascan", r"ts:skip="),
    _row("buildifier", r"(?:buildifier|buildozer): ?disable="),
    _row("cmake-lint", r"cmake-lint: ?disable="),
    _row("cmake-format, gersemi", r"(?:cmake-format|gersemi): ?off\b", Reach.BLOCK, r"(?:cmake-format|gersemi): ?on\b"),
    _row("deadnix, statix", r"(?:deadnix|statix): ?(?:skip|ignore)\b"),
    _row("GraphQL-ESLint", r"eslint-disable(?:-(?:next-)?line)?\b"),
    _row("buf", r"buf:lint:ignore\b"),
    _row("protolint", r"protolint:disable\b", Reach.ALONE, r"protolint:enable\b"),
    _row("API linter", r"\(-- api-linter:"),
    _row("Regal", r"regal ignore:"),
    _row("Robocop", r"(?:robocop|robotidy): ?(?:off|disable)\b", Reach.ALONE, r"(?:robocop|robotidy): ?(?:on|enable)\b"),
)
_PERL: Final = (
    _row("Perl::Critic", r"no critic\b", Reach.ALONE, r"use critic\b"),
    _row("Devel::Cover", r"uncoverable\b"),
    _code("perl", r"(?m:^)[ \t]*no[ \t]+(?:warnings|strict)\b"),
    _within("Perl::Tidy", r"#<<<", Reach.BLOCK, r"#>>>"),
)
_R: Final = (
    _row("lintr", r"nolint start\b", Reach.BLOCK, r"nolint end\b"),
    _row("lintr", r"nolint\b"),
    _row("covr", r"nocov start\b", Reach.BLOCK, r"nocov end\b"),
    _row("covr", r"nocov\b"),
    _row("styler", r"styler: ?off\b", Reach.BLOCK, r"styler: ?on\b"),
)
_LUA: Final = (
    _row("luacheck", r"luacheck: ?(?:ignore|push|no|globals)\b", Reach.FIRST),
    _row("lua-language-server", r"-?@diagnostic disable(?:-next)?-line\b"),
    _row("lua-language-server", r"-?@diagnostic disable\b", Reach.BLOCK, r"-?@diagnostic enable\b"),
    _row("selene", r"#?selene: ?(?:allow|deny)\b"),
    _row("StyLua", r"stylua: ?ignore\b"),
)
_HASKELL: Final = (
    _row("HLint", r"(?:HLINT|#? ?HLINT ignore|HLint: ignore)\b"),
    _row("HLint", r"# ANN [^\n]{0,80}\"HLint: ignore"),
    _row("GHC", r"# OPTIONS_GHC[^\n]{0,200}-(?:Wno|fno-warn|w\b|Wwarn)", Reach.FILE),
    _row(
        "Ormolu, Fourmolu", r"(?:ormolu|fourmolu)_disable\b|\$?ORMOLU_DISABLE\b", Reach.BLOCK, r"(?:ormolu|fourmolu)_enable\b"
    ),
    _row("Stan", r"stan: ?ignore\b"),
)
_ELIXIR: Final = (
    _row("Credo", r"credo:disable-for-this-file\b", Reach.FILE),
    _row("Credo", r"credo:disable-for-(?:next-line|previous-line|lines)\b"),
    _row("ExCoveralls", r"coveralls-ignore-start\b", Reach.BLOCK, r"coveralls-ignore-stop\b"),
    _row("ExCoveralls", r"coveralls-ignore\b"),
    _row("Sobelow", r"sobelow_skip\b"),
    _code("Dialyzer", r"@dialyzer\b"),
    _code("Elixir compiler", r"@compile[^\n]{0,80}:?nowarn_"),
)
_ERLANG: Final = (
    _code("Dialyzer", r"(?m:^)-dialyzer\b"),
    _code("Erlang compiler", r"(?m:^)-compile\([^\n]{0,80}nowarn", Reach.FILE),
    _code("Elvis, Hank, xref", r"(?m:^)-(?:elvis|hank|ignore_xref)\b"),
)
_DART: Final = (
    _row("Dart analyzer", r"ignore_for_file:", Reach.FILE),
    _row("Dart analyzer", r"ignore:"),
    _row("Dart formatter", r"dart format off\b", Reach.BLOCK, r"dart format on\b"),
    _row("Dart coverage", r"coverage:ignore-file\b", Reach.FILE),
    _row("Dart coverage", r"coverage:ignore-(?:line|start)\b"),
)
_SQL: Final = (
    _row("SQLFluff", r"noqa: ?disable=", Reach.BLOCK, r"noqa: ?enable="),
    _row("SQLFluff", r"noqa\b"),
    _row("Squawk", r"squawk-ignore-file\b", Reach.FILE),
    _row("Squawk", r"squawk-ignore\b"),
    _row("TSQLLint", r"tsqllint-disable\b", Reach.BLOCK, r"tsqllint-enable\b"),
)
_LISP: Final = (_code("clj-kondo, cljfmt", r"#_\s{0,9}\{?:?(?:clj-kondo|cljfmt)/ignore\b|\^:clj-kondo/ignore\b"),)
_OCAML: Final = (
    _code("OCaml compiler", r"\[@@@(?:ocaml\.)?(?:warning|alert)\b", Reach.FILE),
    _code("OCaml compiler", r"\[@@?(?:ocaml\.)?(?:warning|alert)\b"),
    _code("bisect_ppx", r"\[@@@?coverage off\]|\[@@?coverage off\]"),
)
_POWERSHELL: Final = (
    _code("PSScriptAnalyzer", r"\[(?i:(?:System\.)?Diagnostics\.CodeAnalysis\.SuppressMessage)(?:Attribute)?\b"),
)
_SOLIDITY: Final = (
    _row("Solhint", r"solhint-disable-(?:next-|previous-)?line\b"),
    _row("Solhint", r"solhint-disable\b", Reach.BLOCK, r"solhint-enable\b"),
    _row("Slither", r"slither-disable-next-line\b"),
    _row("Slither", r"slither-disable-start\b", Reach.BLOCK, r"slither-disable-end\b"),
    _row("forge lint", r"forge-lint: ?disable"),
)
_HARDWARE: Final = (
    _row("Verilator", r"verilator lint_off\b", Reach.BLOCK, r"verilator lint_on\b"),
    _row("Verible", r"verilog_lint: ?waive\b"),
    _row("VSG", r"vsg_off\b", Reach.BLOCK, r"vsg_on\b"),
)
_OTHERS: Final = (
    _row("zig fmt", r"zig fmt: ?off\b", Reach.BLOCK, r"zig fmt: ?on\b"),
    _row("zlint", r"(?:zlint|zlinter)-disable"),
    _row("JuliaFormatter", r"!? ?format: ?off\b", Reach.BLOCK, r"!? ?format: ?on\b"),
    _row("JET", r"noqa\b"),
    _row("fortitude", r"allow\("),
)

_KINDS: Final[dict[str, tuple[syntax.Syntax, tuple[Row, ...]]]] = {
    "py pyi pyx pxd pyw": (syntax.PYTHON, _PYTHON),
    "ipynb": (syntax.PLAIN_HASHED, _PYTHON),
    "js mjs cjs jsx ts mts cts tsx": (syntax.SCRIPT, _SCRIPT),
    "css scss sass less pcss": (syntax.STYLES, _STYLES),
    "html htm vue svelte astro hbs mustache jinja jinja2 j2 njk erb ejs twig xhtml xml svg haml slim": (
        syntax.MIXED,
        _MARKUP,
    ),
    "md markdown mdx": (syntax.MARKED, _MARKDOWN),
    "go": (syntax.GO, _GO),
    "rs": (syntax.C, _RUST),
    "java kt kts scala sc sbt groovy gradle": (syntax.C_LIKE, _JVM),
    "cs fs fsx fsi vb": (syntax.C_LIKE, _DOTNET),
    "c h cc cpp cxx hh hpp hxx ipp inl tpp cu cuh m mm ino": (syntax.C, _C),
    "swift": (syntax.C_LIKE, _SWIFT),
    "php phtml": (syntax.PHP, _PHP),
    "rb rake gemspec ru cr": (syntax.HASHED, _RUBY),
    "sh bash zsh ksh bats": (syntax.HASHED, _SHELL),
    "yml yaml toml cfg ini cmake nix bzl bazel star robot resource rego mk conf graphql gql": (
        syntax.PLAIN_HASHED,
        _CONFIGURED,
    ),
    "tf tfvars hcl": (syntax.HCL, _CONFIGURED),
    "proto": (syntax.C, _CONFIGURED),
    "json5 jsonc": (syntax.C, _SCRIPT),
    "pl pm t": (syntax.HASHED, _PERL),
    "r": (syntax.HASHED, _R),
    "lua": (syntax.DASHED, _LUA),
    "hs lhs": (syntax.HASKELL, _HASKELL),
    "ex exs": (syntax.HASHED, _ELIXIR),
    "erl hrl": (syntax.ERLANG, _ERLANG),
    "dart": (syntax.DART, _DART),
    "sql": (syntax.DASHED, _SQL),
    "clj cljs cljc edn": (syntax.LISP, _LISP),
    "ml mli": (syntax.OCAML, _OCAML),
    "ps1 psm1 psd1": (syntax.HASHED, _POWERSHELL),
    "sol": (syntax.C, _SOLIDITY),
    "v sv svh vhd vhdl": (syntax.ANY, _HARDWARE),
    "zig jl nim f90 f95 elm d": (syntax.ANY, _OTHERS),
}
#: Files known by their whole names, in small letters.
_NAMES: Final = {
    **dict.fromkeys(("dockerfile", "containerfile", "makefile", "gnumakefile", "cmakelists.txt", "justfile"), "yml"),
    **dict.fromkeys(("build", "workspace", "earthfile"), "yml"),
    **dict.fromkeys(("gemfile", "rakefile", "podfile", "fastfile", "vagrantfile", "brewfile"), "rb"),
    **dict.fromkeys(("jenkinsfile",), "groovy"),
}
_BY_ENDING: Final = {
    ending: Language(rules, (*rows, *_EVERYWHERE)) for endings, (rules, rows) in _KINDS.items() for ending in endings.split()
}


def language_of(path: bytes) -> Language | None:
    """The language of the file at ``path``, by its name; None for one that is not known."""
    name = path.rpartition(b"/")[2].decode("utf-8", "replace").lower()
    ending = _NAMES.get(name) or ("yml" if name.startswith(("dockerfile.", "containerfile.")) else name.rpartition(".")[2])
    return _BY_ENDING.get(ending)
