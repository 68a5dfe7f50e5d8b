"""Hooks of the site: navigation from the index, anchors as on GitHub, and links to files of the repository.

`tests/docs` checks every link of the pages. The site contains only the folder `docs`, so a link to a file outside it becomes
the path of that file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

OUTSIDE = re.compile(r"\[([^\]]*)\]\((?:\.\./)+([^)#\s]*)[^)]*\)")
PAGE = re.compile(r"\]\(((?:adr/)?[\w-]+\.md)\)")
DECISIONS = "adr/README.md"
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")


def github_anchor(heading: str, _separator: str) -> str:
    return _NOT_IN_ANCHORS.sub("", heading.lower()).replace(" ", "-")


def on_config(config: Any) -> Any:
    """Add each section of the index with the pages that it links to, in order, and the decisions of their own index."""
    docs = Path(config["docs_dir"])
    for section in (docs / "README.md").read_text("utf-8").split("\n## ")[1:]:
        pages = PAGE.findall(section)
        if DECISIONS in pages:
            pages += [f"adr/{page}" for page in PAGE.findall((docs / DECISIONS).read_text("utf-8"))]
        config["nav"].append({section.partition("\n")[0]: pages})
    return config


def on_page_markdown(markdown: str, *, page: Any, **_other: Any) -> str:
    if page.file.src_uri.startswith("adr/"):
        # A link one folder up is still a page of the site.
        return re.sub(r"\[([^\]]*)\]\(\.\./\.\./([^)#\s]*)[^)]*\)", r"\1 (`\2`)", markdown)
    return OUTSIDE.sub(lambda link: f"{link[1]} (`{link[2]}`)" if link[1] != f"`{link[2]}`" else link[1], markdown)
