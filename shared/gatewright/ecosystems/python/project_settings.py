"""The package folders in a project's settings: pyproject.toml of the usual build backends, setup.cfg, setup.py. Pure.

The texts are hostile: none runs, each is bounded, and an unreadable one is ignored. Values that setup.py computes are
unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gatewright import foreign_documents
from gatewright.foreign_documents import MOST_TOML_BYTES, table_of
from gatewright.patterns import BytesPattern

#: Bytes of a file of settings that are looked at.
_MOST_BYTES = 256 * 1024
_MOST_LOCK_BYTES = 8 * 1024 * 1024
_TOP_IN_SETUP = BytesPattern(rb"""package_dir\s{0,9}=\s{0,9}\{\s{0,99}["']["']\s{0,9}:\s{0,9}["']([\w./-]{1,200})["']""")
_FOUND_IN_SETUP = BytesPattern(rb"""find_(?:namespace_)?packages\(\s{0,99}(?:where\s{0,9}=\s{0,9})?["']([\w./-]{1,200})["']""")


@dataclass(frozen=True, slots=True)
class Layout:
    """A package layout. ``roots`` are folders of top-level modules, relative to the project's own; ``"."`` is that folder
    itself.

    ``moved`` are packages whose folder has another name, so that no search path leads to them.
    """

    roots: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()


def layout_in_pyproject(content: bytes) -> Layout:
    """Read the backends' tables: setuptools, hatch, poetry, pdm, uv, maturin, scikit-build-core."""
    tool = read_toml(content).get("tool")
    backends = tool if isinstance(tool, dict) else {}
    setuptools = table_of(backends, "setuptools")
    roots = [*_strings(_value(setuptools, "packages", "find", "where"))]
    mapped, moved = _mapped_roots(_value(setuptools, "package-dir"))
    roots += mapped
    hatch = table_of(backends, "hatch", "build")
    wheel = table_of(hatch, "targets", "wheel")
    roots += [_above(path) for path in _strings(_value(wheel, "packages"))]
    roots += [*_strings(_tops(_value(wheel, "sources"))), *_strings(_value(hatch, "dev-mode-dirs"))]
    for package in _each(_value(backends, "poetry", "packages")):
        if isinstance(package, dict):
            roots += _strings(package.get("from", "."))
    roots += _strings(_value(backends, "pdm", "build", "package-dir"))
    roots += _strings(_value(backends, "uv", "build-backend", "module-root"))
    roots += _strings(_value(backends, "maturin", "python-source"))
    roots += [_above(path) for path in _strings(_value(backends, "scikit-build", "wheel", "packages"))]
    return Layout(tuple(dict.fromkeys(roots)), moved)


def layout_in_setup_cfg(content: bytes) -> Layout:
    """Read ``[options]`` and ``[options.packages.find]``."""
    settings = read_cfg(content)
    pairs = (line.partition("=") for line in settings.get(("options", "package_dir"), ()))
    mapped, moved = _mapped_roots({name.strip(): place.strip() for name, _, place in pairs})
    return Layout((*mapped, *settings.get(("options.packages.find", "where"), ())), moved)


def layout_in_setup_py(content: bytes) -> Layout:
    """Read literal values: ``package_dir={"": "src"}``, ``find_packages("src")``."""
    text = content[:_MOST_BYTES]
    found = [*_TOP_IN_SETUP.groups(text), *_FOUND_IN_SETUP.groups(text)]
    return Layout(tuple(dict.fromkeys(root.decode("ascii") for root in found)))


def read_toml(content: bytes) -> Mapping[str, Any]:
    """The document; empty for one that cannot be read, or only at a cost that its size does not show."""
    return _toml(content, MOST_TOML_BYTES)


def read_toml_lock(content: bytes) -> Mapping[str, Any]:
    """The same for a lock file, which may have 8 MiB."""
    return _toml(content, _MOST_LOCK_BYTES)


def _toml(content: bytes, most: int) -> Mapping[str, Any]:
    try:
        return foreign_documents.read_toml(content, most)
    except foreign_documents.UnreadableDocumentError:
        return {}


def read_cfg(content: bytes) -> dict[tuple[str, str], tuple[str, ...]]:
    """Section and key to the lines of the value, as far as there are any."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    section, key = "", ""
    for line in content[:_MOST_BYTES].decode("utf-8", "replace").splitlines():
        text = line.strip()
        if not text or text[0] in "#;":
            continue
        if text[0] == "[" and line[0] == "[":
            section, key = text.strip("[]").strip(), ""
        elif line[0].isspace() and key:
            found[section, key] = (*found.get((section, key), ()), text)
        elif "=" in text:
            key, _, value = (part.strip() for part in text.partition("="))
            found[section, key] = (value,) if value else ()
    return found


def _mapped_roots(places: object) -> tuple[list[str], tuple[str, ...]]:
    """Roots of a ``package_dir``, and the packages that it gives a folder of another name."""
    roots, moved = [], []
    if not isinstance(places, dict):
        return [], ()
    for name, place in places.items():
        if not isinstance(place, str):
            continue
        folder = place.strip("/").removeprefix("./")
        inside = str(name).replace(".", "/")
        if not name:
            roots.append(folder)
        elif f"/{folder}".endswith(f"/{inside}"):
            roots.append(folder[: -len(inside)].rstrip("/") or ".")
        else:
            moved.append(str(name))
    return roots, tuple(moved)


def _value(table: Mapping[str, Any], *keys: str) -> object:
    found: object = table
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _each(value: object) -> Iterable[object]:
    return value if isinstance(value, list) else ()


def _strings(value: object) -> Iterator[str]:
    """The strings of a string or a list."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from (each for each in value if isinstance(each, str))


def _tops(sources: object) -> object:
    """Return, from a table of folders and their names in a wheel, those whose content goes to its top."""
    return [folder for folder, name in sources.items() if name == ""] if isinstance(sources, dict) else sources


def _above(path: str) -> str:
    return path.strip("/").rpartition("/")[0] or "."
