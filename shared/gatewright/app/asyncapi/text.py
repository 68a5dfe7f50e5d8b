"""A document as the text of a file: readable, and the same every time."""

from __future__ import annotations

import json
from typing import Any


def as_text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
