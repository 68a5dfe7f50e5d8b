"""The secret scanner that the operator selected."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from pathlib import Path
from typing import Literal

from gatewright.errors import ConfigurationError
from gatewright.secrets.scanner import SecretScanner

ScannerName = Literal["kingfisher", "patterns"]
DEFAULT_SCANNER: ScannerName = "kingfisher"


def make_scanner(name: ScannerName, fallback: Path) -> SecretScanner:
    """Return the scanner of the settings; ``fallback``: a directory of this host for the compiled catalogue.

    Raises ConfigurationError if the library is not installed: a missing scanner finds nothing.
    """
    if name == "patterns":
        return SecretScanner()
    from gatewright.secrets.kingfisher import Kingfisher  # 35 MB of native code, for those who ask for it

    return SecretScanner(Kingfisher(fallback))


def local_catalogue() -> Path:
    """Return the folder of the compiled catalogue for a command without a home folder, if not in the installation."""
    return Path(tempfile.gettempdir()) / "gatewright-secret-rules"


def load_ahead(name: ScannerName, fallback: Path) -> threading.Thread:
    """Start loading a scanner's catalogue in a thread. A failure is reported by the first scan."""

    def load() -> None:
        with contextlib.suppress(ConfigurationError):
            make_scanner(name, fallback).prepare()

    thread = threading.Thread(target=load, name="secrets", daemon=True)
    thread.start()
    return thread
