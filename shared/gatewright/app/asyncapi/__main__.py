"""Regenerate the documents of the documentation: ``python -m gatewright.app.asyncapi docs/asyncapi``."""

from __future__ import annotations

import sys
from pathlib import Path

from gatewright.app.asyncapi.document import as_text, publisher_document, system_document

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
(folder / "publisher.json").write_text(as_text(publisher_document()), "utf-8")
(folder / "system.json").write_text(as_text(system_document()), "utf-8")
