"""Manifests, lock files and settings of Python. Pure; the input is hostile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from gatewright.ecosystems.dependencies.facts import Facts, Kind, Package, Source, host_of, in_words, package_of
from gatewright.ecosystems.python.project_settings import read_cfg
from gatewright.ecosystems.runner.settings import UnreadableError, read_json
from gatewright.foreign_documents import UnreadableDocumentError, read_toml, table_of
from gatewright.patterns import BytesPattern, TextPattern

#: Bytes of a TOML file.
_MOST_TOML: Final = 512 << 10
#: Lines of a file of requirements.
_MOST_LINES: Final = 100_000
_NAME: Final = TextPattern(r"^\s*(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[^\]]{0,200}\])?)\s*(?P<given>[^;]*)(?:;.*)?$")


def toml(content: bytes) -> dict[str, Any]:
    """The document of a TOML file. Raises UnreadableError."""
    try:
        return read_toml(content, _MOST_TOML)
    except UnreadableDocumentError:
        raise UnreadableError("it is no TOML, or too large") from None


def requirement(facts: Facts, text: str) -> None:
    """A line such as ``name[extra]>=1``, ``name @ git+https://...`` or an address."""
    words = text.split(" #", maxsplit=1)[0].strip()
    named = _NAME.fullmatch(words)
    if named is None or (package_of(words).source is not Source.REGISTRY and " @ " not in words and "@" not in words[:80]):
        name = words.partition("#egg=")[2].partition("&")[0] or words
        facts.packages[name] = package_of(words)
        return
    given = named.get("given", "").strip()
    facts.packages[_normal(named["name"])] = package_of(
        f"{named['name']} @ {given[1:].strip()}" if given.startswith("@") else given
    )


def _normal(name: str) -> str:
    return name.partition("[")[0].lower().replace("_", "-").replace(".", "-")


def _each(value: object) -> Iterator[str]:
    if isinstance(value, list):
        yield from (each for each in value if isinstance(each, str))


def pyproject(content: bytes) -> Facts:
    """``pyproject.toml`` of the usual tools."""
    document, facts = toml(content), Facts()
    project, tool = table_of(document.get("project")), table_of(document.get("tool"))
    groups = [project.get("dependencies"), *table_of(project.get("optional-dependencies")).values()]
    groups += table_of(document.get("dependency-groups")).values()
    for text in (text for group in groups for text in _each(group)):
        requirement(facts, text)
    build = table_of(document.get("build-system"))
    for key in ("build-backend", "backend-path", "requires"):
        facts.record(Kind.BACKEND, f"build-system.{key}", build.get(key))
    for scripts in (project.get("scripts"), project.get("gui-scripts"), table_of(tool.get("poetry")).get("scripts")):
        for name, place in table_of(scripts).items():
            facts.record(Kind.PROGRAM, name, place)
    for group_name, points in table_of(project.get("entry-points")).items():
        kind = Kind.PROGRAM if group_name in {"console_scripts", "gui_scripts"} else Kind.ENTRY
        for name, place in table_of(points).items():
            facts.record(kind, name if kind is Kind.PROGRAM else f"entry-points.{group_name}.{name}", place)
    _sources(facts, tool)
    _build_hooks(facts, tool)
    return facts


def _sources(facts: Facts, tool: dict[str, Any]) -> None:
    """Record the packages and indexes in the tables of poetry, uv and pdm."""
    poetry, uv, pdm = (table_of(tool.get(name)) for name in ("poetry", "uv", "pdm"))
    places = [poetry, *table_of(poetry.get("group")).values()]
    packages = [table_of(table_of(place).get(key)) for place in places for key in ("dependencies", "dev-dependencies")]
    for some in (*packages, table_of(uv.get("sources"))):
        for name, given in some.items():
            facts.package(_normal(name), given)
    for name, sources in (
        ("poetry.source", poetry.get("source")),
        ("uv.index", uv.get("index")),
        ("pdm.source", pdm.get("source")),
    ):
        for number, given in enumerate(_tables(sources)):
            facts.record(Kind.INDEX, f"tool.{name}.{given.get('name', number)}", given.get("url"))
    for key in ("index-url", "extra-index-url", "find-links", "index-strategy", "no-index", "allow-insecure-host"):
        facts.record(Kind.INDEX, f"tool.uv.{key}", uv.get(key))
    for key in ("override-dependencies", "constraint-dependencies", "build-constraint-dependencies"):
        facts.record(Kind.OVERRIDE, f"tool.uv.{key}", uv.get(key))
    facts.tables(Kind.OVERRIDE, "tool.pdm.resolution", pdm.get("resolution"))


def _build_hooks(facts: Facts, tool: dict[str, Any]) -> None:
    """Record what runs when a package is built, and its source folders."""
    poetry, pdm, hatch, setuptools = (table_of(tool.get(name)) for name in ("poetry", "pdm", "hatch", "setuptools"))
    facts.record(Kind.BACKEND, "tool.poetry.build", poetry.get("build"))
    facts.tables(Kind.BACKEND, "tool.pdm.build", pdm.get("build"))
    facts.tables(Kind.BACKEND, "tool.hatch.build.hooks", table_of(hatch.get("build")).get("hooks"))
    facts.tables(Kind.BACKEND, "tool.hatch.metadata.hooks", table_of(hatch.get("metadata")).get("hooks"))
    facts.tables(Kind.BACKEND, "tool.setuptools.cmdclass", setuptools.get("cmdclass"))
    for name, place in table_of(setuptools.get("package-dir")).items():
        facts.record(Kind.ENTRY, f"tool.setuptools.package-dir.{name or 'top'}", place)


def _tables(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


_OPTIONS: Final = {
    "-i": "index-url",
    "--index-url": "index-url",
    "--extra-index-url": "extra-index-url",
    "-f": "find-links",
    "--find-links": "find-links",
    "--trusted-host": "trusted-host",
    "--no-index": "no-index",
    "--pre": "pre",
}


def _lines_of(content: bytes) -> list[str]:
    if content.count(b"\n") > _MOST_LINES:
        raise UnreadableError("it has too many lines")
    return content.decode("utf-8", "replace").split("\n")


def requirements(content: bytes) -> Facts:
    """``requirements.txt`` and its kind."""
    facts = Facts()
    for line in _lines_of(content.replace(b"\\\n", b" ")):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        option, _, value = text.replace("=", " ", 1).partition(" ") if text.startswith("-") else ("", "", "")
        if option in _OPTIONS:
            facts.record(Kind.INDEX, f"{_OPTIONS[option]} {value.strip()}", "set")
        elif option in {"-e", "--editable"}:
            place = text.partition(" ")[2].strip() or value
            name = place.partition("#egg=")[2] or place
            found = package_of(place)
            facts.packages[name] = found if found.source is not Source.REGISTRY else Package("", Source.PATH, place)
        elif option in {"-r", "-c", "--requirement", "--constraint"}:
            facts.packages[text] = Package("", Source.PATH, value.strip())
        elif not text.startswith("-"):
            requirement(facts, text.partition(" --hash")[0])
    return facts


def setup_cfg(content: bytes) -> Facts:
    """``setup.cfg``."""
    facts = Facts()
    for (section, key), lines in read_cfg(content).items():
        listed = section == "options" and key in {"install_requires", "setup_requires", "tests_require"}
        if listed or section == "options.extras_require":
            for line in lines:
                requirement(facts, line)
        elif section == "options" and key in {"dependency_links", "cmdclass"}:
            facts.record(Kind.INDEX if key == "dependency_links" else Kind.BACKEND, key, list(lines))
        elif section == "options.entry_points":
            for line in lines:
                name, _, place = line.partition("=")
                kind = Kind.PROGRAM if key in {"console_scripts", "gui_scripts"} else Kind.ENTRY
                facts.record(kind, name.strip() if kind is Kind.PROGRAM else f"{key}.{name.strip()}", place.strip())
        elif section == "options" and key == "package_dir":
            facts.record(Kind.ENTRY, "package_dir", list(lines))
        elif section in {"easy_install", "build_ext", "sdist", "install", "develop"}:
            facts.record(Kind.INDEX if "index" in key or "links" in key else Kind.BACKEND, f"{section}.{key}", list(lines))
    return facts


_SETUP_PROGRAMS: Final = BytesPattern(rb"""["']([\w.-]{1,100})\s{0,9}=\s{0,9}[\w.]{1,200}\s{0,9}:""")
_SETUP_REQUIREMENTS: Final = BytesPattern(
    rb"""["']([A-Za-z][\w.-]{0,100}(?:\[[\w,]{0,100}\])?\s{0,9}(?:[<>=!~]=?|@)[^"'\n]{1,200})["']"""
)
_SETUP_HOOKS: Final = BytesPattern(
    rb"""\b(cmdclass|ext_modules|setup_requires|dependency_links|package_dir|os\.system|subprocess|exec|eval)\b"""
)


def setup_py(content: bytes) -> Facts:
    """Read the literal text of ``setup.py``; it is a program, and computed values are unknown."""
    facts = Facts()
    for text in _SETUP_REQUIREMENTS.groups(content):
        requirement(facts, text.decode("utf-8", "replace"))
    for name in _SETUP_PROGRAMS.groups(content):
        facts.record(Kind.PROGRAM, name.decode("utf-8", "replace"), "in setup.py")
    for word in _SETUP_HOOKS.groups(content):
        facts.record(Kind.BACKEND, word.decode(), "in setup.py")
    return facts


def pipfile(content: bytes) -> Facts:
    """``Pipfile``."""
    document, facts = toml(content), Facts()
    for number, given in enumerate(_tables(document.get("source"))):
        facts.record(Kind.INDEX, f"source.{given.get('name', number)}", given.get("url"))
    for key, group in document.items():
        if key not in {"source", "requires", "scripts", "pipenv"}:
            for name, given in table_of(group).items():
                facts.package(_normal(name), given)
    return facts


def pipfile_lock(content: bytes) -> Facts:
    """``Pipfile.lock``."""
    document, facts = read_json(content), Facts()
    for given in _tables(table_of(document.get("_meta")).get("sources")):
        facts.record(Kind.INDEX, f"source.{given.get('name')}", given.get("url"))
    for group, packages in document.items():
        for name, given in table_of(packages).items() if group != "_meta" else ():
            if isinstance(given, dict):
                known = {key: value for key, value in given.items() if key != "index"}
                facts.packages[name] = package_of(known)
    return facts


def index_settings(content: bytes) -> Facts:
    """``pip.conf``, ``pip.ini``: where packages are looked up."""
    facts = Facts()
    for line in content.decode("utf-8", "replace").split("\n"):
        key, equals, value = (part.strip() for part in line.partition("="))
        small = key.casefold()
        if equals and any(
            each in small for each in ("index", "links", "trusted", "proxy", "cert", "pre", "target", "prefix", "binary")
        ):
            facts.record(Kind.INDEX, key, value)
    return facts


def uv_settings(content: bytes) -> Facts:
    """``uv.toml`` and ``poetry.toml``."""
    facts = Facts()
    for name, value in toml(content).items():
        if any(each in name for each in ("index", "links", "host", "sources", "repositories", "installer", "certificates")):
            facts.tables(Kind.INDEX, name, value if isinstance(value, dict) else in_words(value))
        elif name.endswith("dependencies"):
            facts.record(Kind.OVERRIDE, name, value)
    return facts


def conda_environment(content: bytes) -> Facts:
    """``environment.yml``: channels and packages."""
    facts, section = Facts(), ""
    for line in _lines_of(content):
        if line and not line.startswith((" ", "#", "-")):
            section = line.partition(":")[0]
        text = line.strip()
        if text.startswith("- ") and section == "channels":
            facts.record(Kind.INDEX, f"channel {text[2:].strip()}", "used")
        elif text.startswith("- ") and section == "dependencies" and not text.endswith(":"):
            requirement(facts, text[2:].strip().replace("=", "==", 1) if "==" not in text else text[2:].strip())
    return facts


def toml_lock(usual: str) -> Callable[[bytes], Facts]:
    """``Cargo.lock``, ``uv.lock``, ``poetry.lock``, ``pdm.lock``, ``pylock.toml``: written by programs, a line for each value.

    ``usual`` is the host of what names no source.
    """

    def read(content: bytes) -> Facts:
        facts = Facts()
        found: dict[str, str] = {}
        within = False
        for line in [*content.decode("utf-8", "replace").split("\n"), "[end]"]:
            if line.startswith("["):
                kept = within and line.startswith(
                    ("[package.source]", "[packages.vcs]", "[packages.archive]", "[packages.directory]")
                )
                if not kept and found.get("name"):
                    _add_locked(facts, found, usual)
                found = found if kept else {}
                within = line.startswith(("[[package]]", "[[packages]]")) or kept
                if kept:
                    found["table"] = line.strip("[]").rpartition(".")[2]
            elif within and " = " in line:
                key, _, value = line.partition(" = ")
                # Within a table of the source, ``type`` and ``url`` do not hide the version.
                found.setdefault(key.strip() if "table" not in found else f"source.{key.strip()}", value.strip())
        return facts

    return read


_SOURCES: Final = (
    ("git", Source.GIT),
    ("url", Source.URL),
    ("directory", Source.PATH),
    ("path", Source.PATH),
    ("editable", Source.PATH),
    ("virtual", Source.PATH),
)
_IN_TABLE: Final = TextPattern(r'\{\s*(?P<key>\w+)\s*=\s*"(?P<value>[^"]*)".*\}')


def _add_locked(facts: Facts, found: dict[str, str], usual: str) -> None:
    name, version = found["name"].strip('"'), found.get("version", "").strip('"')
    key = f"{name} {version}" if name in facts.packages else name
    given = _IN_TABLE.fullmatch(found.get("source", ""))
    plain = found.get("source", "").strip('"')
    kind, address = "", ""
    if given is not None:
        kind, address = given["key"], given["value"]
    elif plain:
        kind, _, address = plain.partition("+")
    elif "source.url" in found or "source.path" in found:
        address = found.get("source.url", found.get("source.path", "")).strip('"')
        kind = {"vcs": "git", "archive": "url"}.get(found["table"], found.get("source.type", found["table"]).strip('"'))
        kind = "registry" if kind == "legacy" else kind
    for word in ("git", "url", "path"):
        if not kind and word in found:  # pdm
            kind, address = word, found[word].strip('"')
    source = next((each for known, each in _SOURCES if known == kind), Source.REGISTRY)
    place = host_of(address) if source is Source.REGISTRY and address else address
    facts.packages[key] = Package(version, source, place or (usual if source is Source.REGISTRY else ""))
