"""The file of a fenced block, from the text before it and its first line. Pure text rules; no path is judged here.

A block gets a name only from wording about *the whole file*; wording that names a file and an edit ("add this to `a.py`:") is
refused, because a part of a file cannot be placed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gatewright.errors import ExtractionError
from gatewright.patterns import TextPattern
from gatewright.services.worker.reply.labels import with_span, without_pictures, without_underline

#: Fences of these languages show commands or output; a path above them is a mention, not a name.
SHELL_LANGUAGES = frozenset(
    {"bash", "bat", "cmd", "console", "powershell", "ps1", "sh", "shell", "shell-session", "shellsession", "terminal", "zsh"}
)
OUTPUT_LANGUAGES = frozenset({"log", "output", "plaintext", "stderr", "stdout", "text", "txt"})
DIFF_LANGUAGES = frozenset({"diff", "patch"})

#: Language tag -> extensions that go with it, beside the tag itself.
_EXTENSIONS = {
    "bash": {"sh"},
    "c++": {"cc", "cpp", "cxx", "h", "hpp"},
    "cpp": {"cc", "cxx", "h", "hpp"},
    "c": {"h"},
    "csharp": {"cs"},
    "golang": {"go"},
    "javascript": {"cjs", "js", "jsx", "mjs"},
    "kotlin": {"kt", "kts"},
    "markdown": {"md"},
    "plaintext": {"txt"},
    "perl": {"pl", "pm"},
    "python": {"py", "pyi"},
    "python3": {"py", "pyi"},
    "ruby": {"rb"},
    "rust": {"rs"},
    "shell": {"bash", "sh"},
    "terraform": {"tf"},
    "text": {"txt"},
    "typescript": {"cts", "mts", "ts", "tsx"},
    "yaml": {"yml"},
    "yml": {"yaml"},
}

_P = r"`(?P<path>[^`]+)`"
_DETERMINER = r"(?:(?:a|an|the|this|that|our|your|new|existing|following|complete|updated|whole|full|entire)\s+)*"
_FILE = r"(?:(?:file|script|module)\s+)?(?:(?:named|called|at|as)\s+)?"
_CONTENT = r"(?:content|contents|code|text|source)"
_WITH = (
    rf"(?:\s*\((?:new|updated|modified|changed|full|complete|whole|entire|final|created)(?:\s+(?:file|version|{_CONTENT}))?\))?"
    rf"(?:,?\s+(?:with|to\s+read|to\s+contain|containing)(?:\s+(?:the|this|these))?"
    rf"(?:\s+(?:following|complete|full|new|updated|entire))*(?:\s+{_CONTENT})?|,?\s+as\s+follows)?"
)
_HOLDS = (
    r"(?:\s+(?:should|must|will|shall))?(?:\s+now)?"
    r"\s*(?:\s(?:have|has|contain|contains|read|reads|become|becomes|be|is|with|looks\s+like|look\s+like))?"
    rf"(?:\s+(?:the|this|these))?(?:\s+(?:following|complete|full|new|updated|final))*(?:\s+{_CONTENT})?"
)
#: Sentences that give a whole file its name. Matched against the last sentence before the fence, its colon removed.
_NAMING = tuple(
    TextPattern(f"(?i){pattern}")
    for pattern in (
        (
            rf"(?:.*\s)?(?:created?|write|wrote|written|saved?|add(?:ed)?|updated?|replaced?|overwrite|overwrote|rewrite|rewrote"
            rf"|rewritten|modify|modified)\s+{_DETERMINER}{_FILE}{_P}{_WITH}"
        ),
        (
            rf"(?:.*\s)?create\s+{_DETERMINER}{_FILE}{_P}\s+and\s+(?:add|paste|put|write)\s+(?:the\s+following|this)"
            rf"(?:\s+{_CONTENT})?(?:\s+(?:to|in|into)\s+it)?"
        ),
        (
            rf"(?:.*\s)?replace\s+(?:the\s+)?(?:(?:entire|whole|full|complete|existing|current)\s+)*contents?\s+of\s+{_DETERMINER}"
            rf"(?:file\s+)?{_P}{_WITH}"
        ),
        rf"(?:file|file[ -]?name|file[ -]?path|path)(?:\s+[0-9]{{1,3}})?\s*:\s*{_P}{_WITH}",
        rf"{_P}\s*[\x{{2014}}\x{{2013}}-]\s*(?:(?:the|full|complete|new|updated|final|entire|whole)\s+)+(?:file|version|{_CONTENT})",
        rf"(?:and\s+|here\s+is\s+|here's\s+|this\s+is\s+|below\s+is\s+)?{_DETERMINER}file\s+(?:(?:named|called)\s+)?{_P}{_HOLDS}",
        rf"(?:here\s+is\s+|here's\s+)?{_DETERMINER}{_CONTENT}\s+(?:of|for)\s+{_DETERMINER}(?:file\s+)?{_P}",
        rf"(?:here\s+is|here's|this\s+is)\s+{_DETERMINER}{_P}",
        rf"{_P}(?:\s+file)?\s+(?:should\s+have|should\s+contain|has|contains)?\s*{_DETERMINER}{_CONTENT}",
    )
)
_PATH_ONLY = TextPattern(rf"(?i){_P}{_WITH}")
_SPAN = TextPattern(r"`[^`]+`")
_EDITING = TextPattern(
    r"(?i)\b(?:add|append|insert|prepend|edit|change|modify|update|replace|remove|delete|create|write|save|overwrite)\b"
)
#: ``src/a.py``, ``a.py``, ``.gitignore``, ``Makefile``; other words in backticks are code.
_W = r"\pL\pM\pN_"
_PATHLIKE = TextPattern(rf"[{_W}.@+/-]*(?:/[{_W}.@+-]+|[{_W}-]\.[A-Za-z][A-Za-z0-9]*)|\.[A-Za-z][{_W}.-]*|[A-Z][a-z]*file")
_MENTIONS_FILE = TextPattern(r"(?i)\bfile\b")
_DECORATION = re.compile(r"(?:#{1,6}\s+|[-*+]\s+|[0-9]{1,9}[.)]\s+)+")  # noqa: TID251 - linear: each try ends where the next one begins
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")  # noqa: TID251 - linear: each try ends where the next one begins

_COMMENT = TextPattern(r"\s*(?:#+|//+|--|;+|%+|/\*+|<!--)\s*(?P<body>\S(?:.*\S)?)")
_COMMENT_END = ("*/", "-->")
_MARKER = TextPattern(r"(?i)(?:file|file[ -]?name|file[ -]?path)\s*:\s*(?P<path>[^\s`]+|`[^`]+`)(?:\s*\([^()]{1,40}\))?")
#: A title over changes: the block is not the whole file.
_CHANGES = TextPattern(r"(?i)(?:changes?|modifications?|updates?|edits?|additions?)\s+(?:to|in|for)\b.*")
#: No model names a file in a longer line; it bounds the time of the patterns above.
_MAX_LINE = 500


@dataclass(frozen=True, slots=True)
class Comment:
    """A first line that names the file; ``explicit`` for ``# file: path``, not for a mere ``# src/a.py``."""

    path: str
    explicit: bool


def name_before(words: Sequence[str], language: str) -> str | None:
    """Return the path that the paragraph before a fence gives to it, or None for a snippet.

    Raises:
        ExtractionError: the text names a file without stating that the block is the whole of it.
    """
    words = without_underline(words)
    if not words:
        return None
    for text in (words[-1], " ".join(words[-4:])):
        sentence = with_span(text, plain=_last_sentence(text))
        for pattern in _NAMING:
            found = pattern.fullmatch(sentence)
            if found is not None and (_is_pathlike(found["path"]) or _MENTIONS_FILE.is_in(_SPAN.without(sentence))):
                return found["path"]
        only = _PATH_ONLY.fullmatch(sentence)
        if only is not None and _is_pathlike(only["path"]) and not _is_mention(only["path"], language):
            return only["path"]
    _refuse_edit(words[-1], language)
    return None


def comment_name(first_line: str, language: str) -> Comment | None:
    """The path in a comment on a block's first line: ``# file: a.py`` anywhere, ``# src/a.py`` where the language fits."""
    found = _COMMENT.fullmatch(first_line) if len(first_line) <= _MAX_LINE else None
    if found is None:
        return None
    body = found["body"]
    for end in _COMMENT_END:
        body = body.removesuffix(end).rstrip()
    marker = _MARKER.fullmatch(body)
    if marker is not None:
        return Comment(marker["path"].strip("`"), explicit=True)
    if _is_pathlike(body) and _goes_with(body, language):
        return Comment(body, explicit=False)
    return None


def _last_sentence(text: str) -> str:
    if len(text) > _MAX_LINE:
        return ""
    plain = text.replace("**", "").strip().rstrip(":").rstrip()
    plain = _SENTENCE.split(plain)[-1]
    found = _DECORATION.match(plain)
    return without_pictures(plain[found.end() if found else 0 :].rstrip(":.").strip())


def _refuse_edit(line: str, language: str) -> None:
    if language in SHELL_LANGUAGES | OUTPUT_LANGUAGES or len(line) > _MAX_LINE:
        return
    if not line.rstrip("* ").endswith(":") and _CHANGES.fullmatch(_last_sentence(line)) is None:
        return
    paths = [span for each in _SPAN.findall(line) if _is_pathlike(span := each.strip("`"))]
    if paths and (_EDITING.is_in(_SPAN.without(line)) or _CHANGES.fullmatch(_last_sentence(line)) is not None):
        raise ExtractionError(f"{line!r} does not state that the block is one whole file; write: Update file `{paths[0]}`:")


def _is_pathlike(text: str) -> bool:
    return _PATHLIKE.fullmatch(text) is not None


def _is_mention(path: str, language: str) -> bool:
    return language in SHELL_LANGUAGES | OUTPUT_LANGUAGES and not _goes_with(path, language)


def _goes_with(path: str, language: str) -> bool:
    extension = path.rpartition("/")[2].rpartition(".")[2].lower()
    return bool(language) and (extension == language or extension in _EXTENSIONS.get(language, ()))
