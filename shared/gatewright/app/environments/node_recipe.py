"""Reading of an npm lock and its package.json files, which may request packages of registries only. Pure.

Both are hostile: they could name another host, a git repository, an archive, a folder of this host. Packages of a registry
are accepted, by name, version and digest, folders of the repository itself, which are links, and with a lock of npm also
git repositories, which the installer's policy then has to permit; all else is refused. The
lock that npm writes for a project without one is read in the same way, because it includes the manifests of foreign
packages.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.git_sources import NPM_HOSTS, GitSource, npm_git_source
from gatewright.app.environments.plan import PACKAGES as PACKAGES_ALONE
from gatewright.app.environments.tool import read_file
from gatewright.ecosystems.node.members import MANIFEST, PACKAGES, member_folders, workspace_globs
from gatewright.ecosystems.port import TreeFiles
from gatewright.ecosystems.subtree import below
from gatewright.patterns import BytesPattern, TextPattern

#: In npm's search order.
WRITTEN_LOCK = "package-lock.json"
NPM_LOCKS = ("npm-shrinkwrap.json", WRITTEN_LOCK)
_PNPM_LOCK = "pnpm-lock.yaml"
_YARN_LOCK = "yarn.lock"
LOCKS = (*NPM_LOCKS, _PNPM_LOCK, _YARN_LOCK)
#: Hosts that stand for the configured registry: npm uses that one instead, and so do we for yarn's alias of it. They are
#: names in foreign locks, and nothing of ours contacts them; hence written as labels.
_PUBLIC = ".".join(("registry", "npmjs", "org"))  # noqa: FLY002
_YARN_ALIAS = ".".join(("registry", "yarnpkg", "com"))  # noqa: FLY002
PUBLIC_HOSTS = (_PUBLIC, _YARN_ALIAS)
#: In a lock of pnpm: packages with a source of their own.
_LED_ELSEWHERE = BytesPattern(
    rb"(?m)^[ \t]+(?:tarball|repo|commit|directory|gitHosted)[ \t]*:.*$"
    rb"|\{[^}\n]*\b(?:tarball|repo|commit|directory|gitHosted)[ \t]*:[^}\n]*"
)
_YARN_RESOLVED = BytesPattern(rb"""(?m)^[ \t]+resolved[ \t]+(.*)$""")
_YARN_URL = TextPattern(r'"(?P<url>https://[^"#\s]+)(?:#[0-9a-f]{40})?"')
_YARN_ENTRY = BytesPattern(rb"(?m)^[ \t]+version[ \t]")
_YARN_DIGEST = BytesPattern(rb'(?m)^[ \t]+(?:integrity[ \t]+\S+|resolved[ \t]+"[^"#\n]*#[0-9a-f]{40}")')
_KINDS = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")
_MOST_MANIFESTS = 2000
#: Fields of a package.json that no installer reads, run without scripts. They are not given to it: what is installed cannot
#: depend on them, and an edit of them makes no new environment.
_UNREAD = frozenset(
    {"author", "browser", "browserslist", "bugs", "contributors", "description", "exports", "files", "funding", "homepage"}
    | {"imports", "keywords", "license", "main", "maintainers", "module", "publishConfig", "repository", "scripts"}
    | {"sideEffects", "types", "typesVersions", "typings", "unpkg", "jsdelivr"}
    | {"ava", "babel", "c8", "commitlint", "eslintConfig", "eslintIgnore", "husky", "jest", "lint-staged", "mocha", "nyc"}
    | {"postcss", "prettier", "release", "remarkConfig", "size-limit", "standard", "stylelint", "tap", "tsd", "vitest", "xo"}
)
_DEEPEST = 100
ADVICE = "install it yourself and show the folder to commands: --mount node_modules"


@dataclass(frozen=True, slots=True)
class NodeRecipe:
    """The input for npm: ``files`` by path from the folder of the lock; ``lock`` is its name, ``folder`` is in the repository.

    ``lock`` is empty if the repository has none: npm then writes one, which ``with_lock`` reads.
    """

    folder: str
    lock: str
    files: Mapping[str, bytes]
    #: Hosts of packages, except the public registry, which stands for the configured one.
    hosts: frozenset[str]
    #: Repositories of packages, as the lock names them.
    git: tuple[GitSource, ...] = ()

    @property
    def sources(self) -> dict[str, str]:
        """The digest of what an installer reads of each file, by its path in the repository; the lock first."""
        order = sorted(self.files, key=lambda path: (path != self.named, path))
        names = ((path, f"{path}{PACKAGES_ALONE if posixpath.basename(path) == MANIFEST else ''}") for path in order)
        return {posixpath.join(self.folder, name): hashlib.sha256(self.files[path]).hexdigest() for path, name in names}

    @property
    def named(self) -> str:
        """Return the main file."""
        return self.lock or MANIFEST

    @property
    def paths(self) -> frozenset[str]:
        """Return the paths as a tree does: a lock may name packages of the repository by folder."""
        return frozenset(self.files)

    async def read(self, path: str) -> bytes | None:
        """See ``TreeFiles.read``."""
        return self.files.get(path)


def lock_folders(tree: TreeFiles) -> tuple[str, ...]:
    """Folders with a lock file: the top where it has one, else those one level below."""
    found = {posixpath.dirname(path) for path in tree.paths if posixpath.basename(path) in LOCKS and path.count("/") < 2}
    return ("",) if "" in found else tuple(sorted(found - {PACKAGES}))


async def unlocked_folders(tree: TreeFiles, folders: Iterable[str]) -> tuple[str, ...]:
    """Return the top and the ``folders`` whose package.json requests packages; only the top if it has workspaces."""
    found = []
    for folder in sorted({"", *folders}):
        inside = below(tree, folder)
        if MANIFEST in inside.paths:
            manifest = _parse_json(posixpath.join(folder, MANIFEST), await read_file(inside, MANIFEST))
            if not folder and await workspace_globs(inside):
                return ("",)
            if _specs(manifest):
                found.append(folder)
    return tuple(found)


async def node_recipe(tree: TreeFiles, folder: str) -> NodeRecipe:
    """Return the recipe for the lock in ``folder``, else for its package.json. Raises NotPreparedError for refused content."""
    inside = below(tree, folder)
    lock = next((name for name in LOCKS if name in inside.paths), "")
    for glob in await workspace_globs(inside):
        if ".." in glob or glob.lstrip("!").startswith(("/", "~")):
            raise NotPreparedError(f"{MANIFEST} has workspaces outside of the repository: {glob[:100]!r}")
    manifests = (MANIFEST, *(posixpath.join(each, MANIFEST) for each in await _folders(inside)))
    if len(manifests) > _MOST_MANIFESTS:
        raise NotPreparedError(f"more than {_MOST_MANIFESTS} packages in one repository: {ADVICE}")
    files = {path: await read_file(inside, path) for path in manifests}
    locked = _repositories(_parse_json(lock, await read_file(inside, lock))) if lock in NPM_LOCKS else ()
    for path, content in files.items():
        parsed = _parse_json(path, content)
        _check_manifest(path, parsed, inside, git={_plain(each) for each in locked})
        files[path] = json.dumps({name: value for name, value in parsed.items() if name not in _UNREAD}).encode()
    if not lock:
        return NodeRecipe(folder, lock, files, frozenset())
    files[lock] = await read_file(inside, lock)
    if lock == _PNPM_LOCK:
        if found := _LED_ELSEWHERE.first(files[lock]):
            raise NotPreparedError(f"{lock} has what is not a package of a registry: {_shorten(found)}; {ADVICE}")
        # Not the repository's own file: it may have settings, such as a registry. pnpm refuses one without packages.
        if globs := await workspace_globs(inside):
            files["pnpm-workspace.yaml"] = "".join(("packages:\n", *(f"  - {json.dumps(each)}\n" for each in globs))).encode()
    if lock in NPM_LOCKS:
        return with_lock(NodeRecipe(folder, "", files, frozenset()), lock, files[lock])
    hosts = frozenset(_yarn_hosts(lock, files[lock])) if lock == _YARN_LOCK else frozenset()
    return NodeRecipe(folder, lock, files, hosts - {_PUBLIC})


def with_lock(recipe: NodeRecipe, lock: str, content: bytes) -> NodeRecipe:
    """``recipe`` with this lock of npm. Raises NotPreparedError for what is not taken."""
    text = content.decode("utf-8", "replace").replace(f"https://{_YARN_ALIAS}/", f"https://{_PUBLIC}/")
    for host in NPM_HOSTS.values():  # npm would ask for an archive at another host first
        text = text.replace(f'"git+ssh://git@{host}/', f'"git+https://{host}/')
    parsed = _parse_json(lock, text.encode())
    hosts = frozenset(_npm_hosts(lock, parsed, recipe)) - {_PUBLIC}
    return replace(recipe, lock=lock, files={**recipe.files, lock: text.encode()}, hosts=hosts, git=_repositories(parsed))


async def _folders(tree: TreeFiles) -> tuple[str, ...]:
    """Return the folders of packages that the top package has as workspaces, or requests by folder."""
    found = set(member_folders(tree, "", await workspace_globs(tree)))
    waiting = ["", *found]
    while waiting:
        folder = waiting.pop()
        manifest = _parse_json(MANIFEST, await read_file(tree, posixpath.join(folder, MANIFEST)))
        for spec in _specs(manifest).values():
            if spec.startswith(("file:", "link:")):
                inside = posixpath.normpath(posixpath.join(folder, spec.partition(":")[2]))
                if posixpath.join(inside, MANIFEST) in tree.paths and inside not in found and inside != ".":
                    found.add(inside)
                    waiting.append(inside)
    return tuple(sorted(found))


def _parse_json(path: str, content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise NotPreparedError(f"{path} is no JSON that can be read")
    return found


def _specs(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return all dependencies of a package.json."""
    tables = (manifest.get(kind) for kind in _KINDS)
    return {name: spec for each in tables if isinstance(each, dict) for name, spec in each.items() if isinstance(spec, str)}


def _check_manifest(path: str, manifest: Mapping[str, Any], tree: TreeFiles, *, git: Collection[str]) -> None:
    """Refuse dependencies that npm would fetch from elsewhere: it may look for what the lock lacks."""
    for name, spec in (*_specs(manifest).items(), *_overrides(manifest.get("overrides"), 0)):
        if not _is_safe(spec, posixpath.dirname(path), tree) and _plain(npm_git_source(spec)) not in git:
            raise NotPreparedError(f"{path} asks for what is not a package of a registry: {name} {spec[:100]!r}; {ADVICE}")


def _overrides(table: object, depth: int) -> Iterator[tuple[str, str]]:
    for name, spec in table.items() if isinstance(table, dict) and depth < _DEEPEST else ():
        if isinstance(spec, str):
            yield name, spec
        else:
            yield from _overrides(spec, depth + 1)


def _is_safe(spec: str, folder: str, tree: TreeFiles) -> bool:
    kind, colon, rest = spec.partition(":")
    if colon and kind in {"workspace", "catalog"}:
        return True
    if colon and kind in {"file", "link"}:
        return _is_own_folder(posixpath.join(folder, rest), tree)
    if colon and kind == "npm":
        return ":" not in rest and rest.count("/") <= (1 if rest.startswith("@") else 0)
    # A range, a version or a tag; a slash would be a repository or a path.
    return ":" not in spec and "/" not in spec and not spec.startswith((".", "~/"))


def _is_own_folder(path: str, tree: TreeFiles) -> bool:
    place = posixpath.normpath(path)
    return not posixpath.isabs(place) and not place.startswith("..") and f"{place}/{MANIFEST}" in tree.paths


def _npm_hosts(lock: str, content: Mapping[str, Any], tree: TreeFiles) -> Iterator[str]:
    """The hosts of all that a lock of npm names. Raises NotPreparedError."""
    for name, entry in _entries(content):
        # npm puts each package at the path of its name, and empties existing package folders.
        if not _is_place(name):
            raise _refuse_package(lock, name, name)
        if PACKAGES in name.split("/"):
            yield from _host_of_entry(lock, name, entry, tree)
        elif name and not _is_own_folder(name, tree):
            raise _refuse_package(lock, name, name)


def _entries(content: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    packages = content.get("packages")
    if isinstance(packages, dict):
        return [(name, each) for name, each in packages.items() if isinstance(each, dict)]
    return list(_nested_packages(content.get("dependencies"), 0))


def _repositories(lock: Mapping[str, Any]) -> tuple[GitSource, ...]:
    return tuple(dict.fromkeys(found for _, each in _entries(lock) if (found := _repository(each))))


def _plain(source: GitSource | None) -> str:
    return source.url.removesuffix(".git") if source is not None else ""


def _repository(entry: Mapping[str, Any]) -> GitSource | None:
    """Return the repository of an entry. A folder of a link looks like a short name, which no lock has."""
    resolved = entry.get("resolved")
    return npm_git_source(resolved) if str(resolved).startswith("git+") else None


def _host_of_entry(lock: str, name: str, entry: Mapping[str, Any], tree: TreeFiles) -> Iterator[str]:
    """Yield the host of a package; nothing for a link, a part of another package, and an entry without an address."""
    resolved, version = entry.get("resolved"), entry.get("version")
    if entry.get("link") is True:
        if not isinstance(resolved, str) or not _is_own_folder(resolved, tree):
            raise _refuse_package(lock, name, resolved)
        return
    if entry.get("inBundle") is True or entry.get("bundled") is True:
        return
    if isinstance(version, str) and not _is_safe(version, "", tree):
        raise _refuse_package(lock, name, version)
    if _repository(entry):
        return  # its commit is its digest
    if resolved is not None and resolved is not False:
        yield _host(lock, name, resolved)
    if not isinstance(entry.get("integrity"), str):
        raise NotPreparedError(f"{lock}: {name} has no digest: run `npm install` with a newer npm, and commit the lock")


def _yarn_hosts(lock: str, content: bytes) -> Iterator[str]:
    """The hosts of all that a lock of yarn 1 names. Raises NotPreparedError."""
    if b"__metadata:" in content:
        raise NotPreparedError(f"{lock} is of yarn 2 or newer, whose packages no other program installs: {ADVICE}")
    resolved = [each.decode("utf-8", "replace").strip() for each in _YARN_RESOLVED.groups(content)]
    for each in resolved:
        url = _YARN_URL.fullmatch(each)
        if url is None:
            raise NotPreparedError(f"{lock} has what is not a package of a registry: {each[:100]!r}; {ADVICE}")
        host = _host(lock, each, url["url"])
        yield _PUBLIC if host == _YARN_ALIAS else host
    if len(resolved) < _YARN_ENTRY.count(content):
        raise NotPreparedError(f"{lock} has a package that comes from no registry; {ADVICE}")
    if _YARN_DIGEST.count(content) < len(resolved):
        raise NotPreparedError(f"{lock} has a package without a digest: make the lock anew, and commit it")


def _shorten(found: bytes) -> str:
    return repr(found.decode("utf-8", "replace").strip()[:100])


def _nested_packages(table: object, depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The form of npm 6."""
    for name, entry in table.items() if isinstance(table, dict) and depth < _DEEPEST else ():
        if isinstance(entry, dict):
            yield f"{PACKAGES}/{name}", entry
            yield from _nested_packages(entry.get("dependencies"), depth + 1)


def _is_place(name: str) -> bool:
    """Return whether a package is in the project: a path, with a name or scoped name after each ``node_modules``."""
    if not name:
        return True
    parts = name.split("/")
    if posixpath.isabs(name) or any(part in {"", ".", ".."} or "\\" in part for part in parts):
        return False
    packages = name.split(f"{PACKAGES}/")[1:]
    return all(each.strip("/").count("/") == (1 if each.startswith("@") else 0) for each in packages)


def _host(lock: str, name: str, resolved: object) -> str:
    try:
        parts = urlsplit(resolved) if isinstance(resolved, str) else None
        host = parts.netloc if parts is not None else ""
    except ValueError:
        parts, host = None, ""
    if parts is None or parts.scheme not in {"https", "http"} or not host or "@" in host:
        raise _refuse_package(lock, name, resolved)
    if parts.scheme == "http" and host == _PUBLIC:
        raise _refuse_package(lock, name, resolved)
    return host


def _refuse_package(lock: str, name: str, found: object) -> NotPreparedError:
    package = name.rpartition(f"{PACKAGES}/")[2]
    return NotPreparedError(f"{lock}: {package} does not come from a registry: {str(found)[:100]!r}; {ADVICE}")
