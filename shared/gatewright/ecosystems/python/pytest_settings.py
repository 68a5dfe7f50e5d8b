"""A repository's settings of pytest for the names of tests, as far as planting needs them. The input is hostile."""

from __future__ import annotations

import configparser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gatewright.ecosystems.port import TreeFiles
from gatewright.foreign_documents import UnreadableDocumentError, read_toml

#: In pytest's own order: the first file with such a section applies. The section's name, or the table's path.
_FILES: Sequence[tuple[str, str]] = (
    ("pytest.toml", "pytest"),
    (".pytest.toml", "pytest"),
    ("pytest.ini", "pytest"),
    (".pytest.ini", "pytest"),
    ("pyproject.toml", "tool.pytest.ini_options"),
    ("pyproject.toml", "tool.pytest"),
    ("tox.ini", "pytest"),
    ("setup.cfg", "tool:pytest"),
)
#: Their names, each once: the one list of them.
SETTING_FILES: Final = frozenset(name for name, _ in _FILES)


@dataclass(frozen=True, slots=True)
class PytestSettings:
    """Patterns, as pytest has them."""

    files: tuple[str, ...] = ("test_*.py", "*_test.py")
    functions: tuple[str, ...] = ("test",)
    places: tuple[str, ...] = ()


async def read_settings(tree: TreeFiles) -> PytestSettings:
    """Return the settings at the top of ``tree``; pytest's defaults if none can be read."""
    for name, section in _FILES:
        content = await tree.read(name) if name in tree.paths else None
        table = _table(name, section, content.decode("utf-8", "replace")) if content is not None else None
        if table is not None:
            usual = PytestSettings()
            return PytestSettings(
                _setting_words(table.get("python_files")) or usual.files,
                _setting_words(table.get("python_functions")) or usual.functions,
                _setting_words(table.get("testpaths")),
            )
    return PytestSettings()


def _table(name: str, section: str, text: str) -> Mapping[str, Any] | None:
    if name.endswith(".toml"):
        try:
            table: Any = read_toml(text)
        except UnreadableDocumentError:
            return None
        for key in section.split("."):
            table = table.get(key) if isinstance(table, dict) else None
        return table if isinstance(table, dict) else None
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return None
    return dict(parser[section]) if parser.has_section(section) else None


def _setting_words(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(value.split())
    return tuple(word for word in value if isinstance(word, str)) if isinstance(value, list) else ()
