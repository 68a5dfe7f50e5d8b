"""Fixtures that several folders of tests share."""

from __future__ import annotations

from tests.git.conftest import make_repository

__all__ = ["make_repository"]
