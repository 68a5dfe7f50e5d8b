"""Fixtures that several folders of tests share."""

from __future__ import annotations

from tests.git.conftest import first_repository, make_repository

__all__ = ["first_repository", "make_repository"]
