"""The catalogue of MongoDB's Kingfisher (some 490 rules), in this process and offline; its validators are never called.

The only module that uses the library. Its findings are checked against the bytes: an unreliable offset (UTF-16, for
example, which it decodes first) becomes a hit on everything, so that redaction never leaves the value in place.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gatewright.errors import ConfigurationError, DeniedError
from gatewright.file_locks import lock_file
from gatewright.secrets.scanner import Hit
from gatewright.secrets.values import looks_random

try:
    import kingfisher_sdk
except ImportError as error:
    raise ConfigurationError(
        "the scanner for secrets needs the package kingfisher-secret-scanner: install gatewright with the role's extra"
    ) from error

#: A user name and a password in a URL: documentation is full of them, so the password decides.
_URL_RULE = "betterleaks.generic-credential-uri"
_COMPILED = "*.vscdb"
#: One per process and its forks: it is the same for all, and large.
_LOADED: list[Any] = []
_LOADING = threading.Lock()


class Kingfisher:
    """Compiles the catalogue once per installation (seconds), else loads it (0.4 s of one core). Scanning releases the GIL.

    ``fallback``: the folder of the compiled catalogue if it cannot be stored beside the installed package.
    """

    def __init__(self, fallback: Path) -> None:
        self._fallback = fallback

    @property
    def name(self) -> str:
        return f"kingfisher {kingfisher_sdk.__version__}"

    def find(self, data: bytes) -> Iterator[Hit]:
        """Raises ConfigurationError when the catalogue cannot be had, DeniedError (``secret_scan_failed``) for ``data``."""
        scanner = self._load_policy()
        try:
            findings = scanner.scan(data)
        except (RuntimeError, ValueError, OSError) as error:
            raise DeniedError(f"this could not be searched for secrets: {error}", code="secret_scan_failed") from error
        for finding in findings:
            if finding.visible:
                hit = _hit(data, finding)
                if hit is not None:
                    yield hit

    def prepare(self) -> None:
        """Have the catalogue ready. Raises ConfigurationError when it cannot be had."""
        self._load_policy()

    def _load_policy(self) -> Any:
        with _LOADING:
            if not _LOADED:
                policy = kingfisher_sdk.DetectionPolicy(inline_ignores=False, markup_context=False, base64_max_depth=2)
                try:
                    _LOADED.append(kingfisher_sdk.Scanner(_rules(cache_folder(self._fallback)), policy=policy))
                except (RuntimeError, ValueError, OSError) as error:
                    raise ConfigurationError(f"the catalogue of secrets cannot be loaded: {error}") from error
            return _LOADED[0]


def cache_folder(fallback: Path) -> Path | None:
    """Return a folder that only this account can write: in the installation, like Python's compiled files, or ``fallback``.

    The scanner executes its content, so it must be as trusted as the installation; one that already has the catalogue need
    not be writable (a container's image). None without such a folder.
    """
    version = kingfisher_sdk.__version__
    for place in (Path(sys.prefix) / "share" / "gatewright" / "secret-rules", fallback):
        folder = place / version
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            owned = folder.lstat()
        except OSError:
            continue
        private = stat.S_ISDIR(owned.st_mode) and owned.st_uid == os.geteuid() and not owned.st_mode & 0o022
        if private and (os.access(folder, os.W_OK) or any(folder.glob(_COMPILED))):
            return folder
    return None


def _rules(folder: Path | None) -> Any:
    if folder is None:
        return kingfisher_sdk.Rules(confidence="medium", cache=False)
    if any(folder.glob(_COMPILED)):
        return kingfisher_sdk.Rules(confidence="medium", cache_dir=folder)
    # The roles of a stack start together: one compiles, the others wait for it and load.
    lock = lock_file(folder / "lock", seconds=None)
    try:
        return kingfisher_sdk.Rules(confidence="medium", cache_dir=folder)
    finally:
        os.close(lock)


def _hit(data: bytes, finding: Any) -> Hit | None:
    start, end = finding.location["start_offset"], finding.location["end_offset"]
    secret = finding.secret
    if finding.rule_id == _URL_RULE and not looks_random(_password(secret)):
        return None
    rule = finding.rule_id.replace("/", ".")
    region = data[start:end]
    if finding.is_base64_encoded or secret.encode() in region:
        return Hit(rule, start, end)
    return Hit(rule, 0, len(data))


def _password(credentials: str) -> str:
    """Return the password of ``user:password@host``, or a bare one, unquoted: percent escapes would make words look
    generated."""
    return urllib.parse.unquote(credentials.rpartition("@")[0].rpartition(":")[2] or credentials)
