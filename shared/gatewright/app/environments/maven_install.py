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
from typing import Final, NamedTuple
from xml.etree.ElementTree import Element, tostring

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.plan import EnvironmentPlan, Installer, Made
from gatewright.app.environments.pull import PullPhase, pull_phase
from gatewright.app.environments.registries import java_registries
from gatewright.app.environments.tool import write_files
from gatewright.ecosystems.port import TreeFiles
from gatewright.egress.allowed import MavenAddresses
from gatewright.foreign_documents import UnreadableDocumentError, read_xml
from gatewright.patterns import TextPattern
from gatewright.sandbox.programs import find_program

_POM: Final = "pom.xml"
_VERSION: Final = 1
_MOST_FILES: Final = 2000
_RESOLVER: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.5.0"
#: Quiet, without questions, strict about checksums; of the usual plugins those that no test needs are left out.
_OPTIONS: Final = ("-q", "-B", "-C", "-DexcludeArtifactIds=maven-install-plugin,maven-deploy-plugin,maven-site-plugin")
_PLATFORM: Final = "org/junit/platform/junit-platform-commons"
#: The runner that Surefire adds for each library of tests.
_RUNNERS: Final = {"junit/junit": "junit4", _PLATFORM: "junit-platform", "org/testng/testng": "testng"}
_PARTS: Final = ("groupId", "artifactId", "version")
_PLAIN: Final = TextPattern(r"[A-Za-z0-9_-]+(?:[.:][A-Za-z0-9_-]+)*")
#: Parts of the addresses of what the pull adds.
_KNOWN: Final = f"{_RESOLVER} {' '.join(_RUNNERS.values())} surefire- junit-platform-launcher".encode()
_OURS: Final = (
    "<project><modelVersion>4.0.0</modelVersion><groupId>gatewright</groupId><artifactId>{}</artifactId><version>1</version>"
    "<packaging>pom</packaging>{}</project>"
)
_NEEDS: Final = (
    "<dependencies><dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version><type>{}</type>"
    "</dependency></dependencies>"
)
_ADVICE: Final = "set GATEWRIGHT_SOURCE_BUILDS=true to run it in the box, or give a local repository with --env DIR"


_Files = Mapping[str, bytes]


class _Artifact(NamedTuple):
    group: str
    name: str
    version: str

    @property
    def path(self) -> str:
        """Return the path of its files in a repository, without the suffix. Raises NotPreparedError for unusual text."""
        if _PLAIN.fullmatch(":".join(self)) is None:
            raise NotPreparedError(f"a POM names {':'.join(self)[:200]!r}: write group, name and version as plain text")
        return f"{self.group.replace('.', '/')}/{self.name}/{self.version}/{self.name}-{self.version}"


async def maven_plans(tree: TreeFiles, installer: Installer, *, named: bool) -> tuple[EnvironmentPlan, ...]:
    """Return the plan; none without a POM, or without Maven unless a command is ``named`` mvn. Raises NotPreparedError."""
    mvn = find_program("mvn", None)
    if _POM not in tree.paths or (mvn is None and not named):
        return ()
    listed = [path for path in tree.paths if posixpath.basename(path) == _POM and "src" not in path.split("/")]
    if mvn is None or len(listed) > _MOST_FILES:
        raise NotPreparedError(f"pom.xml needs Maven in the system, and at most {_MOST_FILES} modules: install maven")
    poms = {path: _parse(path, await tree.read(path)) for path in sorted(listed, key=lambda each: (each != _POM, each))}
    properties = {each.tag: _text(each) for each in poms[_POM].iterfind("properties/*")}
    parents = {each for pom in poms.values() for each in _parents(pom, properties)}
    modules = {path: _artifact(pom, properties, next(_parents(pom), ("", "", ""))) for path, pom in poms.items()}
    files = {path: tostring(pom) for path, pom in poms.items()}
    for path, pom in poms.items():
        _check_code(path, pom, installer)  # 2
    home = await asyncio.to_thread(lambda: mvn.resolve().parent.parent)
    facts = (_VERSION, *((jar.name, jar.stat().st_size) for jar in home.glob("lib/maven-core*.jar")))
    make = partial(_make, mvn=(mvn, home), files=files, modules=modules, above=parents, installer=installer)
    digests = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    return (EnvironmentPlan("java", digests, facts, "versions of the POMs", make),)


async def _make(
    prefix: Path,
    *,
    mvn: tuple[Path, Path],
    files: _Files,
    modules: Mapping[str, _Artifact],
    above: set[_Artifact],
    installer: Installer,
) -> Made:
    registries, settings = java_registries(installer)
    repository, parents, stubs = prefix / "repository", above - {*modules.values()}, dict(_stubs(modules, files))
    known = partial(MavenAddresses, named=(*files.values(), _KNOWN, *_own_files(mvn[1])))
    async with pull_phase(prefix, installer, registries, known) as phase:
        (phase.scratch / "settings.xml").write_bytes(settings)
        resolve = partial(_resolve, phase, str(mvn[0]), repository)
        await resolve("parents", _poms(parents, "pom"))
        await asyncio.to_thread(_check_parents, repository, parents, installer)  # 2
        await asyncio.to_thread(write_files, repository, stubs)  # 3
        await resolve("project", files, f"{_RESOLVER}:resolve-plugins")  # 1
        await resolve("runners", _runner_poms(repository))  # 4
        summary = phase.summary()
    listing = await asyncio.to_thread(_finish, prefix, repository, stubs, mvn[1])
    return Made("maven", {}, {"artifacts": listing}, summary)


async def _resolve(phase: PullPhase, mvn: str, repository: Path, name: str, files: _Files, *goals: str) -> None:
    """Resolve what the POMs name, if there are any. Raises NotPreparedError."""
    if not files:
        return
    folder, settings = phase.scratch / name, str(phase.scratch / "settings.xml")
    folder.mkdir()  # it is new, and no link
    await asyncio.to_thread(write_files, folder, files)
    argv = (mvn, *_OPTIONS, "-gs", settings, "-s", settings, f"-Dmaven.repo.local={repository}", f"{_RESOLVER}:resolve", *goals)
    try:
        await phase.run(argv, folder=folder, variables={"MAVEN_SKIP_RC": "1"}, reason_first=True)
    except NotPreparedError as error:
        raise NotPreparedError(f"{_POM}: {error.message}", code=error.reason) from error


def _parse(path: str, content: bytes | None) -> Element:
    """Return a POM without name spaces and comments: what is checked here is what mvn reads."""
    try:
        pom = read_xml(content or b"")
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
        path = waiting.pop().path
        pom = _parse(path, (repository / f"{path}.pom").read_bytes())
        _check_code(path, pom, installer)
        waiting += {*_parents(pom)} - seen
        seen |= {*waiting}


def _parents(pom: Element, properties: Mapping[str, str] | None = None) -> Iterator[_Artifact]:
    if (parent := pom.find("parent")) is not None:
        yield _artifact(parent, properties or {})


def _artifact(element: Element, properties: Mapping[str, str], inherited: Sequence[str] = ("", "", "")) -> _Artifact:
    """Return the artifact that an element names, and write it there as plain text, without ``properties`` of the top POM."""
    found = []
    for key, other in zip(_PARTS, inherited, strict=True):
        part = element.find(key)
        value = _text(part)
        for name, text in properties.items():
            value = value.replace(f"${{{name}}}", text)
        if part is not None:
            part.text = value
        found.append(value or other)
    return _Artifact(*found)


def _stubs(modules: Mapping[str, _Artifact], files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield the files of empty artifacts by their paths in the repository."""
    zipfile.ZipFile(empty := io.BytesIO(), "w").close()
    for path, each in modules.items():
        yield f"{each.path}.pom", files[path]
        yield from ((f"{each.path}{end}", empty.getvalue()) for end in (".jar", "-tests.jar", ".war"))


def _poms(artifacts: Iterable[_Artifact], kind: str = "jar") -> _Files:
    """Return a POM of ours for each artifact, so that it is resolved alone, and the POM of which they are modules."""
    modules = {f"m{n}": _NEEDS.format(*each, kind) for n, each in enumerate(artifacts) if each.path}
    top = {"top": f"<modules>{''.join(f'<module>{name}</module>' for name in modules)}</modules>"} if modules else {}
    return {
        f"{name}/{_POM}".removeprefix("top/"): _OURS.format(name, inside).encode()
        for name, inside in {**top, **modules}.items()
    }


def _runner_poms(repository: Path) -> _Files:
    """Return POMs for the runners of the libraries in the repository."""

    def versions(place: str) -> set[str]:
        return {each.parent.name for each in (repository / place).glob("*/*.jar")}

    wanted = [_Artifact("org.junit.platform", "junit-platform-launcher", each) for each in versions(_PLATFORM)]
    surefire = versions("org/apache/maven/surefire/surefire-api")
    for runner in (runner for library, runner in _RUNNERS.items() if versions(library)):
        wanted += (_Artifact("org.apache.maven.surefire", f"surefire-{runner}", each) for each in surefire)
    return _poms(wanted)


def _own_files(home: Path) -> Iterator[bytes]:
    """Yield the files of Maven itself that name the plugins of the usual lifecycles."""
    for jar in home.glob("lib/maven-[cm]o[rd]e*.jar"):
        with zipfile.ZipFile(jar) as archive:
            yield from (archive.read(name) for name in archive.namelist() if name.endswith(".xml"))


def _finish(prefix: Path, repository: Path, stubs: Iterable[str], home: Path) -> str:
    """Make the repository one that belongs to no registry, configure Maven for it, and return the digest of its files."""
    (prefix / "maven").mkdir()
    lines, removed = [], {repository / path for path in stubs}
    for place in (Path(folder, name) for folder, _, names in os.walk(repository) for name in names):
        if place in removed or place.name.startswith(("_remote.", "resolver-status.")) or place.suffix == ".lastUpdated":
            place.unlink()
        elif not place.is_symlink():
            lines.append(f"{place.relative_to(repository)} {hashlib.sha256(place.read_bytes()).hexdigest()}\n")
    settings = f"<settings><localRepository>{repository}</localRepository><offline>true</offline></settings>\n"
    logging = "logging/simplelogger.properties"
    shown = {logging: (home / "conf" / logging).read_bytes()} if (home / "conf" / logging).is_file() else {}
    write_files(prefix / "maven", {"settings.xml": settings.encode(), **shown})
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
