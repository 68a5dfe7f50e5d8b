"""Descriptions for people of a change to a manifest or lock file. Pure; the input is hostile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gatewright.ecosystems.dependencies.facts import USUAL_HOSTS, Facts, Kind, Package, Source
from gatewright.ecosystems.dependencies.readers import is_dependency_file, read_facts
from gatewright.ecosystems.runner.settings import UnreadableError

#: Bytes of one version of a file that are read.
MOST_BYTES: Final = 8 << 20
#: Names that one line quotes by default, and characters of one value.
_QUOTED: Final = 5
_MOST_VALUE: Final = 160

__all__ = ["MOST_BYTES", "changed_programs", "dependency_changes", "is_dependency_file"]


def dependency_changes(path: bytes, old: bytes | None, new: bytes | None, quoted: int = _QUOTED) -> Iterator[str]:
    """Yield descriptions of the change, the most significant first; None is a missing file. ``quoted``: names in a summary.

    1. other settings that decide which code is fetched or run  2. packages from other places than the usual registry  3. a
    summary of all packages. An unreadable version is reported as such.
    """
    try:
        before, after = _facts(path, old), _facts(path, new)
    except UnreadableError as error:
        yield f"What it changes of dependencies could not be read ({error}): look at it yourself."
        return
    for kind in Kind:  # 1
        names = sorted(name for each, name in before.others.keys() | after.others.keys() if each is kind)
        for name in names:
            was, now = before.others.get((kind, name)), after.others.get((kind, name))
            if was != now:
                yield _change_words(kind, name, was, now)
    usual = USUAL_HOSTS | {each.place for each in before.packages.values() if each.source is Source.REGISTRY}
    for name, package in sorted(after.packages.items()):  # 2
        earlier = before.packages.get(name)
        if _is_elsewhere(package, usual) and (earlier is None or earlier[1:] != package[1:]):
            yield _from(name, package, earlier)
    if words := _change_summary(before, after, quoted):  # 3
        yield words


def changed_programs(path: bytes, old: bytes | None, new: bytes | None) -> frozenset[str]:
    """Return the commands that only the new version installs, or installs from another place.

    None is a missing file. Empty for an unreadable file.
    """
    try:
        before, after = _facts(path, old), _facts(path, new)
    except UnreadableError:
        return frozenset()
    return frozenset(
        name
        for (kind, name), value in after.others.items()
        if kind is Kind.PROGRAM and before.others.get((kind, name)) != value
    )


def _facts(path: bytes, content: bytes | None) -> Facts:
    if content is None:
        return Facts()
    if len(content) > MOST_BYTES:
        raise UnreadableError("it is too large")
    return read_facts(path, content)


def _change_words(kind: Kind, name: str, was: str | None, now: str | None) -> str:
    if now is None:
        return f"Removes the {kind} {_short(name)}, which was {_short(was)}."
    if was is None:
        return f"Adds the {kind} {_short(name)}: {_short(now)}"
    return f"Changes the {kind} {_short(name)} from {_short(was)} to {_short(now)}"


def _is_elsewhere(package: Package, usual: frozenset[str]) -> bool:
    return package.source is not Source.REGISTRY or package.place not in usual


def _from(name: str, package: Package, earlier: Package | None) -> str:
    place = f" {_short(package.place)}" if package.place else ""
    if earlier is None:
        return f"Adds the package {_short(name)} from {package.source}{place}."
    before = f" {_short(earlier.place)}" if earlier.place else ""
    return f"Takes the package {_short(name)} from {package.source}{place}; it came from {earlier.source}{before}."


def _change_summary(before: Facts, after: Facts, quoted: int) -> str:
    added = sorted(after.packages.keys() - before.packages.keys())
    removed = sorted(before.packages.keys() - after.packages.keys())
    both = before.packages.keys() & after.packages.keys()
    versions = {name: (before.packages[name].version, after.packages[name].version) for name in both}
    moved = sorted(name for name, (was, now) in versions.items() if was != now and now)
    parts = [
        _list_names(len(added), "added", [f"{name} {after.packages[name].version}".strip() for name in added[:quoted]]),
        _list_names(len(removed), "removed", removed[:quoted]),
        _list_names(
            len(moved), "in another version", [f"{name} {versions[name][0]} to {versions[name][1]}" for name in moved[:quoted]]
        ),
    ]
    shown = [part for part in parts if part]
    return f"Packages: {'; '.join(shown)}." if shown else ""


def _list_names(number: int, words: str, names: list[str]) -> str:
    if not number:
        return ""
    more = f" and {number - len(names)} more" if number > len(names) else ""
    return f"{number} {words} ({', '.join(_short(name) for name in names)}{more})"


def _short(value: str | None) -> str:
    text = value or "nothing"
    return text if len(text) <= _MOST_VALUE else f"{text[:_MOST_VALUE]}..."
