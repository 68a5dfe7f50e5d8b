"""The names of attributes are those of OpenTelemetry, at the version that is named."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable

import opentelemetry.semconv._incubating.attributes as incubating
import opentelemetry.semconv.attributes as stable
from opentelemetry.semconv.schemas import Schemas

from gatewright.tracing import conventions


def _names() -> set[str]:
    names: set[str] = set()
    for package in (incubating, stable):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            found = vars(importlib.import_module(module.name))
            names |= {value for name, value in found.items() if name.isupper() and isinstance(value, str)}
    return names


def unknown_names(names: Iterable[str]) -> set[str]:
    """Those that are neither ours nor of the pinned version."""
    known = _names()
    return {name for name in names if not name.startswith("gatewright.") and name not in known}


def test_every_name_is_ours_or_a_convention_of_the_pinned_version() -> None:
    ours = {name: value for name, value in vars(conventions).items() if name.isupper() and isinstance(value, str)}
    assert ours.pop("SCHEMA_URL") in {schema.value for schema in Schemas}
    assert len(ours) > 30
    assert unknown_names(ours.values()) == set()
