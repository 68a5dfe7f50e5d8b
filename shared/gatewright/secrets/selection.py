"""Which scanner looks for secrets: the one that the operator chose."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from gatewright.secrets.scanner import SecretScanner

ScannerName = Literal["kingfisher", "patterns"]
DEFAULT_SCANNER: ScannerName = "kingfisher"


def make_scanner(name: ScannerName, fallback: Path) -> SecretScanner:
    """The scanner that the settings name; ``fallback``: a directory of this host for the compiled catalogue.

    Raises ConfigurationError when the library is not installed: a scanner that is not there has found nothing.
    """
    if name == "patterns":
        return SecretScanner()
    from gatewright.secrets.kingfisher import Kingfisher  # 35 MB of native code, for those who ask for it

    return SecretScanner(Kingfisher(fallback))
