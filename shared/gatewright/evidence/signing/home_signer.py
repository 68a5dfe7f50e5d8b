"""Signer of a gatekeeper whose key may be replaced while it runs: each bundle is signed with the current key."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from gatewright.errors import ConfigurationError, UnavailableError
from gatewright.evidence.signing import keyring, keys
from gatewright.evidence.signing.envelopes import Signer


class HomeSigner(Signer):
    """Signs with the key in ``private`` of the key ring in ``home``. Raises ConfigurationError when it cannot be used."""

    def __init__(self, home: Path, private: Path) -> None:
        super().__init__(keys.load_or_create(private))
        self._home = home
        self._private = private
        self._now: tuple[object, Signer] = (self._mark(), self)

    def current(self, finished_at: str = "") -> Signer:
        """Return the signer for a run that ended then (RFC 3339).

        Raises:
            UnavailableError: the key is being replaced (``bundle_unwritable``). A retired key's signature on a run that ended
                after its retirement would be rejected.
        """
        try:
            mark = self._mark()
            if mark != self._now[0]:
                self._now = (mark, Signer(keys.load(self._private)))
            signer = self._now[1]
            retired = keyring.retired_at(self._home, signer.key_id)
        except (ConfigurationError, OSError) as error:
            raise UnavailableError(f"the signing key cannot be read now: {error}", code="bundle_unwritable") from error
        if retired is not None and finished_at and datetime.fromisoformat(finished_at) > retired:
            raise UnavailableError("the signing key is being replaced", code="bundle_unwritable")
        return signer

    def _mark(self) -> object:
        found = self._private.stat()
        return found.st_ino, found.st_mtime_ns, found.st_size
