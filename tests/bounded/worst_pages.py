"""The worst texts for what shows them to people: a terminal, the report page, the colours of a diff."""

from __future__ import annotations

from gatewright.app.report import markdown
from gatewright.app.report.patch import parse_patch
from gatewright.app.report.syntax import Colours
from gatewright.view.safe_text import terminal_text
from tests.bounded.cases import MiB, case


@case("texts for people")
def _() -> object:
    hostile = b"\x1b[" * 200_000 + b"\x1b]" * 200_000 + b"\x1b" * 200_000 + b"`" * 200_000 + b"www." * 100_000
    text = terminal_text(hostile)
    return markdown.words(text), markdown.code(text), markdown.block(text)


@case("a patch for the page")
def _() -> object:
    data = b"diff --git a/x b/x\n@@ -1 +1 @@\n" + b"@@ -1 +1 @@\n" * 40_000 + b'diff --git "a/' + b"\\1" * MiB
    return parse_patch(data)


for _language in ("python", "javascript", "markdown", "yaml", "html", "css", "bash", "cpp", "sql", "php", "ruby", "rst"):

    @case(f"colours of {_language}")
    def _(language: str = _language) -> object:
        pieces = ["(" * 499, "\t" * 499, "a.b" * 160, "<" * 499, "\\" * 499, '"' * 499, "${" * 240, "/*" * 240, "- " * 240]
        return Colours(seconds=0.2).lines(pieces * 500, language)
