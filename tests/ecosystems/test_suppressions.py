"""Comments and attributes that silence a tool, in the form in which each language writes them, and look-alikes."""

from __future__ import annotations

import pytest

from gatewright.ecosystems.suppressions.finding import MOST_OF_ONE_FILE, SuppressionDiff, files_without, suppressions_in

#: Path, one line of text, and the first of the tools that it silences.
LINES = [
    ("a.py", "x = eval(y)  # noqa: S307", "flake8"),
    ("a.py", "x = eval(y)  # nosec B307", "bandit"),
    ("a.py", "x: int = y  # type: ignore[assignment]", "mypy"),
    ("a.py", "x = y  # pyright: ignore", "pyright"),
    ("a.py", "    # pylint: disable=all", "pylint"),
    ("a.py", "x = 1  # fmt: skip", "black"),
    ("a.py", "if x:  # pragma: no cover", "coverage"),
    ("a.py", "x = y  # ty: ignore", "ty"),
    ("a.py", "x = key  # gitleaks:allow", "gitleaks"),
    ("a.py", "x = y  # nosemgrep: rule", "semgrep"),
    ("a.py", "x = y  # NOSONAR", "SonarQube"),
    ("a.py", "@typing.no_type_check", "type checkers"),
    ("a.ipynb", '  "x = eval(y)  # noqa: S307\\n",', "flake8"),
    ("a.ts", "// eslint-disable-next-line no-eval", "ESLint"),
    ("a.js", "eval(x) // eslint-disable-line", "ESLint"),
    ("a.ts", "// @ts-ignore", "tsc"),
    ("a.tsx", "{/* @ts-expect-error: later */}", "tsc"),
    ("a.js", "// biome-ignore lint/security/noGlobalEval: later", "Biome"),
    ("a.js", "// prettier-ignore", "prettier"),
    ("a.js", "/* istanbul ignore next */", "Istanbul"),
    ("a.js", "/* c8 ignore next 3 */", "Istanbul"),
    ("a.js", "// $FlowFixMe[incompatible-type]", "Flow"),
    ("a.js", "// deno-lint-ignore no-eval", "Deno lint"),
    ("a.js", "const a = /[\"'`]/; // eslint-disable-line", "ESLint"),
    ("a.vue", "<!-- eslint-disable-next-line vue/no-v-html -->", "ESLint"),
    ("a.svelte", "<!-- svelte-ignore a11y_autofocus -->", "Svelte"),
    ("a.css", "/* stylelint-disable-line */", "Stylelint"),
    ("a.html", "<!-- prettier-ignore -->", "prettier"),
    ("a.go", "var a = 1 //nolint:gosec", "golangci-lint"),
    ("a.go", "x := f() // #nosec G304", "gosec"),
    ("a.go", "//lint:ignore SA1019 later", "staticcheck"),
    ("a.rs", "#[allow(clippy::unwrap_used)]", "clippy"),
    ("a.rs", "#[expect(dead_code)]", "clippy"),
    ("a.rs", "#[rustfmt::skip]", "rustfmt"),
    ("A.java", '@SuppressWarnings("unchecked")', "compiler"),
    ("A.java", "@edu.umd.cs.findbugs.annotations.SuppressFBWarnings", "compiler"),
    ("A.java", "int a; // NOPMD", "PMD"),
    ("A.java", "// noinspection unused", "IntelliJ"),
    ("A.kt", '@Suppress("UNCHECKED_CAST")', "compiler"),
    ("A.scala", "@nowarn", "Scala compiler"),
    ("A.cs", '[SuppressMessage("a", "b")]', "analyzers"),
    ("A.cs", "[ExcludeFromCodeCoverage]", "coverage"),
    ("A.cs", "// ReSharper disable once UnusedMember.Global", "ReSharper"),
    ("a.c", "int a; // NOLINT(readability)", "clang-tidy"),
    ("a.cpp", "// NOLINTNEXTLINE", "clang-tidy"),
    ("a.cpp", "// cppcheck-suppress nullPointer", "cppcheck"),
    ("a.c", "int a; // LCOV_EXCL_LINE", "LCOV"),
    ("a.c", "/* coverity[leaked_storage] */", "Coverity"),
    ("a.c", '__attribute__((no_sanitize("address")))', "sanitizers"),
    ("a.swift", "// swiftlint:disable:next force_cast", "SwiftLint"),
    ("a.php", "f(); // phpcs:ignore", "PHP_CodeSniffer"),
    ("a.php", " /* @phpstan-ignore-next-line */", "PHPStan"),
    ("a.php", "/** @psalm-suppress MixedReturn */", "Psalm"),
    ("a.rb", "x = eval(y) # rubocop:disable Security/Eval", "RuboCop"),
    ("a.rb", "# :nocov:", "SimpleCov"),
    ("a.sh", "echo $x # shellcheck disable=SC2086", "ShellCheck"),
    ("Dockerfile", "# hadolint ignore=DL3008", "hadolint"),
    ("main.tf", "#tfsec:ignore:aws-s3-enable-versioning", "tfsec"),
    ("main.tf", "# tflint-ignore: terraform_unused_declarations", "tflint"),
    ("main.tf", "// checkov:skip=CKV_AWS_20: later", "checkov"),
    ("main.tf", "#trivy:ignore:AVD-AWS-0086", "trivy"),
    ("a.yml", "a: b # yamllint disable-line", "yamllint"),
    ("a.yml", "a: b # noqa: name[missing]", "ansible-lint"),
    (".github/workflows/a.yml", "a: b # zizmor: ignore[unpinned]", "zizmor"),
    ("a.pl", "eval $x; ## no critic", "Perl::Critic"),
    ("a.pl", "no warnings;", "perl"),
    ("a.R", "x <- 1 # nolint", "lintr"),
    ("a.R", "x <- 1 # nocov", "covr"),
    ("a.lua", "local x = 1 -- luacheck: ignore", "luacheck"),
    ("A.hs", "{- HLINT ignore -}", "HLint"),
    ("a.ex", "# credo:disable-for-next-line", "Credo"),
    ("a.ex", "@dialyzer {:nowarn_function, f: 1}", "Dialyzer"),
    ("a.dart", "// ignore: avoid_print", "Dart analyzer"),
    ("a.sql", "SELECT a -- noqa: L010", "SQLFluff"),
    ("a.md", "<!-- markdownlint-disable-line -->", "markdownlint"),
    ("a.sol", "// solhint-disable-next-line", "Solhint"),
    ("a.ps1", "[Diagnostics.CodeAnalysis.SuppressMessageAttribute('a', '')]", "PSScriptAnalyzer"),
    ("BUILD", "# buildifier: disable=unused", "buildifier"),
    ("a.proto", "// buf:lint:ignore PACKAGE_DEFINED", "buf"),
]
#: Path, text, and a tool that is off for the whole file.
WHOLE_FILES = [
    ("a.py", "# ruff: noqa\n", "ruff"),
    ("a.py", "import os\n# ruff: noqa: F401\n", "ruff"),
    ("a.py", "# flake8: noqa\n", "ruff"),
    ("a.py", "# mypy: ignore-errors\n", "mypy"),
    ("a.py", '# mypy: disable-error-code="name-defined"\n', "mypy"),
    ("a.py", "#!/usr/bin/python\n# type: ignore\nimport os\n", "mypy"),
    ("a.py", "# pyright: basic\n", "pyright"),
    ("a.py", "import os\n# pylint: skip-file\n", "pylint"),
    ("a.py", "# pylint: disable=all\n", "pylint"),
    ("a.py", "# fmt: off\nx=1\n", "black"),
    ("a.js", "/* eslint-disable */\n", "ESLint"),
    ("a.js", "/* eslint-disable no-eval */\n/* eslint-enable */\n/* eslint-disable */\n", "ESLint"),
    ("a.js", '/* eslint no-eval: "off" */\n', "ESLint"),
    ("a.ts", "// @ts-nocheck\n", "tsc"),
    ("a.js", "/* c8 ignore file */\n", "c8"),
    ("a.go", "//go:build ignore\n\npackage a\n", "go"),
    ("a.go", "// +build ignore\n\npackage a\n", "go"),
    ("a.go", "//nolint:all\npackage a\n", "golangci-lint"),
    ("a.rs", "#![allow(warnings)]\n", "clippy"),
    ("a.rs", '#![cfg_attr(feature = "x", allow(clippy::all))]\n', "clippy"),
    ("a.rb", "# rubocop:disable all\nx\n", "RuboCop"),
    ("a.rb", "# typed: ignore\n", "Sorbet"),
    ("a.kt", '@file:Suppress("unused")\n', "detekt"),
    ("A.java", "// CHECKSTYLE:OFF\n", "Checkstyle"),
    ("A.cs", "#pragma warning disable\n", "analyzers"),
    ("a.c", '#pragma GCC diagnostic ignored "-Wall"\n', "compiler"),
    ("a.cpp", "// NOLINTBEGIN\n", "clang-tidy"),
    ("a.swift", "// swiftlint:disable all\n", "SwiftLint"),
    ("a.php", "<?php // phpcs:ignoreFile\n", "PHP_CodeSniffer"),
    ("a.sh", "#!/bin/sh\n# shellcheck disable=all\nx\n", "ShellCheck"),
    ("a.hs", "{-# OPTIONS_GHC -Wno-all #-}\n", "GHC"),
    ("a.ex", "# credo:disable-for-this-file\n", "Credo"),
    ("a.dart", "// ignore_for_file: type=lint\n", "Dart analyzer"),
    ("a.md", "<!-- markdownlint-disable -->\n", "markdownlint"),
    ("main.tf", "# tflint-ignore-file: x\n", "tflint"),
    ("Dockerfile", "# check=skip=all\n", "Docker build checks"),
]
LOOK_ALIKES = [
    ("a.py", "x = '# noqa'"),
    ("a.py", '"""\n# noqa\n# ruff: noqa\n"""'),
    ("a.py", "# we do not use noqa, nosec or type: ignore here"),
    ("a.py", "# the formatter is told fmt: off elsewhere"),
    ("a.py", "noqa = nosec = 1"),
    ("a.md", "Write `# noqa` or `// eslint-disable` at the end of the line."),
    ("a.js", "const s = '// eslint-disable'"),
    ("a.js", "const s = `\n// @ts-ignore\n`"),
    ("a.js", "// Do not add eslint-disable here"),
    ("a.go", "var s = `//nolint`"),
    ("a.go", "//go:build linux && amd64"),
    ("a.rs", 'let s = "#![allow(x)]"; // #[allow(x)] is not used'),
    ("a.rs", "#[derive(Debug)]\n#[cfg(test)]"),
    ("A.java", 'String s = "@SuppressWarnings";\n/** Use @SuppressWarnings. */'),
    ("a.kt", "/** @suppress of Dokka */"),
    ("a.c", 'char *s = "NOLINT";'),
    ("A.cs", "#pragma warning restore"),
    ("a.rb", 'x = "# rubocop:disable all"'),
    ("a.sh", 'echo "# shellcheck disable=SC1"'),
    ("a.txt", "# noqa"),
    ("LICENSE", "# noqa"),
]


@pytest.mark.parametrize(("path", "line", "tool"), LINES)
def test_suppression_of_a_line(path: str, line: str, tool: str) -> None:
    found = suppressions_in(path.encode(), f"first_line\n{line}\nlast_line\n".encode())
    assert [(each.line, each.tools.split(", ")[0], each.whole_file) for each in found] == [(2, tool, False)]


@pytest.mark.parametrize(("path", "text", "tool"), WHOLE_FILES)
def test_suppression_of_a_whole_file(path: str, text: str, tool: str) -> None:
    assert files_without(tool, [(path.encode(), text.encode())]) == (path,)


@pytest.mark.parametrize(("path", "text"), LOOK_ALIKES)
def test_look_alike_is_no_suppression(path: str, text: str) -> None:
    assert suppressions_in(path.encode(), f"first\n{text}\n".encode()) == ()


def added(*files: tuple[str, str | None, str | None]) -> list[tuple[str, int]]:
    diff = SuppressionDiff()
    for path, old, new in files:
        diff.compare(path.encode(), *(None if each is None else each.encode() for each in (old, new)))
    return [(path.decode(), each.line) for path, each in diff.added()]


def test_moved_suppression_is_not_new() -> None:
    old, moved = "x = eval(y)  # noqa\nz = 1\n", "z = 1\n\n    x = eval(y)  # noqa\n"
    assert added(("a.py", old, moved)) == []
    assert added(("a.py", old, "z = 1\n"), ("b.py", None, moved)) == []
    assert added(("b.py", None, moved), ("a.py", old, "z = 1\n")) == []


def test_second_copy_of_a_suppression_is_new() -> None:
    line = "x = eval(y)  # noqa\n"
    assert added(("a.py", line, line * 2)) == [("a.py", 2)]
    assert added(("a.py", line, line), ("b.py", None, line)) == [("b.py", 1)]


def test_comment_alone_that_moves_to_another_line_is_new() -> None:
    comment = "// eslint-disable-next-line no-eval\n"
    assert added(("a.js", f"{comment}eval(a)\nb()\n", f"eval(a)\n{comment}b()\n")) == [("a.js", 2)]


def test_suppression_of_another_whole_file_is_new() -> None:
    off = "# ruff: noqa\n"
    assert added(("a.py", off, "x = 1\n"), ("b.py", "y = 1\n", off)) == [("b.py", 1)]
    assert added(("a.py", off, None), ("b.py", None, off)) == []


def test_removed_end_of_a_block_silences_the_rest() -> None:
    old = "/* eslint-disable */\na()\n/* eslint-enable */\n"
    assert added(("a.js", old, old.replace("/* eslint-enable */\n", ""))) == [("a.js", 1)]


def test_string_that_never_ends_hides_no_suppression() -> None:
    assert suppressions_in(b"a.js", b"const a = 1 `\n// @ts-nocheck\n")


def test_number_of_suppressions_of_one_file_is_bounded() -> None:
    assert len(suppressions_in(b"a.py", b"x = 1  # noqa\n" * 50_000)) == MOST_OF_ONE_FILE
