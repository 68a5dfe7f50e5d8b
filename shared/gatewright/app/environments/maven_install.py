"""The artifacts of a Maven project: those that the POMs of the baseline name, in a local repository for an offline mvn.

1. mvn gets the POMs and no other file of the repository  2. a POM whose build loads code into Maven itself (an extension, a
dependency of the plugin that resolves) is refused, unless sources may be built: of its plugins, the pull runs only
``maven-dependency-plugin``  3. empty artifacts stand for the project's own modules, which no registry has  4. the test runners
that Surefire chooses from the tests' libraries are resolved as well  5. checksums of the registry must match. A POM has no
digests, so that a registry decides what a version is.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import posixpath
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element, tostring
from xml.sax.saxutils import escape

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.plan import EnvironmentPlan, Installer, Made
from gatewright.app.environments.pull import PullPhase, pull_phase
from gatewright.app.environments.registries import java_registries
from gatewright.app.environments.tool import read_file, write_files
from gatewright.ecosystems.port import TreeFiles
from gatewright.egress.allowed import MavenAddresses
from gatewright.foreign_documents import UnreadableDocumentError, read_xml
from gatewright.patterns import TextPattern
from gatewright.sandbox.programs import find_program

_POM: Final = "pom.xml"
_VERSION: Final = 1
_MOST_FILES: Final = 2000
#: Maven ends before the optimizing compiler of Java has paid for itself.
_VARIABLES: Final = {"MAVEN_SKIP_RC": "1", "JDK_JAVA_OPTIONS": "-XX:+IgnoreUnrecognizedVMOptions -XX:TieredStopAtLevel=1"}
_RESOLVER: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.5.0"
#: Quiet, without questions, strict about checksums; of the usual plugins those that no test needs are left out.
_OPTIONS: Final = ("-q", "-B", "-C", "-DexcludeArtifactIds=maven-install-plugin,maven-deploy-plugin,maven-site-plugin")
_PLATFORM: Final = "org/junit/platform/junit-platform-commons"
#: The runner that Surefire adds for each library of tests.
_RUNNERS: Final = {"junit/junit": "junit4", _PLATFORM: "junit-platform", "org/testng/testng": "testng"}
#: Parts of the addresses of what the pull adds.
_KNOWN: Final = f"{_RESOLVER} {' '.join(_RUNNERS.values())} surefire- junit-platform-launcher".encode()
_PLAIN: Final = TextPattern(r"[A-Za-z0-9_-]+(?:[.:][A-Za-z0-9_-]+)*")
_ADVICE: Final = "set GATEWRIGHT_SOURCE_BUILDS=true to run it in the box, or give a local repository with --env DIR"
#: Group, name and version.
_Artifact = tuple[str, ...]
_Files = Mapping[str, bytes]


async def maven_plans(tree: TreeFiles, installer: Installer, *, named: bool) -> tuple[EnvironmentPlan, ...]:
    """Return the plan; none without a POM, or without Maven unless a command is ``named`` mvn. Raises NotPreparedError."""
    mvn = find_program("mvn", None)
    if _POM not in tree.paths or (mvn is None and not named):
        return ()
    contents = await pom_files(tree)
    if mvn is None or len(contents) > _MOST_FILES:
        raise NotPreparedError(f"pom.xml needs Maven in the system, and at most {_MOST_FILES} modules: install maven")
    poms = {path: _parse(path, content) for path, content in contents.items()}
    properties = {each.tag: _text(each) for each in poms[_POM].iterfind("properties/*")}
    parents = {each for pom in poms.values() for each in _parents(pom, properties)}
    modules = {path: _artifact(pom, properties, next(_parents(pom), ("", "", ""))) for path, pom in poms.items()}
    files = {path: tostring(pom) for path, pom in poms.items()}
    for path, pom in poms.items():
        _check_code(path, pom, installer)  # 2
    home = (await asyncio.to_thread(mvn.resolve)).parent.parent
    facts = (_VERSION, *((jar.name, jar.stat().st_size) for jar in home.glob("lib/maven-core*.jar")))
    parents -= {*modules.values()}
    stubs = dict(_stubs(modules, files))
    make = partial(_make, home=home, files=files, stubs=stubs, parents=sorted(parents), installer=installer)
    digests = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    return (EnvironmentPlan("java", digests, facts, "versions of the POMs", make),)


async def pom_files(tree: TreeFiles) -> _Files:
    """Return the POM and those of its modules, one more than permitted at most. Raises NotPreparedError."""
    listed = [path for path in tree.paths if posixpath.basename(path) == _POM and "src" not in path.split("/")]
    listed.sort(key=lambda each: (each != _POM, each))
    return {path: await read_file(tree, path) for path in listed[: _MOST_FILES + 1] if _POM in tree.paths}


async def _make(
    prefix: Path, *, home: Path, files: _Files, stubs: _Files, parents: Iterable[_Artifact], installer: Installer
) -> Made:
    registries, settings = java_registries(installer)
    repository = prefix / "repository"
    known = partial(MavenAddresses, named=(*files.values(), _KNOWN, *_own_files(home)))
    async with pull_phase(prefix, installer, registries, known) as phase:
        listed = phase.scratch / "resolved"
        own = {listed.name: b"", "settings.xml": settings, **{f"project/{path}": content for path, content in files.items()}}
        await asyncio.to_thread(write_files, phase.scratch, own)
        resolve = partial(_resolve, phase, str(home / "bin/mvn"), repository)
        for each in parents:
            await resolve("get", f"-Dartifact={_coordinates(each)}:pom")
        await asyncio.to_thread(_check_parents, repository, parents, installer)  # 2
        await asyncio.to_thread(write_files, repository, stubs)  # 3
        goals = ("resolve", f"-DoutputFile={listed}", "-DappendOutput=true", f"{_RESOLVER}:resolve-plugins")
        await resolve(*goals, folder=phase.scratch / "project")  # 1
        for each in await asyncio.to_thread(_runners, repository, listed, len(files)):
            await resolve("get", f"-Dartifact={_coordinates(each)}")  # 4
        summary = phase.summary()
    listing = await asyncio.to_thread(_finish, prefix, repository, stubs, home)
    return Made("maven", {}, {"artifacts": listing}, summary)


async def _resolve(phase: PullPhase, mvn: str, repository: Path, goal: str, *more: str, folder: Path | None = None) -> None:
    settings = str(phase.scratch / "settings.xml")
    argv = (mvn, *_OPTIONS, "-gs", settings, "-s", settings, f"-Dmaven.repo.local={repository}", f"{_RESOLVER}:{goal}", *more)
    try:
        await phase.run(argv, folder=folder, variables=_VARIABLES, reason_first=True)
    except NotPreparedError as error:
        raise NotPreparedError(f"{_POM}: {error.message}", code=error.reason) from error


def _parse(path: str, content: bytes) -> Element:
    """Return a POM without name spaces and comments: what is checked here is what mvn reads."""
    try:
        pom = read_xml(content)
        for each in pom.iter():
            each.tag = each.tag.rpartition("}")[2]
        pom.attrib.clear()
        tostring(pom)
    except (UnreadableDocumentError, RecursionError) as error:
        raise NotPreparedError(f"{path} is no POM that can be read: {error}") from error
    return pom


def _text(element: Element | None) -> str:
    return "" if element is None else "".join(element.itertext()).strip()


def _check_code(path: str, pom: Element, installer: Installer) -> None:
    """Refuse what makes Maven load code before it runs a plugin that was named."""
    loaded = [each for each in pom.iter("extensions") if len(each) or _text(each) not in {"", "false"}]
    for plugin in pom.iter("plugin"):
        name = _text(plugin.find("artifactId"))
        loaded += plugin.findall("dependencies") if "${" in name or name in _RESOLVER else []
    if loaded and not installer.source_builds:
        raise NotPreparedError(f"{path}: <{loaded[0].tag}> loads code of a package into Maven; {_ADVICE}")


def _check_parents(repository: Path, parents: Iterable[_Artifact], installer: Installer) -> None:
    """Refuse such code in the POMs of the registry that the project's POMs inherit from."""
    seen, waiting = set(parents), list(parents)
    while waiting:
        path = _path(waiting.pop())
        try:
            pom = _parse(path, (repository / f"{path}.pom").read_bytes())
        except OSError as error:
            raise NotPreparedError(f"{path}.pom, from which a POM inherits, was not installed; {_ADVICE}") from error
        _check_code(path, pom, installer)
        waiting += {*_parents(pom)} - seen
        seen |= {*waiting}


def _parents(pom: Element, properties: Mapping[str, str] | None = None) -> Iterator[_Artifact]:
    yield from (_artifact(parent, properties or {}) for parent in pom.findall("parent"))


def _artifact(element: Element, properties: Mapping[str, str], inherited: Sequence[str] = ("", "", "")) -> _Artifact:
    """Return the artifact that an element names, and write it there as plain text, without ``properties`` of the top POM."""
    found = []
    for key, other in zip(("groupId", "artifactId", "version"), inherited, strict=True):
        part = element.find(key)
        value = _text(part)
        for name, text in properties.items():
            value = value.replace(f"${{{name}}}", text)
        if part is not None:
            part.text = value
        found.append(value or other)
    return tuple(found)


def _coordinates(artifact: _Artifact) -> str:
    """Return the artifact as one argument of Maven. Raises NotPreparedError for unusual text."""
    text = ":".join(artifact)
    if _PLAIN.fullmatch(text) is None:
        raise NotPreparedError(f"a POM names {text[:200]!r}: write group, name and version as plain text")
    return text


def _path(artifact: _Artifact) -> str:
    """Return the path of its files in a repository, without the suffix. Raises as ``_coordinates`` does."""
    _coordinates(artifact)
    group, name, version = artifact
    return f"{group.replace('.', '/')}/{name}/{version}/{name}-{version}"


def _stubs(modules: Mapping[str, _Artifact], files: _Files) -> Iterator[tuple[str, bytes]]:
    """Yield the files of empty artifacts by their paths in the repository."""
    zipfile.ZipFile(empty := io.BytesIO(), "w").close()
    for path, each in modules.items():
        yield f"{_path(each)}.pom", files[path]
        yield from ((f"{_path(each)}{end}", empty.getvalue()) for end in (".jar", "-tests.jar", ".war"))


def _runners(repository: Path, listed: Path, modules: int) -> Sequence[_Artifact]:
    """Return the runners of the libraries in the repository. Plugins bring JUnit 4 too: the project's list has to name it."""
    text = listed.read_bytes()
    elsewhere = text.count(b"files have been resolved:") != modules  # a POM can configure another file for its list
    unneeded = "" if elsewhere or b"\n   junit:junit:" in text else "junit4"

    def versions(place: str) -> list[str]:
        return sorted({each.parent.name for each in (repository / place).glob("*/*.jar")})

    wanted = [("org.junit.platform", "junit-platform-launcher", each) for each in versions(_PLATFORM)]
    runners = [runner for library, runner in _RUNNERS.items() if runner != unneeded and versions(library)]
    for each in versions("org/apache/maven/surefire/surefire-api"):
        wanted += (("org.apache.maven.surefire", f"surefire-{runner}", each) for runner in runners)
    return wanted


def _own_files(home: Path) -> Iterator[bytes]:
    """Yield the files of Maven itself that name the plugins of the usual lifecycles."""
    for jar in (*home.glob("lib/maven-core*.jar"), *home.glob("lib/maven-model*.jar")):
        with zipfile.ZipFile(jar) as archive:
            yield from (archive.read(name) for name in archive.namelist() if name.endswith(".xml"))


def _finish(prefix: Path, repository: Path, stubs: Iterable[str], home: Path) -> str:
    """Make the repository one that belongs to no registry, configure Maven for it, and return the digest of its files."""
    (prefix / "maven").mkdir()
    (prefix / "maven/logging").symlink_to(home / "conf/logging")
    local = f"<localRepository>{escape(str(repository))}</localRepository>"
    (prefix / "maven/settings.xml").write_text(f"<settings>{local}<offline>true</offline></settings>\n", "utf-8")
    lines, removed = [], {repository / path for path in stubs}
    for place in (Path(folder, name) for folder, _, names in os.walk(repository) for name in names):
        if place in removed or place.name.startswith(("_remote.", "resolver-status.")) or place.suffix == ".lastUpdated":
            place.unlink()
        elif not place.is_symlink():
            lines.append(f"{place.relative_to(repository)} {hashlib.sha256(place.read_bytes()).hexdigest()}\n")
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
