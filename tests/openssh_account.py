"""OpenSSH's programs do nothing for a number without an account (``No user exists for uid``), as containers may have."""

from __future__ import annotations

import os
import pwd

import pytest


def _is_named() -> bool:
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return True


needs_account = pytest.mark.skipif(not _is_named(), reason="OpenSSH does nothing for a number without an account")
