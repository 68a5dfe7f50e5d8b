"""The parts of a manifest that decide what linters, type checkers and formatters report. Pure; the input is hostile.

The policy lists files that are settings as a whole. This module handles files with such a part: parts are compared by
meaning, and an unreadable part is treated as changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gatewright.ecosystems.runner.settings import (
    Parts,
    Reader,
    changed_parts,
    lines_of,
    read_json,
    read_jsonc,
    read_toml,
    sections_of,
)
from gatewright.foreign_documents import table_of
from gatewright.patterns import BytesPattern

_PYTHON: Final = frozenset(
    {
        *(
            *("ruff", "mypy", "pyright", "basedpyright", "pylint", "flake8", "flake8-pyproject", "black", "isort"),
            *("bandit", "pydocstyle"),
        ),
        *(
            *("pycodestyle", "interrogate", "importlinter", "vulture", "codespell", "djlint", "yapf", "docformatter"),
            *("pyre", "pytype"),
        ),
        *(
            *("ty", "refurb", "deptry", "pylyzer", "autoflake", "autopep8", "cibuildwheel-lint", "sqlfluff", "semgrep"),
            *("typos", "zuban"),
        ),
        *("check-manifest", "pyroma", "xenon", "radon", "wemake", "tryceratops", "doc8", "numpydoc_validation", "mdformat"),
    }
)
_NODE: Final = (
    *(
        *("eslintConfig", "eslintIgnore", "prettier", "stylelint", "xo", "standard", "semistandard", "lint-staged"),
        *("husky", "commitlint"),
    ),
    *("simple-git-hooks", "pre-commit", "pre-push", "gitHooks", "tslint", "jshintConfig", "size-limit", "bundlesize", "knip"),
    *("remarkConfig", "oxlint", "biome", "htmlhint", "license-checker", "betterScripts", "ts-standard"),
)
_SECTIONS: Final = (
    *("flake8", "mypy", "pylint", "isort", "pycodestyle", "pydocstyle", "pep8", "yapf", "bandit", "codespell", "importlinter"),
    *(
        *("tool:interrogate", "tool:importlinter", "tool:isort", "pyre", "pytype", "doc8", "darglint", "check-manifest"),
        *("zest", "ruff"),
    ),
)
#: Options of TypeScript that decide what it reports.
_STRICT: Final = (
    *("strict", "noImplicit", "noUn", "noFallthrough", "noProperty", "noStrict", "noCheck", "allowUn", "skip", "exactOptional"),
    *("useUnknown", "checkJs", "suppress", "ignoreDeprecations"),
)


def changed_linter_settings(path: bytes, old: bytes | None, new: bytes | None) -> tuple[str, ...]:
    """The parts of the manifest at ``path`` that decide what linters report and differ; None is a file that is not there.

    Empty for a file that has no such part.
    """
    read = _reader(path)
    return changed_parts(read, old, new) if read is not None else ()


def may_set_linters(path: bytes) -> bool:
    """Return whether parts of ``path`` could decide what linters report."""
    return _reader(path) is not None


def _pyproject(content: bytes) -> Parts:
    tools = table_of(read_toml(content), "tool")
    return {f"tool.{name}": value for name, value in tools.items() if name in _PYTHON}


def _package_json(content: bytes) -> Parts:
    document = read_json(content)
    return {name: document[name] for name in _NODE if name in document}


def _cargo_toml(content: bytes) -> Parts:
    document = read_toml(content)
    found = {"lints": document.get("lints"), "workspace.lints": table_of(document, "workspace").get("lints")}
    return {name: value for name, value in found.items() if value is not None}


def _deno(content: bytes) -> Parts:
    document = read_jsonc(content)
    return {name: document[name] for name in ("lint", "fmt", "compilerOptions") if name in document}


def _tsconfig(content: bytes) -> Parts:
    document = read_jsonc(content)
    options = table_of(document, "compilerOptions")
    found: dict[str, Any] = {f"compilerOptions.{name}": value for name, value in options.items() if name.startswith(_STRICT)}
    return found | ({"exclude": document["exclude"]} if "exclude" in document else {})


_READERS: Final[Mapping[str, Reader]] = {
    "pyproject.toml": _pyproject,
    "setup.cfg": sections_of(lambda name: name.casefold().startswith(_SECTIONS)),
    "package.json": _package_json,
    "cargo.toml": _cargo_toml,
    "deno.json": _deno,
    "deno.jsonc": _deno,
    "composer.json": lambda content: {
        f"extra.{name}": value
        for name, value in table_of(read_json(content), "extra").items()
        if name in {"grumphp", "hooks", "phpstan", "captainhook", "phpcodesniffer-search-depth"}
    },
    "pom.xml": lines_of(
        BytesPattern(rb"(?i)checkstyle|spotbugs|findbugs|\bpmd\b|error-?prone|enforcer|failOn|failsOn|-Xlint|-Werror|spotless")
    ),
    **dict.fromkeys(
        ("build.gradle", "build.gradle.kts"),
        lines_of(
            BytesPattern(
                rb"(?i)checkstyle|spotbugs|\bpmd\b|error-?prone|detekt|ktlint|warningsAsErrors|-Xlint|-Werror|spotless|\blint\b"
            )
        ),
    ),
    "mix.exs": lines_of(BytesPattern(rb"dialyzer|warnings_as_errors|credo")),
    "cmakelists.txt": lines_of(
        BytesPattern(rb"-Werror|-Wno-|CLANG_TIDY|CPPCHECK|COMPILE_WARNING_AS_ERROR|INCLUDE_WHAT_YOU_USE|SANITIZE")
    ),
    "meson.build": lines_of(BytesPattern(rb"werror|warning_level|b_sanitize|-Wno-")),
    ".editorconfig": lines_of(BytesPattern(rb"(?i)severity|diagnostic|ktlint|spelling")),
}
_PROJECT: Final = lines_of(
    BytesPattern(
        rb"NoWarn|TreatWarningsAsErrors|WarningsAsErrors|WarningsNotAsErrors|WarningLevel|Analy[sz]|<Nullable|CodeAnalysis|EnforceCodeStyle|RuleSet"
    )
)


def _reader(path: bytes) -> Reader | None:
    name = path.rpartition(b"/")[2].decode("utf-8", "replace").casefold()
    if name.startswith("tsconfig") and name.endswith(".json"):
        return _tsconfig
    if name.endswith((".csproj", ".fsproj", ".vbproj")) or name in {"directory.build.props", "directory.build.targets"}:
        return _PROJECT
    return _READERS.get(name)
