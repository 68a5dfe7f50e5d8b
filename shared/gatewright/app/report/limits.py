"""Limits of a report. The page states at each place what it leaves out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PageLimits:
    """Sizes in bytes unless they are counts.

    ``patch`` is how much of the canonical patch is looked at, ``file_lines`` beyond how many lines a file's change is folded,
    ``open_files`` beyond how many files all of them are, ``each_file`` beyond how many files they are summed by folder and the
    rest is not shown; ``shown_lines`` how many lines of one file and ``all_lines`` of all files are shown. ``output`` is what
    is shown of one output of a test, ``outputs`` of all; ``link`` the largest file that the page holds as a link, ``links`` all
    of them together. ``rows`` bounds every table.
    """

    patch: int = 4_000_000
    file_lines: int = 300
    open_files: int = 12
    each_file: int = 100
    shown_lines: int = 3_000
    all_lines: int = 12_000
    output: int = 48_000
    outputs: int = 600_000
    link: int = 32_000
    links: int = 1_500_000
    rows: int = 500
    text: int = 4_000


def clip_text(text: str, length: int) -> str:
    """``text``, or its beginning and how much is left out."""
    return text if len(text) <= length else f"{text[:length]} … ({len(text) - length:,} more characters)"
