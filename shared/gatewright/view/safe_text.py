"""External text made safe to show: unprintable characters become visible escapes.

Control characters, escape sequences and bidirectional marks can make one text look like another. Pure.
"""

from __future__ import annotations

import re
import textwrap

#: Terminal sequences: CSI, OSC and other strings including their terminator, and two-character escapes.
_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?|[ -/]*[0-~])")  # noqa: TID251 - linear: each try ends where the next one begins


def visible(text: str) -> str:
    """Escape every character of ``text`` except printable ones, spaces, tabs and line feeds."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else _escape_char(char) for char in text)


def printable(text: str) -> str:
    """Escape every unprintable character of ``text``, including line feeds, so that it fits one line of a terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def one_line(text: str) -> str:
    """Return ``text`` on one line: visible, with each run of white space as one space."""
    return visible(" ".join(text.split()))


def terminal_text(data: bytes) -> str:
    """What a program printed, without its colours and cursor movements; bytes that are no UTF-8 become ``\\xNN``."""
    text = data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    return visible(_SEQUENCES.sub("", text))


def fit(text: str, width: int) -> str:
    """Cut ``text`` to ``width`` columns between two words, with an ellipsis. A longer word is cut itself."""
    if len(text) <= width:
        return text
    kept, _, _ = text[:width].rpartition(" ")
    return f"{kept.rstrip(' ,;:') or text[: max(0, width - 1)]}…"


def hang(text: str, width: int, margin: int) -> str:
    """Wrap ``text`` at ``width`` columns; all lines but the first are indented by ``margin`` spaces."""
    room = max(width, margin + 20)
    return textwrap.fill(text, room, subsequent_indent=" " * margin, break_long_words=False, break_on_hyphens=False)


def size_words(size: int) -> str:
    """Format a number of bytes: ``512 B``, ``1.2 kB``, ``3.4 MB``."""
    if size < 1000:
        return f"{size} B"
    amount = float(size)
    for unit in ("kB", "MB", "GB"):
        amount /= 1000
        if amount < 999.95:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1000:.1f} TB"


def seconds_words(seconds: float) -> str:
    """Format a duration: ``12 ms``, ``1.25 s``, ``3 min 20 s``, ``2 h 05 min``."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def duration_words(seconds: float) -> str:
    """Format an approximate duration in one unit: ``42 s``, ``3 min``, ``5 h``, ``2 d``. A negative value gives ``0 s``."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def _escape_char(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
