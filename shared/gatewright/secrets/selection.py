"""Which scanner looks for secrets: the one that the operator chose."""

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
    """The scanner that the settings name; ``fallback``: a directory of this host for the compiled catalogue.

    Raises ConfigurationError when the library is not installed: a scanner that is not there has found nothing.
    """
    if name == "patterns":
        return SecretScanner()
    from gatewright.secrets.kingfisher import Kingfisher  # 35 MB of native code, for those who ask for it

    return SecretScanner(Kingfisher(fallback))


def local_catalogue() -> Path:
    """Where a command without a home folder may keep the compiled catalogue, if not in the installation."""
    return Path(tempfile.gettempdir()) / "gatewright-secret-rules"


def load_ahead(name: ScannerName, fallback: Path) -> threading.Thread:
    """Begin to load what a scanner needs, in a thread. Where it cannot be had, the first look says so."""

    def load() -> None:
        with contextlib.suppress(ConfigurationError):
            make_scanner(name, fallback).prepare()

    thread = threading.Thread(target=load, name="secrets", daemon=True)
    thread.start()
    return thread
