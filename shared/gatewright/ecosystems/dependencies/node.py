"""Manifests, lock files and settings of Node, Deno and Bun. Pure; the input is hostile."""

from __future__ import annotations

from typing import Final

from gatewright.ecosystems.dependencies.facts import Facts, Kind, Package, Source, from_address, in_words
from gatewright.ecosystems.runner.settings import read_json, read_jsonc
from gatewright.foreign_documents import table_of
from gatewright.patterns import BytesPattern

_GROUPS: Final = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies", "bundledDependencies")
#: Scripts that a package manager runs by itself.
_LIFECYCLE: Final = frozenset(
    {
        *("preinstall", "install", "postinstall", "preprepare", "prepare", "postprepare", "prepublish", "prepack", "postpack"),
        *("prepublishOnly", "publish", "postpublish", "preuninstall", "uninstall", "postuninstall", "dependencies"),
        *("pnpm:devPreinstall", "preversion", "version", "postversion"),
    }
)
_ENTRIES: Final = (
    *("main", "module", "browser", "types", "typings", "exports", "imports", "type", "source", "files", "react-native"),
)


def package_json(content: bytes) -> Facts:
    """``package.json``."""
    document, facts = read_json(content), Facts()
    for group in _GROUPS:
        for name, given in table_of(document.get(group)).items():
            facts.package(name, given)
    for name, command in table_of(document.get("scripts")).items():
        if name in _LIFECYCLE:
            facts.record(Kind.SCRIPT, f"scripts.{name}", command)
    for key in ("overrides", "resolutions"):
        facts.tables(Kind.OVERRIDE, key, document.get(key))
    pnpm = table_of(document.get("pnpm"))
    for key in ("overrides", "packageExtensions", "patchedDependencies", "onlyBuiltDependencies", "neverBuiltDependencies"):
        facts.tables(Kind.OVERRIDE, f"pnpm.{key}", pnpm.get(key))
    facts.tables(Kind.OVERRIDE, "patchedDependencies", document.get("patchedDependencies"))
    facts.record(Kind.OVERRIDE, "trustedDependencies", document.get("trustedDependencies"))
    facts.record(Kind.BACKEND, "packageManager", document.get("packageManager"))
    facts.record(Kind.BACKEND, "gypfile", document.get("gypfile"))
    facts.tables(Kind.INDEX, "publishConfig", document.get("publishConfig"))
    binaries = document.get("bin")
    if isinstance(binaries, str):
        binaries = {str(document.get("name", "")).rpartition("/")[2]: binaries}
    for name, place in table_of(binaries).items():
        facts.record(Kind.PROGRAM, name, place)
    facts.record(Kind.PROGRAM, "directories.bin", table_of(document.get("directories")).get("bin"))
    for key in _ENTRIES:
        facts.tables(Kind.ENTRY, key, document.get(key))
    return facts


def package_lock(content: bytes) -> Facts:
    """``package-lock.json`` and ``npm-shrinkwrap.json``, versions 1 to 3."""
    document, facts = read_json(content), Facts()
    for path, given in table_of(document.get("packages")).items():
        if path and isinstance(given, dict):
            name = path.removeprefix("node_modules/")
            linked = bool(given.get("link")) or "node_modules" not in path
            facts.packages[name] = (
                Package(in_words(given.get("version")), Source.PATH, in_words(given.get("resolved", path)))
                if linked
                else from_address(in_words(given.get("version")), in_words(given.get("resolved")))
            )
            if given.get("hasInstallScript"):
                facts.record(Kind.SCRIPT, f"of {name}", given.get("version", "any version"))
    waiting = [("", table_of(document.get("dependencies")))] if "packages" not in document else []
    while waiting:
        above, some = waiting.pop()
        for name, given in some.items():
            if isinstance(given, dict):
                address = in_words(given.get("resolved", given.get("version")))
                facts.packages[above + name] = from_address(in_words(given.get("version")), address if "/" in address else "")
                waiting.append((f"{above}{name}/", table_of(given.get("dependencies"))))
    return facts


_YARN_NAME: Final = BytesPattern(rb'(?m)^"?((?:@[^/@"\s]+/)?[^@"\s,]+)@')


def yarn_lock(content: bytes) -> Facts:
    """``yarn.lock`` of both formats."""
    facts, name, version = Facts(), "", ""
    for line in content.split(b"\n"):
        if line and not line.startswith((b" ", b"#", b"__metadata")) and line.rstrip().endswith(b":"):
            name = next(_YARN_NAME.groups(line), b"").decode("utf-8", "replace")
            version = ""
        elif name:
            key, _, value = line.strip().replace(b": ", b" ", 1).partition(b" ")
            text = value.decode("utf-8", "replace").strip('"')
            if key == b"version":
                version = text
                facts.packages[f"{name}@{version}"] = Package(version)
            elif key == b"resolved":
                facts.packages[f"{name}@{version}"] = from_address(version, text)
            elif key == b"resolution":
                protocol = text.removeprefix("@").partition("@")[2]
                if not protocol.startswith(("npm:", "virtual:")):
                    facts.packages[f"{name}@{version}"] = _by_protocol(version, protocol)
    return facts


def _by_protocol(version: str, protocol: str) -> Package:
    if protocol.startswith(("workspace:", "file:", "link:", "portal:", "patch:")):
        return Package(version, Source.PATH, protocol)
    if "git" in protocol.partition(":")[0] or ".git" in protocol or "#commit=" in protocol:
        return Package(version, Source.GIT, protocol)
    return Package(version, Source.URL, protocol)


def pnpm_lock(content: bytes) -> Facts:
    """Read ``pnpm-lock.yaml``: the entries below ``packages`` and ``overrides``."""
    facts, section, name = Facts(), b"", ""
    for line in content.split(b"\n"):
        if line and not line.startswith((b" ", b"#")):
            section = line.partition(b":")[0]
        elif section == b"overrides" and line.startswith(b"  ") and b":" in line:
            key, _, value = line.strip().decode("utf-8", "replace").rpartition(": ")
            facts.record(Kind.OVERRIDE, f"overrides.{key.strip(chr(39))}", value)
        elif (
            section == b"packages" and line.startswith(b"  ") and not line.startswith(b"    ") and line.rstrip().endswith(b":")
        ):
            name = line.strip().decode("utf-8", "replace").removesuffix(":").strip("'\"").removeprefix("/")
            version = name.removeprefix("@").partition("@")[2]
            facts.packages[name] = Package(version) if not version.startswith(("http", "git", "file")) else from_pnpm(version)
        elif section == b"packages" and name and line.strip().startswith(b"requiresBuild: true"):
            facts.record(Kind.SCRIPT, f"of {name}", "requiresBuild")
        elif section == b"packages" and name and b"tarball:" in line:
            address = line.partition(b"tarball:")[2].strip().split(b",")[0].strip(b"'\" }").decode("utf-8", "replace")
            facts.packages[name] = Package(facts.packages[name].version, Source.URL, address)
    return facts


def from_pnpm(version: str) -> Package:
    """Return a package whose version is an address."""
    if version.startswith("file"):
        return Package("", Source.PATH, version)
    is_git = version.startswith("git") or "codeload.github.com" in version
    return Package("", Source.GIT if is_git else Source.URL, version)


def bun_lock(content: bytes) -> Facts:
    """``bun.lock``."""
    document, facts = read_jsonc(content), Facts()
    for name, given in table_of(document.get("packages")).items():
        resolved = in_words(given[0]) if isinstance(given, list) and given else ""
        version = resolved.removeprefix("@").partition("@")[2]
        index = in_words(given[1]) if isinstance(given, list) and len(given) > 1 and isinstance(given[1], str) else ""
        facts.packages[name] = from_address(version, version if ":" in version else index)
    for key in ("overrides", "patchedDependencies", "trustedDependencies"):
        facts.tables(Kind.OVERRIDE, key, document.get(key))
    return facts


def deno_json(content: bytes) -> Facts:
    """``deno.json`` and import maps: where names lead."""
    document, facts = read_jsonc(content), Facts()
    for key in ("imports", "scopes", "links", "patch"):
        facts.tables(Kind.ENTRY, key, document.get(key))
    facts.tables(Kind.ENTRY, "exports", document.get("exports"))
    return facts


def deno_lock(content: bytes) -> Facts:
    """``deno.lock``."""
    document, facts = read_json(content), Facts()
    places = {**table_of(document.get("packages")), **document}
    for key in ("npm", "jsr"):
        for name in table_of(places.get(key)):
            facts.packages[f"{key}:{name}"] = Package(name.removeprefix("@").partition("@")[2])
    for address in table_of(document.get("remote")):
        facts.packages[address] = Package("", Source.URL, address)
    facts.tables(Kind.OVERRIDE, "redirects", document.get("redirects"))
    return facts


_INDEX_KEYS: Final = (
    *("registry", "npmregistryserver", "npmscopes", "disturl", "proxy", "https-proxy", "httpproxy", "httpsproxy"),
)
_LOOSE_KEYS: Final = (
    *("strict-ssl", "enablestrictssl", "cafile", "ca", "ignore-scripts", "enablescripts", "unsafe-perm", "script-shell"),
    *("node-options", "yarnpath", "plugins", "checksumbehavior", "audit", "onload-script", "git", "globalconfig", "prefix"),
)


def npm_settings(content: bytes) -> Facts:
    """``.npmrc``, ``.yarnrc`` and ``.yarnrc.yml``: registries, and what loosens the checks."""
    facts = Facts()
    for line in content.decode("utf-8", "replace").split("\n"):
        text = line.strip()
        if not text or text[0] in "#;":
            continue
        separator = next((each for each in ("=", ": ", " ") if each in text), "=")
        key, _, value = (part.strip().strip('"') for part in text.partition(separator))
        small = key.casefold().rpartition(":")[2]
        if small in _INDEX_KEYS or key.casefold().endswith(":registry"):
            facts.record(Kind.INDEX, key, value)
        elif small in _LOOSE_KEYS:
            facts.record(Kind.BACKEND, key, value)
    return facts


def pnpm_workspace(content: bytes) -> Facts:
    """``pnpm-workspace.yaml``: overrides, and packages that may run scripts."""
    facts, section = Facts(), ""
    for line in content.decode("utf-8", "replace").split("\n"):
        if line and not line.startswith((" ", "#", "-")):
            section, _, value = line.partition(":")
            if value.strip() and section in {"overrides", "dangerouslyAllowAllBuilds", "registry"}:
                facts.record(Kind.OVERRIDE, section, value.strip())
        elif section in {"overrides", "patchedDependencies", "onlyBuiltDependencies", "packageExtensions", "allowBuilds"}:
            name, _, value = line.strip().removeprefix("- ").partition(": ")
            if name and not name.startswith("#"):
                facts.record(Kind.OVERRIDE, f"{section}.{name}", value or "listed")
    return facts
