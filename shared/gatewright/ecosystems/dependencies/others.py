"""Manifests and lock files of Rust, Go, Ruby, PHP, the JVM, .NET, Dart, Elixir, Swift, C and Nix. Pure; the input is hostile.

Files that are programs (``Gemfile``, ``build.gradle``) are read line by line: only literal text is understood.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gatewright.ecosystems.dependencies.facts import Facts, Kind, Package, Source, from_address, in_words, package_of
from gatewright.ecosystems.dependencies.python import toml
from gatewright.ecosystems.runner.settings import read_json
from gatewright.foreign_documents import table_of
from gatewright.patterns import BytesPattern

_CARGO: Final = ("dependencies", "dev-dependencies", "build-dependencies")


def cargo_toml(content: bytes) -> Facts:
    """``Cargo.toml``."""
    document, facts = toml(content), Facts()
    places = [document, table_of(document.get("workspace")), *table_of(document.get("target")).values()]
    for place in places:
        for group in _CARGO:
            for name, given in table_of(table_of(place).get(group)).items():
                facts.package(
                    name,
                    given
                    if isinstance(given, str) or not table_of(given).get("package")
                    else {"path": f"package {given['package']}", **given},
                )
    for source, packages in table_of(document.get("patch")).items():
        for name, given in table_of(packages).items():
            facts.record(Kind.OVERRIDE, f"patch.{source}.{name}", given)
    facts.tables(Kind.OVERRIDE, "replace", document.get("replace"))
    package = table_of(document.get("package"))
    for key in ("build", "links", "proc-macro"):
        facts.record(Kind.SCRIPT, f"package.{key}", package.get(key))
    library = table_of(document.get("lib"))
    facts.record(Kind.SCRIPT, "lib.proc-macro", library.get("proc-macro"))
    facts.record(Kind.ENTRY, "lib.path", library.get("path"))
    for number, target in enumerate(each for each in document.get("bin", ()) if isinstance(each, dict)):
        facts.record(Kind.PROGRAM, in_words(target.get("name", f"bin {number}")), target.get("path", "src"))
    return facts


def cargo_settings(content: bytes) -> Facts:
    """``.cargo/config.toml`` and ``rust-toolchain.toml``."""
    document, facts = toml(content), Facts()
    for key in ("source", "registries", "registry", "net", "http"):
        facts.tables(Kind.INDEX, key, document.get(key))
    facts.tables(Kind.OVERRIDE, "patch", document.get("patch"))
    facts.tables(Kind.BACKEND, "toolchain", document.get("toolchain"))
    return facts


def go_mod(content: bytes) -> Facts:
    """``go.mod`` and ``go.work``."""
    facts, block = Facts(), ""
    for line in content.decode("utf-8", "replace").split("\n"):
        words = line.partition("//")[0].split()
        if not words:
            continue
        if words == [")"]:
            block = ""
        elif words[-1] == "(":
            block = words[0]
        else:
            verb, rest = (block, words) if block else (words[0], words[1:])
            if verb == "require" and len(rest) >= 2:
                facts.packages[rest[0]] = Package(rest[1])
            elif verb in {"replace", "exclude"} and rest:
                facts.record(Kind.OVERRIDE, f"{verb} {rest[0]}", " ".join(rest[1:]) or "all versions")
            elif verb == "tool" and rest:
                facts.record(Kind.PROGRAM, rest[0].rpartition("/")[2], rest[0])
            elif verb in {"toolchain", "go", "godebug"}:
                facts.record(Kind.BACKEND, verb, " ".join(rest))
    return facts


def go_sum(content: bytes) -> Facts:
    """Read ``go.sum``: modules whose content is used, not those with only a used manifest."""
    facts = Facts()
    for line in content.decode("utf-8", "replace").split("\n"):
        words = line.split()
        if len(words) == 3 and not words[1].endswith("/go.mod"):
            facts.packages[f"{words[0]}@{words[1]}"] = Package(words[1])
    return facts


_GEM: Final = BytesPattern(
    rb"""(?m)^\s{0,40}((?:gem|spec\.add_\w{0,30}dependency|\w{1,20}\.add_\w{0,30}dependency)\s{0,9}\(?\s{0,9}["'][^"']{1,100}["'][^\n]*)"""
)
_QUOTED: Final = BytesPattern(rb"""["']([^"']{1,300})["']""")
_GEM_PLACE: Final = BytesPattern(
    rb"""\b((?:git|github|gitlab|path|source|bitbucket|gist)\s{0,9}(?::|=>|\()\s{0,9}["'][^"']{1,300}["'])"""
)
_GEM_LINE: Final = BytesPattern(rb"""(?m)^\s{0,40}((?:source|git_source|plugin|eval_gemfile|git|path)\b[^\n]*)""")
_GEM_PROGRAMS: Final = BytesPattern(rb"(?m)^[^#\n]{0,80}\.(?:executables|extensions|bindir)\s{0,9}(?:=|<<)\s{0,9}([^\n]*)")


def gemfile(content: bytes) -> Facts:
    """``Gemfile`` and ``*.gemspec``, line by line."""
    facts = Facts()
    for line in _GEM.groups(content):
        quoted = [each.decode("utf-8", "replace") for each in _QUOTED.groups(line)]
        place = next(_GEM_PLACE.groups(line), b"").decode("utf-8", "replace")
        version = quoted[1] if len(quoted) > 1 and not place else ""
        kind = place[:8].strip().rstrip(":=>( ")
        source = (
            {"path": Source.PATH, "source": Source.REGISTRY}.get(kind.split(":")[0], Source.GIT) if place else Source.REGISTRY
        )
        facts.packages[quoted[0]] = Package(version, source, place)
    for line in _GEM_LINE.groups(content):
        facts.record(Kind.INDEX, line.decode("utf-8", "replace").strip(), "used")
    for value in _GEM_PROGRAMS.groups(content):
        facts.record(
            Kind.SCRIPT if b"ext" in value else Kind.PROGRAM, value.decode("utf-8", "replace").strip(" []'\""), "of the gem"
        )
    return facts


def gemfile_lock(content: bytes) -> Facts:
    """``Gemfile.lock``."""
    facts, section, remote = Facts(), "", ""
    sources = {"GIT": Source.GIT, "PATH": Source.PATH, "GEM": Source.REGISTRY, "PLUGIN SOURCE": Source.URL}
    for line in content.decode("utf-8", "replace").split("\n"):
        if line and not line.startswith(" "):
            section, remote = line.strip(), ""
        elif line.startswith("  remote: "):
            remote = line.partition(": ")[2].strip()
            if section == "GEM":
                facts.record(Kind.INDEX, f"remote {remote}", "used")
        elif section in sources and line.startswith("    ") and not line.startswith("     ") and "(" in line:
            name, _, version = line.strip().rstrip(")").partition(" (")
            source = sources[section]
            facts.packages[name] = Package(version, source, "" if source is Source.REGISTRY else remote)
    return facts


def composer_json(content: bytes) -> Facts:
    """``composer.json``."""
    document, facts = read_json(content), Facts()
    for group in ("require", "require-dev"):
        for name, given in table_of(document.get(group)).items():
            facts.package(name, given)
    repositories = document.get("repositories")
    listed = {str(n): each for n, each in enumerate(repositories)} if isinstance(repositories, list) else table_of(repositories)
    for name, given in listed.items():
        facts.record(Kind.INDEX, f"repositories.{name}", given)
    for event, command in table_of(document.get("scripts")).items():
        if event.startswith(("pre-", "post-")):
            facts.record(Kind.SCRIPT, f"scripts.{event}", command)
    for key in ("replace", "provide", "conflict"):
        facts.tables(Kind.OVERRIDE, key, document.get(key))
    for key in ("autoload", "autoload-dev"):
        facts.tables(Kind.ENTRY, key, document.get(key))
    facts.tables(Kind.BACKEND, "config.allow-plugins", table_of(document.get("config")).get("allow-plugins"))
    for place in document.get("bin", ()) if isinstance(document.get("bin"), list) else ():
        facts.record(Kind.PROGRAM, in_words(place).rpartition("/")[2], place)
    return facts


def composer_lock(content: bytes) -> Facts:
    """``composer.lock``: what is taken from a forge by its version is usual."""
    document, facts = read_json(content), Facts()
    for group in ("packages", "packages-dev"):
        packages = document.get(group)
        for given in packages if isinstance(packages, list) else ():
            place = table_of(table_of(given).get("dist")) or table_of(table_of(given).get("source"))
            address, version = in_words(place.get("url")), in_words(table_of(given).get("version"))
            if place.get("type") == "path":
                facts.packages[in_words(given.get("name"))] = Package(version, Source.PATH, address)
            elif given:
                named = from_address(version, address)
                usual = "github.com" in named.place[:40] and named.place.startswith(
                    ("api.github.com", "https://github.com", "github.com")
                )
                facts.packages[in_words(given.get("name"))] = Package(version) if usual else named
            if table_of(given).get("type") == "composer-plugin":
                facts.record(Kind.SCRIPT, f"of the plugin {in_words(given.get('name'))}", version)
    return facts


#: One pattern each: a combined pattern would search for an unclosed part repeatedly.
_POM: Final = tuple(
    BytesPattern(b"(?s)<" + name + b">(.*?)</" + name + b">") for name in (b"dependency", b"plugin", b"extension", b"parent")
)
_POM_INDEX: Final = tuple(
    BytesPattern(b"(?s)<" + name + b">(.*?)</" + name + b">") for name in (b"repository", b"pluginRepository", b"mirror")
)
_TAGS: Final = {
    name: BytesPattern(b"<" + name.encode() + rb">\s{0,99}([^<]{0,300})")
    for name in ("groupId", "artifactId", "version", "systemPath")
}
_URL: Final = BytesPattern(rb"<url>\s{0,99}([^<]{0,300})")


def pom(content: bytes) -> Facts:
    """``pom.xml``: coordinates, repositories."""
    facts = Facts()
    for part in (part for pattern in _POM for part in pattern.groups(content)):
        found = {name: next(tag.groups(part), b"").decode("utf-8", "replace").strip() for name, tag in _TAGS.items()}
        source = Source.PATH if found["systemPath"] else Source.REGISTRY
        facts.packages[f"{found['groupId']}:{found['artifactId']}"] = Package(found["version"], source, found["systemPath"])
    for part in (part for pattern in _POM_INDEX for part in pattern.groups(content)):
        for address in _URL.groups(part):
            facts.record(Kind.INDEX, f"repository {address.decode('utf-8', 'replace').strip()}", "used")
    return facts


def _separated_facts(
    packages: BytesPattern, separator: str = ":", index: BytesPattern | None = None, script: BytesPattern | None = None
) -> Callable[[bytes], Facts]:
    """A file of which each package is one string with ``separator`` before the version."""

    def read(content: bytes) -> Facts:
        facts = Facts()
        for each in packages.groups(content):
            text = each.decode("utf-8", "replace").strip()
            name, found, version = text.rpartition(separator)
            if not found or (separator == ":" and text.count(":") == 1):
                name, version = text, ""
            facts.packages[name] = Package(version.strip().strip("\"'"))
        for pattern, kind in ((index, Kind.INDEX), (script, Kind.SCRIPT)):
            for each in pattern.groups(content) if pattern is not None else ():
                facts.record(kind, " ".join(each.decode("utf-8", "replace").split()), "used")
        return facts

    return read


gradle = _separated_facts(
    BytesPattern(rb"""["']([\w.-]{1,100}:[\w.-]{1,100}(?::[\w.$\{\}+\[\],-]{0,100})?)["']"""),
    index=BytesPattern(rb"""(\b(?:maven|ivy|flatDir|url|mavenLocal|includeBuild|uri|setUrl)\b\s{0,9}[({=]?[^\n]{0,200})"""),
    script=BytesPattern(rb"""(?m)^\s{0,40}((?:id\s{0,9}\(?|apply\s{1,9}(?:plugin|from)|buildscript|initscript)[^\n]{0,200})"""),
)
gradle_lockfile = _separated_facts(BytesPattern(rb"(?m)^([\w.-]{1,100}:[\w.-]{1,100}:[^=\s]{1,100})="))
wrapper_properties = _separated_facts(
    BytesPattern(rb"\z(.)"),
    index=BytesPattern(rb"(?m)^((?:distributionUrl|distributionSha256Sum|wrapperUrl|validateDistributionUrl)[^\n]*)"),
)
dotnet_project = _separated_facts(
    BytesPattern(
        rb"""<(?:PackageReference|PackageVersion|GlobalPackageReference|package)\s+(?:Include|Update|id)="([^"]{1,200}"(?:\s+[Vv]ersion="[^"]{0,100})?)"""
    ),
    " ",
    index=BytesPattern(rb"(?i)<((?:Restore\w{0,30}Sources?|NuGetAudit)>[^<]{0,300})"),
    script=BytesPattern(rb"<((?:Target|Exec|Import|UsingTask|Analyzer|Reference)\s[^>\n]{1,200})"),
)
nuget_settings = _separated_facts(
    BytesPattern(rb"\z(.)"), index=BytesPattern(rb"(<(?:add|clear|remove|packageSource)[^>\n]{0,300}>)")
)
swift_package = _separated_facts(
    BytesPattern(rb"""\.package\(\s{0,99}((?:name:[^,]{1,100},\s{0,99})?(?:url|path|id):\s{0,9}"[^"]{1,300}"[^)\n]{0,200})"""),
    ",",
    script=BytesPattern(rb"(\.(?:plugin|binaryTarget|unsafeFlags|systemLibrary)\([^\n]{0,200})"),
)
mix = _separated_facts(
    BytesPattern(rb"""\{(:\w{1,100},[^}\n]{1,300})\}"""),
    ",",
    script=BytesPattern(rb"(\b(?:compilers|aliases|elixirc_paths|escript|releases):[^\n]{0,200})"),
)
mix_lock = _separated_facts(
    BytesPattern(rb"""(?m)^\s{0,9}"([\w-]{1,100}":\s{0,9}\{:\w{1,20},[^,\n]{1,300},[^,\n]{1,300}),"""), '":'
)
podfile = _separated_facts(
    BytesPattern(rb"""(?m)^\s{0,40}pod\s+["']([^\n]{1,300})$"""),
    ",",
    index=BytesPattern(rb"(?m)^\s{0,40}(source\b[^\n]{0,200})"),
    script=BytesPattern(rb"(?m)^\s{0,40}((?:plugin|post_install|pre_install|script_phase)\b[^\n]{0,200})"),
)
conan = _separated_facts(
    BytesPattern(rb"""(?m)^\s{0,40}(?:self\.requires\(["']|requires\s{0,9}=\s{0,9}["'])?([\w.+-]{1,100}/[^\s"'\n]{1,100})"""),
    "/",
)
cabal = _separated_facts(
    BytesPattern(rb"(?m)^[\s,]{0,40}([\w-]{1,100}[ \t]{0,20}[<>=^][^\n,]{1,100})"),
    " ",
    script=BytesPattern(
        rb"(?i)((?:build-type|setup-depends|custom-setup|source-repository-package|location|build-tool-depends):?[^\n]{0,200})"
    ),
)


def pubspec(content: bytes) -> Facts:
    """Read ``pubspec.yaml`` and ``pubspec.lock``: names and sources of the packages in each section."""
    facts, section, name = Facts(), "", ""
    for line in content.decode("utf-8", "replace").split("\n"):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        depth = len(line) - len(line.lstrip())
        key, _, value = (part.strip().strip("\"'") for part in text.partition(":"))
        if not depth:
            section = key
        elif section in {"dependencies", "dev_dependencies", "packages", "dependency_overrides"}:
            if depth <= 2:
                name = key
                facts.packages[name] = Package(value)
                if section == "dependency_overrides":
                    facts.record(Kind.OVERRIDE, name, value or "set")
            elif name and key in {"git", "url", "path"} and value:
                source = {"git": Source.GIT, "path": Source.PATH}.get(key, facts.packages[name].source)
                if source is not Source.REGISTRY or value.rstrip("/") not in {"https://pub.dev", "https://pub.dartlang.org"}:
                    facts.packages[name] = Package(
                        facts.packages[name].version, source if source is not Source.REGISTRY else Source.URL, value
                    )
            elif name and ((key == "git" and not value) or (key == "source" and value in {"git", "path"})):
                facts.packages[name] = Package(facts.packages[name].version, Source.PATH if value == "path" else Source.GIT)
            elif name and key == "version":
                facts.packages[name] = Package(value, *facts.packages[name][1:])
        elif section == "executables":
            facts.record(Kind.PROGRAM, key, value or key)
    return facts


def nuget_lock(content: bytes) -> Facts:
    """``packages.lock.json``."""
    facts = Facts()
    for framework, packages in table_of(read_json(content).get("dependencies")).items():
        for name, given in table_of(packages).items():
            is_project = table_of(given).get("type") == "Project"
            found = Package(in_words(table_of(given).get("resolved")), Source.PATH if is_project else Source.REGISTRY)
            facts.packages[name if name not in facts.packages else f"{name} for {framework}"] = found
    return facts


def swift_resolved(content: bytes) -> Facts:
    """Read ``Package.resolved``: Swift packages are in repositories, so each address is relevant."""
    document, facts = read_json(content), Facts()
    pins = document.get("pins", table_of(document.get("object")).get("pins"))
    for pin in pins if isinstance(pins, list) else ():
        given = table_of(pin)
        version = in_words(table_of(given.get("state")).get("version", table_of(given.get("state")).get("revision")))
        address = in_words(given.get("location", given.get("repositoryURL")))
        facts.packages[in_words(given.get("identity", given.get("package")))] = Package(version, Source.GIT, address)
    return facts


def flake_lock(content: bytes) -> Facts:
    """``flake.lock``."""
    facts = Facts()
    for name, node in table_of(read_json(content).get("nodes")).items():
        locked = table_of(table_of(node).get("locked"))
        if locked:
            place = in_words(
                locked.get("url", locked.get("path", f"{locked.get('type')}:{locked.get('owner')}/{locked.get('repo')}"))
            )
            source = Source.PATH if locked.get("type") == "path" else Source.GIT
            facts.packages[name] = Package(in_words(locked.get("rev"))[:12], source, place)
    return facts


def vcpkg(content: bytes) -> Facts:
    """``vcpkg.json`` and ``vcpkg-configuration.json``."""
    document, facts = read_json(content), Facts()
    for given in document.get("dependencies", ()) if isinstance(document.get("dependencies"), list) else ():
        name = in_words(table_of(given).get("name")) or in_words(given)
        facts.packages[name] = Package(in_words(table_of(given).get("version>=")))
    for given in document.get("overrides", ()) if isinstance(document.get("overrides"), list) else ():
        facts.record(Kind.OVERRIDE, in_words(table_of(given).get("name")), given)
    for key in ("default-registry", "registries", "overlay-ports", "overlay-triplets"):
        facts.record(Kind.INDEX, key, document.get(key))
    return facts


def plain_packages(content: bytes) -> Facts:
    """``libs.versions.toml``."""
    facts = Facts()
    for section, values in toml(content).items():
        for name, given in table_of(values).items():
            known = table_of(given)
            module = in_words(known.get("module", known.get("id", given)))
            facts.packages[f"{section}.{name} {module}".strip() if section != "versions" else f"versions.{name}"] = (
                package_of(in_words(known.get("version", ""))) if known else Package(in_words(given))
            )
    return facts
