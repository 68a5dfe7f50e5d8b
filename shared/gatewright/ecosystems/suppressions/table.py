"""The comments and attributes that silence a tool, by language. Data; ``finding.py`` finds them."""

from __future__ import annotations

from typing import Final

from gatewright.ecosystems.suppressions import syntax
from gatewright.ecosystems.suppressions.rows import OPEN, Language, Reach, Row, any_words, code_words, leading_words

#: For tools of many languages.
_EVERYWHERE: Final = (
    any_words("SonarQube", r"\bNOSONAR\b"),
    any_words("semgrep", r"\bnosem(?:grep)?\b"),
    any_words("gitleaks", r"\bgitleaks:allow\b"),
    any_words("kingfisher", r"\bkingfisher:ignore\b"),
    any_words("trufflehog", r"\btrufflehog:ignore\b"),
    any_words("ggshield", r"\b(?:ggignore|pragma: ggignore)\b"),
    any_words("detect-secrets", r"pragma: ?(?:allow|white)list(?:[ -]nextline)?[ -]secret"),
    any_words("CodeQL", r"\b(?:lgtm|codeql) ?\["),
    leading_words("Coverity", r"coverity\["),
    leading_words("trivy", r"trivy:ignore:"),
    leading_words("checkov", r"(?:checkov|bridgecrew):skip="),
    leading_words("tfsec", r"tfsec:ignore:"),
    leading_words("kics", r"kics-scan (?:ignore-line|ignore-block|disable)"),
    leading_words("kics", r"kics-scan ignore\b", Reach.FILE),
    leading_words("Snyk", r"(?:deepcode ignore|snyk:ignore)\b"),
    leading_words("IntelliJ", r"noinspection\b"),
    leading_words("DeepSource", r"skipcq\b"),
    leading_words("Sourcery", r"sourcery skip\b"),
    leading_words("Stryker", r"Stryker disable\b", Reach.BLOCK, r"Stryker restore\b"),
    leading_words("cspell", r"c?spell-?(?:checker)?: ?(?:disable-(?:line|next)|ignore)"),
    leading_words("cspell", r"c?spell-?(?:checker)?: ?disable\b", Reach.BLOCK, r"c?spell-?(?:checker)?: ?enable\b"),
    leading_words("codespell", r"codespell:ignore\b"),
    leading_words("prettier", r"prettier-ignore\b"),
    leading_words("dprint", r"dprint-ignore-file\b", Reach.FILE),
    leading_words("dprint", r"dprint-ignore\b"),
    leading_words("Biome", r"(?:biome|rome)-ignore-all\b", Reach.FILE),
    leading_words("Biome", r"(?:biome|rome)-ignore(?:-start)?\b"),
    leading_words("Spotless", r"spotless:off\b", Reach.BLOCK, r"spotless:on\b"),
    leading_words("editorconfig-checker", r"editorconfig-checker-disable-file\b", Reach.FILE),
    leading_words("editorconfig-checker", r"editorconfig-checker-disable\b"),
    leading_words("zizmor", r"zizmor: ignore\b"),
    any_words("LCOV", r"\b(?:LCOV|GCOVR?|GRCOV|COV)_EXCL_(?:LINE|BR_LINE|EXCEPTION_BR_LINE)\b"),
    any_words(
        "LCOV",
        r"\b(?:LCOV|GCOVR?|GRCOV|COV)_EXCL_(?:BR_)?START\b",
        Reach.BLOCK,
        r"\b(?:LCOV|GCOVR?|GRCOV|COV)_EXCL_(?:BR_)?STOP\b",
    ),
)
_PYTHON: Final = (
    leading_words("ruff", r"ruff: ?noqa\b", Reach.FILE),
    Row("flake8, ruff", rb"(?m:^)[ \t]*# *(?i:flake8[:=] ?noqa)\b", Reach.FILE),
    leading_words("flake8, ruff", r"noqa\b"),
    leading_words("ruff", r"ruff: ?disable\b", Reach.BLOCK, r"ruff: ?enable\b"),
    leading_words("ruff", r"ruff: ?ignore\b"),
    leading_words("mypy", r"mypy: ?ignore-errors\b", Reach.FILE),
    leading_words("mypy", r"mypy: ?(?:disable-error-code|follow-imports|allow-|no-|disallow-.*false|ignore-)", Reach.FILE),
    leading_words("mypy, pyright", r"type: ?ignore\b", Reach.FIRST),
    leading_words("pyright", r"(?:based)?pyright: ?ignore\b"),
    leading_words(
        "pyright", r"(?:based)?pyright: ?(?:basic|off|report[a-z]+ ?= ?(?:false|none|\"?information|\"?warning))", Reach.FILE
    ),
    leading_words("pyre", r"pyre-ignore-all-errors\b", Reach.FILE),
    leading_words("pyre", r"pyre-(?:ignore|fixme)\b"),
    leading_words("pytype", r"pytype: ?skip-file\b", Reach.FILE),
    leading_words("pytype", r"pytype: ?disable\b"),
    leading_words("ty", r"ty: ?ignore\b"),
    leading_words("pylint", r"pylint: ?(?:skip-file|disable-all)\b", Reach.FILE),
    Row("pylint", rb"(?m:^)# *(?i:pylint: ?disable ?=)", Reach.BLOCK, OPEN + rb"(?i:pylint: ?enable)\b"),
    leading_words("pylint", r"pylint: ?disable(?:-next|-msg)? ?="),
    leading_words("bandit", r"nosec\b"),
    leading_words("coverage", r"pragma: ?no ?(?:cover|branch)\b"),
    leading_words("mutmut", r"pragma: ?no ?mutate\b"),
    leading_words("black, ruff format", r"fmt: ?off\b", Reach.BLOCK, r"fmt: ?on\b"),
    leading_words("black, ruff format", r"fmt: ?skip\b"),
    leading_words("yapf", r"yapf: ?disable\b", Reach.BLOCK, r"yapf: ?enable\b"),
    leading_words("isort", r"isort: ?skip_file\b", Reach.FILE),
    leading_words("isort", r"isort: ?off\b", Reach.BLOCK, r"isort: ?on\b"),
    leading_words("isort", r"isort: ?(?:skip|split|dont)"),
    leading_words("autopep8", r"autopep8: ?off\b", Reach.BLOCK, r"autopep8: ?on\b"),
    leading_words("fixit", r"lint-(?:ignore|fixme)\b"),
    code_words("type checkers", r"@(?:typing\.|t\.)?no_type_check\b"),
    code_words("beartype, typeguard", r"@(?:typeguard\.)?(?:typeguard_ignore|suppress_type_checks)\b"),
)
_SCRIPT: Final = (
    leading_words("ESLint", r"eslint-disable-(?:next-)?line\b"),
    leading_words("ESLint", r"eslint-disable\b", Reach.BLOCK, r"eslint-enable\b"),
    leading_words("ESLint", r"eslint [\w@/-]+ ?: ?(?:\[? ?[\"']?off\b|\[? ?0\b)", Reach.FILE),
    leading_words("tsc", r"@ts-nocheck\b", Reach.FILE),
    leading_words("tsc", r"@ts-(?:ignore|expect-error)\b"),
    leading_words("oxlint", r"oxlint-disable-(?:next-)?line\b"),
    leading_words("oxlint", r"oxlint-disable\b", Reach.BLOCK, r"oxlint-enable\b"),
    leading_words("TSLint", r"tslint:disable-(?:next-)?line\b"),
    leading_words("TSLint", r"tslint:disable\b", Reach.BLOCK, r"tslint:enable\b"),
    leading_words("JSHint", r"jshint ignore:line\b"),
    leading_words("JSHint", r"jshint ignore:start\b", Reach.BLOCK, r"jshint ignore:end\b"),
    leading_words("JSCS", r"jscs:(?:disable|ignore)\b"),
    leading_words("Flow", r"@noflow\b", Reach.FILE),
    leading_words("Flow", r"\$Flow(?:FixMe|Ignore|ExpectedError|Issue)\b|@flow-ignore\b"),
    leading_words("Deno lint", r"deno-lint-ignore-file\b", Reach.FILE),
    leading_words("Deno lint", r"deno-lint-ignore\b"),
    leading_words("Deno fmt", r"deno-fmt-ignore-file\b", Reach.FILE),
    leading_words("Deno fmt", r"deno-fmt-ignore\b"),
    leading_words("Deno coverage", r"deno-coverage-ignore-file\b", Reach.FILE),
    leading_words("Deno coverage", r"deno-coverage-ignore\b"),
    leading_words("Istanbul, c8, v8", r"(?:istanbul|c8|v8) ignore file\b", Reach.FILE),
    leading_words(
        "Istanbul, c8, v8", r"(?:istanbul|c8|v8) ignore start\b", Reach.BLOCK, r"(?:istanbul|c8|v8) ignore (?:stop|end)\b"
    ),
    leading_words("Istanbul, c8, v8", r"(?:istanbul|c8|v8) ignore\b"),
    leading_words("node coverage", r"node:coverage disable\b", Reach.BLOCK, r"node:coverage enable\b"),
    leading_words("node coverage", r"node:coverage ignore\b"),
    leading_words("Svelte", r"svelte-ignore\b"),
    leading_words("Vue", r"@vue-(?:ignore|skip|expect-error)\b"),
    leading_words("Stylelint", r"stylelint-disable-(?:next-)?line\b"),
    leading_words("Stylelint", r"stylelint-disable\b", Reach.BLOCK, r"stylelint-enable\b"),
)
_STYLES: Final = (
    *(row for row in _SCRIPT if row.tools == "Stylelint"),
    leading_words("sass-lint", r"(?:sass|scss)-lint:disable\b", Reach.BLOCK, r"(?:sass|scss)-lint:enable\b"),
    leading_words("CSSLint", r"csslint (?:ignore|allow):"),
)
_MARKUP: Final = (
    *_STYLES,
    *_SCRIPT,
    leading_words("djLint", r"djlint:off\b", Reach.BLOCK, r"djlint:on\b"),
    leading_words("HTMLHint", r"htmlhint [\w-]+:(?:false|0)", Reach.FILE),
    leading_words("erb-lint, haml-lint", r"(?:erb_?lint|haml-lint|slim-lint):disable\b"),
)
_MARKDOWN: Final = (
    leading_words("markdownlint", r"markdownlint-disable-file\b", Reach.FILE),
    leading_words("markdownlint", r"markdownlint-disable-(?:next-)?line\b"),
    leading_words(
        "markdownlint", r"markdownlint-(?:disable|configure-file)\b", Reach.BLOCK, r"markdownlint-(?:enable|restore)\b"
    ),
    leading_words("remark-lint", r"lint (?:disable|ignore)\b", Reach.BLOCK, r"lint enable\b"),
    leading_words("Vale", r"vale (?:off|[\w.]+ ?= ?no)\b", Reach.BLOCK, r"vale (?:on|[\w.]+ ?= ?yes)\b"),
    leading_words("textlint", r"textlint-disable\b", Reach.BLOCK, r"textlint-enable\b"),
    leading_words("alex", r"alex (?:ignore|disable)\b"),
    leading_words("mdformat", r"mdformat off\b", Reach.BLOCK, r"mdformat on\b"),
)
_GO: Final = (
    leading_words("golangci-lint", r"nolint\b", Reach.FIRST),
    leading_words("staticcheck", r"lint:file-ignore\b", Reach.FILE),
    leading_words("staticcheck", r"lint:ignore\b"),
    leading_words("gosec", r"#?nosec\b"),
    leading_words("go", r"(?:go:build|\+build)[ \t]+(?:.*[ (])?(?:ignore|never|none)\b", Reach.FILE),
    leading_words("revive", r"revive:disable-(?:next-)?line\b"),
    leading_words("revive", r"revive:disable\b", Reach.BLOCK, r"revive:enable\b"),
    leading_words("exhaustive", r"exhaustive:ignore\b"),
    leading_words("go coverage", r"coverage:ignore\b"),
    leading_words("go race detector", r"go:norace\b"),
    leading_words("go checkptr", r"go:nocheckptr\b"),
    leading_words("gofumpt, goimports", r"(?:gofumpt|goimports|gci):(?:skip|ignore)"),
)
_RUST: Final = (
    code_words("clippy, rustc", r"#!\[\s{0,20}(?:cfg_attr\([^\]]{0,200}?\b)?(?:allow|expect)\s{0,20}\(", Reach.FILE),
    code_words("clippy, rustc", r"#\[\s{0,20}(?:cfg_attr\([^\]]{0,200}?\b)?(?:allow|expect)\s{0,20}\("),
    code_words("rustfmt", r"#!\[\s{0,20}(?:cfg_attr\([^\]]{0,200}?)?rustfmt::skip", Reach.FILE),
    code_words("rustfmt", r"#\[\s{0,20}(?:cfg_attr\([^\]]{0,200}?)?rustfmt::skip"),
    code_words("coverage", r"#!?\[\s{0,20}(?:cfg_attr\([^\]]{0,200}?)?(?:coverage\(off|no_coverage|cfg\(not\(tarpaulin)"),
    code_words("mutants", r"#!?\[\s{0,20}(?:cfg_attr\([^\]]{0,200}?)?mutants::(?:skip|exclude_re)"),
    code_words("Miri", r"#!?\[\s{0,20}cfg_attr\(\s{0,20}miri\s{0,20},\s{0,20}ignore"),
)
_JVM: Final = (
    code_words("Kotlin compiler, detekt", r"@file:\s{0,9}\[?\s{0,9}Suppress(?:Warnings|Lint)?\b", Reach.FILE),
    code_words("compiler, linters", r"@(?:[a-z]\w{0,40}\.){0,9}Suppress(?:Warnings|Lint|FBWarnings|)\b|@SuppressModernizer\b"),
    code_words("IDE, animal-sniffer", r"@Ignore(?:JRERequirement|CheckReturnValue)\b"),
    code_words("Scala compiler", r"@(?:[a-z]\w{0,40}\.){0,9}(?:nowarn|silent)\b"),
    leading_words(
        "Checkstyle",
        r"(?:CHECKSTYLE[.: ]?(?:OFF|STOP)|CSOFF)\b",
        Reach.BLOCK,
        r"(?:CHECKSTYLE[.: ]?(?:ON|START|RESUME)|CSON)\b",
    ),
    leading_words("Checkstyle", r"(?:CHECKSTYLE[.:]? ?(?:SUPPRESS|IGNORE)|SUPPRESS CHECKSTYLE)\b"),
    any_words("PMD", r"\bNOPMD\b"),
    leading_words("PMD CPD", r"CPD-OFF\b", Reach.BLOCK, r"CPD-ON\b"),
    leading_words("ktlint", r"ktlint-disable\b", Reach.ALONE, r"ktlint-enable\b"),
    leading_words("formatter", r"@formatter:off\b", Reach.BLOCK, r"@formatter:on\b"),
    leading_words("Scalastyle", r"scalastyle:off\b", Reach.ALONE, r"scalastyle:on\b"),
    leading_words("Scalafix", r"scalafix:off\b", Reach.BLOCK, r"scalafix:on\b"),
    leading_words("Scalafix", r"scalafix:ok\b"),
    leading_words("Scalafmt", r"(?:scalafmt: ?off|format: ?off)\b", Reach.BLOCK, r"(?:scalafmt: ?on|format: ?on)\b"),
    leading_words("scoverage", r"\$COVERAGE-OFF\$", Reach.BLOCK, r"\$COVERAGE-ON\$"),
    leading_words("CodeNarc", r"codenarc-disable-line\b"),
    leading_words("CodeNarc", r"codenarc-disable\b", Reach.BLOCK, r"codenarc-enable\b"),
)
_DOTNET: Final = (
    code_words(
        "C# compiler, analyzers",
        r"(?m:^)[ \t]*#[ \t]*pragma[ \t]+warning[ \t]+disable\b",
        Reach.BLOCK,
        r"(?m:^)[ \t]*#[ \t]*pragma[ \t]+warning[ \t]+(?:restore|enable)\b",
    ),
    code_words(
        "C# compiler",
        r"(?m:^)[ \t]*#[ \t]*nullable[ \t]+disable\b",
        Reach.BLOCK,
        r"(?m:^)[ \t]*#[ \t]*nullable[ \t]+(?:restore|enable)\b",
    ),
    code_words(
        "analyzers",
        r"[\[<]\s{0,9}(?:assembly|module)\s{0,9}:\s{0,9}(?:[\w.]{0,80}\.)?(?:Unconditional)?SuppressMessage\b",
        Reach.FILE,
    ),
    code_words("analyzers", r"[\[<,]\s{0,9}(?:[\w.]{0,80}\.)?(?:Unconditional)?SuppressMessage(?:Attribute)?\b"),
    code_words("coverage", r"[\[<,]\s{0,9}(?:[\w.]{0,80}\.)?ExcludeFromCodeCoverage(?:Attribute)?\b"),
    code_words("VB compiler", r"(?m:^)[ \t]*#Disable Warning\b", Reach.BLOCK, r"(?m:^)[ \t]*#Enable Warning\b"),
    code_words("F# compiler", r"(?m:^)[ \t]*#nowarn\b", Reach.FILE),
    leading_words("analyzers", r"<auto-?generated", Reach.FILE),
    leading_words("ReSharper", r"ReSharper disable once\b"),
    leading_words("ReSharper", r"ReSharper disable\b", Reach.BLOCK, r"ReSharper restore\b"),
    leading_words("FSharpLint", r"fsharplint:disable(?:-next|-line)?\b", Reach.ALONE, r"fsharplint:enable\b"),
    leading_words("Fantomas", r"fantomas-ignore\b"),
)
_C: Final = (
    any_words("clang-tidy", r"\bNOLINTBEGIN\b", Reach.BLOCK, r"\bNOLINTEND\b"),
    any_words("clang-tidy", r"\bNOLINT(?:NEXTLINE)?\b"),
    leading_words("cppcheck", r"cppcheck-suppress-file\b", Reach.FILE),
    leading_words("cppcheck", r"cppcheck-suppress-begin\b", Reach.BLOCK, r"cppcheck-suppress-end\b"),
    leading_words("cppcheck", r"cppcheck-suppress\b"),
    leading_words("clang-format", r"clang-format off\b", Reach.BLOCK, r"clang-format on\b"),
    leading_words("uncrustify, indent", r"\*?INDENT-OFF\*?", Reach.BLOCK, r"\*?INDENT-ON\*?"),
    leading_words("PVS-Studio", r"-V(?:::)?\d"),
    leading_words("PC-lint", r"(?:lint -save|lint [^\n]{0,80}-e\w|-e\d{3})"),
    leading_words("IWYU", r"IWYU pragma: ?(?:keep|export|no_include|private)"),
    code_words(
        "compiler",
        r"(?m:^)[ \t]*#[ \t]*pragma[ \t]+(?:GCC|clang)[ \t]+diagnostic[ \t]+ignored\b",
        Reach.BLOCK,
        r"(?m:^)[ \t]*#[ \t]*pragma[ \t]+(?:GCC|clang)[ \t]+diagnostic[ \t]+pop\b",
    ),
    code_words("compiler", r"(?m:^)[ \t]*#[ \t]*pragma[ \t]+(?:GCC|clang)[ \t]+system_header\b", Reach.FILE),
    code_words(
        "compiler",
        r"(?m:^)[ \t]*#[ \t]*pragma[ \t]+warning[ \t]*\([ \t]*(?:disable|push[ \t]*,[ \t]*0)\b",
        Reach.BLOCK,
        r"(?m:^)[ \t]*#[ \t]*pragma[ \t]+warning[ \t]*\([ \t]*(?:pop|default)\b",
    ),
    code_words("compiler", r"\b_Pragma\s{0,9}\(|\b__pragma\s{0,9}\(\s{0,9}warning\b"),
    code_words("sanitizers", r"\bno_sanitize(?:_\w{1,30})?\b|\bNO_SANITIZE\w{0,40}\b"),
    code_words("static analyzers", r"\[\[\s{0,9}gsl::suppress\b|\bNO_THREAD_SAFETY_ANALYSIS\b|\b__clang_analyzer__\b"),
)
_SWIFT: Final = (
    leading_words("SwiftLint", r"swiftlint:disable:(?:next|this|previous)\b"),
    leading_words("SwiftLint", r"swiftlint:disable\b", Reach.BLOCK, r"swiftlint:enable\b"),
    leading_words("SwiftFormat", r"swiftformat:disable:next\b"),
    leading_words("SwiftFormat", r"swiftformat:disable\b", Reach.BLOCK, r"swiftformat:enable\b"),
    leading_words("swift-format", r"swift-format-ignore-file\b", Reach.FILE),
    leading_words("swift-format", r"swift-format-ignore\b"),
    leading_words("Periphery", r"periphery:ignore:all\b", Reach.FILE),
    leading_words("Periphery", r"periphery:ignore\b"),
)
_PHP: Final = (
    leading_words("PHP_CodeSniffer", r"(?:phpcs:ignoreFile|@codingStandardsIgnoreFile)\b", Reach.FILE),
    leading_words("PHP_CodeSniffer", r"phpcs:disable\b", Reach.BLOCK, r"phpcs:enable\b"),
    leading_words("PHP_CodeSniffer", r"@codingStandardsIgnoreStart\b", Reach.BLOCK, r"@codingStandardsIgnoreEnd\b"),
    leading_words("PHP_CodeSniffer", r"(?:phpcs:ignore|@codingStandardsIgnoreLine|@phpcsSuppress)\b"),
    leading_words("PHPStan", r"@phpstan-ignore(?:-line|-next-line)?\b"),
    leading_words("Psalm", r"@psalm-suppress\b"),
    leading_words("Phan", r"@phan-file-suppress\b", Reach.FILE),
    leading_words("Phan", r"@phan-suppress\b"),
    leading_words("Mago", r"@mago-(?:ignore|expect)\b"),
    leading_words("PHPMD", r"@SuppressWarnings\b"),
    leading_words("PhpStorm", r"@noinspection\b"),
    leading_words("PHPUnit coverage", r"@codeCoverageIgnoreStart\b", Reach.BLOCK, r"@codeCoverageIgnoreEnd\b"),
    leading_words("PHPUnit coverage", r"@codeCoverageIgnore\b"),
    leading_words("Infection", r"@infection-ignore-all\b"),
    code_words("PHPUnit coverage", r"#\[\s{0,9}\\?(?:[\w\\]{0,80}\\)?CodeCoverageIgnore\b"),
)
_RUBY: Final = (
    leading_words(
        "RuboCop, Standard", r"(?:rubocop|standard): ?(?:disable|todo)\b", Reach.ALONE, r"(?:rubocop|standard): ?enable\b"
    ),
    any_words("RuboCop, Standard", r"# ?(?:rubocop|standard): ?(?:disable|todo)\b"),
    leading_words("SimpleCov", r":nocov:"),
    leading_words("Reek", r":reek:"),
    leading_words("Sorbet", r"typed: ?(?:ignore|false)\b", Reach.FILE),
    leading_words("Steep", r"steep:ignore:start\b", Reach.BLOCK, r"steep:ignore:end\b"),
    leading_words("Steep", r"steep:ignore\b"),
    leading_words("Ameba", r"ameba:disable\b"),
    leading_words("mutant", r"mutant:disable\b"),
    leading_words("erb-lint, haml-lint", r"(?:erb_?lint|haml-lint|slim-lint):disable\b"),
)
_SHELL: Final = (leading_words("ShellCheck", r"shellcheck disable=", Reach.FIRST), leading_words("bashate", r"noqa\b"))
_CONFIGURED: Final = (
    *_SHELL[:1],
    leading_words("yamllint", r"yamllint disable-file\b", Reach.FILE),
    leading_words("yamllint", r"yamllint disable-line\b"),
    leading_words("yamllint", r"yamllint disable\b", Reach.BLOCK, r"yamllint enable\b"),
    leading_words("ansible-lint, sqlfluff", r"noqa\b"),
    leading_words("hadolint", r"hadolint global ignore=", Reach.FILE),
    leading_words("hadolint", r"hadolint ignore="),
    leading_words("Docker build checks", r"check=skip=", Reach.FILE),
    leading_words("tflint", r"tflint-ignore-file:", Reach.FILE),
    leading_words("tflint", r"tflint-ignore:"),
    leading_words("Terrascan", r"ts:skip="),
    leading_words("buildifier", r"(?:buildifier|buildozer): ?disable="),
    leading_words("cmake-lint", r"cmake-lint: ?disable="),
    leading_words(
        "cmake-format, gersemi", r"(?:cmake-format|gersemi): ?off\b", Reach.BLOCK, r"(?:cmake-format|gersemi): ?on\b"
    ),
    leading_words("deadnix, statix", r"(?:deadnix|statix): ?(?:skip|ignore)\b"),
    leading_words("GraphQL-ESLint", r"eslint-disable(?:-(?:next-)?line)?\b"),
    leading_words("buf", r"buf:lint:ignore\b"),
    leading_words("protolint", r"protolint:disable\b", Reach.ALONE, r"protolint:enable\b"),
    leading_words("API linter", r"\(-- api-linter:"),
    leading_words("Regal", r"regal ignore:"),
    leading_words(
        "Robocop", r"(?:robocop|robotidy): ?(?:off|disable)\b", Reach.ALONE, r"(?:robocop|robotidy): ?(?:on|enable)\b"
    ),
)
_PERL: Final = (
    leading_words("Perl::Critic", r"no critic\b", Reach.ALONE, r"use critic\b"),
    leading_words("Devel::Cover", r"uncoverable\b"),
    code_words("perl", r"(?m:^)[ \t]*no[ \t]+(?:warnings|strict)\b"),
    any_words("Perl::Tidy", r"#<<<", Reach.BLOCK, r"#>>>"),
)
_R: Final = (
    leading_words("lintr", r"nolint start\b", Reach.BLOCK, r"nolint end\b"),
    leading_words("lintr", r"nolint\b"),
    leading_words("covr", r"nocov start\b", Reach.BLOCK, r"nocov end\b"),
    leading_words("covr", r"nocov\b"),
    leading_words("styler", r"styler: ?off\b", Reach.BLOCK, r"styler: ?on\b"),
)
_LUA: Final = (
    leading_words("luacheck", r"luacheck: ?(?:ignore|push|no|globals)\b", Reach.FIRST),
    leading_words("lua-language-server", r"-?@diagnostic disable(?:-next)?-line\b"),
    leading_words("lua-language-server", r"-?@diagnostic disable\b", Reach.BLOCK, r"-?@diagnostic enable\b"),
    leading_words("selene", r"#?selene: ?(?:allow|deny)\b"),
    leading_words("StyLua", r"stylua: ?ignore\b"),
)
_HASKELL: Final = (
    leading_words("HLint", r"(?:HLINT|#? ?HLINT ignore|HLint: ignore)\b"),
    leading_words("HLint", r"# ANN [^\n]{0,80}\"HLint: ignore"),
    leading_words("GHC", r"# OPTIONS_GHC[^\n]{0,200}-(?:Wno|fno-warn|w\b|Wwarn)", Reach.FILE),
    leading_words(
        "Ormolu, Fourmolu", r"(?:ormolu|fourmolu)_disable\b|\$?ORMOLU_DISABLE\b", Reach.BLOCK, r"(?:ormolu|fourmolu)_enable\b"
    ),
    leading_words("Stan", r"stan: ?ignore\b"),
)
_ELIXIR: Final = (
    leading_words("Credo", r"credo:disable-for-this-file\b", Reach.FILE),
    leading_words("Credo", r"credo:disable-for-(?:next-line|previous-line|lines)\b"),
    leading_words("ExCoveralls", r"coveralls-ignore-start\b", Reach.BLOCK, r"coveralls-ignore-stop\b"),
    leading_words("ExCoveralls", r"coveralls-ignore\b"),
    leading_words("Sobelow", r"sobelow_skip\b"),
    code_words("Dialyzer", r"@dialyzer\b"),
    code_words("Elixir compiler", r"@compile[^\n]{0,80}:?nowarn_"),
)
_ERLANG: Final = (
    code_words("Dialyzer", r"(?m:^)-dialyzer\b"),
    code_words("Erlang compiler", r"(?m:^)-compile\([^\n]{0,80}nowarn", Reach.FILE),
    code_words("Elvis, Hank, xref", r"(?m:^)-(?:elvis|hank|ignore_xref)\b"),
)
_DART: Final = (
    leading_words("Dart analyzer", r"ignore_for_file:", Reach.FILE),
    leading_words("Dart analyzer", r"ignore:"),
    leading_words("Dart formatter", r"dart format off\b", Reach.BLOCK, r"dart format on\b"),
    leading_words("Dart coverage", r"coverage:ignore-file\b", Reach.FILE),
    leading_words("Dart coverage", r"coverage:ignore-(?:line|start)\b"),
)
_SQL: Final = (
    leading_words("SQLFluff", r"noqa: ?disable=", Reach.BLOCK, r"noqa: ?enable="),
    leading_words("SQLFluff", r"noqa\b"),
    leading_words("Squawk", r"squawk-ignore-file\b", Reach.FILE),
    leading_words("Squawk", r"squawk-ignore\b"),
    leading_words("TSQLLint", r"tsqllint-disable\b", Reach.BLOCK, r"tsqllint-enable\b"),
)
_LISP: Final = (code_words("clj-kondo, cljfmt", r"#_\s{0,9}\{?:?(?:clj-kondo|cljfmt)/ignore\b|\^:clj-kondo/ignore\b"),)
_OCAML: Final = (
    code_words("OCaml compiler", r"\[@@@(?:ocaml\.)?(?:warning|alert)\b", Reach.FILE),
    code_words("OCaml compiler", r"\[@@?(?:ocaml\.)?(?:warning|alert)\b"),
    code_words("bisect_ppx", r"\[@@@?coverage off\]|\[@@?coverage off\]"),
)
_POWERSHELL: Final = (
    code_words("PSScriptAnalyzer", r"\[(?i:(?:System\.)?Diagnostics\.CodeAnalysis\.SuppressMessage)(?:Attribute)?\b"),
)
_SOLIDITY: Final = (
    leading_words("Solhint", r"solhint-disable-(?:next-|previous-)?line\b"),
    leading_words("Solhint", r"solhint-disable\b", Reach.BLOCK, r"solhint-enable\b"),
    leading_words("Slither", r"slither-disable-next-line\b"),
    leading_words("Slither", r"slither-disable-start\b", Reach.BLOCK, r"slither-disable-end\b"),
    leading_words("forge lint", r"forge-lint: ?disable"),
)
_HARDWARE: Final = (
    leading_words("Verilator", r"verilator lint_off\b", Reach.BLOCK, r"verilator lint_on\b"),
    leading_words("Verible", r"verilog_lint: ?waive\b"),
    leading_words("VSG", r"vsg_off\b", Reach.BLOCK, r"vsg_on\b"),
)
_OTHERS: Final = (
    leading_words("zig fmt", r"zig fmt: ?off\b", Reach.BLOCK, r"zig fmt: ?on\b"),
    leading_words("zlint", r"(?:zlint|zlinter)-disable"),
    leading_words("JuliaFormatter", r"!? ?format: ?off\b", Reach.BLOCK, r"!? ?format: ?on\b"),
    leading_words("JET", r"noqa\b"),
    leading_words("fortitude", r"allow\("),
)

_KINDS: Final[dict[str, tuple[syntax.Syntax, tuple[Row, ...]]]] = {
    "py pyi pyx pxd pyw": (syntax.PYTHON, _PYTHON),
    "ipynb": (syntax.PLAIN_HASHED, _PYTHON),
    "js mjs cjs jsx ts mts cts tsx": (syntax.SCRIPT, _SCRIPT),
    "css scss sass less pcss": (syntax.STYLES, _STYLES),
    "html htm vue svelte astro hbs mustache jinja jinja2 j2 njk erb ejs twig xhtml xml svg haml slim": (syntax.MIXED, _MARKUP),
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
