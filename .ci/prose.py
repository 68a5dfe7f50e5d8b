"""Check the English of the documentation and of web pages: banned words, long sentences, passive voice, spelling.

    python .ci/prose.py                # every page; exit 1 if a page breaks a rule
    python .ci/prose.py docs/bus.md    # some pages
    python .ci/prose.py --measure      # words, sentences and shares per page

In Markdown pages, the check skips code, quotations in double quotes, link targets and generated blocks. In templates of the
console, it reads the visible text, and in modules of the report page the messages. `CONTRIBUTING.md` lists the rules. Terms in
`ALLOWED` pass although they contain a banned word.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/*.md", "examples/**/*.md", "tests/*/README.md",
    "shared/gatewright/app/console/templates/*.html", "shared/gatewright/app/report/*.py",
)  # fmt: skip
#: Banned words, and what to write instead.
BANNED = {
    r"tells?|told|telling": "report, record, show, state",
    r"says?|said|saying": "report, state, require",
    r"counts? as|counted as": "is",
    r"c[oa]mes? to|come what": "reach, produce",
    r"goes? by|went by": "use",
    r"what (?:is|has|was) (?:wanted|asked|there)": "name the thing",
    r"houses?|rooms?|doors?|walls?|hands?|deaf|mend(?:s|ed)?|bur(?:y|ied)": "a plain technical noun",
    r"nobody|somebody|someone|whoever|whatever": "name who or what acts",
}
#: Terms of the field, and proper uses.
ALLOWED = (
    "dead letter", "dead letters", "dead-letter", "wall clock", "wall-clock", "wall time", "by hand", "on the other hand",
)  # fmt: skip
WORDS = [(re.compile(rf"(?i)\b(?:{words})\b"), instead) for words, instead in BANNED.items()]
#: Most words of a sentence. A link has the words of its text; a code span is at most one word.
LONGEST = 25
#: The same for a cell of a table, which may be a list.
LONGEST_CELL = 40
#: Most sentences in the passive voice, as a share of a Markdown page's sentences, without labels.
PASSIVE_SHARE = 0.30
PASSIVE = re.compile(
    r"(?i)\b(?:is|are|was|were|be|been|being)\s+(?:(?:not|never|always|also|only|then|still|already|\w+ly)\s+)*"
    r"(?:\w+ed|made|given|taken|kept|sent|shown|written|read|run|built|found|held|lost|left|put|set|known|seen|done|begun)\b"
)
SENTENCE = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z`\"(])|\n\n")
GENERATED = re.compile(r"<!-- generated: .*?<!-- end generated -->", re.DOTALL)
#: Spellings that the dictionary does not know.
SPELLED = "inout,als,fo,statics,thead,worl"


@dataclass(frozen=True)
class Fault:
    page: str
    line: int
    text: str


@dataclass(frozen=True)
class Sentence:
    line: int
    text: str
    most: int

    @property
    def words(self) -> int:
        return len(re.findall(r"[\w'`./*{}<>=-]*\w[\w'`./*{}<>=-]*", self.text))


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of paragraphs, list items and table cells, each with the line of its block; code spans are one word."""
    most = LONGEST
    for token in MarkdownIt().enable("table").parse(GENERATED.sub(lambda block: "\n" * block[0].count("\n"), text)):
        if token.type in {"td_open", "td_close"}:
            most = LONGEST_CELL if token.type == "td_open" else LONGEST
        elif token.type == "inline":
            line = (token.map or [0])[0] + 1
            plain = "".join(_plain(child) for child in token.children or ())
            plain = re.sub(r'"[^"]*"|“[^”]*”', "QUOTED", plain)
            yield from (Sentence(line, part.strip(), most) for part in SENTENCE.split(plain) if part.strip())


def template_sentences(template: str) -> Iterator[Sentence]:
    """The sentences that a reader of a Jinja template sees, in any branch: text, labels, and strings of expressions."""
    for line, text in VisibleText(template).blocks:
        yield from (Sentence(line, part.strip(), LONGEST) for part in SENTENCE.split(text) if re.search("[A-Za-z]", part))


class VisibleText(HTMLParser):
    """Collects the visible text of a template as ``blocks``: the line and the text of each element that is not inline."""

    INLINE = frozenset({"a", "b", "code", "time", "span", "kbd", "meter"})
    UNREAD = frozenset({"script", "style", "pre"})
    LABELS = frozenset({"aria-label", "placeholder", "alt"})
    _JINJA = re.compile(r"{#.*?#}|{%.*?%}|{{.*?}}", re.DOTALL)
    _STRING = re.compile(r'"([^"{}]*[A-Za-z]{2} [^"{}]*)"')

    def __init__(self, template: str) -> None:
        super().__init__()
        self.blocks: list[tuple[int, str]] = []
        self._text, self._line, self._open = "", 1, ""
        self.feed(self._JINJA.sub(self._value, template))
        self.close()
        self._end_block()
        for match in self._JINJA.finditer(template):
            line = template.count("\n", 0, match.start()) + 1
            self.blocks += [(line, string) for string in self._STRING.findall(match[0]) if not match[0].startswith("{#")]

    @staticmethod
    def _value(match: re.Match[str]) -> str:
        return "\n" * match[0].count("\n") + ("VALUE" if match[0].startswith("{{") else "")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.blocks += [(self.getpos()[0], value) for name, value in attrs if name in self.LABELS and value]
        if tag in self.UNREAD or tag == "code":
            self._open = tag
        if tag not in self.INLINE:
            self._end_block()
        elif tag == "code":
            self._text += "CODE"

    def handle_endtag(self, tag: str) -> None:
        if tag == self._open:
            self._open = ""
        if tag not in self.INLINE:
            self._end_block()

    def handle_data(self, data: str) -> None:
        if self._open:
            return
        if not self._text.strip():
            self._line = self.getpos()[0]
        self._text += data

    def _end_block(self) -> None:
        if self._text.strip():
            self.blocks.append((self._line, " ".join(self._text.split())))
        self._text = ""


def message_sentences(module: str) -> Iterator[Sentence]:
    """The sentences of a module's messages: its strings of several words, without docstrings."""
    tree = ast.parse(module)
    unread = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in unread | inside:
            continue
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "VALUE" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if re.search("[A-Za-z]{2} [A-Za-z]", text):
            yield from (Sentence(node.lineno, part.strip(), LONGEST) for part in SENTENCE.split(text) if part.strip())


def sentences_of(page: str, text: str) -> Iterator[Sentence]:
    """The sentences of a page, a template or a module, as the ending of its name shows."""
    match Path(page).suffix:
        case ".html":
            return template_sentences(text)
        case ".py":
            return message_sentences(text)
        case _:
            return sentences(text)


def _plain(token: Token) -> str:
    match token.type:
        case "code_inline":
            return "CODE"
        case "softbreak" | "hardbreak":
            return " "
        case _:
            return token.content if token.type == "text" else ""


def banned_words(text: str) -> Iterator[tuple[str, str]]:
    """Each banned word in ``text``, with what to write instead."""
    for allowed in ALLOWED:
        text = re.sub(rf"(?i)\b{re.escape(allowed)}\b", "", text)
    for pattern, instead in WORDS:
        for match in pattern.finditer(text):
            yield match[0], instead


def faults(page: str, text: str) -> Iterator[Fault]:
    found = list(sentences_of(page, text))
    for each in found:
        for word, instead in banned_words(each.text):
            yield Fault(page, each.line, f"{word!r}: write {instead}")
        if each.words > each.most:
            yield Fault(page, each.line, f"{each.words} words in one sentence (at most {each.most}): {each.text[:70]}...")
    passive = sum(bool(PASSIVE.search(each.text)) for each in found)
    if found and passive / len(found) > PASSIVE_SHARE and Path(page).suffix == ".md":
        share = f"{passive} of {len(found)} sentences are in the passive voice (at most {PASSIVE_SHARE:.0%})"
        yield Fault(page, 1, f"{share}: name who acts")


def misspelt(pages: list[Path]) -> Iterator[Fault]:
    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib", "--ignore-words-list", SPELLED, *map(str, pages)],
        capture_output=True,
        text=True,
        check=False,
    )
    for line in done.stdout.splitlines():
        path, number, words = line.split(":", 2)
        yield Fault(_name(Path(path)), int(number), words.strip())


def _name(page: Path) -> str:
    return page.resolve().relative_to(ROOT).as_posix() if page.resolve().is_relative_to(ROOT) else str(page)


def main() -> int:
    parser = argparse.ArgumentParser(description="Check the English of the documentation.")
    parser.add_argument("pages", nargs="*", type=Path, help="pages to check; all by default")
    parser.add_argument("--measure", action="store_true", help="print measures of each page and check nothing")
    given = parser.parse_args()
    pages = given.pages or [page for pattern in PAGES for page in sorted(ROOT.glob(pattern))]
    texts = {page: page.read_text("utf-8") for page in pages}
    if given.measure:
        for page, text in texts.items():
            found = list(sentences_of(_name(page), text))
            passive = sum(bool(PASSIVE.search(each.text)) for each in found)
            long = sum(each.words > LONGEST for each in found)
            print(f"{_name(page):42} {len(text.split()):6} words {len(found):5} sentences {long:4} long {passive:4} passive")
        return 0
    broken = [fault for page, text in texts.items() for fault in faults(_name(page), text)] + list(misspelt(pages))
    for fault in broken:
        print(f"{fault.page}:{fault.line}: {fault.text}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
