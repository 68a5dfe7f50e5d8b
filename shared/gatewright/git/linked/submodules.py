"""The submodules of a tree, and the repositories that hold their commits.

A repository on this host keeps its submodules below ``.git/modules``, or as repositories of their own in its work tree.
For a repository of another host, the address in ``.gitmodules`` must be listed in ``repositories.json``. Names, paths and
addresses in ``.gitmodules`` are hostile.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from gatewright.errors import DeniedError, GitError, MalformedError
from gatewright.git.changes import TreeListing
from gatewright.git.host.local_repository import LEADS_ELSEWHERE, find_repository, local_setting
from gatewright.git.mirror import Mirror
from gatewright.git.modes import REGULAR, SUBMODULE
from gatewright.git.paths import display, path_fault
from gatewright.git.process import in_thread
from gatewright.git.refs import parse_url

MISSING: Final = "submodule_missing"
UNSAFE: Final = "submodule_unsafe"
#: Bytes of a ``.gitmodules``.
_LARGEST: Final = 1 << 20
_FAR_PROTOCOLS: Final = ("https", "ssh")
#: Reasons for which another folder may still hold the commit.
_NOT_THERE: Final = frozenset({"ref_not_found", "repository_unreadable", "repository_empty", LEADS_ELSEWHERE})


class Submodule(NamedTuple):
    """An entry of ``.gitmodules``. ``skipped``: its ``update`` is ``none``, so that git leaves its folder empty."""

    name: str
    path: bytes
    url: str
    skipped: bool


def parse_modules(settings: Iterable[tuple[str, str]]) -> dict[bytes, Submodule]:
    """Return the submodules by path. The first value of a setting holds, as in git.

    Raises DeniedError (``submodule_unsafe``).
    """
    named: dict[str, dict[str, str]] = {}
    for key, value in settings:
        section, _, rest = key.partition(".")
        name, _, variable = rest.rpartition(".")
        if section == "submodule":
            named.setdefault(name, {}).setdefault(variable, value)
    found: dict[bytes, Submodule] = {}
    for name, values in named.items():
        path = os.fsencode(values.get("path", ""))
        if not path:
            continue
        url = values.get("url", "")
        if fault := _why_refused(name, path, url) or ("has the path of another submodule" if path in found else ""):
            words = f".gitmodules is not safe: the submodule {name[:80]!a} {fault}; correct it in the repository"
            raise DeniedError(words, code=UNSAFE)
        found[path] = Submodule(name, path, url, values.get("update") == "none")
    return found


async def open_submodules(mirror: Mirror, listing: TreeListing, most: int) -> Mapping[bytes, Mirror]:
    """Return the mirror of each submodule of a tree by path, holding the commit that the tree names; at most ``most``.

    Without an entry in ``.gitmodules``, or with ``update = none``, a submodule is left out, as by ``git submodule update``.

    Raises:
        DeniedError: ``submodule_missing``, ``submodule_unsafe``, and the errors of access to a repository.
        GitError: a repository cannot be read.
    """
    links = [entry for entry in listing.entries if entry.mode == SUBMODULE]
    modules = listing.by_name.get(".gitmodules")
    if not links or modules is None or modules.mode not in REGULAR:
        return {}
    if modules.size > _LARGEST:
        raise DeniedError(f".gitmodules is not safe: it has more than {_LARGEST} bytes; shorten it", code=UNSAFE)
    try:
        declared = parse_modules(await mirror.settings(modules.object_id))
    except GitError as error:
        raise DeniedError(f".gitmodules is not safe: git cannot read it: {error.message}", code=UNSAFE) from error
    wanted = [(module, link.object_id) for link in links if (module := declared.get(link.path)) and not module.skipped]
    if len(wanted) > most:
        raise DeniedError("too many submodules, or too deep: set update = none for some in .gitmodules", code=UNSAFE)
    opened = {module.path: await _open_mirror(mirror, module, commit) for module, commit in wanted}
    return {path: each for path, each in opened.items() if each is not None}


async def _open_mirror(mirror: Mirror, module: Submodule, commit: str) -> Mirror | None:
    """Return the mirror with ``commit``; None if the local configuration skips the submodule."""
    if mirror.source.local:
        if await in_thread(local_setting, mirror.source.address, f"submodule.{module.name}.update") == "none":
            return None
        for place in await in_thread(lambda: list(_stores(mirror.source.address, module))):
            if (opened := await _with_commit(mirror, str(place), commit)) is not None:
                return opened
        # A submodule's own repository has no files, so git updates what is in it from the repository above.
        top, nested, _ = mirror.source.address.partition("/.git/modules/")
        what = "--recursive" if nested else shlex.quote(display(module.path))
        update = f"git -C {shlex.quote(top)} submodule update --init {what}"
        raise _missing_submodule(module, commit, f"is not in {mirror.source.address}; run: {update}")
    url = resolve_url(mirror.url, module.url)
    try:
        permitted = mirror.permits(parse_url(url, _FAR_PROTOCOLS))
    except MalformedError as error:
        raise DeniedError(f".gitmodules is not safe: {error.message}", code=UNSAFE) from error
    if not permitted:
        raise _missing_submodule(
            module, commit, f"is in {url}: list that place in repositories.json, or set its update to none"
        )
    if (found := await _with_commit(mirror, url, commit)) is None:
        raise _missing_submodule(module, commit, f"is not in {url}; push the commit there")
    return found


async def _with_commit(mirror: Mirror, url: str, commit: str) -> Mirror | None:
    try:
        opened = await mirror.open_other(url)
        await opened.ensure(commit)
    except GitError as error:
        if error.reason not in _NOT_THERE:
            raise
        return None
    return opened


def _stores(address: str, module: Submodule) -> Iterator[Path]:
    """Yield the folders that may hold a submodule of the repository at ``address``; a link never leads to one."""
    repository = find_repository(address)
    top = Path(os.path.realpath(address))
    places = [folder / "modules" / module.name for folder in dict.fromkeys((repository.git_dir, repository.common))]
    if top not in repository.folders:
        places.append(top / os.fsdecode(module.path))
    for place in places:
        if os.path.realpath(place) == str(place):
            with suppress(GitError):
                find_repository(str(place))
                yield place


def resolve_url(base: str, url: str) -> str:
    """Return ``url``, resolved against the address of the superproject if it begins with ``./`` or ``../``, as git does."""
    if not url.startswith(("./", "../")):
        return url
    base, mark = base.rstrip("/"), "/"
    while url.startswith(("./", "../")):
        if url.startswith("../"):
            mark = "/" if "/" in base else ":"
            base = base.rpartition(mark)[0]
        url = url.partition("/")[2]
    return f"{base}{mark}{url}"


def _why_refused(name: str, path: bytes, url: str) -> str:
    parts = name.replace("\\", "/").split("/")
    if name.startswith("-") or not {"", ".", ".."}.isdisjoint(parts):
        return "has a name that leads out of .git/modules"
    if path.startswith(b"-") or path_fault(path, SUBMODULE):
        return f"has the path {display(path[:80])}, which leads out of the repository"
    return "has an address that is an option or a command" if url.startswith("-") or "::" in url.partition("/")[0] else ""


def _missing_submodule(module: Submodule, commit: str, words: str) -> DeniedError:
    return DeniedError(f"the submodule {module.name!a} at commit {commit} {words}", code=MISSING)
