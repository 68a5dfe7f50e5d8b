"""What is only a part of a file, or an edit of one, and must never be written as the whole. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gatewright.patterns import TextPattern

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
    """The files that a block edits, if it is an edit with names of files; empty strings where it does not say which."""
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
