"""Outputs in the form in which they are kept: one file each, with what no test can fix replaced by a name."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from gatewright.version import __version__

ROOT = Path(__file__).resolve().parents[2]
#: Style sheets and scripts of a page: their digest says whether they are the same.
_ASSETS = re.compile(r"(<(style|script)[^>]*>)(.*?)(</\2>)", re.DOTALL)
#: How old a bundle is, which the clock of this machine decides.
_AGES = re.compile(r"[\d.,]+ days old")


class TextSnapshot(SingleFileSnapshotExtension):
    """One text file for each output."""

    file_extension = "txt"
    _write_mode = WriteMode.TEXT


class PageSnapshot(TextSnapshot):
    """One HTML file for each page."""

    file_extension = "html"


def masked(text: str, home: Path) -> str:
    """``text`` without the places and the clock of this machine, and without the version of this tree."""
    for place, name in ((home, "<home>"), (ROOT, "<tree>")):
        text = text.replace(str(place), name)
    return _AGES.sub("<age> days old", text).replace(f"gatewright {__version__}", "gatewright <version>")


def transcript(ended: subprocess.CompletedProcess[str], home: Path) -> str:
    """A command line, how it ended and what it printed. JSON is indented, in the order of its fields."""
    parts = [
        f"$ gatewright {' '.join(ended.args)}",
        f"exit code {ended.returncode}",
        *map(_indented, ended.stdout.splitlines()),
    ]
    parts += ["standard error:", *ended.stderr.splitlines()] if ended.stderr else []
    return masked("\n".join(parts) + "\n", home)


def page(html: str, home: Path) -> str:
    """A page with each tag on a line, and each of its style sheets and scripts replaced by a digest."""
    short = _ASSETS.sub(lambda found: found[1] + hashlib.sha256(found[3].encode()).hexdigest() + found[4], html)
    return masked(short.replace("><", ">\n<"), home)


def _indented(line: str) -> str:
    try:
        document = json.loads(line)
    except ValueError:
        return line
    return json.dumps(document, indent=1, ensure_ascii=False) if isinstance(document, dict | list) else line
