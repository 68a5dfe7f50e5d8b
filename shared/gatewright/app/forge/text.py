"""Text for forges: words of agents and requests as data, which mentions no account, links nothing and commands nothing.

A forge interprets more than Markdown: mentions, references that close issues, commands at the beginning of a line, markers of
this process. None of them is interpreted inside of a code span or code block, so untrusted text stands only there.
"""

from __future__ import annotations

from typing import Final

from gatewright.app.report.markdown import block, code
from gatewright.patterns import TextPattern
from gatewright.view.safe_text import fit, one_line

#: Characters of a title, and of a comment; GitHub accepts 65,536 of a comment.
MOST_TITLE: Final = 100
MOST_COMMENT: Final = 60_000
#: Lines of a quoted text, and characters of each.
_MOST_LINES: Final = 20
_MOST_WIDTH: Final = 300
#: Beginning of an HTML comment: untrusted text must not contain a marker.
_HIDDEN: Final = "<!--"
#: A title has no code span, so that it keeps letters, digits and signs that mean nothing to a forge. A merge can make it the
#: subject of a commit, where ``#1``, ``GH-1``, addresses and ``[skip ci]`` have an effect, and ``Draft:`` has one in a title.
_UNSAFE_IN_TITLE: Final = TextPattern(r"[^\p{L}\p{N} .,_'+=-]|[gG][hH]-")


def marker_of(run_id: str) -> str:
    """Return the invisible line by which this process finds its comment about a run."""
    return f"<!-- gatewright:{run_id} -->"


def safe_title(text: str, instead: str) -> str:
    """Return untrusted text as the title of a change request: one line, at most 100 characters; ``instead`` if none is left."""
    words = " ".join(_UNSAFE_IN_TITLE.replaced(one_line(text[: 4 * MOST_TITLE]), " ").split()).strip(" .,-_'+=")
    return fit(words, MOST_TITLE) or instead


def span(text: str, most: int = 200) -> str:
    """Return untrusted text as a code span on one line of at most ``most`` characters."""
    return code(fit(one_line(_without_markers(text[: 4 * most])), most))


def quote(text: str) -> list[str]:
    """Return untrusted text as the lines of a code block, whose fence is longer than any inside; at most 20 lines."""
    lines = _without_markers(text[: 4 * _MOST_LINES * _MOST_WIDTH]).splitlines()
    shown = [fit(line, _MOST_WIDTH) for line in lines[:_MOST_LINES]]
    more = [f"({len(lines) - _MOST_LINES} more lines)"] if len(lines) > _MOST_LINES else []
    return block("\n".join([*shown, *more]), "text")


def join_bounded(lines: list[str]) -> str:
    """Join finished lines; what exceeds the limit of a comment is left out, with a note, and no line is cut."""
    kept: list[str] = []
    size = 0
    for line in lines:
        size += len(line.encode("utf-8", "surrogatepass")) + 1
        if size > MOST_COMMENT:
            return "\n".join([*kept, "", "The rest is left out: it exceeds the limit of a comment."])
        kept.append(line)
    return "\n".join(kept)


def _without_markers(text: str) -> str:
    return text.replace(_HIDDEN, "<! --")
