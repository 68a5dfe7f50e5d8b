"""The files of a model's reply (the output rules of CHORUS, rule O): each complete, each with exactly one name.

Four forms are parsed: a fenced block whose first line is a comment with the file's name; a fenced block after text that names
the file in backticks; a ``--- filename: path ---`` header; a shell heredoc. A block without a name is a snippet and is left
out. Ambiguous text is refused: a guess would overwrite a file of the repository's owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from gatewright import scope
from gatewright.errors import ExtractionError, ScopeError
from gatewright.patterns import TextPattern
from gatewright.services.worker.reply.blocks import Element, Fence, Section, UnclosedError, is_closed_at, scan
from gatewright.services.worker.reply.heredoc import Heredoc, heredocs_in
from gatewright.services.worker.reply.labels import name_in
from gatewright.services.worker.reply.names import DIFF_LANGUAGES, OUTPUT_LANGUAGES, SHELL_LANGUAGES, comment_name, name_before

#: Bytes of a reply, and files in it.
MAX_REPLY_BYTES = 4 * 1024 * 1024
MAX_FILES = 1000


@dataclass(frozen=True, slots=True)
class Extraction:
    """``files`` are (path, content) pairs sorted by path; ``snippets`` counts the blocks without a name, which are left out."""

    files: tuple[tuple[str, bytes], ...]
    snippets: int


def extract(reply: bytes) -> Extraction:
    """The files in a reply, UTF-8 text of at most MAX_REPLY_BYTES. CR LF line ends are read as LF.

    Raises ExtractionError (code ``reply_not_usable``), naming the line of the reply where there is one.
    """
    lines = answer_in(_text_of(reply).split("\n"))
    inner = _unwrap_fence(lines)
    try:
        found = _collect(scan(lines))
    except UnclosedError:
        if inner is None:
            raise
        found = _collect(scan(inner))
    if not found.files and inner is not None:
        found = _collect(scan(inner))
    if not found.files and found.edits:
        raise ExtractionError(f"line {found.edits[0][0]}: an edit is not the whole file; give every changed file whole")
    if not found.files:
        raise ExtractionError("the reply holds no file: no block has a name in one of the four forms")
    for line, path in found.edits:
        if path.removeprefix("./") not in found.files:
            raise ExtractionError(f"line {line}: an edit of {path or 'a file'!r} is not the whole file")
    files = tuple((path, content.encode()) for path, (_, content) in sorted(found.files.items()))
    _refuse_files_in_files([path for path, _ in files])
    return Extraction(files, found.snippets)


@dataclass
class _Found:
    """Files so far: path -> (line of the reply, content)."""

    files: dict[str, tuple[int, str]] = field(default_factory=dict)
    snippets: int = 0
    #: Files that blocks without a name edit, by the line of the block.
    edits: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, path: str, content: Sequence[str]) -> None:
        name = _check_path(line, path)
        for offset, text in enumerate(content):
            if leaves_out(text):
                raise ExtractionError(f"{name!r}: {text.strip()!r} (line {offset + 1} of it) leaves out a part of the file")
        if is_edit(name, content):
            raise ExtractionError(f"line {line}: an edit of {name!r} is not the whole file")
        whole = "".join(f"{text}\n" for text in content)
        earlier = self.files.setdefault(name, (line, whole))
        if earlier[1] != whole:
            raise ExtractionError(f"{name!r} is given twice, on lines {earlier[0]} and {line}, with different content")
        if len(self.files) > MAX_FILES:
            raise ExtractionError(f"the reply holds more than {MAX_FILES} files")


def _collect(elements: Iterable[Element]) -> _Found:
    found = _Found()
    named = False
    for element in elements:
        match element:
            case Section():
                _refuse_named_blocks(element)
                found.add(element.line, element.path, element.content)
                named = False
            case Heredoc():
                found.add(element.line, element.path, element.content)
                named = False
            case Fence():
                named = _take_fence(element, found, after_named=named)
    return found


def _take_fence(fence: Fence, found: _Found, *, after_named: bool) -> bool:
    """Whether the block had a name."""
    path, content = _name_of(fence)
    if path is not None:
        if fence.language in DIFF_LANGUAGES and path.rpartition(".")[2] not in DIFF_LANGUAGES:
            raise ExtractionError(f"line {fence.line}: a diff of {path!r} is not the whole file")
        found.add(fence.line, path, content)
        return True
    heredocs = heredocs_in(content, fence.line + 1) if fence.language in SHELL_LANGUAGES or not fence.language else ()
    for heredoc in heredocs:
        found.add(heredoc.line, heredoc.path, heredoc.content)
    if heredocs:
        return False
    if after_named and fence.adjoining and fence.language not in SHELL_LANGUAGES | OUTPUT_LANGUAGES:
        raise ExtractionError(f"line {fence.line}: a block without a name follows a file directly; is it a part of it?")
    found.snippets += 1
    found.edits += [(fence.line, path) for path in edited_paths(content)]
    return False


def _name_of(fence: Fence) -> tuple[str | None, tuple[str, ...]]:
    """The one name of a block, and its content without a line that is only there to name it."""
    before = fence.header if fence.header is not None else name_before(fence.words, fence.language)
    inside = name_in(fence.info)
    if inside is not None and before is not None and inside.removeprefix("./") != before.removeprefix("./"):
        raise ExtractionError(f"line {fence.line}: the block has two names, {before!r} and {inside!r}")
    before = before if before is not None else inside
    comment = comment_name(fence.content[0], fence.language) if fence.content else None
    if comment is None or (before is not None and not comment.explicit):
        return before, fence.content
    if before is not None and before.removeprefix("./") != comment.path.removeprefix("./"):
        raise ExtractionError(f"line {fence.line}: the block has two names, {before!r} and {comment.path!r}")
    return comment.path, fence.content[1:]


def _refuse_named_blocks(section: Section) -> None:
    """A header's plain text may not hold blocks with names: one file, or several?"""
    try:
        inner = _collect(scan(section.content, fences_only=True))
    except UnclosedError:
        return
    if inner.files:
        raise ExtractionError(f"line {section.line}: {section.path!r} holds {min(inner.files)!r}; which file is it?")


def _check_path(line: int, path: str) -> str:
    """``path`` as it is written into the tree; one leading ``./`` is taken off."""
    try:
        return scope.check_path(path.removeprefix("./"))
    except ScopeError as error:
        raise ExtractionError(f"line {line}: {error.message}") from error


def _refuse_files_in_files(paths: Sequence[str]) -> None:
    # With the separator lowest, what lies below a path comes right after it.
    ordered = sorted(path.replace("/", "\0") + "\0" for path in paths)
    for parent, path in pairwise(ordered):
        if path.startswith(parent):
            file, below = (each.rstrip("\0").replace("\0", "/") for each in (parent, path))
            raise ExtractionError(f"{file!r} is given as a file and, by {below!r}, as a directory")


def _unwrap_fence(lines: Sequence[str]) -> Sequence[str] | None:
    """What is inside a markdown fence around the whole reply; None where there is none."""
    filled = [at for at, line in enumerate(lines) if line.strip()]
    if len(filled) < 2 or lines[filled[0]].strip().strip("`~").lower() not in {"markdown", "md"}:
        return None
    return lines[filled[0] + 1 : filled[-1]] if is_closed_at(lines, filled[0], filled[-1]) else None


def _text_of(reply: bytes) -> str:
    if len(reply) > MAX_REPLY_BYTES:
        raise ExtractionError(f"the reply has {len(reply)} bytes; {MAX_REPLY_BYTES} are read")
    try:
        text = reply.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ExtractionError(f"the reply is not UTF-8: byte {error.start}") from error
    if "\0" in text:
        raise ExtractionError("the reply holds a NUL: it is not text")
    return text.replace("\r\n", "\n")


# What is only a part of a file, or an edit of one, and must never be written as the whole. Pure.
_MAX_LINE = 300
_OPEN = r"\s*(?:#+|//+|--|;+|%+|/\*+|<!--|\{/\*)?\s*[(\[]?\s*"
_CLOSE = r"\s*[)\]]?\s*[.…]*\s*(?:\*/\}?|-->)?\s*"
_KIND = (
    r"(?:code|file|class|function|method|module|component|imports?|methods?|functions?|routes?|tests?|content|implementation)"
)
_STAYS = (
    r"(?:\s+(?:here|unchanged|as\s+before|goes\s+here|(?:remains?|stays?|is|are)(?:\s+(?:the\s+same|unchanged|as\s+(?:is|before)"
    r"|here))?))"
)
#: Comments by which a model leaves out a part of a file: with dots, or by the words that are used for nothing else.
_DOTS = TextPattern(
    rf"(?i){_OPEN}(?:\.{{3}}|…)\s*(?:\(|\[)?\s*(?:the\s+)?"
    r"(?:existing|rest|remaining|remainder|unchanged|other|same|previous|keep)\b.*"
)
_REST = TextPattern(
    rf"(?i){_OPEN}(?:the\s+)?(?:rest|remainder)\s+of\s+(?:the\s+|your\s+)?(?:existing\s+)?{_KIND}{_STAYS}?{_CLOSE}"
)
_EXISTING = TextPattern(
    rf"(?i){_OPEN}(?:the\s+|your\s+)?(?:existing|previous|other|remaining|unchanged)\s+{_KIND}{_STAYS}{_CLOSE}"
)
_OMISSIONS = (_REST, _EXISTING)
_WORDS = ("rest", "remainder", "existing", "previous", "other", "remaining", "unchanged")
_COMMENTS = ("#", "//", "--", ";", "%", "/*", "<!--", "{/*", "(", "[")

_BEGIN_PATCH = "*** Begin Patch"
_SEARCH, _REPLACE = "<<<<<<< SEARCH", ">>>>>>> REPLACE"
#: Files whose content is a patch.
_PATCHES = (".diff", ".patch", ".rej")


def leaves_out(line: str) -> bool:
    """Whether ``line`` stands for a part of the file that is not written."""
    if len(line) > _MAX_LINE:
        return False
    if ("..." in line or "…" in line) and _DOTS.fullmatch(line) is not None:
        return True
    lower = line.lower()
    # Words of a text are not a comment: only a line that begins as one can leave something out.
    if not line.lstrip().startswith(_COMMENTS) or not any(word in lower for word in _WORDS):
        return False
    return any(pattern.fullmatch(line) is not None for pattern in _OMISSIONS)


def is_edit(path: str, content: Sequence[str]) -> bool:
    """Whether ``content`` is an edit of a file (a patch, blocks to search and replace) and not the file ``path``."""
    return not path.endswith(_PATCHES) and next(edited_paths(content), None) is not None


def edited_paths(content: Sequence[str]) -> Iterator[str]:
    """Yield the files that a block edits, if it is an edit with file names; empty strings where it names none."""
    filled = [line for line in content if line.strip()]
    if filled and filled[0].strip() == _BEGIN_PATCH:
        yield from (line.partition(": ")[2].strip() for line in filled if line.startswith("*** ") and ": " in line)
        yield from () if any(": " in line for line in filled if line.startswith("*** ")) else ("",)
    elif any(line.startswith(_SEARCH) for line in filled) and any(line.startswith(_REPLACE) for line in filled):
        yield ""
    else:
        yield from _diffed_paths(filled)


def _diffed_paths(lines: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(lines[:-2]):
        new = lines[number + 1]
        if line.startswith("--- ") and new.startswith("+++ ") and lines[number + 2].startswith("@@"):
            name = new[4:].partition("\t")[0].strip()
            yield name.removeprefix("b/")


_TAGS = ("think", "thinking", "thought", "reasoning", "scratchpad")


def answer_in(lines: Sequence[str]) -> Sequence[str]:
    """Return ``lines`` without the reasoning before them. Raises ExtractionError when its end is ambiguous."""
    first = next((number for number, line in enumerate(lines) if line.strip()), None)
    if first is None:
        return lines
    opening = lines[first].strip()
    tag = next((tag for tag in _TAGS if opening.lower().startswith(f"<{tag}>")), None)
    if tag is None:
        return lines
    ends = [number for number in range(first, len(lines)) if f"</{tag}>" in lines[number].lower()]
    if len(ends) != 1:
        why = "never ends; the reply is not whole" if not ends else "ends more than once"
        raise ExtractionError(f"line {first + 1}: the reasoning {why}")
    after = lines[ends[0]]
    rest = after[after.lower().rindex(f"</{tag}>") + len(tag) + 3 :]
    # Lines keep their numbers: what is left out becomes blank.
    return [*("" for _ in range(ends[0])), rest, *lines[ends[0] + 1 :]]
