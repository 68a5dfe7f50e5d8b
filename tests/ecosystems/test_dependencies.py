"""Of what kind a change of dependencies is, for each manifest and lock file that is known."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from gatewright.ecosystems.dependencies.comparing import changed_programs, dependency_changes

GIT = "https://evil.example/left-pad.git"
NPM = {"name": "x", "version": "1.0.0", "dependencies": {"left-pad": "1.0.0"}, "main": "lib/index.js"}
PYPROJECT = '[project]\nname = "x"\ndependencies = ["a>=1"]\n'
PYPROJECT += '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
CARGO = '[package]\nname = "x"\n[dependencies]\na = "1"\n'


def npm(**changes: object) -> str:
    return json.dumps({**NPM, **changes})


def lock(**packages: Mapping[str, object]) -> str:
    return json.dumps({"lockfileVersion": 3, "packages": {"": {}, **{f"node_modules/{n}": p for n, p in packages.items()}}})


#: Path, old, new, and a part of each line that people must see.
CHANGES: list[tuple[str, str | None, str, list[str]]] = [
    (
        "package.json",
        npm(),
        npm(dependencies={"left-pad": f"git+{GIT}"}),
        ["package left-pad from git git+https://evil.example"],
    ),
    ("package.json", npm(), npm(dependencies={"left-pad": "owner/left-pad"}), ["from git owner/left-pad"]),
    (
        "package.json",
        npm(),
        npm(dependencies={"left-pad": "https://evil.example/a.tgz"}),
        ["from a URL https://evil.example/a.tgz"],
    ),
    ("package.json", npm(), npm(dependencies={"left-pad": "file:../evil"}), ["from a path file:../evil"]),
    ("package.json", npm(), npm(dependencies={"left-pad": "npm:evil@1"}), ["from another package npm:evil@1"]),
    ("package.json", npm(), npm(dependencies={"left-pad": "2.0.0"}), ["1 in another version (left-pad 1.0.0 to 2.0.0)"]),
    ("package.json", npm(), npm(dependencies={}), ["1 removed (left-pad)"]),
    ("package.json", npm(), npm(devDependencies={"b": "1"}), ["1 added (b 1)"]),
    (
        "package.json",
        npm(),
        npm(scripts={"postinstall": "node x.js"}),
        ["script that runs on installation scripts.postinstall: node x.js"],
    ),
    ("package.json", npm(), npm(scripts={"prepare": "husky"}), ["scripts.prepare: husky"]),
    ("package.json", npm(), npm(overrides={"lodash": "npm:evil@1"}), ["override overrides.lodash: npm:evil@1"]),
    ("package.json", npm(), npm(resolutions={"a/b": "1"}), ["override resolutions.a/b: 1"]),
    ("package.json", npm(), npm(pnpm={"overrides": {"a": "1"}}), ["override pnpm.overrides.a: 1"]),
    ("package.json", npm(), npm(main="stub.js"), ["place that importers get main from lib/index.js to stub.js"]),
    ("package.json", npm(), npm(exports={".": "./stub.js"}), ["place that importers get exports..: ./stub.js"]),
    ("package.json", npm(), npm(types="stub.d.ts"), ["importers get types: stub.d.ts"]),
    ("package.json", npm(), npm(bin={"jest": "x.js"}), ["installed command jest: x.js"]),
    ("package.json", npm(), npm(publishConfig={"registry": "https://evil.example"}), ["package index publishConfig.registry"]),
    ("package.json", npm(), "{", ["could not be read (it is no JSON)"]),
    (".npmrc", "", "registry=https://evil.example/", ["package index registry: https://evil.example/"]),
    (".npmrc", "", "@corp:registry=https://evil.example/\nstrict-ssl=false", ["index @corp:registry", "strict-ssl: false"]),
    (".yarnrc.yml", "", 'npmRegistryServer: "https://evil.example"', ["package index npmRegistryServer"]),
    (
        "package-lock.json",
        lock(),
        lock(a={"version": "1", "resolved": "https://evil.example/a.tgz"}),
        ["package a from a registry evil.example"],
    ),
    (
        "package-lock.json",
        lock(),
        lock(a={"version": "1", "resolved": "git+ssh://git@h/a.git#1"}),
        ["package a from git git+ssh"],
    ),
    ("package-lock.json", lock(), lock(a={"version": "1", "hasInstallScript": True}), ["runs on installation of a"]),
    (
        "package-lock.json",
        lock(),
        lock(a={"version": "1", "resolved": "https://registry.npmjs.org/a/-/a-1.tgz"}),
        ["1 added (a 1)"],
    ),
    ("yarn.lock", "", f'left-pad@^1:\n  version "1.0.0"\n  resolved "{GIT}#abc"\n', ["left-pad@1.0.0 from git"]),
    (
        "yarn.lock",
        "",
        '"a@git@github.com:o/a":\n  version: 1.0.0\n  resolution: "a@git@github.com:o/a#commit=1"\n',
        ["from git"],
    ),
    (
        "pnpm-lock.yaml",
        "",
        "packages:\n\n  a@https://evil.example/a.tgz:\n    resolution: {tarball: https://evil.example/a.tgz}\n",
        ["from a URL"],
    ),
    ("pnpm-lock.yaml", "", "overrides:\n  a: 1\n", ["override overrides.a: 1"]),
    ("bun.lock", "{}", '{"packages": {"a": ["a@github:o/a#1", {}, "x"],}, // c\n}', ["package a from git"]),
    ("deno.json", "{}", '{"imports": {"a": "https://evil.example/a.ts"}}', ["importers get imports.a"]),
    ("deno.lock", "{}", '{"remote": {"https://evil.example/a.ts": "1"}}', ["from a URL https://evil.example/a.ts"]),
    ("pyproject.toml", PYPROJECT, PYPROJECT.replace("a>=1", f"a @ git+{GIT}"), ["Takes the package a from git"]),
    ("pyproject.toml", PYPROJECT, PYPROJECT.replace("a>=1", "a @ https://evil.example/a.whl"), ["package a from a URL"]),
    (
        "pyproject.toml",
        PYPROJECT,
        PYPROJECT + 'backend-path = ["."]\n',
        ["Adds the build backend build-system.backend-path: ."],
    ),
    (
        "pyproject.toml",
        PYPROJECT,
        PYPROJECT.replace("hatchling.build", "mine"),
        ["build-system.build-backend from hatchling.build to mine"],
    ),
    ("pyproject.toml", PYPROJECT, PYPROJECT + '[project.scripts]\npytest = "x:main"\n', ["installed command pytest: x:main"]),
    (
        "pyproject.toml",
        PYPROJECT,
        PYPROJECT + '[[tool.uv.index]]\nname = "e"\nurl = "https://evil.example"\n',
        ["index tool.uv.index.e"],
    ),
    (
        "pyproject.toml",
        PYPROJECT,
        PYPROJECT + '[tool.uv.sources]\nb = { git = "https://evil.example" }\n',
        ["package b from git"],
    ),
    (
        "pyproject.toml",
        PYPROJECT,
        PYPROJECT + '[[tool.poetry.source]]\nname = "e"\nurl = "https://evil.example"\n',
        ["tool.poetry.source.e"],
    ),
    (
        "pyproject.toml",
        PYPROJECT,
        PYPROJECT + '[tool.uv]\noverride-dependencies = ["a<1"]\n',
        ["override tool.uv.override-dependencies"],
    ),
    (
        "pyproject.toml",
        PYPROJECT,
        PYPROJECT + '[tool.hatch.build.hooks.custom]\npath = "x.py"\n',
        ["tool.hatch.build.hooks.custom.path"],
    ),
    (
        "requirements.txt",
        "a==1\n",
        "a==1\n--extra-index-url https://evil.example\n",
        ["index extra-index-url https://evil.example"],
    ),
    ("requirements/dev.txt", "a==1\n", f"a==1\n-e git+{GIT}#egg=b\n", ["package b from git"]),
    (
        "requirements.txt",
        "a==1\n",
        "a==2\nb[x]>=1 ; python_version > '3'\n",
        ["1 added (b >=1); 1 in another version (a ==1 to ==2)"],
    ),
    ("setup.cfg", "", "[options.entry_points]\nconsole_scripts =\n    pytest = x:main\n", ["installed command pytest: x:main"]),
    (
        "setup.py",
        "",
        'setup(entry_points={"console_scripts": ["pytest = x:main"]}, cmdclass={})',
        ["command pytest", "backend cmdclass"],
    ),
    ("Pipfile", "", '[[source]]\nname = "e"\nurl = "https://evil.example"\n', ["package index source.e"]),
    ("pip.conf", "", "[global]\nindex-url = https://evil.example\n", ["package index index-url"]),
    ("uv.lock", "", f'[[package]]\nname = "a"\nversion = "1"\nsource = {{ git = "{GIT}" }}\n', ["package a from git"]),
    (
        "uv.lock",
        "",
        '[[package]]\nname = "a"\nversion = "1"\nsource = { registry = "https://evil.example/simple" }\n',
        ["registry evil.example"],
    ),
    (
        "uv.lock",
        "",
        '[[package]]\nname = "a"\nversion = "1"\nsource = { registry = "https://pypi.org/simple" }\n',
        ["1 added (a 1)"],
    ),
    (
        "poetry.lock",
        "",
        f'[[package]]\nname = "a"\nversion = "1"\n\n[package.source]\ntype = "git"\nurl = "{GIT}"\n',
        ["package a from git"],
    ),
    ("Cargo.lock", "", f'[[package]]\nname = "a"\nversion = "1"\nsource = "git+{GIT}#1"\n', ["package a from git"]),
    ("Cargo.toml", CARGO, CARGO.replace('"1"', f'{{ git = "{GIT}" }}'), ["Takes the package a from git"]),
    ("Cargo.toml", CARGO, CARGO + '[patch.crates-io]\nb = { path = "x" }\n', ["override patch.crates-io.b: path=x"]),
    ("Cargo.toml", CARGO, CARGO.replace("[dep", 'build = "b.rs"\n[dep'), ["runs on installation package.build: b.rs"]),
    ("Cargo.toml", CARGO, CARGO + '[[bin]]\nname = "cargo-nextest"\n', ["installed command cargo-nextest"]),
    (".cargo/config.toml", "", '[source.crates-io]\nreplace-with = "e"\n', ["package index source.crates-io.replace-with"]),
    ("go.mod", "module x\n", "module x\n\nreplace a => evil.example/a v1\n", ["override replace a: => evil.example/a v1"]),
    (
        "go.mod",
        "module x\n",
        "module x\nrequire (\n\ta v1 // indirect\n)\ntoolchain go1.99\n",
        ["1 added (a v1)", "toolchain: go1.99"],
    ),
    ("go.sum", "", "a v1 h1:x\na v1/go.mod h1:x\n", ["1 added (a@v1 v1)"]),
    ("Gemfile", "", f'gem "a", git: "{GIT}"\n', ["package a from git"]),
    ("Gemfile", "", 'source "https://evil.example"\n', ["package index source"]),
    ("Gemfile.lock", "", f"GIT\n  remote: {GIT}\n  specs:\n    a (1.0)\n", ["package a from git"]),
    (
        "composer.json",
        "{}",
        '{"repositories": [{"type": "vcs", "url": "https://evil.example"}]}',
        ["package index repositories.0"],
    ),
    ("composer.json", "{}", '{"scripts": {"post-install-cmd": "php x"}}', ["scripts.post-install-cmd: php x"]),
    ("composer.json", "{}", '{"autoload": {"files": ["stub.php"]}}', ["importers get autoload.files: stub.php"]),
    (
        "pom.xml",
        "",
        "<repository><id>e</id><url>https://evil.example</url></repository>",
        ["index repository https://evil.example"],
    ),
    (
        "pom.xml",
        "",
        "<dependency><groupId>g</groupId><artifactId>a</artifactId><version>1</version></dependency>",
        ["1 added (g:a 1)"],
    ),
    (
        "build.gradle",
        "",
        "repositories { maven { url 'https://evil.example' } }\nimplementation 'g:a:1'\n",
        ["package index", "1 added (g:a 1)"],
    ),
    (
        "gradle/wrapper/gradle-wrapper.properties",
        "",
        "distributionUrl=https://evil.example\n",
        ["package index distributionUrl"],
    ),
    ("gradle/libs.versions.toml", "", '[libraries]\na = { module = "g:a", version = "1" }\n', ["1 added (libraries.a g:a 1)"]),
    ("a.csproj", "", '<PackageReference Include="A" Version="1" />\n<Exec Command="x" />', ["1 added", "Exec Command"]),
    ("nuget.config", "", '<add key="e" value="https://evil.example" />', ["package index <add"]),
    ("packages.lock.json", "{}", '{"dependencies": {"net8.0": {"A": {"resolved": "1"}}}}', ["1 added (A 1)"]),
    (
        "Package.resolved",
        "{}",
        '{"pins": [{"identity": "a", "location": "https://evil.example", "state": {"version": "1"}}]}',
        ["from git https://evil"],
    ),
    ("pubspec.yaml", "", "dependencies:\n  a:\n    git: https://evil.example\n", ["package a from git https://evil.example"]),
    ("pubspec.yaml", "", "dependency_overrides:\n  a: 1\n", ["override a: 1"]),
    (
        "flake.lock",
        "{}",
        '{"nodes": {"a": {"locked": {"type": "git", "url": "https://evil.example", "rev": "1"}}}}',
        ["package a from git https://evil"],
    ),
    ("vcpkg.json", "{}", '{"overrides": [{"name": "a", "version": "1"}]}', ["override a"]),
    ("environment.yml", "", "channels:\n  - evil\ndependencies:\n  - a=1\n", ["package index channel evil", "1 added"]),
    ("new/package.json", None, npm(), ["1 added (left-pad 1.0.0)"]),
    ("flake.nix", "", "{ }", ["no reader knows this kind of file"]),
]


@pytest.mark.parametrize(("path", "old", "new", "parts"), CHANGES)
def test_kind_of_a_dependency_change(path: str, old: str | None, new: str, parts: list[str]) -> None:
    lines = list(dependency_changes(path.encode(), None if old is None else old.encode(), new.encode()))
    for part in parts:
        assert any(part in line for line in lines), lines


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("package.json", npm(), npm(version="1.0.1", description="words")),
        ("package.json", npm(), npm(scripts={"test": "jest"})),
        ("pyproject.toml", PYPROJECT, PYPROJECT + "[tool.ruff]\nline-length = 100\n"),
        ("requirements.txt", "a==1\n", "# words\na==1\n"),
        ("Cargo.toml", CARGO, CARGO + "[profile.release]\nlto = true\n"),
        ("uv.lock", "version = 1\n", "version = 2\n"),
    ],
)
def test_a_change_of_no_dependency_reports_nothing(path: str, old: str, new: str) -> None:
    assert list(dependency_changes(path.encode(), old.encode(), new.encode())) == []


def test_registry_that_the_file_uses_already_is_usual() -> None:
    packages = {"a": {"version": "1", "resolved": "https://npm.corp.example/a.tgz"}}
    more = {**packages, "b": {"version": "1", "resolved": "https://npm.corp.example/b.tgz"}}
    assert list(dependency_changes(b"package-lock.json", lock(**packages).encode(), lock(**more).encode())) == [
        "Packages: 1 added (b 1)."
    ]


def test_commands_that_a_manifest_installs_anew() -> None:
    scripts = PYPROJECT + '[project.scripts]\npytest = "x:main"\n'
    assert changed_programs(b"pyproject.toml", PYPROJECT.encode(), scripts.encode()) == {"pytest"}
    assert changed_programs(b"pyproject.toml", scripts.encode(), scripts.encode()) == set()
    assert changed_programs(b"package.json", npm().encode(), npm(bin="x.js").encode()) == {"x"}
