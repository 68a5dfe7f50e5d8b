"""Files that tools write while they work: caches, installed packages, compiled code. No change is meant to hold them. Pure.

A name alone decides, so a folder counts only where its name has no other use. ``target`` and ``build`` have other uses, and
count with what a tool writes below them. Installed environments (``.venv``, ``node_modules``) count too: git ignores them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

#: Folders at any depth, by ecosystem; lower case.
_FOLDERS: Final = frozenset(
    {
        # Python
        *("__pycache__", "__pypackages__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".tox", ".nox"),
        *(".venv", ".pytype", ".pyre", ".eggs", ".ipynb_checkpoints", "htmlcov", ".pdm-build", ".pixi"),
        # JavaScript
        *("node_modules", "bower_components", ".next", ".nuxt", ".svelte-kit", ".astro", ".angular", ".turbo"),
        *(".parcel-cache", ".nyc_output", ".vite", ".docusaurus", ".yarn-cache", ".npm", ".pnpm-store"),
        # Java, Kotlin, Scala
        *(".gradle", ".kotlin", ".bloop", ".metals"),
        # others
        *("cmakefiles", ".ccache", ".dart_tool", ".build", "deriveddata", "dist-newstyle", ".stack-work", ".bundle"),
        *(".phpunit.cache", "zig-cache", ".zig-cache", "zig-out", "_build", ".elixir_ls", ".terraform", ".cache"),
        *(".terragrunt-cache", ".serverless", ".vs", "bazel-out", "bazel-bin", ".luarocks", "xcuserdata"),
    }
)
#: Ambiguous folder names, with the entries that a tool writes directly below them.
_BELOW: Final = {
    "target": frozenset(
        {"debug", "release", "doc", "package", "tmp", "classes", "test-classes", "generated-sources", "maven-status"}
        | {"surefire-reports", "failsafe-reports", ".rustc_info.json", "cachedir.tag", "scala-2.13", "streams"}
    ),
    "build": frozenset({"classes", "intermediates", "kotlin", "tmp", "reports", "test-results", "generated", "lib", "temp"}),
    "obj": frozenset({"debug", "release", "project.assets.json", "project.nuget.cache"}),
    "bin": frozenset({"debug", "release"}),
    "vendor": frozenset({"bundle"}),
    ".yarn": frozenset({"cache", "unplugged", "install-state.gz"}),
}
_ENDS: Final = (
    *(".pyc", ".pyo", ".class", ".o", ".obj", ".rlib", ".rmeta", ".gcda", ".gcno", ".hi", ".beam", ".tsbuildinfo", ".swp"),
    *(".elc", ".d.ts.map", ".profraw"),
)
_FOLDER_ENDS: Final = (".egg-info", ".dist-info")
_FILES: Final = frozenset(
    {".eslintcache", ".stylelintcache", ".coverage", ".ds_store", "thumbs.db", "cmakecache.txt", ".php-cs-fixer.cache"}
    | {".phpunit.result.cache", ".dmypy.json", ".rspec_status", "lerna-debug.log", "npm-debug.log", "yarn-error.log"}
)


def is_cache(path: str) -> bool:
    """Return whether the name of ``path`` (in the repository, with ``/``) shows that a tool wrote the file."""
    *folders, name = path.lower().split("/")
    if name in _FILES or name.endswith(_ENDS):
        return True
    if any(folder in _FOLDERS or folder.endswith(_FOLDER_ENDS) for folder in folders):
        return True
    return any(below in _BELOW.get(folder, ()) for folder, below in pairwise((*folders, name)))
