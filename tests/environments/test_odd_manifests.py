"""Whatever a stranger's manifest, lock file or image holds, ``--env auto`` prepares an environment or says why it does not."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.go_install import go_plans
from gatewright.app.environments.image_unpacking import _unpack, unpack_image
from gatewright.app.environments.interpreters import allows
from gatewright.app.environments.node_recipe import PUBLIC_HOSTS, lock_folders, node_recipe, unlocked_folders
from gatewright.app.environments.plan import Installer
from gatewright.app.environments.project_record import project_record, write_project_record
from gatewright.app.environments.python_recipe import python_recipe
from gatewright.app.environments.registries import node_registries
from gatewright.app.environments.rust_install import rust_plans
from gatewright.app.environments.version_files import version_after, version_files
from gatewright.ecosystems.port import TreeFiles
from gatewright.sandbox.environments import PREPARED, read_record
from gatewright.sandbox.images import IMAGE_RECORD, read_image_record
from tests.ecosystems.python.trees import BytesTree
from tests.odd_values import NO_DOCUMENTS, Message, few_or_all, odd_bytes, odd_lines
from tests.toml_writer import odd_toml, write_toml

PROJECT: Message = {
    "project": {
        "name": "one",
        "version": "1.0",
        "requires-python": ">=3.9,<4",
        "dependencies": ["a>=1", "one[test]"],
        "optional-dependencies": {"test": ["b"]},
        "scripts": {"one": "one:main"},
        "entry-points": {"pytest11": {"one": "one.plugin"}},
    },
    "dependency-groups": {"dev": ["c", {"include-group": "test"}], "test": ["d"]},
    "build-system": {"requires": ["setuptools"]},
    "tool": {
        "poetry": {"name": "one", "scripts": {"x": "y:z"}, "plugins": {"p": {"q": "r"}}},
        "setuptools_scm": {"version_file": "one/_version.py"},
        "setuptools": {"dynamic": {"version": {"attr": "one.version"}}},
        "hatch": {"version": {"path": "one/__init__.py"}, "build": {"hooks": {"vcs": {"version-file": "one/_v.py"}}}},
        "pdm": {"version": {"write_to": "one/_v.py"}},
    },
}
POETRY: Message = {
    "package": [
        {
            "name": "a",
            "version": "1.0",
            "optional": False,
            "markers": "python_version > '3'",
            "files": [{"file": "a.whl", "hash": "sha256:00"}],
            "source": {"type": "legacy", "url": "https://pypi.example"},
        }
    ]
}
NPM: Message = {
    "name": "one",
    "lockfileVersion": 3,
    "packages": {
        "": {"name": "one", "dependencies": {"a": "1"}},
        "node_modules/a": {"version": "1.0.0", "resolved": "https://registry.example/a.tgz", "integrity": "sha512-x"},
        "node_modules/b": {"resolved": "packages/one", "link": True},
        "node_modules/a/node_modules/c": {"inBundle": True, "version": "npm:x@1"},
        "packages/one": {"name": "b"},
    },
}
NPM_6: Message = {
    "dependencies": {
        "a": {
            "version": "1",
            "resolved": "https://registry.example/a",
            "integrity": "sha512-x",
            "dependencies": {"b": {"version": "1", "bundled": True}},
        }
    }
}
PACKAGE: Message = {
    "name": "one",
    "workspaces": ["packages/*"],
    "dependencies": {"a": "^1", "b": "file:packages/one", "c": "npm:x@1", "d": "workspace:*"},
    "devDependencies": {"e": "latest"},
    "overrides": {"a": {"b": "1", ".": "2"}},
}
CARGO: Message = {
    "package": {"name": "one", "version": "0.1.0"},
    "dependencies": {"a": "1", "b": {"version": "1", "path": "b"}},
    "target": {"x": {"dependencies": {"c": {"version": "1"}}}},
    "workspace": {"dependencies": {"d": "1"}},
    "patch": {"crates-io": {"a": {"path": "a"}}},
}
CARGO_LOCK: Message = {
    "version": 3,
    "package": [
        {"name": "a", "version": "1", "source": "registry+https://github.com/rust-lang/crates.io-index", "checksum": "0"}
    ],
    "metadata": {"x": "y"},
}
NOTHING_INSTALLED = Installer({"PATH": "/nowhere"})

Odd = Callable[[tuple[object, ...]], Iterator[bytes]]
FILES: Mapping[str, bytes] = {
    "one/__init__.py": b"__version__ = '1'\n",
    "packages/one/package.json": b'{"name": "b"}',
    "src/lib.rs": b"",
}
#: The odd file, and files that are there beside it.
CASES: Mapping[str, tuple[str, Odd, Mapping[str, bytes]]] = {
    "pyproject.toml": ("pyproject.toml", lambda values: odd_toml(PROJECT, values), {}),
    "poetry.lock": ("poetry.lock", lambda values: odd_toml(POETRY, values), {"pyproject.toml": write_toml(PROJECT).encode()}),
    "uv.lock": ("uv.lock", lambda values: odd_toml(POETRY, values), {"pyproject.toml": write_toml(PROJECT).encode()}),
    "requirements.txt": (
        "requirements.txt",
        lambda values: odd_lines(b"a>=1\n-r x.txt\n-e .\n--index-url x\nb ; x\nc --hash=sha256:00\n", values),
        {"x.txt": b"-r requirements.txt\n"},
    ),
    "setup.cfg": (
        "setup.cfg",
        lambda values: odd_lines(b"[options]\ninstall_requires =\n  a\n[options.extras_require]\ntest = b\n", values),
        {},
    ),
    "package-lock.json": ("package-lock.json", lambda values: odd_bytes(NPM, values), {"package.json": b'{"name": "one"}'}),
    "package-lock of npm 6": ("package-lock.json", lambda values: odd_bytes(NPM_6, values), {"package.json": b"{}"}),
    "package.json": ("package.json", lambda values: odd_bytes(PACKAGE, values), {}),
    "package.json with a lock": (
        "package.json",
        lambda values: odd_bytes(PACKAGE, values),
        {"pnpm-lock.yaml": b"lockfileVersion: 9\n"},
    ),
    "pnpm-lock.yaml": (
        "pnpm-lock.yaml",
        lambda values: odd_lines(b"lockfileVersion: 9\npackages:\n  a@1:\n    resolution: {integrity: x}\n", values),
        {"package.json": b"{}", "pnpm-workspace.yaml": b"packages:\n  - packages/*\n"},
    ),
    "yarn.lock": (
        "yarn.lock",
        lambda values: odd_lines(b'a@1:\n  version "1"\n  resolved "https://registry.example/a#00"\n  integrity x\n', values),
        {"package.json": b"{}"},
    ),
    "Cargo.toml": ("Cargo.toml", lambda values: odd_toml(CARGO, values), {}),
    "Cargo.lock": ("Cargo.lock", lambda values: odd_toml(CARGO_LOCK, values), {"Cargo.toml": write_toml(CARGO).encode()}),
    ".cargo/config.toml": (
        ".cargo/config.toml",
        lambda values: odd_toml({"source": {"crates-io": {"replace-with": "x"}}}, values),
        {"Cargo.toml": write_toml(CARGO).encode()},
    ),
    "go.sum": ("go.sum", lambda values: odd_lines(b"a v1 h1:x\n", values), {"go.mod": b"module x\n"}),
}


async def ask_everything(tree: TreeFiles, prefix: Path) -> list[str]:
    """Every reader of the package, each by itself; the refusals."""
    refused: list[str] = []

    async def record() -> None:
        found = await project_record(tree)
        if found is not None:
            write_project_record(prefix, found)

    async def node() -> None:
        for folder in (*lock_folders(tree), *await unlocked_folders(tree, ())):
            recipe = await node_recipe(tree, folder)
            assert recipe.sources

    async def python() -> None:
        recipe = await python_recipe(tree, ("python setup.py build", "pytest"))
        allows(recipe.requires_python, (3, 11))

    async def rust() -> None:
        await rust_plans(tree, ("cargo test",), NOTHING_INSTALLED)

    async def go() -> None:
        await go_plans(tree, ("go test",), NOTHING_INSTALLED)

    async def versions() -> None:
        await version_files(tree)

    for ask in (record, node, python, rust, go, versions):
        try:
            await ask()
        except NotPreparedError as error:
            refused.append(error.message)
    return refused


@few_or_all
@pytest.mark.parametrize("case", CASES)
async def test_a_file_of_any_shape_is_no_defect(case: str, values: tuple[object, ...], tmp_path: Path) -> None:
    path, odd, beside = CASES[case]
    (tmp_path / "lib/python3.11/site-packages").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    defects = {}
    for content in odd(values):
        try:
            refused = await ask_everything(BytesTree({**FILES, **beside, path: content}), tmp_path)
        except Exception as error:  # noqa: BLE001 - each kind is a defect, and all are listed
            defects[repr(error)[:200]] = content[:200]
            continue
        assert all(refused)
    assert defects == {}


async def test_groups_that_include_each_other_end() -> None:
    groups = {f"g{number}": [{"include-group": f"g{number + 1}"}] for number in range(2_000)}
    text = write_toml({"dependency-groups": {"dev": [{"include-group": "g0"}], **groups}})
    recipe = await python_recipe(BytesTree({"pyproject.toml": text.encode()}), ())
    assert recipe.lines == ()


async def test_groups_do_not_multiply_each_other() -> None:
    groups = {f"g{number}": [{"include-group": f"g{number + 1}"}] * 100 for number in range(3)}
    text = write_toml({"dependency-groups": {"dev": [{"include-group": "g0"}], **groups, "g3": ["a"]}})
    recipe = await python_recipe(BytesTree({"pyproject.toml": text.encode()}), ())
    assert recipe.lines == ("a",)


@pytest.mark.parametrize(
    "described", ["", "v" + "9" * 5_000 + "-0-g00", "v1-" + "9" * 5_000 + "-g00", "\ud800", "v1.2-3-gffff"]
)
def test_a_tag_of_any_shape_gives_a_version(described: str) -> None:
    assert version_after(described)


RECORD: Message = {
    "tool": "pip 24",
    "sources": {"requirements.txt": "00"},
    "installs": "newest",
    "ecosystem": "python",
    "mounts": {"node_modules": "files/node_modules"},
    "results": {"x": "00"},
}
IMAGE: Message = {"image": "x@sha256:00", "id": "sha256:00", "engine": "docker", "variables": {"A": "b"}, "files_sha256": "00"}


@few_or_all
def test_a_record_of_any_shape_is_read_or_none(values: tuple[object, ...], tmp_path: Path) -> None:
    for name, document, read in ((PREPARED, RECORD, read_record), (IMAGE_RECORD, IMAGE, read_image_record)):
        for content in odd_bytes(document, values):
            (tmp_path / name).write_bytes(content)
            found = read(tmp_path)
            assert found is None or type(found).__name__ in {"PreparedEnvironment", "UnpackedImage"}


@pytest.mark.parametrize(
    "said", [*NO_DOCUMENTS, b'{"registry": 5}', b'{"registry": "http://["}', b'{"a:registry": "x"}', b"x{}y"]
)
async def test_settings_of_npm_of_any_shape_name_no_other_registry(said: bytes, tmp_path: Path) -> None:
    (tmp_path / "said").write_bytes(said)
    program = tmp_path / "npm"
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/said\n")
    program.chmod(0o755)
    with contextlib.suppress(NotPreparedError):
        found = await node_registries(str(program), tmp_path, Installer({"HOME": str(tmp_path)}))
        assert found.hosts == {PUBLIC_HOSTS[0]}


ID = "sha256:" + "0" * 64
PINNED = f"tools@{ID}"
INSPECTION: Message = {"Id": ID, "RepoDigests": [PINNED], "Config": {"Env": ["A=b", "PATH=/bin"]}}


def engine(folder: Path, inspection: bytes, archive: bytes) -> str:
    """A program that speaks as docker does, for an image with these files."""
    (folder / "inspection").write_bytes(inspection)
    (folder / "archive").write_bytes(archive)
    program = folder / "docker"
    program.write_text(
        "#!/bin/sh\n"
        f"case $1 in image) cat {shlex.quote(str(folder / 'inspection'))};;\n"
        f'export) cp {shlex.quote(str(folder / "archive"))} "$3";;\nesac\n'
    )
    program.chmod(0o755)
    return str(program)


def odd_archives() -> Iterator[bytes]:
    """Archives that are cut, lie about sizes and numbers, or hold names and links of every kind."""
    names = ("a", "", "/", ".", "..", "../x", "a/../../x", "x" * 5_000, "\udc80", "a\nb", "a/" * 1_500 + "b")
    for kind in (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, b"?"):
        for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
            for name in names:
                data = io.BytesIO()
                with tarfile.open(fileobj=data, mode="w", format=form) as tar:
                    member = tarfile.TarInfo(name)
                    member.type, member.linkname = kind, name
                    tar.addfile(member)
                    tar.addfile(member)
                yield data.getvalue()
    for headers in ({"path": "a\0b"}, {"linkpath": "a\0b"}, {"path": "", "size": "x"}, {"mtime": "nan"}, {"uid": "9" * 5_000}):
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT, pax_headers=headers) as tar:
            tar.addfile(tarfile.TarInfo("a"))
        yield data.getvalue()
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as tar:
            member = tarfile.TarInfo("a")
            member.type, member.pax_headers = tarfile.SYMTYPE, headers
            tar.addfile(member)
        yield data.getvalue()
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("a")
        member.size, member.pax_headers = 5, {"comment": "x", "mtime": "1.5"}
        tar.addfile(member, io.BytesIO(b"hello"))
    good = whole.getvalue()
    yield from (b"", b"\0" * 10_240, good[:100], good[:600], good[:1_600], b"x" * 2_000)
    for record in (
        b"99999999999999999999 a=b\n",
        b"-1 a=b\n",
        b"x\n",
        b"20 size=\xff\xff\xff\n",
        b"13 size=-100\n",
        b"13 size=1e99\n",
    ):
        at = good.index(b"comment=x") - 3
        yield good[:at] + record + good[at + len(record) :]
    for at in (100, 108, 116, 124, 136, 148, 156, 257):
        for odd in (b"\xff" * 8, b"\x80" + b"\xff" * 7, b"99999999", b"-0000001", b"\0" * 8):
            yield good[:at] + odd + good[at + 8 :]


async def unpack(folder: Path, inspection: bytes, archive: bytes) -> None:
    await unpack_image(folder / "home", PINNED, engine(folder, inspection, archive), {"PATH": "/usr/bin:/bin"})


async def test_an_archive_of_any_shape_is_refused_by_name(tmp_path: Path) -> None:
    for archive in odd_archives():
        with pytest.raises(NotPreparedError):
            await unpack(tmp_path, json.dumps(INSPECTION).encode(), archive)


def test_a_link_that_cannot_be_made_brings_nothing_else(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "archive", mode="w", format=tarfile.PAX_FORMAT) as tar:
        program = tarfile.TarInfo("program")
        program.mode = 0o4755
        tar.addfile(program)
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "./" * 2_500 + "program"
        tar.addfile(link)
    with pytest.raises(NotPreparedError):
        _unpack(tmp_path / "archive", tmp_path / "root")
    assert not (tmp_path / "root" / "link").exists()


@few_or_all
async def test_an_answer_of_an_engine_of_any_shape_is_refused(values: tuple[object, ...], tmp_path: Path) -> None:
    for inspection in odd_bytes(INSPECTION, values):
        with pytest.raises(NotPreparedError):
            await unpack(tmp_path, inspection, b"")
