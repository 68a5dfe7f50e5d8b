"""The reader of each manifest, lock file or settings file, by the name of the file. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gatewright.ecosystems.dependencies import node, others, python
from gatewright.ecosystems.dependencies.facts import Facts
from gatewright.ecosystems.runner.settings import UnreadableError

Reader = Callable[[bytes], Facts]

_BY_NAME: Final[dict[str, Reader]] = {
    "package.json": node.package_json,
    "package-lock.json": node.package_lock,
    "npm-shrinkwrap.json": node.package_lock,
    "yarn.lock": node.yarn_lock,
    "pnpm-lock.yaml": node.pnpm_lock,
    "pnpm-workspace.yaml": node.pnpm_workspace,
    "bun.lock": node.bun_lock,
    "deno.json": node.deno_json,
    "deno.jsonc": node.deno_json,
    "import_map.json": node.deno_json,
    "deno.lock": node.deno_lock,
    ".npmrc": node.npm_settings,
    ".yarnrc": node.npm_settings,
    ".yarnrc.yml": node.npm_settings,
    "pyproject.toml": python.pyproject,
    "setup.cfg": python.setup_cfg,
    "setup.py": python.setup_py,
    "pipfile": python.pipfile,
    "pipfile.lock": python.pipfile_lock,
    "poetry.lock": python.toml_lock("pypi.org"),
    "uv.lock": python.toml_lock("pypi.org"),
    "pdm.lock": python.toml_lock("pypi.org"),
    "pylock.toml": python.toml_lock("pypi.org"),
    "cargo.lock": python.toml_lock(""),
    "pip.conf": python.index_settings,
    "pip.ini": python.index_settings,
    "uv.toml": python.uv_settings,
    "poetry.toml": python.uv_settings,
    "environment.yml": python.conda_environment,
    "environment.yaml": python.conda_environment,
    "cargo.toml": others.cargo_toml,
    "rust-toolchain.toml": others.cargo_settings,
    "go.mod": others.go_mod,
    "go.work": others.go_mod,
    "go.sum": others.go_sum,
    "go.work.sum": others.go_sum,
    "gemfile": others.gemfile,
    "gems.rb": others.gemfile,
    "gemfile.lock": others.gemfile_lock,
    "gems.locked": others.gemfile_lock,
    "composer.json": others.composer_json,
    "composer.lock": others.composer_lock,
    "pom.xml": others.pom,
    "gradle.lockfile": others.gradle_lockfile,
    "gradle-wrapper.properties": others.wrapper_properties,
    "packages.lock.json": others.nuget_lock,
    "packages.config": others.dotnet_project,
    "directory.packages.props": others.dotnet_project,
    "directory.build.props": others.dotnet_project,
    "directory.build.targets": others.dotnet_project,
    "nuget.config": others.nuget_settings,
    "package.swift": others.swift_package,
    "package.resolved": others.swift_resolved,
    "podfile": others.podfile,
    "pubspec.yaml": others.pubspec,
    "pubspec.lock": others.pubspec,
    "pubspec_overrides.yaml": others.pubspec,
    "mix.exs": others.mix,
    "mix.lock": others.mix_lock,
    "conanfile.txt": others.conan,
    "conanfile.py": others.conan,
    "vcpkg.json": others.vcpkg,
    "vcpkg-configuration.json": others.vcpkg,
    "flake.lock": others.flake_lock,
    "cabal.project": others.cabal,
}
#: A part of the name, or of the path with its folders, and its end.
_BY_PART: Final[tuple[tuple[str, tuple[str, ...], Reader], ...]] = (
    ("requirements", (".txt", ".in", ".lock"), python.requirements),
    ("constraints", (".txt",), python.requirements),
    ("pylock.", (".toml",), python.toml_lock("pypi.org")),
    ("", (".versions.toml",), others.plain_packages),
    ("", (".gradle", ".gradle.kts"), others.gradle),
    ("", (".gemspec",), others.gemfile),
    ("", (".csproj", ".fsproj", ".vbproj"), others.dotnet_project),
    ("", (".cabal",), others.cabal),
    (".cargo/", (".cargo/config.toml", ".cargo/config"), others.cargo_settings),
)


def is_dependency_file(path: bytes) -> bool:
    """Return whether a reader exists for the file at ``path``."""
    return _reader(path) is not None


def read_facts(path: bytes, content: bytes) -> Facts:
    """Return the content of one version of the file. Raises UnreadableError."""
    read = _reader(path)
    if read is None:
        raise UnreadableError("no reader knows this kind of file")
    return read(content)


def _reader(path: bytes) -> Reader | None:
    text = path.decode("utf-8", "replace").casefold()
    name = text.rpartition("/")[2]
    if name in _BY_NAME:
        return _BY_NAME[name]
    return next((read for part, ends, read in _BY_PART if part in text and text.endswith(ends)), None)
