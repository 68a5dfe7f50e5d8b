"""Values that a command measures or generates at each run: seconds, times, ids, names of temporary files. Pure."""

from __future__ import annotations

from typing import Final

from gatewright.patterns import TextPattern

UUID: Final = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_DAY: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_MONTHS: Final = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
#: Patterns with replacements. A pattern is tried only if its first words occur.
_MEASURED: tuple[tuple[str, TextPattern, str], ...] = tuple(
    (words, TextPattern(pattern), instead)
    for words, pattern, instead in (
        ("-", UUID, "<uuid>"),
        (
            ":",
            r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?:Z|[+-][0-9]{4})?",
            "<moment>",
        ),
        (":", rf"\b{_MONTHS} [ 0-9][0-9] [0-9]{{2}}:[0-9]{{2}}\b", "<moment>"),
        ("duration_ms", r"duration_ms:? [0-9.]{1,20}", "duration_ms <time>"),
        (".", r"\b[0-9]{1,9}\.[0-9]{1,9}( ?)(ms|s|secs?|seconds?)\b", r"<time>\1\2"),
        ("/tmp/", r"/tmp/tmp[a-z0-9_]{8}\b", "/tmp/<name>"),  # noqa: S108 - a pattern
        ("Process Group PGID:", r"Process Group PGID: [0-9]+", "Process Group PGID: <id>"),
        ("Chunk ID:", r"Chunk ID: [0-9a-f]+", "Chunk ID: <id>"),
    )
)


def without_measures(text: str) -> str:
    """Return ``text`` with a word in place of every value that differs from run to run without meaning."""
    for words, pattern, instead in _MEASURED:
        if words in text:
            text = pattern.replaced(text, instead)
    return text
