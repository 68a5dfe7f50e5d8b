"""The sandbox's own fixtures: what was prepared is looked at as commands see it."""

from tests.sandbox.conftest import place, run, sandbox

__all__ = ["place", "run", "sandbox"]
