"""The packages that a Python project needs for its tests, read from the files of a commit, by rules. Pure over the tree.

1. ``poetry.lock``, with its digests  2. the usual requirement files for development 3. the project's declarations:
dependencies, extras and groups for tests. The project itself is never included.

Without any such file, a command that starts pytest still gets it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.plan import PACKAGES
from gatewright.app.environments.requirements import Requirements, git_source, is_named, normalise_name, read_requirements
from gatewright.app.environments.tool import read_file
from gatewright.ecosystems.port import TreeFiles
from gatewright.ecosystems.python.project_settings import read_cfg, read_toml, read_toml_lock
from gatewright.foreign_documents import table_of

#: Increase this with every change of the result for the same files.
_VERSION = 3
_FILES = (
    "requirements.txt",
    *(f"requirements{dash}{name}.txt" for name in ("dev", "test", "tests", "testing", "ci") for dash in ("-", "_")),
    *(f"{name}{dash}requirements.txt" for name in ("dev", "test", "tests", "testing", "ci") for dash in ("-", "_")),
    *(f"requirements/{name}.txt" for name in ("base", "dev", "development", "test", "tests", "testing", "ci")),
    "tests/requirements.txt",
    "test/requirements.txt",
)
#: Extras and groups that tests need.
_FOR_TESTS = frozenset({"test", "tests", "testing", "dev", "develop", "development", "ci", "pytest", "unittest"})
#: Files that name more than tests need (formatters, documents); used without, where a file for tests alone is there as well.
_MORE_THAN_TESTS = frozenset(path for path in _FILES if "dev" in path)
_UV = "uv.lock"
_POETRY = "poetry.lock"
#: The source if no file has packages.
_COMMANDS = "the commands"


@dataclass(frozen=True, slots=True)
class Recipe:
    """The packages to install. ``sources`` are the digests of the files' packages, the main file first.

    ``locked``: a lock file for ``uv`` to read, empty if ``lines`` are complete. ``fewer``: lines that suffice for tests, in
    case not all can be installed; empty if no file has them. ``building``: the needs of a command that builds the project.
    """

    sources: Mapping[str, str]
    lines: tuple[str, ...]
    constraints: tuple[str, ...]
    notes: tuple[str, ...]
    requires_python: str
    locked: str = ""
    fewer: tuple[str, ...] = ()
    building: tuple[str, ...] = ()

    @property
    def is_lock(self) -> bool:
        """Return whether a lock file is complete."""
        return self.name in {_UV, _POETRY}

    def exported(self, lines: tuple[str, ...]) -> Recipe:
        """Return the recipe with the lines that a tool has read from the lock."""
        return replace(self, lines=lines, sources={f"{_UV}{PACKAGES}": _digest_lines(lines)})

    @property
    def name(self) -> str:
        """Return the main file, for people."""
        return next(iter(self.sources)).removesuffix(PACKAGES)

    @property
    def deciding_facts(self) -> tuple[object, ...]:
        """Return everything that decides what is installed."""
        return (_VERSION, self.lines, self.constraints, self.locked, self.fewer, self.building)


def declares_python(tree: TreeFiles) -> bool:
    """Return whether a file may name packages."""
    return not tree.paths.isdisjoint({_UV, _POETRY, "pyproject.toml", "setup.cfg", *_FILES})


async def python_recipe(tree: TreeFiles, commands: Sequence[str]) -> Recipe:
    """Return the recipe for ``commands`` on ``tree``. Raises NotPreparedError for refused content."""
    pyproject = read_toml(await read_file(tree, "pyproject.toml") if "pyproject.toml" in tree.paths else b"")
    asked = Requirements()
    fewer: tuple[str, ...] = ()
    lock = next((path for path in (_UV, _POETRY) if path in tree.paths), None)
    content = await read_file(tree, lock) if lock is not None else b""
    if lock == _UV:
        asked.by_file[_UV] = ()
    elif lock == _POETRY:
        asked.take(_POETRY, tuple(_poetry_lines(content)))
    else:
        files = [path for path in _FILES if path in tree.paths]
        await _add_requirement_files(tree, files, pyproject, asked)
        fewer = await _for_tests_alone(tree, files, pyproject, commands)
    if lock != _UV and not asked.hashed:
        _add_runner(commands, asked)
    if not asked.by_file:
        asked.by_file[_COMMANDS] = tuple(asked.lines)
        only = ", ".join(asked.lines) or "no package"
        asked.notes.append(f"no file names the packages of the project: only {only} is installed, as a command starts it")
    return Recipe(
        sources={f"{path}{PACKAGES}": _digest_lines(lines) for path, lines in asked.by_file.items()},
        lines=tuple(dict.fromkeys(asked.lines)),
        constraints=tuple(dict.fromkeys(asked.constraints)),
        notes=tuple(asked.notes),
        requires_python=str(table_of(pyproject, "project").get("requires-python", "")),
        locked=_UV if lock == _UV else "",
        fewer=fewer,
        building=_for_building(pyproject, commands),
    )


def _digest_lines(lines: Sequence[str]) -> str:
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def _for_building(pyproject: Mapping[str, Any], commands: Sequence[str]) -> tuple[str, ...]:
    """Return the project's build requirements if a command builds it: locks do not include them."""
    if not any("setup.py" in command.split() for command in commands):
        return ()
    return tuple(line for line in _strings(table_of(pyproject, "build-system").get("requires")) if is_named(line) is not None)


async def _add_requirement_files(
    tree: TreeFiles, files: Sequence[str], pyproject: Mapping[str, Any], asked: Requirements
) -> None:
    """Add the packages of the requirement files, and of the project's declarations unless digests are given."""
    for path in files:
        await read_requirements(tree, path, asked)
    if not asked.hashed:
        await _add_project_tables(tree, pyproject, asked)


async def _for_tests_alone(
    tree: TreeFiles, files: Sequence[str], pyproject: Mapping[str, Any], commands: Sequence[str]
) -> tuple[str, ...]:
    """Return the packages without the files for development; none if no file for tests remains, or nothing changes."""
    left = [path for path in files if path not in _MORE_THAN_TESTS]
    if left == list(files) or not any("test" in path for path in left):
        return ()
    asked = Requirements()
    await _add_requirement_files(tree, left, pyproject, asked)
    if not asked.hashed:
        _add_runner(commands, asked)
    return tuple(dict.fromkeys(asked.lines))


def _add_runner(commands: Sequence[str], asked: Requirements) -> None:
    """pytest where a command starts it and no file asks for it."""
    started = any("pytest" in command.replace("/", " ").split() for command in commands)
    if started and "pytest" not in {is_named(line) for line in asked.lines}:
        asked.lines.append("pytest")


async def _add_project_tables(tree: TreeFiles, pyproject: Mapping[str, Any], asked: Requirements) -> None:
    """Add the packages of the project's own tables, with extras and groups for tests."""
    project = table_of(pyproject, "project")
    found = [*_strings(project.get("dependencies"))]
    extras = {normalise_name(name): [*_strings(lines)] for name, lines in table_of(project, "optional-dependencies").items()}
    found += [line for name, lines in extras.items() if name in _FOR_TESTS for line in lines]
    groups = table_of(pyproject, "dependency-groups")
    found += _lines_of_groups(groups, [name for name in groups if normalise_name(name) in _FOR_TESTS])
    own = normalise_name(str(project.get("name", "")))
    if "pyproject.toml" in tree.paths:
        asked.take("pyproject.toml", tuple(_own_lines(found, extras, own)))
    if "setup.cfg" in tree.paths:
        settings = read_cfg(await read_file(tree, "setup.cfg"))
        found = [*settings.get(("options", "install_requires"), ())]
        for (section, name), lines in settings.items():
            if section == "options.extras_require" and normalise_name(name) in _FOR_TESTS:
                found += lines
        asked.take("setup.cfg", tuple(_own_lines(found, extras, own)))


def _own_lines(found: Sequence[str], extras: Mapping[str, Sequence[str]], own: str) -> Iterator[str]:
    """Yield the lines, with ``pkg[extra]`` of the project ``own`` replaced by the lines of the extra."""
    for line in found:
        asked_for = is_named(line)
        if asked_for is None and git_source(line) is None:
            raise NotPreparedError(f"the project asks for what is not a package of a registry: {line[:100]!r}")
        if asked_for == own:
            wanted = line.partition("[")[2].partition("]")[0].split(",")
            yield from (each for extra in wanted for each in extras.get(normalise_name(extra), ()) if is_named(each) != own)
        else:
            yield line


def _lines_of_groups(groups: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    """PEP 735: the lines of ``names`` and of the groups that they include, each group once."""
    waiting, seen = list(reversed(names)), set(names)
    while waiting:
        lines = groups.get(waiting.pop())
        for each in lines if isinstance(lines, list) else ():
            if isinstance(each, str):
                yield each
            elif isinstance(each, dict) and isinstance(inside := each.get("include-group"), str) and inside not in seen:
                seen.add(inside)
                waiting.append(inside)


def _poetry_lines(content: bytes) -> Iterator[str]:
    """Yield each package with its version and digests, and the markers of the lock."""
    packages = read_toml_lock(content).get("package")
    for package in packages if isinstance(packages, list) else ():
        if not isinstance(package, dict) or package.get("optional") is True:
            continue
        name, version = package.get("name"), package.get("version")
        source, marker = table_of(package, "source"), package.get("markers")
        if source.get("type") == "git":
            line = f"{name} @ git+{source.get('url')}@{source.get('resolved_reference')}"
            line += f" ; {marker}" if isinstance(marker, str) else ""
            if git_source(line) is None:
                raise NotPreparedError(f"{_POETRY}: {name!r} comes from no whole commit of a repository over https")
            yield line
            continue
        if source.get("type") not in (None, "legacy"):
            raise NotPreparedError(f"{_POETRY}: {name} does not come from a registry")
        files = package.get("files")
        digests = [each.get("hash", "") for each in files if isinstance(each, dict)] if isinstance(files, list) else []
        line = f"{name}=={version}" + (f" ; {marker}" if isinstance(marker, str) else "")
        line += "".join(f" --hash={digest}" for digest in digests if isinstance(digest, str) and digest)
        if is_named(line) is None:
            raise NotPreparedError(f"{_POETRY}: {name!r} is not a package of a registry")
        yield line


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, list):
        yield from (each for each in value if isinstance(each, str))
